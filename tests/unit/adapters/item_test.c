/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/item.h"

#include "base/budget.h"
#include "ks_test.h"

#include <string.h>

enum { NAME, COUNT, FLAG, SET };

static const struct ks_attribute attributes[] = {
    [NAME] = {"name", KS_VALUE_TEXT},
    [COUNT] = {"count", KS_VALUE_NUMBER},
    [FLAG] = {"flag", KS_VALUE_BOOL},
    [SET] = {"set", KS_VALUE_SET},
};
static const struct ks_schema schema = {.attributes = attributes, .count = 4};

static ks_view text(const char *string)
{
    return ks_view_text(string);
}

/* An item whose only attribute is this. */
static struct ks_item item_of(uint32_t index, enum ks_presence presence, const char *value)
{
    struct ks_item item;

    ks_item_init(&item, &schema);
    item.presence[index] = presence;
    item.texts[index] = text(value);
    return item;
}

TEST(an_attribute_is_found_by_its_whole_name)
{
    EXPECT_EQ_U64(ks_schema_find(&schema, KS_VIEW("count")), COUNT);
    EXPECT_EQ_U64(ks_schema_find(&schema, KS_VIEW("coun")), schema.count);
    EXPECT_EQ_U64(ks_schema_find(&schema, KS_VIEW("")), schema.count);
}

TEST(absent_and_strange_are_told_apart)
{
    struct ks_item item = item_of(NAME, KS_PRESENT, "a");
    ks_view view;

    EXPECT_OK(ks_item_text(&item, NAME, &view));
    EXPECT(ks_view_equal(view, KS_VIEW("a")));
    item.presence[NAME] = KS_STRANGE;
    EXPECT(ks_err_is(ks_item_text(&item, NAME, &view), KS_ERR_MALFORMED));
    item.presence[NAME] = KS_ABSENT;
    EXPECT(ks_err_is(ks_item_text(&item, NAME, &view), KS_ERR_NOT_FOUND));
}

TEST(numbers_are_whole_and_fit)
{
    static const char *const bad[] = {"", "1.5", "1E3", "9223372036854775808", "x", " 1"};
    struct ks_item item = item_of(COUNT, KS_PRESENT, "9223372036854775807");
    int64_t number;
    uint64_t unsigned_number;

    EXPECT_OK(ks_item_signed(&item, COUNT, &number));
    EXPECT_EQ_I64(number, INT64_MAX);
    item = item_of(COUNT, KS_PRESENT, "-1");
    EXPECT_OK(ks_item_signed(&item, COUNT, &number));
    EXPECT_EQ_I64(number, -1);
    EXPECT(ks_err_is(ks_item_number(&item, COUNT, &unsigned_number), KS_ERR_MALFORMED));
    for (size_t at = 0; at < sizeof(bad) / sizeof(bad[0]); at++) {
        item = item_of(COUNT, KS_PRESENT, bad[at]);
        EXPECT(ks_err_is(ks_item_number(&item, COUNT, &unsigned_number), KS_ERR_MALFORMED));
    }
    item = item_of(COUNT, KS_ABSENT, "");
    EXPECT(ks_err_is(ks_item_number(&item, COUNT, &unsigned_number), KS_ERR_NOT_FOUND));
}

TEST(flags_are_true_or_false)
{
    struct ks_item item = item_of(FLAG, KS_PRESENT, "true");
    bool flag = false;

    EXPECT_OK(ks_item_flag(&item, FLAG, &flag));
    EXPECT(flag);
    item = item_of(FLAG, KS_PRESENT, "false");
    EXPECT_OK(ks_item_flag(&item, FLAG, &flag));
    EXPECT(!flag);
}

TEST(a_key_must_be_there_and_fit)
{
    struct ks_item_write write;
    char key[KS_ITEM_KEY_MAX + 2];

    EXPECT(ks_err_is(ks_item_write_init(&write, "w", "", 16), KS_ERR_INVALID));
    memset(key, 'k', sizeof(key));
    key[KS_ITEM_KEY_MAX + 1] = '\0';
    EXPECT(ks_err_is(ks_item_write_init(&write, "w", key, 16), KS_ERR_INVALID));
    key[KS_ITEM_KEY_MAX] = '\0';
    EXPECT_OK(ks_item_write_init(&write, "w", key, 16));
    EXPECT_STR(write.k, key);
    ks_item_write_free(&write);
    ks_item_write_free(NULL);
}

