/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jobs.h"

#include "base/budget.h"
#include "base/digest.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>

struct ks_jobs {
    pthread_t thread;
    void (*wake)(void *arg);
    void *arg;

    pthread_mutex_t mutex; /* Guards what follows. */
    pthread_cond_t work;   /* Something was queued, or `ending` was set. */
    struct ks_link queued;
    struct ks_link done;
    bool ending;
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
static struct ks_job *next_job(struct ks_jobs *jobs)
{
    struct ks_job *job;

    lock(jobs);
    while (!jobs->ending && ks_list_empty(&jobs->queued))
        (void)pthread_cond_wait(&jobs->work, &jobs->mutex);
    job = jobs->ending ? NULL : take_first(&jobs->queued);
    unlock(jobs);
    return job;
}

static void *work(void *arg)
{
    struct ks_jobs *jobs = arg;
    struct ks_job *job;

    while ((job = next_job(jobs)) != NULL) {
        job->run(job);
        lock(jobs);
        ks_list_append(&jobs->done, &job->link);
        unlock(jobs);
        jobs->wake(jobs->arg);
    }
    ks_digest_thread_end();
    return NULL;
}

/* With all signals blocked: they are for the loop, and would end the process if this thread got one. */
static int start_thread(struct ks_jobs *jobs)
{
    sigset_t all, before;
    int failed;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&jobs->thread, NULL, work, jobs);
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
    ks_link_init(&jobs->queued);
    ks_link_init(&jobs->done);
    /* With default attributes these two do not fail on Linux. */
    (void)pthread_mutex_init(&jobs->mutex, NULL);
    (void)pthread_cond_init(&jobs->work, NULL);
    if (start_thread(jobs) != 0) {
        ks_free(jobs);
        return KS_FAIL(SYSTEM);
    }
    *ret_jobs = jobs;
    return KS_OK;
}

void ks_jobs_free(struct ks_jobs *jobs)
{
    if (jobs == NULL)
        return;
    lock(jobs);
    jobs->ending = true;
    unlock(jobs);
    (void)pthread_cond_signal(&jobs->work);
    (void)pthread_join(jobs->thread, NULL);
    (void)pthread_cond_destroy(&jobs->work);
    (void)pthread_mutex_destroy(&jobs->mutex);
    ks_free(jobs);
}

void ks_jobs_submit(struct ks_jobs *jobs, struct ks_job *job)
{
    assert(job->run != NULL);
    assert(job->done != NULL);

    lock(jobs);
    ks_list_append(&jobs->queued, &job->link);
    unlock(jobs);
    (void)pthread_cond_signal(&jobs->work);
}

struct ks_job *ks_jobs_take_done(struct ks_jobs *jobs)
{
    struct ks_job *job;

    lock(jobs);
    job = take_first(&jobs->done);
    unlock(jobs);
    return job;
}
