/* SPDX-License-Identifier: Apache-2.0 */
/* event_stream.h - messages of an event stream (application/vnd.amazon.eventstream), as they lie in memory.
 *
 *     u32 length of all | u32 of the headers | u32 CRC-32 of these 8 | headers | payload | u32 CRC-32 of all before
 *     header: u8 length, name, u8 type, value
 *
 * All numbers are big-endian. Source: the Smithy specification of Amazon Event Stream; botocore eventstream.py.
 * Bytes arrive in pieces: whoever gathers them asks for the size of the message that begins, and reads it when it is
 * whole. Lengths are checked against their own checksum and our limits before anybody makes room for them. Pure.
 */
#ifndef KS_AWS_EVENT_STREAM_H
#define KS_AWS_EVENT_STREAM_H

#include <stdint.h>

#include "base/bytes.h"

enum {
    /* Before the headers: what ks_event_size wants to see. */
    KS_EVENT_PRELUDE_BYTES = 12,
    /* A record of 10 MiB as base64, and room; AWS's own readers take 16 or 24 MiB. */
    KS_EVENT_BYTES_MAX = 24 << 20,
    /* As AWS's own readers. */
    KS_EVENT_HEADERS_BYTES_MAX = 128 << 10
};

struct ks_event {
    ks_view headers; /* Whole ones: ks_event_take_header cannot fail on them. */
    ks_view payload;
};

enum ks_event_type {
    KS_EVENT_TRUE,
    KS_EVENT_FALSE,
    KS_EVENT_I8,
    KS_EVENT_I16,
    KS_EVENT_I32,
    KS_EVENT_I64,
    KS_EVENT_BYTES,
    KS_EVENT_TEXT,
    KS_EVENT_TIMESTAMP, /* Unix ms. */
    KS_EVENT_UUID
};

struct ks_event_header {
    ks_view name;
    enum ks_event_type type;
    ks_view value;  /* BYTES, TEXT, UUID; of others the bytes of the number. */
    int64_t number; /* I8 .. I64, TIMESTAMP; else 0. */
};

/* The size of the message that begins with `bytes`; 0: they are too few to say. MALFORMED: no message begins so, or one
 * that is too large. */
KS_MUST_USE ks_err ks_event_size(ks_view bytes, size_t *ret_size);

/* Reads `message`, which is as long as ks_event_size says. Views into it. MALFORMED: a wrong checksum or header. */
KS_MUST_USE ks_err ks_event_read(ks_view message, struct ks_event *ret_event);

/* Takes the first header off. MALFORMED: there is none. */
KS_MUST_USE ks_err ks_event_take_header(ks_view *headers, struct ks_event_header *ret_header);
/* The text of the first header of this name; empty: none. */
ks_view ks_event_text(const struct ks_event *event, const char *name);

#endif
