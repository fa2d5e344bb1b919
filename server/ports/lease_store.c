/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/lease_store.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

bool ks_position_same(const struct ks_position *a, const struct ks_position *b)
{
    const bool named = a->kind == KS_POSITION_AFTER_SEQUENCE || a->kind == KS_POSITION_AT_SEQUENCE;

    if (a->kind != b->kind)
        return false;
    if (a->kind == KS_POSITION_AT_TIMESTAMP)
        return a->timestamp_ms == b->timestamp_ms;
    return !named || (strcmp(a->sequence, b->sequence) == 0 &&
                      (a->kind == KS_POSITION_AT_SEQUENCE || a->sub_sequence == b->sub_sequence));
}

const char *ks_store_operation_name(enum ks_store_operation operation)
{
    switch (operation) {
    case KS_STORE_READ_FLEET: return "read fleet";
    case KS_STORE_READ_NEWS: return "read news";
    case KS_STORE_READ_LEASES: return "read leases";
    case KS_STORE_READ_LEASE: return "read lease";
    case KS_STORE_READ_OWNED: return "read owned";
    case KS_STORE_READ_WORKER: return "read worker";
    case KS_STORE_REGISTER_NEW: return "register";
    case KS_STORE_REGISTER_DEAD: return "register over dead";
    case KS_STORE_REGISTER_SILENT: return "register over silent";
    case KS_STORE_REGISTER_CORPSE: return "register over own corpse";
    case KS_STORE_HEARTBEAT: return "heartbeat";
    case KS_STORE_FENCE: return "fence";
    case KS_STORE_SAY_GONE: return "say gone";
    case KS_STORE_HINTS: return "hints";
    case KS_STORE_REMOVE_WORKER: return "remove worker";
    case KS_STORE_CLAIM_OFFICE: return "claim office";
    case KS_STORE_RESIGN_OFFICE: return "resign office";
    case KS_STORE_NAME_DEPUTIES: return "name deputies";
    case KS_STORE_CREATE_APP: return "create app";
    case KS_STORE_NAME_SHARDS: return "name shards";
    case KS_STORE_CREATE: return "create lease";
    case KS_STORE_ASSIGN: return "assign";
    case KS_STORE_TAKE_OVER: return "take over";
    case KS_STORE_PLAN: return "plan";
    case KS_STORE_FORCE: return "force";
    case KS_STORE_CHECKPOINT: return "checkpoint";
    case KS_STORE_FINAL: return "final";
    case KS_STORE_END: return "end";
    case KS_STORE_DELETE: return "delete lease";
    case KS_STORE_SEEK: return "seek";
    case KS_STORE_FILL: return "fill in";
    case KS_STORE_MEND: return "mend";
    }
    assert(false);
    return NULL;
}
