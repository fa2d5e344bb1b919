/* SPDX-License-Identifier: Apache-2.0 */
/* What a feed may bring, and where the next one begins. Whole streams over HTTP/2 are in the contract suite. */
#include "fanout_rig.h"

#include "adapters/kinesis/builder.h"
#include "adapters/kinesis/pace.h"
#include "aws/limits.h"
#include "base/metrics.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void initial(struct fanout_rig *rig)
{
    fanout_rig_stream(rig);
    fanout_rig_message(rig, ":event-type", "initial-response", "event", "{}");
}

static int64_t ms_of(struct fanout_rig *rig, void (*act)(struct fanout_rig *rig))
{
    ks_instant before = ks_instant_now();

    act(rig);
    return ks_span_to_ms(ks_instant_since(ks_instant_now(), before));
}

TEST(a_feed_that_ends_is_begun_again_behind_its_last_record)
{
    struct fanout_rig *rig = fanout_rig_new();

    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(201) "," RECORD(202), 202));
    fanout_rig_end(rig);
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(203), 203));
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    fanout_rig_expect(rig, 10, "201 202");
    fanout_rig_expect(rig, 10, "203");
    fanout_rig_asked(rig, 0, "\"StartingPosition\":{\"Type\":\"TRIM_HORIZON\"}");
    fanout_rig_asked(rig, 1, "{\"Type\":\"AFTER_SEQUENCE_NUMBER\",\"SequenceNumber\":\"202\"}");
    fanout_rig_close(rig);
}

TEST(where_nothing_is_put_the_continuation_is_the_place)
{
    struct fanout_rig *rig = fanout_rig_new();
    struct ks_read_answer answer;

    initial(rig);
    fanout_rig_event(rig, EVENT("", 900));
    fanout_rig_end(rig);
    fanout_rig_stream(rig); /* And nobody insists on an initial response. */
    fanout_rig_event(rig, EVENT(RECORD(901), 901));
    rig->options.age_ms = 1;
    fanout_rig_open(rig, KS_POSITION_LATEST);
    answer = fanout_rig_read(rig, 10);
    EXPECT_OK(answer.err);
    EXPECT_EQ_I64(answer.batch.millis_behind, 0);
    EXPECT(!answer.batch.at_end);
    ks_batch_free(&answer.batch);
    fanout_rig_expect(rig, 10, "901");
    fanout_rig_asked(rig, 0, "{\"Type\":\"LATEST\"}");
    fanout_rig_asked(rig, 1, "{\"Type\":\"AFTER_SEQUENCE_NUMBER\",\"SequenceNumber\":\"900\"}");
    fanout_rig_close(rig);
}

/* An event before the place says nothing; nor may a checkpoint inside an aggregate be passed over. */
TEST(a_continuation_that_is_not_beyond_the_place_is_none)
{
    struct fanout_rig *rig = fanout_rig_new();

    initial(rig);
    fanout_rig_event(rig, EVENT("", 200));
    fanout_rig_end(rig);
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(200), 200));
    fanout_rig_open(rig, KS_POSITION_AT_SEQUENCE);
    fanout_rig_expect(rig, 10, "200");
    fanout_rig_asked(rig, 1, "{\"Type\":\"AT_SEQUENCE_NUMBER\",\"SequenceNumber\":\"200\"}");
    fanout_rig_close(rig);
}

TEST(an_event_answers_as_many_reads_as_it_takes)
{
    struct fanout_rig *rig = fanout_rig_new();
    struct ks_read_answer answer;

    initial(rig);
    fanout_rig_event(rig, END_EVENT(RECORD(201) "," RECORD(202) "," RECORD(203)));
    fanout_rig_end(rig);
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    for (int at = 0; at < 2; at++) {
        answer = fanout_rig_read(rig, at == 0 ? 2 : 1);
        EXPECT_OK(answer.err);
        EXPECT_EQ_U64(answer.batch.count, at == 0 ? 2 : 1);
        EXPECT_EQ_I64(answer.batch.at_end, at == 1);
        EXPECT_EQ_I64(answer.batch.millis_behind, at == 0 ? 1 : 0);
        EXPECT_STR(answer.batch.children[0], "shardId-000000000001");
        ks_batch_free(&answer.batch);
    }
    answer = fanout_rig_read(rig, 1);
    EXPECT(answer.batch.at_end);
    EXPECT_EQ_U64(answer.batch.count, 0);
    EXPECT_EQ_U64(http_script_count(rig->script), 1);
    fanout_rig_close(rig);
}

