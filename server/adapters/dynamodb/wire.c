/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dynamodb/wire.h"

#include "base/json_writer.h"

#include <assert.h>

enum {
    EXPRESSION_MAX = 4096 /* Of DynamoDB itself. */
};

static ks_view text(const char *string)
{
    return ks_view_text(string);
}

/* --- Values --- */

static void put_series(struct ks_writer *json, ks_view lines)
{
    ks_writer_key(json, "M");
    ks_writer_open(json, '{');
    while (lines.size != 0) {
        ks_view numbers = ks_view_cut(&lines, '\n');

        ks_writer_key_text(json, ks_view_cut(&numbers, ' '));
        ks_writer_open(json, '{');
        ks_writer_key(json, "L");
        ks_writer_open(json, '[');
        while (numbers.size != 0) {
            ks_writer_open(json, '{');
            ks_writer_pair(json, "N", ks_view_cut(&numbers, ' '));
            ks_writer_close(json, '}');
        }
        ks_writer_close(json, ']');
        ks_writer_close(json, '}');
    }
    ks_writer_close(json, '}');
}

/* An object with one member: "S": "text" and so on. */
static void put_value(struct ks_writer *json, struct ks_value value)
{
    ks_view members = value.text;

    ks_writer_open(json, '{');
    switch (value.type) {
    case KS_VALUE_TEXT: ks_writer_pair(json, "S", value.text); break;
    case KS_VALUE_NUMBER: ks_writer_pair(json, "N", value.text); break;
    case KS_VALUE_BOOL:
        ks_writer_key(json, "BOOL");
        ks_writer_bool(json, ks_view_equal(value.text, KS_VIEW("true")));
        break;
    case KS_VALUE_SET:
        ks_writer_key(json, "SS");
        ks_writer_open(json, '[');
        while (members.size != 0)
            ks_writer_text(json, ks_view_cut(&members, '\n'));
        ks_writer_close(json, ']');
        break;
    case KS_VALUE_LIST:
        ks_writer_key(json, "L");
        ks_writer_open(json, '[');
        while (members.size != 0) {
            ks_writer_open(json, '{');
            ks_writer_pair(json, "S", ks_view_cut(&members, '\n'));
            ks_writer_close(json, '}');
        }
        ks_writer_close(json, ']');
        break;
    case KS_VALUE_SERIES: put_series(json, value.text); break;
    }
    ks_writer_close(json, '}');
}

static void put_text_value(struct ks_writer *json, const char *name, ks_view value)
{
    ks_writer_key(json, name);
    put_value(json, (struct ks_value){KS_VALUE_TEXT, value});
}

/* Its key: `p` and `k`, or the one attribute `key`. */
static void put_row(struct ks_writer *json, const char *key, const char *p, ks_view k)
{
    ks_writer_open(json, '{');
    if (key == NULL)
        put_text_value(json, "p", text(p));
    put_text_value(json, key == NULL ? "k" : key, k);
    ks_writer_close(json, '}');
}

static void put_key(struct ks_writer *json, const char *name, const char *key, const char *p,
                    ks_view k)
{
    ks_writer_key(json, name);
    put_row(json, key, p, k);
}

/* --- Expressions --- */

/* An expression under construction; the placeholder of an attribute is "#" and its name. */
static ks_err put_in(struct ks_bytes *expression, const struct ks_condition *condition,
                     uint32_t number)
{
    ks_view members = condition->value.text;

    KS_TRY(ks_bytes_format(expression, "#%s IN (", condition->name));
    for (uint32_t at = 0; members.size != 0; at++) {
        (void)ks_view_cut(&members, '\n');
        KS_TRY(ks_bytes_format(expression, "%s:c%u_%u", at == 0 ? "" : ", ", number, at));
    }
    return ks_bytes_append_byte(expression, ')');
}

static ks_err put_condition(struct ks_bytes *expression, const struct ks_condition *condition,
                            uint32_t number)
{
    const char *const name = condition->name;

    switch (condition->kind) {
    case KS_IF_EQUALS: return ks_bytes_format(expression, "#%s = :c%u", name, number);
    case KS_IF_EQUALS_OR_ABSENT:
        return ks_bytes_format(expression, "(attribute_not_exists(#%s) OR #%s = :c%u)", name, name,
                               number);
    case KS_IF_EXISTS: return ks_bytes_format(expression, "attribute_exists(#%s)", name);
    case KS_IF_ABSENT: return ks_bytes_format(expression, "attribute_not_exists(#%s)", name);
    case KS_IF_IN: return put_in(expression, condition, number);
    case KS_IF_ABSENT_OR_NULL:
        return ks_bytes_format(expression,
                               "(attribute_not_exists(#%s) OR attribute_type(#%s, :c%u))", name,
                               name, number);
    }
    assert(false);
    return KS_FAIL(INVALID);
}

