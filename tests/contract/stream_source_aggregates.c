/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_source_rig.h"

#include "kpl.h"

#include <stdio.h>
#include <string.h>

enum { USERS = 150 };

static const char FIRST[] = "shardId-000000000000";
static const char SECOND[] = "shardId-000000000001";
static const char THIRD[] = "shardId-000000000002";
static const char MIDDLE[] = "170141183460469231731687303715884105728";

/* Puts an aggregate of `users` with the data "PREFIX-NUMBER", and the keys "k0", "k1", "k2" in turns. */
static void put_aggregate(struct stream_rig *rig, const char *prefix, uint32_t users,
                          struct ks_put_result *ret_put)
{
    static const char *const keys[] = {"k0", "k1", "k2"};
    static struct kpl_record records[USERS];
    static char data[USERS][32];
    struct ks_put_entry entry = {.partition_key = KS_VIEW("raw")};
    struct ks_bytes bytes;

    EXPECT(users <= USERS);
    for (uint32_t at = 0; at < users; at++) {
        (void)snprintf(data[at], sizeof(data[at]), "%s-%u", prefix, at);
        records[at] = (struct kpl_record){.key = at % 3, .data = ks_view_text(data[at])};
    }
    ks_bytes_init(&bytes, 1 << 20);
    kpl_pack(&bytes, keys, 3, records, users);
    entry.data = ks_bytes_view(&bytes);
    rig->adapter->put(rig, &entry, ret_put);
    ks_bytes_free(&bytes);
}

static void expect_user(const struct stream_copied *copied, const struct ks_put_result *put,
                        const char *prefix, uint32_t number)
{
    char text[32];

    EXPECT_STR(copied->sequence, put->sequence);
    EXPECT_EQ_I64(copied->sub_sequence, number);
    (void)snprintf(text, sizeof(text), "%s-%u", prefix, number);
    EXPECT_STR((const char *)copied->data, text);
    (void)snprintf(text, sizeof(text), "k%u", number % 3);
    EXPECT_STR(copied->key, text);
    EXPECT(!copied->aggregated);
    EXPECT(ks_wall_now().ms - copied->arrival_ms < 60000);
}

void stream_suite_user_records_come_in_order_and_once(struct stream_rig *rig)
{
    static struct stream_copy copy;
    struct ks_put_result put[5];

    stream_rig_put(rig, "k", NULL, "before", &put[0]);
    put_aggregate(rig, "one", USERS, &put[1]);
    stream_rig_put(rig, "k", NULL, "between", &put[2]);
    put_aggregate(rig, "two", 1, &put[3]);
    put_aggregate(rig, "three", USERS, &put[4]);
    struct ks_reader *reader = stream_rig_open(rig, FIRST, KS_POSITION_TRIM_HORIZON, NULL, 0);
    stream_rig_collect(rig, reader, 3 + 2 * USERS, 7, &copy);
    EXPECT_EQ_U64(copy.count, 3 + 2 * USERS);
    EXPECT_STR((char *)copy.records[0].data, "before");
    EXPECT_EQ_I64(copy.records[0].sub_sequence, -1);
    for (uint32_t at = 0; at < USERS; at++) {
        expect_user(&copy.records[1 + at], &put[1], "one", at);
        expect_user(&copy.records[3 + USERS + at], &put[4], "three", at);
    }
    EXPECT_STR((char *)copy.records[1 + USERS].data, "between");
    EXPECT_STR(copy.records[1 + USERS].sequence, put[2].sequence);
    expect_user(&copy.records[2 + USERS], &put[3], "two", 0);
    /* What is put while it reads comes next. */
    put_aggregate(rig, "later", 2, &put[0]);
    stream_rig_collect(rig, reader, 2, 7, &copy);
    expect_user(&copy.records[1], &put[0], "later", 1);
    stream_rig_close(rig, reader);
}

void stream_suite_each_place_inside_an_aggregate_is_gone_on_from(struct stream_rig *rig)
{
    static struct stream_copy copy;
    struct ks_put_result before;
    struct ks_put_result put;
    struct ks_put_result behind;

    put_aggregate(rig, "before", 3, &before);
    put_aggregate(rig, "a", 4, &put);
    put_aggregate(rig, "behind", 1, &behind);
    for (uint32_t sub = 0; sub < 4; sub++) {
        struct ks_reader *reader = stream_rig_open_inside(rig, FIRST, put.sequence, sub);
        stream_rig_collect(rig, reader, 4 - sub, 2, &copy);
        EXPECT_EQ_U64(copy.count, 4 - sub);
        for (uint32_t at = 0; at < 3 - sub; at++)
            expect_user(&copy.records[at], &put, "a", sub + 1 + at);
        expect_user(&copy.records[3 - sub], &behind, "behind", 0);
        stream_rig_close(rig, reader);
    }
    /* A checkpoint of somebody who takes none apart stands behind the whole of it. */
    stream_rig_collect_from(rig, FIRST, KS_POSITION_AFTER_SEQUENCE, put.sequence, 0, 1, &copy);
    expect_user(&copy.records[0], &behind, "behind", 0);
}

