/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/item.h"

#include <assert.h>

void ks_item_init(struct ks_item *item, const struct ks_schema *schema)
{
    assert(schema->count <= KS_ITEM_ATTRIBUTES_MAX);

    *item = (struct ks_item){.schema = schema};
}

uint32_t ks_schema_find(const struct ks_schema *schema, ks_view name)
{
    uint32_t at = 0;

    while (at < schema->count && !ks_view_equal(ks_view_text(schema->attributes[at].name), name))
        at++;
    return at;
}

ks_err ks_item_text(const struct ks_item *item, uint32_t index, ks_view *ret_text)
{
    assert(index < item->schema->count);

    if (item->asked != NULL)
        *item->asked = index;
    if (item->presence[index] == KS_ABSENT)
        return KS_FAIL(NOT_FOUND);
    if (item->presence[index] == KS_STRANGE)
        return KS_FAIL(MALFORMED);

    *ret_text = item->texts[index];
    return KS_OK;
}

ks_err ks_item_types(const struct ks_item *item)
{
    ks_view text;

    for (uint32_t at = 0; at < item->schema->count; at++)
        if (item->presence[at] == KS_STRANGE)
            return ks_item_text(item, at, &text);
    return KS_OK;
}

ks_err ks_item_signed(const struct ks_item *item, uint32_t index, int64_t *ret_number)
{
    ks_view text;

    assert(item->schema->attributes[index].type == KS_VALUE_NUMBER);

    KS_TRY(ks_item_text(item, index, &text));
    if (!ks_ok(ks_view_i64(text, ret_number)))
        return KS_FAIL(MALFORMED);
    return KS_OK;
}

ks_err ks_item_number(const struct ks_item *item, uint32_t index, uint64_t *ret_number)
{
    int64_t number;

    KS_TRY(ks_item_signed(item, index, &number));
    if (number < 0)
        return KS_FAIL(MALFORMED);

    *ret_number = (uint64_t)number;
    return KS_OK;
}

ks_err ks_item_flag(const struct ks_item *item, uint32_t index, bool *ret_flag)
{
    ks_view text;

    assert(item->schema->attributes[index].type == KS_VALUE_BOOL);

    KS_TRY(ks_item_text(item, index, &text));
    *ret_flag = ks_view_equal(text, KS_VIEW("true"));
    return KS_OK;
}

ks_err ks_item_keys_add(struct ks_item_keys *keys, ks_view key)
{
    for (uint32_t at = 0; at < keys->count; at++)
        if (ks_view_equal(ks_view_text(keys->texts[at]), key))
            return KS_OK;
    if (keys->count == KS_ITEM_KEYS_MAX)
        return KS_FAIL(FULL);
    if (key.size == 0 ||
        !ks_ok(ks_view_copy_text(key, keys->texts[keys->count], sizeof(keys->texts[0]))))
        return KS_FAIL(INVALID);

    keys->count++;
    return KS_OK;
}

ks_err ks_item_write_init(struct ks_item_write *write, const char *p, const char *k,
                          size_t text_bytes)
{
    *write = (struct ks_item_write){.p = p};
    ks_bytes_init(&write->texts, text_bytes);
    if (k[0] == '\0' || !ks_ok(ks_view_copy_text(ks_view_text(k), write->k, sizeof(write->k))))
        return KS_FAIL(INVALID);
    return ks_bytes_reserve(&write->texts, text_bytes);
}

void ks_item_write_free(struct ks_item_write *write)
{
    if (write != NULL)
        ks_bytes_free(&write->texts);
}

ks_err ks_item_write_keep(struct ks_item_write *write, ks_view view, ks_view *ret_kept)
{
    const size_t at = write->texts.size;
    const uint8_t *const before = write->texts.data;

    KS_TRY(ks_bytes_append(&write->texts, view));
    assert(write->texts.data == before);

    *ret_kept = ks_view_of(write->texts.data + at, view.size);
    return KS_OK;
}

void ks_item_write_if(struct ks_item_write *write, enum ks_condition_kind kind, const char *name,
                      struct ks_value value)
{
    assert(write->condition_count < KS_ITEM_CONDITIONS_MAX);

    write->conditions[write->condition_count++] =
        (struct ks_condition){.kind = kind, .name = name, .value = value};
}

void ks_item_write_do(struct ks_item_write *write, enum ks_update_kind kind, const char *name,
                      struct ks_value value)
{
    assert(write->update_count < KS_ITEM_UPDATES_MAX);
    assert(!write->delete_row);

    write->updates[write->update_count++] =
        (struct ks_update){.kind = kind, .name = name, .value = value};
}

void ks_item_written(const struct ks_item_write *write, const struct ks_schema *schema,
                     struct ks_item *ret_item)
{
    assert(!write->delete_row);

    ks_item_init(ret_item, schema);
    ret_item->p = ks_view_text(write->p == NULL ? "" : write->p);
    ret_item->k = ks_view_text(write->k);
    for (uint32_t i = 0; i < write->update_count; i++) {
        const struct ks_update *const update = &write->updates[i];
        const uint32_t at = ks_schema_find(schema, ks_view_text(update->name));

        if (update->kind != KS_DO_SET || at == schema->count)
            continue;
        ret_item->presence[at] =
            update->value.type == schema->attributes[at].type ? KS_PRESENT : KS_STRANGE;
        ret_item->texts[at] = update->value.text;
    }
}

bool ks_item_write_may_create(const struct ks_item_write *write)
{
    if (write->delete_row)
        return false;
    for (uint32_t at = 0; at < write->condition_count; at++) {
        const enum ks_condition_kind kind = write->conditions[at].kind;

        if (kind != KS_IF_ABSENT && kind != KS_IF_ABSENT_OR_NULL && kind != KS_IF_EQUALS_OR_ABSENT)
            return false;
    }
    return true;
}

bool ks_set_has(ks_view set, ks_view member)
{
    while (set.size != 0)
        if (ks_view_equal(ks_view_cut(&set, '\n'), member))
            return true;
    return false;
}

ks_err ks_set_append(struct ks_bytes *set, ks_view member)
{
    if (member.size == 0 || memchr(member.data, '\n', member.size) != NULL)
        return KS_FAIL(MALFORMED);
    KS_TRY(ks_bytes_reserve(set, member.size + 1));
    if (set->size != 0)
        KS_TRY(ks_bytes_append_byte(set, '\n'));
    return ks_bytes_append(set, member);
}

/* Appends the members of `from` that are not in `but`. */
static ks_err append_others(struct ks_bytes *set, ks_view from, ks_view but)
{
    while (from.size != 0) {
        const ks_view member = ks_view_cut(&from, '\n');

        if (member.size != 0 && !ks_set_has(but, member))
            KS_TRY(ks_set_append(set, member));
    }
    return KS_OK;
}

ks_err ks_set_with(ks_view set, ks_view members, struct ks_bytes *ret_set)
{
    KS_TRY(append_others(ret_set, set, KS_VIEW_NONE));
    return append_others(ret_set, members, set);
}

ks_err ks_set_without(ks_view set, ks_view members, struct ks_bytes *ret_set)
{
    return append_others(ret_set, set, members);
}
