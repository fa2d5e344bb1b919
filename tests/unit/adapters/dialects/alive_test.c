/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/alive.h"

#include "ks_test.h"

#include <string.h>

#define S UINT64_C(1000000000)

static struct ks_store_lease leases[2];
static struct ks_store_worker workers[1];
static struct ks_detail sign;

static struct ks_reading reading(void)
{
    leases[0] =
        (struct ks_store_lease){.shard = "shardId-0", .owner = {"worker-a", 0}, .rev = 100 * S};
    leases[1] = (struct ks_store_lease){.shard = "shardId-1", .rev = 200 * S};
    workers[0] =
        (struct ks_store_worker){.self = {"worker-a", 1}, .life = KS_LIVE, .beat = 100 * S};
    return (struct ks_reading){leases, 2, workers, 1};
}

TEST(a_row_is_found_by_its_shard)
{
    const struct ks_reading now = reading();

    EXPECT(ks_reading_lease(&now, "", "shardId-1") == &leases[1]);
    EXPECT(ks_reading_lease(&now, "", "shardId-0") == &leases[0]);
    EXPECT(ks_reading_lease(&now, "", "shardId-2") == NULL);
    EXPECT(ks_reading_worker(&now, "worker-a") == &workers[0]);
    EXPECT(ks_reading_worker(&now, "worker-b") == NULL);
}

TEST(an_owner_lives_until_its_time_is_over)
{
    const struct ks_reading now = reading();

    EXPECT(ks_reading_lives(&ks_go_kcl_dialect, &now, ks_span_ms(1000), 99 * S, &sign));
    EXPECT_STR(sign.text, "worker-a has shardId-0 for another 2 s");
    /* The other row has no owner: its time means nothing. */
    EXPECT(!ks_reading_lives(&ks_go_kcl_dialect, &now, ks_span_ms(1000), 100 * S, &sign));
    EXPECT(!ks_reading_lives(&ks_native_dialect, &now, ks_span_ms(1000), 99 * S, &sign));
}

TEST(a_client_lives_for_a_while_after_it_was_heard_of)
{
    const struct ks_reading now = reading();

    EXPECT(ks_reading_lives(&ks_kinsumer_dialect, &now, ks_span_ms(5000), 104 * S, &sign));
    EXPECT_STR(sign.text, "client worker-a is good for another 2 s");
    EXPECT(!ks_reading_lives(&ks_kinsumer_dialect, &now, ks_span_ms(5000), 105 * S, &sign));
    workers[0].damaged = true;
    EXPECT(!ks_reading_lives(&ks_kinsumer_dialect, &now, ks_span_ms(5000), 104 * S, &sign));
}

TEST(what_moves_is_alive)
{
    const struct ks_reading now = reading();
    struct ks_store_lease before_leases[2];
    struct ks_store_worker before_workers[1];
    struct ks_reading before = {before_leases, 2, before_workers, 1};

    memcpy(before_leases, leases, sizeof(leases));
    memcpy(before_workers, workers, sizeof(workers));
    EXPECT(!ks_reading_moved(&before, &now, &sign));
    before_workers[0].beat--;
    EXPECT(ks_reading_moved(&before, &now, &sign));
    EXPECT_STR(sign.text, "worker worker-a lives");
    /* Somebody fenced it: nobody beats. */
    workers[0].life = KS_FENCED;
    EXPECT(!ks_reading_moved(&before, &now, &sign));
    workers[0].life = KS_LIVE;
    before_workers[0] = workers[0];
    before_leases[0].rev--;
    EXPECT(ks_reading_moved(&before, &now, &sign));
    EXPECT_STR(sign.text, "the row of shardId-0 was written, its owner is worker-a");
    before_leases[0] = leases[0];
    before.lease_count = 1;
    EXPECT(ks_reading_moved(&before, &now, &sign));
    EXPECT_STR(sign.text, "the row of shardId-1 was written, it is free now");
    EXPECT(ks_reading_moved(&now, &before, &sign));
    EXPECT_STR(sign.text, "a row was deleted");
}

TEST(a_row_that_cannot_be_read_moves_by_its_words)
{
    const struct ks_store_lease before = {
        .shard = "shardId-0", .damaged = true, .words = "entityType LATER\nbeat 1\n"};
    struct ks_store_lease now = before;

    EXPECT(!ks_reading_row_moved(&before, &now));
    EXPECT(!ks_reading_row_moved(NULL, NULL));
    EXPECT(ks_reading_row_moved(&before, NULL));
    EXPECT(ks_reading_row_moved(NULL, &now));
    now.words = "entityType LATER\nbeat 2\n";
    EXPECT(ks_reading_row_moved(&before, &now));
}
