/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/wire_protocol.h"

#include "ks_test.h"

static const struct ks_failure HTML_500 = {.status = 500, .err = {KS_ERR_SERVER}};
static const char HTML[] = "text/html; charset=utf-8";
static const char CBOR[] = "application/x-amz-cbor-1.1";

static ks_instant at_ms(int64_t ms)
{
    return (ks_instant){1000000000 + ms * 1000};
}

/* A request that begins at `ms` and fails like that 10 ms later; true if it is to be repeated. */
static bool fail_at(struct ks_wire_protocol *wire, struct ks_wire_request *request, int64_t ms,
                    const struct ks_failure *failure, const char *type)
{
    enum ks_wire_change change;

    ks_wire_begin(wire, request, at_ms(ms));
    return ks_wire_failed(wire, request, at_ms(ms + 10), failure, ks_view_text(type), &change);
}

static enum ks_wire_change answer_at(struct ks_wire_protocol *wire, struct ks_wire_request *request,
                                     int64_t ms, bool in_cbor)
{
    ks_wire_begin(wire, request, at_ms(ms));
    return ks_wire_answered(wire, request, at_ms(ms + 10), in_cbor);
}

static bool asks_cbor(const struct ks_wire_protocol *wire, int64_t ms)
{
    const struct ks_wire_request fresh = {.cbor = false};

    return ks_wire_prefers_cbor(wire, &fresh, at_ms(ms));
}

TEST(foreign_failure_changes_to_json_when_json_succeeds_twice)
{
    struct ks_wire_protocol wire;
    struct ks_wire_request request = {.cbor = false};

    ks_wire_init(&wire, KS_WIRE_AUTO);
    EXPECT(fail_at(&wire, &request, 0, &HTML_500, HTML));
    EXPECT(request.cbor);
    EXPECT_EQ_I64(answer_at(&wire, &request, 100, false), KS_WIRE_UNCHANGED);
    EXPECT(!request.cbor);
    EXPECT(asks_cbor(&wire, 200));
    EXPECT(fail_at(&wire, &request, 200, &HTML_500, HTML));
    EXPECT(request.cbor);
    EXPECT_EQ_I64(answer_at(&wire, &request, 300, false), KS_WIRE_NOT_UNDERSTOOD);
    EXPECT(!asks_cbor(&wire, 400));
}

TEST(foreign_failure_is_forgotten_when_json_fails_too)
{
    struct ks_wire_protocol wire;
    struct ks_wire_request request = {.cbor = false};

    ks_wire_init(&wire, KS_WIRE_AUTO);
    for (int64_t ms = 0; ms < 10000; ms += 1000) {
        EXPECT(fail_at(&wire, &request, ms, &HTML_500, HTML));
        EXPECT(!fail_at(&wire, &request, ms + 100, &HTML_500, HTML));
        EXPECT(!request.cbor);
        EXPECT(asks_cbor(&wire, ms + 200));
    }
}

TEST(one_outage_of_many_readers_does_not_change_to_json)
{
    struct ks_wire_protocol wire;
    struct ks_wire_request readers[4] = {{.cbor = false}};

    ks_wire_init(&wire, KS_WIRE_AUTO);
    for (int at = 0; at < 4; at++)
        EXPECT(fail_at(&wire, &readers[at], at, &HTML_500, HTML));
    for (int at = 0; at < 4; at++)
        EXPECT_EQ_I64(answer_at(&wire, &readers[at], 1000 + at, false), KS_WIRE_UNCHANGED);
    EXPECT(asks_cbor(&wire, 2000));
    EXPECT_EQ_I64(answer_at(&wire, &readers[0], 2000, true), KS_WIRE_UNCHANGED);
    /* The server has shown that it understands CBOR. */
    EXPECT(!fail_at(&wire, &readers[0], 3000, &HTML_500, HTML));
}

TEST(failures_of_aws_and_gateways_are_not_about_cbor)
{
    static const struct {
        struct ks_failure failure;
        const char *type;
    } rows[] = {
        {{.status = 500, .err = {KS_ERR_SERVER}, .code = "InternalFailure"}, HTML},
        {{.status = 500, .err = {KS_ERR_SERVER}, .request_id = "7f3c"}, HTML},
        {{.status = 500, .err = {KS_ERR_SERVER}}, CBOR},
        {{.status = 500, .err = {KS_ERR_SERVER}}, "application/x-amz-json-1.1"},
        {{.status = 502, .err = {KS_ERR_SERVER}}, HTML},
        {{.status = 503, .err = {KS_ERR_SERVER}}, HTML},
        {{.status = 504, .err = {KS_ERR_SERVER}}, HTML},
        {{.status = 403, .err = {KS_ERR_DENIED}}, HTML},
        {{.status = 429, .err = {KS_ERR_THROTTLED}}, HTML},
    };

    for (size_t at = 0; at < sizeof(rows) / sizeof(rows[0]); at++) {
        struct ks_wire_protocol wire;
        struct ks_wire_request request = {.cbor = false};
        ks_wire_init(&wire, KS_WIRE_AUTO);
        EXPECT(!fail_at(&wire, &request, 0, &rows[at].failure, rows[at].type));
        EXPECT(!fail_at(&wire, &request, 100, NULL, ""));
        EXPECT(asks_cbor(&wire, 200));
    }
}

