/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/go_kcl.h"

#include "adapters/dialects/foreign.h"
#include "adapters/dialects/native_words.h"

#include <assert.h>
#include <inttypes.h>

enum attribute { ASSIGNED_TO, LEASE_TIMEOUT, CHECKPOINT, PARENT, CLAIM, SIDECAR, ATTRIBUTES };

static const struct ks_attribute attributes[ATTRIBUTES] = {
    [ASSIGNED_TO] = {"AssignedTo", KS_VALUE_TEXT},
    [LEASE_TIMEOUT] = {"LeaseTimeout", KS_VALUE_TEXT},
    [CHECKPOINT] = {"Checkpoint", KS_VALUE_TEXT},
    [PARENT] = {"ParentShardId", KS_VALUE_TEXT},
    [CLAIM] = {"ClaimRequest", KS_VALUE_TEXT},
    [SIDECAR] = {KS_FOREIGN_SIDECAR, KS_VALUE_TEXT},
};

static const struct ks_schema schema = {
    .attributes = attributes, .count = ATTRIBUTES, .key = KS_GO_KCL_KEY};

#define SHARD_END KS_VIEW(KS_FOREIGN_END)

/* ---- Times ---- */

#define NS_PER_SECOND UINT64_C(1000000000)
#define ZERO_TIME "0001-01-01T00:00:00Z"
enum { ZERO_TIME_NS = 1, LAST_YEAR = 2261, SECONDS_PER_DAY = 86400 };

/* Two or four digits, and what must stand behind them. */
static bool cut_number(ks_view *text, size_t digits, char behind, unsigned *ret_number)
{
    unsigned number = 0;

    if (text->size <= digits || (behind != '\0' && text->data[digits] != (uint8_t)behind))
        return false;
    for (size_t at = 0; at < digits; at++) {
        if (text->data[at] < '0' || text->data[at] > '9')
            return false;
        number = number * 10 + (unsigned)(text->data[at] - '0');
    }
    text->data += digits + (behind != '\0');
    text->size -= digits + (behind != '\0');
    *ret_number = number;
    return true;
}

/* ".123" or nothing, and the Z. */
static bool cut_fraction(ks_view text, uint64_t *ret_ns)
{
    uint64_t unit = NS_PER_SECOND;
    uint64_t ns = 0;
    size_t at = 0;

    if (text.size == 0 || text.data[text.size - 1] != 'Z')
        return false;
    text.size--;
    *ret_ns = 0;
    if (text.size == 0)
        return true;
    if (text.data[0] != '.' || text.size < 2 || text.size > 10 || text.data[text.size - 1] == '0')
        return false;
    for (at = 1; at < text.size; at++) {
        if (text.data[at] < '0' || text.data[at] > '9')
            return false;
        unit /= 10;
        ns += (uint64_t)(text.data[at] - '0') * unit;
    }
    *ret_ns = ns;
    return true;
}

ks_err ks_go_kcl_get_time(ks_view text, uint64_t *ret_ns)
{
    unsigned year, month, day, hour, minute, second;
    uint64_t days = 0;
    uint64_t fraction;

    if (ks_view_equal(text, KS_VIEW(ZERO_TIME))) {
        *ret_ns = ZERO_TIME_NS;
        return KS_OK;
    }
    if (!cut_number(&text, 4, '-', &year) || !cut_number(&text, 2, '-', &month) ||
        !cut_number(&text, 2, 'T', &day) || !cut_number(&text, 2, ':', &hour) ||
        !cut_number(&text, 2, ':', &minute) || !cut_number(&text, 2, '\0', &second) ||
        !cut_fraction(text, &fraction))
        return KS_FAIL(MALFORMED);
    if (year < 1970 || year > LAST_YEAR || month < 1 || month > 12 || day < 1 ||
        day > ks_foreign_days_of(year, month) || hour > 23 || minute > 59 || second > 59)
        return KS_FAIL(MALFORMED);
    for (unsigned y = 1970; y < year; y++)
        days += ks_foreign_is_leap(y) ? 366 : 365;
    for (unsigned m = 1; m < month; m++)
        days += ks_foreign_days_of(year, m);
    days += day - 1;
    fraction += (((days * 24 + hour) * 60 + minute) * 60 + second) * NS_PER_SECOND;
    /* These two are other spellings here. */
    if (fraction <= ZERO_TIME_NS)
        return KS_FAIL(MALFORMED);
    *ret_ns = fraction;
    return KS_OK;
}

