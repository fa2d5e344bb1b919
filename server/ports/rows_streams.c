/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/rows_streams.h"

#include "base/log.h"

#include <string.h>

void ks_rows_stream(struct ks_rows *rows, const struct ks_streams *streams)
{
    rows->streams = *streams;
    rows->streams.layout = KS_LAYOUT_OPEN;
}

void ks_rows_described(struct ks_rows *rows, const struct ks_describe_answer *stream)
{
    rows->streams.described = true;
    rows->streams.created_ms = stream->created_ms;
    memcpy(rows->streams.arn, stream->stream_arn, sizeof rows->streams.arn);
}

bool ks_rows_layout(struct ks_rows *rows, bool whole, const struct ks_store_answer *answer)
{
    struct ks_streams *streams = &rows->streams;

    if (!rows->kept || streams->layout != KS_LAYOUT_OPEN)
        return true;
    if (!whole || ks_streams_choose(streams, answer->leases, answer->lease_count, &rows->misfit) !=
                      KS_CHOICE_MADE)
        return false;
    if (streams->layout == KS_LAYOUT_SEVERAL)
        ks_info("the lease table is that of several streams: of %s there are the rows %s:..",
                streams->word, streams->id);
    return true;
}

bool ks_rows_is_ours(const struct ks_rows *rows, const struct ks_store_lease *lease)
{
    if (rows->streams.layout != KS_LAYOUT_SEVERAL)
        return lease->stream[0] == '\0';
    return strcmp(lease->stream, rows->streams.id) == 0;
}

/* Shards of ours must have numbers, however many others have: those have half of them at most. */
static bool crowds(struct ks_rows *rows, ks_view key)
{
    const uint32_t most = rows->shards_max / 2;
    uint32_t number;

    if (ks_names_find(&rows->shards, key, &number))
        return false;
    if (rows->shards.fresh - rows->shards.spare < most)
        return false;
    if (!rows->crowd_told)
        ks_warn("%.*s: no more than %u rows are counted where there are some of other streams: "
                "shares are not quite what they are to others",
                (int)key.size, (const char *)key.data, most);
    rows->crowd_told = true;
    return true;
}

bool ks_rows_other(struct ks_rows *rows, const struct ks_store_lease *lease, ks_instant now,
                   struct ks_lease_row *ret_row)
{
    const bool fits = (lease->stream[0] != '\0') == (rows->streams.layout == KS_LAYOUT_SEVERAL);
    struct ks_lease_row row = {
        .rev = lease->rev,
        .parents = {KS_SHARD_NONE, KS_SHARD_NONE},
        .finished = lease->finished,
        .damaged = lease->damaged || !fits,
        .elsewhere = true,
        .unserved = !ks_streams_serve(&rows->streams, lease->stream),
    };
    char key[KS_LEASE_KEY_MAX + 1];

    ks_stream_key(lease, key);
    /* A shard of ours may have such a name. */
    if (lease->stream[0] == '\0') {
        memmove(key + 1, key, strlen(lease->shard) + 1);
        key[0] = ':';
    }
    if (crowds(rows, ks_view_text(key)) ||
        !ks_rows_number(rows, ks_view_text(key), now, &row.shard))
        return false;
    if (!row.damaged)
        row.damaged = !ks_rows_incarnation(rows, &lease->owner, now, &row.owner) ||
                      !ks_rows_incarnation(rows, &lease->next_owner, now, &row.next_owner);
    *ret_row = row;
    return true;
}
