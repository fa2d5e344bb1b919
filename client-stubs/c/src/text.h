/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - text that the sidecar takes. */
#ifndef KS_TEXT_H
#define KS_TEXT_H

/* Copies a text: its first 1000 bytes, not cut within a character, with '?' for each byte that
 * is not UTF-8 (RFC 3629). free() frees it. NULL: the text is NULL, or there is no memory. */
char *ks_text_clean(const char *text);

#endif
