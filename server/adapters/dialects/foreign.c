/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/foreign.h"

#include "adapters/dialects/native_words.h"

#include <inttypes.h>
#include <string.h>

enum {
    /* Two sequence numbers, a number and two colons. */
    INSIDE_BYTES = 2 * KS_SEQUENCE_MAX + 32,
    /* More than the texts of a write take: three ids, two times, two sequence numbers thrice, a parent. */
    TEXT_BYTES = 2048
};

ks_err ks_foreign_read_id(const struct ks_item *item, uint32_t at,
                          struct ks_incarnation_text *ret_who)
{
    ks_view id;

    *ret_who = (struct ks_incarnation_text){.boot = 0};
    if (item->presence[at] == KS_ABSENT)
        return KS_OK;
    KS_TRY(ks_item_text(item, at, &id));
    if (id.size == 0)
        id = KS_VIEW(KS_FOREIGN_EMPTY);
    return ks_ok(ks_view_copy_text(id, ret_who->id, sizeof(ret_who->id))) ? KS_OK
                                                                          : KS_FAIL(MALFORMED);
}

ks_err ks_foreign_keep_id(struct ks_item_write *write, const struct ks_incarnation_text *who,
                          ks_view *ret_id)
{
    ks_view id = ks_view_text(who->id);

    if (ks_view_equal(id, KS_VIEW(KS_FOREIGN_EMPTY)))
        id = KS_VIEW("");
    return ks_item_write_keep(write, id, ret_id);
}

ks_err ks_foreign_if_names(struct ks_item_write *write, const char *name,
                           enum ks_condition_kind nobody, const struct ks_incarnation_text *who)
{
    struct ks_value value = {KS_VALUE_TEXT, KS_VIEW_NONE};

    if (who->id[0] != '\0')
        KS_TRY(ks_foreign_keep_id(write, who, &value.text));
    ks_item_write_if(write, who->id[0] == '\0' ? nobody : KS_IF_EQUALS, name, value);
    return KS_OK;
}

bool ks_foreign_is_sequence(const struct ks_position *position)
{
    return position->kind == KS_POSITION_AFTER_SEQUENCE &&
           ks_native_is_decimal(ks_view_text(position->sequence), KS_SEQUENCE_MAX);
}

/* "LATEST", "AT_TIMESTAMP:1714564810000": a place that no record says. */
static bool read_start(ks_view text, struct ks_position *position)
{
    struct ks_position start;

    if (ks_ok(ks_native_get_position(text, &start)) && start.kind == KS_POSITION_AT_SEQUENCE) {
        *position = start;
        return true;
    }
    if (!ks_ok(ks_native_get_position(ks_view_cut(&text, ':'), &start)))
        return false;
    switch (start.kind) {
    case KS_POSITION_TRIM_HORIZON:
    case KS_POSITION_LATEST:
        if (text.size != 0)
            return false;
        break;
    case KS_POSITION_AT_TIMESTAMP:
        if (!ks_ok(ks_view_i64(text, &start.timestamp_ms)))
            return false;
        break;
    case KS_POSITION_AFTER_SEQUENCE:
    case KS_POSITION_AT_SEQUENCE:
    case KS_POSITION_SHARD_END: return false;
    }
    *position = start;
    return true;
}

/* "4960:2" */
static bool read_inside(ks_view text, struct ks_position *position)
{
    struct ks_position inside = {.kind = KS_POSITION_AFTER_SEQUENCE};
    const ks_view sequence = ks_view_cut(&text, ':');

    if (!ks_native_is_decimal(sequence, KS_SEQUENCE_MAX) ||
        !ks_ok(ks_view_i64(text, &inside.sub_sequence)) || inside.sub_sequence < 0 ||
        !ks_ok(ks_view_copy_text(sequence, inside.sequence, sizeof(inside.sequence))))
        return false;
    *position = inside;
    return true;
}

ks_err ks_foreign_read_inside(const struct ks_item *item, uint32_t at, ks_view checkpoint,
                              struct ks_store_lease *lease)
{
    ks_view beside;
    ks_view text;

