/* SPDX-License-Identifier: Apache-2.0 */
#include "main/house.h"

#include "ks_test.h"
#include "main/commands.h"
#include "unit/main/sidecar.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char source[220];
static const char *const local[] = {
    "--source", source, "--initial-position", "trim_horizon", "--lease-duration-ms", "1000", NULL};

static void name_source(void)
{
    (void)snprintf(source, sizeof source, "local:%s/stream.db", ks_test_dir());
}

static void sleep_ms(long ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&pause, NULL);
}

TEST(it_becomes_ready_and_drains_when_it_is_told_to_end)
{
    static const int signals[] = {SIGTERM, SIGINT};

    name_source();
    for (int i = 0; i < 2; i++) {
        pid_t pid = sidecar_start(local, NULL);

        sidecar_wait_ready();
        EXPECT(kill(pid, signals[i]) == 0);
        EXPECT_EQ_I64(sidecar_end(pid), 0);
    }
}

TEST(what_is_in_flight_is_waited_for_but_not_the_second_time)
{
    const char *const words[] = {"--wait-ms", "10000", NULL};
    const char *const data[] = {"--data", "hello", NULL};
    char output[4096];
    int status;
    pid_t pid;

    name_source();
    pid = sidecar_start(local, NULL);
    sidecar_wait_ready();
    EXPECT_EQ_I64(sidecar_call(ks_command_put, data, "", NULL, 0), 0);
    EXPECT_EQ_I64(sidecar_call(ks_command_pull, words, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, "\"data\":\"aGVsbG8=\"");

    EXPECT(kill(pid, SIGTERM) == 0);
    sleep_ms(500);
    EXPECT(kill(pid, 0) == 0); /* It waits for the ack. */
    EXPECT_EQ_I64(sidecar_call(ks_command_health, NULL, "", NULL, 0), 1);
    EXPECT(kill(pid, SIGTERM) == 0);
    status = sidecar_end(pid);
    EXPECT_EQ_I64(status, 0);

    /* It comes again. */
    pid = sidecar_start(local, NULL);
    sidecar_wait_ready();
    EXPECT_EQ_I64(sidecar_call(ks_command_pull, words, "", output, sizeof output), 0);
    EXPECT_CONTAINS(output, "\"data\":\"aGVsbG8=\"");
    EXPECT(kill(pid, SIGTERM) == 0);
    sleep_ms(100);
    EXPECT(kill(pid, SIGTERM) == 0);
    EXPECT_EQ_I64(sidecar_end(pid), 0);
}

static bool has_ended(pid_t pid)
{
    siginfo_t end = {.si_pid = 0};

    return waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid == pid;
}

TEST(signals_hurt_neither_who_comes_nor_who_goes)
{
    const int hasty[] = {SIGHUP, SIGTERM};

    name_source();
    for (int i = 0; i < 4; i++) {
        pid_t pid = sidecar_start(local, NULL);

        while (access(source + strlen("local:"), F_OK) != 0)
            sleep_ms(1);
        for (int n = 0; n < 100; n++) {
            EXPECT(kill(pid, SIGHUP) == 0);
            sleep_ms(1);
        }
        sidecar_wait_ready();
        EXPECT(kill(pid, SIGTERM) == 0);
        while (!has_ended(pid)) {
            EXPECT(kill(pid, hasty[i % 2]) == 0);
            sleep_ms(1);
        }
        EXPECT_EQ_I64(sidecar_end(pid), 0);
        EXPECT(unlink(ks_test_path("stream.db")) == 0);
        EXPECT(unlink(ks_test_path("leases.db")) == 0);
    }
}

static void put_file(const char *name, const char *text)
{
    char path[300];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", ks_test_dir(), name);
    file = fopen(path, "w");
    EXPECT(file != NULL);
    EXPECT(fputs(text, file) >= 0);
    EXPECT(fclose(file) == 0);
}

TEST(what_can_never_work_ends_at_once)
{
    const char *const nowhere[] = {"--source", "local:/nonexistent/stream.db", NULL};

    EXPECT_EQ_I64(sidecar_end(sidecar_start(nowhere, NULL)), 1);
    name_source();
    put_file("leases.db",
             "this is no database, and longer than the head of one, which has a hundred "
             "bytes or so");
    EXPECT_EQ_I64(sidecar_end(sidecar_start(local, NULL)), 1);
}

TEST(an_address_in_use_ends_at_once)
{
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof place;
    int taken = socket(AF_INET, SOCK_STREAM, 0);
    char address[64];
    const char *const words[] = {"--source", source, "--ops-listen", address, NULL};

    EXPECT(bind(taken, (struct sockaddr *)&place, sizeof place) == 0);
    EXPECT(listen(taken, 1) == 0);
    EXPECT(getsockname(taken, (struct sockaddr *)&place, &size) == 0);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)ntohs(place.sin_port));
    name_source();
    EXPECT_EQ_I64(sidecar_end(sidecar_start(words, NULL)), 1);
    EXPECT(close(taken) == 0);
}