ks_err ks_go_kcl_put_time(struct ks_bytes *bytes, uint64_t ns)
{
    uint64_t seconds = ns / NS_PER_SECOND;
    struct ks_foreign_date date = ks_foreign_date(seconds / SECONDS_PER_DAY);
    uint64_t fraction = ns % NS_PER_SECOND;
    unsigned digits = 9;

    assert(ns != 0);
    if (ns == ZERO_TIME_NS)
        return ks_bytes_append(bytes, KS_VIEW(ZERO_TIME));
    if (date.year > LAST_YEAR)
        return KS_FAIL(INVALID);
    seconds %= SECONDS_PER_DAY;
    KS_TRY(ks_bytes_format(bytes, "%04u-%02u-%02uT%02u:%02u:%02u", date.year, date.month, date.day,
                           (unsigned)(seconds / 3600), (unsigned)(seconds / 60 % 60),
                           (unsigned)(seconds % 60)));
    for (; fraction != 0 && fraction % 10 == 0; digits--)
        fraction /= 10;
    if (fraction != 0)
        KS_TRY(ks_bytes_format(bytes, ".%0*" PRIu64, (int)digits, fraction));
    return ks_bytes_append_byte(bytes, 'Z');
}

/* ---- Reading ---- */

static ks_err read_lease(const struct ks_item *item, struct ks_store_lease *lease)
{
    ks_view checkpoint = KS_VIEW_NONE;
    ks_view text;

    if (!ks_native_is_shard(item->k))
        return KS_FAIL(MALFORMED);
    KS_TRY(ks_foreign_read_id(item, ASSIGNED_TO, &lease->owner));
    KS_TRY(ks_foreign_read_id(item, CLAIM, &lease->next_owner));
    if (item->presence[LEASE_TIMEOUT] != KS_ABSENT) {
        KS_TRY(ks_item_text(item, LEASE_TIMEOUT, &text));
        KS_TRY(ks_go_kcl_get_time(text, &lease->rev));
    }
    if (item->presence[PARENT] != KS_ABSENT) {
        KS_TRY(ks_item_text(item, PARENT, &text));
        if (text.size != 0 && !ks_native_is_shard(text))
            return KS_FAIL(MALFORMED);
        KS_TRY(ks_view_copy_text(text, lease->parents[0], sizeof(lease->parents[0])));
    }
    if (item->presence[CHECKPOINT] != KS_ABSENT)
        KS_TRY(ks_item_text(item, CHECKPOINT, &checkpoint));
    return ks_foreign_read_checkpoint(item, SIDECAR, checkpoint, lease);
}

static ks_err add(struct ks_native_rows *rows, const struct ks_item *item,
                  struct ks_detail *ret_detail)
{
    struct ks_store_lease lease = {.checkpoint.sub_sequence = -1};

    (void)ret_detail;
    return ks_native_rows_add_lease(rows, item, read_lease(item, &lease), &lease);
}

/* ---- Writing ---- */

static struct ks_value text_value(ks_view text)
{
    return (struct ks_value){KS_VALUE_TEXT, text};
}

/* The attribute names this one, or nobody if there is no id. */
static ks_err if_names(struct ks_item_write *write, enum attribute at,
                       const struct ks_incarnation_text *who)
{
    return ks_foreign_if_names(write, attributes[at].name, KS_IF_ABSENT, who);
}

