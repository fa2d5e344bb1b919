/* SPDX-License-Identifier: Apache-2.0 */
#include "base/options_check.h"

#include "ks_test.h"

#include <stdio.h>

static struct ks_options options;

/* Options in which every check finds what it wants. */
static void begin(void)
{
    memset(&options, 0, sizeof(options));
    snprintf(options.stream, sizeof(options.stream), "s");
    snprintf(options.application, sizeof(options.application), "app");
    snprintf(options.source, sizeof(options.source), "kinesis");
    snprintf(options.leases, sizeof(options.leases), "dynamodb");
    snprintf(options.dialect, sizeof(options.dialect), "native");
    snprintf(options.retrieval, sizeof(options.retrieval), "polling");
    snprintf(options.aws_protocol, sizeof(options.aws_protocol), "auto");
    snprintf(options.initial_position, sizeof(options.initial_position), "latest");
    snprintf(options.listen, sizeof(options.listen), "127.0.0.1:8990");
    snprintf(options.ops_listen, sizeof(options.ops_listen), "127.0.0.1:8991");
    snprintf(options.worker_id, sizeof(options.worker_id), "w");
}

/* Sets one text, and expects to be told about it. */
static void expect_refused(char *text, const char *value, const char *part)
{
    struct ks_detail detail = {""};
    char before[KS_OPTION_TEXT_SIZE];

    snprintf(before, sizeof(before), "%s", text);
    snprintf(text, KS_OPTION_TEXT_SIZE, "%s", value);
    if (!ks_err_is(ks_options_check(&options, &detail), KS_ERR_INVALID))
        FAIL("not refused: %s", value);
    EXPECT_CONTAINS(detail.text, part);
    snprintf(text, KS_OPTION_TEXT_SIZE, "%s", before);
}

static void expect_taken(char *text, const char *value)
{
    struct ks_detail detail = {""};
    char before[KS_OPTION_TEXT_SIZE];

    snprintf(before, sizeof(before), "%s", text);
    snprintf(text, KS_OPTION_TEXT_SIZE, "%s", value);
    if (!ks_ok(ks_options_check(&options, &detail)))
        FAIL("%s: %s", value, detail.text);
    snprintf(text, KS_OPTION_TEXT_SIZE, "%s", before);
}

TEST(places_want_a_word_or_a_path)
{
    begin();
    expect_taken(options.source, "local:/d/s.db");
    expect_taken(options.leases, "sqlite:/d/l.db");
    expect_refused(options.source, "local:", "--source: local: wants a path");
    expect_refused(options.source, "local", "neither kinesis nor local:PATH");
    expect_refused(options.source, "sqlite:/d/s.db", "neither kinesis nor local:PATH");
    expect_refused(options.leases, "sqlite:", "--leases: sqlite: wants a path");
    expect_refused(options.leases, "dynamo", "neither dynamodb nor sqlite:PATH");
}

TEST(dead_letters_want_a_store_or_a_sink)
{
    begin();
    expect_taken(options.dead_letters, "table");
    expect_taken(options.dead_letters, "sqlite:/d/x.db");
    expect_taken(options.dead_letters, "sqs:https://sqs.eu-west-1.amazonaws.com/1/q");
    expect_taken(options.dead_letters, "sns:arn:aws:sns:eu-west-1:123456789012:t");
    expect_taken(options.dead_letters, "kinesis:dead");
    expect_taken(options.dead_letters, "s3://bucket/prefix?kms-key=key");
    expect_refused(options.dead_letters,
                   "sqs:", "--dead-letters: wants table, s3://BUCKET/PREFIX, sqlite:PATH, sqs:");
    expect_refused(options.dead_letters, "kinesis", "or kinesis:STREAM");
    expect_refused(options.dead_letters, "s3:bucket", "--dead-letters: wants");
    EXPECT(ks_option_is_bucket("s3://b") && !ks_option_is_bucket("sqlite:s3://b"));
    EXPECT(ks_option_path("s3://bucket/prefix") == NULL);
}

TEST(a_stream_and_its_leases_are_two_files)
{
    begin();
    snprintf(options.source, sizeof(options.source), "local:/d/s.db");
    expect_refused(options.leases, "sqlite:/d/s.db", "--source and --leases name one file");
}

TEST(local_shards_want_a_local_source)
{
    begin();
    options.sources[KS_OPTION_local_shards] = KS_OPTION_FLAG;
    expect_refused(options.source, "kinesis", "--local-shards goes only with --source local:PATH");
    expect_taken(options.source, "local:/d/s.db");
}

TEST(a_speed_wants_a_local_source)
{
    begin();
    options.speed = 10;
    expect_refused(options.source, "kinesis", "--speed goes only with --source local:PATH");
    expect_taken(options.source, "local:/d/s.db");
}

