/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a table of several streams (ports/streams.h), as ports/rows.c tells them. */
#include "ports/rows.h"

#include "unit/ports/rows_bed.h"

#define ORDERS "123456789012:orders:1672531200"
#define CLICKS "123456789012:clicks:5"

static struct ks_store_lease of_stream(const char *stream, const char *shard, const char *owner)
{
    struct ks_store_lease row = lease(shard, owner, 0, 5, "100");

    row.owner.boot = 0;
    (void)snprintf(row.stream, sizeof row.stream, "%s", stream);
    return row;
}

/* Of the KCL, reading orders, and beside it what `kin` says. */
static void init_several(struct ks_rows *rows, const char *const *kin, uint32_t kin_count)
{
    const struct ks_position start = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1};
    const struct ks_streams streams = {.word = "orders", .kin = kin, .kin_count = kin_count};

    init(rows);
    ks_rows_share(rows, &start, false, ks_span_us(0));
    ks_rows_keep(rows, &start, 1);
    ks_rows_stream(rows, &streams);
}

static void describe(struct ks_rows *rows)
{
    struct ks_describe_answer stream = {.created_ms = INT64_C(1672531200000)};

    memcpy(stream.stream_arn, "arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 53);
    ks_rows_described(rows, &stream);
}

TEST(rows_of_other_streams_have_numbers_and_no_words)
{
    static const char *const kin[] = {"clicks"};
    struct ks_store_lease leases[4] = {
        of_stream(CLICKS, "shard-0", "pod-b"), of_stream(ORDERS, "shard-0", "pod-a"),
        of_stream("999999999999:orders:5", "shard-0", ""), of_stream(ORDERS, "shard-1", "pod-b")};
    struct ks_store_effect effect = {.operation = KS_STORE_TAKE_OVER};
    struct ks_store_request request;
    struct ks_event event;
    struct ks_rows rows;

    init_several(&rows, kin, 1);
    describe(&rows);
    leases[3].damaged = true;
    event = read_leases(&rows, true, leases, 4);
    EXPECT_EQ_U64(event.store.lease_count, 4);
    EXPECT(event.store.leases[0].elsewhere && !event.store.leases[0].unserved);
    EXPECT(event.store.leases[0].owner.worker != 0 && event.store.leases[0].rev == 5);
    EXPECT(!event.store.leases[1].elsewhere && !event.store.leases[1].damaged);
    EXPECT_EQ_U64(event.store.leases[1].owner.worker, rows.self);
    EXPECT(event.store.leases[2].elsewhere && event.store.leases[2].unserved);
    EXPECT(!event.store.leases[3].elsewhere && event.store.leases[3].damaged);
    EXPECT(ks_rows_words(&rows, event.store.leases[0].shard) == NULL);
    EXPECT_STR(ks_names_text(&rows.shards, event.store.leases[0].shard), CLICKS ":shard-0");
    EXPECT(ks_rows_shard(&rows, KS_VIEW("shard-0"), now, &effect.shard));
    EXPECT(ks_rows_words(&rows, effect.shard)->has_row);
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT_STR(request.stream, ORDERS);
    EXPECT_STR(request.shard, "shard-0");
    ks_rows_free(&rows);
}

TEST(rows_of_the_other_kind_are_damaged_and_none_of_ours)
{
    struct ks_store_lease leases[2] = {of_stream(ORDERS, "shard-0", ""),
                                       lease("shard-0", "", 0, 5, "100")};
    struct ks_event event;
    struct ks_rows rows;

    init_several(&rows, NULL, 0);
    describe(&rows);
    (void)read_leases(&rows, true, leases, 1);
    event = read_leases(&rows, true, leases, 2);
    EXPECT(!event.store.leases[0].elsewhere);
    EXPECT(event.store.leases[1].elsewhere && event.store.leases[1].damaged);
    EXPECT(event.store.leases[0].shard != event.store.leases[1].shard);
    ks_rows_free(&rows);

    init_several(&rows, NULL, 0);
    (void)read_leases(&rows, true, &leases[1], 1);
    EXPECT_EQ_I64(rows.streams.layout, KS_LAYOUT_ONE);
    event = read_leases(&rows, true, leases, 2);
    EXPECT(event.store.leases[0].elsewhere && event.store.leases[0].damaged);
    EXPECT(!event.store.leases[1].elsewhere && !event.store.leases[1].damaged);
    ks_rows_free(&rows);
}

TEST(nothing_is_known_before_it_is_known_which_rows_are_ours)
{
    struct ks_store_lease row = of_stream(ORDERS, "shard-0", "pod-a");
    struct ks_store_answer answer = {.outcome = KS_DONE, .leases = &row, .lease_count = 1};
    static const enum ks_store_operation reads[] = {KS_STORE_READ_LEASES, KS_STORE_READ_LEASE,
                                                    KS_STORE_READ_OWNED};
    struct ks_event event = {.kind = KS_EVENT_START};
    struct ks_rows rows;

    init_several(&rows, NULL, 0);
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++) {
        ks_rows_answered(&rows, reads[i], true, &answer, now, wall, &event);
        EXPECT_EQ_I64(event.store.outcome, KS_UNKNOWN);
    }
    describe(&rows);
    ks_rows_answered(&rows, KS_STORE_READ_LEASES, false, &answer, now, wall, &event);
    EXPECT_EQ_I64(event.store.outcome, KS_UNKNOWN); /* An old replica may lack what decides. */
    ks_rows_answered(&rows, KS_STORE_READ_LEASES, true, &answer, now, wall, &event);
    EXPECT_EQ_I64(event.store.outcome, KS_DONE);
    EXPECT_STR(rows.misfit.text, "");
    /* Of keys alone, ours. */
    event = (struct ks_event){.kind = KS_EVENT_START};
    ks_rows_answered(&rows, KS_STORE_READ_OWNED, false, &answer, now, wall, &event);
    EXPECT_EQ_U64(event.store.lease_count, 1);
    row = of_stream(CLICKS, "shard-0", "pod-a");
    ks_rows_answered(&rows, KS_STORE_READ_OWNED, false, &answer, now, wall, &event);
    EXPECT_EQ_U64(event.store.lease_count, 0);
    ks_rows_free(&rows);
}

TEST(rows_of_other_streams_leave_numbers_to_ours)
{
    struct ks_store_lease leases[12];
    struct ks_event event;
    struct ks_rows rows;
    ks_shard shard;

    init_several(&rows, NULL, 0);
    describe(&rows);
    for (int i = 0; i < 12; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "shard-%d", i);
        leases[i] = of_stream(i < 10 ? CLICKS : ORDERS, name, "pod-b");
    }
    event = read_leases(&rows, true, leases, 12);
    EXPECT_EQ_U64(event.store.lease_count, 6); /* Four of theirs: half of the numbers. */
    EXPECT(event.store.leases[3].elsewhere && !event.store.leases[4].elsewhere);
    EXPECT(ks_rows_shard(&rows, KS_VIEW("shard-12"), now, &shard)); /* A child, later. */
    event = read_leases(&rows, true, leases, 12);
    EXPECT_EQ_U64(event.store.lease_count, 6);
    EXPECT(!rows.full_told);
    ks_rows_free(&rows);
}
