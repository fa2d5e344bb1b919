/* SPDX-License-Identifier: Apache-2.0 */
/* streams.h - a lease table of several streams, as the KCL has it: how it names a stream, and which of them is ours.
 *
 * The format is that of common/StreamIdentifier.java, "ACCOUNT:STREAM:EPOCH": digits, a name without colons, and the
 * second in which the stream was made, as the application says it. What the rows say comes before what Kinesis does: an
 * application may have made its epochs up. Pure.
 */
#ifndef KS_PORTS_STREAMS_H
#define KS_PORTS_STREAMS_H

#include "ports/lease_store.h"

/* ---- Names ---- */

struct ks_stream_id {
    ks_view account;
    ks_view name;
    ks_view epoch;
};

/* False if it is no identifier, or one that is longer than KS_STREAM_ID_MAX. */
bool ks_stream_id_read(ks_view text, struct ks_stream_id *ret_id);
/* Cuts "STREAM-ID:SHARD" in two. False if the first is none; the second is what is there. */
bool ks_stream_key_read(ks_view key, ks_view *ret_stream, ks_view *ret_shard);
/* The key of a row: "STREAM-ID:SHARD", or the shard where there is no stream. */
void ks_stream_key(const struct ks_store_lease *lease, char ret_key[KS_LEASE_KEY_MAX + 1]);
/* The order of rows: by their streams, then by their shards. As strcmp. */
int ks_stream_order(const char *stream_a, const char *shard_a, const char *stream_b,
                    const char *shard_b);
/* True if `word`, a stream's name or ARN, means the stream of this identifier, as far as it says. */
bool ks_stream_means(const char *word, ks_view id);

/* ---- Which is ours ---- */

enum ks_layout {
    KS_LAYOUT_OPEN,   /* Not known yet. */
    KS_LAYOUT_ONE,    /* The table is of one stream. */
    KS_LAYOUT_SEVERAL /* Of several; ours is `id`. */
};

struct ks_streams {
    const char *word; /* Ours, a name or an ARN. Borrowed. */
    const char *const *
        kin; /* Those that this process reads besides out of the same table; NULL: none. Borrowed. */
    uint32_t kin_count;
    bool several;   /* The table is to be one of several. */
    bool described; /* What follows is known. */
    char arn[KS_ARN_MAX + 1];
    int64_t created_ms; /* Unix time; 0: unknown. */

    enum ks_layout layout;
    char id[KS_STREAM_ID_MAX + 1];
};

enum ks_choice {
    KS_CHOICE_MADE,
    KS_CHOICE_WAITS,  /* Until the stream is described. */
    KS_CHOICE_REFUSED /* Such a table cannot be served; the detail says why. */
};

/* What the whole table, read consistently, makes of it, while the layout is open. */
enum ks_choice ks_streams_choose(struct ks_streams *streams, const struct ks_store_lease *leases,
                                 uint32_t count, struct ks_detail *ret_detail);

/* True if this process reads the stream of this identifier. */
bool ks_streams_serve(const struct ks_streams *streams, const char *id);

#endif
