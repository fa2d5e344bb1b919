/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dynamodb/letter_item.h"

#include "base/budget.h"
#include "ks_test.h"

#include <stdio.h>

#define SHARD "shardId-000000000007"

static struct ks_bytes body;

/* The body that was written last. */
static const char *text(void)
{
    EXPECT_OK(ks_bytes_append_byte(&body, '\0'));
    return (const char *)body.data;
}

static void begin(void)
{
    ks_bytes_free(&body);
    ks_bytes_init(&body, 1 << 20);
}

static struct ks_letter_place place(const char *stream)
{
    struct ks_letter_place found;

    EXPECT_OK(ks_letter_place_of(KS_VIEW(SHARD ".42.3"), stream, &found));
    return found;
}

static struct ks_letter letter(void)
{
    return (struct ks_letter){.stream = KS_VIEW("orders"),
                              .sub_sequence = 3,
                              .partition_key = KS_VIEW("k"),
                              .reason = KS_VIEW("bad \"input\""),
                              .arrival_ms = 1000,
                              .died_ms = 2000,
                              .expires_ms = 86401000,
                              .attempts = 5,
                              .cause = KS_CAUSE_AGE};
}

/* ---- Places ---- */

TEST(a_place_is_the_shard_and_the_rest_of_the_id)
{
    struct ks_letter_place found = place(NULL);

    EXPECT_STR(found.shard, SHARD);
    EXPECT_STR(found.k, "42.3");
    found = place("arn:aws:kinesis:eu-west-1:000000000000:stream/orders");
    EXPECT_STR(found.shard, "arn:aws:kinesis:eu-west-1:000000000000:stream/orders/" SHARD);
    EXPECT_OK(ks_letter_place_of(KS_VIEW("a.b.42.0"), NULL, &found));
    EXPECT_STR(found.shard, "a.b");
}

TEST(what_is_no_id_of_a_letter_has_no_place)
{
    static const char *const ids[] = {"",        ".",
                                      "..",      "a",
                                      "a.1",     "a.1.",
                                      "a..1",    ".1.1",
                                      "a.1.x",   "a.x.1",
                                      "a.1.-1",  "a.1.1 ",
                                      "a.01.1",  "a.1.111111111111111111111111111111111",
                                      "\xff.1.1"};
    struct ks_letter_place found;

    for (size_t at = 0; at < sizeof ids / sizeof ids[0]; at++)
        if (ks_ok(ks_letter_place_of(ks_view_text(ids[at]), NULL, &found)))
            FAIL("%s is taken for an id", ids[at]);
}

/* ---- Requests ---- */

TEST(a_letter_is_written_unless_a_later_one_is_there)
{
    const struct ks_letter_place at = place(NULL);
    struct ks_letter one = letter();

    begin();
    EXPECT_OK(ks_letter_put_write(&body, "leases", &at, &one));
    EXPECT_STR(
        text(),
        "{\"TableName\":\"leases\",\"Key\":{\"p\":{\"S\":\"letters#" SHARD
        "\"},\"k\":{\"S\":\"42.3\"}},"
        "\"UpdateExpression\":\"SET #stream = :stream, #sub = :sub, #key = :key, #arrived = "
        ":arrived, #first_died = if_not_exists(#first_died, :first_died), #died = :died, #attempts "
        "= :attempts, #cause = :cause, #reason = :reason, #expires = :expires REMOVE #claim, "
        "#claimed_until\","
        "\"ConditionExpression\":\"attribute_not_exists(#attempts) OR #attempts <= :attempts\","
        "\"ExpressionAttributeNames\":{\"#stream\":\"stream\",\"#sub\":\"sub\",\"#key\":\"key\","
        "\"#arrived\":\"arrived\",\"#first_died\":\"first_died\",\"#died\":\"died\","
        "\"#attempts\":\"attempts\",\"#cause\":\"cause\",\"#reason\":\"reason\","
        "\"#expires\":\"expires\",\"#claim\":\"claim\",\"#claimed_until\":\"claimed_until\"},"
        "\"ExpressionAttributeValues\":{\":stream\":{\"S\":\"orders\"},"
        "\":sub\":{\"N\":\"3\"},\":key\":{\"S\":\"k\"},\":arrived\":{\"N\":\"1000\"},"
        "\":first_died\":{\"N\":\"2000\"},\":died\":{\"N\":\"2000\"},\":attempts\":{\"N\":\"5\"},"
        "\":cause\":{\"S\":\"age\"},\":reason\":{\"S\":\"bad \\\"input\\\"\"},"
        "\":expires\":{\"N\":\"86401\"}}}");
}