/* The end of a feed is not that of its shard, and an event that lacks a number is not either. */
TEST(without_children_no_shard_ends)
{
    struct fanout_rig *rig = fanout_rig_new();

    initial(rig);
    fanout_rig_event(rig, "{\"Records\":[" RECORD(201) "],\"MillisBehindLatest\":0}");
    fanout_rig_end(rig);
    initial(rig);
    fanout_rig_event(rig, END_EVENT(RECORD(202)));
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    struct ks_read_answer answer = fanout_rig_read(rig, 10);
    EXPECT_EQ_U64(answer.batch.count, 1);
    EXPECT(!answer.batch.at_end);
    ks_batch_free(&answer.batch);
    answer = fanout_rig_read(rig, 10);
    EXPECT_EQ_U64(answer.batch.count, 1);
    EXPECT(answer.batch.at_end);
    ks_batch_free(&answer.batch);
    fanout_rig_asked(rig, 1, "\"SequenceNumber\":\"201\"");
    fanout_rig_close(rig);
}

static void read_203(struct fanout_rig *rig)
{
    fanout_rig_expect(rig, 10, "203");
}

TEST(two_feeds_of_a_shard_are_as_far_apart_as_the_server_wants)
{
    struct fanout_rig *rig = fanout_rig_new();

    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(202), 202));
    fanout_rig_end(rig);
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(203), 203));
    rig->options.apart_ms = 1500;
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    fanout_rig_expect(rig, 10, "202");
    int64_t took_ms = ms_of(rig, read_203);
    EXPECT(took_ms >= 1000);
    fanout_rig_close(rig);
}

TEST(a_shard_that_somebody_else_reads_is_tried_again_without_a_word_to_the_reader)
{
    static const char IN_USE[] =
        "{\"__type\":\"ResourceInUseException\",\"message\":\"Another active subscription\"}";
    struct fanout_rig *rig = fanout_rig_new();
    int64_t before = ks_metric_number(KS_METRIC_FEEDS_IN_USE);

    for (int at = 0; at < 2; at++)
        fanout_rig_refuse(rig, 400, IN_USE);
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(203), 203));
    fanout_rig_message(rig, ":exception-type", "ResourceInUseException", "exception",
                       "{\"message\":\"Another active subscription\"}");
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(204), 204));
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    int64_t took_ms = ms_of(rig, read_203);
    EXPECT(took_ms >= 250 + 500); /* The halves of two back-offs. */
    fanout_rig_expect(rig, 10, "204");
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_FEEDS_IN_USE) - before, 3);
    fanout_rig_asked(rig, 3, "\"SequenceNumber\":\"203\"");
    fanout_rig_close(rig);
}

/* It is looked for, as it may be being made, or gone. */
static void expect_doubt(int status, const char *refusal, bool told)
{
    static const char ACTIVE[] = "{\"ConsumerDescription\":{\"ConsumerARN\":\"arn:aws:kinesis:us-"
                                 "east-1:123456789012:stream/demo/"
                                 "consumer/unit:1\",\"ConsumerStatus\":\"ACTIVE\"}}";
    struct fanout_rig *rig = fanout_rig_new();

    fanout_rig_refuse(rig, status, refusal);
    fanout_rig_refuse(rig, 200, ACTIVE);
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(203), 203));
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    if (told)
        EXPECT_ERR(fanout_rig_read(rig, 10).err, NOT_FOUND);
    fanout_rig_expect(rig, 10, "203");
    fanout_rig_asked(rig, 1, "Kinesis_20131202.DescribeStreamConsumer");
    fanout_rig_close(rig);
}

