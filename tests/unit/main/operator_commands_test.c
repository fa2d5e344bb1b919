/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"
#include "main/commands.h"
#include "unit/main/sidecar.h"

#include <signal.h>
#include <stdio.h>

enum { OUTPUT_MAX = 64 * 1024 };

static char output[OUTPUT_MAX];

/* A session is open: without one no lease is taken. */
static pid_t start(void)
{
    static const char *const now[] = {"--wait-ms", "0", NULL};
    static char source[220];
    const char *const words[] = {"--source", source, "--local-shards", "2", NULL};
    pid_t pid;

    (void)snprintf(source, sizeof source, "local:%s/stream.db", ks_test_dir());
    pid = sidecar_start(words, NULL);
    sidecar_wait_ready();
    EXPECT_EQ_I64(sidecar_call(ks_command_pull, now, "", output, sizeof output), 0);
    sidecar_call_until(ks_command_leases, NULL, " held ", output, sizeof output);
    return pid;
}

static void stop(pid_t pid)
{
    EXPECT(kill(pid, SIGTERM) == 0);
    EXPECT_EQ_I64(sidecar_end(pid), 0);
}

TEST(a_pause_and_its_end_are_said_of_each_shard)
{
    const char *const two[] = {"shardId-000000000000", "shardId-000000000001", NULL};
    const char *const late[] = {"--until", "2100-01-01T00:00:00Z", "shardId-000000000001", NULL};
    const char *const wrong[] = {"shardId-9", NULL};
    pid_t pid = start();

    EXPECT_EQ_I64(sidecar_call(ks_command_pause, two, "", output, sizeof output), 0);
    EXPECT_STR(output, "shardId-000000000000: paused\nshardId-000000000001: paused\n");
    EXPECT_EQ_I64(sidecar_call(ks_command_leases, NULL, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, "wrong: shardId-000000000001: paused by an operator\n"
                            "  do: kinesis-sidecar resume shardId-000000000001\n");
    EXPECT_EQ_I64(sidecar_call(ks_command_resume, NULL, "", output, sizeof output), 0);
    EXPECT_STR(output, "all shards: resumed\n");
    EXPECT_EQ_I64(sidecar_call(ks_command_pause, late, "", output, sizeof output), 0);
    EXPECT_EQ_I64(sidecar_call(ks_command_pause, wrong, "", output, sizeof output), 1);
    EXPECT_EQ_I64(sidecar_call(ks_command_resume, late, "", output, sizeof output), 2);
    stop(pid);
}

TEST(a_seek_says_where_each_shard_was_and_is)
{
    const char *const dry[] = {"trim_horizon", "--force", "--dry-run", NULL};
    const char *const done[] = {"trim_horizon", "shardId-000000000001", "--force", NULL};
    const char *const refused[] = {"trim_horizon", NULL};
    pid_t pid = start();

    EXPECT_EQ_I64(sidecar_call(ks_command_seek, NULL, "", output, sizeof output), 2);
    EXPECT_EQ_I64(sidecar_call(ks_command_seek, refused, "", output, sizeof output), 1);
    EXPECT_STR(output, "");
    EXPECT_EQ_I64(sidecar_call(ks_command_seek, dry, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, "shardId-000000000000  dry_run  ");
    EXPECT_EQ_I64(sidecar_call(ks_command_seek, done, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, "shardId-000000000001  done     ");
    EXPECT_CONTAINS(output, "TRIM_HORIZON\n");
    stop(pid);
}

TEST(a_skip_wants_a_record_that_holds_up_others)
{
    const char *const any[] = {"shardId-000000000000", NULL};
    const char *const one[] = {"shardId-000000000000", "12345", NULL};
    const char *const odd[] = {"shardId-000000000000", "12345:x", NULL};
    pid_t pid = start();

    EXPECT_EQ_I64(sidecar_call(ks_command_skip, NULL, "", output, sizeof output), 2);
    EXPECT_EQ_I64(sidecar_call(ks_command_skip, any, "", output, sizeof output), 1);
    EXPECT_EQ_I64(sidecar_call(ks_command_skip, one, "", output, sizeof output), 1);
    EXPECT_EQ_I64(sidecar_call(ks_command_skip, odd, "", output, sizeof output), 1);
    EXPECT_STR(output, "");
    stop(pid);
}

TEST(a_lease_is_released_by_the_name_of_its_shard)
{
    const char *const one[] = {"shardId-000000000000", NULL};
    const char *const none[] = {"shardId-7/x", NULL};
    pid_t pid = start();

    EXPECT_EQ_I64(sidecar_call(ks_command_release, NULL, "", output, sizeof output), 2);
    EXPECT_EQ_I64(sidecar_call(ks_command_release, none, "", output, sizeof output), 1);
    EXPECT_EQ_I64(sidecar_call(ks_command_release, one, "", output, sizeof output), 0);
    EXPECT_STR(output, "shardId-000000000000: its lease goes to another worker\n");
    stop(pid);
}