static ks_err keep_time(struct ks_item_write *write, uint64_t ns, ks_view *ret_text)
{
    struct ks_bytes bytes;
    ks_err err;

    ks_bytes_init(&bytes, 64);
    err = ks_go_kcl_put_time(&bytes, ns);
    if (ks_ok(err))
        err = ks_item_write_keep(write, ks_bytes_view(&bytes), ret_text);
    ks_bytes_free(&bytes);
    return err;
}

static ks_err if_time(struct ks_item_write *write, uint64_t ns)
{
    ks_view text;

    if (ns == 0) {
        ks_item_write_if(write, KS_IF_ABSENT, attributes[LEASE_TIMEOUT].name,
                         text_value(KS_VIEW_NONE));
        return KS_OK;
    }
    KS_TRY(keep_time(write, ns, &text));
    ks_item_write_if(write, KS_IF_EQUALS, attributes[LEASE_TIMEOUT].name, text_value(text));
    return KS_OK;
}

static ks_err set_time(struct ks_item_write *write, uint64_t ns)
{
    ks_view text;

    KS_TRY(keep_time(write, ns, &text));
    ks_item_write_do(write, KS_DO_SET, attributes[LEASE_TIMEOUT].name, text_value(text));
    return KS_OK;
}

/* Free, or run out: the row must be exactly as it was read. */
static ks_err take(struct ks_item_write *write, const struct ks_store_request *request)
{
    static const struct ks_incarnation_text nobody;
    const bool owned = request->operation == KS_STORE_TAKE_OVER;
    ks_view me;

    KS_TRY(if_names(write, ASSIGNED_TO, owned ? &request->owner : &nobody));
    KS_TRY(if_time(write, request->rev));
    KS_TRY(if_names(write, CLAIM, &request->next_owner));
    KS_TRY(ks_foreign_keep_id(write, &request->worker, &me));
    ks_item_write_do(write, KS_DO_SET, attributes[ASSIGNED_TO].name, text_value(me));
    KS_TRY(set_time(write, request->next_rev));
    if (request->lease != NULL && request->lease->parents[0][0] != '\0')
        KS_TRY(ks_foreign_set_text(write, attributes[PARENT].name,
                                   ks_view_text(request->lease->parents[0])));
    if (request->lease != NULL && request->lease->unstarted) {
        ks_item_write_if(write, KS_IF_EQUALS_OR_ABSENT, attributes[CHECKPOINT].name,
                         text_value(KS_VIEW("")));
        KS_TRY(ks_foreign_set_text(write, attributes[CHECKPOINT].name, KS_VIEW("")));
    }
    KS_TRY(ks_foreign_set_start(write, request));
    ks_foreign_remove(write, attributes[CLAIM].name);
    return KS_OK;
}

/* Ours, and as we wrote it last. */
static ks_err if_ours(struct ks_item_write *write, const struct ks_store_request *request)
{
    KS_TRY(if_names(write, ASSIGNED_TO, &request->worker));
    return if_time(write, request->rev);
}

static ks_err claim(struct ks_item_write *write, const struct ks_store_request *request)
{
    static const struct ks_incarnation_text nobody;
    const bool withdraws = request->next_owner.id[0] == '\0';

    KS_TRY(if_names(write, CLAIM, withdraws ? &request->worker : &nobody));
    if (withdraws) {
        ks_foreign_remove(write, attributes[CLAIM].name);
        return KS_OK;
    }
    KS_TRY(if_names(write, ASSIGNED_TO, &request->owner));
    KS_TRY(if_time(write, request->rev));
    return ks_foreign_set_text(write, attributes[CLAIM].name,
                               ks_view_text(request->next_owner.id)); /* Ours. */
}

static ks_err if_checkpoint(struct ks_item_write *write, const struct ks_store_request *request)
{
    const bool ends = request->checkpoint.kind == KS_POSITION_SHARD_END;
    ks_view text = ends ? SHARD_END : KS_VIEW("");

    if (!ends && ks_foreign_is_sequence(&request->whole))
        KS_TRY(ks_item_write_keep(write, ks_view_text(request->whole.sequence), &text));
    ks_item_write_if(write, text.size == 0 ? KS_IF_EQUALS_OR_ABSENT : KS_IF_EQUALS,
                     attributes[CHECKPOINT].name, text_value(text));
    return KS_OK;
}

