/* SPDX-License-Identifier: Apache-2.0 */
/* flat_json.h - reads one flat JSON object (RFC 8259): names with texts, numbers, booleans, or lists of flat objects
 * that hold no more lists, for the config file.
 *
 * Strict: UTF-8, no comments, no trailing comma, nothing else nested, no null, nothing after the object. Bounded: names
 * and texts of at most KS_FLAT_JSON_TEXT_MAX bytes after their escapes; \u0000 is refused. No memory of its own.
 */
#ifndef KS_BASE_FLAT_JSON_H
#define KS_BASE_FLAT_JSON_H

#include "base/bytes.h"

enum { KS_FLAT_JSON_TEXT_MAX = 1023 };

enum ks_flat_json_kind {
    KS_FLAT_JSON_TEXT,
    KS_FLAT_JSON_NUMBER,
    KS_FLAT_JSON_BOOLEAN,
    KS_FLAT_JSON_LIST,   /* The list of this name begins. */
    KS_FLAT_JSON_OBJECT, /* An object of it begins: the members that follow are its own. */
    KS_FLAT_JSON_END     /* The list of this name is over. */
};

/* Calls `member` for each member in order: a text without its escapes, a number as it is written, true or false, or ""
 * for what is no value. The strings end with a NUL and are valid during the call. What `member` returns other than
 * KS_OK ends the reading and is returned. MALFORMED: `detail` says what was found wrong and in which line. The same
 * name may come twice. */
KS_MUST_USE ks_err ks_flat_json_read(ks_view json,
                                     ks_err (*member)(void *arg, const char *name,
                                                      enum ks_flat_json_kind kind,
                                                      const char *value),
                                     void *arg, struct ks_detail *detail);

#endif
