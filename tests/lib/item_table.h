/* SPDX-License-Identifier: Apache-2.0 */
/* item_table.h - items of a DynamoDB table in memory: what the requests of adapters/dynamodb do to them.
 *
 * It knows the expressions that these requests use: SET with a value or if_not_exists, REMOVE, and conditions of
 * attribute_exists, attribute_not_exists, =, < and <= between an attribute and a value, AND, OR and parentheses
 * (developer guide of DynamoDB, "Update expressions", "Condition expressions"). Whatever else fails the test.
 */
#ifndef TESTS_LIB_ITEM_TABLE_H
#define TESTS_LIB_ITEM_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "aws/json.h"
#include "base/bytes.h"

enum { ITEM_ATTRIBUTES = 16, ITEM_TEXT_MAX = 160, ITEM_TABLE_MAX = 32 };

struct item {
    bool used;
    char p[ITEM_TEXT_MAX];
    char k[ITEM_TEXT_MAX];
    uint32_t count;
    struct {
        char name[24];
        char type; /* S, N or B */
        char text[ITEM_TEXT_MAX];
    } attributes[ITEM_ATTRIBUTES];
};

struct item_table {
    struct item items[ITEM_TABLE_MAX];
};

/* The item with these keys; NULL: there is none. */
struct item *item_find(struct item_table *table, const char *p, const char *k);
/* The item that the request is about; NULL: there is none. */
struct item *item_of(struct item_table *table, const struct ks_json *request);
/* An attribute as text; "" if it is not there. */
const char *item_text(const struct item *item, const char *name);
/* False: its condition fails, and nothing is changed. */
bool item_update(struct item_table *table, const struct ks_json *request);
bool item_delete(struct item_table *table, const struct ks_json *request);

#endif