/* The row is as it was read: also its checkpoint, for members write that without asking. */
static ks_err if_as_read(struct ks_item_write *write, const struct ks_store_request *request)
{
    if (!request->exists) {
        ks_item_write_if(write, KS_IF_ABSENT, KS_GO_KCL_KEY, text_value(KS_VIEW_NONE));
        return KS_OK;
    }
    KS_TRY(if_names(write, ASSIGNED_TO, &request->owner));
    KS_TRY(if_names(write, CLAIM, &request->next_owner));
    KS_TRY(if_time(write, request->rev));
    return if_checkpoint(write, request);
}

static ks_err mend(struct ks_item_write *write, const struct ks_store_request *request)
{
    const struct ks_store_lease *const lease = request->lease;

    KS_TRY(if_as_read(write, request));
    KS_TRY(ks_foreign_mend_id(write, attributes[ASSIGNED_TO].name, &lease->owner));
    KS_TRY(ks_foreign_mend_id(write, attributes[CLAIM].name, &lease->next_owner));
    if (lease->rev == 0)
        ks_foreign_remove(write, attributes[LEASE_TIMEOUT].name);
    else
        KS_TRY(set_time(write, lease->rev));
    if (lease->parents[0][0] == '\0')
        ks_foreign_remove(write, attributes[PARENT].name);
    else
        KS_TRY(
            ks_foreign_set_text(write, attributes[PARENT].name, ks_view_text(lease->parents[0])));
    return ks_foreign_mend_checkpoint(write, lease, attributes[CHECKPOINT].name);
}

static ks_err fill(struct ks_item_write *write, const struct ks_store_request *request)
{
    switch ((int)request->operation) {
    case KS_STORE_ASSIGN:
    case KS_STORE_TAKE_OVER: return take(write, request);
    case KS_STORE_PLAN: return claim(write, request);
    case KS_STORE_CHECKPOINT:
        KS_TRY(if_ours(write, request));
        KS_TRY(if_names(write, CLAIM, &request->next_owner));
        KS_TRY(set_time(write, request->next_rev));
        return ks_foreign_set_position(write, request, attributes[CHECKPOINT].name);
    case KS_STORE_FINAL:
        KS_TRY(if_ours(write, request));
        ks_foreign_remove(write, attributes[ASSIGNED_TO].name);
        return ks_foreign_set_position(write, request, attributes[CHECKPOINT].name);
    case KS_STORE_END:
        KS_TRY(if_ours(write, request));
        ks_foreign_remove(write, attributes[ASSIGNED_TO].name);
        ks_foreign_remove(write, attributes[SIDECAR].name);
        return ks_foreign_set_text(write, attributes[CHECKPOINT].name, SHARD_END);
    case KS_STORE_DELETE:
        ks_item_write_if(write, KS_IF_EQUALS, attributes[CHECKPOINT].name, text_value(SHARD_END));
        write->delete_row = true;
        return KS_OK;
    case KS_STORE_MEND: return mend(write, request);
    default: return KS_FAIL(UNSUPPORTED);
    }
}

static ks_err write_row(const struct ks_store_request *request, struct ks_item_write *ret_write,
                        struct ks_detail *ret_detail)
{
    return ks_foreign_write(request, KS_GO_KCL_KEY, fill, ret_write, ret_detail);
}

const struct ks_dialect ks_go_kcl_dialect = {.name = "go-kcl",
                                             .tables = {{"", &schema, false}},
                                             .table_count = 1,
                                             .rev = KS_REV_UNTIL,
                                             .keeps_apart = true,
                                             .read = ks_foreign_read,
                                             .write = write_row,
                                             .add = add};
