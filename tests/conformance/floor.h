/* SPDX-License-Identifier: Apache-2.0 */
/* floor.h - the API with methods of somebody else, for programs that suites of others talk to. */
#ifndef KS_TEST_CONFORMANCE_FLOOR_H
#define KS_TEST_CONFORMANCE_FLOOR_H

#include "api/rpc.h"
#include "base/loop.h"

/* Listens at 127.0.0.1, serves `service` in the place of our own, and says the port to `listening`. Ends with
 * SIGTERM. */
_Noreturn void serve(const struct ks_rpc_service *service, size_t message_bytes_max, uint16_t port,
                     void (*listening)(uint16_t port));

/* The loop that everything runs in. */
struct ks_loop *serving_loop(void);

#endif
