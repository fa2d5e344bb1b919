/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/wire_protocol.h"

#include <string.h>

/* Failures that succeed in JSON, before AUTO believes that CBOR is not understood. */
enum { SUSPICIONS_MAX = 2 };

void ks_wire_init(struct ks_wire_protocol *wire, enum ks_wire_mode mode)
{
    *wire = (struct ks_wire_protocol){
        .mode = mode, .cbor_at = KS_LONG_AGO, .suspected_at = KS_LONG_AGO};
}

bool ks_wire_prefers_cbor(const struct ks_wire_protocol *wire,
                          const struct ks_wire_request *request, ks_instant now)
{
    switch (wire->mode) {
    case KS_WIRE_CBOR: return true;
    case KS_WIRE_JSON: return false;
    case KS_WIRE_AUTO: break;
    }
    if (request->repeated)
        return false;
    return !wire->json_instead || ks_instant_reached(now, wire->cbor_at);
}

/* Keeps JSON, or changes to it. */
static enum ks_wire_change use_json(struct ks_wire_protocol *wire, ks_instant now,
                                    enum ks_wire_change why)
{
    bool changed = !wire->json_instead;

    if (wire->mode != KS_WIRE_AUTO)
        return KS_WIRE_UNCHANGED;
    wire->json_instead = true;
    wire->cbor_at = ks_instant_add(now, ks_span_ms(KS_WIRE_JSON_MS));
    return changed ? why : KS_WIRE_UNCHANGED;
}

void ks_wire_begin(struct ks_wire_protocol *wire, struct ks_wire_request *request, ks_instant now)
{
    request->cbor = ks_wire_prefers_cbor(wire, request, now);
    if (!request->cbor)
        return;
    request->cbor_at = now;
    /* One request tries CBOR again; the others wait for its answer. */
    if (wire->json_instead)
        (void)use_json(wire, now, KS_WIRE_UNCHANGED);
}

/* True for a refusal of an AWS service that names the format. */
static bool names_format(const struct ks_failure *failure)
{
    return failure->status == 415 || ks_err_is(failure->err, KS_ERR_UNSUPPORTED) ||
           strcmp(failure->code, "SerializationException") == 0;
}

static bool may_be_misread(int status)
{
    return status == 400 || status == 406 || status == 422 || status == 500 || status == 501;
}

/* True for a failure that no AWS service wrote. */
static bool is_foreign(const struct ks_failure *failure, ks_view type)
{
    return may_be_misread(failure->status) && failure->code[0] == '\0' &&
           failure->request_id[0] == '\0' && !ks_view_starts(type, KS_VIEW("application/x-amz-"));
}

bool ks_wire_failed(struct ks_wire_protocol *wire, struct ks_wire_request *request, ks_instant now,
                    const struct ks_failure *failure, ks_view type, enum ks_wire_change *ret_change)
{
    *ret_change = KS_WIRE_UNCHANGED;
    request->repeated = false;
    if (!request->cbor || wire->mode != KS_WIRE_AUTO || wire->cbor_works || failure == NULL)
        return false;
    if (names_format(failure)) {
        *ret_change = use_json(wire, now, KS_WIRE_NOT_UNDERSTOOD);
        return true;
    }
    request->repeated = is_foreign(failure, type);
    return request->repeated;
}

/* A request that failed in CBOR succeeded in JSON. */
static enum ks_wire_change suspect(struct ks_wire_protocol *wire, ks_instant cbor_at,
                                   ks_instant now)
{
    /* What failed before the last success may have failed for another reason, which passed. */
    if (wire->cbor_works || ks_instant_reached(wire->suspected_at, cbor_at))
        return KS_WIRE_UNCHANGED;
    wire->suspected_at = now;
    wire->suspicions++;
    if (wire->suspicions < SUSPICIONS_MAX)
        return KS_WIRE_UNCHANGED;
    return use_json(wire, now, KS_WIRE_NOT_UNDERSTOOD);
}

enum ks_wire_change ks_wire_answered(struct ks_wire_protocol *wire, struct ks_wire_request *request,
                                     ks_instant now, bool in_cbor)
{
    bool again = in_cbor && wire->json_instead;
    bool repeated = request->repeated;

    request->repeated = false;
    if (in_cbor) {
        wire->cbor_works = true;
        wire->json_instead = false;
        wire->suspicions = 0;
        return again ? KS_WIRE_CBOR_AGAIN : KS_WIRE_UNCHANGED;
    }
    if (request->cbor)
        return use_json(wire, now, KS_WIRE_NOT_SPOKEN);
    return repeated ? suspect(wire, request->cbor_at, now) : KS_WIRE_UNCHANGED;
}

enum ks_wire_change ks_wire_unreadable(struct ks_wire_protocol *wire, ks_instant now)
{
    return use_json(wire, now, KS_WIRE_NOT_READABLE);
}
