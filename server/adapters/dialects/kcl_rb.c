/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/kcl_rb.h"

#include "adapters/dialects/foreign.h"
#include "adapters/dialects/go_kcl.h"
#include "adapters/dialects/native_words.h"

#include <assert.h>
#include <string.h>

enum attribute { ASSIGNED_TO, LEASE_TIMEOUT, CHECKPOINT, WORKER, MASKED, INSIDE, ATTRIBUTES };

static const struct ks_attribute attributes[ATTRIBUTES] = {
    [ASSIGNED_TO] = {"assigned_to", KS_VALUE_TEXT},
    [LEASE_TIMEOUT] = {"lease_timeout", KS_VALUE_TEXT},
    [CHECKPOINT] = {"checkpoint", KS_VALUE_TEXT},
    [WORKER] = {"sidecar_worker", KS_VALUE_TEXT},
    [MASKED] = {"sidecar_checkpoint", KS_VALUE_TEXT},
    [INSIDE] = {KS_FOREIGN_SIDECAR, KS_VALUE_TEXT},
};

static const struct ks_schema schema = {
    .attributes = attributes, .count = ATTRIBUTES, .key = KS_KCL_RB_KEY, .nullable = true};

#define SHARD_END KS_VIEW(KS_FOREIGN_END)

/* ---- Times ---- */

#define NS_PER_SECOND UINT64_C(1000000000)
enum { EMPTY_NS = 1, TIME_SIZE = 23, DAY_SIZE = 10, CLOCK_SIZE = 8 };

/* "2024-05-01 12:00:10 UTC" is "2024-05-01T12:00:10Z" in another hand. */
ks_err ks_kcl_rb_get_time(ks_view text, uint64_t *ret_ns)
{
    char other[DAY_SIZE + 1 + CLOCK_SIZE + 1];
    uint64_t ns;

    if (text.size == 0) {
        *ret_ns = EMPTY_NS;
        return KS_OK;
    }
    if (text.size != TIME_SIZE || text.data[DAY_SIZE] != ' ' ||
        memcmp(text.data + TIME_SIZE - 4, " UTC", 4) != 0)
        return KS_FAIL(MALFORMED);
    memcpy(other, text.data, DAY_SIZE + 1 + CLOCK_SIZE);
    other[DAY_SIZE] = 'T';
    other[sizeof(other) - 1] = 'Z';
    KS_TRY(ks_go_kcl_get_time(ks_view_of(other, sizeof(other)), &ns));
    if (ns < NS_PER_SECOND) /* The other hand's zero time. */
        return KS_FAIL(MALFORMED);
    *ret_ns = ns;
    return KS_OK;
}

ks_err ks_kcl_rb_put_time(struct ks_bytes *bytes, uint64_t ns)
{
    const size_t begin = bytes->size;

    assert(ns != 0);
    if (ns == EMPTY_NS)
        return KS_OK;
    if (ns % NS_PER_SECOND != 0)
        return KS_FAIL(INVALID);
    KS_TRY(ks_go_kcl_put_time(bytes, ns));
    bytes->data[begin + DAY_SIZE] = ' ';
    bytes->size--;
    return ks_bytes_append(bytes, KS_VIEW(" UTC"));
}

/* ---- Reading ---- */

/* A late release of kcl-rb removes the owner of a masked row. The id of the sidecar that took it last stays. */
static ks_err read_hider(const struct ks_item *item, struct ks_store_lease *lease)
{
    ks_view id;

    if (!lease->masked || lease->owner.id[0] != '\0' || item->presence[WORKER] == KS_ABSENT)
        return KS_OK;
    KS_TRY(ks_item_text(item, WORKER, &id));
    return ks_ok(ks_view_copy_text(id, lease->masked_by, sizeof(lease->masked_by)))
               ? KS_OK
               : KS_FAIL(MALFORMED);
}

static ks_err read_lease(const struct ks_item *item, struct ks_store_lease *lease)
{
    ks_view checkpoint = KS_VIEW_NONE;
    ks_view text;

    if (!ks_native_is_shard(item->k))
        return KS_FAIL(MALFORMED);
    KS_TRY(ks_foreign_read_id(item, ASSIGNED_TO, &lease->owner));
    if (item->presence[LEASE_TIMEOUT] != KS_ABSENT) {
        KS_TRY(ks_item_text(item, LEASE_TIMEOUT, &text));
        KS_TRY(ks_kcl_rb_get_time(text, &lease->rev));
    }
    lease->stranger = item->presence[WORKER] == KS_ABSENT;
    if (item->presence[CHECKPOINT] != KS_ABSENT) {
        KS_TRY(ks_item_text(item, CHECKPOINT, &checkpoint));
        /* No condition of ours could tell it from none, and kcl-rb ends at it. */
        if (checkpoint.size == 0)
            return KS_FAIL(MALFORMED);
    }
    lease->masked = ks_view_equal(checkpoint, SHARD_END) && item->presence[MASKED] != KS_ABSENT;
    if (lease->masked) {
        KS_TRY(ks_item_text(item, MASKED, &checkpoint));
        if (ks_view_equal(checkpoint, SHARD_END))
            return KS_FAIL(MALFORMED);
    }
    KS_TRY(read_hider(item, lease));
    return ks_foreign_read_checkpoint(item, INSIDE, checkpoint, lease);
}

