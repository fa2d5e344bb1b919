/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dynamodb/wire.h"

#include "base/budget.h"
#include "ks_test.h"

#include <string.h>

static const struct ks_attribute attributes[] = {{"name", KS_VALUE_TEXT},
                                                 {"count", KS_VALUE_NUMBER},
                                                 {"set", KS_VALUE_SET},
                                                 {"on", KS_VALUE_BOOL},
                                                 {"more", KS_VALUE_SET}};
static const struct ks_schema schema = {.attributes = attributes, .count = 5};

static struct ks_value value(enum ks_value_type type, const char *text)
{
    return (struct ks_value){type, ks_view_text(text)};
}

static void is(struct ks_bytes *body, const char *expected)
{
    EXPECT_OK(ks_bytes_append_byte(body, '\0'));
    EXPECT_STR((const char *)body->data, expected);
    ks_bytes_free(body);
}

TEST(an_update_says_all_in_placeholders)
{
    struct ks_item_write write;
    struct ks_bytes body;

    EXPECT_OK(ks_item_write_init(&write, "w", "pod \"a\"", 16));
    ks_item_write_if(&write, KS_IF_EQUALS, "name", value(KS_VALUE_TEXT, "x"));
    ks_item_write_if(&write, KS_IF_EQUALS_OR_ABSENT, "count", value(KS_VALUE_NUMBER, "0"));
    ks_item_write_if(&write, KS_IF_IN, "life", value(KS_VALUE_SET, "a\nb"));
    ks_item_write_if(&write, KS_IF_ABSENT, "p", value(KS_VALUE_TEXT, ""));
    ks_item_write_if(&write, KS_IF_EXISTS, "on", value(KS_VALUE_TEXT, ""));
    ks_item_write_do(&write, KS_DO_DELETE, "set", value(KS_VALUE_SET, "m\nn"));
    ks_item_write_do(&write, KS_DO_SET, "name", value(KS_VALUE_TEXT, "y"));
    ks_item_write_do(&write, KS_DO_ADD, "count", value(KS_VALUE_NUMBER, "1"));
    ks_item_write_do(&write, KS_DO_REMOVE, "more", value(KS_VALUE_TEXT, ""));
    ks_item_write_do(&write, KS_DO_SET, "on", value(KS_VALUE_BOOL, "true"));
    ks_bytes_init(&body, 4096);
    EXPECT_OK(ks_dynamodb_put_write(&body, "leases", &write, true));
    EXPECT_STR(ks_dynamodb_write_operation(&write), "UpdateItem");
    is(&body,
       "{\"TableName\":\"leases\",\"Key\":{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"pod \\\"a\\\"\"}},"
       "\"ConditionExpression\":\"#name = :c0 AND (attribute_not_exists(#count) OR #count = :c1)"
       " AND #life IN (:c2_0, :c2_1) AND attribute_not_exists(#p) AND attribute_exists(#on)\","
       "\"UpdateExpression\":\"SET #name = :u1, #on = :u4 REMOVE #more ADD #count :u2"
       " DELETE #set :u0\",\"ExpressionAttributeNames\":{\"#name\":\"name\",\"#count\":\"count\","
       "\"#life\":\"life\",\"#p\":\"p\",\"#on\":\"on\",\"#set\":\"set\",\"#more\":\"more\"},"
       "\"ExpressionAttributeValues\":{\":c0\":{\"S\":\"x\"},\":c1\":{\"N\":\"0\"},"
       "\":c2_0\":{\"S\":\"a\"},\":c2_1\":{\"S\":\"b\"},\":u0\":{\"SS\":[\"m\",\"n\"]},"
       "\":u1\":{\"S\":\"y\"},\":u2\":{\"N\":\"1\"},\":u4\":{\"BOOL\":true}},"
       "\"ReturnValues\":\"ALL_NEW\",\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\"}");
    ks_item_write_free(&write);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(empty_clauses_and_maps_are_left_out)
{
    struct ks_item_write write;
    struct ks_bytes body;

    EXPECT_OK(ks_item_write_init(&write, "w", "a", 16));
    ks_item_write_if(&write, KS_IF_EXISTS, "on", value(KS_VALUE_TEXT, ""));
    ks_bytes_init(&body, 4096);
    EXPECT_OK(ks_dynamodb_put_write(&body, "t", &write, false));
    is(&body, "{\"TableName\":\"t\",\"Key\":{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"a\"}},"
              "\"ConditionExpression\":\"attribute_exists(#on)\","
              "\"ExpressionAttributeNames\":{\"#on\":\"on\"},\"ReturnValues\":\"NONE\","
              "\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\"}");
    write.delete_row = true;
    EXPECT_STR(ks_dynamodb_write_operation(&write), "DeleteItem");
    ks_item_write_free(&write);
}

TEST(a_list_keeps_its_order_and_a_null_counts_as_absent)
{
    struct ks_item_write write;
    struct ks_bytes body;

    EXPECT_OK(ks_item_write_init(&write, NULL, "ShardCache", 16));
    write.key = "Key";
    ks_item_write_if(&write, KS_IF_ABSENT_OR_NULL, "ID", value(KS_VALUE_TEXT, ""));
    ks_item_write_do(&write, KS_DO_SET, "ids", value(KS_VALUE_LIST, "b\na"));
    ks_item_write_do(&write, KS_DO_SET, "none", value(KS_VALUE_LIST, ""));
    ks_bytes_init(&body, 4096);
    EXPECT_OK(ks_dynamodb_put_write(&body, "t", &write, false));
    is(&body, "{\"TableName\":\"t\",\"Key\":{\"Key\":{\"S\":\"ShardCache\"}},"
              "\"ConditionExpression\":\"(attribute_not_exists(#ID) OR attribute_type(#ID, :c0))\","
              "\"UpdateExpression\":\"SET #ids = :u0, #none = :u1\","
              "\"ExpressionAttributeNames\":{\"#ID\":\"ID\",\"#ids\":\"ids\",\"#none\":\"none\"},"
              "\"ExpressionAttributeValues\":{\":c0\":{\"S\":\"NULL\"},"
              "\":u0\":{\"L\":[{\"S\":\"b\"},{\"S\":\"a\"}]},\":u1\":{\"L\":[]}},"
              "\"ReturnValues\":\"NONE\",\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\"}");
    EXPECT(ks_item_write_may_create(&write));
    ks_item_write_free(&write);
}

TEST(a_row_that_nobody_else_writes_needs_no_condition)
{
    struct ks_item_write write;
    struct ks_bytes body;

    EXPECT_OK(ks_item_write_init(&write, NULL, "a", 16));
    write.key = "ID";
    write.unconditional = true;
    write.delete_row = true;
    ks_bytes_init(&body, 4096);
    EXPECT_OK(ks_dynamodb_put_write(&body, "t", &write, false));
    is(&body, "{\"TableName\":\"t\",\"Key\":{\"ID\":{\"S\":\"a\"}},\"ReturnValues\":\"NONE\"}");
    ks_item_write_free(&write);
}

TEST(reads_and_tables_have_their_bodies)
{
    struct ks_item_keys keys = {.count = 0};
    struct ks_bytes body;

    ks_bytes_init(&body, 4096);
    EXPECT_OK(ks_dynamodb_put_get(&body, "t", NULL, "s", "shard"));
    is(&body, "{\"TableName\":\"t\",\"Key\":{\"p\":{\"S\":\"s\"},\"k\":{\"S\":\"shard\"}},"
              "\"ConsistentRead\":true}");
    EXPECT_OK(ks_item_keys_add(&keys, KS_VIEW("#leader")));
    EXPECT_OK(ks_item_keys_add(&keys, KS_VIEW("pod \"a\"")));
    EXPECT_OK(ks_dynamodb_put_batch_get(&body, "t", NULL, "w", &keys));
    is(&body, "{\"RequestItems\":{\"t\":{\"Keys\":["
              "{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"#leader\"}},"
              "{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"pod \\\"a\\\"\"}}]}}}");
    EXPECT_OK(ks_dynamodb_put_query(&body, "t", "s", KS_VIEW_NONE, true));
    is(&body, "{\"TableName\":\"t\",\"KeyConditionExpression\":\"#p = :p\","
              "\"ExpressionAttributeNames\":{\"#p\":\"p\"},"
              "\"ExpressionAttributeValues\":{\":p\":{\"S\":\"s\"}},\"ConsistentRead\":true}");
    EXPECT_OK(ks_dynamodb_put_query(&body, "t", "s", KS_VIEW("last"), false));
    is(&body, "{\"TableName\":\"t\",\"KeyConditionExpression\":\"#p = :p\","
              "\"ExpressionAttributeNames\":{\"#p\":\"p\"},"
              "\"ExpressionAttributeValues\":{\":p\":{\"S\":\"s\"}},\"ConsistentRead\":false,"
              "\"ExclusiveStartKey\":{\"p\":{\"S\":\"s\"},\"k\":{\"S\":\"last\"}}}");
    EXPECT_OK(ks_dynamodb_put_describe(&body, "t"));
    is(&body, "{\"TableName\":\"t\"}");
    EXPECT_OK(ks_dynamodb_put_create(&body, "t", NULL));
    is(&body, "{\"TableName\":\"t\",\"BillingMode\":\"PAY_PER_REQUEST\",\"AttributeDefinitions\":["
              "{\"AttributeName\":\"p\",\"AttributeType\":\"S\"},"
              "{\"AttributeName\":\"k\",\"AttributeType\":\"S\"}],\"KeySchema\":["
              "{\"AttributeName\":\"p\",\"KeyType\":\"HASH\"},"
              "{\"AttributeName\":\"k\",\"KeyType\":\"RANGE\"}]}");
}

#define UNPROCESSED(keys) "{\"UnprocessedKeys\":{\"t\":{\"Keys\":[" keys "]}}}"

TEST(rows_of_an_owner_are_found_by_an_index)
{
    struct ks_item_keys keys = {.count = 0};
    struct ks_bytes body;

    ks_bytes_init(&body, 4096);
    EXPECT_OK(ks_dynamodb_put_index_query(&body, "t", "leaseKey", "ByOwner", "leaseOwner",
                                          KS_VIEW("pod"), KS_VIEW("shard-1")));
    is(&body,
       "{\"TableName\":\"t\",\"IndexName\":\"ByOwner\",\"KeyConditionExpression\":\"#i = :i\","
       "\"ExpressionAttributeNames\":{\"#i\":\"leaseOwner\"},"
       "\"ExpressionAttributeValues\":{\":i\":{\"S\":\"pod\"}},\"ExclusiveStartKey\":{"
       "\"leaseOwner\":{\"S\":\"pod\"},\"leaseKey\":{\"S\":\"shard-1\"}}}");
    EXPECT_OK(ks_item_keys_add(&keys, KS_VIEW("a")));
    EXPECT_OK(ks_dynamodb_put_batch_get(&body, "t", "key", NULL, &keys));
    is(&body, "{\"RequestItems\":{\"t\":{\"Keys\":[{\"key\":{\"S\":\"a\"}}],"
              "\"ConsistentRead\":true}}}");
}

static ks_err read_unprocessed(const char *text, struct ks_item_keys *ret_left)
{
    struct ks_item_keys asked = {.count = 0};
    struct ks_json *document = NULL;
    ks_err err;

    EXPECT_OK(ks_item_keys_add(&asked, KS_VIEW("a")));
    EXPECT_OK(ks_item_keys_add(&asked, KS_VIEW("b")));
    EXPECT_OK(ks_json_parse(ks_view_text(text), &document));
    err = ks_dynamodb_read_unprocessed(document, "t", NULL, &asked, ret_left);
    ks_json_free(document);
    return err;
}

TEST(what_a_batch_left_out_is_among_what_was_asked)
{
    struct ks_item_keys left;

    EXPECT_OK(read_unprocessed("{}", &left));
    EXPECT_EQ_U64(left.count, 0);
    EXPECT_OK(read_unprocessed("{\"UnprocessedKeys\":{}}", &left));
    EXPECT_EQ_U64(left.count, 0);
    EXPECT_OK(read_unprocessed(UNPROCESSED("{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"b\"}}"), &left));
    EXPECT_EQ_U64(left.count, 1);
    EXPECT_STR(left.texts[0], "b");
    EXPECT_ERR(read_unprocessed(UNPROCESSED("{\"k\":{\"S\":\"c\"}}"), &left), MALFORMED);
    EXPECT_ERR(read_unprocessed(UNPROCESSED("{\"k\":{\"N\":\"1\"}}"), &left), MALFORMED);
    EXPECT_ERR(read_unprocessed(UNPROCESSED("7"), &left), MALFORMED);
}

static ks_err read_item(const char *text, struct ks_json **ret_document, struct ks_bytes *texts,
                        struct ks_item *ret_item)
{
    EXPECT_OK(ks_json_parse(ks_view_text(text), ret_document));
    return ks_dynamodb_read_item(*ret_document, &schema, texts, ret_item);
}

TEST(an_item_is_read_by_the_schema)
{
    struct ks_json *document = NULL;
    struct ks_bytes texts;
    struct ks_item item;

    ks_bytes_init(&texts, 4096);
    EXPECT_OK(read_item("{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"a\"},\"name\":{\"S\":\"n\"},"
                        "\"count\":{\"N\":\"7\"},\"set\":{\"SS\":[\"x\",\"y\"]},"
                        "\"on\":{\"BOOL\":false},\"more\":{\"SS\":[\"z\"]},"
                        "\"unknown\":{\"M\":{\"a\":{\"L\":[]}}}}",
                        &document, &texts, &item));
    EXPECT(ks_view_equal(item.p, KS_VIEW("w")));
    EXPECT(ks_view_equal(item.k, KS_VIEW("a")));
    EXPECT(ks_view_equal(item.texts[0], KS_VIEW("n")));
    EXPECT(ks_view_equal(item.texts[1], KS_VIEW("7")));
    EXPECT(ks_view_equal(item.texts[2], KS_VIEW("x\ny")));
    EXPECT(ks_view_equal(item.texts[3], KS_VIEW("false")));
    EXPECT(ks_view_equal(item.texts[4], KS_VIEW("z")));
    for (uint32_t at = 0; at < schema.count; at++)
        EXPECT_EQ_I64(item.presence[at], KS_PRESENT);
    ks_json_free(document);
    ks_bytes_free(&texts);
}

TEST(other_types_are_strange_and_not_absent)
{
    struct ks_json *document = NULL;
    struct ks_bytes texts;
    struct ks_item item;

    ks_bytes_init(&texts, 4096);
    EXPECT_OK(read_item("{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"a\"},\"name\":{\"NULL\":true},"
                        "\"count\":{\"S\":\"7\"},\"set\":{\"SS\":[\"x\",\"y\\nz\"]},"
                        "\"on\":\"no\",\"more\":{\"SS\":[]}}",
                        &document, &texts, &item));
    for (uint32_t at = 0; at < schema.count; at++)
        EXPECT_EQ_I64(item.presence[at], KS_STRANGE);
    ks_json_free(document);

    EXPECT_OK(read_item("{\"p\":{\"S\":\"w\"},\"k\":{\"S\":\"a\"}}", &document, &texts, &item));
    for (uint32_t at = 0; at < schema.count; at++)
        EXPECT_EQ_I64(item.presence[at], KS_ABSENT);
    ks_json_free(document);
    ks_bytes_free(&texts);
}

TEST(lists_and_nulls_are_read)
{
    static const struct ks_attribute named[] = {{"ids", KS_VALUE_LIST}, {"id", KS_VALUE_TEXT}};
    static const struct ks_schema nullable = {
        .attributes = named, .count = 2, .key = "Key", .nullable = true};
    static const struct {
        const char *text;
        enum ks_presence ids;
        const char *members;
    } cases[] = {
        {"{\"Key\":{\"S\":\"a\"},\"ids\":{\"L\":[{\"S\":\"y\"},{\"S\":\"x\"}]},"
         "\"id\":{\"NULL\":true}}",
         KS_PRESENT, "y\nx"},
        {"{\"Key\":{\"S\":\"a\"},\"ids\":{\"SS\":[\"x\",\"y\"]}}", KS_PRESENT, "x\ny"},
        {"{\"Key\":{\"S\":\"a\"},\"ids\":{\"L\":[]}}", KS_PRESENT, ""},
        {"{\"Key\":{\"S\":\"a\"},\"ids\":{\"NULL\":true}}", KS_ABSENT, ""},
        {"{\"Key\":{\"S\":\"a\"},\"ids\":{\"L\":[{\"N\":\"1\"}]}}", KS_STRANGE, ""},
        {"{\"Key\":{\"S\":\"a\"},\"ids\":{\"L\":[{\"S\":\"\"}]}}", KS_STRANGE, ""},
        {"{\"Key\":{\"S\":\"a\"},\"ids\":{\"S\":\"x\"}}", KS_STRANGE, ""},
    };

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        struct ks_json *document = NULL;
        struct ks_bytes texts;
        struct ks_item item;

        ks_bytes_init(&texts, 4096);
        EXPECT_OK(ks_json_parse(ks_view_text(cases[at].text), &document));
        EXPECT_OK(ks_dynamodb_read_item(document, &nullable, &texts, &item));
        EXPECT_EQ_I64(item.presence[0], cases[at].ids);
        EXPECT_EQ_I64(item.presence[1], KS_ABSENT);
        if (item.presence[0] == KS_PRESENT)
            EXPECT(ks_view_equal(item.texts[0], ks_view_text(cases[at].members)));
        ks_json_free(document);
        ks_bytes_free(&texts);
    }
}

TEST(what_is_no_item_of_ours_is_malformed)
{
    static const char *const bad[] = {"{}",
                                      "[]",
                                      "7",
                                      "{\"p\":{\"S\":\"w\"}}",
                                      "{\"p\":{\"N\":\"1\"},\"k\":{\"S\":\"a\"}}",
                                      "{\"p\":\"w\",\"k\":\"a\"}"};
    struct ks_bytes texts;

    ks_bytes_init(&texts, 4096);
    for (size_t at = 0; at < sizeof(bad) / sizeof(bad[0]); at++) {
        struct ks_json *document = NULL;
        struct ks_item item;

        EXPECT(ks_err_is(read_item(bad[at], &document, &texts, &item), KS_ERR_MALFORMED));
        ks_json_free(document);
    }
    ks_bytes_free(&texts);
}