TEST(a_role_is_an_arn_for_a_service_in_aws)
{
    begin();
    expect_taken(options.kinesis_role_arn, "arn:aws:iam::123456789012:role/reader");
    expect_taken(options.dynamodb_role_arn, "arn:aws-us-gov:iam::123456789012:role/path/to/name");
    expect_refused(options.kinesis_role_arn, "reader", "--kinesis-role-arn: \"reader\" is no role");
    expect_refused(options.dynamodb_role_arn, "arn:aws:iam::123456789012:user/u",
                   "--dynamodb-role-arn");
    expect_refused(options.kinesis_role_arn, "arn:aws:iam::123456789012:role/", "is no role");
    expect_refused(options.kinesis_role_arn, "arn:aws:iam:::role/r", "is no role");
    expect_refused(options.kinesis_role_external_id, "x",
                   "--kinesis-role-external-id goes only with --kinesis-role-arn");
    snprintf(options.dynamodb_role_arn, sizeof(options.dynamodb_role_arn),
             "arn:aws:iam::123456789012:role/r");
    expect_taken(options.dynamodb_role_external_id, "x");
    expect_refused(options.leases, "sqlite:/d/l.db",
                   "--dynamodb-role-arn goes only with --leases dynamodb");
    begin();
    snprintf(options.kinesis_role_arn, sizeof(options.kinesis_role_arn),
             "arn:aws:iam::123456789012:role/r");
    expect_refused(options.source, "local:/d/s.db",
                   "--kinesis-role-arn goes only with --source kinesis");
    begin();
    expect_taken(options.aws_protocol, "json");
    snprintf(options.aws_protocol, sizeof(options.aws_protocol), "cbor");
    expect_refused(options.source, "local:/d/s.db",
                   "--aws-protocol goes only with --source kinesis");
}

TEST(a_stream_is_a_name_or_in_kinesis_an_arn)
{
    char longest[130];

    begin();
    expect_taken(options.stream, "a.B_c-9");
    expect_taken(options.stream, "arn:aws:kinesis:eu-west-1:123456789012:stream/s");
    expect_refused(options.stream,
                   "arn:aws:kinesis:eu-west-1:123456789012:stream/s/consumer/c:1732233600",
                   "a consumer's is none");
    expect_refused(options.stream, "arn:aws:kinesis:eu-west-1:123456789012:stream/", "no stream's");
    expect_refused(options.stream, "arn:aws:sqs:eu-west-1:123456789012:stream/s", "no stream's");
    expect_refused(options.stream, "arn:aws:kinesis::123456789012:stream/s", "no stream's");
    expect_refused(options.stream, "a b", "--stream: \"a b\" is neither an ARN nor a name");
    memset(longest, 'x', sizeof(longest));
    longest[129] = '\0';
    expect_refused(options.stream, longest, "nor a name of up to 128 letters");
    longest[128] = '\0';
    expect_taken(options.stream, longest);
    snprintf(options.source, sizeof(options.source), "local:/d/s.db");
    expect_refused(options.stream, "arn:aws:kinesis:eu-west-1:123456789012:stream/s",
                   "--stream: an ARN goes only with --source kinesis");
}

TEST(names_have_only_characters_that_both_stores_take)
{
    begin();
    expect_refused(options.application, "a/b/c", "--application: \"a/b/c\" has other characters");
    expect_refused(options.worker_id, "id#boot", "--worker-id: \"id#boot\" has other characters");
}

TEST(a_table_of_dynamodb_has_three_characters)
{
    begin();
    expect_refused(options.application, "ab", "3 to 255 characters");
    snprintf(options.leases, sizeof(options.leases), "sqlite:/l");
    expect_taken(options.application, "ab");
}

TEST(fan_out_is_for_kinesis_and_wants_a_consumer_that_can_be_one)
{
    char longest[256];

    begin();
    memset(longest, 'a', 129);
    longest[129] = '\0';
    expect_refused(options.consumer, "c", "--consumer goes only with --retrieval fanout");
    expect_taken(options.retrieval, "fanout");
    snprintf(options.retrieval, sizeof(options.retrieval), "fanout");
    expect_refused(options.source, "local:/d/s.db",
                   "--retrieval fanout goes only with --source kinesis");
    expect_refused(options.application, longest, "name; give one with --consumer");
    expect_refused(options.consumer, longest, "is no consumer");
    expect_refused(options.consumer, "a/b", "--consumer: \"a/b\" is no consumer");
    expect_refused(options.consumer, "arn:aws:kinesis:eu-west-1:123456789012:stream/s",
                   "is no consumer");
    longest[128] = '\0';
    expect_taken(options.consumer, longest);
    expect_taken(options.consumer,
                 "arn:aws:kinesis:eu-west-1:123456789012:stream/s/consumer/c:1795223827");
}

