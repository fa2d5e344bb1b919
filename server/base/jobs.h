/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.h - threads for calls that block: one thread for each queue, first in first out within a queue.
 *
 * A job goes in whole and comes back whole. Jobs of one queue never run at the same time; jobs of two queues never wait
 * for each other. The only home of threads, mutexes and condition variables. Owned by base/loop.c; others use
 * ks_loop_submit and ks_loop_queue_new.
 */
#ifndef KS_BASE_JOBS_H
#define KS_BASE_JOBS_H

#include "base/err.h"
#include "base/loop.h"

struct ks_jobs;
struct ks_job_queue;

/* `wake(arg)` is called on the thread of a queue after each finished job. NO_MEMORY. */
KS_MUST_USE ks_err ks_jobs_new(void (*wake)(void *arg), void *arg, struct ks_jobs **ret_jobs);
/* Waits for the running job of each queue, forgets the others, ends the threads. NULL is allowed. */
void ks_jobs_free(struct ks_jobs *jobs);

/* Starts the thread of a new queue. SYSTEM, NO_MEMORY. */
KS_MUST_USE ks_err ks_jobs_queue_new(struct ks_jobs *jobs, struct ks_job_queue **ret_queue);
/* Lets go of a queue without waiting for a job: its jobs still run and come back, then its thread ends. */
void ks_jobs_queue_close(struct ks_job_queue *queue);

/* Puts a job at the end of the queue. */
void ks_jobs_submit(struct ks_job_queue *queue, struct ks_job *job);
/* Takes the job that finished first, or NULL. */
struct ks_job *ks_jobs_take_done(struct ks_jobs *jobs);

#endif
