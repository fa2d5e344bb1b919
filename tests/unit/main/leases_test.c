/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"
#include "main/commands.h"
#include "unit/main/sidecar.h"

#include <signal.h>
#include <stdio.h>

enum { OUTPUT_MAX = 64 * 1024 };

static char output[OUTPUT_MAX];

static pid_t start(void)
{
    static char source[220];
    const char *const words[] = {"--source", source, "--local-shards", "2", NULL};
    pid_t pid;

    (void)snprintf(source, sizeof source, "local:%s/stream.db", ks_test_dir());
    pid = sidecar_start(words, NULL);
    sidecar_wait_ready();
    return pid;
}

static void stop(pid_t pid)
{
    EXPECT(kill(pid, SIGTERM) == 0);
    EXPECT_EQ_I64(sidecar_end(pid), 0);
}

TEST(leases_are_a_table)
{
    const char *const word[] = {"list", "--subscription", "app", NULL};
    pid_t pid = start();

    sidecar_call_until(ks_command_leases, NULL, "shardId-", output, sizeof output);
    EXPECT_CONTAINS(output, "SHARD                 OWNER");
    EXPECT_CONTAINS(output, "CHECKPOINT\nshardId-000000000000  ");
    EXPECT_CONTAINS(output, "\nshardId-000000000001  ");
    EXPECT_EQ_I64(sidecar_call(ks_command_leases, word, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, "shardId-000000000001");
    stop(pid);
}

TEST(one_is_told_in_full)
{
    const char *const one[] = {"show", "shardId-000000000001", NULL};
    const char *const none[] = {"show", "shardId-000000000007", NULL};
    pid_t pid = start();

    sidecar_call_until(ks_command_leases, one, "shardId-", output, sizeof output);
    EXPECT_CONTAINS(output, "shard                shardId-000000000001\n");
    EXPECT_CONTAINS(output, "\nunsettled            0\n");
    EXPECT_CONTAINS(output, "\nlast hash key        340282366920938463463374607431768211455\n");
    EXPECT_EQ_I64(sidecar_call(ks_command_leases, none, "", output, sizeof output), 1);
    EXPECT_STR(output, "");
    stop(pid);
}

TEST(wrong_words_and_an_absent_sidecar_are_told)
{
    const char *const words[] = {"shown", NULL};
    const char *const half[] = {"show", NULL};

    EXPECT_EQ_I64(sidecar_call(ks_command_leases, words, "", output, sizeof output), 2);
    EXPECT_EQ_I64(sidecar_call(ks_command_leases, half, "", output, sizeof output), 2);
    EXPECT_EQ_I64(sidecar_call(ks_command_leases, NULL, "", output, sizeof output), 1);
}
