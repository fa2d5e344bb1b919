/* SPDX-License-Identifier: Apache-2.0 */
/* rows_api.c - any rows of a DynamoDB table of any dialect, up to the byte that is written to a client: the real store,
 * core and API run on them. Each question of the API is answered, in JSON and protobuf, and what is asked of the shards
 * that the rows name is done or refused.
 *
 * The first byte says the dialect, the second one what becomes of writes. Behind 0xFF a new look at the table begins; a
 * line of it is a row, a digit for its table and JSON as DynamoDB has it: the inputs of fleet.c.
 */
#include "aws.h"
#include "house.h"

#include "adapters/dynamodb/store.h"
#include "adapters/kinesis/polling.h"
#include "kinesis_sidecar/v1/service.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LOOK_MS = 3000, LOOKS_MAX = 4, BODY_MAX = 1 << 18 };

static const struct ks_dialect *dialect;
static uint8_t writes; /* A bit for each of eight writes: it is done. */
static uint32_t written;
static ks_view looks[LOOKS_MAX];
static uint32_t look_count;
static char body[BODY_MAX];

/* ---- The tables ---- */

/* Which table of the dialect a request is about: its name ends it. */
static uint32_t table_of(ks_view request)
{
    char name[64];

    for (uint32_t at = dialect->table_count; at-- > 1;) {
        (void)snprintf(name, sizeof(name), "\"app%s\"", dialect->tables[at].suffix);
        if (memmem(request.data, request.size, name, strlen(name)) != NULL)
            return at;
    }
    return 0;
}

static size_t put_rows(ks_view look, uint32_t table, size_t most, size_t at)
{
    const char *gap = "";

    while (look.size != 0 && most > 0) {
        const ks_view line = ks_view_cut(&look, '\n');

        if (line.size < 2 || line.data[0] != '0' + table || at + line.size + 8 > BODY_MAX)
            continue;
        at += (size_t)snprintf(body + at, BODY_MAX - at, "%s", gap);
        memcpy(body + at, line.data + 1, line.size - 1);
        at += line.size - 1;
        gap = ",";
        most--;
    }
    return at;
}

static ks_view rows_of(const struct ks_aws_call *call)
{
    const uint32_t table = table_of(call->request.body);
    const uint32_t now = (uint32_t)(jumped_ms / LOOK_MS);
    const ks_view look = looks[now < look_count ? now : look_count - 1];
    const char *before = "{\"Items\":[";
    const char *after = "]}";
    char name[80];
    size_t begun;
    size_t size;

    if (is_asked(call, "GetItem")) {
        before = "{\"Item\":";
        after = "}";
    } else if (is_asked(call, "BatchGetItem")) {
        (void)snprintf(name, sizeof(name), "{\"Responses\":{\"app%s\":[",
                       dialect->tables[table].suffix);
        before = name;
        after = "]}}";
    }
    begun = (size_t)snprintf(body, sizeof(body), "%s", before);
    size = put_rows(look, table, is_asked(call, "GetItem") ? 1 : 100, begun);
    if (size == begun && is_asked(call, "GetItem"))
        return KS_VIEW("{}");
    size += (size_t)snprintf(body + size, sizeof(body) - size, "%s", after);
    return ks_view_of(body, size);
}

static ks_view describe_table(const struct ks_aws_call *call)
{
    const struct ks_schema *const schema = dialect->tables[table_of(call->request.body)].schema;
    const char *const key = schema->key;

    if (key == NULL)
        return KS_VIEW(
            "{\"Table\":{\"TableStatus\":\"ACTIVE\",\"KeySchema\":[{\"AttributeName\":\"p\","
            "\"KeyType\":"
            "\"HASH\"},{\"AttributeName\":\"k\",\"KeyType\":\"RANGE\"}],\"AttributeDefinitions\":[{"
            "\"AttributeName\":\"p\",\"AttributeType\":\"S\"},{\"AttributeName\":\"k\","
            "\"AttributeType\":"
            "\"S\"}]}}");
    return ks_view_of(
        body,
        (size_t)snprintf(body, sizeof(body),
                         "{\"Table\":{\"TableStatus\":\"ACTIVE\",\"KeySchema\":[{\"AttributeName\":"
                         "\"%s\",\"KeyType\":\"HASH\"}],\"AttributeDefinitions\":[{"
                         "\"AttributeName\":\"%s\",\"AttributeType\":\"S\"}]}}",
                         key, key));
}