static ks_err add(struct ks_native_rows *rows, const struct ks_item *item,
                  struct ks_detail *ret_detail)
{
    struct ks_store_lease lease = {.checkpoint.sub_sequence = -1};

    (void)ret_detail;
    return ks_native_rows_add_lease(rows, item, read_lease(item, &lease), &lease);
}

/* ---- Writing ---- */

static ks_err keep_time(struct ks_item_write *write, uint64_t ns, struct ks_value *ret_value)
{
    struct ks_bytes bytes;
    ks_err err;

    ret_value->type = KS_VALUE_TEXT;
    ks_bytes_init(&bytes, TIME_SIZE + 1);
    err = ks_kcl_rb_put_time(&bytes, ns);
    if (ks_ok(err))
        err = ks_item_write_keep(write, ks_bytes_view(&bytes), &ret_value->text);
    ks_bytes_free(&bytes);
    return err;
}

static ks_err if_as_read(struct ks_item_write *write, const struct ks_incarnation_text *owner,
                         uint64_t rev)
{
    struct ks_value time = {KS_VALUE_TEXT, KS_VIEW_NONE};

    KS_TRY(ks_foreign_if_names(write, attributes[ASSIGNED_TO].name, KS_IF_ABSENT_OR_NULL, owner));
    if (rev != 0)
        KS_TRY(keep_time(write, rev, &time));
    ks_item_write_if(write, rev == 0 ? KS_IF_ABSENT_OR_NULL : KS_IF_EQUALS,
                     attributes[LEASE_TIMEOUT].name, time);
    return KS_OK;
}

static ks_err set_time(struct ks_item_write *write, uint64_t ns)
{
    struct ks_value time;

    KS_TRY(keep_time(write, ns, &time));
    ks_item_write_do(write, KS_DO_SET, attributes[LEASE_TIMEOUT].name, time);
    return KS_OK;
}

/* Whoever wrote a checkpoint since did not move the time. */
static ks_err if_checkpoint(struct ks_item_write *write, const struct ks_store_lease *read)
{
    const bool is_text = read->masked || ks_foreign_is_sequence(&read->whole);
    struct ks_value value = {KS_VALUE_TEXT, SHARD_END};

    if (!read->masked)
        KS_TRY(ks_item_write_keep(write, ks_view_text(read->whole.sequence), &value.text));
    ks_item_write_if(write, is_text ? KS_IF_EQUALS : KS_IF_ABSENT_OR_NULL,
                     attributes[CHECKPOINT].name, value);
    return KS_OK;
}

/* Where it is, in `place`, an attribute that had another meaning until now, or none. A start that no record says stands
 * inside, and stays there. */
static ks_err move_position(struct ks_item_write *write, const struct ks_store_request *request,
                            enum attribute place)
{
    if (!request->has_checkpoint || !ks_foreign_is_sequence(&request->whole)) {
        if (place == CHECKPOINT)
            ks_foreign_remove(write, attributes[CHECKPOINT].name);
        else
            KS_TRY(ks_foreign_set_text(write, attributes[MASKED].name, KS_VIEW("")));
    }
    return ks_foreign_set_position(write, request, attributes[place].name);
}

/* From now on kcl-rb passes over it. */
static ks_err mask(struct ks_item_write *write, const struct ks_store_request *request)
{
    KS_TRY(ks_foreign_set_text(write, attributes[CHECKPOINT].name, SHARD_END));
    return move_position(write, request, MASKED);
}

static ks_err unmask(struct ks_item_write *write, const struct ks_store_request *request)
{
    ks_foreign_remove(write, attributes[MASKED].name);
    return move_position(write, request, CHECKPOINT);
}

