/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/rows_fleet.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* Takes the tokens of a set over into the scratch; NULL if they do not fit. */
static const struct ks_lease_token *tokens_of(struct ks_rows *rows,
                                              const struct ks_store_token *tokens, uint32_t count,
                                              ks_instant now, uint32_t *ret_count)
{
    struct ks_lease_token *first = rows->tokens + rows->token_count;
    uint32_t taken = 0;

    *ret_count = 0;
    if (count > rows->token_capacity - rows->token_count)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        ks_shard shard;

        if (ks_rows_shard(rows, ks_view_text(tokens[i].shard), now, &shard))
            first[taken++] = (struct ks_lease_token){shard, tokens[i].epoch};
    }
    rows->token_count += taken;
    *ret_count = taken;
    return first;
}

/* False if its own number or its tokens do not fit. */
static bool worker_of(struct ks_rows *rows, const struct ks_store_worker *worker, ks_instant now,
                      struct ks_worker_row *ret_row)
{
    struct ks_worker_row row = {
        .life = worker->life,
        .mode = worker->mode,
        .beat = worker->beat,
        .held = worker->held,
        .changes = worker->changes,
        .capacity = worker->capacity,
        .load = worker->load,
        .measured = worker->measured,
        .damaged = worker->damaged,
    };

    if (!ks_rows_incarnation(rows, &worker->self, now, &row.self) || row.self.worker == 0)
        return false;
    if (!worker->damaged) {
        row.gives = tokens_of(rows, worker->gives, worker->give_count, now, &row.give_count);
        row.takes = tokens_of(rows, worker->takes, worker->take_count, now, &row.take_count);
    }
    *ret_row = row;
    return worker->damaged || (row.gives != NULL && row.takes != NULL);
}

/* Which rows come first, if not all of them fit. The dead are the last: a row that is not live and no row prove the
 * same (docs/PROTOCOL.md, S3). */
enum rank { OURS, LIVE_OR_DAMAGED, DEAD, RANKS };

static enum rank rank_of(const struct ks_rows *rows, const struct ks_store_worker *worker,
                         ks_wall wall)
{
    bool silent = rows->foreign &&
                  (int64_t)(worker->beat / 1000000) + 2 * rows->worker_age.us / 1000 < wall.ms;

    if (strcmp(worker->self.id, ks_names_text(&rows->workers, rows->self)) == 0)
        return OURS;
    return worker->damaged || (worker->life == KS_LIVE && !silent) ? LIVE_OR_DAMAGED : DEAD;
}

/* Where members number themselves in the order of their ids. */
static void rank_ids(struct ks_rows *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *id = ks_names_text(&rows->workers, rows->fleet[i].self.worker);

        for (uint32_t other = 0; other < count; other++)
            rows->fleet[i].rank +=
                strcmp(ks_names_text(&rows->workers, rows->fleet[other].self.worker), id) < 0;
    }
}

bool ks_rows_fleet(struct ks_rows *rows, const struct ks_store_answer *answer, ks_instant now,
                   ks_wall wall, struct ks_event *ret_event)
{
    uint32_t count = 0;
    uint32_t missing = 0;

    rows->token_count = 0;
    for (uint32_t rank = OURS; rank < RANKS; rank++) {
        for (uint32_t i = 0; i < answer->worker_count; i++) {
            const struct ks_store_worker *worker = &answer->workers[i];
            struct ks_worker_row row = {.self = KS_NOBODY};

            /* No name, no worker: what such a row says cannot be. */
            if (rank_of(rows, worker, wall) != rank || worker->self.id[0] == '\0')
                continue;
            if (count < rows->workers_max && !worker_of(rows, worker, now, &row) && rank == OURS)
                return false;
            if (row.self.worker != 0)
                rows->fleet[count++] = row;
            else if (rank != DEAD)
                missing++;
        }
    }
    if (rows->foreign)
        rank_ids(rows, count);
    ret_event->store.workers = rows->fleet;
    ret_event->store.worker_count = missing == 0 ? count : rows->workers_max + missing;
    return true;
}

void ks_rows_damage(struct ks_rows *rows, const struct ks_store_answer *answer)
{
    const char *id = NULL;

    for (uint32_t i = 0; i < answer->worker_count && id == NULL; i++)
        if (answer->workers[i].damaged && answer->workers[i].self.id[0] != '\0')
            id = answer->workers[i].self.id;
    if (id != NULL && !rows->worker_told)
        ks_warn("%s: its worker row cannot be read: nobody takes its leases until the row is "
                "mended, or its process has ended and the row is deleted",
                id);
    rows->worker_told = id != NULL;
}

void ks_rows_leader(struct ks_rows *rows, const struct ks_store_leader *leader, ks_instant now,
                    struct ks_leader_row *ret_row)
{
    struct ks_leader_row row = {.present = leader->present, .epoch = leader->epoch};

    /* A holder without a number keeps its boot and is thereby not nobody. */
    (void)ks_rows_incarnation(rows, &leader->holder, now, &row.holder);
    for (uint32_t i = 0; i < KS_DEPUTIES_MAX; i++)
        if (leader->deputies[i][0] != '\0')
            (void)ks_rows_worker(rows, ks_view_text(leader->deputies[i]), now, &row.deputies[i]);
    *ret_row = row;
}

bool ks_rows_list(struct ks_rows *rows, const struct ks_store_list *list, ks_instant now,
                  struct ks_list_row *ret_list)
{
    ks_view rest = list->shards;
    uint32_t count = 0;

    while (rest.size != 0) {
        ks_view id = ks_view_cut(&rest, '\n');

        if (count == rows->shards_max || !ks_rows_shard(rows, id, now, &rows->list[count]))
            return false;
        count++;
    }
    *ret_list = (struct ks_list_row){true, list->rev, rows->list, count};
    return true;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool ks_rows_list_text(struct ks_rows *rows, const ks_shard *shards, uint32_t count,
                       ks_view *ret_text)
{
    for (uint32_t i = 0; i < count; i++)
        rows->ids[i] = ks_names_text(&rows->shards, shards[i]);
    qsort(rows->ids, count, sizeof *rows->ids, compare_ids);
    ks_bytes_clear(&rows->list_text);
    for (uint32_t i = 0; i < count; i++)
        if (!ks_ok(ks_bytes_format(&rows->list_text, "%s%s", i == 0 ? "" : "\n", rows->ids[i])))
            return false;
    *ret_text = ks_bytes_view(&rows->list_text);
    return true;
}
