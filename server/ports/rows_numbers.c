/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of shards and workers: given to names, and free again when the names are gone. */
#include "ports/rows.h"

#include "base/log.h"
#include "ports/rows_streams.h"

#include <string.h>

/* A worker is in nobody's mind any more when no row showed it for this long, and the core does not know it. */
static const ks_span worker_keep = {INT64_C(300) * 1000 * 1000}; /* Pods come and go. */
static const ks_span sweep_every = {INT64_C(60) * 1000 * 1000};

/* A row that ends names its children; parents are for the core to hold. */
static void touch_family(struct ks_rows *rows, ks_shard shard, ks_instant now)
{
    const struct ks_shard_words *words = ks_rows_words(rows, shard);

    ks_names_touch(&rows->shards, shard, now);
    for (uint32_t i = 0; words != NULL && i < KS_CHILDREN_MAX; i++)
        ks_names_touch(&rows->shards, words->children[i], now);
}

/* What is left of those who were relatives of one that goes. */
static void forget_freed(const bool *freed, ks_shard *relatives, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (relatives[i] != KS_SHARD_NONE && freed[relatives[i]])
            relatives[i] = KS_SHARD_NONE;
}

static void shard_freed(void *arg, uint32_t number)
{
    bool *freed = arg;

    freed[number] = true;
}

bool ks_rows_free_shards(struct ks_rows *rows, const bool *held, ks_instant now, ks_span keep,
                         bool *ret_freed)
{
    /* While the table is away, nobody sees which shards have rows. */
    ks_instant before = ks_instant_min(ks_instant_add(now, ks_span_us(-keep.us)), rows->looked_at);
    uint32_t spare = rows->shards.spare;

    for (ks_shard shard = 0; shard < rows->shards.fresh; shard++)
        if (held[shard])
            touch_family(rows, shard, now);
    memset(ret_freed, 0, rows->shards_max * sizeof *ret_freed);
    ks_names_sweep(&rows->shards, before, shard_freed, ret_freed);
    if (rows->shards.spare == spare)
        return false;
    for (ks_shard shard = 0; shard < rows->shards.fresh; shard++) {
        rows->words[shard].known &= !ret_freed[shard];
        forget_freed(ret_freed, rows->words[shard].parents, KS_PARENTS_MAX);
        forget_freed(ret_freed, rows->words[shard].children, KS_CHILDREN_MAX);
    }
    rows->mixed.counting &= !ret_freed[rows->mixed.shard];
    return true;
}

static void worker_freed(void *arg, uint32_t number)
{
    (void)arg;
    (void)number;
}

static void sweep_workers(struct ks_rows *rows, ks_instant now)
{
    rows->sweep_at = ks_instant_add(now, sweep_every);
    rows->touch(rows->arg, now);
    ks_names_touch(&rows->workers, rows->self, now);
    ks_names_sweep(&rows->workers, ks_instant_add(now, ks_span_us(-worker_keep.us)), worker_freed,
                   rows);
}

bool ks_rows_full(struct ks_rows *rows)
{
    if (rows->full_told && ks_names_room(&rows->shards) && ks_names_room(&rows->workers)) {
        rows->full_told = false;
        ks_info("there is room for more shards and workers again");
    }
    return rows->full_told;
}

static bool number_of(struct ks_rows *rows, struct ks_names *names, ks_view name, ks_instant now,
                      uint32_t *ret_number)
{
    ks_err err = ks_names_add(names, name, now, ret_number);

    if (ks_err_is(err, KS_ERR_FULL) && names == &rows->workers &&
        ks_instant_reached(now, rows->sweep_at)) {
        sweep_workers(rows, now);
        err = ks_names_add(names, name, now, ret_number);
    }
    if (ks_err_is(err, KS_ERR_FULL) && !rows->full_told) {
        rows->full_told = true;
        ks_error("%.*s: no room for another %s, more than %u are known; it and all further ones "
                 "are left alone until some of them are gone",
                 (int)name.size, (const char *)name.data,
                 names == &rows->shards ? "shard" : "worker", names->end - names->first);
    }
    return ks_ok(err);
}

bool ks_rows_number(struct ks_rows *rows, ks_view key, ks_instant now, ks_shard *ret_shard)
{
    return number_of(rows, &rows->shards, key, now, ret_shard);
}

bool ks_rows_shard(struct ks_rows *rows, ks_view id, ks_instant now, ks_shard *ret_shard)
{
    struct ks_shard_words *words;
    ks_shard shard;

    if (!number_of(rows, &rows->shards, id, now, &shard))
        return false;

    words = &rows->words[shard];
    if (!words->known) {
        *words = (struct ks_shard_words){.known = true};
        for (uint32_t i = 0; i < KS_PARENTS_MAX; i++)
            words->parents[i] = KS_SHARD_NONE;
        for (uint32_t i = 0; i < KS_CHILDREN_MAX; i++)
            words->children[i] = KS_SHARD_NONE;
    }
    *ret_shard = shard;
    return true;
}

struct ks_shard_words *ks_rows_words(const struct ks_rows *rows, ks_shard shard)
{
    return shard < rows->shards_max && rows->words[shard].known ? &rows->words[shard] : NULL;
}

bool ks_rows_worker(struct ks_rows *rows, ks_view id, ks_instant now, uint32_t *ret_worker)
{
    return number_of(rows, &rows->workers, id, now, ret_worker);
}

bool ks_rows_incarnation(struct ks_rows *rows, const struct ks_incarnation_text *text,
                         ks_instant now, struct ks_incarnation *ret)
{
    *ret = KS_NOBODY;
    if (text->id[0] == '\0')
        return true;
    ret->boot = text->boot;
    return ks_rows_worker(rows, ks_view_text(text->id), now, &ret->worker);
}
