/* SPDX-License-Identifier: Apache-2.0 */
#include "item_table.h"

#include <stdlib.h>
#include <string.h>

#include "ks_test.h"

/* An expression, and what its names and values stand for. */
struct reading {
    const char *at;
    const struct ks_json *request;
    const struct item *item; /* NULL: there is none. */
};

static const char *text_of(const struct ks_json *value)
{
    ks_view text;

    EXPECT_OK(ks_json_text(value, &text));
    return (const char *)text.data;
}

static const char *key_of(const struct ks_json *request, const char *name)
{
    const struct ks_json *const key = ks_json_member(request, "Key");

    return text_of(ks_json_member(ks_json_member(key, name), "S"));
}

static void copy(char *to, const char *text)
{
    EXPECT(strlen(text) < ITEM_TEXT_MAX);
    memcpy(to, text, strlen(text) + 1);
}

/* ---- Items ---- */

struct item *item_find(struct item_table *table, const char *p, const char *k)
{
    for (uint32_t at = 0; at < ITEM_TABLE_MAX; at++) {
        struct item *const item = &table->items[at];

        if (item->used && strcmp(item->p, p) == 0 && strcmp(item->k, k) == 0)
            return item;
    }
    return NULL;
}

struct item *item_of(struct item_table *table, const struct ks_json *request)
{
    return item_find(table, key_of(request, "p"), key_of(request, "k"));
}

static struct item *item_new(struct item_table *table, const struct ks_json *request)
{
    uint32_t at = 0;

    while (at < ITEM_TABLE_MAX && table->items[at].used)
        at++;
    EXPECT(at < ITEM_TABLE_MAX);
    table->items[at] = (struct item){.used = true};
    copy(table->items[at].p, key_of(request, "p"));
    copy(table->items[at].k, key_of(request, "k"));
    return &table->items[at];
}

static int find(const struct item *item, const char *name)
{
    for (uint32_t at = 0; item != NULL && at < item->count; at++)
        if (strcmp(item->attributes[at].name, name) == 0)
            return (int)at;
    return -1;
}

const char *item_text(const struct item *item, const char *name)
{
    const int at = find(item, name);

    if (item != NULL && (strcmp(name, "p") == 0 || strcmp(name, "k") == 0))
        return name[0] == 'p' ? item->p : item->k;
    return at < 0 ? "" : item->attributes[at].text;
}

static void set(struct item *item, const char *name, char type, const char *text)
{
    int at = find(item, name);

    if (at < 0) {
        EXPECT(item->count < ITEM_ATTRIBUTES);
        at = (int)item->count++;
    }
    EXPECT(strlen(name) < sizeof item->attributes[at].name);
    memcpy(item->attributes[at].name, name, strlen(name) + 1);
    item->attributes[at].type = type;
    copy(item->attributes[at].text, text);
}

static void unset(struct item *item, const char *name)
{
    const int at = find(item, name);

    if (at >= 0)
        item->attributes[at] = item->attributes[--item->count];
}

/* ---- Words of an expression ---- */

static bool skip(struct reading *reading, const char *word)
{
    while (*reading->at == ' ')
        reading->at++;
    if (strncmp(reading->at, word, strlen(word)) != 0)
        return false;
    reading->at += strlen(word);
    return true;
}

/* A "#name", a ":value" or a bare name. */
static const char *word(struct reading *reading)
{
    static char words[2][64];
    static int next;
    char *const text = words[next = 1 - next];
    size_t size;

    (void)skip(reading, " ");
    size = strcspn(reading->at, " ,()=<");
    EXPECT(size > 0 && size < sizeof words[0]);
    memcpy(text, reading->at, size);
    text[size] = '\0';
    reading->at += size;
    return text;
}

static const char *name(struct reading *reading)
{
    const char *const text = word(reading);

    if (text[0] != '#')
        return text;
    return text_of(
        ks_json_member(ks_json_member(reading->request, "ExpressionAttributeNames"), text));
}

