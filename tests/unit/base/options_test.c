/* SPDX-License-Identifier: Apache-2.0 */
#include "base/options.h"

#include "docs.h"
#include "ks_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 16 };

static struct ks_options options;
static struct ks_detail detail;

/* A command line and an environment, each with blanks between the words; "" is none. */
static ks_err read_options(const char *line, const char *variables)
{
    static char texts[2][1024];
    static char *words[2][ARGUMENTS_MAX + 1];
    const char *const sources[] = {line, variables};
    int counts[2] = {0, 0};

    for (int i = 0; i < 2; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%s", sources[i]);
        for (char *at = texts[i]; *at != '\0';) {
            EXPECT(counts[i] < ARGUMENTS_MAX);
            words[i][counts[i]++] = at;
            at += strcspn(at, " ");
            if (*at == ' ')
                *at++ = '\0';
        }
        words[i][counts[i]] = NULL;
    }
    detail.text[0] = '\0';
    return ks_options_read(counts[0], words[0], words[1], &options, &detail);
}

#define EMBEDDED "ks --source local:/d/stream.db --stream demo --application app"

static void expect_refused(const char *line, const char *variables, const char *part)
{
    if (!ks_err_is(read_options(line, variables), KS_ERR_INVALID))
        FAIL("not refused: %s %s", line, variables);
    EXPECT_CONTAINS(detail.text, part);
    EXPECT(strchr(detail.text, '\n') == NULL);
}

static const char *write_file(const char *content)
{
    const char *path = ks_test_path("config.json");
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

    EXPECT(fd >= 0);
    EXPECT(write(fd, content, strlen(content)) == (ssize_t)strlen(content));
    EXPECT(close(fd) == 0);
    return path;
}

TEST(what_is_not_said_is_the_default)
{
    EXPECT_OK(read_options("ks --stream s --application app", ""));
    EXPECT_STR(options.stream, "s");
    EXPECT_STR(options.application, "app");
    EXPECT_STR(options.source, "kinesis");
    EXPECT_STR(options.leases, "dynamodb");
    EXPECT_STR(options.state_dir, "");
    EXPECT_STR(options.dialect, "native");
    EXPECT_STR(options.retrieval, "polling");
    EXPECT_STR(options.initial_position, "latest");
    EXPECT_STR(options.listen, "127.0.0.1:8990,[::1]:8990");
    EXPECT_STR(options.ops_listen, "127.0.0.1:8991");
    EXPECT_EQ_U64(options.local_shards, 4);
    EXPECT_EQ_U64(options.lease_duration_ms, 10000);
    EXPECT_EQ_U64(options.checkpoint_interval_ms, 5000);
    EXPECT_EQ_U64(options.drain_timeout_ms, 25000);
    EXPECT_EQ_U64(options.idle_release_ms, 30000);
    EXPECT_EQ_U64(options.max_leases, 0);
    EXPECT_EQ_U64(options.memory_budget_bytes, 0);
    EXPECT_EQ_U64(options.max_connections, 0);
    EXPECT_EQ_U64(options.max_request_bytes, 1 << 20);
    EXPECT_STR(options.log_level, "info");
    EXPECT_STR(options.log_format, "text");
    EXPECT_EQ_I64(options.sources[KS_OPTION_source], KS_OPTION_DEFAULT);
    EXPECT_EQ_I64(options.sources[KS_OPTION_stream], KS_OPTION_FLAG);
}

TEST(both_spellings_of_a_flag_are_read)
{
    EXPECT_OK(read_options(EMBEDDED " --lease-duration-ms 2000 --max-leases=7", ""));
    EXPECT_EQ_U64(options.lease_duration_ms, 2000);
    EXPECT_EQ_U64(options.max_leases, 7);
    EXPECT_OK(read_options(EMBEDDED " --token-file=/a=b", ""));
    EXPECT_STR(options.token_file, "/a=b");
}