static ks_err put_conditions(struct ks_bytes *expression, const struct ks_item_write *write)
{
    for (uint32_t at = 0; at < write->condition_count; at++) {
        if (at != 0)
            KS_TRY(ks_bytes_append(expression, KS_VIEW(" AND ")));
        KS_TRY(put_condition(expression, &write->conditions[at], at));
    }
    return KS_OK;
}

/* The updates of one kind: a clause, or nothing. */
static ks_err put_clause(struct ks_bytes *expression, const struct ks_item_write *write,
                         enum ks_update_kind kind)
{
    static const char *const words[] = {[KS_DO_SET] = "SET",
                                        [KS_DO_REMOVE] = "REMOVE",
                                        [KS_DO_ADD] = "ADD",
                                        [KS_DO_DELETE] = "DELETE"};
    bool begun = false;

    for (uint32_t at = 0; at < write->update_count; at++) {
        const char *const name = write->updates[at].name;

        if (write->updates[at].kind != kind)
            continue;
        if (begun)
            KS_TRY(ks_bytes_append_byte(expression, ','));
        else
            KS_TRY(
                ks_bytes_format(expression, "%s%s", expression->size == 0 ? "" : " ", words[kind]));
        begun = true;
        if (kind == KS_DO_SET)
            KS_TRY(ks_bytes_format(expression, " #%s = :u%u", name, at));
        else if (kind == KS_DO_REMOVE)
            KS_TRY(ks_bytes_format(expression, " #%s", name));
        else
            KS_TRY(ks_bytes_format(expression, " #%s :u%u", name, at));
    }
    return KS_OK;
}

static ks_err put_updates(struct ks_bytes *expression, const struct ks_item_write *write)
{
    KS_TRY(put_clause(expression, write, KS_DO_SET));
    KS_TRY(put_clause(expression, write, KS_DO_REMOVE));
    KS_TRY(put_clause(expression, write, KS_DO_ADD));
    return put_clause(expression, write, KS_DO_DELETE);
}

/* Name `at` of a write, conditions before updates; NULL behind the last. */
static const char *name_at(const struct ks_item_write *write, uint32_t at)
{
    if (at < write->condition_count)
        return write->conditions[at].name;
    at -= write->condition_count;
    return at < write->update_count ? write->updates[at].name : NULL;
}

static bool named_before(const struct ks_item_write *write, uint32_t at)
{
    for (uint32_t before = 0; before < at; before++)
        if (strcmp(name_at(write, before), name_at(write, at)) == 0)
            return true;
    return false;
}

static ks_err put_names(struct ks_writer *json, const struct ks_item_write *write,
                        struct ks_bytes *placeholder)
{
    ks_writer_key(json, "ExpressionAttributeNames");
    ks_writer_open(json, '{');
    for (uint32_t at = 0; name_at(write, at) != NULL; at++) {
        if (named_before(write, at))
            continue;
        ks_bytes_clear(placeholder);
        KS_TRY(ks_bytes_format(placeholder, "#%s", name_at(write, at)));
        ks_writer_key_text(json, ks_bytes_view(placeholder));
        ks_writer_text(json, text(name_at(write, at)));
    }
    ks_writer_close(json, '}');
    return KS_OK;
}

static void put_named_value(struct ks_writer *json, const struct ks_bytes *placeholder,
                            struct ks_value value)
{
    ks_writer_key_text(json, ks_bytes_view(placeholder));
    put_value(json, value);
}

static ks_err put_condition_values(struct ks_writer *json, const struct ks_condition *condition,
                                   uint32_t number, struct ks_bytes *placeholder)
{
    ks_view members = condition->value.text;

    if (condition->kind == KS_IF_EXISTS || condition->kind == KS_IF_ABSENT)
        return KS_OK;
    if (condition->kind != KS_IF_IN) {
        ks_bytes_clear(placeholder);
        KS_TRY(ks_bytes_format(placeholder, ":c%u", number));
        put_named_value(json, placeholder,
                        condition->kind == KS_IF_ABSENT_OR_NULL
                            ? (struct ks_value){KS_VALUE_TEXT, KS_VIEW("NULL")}
                            : condition->value);
        return KS_OK;
    }
    for (uint32_t at = 0; members.size != 0; at++) {
        ks_bytes_clear(placeholder);
        KS_TRY(ks_bytes_format(placeholder, ":c%u_%u", number, at));
        put_named_value(json, placeholder,
                        (struct ks_value){KS_VALUE_TEXT, ks_view_cut(&members, '\n')});
    }
    return KS_OK;
}

