/* SPDX-License-Identifier: Apache-2.0 */
/* What only a file can go through: many processes, and a death in the middle of a write. */
#include "contract/lease_store_rig.h"

#include "adapters/sqlite/store.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct ks_store_request request;

static const char S[] = "shardId-000000000001";

static void open_rig(struct lease_rig *rig, const char *path, const char *application,
                     void (*changed)(void *arg), void *arg)
{
    struct ks_detail detail = {""};

    EXPECT_OK(ks_loop_new(&rig->loop));
    if (!ks_ok(
            ks_sqlite_store_open(rig->loop, path, application, changed, arg, &rig->store, &detail)))
        FAIL("%s", detail.text);
}

static void close_rig(struct lease_rig *rig)
{
    rig->store->vtable->close(rig->store);
    lease_turn(rig, 5);
    ks_loop_free(rig->loop);
}

/* In a process of its own: `run` with a rig on the file; the exit status is 0 if all went well. */
static pid_t start(const char *path, int number, void (*run)(struct lease_rig *rig, int number))
{
    const pid_t child = fork();

    EXPECT(child >= 0);
    if (child == 0) {
        struct lease_rig rig = {.adapter = NULL};

        open_rig(&rig, path, "app", NULL, NULL);
        run(&rig, number);
        close_rig(&rig);
        _exit(0);
    }
    return child;
}

static void ends_well(pid_t child)
{
    int status = -1;

    EXPECT_EQ_I64(waitpid(child, &status, 0), child);
    EXPECT_EQ_I64(status, 0);
}

static int told_to; /* Where the child that will be killed says what it knows to be durable. */

static void checkpoint_for_ever(struct lease_rig *rig, int number)
{
    uint64_t rev = lease_row(rig, S).rev;

    (void)number;
    for (;;) {
        request next = {.operation = KS_STORE_CHECKPOINT,
                        .shard = S,
                        .worker = lease_who("a", 1),
                        .epoch = 1,
                        .rev = rev};
        struct ks_bytes digits;

        ks_bytes_init(&digits, 64);
        EXPECT_OK(ks_bytes_format(&digits, "%llu", (unsigned long long)rev + 1));
        EXPECT_OK(ks_bytes_append_byte(&digits, '\0'));
        next.checkpoint = lease_after((const char *)digits.data);
        ks_bytes_free(&digits);
        EXPECT_EQ_I64(lease_do(rig, next), KS_DONE);
        rev++;
        EXPECT_EQ_I64(write(told_to, &rev, sizeof(rev)), sizeof(rev));
    }
}

TEST(what_was_done_survives_kill_9_in_the_middle_of_a_write)
{
    const char *const path = ks_test_path("leases.db");
    struct lease_rig rig = {.adapter = NULL};
    uint64_t done = 0;

    open_rig(&rig, path, "app", NULL, NULL);
    lease_hold(&rig, S, "a", 1);
    close_rig(&rig);

    for (unsigned round = 0; round < 8; round++) {
        struct ks_store_lease row;
        int ends[2];
        pid_t child;

        EXPECT_EQ_I64(pipe(ends), 0);
        told_to = ends[1];
        child = start(path, 0, checkpoint_for_ever);
        EXPECT_EQ_I64(close(ends[1]), 0);
        for (unsigned write = 0; write < 20 + round * 7; write++)
            EXPECT_EQ_I64(read(ends[0], &done, sizeof(done)), sizeof(done));
        (void)usleep(round * 37);
        EXPECT_EQ_I64(kill(child, SIGKILL), 0);
        EXPECT_EQ_I64(waitpid(child, NULL, 0), child);
        while (read(ends[0], &done, sizeof(done)) == sizeof(done))
            ;
        EXPECT_EQ_I64(close(ends[0]), 0);

        open_rig(&rig, path, "app", NULL, NULL);
        row = lease_row(&rig, S);
        /* At most the one write is more than we were told of; never half of one. */
        EXPECT(row.rev == done || row.rev == done + 1);
        EXPECT(!row.damaged);
        EXPECT_EQ_U64(strtoull(row.checkpoint.sequence, NULL, 10), row.rev);
        close_rig(&rig);
    }
}

