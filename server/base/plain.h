/* SPDX-License-Identifier: Apache-2.0 */
/* plain.h - what others wrote, on its way to a terminal: no text of theirs may command it.
 *
 * A character that a terminal may obey (C0, DEL, C1), or that turns the line (U+061C, U+200E, U+200F, U+2028 to U+202E,
 * U+2066 to U+2069), is a command. Pure.
 */
#ifndef KS_BASE_PLAIN_H
#define KS_BASE_PLAIN_H

#include "base/bytes.h"

enum { KS_PLAIN_SIZE = 8 };

/* True for a character, well-formed as ks_view_character() says, that is a command; gives its code point then. */
bool ks_plain_is_command(ks_view character, uint32_t *ret_code);

/* Takes the next character of `rest`, which is not empty, and writes it as it is shown: itself, "\u001b" for a command,
 * "\xff" for a byte that is no UTF-8. So JSON stays the JSON that it was. The size, without the NUL. */
size_t ks_plain_next(ks_view *rest, char ret_shown[KS_PLAIN_SIZE]);

#endif