TEST(a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default)
{
    char line[512];

    snprintf(line, sizeof(line), EMBEDDED " --config %s --max-leases 1",
             write_file("{\"max_leases\": 3, \"local_shards\": 3, \"max_connections\": 3}"));
    EXPECT_OK(read_options(line, "KINESIS_SIDECAR_MAX_LEASES=2 KINESIS_SIDECAR_LOCAL_SHARDS=2"));
    EXPECT_EQ_U64(options.max_leases, 1);
    EXPECT_EQ_U64(options.local_shards, 2);
    EXPECT_EQ_U64(options.max_connections, 3);
    EXPECT_EQ_I64(options.sources[KS_OPTION_max_leases], KS_OPTION_FLAG);
    EXPECT_EQ_I64(options.sources[KS_OPTION_local_shards], KS_OPTION_ENVIRONMENT);
    EXPECT_EQ_I64(options.sources[KS_OPTION_max_connections], KS_OPTION_FILE);
}

TEST(the_file_may_be_named_by_the_environment)
{
    char variables[512];

    snprintf(variables, sizeof(variables), "KINESIS_SIDECAR_CONFIG=%s",
             write_file("{\"stream\":\"s\",\"application\":\"app\"}"));
    EXPECT_OK(read_options("ks", variables));
    EXPECT_STR(options.stream, "s");
    EXPECT_EQ_I64(options.sources[KS_OPTION_config], KS_OPTION_ENVIRONMENT);
}

/* Kubernetes makes KINESIS_SIDECAR_PORT and its like for a service of our name. */
TEST(foreign_and_empty_variables_are_ignored)
{
    EXPECT_OK(read_options(EMBEDDED, "KINESIS_SIDECAR_PORT=tcp://10.0.0.1:8990 HOME=/root "
                                     "KINESIS_SIDECAR_MAX_LEASES= KINESIS_SIDECAR_STREAMS=x"));
    EXPECT_EQ_I64(options.sources[KS_OPTION_max_leases], KS_OPTION_DEFAULT);
}

TEST(variables_of_ours_that_name_no_option_are_found)
{
    char *entries[] = {"HOME=/root",
                       "KINESIS_SIDECAR_LEASE_DURATION=5000",
                       "KINESIS_SIDECAR_PORT_8990_TCP=tcp://10.0.0.1:8990",
                       "KINESIS_SIDECAR_SERVICE_HOST=10.0.0.1",
                       "KINESIS_SIDECAR_URL=unix:/run/kinesis-sidecar/api.sock",
                       "KINESIS_SIDECAR_LEASE_DURATION_MS=5000",
                       "KINESIS_SIDECAR_STREAMS=",
                       NULL};
    char *const *at = entries;
    ks_view name;

    EXPECT(ks_options_stray(&at, &name));
    EXPECT(ks_view_equal(name, KS_VIEW("KINESIS_SIDECAR_LEASE_DURATION")));
    EXPECT(ks_options_stray(&at, &name));
    EXPECT(ks_view_equal(name, KS_VIEW("KINESIS_SIDECAR_STREAMS")));
    EXPECT(!ks_options_stray(&at, &name));
}

TEST(without_a_stream_the_embedded_command_line_is_shown)
{
    const char *embedded =
        "kinesis-sidecar --source local:/path/stream.db --stream demo --application demo";

    expect_refused("ks", "", "--stream and --application");
    EXPECT_CONTAINS(detail.text, embedded);
    expect_refused("ks --stream s", "", "missing --application;");
    EXPECT_CONTAINS(detail.text, embedded);
    expect_refused("ks --application app", "", "missing --stream;");
}

TEST(a_client_needs_no_stream)
{
    char *words[] = {(char[]){"ks"}, (char[]){"--listen"}, (char[]){"unix:/s"}, NULL};
    char *none[] = {NULL};

    EXPECT_OK(ks_options_read_partly(3, words, none, &options, &detail));
    EXPECT_STR(options.listen, "unix:/s");
    EXPECT_STR(options.stream, "");
}

TEST(an_unknown_option_is_told_with_the_nearest_one)
{
    expect_refused(EMBEDDED " --lease-duration 5", "", "the nearest is --lease-duration-ms");
    EXPECT_CONTAINS(detail.text, "\"lease-duration\"");
    expect_refused(EMBEDDED " --lisen=x", "", "the nearest is --listen");
    expect_refused(EMBEDDED " --max_leases 5", "", "the nearest is --max-leases");
    expect_refused(EMBEDDED " --", "", "unknown option");
    expect_refused(EMBEDDED " -v", "", "unexpected argument \"-v\"");
    expect_refused(EMBEDDED " extra", "", "unexpected argument \"extra\"");
    expect_refused(EMBEDDED " --\x1b[2J\xFF"
                            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1",
                   "", "unknown option \"?[2J?aaa");
}