/* An empty map is refused by DynamoDB. */
static bool has_values(const struct ks_item_write *write)
{
    for (uint32_t at = 0; at < write->condition_count; at++)
        if (write->conditions[at].kind != KS_IF_EXISTS &&
            write->conditions[at].kind != KS_IF_ABSENT)
            return true;
    for (uint32_t at = 0; at < write->update_count; at++)
        if (write->updates[at].kind != KS_DO_REMOVE)
            return true;
    return false;
}

static ks_err put_values(struct ks_writer *json, const struct ks_item_write *write,
                         struct ks_bytes *placeholder)
{
    if (!has_values(write))
        return KS_OK;
    ks_writer_key(json, "ExpressionAttributeValues");
    ks_writer_open(json, '{');
    for (uint32_t at = 0; at < write->condition_count; at++)
        KS_TRY(put_condition_values(json, &write->conditions[at], at, placeholder));
    for (uint32_t at = 0; at < write->update_count; at++) {
        if (write->updates[at].kind == KS_DO_REMOVE)
            continue;
        ks_bytes_clear(placeholder);
        KS_TRY(ks_bytes_format(placeholder, ":u%u", at));
        put_named_value(json, placeholder, write->updates[at].value);
    }
    ks_writer_close(json, '}');
    return KS_OK;
}

/* --- Requests --- */

const char *ks_dynamodb_write_operation(const struct ks_item_write *write)
{
    return write->delete_row ? "DeleteItem" : "UpdateItem";
}

/* `scratch` holds an expression or a placeholder at a time. */
static ks_err put_write(struct ks_bytes *body, const char *table, const struct ks_item_write *write,
                        bool tells, struct ks_bytes *scratch)
{
    struct ks_writer json;

    /* Without one it would make rows, or delete any (PROTOCOL S6). */
    assert((write->condition_count != 0) != write->unconditional);

    ks_writer_begin_strict(&json, body);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "TableName", text(table));
    put_key(&json, "Key", write->key, write->p, text(write->k));
    KS_TRY(put_conditions(scratch, write));
    if (scratch->size != 0)
        ks_writer_pair(&json, "ConditionExpression", ks_bytes_view(scratch));
    ks_bytes_clear(scratch);
    KS_TRY(put_updates(scratch, write));
    if (scratch->size != 0)
        ks_writer_pair(&json, "UpdateExpression", ks_bytes_view(scratch));
    if (name_at(write, 0) != NULL)
        KS_TRY(put_names(&json, write, scratch));
    KS_TRY(put_values(&json, write, scratch));
    ks_writer_pair(&json, "ReturnValues", tells ? KS_VIEW("ALL_NEW") : KS_VIEW("NONE"));
    if (!write->unconditional)
        ks_writer_pair(&json, "ReturnValuesOnConditionCheckFailure", KS_VIEW("ALL_OLD"));
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}

ks_err ks_dynamodb_put_write(struct ks_bytes *body, const char *table,
                             const struct ks_item_write *write, bool tells)
{
    struct ks_bytes scratch;
    ks_err err;

    ks_bytes_init(&scratch, EXPRESSION_MAX);
    err = put_write(body, table, write, tells, &scratch);
    ks_bytes_free(&scratch);
    return err;
}

ks_err ks_dynamodb_put_get(struct ks_bytes *body, const char *table, const char *key, const char *p,
                           const char *k)
{
    struct ks_writer json;

    ks_writer_begin_strict(&json, body);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "TableName", text(table));
    put_key(&json, "Key", key, p, text(k));
    ks_writer_key(&json, "ConsistentRead");
    ks_writer_bool(&json, true);
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}

