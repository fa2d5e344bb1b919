/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_client.h"

#include "http_client.h"
#include "meter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    DATA = 0,
    HEADERS = 1,
    RST_STREAM = 3,
    SETTINGS = 4,
    GOAWAY = 7,
    WINDOW_UPDATE = 8,
    PING = 6,
    ACK = 1,
    END_STREAM = 1,
    END_HEADERS = 4,
    SETTINGS_INITIAL_WINDOW_SIZE = 4,
    WINDOW = 16 << 20, /* More than a socket holds: it is not what ends the sending. */
    WINDOW_FIRST = 65535,
    MESSAGE_MAX = 80 << 10
};

static size_t put_number(uint8_t *at, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        at[i] = (uint8_t)(value >> 8 * (size - 1 - i));
    return size;
}

static uint32_t number_at(const uint8_t *at, size_t size)
{
    uint32_t value = 0;

    for (size_t i = 0; i < size; i++)
        value = value << 8 | at[i];
    return value;
}

static size_t put_frame_head(uint8_t *at, size_t size, uint8_t type, uint8_t flags, uint32_t id)
{
    put_number(at, size, 3);
    at[3] = type;
    at[4] = flags;
    put_number(at + 5, id, 4);
    return GRPC_FRAME_HEAD;
}

/* ---- Protobuf ---- */

size_t grpc_put_varint(uint8_t *at, uint64_t value)
{
    size_t size = 0;

    for (; value >= 0x80; value >>= 7)
        at[size++] = (uint8_t)(value | 0x80);
    at[size++] = (uint8_t)value;
    return size;
}

bool grpc_take_varint(const uint8_t **at, const uint8_t *end, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;

        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

size_t grpc_put_field(uint8_t *at, unsigned field, const void *data, size_t size)
{
    size_t head = grpc_put_varint(at, field << 3 | 2);

    head += grpc_put_varint(at + head, size);
    memcpy(at + head, data, size);
    return head + size;
}

/* ---- Out ---- */

static void grant(struct grpc_client *client, uint32_t id, uint32_t size)
{
    uint8_t frame[GRPC_FRAME_HEAD + 4];

    put_frame_head(frame, 4, WINDOW_UPDATE, 0, id);
    put_number(frame + GRPC_FRAME_HEAD, size, 4);
    http_send(client->fd, frame, sizeof frame);
}

void grpc_open(struct grpc_client *client, uint16_t port, size_t read_bytes)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    uint8_t hello[sizeof preface - 1 + GRPC_FRAME_HEAD + 6];
    size_t size = sizeof preface - 1;

    *client = (struct grpc_client){
        .fd = http_connect(port), .next_id = 1, .raw_capacity = read_bytes + GRPC_FRAME_HEAD};
    client->raw = malloc(client->raw_capacity);
    if (client->raw == NULL)
        meter_fail("no memory for %zu bytes", read_bytes);
    memcpy(hello, preface, size);
    size += put_frame_head(hello + size, 6, SETTINGS, 0, 0);
    size += put_number(hello + size, SETTINGS_INITIAL_WINDOW_SIZE, 2);
    size += put_number(hello + size, WINDOW, 4);
    http_send(client->fd, hello, size);
    grant(client, 0, WINDOW - WINDOW_FIRST);
}

/* A line of a head as a literal, never indexed; `index` is its name's in the static table (RFC 7541, appendix A), or 0.
 */
static size_t put_line(uint8_t *at, uint8_t index, const char *name, const char *value)
{
    size_t size = 1;

    at[0] = index < 15 ? index : 15;
    if (index >= 15)
        at[size++] = (uint8_t)(index - 15);
    if (index == 0) {
        at[size++] = (uint8_t)strlen(name);
        memcpy(at + size, name, strlen(name));
        size += strlen(name);
    }
    at[size++] = (uint8_t)strlen(value);
    memcpy(at + size, value, strlen(value));
    return size + strlen(value);
}

/* The frames of one message. */
static size_t put_message(uint8_t *at, uint32_t id, uint8_t flags, const void *message, size_t size)
{
    uint8_t head[GRPC_HEAD] = {0};
    size_t made = 0;
    size_t sent = 0;

    if (size > MESSAGE_MAX)
        meter_fail("a message of %zu bytes", size);
    put_number(head + 1, size, 4);
    do {
        size_t first = sent == 0 ? GRPC_HEAD : 0;
        size_t part = size - sent;

        part = part < GRPC_FRAME_BYTES - first ? part : GRPC_FRAME_BYTES - first;
        made += put_frame_head(at + made, first + part, DATA, sent + part == size ? flags : 0, id);
        memcpy(at + made, head, first);
        memcpy(at + made + first, (const uint8_t *)message + sent, part);
        made += first + part;
        sent += part;
    } while (sent < size);
    return made;
}

uint32_t grpc_begin(struct grpc_client *client, const char *path, const void *message, size_t size,
                    bool more)
{
    static uint8_t frames[MESSAGE_MAX + 1024];
    uint32_t id = client->next_id;
    size_t at = GRPC_FRAME_HEAD;

    client->next_id += 2;
    frames[at++] = 0x83; /* :method POST */
    frames[at++] = 0x86; /* :scheme http */
    at += put_line(frames + at, 4, ":path", path);
    at += put_line(frames + at, 1, ":authority", "localhost");
    at += put_line(frames + at, 31, "content-type", "application/grpc");
    at += put_line(frames + at, 0, "te", "trailers");
    put_frame_head(frames, at - GRPC_FRAME_HEAD, HEADERS, END_HEADERS, id);
    at += put_message(frames + at, id, more ? 0 : END_STREAM, message, size);
    http_send(client->fd, frames, at);
    return id;
}