TEST(what_a_letter_does_not_have_is_removed_and_what_is_not_known_is_left)
{
    const struct ks_letter_place at = place(NULL);
    struct ks_letter one = letter();

    one.sub_sequence = -1;
    one.reason = KS_VIEW("");
    one.expires_ms = 0;
    one.partition_key = KS_VIEW("\xff");
    begin();
    EXPECT_OK(ks_letter_put_write(&body, "leases", &at, &one));
    EXPECT_CONTAINS(text(), " REMOVE #sub, #reason, #claim, #claimed_until\"");
    EXPECT_CONTAINS(text(), "\":key\":{\"B\":\"/w==\"}");
    EXPECT(strstr(text(), "expires") == NULL);
}

TEST(a_letter_that_is_there_is_amended_kept_and_removed)
{
    const struct ks_letter_place at = place(NULL);
    struct ks_letter one = letter();

    begin();
    EXPECT_OK(ks_letter_put_amend(&body, "leases", &at, &one));
    EXPECT_CONTAINS(text(),
                    "\"SET #died = :died, #attempts = :attempts, #cause = :cause, #reason = "
                    ":reason REMOVE #claim, #claimed_until\",\"ConditionExpression\":"
                    "\"attribute_exists(#attempts)\"");
    one.data = KS_VIEW("data");
    begin();
    EXPECT_OK(ks_letter_put_keep(&body, "leases", &at, &one));
    EXPECT_CONTAINS(text(), "\"SET #data = :data REMOVE #expires\",\"ConditionExpression\":"
                            "\"attribute_exists(#attempts)\"");
    EXPECT_CONTAINS(text(), "{\":data\":{\"B\":\"ZGF0YQ==\"}}");
    begin();
    EXPECT_OK(ks_letter_put_remove(&body, "leases", &at, KS_VIEW("")));
    EXPECT_STR(text(), "{\"TableName\":\"leases\",\"Key\":{\"p\":{\"S\":\"letters#" SHARD
                       "\"},\"k\":{\"S\":\"42.3\"}},\"ConditionExpression\":"
                       "\"attribute_exists(k)\"}");
}

TEST(a_claim_is_made_unless_another_one_lasts_and_ends_with_what_it_was_for)
{
    const struct ks_letter_place at = place(NULL);
    struct ks_letter one = letter();

    one.claim = KS_VIEW("pod-a#1.0");
    begin();
    EXPECT_OK(ks_letter_put_claim(&body, "leases", &at, &one, 1000));
    EXPECT_CONTAINS(text(), "\":attempts\":{\"N\":\"5\"}");
    EXPECT_CONTAINS(
        text(), "\"UpdateExpression\":\"SET #claim = :claim, #claimed_until = :claimed_until\"");
    EXPECT_CONTAINS(text(),
                    "\"ConditionExpression\":\"#attempts = :attempts AND "
                    "(attribute_not_exists(#claim) OR #claim = :claim OR #claimed_until < :now)\"");
    EXPECT_CONTAINS(text(), "\":claim\":{\"S\":\"pod-a#1.0\"},\":claimed_until\":{\"N\":\"61000\"},"
                            "\":now\":{\"N\":\"1000\"}}");
    begin();
    EXPECT_OK(ks_letter_put_amend(&body, "leases", &at, &one));
    EXPECT_CONTAINS(text(),
                    " REMOVE #claim, #claimed_until\",\"ConditionExpression\":\"#claim = :claim\"");
    EXPECT_CONTAINS(text(), "\":claim\":{\"S\":\"pod-a#1.0\"}");
    begin();
    EXPECT_OK(ks_letter_put_remove(&body, "leases", &at, one.claim));
    EXPECT_CONTAINS(text(),
                    "\"ConditionExpression\":\"#claim = :claim\",\"ExpressionAttributeNames\":"
                    "{\"#claim\":\"claim\"},\"ExpressionAttributeValues\":"
                    "{\":claim\":{\"S\":\"pod-a#1.0\"}}}");
}

TEST(lists_are_of_a_partition_behind_a_place)
{
    struct ks_letter_place at = place("orders");

    begin();
    EXPECT_OK(ks_letter_put_list(&body, "leases", &at, 7));
    EXPECT_STR(text(), "{\"TableName\":\"leases\",\"KeyConditionExpression\":\"p = :p AND k > :k\","
                       "\"ConsistentRead\":true,\"Limit\":7,\"ExpressionAttributeValues\":{\":k\":{"
                       "\"S\":\"42.3\"},\":p\":{\"S\":\"letters#orders/" SHARD "\"}}}");
    at.k[0] = '\0';
    begin();
    EXPECT_OK(ks_letter_put_list(&body, "leases", &at, 7));
    EXPECT_CONTAINS(text(), "\"KeyConditionExpression\":\"p = :p\"");
    begin();
    EXPECT_OK(ks_letter_put_next_shard(&body, "leases", SHARD));
    EXPECT_CONTAINS(text(), "\"Limit\":1,\"ExpressionAttributeValues\":{\":k\":{\"S\":\"" SHARD
                            "\"},\":p\":{\"S\":\"letters\"}}");
}

