/* SPDX-License-Identifier: Apache-2.0 */
#include "script.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST_BYTES_MAX = 1 << 20 };

/* One connection of the consumer. */
struct connection {
    struct script *script;
    int socket;
    char head[SCRIPT_HEADER_MAX];
    uint8_t *bytes;
    size_t size;
};

/* ---- Writing ---- */

static void write_all(int socket, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        ssize_t written = send(socket, at, size, MSG_NOSIGNAL);
        if (written <= 0)
            return; /* The consumer is gone. */
        at += written;
        size -= (size_t)written;
    }
}

void script_bytes(int stream, const void *data, size_t size)
{
    static pthread_mutex_t writing =
        PTHREAD_MUTEX_INITIALIZER; /* The test and a settle request may write. */
    struct ks_buffer chunk = {0};

    ks_buffer_print(&chunk, "%zx\r\n", size);
    ks_buffer_add(&chunk, data, size);
    ks_buffer_add(&chunk, "\r\n", 2);
    EXPECT(!chunk.is_full);
    (void)pthread_mutex_lock(&writing);
    write_all(stream, chunk.data, chunk.size);
    (void)pthread_mutex_unlock(&writing);
    ks_buffer_free(&chunk);
}

void script_event(int stream, uint32_t field, const void *data, size_t size)
{
    struct ks_buffer frame = {0};
    size_t begin = ks_wire_begin(&frame, field);

    ks_buffer_add(&frame, data, size);
    ks_wire_end(&frame, begin);
    ks_wire_end(&frame, 0);
    EXPECT(!frame.is_full);
    script_bytes(stream, frame.data, frame.size);
    ks_buffer_free(&frame);
}

struct content {
    const char *batch;
    int number;
    uint32_t attempt;
    const char *shard;
    uint32_t lane;
    const void *data;
    size_t size;
    bool redriven;
};

static void add_text(struct ks_buffer *buffer, uint32_t field, const char *text)
{
    ks_wire_add_bytes(buffer, field, text, strlen(text));
}

static void write_record(int stream, const struct content *content)
{
    struct ks_buffer record = {0};
    char text[64];

    (void)snprintf(text, sizeof(text), "%d.%" PRIu32, content->number, content->attempt);
    add_text(&record, KS_RECORD_ACK_ID, text);
    add_text(&record, KS_RECORD_BATCH_ID, content->batch);
    add_text(&record, KS_RECORD_STREAM, "demo");
    add_text(&record, KS_RECORD_SHARD_ID, content->shard);
    ks_wire_add_number(&record, KS_RECORD_EPOCH, 1);
    (void)snprintf(text, sizeof(text), "%d", content->number);
    add_text(&record, KS_RECORD_SEQUENCE_NUMBER, text);
    add_text(&record, KS_RECORD_PARTITION_KEY, "key");
    ks_wire_add_number(&record, KS_RECORD_ATTEMPT, content->attempt);
    ks_wire_add_bytes(&record, KS_RECORD_DATA, content->data, content->size);
    ks_wire_add_number(&record, KS_RECORD_REDRIVEN, content->redriven);
    ks_wire_add_number(&record, KS_RECORD_LANE, content->lane);
    ks_wire_add_number(&record, 99, 1); /* A member of a later sidecar. */
    script_event(stream, KS_EVENT_RECORD, record.data, record.size);
    ks_buffer_free(&record);
}

void script_record(int stream, const char *batch, int number, uint32_t attempt)
{
    script_record_in(stream, batch, number, attempt, "shard", 0);
}

void script_record_in(int stream, const char *batch, int number, uint32_t attempt,
                      const char *shard, uint32_t lane)
{
    write_record(stream, &(struct content){batch, number, attempt, shard, lane, "data", 4, false});
}

void script_redriven(int stream, const char *batch, int number, uint32_t attempt)
{
    write_record(stream, &(struct content){batch, number, attempt, "shard", 0, "data", 4, true});
}

void script_data(int stream, int number, const void *data, size_t size)
{
    write_record(stream, &(struct content){"b1", number, 1, "shard", 0, data, size, false});
}