TEST(refusal_of_the_format_changes_to_json_at_once)
{
    const struct ks_failure rows[] = {
        {.status = 415, .err = {KS_ERR_SERVER}},
        {.status = 400, .err = {KS_ERR_INVALID}, .code = "SerializationException"},
        {.status = 400, .err = {KS_ERR_UNSUPPORTED}, .code = "UnknownOperationException"},
    };

    for (size_t at = 0; at < sizeof(rows) / sizeof(rows[0]); at++) {
        struct ks_wire_protocol wire;
        struct ks_wire_request request = {.cbor = false};
        ks_wire_init(&wire, KS_WIRE_AUTO);
        EXPECT(fail_at(&wire, &request, 0, &rows[at], CBOR));
        EXPECT(!asks_cbor(&wire, 100));
        EXPECT(!fail_at(&wire, &request, 200, &rows[at], CBOR));
    }
}

TEST(refusal_of_the_format_counts_only_before_the_first_cbor)
{
    const struct ks_failure misread = {
        .status = 400, .err = {KS_ERR_INVALID}, .code = "SerializationException"};
    struct ks_wire_protocol wire;
    struct ks_wire_request request = {.cbor = false};

    ks_wire_init(&wire, KS_WIRE_AUTO);
    EXPECT_EQ_I64(answer_at(&wire, &request, 0, true), KS_WIRE_UNCHANGED);
    EXPECT(!fail_at(&wire, &request, 100, &misread, CBOR));
    EXPECT(asks_cbor(&wire, 200));
}

TEST(one_request_tries_cbor_again_after_ten_minutes)
{
    struct ks_wire_protocol wire;
    struct ks_wire_request first = {.cbor = false};
    struct ks_wire_request second = {.cbor = false};
    int64_t later = KS_WIRE_JSON_MS + 10;

    ks_wire_init(&wire, KS_WIRE_AUTO);
    EXPECT_EQ_I64(answer_at(&wire, &first, 0, false), KS_WIRE_NOT_SPOKEN);
    EXPECT(!asks_cbor(&wire, later - 1));
    EXPECT(asks_cbor(&wire, later));
    ks_wire_begin(&wire, &first, at_ms(later));
    ks_wire_begin(&wire, &second, at_ms(later));
    EXPECT(first.cbor);
    EXPECT(!second.cbor);
    /* It does not go well, and nothing new is said. */
    EXPECT_EQ_I64(ks_wire_answered(&wire, &first, at_ms(later + 5), false), KS_WIRE_UNCHANGED);
    EXPECT(!asks_cbor(&wire, later + 1000));
    /* The next time it does. */
    later += 2 * KS_WIRE_JSON_MS;
    EXPECT_EQ_I64(answer_at(&wire, &first, later, true), KS_WIRE_CBOR_AGAIN);
    EXPECT(asks_cbor(&wire, later + 20));
}

TEST(unreadable_cbor_is_avoided_for_ten_minutes_though_it_worked)
{
    struct ks_wire_protocol wire;
    struct ks_wire_request request = {.cbor = false};

    ks_wire_init(&wire, KS_WIRE_AUTO);
    EXPECT_EQ_I64(answer_at(&wire, &request, 0, true), KS_WIRE_UNCHANGED);
    EXPECT_EQ_I64(ks_wire_unreadable(&wire, at_ms(100)), KS_WIRE_NOT_READABLE);
    EXPECT(!asks_cbor(&wire, 100 + KS_WIRE_JSON_MS - 1));
    EXPECT(asks_cbor(&wire, 100 + KS_WIRE_JSON_MS));
}

TEST(chosen_protocol_never_changes)
{
    const struct ks_failure unknown = {.status = 415, .err = {KS_ERR_SERVER}};

    for (int cbor = 0; cbor < 2; cbor++) {
        struct ks_wire_protocol wire;
        struct ks_wire_request request = {.cbor = false};
        ks_wire_init(&wire, cbor ? KS_WIRE_CBOR : KS_WIRE_JSON);
        EXPECT(!fail_at(&wire, &request, 0, &unknown, HTML));
        EXPECT(!fail_at(&wire, &request, 100, &HTML_500, HTML));
        EXPECT_EQ_I64(answer_at(&wire, &request, 200, false), KS_WIRE_UNCHANGED);
        EXPECT_EQ_I64(ks_wire_unreadable(&wire, at_ms(300)), KS_WIRE_UNCHANGED);
        EXPECT_EQ_I64(asks_cbor(&wire, 400), cbor == 1);
    }
}
