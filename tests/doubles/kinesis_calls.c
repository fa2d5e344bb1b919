/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: what is asked, by whom, whether it may be, and the head of the answer. */
#include "kinesis.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Refusals ---- */

/* Status and text of a code: what AWS is known to say. {shard} and {stream} are filled in. */
static const struct {
    const char *code;
    int status;
    const char *text;
} refusals[] = {
    {"ProvisionedThroughputExceededException", 400,
     "Rate exceeded for shard {shard} in stream {stream} under account " ACCOUNT "."},
    {"LimitExceededException", 400, "Rate exceeded for stream {stream} under account " ACCOUNT "."},
    {"KMSThrottlingException", 400, "The request was denied due to request throttling."},
    {"ThrottlingException", 400, "Rate exceeded"},
    {"ExpiredTokenException", 400, "The security token included in the request is expired"},
    {"UnrecognizedClientException", 400, "The security token included in the request is invalid."},
    {"ResourceNotFoundException", 400, "Stream {stream} under account " ACCOUNT " not found."},
    {"ResourceInUseException", 400,
     "Stream {stream} under account " ACCOUNT " not ACTIVE, instead in state DELETING"},
    {"RequestTimeoutException", 408, ""},
    {"InternalFailure", 500, ""},
    {"InternalFailureException", 500, ""},
    {"InternalServerError", 500, "The request processing has failed because of an unknown error."},
    {"ServiceUnavailable", 503, "Service Unavailable"},
    {"ServiceUnavailableException", 503, "Service Unavailable"},
};
enum { REFUSALS = sizeof refusals / sizeof refusals[0] };

static int error_status(const char *code)
{
    for (size_t at = 0; at < REFUSALS; at++) {
        if (strcmp(code, refusals[at].code) == 0)
            return refusals[at].status;
    }
    return 400;
}

void error_text(const struct call *call, const char *code, char *text, size_t size)
{
    const char *from = "";
    size_t at = 0;

    for (size_t index = 0; index < REFUSALS; index++) {
        if (strcmp(code, refusals[index].code) == 0)
            from = refusals[index].text;
    }
    text[0] = '\0';
    while (*from != '\0' && at + NAME_MAX_BYTES + 1 < size) {
        const char *name = strncmp(from, "{shard}", 7) == 0    ? call->shard_id
                           : strncmp(from, "{stream}", 8) == 0 ? call->stream_name
                                                               : NULL;
        if (name == NULL) {
            text[at++] = *from++;
            text[at] = '\0';
            continue;
        }
        at += (size_t)snprintf(text + at, size - at, "%s", name);
        from = strchr(from, '}') + 1;
    }
}

void fail(struct call *call, const char *code, const char *format, ...)
{
    char text[4096];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);

    call->status = error_status(code);
    bytes_free(&call->answer);
    call->out.comma = false;
    write_map(&call->out);
    write_pair(&call->out, "__type", code);
    if (text[0] != '\0')
        write_pair(&call->out, strcmp(code, "SerializationException") == 0 ? "Message" : "message",
                   text);
    write_map_end(&call->out);
    count_error(code);
}

/* What is no request to a service at all is answered in XML. */
static void fail_plain(struct call *call, int status, const char *code, const char *text)
{
    call->status = status;
    call->content_type = NULL;
    if (text == NULL)
        bytes_print(&call->answer, "<%s/>\n", code);
    else
        bytes_print(&call->answer, "<%s>\n  <Message>%s</Message>\n</%s>\n", code, text, code);
    count_error(code);
}

/* ---- Members of a request ---- */

const char *call_header(const struct call *call, const char *name)
{
    for (uint32_t at = 0; at < call->header_count; at++) {
        if (strcmp(call->headers[at].name, name) == 0)
            return call->headers[at].value;
    }
    return NULL;
}

const char *in_text(const struct call *call, const char *name)
{
    return json_string_value(json_object_get(call->in, name));
}

int64_t in_number(const struct call *call, const char *name, int64_t otherwise)
{
    const json_t *member = json_object_get(call->in, name);

    return json_is_number(member) ? (int64_t)json_number_value(member) : otherwise;
}

bool in_time(const json_t *object, const char *name, int64_t *ret_unix_ms)
{
    const json_t *member = json_object_get(object, name);

    if (!json_is_number(member))
        return false;
    *ret_unix_ms = (int64_t)(json_number_value(member) * 1000.0 + 0.5);
    return true;
}

/* Fills in what the call is about. */
static void name_target(struct call *call)
{
    static const char *const shard_members[] = {"ShardId", "ShardToSplit", "ShardToMerge"};
    const char *name = in_text(call, "StreamName");
    const char *arn = in_text(call, "StreamARN");
    const char *iterator = in_text(call, "ShardIterator");
    struct iterator at;

    if (arn == NULL)
        arn = in_text(call, "ConsumerARN");
    if (name == NULL && arn != NULL && (name = strstr(arn, ":stream/")) != NULL)
        name += strlen(":stream/");
    if (name != NULL)
        snprintf(call->stream_name, sizeof call->stream_name, "%.*s", (int)strcspn(name, "/"),
                 name);
    for (size_t member = 0; member < sizeof shard_members / sizeof shard_members[0]; member++) {
        const char *shard = in_text(call, shard_members[member]);
        if (shard != NULL)
            snprintf(call->shard_id, sizeof call->shard_id, "%s", shard);
    }
    if (iterator != NULL && iterator_read(iterator, &at)) {
        snprintf(call->stream_name, sizeof call->stream_name, "%s", at.stream);
        snprintf(call->shard_id, sizeof call->shard_id, "%s", at.shard);
    }
}

