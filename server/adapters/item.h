/* SPDX-License-Identifier: Apache-2.0 */
/* item.h - a row of a lease table between a dialect and a store: named, typed values, and conditional writes of them.
 *
 * A dialect (adapters/dialects) says what a row means, a store (adapters/dynamodb, adapters/sqlite) says how it is
 * performed; this is what passes between them. The model is that of DynamoDB's items, as far as lease tables use it
 * (S, N, SS, BOOL, L of S, M of L of N, NULL; condition and update expressions of the DynamoDB developer guide), with
 * keys `p` and `k`.
 * Pure values: no I/O, usable on any thread.
 */
#ifndef KS_ADAPTERS_ITEM_H
#define KS_ADAPTERS_ITEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "core/limits.h"

enum {
    KS_ITEM_KEY_MAX =
        KS_LEASE_KEY_MAX,        /* Characters of `k`: a worker id, a shard id, a key of the KCL. */
    KS_ITEM_ATTRIBUTES_MAX = 40, /* Attributes that one dialect knows. */
    KS_ITEM_CONDITIONS_MAX = 5,  /* Of one write: PROTOCOL A5 needs four. */
    KS_ITEM_UPDATES_MAX = 16,    /* Of one write: a registration needs eleven. */
    KS_ITEM_KEYS_MAX = 3,        /* Rows that one read names: the news are three. */
    KS_ITEM_BYTES_MAX = 400 << 10 /* An item of DynamoDB; SQLite is held to the same. */
};

enum ks_value_type {
    KS_VALUE_TEXT = 1, /* S: UTF-8. */
    KS_VALUE_NUMBER,   /* N: decimal digits, with or without a minus. */
    KS_VALUE_SET, /* SS: members joined by '\n'; never empty, no member is empty or holds a '\n'. */
    KS_VALUE_BOOL, /* BOOL: "true" or "false". */
    /* L of S, in their order: members as in a SET, but an empty list is one. An SS is read as one, too. */
    KS_VALUE_LIST,
    KS_VALUE_SERIES /* M of L of N: "NAME NUMBER NUMBER" for each member, joined by '\n'; or empty. */
};

struct ks_value {
    enum ks_value_type type;
    ks_view text;
};

/* An attribute that a dialect knows: the rest of a row is not its business and is left alone. */
struct ks_attribute {
    const char *name;
    enum ks_value_type type;
};

struct ks_schema {
    const struct ks_attribute *attributes;
    uint32_t count;  /* At most KS_ITEM_ATTRIBUTES_MAX. */
    const char *key; /* The one attribute that is the key, `k` here; NULL: `p` and `k`. */
    bool nullable;   /* An attribute that is NULL counts as absent. */
};

/* --- Reading --- */

enum ks_presence {
    KS_ABSENT,
    KS_PRESENT,
    KS_STRANGE /* There, but not of the type that the schema names. */
};

/* A row as read; values stand in the order of the schema. The texts belong to whoever filled it. */
struct ks_item {
    const struct ks_schema *schema;
    ks_view p;
    ks_view k;
    enum ks_presence presence[KS_ITEM_ATTRIBUTES_MAX];
    ks_view texts[KS_ITEM_ATTRIBUTES_MAX];
    uint32_t *
        asked; /* Where the attribute that was asked for last is kept: it is to blame if the row cannot be read.
                        NULL: nobody wants to know. */
};

/* Empty: every attribute absent. */
void ks_item_init(struct ks_item *item, const struct ks_schema *schema);
/* The index of `name` in the schema, or schema->count. */
uint32_t ks_schema_find(const struct ks_schema *schema, ks_view name);

/* MALFORMED if an attribute that the schema names is strange; it counts as asked for. */
KS_MUST_USE ks_err ks_item_types(const struct ks_item *item);
/* One attribute, by its index. NOT_FOUND if it is absent, MALFORMED if it is strange or not in the form asked for.
 * Number: 0 .. INT64_MAX; signed: INT64_MIN .. INT64_MAX. */
KS_MUST_USE ks_err ks_item_text(const struct ks_item *item, uint32_t index, ks_view *ret_text);
KS_MUST_USE ks_err ks_item_number(const struct ks_item *item, uint32_t index, uint64_t *ret_number);
KS_MUST_USE ks_err ks_item_signed(const struct ks_item *item, uint32_t index, int64_t *ret_number);
KS_MUST_USE ks_err ks_item_flag(const struct ks_item *item, uint32_t index, bool *ret_flag);

