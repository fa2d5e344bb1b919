/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jobs.h"

#include "base/budget.h"
#include "base/digest.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>

struct ks_jobs {
    void (*wake)(void *arg);
    void *arg;

    pthread_mutex_t mutex; /* Guards what follows, and the queues. */
    struct ks_link queues;
    struct ks_link done;
    bool ending; /* Queued jobs are not begun any more. */
};

struct ks_job_queue {
    struct ks_link link; /* In jobs->queues. */
    struct ks_jobs *jobs;
    pthread_t thread;
    pthread_cond_t work; /* Something was queued, or the queue is to end. */
    struct ks_link queued;
    bool running; /* A job. */
    bool closed;  /* Ends when nothing is queued. */
    bool over;    /* The thread runs no job any more. */
};

/* A mutex that is used as here can fail only by our own mistake. */
static void lock(struct ks_jobs *jobs)
{
    int failed = pthread_mutex_lock(&jobs->mutex);
    assert(failed == 0);
    (void)failed;
}

static void unlock(struct ks_jobs *jobs)
{
    int failed = pthread_mutex_unlock(&jobs->mutex);
    assert(failed == 0);
    (void)failed;
}

static struct ks_job *take_first(struct ks_link *list)
{
    struct ks_job *job;

    if (ks_list_empty(list))
        return NULL;
    job = KS_LIST_ENTRY(list->next, struct ks_job, link);
    ks_list_remove(&job->link);
    return job;
}

/* Waits for the next job; NULL when the thread is to end. */
static struct ks_job *next_job(struct ks_job_queue *queue)
{
    struct ks_jobs *jobs = queue->jobs;
    struct ks_job *job;

    lock(jobs);
    while (!jobs->ending && !queue->closed && ks_list_empty(&queue->queued))
        (void)pthread_cond_wait(&queue->work, &jobs->mutex);
    job = jobs->ending ? NULL : take_first(&queue->queued);
    queue->running = job != NULL;
    unlock(jobs);
    return job;
}

static void *work(void *arg)
{
    struct ks_job_queue *queue = arg;
    struct ks_jobs *jobs = queue->jobs;
    struct ks_job *job;

    while ((job = next_job(queue)) != NULL) {
        job->run(job);
        lock(jobs);
        queue->running = false;
        ks_list_append(&jobs->done, &job->link);
        unlock(jobs);
        jobs->wake(jobs->arg);
    }
    ks_digest_thread_end();
    lock(jobs);
    queue->over = true;
    unlock(jobs);
    return NULL;
}

/* With all signals blocked: they are for the loop, and would end the process if this thread got one. */
static int start_thread(struct ks_job_queue *queue)
{
    sigset_t all, before;
    int failed;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&queue->thread, NULL, work, queue);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

ks_err ks_jobs_new(void (*wake)(void *arg), void *arg, struct ks_jobs **ret_jobs)
{
    struct ks_jobs *jobs = ks_alloc(sizeof(*jobs));

    if (jobs == NULL)
        return KS_FAIL(NO_MEMORY);
    jobs->wake = wake;
    jobs->arg = arg;
    ks_link_init(&jobs->queues);
    ks_link_init(&jobs->done);
    /* With default attributes it does not fail on Linux. */
    (void)pthread_mutex_init(&jobs->mutex, NULL);
    *ret_jobs = jobs;
    return KS_OK;
}

/* Waits for the thread, which has nothing to do any more but its running job. */
static void free_queue(struct ks_job_queue *queue)
{
    (void)pthread_join(queue->thread, NULL);
    (void)pthread_cond_destroy(&queue->work);
    ks_list_remove(&queue->link);
    ks_free(queue);
}

/* Frees the closed queues whose threads have ended. */
static void free_over(struct ks_jobs *jobs)
{
    struct ks_link *cursor;
    struct ks_link *after;

    KS_LIST_EACH(cursor, after, &jobs->queues)
    {
        struct ks_job_queue *queue = KS_LIST_ENTRY(cursor, struct ks_job_queue, link);
        bool over;

        lock(jobs);
        over = queue->over;
        unlock(jobs);
        if (over)
            free_queue(queue);
    }
}

void ks_jobs_free(struct ks_jobs *jobs)
{
    struct ks_link *cursor;
    struct ks_link *after;

    if (jobs == NULL)
        return;
    lock(jobs);
    jobs->ending = true;
    KS_LIST_EACH(cursor, after, &jobs->queues)
    (void)pthread_cond_signal(&KS_LIST_ENTRY(cursor, struct ks_job_queue, link)->work);
    unlock(jobs);
    while (!ks_list_empty(&jobs->queues))
        free_queue(KS_LIST_ENTRY(jobs->queues.next, struct ks_job_queue, link));
    (void)pthread_mutex_destroy(&jobs->mutex);
    ks_free(jobs);
}

ks_err ks_jobs_queue_new(struct ks_jobs *jobs, struct ks_job_queue **ret_queue)
{
    struct ks_job_queue *queue = ks_alloc(sizeof(*queue));

    if (queue == NULL)
        return KS_FAIL(NO_MEMORY);
    free_over(jobs);
    queue->jobs = jobs;
    ks_link_init(&queue->queued);
    /* With default attributes it does not fail on Linux. */
    (void)pthread_cond_init(&queue->work, NULL);
    if (start_thread(queue) != 0) {
        (void)pthread_cond_destroy(&queue->work);
        ks_free(queue);
        return KS_FAIL(SYSTEM);
    }
    /* The list is the loop's alone: threads know their queue by its address. */
    ks_list_append(&jobs->queues, &queue->link);
    *ret_queue = queue;
    return KS_OK;
}

void ks_jobs_queue_close(struct ks_job_queue *queue)
{
    bool idle;

    lock(queue->jobs);
    assert(!queue->closed);
    queue->closed = true;
    idle = !queue->running && ks_list_empty(&queue->queued);
    (void)pthread_cond_signal(&queue->work);
    unlock(queue->jobs);
    if (idle)
        free_queue(queue);
}

void ks_jobs_submit(struct ks_job_queue *queue, struct ks_job *job)
{
    assert(job->run != NULL);
    assert(job->done != NULL);

    lock(queue->jobs);
    assert(!queue->closed);
    ks_list_append(&queue->queued, &job->link);
    (void)pthread_cond_signal(&queue->work);
    unlock(queue->jobs);
}

struct ks_job *ks_jobs_take_done(struct ks_jobs *jobs)
{
    struct ks_job *job;

    lock(jobs);
    job = take_first(&jobs->done);
    unlock(jobs);
    return job;
}