void script_barrier(int stream, uint64_t number)
{
    struct ks_buffer barrier = {0};
    char text[32];

    (void)snprintf(text, sizeof(text), "%" PRIu64, number);
    add_text(&barrier, 1, text);
    script_event(stream, KS_EVENT_BARRIER, barrier.data, barrier.size);
    ks_buffer_free(&barrier);
}

void script_drop(int stream)
{
    (void)shutdown(stream, SHUT_RDWR);
    (void)close(stream);
}

static void write_answer(int socket, const struct script_answer *answer)
{
    char head[512];
    int size = snprintf(head, sizeof(head), "HTTP/1.1 %d Answer\r\n%sContent-Length: %zu\r\n\r\n",
                        answer->status, answer->headers, answer->size);

    write_all(socket, head, (size_t)size);
    write_all(socket, answer->body, answer->size);
}

/* ---- The answers of the test ---- */

static void push(struct script *script, struct script_answers *answers, struct script_answer answer)
{
    (void)pthread_mutex_lock(&script->mutex);
    EXPECT(answers->count < SCRIPT_ANSWERS_MAX);
    answers->answers[answers->count++] = answer;
    (void)pthread_mutex_unlock(&script->mutex);
}

void script_refuse(struct script *script, int status, const char *headers, const char *body)
{
    push(script, &script->refusals, (struct script_answer){status, headers, body, strlen(body)});
}

void script_answer(struct script *script, int status, const char *body, size_t size)
{
    push(script, &script->settles, (struct script_answer){status, "", body, size});
}

/* The next answer; NULL: none is left. The mutex is held. */
static const struct script_answer *next_answer(struct script_answers *answers)
{
    return answers->used < answers->count ? &answers->answers[answers->used++] : NULL;
}

const char *script_failure(const char *ack_id, const char *reason, size_t *ret_size)
{
    struct ks_buffer answer = {0};
    size_t begin = ks_wire_begin(&answer, KS_SETTLE_RESPONSE_FAILED);

    add_text(&answer, KS_SETTLE_FAILURE_ACK_ID, ack_id);
    add_text(&answer, KS_SETTLE_FAILURE_REASON, reason);
    add_text(&answer, KS_SETTLE_FAILURE_MESSAGE, "too late");
    ks_wire_end(&answer, begin);
    *ret_size = answer.size;
    return (const char *)answer.data; /* Freed with the process. */
}

/* ---- The requests of the consumer ---- */

static void append(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(char *text, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text + used, SCRIPT_TEXT_MAX - used, format, arguments);
    va_end(arguments);
}

static void note_item(struct script *script, const struct ks_field *field)
{
    static const char *const WORDS[] = {"", "ack", "retry", "extend", "dead_letter", "drop"};
    struct ks_message message = ks_message_of(field->data, field->size);
    struct ks_field id = {0}, reason = {0}, part;
    uint64_t outcome = 0, delay_ms = 0;
    char *text;

    while (ks_message_next(&message, &part))
        switch (part.number) {
        case KS_SETTLEMENT_OUTCOME: outcome = part.value; break;
        case KS_SETTLEMENT_DELAY_MS: delay_ms = part.value; break;
        case KS_SETTLEMENT_REASON: reason = part; break;
        default: id = part; break;
        }
    EXPECT(!message.is_malformed && outcome >= 1 && outcome <= 5);
    text = outcome == 3 ? script->extensions : script->outcomes;
    append(text, "%s%.*s:%s", text[0] == '\0' ? "" : " ", (int)id.size, (const char *)id.data,
           WORDS[outcome]);
    if (delay_ms > 0)
        append(text, "+%" PRIu64, delay_ms);
    if (reason.size > 0)
        append(text, "(%.*s)", (int)reason.size, (const char *)reason.data);
}

/* Notes the items of a settle request. Returns its barrier; 0: none. */
static uint64_t note_settle(struct script *script, const uint8_t *body, size_t size)
{
    struct ks_message message = ks_message_of(body, size);
    uint64_t barrier = 0;
    struct ks_field field;

    while (ks_message_next(&message, &field))
        if (field.number == KS_SETTLE_REQUEST_SETTLEMENTS) {
            note_item(script, &field);
        } else if (field.number == KS_SETTLE_REQUEST_BARRIER) {
            char text[32];
            (void)snprintf(text, sizeof(text), "%.*s", (int)field.size, (const char *)field.data);
            barrier = strtoull(text, NULL, 10);
        }
    EXPECT(!message.is_malformed);
    script->requests++;
    return barrier;
}

