/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h - the numbers that the process tells about itself, from one table (base/metrics.def).
 *
 * An update is an addition in static memory. A labelled metric has one number for each value of its label, at most
 * KS_METRIC_VALUES_MAX of them (of each subscription, where that is its first label); what comes later is counted
 * under "other". One that has the label "shard" has as many numbers as there are shards; who keeps them is asked when
 * they are shown.
 * State of the whole process; loop thread only.
 */
#ifndef KS_BASE_METRICS_H
#define KS_BASE_METRICS_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/list.h"

enum ks_metric {
#define X(id, name, type, unit, label, sentence) KS_METRIC_##id,
#include "base/metrics.def"
#undef X
    KS_METRICS
};

enum {
    KS_METRIC_VALUES_MAX =
        40, /* Of one label: the operations of the lease table are the most there are. */
    KS_METRIC_VALUE_SIZE = 40,  /* Bytes of a label's value with its NUL; longer ones are cut. */
    KS_METRIC_SECOND_SIZE = 80, /* Of that of a second label: an account and the name of a role. */
    /* Of all labels together: 32 subscriptions with about 30 metrics of one number and 100 numbers by operation, error
     * or reason; and those of the process. */
    KS_METRIC_SERIES_MAX = 5120
};

/* What Content-Type says of ks_metrics_render. */
#define KS_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Adds to a metric without a label. `n` is negative for gauges only. */
void ks_metric_add(enum ks_metric metric, int64_t n);
/* Sets a gauge without a label, in the unit of the table. */
void ks_metric_set(enum ks_metric metric, int64_t number);
/* The same for one value of a metric's label; `value` is text of our own, UTF-8, not of a client. */
void ks_metric_add_labelled(enum ks_metric metric, const char *value, int64_t n);
void ks_metric_set_labelled(enum ks_metric metric, const char *value, int64_t number);

/* The same for a metric with two labels: the values of both, in the order of the table; the first without a comma. */
void ks_metric_add_pair(enum ks_metric metric, const char *one, const char *second, int64_t n);
void ks_metric_set_pair(enum ks_metric metric, const char *one, const char *second, int64_t number);

/* Somebody who keeps the numbers of shards; the struct is theirs. */
struct ks_metric_keeper {
    struct ks_link link;
    const char *subscription; /* Whose shards these are. */
    /* The number of shard `index`; `*ret_shard` NULL: there is none in this place. False: beyond the last place. */
    bool (*number)(struct ks_metric_keeper *keeper, enum ks_metric metric, uint32_t index,
                   const char **ret_shard, int64_t *ret_number);
};
/* From now on it is asked; until it leaves. Metrics of shards are not shown while there is nobody to ask. */
void ks_metrics_join(struct ks_metric_keeper *keeper);
void ks_metrics_leave(struct ks_metric_keeper *keeper);

/* Adds one observation of `us` microseconds to a histogram, which has two labels. */
void ks_metric_observe_pair(enum ks_metric metric, const char *one, const char *second, int64_t us);

/* Begins all metrics with the label "subscription" for this value of it, at 0: what never happened shows, too. */
void ks_metrics_begin(const char *subscription);

/* The number now, of a histogram the sum, in the unit of the table; of a labelled metric that of all its values, or of
 * one ("kinesis,GetRecords" of two labels): 0 if it was never counted. */
int64_t ks_metric_number(enum ks_metric metric);
int64_t ks_metric_number_labelled(enum ks_metric metric, const char *value);

/* Appends all of them in the text format 0.0.4 of Prometheus. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_metrics_render(struct ks_bytes *bytes);
/* Appends a table for the docs. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_metrics_markdown(struct ks_bytes *bytes);

#endif
