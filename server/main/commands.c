/* SPDX-License-Identifier: Apache-2.0 */
#include "main/commands.h"

#include "base/budget.h"
#include "base/codec.h"
#include "base/digest.h"
#include "base/json_writer.h"
#include "base/loop.h"
#include "main/call.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const ks_span answer_timeout = {INT64_C(30) * 1000 * 1000};

static bool contains(const struct ks_bytes *bytes, ks_view part)
{
    return bytes->size >= part.size && bytes->data != NULL &&
           memmem(bytes->data, bytes->size, part.data, part.size) != NULL;
}

/* ---- Of which subscription ---- */

enum { TARGET_MAX = 8192 };

/* "PATH", or "PATH?subscription=NAME" where there is a name. */
static ks_err append_target(struct ks_bytes *target, const char *path, const char *subscription)
{
    KS_TRY(ks_bytes_append(target, ks_view_text(path)));
    if (subscription != NULL) {
        KS_TRY(ks_bytes_append(target, KS_VIEW("?subscription=")));
        KS_TRY(ks_client_append_query(target, ks_view_text(subscription)));
    }
    return ks_bytes_append_byte(target, '\0');
}

/* ---- put ---- */

enum {
    PUT_BODY_MAX = 16 << 20,   /* What the API takes. */
    PUT_RECORDS_MAX = 500,     /* Of one PutRecords. */
    PUT_BATCH_BYTES = 4 << 20, /* A body is sent when it has grown to this. */
    PUT_LINE_MAX = 10 << 20    /* A record. */
};

struct put {
    const struct ks_call *call;
    const char *key; /* NULL: a random one for each record. */
    const char *target;
    struct ks_bytes body; /* Being written. */
    struct ks_bytes answer;
    uint32_t count; /* Records in it. */
    uint64_t done;
};

/* Sends what was gathered. */
static bool put_send(struct put *put)
{
    struct ks_call_request request = {
        .method = "POST",
        .target = put->target,
        .timeout = answer_timeout,
        .part = ks_call_keep,
        .arg = &put->answer,
    };
    bool sent;

    if (put->count == 0)
        return true;
    if (!ks_ok(ks_bytes_append(&put->body, KS_VIEW("]}"))))
        return false;
    request.body = ks_bytes_view(&put->body);
    ks_bytes_clear(&put->answer);
    sent = ks_call_send(put->call, &request);
    if (sent && !contains(&put->answer, KS_VIEW("\"FailedRecordCount\":0"))) {
        ks_call_complain("put: some records were refused: %.*s", (int)put->answer.size,
                         (const char *)put->answer.data);
        sent = false;
    }
    put->done += sent ? put->count : 0;
    put->count = 0;
    ks_bytes_clear(&put->body);
    return sent;
}

static ks_err put_append(struct put *put, ks_view data)
{
    struct ks_bytes *body = &put->body;
    size_t size = ks_base64_size(data.size);

    KS_TRY(ks_bytes_append(body, put->count == 0 ? KS_VIEW("{\"Records\":[{\"Data\":\"")
                                                 : KS_VIEW(",{\"Data\":\"")));
    KS_TRY(ks_bytes_reserve(body, size));
    body->size += ks_base64_encode(data, (char *)body->data + body->size);
    KS_TRY(ks_bytes_append(body, KS_VIEW("\",\"PartitionKey\":\"")));
    if (put->key != NULL)
        KS_TRY(ks_writer_append_escaped(body, ks_view_text(put->key)));
    else
        KS_TRY(ks_bytes_format(body, "%016" PRIx64, ks_random_u64()));
    KS_TRY(ks_bytes_append(body, KS_VIEW("\"}")));
    put->count++;
    return KS_OK;
}

static bool put_record(struct put *put, ks_view data)
{
    ks_err err;

    if ((put->count == PUT_RECORDS_MAX ||
         put->body.size + ks_base64_size(data.size) > PUT_BATCH_BYTES) &&
        !put_send(put))
        return false;
    err = put_append(put, data);
    if (!ks_ok(err))
        ks_call_complain("put: %s", ks_err_text(err));
    return ks_ok(err);
}

/* Puts each whole line that was read; what is left is the beginning of the next one. */
static bool put_lines(struct put *put, struct ks_bytes *input, bool at_end)
{
    ks_view rest = ks_bytes_view(input);
    size_t taken = 0;

    while (rest.size > 0) {
        const uint8_t *newline = memchr(rest.data, '\n', rest.size);
        size_t size = newline != NULL ? (size_t)(newline - rest.data) : rest.size;

        if (newline == NULL && !at_end)
            break;
        if (!put_record(put, ks_view_of(rest.data, size)))
            return false;
        size += newline != NULL;
        taken += size;
        rest = ks_view_of(rest.data + size, rest.size - size);
    }
    ks_bytes_consume(input, taken);
    return put_send(put);
}

