/* SPDX-License-Identifier: Apache-2.0 */
#include "api/guard.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static struct ks_loop *loop;
static struct ks_guard *guard;
static enum ks_problem problem;
static struct ks_detail detail;

static void begin(const char *allow, const char *token_file)
{
    EXPECT_OK(ks_loop_new(&loop));
    EXPECT_OK(ks_guard_new(loop, allow, token_file, NULL, &guard, &detail));
}

static void end(void)
{
    ks_guard_free(guard);
    ks_loop_free(loop);
}

static bool admits(const char *host, const char *origin, const char *site, const char *token)
{
    struct ks_request request = {.peer = KS_PEER_TCP};

    request.host = host == NULL ? KS_VIEW_NONE : ks_view_text(host);
    request.origin = origin == NULL ? KS_VIEW_NONE : ks_view_text(origin);
    request.fetch_site = site == NULL ? KS_VIEW_NONE : ks_view_text(site);
    request.authorization = token == NULL ? KS_VIEW_NONE : ks_view_text(token);
    return ks_guard_admits(guard, &request, &problem, &detail);
}

/* By the ops addresses, whose Host is `host`; NULL: none. */
static bool ops_admit(const char *host, enum ks_peer peer)
{
    struct ks_request request = {.peer = peer, .ops = true};

    request.host = host == NULL ? KS_VIEW_NONE : ks_view_text(host);
    return ks_guard_admits(guard, &request, &problem, &detail);
}

TEST(ops_addresses_have_names_that_no_web_page_can_have)
{
    static const char *const good[] = {"localhost",
                                       "localhost:8991",
                                       "10.1.2.3:8991",
                                       "[fd00::1]:8991",
                                       "sidecar:8991",
                                       "sidecar.orders.svc",
                                       "sidecar.orders.SVC:8991",
                                       "sidecar.orders.svc.cluster.local:8991",
                                       "my.host"};
    static const char *const bad[] = {"evil.example",
                                      "evil.example:8991",
                                      "10.1.2.3.evil.example",
                                      "evil.svc.example",
                                      ".svc",
                                      "",
                                      "sidecar:junk",
                                      "[fd00::1]evil",
                                      "evil.cluster.local"};

    begin("my.host", NULL);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!ops_admit(good[i], KS_PEER_TCP))
            FAIL("%s is refused", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (ops_admit(bad[i], KS_PEER_TCP) || problem != KS_PROBLEM_PERMISSION_DENIED)
            FAIL("%s is admitted", bad[i]);
    /* No browser leaves it out, and none reaches a Unix socket. */
    EXPECT(ops_admit(NULL, KS_PEER_TCP));
    EXPECT(ops_admit("evil.example", KS_PEER_UNIX));
    end();
}

TEST(only_hosts_of_this_machine_and_allowed_ones)
{
    static const char *const good[] = {"localhost",  "LocalHost:8990", "127.0.0.1:8990",
                                       "127.1.2.3",  "[::1]:8990",     "[::1]",
                                       "My.Host:80", "other",          "localhost:"};
    static const char *const bad[] = {"evil.example",
                                      "evil.example:8990",
                                      "localhost.evil.example",
                                      "127.0.0.1.evil.example",
                                      "10.0.0.1",
                                      "[::2]:8990",
                                      "[::1",
                                      "",
                                      "0.0.0.0:8990",
                                      "localhost@evil",
                                      "localhost:junk",
                                      "localhost:80:80",
                                      "localhost:99999",
                                      "localhost:-1",
                                      "[::1]evil",
                                      "[::1]:junk",
                                      "[127.0.0.1]",
                                      "::1",
                                      "127.1",
                                      "2130706433"};

    begin("my.host, other", NULL);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!admits(good[i], NULL, NULL, NULL))
            FAIL("%s is refused", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (admits(bad[i], NULL, NULL, NULL) || problem != KS_PROBLEM_PERMISSION_DENIED)
            FAIL("%s is admitted", bad[i]);
    EXPECT_CONTAINS(detail.text, "--allow-host");
    end();
}

TEST(a_unix_socket_has_no_host)
{
    struct ks_request request = {.peer = KS_PEER_UNIX, .host = KS_VIEW("anything")};

    begin("", "");
    EXPECT(ks_guard_admits(guard, &request, &problem, &detail));
    end();
}

TEST(a_foreign_origin_or_site_is_refused)
{
    begin("friend.example", NULL);
    EXPECT(admits("localhost:8990", "http://localhost:8990", "same-origin", NULL));
    EXPECT(admits("localhost:8990", NULL, "none", NULL));
    EXPECT(admits("localhost:8990", "https://friend.example", "cross-site", NULL));
    EXPECT(!admits("localhost:8990", "http://localhost:3000", NULL, NULL));
    EXPECT(!admits("localhost:8990", "http://evil.example", NULL, NULL));
    EXPECT(!admits("localhost:8990", "null", NULL, NULL));
    EXPECT(!admits("localhost:8990", "", NULL, NULL));
    EXPECT(!admits("localhost:8990", NULL, "cross-site", NULL));
    EXPECT(!admits("localhost:8990", NULL, "same-site", NULL));
    EXPECT(!admits("evil.example", "http://evil.example", "same-origin", NULL));
    end();
}

