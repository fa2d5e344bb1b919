/* SPDX-License-Identifier: Apache-2.0 */
/* engine_rig.h - an engine without a connection: a test is the sidecar. */
#ifndef ENGINE_RIG_H
#define ENGINE_RIG_H

#include "check.h"
#include "engine.h"

/* Milliseconds, as the tests set it. */
extern int64_t now;

/* A delivery with attempt and lane. Its ack_id is "NUMBER.ATTEMPT". */
struct ks_delivery *delivery_of(const char *batch, int number, uint32_t attempt, uint32_t lane);
void arrive(struct ks_engine *engine, const char *batch, int number, uint32_t attempt);
void redriven(struct ks_engine *engine, const char *batch, int number);
void open_session(struct ks_engine *engine);
void begin(struct ks_engine *engine);
void finish(struct ks_engine *engine, struct ks_delivery **taken, size_t count);
struct ks_delivery *pop(struct ks_engine *engine, int number);
void settle(struct ks_engine *engine, struct ks_delivery *delivery, enum ks_outcome outcome);
/* Writes the items of a request, like "ack b1, retry 1.1; barrier 1". */
const char *text_of(const struct ks_request *request);
void answer(struct ks_engine *engine);
/* Answers that the item with the id is refused. */
void answer_refusal(struct ks_engine *engine, const char *ack_id, const char *reason);

#endif