TEST(the_directory_has_a_shard_until_it_expires_or_for_good)
{
    begin();
    EXPECT_OK(ks_letter_put_note(&body, "leases", SHARD, 99));
    EXPECT_CONTAINS(text(), "\"SET #shard = :shard, #expires = :expires\",\"ConditionExpression\":"
                            "\"attribute_not_exists(#shard) OR #expires < :expires\"");
    begin();
    EXPECT_OK(ks_letter_put_note(&body, "leases", SHARD, 0));
    EXPECT_CONTAINS(text(), "\"SET #shard = :shard REMOVE #expires\",\"ConditionExpression\":"
                            "\"attribute_not_exists(#shard) OR attribute_exists(#expires)\"");
}

/* ---- Items ---- */

static struct ks_json *document;
static struct ks_bytes bytes;

/* Reads an item; the damage that was found, or "". */
static const char *read_item_of(const char *stream, const char *json, struct ks_letter *ret_letter)
{
    const char *damage;

    ks_json_free(document);
    document = NULL;
    EXPECT_OK(ks_json_parse(ks_view_text(json), &document));
    ks_bytes_free(&bytes);
    ks_bytes_init(&bytes, 1 << 20);
    EXPECT_OK(ks_bytes_reserve(&bytes, ks_letter_item_bytes(document)));
    damage = ks_letter_read(document, stream, &bytes, ret_letter);
    return damage == NULL ? "" : damage;
}

static const char *read_item(const char *json, struct ks_letter *ret_letter)
{
    return read_item_of(NULL, json, ret_letter);
}