ks_err ks_dynamodb_put_batch_get(struct ks_bytes *body, const char *table, const char *key,
                                 const char *p, const struct ks_item_keys *keys)
{
    struct ks_writer json;

    assert(keys->count != 0);

    ks_writer_begin_strict(&json, body);
    ks_writer_open(&json, '{');
    ks_writer_key(&json, "RequestItems");
    ks_writer_open(&json, '{');
    ks_writer_key_text(&json, text(table));
    ks_writer_open(&json, '{');
    ks_writer_key(&json, "Keys");
    ks_writer_open(&json, '[');
    for (uint32_t at = 0; at < keys->count; at++)
        put_row(&json, key, p, text(keys->texts[at]));
    ks_writer_close(&json, ']');
    if (key != NULL) {
        ks_writer_key(&json, "ConsistentRead");
        ks_writer_bool(&json, true);
    }
    ks_writer_close(&json, '}');
    ks_writer_close(&json, '}');
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}

ks_err ks_dynamodb_put_query(struct ks_bytes *body, const char *table, const char *p, ks_view after,
                             bool consistent)
{
    struct ks_writer json;

    ks_writer_begin_strict(&json, body);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "TableName", text(table));
    ks_writer_pair(&json, "KeyConditionExpression", KS_VIEW("#p = :p"));
    ks_writer_key(&json, "ExpressionAttributeNames");
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "#p", KS_VIEW("p"));
    ks_writer_close(&json, '}');
    ks_writer_key(&json, "ExpressionAttributeValues");
    ks_writer_open(&json, '{');
    put_text_value(&json, ":p", text(p));
    ks_writer_close(&json, '}');
    ks_writer_key(&json, "ConsistentRead");
    ks_writer_bool(&json, consistent);
    if (after.size != 0)
        put_key(&json, "ExclusiveStartKey", NULL, p, after);
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}

ks_err ks_dynamodb_put_index_query(struct ks_bytes *body, const char *table, const char *key,
                                   const char *index, const char *index_key, ks_view value,
                                   ks_view after)
{
    struct ks_writer json;

    ks_writer_begin_strict(&json, body);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "TableName", text(table));
    ks_writer_pair(&json, "IndexName", text(index));
    ks_writer_pair(&json, "KeyConditionExpression", KS_VIEW("#i = :i"));
    ks_writer_key(&json, "ExpressionAttributeNames");
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "#i", text(index_key));
    ks_writer_close(&json, '}');
    ks_writer_key(&json, "ExpressionAttributeValues");
    ks_writer_open(&json, '{');
    put_text_value(&json, ":i", value);
    ks_writer_close(&json, '}');
    if (after.size != 0) {
        ks_writer_key(&json, "ExclusiveStartKey");
        ks_writer_open(&json, '{');
        put_text_value(&json, index_key, value);
        put_text_value(&json, key, after);
        ks_writer_close(&json, '}');
    }
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}

ks_err ks_dynamodb_put_scan(struct ks_bytes *body, const char *table, const char *key,
                            ks_view after, bool consistent)
{
    struct ks_writer json;

    ks_writer_begin_strict(&json, body);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "TableName", text(table));
    ks_writer_key(&json, "ConsistentRead");
    ks_writer_bool(&json, consistent);
    if (after.size != 0)
        put_key(&json, "ExclusiveStartKey", key, NULL, after);
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}

ks_err ks_dynamodb_put_describe(struct ks_bytes *body, const char *table)
{
    struct ks_writer json;

    ks_writer_begin_strict(&json, body);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "TableName", text(table));
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}

static void put_pair(struct ks_writer *json, const char *name_member, const char *name,
                     const char *type_member, const char *type)
{
    ks_writer_open(json, '{');
    ks_writer_pair(json, name_member, text(name));
    ks_writer_pair(json, type_member, text(type));
    ks_writer_close(json, '}');
}

ks_err ks_dynamodb_put_create(struct ks_bytes *body, const char *table, const char *key)
{
    struct ks_writer json;

    ks_writer_begin_strict(&json, body);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "TableName", text(table));
    ks_writer_pair(&json, "BillingMode", KS_VIEW("PAY_PER_REQUEST"));
    ks_writer_key(&json, "AttributeDefinitions");
    ks_writer_open(&json, '[');
    put_pair(&json, "AttributeName", key == NULL ? KS_DYNAMODB_HASH : key, "AttributeType", "S");
    if (key == NULL)
        put_pair(&json, "AttributeName", KS_DYNAMODB_RANGE, "AttributeType", "S");
    ks_writer_close(&json, ']');
    ks_writer_key(&json, "KeySchema");
    ks_writer_open(&json, '[');
    put_pair(&json, "AttributeName", key == NULL ? KS_DYNAMODB_HASH : key, "KeyType", "HASH");
    if (key == NULL)
        put_pair(&json, "AttributeName", KS_DYNAMODB_RANGE, "KeyType", "RANGE");
    ks_writer_close(&json, ']');
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}