    if (item->presence[at] == KS_ABSENT)
        return KS_OK;
    KS_TRY(ks_item_text(item, at, &text));
    if (text.size == 0)
        return KS_FAIL(MALFORMED);
    beside = ks_view_cut(&text, ':');
    if (beside.size != 0 && !ks_native_is_decimal(beside, KS_SEQUENCE_MAX))
        return KS_FAIL(MALFORMED);
    /* Members have moved on since. */
    if (!ks_view_equal(beside, checkpoint))
        return KS_OK;
    if ((checkpoint.size != 0 || !read_start(text, &lease->checkpoint)) &&
        !read_inside(text, &lease->checkpoint))
        return KS_FAIL(MALFORMED);
    lease->unstarted = false;
    return KS_OK;
}

ks_err ks_foreign_read_checkpoint(const struct ks_item *item, uint32_t at, ks_view checkpoint,
                                  struct ks_store_lease *lease)
{
    lease->whole.sub_sequence = -1;
    lease->unstarted = checkpoint.size == 0;
    lease->finished = ks_view_equal(checkpoint, KS_VIEW(KS_FOREIGN_END));
    if (lease->finished) {
        lease->checkpoint.kind = KS_POSITION_SHARD_END;
        return KS_OK;
    }
    if (checkpoint.size != 0) {
        if (!ks_native_is_decimal(checkpoint, KS_SEQUENCE_MAX))
            return KS_FAIL(MALFORMED);
        lease->checkpoint.kind = KS_POSITION_AFTER_SEQUENCE;
        KS_TRY(ks_view_copy_text(checkpoint, lease->checkpoint.sequence,
                                 sizeof(lease->checkpoint.sequence)));
    }
    lease->whole = lease->checkpoint;
    return ks_foreign_read_inside(item, at, checkpoint, lease);
}

ks_err ks_foreign_set_text(struct ks_item_write *write, const char *name, ks_view text)
{
    ks_view kept;

    KS_TRY(ks_item_write_keep(write, text, &kept));
    ks_item_write_do(write, KS_DO_SET, name, (struct ks_value){KS_VALUE_TEXT, kept});
    return KS_OK;
}

void ks_foreign_remove(struct ks_item_write *write, const char *name)
{
    ks_item_write_do(write, KS_DO_REMOVE, name, (struct ks_value){KS_VALUE_TEXT, KS_VIEW_NONE});
}

/* Where we go on, beside where members do. */
static ks_err set_inside(struct ks_item_write *write, const struct ks_position *whole,
                         const struct ks_position *exact)
{
    struct ks_bytes inside;
    ks_err err;

    ks_bytes_init(&inside, INSIDE_BYTES);
    err = ks_bytes_format(&inside, "%s:", ks_foreign_is_sequence(whole) ? whole->sequence : "");
    if (ks_ok(err))
        err = ks_native_put_position(&inside, exact);
    if (ks_ok(err) && exact->kind == KS_POSITION_AFTER_SEQUENCE)
        err = ks_bytes_format(&inside, ":%" PRId64, exact->sub_sequence);
    if (ks_ok(err) && exact->kind == KS_POSITION_AT_TIMESTAMP)
        err = ks_bytes_format(&inside, ":%" PRId64, exact->timestamp_ms);
    if (ks_ok(err))
        err = ks_foreign_set_text(write, KS_FOREIGN_SIDECAR, ks_bytes_view(&inside));
    ks_bytes_free(&inside);
    return err;
}

ks_err ks_foreign_set_position(struct ks_item_write *write, const struct ks_store_request *request,
                               const char *checkpoint)
{
    const struct ks_position *whole = &request->whole;
    const struct ks_position *exact = &request->checkpoint;

    if (!request->has_checkpoint)
        return KS_OK;
    if (!ks_foreign_is_sequence(exact))
        return KS_FAIL(INVALID);
    if (ks_foreign_is_sequence(whole))
        KS_TRY(ks_foreign_set_text(write, checkpoint, ks_view_text(whole->sequence)));
    if (ks_foreign_is_sequence(whole) && strcmp(whole->sequence, exact->sequence) == 0) {
        ks_foreign_remove(write, KS_FOREIGN_SIDECAR);
        return KS_OK;
    }
    return set_inside(write, whole, exact);
}