/* ---- What is asked of AWS ---- */

static ks_view answer_to(const struct ks_aws_call *call)
{
    if (is_asked(call, "DescribeTable"))
        return describe_table(call);
    if (is_asked(call, "DescribeStreamSummary"))
        return AWS_SUMMARY;
    if (is_asked(call, "ListShards"))
        return KS_VIEW(
            "{\"Shards\":[{\"ShardId\":\"shardId-000000000000\",\"HashKeyRange\":{"
            "\"StartingHashKey\":\"0\","
            "\"EndingHashKey\":\"170141183460469231731687303715884105727\"},"
            "\"SequenceNumberRange\":{"
            "\"StartingSequenceNumber\":\"1\"}},{\"ShardId\":\"shardId-000000000001\","
            "\"HashKeyRange\":{"
            "\"StartingHashKey\":\"170141183460469231731687303715884105728\",\"EndingHashKey\":"
            "\"340282366920938463463374607431768211455\"},\"SequenceNumberRange\":{"
            "\"StartingSequenceNumber\":\"2\"}}]}");
    if (is_asked(call, "GetShardIterator"))
        return KS_VIEW("{\"ShardIterator\":\"here\"}");
    if (is_asked(call, "GetRecords") &&
        memmem(call->body.data, call->body.size, "there", 5) != NULL)
        return KS_VIEW("{\"Records\":[],\"NextShardIterator\":\"there\",\"MillisBehindLatest\":0}");
    if (is_asked(call, "GetRecords"))
        return KS_VIEW(
            "{\"Records\":[{\"SequenceNumber\":\"200\",\"Data\":\"YQ==\",\"PartitionKey\":\"k\","
            "\"ApproximateArrivalTimestamp\":1795219200.5}],\"NextShardIterator\":\"there\","
            "\"MillisBehindLatest\":0}");
    if (is_asked(call, "UpdateItem") || is_asked(call, "DeleteItem"))
        return writes >> written++ % 8 & 1
                   ? KS_VIEW("{}")
                   : KS_VIEW(
                         "!{\"__type\":\"ConditionalCheckFailedException\",\"message\":\"no\"}");
    if (is_asked(call, "Query") || is_asked(call, "Scan") || is_asked(call, "GetItem") ||
        is_asked(call, "BatchGetItem"))
        return rows_of(call);
    return KS_VIEW("!{\"__type\":\"AccessDeniedException\",\"message\":\"not here\"}");
}

static void answer_calls(void)
{
    for (size_t at = 0; at < AWS_CALLS_MAX; at++)
        if (calls[at].open)
            give(&calls[at], answer_to(&calls[at]));
}

/* ---- What is asked of us ---- */

static const struct {
    const char *target; /* JSON. */
    const char *call;   /* The same in protobuf; NULL: there is none. */
    const char *message;
    const ProtobufCMessageDescriptor *type;
} questions[] = {
    {"/v1/status", "Admin/GetStatus", "", &kinesis_sidecar__v1__status__descriptor},
    {"/v1/shards?page_size=1000", "Admin/ListShards", "",
     &kinesis_sidecar__v1__shards_response__descriptor},
    {"/v1/leases?page_size=1", "Admin/ListLeases", "\x08\x01",
     &kinesis_sidecar__v1__leases_response__descriptor},
    {"/v1/workers", "Admin/ListWorkers", "", &kinesis_sidecar__v1__workers_response__descriptor},
    {"/v1/sessions", "Admin/ListSessions", "", &kinesis_sidecar__v1__sessions_response__descriptor},
    {"/v1/records?wait_ms=300&max_records=3", "Consumer/Pull", "\x10\x03\x20\xAC\x02",
     &kinesis_sidecar__v1__pull_response__descriptor},
    {"/v1/shards/shardId-000000000000", NULL, NULL, NULL},
    {"/v1/shards/shardId-000000000001", NULL, NULL, NULL},
};

