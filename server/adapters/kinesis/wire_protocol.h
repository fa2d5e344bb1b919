/* SPDX-License-Identifier: Apache-2.0 */
/* wire_protocol.h - whether a reader asks Kinesis for records in CBOR or in JSON.
 *
 * Kinesis takes and sends both. CBOR is a third smaller, so AUTO asks in CBOR. Some stand-ins for Kinesis know JSON
 * only. AUTO changes to JSON for KS_WIRE_JSON_MS, and one request then tries CBOR again, so that a wrong change ends
 * by itself. These answers to a request in CBOR change it:
 *  - a refusal that names the format: status 415, UnknownOperationException or SerializationException;
 *  - a failure that no AWS service wrote: status 400, 406, 415, 422, 500 or 501, without an error code, a request id
 *    and an AWS content type. It counts only if the same request succeeds in JSON, and all of this happens twice, the
 *    second time with a request in CBOR that was sent after the first success. moto answers so;
 *  - an answer in JSON, or one in CBOR that cannot be read (kinesalite cuts off what is longer than 16 KB).
 * Refusals and failures count only until the server has answered once in CBOR. Other failures, 502 to 504 among them,
 * never count. The modes CBOR and JSON never change. One struct for each source. Pure.
 */
#ifndef KS_ADAPTERS_KINESIS_WIRE_PROTOCOL_H
#define KS_ADAPTERS_KINESIS_WIRE_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include "aws/failure.h"
#include "base/instant.h"

/* How long AUTO asks in JSON before it tries CBOR again. */
enum { KS_WIRE_JSON_MS = 600000 };

enum ks_wire_mode { KS_WIRE_AUTO, KS_WIRE_CBOR, KS_WIRE_JSON };

struct ks_wire_protocol {
    enum ks_wire_mode mode;
    bool cbor_works;         /* The server has answered in CBOR. */
    bool json_instead;       /* AUTO asks in JSON. */
    ks_instant cbor_at;      /* With json_instead: when CBOR is tried again. */
    uint32_t suspicions;     /* Failures in CBOR that succeeded in JSON. */
    ks_instant suspected_at; /* The last of them. */
};

/* The request that a reader has under way. Zeroed before the first. */
struct ks_wire_request {
    bool cbor;          /* It is asked in CBOR. */
    bool repeated;      /* In JSON, after a failure in CBOR. */
    ks_instant cbor_at; /* When it was sent in CBOR. */
};

/* What a change is due to. */
enum ks_wire_change {
    KS_WIRE_UNCHANGED,
    KS_WIRE_NOT_UNDERSTOOD, /* To JSON: CBOR was refused. */
    KS_WIRE_NOT_SPOKEN,     /* To JSON: it was answered in JSON. */
    KS_WIRE_NOT_READABLE,   /* To JSON: the answer in CBOR cannot be read. */
    KS_WIRE_CBOR_AGAIN      /* Back to CBOR. */
};

void ks_wire_init(struct ks_wire_protocol *wire, enum ks_wire_mode mode);
/* True if a request that begins now is asked in CBOR; changes nothing. */
bool ks_wire_prefers_cbor(const struct ks_wire_protocol *wire,
                          const struct ks_wire_request *request, ks_instant now);
/* Begins a request; sets request->cbor. */
void ks_wire_begin(struct ks_wire_protocol *wire, struct ks_wire_request *request, ks_instant now);
/* The request failed; `failure` is NULL if no answer came, `type` is the content type of the answer. Returns true if
 * the request is to be repeated at once; then it begins in JSON. */
bool ks_wire_failed(struct ks_wire_protocol *wire, struct ks_wire_request *request, ks_instant now,
                    const struct ks_failure *failure, ks_view type,
                    enum ks_wire_change *ret_change);
/* The request was answered with records, in CBOR or in JSON. */
enum ks_wire_change ks_wire_answered(struct ks_wire_protocol *wire, struct ks_wire_request *request,
                                     ks_instant now, bool in_cbor);
/* The answer in CBOR cannot be read. UNCHANGED outside of AUTO. */
enum ks_wire_change ks_wire_unreadable(struct ks_wire_protocol *wire, ks_instant now);

#endif
