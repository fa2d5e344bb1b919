/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sinks/document.h"

#include "aws/json.h"
#include "base/budget.h"
#include "ks_test.h"

static struct ks_letter letter;
static struct ks_sink_letter sent;
static struct ks_bytes text;
static struct ks_json *document;

static void begin(void)
{
    letter = (struct ks_letter){.id = KS_VIEW("shardId-000000000000.42.0"),
                                .stream = KS_VIEW("orders"),
                                .shard_id = KS_VIEW("shardId-000000000000"),
                                .sequence = KS_VIEW("42"),
                                .sub_sequence = -1,
                                .partition_key = KS_VIEW("key"),
                                .data = KS_VIEW("hello"),
                                .reason = KS_VIEW("bad"),
                                .arrival_ms = 1573692244835,
                                .died_ms = 1573692286021,
                                .attempts = 3,
                                .cause = KS_CAUSE_ATTEMPTS};
    sent = (struct ks_sink_letter){.application = "app", .letter = &letter, .data_bytes = 5};
    ks_bytes_init(&text, 1 << 20);
}

static void make(void)
{
    EXPECT_OK(ks_sink_document(&text, &sent));
    EXPECT_OK(ks_json_parse(ks_bytes_view(&text), &document));
}

static void end(void)
{
    ks_json_free(document);
    document = NULL;
    ks_bytes_free(&text);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static const char *member(const char *object, const char *name)
{
    ks_view value = KS_VIEW("(none)");

    (void)ks_ok(ks_json_text(ks_json_member(ks_json_member(document, object), name), &value));
    return (const char *)value.data;
}

static int64_t number(const char *object, const char *name)
{
    int64_t value = -1;

    (void)ks_ok(ks_json_i64(ks_json_member(ks_json_member(document, object), name), &value));
    return value;
}

TEST(document_has_what_lambda_sends_and_the_record)
{
    ks_view value;
    bool in_stream = true;

    begin();
    make();
    EXPECT_OK(ks_json_text(ks_json_member(document, "version"), &value));
    EXPECT(ks_view_equal(value, KS_VIEW("1.0")));
    EXPECT_OK(ks_json_text(ks_json_member(document, "timestamp"), &value));
    EXPECT(ks_view_equal(value, KS_VIEW("2019-11-14T00:44:46.021Z")));
    EXPECT_STR(member("requestContext", "requestId"), "shardId-000000000000.42.0");
    EXPECT_STR(member("requestContext", "condition"), "RetryAttemptsExhausted");
    EXPECT_EQ_I64(number("requestContext", "approximateInvokeCount"), 3);
    EXPECT_STR(member("KinesisBatchInfo", "shardId"), "shardId-000000000000");
    EXPECT_STR(member("KinesisBatchInfo", "startSequenceNumber"), "42");
    EXPECT_STR(member("KinesisBatchInfo", "endSequenceNumber"), "42");
    EXPECT_STR(member("KinesisBatchInfo", "approximateArrivalOfFirstRecord"),
               "2019-11-14T00:44:04.835Z");
    EXPECT_STR(member("KinesisBatchInfo", "approximateArrivalOfLastRecord"),
               "2019-11-14T00:44:04.835Z");
    EXPECT_EQ_I64(number("KinesisBatchInfo", "batchSize"), 1);
    EXPECT_STR(member("KinesisBatchInfo", "streamArn"), "(none)");
    EXPECT_STR(member("deadLetter", "id"), "shardId-000000000000.42.0");
    EXPECT_STR(member("deadLetter", "application"), "app");
    EXPECT_STR(member("deadLetter", "stream"), "orders");
    EXPECT_STR(member("deadLetter", "partition_key"), "key");
    EXPECT_STR(member("deadLetter", "cause"), "attempts");
    EXPECT_STR(member("deadLetter", "reason"), "bad");
    EXPECT_STR(member("deadLetter", "data"), "aGVsbG8=");
    EXPECT_EQ_I64(number("deadLetter", "data_bytes"), 5);
    EXPECT_EQ_I64(number("deadLetter", "sub_sequence_number"), 0);
    EXPECT_OK(ks_json_bool(ks_json_member(ks_json_member(document, "deadLetter"), "in_stream"),
                           &in_stream));
    EXPECT(!in_stream);
    end();
}

TEST(bare_document_says_that_the_record_is_in_the_stream)
{
    bool in_stream = false;

    begin();
    letter.stream = KS_VIEW("arn:aws:kinesis:eu-west-1:123456789012:stream/orders");
    letter.data = KS_VIEW("");
    letter.cause = KS_CAUSE_AGE;
    sent.data_bytes = 2000000;
    sent.bare = true;
    make();
    EXPECT_OK(ks_json_bool(ks_json_member(ks_json_member(document, "deadLetter"), "in_stream"),
                           &in_stream));
    EXPECT(in_stream);
    EXPECT_STR(member("deadLetter", "data"), "(none)");
    EXPECT_EQ_I64(number("deadLetter", "data_bytes"), 2000000);
    EXPECT_STR(member("KinesisBatchInfo", "streamArn"),
               "arn:aws:kinesis:eu-west-1:123456789012:stream/orders");
    EXPECT_STR(member("requestContext", "condition"), "RecordAgeExceeded");
    end();
}

TEST(document_has_only_characters_that_sqs_takes)
{
    begin();
    letter.cause = KS_CAUSE_ASKED;
    letter.partition_key = KS_VIEW("\x01\xef\xbf\xbe\xef\xbf\xbf|\xef\xbf\xbd\xff");
    letter.reason = KS_VIEW("\xef\xbf\xbf");
    make();
    for (size_t at = 0; at < text.size; at++)
        EXPECT(text.data[at] >= 0x20);
    EXPECT(memmem(text.data, text.size, "\xef\xbf\xbe", 3) == NULL);
    EXPECT(memmem(text.data, text.size, "\xef\xbf\xbf", 3) == NULL);
    EXPECT_STR(member("deadLetter", "partition_key"),
               "\x01\xef\xbf\xbe\xef\xbf\xbf|\xef\xbf\xbd\xef\xbf\xbd");
    EXPECT_STR(member("deadLetter", "reason"), "\xef\xbf\xbf");
    EXPECT_STR(member("requestContext", "condition"), "DeadLetterAsked");
    end();
}

/* The largest names, all of whose characters are escaped. */
TEST(bare_document_of_the_longest_texts_fits_its_bound)
{
    static uint8_t key[KS_PARTITION_KEY_MAX], reason[KS_LETTER_REASON_MAX];
    static char id[KS_LETTER_ID_MAX], stream[KS_LETTER_STREAM_MAX], shard[KS_SHARD_ID_MAX],
        sequence[KS_SEQUENCE_MAX];
    static char application[1024];

    memset(key, 1, sizeof(key));
    memset(reason, 2, sizeof(reason));
    memset(id, 'i', sizeof(id));
    memcpy(stream, "arn:", 4);
    memset(stream + 4, 's', sizeof(stream) - 4);
    memset(shard, 'h', sizeof(shard));
    memset(sequence, '9', sizeof(sequence));
    memset(application, 'a', sizeof(application) - 1);
    begin();
    letter = (struct ks_letter){.id = ks_view_of(id, sizeof(id)),
                                .stream = ks_view_of(stream, sizeof(stream)),
                                .shard_id = ks_view_of(shard, sizeof(shard)),
                                .sequence = ks_view_of(sequence, sizeof(sequence)),
                                .sub_sequence = INT64_MAX,
                                .partition_key = ks_view_of(key, sizeof(key)),
                                .reason = ks_view_of(reason, sizeof(reason)),
                                .arrival_ms = 1573692244835,
                                .died_ms = 1573692286021,
                                .expires_ms = 1573692286021,
                                .attempts = UINT32_MAX,
                                .cause = KS_CAUSE_ATTEMPTS};
    sent = (struct ks_sink_letter){
        .application = application, .letter = &letter, .data_bytes = 10 << 20, .bare = true};
    make();
    EXPECT(text.size <= KS_SINK_BARE_MAX);
    EXPECT(text.size > 6 * (KS_PARTITION_KEY_MAX + KS_LETTER_REASON_MAX));
    end();
}

TEST(attributes_have_the_id_and_only_characters_that_are_taken)
{
    struct ks_sink_attributes attributes;

    begin();
    letter.reason = KS_VIEW("a\tb\x01"
                            "c\xef\xbf\xbf\xff\xc3\xa9");
    ks_sink_attributes(&sent, &attributes);
    EXPECT_EQ_U64(attributes.count, 6);
    EXPECT_STR(attributes.items[0].name, "dead_letter_id");
    EXPECT(ks_view_equal(attributes.items[0].value, letter.id));
    EXPECT_STR(attributes.items[3].type, "Number");
    EXPECT(ks_view_equal(attributes.items[3].value, KS_VIEW("3")));
    EXPECT_STR(attributes.items[5].name, "reason");
    EXPECT(ks_view_equal(attributes.items[5].value, KS_VIEW("a\tb?c??\xc3\xa9")));
    letter.reason = KS_VIEW("");
    ks_sink_attributes(&sent, &attributes);
    EXPECT_EQ_U64(attributes.count, 5);
    EXPECT_EQ_U64(ks_sink_attributes_size(&attributes),
                  14 + 6 + letter.id.size + 11 + 6 + 3 + 8 + 6 + 20 + 8 + 6 + 1 + 5 + 6 + 8);
    end();
}

TEST(group_is_the_key_or_its_hash)
{
    static const struct {
        const char *key;
        bool as_it_is;
    } cases[] = {
        {"k", true},         {"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", true},
        {"", false},         {"with space", false},
        {"\xc3\xa9", false}, {"tab\t", false},
        {"\x7f", false},
    };
    char key[KS_SINK_ID_MAX + 2] = "";
    char group[KS_SINK_ID_MAX + 1];

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        ks_sink_group(ks_view_text(cases[at].key), group);
        EXPECT((strcmp(group, cases[at].key) == 0) == cases[at].as_it_is);
        EXPECT(cases[at].as_it_is || strlen(group) == 64);
    }
    ks_sink_group(KS_VIEW("a b"), group);
    EXPECT_STR(group, "c8687a08aa5d6ed2044328fa6a697ab8e96dc34291e8c2034ae8c38e6fcc6d65");
    memset(key, 'k', KS_SINK_ID_MAX + 1);
    ks_sink_group(ks_view_of(key, KS_SINK_ID_MAX), group);
    EXPECT_EQ_U64(strlen(group), KS_SINK_ID_MAX);
    ks_sink_group(ks_view_of(key, KS_SINK_ID_MAX + 1), group);
    EXPECT_EQ_U64(strlen(group), 64);
}

TEST(deduplication_id_differs_by_application_stream_and_letter)
{
    char one[KS_SINK_HASH_SIZE], other[KS_SINK_HASH_SIZE];

    begin();
    ks_sink_deduplication(&sent, one);
    EXPECT_EQ_U64(strlen(one), 64);
    letter.attempts = 9;
    letter.died_ms++;
    ks_sink_deduplication(&sent, other);
    EXPECT_STR(other, one);
    sent.application = "another";
    ks_sink_deduplication(&sent, other);
    EXPECT(strcmp(other, one) != 0);
    sent.application = "app";
    letter.stream = KS_VIEW("others");
    ks_sink_deduplication(&sent, other);
    EXPECT(strcmp(other, one) != 0);
    letter.stream = KS_VIEW("orders");
    letter.id = KS_VIEW("shardId-000000000000.43.0");
    ks_sink_deduplication(&sent, other);
    EXPECT(strcmp(other, one) != 0);
    ks_bytes_free(&text);
}
