/* SPDX-License-Identifier: Apache-2.0 */
#include "main/commands.h"

#include "ks_test.h"
#include "unit/main/sidecar.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { OUTPUT_MAX = 64 * 1024 };

static pid_t start(void)
{
    static char source[220];
    const char *const words[] = {"--source",
                                 source,
                                 "--initial-position",
                                 "trim_horizon",
                                 "--local-shards",
                                 "1",
                                 "--lease-duration-ms",
                                 "1000",
                                 NULL};
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

/* The value of the member `name` in its first place. */
static void member(const char *json, const char *name, char *value, size_t size)
{
    char key[64];
    const char *found;
    size_t length;

    (void)snprintf(key, sizeof key, "\"%s\":\"", name);
    found = strstr(json, key);
    EXPECT(found != NULL);
    found += strlen(key);
    length = strcspn(found, "\"");
    EXPECT(length < size);
    memcpy(value, found, length);
    value[length] = '\0';
}

TEST(lines_that_are_put_are_pulled_and_acknowledged)
{
    const char *const patient[] = {"--wait-ms", "10000", "--max-records", "3", NULL};
    const char *const impatient[] = {"--wait-ms", "0", NULL};
    static char output[OUTPUT_MAX];
    char batch_id[600];
    char ack_id[100];
    pid_t pid = start();

    EXPECT_EQ_I64(sidecar_call(ks_command_put, NULL, "one\ntwo\n\nfour", output, sizeof output), 0);
    EXPECT_STR(output, "4 records put\n");
    EXPECT_EQ_I64(sidecar_call(ks_command_pull, patient, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, "\"data\":\"b25l\"");
    EXPECT_CONTAINS(output, "\"data\":\"dHdv\"");
    EXPECT_CONTAINS(output, "\"data\":\"\"");
    EXPECT(strstr(output, "\"data\":\"Zm91cg==\"") == NULL);
    member(output, "batch_id", batch_id, sizeof batch_id);
    {
        const char *const batch[] = {"--batch-id", batch_id, "--wait", "persisted", NULL};

        EXPECT_EQ_I64(sidecar_call(ks_command_ack, batch, "", output, sizeof output), 0);
        EXPECT_CONTAINS(output, "\"ok\":3");
        EXPECT_CONTAINS(output, "\"persisted\":true");
    }
    EXPECT_EQ_I64(sidecar_call(ks_command_pull, patient, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, "\"data\":\"Zm91cg==\"");
    member(output, "ack_id", ack_id, sizeof ack_id);
    {
        const char *const one[] = {ack_id, NULL};
        const char *const forged[] = {ack_id, "forged", NULL};

        EXPECT_EQ_I64(sidecar_call(ks_command_ack, one, "", output, sizeof output), 0);
        EXPECT_EQ_I64(sidecar_call(ks_command_ack, forged, "", output, sizeof output), 1);
        EXPECT_CONTAINS(output, "forged");
    }
    EXPECT_EQ_I64(sidecar_call(ks_command_pull, impatient, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, "\"records\":[]");
    stop(pid);
}

TEST(one_record_can_be_put_with_its_key)
{
    const char *const words[] = {"--data", "hello \"you\"", "--partition-key", "k\"1", NULL};
    const char *const patient[] = {"--wait-ms=10000", NULL};
    static char output[OUTPUT_MAX];
    pid_t pid = start();

    EXPECT_EQ_I64(sidecar_call(ks_command_put, words, "", output, sizeof output), 0);
    EXPECT_STR(output, "1 records put\n");
    EXPECT_EQ_I64(sidecar_call(ks_command_pull, patient, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, "\"partition_key\":\"k\\\"1\"");
    EXPECT_CONTAINS(output, "\"data\":\"aGVsbG8gInlvdSI=\"");
    EXPECT(kill(pid, SIGTERM) == 0);
    stop(pid); /* Twice: nobody acknowledged. */
}

TEST(a_drain_gives_all_back_and_stays_up)
{
    const char *const live[] = {"livez", NULL};
    static char output[OUTPUT_MAX];
    pid_t pid = start();

    EXPECT_EQ_I64(sidecar_call(ks_command_health, NULL, "", output, sizeof output), 0);
    EXPECT_EQ_I64(sidecar_call(ks_command_drain, NULL, "", output, sizeof output), 0);
    EXPECT_EQ_I64(sidecar_call(ks_command_health, NULL, "", output, sizeof output), 1);
    EXPECT_EQ_I64(sidecar_call(ks_command_health, live, "", output, sizeof output), 0);
    stop(pid);
}

TEST(to_quit_gives_all_back_and_ends_it)
{
    static char output[OUTPUT_MAX];
    pid_t pid = start();

    EXPECT_EQ_I64(sidecar_call(ks_command_quit, NULL, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, "\"type\":\"drained\"");
    EXPECT_EQ_I64(sidecar_end(pid), 0);
    EXPECT_EQ_I64(sidecar_call(ks_command_quit, NULL, "", output, sizeof output), 1);
}

TEST(after_a_drain_it_can_be_told_to_quit)
{
    pid_t pid = start();

    EXPECT_EQ_I64(sidecar_call(ks_command_drain, NULL, "", NULL, 0), 0);
    EXPECT_EQ_I64(sidecar_call(ks_command_quit, NULL, "", NULL, 0), 0);
    EXPECT_EQ_I64(sidecar_end(pid), 0);
}

TEST(wrong_words_are_told_without_a_call)
{
    const char *const no_probe[] = {"healthz", NULL};
    const char *const no_number[] = {"--timeout-ms", "soon", NULL};
    const char *const empty_key[] = {"--partition-key", "", NULL};
    char output[4096];

    EXPECT_EQ_I64(sidecar_call(ks_command_health, no_probe, "", output, sizeof output), 2);
    EXPECT_EQ_I64(sidecar_call(ks_command_wait, no_number, "", output, sizeof output), 2);
    EXPECT_EQ_I64(sidecar_call(ks_command_put, empty_key, "", output, sizeof output), 2);
    EXPECT_EQ_I64(sidecar_call(ks_command_ack, NULL, "", output, sizeof output), 2);
    EXPECT_EQ_I64(sidecar_call(ks_command_drain, no_probe, "", output, sizeof output), 2);
    EXPECT_EQ_I64(sidecar_call(ks_command_quit, no_probe, "", output, sizeof output), 2);
}

TEST(nobody_there_is_told)
{
    const char *const one[] = {"id", NULL};
    char output[4096];

    EXPECT_EQ_I64(sidecar_call(ks_command_pull, NULL, "", output, sizeof output), 1);
    EXPECT_EQ_I64(sidecar_call(ks_command_ack, one, "", output, sizeof output), 1);
    EXPECT_EQ_I64(sidecar_call(ks_command_put, NULL, "x\n", output, sizeof output), 1);
    EXPECT_EQ_I64(sidecar_call(ks_command_drain, NULL, "", output, sizeof output), 1);
}

TEST(a_wrong_parameter_is_the_api_s_to_refuse)
{
    const char *const words[] = {"--max-records", "many", NULL};
    char output[4096];
    pid_t pid = start();

    EXPECT_EQ_I64(sidecar_call(ks_command_pull, words, "", output, sizeof output), 1);
    EXPECT_STR(output, "");
    stop(pid);
}
