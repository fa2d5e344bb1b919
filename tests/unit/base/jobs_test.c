/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jobs.h"

#include "base/budget.h"
#include "base/digest.h"
#include "ks_test.h"

#include <signal.h>
#include <string.h>
#include <poll.h>
#include <unistd.h>

enum { MANY = 500 };

struct work {
    struct ks_job job;
    int number;
    int result;
    int order; /* In which it came back, from 1. */
    int pipe;  /* >= 0: waits for a byte in it. */
};

static struct ks_loop *loop;
static int finished;

static void double_it(struct ks_job *job)
{
    struct work *work = KS_LIST_ENTRY(job, struct work, job);
    uint8_t digest[KS_SHA256_SIZE];
    char byte;

    if (work->pipe >= 0 && read(work->pipe, &byte, 1) != 1)
        return;
    ks_sha256(KS_VIEW("digests work on this thread, too"), digest);
    work->result = work->number * 2;
}

static void came_back(struct ks_job *job)
{
    struct work *work = KS_LIST_ENTRY(job, struct work, job);

    work->order = ++finished;
}

static void init(struct work *work, int number, int pipe)
{
    *work =
        (struct work){.job = {.run = double_it, .done = came_back}, .number = number, .pipe = pipe};
}

TEST(jobs_come_back_whole_and_in_order)
{
    static struct work works[MANY];

    EXPECT_OK(ks_loop_new(&loop));
    for (int i = 0; i < MANY; i++) {
        init(&works[i], i, -1);
        ks_loop_submit(loop, &works[i].job);
    }
    EXPECT_EQ_I64(finished, 0);
    while (finished < MANY)
        ks_loop_turn(loop, ks_span_ms(1000));
    for (int i = 0; i < MANY; i++) {
        EXPECT_EQ_I64(works[i].result, 2 * i);
        EXPECT_EQ_I64(works[i].order, i + 1);
    }
    ks_loop_free(loop);
}

TEST(a_job_that_blocks_does_not_block_the_loop)
{
    struct work work;
    int fds[2];

    EXPECT(pipe(fds) == 0);
    EXPECT_OK(ks_loop_new(&loop));
    init(&work, 21, fds[0]);
    ks_loop_submit(loop, &work.job);
    for (int i = 0; i < 5; i++)
        ks_loop_turn(loop, ks_span_ms(1));
    EXPECT_EQ_I64(finished, 0);
    EXPECT(write(fds[1], "x", 1) == 1);
    while (finished == 0)
        ks_loop_turn(loop, ks_span_ms(1000));
    EXPECT_EQ_I64(work.result, 42);
    ks_loop_free(loop);
}

TEST(at_the_end_the_running_job_is_waited_for_and_the_others_are_dropped)
{
    struct work running, queued;
    int fds[2];

    EXPECT(pipe(fds) == 0);
    EXPECT_OK(ks_loop_new(&loop));
    init(&running, 1, fds[0]);
    init(&queued, 2, fds[0]);
    ks_loop_submit(loop, &running.job);
    ks_loop_submit(loop, &queued.job);
    /* Until the thread has taken the first one. */
    ks_loop_turn(loop, ks_span_ms(20));
    /* The running job ends while it is being waited for, and not before. */
    pid_t child = fork();
    if (child == 0) {
        (void)poll(NULL, 0, 200);
        _exit(write(fds[1], "x", 1) == 1 ? 0 : 1);
    }
    EXPECT(child > 0);
    ks_loop_free(loop);
    EXPECT_EQ_I64(running.result, 2);
    EXPECT_EQ_I64(finished, 0);
    EXPECT_EQ_I64(queued.result, 0);
}

TEST(a_job_that_blocks_does_not_block_the_jobs_of_another_queue)
{
    struct ks_job_queue *queues[2];
    struct work blocked, behind, works[MANY];
    int fds[2];

    EXPECT(pipe(fds) == 0);
    EXPECT_OK(ks_loop_new(&loop));
    for (int i = 0; i < 2; i++)
        EXPECT_OK(ks_loop_queue_new(loop, &queues[i]));
    init(&blocked, 1, fds[0]);
    init(&behind, 2, -1);
    ks_loop_submit_to(loop, queues[0], &blocked.job);
    ks_loop_submit_to(loop, queues[0], &behind.job);
    for (int i = 0; i < MANY; i++) {
        init(&works[i], i, -1);
        ks_loop_submit_to(loop, queues[1], &works[i].job);
    }
    while (finished < MANY)
        ks_loop_turn(loop, ks_span_ms(1000));
    for (int i = 0; i < MANY; i++)
        EXPECT_EQ_I64(works[i].order, i + 1);
    EXPECT_EQ_I64(blocked.order, 0);
    EXPECT_EQ_I64(behind.order, 0);
    EXPECT(write(fds[1], "x", 1) == 1);
    while (finished < MANY + 2)
        ks_loop_turn(loop, ks_span_ms(1000));
    EXPECT(blocked.order < behind.order);
    for (int i = 0; i < 2; i++)
        ks_loop_queue_close(queues[i]);
    ks_loop_free(loop);
}

/* Its owner is gone, the file still locked. */
TEST(a_closed_queue_runs_its_jobs_to_the_end)
{
    struct ks_job_queue *queue;
    struct work works[2];
    int64_t live;
    int fds[2];

    EXPECT(pipe(fds) == 0);
    EXPECT_OK(ks_loop_new(&loop));
    live = ks_alloc_live();
    for (int round = 1; round <= 3; round++) {
        EXPECT_OK(ks_loop_queue_new(loop, &queue));
        for (int i = 0; i < 2; i++) {
            init(&works[i], i, fds[0]);
            ks_loop_submit_to(loop, queue, &works[i].job);
        }
        ks_loop_queue_close(queue);
        EXPECT(write(fds[1], "xx", 2) == 2);
        while (finished < 2 * round)
            ks_loop_turn(loop, ks_span_ms(1000));
        EXPECT(works[0].order < works[1].order);
    }
    EXPECT_OK(ks_loop_queue_new(loop, &queue));
    ks_loop_queue_close(queue);
    ks_loop_free(loop);
    EXPECT(ks_alloc_live() < live);
}

static void caught(void *arg, int signal)
{
    (void)signal;
    ++*(int *)arg;
}

/* A process-wide signal goes to any thread that does not block it. */
TEST(a_thread_of_jobs_takes_no_signal_of_the_loop)
{
    struct work work;
    int fds[2];
    int signals = 0;

    EXPECT(pipe(fds) == 0);
    EXPECT_OK(ks_loop_new(&loop));
    EXPECT_OK(ks_loop_signals(loop, caught, &signals));
    init(&work, 1, fds[0]);
    ks_loop_submit(loop, &work.job);
    EXPECT(kill(getpid(), SIGTERM) == 0);
    while (signals == 0)
        ks_loop_turn(loop, ks_span_ms(1000));
    EXPECT(write(fds[1], "x", 1) == 1);
    while (finished == 0)
        ks_loop_turn(loop, ks_span_ms(1000));
    ks_loop_free(loop);
}

static void wake_nobody(void *arg)
{
    (void)arg;
}

TEST(no_memory_is_an_error)
{
    struct ks_jobs *jobs = NULL;

    ks_alloc_fail_after(1, 0);
    EXPECT(ks_err_is(ks_jobs_new(wake_nobody, NULL, &jobs), KS_ERR_NO_MEMORY));
    EXPECT_OK(ks_jobs_new(wake_nobody, NULL, &jobs));
    EXPECT(ks_jobs_take_done(jobs) == NULL);
    ks_jobs_free(jobs);
    ks_jobs_free(NULL);
}