TEST(a_flag_without_a_value_or_given_twice_is_refused)
{
    expect_refused("ks --stream", "", "--stream wants a value");
    expect_refused("ks --stream --application a", "", "--stream wants a value");
    expect_refused(EMBEDDED " --stream=s", "", "--stream is given twice");
}

TEST(a_bad_value_is_told_with_what_is_allowed_and_where_it_came_from)
{
    expect_refused(EMBEDDED " --lease-duration-ms 999", "",
                   "--lease-duration-ms: \"999\" is not a number from 1000 to 600000");
    expect_refused(EMBEDDED " --lease-duration-ms=", "", "is not a number");
    expect_refused(EMBEDDED " --max-leases 4294967296", "", "is not a number from 0 to 100000");
    expect_refused(EMBEDDED " --memory-budget-bytes 99999999999999999999", "", "is not a number");
    expect_refused(EMBEDDED, "KINESIS_SIDECAR_LOG_LEVEL=loud",
                   "--log-level (environment): \"loud\" is not one of debug | info | warn | error");
    expect_refused(EMBEDDED " --log-format debug", "", "not one of text | json");
    expect_refused(EMBEDDED " --log-format |", "", "not one of text | json");
    expect_refused("ks --stream s --application app --source=", "",
                   "--source: wants 1 to 1000 bytes, not 0");
    expect_refused(EMBEDDED " --token-file a\nb", "", "--token-file: wants UTF-8 text");
    expect_refused(EMBEDDED " --token-file \xFF", "", "--token-file: wants UTF-8 text");
}

TEST(a_bad_value_is_told_even_if_a_better_source_beats_it)
{
    expect_refused(EMBEDDED " --max-leases 1", "KINESIS_SIDECAR_MAX_LEASES=x",
                   "--max-leases (environment): \"x\"");
}

static void expect_file_refused(const char *content, const char *part)
{
    char line[512];

    snprintf(line, sizeof(line), EMBEDDED " --config %s", write_file(content));
    expect_refused(line, "", part);
    EXPECT(unlink(strstr(line, "--config ") + 9) == 0);
}

TEST(a_bad_file_is_told_with_its_key_or_its_line)
{
    expect_file_refused("{\"max_leases\":1,\n}", "line 2: ");
    expect_file_refused("{\"max_lease\":1}", "unknown option \"max_lease\" in the config file");
    EXPECT_CONTAINS(detail.text, "the nearest is \"max_leases\"");
    expect_file_refused("{\"max-leases\":1}", "the nearest is \"max_leases\"");
}

TEST(a_file_must_say_each_thing_once_and_in_its_kind)
{
    expect_file_refused("{\"max_leases\":1,\"max_leases\":2}", "\"max_leases\" twice");
    expect_file_refused("{\"max_leases\":\"1\"}", "\"max_leases\" wants a number");
    expect_file_refused("{\"log_level\":true}", "\"log_level\" wants a text");
    expect_file_refused("{\"max_leases\":1.5}", "--max-leases (file): \"1.5\" is not a number");
    expect_file_refused("{\"config\":\"x\"}", "\"config\" itself");
}

/* A line with a file of this content, and with more flags. */
static ks_err read_file(const char *content, const char *flags)
{
    char line[512];

    snprintf(line, sizeof(line), "ks --config %s %s", write_file(content), flags);
    return read_options(line, "KINESIS_SIDECAR_MAX_LEASES=7");
}