TEST(a_consumer_that_may_not_be_there_is_looked_for)
{
    expect_doubt(400,
                 "{\"__type\":\"ResourceInUseException\",\"message\":\"Consumer unit is not in "
                 "ACTIVE status.\"}",
                 false);
    expect_doubt(400, "{\"__type\":\"ResourceNotFoundException\",\"message\":\"no consumer\"}",
                 true);
}

static void goes_on_after(struct fanout_rig *rig, enum ks_err_code code, const char *part)
{
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(202), 202));
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    fanout_rig_expect(rig, 10, "201");
    struct ks_read_answer answer = fanout_rig_read(rig, 10);
    while (ks_ok(answer.err)) {
        EXPECT_EQ_U64(answer.batch.count, 0);
        ks_batch_free(&answer.batch);
        answer = fanout_rig_read(rig, 10);
    }
    EXPECT_EQ_I64(answer.err.code, code);
    EXPECT_CONTAINS(answer.detail.text, part);
    fanout_rig_expect(rig, 10, "202");
    fanout_rig_asked(rig, 1, "\"AFTER_SEQUENCE_NUMBER\",\"SequenceNumber\":\"201\"");
    fanout_rig_close(rig);
}

/* The first feed brings record 201; what follows is to come. */
static struct fanout_rig *begun(void)
{
    struct fanout_rig *rig = fanout_rig_new();

    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(201), 201));
    return rig;
}

TEST(a_wrong_checksum_delivers_nothing_and_is_asked_for_again)
{
    struct fanout_rig *rig = begun();
    int64_t before = ks_metric_number(KS_METRIC_FEEDS_DAMAGED);

    fanout_rig_event(rig, EVENT(RECORD(666), 666));
    fanout_rig_spoil(rig);
    goes_on_after(rig, KS_ERR_SERVER,
                  "is damaged: it does not match its checksum, or is no event stream (request 1)");
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_FEEDS_DAMAGED) - before, 1);
}

TEST(an_event_that_is_no_event_is_asked_for_again)
{
    struct fanout_rig *rig = begun();

    fanout_rig_event(rig, "{\"Records\":[{}]}");
    goes_on_after(rig, KS_ERR_SERVER, "is damaged: an event cannot be read (request 1)");
}

TEST(an_exception_is_told_with_what_to_do)
{
    struct fanout_rig *rig = begun();

    fanout_rig_message(rig, ":exception-type", "KMSDisabledException", "exception",
                       "{\"message\":\"it is off\"}");
    goes_on_after(rig, KS_ERR_DENIED, "enable the stream's KMS key: it is off (request 1)");
}

TEST(an_error_is_told_as_it_came)
{
    struct fanout_rig *rig = begun();

    fanout_rig_message(rig, ":error-code", "InternalFailure", "error", "");
    goes_on_after(rig, KS_ERR_SERVER, "InternalFailure on kinesis SubscribeToShard (request 1)");
}

TEST(a_connection_that_breaks_loses_nothing)
{
    struct fanout_rig *rig = begun();

    fanout_rig_cut(rig);
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(202), 202));
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    fanout_rig_expect(rig, 10, "201");
    fanout_rig_expect(rig, 10, "202");
    fanout_rig_asked(rig, 1, "\"AFTER_SEQUENCE_NUMBER\",\"SequenceNumber\":\"201\"");
    fanout_rig_close(rig);
}

TEST(silence_ends_a_feed)
{
    struct fanout_rig *rig = begun();

    rig->options.silence_ms = 1500;
    goes_on_after(rig, KS_ERR_TIMEOUT, "nothing came for 1500 ms (request 1)");
}

TEST(what_aws_may_think_of_later_is_passed_over)
{
    struct fanout_rig *rig = begun();

    fanout_rig_message(rig, ":event-type", "WeatherEvent", "event", "{\"rain\":true}");
    fanout_rig_event(rig, EVENT(RECORD(202), 202));
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    fanout_rig_expect(rig, 10, "201");
    fanout_rig_expect(rig, 10, "202");
    EXPECT_EQ_U64(http_script_count(rig->script), 1);
    fanout_rig_close(rig);
}

