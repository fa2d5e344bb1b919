/* SPDX-License-Identifier: Apache-2.0 */
/* dialect.h - the format of a lease table: what a store needs to know of it.
 *
 * Translation only: a request of the port becomes what a read asks for, or one conditional write; an item becomes a row
 * of the port. The manners of a fleet are in core/fleet. Pure; usable on any thread, one at a time for each value.
 */
#ifndef KS_ADAPTERS_DIALECTS_DIALECT_H
#define KS_ADAPTERS_DIALECTS_DIALECT_H

#include "adapters/dialects/native.h"
#include "adapters/item.h"
#include "ports/lease_store.h"

/* What the rev of a lease row is. */
enum ks_rev_kind {
    KS_REV_COUNTER, /* It moves with writes. */
    KS_REV_UNTIL,   /* ns since 1970: until when its owner has the lease. */
    KS_REV_WRITTEN  /* ns since 1970: when it was written; so are the beats of its workers. */
};

enum { KS_DIALECT_TABLES_MAX = 3 };

/* One of the tables of a dialect. */
struct ks_dialect_table {
    const char *suffix; /* Of its name, behind the application's; "" for none. */
    const struct ks_schema *schema;
    bool optional; /* Not made by us; while it is not there, it has no rows. */
};

struct ks_dialect {
    const char *name;                                      /* As --dialect says it. */
    struct ks_dialect_table tables[KS_DIALECT_TABLES_MAX]; /* The first one has the leases. */
    uint32_t table_count;
    enum ks_rev_kind rev;
    bool has_workers; /* READ_FLEET is understood. */
    /* Its members know sequence numbers alone: a place inside an aggregate, or a start that was never read from,
     * stands beside their words, for us. */
    bool keeps_apart;
    const char *index;     /* Of the first table, by its owners: READ_OWNED. NULL: there is none. */
    const char *index_key; /* Its hash key. */
    /* Which of them an operation reads or writes, unless it says `together`: the first one then; NULL: there is but
     * one. */
    uint32_t (*table)(enum ks_store_operation operation);
    /* As ks_native_read, ks_native_write and ks_native_rows_add. */
    ks_err (*read)(const struct ks_store_request *request, const char **ret_partition,
                   struct ks_item_keys *ret_keys);
    ks_err (*write)(const struct ks_store_request *request, struct ks_item_write *ret_write,
                    struct ks_detail *ret_detail);
    /* item->schema is that of its table. */
    ks_err (*add)(struct ks_native_rows *rows, const struct ks_item *item,
                  struct ks_detail *ret_detail);
};

/* The dialect of this name that is spoken here; NULL: none. And all of them, one by one; NULL behind the last. */
const struct ks_dialect *ks_dialect_find(const char *name);
const struct ks_dialect *ks_dialect_at(uint32_t index);

extern const struct ks_dialect ks_native_dialect;
extern const struct ks_dialect ks_go_kcl_dialect;
extern const struct ks_dialect ks_kcl_rb_dialect;
extern const struct ks_dialect ks_kcl_dialect;
extern const struct ks_dialect ks_kinsumer_dialect;

#endif