static bool put_stdin(struct put *put)
{
    enum { READ_MAX = 1 << 20 };
    struct ks_bytes input;
    bool fine = true;
    ssize_t got = 1;

    ks_bytes_init(&input, PUT_LINE_MAX + READ_MAX);
    while (fine && got > 0) {
        if (!ks_ok(ks_bytes_reserve(&input, READ_MAX))) {
            ks_call_complain("put: a line is longer than %d bytes", PUT_LINE_MAX);
            fine = false;
            break;
        }
        got = read(STDIN_FILENO, input.data + input.size, READ_MAX);
        if (got < 0) {
            ks_call_complain("put: stdin cannot be read");
            fine = false;
            break;
        }
        input.size += (size_t)got;
        fine = put_lines(put, &input, got == 0);
    }
    ks_bytes_free(&input);
    return fine;
}

static bool put_report(uint64_t done)
{
    char line[48];
    int length = snprintf(line, sizeof line, "%" PRIu64 " records put\n", done);

    return ks_ok(ks_call_print(NULL, ks_view_of(line, (size_t)length)));
}

int ks_command_put(int argc, char *const *argv, char *const *environment)
{
    enum { DATA, KEY, SUBSCRIPTION };
    static const struct ks_call_flag flags[] = {
        {"--data", true}, {"--partition-key", true}, {"--subscription", true}, {NULL, false}};
    struct ks_call call;
    struct put put = {.call = &call};
    struct ks_bytes target;
    bool fine;

    if (!ks_call_read(argc, argv, environment, flags, 0, &call))
        return 2;
    put.key = call.values[KEY];
    if (put.key != NULL && (put.key[0] == '\0' || !ks_view_is_utf8(ks_view_text(put.key)))) {
        ks_call_complain("--partition-key: 1 to 256 characters of UTF-8");
        return 2;
    }
    ks_bytes_init(&target, TARGET_MAX);
    ks_bytes_init(&put.body, PUT_BODY_MAX);
    ks_bytes_init(&put.answer, PUT_BODY_MAX);
    fine = ks_ok(append_target(&target, "/v1/local/records", call.values[SUBSCRIPTION]));
    put.target = (const char *)target.data;
    if (!fine)
        ks_call_complain("put: --subscription is too long");
    else if (call.values[DATA] != NULL)
        fine = put_record(&put, ks_view_text(call.values[DATA])) && put_send(&put);
    else
        fine = put_stdin(&put);
    ks_bytes_free(&target);
    ks_bytes_free(&put.body);
    ks_bytes_free(&put.answer);
    return put_report(put.done) && fine ? 0 : 1;
}

/* ---- pull ---- */

/* Appends "?name=value&.." for the flags that were given: "--max-records" is max_records. */
static ks_err append_query(struct ks_bytes *target, const struct ks_call_flag *flags,
                           const struct ks_call *call)
{
    uint8_t separator = '?';

    for (uint32_t i = 0; flags[i].name != NULL; i++) {
        if (!flags[i].takes_value || call->values[i] == NULL)
            continue;
        KS_TRY(ks_bytes_append_byte(target, separator));
        for (const char *c = flags[i].name + 2; *c != '\0'; c++)
            KS_TRY(ks_bytes_append_byte(target, *c == '-' ? '_' : (uint8_t)*c));
        KS_TRY(ks_bytes_append_byte(target, '='));
        KS_TRY(ks_client_append_query(target, ks_view_text(call->values[i])));
        separator = '&';
    }
    return ks_bytes_append_byte(target, '\0');
}

int ks_command_pull(int argc, char *const *argv, char *const *environment)
{
    enum { FOLLOW };
    /* The API says which of them go together. */
    static const struct ks_call_flag flags[] = {
        {"--follow", false},
        {"--max-records", true},
        {"--max-bytes", true},
        {"--wait-ms", true},
        {"--session", true},
        {"--client-id", true},
        {"--max-in-flight", true},
        {"--max-in-flight-bytes", true},
        {"--shards", true},
        {"--ack-deadline-ms", true},
        {"--heartbeat-ms", true},
        {"--encoding", true},
        {"--ordering", true},
        {"--lanes", true},
        {"--share", true},
        {"--salt", true},
        {"--filter", true},
        {"--subscription", true},
        {NULL, false},
    };
    struct ks_call call;
    struct ks_call_request request = {
        .method = "GET",
        .timeout = ks_span_ms(90000), /* The longest wait and the longest heartbeat are 60 s. */
    };
    struct ks_bytes target;
    bool fine;

    if (!ks_call_read(argc, argv, environment, flags, 0, &call))
        return 2;
    ks_bytes_init(&target, TARGET_MAX);
    fine =
        ks_ok(ks_bytes_append(&target, call.values[FOLLOW] != NULL ? KS_VIEW("/v1/records/stream")
                                                                   : KS_VIEW("/v1/records"))) &&
        ks_ok(append_query(&target, flags, &call));
    if (!fine) {
        ks_call_complain("pull: the flags are longer than %d bytes", TARGET_MAX);
    } else {
        request.target = (const char *)target.data;
        fine = ks_call_send(&call, &request);
    }
    ks_bytes_free(&target);
    return fine ? 0 : 1;
}

