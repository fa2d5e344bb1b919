/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/convert.h"

#include "base/budget.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static struct ks_store_lease row(enum ks_position_kind kind, const char *sequence, int64_t sub)
{
    struct ks_store_lease lease = {.shard = "shardId-0",
                                   .owner = {"worker-a", 7},
                                   .epoch = 5,
                                   .rev = 6,
                                   .checkpoint = {.kind = kind, .sub_sequence = sub},
                                   .parents = {"shardId-a", "shardId-b"},
                                   .hash_start = "0",
                                   .hash_end = "99"};

    (void)snprintf(lease.checkpoint.sequence, sizeof(lease.checkpoint.sequence), "%s", sequence);
    lease.finished = kind == KS_POSITION_SHARD_END;
    return lease;
}

static struct ks_conversion convert(const struct ks_dialect *to, const struct ks_store_lease *from)
{
    struct ks_conversion conversion;
    struct ks_detail detail = {""};

    EXPECT_OK(ks_convert(to, "", from, &conversion, &detail));
    return conversion;
}

TEST(a_converted_row_is_free_and_at_its_place)
{
    const struct ks_store_lease from = row(KS_POSITION_AFTER_SEQUENCE, "4959", -1);
    const struct ks_conversion native = convert(&ks_native_dialect, &from);
    const struct ks_conversion go_kcl = convert(&ks_go_kcl_dialect, &from);

    EXPECT_STR(native.held.owner.id, "");
    EXPECT_EQ_U64(native.held.epoch, 0);
    EXPECT_STR(native.held.checkpoint.sequence, "4959");
    EXPECT_EQ_I64(native.held.checkpoint.sub_sequence, -1);
    EXPECT(!native.family_lost && !native.range_lost && !native.unseen);
    EXPECT_STR(go_kcl.held.whole.sequence, "4959");
    EXPECT(go_kcl.family_lost && go_kcl.range_lost && !go_kcl.unseen && !go_kcl.again);
    EXPECT(ks_convert_agrees(&native.held, &native.held));
    EXPECT(!ks_convert_agrees(&native.held, &from));
}

/* What came since, and was not read, is not passed over: it is an instant where no more can be said. */
TEST(a_latest_of_a_moment_keeps_it)
{
    struct ks_store_lease from = row(KS_POSITION_LATEST, "", -1);
    struct ks_conversion conversion;
    struct ks_store_lease later;

    from.checkpoint.timestamp_ms = 1714564810000;
    from.prepared = true;
    conversion = convert(&ks_kcl_dialect, &from);
    EXPECT_EQ_I64(conversion.held.checkpoint.kind, KS_POSITION_LATEST);
    EXPECT_EQ_I64(conversion.held.checkpoint.timestamp_ms, 1714564810000);
    EXPECT(!conversion.held.prepared && ks_convert_agrees(&conversion.held, &conversion.held));
    later = conversion.held;
    later.checkpoint.timestamp_ms++;
    EXPECT(!ks_convert_agrees(&conversion.held, &later));
    for (uint32_t at = 0; ks_dialect_at(at) != NULL; at++) {
        if (ks_dialect_at(at) == &ks_kcl_dialect)
            continue;
        conversion = convert(ks_dialect_at(at), &from);
        EXPECT_EQ_I64(conversion.held.checkpoint.kind, KS_POSITION_AT_TIMESTAMP);
        EXPECT_EQ_I64(conversion.held.checkpoint.timestamp_ms, 1714564810000);
    }
}

TEST(what_members_do_not_see_is_said)
{
    struct ks_store_lease inside = row(KS_POSITION_AFTER_SEQUENCE, "4959", 3);
    const struct ks_store_lease latest = row(KS_POSITION_LATEST, "", -1);
    const struct ks_store_lease horizon = row(KS_POSITION_TRIM_HORIZON, "", -1);

    EXPECT(convert(&ks_go_kcl_dialect, &inside).unseen);
    EXPECT_EQ_I64(convert(&ks_go_kcl_dialect, &inside).held.checkpoint.sub_sequence, 3);
    /* Of a dialect that knew the record before. */
    inside.whole = (struct ks_position){KS_POSITION_AFTER_SEQUENCE, 0, "4958", -1};
    EXPECT(!convert(&ks_go_kcl_dialect, &inside).unseen);
    EXPECT(convert(&ks_go_kcl_dialect, &inside).again);
    EXPECT_STR(convert(&ks_go_kcl_dialect, &inside).held.whole.sequence, "4958");
    EXPECT(convert(&ks_go_kcl_dialect, &latest).unseen);
    EXPECT(convert(&ks_go_kcl_dialect, &horizon).unseen);
    EXPECT(!convert(&ks_kinsumer_dialect, &latest).unseen);
    EXPECT(!convert(&ks_kcl_dialect, &latest).unseen);
}