static const char *value(struct reading *reading, char *ret_type)
{
    static const char *const types[] = {"S", "N", "B"};
    const struct ks_json *const values =
        ks_json_member(reading->request, "ExpressionAttributeValues");
    const struct ks_json *const found = ks_json_member(values, word(reading));

    for (size_t at = 0; at < sizeof types / sizeof types[0]; at++) {
        *ret_type = types[at][0];
        if (ks_json_member(found, types[at]) != NULL)
            return text_of(ks_json_member(found, types[at]));
    }
    FAIL("a value is missing before %s", reading->at);
    return "";
}

/* ---- Conditions ---- */

static bool any_of(struct reading *reading);

static bool compare(struct reading *reading)
{
    const char *const attribute = name(reading);
    const bool up_to = skip(reading, "<=");
    const bool below = !up_to && skip(reading, "<");
    const char *const text = item_text(reading->item, attribute);
    const char *other;
    char type;

    EXPECT(up_to || below || skip(reading, "="));
    other = value(reading, &type);
    if (find(reading->item, attribute) < 0)
        return false;
    if (!up_to && !below)
        return strcmp(text, other) == 0;
    EXPECT(type == 'N');
    return up_to ? atoll(text) <= atoll(other) : atoll(text) < atoll(other);
}

static bool exists(struct reading *reading)
{
    const char *const attribute = name(reading);

    EXPECT(skip(reading, ")"));
    return item_text(reading->item, attribute)[0] != '\0';
}

static bool one_of(struct reading *reading)
{
    bool met;

    if (skip(reading, "attribute_not_exists("))
        return !exists(reading);
    if (skip(reading, "attribute_exists("))
        return exists(reading);
    if (!skip(reading, "("))
        return compare(reading);
    met = any_of(reading);
    EXPECT(skip(reading, ")"));
    return met;
}

static bool all_of(struct reading *reading)
{
    bool met = one_of(reading);

    while (skip(reading, "AND"))
        met &= one_of(reading);
    return met;
}

static bool any_of(struct reading *reading)
{
    bool met = all_of(reading);

    while (skip(reading, "OR"))
        met |= all_of(reading);
    return met;
}

static bool is_met(const struct item *item, const struct ks_json *request)
{
    struct reading reading = {.at = text_of(ks_json_member(request, "ConditionExpression")),
                              .request = request,
                              .item = item};
    const bool met = any_of(&reading);

    EXPECT_STR(reading.at, "");
    return met;
}

/* ---- Requests ---- */

static void set_one(struct item *item, struct reading *reading)
{
    const char *const attribute = name(reading);
    const char *text;
    char type;

    EXPECT(skip(reading, "="));
    if (skip(reading, "if_not_exists(")) {
        const bool is_there = find(item, name(reading)) >= 0;

        EXPECT(skip(reading, ","));
        text = value(reading, &type);
        EXPECT(skip(reading, ")"));
        if (is_there)
            return;
    } else {
        text = value(reading, &type);
    }
    set(item, attribute, type, text);
}

static void change(struct item *item, const struct ks_json *request)
{
    struct reading reading = {.at = text_of(ks_json_member(request, "UpdateExpression")),
                              .request = request,
                              .item = item};

    if (skip(&reading, "SET")) {
        do
            set_one(item, &reading);
        while (skip(&reading, ","));
    }
    if (skip(&reading, "REMOVE")) {
        do
            unset(item, name(&reading));
        while (skip(&reading, ","));
    }
    EXPECT_STR(reading.at, "");
}

bool item_update(struct item_table *table, const struct ks_json *request)
{
    struct item *item = item_of(table, request);

    if (!is_met(item, request))
        return false;
    if (item == NULL)
        item = item_new(table, request);
    change(item, request);
    return true;
}

bool item_delete(struct item_table *table, const struct ks_json *request)
{
    struct item *const item = item_of(table, request);

    if (!is_met(item, request))
        return false;
    if (item != NULL)
        item->used = false;
    return true;
}