static void note_token(struct script *script, const char *head)
{
    const char *token = strstr(head, "Authorization: Bearer ");

    if (token != NULL)
        append(script->tokens, "%.*s ", (int)strcspn(token + 22, "\r\n"), token + 22);
}

static void take_settle(const struct connection *connection, const uint8_t *body, size_t size)
{
    static const struct script_answer ACCEPTED = {200, "", "\x18\x01", 2}; /* persisted. */
    static const struct script_answer REFUSED = {503, "", "", 0};
    struct script *script = connection->script;
    const struct script_answer *answer;
    uint64_t barrier;
    int stream;

    (void)pthread_mutex_lock(&script->mutex);
    note_token(script, connection->head);
    barrier = note_settle(script, body, size);
    while (script->holds_answers)
        (void)pthread_cond_wait(&script->changed, &script->mutex);
    answer = script->refuses_settles ? &REFUSED : next_answer(&script->settles);
    stream = script->last_stream;
    if (barrier > 0 && script->sends_barriers && (answer == NULL || answer->status == 200))
        script_barrier(stream, barrier);
    (void)pthread_mutex_unlock(&script->mutex);
    write_answer(connection->socket, answer == NULL ? &ACCEPTED : answer);
}

/* Returns whether the connection is a stream now, which the test has. */
static bool take_stream(const struct connection *connection)
{
    struct script *script = connection->script;
    const struct script_answer *refusal;

    (void)pthread_mutex_lock(&script->mutex);
    note_token(script, connection->head);
    script->opened++;
    refusal = next_answer(&script->refusals);
    if (refusal == NULL) {
        script->stream = connection->socket;
        (void)snprintf(script->request, sizeof(script->request), "%s", connection->head);
        (void)pthread_cond_broadcast(&script->changed);
    }
    (void)pthread_mutex_unlock(&script->mutex);
    if (refusal != NULL)
        write_answer(connection->socket, refusal);
    return refusal == NULL;
}

/* Reads the next request: its head, and its body into connection->bytes. Returns false at the
 * end. */
static bool read_request(struct connection *connection, size_t *body_size)
{
    uint8_t *end = NULL;
    const char *length;
    size_t head_size;

    connection->size = 0;
    while (end == NULL) {
        ssize_t received = recv(connection->socket, connection->bytes + connection->size, 1, 0);
        if (received <= 0 || connection->size + 2 > SCRIPT_HEADER_MAX)
            return false;
        connection->size++;
        if (connection->size >= 4 &&
            memcmp(connection->bytes + connection->size - 4, "\r\n\r\n", 4) == 0)
            end = connection->bytes + connection->size;
    }
    head_size = connection->size;
    memcpy(connection->head, connection->bytes, head_size);
    connection->head[head_size] = '\0';
    length = strstr(connection->head, "Content-Length: ");
    *body_size = length == NULL ? 0 : strtoul(length + 16, NULL, 10);
    EXPECT(*body_size < REQUEST_BYTES_MAX);
    for (size_t size = 0; size < *body_size;) {
        ssize_t received = recv(connection->socket, connection->bytes + size, *body_size - size, 0);
        if (received <= 0)
            return false;
        size += (size_t)received;
    }
    return true;
}

static void *serve_connection(void *context)
{
    struct connection *connection = context;
    struct script *script = connection->script;
    bool is_stream = false;
    size_t size;

    while (!is_stream && read_request(connection, &size)) {
        if (strncmp(connection->head, "GET ", 4) == 0) {
            is_stream = take_stream(connection);
        } else if (strncmp(connection->head, "POST ", 5) == 0) {
            take_settle(connection, connection->bytes, size);
        } else {
            (void)pthread_mutex_lock(&script->mutex);
            script->deleted++;
            (void)pthread_mutex_unlock(&script->mutex);
            write_answer(connection->socket, &(struct script_answer){200, "", "{}", 2});
        }
    }
    if (!is_stream)
        (void)close(connection->socket);
    free(connection->bytes);
    free(connection);
    return NULL;
}

