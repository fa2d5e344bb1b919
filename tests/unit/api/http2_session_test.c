/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer may do to a session, and when it is told to go. */
#include "api/http2_wire.h"
#include "api/limits.h"
#include "api/server.h"
#include "base/metrics.h"
#include "ks_test.h"
#include "unit/api/http2_rig.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct rig rig;
static struct http2_client client;

static void begin(void)
{
    rig_begin(&rig);
    http2_routes(&rig);
    http2_begin(&client, &rig, "api", 0);
}

static void end(void)
{
    http2_end(&client);
    EXPECT_EQ_U64(rig.api->accounts.held[KS_HELD_BODIES], 0);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_CONNECTIONS), 0);
    rig_end(&rig);
}

/* A frame's 9 bytes. */
static size_t put_frame(uint8_t *bytes, size_t size, uint8_t type, uint8_t flags, uint32_t stream)
{
    const uint8_t head[9] = {(uint8_t)(size >> 16),
                             (uint8_t)(size >> 8),
                             (uint8_t)size,
                             type,
                             flags,
                             (uint8_t)(stream >> 24),
                             (uint8_t)(stream >> 16),
                             (uint8_t)(stream >> 8),
                             (uint8_t)stream};

    memcpy(bytes, head, sizeof(head));
    return sizeof(head);
}

/* POST http /test/hold, by the static table where that can be, :authority localhost. */
static size_t put_head(uint8_t *bytes, uint8_t flags, uint32_t stream)
{
    static const char block[] = "\x83\x86\x04\x0a/test/hold\x01\x09localhost";
    size_t size = put_frame(bytes, sizeof(block) - 1, NGHTTP2_HEADERS, flags, stream);

    memcpy(bytes + size, block, sizeof(block) - 1);
    return size + sizeof(block) - 1;
}

TEST(limits_are_announced)
{
    begin();
    http2_turns(&client, 20);
    EXPECT_EQ_U64(nghttp2_session_get_remote_settings(client.session,
                                                      NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS),
                  KS_WIRE_STREAMS_MAX);
    EXPECT_EQ_U64(
        nghttp2_session_get_remote_settings(client.session, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE),
        KS_BODY_WINDOW);
    EXPECT_EQ_U64(
        nghttp2_session_get_remote_settings(client.session, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE),
        KS_HEAD_BYTES_MAX);
    end();
}

TEST(streams_that_are_reset_at_once_end_the_connection)
{
    static uint8_t flood[200];
    size_t size;

    begin();
    for (uint32_t i = 0; i < 2 * KS_RESETS_MAX && client.goaways == 0 && !client.closed; i++) {
        size = put_head(flood, NGHTTP2_FLAG_END_HEADERS, 2 * i + 1);
        size += put_frame(flood + size, 4, NGHTTP2_RST_STREAM, 0, 2 * i + 1);
        memcpy(flood + size, "\0\0\0\x08", 4);
        http2_raw(&client, flood, size + 4);
        if (i % 50 == 0)
            http2_turn(&client);
    }
    http2_wait_closed(&client);
    EXPECT(client.goaways > 0 && client.goaway_error != NGHTTP2_NO_ERROR);
    EXPECT(http2_seen.closed >= KS_RESETS_MAX && http2_seen.closed < 2 * KS_RESETS_MAX);
    end();
}

/* What the server says, read without the client's session. */
static uint8_t said[256 << 10];
static size_t said_size;

/* One turn; false once the server has closed. */
static bool listen_raw(void)
{
    ssize_t some;

    ks_loop_turn(rig.stage.loop, ks_span_ms(20));
    some = recv(client.fd, said + said_size, sizeof(said) - said_size, MSG_DONTWAIT);
    said_size += some > 0 ? (size_t)some : 0;
    return some != 0;
}

/* The error of the last GOAWAY. */
static int64_t goaway_error(void)
{
    int64_t error = -1;

    for (size_t at = 0; at + 9 <= said_size; at += 9 + ((size_t)said[at + 1] << 8) + said[at + 2])
        if (said[at + 3] == NGHTTP2_GOAWAY)
            error = said[at + 16];
    return error;
}

