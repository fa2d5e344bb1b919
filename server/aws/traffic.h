/* SPDX-License-Identifier: Apache-2.0 */
/* traffic.h - what every request to AWS is counted as, whoever sends it: those of a service's client, and those for
 * credentials to STS ("sts"), to a container endpoint ("container") and to the instance metadata service ("imds").
 *
 * Names are literals of ours, and become labels. Loop thread only.
 */
#ifndef KS_AWS_TRAFFIC_H
#define KS_AWS_TRAFFIC_H

#include <stddef.h>

#include "base/err.h"
#include "base/instant.h"

/* An attempt left, with a body of so many bytes. */
void ks_traffic_sent(const char *service, const char *operation, size_t bytes);
/* Bytes of a body came. */
void ks_traffic_received(const char *service, const char *operation, size_t bytes);
/* What came of it, good or bad: how long that took, and the bytes of the body that came. */
void ks_traffic_answered(const char *service, const char *operation, ks_span took, size_t bytes);
/* An attempt failed, or could not be made. `err` is not KS_OK. */
void ks_traffic_failed(const char *service, ks_err err);
/* Another attempt follows. */
void ks_traffic_again(const char *service, const char *operation);

#endif