/* --- Items --- */

/* The members of a set or of a list; NULL if it is neither. */
static const struct ks_json *members_of(const struct ks_json *value, enum ks_value_type type)
{
    const struct ks_json *const list = ks_json_member(value, "L");

    return type == KS_VALUE_LIST && list != NULL ? list : ks_json_member(value, "SS");
}

/* "text" of a set, or {"S": "text"} of a list. */
static ks_err read_member(const struct ks_json *member, ks_view *ret_text)
{
    const struct ks_json *const text = ks_json_member(member, "S");

    return ks_json_text(text == NULL ? member : text, ret_text);
}

/* {"SS": [..]}, {"L": [{"S": ..}, ..]}: strange if a member cannot stand in a set of ours. */
static ks_err read_set(const struct ks_json *value, enum ks_value_type type, struct ks_bytes *texts,
                       struct ks_item *item, uint32_t at)
{
    const struct ks_json *const members = members_of(value, type);
    const size_t begin = texts->size;

    item->presence[at] = KS_STRANGE;
    if (!ks_json_is_array(members) || (ks_json_count(members) == 0 && type == KS_VALUE_SET))
        return KS_OK;
    for (size_t i = 0; i < ks_json_count(members); i++) {
        ks_view member;

        if (!ks_ok(read_member(ks_json_item(members, i), &member)) || member.size == 0 ||
            memchr(member.data, '\n', member.size) != NULL)
            return KS_OK;
        if (i != 0)
            KS_TRY(ks_bytes_append_byte(texts, '\n'));
        KS_TRY(ks_bytes_append(texts, member));
    }
    item->presence[at] = KS_PRESENT;
    item->texts[at] = ks_view_of(texts->data + begin, texts->size - begin);
    return KS_OK;
}

/* {"L": [{"N": ..}, ..]} as " NUMBER NUMBER"; false if it is none. */
static bool read_numbers(const struct ks_json *value, struct ks_bytes *texts)
{
    const struct ks_json *const numbers = ks_json_member(value, "L");

    if (!ks_json_is_array(numbers))
        return false;
    for (size_t i = 0; i < ks_json_count(numbers); i++) {
        ks_view number;

        if (!ks_ok(ks_json_text(ks_json_member(ks_json_item(numbers, i), "N"), &number)) ||
            number.size == 0 || memchr(number.data, ' ', number.size) != NULL ||
            memchr(number.data, '\n', number.size) != NULL ||
            !ks_ok(ks_bytes_append_byte(texts, ' ')) || !ks_ok(ks_bytes_append(texts, number)))
            return false;
    }
    return true;
}

static bool is_name(ks_view name)
{
    return name.size != 0 && memchr(name.data, ' ', name.size) == NULL &&
           memchr(name.data, '\n', name.size) == NULL;
}

/* {"M": {NAME: {"L": ..}}}: strange if a name or a number cannot stand in a series of ours. */
static void read_series(const struct ks_json *value, struct ks_bytes *texts, struct ks_item *item,
                        uint32_t at)
{
    const struct ks_json *const members = ks_json_member(value, "M");
    const size_t begin = texts->size;
    struct ks_json_cursor cursor = {.at = NULL};
    const struct ks_json *member;
    ks_view name;

    item->presence[at] = KS_STRANGE;
    if (!ks_json_is_object(members))
        return;
    while (ks_json_each(members, &cursor, &name, &member)) {
        if (!is_name(name) || (texts->size != begin && !ks_ok(ks_bytes_append_byte(texts, '\n'))) ||
            !ks_ok(ks_bytes_append(texts, name)) || !read_numbers(member, texts))
            return;
    }
    item->presence[at] = KS_PRESENT;
    item->texts[at] = ks_view_of(texts->data + begin, texts->size - begin);
}

static ks_err read_value(const struct ks_json *value, enum ks_value_type type,
                         struct ks_bytes *texts, struct ks_item *item, uint32_t at)
{
    bool flag = false;
    ks_err err = KS_FAIL(MALFORMED);

