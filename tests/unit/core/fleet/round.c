/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/core/fleet/round.h"

#include "ks_test.h"

struct bed bed;
struct ks_worker_row rows[3];
uint32_t row_count;
struct ks_lease_row leases[BED_SHARDS];
uint32_t lease_count;

const struct ks_store_effect *must_ask(enum ks_store_operation operation)
{
    const struct ks_store_effect *asked = bed_asked(&bed, operation);

    if (asked == NULL)
        FAIL("operation %d was not asked for", (int)operation);
    return asked;
}

void answer_rows(void)
{
    struct ks_event event = {
        .kind = KS_EVENT_STORE,
        .store = {.token = ks_token_make(KS_FOR_ROWS, 0, bed.core->fleet.rows),
                  .outcome = KS_DONE,
                  .leases = leases,
                  .lease_count = lease_count},
    };

    bed_step(&bed, &event);
}

static void answer_fleet(void)
{
    EXPECT(bed.core->fleet.news_consistent);
    for (uint32_t i = 1; i < row_count; i++)
        rows[i].beat += rows[i].life == KS_LIVE;
    bed.now = ks_instant_add(bed.now, ks_span_ms(5));
    bed_answer_fleet(&bed, ks_token_make(KS_FOR_NEWS, 0, bed.core->fleet.news), rows, row_count,
                     bed.core->fleet.self, 2);
}

void lead(uint32_t others, uint32_t count)
{
    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    bed.core->fleet.serial = UINT32_MAX;
    bed.core->fleet.news = 0;
    bed.core->fleet.live_at = KS_LONG_AGO; /* No newcomer: it need not muster. */
    bed.core->idle_at = KS_NEVER;
    rows[0] = (struct ks_worker_row){.self = bed.core->fleet.self};
    for (uint32_t i = 1; i <= others; i++)
        rows[i] = (struct ks_worker_row){.self = {BED_ME + i, 9}, .beat = 1};
    row_count = others + 1;
    lease_count = count;
    for (uint32_t i = 0; i < count; i++)
        leases[i] = (struct ks_lease_row){
            .shard = i, .epoch = 1, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}};
    bed_tick(&bed);
    bed_answer_fleet(&bed, must_ask(KS_STORE_READ_FLEET)->token, rows, row_count, KS_NOBODY, 1);
    bed_answer(&bed, must_ask(KS_STORE_CLAIM_OFFICE)->token, KS_DONE);
    EXPECT(bed.core->fleet.leads);
    bed.core->fleet.list_at = KS_NEVER;
}

void later_round(void)
{
    bed.now = ks_instant_add(bed.now, bed.core->config.beat);
    next_round();
}

void blind_round(void)
{
    bed.core->fleet.rows_stale = true;
    for (int i = 0; i < 10 && bed.core->fleet.news == 0; i++) {
        bed.now = ks_instant_max(bed.now, ks_core_deadline(bed.core));
        bed_tick(&bed);
    }
    EXPECT(bed.core->fleet.rows != 0);
    answer_fleet();
    bed_settle_down(&bed);
}

void next_round(void)
{
    for (int i = 0; i < 10; i++) {
        if (bed.core->fleet.rows != 0) {
            answer_rows();
        } else if (bed.core->fleet.news != 0) {
            answer_fleet();
            if (bed.core->fleet.rows != 0)
                continue;
            bed_settle_down(&bed);
            return;
        } else {
            bed.now = ks_instant_max(bed.now, ks_core_deadline(bed.core));
            bed_tick(&bed);
        }
    }
    FAIL("no round came to its end");
}

void list(const struct ks_shard_row *shards, uint32_t count)
{
    struct ks_event listed = {.kind = KS_EVENT_LISTED, .listed = {true, shards, count}};

    bed_step(&bed, &listed);
    bed.core->fleet.list_at = KS_NEVER;
}

struct ks_shard_row shard_row(ks_shard shard, ks_shard parent, ks_shard adjacent)
{
    return (struct ks_shard_row){.shard = shard, .parents = {parent, adjacent}};
}

void answer_write(ks_shard shard, enum ks_outcome outcome)
{
    for (uint32_t i = 0; i < KS_LEADER_WRITES_MAX; i++) {
        const struct ks_leader_write *write = &bed.core->fleet.writes[i];

        if (!write->used || write->shard != shard)
            continue;
        bed_answer(&bed, ks_token_make(KS_FOR_SHARD, i, write->serial), outcome);
        return;
    }
    FAIL("no write to shard %u is under way", shard);
}
