/* SPDX-License-Identifier: Apache-2.0 */
/* pattern_case.h - upper and lower case of a character, for equals-ignore-case.
 *
 * Unicode 14, independent of the locale, one character to one character: the sharp s (U+00DF) has no upper case here,
 * because it would be two letters.
 */
#ifndef KS_BASE_PATTERN_CASE_H
#define KS_BASE_PATTERN_CASE_H

#include <stdint.h>

/* Return the character of the other case, or `point` itself; any number may be given. */
int32_t ks_pattern_lower(int32_t point);
int32_t ks_pattern_upper(int32_t point);

#endif