struct stream *in_stream(struct call *call)
{
    struct stream *stream = stream_find(call->stream_name, strlen(call->stream_name));
    const char *arn = in_text(call, "StreamARN");

    if (stream != NULL && (arn == NULL || strcmp(arn, stream->arn) == 0))
        return stream;
    fail(call, "ResourceNotFoundException", "Stream %s under account " ACCOUNT " not found.",
         call->stream_name);
    return NULL;
}

struct shard *in_shard(struct call *call, const struct stream *stream)
{
    struct shard *shard = stream == NULL ? NULL : shard_find(stream, call->shard_id);

    if (shard == NULL)
        fail(call, "ResourceNotFoundException",
             "Shard %s in stream %s under account " ACCOUNT " does not exist", call->shard_id,
             call->stream_name);
    return shard;
}

/* ---- Operations ---- */

/* What they are, and how many of them AWS takes from an account in a second; 0: counted elsewhere. */
static struct operation {
    const char *name;
    operation_function *function;
    int64_t calls_max;
    struct rate rate;
} operations[] = {
    {"CreateStream", create_stream, 5, {0}},
    {"DeleteStream", delete_stream, 5, {0}},
    {"DescribeStream", describe_stream, 10, {0}},
    {"DescribeStreamSummary", describe_summary, 20, {0}},
    {"ListShards", list_shards, 0, {0}},
    {"SplitShard", split_shard, 5, {0}},
    {"MergeShards", merge_shards, 5, {0}},
    {"PutRecord", put_record, 0, {0}},
    {"PutRecords", put_records, 0, {0}},
    {"GetShardIterator", get_shard_iterator, 0, {0}},
    {"GetRecords", get_records, 0, {0}},
    {"RegisterStreamConsumer", register_consumer, 5, {0}},
    {"DeregisterStreamConsumer", deregister_consumer, 5, {0}},
    {"DescribeStreamConsumer", describe_consumer, 20, {0}},
    {"ListStreamConsumers", list_consumers, 5, {0}},
    {"SubscribeToShard", subscribe, 0, {0}},
};

static struct operation *operation_of(const struct call *call)
{
    static const char prefix[] = "Kinesis_20131202.";
    const char *target = call_header(call, "x-amz-target");

    if (target == NULL || strncmp(target, prefix, sizeof prefix - 1) != 0)
        return NULL;
    for (size_t at = 0; at < sizeof operations / sizeof operations[0]; at++) {
        if (strcmp(target + sizeof prefix - 1, operations[at].name) == 0)
            return &operations[at];
    }
    return NULL;
}

/* ---- Serving ---- */

static const char type_json[] = "application/x-amz-json-1.1";
static const char type_cbor[] = "application/x-amz-cbor-1.1";

/* Reads the body. False: refused. */
static bool read_body(struct call *call)
{
    const char *type = call_header(call, "content-type");
    size_t length = type == NULL ? 0 : strcspn(type, "; ");
    bool json = length == sizeof type_json - 1 && strncmp(type, type_json, length) == 0;
    bool cbor = length == sizeof type_cbor - 1 && strncmp(type, type_cbor, length) == 0;

    call->out.cbor = !json;
    call->content_type = json ? type_json : type_cbor;
    if (bytes_size(&call->body) == 0) {
        fail(call,
             operation_of(call) == NULL ? "UnknownOperationException" : "SerializationException",
             "%s", "");
        return false;
    }
    if (!json && !cbor) {
        if (call_header(call, "x-amz-target") == NULL)
            fail_plain(call, 403, "AccessDeniedException",
                       "Unable to determine service/operation name to be authorized");
        else
            fail_plain(call, 404, "UnknownOperationException", NULL);
        return false;
    }
    call->in = cbor ? cbor_read(bytes_front(&call->body), bytes_size(&call->body))
                    : json_loadb((const char *)bytes_front(&call->body), bytes_size(&call->body),
                                 JSON_ALLOW_NUL, NULL);
    if (json_is_object(call->in))
        return true;
    fail(call, "SerializationException", "%s", "");
    return false;
}

static void do_operation(struct call *call, struct operation *operation)
{
    char text[512];

    call->fault = fault_for(call, AT_CALL);
    if (call->fault.kind == FAULT_ERROR) {
        if (call->fault.message[0] != '\0')
            snprintf(text, sizeof text, "%s", call->fault.message);
        else
            error_text(call, call->fault.code, text, sizeof text);
        fail(call, call->fault.code, "%s", text);
        call->status = call->fault.status != 0 ? call->fault.status : call->status;
        return;
    }
    if (call->fault.kind == FAULT_REFUSE || !request_valid(call))
        return;
    if (!rate_allows(&operation->rate, 0, operation->calls_max, 0)) {
        error_text(call, "LimitExceededException", text, sizeof text);
        fail(call, "LimitExceededException", "%s", text);
        return;
    }
    operation->function(call);
}