enum { QUESTIONS = sizeof(questions) / sizeof(questions[0]) };

static const struct {
    const char *target;
    const char *body;
} orders[] = {
    {"/v1/seek", "{\"to\":\"trim_horizon\",\"force\":true,\"dry_run\":true,\"wait_ms\":100}"},
    {"/v1/leases/shardId-000000000001/release", "{}"},
    {"/v1/pause", "{\"shards\":[\"shardId-000000000000\"]}"},
    {"/v1/resume", "{}"},
};

static void check_metrics(void)
{
    ks_view rest;

    ask(DOOR_OPS, "GET", "/metrics", "", NULL);
    assert(answer.status == 200);
    rest = ks_view_of(answer.body, answer.body_size);
    assert(ks_view_is_utf8(rest));
    while (rest.size != 0) {
        const ks_view line = ks_view_cut(&rest, '\n');

        /* A name, perhaps labels, a number. */
        assert(line.size > 0 && (line.data[0] == '#' || memchr(line.data, ' ', line.size) != NULL));
        assert(line.data[0] == '#' || strchr("0123456789.NI", line.data[line.size - 1]) != NULL);
    }
}

static void question(uint32_t at)
{
    ask(DOOR_API, "GET", questions[at].target, "", NULL);
    if (!check_problem())
        json_decref(read_json(answer.body, answer.body_size));
    if (questions[at].call == NULL)
        return;
    call_house(questions[at].call, questions[at].message);
    if (!check_problem())
        protobuf_c_message_free_unpacked(
            read_message(questions[at].type, answer.body, answer.body_size), NULL);
}

static void check_ready(void)
{
    ask(DOOR_OPS, "GET", "/readyz?verbose", "", NULL);
    assert(answer.status == 200 || answer.status == 503);
}

static void order(void)
{
    for (size_t at = 0; at < sizeof(orders) / sizeof(orders[0]); at++) {
        ask(DOOR_API, "POST", orders[at].target, "Content-Type: application/json\r\n",
            orders[at].body);
        if (!check_problem())
            json_decref(read_json(answer.body, answer.body_size));
    }
}

static bool read_input(ks_view text)
{
    uint32_t dialects = 0;

    if (text.size < 3)
        return false;
    while (ks_dialect_at(dialects) != NULL)
        dialects++;
    dialect = ks_dialect_at(text.data[0] % dialects);
    writes = text.data[1];
    written = 0;
    text = ks_view_of(text.data + 2, text.size - 2);
    for (look_count = 0; text.size != 0 && look_count < LOOKS_MAX; look_count++)
        looks[look_count] = ks_view_cut(&text, 0xFF);
    return look_count > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_detail detail;

    if (!read_input(ks_view_of(data, size)))
        return 0;
    begin_house();
    house.answer = answer_calls;
    if (!ks_ok(
            ks_dynamodb_store_open(house.loop, &client, "app", dialect, &house.store, &detail)) ||
        !ks_ok(ks_kinesis_source_open(house.loop, &client, "demo", &house.source, &detail)))
        abort();
    open_house(dialect);
    /* A session: who has none takes no leases. */
    ask(DOOR_API, "GET", "/v1/records?wait_ms=0", "", NULL);
    for (uint32_t look = 0; look < look_count; look++) {
        while (jumped_ms < (int64_t)look * LOOK_MS)
            turn_house(false);
        question((writes + look) % QUESTIONS);
        question((writes + look + 1) % QUESTIONS);
        if (look == 1)
            order();
    }
    if (writes % 4 == 0)
        check_metrics();
    else
        check_ready();
    close_house();
    return 0;
}