/* ---- ack ---- */

static ks_err append_settlement(struct ks_bytes *body, bool first, const char *member,
                                const char *id)
{
    KS_TRY(ks_bytes_format(body, "%s{\"%s\":\"", first ? "" : ",", member));
    KS_TRY(ks_writer_append_escaped(body, ks_view_text(id)));
    return ks_bytes_append(body, KS_VIEW("\",\"outcome\":\"ack\"}"));
}

static ks_err append_settlements(struct ks_bytes *body, const struct ks_call *call,
                                 const char *batch_id, const char *wait)
{
    KS_TRY(ks_bytes_append(body, KS_VIEW("{\"settlements\":[")));
    if (batch_id != NULL)
        KS_TRY(append_settlement(body, true, "batch_id", batch_id));
    for (uint32_t i = 0; i < call->word_count; i++)
        KS_TRY(append_settlement(body, i == 0 && batch_id == NULL, "ack_id", call->words[i]));
    KS_TRY(ks_bytes_append(body, KS_VIEW("],\"wait\":\"")));
    KS_TRY(ks_writer_append_escaped(body, ks_view_text(wait)));
    return ks_bytes_append(body, KS_VIEW("\"}"));
}

int ks_command_ack(int argc, char *const *argv, char *const *environment)
{
    enum { BATCH_ID, WAIT, BODY_MAX = 1 << 20 };
    static const struct ks_call_flag flags[] = {
        {"--batch-id", true}, {"--wait", true}, {NULL, false}};
    struct ks_call call;
    struct ks_call_request request = {
        .method = "POST",
        .target = "/v1/records/settle",
        .timeout = ks_span_ms(90000), /* For persisted it waits up to 60 s. */
        .part = ks_call_keep,
    };
    struct ks_bytes body;
    struct ks_bytes answer;
    const char *wait;
    bool fine;

    if (!ks_call_read(argc, argv, environment, flags, KS_CALL_WORDS_MAX, &call))
        return 2;
    if (call.word_count == 0 && call.values[BATCH_ID] == NULL) {
        ks_call_complain("ack: name at least one ack_id, or --batch-id");
        return 2;
    }
    wait = call.values[WAIT] != NULL ? call.values[WAIT] : "recorded";
    ks_bytes_init(&body, BODY_MAX);
    ks_bytes_init(&answer, BODY_MAX);
    fine = ks_ok(append_settlements(&body, &call, call.values[BATCH_ID], wait));
    if (!fine) {
        ks_call_complain("ack: more ids than fit into one request");
    } else {
        request.body = ks_bytes_view(&body);
        request.arg = &answer;
        fine = ks_call_send(&call, &request);
    }
    if (fine) {
        fine = ks_ok(ks_call_show(ks_bytes_view(&answer))) &&
               contains(&answer, KS_VIEW("\"failed\":[]")) &&
               (strcmp(wait, "persisted") != 0 || contains(&answer, KS_VIEW("\"persisted\":true")));
    }
    ks_bytes_free(&body);
    ks_bytes_free(&answer);
    return fine ? 0 : 1;
}

/* ---- health, wait, drain ---- */

int ks_command_health(int argc, char *const *argv, char *const *environment)
{
    static const struct ks_call_flag flags[] = {{NULL, false}};
    static const char *const probes[][2] = {
        {"readyz", "/readyz"}, {"livez", "/livez"}, {"startupz", "/startupz"}};
    struct ks_call call;
    struct ks_call_request request = {.ops = true, .method = "GET", .timeout = ks_span_ms(5000)};

    if (!ks_call_read(argc, argv, environment, flags, 1, &call))
        return 2;
    for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++) {
        if (call.word_count == 0 || strcmp(call.words[0], probes[i][0]) == 0) {
            request.target = probes[i][1];
            return ks_call_send(&call, &request) ? 0 : 1;
        }
    }
    ks_call_complain("health: %s is none of readyz, livez, startupz", call.words[0]);
    return 2;
}