static void serve_aws(struct call *call)
{
    struct operation *operation;

    if (strcmp(call->method, "POST") != 0) {
        fail_plain(call, 403, "AccessDeniedException",
                   "Unable to determine service/operation name to be authorized");
        return;
    }
    if (!read_body(call))
        return;
    operation = operation_of(call);
    if (operation == NULL) {
        fail(call, "UnknownOperationException", "%s", "");
        return;
    }
    snprintf(call->operation, sizeof call->operation, "%s", operation->name);
    count_request(operation->name);
    name_target(call);
    if (signature_valid(call))
        do_operation(call, operation);
}

/* ---- Answers that wait ---- */

static struct call *waiting;

static void unlist(struct call *call)
{
    for (struct call **at = &waiting; *at != NULL; at = &(*at)->next) {
        if (*at == call) {
            *at = call->next;
            return;
        }
    }
}

int64_t calls_turn(void)
{
    int64_t again_ms = INT64_MAX;

    for (struct call *call = waiting, *next; call != NULL; call = next) {
        next = call->next;
        if (call->due_ms <= now_ms) {
            unlist(call);
            connection_wake(call->connection);
        } else if (call->due_ms < again_ms)
            again_ms = call->due_ms;
    }
    return again_ms;
}

void call_serve(struct call *call)
{
    static const char nonsense[] = "<html><body>It works!</body></html>\n{\"Records\":[{]\x9f\xff";

    call->status = 200;
    call->out.to = &call->answer;
    if (strcmp(call->path, "/_control") == 0)
        control_answer(call);
    else
        serve_aws(call);
    call->ended = call->subscription == NULL;
    if (call->fault.kind == FAULT_GARBAGE) {
        call->status = 200;
        bytes_free(&call->answer);
        bytes_add(&call->answer, nonsense, sizeof nonsense - 1);
    }
    if (call->fault.kind == FAULT_HANG)
        call->due_ms = INT64_MAX;
    else if (call->fault.kind != FAULT_NONE)
        call->due_ms = now_ms + call->fault.delay_ms;
    if (call->due_ms > now_ms) {
        call->next = waiting;
        waiting = call;
    }
}

struct call *call_new(struct connection *connection)
{
    struct call *call = must_alloc(sizeof *call);

    call->connection = connection;
    return call;
}

void call_free(struct call *call)
{
    if (call == NULL)
        return;
    unlist(call);
    subscription_free(call->subscription);
    json_decref(call->in);
    bytes_free(&call->text);
    bytes_free(&call->body);
    bytes_free(&call->answer);
    free(call);
}

/* ---- The head of an answer ---- */

static const char *date(void)
{
    static char text[40];
    static int64_t second;
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm parts;

    if (second != now_ms / 1000 && gmtime_r(&seconds, &parts) != NULL) {
        strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
        second = now_ms / 1000;
    }
    return text;
}

static void print_request_id(char *text, size_t size)
{
    uint64_t high = chance();
    uint64_t low = chance();

    snprintf(text, size, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(high >> 32),
             (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xffff), (unsigned)(low >> 48),
             (unsigned long long)(low & 0xffffffffffff));
}

static void print_id_2(char *text, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t length = 96 < size ? 96 : size - 1;
    uint64_t bits = 0;

    for (size_t at = 0; at < length; at++, bits >>= 6) {
        if (at % 10 == 0)
            bits = chance();
        text[at] = digits[bits & 63];
    }
    text[length] = '\0';
}

uint32_t answer_headers(const struct call *call, struct answer_header headers[ANSWER_HEADERS])
{
    struct answer_header *at = headers;

    snprintf(at->name, sizeof at->name, "x-amzn-requestid");
    print_request_id(at->value, sizeof at->value);
    at++;
    snprintf(at->name, sizeof at->name, "x-amz-id-2");
    print_id_2(at->value, sizeof at->value);
    at++;
    snprintf(at->name, sizeof at->name, "date");
    snprintf(at->value, sizeof at->value, "%s", date());
    at++;
    if (call->content_type != NULL) {
        snprintf(at->name, sizeof at->name, "content-type");
        snprintf(at->value, sizeof at->value, "%s", call->content_type);
        at++;
    }
    if (call->ended) {
        snprintf(at->name, sizeof at->name, "content-length");
        snprintf(at->value, sizeof at->value, "%zu", bytes_size(&call->answer));
        at++;
    }
    if (strchr(call->fault.header, ':') != NULL) {
        size_t length = strcspn(call->fault.header, ":");
        const char *value = call->fault.header + length + 1;
        snprintf(at->name, sizeof at->name, "%.*s", (int)length, call->fault.header);
        snprintf(at->value, sizeof at->value, "%s", value + strspn(value, " "));
        at++;
    }
    return (uint32_t)(at - headers);
}
