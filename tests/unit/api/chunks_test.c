/* SPDX-License-Identifier: Apache-2.0 */
#include "api/chunks.h"
#include "api/exchange.h"
#include "ks_test.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_MAX = 2 << 20, SMALL_BUFFER = 4608 };

/* A streamed answer, and the two ends of its connection. */
static struct answer {
    struct ks_exchange exchange;
    struct ks_chunks chunks;
    int server;
    int client;
    size_t size;     /* Of one call of the producer. */
    size_t calls;    /* The producer has something so often, .. */
    enum ks_fill at; /* .. then it says this. */
    size_t asked;
    size_t sent; /* Bytes of the body in the socket, as the exchange was told. */
    bool stale;
    size_t got;
    uint8_t bytes[READ_MAX];
} answer;

static uint8_t body_byte(size_t at)
{
    return (uint8_t)('a' + at % 26);
}

static size_t produce(struct ks_exchange *exchange, uint8_t *buffer, size_t room,
                      enum ks_fill *ret_fill)
{
    struct answer *of = exchange->context;
    size_t before = of->asked * of->size;

    if (of->asked == of->calls) {
        *ret_fill = of->at;
        return 0;
    }
    EXPECT(of->size <= room);
    for (size_t i = 0; i < of->size; i++)
        buffer[i] = body_byte(before + i);
    of->asked++;
    *ret_fill = KS_FILL_MORE;
    return of->size;
}

static void sent(struct ks_exchange *exchange, size_t size)
{
    ((struct answer *)exchange->context)->sent += size;
}

static bool may_send(struct ks_exchange *exchange)
{
    return !((struct answer *)exchange->context)->stale;
}

static void begin(size_t size, size_t calls, enum ks_fill at, bool plain)
{
    int fds[2];
    int small = SMALL_BUFFER;

    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    EXPECT(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0);
    answer.server = fds[0];
    answer.client = fds[1];
    answer.size = size;
    answer.calls = calls;
    answer.at = at;
    answer.exchange.context = &answer;
    answer.exchange.answer.fill = produce;
    answer.exchange.sent = sent;
    answer.exchange.may_send = may_send;
    ks_chunks_init(&answer.chunks, answer.server, plain);
}

static void end(void)
{
    ks_chunks_free(&answer.chunks);
    EXPECT(!ks_chunks_waiting(&answer.chunks));
    (void)close(answer.server);
    if (answer.client >= 0)
        (void)close(answer.client);
}

static enum ks_flow pump(void)
{
    return ks_chunks_pump(&answer.chunks, &answer.exchange);
}

/* Over as many turns as it has more. */
static enum ks_flow pump_all(void)
{
    enum ks_flow flow;

    do
        flow = pump();
    while (flow == KS_FLOW_MORE);
    return flow;
}

/* The client reads at most `most` bytes of what is there. */
static void client_reads(size_t most)
{
    while (most > 0) {
        size_t room = READ_MAX - answer.got < most ? READ_MAX - answer.got : most;
        ssize_t size = recv(answer.client, answer.bytes + answer.got, room, MSG_DONTWAIT);

        if (size <= 0)
            return;
        answer.got += (size_t)size;
        most -= (size_t)size;
    }
}

