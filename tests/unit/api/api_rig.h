/* SPDX-License-Identifier: Apache-2.0 */
/* api_rig.h - the API on its feet, for tests: the real switchboard of unit/ports/stage.h behind it, and a client that
 * talks bytes over Unix sockets while it turns the loop itself.
 */
#ifndef KS_TEST_API_RIG_H
#define KS_TEST_API_RIG_H

#include "api/api.h"
#include "unit/ports/stage.h"

/* An ack_id that another run of the sidecar gave out. */
#define RIG_FOREIGN_ID "AQAAMDkAAAAAAAABAAAAAAAAAAABAAAAAAABAAAAAAAAmSYuovlbnWA"

struct rig {
    struct stage stage;
    struct ks_api *api;
    struct ks_options *options;
    int quits; /* How often it was told to end; it drains then, and stays. */
};

/* Listens at ks_test_path("api") and ks_test_path("ops"), and waits until it is ready. */
void rig_begin(struct rig *rig);
void rig_end(struct rig *rig);

/* A connection to one of the two sockets. */
int rig_connect(struct rig *rig, const char *name);
void rig_send(struct rig *rig, int fd, const char *bytes, size_t size);
/* Reads until `part` has come, or, with NULL, until the other side closes; fails the test if that takes too long. What
 * has come, with a NUL; it lives until the next call. */
const char *rig_read(struct rig *rig, int fd, const char *part);
/* Sends bytes on a new connection to `name`, and reads until it closes. */
const char *rig_say(struct rig *rig, const char *name, const char *bytes, size_t size);
/* The same with a request that is refused: with this status, a problem, and the end of the connection. */
void rig_expect_refused(struct rig *rig, const char *request, size_t size, const char *status);
/* Turns the loop for so long. */
void rig_turn(struct rig *rig, int64_t ms);

/* One request to the API on a connection of its own: the whole answer, head and body. */
const char *rig_call(struct rig *rig, const char *method, const char *target, const char *body);
/* The same on the ops socket. */
const char *rig_ops(struct rig *rig, const char *target);
/* The value of a string member in JSON text: the first one of this name. Lives until the test ends. */
const char *rig_member(const char *json, const char *name);
/* Pulls until there are records, and returns the answer. */
const char *rig_pull(struct rig *rig, const char *target);

#endif