ks_err ks_foreign_set_start(struct ks_item_write *write, const struct ks_store_request *request)
{
    if (request->lease == NULL || !request->lease->begins)
        return KS_OK;
    return set_inside(write, &request->lease->checkpoint, &request->lease->checkpoint);
}

ks_err ks_foreign_mend_position(struct ks_item_write *write, const struct ks_position *whole,
                                const struct ks_position *exact, const char *checkpoint)
{
    const bool known = ks_foreign_is_sequence(whole);

    if (known)
        KS_TRY(ks_foreign_set_text(write, checkpoint, ks_view_text(whole->sequence)));
    else
        ks_foreign_remove(write, checkpoint);
    if (!known || !ks_position_same(whole, exact))
        return set_inside(write, whole, exact);
    ks_foreign_remove(write, KS_FOREIGN_SIDECAR);
    return KS_OK;
}

ks_err ks_foreign_mend_checkpoint(struct ks_item_write *write, const struct ks_store_lease *lease,
                                  const char *checkpoint)
{
    if (!lease->finished && !lease->unstarted)
        return ks_foreign_mend_position(write, &lease->whole, &lease->checkpoint, checkpoint);
    ks_foreign_remove(write, KS_FOREIGN_SIDECAR);
    if (lease->finished)
        return ks_foreign_set_text(write, checkpoint, KS_VIEW(KS_FOREIGN_END));
    ks_foreign_remove(write, checkpoint);
    return KS_OK;
}

ks_err ks_foreign_mend_id(struct ks_item_write *write, const char *name,
                          const struct ks_incarnation_text *who)
{
    ks_view id;

    if (who->id[0] == '\0') {
        ks_foreign_remove(write, name);
        return KS_OK;
    }
    KS_TRY(ks_foreign_keep_id(write, who, &id));
    return ks_foreign_set_text(write, name, id);
}

/* ---- The calendar ---- */

bool ks_foreign_is_leap(unsigned year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

unsigned ks_foreign_days_of(unsigned year, unsigned month)
{
    static const unsigned days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && ks_foreign_is_leap(year));
}

struct ks_foreign_date ks_foreign_date(uint64_t days)
{
    struct ks_foreign_date date = {1970, 1, 1};

    for (; days >= (ks_foreign_is_leap(date.year) ? 366U : 365U); date.year++)
        days -= ks_foreign_is_leap(date.year) ? 366 : 365;
    for (; days >= ks_foreign_days_of(date.year, date.month); date.month++)
        days -= ks_foreign_days_of(date.year, date.month);
    date.day += (unsigned)days;
    return date;
}

/* ---- Rows of shards ---- */

ks_err ks_foreign_read(const struct ks_store_request *request, const char **ret_partition,
                       struct ks_item_keys *ret_keys)
{
    *ret_partition = NULL;
    *ret_keys = (struct ks_item_keys){.count = 0};
    if (request->operation == KS_STORE_READ_LEASES)
        return KS_OK;
    if (request->operation != KS_STORE_READ_LEASE)
        return KS_FAIL(INVALID); /* Such rows there are none. */
    return ks_item_keys_add(ret_keys, ks_view_text(request->shard));
}

ks_err ks_foreign_write(const struct ks_store_request *request, const char *key,
                        ks_err (*fill)(struct ks_item_write *write,
                                       const struct ks_store_request *request),
                        struct ks_item_write *ret_write, struct ks_detail *ret_detail)
{
    ks_err err;

    *ret_write = (struct ks_item_write){.p = NULL};
    if (request->shard == NULL || !ks_native_is_shard(ks_view_text(request->shard))) {
        ks_detail_set(ret_detail, "%s: not a shard id",
                      ks_store_operation_name(request->operation));
        return KS_FAIL(INVALID);
    }
    KS_TRY(ks_item_write_init(ret_write, NULL, request->shard, TEXT_BYTES));
    ret_write->key = key;
    err = fill(ret_write, request);
    if (!ks_ok(err))
        ks_detail_set(ret_detail, "%s of %s: %s", ks_store_operation_name(request->operation),
                      request->shard, ks_err_text(err));
    return err;
}
