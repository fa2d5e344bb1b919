/* SPDX-License-Identifier: Apache-2.0 */
#include "main/call.h"

#include "ks_test.h"
#include "unit/main/sidecar.h"

#include <pty.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static const struct ks_call_flag flags[] = {
    {"--follow", false}, {"--wait-ms", true}, {"--wait", true}, {NULL, false}};
static char *const nothing[] = {NULL};

static bool read_words(struct ks_call *call, uint32_t words_max, int argc, const char *const *words)
{
    char *argv[16] = {NULL};

    EXPECT(argc <= 16);
    for (int i = 0; i < argc; i++)
        argv[i] = (char *)(uintptr_t)words[i];
    return ks_call_read(argc, argv, nothing, flags, words_max, call);
}

TEST(flags_words_and_options_are_told_apart)
{
    const char *const words[] = {"pull",         "one",      "--wait",         "persisted", "two",
                                 "--wait-ms=50", "--listen", "127.0.0.1:1234", "--follow"};
    struct ks_call call;

    EXPECT(read_words(&call, 2, 9, words));
    EXPECT_STR(call.values[0], "");
    EXPECT_STR(call.values[1], "50");
    EXPECT_STR(call.values[2], "persisted");
    EXPECT_EQ_U64(call.word_count, 2);
    EXPECT_STR(call.words[0], "one");
    EXPECT_STR(call.words[1], "two");
    EXPECT_STR(call.options.listen, "127.0.0.1:1234");
}

TEST(what_was_not_given_is_null)
{
    const char *const words[] = {"pull"};
    struct ks_call call;

    EXPECT(read_words(&call, 0, 1, words));
    EXPECT(call.values[0] == NULL);
    EXPECT(call.values[1] == NULL);
    EXPECT_EQ_U64(call.word_count, 0);
}

TEST(wrong_words_are_refused)
{
    static const struct {
        const char *words[3];
        int count;
    } cases[] = {
        {{"pull", "word"}, 2},
        {{"pull", "--wait"}, 2},
        {{"pull", "--follow=yes"}, 2},
        {{"pull", "--follow", "--follow"}, 3},
        {{"pull", "--nonsense", "1"}, 3},
        {{"pull", "--listen", "nowhere"}, 3},
    };
    struct ks_call call;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        EXPECT(!read_words(&call, 0, cases[i].count, cases[i].words));
}

TEST(parts_are_kept)
{
    struct ks_bytes bytes;

    ks_bytes_init(&bytes, 4);
    EXPECT_OK(ks_call_keep(&bytes, KS_VIEW("abc")));
    EXPECT_ERR(ks_call_keep(&bytes, KS_VIEW("de")), FULL);
    EXPECT(ks_view_equal(ks_bytes_view(&bytes), KS_VIEW("abc")));
    ks_bytes_free(&bytes);
}

/* ---- What a terminal is spared ---- */

/* Lets a sidecar answer `answer`, asks it, and gives what came to `stream`, which is a terminal or not. */
static bool heard(const char *answer, size_t size, int stream, bool terminal, char ret_said[512])
{
    const struct ks_call_request request = {
        .method = "GET", .target = "/v1/status", .timeout = ks_span_ms(30000)};
    struct sidecar_line line;
    struct ks_call call;
    int ends[2];
    bool fine;

    sidecar_line(&line, "call", 0, NULL);
    EXPECT(ks_call_read(line.argc, line.argv, nothing, flags, 0, &call));
    pid_t pid = sidecar_pretend(&line, answer, size, 1);
    if (terminal) {
        struct termios raw;

        EXPECT(openpty(&ends[0], &ends[1], NULL, NULL, NULL) == 0);
        EXPECT(tcgetattr(ends[1], &raw) == 0);
        cfmakeraw(&raw); /* What is written is what is read. */
        EXPECT(tcsetattr(ends[1], TCSANOW, &raw) == 0);
    } else {
        EXPECT(pipe(ends) == 0);
    }
    int kept = dup(stream);
    EXPECT(dup2(ends[1], stream) >= 0);
    fine = ks_call_send(&call, &request);
    EXPECT(write(stream, "!", 1) == 1); /* Something comes in any case. */
    EXPECT(dup2(kept, stream) >= 0);
    (void)close(kept);
    for (size_t got = 0; got == 0 || ret_said[got - 1] != '!'; ret_said[got] = '\0') {
        ssize_t more = read(ends[0], ret_said + got, 511 - got);

        EXPECT(more > 0);
        got += (size_t)more;
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
    EXPECT_EQ_I64(sidecar_end(pid), 0);
    return fine;
}

TEST(an_error_of_the_sidecar_commands_no_terminal)
{
    static const char answer[] = "HTTP/1.1 500 No\r\n\r\n{\"message\":\"\x1b]0;x\x07\xc2\x9b"
                                 "2J\xe2\x80\xae\xff\xc3\xa9\"}\nand\n\n";
    char said[512];

    EXPECT(!heard(answer, sizeof answer - 1, STDERR_FILENO, false, said));
    EXPECT_STR(said, "kinesis-sidecar: the sidecar answers 500: {\"message\":\"\\u001b]0;x\\u0007"
                     "\\u009b2J\\u202e\\xff\xc3\xa9\"}\nand\n!");
}

TEST(an_answer_commands_no_terminal_and_reaches_a_program_as_it_is)
{
    /* Chunks that cut characters in two. */
    static const char answer[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                 "3\r\n\x1b[\xc2\r\n2\r\n\x9b\xe2\r\n3\r\n\x82\xac\n\r\n"
                                 "1\r\n\xe2\r\n0\r\n\r\n";
    char said[512];

    EXPECT(heard(answer, sizeof answer - 1, STDOUT_FILENO, true, said));
    EXPECT_STR(said, "\\u001b[\\u009b\xe2\x82\xac\n\\xe2!");
    EXPECT(heard(answer, sizeof answer - 1, STDOUT_FILENO, false, said));
    EXPECT_STR(said, "\x1b[\xc2\x9b\xe2\x82\xac\n\xe2!");
}