TEST(a_file_lists_subscriptions_whose_members_come_before_those_of_the_process)
{
    const struct ks_options *one;

    EXPECT_OK(
        read_file("{\"source\":\"local:/d/a.db\", \"stream\":\"s\", \"subscriptions\": [\n"
                  "{\"application\":\"app-a\"},\n"
                  "{\"application\":\"app-b\",\"name\":\"b\",\"stream\":\"t\",\"max_leases\":2,"
                  "\"source\":\"local:/e/b.db\"}]}",
                  "--worker-id pod"));
    EXPECT_EQ_U64(ks_options_subscriptions(&options), 2);
    one = ks_options_subscription(&options, 0);
    EXPECT_STR(one->name, "app-a");
    EXPECT_STR(one->stream, "s");
    EXPECT_STR(one->leases, "sqlite:/d/leases.db");
    EXPECT_EQ_U64(one->max_leases, 7);
    EXPECT_EQ_I64(one->sources[KS_OPTION_max_leases], KS_OPTION_ENVIRONMENT);
    one = ks_options_subscription(&options, 1);
    EXPECT_STR(one->name, "b");
    EXPECT_STR(one->stream, "t");
    EXPECT_STR(one->leases, "sqlite:/e/leases.db");
    EXPECT_STR(one->state_dir, "/e");
    EXPECT_STR(one->worker_id, "pod");
    EXPECT_EQ_U64(one->max_leases, 2);
    EXPECT_EQ_I64(one->sources[KS_OPTION_max_leases], KS_OPTION_SUBSCRIPTION);
    ks_options_free(&options);
    EXPECT_EQ_U64(options.listed_count, 0);
}

TEST(without_a_list_there_is_one_subscription_named_as_its_application)
{
    EXPECT_OK(read_options(EMBEDDED, ""));
    EXPECT_EQ_U64(ks_options_subscriptions(&options), 1);
    EXPECT(ks_options_subscription(&options, 0) == &options);
    EXPECT_STR(options.name, "app");
    EXPECT_OK(read_options(EMBEDDED " --name orders", ""));
    EXPECT_STR(options.name, "orders");
}

static void expect_list_refused(const char *list, const char *part)
{
    char content[512];

    snprintf(content, sizeof(content), "{\"source\":\"local:/d/a.db\",\"subscriptions\":%s}", list);
    if (!ks_err_is(read_file(content, ""), KS_ERR_INVALID))
        FAIL("not refused: %s", list);
    EXPECT_CONTAINS(detail.text, part);
}

TEST(a_bad_subscription_is_told_with_its_number)
{
#define GOOD "{\"stream\":\"s\",\"application\":\"a\"}"
    expect_list_refused("[" GOOD ",{\"stream\":\"t\"}]", "subscription 2: missing --application");
    expect_list_refused("[" GOOD ",{\"stream\":\"t\",\"application\":\"b\",\"name\":\"a\"}]",
                        "subscription 2: its name a is that of subscription 1");
    expect_list_refused("[" GOOD ",{\"stream\":\"t\",\"application\":\"a\",\"name\":\"b\"}]",
                        "subscription 2: its application a is that of subscription 1");
    expect_list_refused("[{\"stream\":\"s\",\"application\":\"a\",\"listen\":\"x\"}]",
                        "subscription 1: --config: \"listen\" is an option of the process");
    expect_list_refused("[{\"stream\":\"s\",\"stream\":\"s\"}]", "\"stream\" twice");
    expect_list_refused("[{\"strem\":\"s\"}]", "the nearest is \"stream\"");
    expect_list_refused("[{\"stream\":\"s t\",\"application\":\"a\"}]", "subscription 1: --stream");
    expect_list_refused(
        "[" GOOD ",{\"stream\":\"t\",\"application\":"
        "\"0123456789012345678901234567890123456789\"}]",
        "subscription 2: its name, by default that of the application, has more than 39");
    expect_list_refused("[]", "1 to 32 subscriptions are wanted, not 0");
    expect_list_refused("\"s\"", "wants to be a list of objects");
    expect_list_refused("[" GOOD "],\"subscriptions\":[" GOOD "]", "a list of objects, once");
    expect_list_refused("[{\"stream\":[]}]", "line 1: ");
    expect_list_refused("[" GOOD "],\"stream\":[]", "\"stream\" is not a list of objects");
#undef GOOD
}

/* Two of one application: `stream` is the second one's. */
static ks_err read_kin(const char *stream, const char *dialect)
{
    char content[512];

    snprintf(content, sizeof(content),
             "{\"dialect\":\"kcl\",\"subscriptions\":"
             "[{\"name\":\"a\",\"application\":\"app\",\"stream\":\"orders\"},"
             "{\"name\":\"b\",\"application\":\"app\",\"stream\":\"%s\",\"dialect\":\"%s\"}]}",
             stream, dialect);
    return read_file(content, "");
}

