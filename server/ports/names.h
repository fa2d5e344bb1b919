/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - names to small numbers and back: shard ids and worker ids, as the core never sees text.
 *
 * A number stands for one name as long as the name is in use; a name that nobody touched for long is swept and its
 * number given out again, so that a process that runs for months does not run out of numbers for workers that are long
 * dead and shards that are long gone. Whoever may keep a number for longer than a name is in use keeps a handle: the
 * number and which of its lives it was given in, so that it never means what the number stands for later. All memory is
 * taken at start; only what is used is ever written. Loop thread only.
 */
#ifndef KS_PORTS_NAMES_H
#define KS_PORTS_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/instant.h"
#include "base/map.h"

struct ks_name {
    ks_instant touched;
    uint16_t size; /* Characters; 0 = the number is free. */
    uint16_t life; /* How often the number was freed, mod 2^16. */
};

enum { KS_NAMES_HANDLED_MAX = UINT16_MAX }; /* Numbers below this have handles. */
/* No number and no handle. */
#define KS_NAMES_NONE UINT32_MAX

struct ks_names {
    struct ks_map map;
    struct ks_name *entries; /* By number. */
    char *texts;             /* By number: `stride` bytes each, NUL-terminated. */
    size_t stride;
    uint32_t first; /* Numbers are first .. end - 1. */
    uint32_t end;
    uint32_t fresh; /* From here on never used. */
    uint32_t spare; /* Swept numbers below `fresh`. */
};

/* Room for the numbers first .. end - 1 and names of at most `text_max` characters. NO_MEMORY: nothing to free. The
 * struct stays where it is until ks_names_free. */
KS_MUST_USE ks_err ks_names_init(struct ks_names *names, uint32_t first, uint32_t end,
                                 size_t text_max);
void ks_names_free(struct ks_names *names);

/* The number of `text`, a new one if need be; touches it. FULL if there is no free number, INVALID for a text that is
 * empty, too long or holds a NUL. */
KS_MUST_USE ks_err ks_names_add(struct ks_names *names, ks_view text, ks_instant now,
                                uint32_t *ret_number);
bool ks_names_find(const struct ks_names *names, ks_view text, uint32_t *ret_number);
/* The name, "" for a number that has none. Stays where it is. */
const char *ks_names_text(const struct ks_names *names, uint32_t number);
/* The handle of a number below KS_NAMES_HANDLED_MAX that stands for a name, and back: NONE for a number that has none,
 * and for a handle of an earlier life. A number that was never freed is its own handle. After 2^16 lives they come
 * again: of shards, which are freed an hour after they were used last, in 7 years. */
uint32_t ks_names_handle(const struct ks_names *names, uint32_t number);
uint32_t ks_names_number(const struct ks_names *names, uint32_t handle);
/* True if one more name has a number. */
bool ks_names_room(const struct ks_names *names);
/* Says that the name is in use. Does nothing for a number that has none. */
void ks_names_touch(struct ks_names *names, uint32_t number, ks_instant now);
/* Frees every name that was touched before `before`, telling `freed` of each. */
void ks_names_sweep(struct ks_names *names, ks_instant before,
                    void (*freed)(void *arg, uint32_t number), void *arg);

#endif
