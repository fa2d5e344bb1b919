/* SPDX-License-Identifier: Apache-2.0 */
/* look_rig.h - an API whose worker has not looked at the lease table, for tests: another one leads, and looks come when
 * the test lets them.
 */
#ifndef KS_TEST_LOOK_RIG_H
#define KS_TEST_LOOK_RIG_H

#include "unit/api/api_rig.h"

/* Another worker leads and has made the rows; the rig's knows of none. One at a time. */
void look_begin(struct rig *rig);
void look_end(struct rig *rig);
/* The id of a shard that the leader knows. */
const char *look_shard(void);
/* True if a look waits for the test. */
bool look_is_asked(void);
/* The look that was asked for goes on, or fails. */
void look_let(void);
void look_fail(void);
/* One request, as rig_call, whose look goes on or fails when it has been asked for. */
const char *look_call(const char *method, const char *target, const char *body, bool fails);

#endif