TEST(the_tip_that_was_lost_is_the_instant_of_open)
{
    struct fanout_rig *rig = fanout_rig_new();
    int64_t now_ms = ks_wall_now().ms;
    char digits[24];

    fanout_rig_stream(rig);
    fanout_rig_cut(rig);
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(201), 201));
    fanout_rig_open(rig, KS_POSITION_LATEST);
    struct ks_read_answer answer = fanout_rig_read(rig, 10);
    EXPECT_ERR(answer.err, CONNECTION);
    fanout_rig_expect(rig, 10, "201");
    fanout_rig_asked(rig, 0, "{\"Type\":\"LATEST\"}");
    fanout_rig_asked(rig, 1, "{\"Type\":\"AT_TIMESTAMP\",\"Timestamp\":");
    const char *timestamp = strstr(http_script_request(rig->script, 1), "\"Timestamp\":") + 12;
    (void)snprintf(digits, sizeof(digits), "%.*s", (int)strspn(timestamp, "0123456789"), timestamp);
    uint64_t seconds = 0;
    EXPECT_OK(ks_view_u64(ks_view_text(digits), &seconds));
    EXPECT((int64_t)seconds <= now_ms / 1000);
    EXPECT((int64_t)seconds >= now_ms / 1000 - 2);
    fanout_rig_close(rig);
}

TEST(a_number_that_the_server_does_not_know_is_looked_for_from_the_horizon)
{
    struct fanout_rig *rig = fanout_rig_new();

    fanout_rig_refuse(rig, 400, "{\"__type\":\"InvalidArgumentException\",\"message\":\"what\"}");
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(199) "," RECORD(200), 200));
    fanout_rig_event(rig, EVENT(RECORD(200) "," RECORD(201) "," RECORD(202), 202));
    fanout_rig_open(rig, KS_POSITION_AFTER_SEQUENCE);
    fanout_rig_expect(rig, 10, "201 202");
    fanout_rig_asked(rig, 1, "{\"Type\":\"TRIM_HORIZON\"}");
    fanout_rig_close(rig);
}

TEST(an_instant_that_the_server_has_not_reached_is_asked_for_five_minutes_earlier)
{
    struct fanout_rig *rig = fanout_rig_new();

    fanout_rig_refuse(rig, 400, "{\"__type\":\"InvalidArgumentException\",\"message\":\"later\"}");
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(201), 201));
    fanout_rig_open(rig, KS_POSITION_AT_TIMESTAMP);
    fanout_rig_expect(rig, 10, "201");
    fanout_rig_asked(rig, 0, "\"Timestamp\":1795219200.123");
    fanout_rig_asked(rig, 1, "\"Timestamp\":1795218900.123");
    fanout_rig_close(rig);
}

TEST(a_server_that_speaks_no_cbor_is_asked_in_json)
{
    struct fanout_rig *rig = fanout_rig_new();

    fanout_rig_refuse(rig, 400, "{\"__type\":\"SerializationException\"}");
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(201), 201));
    rig->options.protocol = KS_WIRE_AUTO;
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    fanout_rig_expect(rig, 10, "201");
    fanout_rig_asked(rig, 0, "application/x-amz-cbor-1.1");
    fanout_rig_asked(rig, 1, "application/x-amz-json-1.1");
    fanout_rig_close(rig);
}

TEST(a_throttle_is_told_and_waited_out)
{
    struct fanout_rig *rig = fanout_rig_new();

    fanout_rig_refuse(rig, 400, "{\"__type\":\"LimitExceededException\",\"message\":\"less\"}");
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(203), 203));
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    struct ks_read_answer answer = fanout_rig_read(rig, 10);
    EXPECT_ERR(answer.err, THROTTLED);
    EXPECT(answer.throttled);
    int64_t took_ms = ms_of(rig, read_203);
    EXPECT(took_ms >= 200);
    fanout_rig_close(rig);
}