    switch (type) {
    case KS_VALUE_SET:
    case KS_VALUE_LIST: return read_set(value, type, texts, item, at);
    case KS_VALUE_SERIES: read_series(value, texts, item, at); return KS_OK;
    case KS_VALUE_TEXT: err = ks_json_text(ks_json_member(value, "S"), &item->texts[at]); break;
    case KS_VALUE_NUMBER: err = ks_json_text(ks_json_member(value, "N"), &item->texts[at]); break;
    case KS_VALUE_BOOL:
        err = ks_json_bool(ks_json_member(value, "BOOL"), &flag);
        item->texts[at] = flag ? KS_VIEW("true") : KS_VIEW("false");
        break;
    }
    item->presence[at] = ks_ok(err) ? KS_PRESENT : KS_STRANGE;
    return KS_OK;
}

static size_t series_size(const struct ks_json *value)
{
    struct ks_json_cursor cursor = {.at = NULL};
    const struct ks_json *member;
    size_t size = 0;
    ks_view name;

    while (ks_json_each(ks_json_member(value, "M"), &cursor, &name, &member)) {
        const struct ks_json *const numbers = ks_json_member(member, "L");

        size += name.size + 1;
        for (size_t i = 0; i < ks_json_count(numbers); i++) {
            ks_view number = KS_VIEW_NONE;

            if (ks_ok(ks_json_text(ks_json_member(ks_json_item(numbers, i), "N"), &number)))
                size += number.size + 1;
        }
    }
    return size;
}

/* Bytes that the sets and series of an item take at most when they are joined: room for them is made before
 * the first is read, so that none of them moves. */
static size_t sets_size(const struct ks_json *json, const struct ks_schema *schema)
{
    size_t size = 1;

    for (uint32_t at = 0; at < schema->count; at++) {
        const enum ks_value_type type = schema->attributes[at].type;
        const struct ks_json *const members =
            members_of(ks_json_member(json, schema->attributes[at].name), type);

        if (type == KS_VALUE_SERIES)
            size += series_size(ks_json_member(json, schema->attributes[at].name));
        if (type != KS_VALUE_SET && type != KS_VALUE_LIST)
            continue;
        for (size_t i = 0; i < ks_json_count(members); i++) {
            ks_view member = KS_VIEW_NONE;

            if (ks_ok(read_member(ks_json_item(members, i), &member)))
                size += member.size + 1;
        }
    }
    return size;
}

ks_err ks_dynamodb_read_item(const struct ks_json *json, const struct ks_schema *schema,
                             struct ks_bytes *texts, struct ks_item *ret_item)
{
    struct ks_item item;

    const char *const k = schema->key == NULL ? "k" : schema->key;

    ks_item_init(&item, schema);
    if ((schema->key == NULL &&
         !ks_ok(ks_json_text(ks_json_member(ks_json_member(json, "p"), "S"), &item.p))) ||
        !ks_ok(ks_json_text(ks_json_member(ks_json_member(json, k), "S"), &item.k)))
        return KS_FAIL(MALFORMED);

    ks_bytes_clear(texts);
    KS_TRY(ks_bytes_reserve(texts, sets_size(json, schema)));
    for (uint32_t at = 0; at < schema->count; at++) {
        const struct ks_json *const value = ks_json_member(json, schema->attributes[at].name);

        if (value != NULL && !(schema->nullable && ks_json_member(value, "NULL") != NULL))
            KS_TRY(read_value(value, schema->attributes[at].type, texts, &item, at));
    }
    *ret_item = item;
    return KS_OK;
}

static bool is_among(const struct ks_item_keys *keys, ks_view key)
{
    for (uint32_t at = 0; at < keys->count; at++)
        if (ks_view_equal(text(keys->texts[at]), key))
            return true;
    return false;
}

ks_err ks_dynamodb_read_unprocessed(const struct ks_json *json, const char *table, const char *key,
                                    const struct ks_item_keys *asked, struct ks_item_keys *ret_left)
{
    const struct ks_json *const keys =
        ks_json_member(ks_json_member(ks_json_member(json, "UnprocessedKeys"), table), "Keys");

    *ret_left = (struct ks_item_keys){.count = 0};
    for (size_t at = 0; at < ks_json_count(keys); at++) {
        const struct ks_json *const k =
            ks_json_member(ks_json_item(keys, at), key == NULL ? "k" : key);
        ks_view value;

        if (!ks_ok(ks_json_text(ks_json_member(k, "S"), &value)) || !is_among(asked, value))
            return KS_FAIL(MALFORMED);
        KS_TRY(ks_item_keys_add(ret_left, value));
    }
    return KS_OK;
}
