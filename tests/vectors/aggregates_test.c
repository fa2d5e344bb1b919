/* SPDX-License-Identifier: Apache-2.0 */
/* aggregates_test.c - records packed by the Kinesis Producer Library and others, and what is in them.
 *
 * tests/vectors/aggregates.json is ours (make_aggregates.py). In VECTORS_DIR, where it is set:
 * aggregation/aggregated.json, with records of the real KPL. What that file calls not aggregated is no aggregate here,
 * or a broken one.
 */
#include "ks_test.h"

#include "adapters/kinesis/aggregate.h"
#include "base/codec.h"
#include "vectors/vectors.h"

enum { RECORD_MAX = 1 << 20 };

/* What is expected of a user record, in the words of either file. */
struct words {
    const char *key;
    const char *hash;
    const char *data;
    const char *effective;
};

static const struct words OURS = {"key", "hash", "data", "effective"};
static const struct words THEIRS = {"partitionKey", "explicitHashKey", "data_b64",
                                    "effectiveHashKey"};

static ks_view text_of(const json_t *object, const char *name)
{
    const json_t *text = json_object_get(object, name);

    return ks_view_of(json_string_value(text), json_string_length(text));
}

/* A copy of exactly that size, so that a sanitizer sees a read beyond it. */
static ks_view decode(const json_t *object, const char *name, uint8_t **ret_memory)
{
    ks_view text = text_of(object, name);
    uint8_t *room = ks_alloc(ks_base64_decoded_max(text.size) + 32);
    size_t size = 0;

    EXPECT_OK(ks_base64_decode(text, room, &size));
    *ret_memory = ks_alloc(size);
    if (size > 0)
        memcpy(*ret_memory, room, size);
    ks_free(room);
    return ks_view_of(*ret_memory, size);
}

static void expect_user(const char *name, const struct ks_user_record *user, const json_t *expected,
                        const struct words *words)
{
    uint8_t *memory;
    ks_view data = decode(expected, words->data, &memory);

    if (!ks_view_equal(user->data, data))
        FAIL("%s: data of %" PRId64 " is not as expected", name, user->sub_sequence);
    if (!ks_view_equal(user->partition_key, text_of(expected, words->key)))
        FAIL("%s: key of %" PRId64 " is not as expected", name, user->sub_sequence);
    if (!ks_view_equal(user->explicit_hash_key, text_of(expected, words->hash)))
        FAIL("%s: hash key of %" PRId64 " is not as expected", name, user->sub_sequence);
    ks_free(memory);
}

/* All of them, and which are foreign to a shard that has nothing but `range` (NULL: all). */
static void expect_users(const char *name, ks_view data, const json_t *expected,
                         const struct words *words, const struct ks_hash_range *range)
{
    struct ks_aggregate aggregate;
    struct ks_user_record user;
    struct ks_budget budget;
    ks_hash_key effective = 0;
    size_t count = 0;

    ks_budget_init(&budget, RECORD_MAX);
    ks_err err = ks_aggregate_open(data, &budget, &aggregate);
    if (!ks_ok(err))
        FAIL("%s: %s", name, ks_err_name(err));
    EXPECT(budget.used <= 2 * data.size);
    for (; ks_aggregate_next(&aggregate, range, &user); count++) {
        const json_t *one = json_array_get(expected, count);
        EXPECT(one != NULL);
        EXPECT_EQ_U64(user.sub_sequence, count);
        expect_user(name, &user, one, words);
        EXPECT_OK(ks_hash_key_parse(text_of(one, words->effective), &effective));
        EXPECT_EQ_I64(user.foreign,
                      range != NULL && (effective < range->start || effective > range->end));
    }
    EXPECT_EQ_U64(count, json_array_size(expected));
    EXPECT_EQ_U64(aggregate.records, count);
    ks_aggregate_close(&aggregate);
    EXPECT_EQ_U64(budget.used, 0);
}

static void expect_opened(const char *name, ks_view data, const json_t *expected,
                          const struct words *words)
{
    ks_hash_key effective = 0;

    expect_users(name, data, expected, words, NULL);
    for (size_t at = 0; at < json_array_size(expected) && at < 20; at++) {
        const json_t *one = json_array_get(expected, at);
        EXPECT_OK(ks_hash_key_parse(text_of(one, words->effective), &effective));
        struct ks_hash_range ranges[] = {
            {effective, effective}, {effective, KS_HASH_KEY_LAST}, {0, effective}};
        for (int range = 0; range < 3; range++)
            expect_users(name, data, expected, words, &ranges[range]);
    }
}

static void expect_broken(const char *name, ks_view data)
{
    struct ks_aggregate aggregate;
    ks_err err = ks_aggregate_open(data, NULL, &aggregate);

    if (!ks_err_is(err, KS_ERR_MALFORMED))
        FAIL("%s: %s", name, ks_err_name(err));
}

TEST(what_is_packed_comes_out)
{
    static const char path[] = "tests/vectors/aggregates.json";
    json_t *root = vectors_load(path);
    const json_t *cases = json_object_get(root, "cases");
    uint8_t *memory;

    for (size_t at = 0; at < json_array_size(cases); at++) {
        const json_t *one = json_array_get(cases, at);
        const char *name = vectors_text(one, "name");
        const json_t *records = json_object_get(one, "records");
        ks_view data = decode(one, "base64", &memory);

        if (ks_is_aggregate(data) == json_is_true(json_object_get(one, "plain")))
            FAIL("%s: recognised wrongly", name);
        if (records != NULL)
            expect_opened(name, data, records, &OURS);
        else if (ks_is_aggregate(data))
            expect_broken(name, data);
        ks_free(memory);
    }
    vectors_read(json_array_size(cases), 60, path);
    json_decref(root);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(what_others_packed_comes_out)
{
    char path[VECTORS_PATH_MAX];
    const char *name;
    json_t *one;
    uint8_t *memory;

    if (!vectors_path("aggregation/aggregated.json", "aggregates of the KPL", path))
        return;
    json_t *root = vectors_load(path);
    json_t *cases = json_object_get(root, "vectors");
    json_object_foreach(cases, name, one)
    {
        ks_view data = decode(one, "data_b64", &memory);

        if (json_is_true(json_object_get(one, "aggregated"))) {
            EXPECT(ks_is_aggregate(data));
            expect_opened(name, data, json_object_get(one, "user_records"), &THEIRS);
        } else if (ks_is_aggregate(data)) {
            expect_broken(name, data);
        }
        ks_free(memory);
    }
    vectors_read(json_object_size(cases), 17, path);
    json_decref(root);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
