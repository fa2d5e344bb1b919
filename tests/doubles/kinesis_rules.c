/* SPDX-License-Identifier: Apache-2.0 */
/* What a test can change, and what it can ask: knobs, rates, faults, counts; all by HTTP at /_control. */
#include "kinesis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct knobs knobs = {
#define X(name, value, what) .name = value,
    KNOBS(X)
#undef X
};

static const struct {
    const char *name;
    int64_t *knob;
} knob_names[] = {
#define X(name, value, what) {#name, &knobs.name},
    KNOBS(X)
#undef X
};
enum { KNOB_COUNT = sizeof knob_names / sizeof knob_names[0] };

int64_t now_ms;
struct counts counts;

int64_t scaled(int64_t span)
{
    return span / knobs.scale;
}

bool rate_allows(struct rate *rate, uint64_t bytes, int64_t calls_max, int64_t bytes_max)
{
    if (knobs.limits == 0)
        return true;
    if (now_ms - rate->since_ms >= scaled(knobs.second_span))
        *rate = (struct rate){.since_ms = now_ms};
    if ((calls_max > 0 && rate->calls >= (uint64_t)calls_max) ||
        (bytes_max > 0 && rate->bytes >= (uint64_t)bytes_max))
        return false;
    rate->calls++;
    rate->bytes += bytes;
    return true;
}

/* ---- Faults ---- */

enum { FAULTS_MAX = 64 };

static struct fault faults[FAULTS_MAX];
static uint32_t fault_count;

static const struct {
    const char *name;
    enum fault_kind kind;
    enum fault_moment moment;
} fault_names[] = {
    {"error", FAULT_ERROR, AT_CALL},
    {"refuse", FAULT_REFUSE, AT_CALL},
    {"lose", FAULT_LOSE, AT_CALL},
    {"hang", FAULT_HANG, AT_CALL},
    {"cut", FAULT_CUT, AT_CALL},
    {"garbage", FAULT_GARBAGE, AT_CALL},
    {"late", FAULT_LATE, AT_CALL},
    {"exception", FAULT_EXCEPTION, AT_EVENT},
    {"stream-error", FAULT_STREAM_ERROR, AT_EVENT},
    {"bad-crc", FAULT_BAD_CRC, AT_EVENT},
    {"cut-event", FAULT_CUT, AT_EVENT},
    {"garbage-event", FAULT_GARBAGE, AT_EVENT},
    {"silence", FAULT_SILENCE, AT_EVENT},
    {"end", FAULT_END, AT_EVENT},
    {"no-initial", FAULT_NO_INITIAL, AT_INITIAL},
};

static bool hits(const struct fault *fault, const struct call *call, enum fault_moment moment)
{
    return fault->moment == moment && fault->count > 0 &&
           (fault->operation[0] == '\0' || strcmp(fault->operation, call->operation) == 0) &&
           (fault->shard[0] == '\0' || strcmp(fault->shard, call->shard_id) == 0);
}

struct fault fault_for(const struct call *call, enum fault_moment moment)
{
    for (uint32_t at = 0; at < fault_count; at++) {
        struct fault *fault = &faults[at];

        if (!hits(fault, call, moment))
            continue;
        if (fault->skip > 0) {
            fault->skip--;
            continue;
        }
        if (fault->percent < 100 && (int64_t)(chance() % 100) >= fault->percent)
            continue;
        fault->count--;
        return *fault;
    }
    return (struct fault){.kind = FAULT_NONE};
}

static void copy_member(const json_t *object, const char *name, char *to, size_t size)
{
    const char *text = json_string_value(json_object_get(object, name));

    snprintf(to, size, "%s", text == NULL ? "" : text);
}

static int64_t number_member(const json_t *object, const char *name, int64_t otherwise)
{
    const json_t *member = json_object_get(object, name);

    return json_is_integer(member) ? json_integer_value(member) : otherwise;
}

static const char *add_fault(const json_t *from)
{
    const char *kind = json_string_value(json_object_get(from, "kind"));
    struct fault fault = {
        .status = (int)number_member(from, "status", 0),
        .delay_ms = number_member(from, "delay_ms", 0),
        .skip = number_member(from, "skip", 0),
        .count = number_member(from, "count", 1),
        .percent = number_member(from, "percent", 100),
    };

    for (size_t at = 0; kind != NULL && at < sizeof fault_names / sizeof fault_names[0]; at++) {
        if (strcmp(kind, fault_names[at].name) == 0) {
            fault.kind = fault_names[at].kind;
            fault.moment = fault_names[at].moment;
        }
    }
    if (fault.kind == FAULT_NONE)
        return "a fault of no known kind";
    copy_member(from, "operation", fault.operation, sizeof fault.operation);
    copy_member(from, "shard", fault.shard, sizeof fault.shard);
    copy_member(from, "code", fault.code, sizeof fault.code);
    copy_member(from, "message", fault.message, sizeof fault.message);
    copy_member(from, "header", fault.header, sizeof fault.header);
    if (fault.code[0] == '\0' && (fault.kind == FAULT_ERROR || fault.kind == FAULT_EXCEPTION ||
                                  fault.kind == FAULT_STREAM_ERROR))
        return "a fault without its code";
    /* Those that are used up make room. */
    uint32_t place = 0;
    while (place < fault_count && faults[place].count > 0)
        place++;
    if (place == FAULTS_MAX)
        return "too many faults";
    faults[place] = fault;
    fault_count = place == fault_count ? fault_count + 1 : fault_count;
    return NULL;
}

