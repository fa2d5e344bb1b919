/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/s3/letter_object.h"

#include "base/budget.h"
#include "core/limits.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>

/* ---- Keys ---- */

static const char *key_of(const char *id)
{
    static char key[KS_S3_KEY_MAX + 1];

    EXPECT_OK(ks_letter_key_put("f/", ks_view_text(id), key));
    return key;
}

static void expect_key(const char *id, const char *key)
{
    char again[KS_LETTER_ID_MAX + 1];

    EXPECT_STR(key_of(id), key);
    EXPECT_OK(ks_letter_key_read("f/", key, again));
    EXPECT_STR(again, id);
}

#define ZEROS_50 "00000000000000000000000000000000000000000000000000"

TEST(keys_name_shard_and_numbers)
{
    expect_key("shardId-000000000003.0.0",
               "f/shardId-000000000003/" ZEROS_50 "000000.0000000000.json");
    expect_key("s.b.7.12", "f/s.b/" ZEROS_50 "000007.0000000012.json");
    expect_key("s.49680602566736911939230238460098022839661924112930963458.0",
               "f/s/49680602566736911939230238460098022839661924112930963458.0000000000.json");
    expect_key("s.149680602566736911939230238460098022839661924112930963458.4294967295",
               "f/s/~" ZEROS_50 "0000000000000000000000"
               "149680602566736911939230238460098022839661924112930963458.4294967295.json");
}

TEST(keys_sort_as_their_numbers_do)
{
    static const char *const ids[] = {
        "s.0.0",
        "s.9.0",
        "s.10.0",
        "s.10.1",
        "s.10.10",
        "s.99999999999999999999999999999999999999999999999999999999.0",
        "s.100000000000000000000000000000000000000000000000000000000.0",
        "s.900000000000000000000000000000000000000000000000000000000.0",
        "s.1000000000000000000000000000000000000000000000000000000000.0",
        "t.1.0",
    };
    char before[KS_S3_KEY_MAX + 1] = "";

    for (size_t at = 0; at < sizeof(ids) / sizeof(ids[0]); at++) {
        EXPECT(strcmp(before, key_of(ids[at])) < 0);
        (void)snprintf(before, sizeof(before), "%s", key_of(ids[at]));
    }
}

TEST(ids_that_no_letter_has_have_no_key)
{
    static const char *const ids[] = {"",       "x",       "s.1",      ".1.0",           "..1.0",
                                      "...1.0", "s.x.0",   "s.1.x",    "s..0",           "s.1.",
                                      "s.01.0", "s.1.00",  "s/t.1.0",  "s%.1.0",         "s.-1.0",
                                      "s.1.0 ", "s\n.1.0", "\xff.1.0", "s.1.12345678901"};
    char key[KS_S3_KEY_MAX + 1];

    for (size_t at = 0; at < sizeof(ids) / sizeof(ids[0]); at++)
        EXPECT_ERR(ks_letter_key_put("f/", ks_view_text(ids[at]), key), INVALID);
}

TEST(keys_of_others_are_not_letters)
{
    static const char *const keys[] = {
        "",
        "f/",
        "g/s/" ZEROS_50 "000007.0000000012.json",
        "f/s",
        "f/s/",
        "f/s/README.txt",
        "f/s/7.12.json",
        "f/s/" ZEROS_50 "000007.0000000012.JSON",
        "f/s/" ZEROS_50 "000007.0000000012",
        "f/s/" ZEROS_50 "000007.000000012.json",
        "f/s/~" ZEROS_50 "000007.0000000012.json",
        "f/s/t/" ZEROS_50 "000007.0000000012.json",
        "f//" ZEROS_50 "000007.0000000012.json",
        "f/../" ZEROS_50 "000007.0000000012.json",
        "f/s/" ZEROS_50 "00000x.0000000012.json",
        "f/s/" ZEROS_50 "000007.0000000012.json.bak",
    };
    char id[KS_LETTER_ID_MAX + 1];

    for (size_t at = 0; at < sizeof(keys) / sizeof(keys[0]); at++)
        EXPECT_ERR(ks_letter_key_read("f/", keys[at], id), INVALID);
}

/* ---- Objects ---- */

static struct ks_bytes written;
static struct ks_bytes work;
static struct ks_letter_object object;

