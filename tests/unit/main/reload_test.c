/* SPDX-License-Identifier: Apache-2.0 */
#include "main/reload.h"

#include "base/budget.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static struct ks_loop *loop;
static struct ks_options options;
static struct ks_reload *reload;
static struct ks_command_line line;
static char path[300];
static uint32_t changes;

static void changed(void *arg)
{
    EXPECT(arg == &options);
    changes++;
}

static void write_config(const char *text)
{
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL);
    EXPECT(fputs(text, file) >= 0);
    EXPECT_EQ_I64(fclose(file), 0);
}

static void read_options(const char *text)
{
    static char *argv[] = {(char *)"run",
                           (char *)"--stream",
                           (char *)"stream",
                           (char *)"--application",
                           (char *)"app",
                           (char *)"--config",
                           path,
                           NULL};
    static char *environment[] = {NULL};
    struct ks_detail detail;

    (void)snprintf(path, sizeof path, "%s/config.json", ks_test_dir());
    write_config(text);
    line = (struct ks_command_line){.argc = 7, .argv = argv, .environment = environment};
    detail.text[0] = 0;
    (void)ks_ok(ks_options_read(line.argc, line.argv, line.environment, &options, &detail));
    EXPECT_STR(detail.text, "");
    EXPECT_OK(ks_loop_new(&loop));
}

static void begin(const char *text)
{
    read_options(text);
    EXPECT_OK(ks_reload_new(loop, &line, &options, changed, &options, &reload));
}

static void finish(void)
{
    ks_reload_free(reload);
    ks_loop_await_jobs(loop, ks_span_ms(20000));
    ks_loop_free(loop);
    ks_options_free(&options);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static void turn_until(uint32_t count)
{
    for (int i = 0; i < 1000 && changes < count; i++)
        ks_loop_turn(loop, ks_span_ms(20));
    EXPECT_EQ_U64(changes, count);
}

TEST(a_file_that_was_written_again_is_read_by_itself)
{
    begin("{\"drain_timeout_ms\": 1000, \"idle_release_ms\": 5000}");
    EXPECT_EQ_U64(options.drain_timeout_ms, 1000);
    write_config("{\"drain_timeout_ms\": 77777, \"idle_release_ms\": 6000}");
    turn_until(1);
    EXPECT_EQ_U64(options.drain_timeout_ms, 77777);
    EXPECT_EQ_U64(options.idle_release_ms, 5000); /* Not before the next start. */
    finish();
}

TEST(a_file_that_was_written_while_we_started_is_read_again)
{
    read_options("{\"log_level\": \"warn\"}");
    write_config("{\"log_level\": \"error\"}");
    EXPECT_OK(ks_reload_new(loop, &line, &options, changed, &options, &reload));
    turn_until(1);
    EXPECT_STR(options.log_level, "error");
    finish();
}

TEST(whoever_asks_need_not_wait_and_what_did_not_change_is_not_told)
{
    begin("{\"log_level\": \"warn\"}");
    ks_reload_now(reload);
    ks_reload_now(reload); /* While the first one is under way. */
    ks_loop_await_jobs(loop, ks_span_ms(20000));
    EXPECT_EQ_U64(changes, 0);
    write_config("{\"log_level\": \"error\"}");
    ks_reload_now(reload);
    turn_until(1);
    EXPECT_STR(options.log_level, "error");
    EXPECT_EQ_I64(options.sources[KS_OPTION_log_level], KS_OPTION_FILE);
    finish();
}

TEST(a_file_that_is_wrong_changes_nothing)
{
    begin("{\"log_level\": \"warn\"}");
    write_config("{\"log_level\": \"error\", \"drain_timeout_ms\": -1}");
    ks_reload_now(reload);
    ks_loop_await_jobs(loop, ks_span_ms(20000));
    EXPECT_EQ_U64(changes, 0);
    EXPECT_STR(options.log_level, "warn");
    write_config("{\"log_level\": \"info\"}");
    ks_reload_now(reload);
    turn_until(1);
    EXPECT_STR(options.log_level, "info");
    finish();
}

TEST(a_reload_under_way_ends_before_its_memory)
{
    begin("{}");
    ks_reload_now(reload);
    finish();
}
