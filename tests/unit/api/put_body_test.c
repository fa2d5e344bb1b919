/* SPDX-License-Identifier: Apache-2.0 */
#include "api/put_body.h"
#include "base/budget.h"
#include "ks_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ks_put_body body;
static struct ks_detail detail;

static ks_err read_one(const char *text)
{
    /* A copy on the heap, so that a sanitizer sees a look behind its end. */
    size_t size = strlen(text);
    uint8_t *copy = malloc(size + 1);
    ks_err err;

    memcpy(copy, text, size);
    err = ks_put_body_read(ks_view_of(copy, size), &body, &detail);
    free(copy);
    return err;
}

static bool is(ks_view view, const char *text)
{
    return ks_view_equal(view, ks_view_text(text));
}

TEST(records_are_read_with_their_escapes)
{
    EXPECT_OK(read_one(" {\"StreamName\":\"s\", \"Records\" : [ {\"Data\":\"aGk=\","
                       "\"PartitionKey\":\"a\\u00e9\\ud83d\\ude00\\n\"} ,"
                       "{\"PartitionKey\":\"b\",\"Data\":\"\\/\\/\\/\\/\","
                       "\"ExplicitHashKey\":\"340282366920938463463374607431768211455\"},"
                       "{\"Data\":\"\",\"PartitionKey\":\"c\"}]}\n"));
    EXPECT_EQ_U64(body.count, 3);
    EXPECT(is(body.entries[0].data, "hi"));
    EXPECT(is(body.entries[0].partition_key, "a\xc3\xa9\xf0\x9f\x98\x80\n"));
    EXPECT(is(body.entries[1].data, "\xff\xff\xff"));
    EXPECT(is(body.entries[1].explicit_hash_key, "340282366920938463463374607431768211455"));
    EXPECT_EQ_U64(body.entries[2].data.size, 0);
    ks_put_body_free(&body);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(a_body_is_for_the_stream_that_it_names)
{
#define ONE "\"Records\":[{\"Data\":\"\",\"PartitionKey\":\"a\"}]}"
    static const struct {
        const char *text;
        bool ours;
    } rows[] = {
        {"{" ONE, true},
        {"{\"StreamName\":\"s\"," ONE, true},
        {"{\"StreamName\":\"\"," ONE, false},
        {"{\"StreamName\":\"S\"," ONE, false},
        {"{\"StreamARN\":\"arn:aws:kinesis:us-east-1:1:stream/s\"," ONE, true},
        {"{\"StreamARN\":\"arn:aws:kinesis:us-east-1:1:stream/ss\"," ONE, false},
        {"{\"StreamARN\":\"s\"," ONE, false},
        {"{\"StreamARN\":\"\"," ONE, false},
        {"{\"StreamName\":\"x\",\"StreamARN\":\"arn:x/s\"," ONE, false},
    };
#undef ONE

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        EXPECT_OK(read_one(rows[i].text));
        EXPECT_EQ_I64(ks_put_body_is_for(&body, "s"), rows[i].ours);
        ks_put_body_free(&body);
    }
}

TEST(what_is_not_json_is_refused)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{",
        "{\"Records\":[",
        "{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"a\"}]",
        "{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"a\"},]}",
        "{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"a\",}]}",
        "{\"Records\":[{\"Data\":\"aGk=\" \"PartitionKey\":\"a\"}]}",
        "{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"a\"}]}x",
        "{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"a\"}],\"Records\":[]}",
        "{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"\\u12\"}]}",
        "{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"\\ud800x\"}]}",
        "{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"\\q\"}]}",
        "{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"a\nb\"}]}",
        "{\"Records\":[{\"Data\":\"aGk=\\\"}]}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT_ERR(read_one(bad[i]), MALFORMED);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(what_is_no_such_body_is_named)
{
    static const struct {
        const char *text;
        const char *says;
    } bad[] = {
        {"{}", "1 to 500 records"},
        {"{\"Records\":[]}", "1 to 500 records"},
        {"{\"records\":[]}", "unknown member \"records\""},
        {"{\"Records\":[{\"PartitionKey\":\"a\"}]}", "record 0: Data is missing"},
        {"{\"Records\":[{\"Data\":\"aGk=\"}]}", "record 0: PartitionKey"},
        {"{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"\"}]}", "PartitionKey"},
        {"{\"Records\":[{\"Data\":\"aGk\",\"PartitionKey\":\"a\"}]}", "Data is not base64"},
        {"{\"Records\":[{\"Data\":\"a Gk=\",\"PartitionKey\":\"a\"}]}", "Data is not base64"},
        {"{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"a\",\"X\":1}]}", "unknown member"},
        {"{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"a\",\"ExplicitHashKey\":\"-1\"}]}",
         "ExplicitHashKey"},
        {"{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"a\",\"ExplicitHashKey\":\"01\"}]}",
         "ExplicitHashKey"},
        {"{\"Records\":[{\"Data\":\"aGk=\",\"Data\":\"\",\"PartitionKey\":\"a\"}]}", "twice"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        EXPECT_ERR(read_one(bad[i].text), INVALID);
        EXPECT_CONTAINS(detail.text, bad[i].says);
    }
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(no_more_than_five_hundred_records)
{
    static char text[64 << 10];
    size_t size = (size_t)snprintf(text, sizeof(text), "{\"Records\":[");

    for (int i = 0; i < 501; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size,
                                 "%s{\"Data\":\"aGk=\",\"PartitionKey\":\"a\"}", i > 0 ? "," : "");
    (void)snprintf(text + size, sizeof(text) - size, "]}");
    EXPECT_ERR(read_one(text), FULL);
}

/* Every prefix of a good body ends in an error, and none reads behind its end. */
TEST(a_body_that_is_cut_anywhere_is_refused)
{
    const char *good = "{\"Records\":[{\"Data\":\"aGk=\",\"PartitionKey\":\"\\u00e9\"}]}";
    char text[100];

    for (size_t i = 0; i < strlen(good); i++) {
        (void)snprintf(text, sizeof(text), "%.*s", (int)i, good);
        EXPECT(!ks_ok(read_one(text)));
    }
    EXPECT_OK(read_one(good));
    ks_put_body_free(&body);
}