/* Reads a chunk line at `*at`. Returns the size that it names; SIZE_MAX if it is not whole yet. */
static size_t chunk_line(size_t *at)
{
    size_t size = 0;

    for (; *at < answer.got && answer.bytes[*at] != '\r'; (*at)++) {
        uint8_t digit = answer.bytes[*at];
        EXPECT((digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f'));
        size = size * 16 + (size_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    }
    if (*at + 2 > answer.got)
        return SIZE_MAX;
    EXPECT(answer.bytes[*at + 1] == '\n');
    *at += 2;
    return size;
}

/* How many bytes of the body stand in what the client has; each is checked, and each byte of the framing. */
static size_t body_that_came(void)
{
    size_t body = 0;
    size_t at = 0;

    while (at < answer.got) {
        size_t size = chunk_line(&at);

        if (size == SIZE_MAX)
            break;
        EXPECT_EQ_U64(size, answer.size);
        for (; size > 0 && at < answer.got; size--, at++)
            EXPECT_EQ_U64(answer.bytes[at], body_byte(body++));
        if (at < answer.got)
            EXPECT_EQ_U64(answer.bytes[at++], '\r');
        if (at < answer.got)
            EXPECT_EQ_U64(answer.bytes[at++], '\n');
    }
    return body;
}

static size_t plain_that_came(void)
{
    for (size_t at = 0; at < answer.got; at++)
        EXPECT_EQ_U64(answer.bytes[at], body_byte(at));
    return answer.got;
}

TEST(each_call_of_the_producer_becomes_one_chunk)
{
    begin(26, 3, KS_FILL_END, false);
    EXPECT(pump_all() == KS_FLOW_END);
    client_reads(READ_MAX);
    EXPECT_EQ_U64(answer.got, 3 * (4 + 26 + 2));
    EXPECT_MEM(answer.bytes, "1a\r\nabcdefghijklmnopqrstuvwxyz\r\n1a\r\n", 36);
    EXPECT_EQ_U64(body_that_came(), 78);
    EXPECT_EQ_U64(answer.sent, 78);
    end();
}

TEST(body_of_http_1_0_is_not_framed)
{
    begin(26, 2, KS_FILL_END, true);
    EXPECT(pump_all() == KS_FLOW_END);
    client_reads(READ_MAX);
    EXPECT_EQ_U64(answer.got, 52);
    EXPECT_MEM(answer.bytes, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", 52);
    EXPECT_EQ_U64(answer.sent, 52);
    end();
}

TEST(one_call_sends_few_chunks_so_that_others_have_their_turn)
{
    begin(10, 100, KS_FILL_END, false);
    EXPECT(pump() == KS_FLOW_MORE);
    EXPECT(answer.asked < 100);
    while (answer.asked < 100) {
        client_reads(READ_MAX);
        EXPECT(pump() == KS_FLOW_MORE);
    }
    EXPECT(pump() == KS_FLOW_END);
    client_reads(READ_MAX);
    EXPECT_EQ_U64(body_that_came(), 1000);
    end();
}

/* The client reads `step` bytes at a time, until all is there. */
static void expect_whole(size_t step, size_t size, bool plain)
{
    enum ks_flow flow = KS_FLOW_MORE;
    size_t calls = 8;
    size_t waits = 0;

    begin(size, calls, KS_FILL_END, plain);
    while (flow != KS_FLOW_END) {
        flow = pump();
        EXPECT(flow == KS_FLOW_MORE || flow == KS_FLOW_WAIT || flow == KS_FLOW_END);
        EXPECT((flow == KS_FLOW_WAIT) == ks_chunks_waiting(&answer.chunks));
        waits += flow == KS_FLOW_WAIT;
        client_reads(step);
    }
    EXPECT(waits > 0);
    client_reads(READ_MAX);
    EXPECT_EQ_U64(answer.sent, calls * size);
    EXPECT_EQ_U64(plain ? plain_that_came() : body_that_came(), calls * size);
    end();
}

TEST(socket_that_takes_a_part_makes_the_rest_wait)
{
    begin(KS_CHUNK_BYTES, 8, KS_FILL_END, false);
    for (int i = 0; i < 8 && !ks_chunks_waiting(&answer.chunks); i++)
        EXPECT(pump() != KS_FLOW_CUT);
    EXPECT(ks_chunks_waiting(&answer.chunks));
    EXPECT(answer.sent < answer.asked * KS_CHUNK_BYTES);

    /* Nothing was read: nothing more is sent, and the producer is not asked. */
    size_t asked = answer.asked;
    size_t told = answer.sent;
    EXPECT(pump() == KS_FLOW_WAIT);
    EXPECT_EQ_U64(answer.asked, asked);
    EXPECT_EQ_U64(answer.sent, told);

    /* What was said to be in the socket is what comes out of it, to the byte. */
    client_reads(READ_MAX);
    EXPECT_EQ_U64(body_that_came(), told);
    end();
}

TEST(told_bytes_are_those_in_the_socket_wherever_it_is_full)
{
    static const size_t sizes[] = {1, 15, 16, 17, 4095, 4096, 8192, 20000, KS_CHUNK_BYTES};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t size = sizes[i];

        memset(&answer, 0, sizeof(answer));
        begin(size, 40000, KS_FILL_END, false);
        while (!ks_chunks_waiting(&answer.chunks))
            EXPECT(pump() == KS_FLOW_MORE || ks_chunks_waiting(&answer.chunks));
        for (int round = 0; round < 20; round++) {
            client_reads(READ_MAX);
            EXPECT_EQ_U64(body_that_came(), answer.sent);
            EXPECT(answer.got < READ_MAX);
            (void)pump();
            (void)pump();
        }
        end();
    }
}

TEST(waiting_bytes_leave_as_the_client_reads)
{
    static const size_t steps[] = {1000, 5000, 33333};

    for (size_t i = 0; i < 2 * sizeof(steps) / sizeof(steps[0]); i++) {
        memset(&answer, 0, sizeof(answer));
        expect_whole(steps[i / 2], KS_CHUNK_BYTES, i % 2 == 1);
    }
}

TEST(waiting_bytes_that_may_not_leave_any_more_cut_the_connection)
{
    begin(KS_CHUNK_BYTES, 8, KS_FILL_END, false);
    while (!ks_chunks_waiting(&answer.chunks))
        (void)pump();
    size_t told = answer.sent;

    client_reads(READ_MAX);
    answer.stale = true;
    EXPECT(pump() == KS_FLOW_CUT);
    EXPECT_EQ_U64(answer.sent, told);
    client_reads(READ_MAX);
    EXPECT_EQ_U64(body_that_came(), told);
    end();
}

TEST(producer_is_obeyed)
{
    static const struct {
        enum ks_fill says;
        enum ks_flow flow;
    } rows[] = {
        {KS_FILL_WAIT, KS_FLOW_WAIT}, {KS_FILL_END, KS_FLOW_END}, {KS_FILL_ABORT, KS_FLOW_ABORT}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memset(&answer, 0, sizeof(answer));
        begin(100, 1, rows[i].says, false);
        EXPECT(pump() == rows[i].flow);
        EXPECT(!ks_chunks_waiting(&answer.chunks));
        client_reads(READ_MAX);
        EXPECT_EQ_U64(body_that_came(), 100);
        end();
    }
}

TEST(broken_connection_is_cut_and_nothing_is_told)
{
    begin(100, 8, KS_FILL_END, false);
    (void)close(answer.client);
    answer.client = -1;
    EXPECT(pump() == KS_FLOW_CUT);
    EXPECT_EQ_U64(answer.sent, 0);
    end();
}

TEST(connection_that_breaks_while_bytes_wait_is_cut)
{
    begin(KS_CHUNK_BYTES, 8, KS_FILL_END, false);
    while (!ks_chunks_waiting(&answer.chunks))
        (void)pump();
    size_t told = answer.sent;

    (void)close(answer.client);
    answer.client = -1;
    EXPECT(pump() == KS_FLOW_CUT);
    EXPECT_EQ_U64(answer.sent, told);
    end();
}