TEST(streams_that_we_are_made_to_reset_end_the_connection_too)
{
    static uint8_t flood[200];
    size_t size;

    begin();
    for (uint32_t i = 0; i < KS_RESETS_MAX + 500; i++) {
        /* A window beyond 2^31 - 1 is an error of the stream. */
        size = put_head(flood, NGHTTP2_FLAG_END_HEADERS, 2 * i + 1);
        size += put_frame(flood + size, 4, NGHTTP2_WINDOW_UPDATE, 0, 2 * i + 1);
        memcpy(flood + size, "\x7F\xFF\xFF\xFF", 4);
        http2_raw(&client, flood, size + 4);
        (void)listen_raw();
    }
    while (listen_raw())
        continue;
    EXPECT_EQ_I64(goaway_error(), NGHTTP2_ENHANCE_YOUR_CALM);
    EXPECT(http2_seen.closed >= KS_RESETS_MAX && http2_seen.closed < KS_RESETS_MAX + 500);
    end();
}

/* A head whose last line is kept in the table, x: with so many letters, and then is named by a byte, `count` times. */
static size_t put_named_lines(uint8_t *bytes, uint8_t flags, uint32_t stream, size_t letters,
                              size_t count)
{
    static const char block[] = "\x83\x86\x04\x0a/test/hold\x01\x09localhost";
    uint8_t *at = bytes + 9;

    EXPECT(letters >= 127 + 128 && letters < 127 + 16384);
    memcpy(at, block, sizeof(block) - 1);
    at += sizeof(block) - 1;
    *at++ = 0x40;
    *at++ = 1;
    *at++ = 'x';
    *at++ = 127;
    *at++ = (uint8_t)(((letters - 127) & 0x7F) | 0x80);
    *at++ = (uint8_t)((letters - 127) >> 7);
    memset(at, 'a', letters);
    at += letters;
    memset(at, 0xBE, count);
    at += count;
    (void)put_frame(bytes, (size_t)(at - bytes) - 9, NGHTTP2_HEADERS, flags, stream);
    return (size_t)(at - bytes);
}

/* A block of 16 KB names 40 MB of lines; it is not looked at beyond twice the limit of a head. */
TEST(lines_of_one_byte_cost_no_more_than_a_head)
{
    static uint8_t flood[32 << 10];
    size_t size = put_named_lines(flood, NGHTTP2_FLAG_END_HEADERS, 1, 4000, 10000);
    uint64_t before;

    begin();
    before = rig.api->accounts.work[KS_WORK_HEADS];
    http2_raw(&client, flood, size);
    said_size = 0;
    while (listen_raw())
        continue;
    EXPECT_EQ_I64(goaway_error(), NGHTTP2_ENHANCE_YOUR_CALM);
    EXPECT(rig.api->accounts.work[KS_WORK_HEADS] - before < 3 * KS_HEAD_BYTES_MAX);
    end();
}

TEST(lines_of_one_byte_in_trailers_cost_no_more_either)
{
    static uint8_t flood[32 << 10];
    size_t size = put_head(flood, NGHTTP2_FLAG_END_HEADERS, 1);
    uint64_t before;

    begin();
    http2_raw(&client, flood, size);
    before = rig.api->accounts.work[KS_WORK_HEADS];
    size =
        put_named_lines(flood, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, 4000, 10000);
    http2_raw(&client, flood, size);
    said_size = 0;
    while (listen_raw())
        continue;
    EXPECT(rig.api->accounts.work[KS_WORK_HEADS] - before < 3 * KS_HEAD_BYTES_MAX);
    end();
}

enum { HEADS = 120, LETTERS = 3000, NAMED = 3 };

/* Each of these heads is good, and all of them are too much for one turn. */
static size_t put_heads(uint8_t *bytes)
{
    size_t size = put_named_lines(bytes, NGHTTP2_FLAG_END_HEADERS, 1, LETTERS, NAMED);

    for (uint32_t i = 1; i < HEADS; i++) {
        size_t head = put_head(bytes + size, NGHTTP2_FLAG_END_HEADERS, 2 * i + 1);
        memset(bytes + size + head, 0xBE, NAMED);
        (void)put_frame(bytes + size, head - 9 + NAMED, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS,
                        2 * i + 1);
        size += head + NAMED;
    }
    return size;
}

TEST(heads_beyond_the_work_of_a_turn_wait_for_the_next)
{
    static uint8_t flood[64 << 10];
    uint64_t most = 0;

    begin();
    http2_raw(&client, flood, put_heads(flood));
    said_size = 0;
    for (int i = 0; i < 200; i++) {
        uint64_t before = rig.api->accounts.work[KS_WORK_HEADS];
        (void)listen_raw();
        if (rig.api->accounts.work[KS_WORK_HEADS] - before > most)
            most = rig.api->accounts.work[KS_WORK_HEADS] - before;
    }
    /* What it has of its own, and the turn, which nobody else wants. */
    EXPECT(most <= KS_WORK_QUANTUM + KS_WORK_TURN + 4 * LETTERS);
    EXPECT(rig.api->accounts.work[KS_WORK_HEADS] > HEADS * NAMED * LETTERS);
    EXPECT_EQ_U64(rig.api->http2->streams, HEADS);
    end();
}

