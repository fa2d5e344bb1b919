/* SPDX-License-Identifier: Apache-2.0 */
/* What is in an aggregate and what breaks one: tests/vectors/aggregates_test.c. */
#include "adapters/kinesis/aggregate.h"

#include "base/digest.h"

#include "kpl.h"
#include "ks_test.h"

static const char *const KEYS[] = {"a", "b"};

static struct ks_bytes bytes;

static ks_view pack(const struct kpl_record *records, uint32_t count)
{
    ks_bytes_init(&bytes, 1 << 20);
    kpl_pack(&bytes, KEYS, 2, records, count);
    return ks_bytes_view(&bytes);
}

TEST(a_changed_byte_anywhere_makes_it_a_plain_record)
{
    const struct kpl_record record = {.key = 0, .data = KS_VIEW("data")};
    ks_view data = pack(&record, 1);

    EXPECT(ks_is_aggregate(data));
    for (size_t at = 0; at < data.size; at++) {
        bytes.data[at] ^= 1;
        EXPECT(!ks_is_aggregate(data));
        bytes.data[at] ^= 1;
    }
    for (size_t size = 0; size < data.size; size++)
        EXPECT(!ks_is_aggregate(ks_view_of(data.data, size)));
    EXPECT(!ks_is_aggregate(KS_VIEW_NONE));
    ks_bytes_free(&bytes);
}

TEST(user_records_are_views_and_outlive_the_reading)
{
    const struct kpl_record records[] = {{.key = 1, .data = KS_VIEW("one")},
                                         {.key = 0, .data = KS_VIEW("two"), .hash_key = "17"}};
    struct ks_aggregate aggregate;
    struct ks_user_record users[2];
    struct ks_user_record none;
    ks_view data = pack(records, 2);

    EXPECT_OK(ks_aggregate_open(data, NULL, &aggregate));
    EXPECT(ks_aggregate_next(&aggregate, NULL, &users[0]));
    EXPECT(ks_aggregate_next(&aggregate, NULL, &users[1]));
    EXPECT(!ks_aggregate_next(&aggregate, NULL, &none));
    EXPECT(!ks_aggregate_next(&aggregate, NULL, &none));
    ks_aggregate_close(&aggregate);
    ks_aggregate_close(&aggregate);
    for (int at = 0; at < 2; at++) {
        EXPECT(users[at].data.data > data.data);
        EXPECT(users[at].data.data < data.data + data.size);
        EXPECT(users[at].partition_key.data > data.data);
    }
    EXPECT(ks_view_equal(users[0].data, KS_VIEW("one")));
    EXPECT(ks_view_equal(users[0].partition_key, KS_VIEW("b")));
    EXPECT_EQ_U64(users[0].explicit_hash_key.size, 0);
    EXPECT(ks_view_equal(users[1].explicit_hash_key, KS_VIEW("17")));
    EXPECT_EQ_I64(users[1].sub_sequence, 1);
    ks_bytes_free(&bytes);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(the_explicit_hash_key_decides_where_a_record_belongs_and_else_the_partition_key)
{
    const struct kpl_record records[] = {{.key = 0, .data = KS_VIEW("1")},
                                         {.key = 0, .data = KS_VIEW("2"), .hash_key = "17"},
                                         {.key = 1, .data = KS_VIEW("3")},
                                         {.key = 0, .data = KS_VIEW("4")},
                                         {.key = 0, .data = KS_VIEW("5"), .hash_key = "18"}};
    struct ks_hash_range around_a = {ks_hash_key_of(KS_VIEW("a")), ks_hash_key_of(KS_VIEW("a"))};
    struct ks_hash_range low = {17, 17};
    struct ks_aggregate aggregate;
    struct ks_user_record user;
    ks_view data = pack(records, 5);

    EXPECT_OK(ks_aggregate_open(data, NULL, &aggregate));
    for (int at = 0; ks_aggregate_next(&aggregate, &around_a, &user); at++)
        EXPECT_EQ_I64(user.foreign, at != 0 && at != 3);
    ks_aggregate_close(&aggregate);
    EXPECT_OK(ks_aggregate_open(data, NULL, &aggregate));
    for (int at = 0; ks_aggregate_next(&aggregate, &low, &user); at++)
        EXPECT_EQ_I64(user.foreign, at != 1);
    ks_aggregate_close(&aggregate);
    ks_bytes_free(&bytes);
}

TEST(a_full_budget_is_no_reason_not_to_open_one)
{
    const struct kpl_record record = {.key = 0, .data = KS_VIEW("data")};
    struct ks_aggregate aggregate;
    struct ks_user_record user;
    struct ks_budget budget;
    ks_view data = pack(&record, 1);

    ks_budget_init(&budget, 0);
    EXPECT_OK(ks_aggregate_open(data, &budget, &aggregate));
    EXPECT_EQ_U64(budget.used, 2 * sizeof(uint32_t));
    EXPECT(ks_aggregate_next(&aggregate, NULL, &user));
    ks_aggregate_close(&aggregate);
    EXPECT_EQ_U64(budget.used, 0);
    ks_alloc_fail_after(1, 0);
    EXPECT_ERR(ks_aggregate_open(data, &budget, &aggregate), NO_MEMORY);
    EXPECT_EQ_U64(budget.used, 0);
    ks_bytes_free(&bytes);
}
