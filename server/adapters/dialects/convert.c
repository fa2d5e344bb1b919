/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/convert.h"

#include <assert.h>
#include <string.h>

struct ks_store_request ks_mend_request(const struct ks_store_lease *lease,
                                        const struct ks_store_lease *was, uint64_t unix_ns)
{
    struct ks_store_request request = {.operation = KS_STORE_MEND,
                                       .stream = lease->stream,
                                       .shard = lease->shard,
                                       .lease = lease,
                                       .exists = was != NULL,
                                       .next_rev = unix_ns};

    if (was == NULL)
        return request;
    request.owner = was->owner;
    request.next_owner = was->next_owner;
    request.epoch = was->epoch;
    request.rev = was->rev;
    request.checkpoint = was->checkpoint;
    request.whole = was->whole;
    request.masks = was->masked;
    return request;
}

/* What was written, as it is read. */
static ks_err read_back(const struct ks_dialect *to, const struct ks_item_write *write,
                        struct ks_store_lease *ret_held, struct ks_detail *ret_detail)
{
    struct ks_native_rows rows = {.workers = NULL};
    struct ks_item item;
    ks_err err;

    ks_item_written(write, to->tables[0].schema, &item);
    rows.asked = UINT32_MAX;
    item.asked = &rows.asked;
    err = to->add(&rows, &item, ret_detail);
    if (ks_ok(err) && (rows.lease_count != 1 || rows.leases[0].damaged)) {
        ks_detail_set(ret_detail, "%s: %s has no room for it", write->k, to->name);
        err = KS_FAIL(UNSUPPORTED);
    }
    if (ks_ok(err))
        *ret_held = rows.leases[0];
    ks_native_rows_free(&rows);
    /* cppcheck-suppress returnDanglingLifetime ; an error holds no pointer. */
    return err;
}

ks_err ks_convert_held(const struct ks_dialect *to, const struct ks_store_lease *lease,
                       struct ks_store_lease *ret_held, struct ks_detail *ret_detail)
{
    const struct ks_store_request request = ks_mend_request(lease, NULL, 1);
    struct ks_item_write write;
    ks_err err = to->write(&request, &write, ret_detail);

    if (ks_ok(err))
        err = read_back(to, &write, ret_held, ret_detail);
    ks_item_write_free(&write);
    /* cppcheck-suppress returnDanglingLifetime ; likewise. */
    return err;
}

/* Where members go on that know sequence numbers alone. Of a position behind a whole record they know all; inside one,
 * only what the row says of that; and the number 0 of KCL is one of both. True for that. */
static bool find_whole(struct ks_store_lease *lease)
{
    const bool inside =
        lease->checkpoint.kind == KS_POSITION_AFTER_SEQUENCE && lease->checkpoint.sub_sequence >= 0;

    if (lease->unstarted || lease->finished)
        return false;
    if (!inside) {
        lease->whole = lease->checkpoint;
        return false;
    }
    if (lease->whole.kind != KS_POSITION_AFTER_SEQUENCE || lease->whole.sub_sequence < 0)
        return false;
    if (lease->whole.sub_sequence > 0)
        lease->whole.kind = KS_POSITION_TRIM_HORIZON;
    lease->whole.sub_sequence = -1;
    return lease->whole.kind == KS_POSITION_AFTER_SEQUENCE;
}

/* Free, from the beginning. The AT_TIMESTAMP of KCL does not say which: it is the start that its members are configured
 * with. */
static void begin(const struct ks_store_lease *from, struct ks_store_lease *lease)
{
    *lease = *from;
    lease->owner = (struct ks_incarnation_text){.boot = 0};
    lease->next_owner = lease->owner;
    lease->epoch = 0;
    lease->rev = 0;
    lease->load = 0;
    lease->words = NULL;
    lease->masked = false;
    lease->prepared = false; /* The position is what was committed. */
    if (from->checkpoint.kind == KS_POSITION_AT_TIMESTAMP && from->checkpoint.timestamp_ms == 0)
        lease->unstarted = true;
}