static void write_token(const char *text)
{
    FILE *file = fopen(ks_test_path("token"), "w");

    EXPECT(file != NULL);
    EXPECT(fputs(text, file) >= 0);
    EXPECT(fclose(file) == 0);
}

TEST(the_token_is_asked_for_and_read_again)
{
    write_token(" first\n");
    begin("", ks_test_path("token"));
    EXPECT(admits("localhost", NULL, NULL, "Bearer first"));
    EXPECT(admits("localhost", NULL, NULL, "bearer  first"));
    EXPECT(!admits("localhost", NULL, NULL, NULL));
    EXPECT_EQ_I64(problem, KS_PROBLEM_UNAUTHENTICATED);
    EXPECT(!admits("localhost", NULL, NULL, "Bearer"));
    EXPECT(!admits("localhost", NULL, NULL, "Bearer firs"));
    EXPECT(!admits("localhost", NULL, NULL, "Basic first"));

    write_token("second");
    for (int i = 0; i < 1000 && !admits("localhost", NULL, NULL, "Bearer second"); i++)
        ks_loop_turn(loop, ks_span_ms(10));
    EXPECT(admits("localhost", NULL, NULL, "Bearer second"));
    EXPECT(!admits("localhost", NULL, NULL, "Bearer first"));
    end();
}

TEST(the_page_at_the_root_comes_without_the_token_but_to_no_stranger)
{
    struct ks_request request = {.peer = KS_PEER_TCP,
                                 .method = KS_METHOD_GET,
                                 .target = KS_VIEW("/"),
                                 .host = KS_VIEW("[::1]:8990")};

    write_token("first");
    begin("", ks_test_path("token"));
    EXPECT(ks_guard_admits(guard, &request, &problem, &detail));
    request.method = KS_METHOD_POST;
    EXPECT(!ks_guard_admits(guard, &request, &problem, &detail));
    request.method = KS_METHOD_GET;
    request.target = KS_VIEW("/v1/status");
    EXPECT(!ks_guard_admits(guard, &request, &problem, &detail));
    EXPECT_EQ_I64(problem, KS_PROBLEM_UNAUTHENTICATED);
    request.target = KS_VIEW("/");
    request.host = KS_VIEW("evil.example");
    EXPECT(!ks_guard_admits(guard, &request, &problem, &detail));
    EXPECT_EQ_I64(problem, KS_PROBLEM_PERMISSION_DENIED);
    end();
}

/* Whether a request with this token is admitted, and may order. */
static void expect_operator(const char *token, bool admitted, bool may_order)
{
    struct ks_request request = {.peer = KS_PEER_UNIX};

    request.authorization = token == NULL ? KS_VIEW_NONE : ks_view_text(token);
    EXPECT(ks_guard_admits(guard, &request, &problem, &detail) == admitted);
    EXPECT(!admitted || request.may_order == may_order);
}

TEST(an_operator_has_a_token_of_its_own)
{
    char app[256];

    (void)snprintf(app, sizeof(app), "%s", ks_test_path("app"));
    write_token("app");
    EXPECT(rename(ks_test_path("token"), app) == 0);
    write_token("boss");
    EXPECT(rename(ks_test_path("token"), ks_test_path("boss")) == 0);

    /* Both: the operator's serves for all, the app's for all but orders. */
    EXPECT_OK(ks_loop_new(&loop));
    EXPECT_OK(ks_guard_new(loop, "", app, ks_test_path("boss"), &guard, &detail));
    expect_operator("Bearer app", true, false);
    expect_operator("Bearer boss", true, true);
    expect_operator("Bearer other", false, false);
    expect_operator(NULL, false, false);
    end();
    /* The operator's alone: everything else is open. */
    EXPECT_OK(ks_loop_new(&loop));
    EXPECT_OK(ks_guard_new(loop, "", NULL, ks_test_path("boss"), &guard, &detail));
    expect_operator(NULL, true, false);
    expect_operator("Bearer boss", true, true);
    end();
    /* The app's alone serves for orders, too; none at all: whoever comes may order. */
    EXPECT_OK(ks_loop_new(&loop));
    EXPECT_OK(ks_guard_new(loop, "", app, NULL, &guard, &detail));
    expect_operator("Bearer app", true, true);
    expect_operator(NULL, false, false);
    end();
    begin("", NULL);
    expect_operator(NULL, true, true);
    end();
}

TEST(a_token_file_that_says_nothing_is_refused_at_start)
{
    EXPECT_OK(ks_loop_new(&loop));
    EXPECT_ERR(ks_guard_new(loop, "", ks_test_path("none"), NULL, &guard, &detail), DISK);
    EXPECT_CONTAINS(detail.text, "--token-file");
    write_token(" \n");
    EXPECT_ERR(ks_guard_new(loop, "", ks_test_path("token"), NULL, &guard, &detail), FULL);
    ks_loop_free(loop);
}
