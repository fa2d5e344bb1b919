/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: their end, and what they cost. */
#include "api/http2.h"

#include "api/api.h"
#include "api/limits.h"
#include "api/server.h"
#include "base/budget.h"
#include "base/metrics.h"
#include "ks_test.h"
#include "unit/api/http2_rig.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct rig rig;
static struct http2_client client;

static void begin(const char *name)
{
    rig_begin(&rig);
    http2_routes(&rig);
    http2_begin(&client, &rig, name, 0);
}

static struct http2_answer *ask(const char *method, const char *path)
{
    struct http2_answer *answer = http2_ask(&client, method, path, NULL, NULL, false);

    http2_wait(&client, answer);
    return answer;
}

TEST(the_ops_side_speaks_it_and_keeps_to_its_routes)
{
    begin("ops");
    EXPECT_EQ_I64(ask("GET", "/livez")->status, 200);
    EXPECT_EQ_I64(ask("GET", "/readyz")->status, 200);
    EXPECT_EQ_I64(ask("GET", "/v1/status")->status, 404);
    http2_end(&client);
    rig_end(&rig);
}

TEST(the_end_is_announced_and_what_was_begun_is_served)
{
    struct http2_answer *open;

    begin("api");
    open = http2_ask(&client, "POST", "/test/echo", NULL, "one", true);
    http2_wait_bytes(&client, open, 3);
    EXPECT(ks_api_busy(rig.api));
    ks_api_finish(rig.api);
    for (int i = 0; i < 5000 && client.goaways < 2; i++)
        http2_turn(&client);
    /* First: nothing is refused yet. Then: this was the last. */
    EXPECT_EQ_U64(client.goaways, 2);
    EXPECT_EQ_I64(client.goaway_last, open->id);
    EXPECT_EQ_U64(client.goaway_error, NGHTTP2_NO_ERROR);
    http2_upload(&client, open, "two", 3, true);
    http2_wait(&client, open);
    EXPECT_STR((const char *)open->body, "onetwo");
    EXPECT(open->ended);
    http2_wait_closed(&client);
    EXPECT(!ks_api_busy(rig.api));
    http2_end(&client);
    rig_end(&rig);
}

TEST(a_peer_that_does_not_hear_the_end_is_not_waited_for_long)
{
    begin("api");
    EXPECT_EQ_I64(ask("GET", "/v1/status")->status, 200);
    client.hold = true;
    ks_api_finish(rig.api);
    EXPECT(ks_api_busy(rig.api));
    for (int i = 0; i < 15000 && ks_api_busy(rig.api); i++)
        http2_turn(&client);
    EXPECT(!ks_api_busy(rig.api));
    http2_end(&client);
    rig_end(&rig);
}

TEST(closing_the_api_tells_everybody_and_closes_their_exchanges)
{
    begin("api");
    (void)http2_ask(&client, "POST", "/test/hold", NULL, "abc", true);
    while (http2_seen.total < 3)
        http2_turn(&client);
    ks_api_close(rig.api);
    rig.api = NULL;
    EXPECT_EQ_U64(http2_seen.closed, 1);
    http2_wait_closed(&client);
    EXPECT(client.goaways > 0);
    http2_end(&client);
    rig_end(&rig);
}

/* 16 MiB are wanted and not read: what is made of them is what the socket takes, and one send more. */
TEST(a_peer_that_does_not_read_costs_little)
{
    struct http2_answer *answer;
    int64_t live;

    begin("api");
    EXPECT(nghttp2_session_set_local_window_size(client.session, 0, 0, 64 << 20) == 0);
    http2_turns(&client, 20);
    live = ks_alloc_live();
    answer = http2_ask(&client, "GET", "/test/bytes", "x-bytes: 16777216", NULL, false);
    EXPECT(nghttp2_session_set_local_window_size(client.session, 0, answer->id, 32 << 20) == 0);
    http2_turn(&client);
    EXPECT(nghttp2_session_set_local_window_size(client.session, 0, answer->id, 32 << 20) == 0);
    client.hold = true;
    http2_turns(&client, 200);
    /* Blocks, not bytes: the stream's own and what was left over. */
    EXPECT(ks_alloc_live() - live < 40);
    client.hold = false;
    http2_wait(&client, answer);
    EXPECT_EQ_U64(answer->size, 16777216);
    for (size_t i = 0; i < answer->size; i++)
        if (answer->body[i] != http2_pattern(i))
            FAIL("byte %zu is wrong", i);
    http2_end(&client);
    rig_end(&rig);
}

TEST(half_a_close_after_a_request_still_gets_its_answer)
{
    struct http2_answer *answer;

    begin("api");
    answer = http2_ask(&client, "GET", "/v1/status", NULL, NULL, false);
    client.hold = true;
    {
        const uint8_t *data;
        ssize_t size;
        while ((size = nghttp2_session_mem_send(client.session, &data)) > 0)
            http2_raw(&client, data, (size_t)size);
    }
    EXPECT(shutdown(client.fd, SHUT_WR) == 0);
    client.hold = false;
    http2_wait_closed(&client);
    EXPECT_EQ_I64(answer->status, 200);
    EXPECT(answer->ended);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_CONNECTIONS), 0);
    http2_end(&client);
    rig_end(&rig);
}

TEST(every_allocation_that_fails_costs_a_connection_and_nothing_else)
{
    bool through = false;

    begin("api");
    http2_end(&client);
    for (uint64_t n = 1; n < 400 && !through; n++) {
        int64_t live = ks_alloc_live();
        struct http2_answer *answer;
        http2_begin(&client, &rig, "api", 0);
        ks_alloc_fail_after(n, 0);
        answer = http2_ask(&client, "POST", "/test/hold", NULL, "abc", false);
        for (int i = 0; i < 3000 && !answer->closed && !client.closed; i++)
            http2_turn(&client);
        through = answer->status == 200 && ks_alloc_count() > 0 && n > 60;
        ks_alloc_fail_after(0, 0);
        EXPECT(answer->closed || client.closed);
        http2_end(&client);
        EXPECT(ks_alloc_live() - live < 20);
    }
    EXPECT(through);
    EXPECT_EQ_U64(rig.api->accounts.held[KS_HELD_BODIES], 0);
    rig_end(&rig);
}
