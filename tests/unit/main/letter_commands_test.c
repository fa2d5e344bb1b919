/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"
#include "main/client.h"
#include "main/commands.h"
#include "unit/main/sidecar.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { OUTPUT_MAX = 64 * 1024 };

static char output[OUTPUT_MAX];

static pid_t start(void)
{
    static char source[220];
    const char *const words[] = {
        "--source", source, "--local-shards", "1", "--initial-position", "trim_horizon", NULL};
    pid_t pid;

    (void)snprintf(source, sizeof source, "local:%s/stream.db", ks_test_dir());
    pid = sidecar_start(words, NULL);
    sidecar_wait_ready();
    return pid;
}

static ks_err ignore(void *arg, ks_view bytes)
{
    (void)arg;
    (void)bytes;
    return KS_OK;
}

/* A record that its client gives up. */
static void give_up(const char *data)
{
    const char *const put[] = {"--data", data, NULL};
    const char *const pull[] = {"--wait-ms", "5000", NULL};
    struct ks_address addresses[KS_ADDRESSES_MAX];
    struct ks_detail detail = {""};
    struct sidecar_line line;
    struct ks_client_request request = {.method = "POST",
                                        .target = "/v1/records/settle",
                                        .timeout = ks_span_ms(10000),
                                        .part = ignore};
    char body[1000];
    const char *ack_id;
    uint32_t count;
    int status = 0;

    EXPECT_EQ_I64(sidecar_call(ks_command_put, put, "", output, sizeof output), 0);
    sidecar_call_until(ks_command_pull, pull, "\"ack_id\":\"", output, sizeof output);
    ack_id = strstr(output, "\"ack_id\":\"") + strlen("\"ack_id\":\"");
    (void)snprintf(body, sizeof body,
                   "{\"settlements\":[{\"ack_id\":\"%.*s\",\"outcome\":\"dead_letter\","
                   "\"reason\":\"no such order\"}],\"wait\":\"persisted\"}",
                   (int)strcspn(ack_id, "\""), ack_id);
    request.body = ks_view_text(body);
    sidecar_line(&line, "put", 0, put);
    EXPECT_OK(ks_address_parse_list(ks_view_text(line.listen), addresses, &count, &detail));
    EXPECT_OK(ks_client_call(addresses, count, &request, &status, &detail));
    EXPECT_EQ_I64(status, 200);
}

TEST(a_dead_letter_is_listed_shown_delivered_again_and_removed)
{
    char id[200];
    const char *const show[] = {"show", id, NULL};
    const char *const redrive[] = {"redrive", id, NULL};
    const char *const discard[] = {"discard", id, NULL};
    const char *const count[] = {"count", NULL};
    const char *line;
    pid_t pid = start();

    give_up("{\"order\":7}");
    EXPECT_EQ_I64(sidecar_call(ks_command_dead_letters, NULL, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, "ATTEMPTS  CAUSE");
    EXPECT_CONTAINS(output, "{\"order\":7}");
    line = strchr(output, '\n');
    EXPECT(line != NULL && sscanf(line, " %199s", id) == 1);
    EXPECT_EQ_I64(sidecar_call(ks_command_dead_letters, show, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, "\ncause                asked\n");
    EXPECT_CONTAINS(output, "\n\n{\"order\":7}\n");
    EXPECT_EQ_I64(sidecar_call(ks_command_dead_letters, redrive, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, ": is delivered again\n");
    EXPECT_EQ_I64(sidecar_call(ks_command_dead_letters, discard, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, ": is removed\n");
    EXPECT_EQ_I64(sidecar_call(ks_command_dead_letters, count, "", output, sizeof output), 0);
    EXPECT_STR(output, "0\n");
    EXPECT_EQ_I64(sidecar_call(ks_command_dead_letters, show, "", output, sizeof output), 1);
    EXPECT(kill(pid, SIGTERM) == 0);
    EXPECT_EQ_I64(sidecar_end(pid), 0);
}

TEST(wrong_words_are_told)
{
    const char *const half[] = {"show", NULL};
    const char *const odd[] = {"lists", NULL};

    EXPECT_EQ_I64(sidecar_call(ks_command_dead_letters, half, "", output, sizeof output), 2);
    EXPECT_EQ_I64(sidecar_call(ks_command_dead_letters, odd, "", output, sizeof output), 2);
}
