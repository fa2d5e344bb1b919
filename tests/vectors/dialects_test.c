/* SPDX-License-Identifier: Apache-2.0 */
/* The tables that each library was seen to write (tests/vectors/dialects; kcl-rb's requests are played,
 * make_kcl_rb.py): known for what they are, refused by every other dialect, and each row read, converted to each
 * dialect, and back, without loss. */
#include "adapters/dialects/alive.h"
#include "adapters/dialects/convert.h"
#include "adapters/dialects/probe.h"

#include "adapters/dynamodb/wire.h"
#include "aws/json.h"
#include "base/budget.h"
#include "ks_test.h"
#include "vectors/vectors.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 20 };

static const struct {
    const char *library;
    const char *dialect;
} libraries[] = {
    {"kcl2", "kcl"},          {"kcl34", "kcl"},
    {"kcl35", "kcl"},         {"kcl35-migration", "kcl"},
    {"kcl2-streams", "kcl"},  {"kcl35-streams", "kcl"},
    {"go-kcl", "go-kcl"},     {"go-kcl-v2", "go-kcl"},
    {"kinsumer", "kinsumer"}, {"kinsumer-snowplow", "kinsumer"},
    {"kcl-rb", "kcl-rb"},
};
enum { LIBRARIES = sizeof(libraries) / sizeof(libraries[0]) };

static uint32_t converted;

static struct ks_json *load(const char *library)
{
    static char text[FILE_MAX];
    char path[128];
    struct ks_json *document = NULL;
    ssize_t size;
    int fd;

    (void)snprintf(path, sizeof(path), "tests/vectors/dialects/%s.json", library);
    fd = open(path, O_RDONLY);
    size = fd < 0 ? -1 : read(fd, text, sizeof(text));
    EXPECT(size > 0 && size < (ssize_t)sizeof(text));
    EXPECT_EQ_I64(close(fd), 0);
    EXPECT_OK(ks_json_parse(ks_view_of(text, (size_t)size), &document));
    return document;
}

/* Calls `look` with every table of every stage: the items, and the suffix of its name. */
static void each_table(size_t library,
                       void (*look)(const struct ks_dialect *dialect, const char *suffix,
                                    const struct ks_json *items))
{
    struct ks_json *const document = load(libraries[library].library);
    const struct ks_json *const stages = ks_json_member(document, "stages");
    const struct ks_dialect *const dialect = ks_dialect_find(libraries[library].dialect);

    EXPECT(dialect != NULL);
    EXPECT(ks_json_count(stages) > 0);
    for (size_t at = 0; at < ks_json_count(stages); at++) {
        struct ks_json_cursor cursor = {.at = NULL};
        const struct ks_json *items;
        ks_view name;

        while (ks_json_each(ks_json_member(ks_json_item(stages, at), "tables"), &cursor, &name,
                            &items)) {
            char suffix[64];

            EXPECT_OK(ks_view_copy_text(name, suffix, sizeof(suffix)));
            look(dialect, suffix, items);
        }
    }
    ks_json_free(document);
}

/* ---- Whose is it? ---- */

static struct ks_probe seen_in(const struct ks_json *item)
{
    struct ks_json_cursor cursor = {.at = NULL};
    struct ks_probe probe = {.marks = {0}};
    const struct ks_json *value;
    ks_view name;

    while (ks_json_each(item, &cursor, &name, &value))
        ks_probe_see(&probe, name);
    return probe;
}

/* The key of a row is told by the dialect that the keys of tables tell. */
static void expect_key(const struct ks_dialect *dialect, const struct ks_json *item)
{
    static const char *const keys[] = {"leaseKey", "key", "wid", "ShardID",
                                       "Shard",    "ID",  "Key", "shard_id"};
    uint32_t found = 0;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *const name = ks_probe_keys(keys[i], "");

        EXPECT(name != NULL);
        if (ks_json_member(item, keys[i]) != NULL && strcmp(name, dialect->name) == 0)
            found++;
    }
    EXPECT(found >= 1);
}

static void look_whose(const struct ks_dialect *dialect, const char *suffix,
                       const struct ks_json *items)
{
    for (size_t at = 0; at < ks_json_count(items); at++) {
        const struct ks_json *const item = ks_json_item(items, at);
        const struct ks_probe probe = seen_in(item);

        expect_key(dialect, item);
        for (uint32_t i = 0; ks_dialect_at(i) != NULL; i++) {
            const struct ks_dialect *const other = ks_dialect_at(i);
            const char *const stranger = ks_probe_stranger(&probe, other->tables[0].schema);

            if (other == dialect) {
                EXPECT(stranger == NULL);
            } else if (strcmp(suffix, dialect->tables[0].suffix) == 0 &&
                       ks_json_member(item, "mts") == NULL && stranger != NULL) {
                EXPECT_STR(stranger, dialect->name);
                converted++;
            }
        }
    }
}