static void end(void)
{
    ks_json_free(document);
    ks_bytes_free(&bytes);
    ks_bytes_free(&body);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

#define KEYS "\"p\":{\"S\":\"letters#" SHARD "\"},\"k\":{\"S\":\"42.3\"}"

TEST(an_item_is_the_letter_that_was_written)
{
    struct ks_letter read;

    EXPECT_STR(
        read_item("{" KEYS
                  ",\"stream\":{\"S\":\"orders\"},\"sub\":{\"N\":\"3\"},\"key\":{\"B\":\"/w==\"},"
                  "\"arrived\":{\"N\":\"1000\"},\"first_died\":{\"N\":\"1500\"},\"died\":{\"N\":"
                  "\"2000\"},"
                  "\"attempts\":{\"N\":\"5\"},\"cause\":{\"S\":\"age\"},\"reason\":{\"S\":\"bad\"},"
                  "\"claim\":{\"S\":\"pod-a#1.0\"},\"claimed_until\":{\"N\":\"3000\"},"
                  "\"expires\":{\"N\":\"86401\"},\"later\":{\"M\":{}}}",
                  &read),
        "");
    EXPECT(ks_view_equal(read.id, KS_VIEW(SHARD ".42.3")));
    EXPECT(ks_view_equal(read.shard_id, KS_VIEW(SHARD)));
    EXPECT(ks_view_equal(read.sequence, KS_VIEW("42")));
    EXPECT(ks_view_equal(read.stream, KS_VIEW("orders")));
    EXPECT(ks_view_equal(read.partition_key, KS_VIEW("\xff")));
    EXPECT(ks_view_equal(read.reason, KS_VIEW("bad")));
    EXPECT_EQ_I64(read.sub_sequence, 3);
    EXPECT_EQ_I64(read.arrival_ms, 1000);
    EXPECT_EQ_I64(read.first_died_ms, 1500);
    EXPECT_EQ_I64(read.died_ms, 2000);
    EXPECT_EQ_I64(read.expires_ms, 86401000);
    EXPECT(ks_view_equal(read.claim, KS_VIEW("pod-a#1.0")));
    EXPECT_EQ_I64(read.claimed_until_ms, 3000);
    EXPECT_EQ_U64(read.attempts, 5);
    EXPECT_EQ_I64(read.cause, KS_CAUSE_AGE);
    EXPECT(read.pointer);
    EXPECT_STR(
        read_item("{" KEYS ",\"stream\":{\"S\":\"o\"},\"data\":{\"B\":\"ZGF0YQ==\"}}", &read), "");
    EXPECT(!read.pointer);
    EXPECT(ks_view_equal(read.data, KS_VIEW("data")));
    end();
}

TEST(what_no_letter_of_ours_has_is_named)
{
    static const struct {
        const char *json, *damage;
    } items[] = {
        {"{}", "k"},
        {"{\"p\":{\"S\":\"s\"},\"k\":{\"S\":\"" SHARD "\"}}", "k"},
        {"{\"p\":{\"S\":\"letters#" SHARD "\"},\"k\":{\"S\":\"42\"}}", "k"},
        {"{\"p\":{\"S\":\"letters#" SHARD "\"},\"k\":{\"N\":\"42\"}}", "k"},
        {"{\"p\":{\"S\":\"letters#\"},\"k\":{\"S\":\"42.0\"}}", "k"},
        {"{" KEYS "}", "stream"},
        {"{" KEYS ",\"stream\":{\"S\":\"a\\\"b\"}}", "stream"},
        {"{" KEYS ",\"stream\":{\"S\":\"o\"},\"key\":{\"N\":\"1\"}}", "key"},
        {"{" KEYS ",\"stream\":{\"S\":\"o\"},\"key\":{\"B\":\"*\"}}", "key"},
        {"{" KEYS ",\"stream\":{\"S\":\"o\"},\"reason\":{\"B\":\"/w==\"}}", "reason"},
        {"{" KEYS ",\"stream\":{\"S\":\"o\"},\"data\":{\"S\":\"text\"}}", "data"},
        {"{" KEYS ",\"stream\":{\"S\":\"o\"},\"data\":{\"B\":\"=\"}}", "data"},
    };
    struct ks_letter read;

    for (size_t at = 0; at < sizeof items / sizeof items[0]; at++)
        EXPECT_STR(read_item(items[at].json, &read), items[at].damage);
    end();
}

/* The streams "demo" and "demo/a" may share a table, and no character is cut in two. */
TEST(an_item_of_another_stream_is_no_letter)
{
    static const struct {
        const char *shard, *damage;
    } items[] = {{"demo/" SHARD, ""},         {SHARD, "k"},           {"demo" SHARD, "k"},
                 {"demo\xd1\x8c" SHARD, "k"}, {"orders/" SHARD, "k"}, {"demo/", "k"}};
    struct ks_letter read;
    char json[256];

    for (size_t at = 0; at < sizeof items / sizeof items[0]; at++) {
        (void)snprintf(
            json, sizeof json,
            "{\"p\":{\"S\":\"letters#%s\"},\"k\":{\"S\":\"42.0\"},\"stream\":{\"S\":\"demo\"}}",
            items[at].shard);
        EXPECT_STR(read_item_of("demo", json, &read), items[at].damage);
        EXPECT_EQ_U64(read.shard_id.size, items[at].damage[0] == '\0' ? strlen(SHARD) : 0);
    }
    end();
}

TEST(numbers_of_an_item_become_the_nearest_that_can_be)
{
    static const char *const extremes[] = {"-9223372036854775808", "9223372036854775807", "x",
                                           "1.5"};
    struct ks_letter read;
    char json[400];

    for (size_t at = 0; at < sizeof extremes / sizeof extremes[0]; at++) {
        const char *const n = extremes[at];

        (void)snprintf(json, sizeof json,
                       "{" KEYS
                       ",\"stream\":{\"S\":\"o\"},\"sub\":{\"N\":\"%s\"},\"attempts\":{\"N\":"
                       "\"%s\"},\"arrived\":{\"N\":\"%s\"},\"expires\":{\"N\":\"%s\"}}",
                       n, n, n, n);
        EXPECT_STR(read_item(json, &read), "");
        EXPECT(read.sub_sequence >= -1 && read.sub_sequence <= UINT32_MAX);
        EXPECT(read.attempts <= INT32_MAX);
        EXPECT(read.arrival_ms >= 0 && read.arrival_ms <= INT64_C(253402300799999));
        EXPECT(read.expires_ms >= 0 && read.expires_ms <= INT64_C(253402300799999));
    }
    end();
}

TEST(the_directory_names_shards)
{
    char shard[KS_LETTER_SHARD_MAX + 1];

    EXPECT_OK(ks_json_parse(KS_VIEW("{\"k\":{\"S\":\"" SHARD "\"}}"), &document));
    EXPECT_OK(ks_letter_read_shard(document, shard));
    EXPECT_STR(shard, SHARD);
    ks_json_free(document);
    EXPECT_OK(ks_json_parse(KS_VIEW("{\"k\":{\"S\":\"\"}}"), &document));
    EXPECT(!ks_ok(ks_letter_read_shard(document, shard)));
    end();
}
