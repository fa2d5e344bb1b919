/* SPDX-License-Identifier: Apache-2.0 */
#include "main/files.h"

#include "ks_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ks_options options;
static char said[4096]; /* The lines, with a newline behind each. */

static void say(void *arg, const char *line)
{
    size_t size = strlen(said);

    (void)arg;
    (void)snprintf(said + size, sizeof said - size, "%s\n", line);
}

static uint32_t check(void)
{
    said[0] = '\0';
    return ks_files_check(&options, say, NULL);
}

static void make(const char *path, const char *content)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    EXPECT(fd >= 0);
    EXPECT(write(fd, content, strlen(content)) == (ssize_t)strlen(content));
    EXPECT(close(fd) == 0);
}

/* "PREFIX" and a path in the folder of the test. */
static void set(char text[KS_OPTION_TEXT_SIZE], const char *prefix, const char *name)
{
    (void)snprintf(text, KS_OPTION_TEXT_SIZE, "%s%s/%s", prefix, ks_test_dir(), name);
}

/* The embedded default, in the folder of the test; and nothing of AWS is named. */
static void begin(void)
{
    static const char *const variables[] = {"AWS_CA_BUNDLE", "AWS_WEB_IDENTITY_TOKEN_FILE",
                                            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                            "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"};

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        EXPECT(unsetenv(variables[i]) == 0);
    set(options.source, "local:", "stream.db");
    set(options.leases, "sqlite:", "leases.db");
    (void)snprintf(options.listen, sizeof options.listen, "127.0.0.1:8990");
    (void)snprintf(options.ops_listen, sizeof options.ops_listen, "127.0.0.1:8991");
}

static void begin_aws(void)
{
    begin();
    (void)snprintf(options.source, sizeof options.source, "kinesis");
    (void)snprintf(options.leases, sizeof options.leases, "dynamodb");
}

TEST(files_that_will_be_made_are_fine_and_are_not_made)
{
    begin();
    set(options.listen, "127.0.0.1:8990,unix:", "api.sock");
    EXPECT_EQ_U64(check(), 0);
    EXPECT_STR(said, "");
    EXPECT(rmdir(ks_test_dir()) == 0); /* Nothing is in it. */
}

TEST(files_that_are_there_are_fine)
{
    begin();
    make(ks_test_path("stream.db"), "");
    make(ks_test_path("leases.db"), "");
    make(ks_test_path("token"), "secret\n");
    set(options.token_file, "", "token");
    set(options.state_dir, "", "");
    options.sources[KS_OPTION_state_dir] = KS_OPTION_FLAG;
    EXPECT_EQ_U64(check(), 0);
}

TEST(everything_is_told_in_one_line_each)
{
    begin();
    set(options.source, "local:", "none/stream.db");
    set(options.leases, "sqlite:", "none/leases.db");
    set(options.state_dir, "", "none");
    options.sources[KS_OPTION_state_dir] = KS_OPTION_ENVIRONMENT;
    set(options.listen, "unix:", "none/api.sock");
    set(options.ops_listen, "127.0.0.1:8991,unix:", "none/ops.sock");
    set(options.token_file, "", "none/token");
    EXPECT_EQ_U64(check(), 6);
    EXPECT_CONTAINS(said, "--source: ");
    EXPECT_CONTAINS(said, "\n--leases: ");
    EXPECT_CONTAINS(said, "\n--state-dir: ");
    EXPECT_CONTAINS(said, "\n--listen: ");
    EXPECT_CONTAINS(said, "\n--ops-listen: ");
    EXPECT_CONTAINS(said, "\n--token-file ");
    EXPECT_CONTAINS(said, "none: No such file or directory\n");
}

TEST(what_is_something_else_is_told)
{
    begin();
    make(ks_test_path("file"), "");
    EXPECT(mkdir(ks_test_path("directory"), 0700) == 0);
    set(options.source, "local:", "directory");
    set(options.leases, "sqlite:", "file/leases.db");
    set(options.state_dir, "", "file");
    options.sources[KS_OPTION_state_dir] = KS_OPTION_FILE;
    set(options.token_file, "", "file"); /* Without a token in it. */
    EXPECT_EQ_U64(check(), 4);
    EXPECT_CONTAINS(said, "directory: is no file\n");
    EXPECT_CONTAINS(said, "leases.db: Not a directory\n");
    EXPECT_CONTAINS(said, "file: Not a directory\n");
    EXPECT_CONTAINS(said, "must hold a token");
}