TEST(each_table_is_known_for_what_it_is)
{
    converted = 0;
    for (size_t i = 0; i < LIBRARIES; i++)
        each_table(i, look_whose);
    EXPECT(converted > 1000);
    EXPECT_STR(ks_probe_keys("p", "k"), "native");
    EXPECT_STR(ks_probe_keys("shard_id", ""), "kcl-rb");
    EXPECT(ks_probe_keys("p", "") == NULL);
    EXPECT(ks_probe_keys("leaseKey", "k") == NULL);
    EXPECT(ks_probe_keys("id", "") == NULL);
}

/* ---- Each to each, and back ---- */

static bool add_item(const struct ks_dialect *dialect, const struct ks_json *json,
                     struct ks_native_rows *rows, struct ks_bytes *texts)
{
    struct ks_item item;

    EXPECT_OK(ks_dynamodb_read_item(json, dialect->tables[0].schema, texts, &item));
    item.asked = &rows->asked;
    return ks_ok(dialect->add(rows, &item, NULL));
}

/* The same place; what is behind a record is 0 inside it for KCL. */
static void expect_place(const struct ks_store_lease *found, const struct ks_store_lease *expected)
{
    EXPECT_EQ_I64(found->finished, expected->finished);
    EXPECT_EQ_I64(found->unstarted, expected->unstarted);
    if (expected->finished || expected->unstarted)
        return;
    EXPECT_EQ_I64(found->checkpoint.kind, expected->checkpoint.kind);
    EXPECT_STR(found->checkpoint.sequence, expected->checkpoint.sequence);
    if (expected->checkpoint.sub_sequence > 0 || found->checkpoint.sub_sequence > 0)
        EXPECT_EQ_I64(found->checkpoint.sub_sequence, expected->checkpoint.sub_sequence);
}

static void there_and_back(const struct ks_dialect *from, const struct ks_dialect *to,
                           const struct ks_store_lease *lease)
{
    struct ks_conversion there;
    struct ks_conversion back;
    struct ks_detail detail = {""};

    EXPECT_OK(ks_convert(to, to == from ? lease->stream : "", lease, &there, &detail));
    EXPECT_EQ_I64(there.left_out, lease->unstarted && !to->keeps_apart);
    if (there.left_out)
        return;
    EXPECT_STR(there.held.shard, lease->shard);
    EXPECT_STR(there.held.owner.id, "");
    expect_place(&there.held, lease);
    EXPECT_OK(ks_convert(from, lease->stream, &there.held, &back, &detail));
    EXPECT_STR(back.held.stream, lease->stream);
    EXPECT(!back.left_out);
    expect_place(&back.held, lease);
    if (!there.family_lost)
        EXPECT(memcmp(back.held.parents, lease->parents, sizeof(lease->parents)) == 0);
    if (!there.range_lost)
        EXPECT_STR(back.held.hash_end, lease->hash_end);
    converted++;
}

static void look_convert(const struct ks_dialect *dialect, const char *suffix,
                         const struct ks_json *items)
{
    struct ks_native_rows rows = {.workers = NULL};
    struct ks_bytes texts;

    if (strcmp(suffix, dialect->tables[0].suffix) != 0)
        return;
    ks_bytes_init(&texts, 1 << 16);
    for (size_t at = 0; at < ks_json_count(items); at++)
        EXPECT(add_item(dialect, ks_json_item(items, at), &rows, &texts));
    for (uint32_t at = 0; at < rows.lease_count; at++) {
        EXPECT(!rows.leases[at].damaged);
        for (uint32_t i = 0; ks_dialect_at(i) != NULL; i++)
            there_and_back(dialect, ks_dialect_at(i), &rows.leases[at]);
    }
    ks_bytes_free(&texts);
    ks_native_rows_free(&rows);
}

TEST(each_row_goes_to_each_dialect_and_back)
{
    converted = 0;
    for (size_t i = 0; i < LIBRARIES; i++)
        each_table(i, look_convert);
    vectors_read(converted, 1000, "tests/vectors/dialects");
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