static void begin(void)
{
    ks_bytes_init(&written, KS_LETTER_OBJECT_MAX);
    ks_bytes_init(&work, KS_LETTER_OBJECT_MAX + KS_LETTER_OBJECT_HEAD_MAX);
}

static void finish(void)
{
    ks_bytes_free(&written);
    ks_bytes_free(&work);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static struct ks_letter sample(void)
{
    return (struct ks_letter){
        .id = KS_VIEW("s.7.0"),
        .stream = KS_VIEW("arn:aws:kinesis:eu-west-1:123456789012:stream/demo"),
        .shard_id = KS_VIEW("s"),
        .sequence = KS_VIEW("7"),
        .sub_sequence = -1,
        .partition_key = KS_VIEW("k\"1"),
        .data = KS_VIEW("any\0bytes"),
        .reason = KS_VIEW("bad"),
        .arrival_ms = 1795219200000,
        .died_ms = 1795219202000,
        .first_died_ms = 1795219201000,
        .attempts = 3,
        .cause = KS_CAUSE_AGE,
    };
}

static void write_and_read(const struct ks_letter *letter)
{
    ks_bytes_clear(&written);
    EXPECT_OK(ks_letter_object_put(&written, letter));
    EXPECT_OK(ks_letter_object_read(ks_bytes_view(&written), letter->id, &work, &object));
}

TEST(an_object_is_one_line_of_json_that_a_person_can_read)
{
    const struct ks_letter letter = sample();

    begin();
    EXPECT_OK(ks_letter_object_put(&written, &letter));
    EXPECT(ks_view_equal(
        ks_bytes_view(&written),
        KS_VIEW(
            "{\"id\":\"s.7.0\",\"stream\":\"arn:aws:kinesis:eu-west-1:123456789012:stream/demo\","
            "\"shard_id\":\"s\",\"sequence_number\":\"7\",\"partition_key\":\"k\\\"1\","
            "\"approximate_arrival_timestamp\":\"2026-11-21T00:00:00.000Z\","
            "\"first_died_at\":\"2026-11-21T00:00:01.000Z\","
            "\"died_at\":\"2026-11-21T00:00:02.000Z\",\"attempts\":3,\"cause\":\"age\","
            "\"reason\":\"bad\",\"data\":\"YW55AGJ5dGVz\"}\n")));
    finish();
}

TEST(a_claim_is_read_as_it_was_written)
{
    struct ks_letter letter = sample();

    begin();
    letter.claim = KS_VIEW("pod-1#00ff.7");
    letter.claimed_until_ms = 1795219262000;
    write_and_read(&letter);
    EXPECT(object.damage == NULL);
    EXPECT(ks_view_equal(object.letter.claim, letter.claim));
    EXPECT_EQ_I64(object.letter.claimed_until_ms, letter.claimed_until_ms);
    ks_letter_object_free(&object);
    letter.claim = KS_VIEW("");
    write_and_read(&letter);
    EXPECT_EQ_U64(object.letter.claim.size, 0);
    EXPECT_EQ_I64(object.letter.claimed_until_ms, 0);
    ks_letter_object_free(&object);
    finish();
}

TEST(a_letter_is_read_as_it_was_written)
{
    struct ks_letter letter = sample();

    begin();
    write_and_read(&letter);
    EXPECT(object.damage == NULL);
    EXPECT(ks_view_equal(object.letter.id, letter.id));
    EXPECT(ks_view_equal(object.letter.stream, letter.stream));
    EXPECT(ks_view_equal(object.letter.shard_id, letter.shard_id));
    EXPECT(ks_view_equal(object.letter.sequence, letter.sequence));
    EXPECT(ks_view_equal(object.letter.partition_key, letter.partition_key));
    EXPECT(ks_view_equal(object.letter.data, letter.data));
    EXPECT(ks_view_equal(object.letter.reason, letter.reason));
    EXPECT_EQ_I64(object.letter.sub_sequence, -1);
    EXPECT_EQ_I64(object.letter.arrival_ms, letter.arrival_ms);
    EXPECT_EQ_I64(object.letter.died_ms, letter.died_ms);
    EXPECT_EQ_I64(object.letter.first_died_ms, letter.first_died_ms);
    EXPECT_EQ_U64(object.letter.attempts, 3);
    EXPECT_EQ_I64(object.letter.cause, KS_CAUSE_AGE);
    ks_letter_object_free(&object);

    letter.id = KS_VIEW("s.7.3");
    letter.sub_sequence = 3;
    letter.partition_key = KS_VIEW("\xff\0k");
    letter.reason = KS_VIEW("a\0b");
    letter.data = KS_VIEW("");
    letter.first_died_ms = letter.arrival_ms = 0;
    write_and_read(&letter);
    EXPECT(object.damage == NULL);
    EXPECT_EQ_I64(object.letter.sub_sequence, 3);
    EXPECT(ks_view_equal(object.letter.partition_key, letter.partition_key));
    EXPECT(ks_view_equal(object.letter.reason, letter.reason));
    EXPECT_EQ_U64(object.letter.data.size, 0);
    EXPECT_EQ_I64(object.letter.first_died_ms, 0);
    ks_letter_object_free(&object);
    finish();
}

TEST(the_largest_record_fits)
{
    static uint8_t data[KS_RECORD_BYTES_MAX];
    static uint8_t key[KS_PARTITION_KEY_MAX];
    static uint8_t reason[KS_LETTER_REASON_MAX];
    struct ks_letter letter = sample();

    begin();
    memset(data, 0xff, sizeof(data));
    memset(key, 1, sizeof(key)); /* Six characters each. */
    memset(reason, 2, sizeof(reason));
    letter.data = ks_view_of(data, sizeof(data));
    letter.partition_key = ks_view_of(key, sizeof(key));
    letter.reason = ks_view_of(reason, sizeof(reason));
    write_and_read(&letter);
    EXPECT(object.damage == NULL);
    EXPECT(ks_view_equal(object.letter.data, letter.data));
    EXPECT(ks_view_equal(object.letter.partition_key, letter.partition_key));
    ks_letter_object_free(&object);
    finish();
}

static const char *damage_of(ks_view text)
{
    const char *damage;

    EXPECT_OK(ks_letter_object_read(text, KS_VIEW("s.7.0"), &work, &object));
    damage = object.damage;
    EXPECT(ks_view_equal(object.letter.id, KS_VIEW("s.7.0")));
    ks_letter_object_free(&object);
    return damage == NULL ? "" : damage;
}

#define HEAD                                                                                       \
    "{\"id\":\"s.7.0\",\"stream\":\"demo\",\"partition_key\":\"k\",\"attempts\":1,"                \
    "\"cause\":\"asked\",\"reason\":\"\""

TEST(json_that_was_formatted_anew_is_read)
{
    begin();
    EXPECT_STR(damage_of(KS_VIEW(HEAD ",\"data\":\"ZGF0YQ==\"}")), "");
    EXPECT_STR(damage_of(KS_VIEW(HEAD ",\n  \"data\" : \"ZGF0YQ==\" \r\n}\n\n")), "");
    EXPECT_STR(damage_of(KS_VIEW(HEAD ",\"note\":[{\"more\":1}],\"data\":\"\"}")), "");
    finish();
}

TEST(what_others_damaged_is_named)
{
    static const struct {
        const char *text;
        const char *damage;
    } cases[] = {
        {"", "JSON"},
        {"{}", "JSON"},
        {"null", "JSON"},
        {"\"}", "JSON"},
        {"\"\"}", "JSON"},
        {":\"\"}", "JSON"},
        {",\"data\":\"\"}", "JSON"},
        {"[1,\"data\":\"\"}", "JSON"},
        {HEAD ",\"data\":\"ZGF0YQ==\"", "JSON"},
        {HEAD ",\"data\":\"ZGF0YQ==\"}}", "JSON"},
        {HEAD ",\"data\":\"ZGF0!YQ==\"}", "JSON"},
        {HEAD ",\"data\":7}", "JSON"},
        {HEAD ",\"data\":\"\",\"more\":1}", "JSON"},
        {HEAD " \"data\":\"\"}", "JSON"},
        {HEAD ",\"reason\":\"x,\\\"data\\\":\\\"abcd\"}", "JSON"},
        {HEAD ",\"id\":\"twice\",\"data\":\"\"}", "JSON"},
        {HEAD ",\"data\":\"ZGF0YQ=\"}", "data"},
        {HEAD ",\"data\":\"=\"}", "data"},
        {"{\"id\":\"s.8.0\",\"stream\":\"demo\",\"partition_key\":\"k\",\"attempts\":1,\"cause\":"
         "\"asked\",\"reason\":\"\",\"data\":\"\"}",
         "id"},
        {"{\"id\":\"s.7.0\",\"partition_key\":\"k\",\"attempts\":1,\"cause\":\"asked\",\"reason\":"
         "\"\",\"data\":\"\"}",
         "stream"},
        {"{\"id\":\"s.7.0\",\"stream\":\"a b\",\"partition_key\":\"k\",\"attempts\":1,\"cause\":"
         "\"asked\",\"reason\":\"\",\"data\":\"\"}",
         "stream"},
        {"{\"id\":\"s.7.0\",\"stream\":\"demo\",\"attempts\":1,\"cause\":\"asked\",\"reason\":\"\","
         "\"data\":\"\"}",
         "partition_key"},
        {"{\"id\":\"s.7.0\",\"stream\":\"demo\",\"partition_key_base64\":\"!\",\"attempts\":1,"
         "\"cause\":\"asked\",\"reason\":\"\",\"data\":\"\"}",
         "partition_key_base64"},
        {"{\"id\":\"s.7.0\",\"stream\":\"demo\",\"partition_key\":\"k\",\"attempts\":-1,\"cause\":"
         "\"asked\",\"reason\":\"\",\"data\":\"\"}",
         "attempts"},
        {"{\"id\":\"s.7.0\",\"stream\":\"demo\",\"partition_key\":\"k\",\"attempts\":4294967295,"
         "\"cause\":\"asked\",\"reason\":\"\",\"data\":\"\"}",
         "attempts"},
        {"{\"id\":\"s.7.0\",\"stream\":\"demo\",\"partition_key\":\"k\",\"attempts\":1,\"cause\":"
         "\"none\",\"reason\":\"\",\"data\":\"\"}",
         "cause"},
        {"{\"id\":\"s.7.0\",\"stream\":\"demo\",\"partition_key\":\"k\",\"attempts\":1,\"cause\":"
         "\"asked\",\"reason\":7,\"data\":\"\"}",
         "reason"},
        {HEAD ",\"died_at\":17,\"data\":\"\"}", "died_at"},
        {HEAD ",\"died_at\":\"yesterday\",\"data\":\"\"}", "died_at"},
        {HEAD ",\"first_died_at\":\"1969-12-31T23:59:59.000Z\",\"data\":\"\"}", "first_died_at"},
        {HEAD ",\"sub_sequence_number\":4,\"data\":\"\"}", "sub_sequence_number"},
    };

    begin();
    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++)
        EXPECT_STR(damage_of(ks_view_text(cases[at].text)), cases[at].damage);
    finish();
}