TEST(a_consumer_is_one_of_the_stream)
{
    begin();
    snprintf(options.retrieval, sizeof(options.retrieval), "fanout");
    expect_refused(options.consumer,
                   "arn:aws:kinesis:eu-west-1:123456789012:stream/s2/consumer/c:1",
                   "is a consumer of another stream than --stream");
    expect_refused(options.consumer, "arn:aws:kinesis:eu-west-1:123456789012:stream/t/consumer/s:1",
                   "of another stream");
    snprintf(options.stream, sizeof(options.stream),
             "arn:aws:kinesis:eu-west-1:123456789012:stream/s");
    expect_taken(options.consumer, "arn:aws:kinesis:eu-west-1:123456789012:stream/s/consumer/c:1");
    expect_refused(options.consumer,
                   "arn:aws:kinesis:eu-west-1:123456789012:stream/s2/consumer/c:1",
                   "of another stream");
    expect_refused(options.consumer, "arn:aws:kinesis:eu-west-1:210987654321:stream/s/consumer/c:1",
                   "of another stream");
}

TEST(addresses_are_checked_and_belong_to_one_door)
{
    begin();
    expect_refused(options.listen, "8990", "--listen: \"8990\" is none of");
    expect_refused(options.ops_listen, "", "--ops-listen: ");
    expect_refused(options.ops_listen, "unix:/s,localhost:8990", "share an address");
    expect_taken(options.ops_listen, "127.0.0.1:0");
}

TEST(hosts_are_a_list_of_names)
{
    begin();
    expect_taken(options.allow_host, "a.example, b-1.example");
    expect_refused(options.allow_host, "a.example,,b", "--allow-host: \"\" is no host name");
    expect_refused(options.allow_host, "http://a", "--allow-host: \"http://a\" is no host name");
    expect_refused(options.allow_host,
                   "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z,a1,a2,a3,a4,a5,a6,a7",
                   "--allow-host: more than 32 names");
}

TEST(a_tiny_memory_budget_is_refused)
{
    struct ks_detail detail;

    begin();
    options.memory_budget_bytes = 1000;
    EXPECT(ks_err_is(ks_options_check(&options, &detail), KS_ERR_INVALID));
    EXPECT_CONTAINS(detail.text, "--memory-budget-bytes: wants 0 or at least 1048576");
    options.memory_budget_bytes = 1 << 20;
    EXPECT_OK(ks_options_check(&options, &detail));
}

TEST(an_initial_position_is_one_of_three)
{
    enum ks_initial initial = KS_INITIAL_LATEST;
    int64_t ms = 0;

    begin();
    expect_taken(options.initial_position, "trim_horizon");
    expect_taken(options.initial_position, "at_timestamp:2026-11-21T00:40:00Z");
    expect_refused(options.initial_position, "at_timestamp:", "--initial-position: ");
    expect_refused(options.initial_position, "at_timestamp:1795221600",
                   "none of latest, trim_horizon");
    expect_refused(options.initial_position, "LATEST", "none of latest, trim_horizon");
    EXPECT_OK(ks_option_initial_position("at_timestamp:1970-01-01T00:00:01Z", &initial, &ms));
    EXPECT_EQ_I64(initial, KS_INITIAL_AT_TIMESTAMP);
    EXPECT_EQ_I64(ms, 1000);
    EXPECT_OK(ks_option_initial_position("trim_horizon", &initial, &ms));
    EXPECT_EQ_I64(initial, KS_INITIAL_TRIM_HORIZON);
    EXPECT_EQ_I64(ms, 1000);
}

TEST(the_path_of_a_place_is_what_follows_its_word)
{
    EXPECT_STR(ks_option_path("local:/d/s.db"), "/d/s.db");
    EXPECT_STR(ks_option_path("sqlite:l.db"), "l.db");
    EXPECT(ks_option_path("kinesis") == NULL);
    EXPECT(ks_option_path("dynamodb") == NULL);
}

TEST(stream_and_application_are_required)
{
    struct ks_detail detail;

    begin();
    EXPECT_OK(ks_options_check_required(&options, &detail));
    options.stream[0] = '\0';
    EXPECT(ks_err_is(ks_options_check_required(&options, &detail), KS_ERR_INVALID));
    EXPECT_CONTAINS(detail.text, "missing --stream; ");
}

TEST(a_quotation_is_short_and_printable)
{
    char quoted[KS_QUOTE_SIZE];

    ks_option_quote(KS_VIEW("a\nb\xFF\0c"), quoted);
    EXPECT_STR(quoted, "\"a?b??c\"");
    ks_option_quote(KS_VIEW_NONE, quoted);
    EXPECT_STR(quoted, "\"\"");
    ks_option_quote(KS_VIEW("0123456789012345678901234567890123456789012"), quoted);
    EXPECT_STR(quoted, "\"0123456789012345678901234567890123456789012\"");
    ks_option_quote(KS_VIEW("01234567890123456789012345678901234567890123456789"), quoted);
    EXPECT_STR(quoted, "\"0123456789012345678901234567890123456789012..\"");
}

TEST(every_path_has_a_directory)
{
    static const struct {
        const char *path, *directory;
    } cases[] = {
        {"leases.db", "."},     {"./leases.db", "."},     {"/leases.db", "/"},
        {"/d/leases.db", "/d"}, {"d/e/leases.db", "d/e"}, {"/d/", "/d"},
    };
    char directory[KS_OPTION_TEXT_SIZE];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ks_option_directory(cases[i].path, directory);
        EXPECT_STR(directory, cases[i].directory);
    }
}
