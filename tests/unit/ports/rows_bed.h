/* SPDX-License-Identifier: Apache-2.0 */
/* rows_bed.h - rows in few words, for the tests of ports/rows.c: rows_test.c and rows_fleet_test.c. */
#ifndef TESTS_UNIT_PORTS_ROWS_BED_H
#define TESTS_UNIT_PORTS_ROWS_BED_H

#include "ports/rows.h"

#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static const ks_instant now = {1000};
static const ks_wall wall = {1795219200000};

static inline void touch_nothing(void *arg, ks_instant at)
{
    (void)arg;
    (void)at;
}

static inline void init(struct ks_rows *rows)
{
    EXPECT_OK(ks_rows_init(rows, 8, 4, "pod-a", touch_nothing, NULL));
}

/* One worker row, and numbers for us and three others. */
static inline void init_small(struct ks_rows *rows)
{
    EXPECT_OK(ks_rows_init(rows, 8, 1, "pod-a", touch_nothing, NULL));
}

static inline struct ks_incarnation_text incarnation(const char *id, uint64_t boot)
{
    struct ks_incarnation_text text = {.boot = boot};

    (void)snprintf(text.id, sizeof text.id, "%s", id);
    return text;
}

static inline struct ks_store_lease lease(const char *shard, const char *owner, uint64_t epoch,
                                          uint64_t rev, const char *sequence)
{
    struct ks_store_lease row = {
        .owner = incarnation(owner, owner[0] == '\0' ? 0 : 7),
        .epoch = epoch,
        .rev = rev,
        .checkpoint = {.kind = KS_POSITION_AFTER_SEQUENCE, .sub_sequence = -1},
    };

    (void)snprintf(row.shard, sizeof row.shard, "%s", shard);
    (void)snprintf(row.checkpoint.sequence, sizeof row.checkpoint.sequence, "%s", sequence);
    return row;
}

/* What reading these rows comes to. */
static inline struct ks_event read_leases(struct ks_rows *rows, bool consistent,
                                          const struct ks_store_lease *leases, uint32_t count)
{
    struct ks_store_answer answer = {.outcome = KS_DONE, .leases = leases, .lease_count = count};
    struct ks_event event = {.kind = KS_EVENT_START};

    ks_rows_answered(rows, KS_STORE_READ_LEASES, consistent, &answer, now, wall, &event);
    EXPECT_EQ_I64(event.kind, KS_EVENT_STORE);
    EXPECT_EQ_I64(event.store.outcome, KS_DONE);
    return event;
}

static inline struct ks_event read_fleet(struct ks_rows *rows,
                                         const struct ks_store_worker *workers, uint32_t count)
{
    struct ks_store_answer answer = {.outcome = KS_DONE, .workers = workers, .worker_count = count};
    struct ks_event event = {.kind = KS_EVENT_START};

    ks_rows_answered(rows, KS_STORE_READ_FLEET, true, &answer, now, wall, &event);
    return event;
}

/* All numbers are given away. */
static inline void fill_names(struct ks_rows *rows)
{
    struct ks_store_lease leases[3] = {lease("shard-0", "pod-b", 1, 1, "1"),
                                       lease("shard-1", "pod-c", 1, 1, "1"),
                                       lease("shard-2", "pod-d", 1, 1, "1")};

    (void)read_leases(rows, true, leases, 3);
}

static inline void share(struct ks_rows *rows, bool stealing)
{
    static const struct ks_position start = {.kind = KS_POSITION_LATEST, .sub_sequence = -1};

    init(rows);
    ks_rows_share(rows, &start, stealing, ks_span_us(0));
}

#endif