/* The rows of a partition that a read asks for, by `k`. */
struct ks_item_keys {
    char texts[KS_ITEM_KEYS_MAX][KS_ITEM_KEY_MAX + 1];
    uint32_t count; /* 0: the whole partition. */
};

/* Adds a key that is not there yet. INVALID if it is empty, longer than KS_ITEM_KEY_MAX or holds a NUL; FULL. */
KS_MUST_USE ks_err ks_item_keys_add(struct ks_item_keys *keys, ks_view key);

/* --- Writing --- */

enum ks_condition_kind {
    KS_IF_EQUALS = 1,       /* There, and equal in type and text. */
    KS_IF_EQUALS_OR_ABSENT, /* Absent counts as equal. */
    KS_IF_EXISTS,
    KS_IF_ABSENT, /* Of `p`: there is no row. */
    KS_IF_IN,     /* The text is a member of the set. */
    KS_IF_ABSENT_OR_NULL
};

struct ks_condition {
    enum ks_condition_kind kind;
    const char *name;
    struct ks_value value; /* EQUALS, EQUALS_OR_ABSENT: what; IN: the set of texts. */
};

enum ks_update_kind {
    KS_DO_SET = 1,
    KS_DO_REMOVE,
    KS_DO_ADD,   /* Number: absent counts as 0. Set: members that are not there yet. */
    KS_DO_DELETE /* Set: these members; the last one takes the attribute with it. */
};

struct ks_update {
    enum ks_update_kind kind;
    const char *name;
    struct ks_value value; /* Not for REMOVE. */
};

/* One conditional write of one row: all conditions hold and all updates are done, or nothing is. */
struct ks_item_write {
    const char *p;   /* A literal. */
    const char *key; /* As in the schema: then there is no p. */
    char k[KS_ITEM_KEY_MAX + 1];
    struct ks_condition conditions[KS_ITEM_CONDITIONS_MAX];
    uint32_t condition_count;
    struct ks_update updates[KS_ITEM_UPDATES_MAX];
    uint32_t update_count;
    bool delete_row;       /* Instead of updates. */
    bool unconditional;    /* Nobody else writes this row: it needs no conditions. */
    struct ks_bytes texts; /* What the values point into: reserved once, so that it never moves. */
};

/* Begins a write without conditions and updates; its values may take `text_bytes` in all. `p` is a literal. NO_MEMORY;
 * INVALID if `k` is empty or longer than KS_ITEM_KEY_MAX. */
KS_MUST_USE ks_err ks_item_write_init(struct ks_item_write *write, const char *p, const char *k,
                                      size_t text_bytes);
void ks_item_write_free(struct ks_item_write *write);

/* Copies `view` to where the write keeps its texts. FULL beyond the text_bytes of init. */
KS_MUST_USE ks_err ks_item_write_keep(struct ks_item_write *write, ks_view view, ks_view *ret_kept);
/* Adds a condition or an update; names and texts are not copied: literals, or kept. */
void ks_item_write_if(struct ks_item_write *write, enum ks_condition_kind kind, const char *name,
                      struct ks_value value);
void ks_item_write_do(struct ks_item_write *write, enum ks_update_kind kind, const char *name,
                      struct ks_value value);

/* The row that the write makes where there is none, as it will be read: its texts point into the write. Of a write that
 * deletes nothing and whose updates are SET and REMOVE. */
void ks_item_written(const struct ks_item_write *write, const struct ks_schema *schema,
                     struct ks_item *ret_item);

/* True if all its conditions hold where there is no row, so that it makes one (as UpdateItem does). */
bool ks_item_write_may_create(const struct ks_item_write *write);

/* --- Sets --- */

/* Members joined by '\n'. Appends to `ret_set`: `set` with the members of `members` that it lacks, or without those
 * that it has. `set` may be empty. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_set_with(ks_view set, ks_view members, struct ks_bytes *ret_set);
KS_MUST_USE ks_err ks_set_without(ks_view set, ks_view members, struct ks_bytes *ret_set);
/* Appends one member; MALFORMED if it is empty or holds a '\n', and as above. */
KS_MUST_USE ks_err ks_set_append(struct ks_bytes *set, ks_view member);
bool ks_set_has(ks_view set, ks_view member);

#endif