/* What was not handed on is given back, and comes again. */
TEST(nobody_who_reads_costs_no_memory)
{
    struct fanout_rig *rig = begun();
    int64_t before = ks_metric_number(KS_METRIC_FEEDS);

    fanout_rig_event(rig, EVENT(RECORD(202) "," RECORD(203), 203));
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(203), 203));
    rig->options.unread_ms = 500;
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    fanout_rig_expect(rig, 10, "201");
    fanout_rig_expect(rig, 1, "202");
    EXPECT(rig->budget.used > 0);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_FEEDS) - before, 1);
    fanout_rig_turn(rig, 1000);
    EXPECT_EQ_U64(rig->budget.used, 0);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_FEEDS) - before, 0);
    fanout_rig_expect(rig, 10, "203");
    fanout_rig_asked(rig, 1, "\"SequenceNumber\":\"202\"");
    fanout_rig_close(rig);
}

TEST(an_old_feed_is_renewed_before_the_server_ends_it)
{
    struct fanout_rig *rig = begun();

    fanout_rig_event(rig, EVENT("", 300));
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(301), 301));
    rig->options.age_ms = 1;
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    fanout_rig_expect(rig, 10, "201");
    fanout_rig_expect(rig, 10, "301");
    fanout_rig_asked(rig, 1, "\"SequenceNumber\":\"201\"");
    fanout_rig_close(rig);
}

TEST(an_event_that_the_budget_refuses_comes_when_there_is_room)
{
    struct fanout_rig *rig = begun();

    fanout_rig_event(rig, EVENT(RECORD(202), 202));
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(201), 201));
    ks_budget_init(&rig->budget, 256);
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    struct ks_read_answer answer = fanout_rig_read(rig, 10);
    EXPECT_ERR(answer.err, FULL);
    EXPECT_EQ_U64(rig->budget.used, 0);
    rig->budget.limit = 1 << 20;
    fanout_rig_expect(rig, 10, "201");
    fanout_rig_close(rig);
}

TEST(events_that_come_together_are_read_apart)
{
    struct fanout_rig *rig = fanout_rig_new();

    initial(rig);
    fanout_rig_two_events(rig, EVENT(RECORD(201) "," RECORD(202), 202),
                          EVENT(RECORD(203) "," RECORD(204), 204));
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    fanout_rig_expect(rig, 10, "201 202");
    fanout_rig_expect(rig, 10, "203 204");
    EXPECT_EQ_U64(http_script_count(rig->script), 1);
    fanout_rig_close(rig);
}

TEST(an_event_is_delivered_though_the_one_behind_it_cannot_be_kept)
{
    struct fanout_rig *rig = fanout_rig_new();

    fanout_rig_stream(rig);
    size_t both = fanout_rig_two_events(rig, EVENT(RECORD(201), 201), EVENT(RECORD(202), 202));
    initial(rig);
    fanout_rig_event(rig, EVENT(RECORD(202), 202));
    /* For the piece and the records in it, and for no second block. */
    ks_budget_init(&rig->budget, ks_builder_capacity(both, KS_READ_RECORDS_MAX) + 10);
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    fanout_rig_expect(rig, 10, "201");
    fanout_rig_expect(rig, 10, "202");
    EXPECT_EQ_U64(http_script_count(rig->script), 2);
    fanout_rig_asked(rig, 1, "\"SequenceNumber\":\"201\"");
    fanout_rig_close(rig);
}

TEST(a_reader_is_closed_at_any_moment)
{
    for (int turns = 0; turns < 20; turns++) {
        struct fanout_rig *rig = begun();

        fanout_rig_event(rig, EVENT(RECORD(202) "," RECORD(203), 203));
        fanout_rig_open(rig, turns % 2 == 0 ? KS_POSITION_LATEST : KS_POSITION_TRIM_HORIZON);
        fanout_rig_ask(rig, 1);
        for (int at = 0; at < turns; at++) {
            ks_loop_turn(rig->loop, ks_span_ms(5));
            if (rig->reading)
                continue;
            ks_batch_free(&rig->answer.batch);
            fanout_rig_ask(rig, 1);
        }
        rig->source->vtable->close_reader(rig->reader);
        fanout_rig_turn(rig, 10);
        EXPECT(rig->reading);
        EXPECT_OK(rig->source->vtable->open(rig->source, "s",
                                            &(struct ks_position){.kind = KS_POSITION_SHARD_END},
                                            &rig->budget, &rig->reader));
        fanout_rig_close(rig);
    }
}