TEST(files_of_aws_are_looked_at_when_aws_is_asked)
{
    begin_aws();
    EXPECT(setenv("AWS_CA_BUNDLE", ks_test_path("none"), 1) == 0);
    EXPECT(setenv("AWS_WEB_IDENTITY_TOKEN_FILE", ks_test_dir(), 1) == 0);
    EXPECT(setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "", 1) == 0);
    EXPECT(setenv("AWS_SHARED_CREDENTIALS_FILE", ks_test_dir(), 1) == 0);
    EXPECT_EQ_U64(check(), 3);
    EXPECT_CONTAINS(said, "AWS_CA_BUNDLE: ");
    EXPECT_CONTAINS(said, "none: No such file or directory\n");
    EXPECT_CONTAINS(said, "\nAWS_WEB_IDENTITY_TOKEN_FILE: ");
    EXPECT_CONTAINS(said, ": Is a directory\n");
    EXPECT_CONTAINS(said, "\nAWS_SHARED_CREDENTIALS_FILE: ");

    begin();
    EXPECT(setenv("AWS_CA_BUNDLE", ks_test_path("none"), 1) == 0);
    EXPECT_EQ_U64(check(), 0);
}

TEST(destination_of_dead_letters_is_looked_at)
{
    begin();
    EXPECT(setenv("AWS_CA_BUNDLE", ks_test_path("none"), 1) == 0);
    (void)snprintf(options.dead_letters, sizeof(options.dead_letters), "sqs:orders");
    EXPECT_EQ_U64(check(), 2); /* AWS is asked, too. */
    EXPECT_CONTAINS(said, "--dead-letters must be like sqs:https://");
    EXPECT_CONTAINS(said, "AWS_CA_BUNDLE: ");
    EXPECT(unsetenv("AWS_CA_BUNDLE") == 0);
    begin_aws();
    (void)snprintf(options.stream, sizeof(options.stream), "orders");
    (void)snprintf(options.dead_letters, sizeof(options.dead_letters), "kinesis:orders");
    EXPECT_EQ_U64(check(), 1);
    EXPECT_CONTAINS(said, "--dead-letters is the stream that is read");
}

TEST(settings_that_cannot_be_are_told)
{
    static const char *const bad[][3] = {
        {"AWS_REGION", "eu_west_1", "AWS_REGION is no region"},
        {"AWS_USE_FIPS_ENDPOINT", "yes", "AWS_USE_FIPS_ENDPOINT is not true or false"},
        {"AWS_ENDPOINT_URL", "ftp://here", "AWS_ENDPOINT_URL is no URL"},
        {"https_proxy", "here:port", "https_proxy is no proxy"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        begin_aws();
        EXPECT(setenv("AWS_REGION", "eu-west-1", 1) == 0);
        EXPECT(setenv(bad[i][0], bad[i][1], 1) == 0);
        EXPECT_EQ_U64(check(), 1);
        EXPECT_CONTAINS(said, bad[i][2]);
        EXPECT(unsetenv(bad[i][0]) == 0);
    }
}

TEST(a_profile_file_need_not_be_there)
{
    begin_aws();
    EXPECT(setenv("AWS_CONFIG_FILE", ks_test_path("none"), 1) == 0);
    EXPECT_EQ_U64(check(), 0);
}

TEST(a_bucket_that_cannot_be_is_told)
{
    begin();
    (void)snprintf(options.dead_letters, sizeof options.dead_letters, "s3://my-bucket/p?kms=x");
    EXPECT_EQ_U64(check(), 1);
    EXPECT_CONTAINS(said, "--dead-letters: an s3:// URL may end with ?kms-key=KEY");
    (void)snprintf(options.dead_letters, sizeof options.dead_letters, "s3://my-bucket/p?kms-key=x");
    EXPECT_EQ_U64(check(), 0);
}