TEST(a_head_that_is_too_large_or_too_deep_is_damage)
{
    static char text[2 * KS_LETTER_OBJECT_HEAD_MAX];
    size_t size = strlen(HEAD ",\"note\":");

    begin();
    memcpy(text, HEAD ",\"note\":", size);
    memset(text + size, ' ', KS_LETTER_OBJECT_HEAD_MAX);
    size += KS_LETTER_OBJECT_HEAD_MAX;
    strcpy(text + size, "1,\"data\":\"\"}");
    EXPECT_STR(damage_of(ks_view_text(text)), "JSON");
    size = strlen(HEAD ",\"note\":");
    memset(text + size, '[', 1000);
    memset(text + size + 1000, ']', 1000);
    strcpy(text + size + 2000, ",\"data\":\"\"}");
    EXPECT_STR(damage_of(ks_view_text(text)), "JSON");
    finish();
}

TEST(every_allocation_that_fails_is_told)
{
    const struct ks_letter letter = sample();

    begin();
    EXPECT_OK(ks_letter_object_put(&written, &letter));
    for (uint64_t n = 1; n < 60; n++) {
        ks_bytes_free(&work);
        ks_alloc_fail_after(n, 0);
        const ks_err err =
            ks_letter_object_read(ks_bytes_view(&written), letter.id, &work, &object);
        ks_alloc_fail_after(0, 0);
        EXPECT(ks_ok(err) || ks_err_is(err, KS_ERR_NO_MEMORY));
        if (ks_ok(err)) {
            EXPECT(object.damage == NULL);
            ks_letter_object_free(&object);
        }
    }
    finish();
}