/* Each read is answered all the same, and what memory took is asked for again. */
TEST(every_allocation_may_fail_once)
{
    bool failed = true;

    for (uint64_t n = 1; failed; n++) {
        struct fanout_rig *rig = fanout_rig_new();

        for (int at = 0; at < 2; at++) {
            initial(rig);
            fanout_rig_event(rig, EVENT(RECORD(201), 201));
        }
        rig->options.apart_ms = 1;
        fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
        ks_alloc_fail_after(n, 0);
        uint64_t before = ks_alloc_count();
        struct ks_read_answer answer = {.err = KS_OK};
        for (int at = 0; at < 10 && answer.batch.count == 0; at++) {
            ks_batch_free(&answer.batch);
            answer = fanout_rig_read(rig, 10);
            EXPECT(ks_ok(answer.err) || ks_err_class(answer.err) != KS_CLASS_REPORT);
        }
        EXPECT_EQ_U64(answer.batch.count, 1);
        ks_batch_free(&answer.batch);
        failed = ks_alloc_count() - before >= n;
        ks_alloc_fail_after(0, 0);
        fanout_rig_close(rig);
    }
}

/* --- Without options, where everything lasts for seconds and minutes: on a clock that is put forward --- */

enum {
    /* What AWS does. */
    HEARTBEAT_MS = 5000,
    LIFE_MS = 300000,

    FEEDS = 3,
    EVENTS = LIFE_MS / HEARTBEAT_MS,
    /* More than a piece of curl's: one event a read, and the rest stays in the network. */
    DATA_BYTES = 16 << 10
};

static int64_t ahead_ms;

/* The loop's clock. That of libcurl goes on as it is. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, time);

    if (clock == CLOCK_BOOTTIME)
        time->tv_sec += (time_t)(ahead_ms / 1000);
    return failed;
}

static struct fanout_rig *by_default(void)
{
    struct fanout_rig *rig = fanout_rig_new();

    rig->options.apart_ms = 0;
    rig->options.silence_ms = 0;
    return rig;
}

static void say_event(struct fanout_rig *rig, int number)
{
    static char payload[DATA_BYTES + 512];
    static char data[DATA_BYTES + 1];

    memset(data, 'A', DATA_BYTES);
    (void)snprintf(
        payload, sizeof(payload),
        "{\"Records\":[{\"Data\":\"%s\",\"PartitionKey\":\"k\",\"SequenceNumber\":\"%d\"}],"
        "\"ContinuationSequenceNumber\":\"%d\",\"MillisBehindLatest\":0}",
        data, number, number);
    fanout_rig_event(rig, payload);
}

static void expect_number(struct fanout_rig *rig, int number)
{
    char sequence[16];

    (void)snprintf(sequence, sizeof(sequence), "%d", number);
    fanout_rig_expect(rig, 10, sequence);
}

/* How old the feed became. An event every 5 s; what comes is in order, and once. */
static int64_t read_until_renewed(struct fanout_rig *rig, int number)
{
    int64_t age_ms = 0;

    expect_number(rig, number);
    for (int at = 1; ks_metric_number(KS_METRIC_FEEDS) == 1; at++) {
        EXPECT(at < EVENTS);
        ahead_ms += HEARTBEAT_MS;
        age_ms += HEARTBEAT_MS;
        expect_number(rig, number + at);
    }
    return age_ms;
}

