/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.h - the one other thread: it runs whole jobs, first in first out, and gives them back whole.
 *
 * The only home of threads, mutexes and condition variables. Owned by base/loop.c; others use ks_loop_submit.
 */
#ifndef KS_BASE_JOBS_H
#define KS_BASE_JOBS_H

#include "base/err.h"
#include "base/loop.h"

struct ks_jobs;

/* Starts the thread. `wake(arg)` is called on it after each finished job. SYSTEM, NO_MEMORY. */
KS_MUST_USE ks_err ks_jobs_new(void (*wake)(void *arg), void *arg, struct ks_jobs **ret_jobs);
/* Waits for the running job, forgets the others, ends the thread. NULL is allowed. */
void ks_jobs_free(struct ks_jobs *jobs);
/* Puts a job at the end of the queue. */
void ks_jobs_submit(struct ks_jobs *jobs, struct ks_job *job);
/* Takes the job that finished first, or NULL. */
struct ks_job *ks_jobs_take_done(struct ks_jobs *jobs);

#endif
