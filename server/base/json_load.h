/* SPDX-License-Identifier: Apache-2.0 */
/* json_load.h - jansson's parser, and its memory.
 *
 * jansson 2.14 does not look whether a character of a string could be kept (lex_save in its load.c): without memory it
 * reads on beyond what it has. So an allocation that fails never comes back to it: what this parsing took is freed, and
 * whoever asked is told. Everything that jansson takes is ks_alloc's. Loop thread only.
 */
#ifndef KS_BASE_JSON_LOAD_H
#define KS_BASE_JSON_LOAD_H

#include <jansson.h>

#include "base/bytes.h"

/* Parses all of `text` with the flags of json_loadb; the caller ends it with json_decref. MALFORMED: `ret_error` says
 * what and where; NO_MEMORY. */
KS_MUST_USE ks_err ks_json_load(ks_view text, size_t flags, json_t **ret_value,
                                json_error_t *ret_error);

#endif