TEST(feeds_are_renewed_before_aws_ends_them_and_go_on_behind_the_last_record)
{
    struct fanout_rig *rig = by_default();
    char last[64] = "{\"Type\":\"TRIM_HORIZON\"}";

    for (int feed = 0; feed < FEEDS; feed++) {
        fanout_rig_stream(rig);
        for (int at = 0; at < EVENTS; at++)
            say_event(rig, 1000 * (feed + 1) + at);
    }
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    for (int feed = 0; feed < FEEDS; feed++) {
        int64_t age_ms = read_until_renewed(rig, 1000 * (feed + 1));
        EXPECT(age_ms >= 270000 && age_ms < LIFE_MS);
        fanout_rig_asked(rig, (size_t)feed, last);
        (void)snprintf(last, sizeof(last), "\"AFTER_SEQUENCE_NUMBER\",\"SequenceNumber\":\"%d\"",
                       1000 * (feed + 1) + (int)(age_ms / HEARTBEAT_MS));
    }
    EXPECT_EQ_U64(http_script_count(rig->script), FEEDS);
    fanout_rig_close(rig);
}

static void turn_until_told(struct fanout_rig *rig)
{
    for (int at = 0; rig->reading && at < 300; at++)
        ks_loop_turn(rig->loop, ks_span_ms(100));
    EXPECT(!rig->reading);
}

/* A read that nothing comes for. */
static void read_for(struct fanout_rig *rig, int64_t ms)
{
    fanout_rig_ask(rig, 10);
    ks_loop_turn(rig->loop, ks_span_ms(10));
    ahead_ms += ms;
    turn_until_told(rig);
    EXPECT_EQ_U64(rig->answer.batch.count, 0);
}

/* AWS sends an event every 5 s; that one is late, or missing, ends nothing. */
TEST(a_silence_of_15_s_ends_a_feed_and_one_of_10_s_does_not)
{
    struct fanout_rig *rig = by_default();

    fanout_rig_stream(rig);
    fanout_rig_event(rig, EVENT(RECORD(201), 201));
    fanout_rig_stream(rig);
    fanout_rig_event(rig, EVENT(RECORD(202), 202));
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    fanout_rig_expect(rig, 10, "201");
    read_for(rig, 10000);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_FEEDS), 1);
    read_for(rig, 6000);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_FEEDS), 0);
    fanout_rig_expect(rig, 10, "202");
    fanout_rig_asked(rig, 1, "\"AFTER_SEQUENCE_NUMBER\",\"SequenceNumber\":\"201\"");
    fanout_rig_close(rig);
}

/* --- And its failures are told as soon as those of polling --- */

TEST(a_shard_that_is_refused_is_asked_for_every_5_s_at_least)
{
    struct fanout_rig *rig = by_default();

    fanout_rig_refuse(rig, 500, "{\"__type\":\"InternalFailure\"}");
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    for (int64_t at = 1; at <= 16; at++) {
        fanout_rig_ask(rig, 10);
        ahead_ms += KS_PACE_FAILED_MS_MAX;
        for (int turns = 0; turns < 3; turns++)
            ks_loop_turn(rig->loop, ks_span_ms(0));
        EXPECT_EQ_I64(ks_metric_number(KS_METRIC_FEEDS_BEGUN), at);
        turn_until_told(rig);
        EXPECT_ERR(rig->answer.err, SERVER);
    }
    fanout_rig_close(rig);
}

TEST(a_feed_that_does_not_begin_is_given_up_as_any_request)
{
    struct fanout_rig *rig = by_default();

    fanout_rig_silence(rig);
    fanout_rig_open(rig, KS_POSITION_TRIM_HORIZON);
    fanout_rig_ask(rig, 10);
    for (int at = 0; http_script_count(rig->script) == 0 && at < 3000; at++)
        ks_loop_turn(rig->loop, ks_span_ms(10));
    ahead_ms += KS_AWS_SILENCE_MS;
    turn_until_told(rig);
    EXPECT_ERR(rig->answer.err, TIMEOUT);
    EXPECT_CONTAINS(rig->answer.detail.text, "nothing came for 10000 ms");
    fanout_rig_close(rig);
}
