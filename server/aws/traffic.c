/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/traffic.h"

#include "base/metrics.h"

#include <assert.h>

void ks_traffic_sent(const char *service, const char *operation, size_t bytes)
{
    ks_metric_add_pair(KS_METRIC_AWS_REQUESTS, service, operation, 1);
    ks_metric_add_pair(KS_METRIC_AWS_SENT_BYTES, service, operation, (int64_t)bytes);
}

void ks_traffic_received(const char *service, const char *operation, size_t bytes)
{
    ks_metric_add_pair(KS_METRIC_AWS_RECEIVED_BYTES, service, operation, (int64_t)bytes);
}

void ks_traffic_answered(const char *service, const char *operation, ks_span took, size_t bytes)
{
    ks_metric_observe_pair(KS_METRIC_AWS_REQUEST_SECONDS, service, operation, took.us);
    ks_traffic_received(service, operation, bytes);
}

void ks_traffic_failed(const char *service, ks_err err)
{
    assert(!ks_ok(err));
    ks_metric_add_pair(KS_METRIC_AWS_FAILURES, service, ks_err_name(err), 1);
}

void ks_traffic_again(const char *service, const char *operation)
{
    ks_metric_add_pair(KS_METRIC_AWS_RETRIES, service, operation, 1);
}
