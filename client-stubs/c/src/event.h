/* SPDX-License-Identifier: Apache-2.0 */
/* event.h - reads the control events of a stream. */
#ifndef KS_EVENT_H
#define KS_EVENT_H

#include "delivery.h"

/* Makes an event of the type. All texts are "". */
ks_event ks_event_new(const char *type);

/* Finds the event of a frame: its field in the message StreamEvent. Returns false if the message
 * is malformed. */
bool ks_event_find(const struct ks_delivery *frame, struct ks_field *ret_field);

/* Reads an event that is not a record. Its texts are parts of the frame, which is changed: read
 * it once. Returns false if the message is malformed. */
bool ks_event_read(struct ks_delivery *frame, const struct ks_field *field, ks_event *ret_event);

/* Reads a message SettleFailure, which is the whole frame. */
void ks_event_read_failure(struct ks_delivery *frame, ks_event *event);

/* Reads the number of a barrier; 0: it is none of this package. Returns false if the message is
 * malformed. */
bool ks_event_read_barrier(const struct ks_field *field, uint64_t *ret_barrier);

#endif
