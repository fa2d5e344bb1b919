/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"
#include "main/commands.h"
#include "unit/main/sidecar.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { OUTPUT_MAX = 64 * 1024 };

static char output[OUTPUT_MAX];

TEST(once_is_one_picture_of_text)
{
    static char source[220];
    const char *const words[] = {
        "--source", source, "--initial-position", "trim_horizon", "--local-shards", "2", NULL};
    const char *const pull[] = {"--wait-ms", "10000", "--max-records", "2", "--session",
                                "shop",      NULL};
    const char *const once[] = {"--once", NULL};
    const char *const nobody[] = {"--once", "--subscription", "nobody", NULL};
    pid_t pid;

    (void)snprintf(source, sizeof source, "local:%s/stream.db", ks_test_dir());
    pid = sidecar_start(words, NULL);
    sidecar_wait_ready();
    EXPECT_EQ_I64(sidecar_call(ks_command_put, NULL, "one\ntwo\n", NULL, 0), 0);
    EXPECT_EQ_I64(sidecar_call(ks_command_pull, pull, "", output, sizeof output), 0);

    sidecar_call_until(ks_command_top, once, "stream stream: 2 leases", output, sizeof output);
    EXPECT_CONTAINS(output, "kinesis-sidecar ");
    EXPECT_CONTAINS(output, ": active, ready, up ");
    EXPECT_CONTAINS(output, "\napp, stream stream: 2 leases, 1 sessions, ");
    EXPECT_CONTAINS(output, "\nshop    pull");
    EXPECT_CONTAINS(output, "\nshardId-000000000000  held   ");
    EXPECT_CONTAINS(output, "\nshardId-000000000001  held   ");
    EXPECT(strchr(output, '\x1b') == NULL);
    EXPECT(strstr(output, "\n\n\n") == NULL);
    EXPECT_EQ_I64(sidecar_call(ks_command_top, nobody, "", output, sizeof output), 1);

    EXPECT(kill(pid, SIGTERM) == 0);
    EXPECT(kill(pid, SIGTERM) == 0);
    EXPECT_EQ_I64(sidecar_end(pid), 0);
    EXPECT_EQ_I64(sidecar_call(ks_command_top, once, "", output, sizeof output), 1);
}

TEST(a_session_is_shown_with_its_share_and_its_filter)
{
    static char source[220];
    const char *const words[] = {"--source", source, "--local-shards", "2", NULL};
    const char *const pull[] = {"--wait-ms",  "0",   "--session", "canary",
                                "--ordering", "key", "--share",   "0.25",
                                "--salt",     "v2",  "--filter",  "{\"partitionKey\":[\"a\"]}",
                                NULL};
    const char *const once[] = {"--once", NULL};
    pid_t pid;

    (void)snprintf(source, sizeof source, "local:%s/stream.db", ks_test_dir());
    pid = sidecar_start(words, NULL);
    sidecar_wait_ready();
    EXPECT_EQ_I64(sidecar_call(ks_command_pull, pull, "", output, sizeof output), 0);
    sidecar_call_until(ks_command_top, once, "\ncanary", output, sizeof output);
    EXPECT_CONTAINS(output, "  SHARE     IDLE");
    EXPECT_CONTAINS(output, "  0.25, v2  ");
    EXPECT_CONTAINS(output, "  {\"partitionKey\":[\"a\"]}\n");
    EXPECT(kill(pid, SIGTERM) == 0);
    EXPECT(kill(pid, SIGTERM) == 0);
    EXPECT_EQ_I64(sidecar_end(pid), 0);
}

TEST(a_start_that_cannot_be_is_unknown)
{
    /* A Status with started_at = INT64_MIN, as protobuf. */
    static const char least[] =
        "HTTP/1.1 200 OK\r\n\r\n\x38\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01";
    static const char none[] = "HTTP/1.1 200 OK\r\n\r\n";
    const char *const once[] = {"--once", NULL};
    struct sidecar_line line;
    pid_t pid;

    sidecar_line(&line, "top", 0, NULL);
    pid = sidecar_pretend(&line, least, sizeof least - 1, 2);
    EXPECT_EQ_I64(sidecar_call(ks_command_top, once, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, ", up -\n");
    EXPECT_EQ_I64(sidecar_end(pid), 0);
    pid = sidecar_pretend(&line, none, sizeof none - 1, 2);
    EXPECT_EQ_I64(sidecar_call(ks_command_top, once, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, ", up -\n");
    EXPECT_EQ_I64(sidecar_end(pid), 0);
}

TEST(wrong_words_are_told)
{
    const char *const word[] = {"now", NULL};

    EXPECT_EQ_I64(sidecar_call(ks_command_top, word, "", output, sizeof output), 2);
}
