/* SPDX-License-Identifier: Apache-2.0 */
/* kinesis-sidecar-client-testing.h - a sidecar in the memory of a test, and a consumer of it,
 * without a network.
 *
 *     ks_fake *fake = ks_fake_new(NULL, 0);
 *     ks_fake_put(fake, "customer-1", "12", 2);
 *     ks_consumer_run(ks_fake_consumer(fake), handle, database);
 *     outcomes = ks_fake_outcomes(fake, &count);
 *     ks_fake_free(fake);
 *
 * Link libkinesis-sidecar-client-testing.a to tests only, in front of the client library. The
 * reading ends when all records have a final outcome: ks_consumer_status() is KS_CLIENT_STOPPED.
 */
#ifndef KINESIS_SIDECAR_CLIENT_TESTING_H
#define KINESIS_SIDECAR_CLIENT_TESTING_H

#include "kinesis-sidecar-client.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ks_fake ks_fake;

/* One delivery and its outcome. */
typedef struct ks_fake_outcome {
    const char *partition_key;
    const unsigned char *data; /* A NUL byte follows. */
    size_t data_size;
    uint32_t attempt;
    const char *outcome; /* "ack", "retry", "dead_letter" or "drop". */
    const char *reason;  /* "": none. */
} ks_fake_outcome;

/* Makes a sidecar and its consumer. `options` are those of the consumer; NULL: all defaults. A
 * record that fails `max_attempts` times (0: 3) becomes a dead letter. A retry is redelivered at
 * once, whatever its delay. Returns NULL if there is no memory. */
KS_CLIENT_API ks_fake *ks_fake_new(const ks_consumer_options *options, uint32_t max_attempts);

/* Closes and frees the consumer, and frees the sidecar. NULL: does nothing. */
KS_CLIENT_API void ks_fake_free(ks_fake *fake);

/* Puts a record. The sidecar copies it. All records are in one shard, with the sequence numbers
 * 1, 2, 3 .. To be called before the reading begins. Returns false if there is no memory. */
KS_CLIENT_API bool ks_fake_put(ks_fake *fake, const char *partition_key, const void *data,
                               size_t data_size);

/* The consumer. The sidecar owns it. */
KS_CLIENT_API ks_consumer *ks_fake_consumer(ks_fake *fake);

/* Closes the consumer. Returns the deliveries that have an outcome, in the order of their
 * outcomes. They are valid until ks_fake_free(). */
KS_CLIENT_API const ks_fake_outcome *ks_fake_outcomes(ks_fake *fake, size_t *ret_count);

#ifdef __cplusplus
}
#endif

#endif