/* A turn reads four times. Three of these reads are frames that cost nearly nothing; the heads come in the fourth, are
 * too much, and nothing comes after them that would wake the connection. */
TEST(heads_in_the_last_read_of_a_turn_are_read_on_in_the_next)
{
    enum { FILLER = 16384, UNKNOWN_TYPE = 0x42, FILLERS = 3 * (64 << 10) / FILLER };
    static uint8_t flood[FILLERS * FILLER + (64 << 10)];
    size_t size = 0;
    int room = 212992;

    begin();
    http2_turns(&client, 20);
    EXPECT_EQ_I64(setsockopt(client.fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)), 0);
    for (; size < FILLERS * FILLER; size += FILLER)
        (void)put_frame(flood + size, FILLER - 9, UNKNOWN_TYPE, 0, 0);
    size += put_heads(flood + size);
    EXPECT_EQ_I64(send(client.fd, flood, size, MSG_DONTWAIT), (int64_t)size);
    said_size = 0;
    for (int i = 0; i < 200; i++)
        (void)listen_raw();
    EXPECT_EQ_U64(rig.api->http2->streams, HEADS);
    end();
}

TEST(continuations_without_end_end_the_connection)
{
    static uint8_t flood[200];
    size_t size = put_head(flood, 0, 1);

    begin();
    http2_raw(&client, flood, size);
    for (int i = 0; i < 100 && !client.closed; i++) {
        size = put_frame(flood, 1, NGHTTP2_CONTINUATION, 0, 1);
        flood[size] = 0x88;
        http2_raw(&client, flood, size + 1);
        http2_turn(&client);
    }
    http2_wait_closed(&client);
    end();
}

TEST(a_peer_that_takes_no_answers_cannot_make_us_keep_many)
{
    static uint8_t flood[64 << 10];
    size_t size = 0;

    begin();
    http2_turns(&client, 20);
    client.hold = true;
    while (size + 17 <= sizeof(flood))
        size += put_frame(flood + size, 8, NGHTTP2_PING, 0, 0) + 8;
    for (int i = 0; i < 2000 && !client.closed; i++) {
        ssize_t sent = send(client.fd, flood, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN)
            client.closed = true;
        /* What was cut is made whole. */
        if (sent > 0 && (size_t)sent < size)
            http2_raw(&client, flood + sent, size - (size_t)sent);
        http2_turn(&client);
    }
    EXPECT(client.closed);
    end();
}

TEST(one_stream_more_than_may_be_is_refused_and_the_others_live)
{
    struct http2_answer *first;
    uint8_t head[200];

    begin();
    first = http2_ask(&client, "POST", "/test/hold", NULL, "a", true);
    while (http2_seen.total == 0)
        http2_turn(&client);
    for (uint32_t i = 1; i < KS_WIRE_STREAMS_MAX + 5; i++)
        http2_raw(&client, head, put_head(head, NGHTTP2_FLAG_END_HEADERS, 2 * i + 1));
    for (int i = 0; i < 5000 && !client.closed && rig.api->http2 != NULL && i < 200; i++)
        http2_turn(&client);
    http2_upload(&client, first, "b", 1, true);
    http2_end(&client);
    EXPECT_EQ_U64(http2_seen.closed, KS_WIRE_STREAMS_MAX);
    rig_end(&rig);
}

TEST(a_stream_that_was_passed_over_is_closed)
{
    uint8_t heads[400];
    size_t size = put_head(heads, NGHTTP2_FLAG_END_HEADERS, 5);

    begin();
    size += put_head(heads + size, NGHTTP2_FLAG_END_HEADERS, 3);
    http2_raw(&client, heads, size);
    http2_wait_closed(&client);
    EXPECT_EQ_U64(client.goaway_error, NGHTTP2_PROTOCOL_ERROR);
    end();
}

TEST(what_is_no_preface_is_told_so_and_closed)
{
    int fd;

    begin();
    fd = rig_connect(&rig, "api");
    rig_send(&rig, fd, "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n and more", 33);
    (void)rig_read(&rig, fd, NULL);
    (void)close(fd);
    end();
}
