/* SPDX-License-Identifier: Apache-2.0 */
/* lease_table.h - a lease table that a person works with directly: opened by its dialect and place, read whole, mended
 * row by row.
 *
 * A table is named DIALECT[:NAME], NAME being that of the table in DynamoDB, as --application is the default of it; or
 * native:sqlite:PATH, whose rows are those of --application. Each call turns the loop until it is done: nothing else
 * runs on it.
 */
#ifndef KS_MAIN_LEASE_TABLE_H
#define KS_MAIN_LEASE_TABLE_H

#include "adapters/dialects/alive.h"
#include "adapters/dialects/convert.h"
#include "base/options.h"
#include "main/cloud.h"

/* What the tables of a command share. */
struct ks_lease_desk {
    const struct ks_options *options;
    struct ks_loop *loop;
    struct ks_cloud cloud;
    struct ks_cloud_part part;
};

/* NO_MEMORY, SYSTEM. The options outlive it. */
KS_MUST_USE ks_err ks_lease_desk_open(struct ks_lease_desk *desk, const struct ks_options *options);
/* After its tables are closed; also after a failure to open. */
void ks_lease_desk_close(struct ks_lease_desk *desk);

struct ks_lease_rows {
    struct ks_store_lease *leases; /* As in a struct ks_reading. */
    struct ks_store_worker *workers;
    uint32_t lease_count;
    uint32_t worker_count;
    struct ks_bytes words;
};

void ks_lease_rows_free(struct ks_lease_rows *rows);

struct ks_lease_table {
    struct ks_lease_desk *desk;
    const struct ks_dialect *dialect;
    char name[KS_OPTION_TEXT_SIZE];
    const char *path; /* Of the SQLite file, within the word that named it; NULL: in DynamoDB. */
    bool absent;      /* There is no such table. */
    struct ks_dialect look; /* The dialect, of tables that are not made. */
    struct ks_lease_store *store;
    struct ks_lease_rows rows; /* As read last. */
    struct ks_lease_rows before;
};

/* Finds what `word` names. INVALID with a detail. */
KS_MUST_USE ks_err ks_lease_table_name(struct ks_lease_table *table, struct ks_lease_desk *desk,
                                       const char *word, struct ks_detail *detail);
/* True if both, which were named, are the same table: in SQLite, of the same file. */
bool ks_lease_table_same(const struct ks_lease_table *a, const struct ks_lease_table *b);
/* Opens it, and makes it if it is not there and `make` says so; without that it may be absent. A detail says what is
 * wrong: another dialect's table, access denied, not reached within half a minute. It is closed in any case. */
KS_MUST_USE ks_err ks_lease_table_open(struct ks_lease_table *table, bool make,
                                       struct ks_detail *detail);
/* Also of one that is zeroed. */
void ks_lease_table_close(struct ks_lease_table *table);

/* Reads all rows, consistently; what was read last becomes `before`. Of an absent table there are none. */
KS_MUST_USE ks_err ks_lease_table_read(struct ks_lease_table *table, struct ks_detail *detail);
struct ks_reading ks_lease_table_reading(const struct ks_lease_rows *rows);

/* True if somebody works with one of the tables (at most two; NULL: none), which have been read: by what stands there,
 * or by what moves within `lease`. False as well if it cannot be known: then `ret_err` is not KS_OK. */
bool ks_lease_tables_live(struct ks_lease_table *const tables[2], ks_span lease,
                          struct ks_detail *ret_sign, ks_err *ret_err);

/* Which stream is meant where a table has several: that of `word`, a name or an ARN, or, if that is "", the only one.
 * Its identifier, or "" of a table of one. With a detail: NOT_FOUND, INVALID (more than one could be meant). */
KS_MUST_USE ks_err ks_lease_rows_stream(const struct ks_lease_rows *rows, const char *word,
                                        char ret_stream[KS_STREAM_ID_MAX + 1],
                                        struct ks_detail *detail);
/* True if `word` is the key of the row, or its shard id, which is enough in a table of one stream, or of the stream
 * that `stream` means. */
bool ks_lease_is_named(const struct ks_store_lease *lease, const char *stream, const char *word);

/* A row that is to say `lease`. */
struct ks_lease_mend {
    const struct ks_store_lease *lease;
    const struct ks_store_lease *was; /* As it was read; NULL: there was no row. */
    enum ks_outcome outcome;
    ks_err err;              /* Of UNKNOWN. */
    struct ks_detail detail; /* Likewise. */
};
/* Writes the rows, some at a time, and fills their outcomes. */
void ks_lease_table_mend(struct ks_lease_table *table, struct ks_lease_mend *mends, uint32_t count);
/* Ends the life of a worker, whose row was read so. native: what it writes from now on is refused; kinsumer: nothing
 * falls to it any more. True if that is so now. */
bool ks_lease_table_fence(struct ks_lease_table *table, const struct ks_store_worker *worker);

#endif