TEST(keys_of_a_read_are_few_and_each_is_there_once)
{
    struct ks_item_keys keys = {.count = 0};
    char longest[KS_ITEM_KEY_MAX + 1];

    memset(longest, 'k', sizeof(longest));
    EXPECT(ks_err_is(ks_item_keys_add(&keys, KS_VIEW("")), KS_ERR_INVALID));
    EXPECT(
        ks_err_is(ks_item_keys_add(&keys, ks_view_of(longest, sizeof(longest))), KS_ERR_INVALID));
    EXPECT(ks_err_is(ks_item_keys_add(&keys, ks_view_of("a\0b", 3)), KS_ERR_INVALID));
    EXPECT_EQ_U64(keys.count, 0);
    EXPECT_OK(ks_item_keys_add(&keys, ks_view_of(longest, KS_ITEM_KEY_MAX)));
    EXPECT_OK(ks_item_keys_add(&keys, KS_VIEW("a")));
    EXPECT_OK(ks_item_keys_add(&keys, KS_VIEW("b")));
    EXPECT_OK(ks_item_keys_add(&keys, KS_VIEW("a")));
    EXPECT(ks_err_is(ks_item_keys_add(&keys, KS_VIEW("c")), KS_ERR_FULL));
    EXPECT_EQ_U64(keys.count, KS_ITEM_KEYS_MAX);
    EXPECT_EQ_U64(strlen(keys.texts[0]), KS_ITEM_KEY_MAX);
    EXPECT_STR(keys.texts[1], "a");
    EXPECT_STR(keys.texts[2], "b");
}

TEST(kept_texts_stay_where_they_are)
{
    struct ks_item_write write;
    ks_view kept[4];
    ks_view more;

    EXPECT_OK(ks_item_write_init(&write, "w", "k", 1024));
    for (size_t at = 0; at < 4; at++)
        EXPECT_OK(ks_item_write_keep(&write, KS_VIEW("0123456789"), &kept[at]));
    for (size_t at = 0; at < 4; at++) {
        EXPECT(kept[at].data == write.texts.data + at * 10);
        EXPECT(ks_view_equal(kept[at], KS_VIEW("0123456789")));
    }
    while (ks_ok(ks_item_write_keep(&write, KS_VIEW("0123456789"), &more)))
        ;
    EXPECT(ks_err_is(ks_item_write_keep(&write, KS_VIEW("0123456789"), &more), KS_ERR_FULL));
    EXPECT(kept[0].data == write.texts.data);
    ks_item_write_free(&write);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(only_conditions_that_hold_without_a_row_make_one)
{
    const struct ks_value value = {KS_VALUE_TEXT, KS_VIEW("x")};
    struct ks_item_write write;

    EXPECT_OK(ks_item_write_init(&write, "w", "k", 16));
    EXPECT(ks_item_write_may_create(&write));
    ks_item_write_if(&write, KS_IF_ABSENT, "p", value);
    ks_item_write_if(&write, KS_IF_EQUALS_OR_ABSENT, "name", value);
    EXPECT(ks_item_write_may_create(&write));
    ks_item_write_if(&write, KS_IF_EQUALS, "name", value);
    EXPECT(!ks_item_write_may_create(&write));
    write.condition_count = 0;
    ks_item_write_if(&write, KS_IF_EXISTS, "name", value);
    EXPECT(!ks_item_write_may_create(&write));
    write.condition_count = 0;
    ks_item_write_if(&write, KS_IF_IN, "name", value);
    EXPECT(!ks_item_write_may_create(&write));
    write.condition_count = 0;
    write.delete_row = true;
    EXPECT(!ks_item_write_may_create(&write));
    ks_item_write_free(&write);
}

/* `change` of set and members is `expected`. */
static void set_is(ks_err (*change)(ks_view set, ks_view members, struct ks_bytes *ret_set),
                   const char *set, const char *members, const char *expected)
{
    struct ks_bytes result;

    ks_bytes_init(&result, 64);
    EXPECT_OK(change(text(set), text(members), &result));
    EXPECT_OK(ks_bytes_append_byte(&result, '\0'));
    EXPECT_STR((const char *)result.data, expected);
    ks_bytes_free(&result);
}

TEST(sets_grow_and_shrink_by_members)
{
    set_is(ks_set_with, "", "a\nb", "a\nb");
    set_is(ks_set_with, "a\nb", "b\nc", "a\nb\nc");
    set_is(ks_set_with, "a", "", "a");
    set_is(ks_set_with, "ab", "a\nb", "ab\na\nb");
    set_is(ks_set_without, "a\nb\nc", "b", "a\nc");
    set_is(ks_set_without, "a\nb", "a\nb", "");
    set_is(ks_set_without, "ab\nb", "a", "ab\nb");
    set_is(ks_set_without, "", "a", "");
    EXPECT(ks_set_has(KS_VIEW("a\nbc"), KS_VIEW("bc")));
    EXPECT(!ks_set_has(KS_VIEW("a\nbc"), KS_VIEW("b")));
    EXPECT(!ks_set_has(KS_VIEW(""), KS_VIEW("")));
}

TEST(a_set_is_bounded_and_its_members_are_plain)
{
    struct ks_bytes set;

    ks_bytes_init(&set, 8);
    EXPECT(ks_err_is(ks_set_append(&set, KS_VIEW("")), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_set_append(&set, KS_VIEW("a\nb")), KS_ERR_MALFORMED));
    EXPECT_OK(ks_set_append(&set, KS_VIEW("abc")));
    EXPECT(ks_err_is(ks_set_append(&set, KS_VIEW("defghijkl")), KS_ERR_FULL));
    EXPECT_EQ_U64(set.size, 3);
    ks_bytes_free(&set);
}