TEST(subscriptions_of_one_application_are_those_of_a_kcl_of_several_streams)
{
    EXPECT_OK(read_kin("clicks", "kcl"));
    EXPECT(ks_options_are_kin(ks_options_subscription(&options, 0),
                              ks_options_subscription(&options, 1)));
    ks_options_free(&options);
    EXPECT_ERR(read_kin("orders", "kcl"), INVALID);
    /* As far as it is known, that is the same one. */
    EXPECT_ERR(read_kin("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", "kcl"), INVALID);
    EXPECT_CONTAINS(detail.text, "its application app is that of subscription 1");
    EXPECT_ERR(read_kin("clicks", "go-kcl"), INVALID);
}

TEST(a_file_that_cannot_be_read_is_told_with_the_reason)
{
    static char large[70000];

    expect_refused(EMBEDDED " --config /nowhere/x.json", "", "No such file");
    expect_refused(EMBEDDED " --config /", "", "--config: \"/\" cannot be read: Is a directory");
    memset(large, ' ', sizeof(large) - 1);
    expect_file_refused(large, "has more than 65536 bytes");
}

TEST(options_are_shown_with_their_names_and_sources)
{
    struct ks_option_view view;

    EXPECT_OK(read_options(EMBEDDED, "KINESIS_SIDECAR_LEASE_DURATION_MS=5000"));
    ks_option_show(&options, KS_OPTION_lease_duration_ms, &view);
    EXPECT_STR(view.name, "lease_duration_ms");
    EXPECT_STR(view.flag, "--lease-duration-ms");
    EXPECT_STR(view.environment, "KINESIS_SIDECAR_LEASE_DURATION_MS");
    EXPECT_STR(view.value, "5000");
    EXPECT_STR(view.source, "environment");
    EXPECT(view.number);
    ks_option_show(&options, KS_OPTION_memory_budget_bytes, &view);
    EXPECT_STR(view.value, "0");
    EXPECT_STR(view.source, "default");
    ks_option_show(&options, KS_OPTION_stream, &view);
    EXPECT_STR(view.value, "demo");
    EXPECT(!view.number);
}

TEST(nobody_is_shown_a_secret)
{
    struct ks_option_view view;

    EXPECT_OK(read_options(EMBEDDED " --token-file /run/token", ""));
    EXPECT_STR(options.token_file, "/run/token");
    ks_option_show(&options, KS_OPTION_token_file, &view);
    EXPECT_STR(view.value, "***");
    EXPECT_OK(read_options(EMBEDDED, ""));
    ks_option_show(&options, KS_OPTION_token_file, &view);
    EXPECT_STR(view.value, "");
}

TEST(help_and_docs_know_every_option)
{
    struct ks_bytes help, table;
    struct ks_option_view view;

    EXPECT_OK(read_options(EMBEDDED, ""));
    ks_bytes_init(&help, 1 << 20);
    ks_bytes_init(&table, 1 << 20);
    EXPECT_OK(ks_options_help(&help));
    EXPECT_OK(ks_options_markdown(&table));
    EXPECT_OK(ks_bytes_append_byte(&help, '\0'));
    EXPECT_OK(ks_bytes_append_byte(&table, '\0'));
    for (int option = 0; option < KS_OPTIONS; option++) {
        ks_option_show(&options, (enum ks_option)option, &view);
        EXPECT_CONTAINS((const char *)help.data, view.flag);
        EXPECT_CONTAINS((const char *)help.data, view.sentence);
        EXPECT_CONTAINS((const char *)table.data, view.flag);
        EXPECT_CONTAINS((const char *)table.data, view.environment);
    }
    EXPECT_CONTAINS((const char *)help.data, "1000 to 600000; default 10000\n");
    EXPECT_CONTAINS((const char *)table.data, "| `info` | debug \\| info \\| warn \\| error |");
    ks_bytes_free(&help);
    ks_bytes_free(&table);
}

TEST(the_table_of_the_docs_is_the_codes_own)
{
    docs_expect_table("docs/OPTIONS.md", ks_options_markdown);
}