TEST(the_number_0_of_kcl_may_be_of_a_whole_record)
{
    struct ks_store_lease from = row(KS_POSITION_AFTER_SEQUENCE, "4959", 0);

    from.whole = from.checkpoint; /* As KCL has it. */
    EXPECT(convert(&ks_go_kcl_dialect, &from).passed);
    EXPECT_STR(convert(&ks_go_kcl_dialect, &from).held.whole.sequence, "4959");
    EXPECT_EQ_I64(convert(&ks_go_kcl_dialect, &from).held.checkpoint.sub_sequence, 0);
    EXPECT(!convert(&ks_native_dialect, &from).passed);
    from.checkpoint.sub_sequence = 2;
    from.whole = from.checkpoint;
    EXPECT(!convert(&ks_go_kcl_dialect, &from).passed);
    EXPECT(convert(&ks_go_kcl_dialect, &from).unseen);
    /* And back, what is behind a whole record is behind its first part. */
    from = row(KS_POSITION_AFTER_SEQUENCE, "4959", -1);
    EXPECT_EQ_I64(convert(&ks_kcl_dialect, &from).held.checkpoint.sub_sequence, 0);
}

TEST(what_has_no_position_is_left_out_where_each_row_has_one)
{
    struct ks_store_lease from = row(KS_POSITION_TRIM_HORIZON, "", -1);

    from.unstarted = true;
    EXPECT(convert(&ks_native_dialect, &from).left_out);
    EXPECT(convert(&ks_kcl_dialect, &from).left_out);
    EXPECT(!convert(&ks_go_kcl_dialect, &from).left_out);
    EXPECT(convert(&ks_go_kcl_dialect, &from).held.unstarted);
    /* The time of which stands nowhere in a table of the KCL. */
    from = row(KS_POSITION_AT_TIMESTAMP, "", -1);
    EXPECT(convert(&ks_native_dialect, &from).left_out);
}

TEST(what_cannot_be_held_is_refused)
{
    struct ks_store_lease from = row(KS_POSITION_AT_TIMESTAMP, "", -1);
    struct ks_conversion conversion;
    struct ks_detail detail = {""};

    from.checkpoint.timestamp_ms = 1714564810000;
    EXPECT_ERR(ks_convert(&ks_kcl_dialect, "", &from, &conversion, &detail), UNSUPPORTED);
    EXPECT_CONTAINS(detail.text, "kcl cannot hold this position");
    EXPECT_EQ_I64(convert(&ks_go_kcl_dialect, &from).held.checkpoint.timestamp_ms, 1714564810000);
    EXPECT_EQ_I64(convert(&ks_native_dialect, &from).held.checkpoint.timestamp_ms, 1714564810000);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(a_mend_names_what_was_read)
{
    const struct ks_store_lease was = row(KS_POSITION_AFTER_SEQUENCE, "4959", 2);
    const struct ks_store_lease wanted = row(KS_POSITION_SHARD_END, "", -1);
    const struct ks_store_request fresh = ks_mend_request(&wanted, NULL, 9);
    const struct ks_store_request request = ks_mend_request(&wanted, &was, 9);

    EXPECT(!fresh.exists && request.exists);
    EXPECT_STR(request.owner.id, "worker-a");
    EXPECT_EQ_U64(request.epoch, 5);
    EXPECT_EQ_U64(request.rev, 6);
    EXPECT_EQ_U64(request.next_rev, 9);
    EXPECT_STR(request.checkpoint.sequence, "4959");
    EXPECT(request.lease == &wanted);
}

TEST(a_row_that_somebody_wants_or_that_members_read_elsewhere_is_another)
{
    struct ks_store_lease from = row(KS_POSITION_AFTER_SEQUENCE, "4959", -1);
    const struct ks_conversion conversion = convert(&ks_go_kcl_dialect, &from);
    struct ks_store_lease found = conversion.held;

    EXPECT(ks_convert_agrees(&conversion.held, &found));
    memcpy(found.next_owner.id, "worker-b", sizeof("worker-b"));
    EXPECT(!ks_convert_agrees(&conversion.held, &found));
    found = conversion.held;
    found.masked = true;
    EXPECT(!ks_convert_agrees(&conversion.held, &found));
    found = conversion.held;
    found.prepared = true;
    EXPECT(!ks_convert_agrees(&conversion.held, &found));
    found = conversion.held;
    memcpy(found.whole.sequence, "4950", sizeof("4950"));
    EXPECT(!ks_convert_agrees(&conversion.held, &found));
}