uint32_t grpc_ask(struct grpc_client *client, const char *path, const void *message, size_t size)
{
    client->asked++;
    return grpc_begin(client, path, message, size, false);
}

void grpc_say(struct grpc_client *client, uint32_t id, const void *message, size_t size)
{
    static uint8_t frame[MESSAGE_MAX + 1024];

    http_send(client->fd, frame, put_message(frame, id, 0, message, size));
}

/* ---- In ---- */

/* Receives once; what is left of before stands in front. False at the end. */
static bool receive(struct grpc_client *client)
{
    ssize_t got;

    memmove(client->raw, client->raw + client->raw_at, client->raw_size - client->raw_at);
    client->raw_size -= client->raw_at;
    client->raw_at = 0;
    do
        got = recv(client->fd, client->raw + client->raw_size,
                   client->raw_capacity - client->raw_size, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        meter_fail("cannot receive: %s", strerror(errno));
    client->raw_size += (size_t)got;
    client->received += (uint64_t)got;
    return got > 0;
}

/* Grants again what was read, a quarter of the window at a time. */
static void read_bytes(struct grpc_client *client, uint32_t id, uint32_t stream, uint32_t size)
{
    client->ungranted_all += size;
    if (client->ungranted_all >= WINDOW / 4) {
        grant(client, 0, client->ungranted_all);
        client->ungranted_all = 0;
    }
    if (id != stream)
        return;
    client->ungranted += size;
    if (client->ungranted >= WINDOW / 4) {
        grant(client, id, client->ungranted);
        client->ungranted = 0;
    }
}

/* Opens the next frame. False if its head is not all there. */
static bool begin_frame(struct grpc_client *client)
{
    const uint8_t *head = client->raw + client->raw_at;

    if (client->raw_size - client->raw_at < GRPC_FRAME_HEAD)
        return false;
    client->left = number_at(head, 3);
    client->type = head[3];
    client->flags = head[4];
    client->id = number_at(head + 5, 4);
    client->raw_at += GRPC_FRAME_HEAD;
    client->in_frame = true;
    return true;
}

/* A part of the answer of a call that is not the stream. */
static void keep_answer(struct grpc_client *client, const uint8_t *part, size_t size)
{
    if (client->answer_size > 0 && client->answer_id != client->id)
        meter_fail("two answers at once");
    if (size > sizeof client->answer - client->answer_size)
        meter_fail("an answer that is too long");
    memcpy(client->answer + client->answer_size, part, size);
    client->answer_size += size;
    client->answer_id = client->id;
}

static void call_over(struct grpc_client *client)
{
    bool any = client->answer_size >= GRPC_HEAD && client->answer_id == client->id;

    if (client->asked == 0)
        meter_fail("an answer to no call");
    client->asked--;
    if (client->answered != NULL)
        client->answered(client->arg, client->id, any ? client->answer + GRPC_HEAD : NULL,
                         any ? client->answer_size - GRPC_HEAD : 0);
    client->answer_size = 0;
}

/* The open frame is whole. True if it ends the stream. */
static bool end_frame(struct grpc_client *client, uint32_t stream)
{
    uint8_t ack[GRPC_FRAME_HEAD];

    client->in_frame = false;
    if (client->type == RST_STREAM || client->type == GOAWAY)
        meter_fail("the server ends stream %u by a frame of type %u", client->id, client->type);
    if (client->type == SETTINGS && (client->flags & ACK) == 0) {
        put_frame_head(ack, 0, SETTINGS, ACK, 0);
        http_send(client->fd, ack, sizeof ack);
    }
    if ((client->type != DATA && client->type != HEADERS) || (client->flags & END_STREAM) == 0)
        return false;
    if (client->id == stream)
        return true;
    call_over(client);
    return false;
}

/* Takes what is there of the open frame; returns how much of it went to `buffer`. */
static size_t take_part(struct grpc_client *client, uint32_t id, uint8_t *buffer, size_t capacity)
{
    const uint8_t *from = client->raw + client->raw_at;
    size_t part = client->raw_size - client->raw_at;
    bool wanted = client->type == DATA && client->id == id;

    part = part < client->left ? part : client->left;
    if (wanted) {
        part = part < capacity ? part : capacity;
        memcpy(buffer, from, part);
    } else if (client->type == DATA) {
        keep_answer(client, from, part);
    }
    if (client->type == DATA)
        read_bytes(client, client->id, id, (uint32_t)part);
    client->raw_at += part;
    client->left -= (uint32_t)part;
    return wanted ? part : 0;
}

size_t grpc_read(struct grpc_client *client, uint32_t id, uint8_t *buffer, size_t capacity,
                 bool *ret_over)
{
    bool any = false;
    size_t size = 0;

    *ret_over = false;
    while (!*ret_over && size < capacity) {
        bool ready = client->in_frame ? client->left == 0 || client->raw_at < client->raw_size
                                      : begin_frame(client);

        if (!ready && any)
            break;
        any = true;
        if (!ready) {
            *ret_over = !receive(client);
            continue;
        }
        size += take_part(client, id, buffer + size, capacity - size);
        if (client->left == 0)
            *ret_over = end_frame(client, id);
    }
    return size;
}

void grpc_read_answers(struct grpc_client *client)
{
    uint8_t nothing[1];
    bool over;

    (void)grpc_read(client, 0, nothing, sizeof nothing, &over);
    if (over)
        meter_fail("the server ends the connection");
}

void grpc_wait(struct grpc_client *client)
{
    while (client->asked > 0)
        grpc_read_answers(client);
}

void grpc_close(struct grpc_client *client)
{
    close(client->fd);
    free(client->raw);
    client->raw = NULL;
}
