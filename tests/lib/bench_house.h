/* SPDX-License-Identifier: Apache-2.0 */
/* bench_house.h - the whole house in a process of a benchmark: the real loop, switchboard, core, API and SQLite
 * lease store, on a source of the benchmark's own, with a consumer beside it (stream_consumer.h). What goes wrong
 * ends the program.
 */
#ifndef TESTS_LIB_BENCH_HOUSE_H
#define TESTS_LIB_BENCH_HOUSE_H

#include "stream_consumer.h"

#include "base/err.h"
#include "base/loop.h"
#include "ports/stream_source.h"

struct bench_house_config {
    const char *store_path; /* Of the lease store: a new file. */
    uint64_t budget_bytes;
    int64_t lease_ms; /* The first lease comes about as soon. */
    /* Opens the source; what it needs beside itself is closed by `close`, after it. */
    struct ks_stream_source *(*open)(struct ks_loop *loop, void *arg);
    void (*close)(void *arg); /* NULL: nothing. */
    void *arg;
};

/* Opens it, has the consumer do its job, and closes it. */
void bench_house_run(const struct bench_house_config *config, const struct stream_job *job,
                     struct stream_watcher *ret_watcher);

/* Ends the program if that failed. `detail` may be NULL. */
void bench_must(ks_err err, const char *what, const struct ks_detail *detail);

#endif
