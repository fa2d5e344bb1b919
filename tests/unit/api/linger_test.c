/* SPDX-License-Identifier: Apache-2.0 */
#include "api/linger.h"
#include "ks_test.h"

#include <sys/socket.h>
#include <unistd.h>

static struct ks_loop *loop;
static struct ks_lingers lingers;
static int pair[2];

static void begin(void)
{
    EXPECT_OK(ks_loop_new(&loop));
    ks_lingers_init(&lingers, loop);
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    ks_linger(&lingers, pair[0]);
    EXPECT(close(pair[0]) == 0);
    EXPECT_EQ_U64(lingers.count, 1);
}

TEST(what_comes_is_thrown_away_until_the_peer_closes)
{
    static char bytes[100000];

    begin();
    for (int i = 0; i < 20; i++) {
        EXPECT(send(pair[1], bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT) > 0);
        ks_loop_turn(loop, ks_span_ms(10));
    }
    EXPECT_EQ_U64(lingers.count, 1);
    (void)close(pair[1]);
    ks_loop_turn(loop, ks_span_ms(10));
    EXPECT_EQ_U64(lingers.count, 0);
    ks_loop_free(loop);
}

TEST(a_peer_that_stays_is_closed_in_the_end)
{
    char byte;

    begin();
    for (int i = 0; i < 1000 && lingers.count > 0; i++)
        ks_loop_turn(loop, ks_span_ms(10));
    EXPECT_EQ_U64(lingers.count, 0);
    EXPECT_EQ_I64(recv(pair[1], &byte, 1, MSG_DONTWAIT), 0);
    ks_loop_free(loop);
}

TEST(the_end_closes_what_is_left)
{
    begin();
    ks_lingers_free(&lingers);
    EXPECT_EQ_U64(lingers.count, 0);
    (void)close(pair[1]);
    ks_loop_free(loop);
}