/* ---- Counts ---- */

static json_t *requests;
static json_t *errors;

static void count(json_t **table, const char *name)
{
    if (*table == NULL)
        *table = json_object();
    json_int_t before = json_integer_value(json_object_get(*table, name));
    json_object_set_new(*table, name, json_integer(before + 1));
}

void count_request(const char *operation)
{
    count(&requests, operation);
}

void count_error(const char *code)
{
    count(&errors, code);
}

static json_t *tell(void)
{
    json_t *told = json_object();
    json_t *values = json_object();
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"connections", counts.connections},
        {"connections_open", counts.connections_open},
        {"tls", counts.tls},
        {"h2", counts.h2},
        {"signatures_checked", counts.signatures_checked},
        {"signatures_refused", counts.signatures_refused},
        {"subscriptions", counts.subscriptions},
        {"subscriptions_open", counts.subscriptions_open},
        {"records_sent", counts.records_sent},
        {"bytes_sent", counts.bytes_sent},
    };

    for (size_t at = 0; at < sizeof numbers / sizeof numbers[0]; at++)
        json_object_set_new(told, numbers[at].name, json_integer((json_int_t)numbers[at].value));
    json_object_set_new(told, "requests", requests == NULL ? json_object() : json_copy(requests));
    json_object_set_new(told, "errors", errors == NULL ? json_object() : json_copy(errors));
    json_object_set_new(told, "now_ms", json_integer(now_ms));
    for (size_t at = 0; at < KNOB_COUNT; at++)
        json_object_set_new(values, knob_names[at].name, json_integer(*knob_names[at].knob));
    json_object_set_new(told, "knobs", values);
    return told;
}

/* ---- Control ---- */

static const char *set_volume(const json_t *from)
{
    const char *name = json_string_value(json_object_get(from, "stream"));
    struct stream *stream = name == NULL ? NULL : stream_find(name, strlen(name));
    int64_t data_size = number_member(from, "bytes", 1024);

    if (stream == NULL)
        return "a volume of no stream";
    if (data_size < 1 || data_size > knobs.record_bytes)
        return "a volume of records of no size";
    for (uint32_t at = 0; at < stream->shard_count; at++) {
        if (stream->shards[at]->count > 0)
            return "a volume of a stream with records";
        stream->shards[at]->opened_ms = now_ms;
    }
    stream->volume = (struct volume){
        .data_size = (uint32_t)data_size,
        .count = (uint64_t)number_member(from, "records", 1000000000000),
        .per_second = (uint64_t)number_member(from, "per_second", 0),
    };
    return NULL;
}

static const char *set_knob(const char *name, const json_t *value)
{
    for (size_t at = 0; at < KNOB_COUNT; at++) {
        if (strcmp(name, knob_names[at].name) != 0)
            continue;
        if (!json_is_integer(value) ||
            (knob_names[at].knob == &knobs.scale && json_integer_value(value) < 1))
            return "a knob takes a whole number";
        *knob_names[at].knob = json_integer_value(value);
        return NULL;
    }
    return "there is no such knob";
}

static const char *set_one(const char *name, const json_t *value)
{
    const char *wrong = NULL;
    size_t index;
    json_t *fault;

    if (strcmp(name, "heal") == 0) {
        fault_count = 0;
        return NULL;
    }
    if (strcmp(name, "faults") == 0) {
        json_array_foreach(value, index, fault)
        {
            wrong = wrong == NULL ? add_fault(fault) : wrong;
        }
        return wrong;
    }
    if (strcmp(name, "credentials") == 0)
        return credentials_set(value);
    if (strcmp(name, "volume") == 0)
        return set_volume(value);
    return set_knob(name, value);
}

void control_answer(struct call *call)
{
    const char *wrong = NULL;
    const char *name;
    json_t *value;

    call->status = 200;
    if (strcmp(call->method, "GET") != 0) {
        json_t *in =
            json_loadb((const char *)bytes_front(&call->body), bytes_size(&call->body), 0, NULL);
        wrong = json_is_object(in) ? NULL : "not a JSON object";
        json_object_foreach(in, name, value)
        {
            if (wrong == NULL && (wrong = set_one(name, value)) != NULL)
                bytes_print(&call->answer, "%s: %s\n", name, wrong);
        }
        json_decref(in);
    }
    if (wrong != NULL) {
        call->status = 400;
        return;
    }
    json_t *told = tell();
    char *text = json_dumps(told, JSON_INDENT(1));
    bytes_add(&call->answer, text, strlen(text));
    free(text);
    json_decref(told);
}