/* A `part` that keeps as much as fits; `arg` is a struct ks_detail. */
static ks_err keep_start(void *arg, ks_view bytes)
{
    struct ks_detail *start = arg;
    size_t length = strlen(start->text);

    (void)snprintf(start->text + length, sizeof start->text - length, "%.*s", (int)bytes.size,
                   (const char *)bytes.data);
    return KS_OK;
}

/* True if the sidecar says that it is ready; asks without complaints. */
static bool is_ready(const struct ks_call *call, struct ks_detail *detail)
{
    struct ks_address addresses[KS_ADDRESSES_MAX];
    struct ks_detail said = {""};
    struct ks_client_request request = {.method = "GET",
                                        .target = "/readyz",
                                        .timeout = ks_span_ms(2000),
                                        .part = keep_start,
                                        .arg = &said};
    uint32_t count;
    int status = 0;
    ks_err err =
        ks_address_parse_list(ks_view_text(call->options.ops_listen), addresses, &count, detail);

    assert(ks_ok(err)); /* The options were checked. */
    err = ks_client_call(addresses, count, &request, &status, detail);
    if (ks_ok(err) && status != 200)
        ks_detail_set(detail, "/readyz answers %d: %s", status, said.text);
    return ks_ok(err) && status == 200;
}

int ks_command_wait(int argc, char *const *argv, char *const *environment)
{
    enum { TIMEOUT, TIMEOUT_MS = 60000, PAUSE_MS = 100 };
    static const struct ks_call_flag flags[] = {{"--timeout-ms", true}, {NULL, false}};
    struct ks_call call;
    uint64_t timeout_ms = TIMEOUT_MS;
    struct ks_loop *loop; /* For its clock. */
    struct ks_detail detail;
    ks_instant until;
    bool ready;
    ks_err err;

    if (!ks_call_read(argc, argv, environment, flags, 0, &call))
        return 2;
    if (call.values[TIMEOUT] != NULL &&
        (!ks_ok(ks_view_u64(ks_view_text(call.values[TIMEOUT]), &timeout_ms)) ||
         timeout_ms > 86400000)) {
        ks_call_complain("--timeout-ms: a number from 0 to 86400000");
        return 2;
    }
    err = ks_loop_new(&loop);
    if (!ks_ok(err)) {
        ks_call_complain("wait: %s", ks_err_text(err));
        return 1;
    }
    until = ks_instant_add(ks_loop_now(loop), ks_span_ms((int64_t)timeout_ms));
    for (ready = is_ready(&call, &detail); !ready; ready = is_ready(&call, &detail)) {
        ks_loop_turn(loop, ks_span_ms(PAUSE_MS));
        if (ks_instant_reached(ks_loop_now(loop), until))
            break;
    }
    ks_loop_free(loop);
    if (!ready)
        ks_call_complain("not ready after %" PRIu64 " ms: %s", timeout_ms, detail.text);
    return ready ? 0 : 1;
}

/* Beyond the drain's own patience: its last writes have time-outs. */
static ks_span drain_timeout(const struct ks_call *call)
{
    return ks_span_ms((int64_t)call->options.drain_timeout_ms + 30000);
}

int ks_command_drain(int argc, char *const *argv, char *const *environment)
{
    enum { SUBSCRIPTION };
    static const struct ks_call_flag flags[] = {{"--subscription", true}, {NULL, false}};
    struct ks_call call;
    struct ks_call_request request = {.method = "POST"};
    struct ks_bytes target;
    bool fine;

    if (!ks_call_read(argc, argv, environment, flags, 0, &call))
        return 2;
    ks_bytes_init(&target, TARGET_MAX);
    fine = ks_ok(append_target(&target, "/v1/drain", call.values[SUBSCRIPTION]));
    if (!fine) {
        ks_call_complain("drain: --subscription is too long");
    } else {
        request.target = (const char *)target.data;
        request.timeout = drain_timeout(&call);
        fine = ks_call_send(&call, &request);
    }
    ks_bytes_free(&target);
    return fine ? 0 : 1;
}

int ks_command_quit(int argc, char *const *argv, char *const *environment)
{
    static const struct ks_call_flag flags[] = {{NULL, false}};
    struct ks_call call;
    struct ks_call_request request = {.method = "POST", .target = "/v1/quit"};

    if (!ks_call_read(argc, argv, environment, flags, 0, &call))
        return 2;
    request.timeout = drain_timeout(&call);
    return ks_call_send(&call, &request) ? 0 : 1;
}
