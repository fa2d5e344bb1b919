/* SPDX-License-Identifier: Apache-2.0 */
/* driver.h - the thread of a consumer: it reads the stream and sends settlements. */
#ifndef KS_DRIVER_H
#define KS_DRIVER_H

#include "consumer.h"

/* Serves the consumer until it is closed, and everything is settled. */
void ks_driver_serve(struct ks_consumer *consumer);

/* Acknowledges a record, and waits until the lease table covers it. It has a connection of its
 * own: the wait must not hold up other settlements. Returns whether the lease table covers the
 * record. */
bool ks_driver_ack_persisted(const struct ks_consumer *consumer, const char *ack_id);

#endif