/* LATEST since a moment, as a sidecar has found it: what came since is not read yet. */
static int64_t since(const struct ks_store_lease *lease)
{
    return lease->checkpoint.kind == KS_POSITION_LATEST ? lease->checkpoint.timestamp_ms : 0;
}

static bool same_place(const struct ks_store_lease *a, const struct ks_store_lease *b)
{
    if (a->finished != b->finished || a->unstarted != b->unstarted)
        return false;
    return a->finished || a->unstarted || ks_position_same(&a->checkpoint, &b->checkpoint);
}

/* Behind a whole record, and held as behind the first one inside it, as KCL has it: nothing is lost. */
static bool is_held(const struct ks_store_lease *lease, const struct ks_store_lease *held)
{
    struct ks_store_lease first = *lease;

    if (same_place(lease, held))
        return true;
    first.checkpoint.sub_sequence = 0;
    return lease->checkpoint.sub_sequence == -1 && same_place(&first, held);
}

/* Two ids or fewer, in any order. */
static bool same_ids(const char (*a)[KS_SHARD_ID_MAX + 1], const char (*b)[KS_SHARD_ID_MAX + 1])
{
    return (strcmp(a[0], b[0]) == 0 && strcmp(a[1], b[1]) == 0) ||
           (strcmp(a[0], b[1]) == 0 && strcmp(a[1], b[0]) == 0);
}

static bool same_family(const struct ks_store_lease *a, const struct ks_store_lease *b)
{
    return same_ids(a->parents, b->parents) && same_ids(a->children, b->children);
}

static bool same_range(const struct ks_store_lease *a, const struct ks_store_lease *b)
{
    return strcmp(a->hash_start, b->hash_start) == 0 && strcmp(a->hash_end, b->hash_end) == 0;
}

bool ks_convert_agrees(const struct ks_store_lease *held, const struct ks_store_lease *found)
{
    return !found->damaged && found->owner.id[0] == '\0' && found->next_owner.id[0] == '\0' &&
           same_place(held, found) && since(held) == since(found) &&
           held->masked == found->masked && held->prepared == found->prepared &&
           ks_position_same(&held->whole, &found->whole) && same_family(held, found) &&
           same_range(held, found);
}

ks_err ks_convert(const struct ks_dialect *to, const char *stream,
                  const struct ks_store_lease *from, struct ks_conversion *ret,
                  struct ks_detail *ret_detail)
{
    ks_err err;

    assert(strlen(stream) <= KS_STREAM_ID_MAX);

    *ret = (struct ks_conversion){.left_out = false};
    begin(from, &ret->lease);
    memcpy(ret->lease.stream, stream, strlen(stream) + 1);
    ret->passed = find_whole(&ret->lease) && to->keeps_apart;
    err = ks_convert_held(to, &ret->lease, &ret->held, ret_detail);
    if (ret->lease.unstarted && ks_err_is(err, KS_ERR_UNSUPPORTED)) {
        ret->left_out = true;
        return KS_OK;
    }
    KS_TRY(err);
    if (since(&ret->lease) != since(&ret->held)) {
        ret->lease.checkpoint.kind = KS_POSITION_AT_TIMESTAMP;
        ret->lease.whole = ret->lease.checkpoint;
        KS_TRY(ks_convert_held(to, &ret->lease, &ret->held, ret_detail));
    }
    if (!is_held(&ret->lease, &ret->held)) {
        ks_detail_set(ret_detail, "%s: %s cannot hold this position", from->shard, to->name);
        return KS_FAIL(UNSUPPORTED);
    }
    if (to->keeps_apart && !ret->lease.finished && !ret->lease.unstarted) {
        const enum ks_position_kind seen = ret->held.whole.kind;

        /* Some know a word for LATEST. None is TRIM_HORIZON here. */
        ret->unseen = seen != KS_POSITION_AFTER_SEQUENCE &&
                      (seen != KS_POSITION_LATEST || from->checkpoint.kind != seen);
        ret->again = !ret->unseen && !ret->passed && from->checkpoint.sub_sequence >= 0;
    }
    ret->family_lost = !same_family(from, &ret->held);
    ret->range_lost = !same_range(from, &ret->held);
    return KS_OK;
}
