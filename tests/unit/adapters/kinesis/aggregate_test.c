/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/aggregate.h"

#include "base/digest.h"
#include "base/metrics.h"

#include "ks_test.h"

/* Magic, `size` bytes, their MD5. */
static ks_view aggregate(uint8_t *buffer, size_t size)
{
    static const uint8_t MAGIC[] = {0xF3, 0x89, 0x9A, 0xC2};

    memcpy(buffer, MAGIC, 4);
    for (size_t at = 0; at < size; at++)
        buffer[4 + at] = (uint8_t)(at * 7);
    ks_md5(ks_view_of(buffer + 4, size), buffer + 4 + size);
    return ks_view_of(buffer, 4 + size + KS_MD5_SIZE);
}

TEST(an_aggregate_has_the_magic_and_a_right_digest)
{
    uint8_t buffer[256];

    EXPECT(ks_is_aggregate(aggregate(buffer, 100)));
    EXPECT(ks_is_aggregate(aggregate(buffer, 1)));
    /* Nothing between magic and digest is no message. */
    EXPECT(!ks_is_aggregate(aggregate(buffer, 0)));
    EXPECT(!ks_is_aggregate(KS_VIEW_NONE));
}

TEST(a_changed_byte_anywhere_makes_it_a_plain_record)
{
    uint8_t buffer[256];

    for (size_t at = 0; at < 4 + 20 + KS_MD5_SIZE; at++) {
        ks_view data = aggregate(buffer, 20);
        buffer[at] ^= 1;
        EXPECT(!ks_is_aggregate(data));
    }
    for (size_t size = 0; size < 40; size++) {
        ks_view data = aggregate(buffer, 20);
        data.size = size;
        EXPECT(!ks_is_aggregate(data));
    }
}

TEST(aggregates_of_a_batch_are_counted)
{
    struct ks_record records[] = {
        {.aggregated = true}, {.aggregated = false}, {.aggregated = true}};
    struct ks_batch batch = {.records = records, .count = 3};
    int64_t before = ks_metric_number(KS_METRIC_AGGREGATED_RECORDS);

    ks_aggregates_note(&batch);
    ks_aggregates_note(&batch);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_AGGREGATED_RECORDS) - before, 4);
}