void stream_suite_the_source_behind_begins_with_the_whole_aggregate(struct stream_rig *rig)
{
    static struct stream_copy copy;
    struct ks_stream_source *before = rig->source;
    struct ks_put_result put[2];

    put_aggregate(rig, "one", 3, &put[0]);
    put_aggregate(rig, "two", 3, &put[1]);
    rig->source = rig->adapter->open(rig, 0);
    struct ks_reader *reader = stream_rig_open_inside(rig, FIRST, put[0].sequence, 1);
    stream_rig_collect(rig, reader, 2, 10, &copy);
    EXPECT_EQ_U64(copy.count, 2);
    for (int at = 0; at < 2; at++) {
        EXPECT_STR(copy.records[at].sequence, put[at].sequence);
        EXPECT(copy.records[at].aggregated);
        EXPECT_EQ_I64(copy.records[at].sub_sequence, -1);
    }
    stream_rig_close(rig, reader);
    rig->source->vtable->close(rig->source);
    rig->source = before;
}

void stream_suite_a_broken_aggregate_comes_as_it_is(struct stream_rig *rig)
{
    static struct stream_copy copy;
    struct ks_put_entry entry = {.partition_key = KS_VIEW("raw")};
    struct ks_put_result put[3];
    struct ks_bytes bytes;

    ks_bytes_init(&bytes, 4096);
    EXPECT_OK(ks_bytes_append(&bytes, KS_VIEW("no protobuf")));
    kpl_frame(&bytes);
    entry.data = ks_bytes_view(&bytes);
    put_aggregate(rig, "one", 2, &put[0]);
    rig->adapter->put(rig, &entry, &put[1]);
    put_aggregate(rig, "two", 1, &put[2]);
    stream_rig_collect_from(rig, FIRST, KS_POSITION_TRIM_HORIZON, NULL, 0, 4, &copy);
    EXPECT_EQ_U64(copy.count, 4);
    expect_user(&copy.records[1], &put[0], "one", 1);
    EXPECT_STR(copy.records[2].sequence, put[1].sequence);
    EXPECT_STR(copy.records[2].key, "raw");
    EXPECT_EQ_I64(copy.records[2].sub_sequence, -1);
    EXPECT(copy.records[2].aggregated);
    EXPECT_EQ_U64(copy.records[2].size, bytes.size);
    EXPECT_EQ_U64(copy.records[2].sum, stream_rig_sum(bytes.data, bytes.size));
    expect_user(&copy.records[3], &put[2], "two", 0);
    ks_bytes_free(&bytes);
}

/* A producer that did not know of a split packs for the parent; what did not land where it belongs it puts again, and
 * only that. */
void stream_suite_what_a_reshard_put_twice_comes_once(struct stream_rig *rig)
{
    static const char *const keys[] = {"k"};
    const struct kpl_record records[] = {{.data = KS_VIEW("low 0"), .hash_key = "0"},
                                         {.data = KS_VIEW("high 1"), .hash_key = MIDDLE},
                                         {.data = KS_VIEW("low 2"), .hash_key = "7"}};
    static struct stream_listing listing;
    static struct stream_copy copy;
    struct ks_put_entry entry = {.partition_key = KS_VIEW("raw"),
                                 .explicit_hash_key = KS_VIEW("0")};
    struct ks_put_result put;
    struct ks_bytes bytes;

    rig->adapter->split(rig, FIRST, MIDDLE);
    ks_bytes_init(&bytes, 4096);
    kpl_pack(&bytes, keys, 1, records, 3);
    entry.data = ks_bytes_view(&bytes);
    rig->adapter->put(rig, &entry, &put);
    EXPECT_STR(put.shard, SECOND);
    kpl_pack(&bytes, keys, 1, &records[1], 1);
    entry.data = ks_bytes_view(&bytes);
    entry.explicit_hash_key = ks_view_text(MIDDLE);
    rig->adapter->put(rig, &entry, &put);
    EXPECT_STR(put.shard, THIRD);
    ks_bytes_free(&bytes);

    stream_rig_list(rig, rig->source, 0, &listing);
    EXPECT_EQ_U64(listing.count, 3);
    for (uint32_t at = 1; at < 3; at++) {
        const struct ks_shard_listing *shard = &listing.shards[at];
        struct ks_reader *reader =
            stream_rig_open(rig, shard->shard, KS_POSITION_TRIM_HORIZON, NULL, 0);
        rig->source->vtable->set_range(reader, shard->hash_start, shard->hash_end);
        stream_rig_collect(rig, reader, at == 1 ? 2 : 1, 10, &copy);
        EXPECT_EQ_U64(copy.count, at == 1 ? 2 : 1);
        EXPECT_STR((char *)copy.records[0].data, at == 1 ? "low 0" : "high 1");
        if (at == 1)
            EXPECT_STR((char *)copy.records[1].data, "low 2");
        stream_rig_close(rig, reader);
    }
}
