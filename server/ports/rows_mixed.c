/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/rows_mixed.h"

#include "base/log.h"

#include <string.h>

static void tell_mixed(const struct ks_rows *rows, enum ks_mixed_sign sign, const char *where)
{
    if (sign != KS_MIXED_NONE)
        ks_warn("%s: mixed configuration: %s", where, ks_mixed_advice(sign, rows->mixed.protocol));
}

/* Nobody began it, and it is to begin elsewhere than ours would. Who makes the row of a child has no choice. */
static bool is_elsewhere(const struct ks_rows *rows, const struct ks_store_lease *lease)
{
    const enum ks_position_kind kind = lease->checkpoint.kind;

    if (!rows->kept || lease->finished || kind == rows->initial.kind)
        return false;
    return kind == KS_POSITION_LATEST || kind == KS_POSITION_AT_TIMESTAMP ||
           (kind == KS_POSITION_TRIM_HORIZON && lease->parents[0][0] == '\0');
}

static ks_wall answered_at(const struct ks_rows *rows, ks_wall asked_at)
{
    return (ks_wall){asked_at.ms + ks_span_to_ms(rows->mixed.took)};
}

void ks_rows_mixed_lease(struct ks_rows *rows, ks_shard shard, struct ks_shard_words *words,
                         const struct ks_store_lease *lease, ks_instant now, ks_wall wall)
{
    const char *const self = ks_names_text(&rows->workers, rows->self);
    const char *const owner = ks_names_text(&rows->workers, words->owner.worker);
    const char *const next = ks_names_text(&rows->workers, words->next_owner.worker);
    const struct ks_position *const place = rows->kept ? &lease->checkpoint : &lease->whole;
    /* Processes of kcl-rb have no manners that could be configured. */
    const bool same = !lease->stranger && lease->owner.id[0] != '\0' &&
                      strcmp(lease->owner.id, self) != 0 && strcmp(lease->owner.id, owner) == 0;
    const bool idle = same && ks_position_same(&words->row_whole, place) && !lease->prepared;
    const bool ours = strcmp(next, self) == 0;
    const ks_instant asked_at = ks_instant_add(now, ks_span_us(-rows->mixed.took.us));
    const struct ks_mixed_lease seen = {
        .shard = shard,
        .at = now,
        .claimed = lease->next_owner.id[0] != '\0' && strcmp(lease->next_owner.id, self) != 0,
        .heeded = ours && !same,
        .unheeded = ours && idle && lease->rev != words->rev && lease->next_owner.id[0] == '\0',
        .elsewhere = is_elsewhere(rows, lease),
        .renewed = same && lease->rev != words->rev,
        .idle = idle,
        .stands = same && lease->rev == words->rev,
        .rev = lease->rev,
        .still = ks_instant_since(words->rev_last, words->rev_at),
        .since = ks_instant_since(asked_at, words->rev_last),
    };

    if (lease->rev != words->rev)
        words->rev_at = now;
    words->rev_last = asked_at;
    tell_mixed(rows, ks_mixed_see_lease(&rows->mixed, &seen, answered_at(rows, wall)),
               ks_names_text(&rows->shards, shard));
}

void ks_rows_mixed_workers(struct ks_rows *rows, const struct ks_store_answer *answer,
                           ks_instant now, ks_wall wall)
{
    for (uint32_t i = 0; i < answer->worker_count; i++) {
        const struct ks_store_worker *const worker = &answer->workers[i];

        if (!worker->damaged &&
            strcmp(worker->self.id, ks_names_text(&rows->workers, rows->self)) != 0)
            tell_mixed(rows,
                       ks_mixed_see_worker(&rows->mixed, worker->self.id, worker->beat, now,
                                           answered_at(rows, wall)),
                       worker->self.id);
    }
}
