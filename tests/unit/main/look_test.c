/* SPDX-License-Identifier: Apache-2.0 */
#include "main/look.h"

#include "ks_test.h"
#include "unit/main/sidecar.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char *const nothing[] = {NULL};
static const struct ks_call_flag flags[] = {{NULL, false}};

static struct sidecar_line line;
static struct ks_call call;

static pid_t start(const char *shards)
{
    static char source[220];
    const char *const words[] = {"--source", source, "--local-shards", shards, NULL};
    pid_t pid;

    (void)snprintf(source, sizeof source, "local:%s/stream.db", ks_test_dir());
    pid = sidecar_start(words, NULL);
    sidecar_wait_ready();
    sidecar_line(&line, "look", 0, NULL);
    EXPECT(ks_call_read(line.argc, line.argv, nothing, flags, 0, &call));
    return pid;
}

static void stop(pid_t pid)
{
    EXPECT(kill(pid, SIGTERM) == 0);
    EXPECT_EQ_I64(sidecar_end(pid), 0);
}

TEST(a_message_is_had_and_what_is_wrong_is_told)
{
    const ProtobufCMessageDescriptor *type = &kinesis_sidecar__v1__status__descriptor;
    ProtobufCMessage *message = NULL;
    struct ks_arena arena;
    pid_t pid = start("1");

    EXPECT(ks_look(&call, "/v1/status", NULL, NULL, type, &arena, &message));
    EXPECT(((ks_pb_status *)message)->ready);
    EXPECT_EQ_I64(((ks_pb_status *)message)->n_subscriptions, 1);
    ks_arena_free(&arena);
    EXPECT(ks_look(&call, "/v1/status", NULL, "app", type, &arena, &message));
    ks_arena_free(&arena);
    EXPECT(!ks_look(&call, "/v1/status", NULL, "other & more", type, &arena, &message));
    ks_arena_free(&arena);
    EXPECT(!ks_look(&call, "/v1/shards/", "no such", NULL, type, &arena, &message));
    ks_arena_free(&arena);
    stop(pid);
    EXPECT(!ks_look(&call, "/v1/status", NULL, NULL, type, &arena, &message));
    ks_arena_free(&arena);
}

struct pages {
    size_t pages;
    size_t rows;
};

static void count(void *arg, const ProtobufCMessage *message)
{
    struct pages *pages = arg;

    pages->pages++;
    pages->rows += ((const KinesisSidecar__V1__ShardsResponse *)message)->n_shards;
}

TEST(a_list_is_had_page_after_page)
{
    const ProtobufCMessageDescriptor *type = &kinesis_sidecar__v1__shards_response__descriptor;
    struct pages all = {0};
    pid_t pid = start("1000");

    /* Ready, and not yet through with the listing. */
    for (int i = 0; i < 3000 && all.rows < 1000; i++) {
        all = (struct pages){0};
        EXPECT(ks_look_pages(&call, "/v1/shards", NULL, KS_PAGE_SIZE_MAX, type, count, &all));
        EXPECT_EQ_I64(all.pages, 1);
    }
    EXPECT_EQ_I64(all.rows, 1000);
    all = (struct pages){0};
    EXPECT(ks_look_pages(&call, "/v1/shards", "app", 300, type, count, &all));
    EXPECT_EQ_I64(all.pages, 4);
    EXPECT_EQ_I64(all.rows, 1000);
    EXPECT(!ks_look_pages(&call, "/v1/shards", "nobody", 300, type, count, &all));
    stop(pid);
}

TEST(words_are_those_of_rest)
{
    const ProtobufCEnumDescriptor *type = &kinesis_sidecar__v1__lease_state__descriptor;
    char word[KS_JSON_WORD_MAX];

    ks_look_word(type, KINESIS_SIDECAR__V1__LEASE_STATE__LEASE_STATE_HELD, word);
    EXPECT_STR(word, "held");
    ks_look_word(type, 0, word);
    EXPECT_STR(word, "");
    ks_look_word(type, 12345, word);
    EXPECT_STR(word, "?");
}

/* What is complained of when each page is answered with `answer`, and how many pages there were. */
static struct pages complaint(const char *answer, size_t size, int times, char ret_said[400])
{
    const ProtobufCMessageDescriptor *type = &kinesis_sidecar__v1__shards_response__descriptor;
    struct pages all = {0};
    ssize_t length;
    int streams[2];
    pid_t pid;

    sidecar_line(&line, "look", 0, NULL);
    EXPECT(ks_call_read(line.argc, line.argv, nothing, flags, 0, &call));
    pid = sidecar_pretend(&line, answer, size, times);
    EXPECT(pipe(streams) == 0);
    int kept = dup(STDERR_FILENO);
    EXPECT(dup2(streams[1], STDERR_FILENO) >= 0);
    bool fine = ks_look_pages(&call, "/v1/shards", NULL, 300, type, count, &all);
    EXPECT(dup2(kept, STDERR_FILENO) >= 0);
    (void)close(kept);
    (void)close(streams[1]);
    length = read(streams[0], ret_said, 399);
    EXPECT(length >= 0);
    ret_said[length] = '\0';
    (void)close(streams[0]);
    EXPECT(!fine);
    EXPECT_EQ_I64(sidecar_end(pid), 0);
    return all;
}

TEST(a_page_token_that_is_too_long_is_told)
{
    char answer[400] = "HTTP/1.1 200 OK\r\n\r\n\x12\xac\x02"; /* next_page_token, of 300 bytes. */
    size_t head = strlen(answer);
    char said[400];

    memset(answer + head, '7', 300);
    (void)complaint(answer, head + 300, 1, said);
    EXPECT_CONTAINS(said, "page token");
}

TEST(a_list_without_an_end_is_told)
{
    const char answer[] = "HTTP/1.1 200 OK\r\n\r\n\x12\x01"
                          "7";
    char said[400];

    EXPECT_EQ_I64(complaint(answer, sizeof answer - 1, KS_LOOK_PAGES_MAX, said).pages,
                  KS_LOOK_PAGES_MAX);
    EXPECT_CONTAINS(said, "no end");
}
