/* SPDX-License-Identifier: Apache-2.0 */
#include "main/exposure.h"
#include "ks_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char said[4096];

static void say(void *arg, const char *line)
{
    (void)arg;
    strncat(said, line, sizeof(said) - strlen(said) - 1);
    strncat(said, "\n", sizeof(said) - strlen(said) - 1);
}

static const char *told(const char *listen, const char *token, const char *operator,
                        const char * allow)
{
    static struct ks_options options;

    memset(&options, 0, sizeof(options));
    (void)snprintf(options.listen, sizeof(options.listen), "%s", listen);
    (void)snprintf(options.token_file, sizeof(options.token_file), "%s", token);
    (void)snprintf(options.operator_token_file, sizeof(options.operator_token_file),
                   "%s", operator);
    (void)snprintf(options.allow_host, sizeof(options.allow_host), "%s", allow);
    (void)snprintf(options.source, sizeof(options.source), "local:%s", ks_test_path("stream.db"));
    said[0] = '\0';
    ks_exposure_tell(&options, say, NULL);
    return said;
}

static void make(const char *name, mode_t mode)
{
    int fd = open(ks_test_path(name), O_CREAT | O_WRONLY, 0600);

    EXPECT(fd >= 0 && fchmod(fd, mode) == 0 && close(fd) == 0);
}

TEST(what_is_closed_is_not_told)
{
    make("stream.db", 0640);
    EXPECT_STR(told("127.0.0.1:1,[::1]:1,unix:/a", "", "", ""), "");
    make("app", 0640);
    char app[200];
    (void)snprintf(app, sizeof(app), "%s", ks_test_path("app"));
    make("boss", 0600);
    EXPECT_STR(told("0.0.0.0:1", app, ks_test_path("boss"), "sidecar.example"), "");
}

TEST(doors_without_a_token_are_told)
{
    make("stream.db", 0600);
    EXPECT_CONTAINS(told("127.0.0.1:1,0.0.0.0:1", "", "", ""), "without --token-file: whoever");
    EXPECT_CONTAINS(told("127.0.0.1:1", "", "", "a.example"), "--allow-host a.example");
    make("app", 0600);
    EXPECT_STR(told("0.0.0.0:1", ks_test_path("app"), "", "a.example"),
               "--token-file without --operator-token-file: whoever has the apps' token may drain, "
               "seek and quit\n");
}

TEST(files_that_everybody_reads_or_writes_are_told)
{
    make("stream.db", 0604);
    EXPECT_CONTAINS(told("127.0.0.1:1", "", "", ""), "--source: every user of this host may read");
    make("stream.db", 0606);
    EXPECT_CONTAINS(told("127.0.0.1:1", "", "", ""), "may write");
    make("stream.db", 0600);
    make("app", 0644);
    EXPECT_CONTAINS(told("127.0.0.1:1", ks_test_path("app"), "", ""),
                    "--token-file: every user of this host may read");
    EXPECT_CONTAINS(told("127.0.0.1:1", "", ks_test_path("app"), ""),
                    "--operator-token-file: every user of this host may read");
}