enum { PROCESSES = 5, BEATS = 60 };

static void beat_often(struct lease_rig *rig, int number)
{
    const struct ks_store_token token = {"shard-1", (uint64_t)number};

    (void)lease_do(rig,
                   (request){.operation = KS_STORE_REGISTER_NEW, .worker = lease_who("shared", 1)});
    for (int at = 0; at < BEATS; at++) {
        EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_HEARTBEAT,
                                              .worker = lease_who("shared", 1)}),
                      KS_DONE);
        EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_HINTS,
                                              .worker = lease_who("shared", 0),
                                              .expect_boot = 1,
                                              .gives = &token,
                                              .give_count = 1}),
                      KS_DONE);
    }
}

TEST(processes_that_open_and_write_at_once_lose_nothing)
{
    const char *const path = ks_test_path("leases.db");
    struct lease_rig rig = {.adapter = NULL};
    pid_t children[PROCESSES];
    struct ks_store_worker row;

    /* There is no file yet: all of them make it. */
    for (int at = 0; at < PROCESSES; at++)
        children[at] = start(path, at, beat_often);
    for (int at = 0; at < PROCESSES; at++)
        ends_well(children[at]);

    open_rig(&rig, path, "app", NULL, NULL);
    row = lease_worker(&rig, "shared");
    EXPECT_EQ_U64(row.beat, PROCESSES * BEATS);
    EXPECT_EQ_U64(row.give_count, PROCESSES);
    close_rig(&rig);
}

static void count(void *arg)
{
    ++*(int *)arg;
}

TEST(a_write_of_another_process_is_told)
{
    const char *const path = ks_test_path("leases.db");
    struct lease_rig rig = {.adapter = NULL};
    int changes = 0;

    open_rig(&rig, path, "app", count, &changes);
    /* Neither its own writes nor silence are news. */
    lease_register(&rig, "b", 1);
    lease_turn(&rig, 350);
    EXPECT_EQ_I64(changes, 0);

    ends_well(start(path, 0, beat_often));
    lease_turn(&rig, 250);
    EXPECT(changes >= 1);
    changes = 0;
    lease_turn(&rig, 350);
    EXPECT_EQ_I64(changes, 0);
    close_rig(&rig);
}

TEST(applications_share_a_file_and_not_their_rows)
{
    const char *const path = ks_test_path("leases.db");
    struct lease_rig one = {.adapter = NULL};
    struct lease_rig two = {.adapter = NULL};

    open_rig(&one, path, "orders", NULL, NULL);
    open_rig(&two, path, "orders'; DROP TABLE lease_table; --", NULL, NULL);
    lease_register(&one, "a", 1);
    lease_hold(&one, S, "a", 1);
    EXPECT(!lease_has_worker(&two, "a"));
    EXPECT(!lease_has_row(&two, S));
    lease_register(&two, "a", 2);
    EXPECT_EQ_U64(lease_worker(&one, "a").self.boot, 1);
    EXPECT_EQ_U64(lease_worker(&two, "a").self.boot, 2);
    EXPECT_EQ_U64(lease_row(&one, S).epoch, 1);
    /* What would hold for the rows of both is written to one. */
    lease_register(&one, "b", 3);
    lease_register(&two, "b", 3);
    EXPECT_EQ_I64(lease_do(&one, (struct ks_store_request){.operation = KS_STORE_SAY_GONE,
                                                           .worker = lease_who("b", 3)}),
                  KS_DONE);
    EXPECT_EQ_I64(lease_worker(&one, "b").life, KS_GONE);
    EXPECT_EQ_I64(lease_worker(&two, "b").life, KS_LIVE);
    close_rig(&one);
    close_rig(&two);
}
