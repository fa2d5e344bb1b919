/* SPDX-License-Identifier: Apache-2.0 */
/* event_frames.h - messages of an event stream, written for tests. Whatever goes wrong fails the test. */
#ifndef KS_EVENT_FRAMES_H
#define KS_EVENT_FRAMES_H

#include "base/bytes.h"

/* Appends a message with the headers `name` = `value`, :content-type (JSON) and :message-type = `type`. */
void event_frame(struct ks_bytes *bytes, const char *name, const char *value, const char *type,
                 const char *payload);
void event_be32(uint8_t *to, uint32_t number);

#endif