TEST(a_pinned_id_is_locked_for_the_life_of_the_process)
{
    static char place[300];
    const char *const words[] = {"--source",    source,        "--worker-id",         "pod-a",
                                 "--state-dir", ks_test_dir(), "--lease-duration-ms", "60000",
                                 NULL};
    const char *const second[] = {"--source",     source,        "--worker-id",
                                  "pod-a",        "--state-dir", ks_test_dir(),
                                  "--ops-listen", place,         NULL};
    const char *const nowhere[] = {"--source",    source,           "--worker-id", "pod-b",
                                   "--state-dir", "/nonexistent/x", NULL};
    pid_t pid;

    name_source();
    (void)snprintf(place, sizeof place, "unix:%s/ops2", ks_test_dir());
    EXPECT_EQ_I64(sidecar_end(sidecar_start(nowhere, NULL)), 1);
    pid = sidecar_start(words, NULL);
    sidecar_wait_ready();
    EXPECT_EQ_I64(sidecar_end(sidecar_start(second, NULL)), 1);
    EXPECT(kill(pid, SIGKILL) == 0);
    EXPECT_EQ_I64(sidecar_end(pid), 100 + SIGKILL);

    /* Its row still says that it lives, for a minute; we know better. */
    pid = sidecar_start(words, NULL);
    sidecar_wait_ready();
    EXPECT(kill(pid, SIGTERM) == 0);
    EXPECT_EQ_I64(sidecar_end(pid), 0);
}

TEST(without_a_region_it_says_which_setting_is_missing)
{
    static char config[300];
    char *environment[] = {config, NULL};

    (void)unsetenv("AWS_REGION");
    (void)unsetenv("AWS_DEFAULT_REGION");
    (void)snprintf(config, sizeof config, "AWS_CONFIG_FILE=%s/none", ks_test_dir());
    EXPECT_EQ_I64(sidecar_end(sidecar_start(NULL, environment)), 2);
}

TEST(aws_away_at_start_is_not_the_end)
{
    static char variables[4][64] = {"AWS_REGION=us-east-1", "AWS_ENDPOINT_URL=http://127.0.0.1:9",
                                    "AWS_ACCESS_KEY_ID=AKIDEXAMPLE",
                                    "AWS_SECRET_ACCESS_KEY=secret"};
    char *environment[] = {variables[0], variables[1], variables[2], variables[3], NULL};
    const char *const live[] = {"livez", NULL};
    const char *const soon[] = {"--timeout-ms", "1000", NULL};
    pid_t pid = sidecar_start(NULL, environment);

    EXPECT_EQ_I64(sidecar_call(ks_command_wait, soon, "", NULL, 0), 1);
    EXPECT_EQ_I64(sidecar_call(ks_command_health, live, "", NULL, 0), 0);
    EXPECT_EQ_I64(sidecar_call(ks_command_health, NULL, "", NULL, 0), 1);
    EXPECT(kill(pid, SIGTERM) == 0);
    EXPECT_EQ_I64(sidecar_end(pid), 0);
}