static void *serve(void *context)
{
    struct script *script = context;

    for (;;) {
        struct connection *connection = calloc(1, sizeof(*connection));
        pthread_t thread;
        EXPECT(connection != NULL);
        connection->script = script;
        connection->bytes = malloc(REQUEST_BYTES_MAX);
        connection->socket = accept(script->listener, NULL, NULL);
        EXPECT(connection->socket >= 0);
        EXPECT(pthread_create(&thread, NULL, serve_connection, connection) == 0);
        (void)pthread_detach(thread);
    }
    return NULL;
}

/* ---- For the test ---- */

struct script *script_start(void)
{
    static struct script script = {.stream = -1, .sends_barriers = true}; /* One for each test. */
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    sigset_t all, before;
    pthread_t thread;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)pthread_mutex_init(&script.mutex, NULL);
    (void)pthread_cond_init(&script.changed, NULL);
    script.listener = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(bind(script.listener, (struct sockaddr *)&address, sizeof(address)) == 0);
    EXPECT(listen(script.listener, 16) == 0);
    EXPECT(getsockname(script.listener, (struct sockaddr *)&address, &size) == 0);
    (void)snprintf(script.url, sizeof(script.url), "http://127.0.0.1:%d", ntohs(address.sin_port));
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* Signals are for the test. */
    EXPECT(pthread_create(&thread, NULL, serve, &script) == 0);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_detach(thread);
    return &script;
}

int script_open_with(struct script *script, int64_t ack_deadline_ms, int64_t heartbeat_ms)
{
    static const char HEAD[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    struct ks_buffer session = {0};
    int stream;

    (void)pthread_mutex_lock(&script->mutex);
    while (script->stream < 0)
        (void)pthread_cond_wait(&script->changed, &script->mutex);
    stream = script->stream;
    script->last_stream = stream;
    script->stream = -1;
    (void)pthread_mutex_unlock(&script->mutex);
    write_all(stream, HEAD, sizeof(HEAD) - 1);
    add_text(&session, 1, "session");
    ks_wire_add_number(&session, 4, 1000);
    ks_wire_add_number(&session, 5, 1 << 24);
    ks_wire_add_number(&session, 6, (uint64_t)ack_deadline_ms);
    ks_wire_add_number(&session, 7, (uint64_t)heartbeat_ms);
    script_event(stream, KS_EVENT_SESSION, session.data, session.size);
    ks_buffer_free(&session);
    return stream;
}

int script_open(struct script *script)
{
    return script_open_with(script, 60000, 10000);
}

static bool contains(struct script *script, const char *text, const char *item)
{
    size_t size = strlen(item);
    bool found = false;

    (void)pthread_mutex_lock(&script->mutex);
    for (const char *at = text; !found && (at = strstr(at, item)) != NULL; at += size)
        found = (at == text || at[-1] == ' ') && (at[size] == ' ' || at[size] == '\0');
    (void)pthread_mutex_unlock(&script->mutex);
    return found;
}

bool script_has(struct script *script, const char *item)
{
    return contains(script, script->outcomes, item);
}

bool script_has_extension(struct script *script, const char *item)
{
    return contains(script, script->extensions, item);
}

const char *script_outcomes(struct script *script)
{
    static char copy[SCRIPT_TEXT_MAX];

    (void)pthread_mutex_lock(&script->mutex);
    memcpy(copy, script->outcomes, sizeof(copy));
    (void)pthread_mutex_unlock(&script->mutex);
    return copy;
}

unsigned script_count(struct script *script, const unsigned *member)
{
    unsigned count;

    (void)pthread_mutex_lock(&script->mutex);
    count = *member;
    (void)pthread_mutex_unlock(&script->mutex);
    return count;
}

void script_hold_answers(struct script *script, bool holds)
{
    (void)pthread_mutex_lock(&script->mutex);
    script->holds_answers = holds;
    (void)pthread_cond_broadcast(&script->changed);
    (void)pthread_mutex_unlock(&script->mutex);
}

void script_refuse_settles(struct script *script, bool refuses)
{
    (void)pthread_mutex_lock(&script->mutex);
    script->refuses_settles = refuses;
    (void)pthread_mutex_unlock(&script->mutex);
}