/* Free, or run out: the row must be exactly as it was read. */
static ks_err take(struct ks_item_write *write, const struct ks_store_request *request)
{
    static const struct ks_incarnation_text nobody;
    const struct ks_store_lease *const read = request->lease;
    const bool owned = request->operation == KS_STORE_TAKE_OVER;
    struct ks_store_request place = *request;

    if (read == NULL)
        return KS_FAIL(INVALID);
    KS_TRY(if_as_read(write, owned ? &request->owner : &nobody, request->rev));
    KS_TRY(
        ks_foreign_set_text(write, attributes[ASSIGNED_TO].name, ks_view_text(request->worker.id)));
    KS_TRY(ks_foreign_set_text(write, attributes[WORKER].name, ks_view_text(request->worker.id)));
    KS_TRY(set_time(write, request->next_rev));
    KS_TRY(ks_foreign_set_start(write, request));
    if (!request->masks && !read->masked)
        return KS_OK;
    KS_TRY(if_checkpoint(write, read));
    place.whole = read->whole;
    place.checkpoint = read->checkpoint;
    place.has_checkpoint = ks_foreign_is_sequence(&place.checkpoint);
    return request->masks ? mask(write, &place) : unmask(write, &place);
}

/* The row is as it was read: also its checkpoint. */
static ks_err if_was(struct ks_item_write *write, const struct ks_store_request *request)
{
    struct ks_store_lease was = {.whole = request->whole, .masked = request->masks};

    if (!request->exists) {
        ks_item_write_if(write, KS_IF_ABSENT, KS_KCL_RB_KEY,
                         (struct ks_value){KS_VALUE_TEXT, KS_VIEW_NONE});
        return KS_OK;
    }
    was.masked |= request->checkpoint.kind == KS_POSITION_SHARD_END;
    KS_TRY(if_as_read(write, &request->owner, request->rev));
    return if_checkpoint(write, &was);
}

/* What a person orders; a mask comes off. */
static ks_err mend(struct ks_item_write *write, const struct ks_store_request *request)
{
    const struct ks_store_lease *const lease = request->lease;
    uint64_t seconds = lease->rev / NS_PER_SECOND + (lease->rev % NS_PER_SECOND > EMPTY_NS);

    KS_TRY(if_was(write, request));
    KS_TRY(ks_foreign_mend_id(write, attributes[ASSIGNED_TO].name, &lease->owner));
    if (lease->rev <= EMPTY_NS)
        ks_foreign_remove(write, attributes[LEASE_TIMEOUT].name);
    else
        KS_TRY(set_time(write, seconds * NS_PER_SECOND));
    ks_foreign_remove(write, attributes[MASKED].name);
    return ks_foreign_mend_checkpoint(write, lease, attributes[CHECKPOINT].name);
}

static ks_err fill(struct ks_item_write *write, const struct ks_store_request *request)
{
    const enum ks_store_operation operation = request->operation;

    if (operation == KS_STORE_CHECKPOINT || operation == KS_STORE_FINAL ||
        operation == KS_STORE_END)
        KS_TRY(if_as_read(write, &request->worker, request->rev)); /* Ours, as written last. */
    switch ((int)operation) {
    case KS_STORE_ASSIGN:
    case KS_STORE_TAKE_OVER: return take(write, request);
    case KS_STORE_CHECKPOINT:
        KS_TRY(set_time(write, request->next_rev));
        return ks_foreign_set_position(write, request,
                                       attributes[request->masks ? MASKED : CHECKPOINT].name);
    case KS_STORE_FINAL:
        ks_foreign_remove(write, attributes[ASSIGNED_TO].name);
        return request->masks
                   ? unmask(write, request)
                   : ks_foreign_set_position(write, request, attributes[CHECKPOINT].name);
    case KS_STORE_END:
        ks_foreign_remove(write, attributes[ASSIGNED_TO].name);
        ks_foreign_remove(write, attributes[MASKED].name);
        ks_foreign_remove(write, attributes[INSIDE].name);
        return ks_foreign_set_text(write, attributes[CHECKPOINT].name, SHARD_END);
    case KS_STORE_MEND: return mend(write, request);
    case KS_STORE_DELETE:
        ks_item_write_if(write, KS_IF_EQUALS, attributes[CHECKPOINT].name,
                         (struct ks_value){KS_VALUE_TEXT, SHARD_END});
        ks_item_write_if(write, KS_IF_ABSENT, attributes[MASKED].name,
                         (struct ks_value){KS_VALUE_TEXT, KS_VIEW_NONE});
        write->delete_row = true;
        return KS_OK;
    default: return KS_FAIL(UNSUPPORTED);
    }
}

static ks_err write_row(const struct ks_store_request *request, struct ks_item_write *ret_write,
                        struct ks_detail *ret_detail)
{
    return ks_foreign_write(request, KS_KCL_RB_KEY, fill, ret_write, ret_detail);
}

const struct ks_dialect ks_kcl_rb_dialect = {.name = "kcl-rb",
                                             .tables = {{"", &schema, false}},
                                             .table_count = 1,
                                             .rev = KS_REV_UNTIL,
                                             .keeps_apart = true,
                                             .read = ks_foreign_read,
                                             .write = write_row,
                                             .add = add};
