/* SPDX-License-Identifier: Apache-2.0 */
/* records_test.c - answers of GetRecords, as json and cbor2, the emulators and others write them.
 *
 * tests/vectors/records/records.json is ours (make_records.py). In VECTORS_DIR, where it is set:
 * captures (*.GetRecords-*.body), raw answers of two emulators with three known records, and the GetRecords
 * cases of cbor/cbor.json.
 */
#include "ks_test.h"

#include "adapters/kinesis/records.h"
#include "base/codec.h"
#include "body_block.h"
#include "vectors/vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BODY_MAX = 1 << 20 };

static ks_err scan(bool cbor, ks_view body, struct ks_records *records)
{
    struct ks_block *block = body_block(NULL, 0, body, BODY_FITS, KS_READ_RECORDS_MAX);

    return cbor ? ks_records_cbor(block, 0, KS_READ_RECORDS_MAX, records)
                : ks_records_json(block, 0, KS_READ_RECORDS_MAX, records);
}

/* --- Our own --- */

static void expect_record(const char *name, const struct ks_record *record, const json_t *expected)
{
    static char hex[2 * BODY_MAX + 1];
    const char *data = vectors_text(expected, "data");

    EXPECT(record->data.size < BODY_MAX);
    ks_hex_encode(record->data, hex);
    hex[2 * record->data.size] = '\0';
    if (strcmp(hex, data) != 0)
        FAIL("%s: data is %.80s, not %.80s", name, hex, data);
    const json_t *key = json_object_get(expected, "key");
    ks_view expected_key = ks_view_of(json_string_value(key), json_string_length(key));
    if (!ks_view_equal(record->partition_key, expected_key))
        FAIL("%s: key is not %s", name, json_string_value(key));
    EXPECT(ks_view_equal(record->sequence, ks_view_text(vectors_text(expected, "sequence"))));
    EXPECT_EQ_I64(record->arrival_ms, json_integer_value(json_object_get(expected, "ms")));
    EXPECT_EQ_I64(record->aggregated, json_is_true(json_object_get(expected, "aggregated")));
    EXPECT_EQ_I64(record->sub_sequence, -1);
}

static void expect_answer(const char *name, const struct ks_records *records,
                          const json_t *expected)
{
    const json_t *array = json_object_get(expected, "records");
    const json_t *children = json_object_get(expected, "children");

    if (records->batch.count != json_array_size(array))
        FAIL("%s: %u records, not %zu", name, records->batch.count, json_array_size(array));
    for (uint32_t at = 0; at < records->batch.count; at++)
        expect_record(name, &records->batch.records[at], json_array_get(array, at));
    EXPECT_STR(records->iterator, vectors_text(expected, "next"));
    EXPECT_EQ_I64(records->batch.at_end, json_is_null(json_object_get(expected, "next")));
    EXPECT_EQ_I64(records->batch.millis_behind,
                  json_integer_value(json_object_get(expected, "millis_behind")));
    for (size_t at = 0; at < KS_CHILDREN_MAX; at++) {
        const char *child = json_string_value(json_array_get(children, at));
        EXPECT_STR(records->batch.children[at], child == NULL ? "" : child);
    }
}

TEST(own_answers_mean_what_they_were_made_from)
{
    static uint8_t body[BODY_MAX + 64];
    json_t *root = vectors_load("tests/vectors/records/records.json");
    const json_t *cases = json_object_get(root, "cases");

    for (size_t at = 0; at < json_array_size(cases); at++) {
        const json_t *one = json_array_get(cases, at);
        const json_t *expected = json_object_get(one, "expect");
        bool cbor = strcmp(vectors_text(one, "type"), "cbor") == 0;
        struct ks_records records;
        size_t size = 0;

        EXPECT(strlen(vectors_text(one, "base64")) < BODY_MAX);
        EXPECT_OK(ks_base64_decode(ks_view_text(vectors_text(one, "base64")), body, &size));
        ks_err err = scan(cbor, ks_view_of(body, size), &records);
        if (expected == NULL) {
            if (!ks_err_is(err, KS_ERR_MALFORMED))
                FAIL("%s: %s", vectors_text(one, "name"), ks_err_name(err));
            continue;
        }
        if (!ks_ok(err))
            FAIL("%s: %s", vectors_text(one, "name"), ks_err_name(err));
        expect_answer(vectors_text(one, "name"), &records, expected);
        ks_batch_free(&records.batch);
    }
    EXPECT_EQ_I64(ks_alloc_live(), 0);
    vectors_read(json_array_size(cases), 140, "tests/vectors/records/records.json");
    json_decref(root);
}

/* --- Those of others --- */

static size_t read_file(const char *path, uint8_t body[BODY_MAX])
{
    FILE *file = fopen(path, "rb");

    if (file == NULL)
        FAIL("%s cannot be read", path);
    size_t size = fread(body, 1, BODY_MAX, file);
    fclose(file);
    EXPECT(size > 0);
    EXPECT(size < BODY_MAX);
    return size;
}

static void read_capture(const char *folder, const char *emulator, const char *state,
                         const char *type, struct ks_records *records)
{
    static uint8_t body[BODY_MAX];
    char path[2 * VECTORS_PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s.GetRecords-%s.%s.body", folder, emulator, state, type);
    size_t size = read_file(path, body);
    ks_err err = scan(strcmp(type, "cbor") == 0, ks_view_of(body, size), records);
    if (!ks_ok(err))
        FAIL("%s: %s", path, ks_err_name(err));
}

static void expect_same(const struct ks_records *a, const struct ks_records *b)
{
    EXPECT_EQ_U64(a->batch.count, b->batch.count);
    for (uint32_t at = 0; at < a->batch.count; at++) {
        const struct ks_record *one = &a->batch.records[at];
        const struct ks_record *other = &b->batch.records[at];
        EXPECT(ks_view_equal(one->data, other->data));
        EXPECT(ks_view_equal(one->partition_key, other->partition_key));
        EXPECT(ks_view_equal(one->sequence, other->sequence));
        EXPECT_EQ_I64(one->arrival_ms, other->arrival_ms);
    }
    EXPECT_EQ_I64(a->batch.at_end, b->batch.at_end);
    EXPECT_EQ_I64(a->batch.millis_behind, b->batch.millis_behind);
    EXPECT_STR(a->batch.children[0], b->batch.children[0]);
    EXPECT_STR(a->batch.children[1], b->batch.children[1]);
}

TEST(captures_hold_the_same_records_in_json_and_cbor)
{
    static const char *const EMULATORS[] = {"kinesis-local-0.6.2", "kinesalite-3.3.3"};
    static const char *const STATES[] = {"open", "closed"};
    char folder[VECTORS_PATH_MAX];
    size_t count = 0;

    if (!vectors_path("captures", "captures", folder))
        return;
    for (int emulator = 0; emulator < 2; emulator++) {
        for (int state = 0; state < 2; state++) {
            static struct ks_records json;
            static struct ks_records cbor;
            read_capture(folder, EMULATORS[emulator], STATES[state], "json", &json);
            read_capture(folder, EMULATORS[emulator], STATES[state], "cbor", &cbor);
            expect_same(&json, &cbor);
            EXPECT_EQ_U64(json.batch.count, 3);
            EXPECT(ks_view_equal(json.batch.records[0].data, KS_VIEW("hello")));
            EXPECT(ks_view_equal(json.batch.records[1].data, ks_view_of("\0\xFF\xFE", 3)));
            EXPECT(ks_view_equal(json.batch.records[1].partition_key,
                                 KS_VIEW("\xD0\xBA\xD0\xBB\xD1\x8E\xD1\x87")));
            EXPECT(ks_view_equal(json.batch.records[2].data, KS_VIEW("a")));
            /* Only kinesis-local tells the end together with the last records. */
            EXPECT_EQ_I64(json.batch.at_end, emulator == 0 && state == 1);
            EXPECT_STR(json.batch.children[0], json.batch.at_end ? "shardId-000000000002" : "");
            ks_batch_free(&json.batch);
            ks_batch_free(&cbor.batch);
            count += 2;
        }
    }
    vectors_read(count, 8, folder);
}

/* The members of a record in the terms of that file. */
static void expect_foreign(const char *name, const struct ks_record *record, const json_t *expected)
{
    char hex[512] = "";

    EXPECT(record->data.size < sizeof(hex) / 2);
    ks_hex_encode(record->data, hex);
    if (strcmp(hex, vectors_text(expected, "Data_hex")) != 0)
        FAIL("%s: data is %s", name, hex);
    EXPECT(
        ks_view_equal(record->partition_key, ks_view_text(vectors_text(expected, "PartitionKey"))));
    EXPECT(ks_view_equal(record->sequence, ks_view_text(vectors_text(expected, "SequenceNumber"))));
    EXPECT_EQ_I64(record->arrival_ms,
                  json_integer_value(json_object_get(expected, "ApproximateArrivalTimestamp_ms")));
}

static void expect_foreign_answer(const json_t *one, const struct ks_records *records)
{
    const json_t *expected = json_object_get(one, "expect");
    const json_t *array = json_object_get(expected, "Records");
    const json_t *children = json_object_get(expected, "ChildShards");

    EXPECT_EQ_U64(records->batch.count, json_array_size(array));
    for (uint32_t at = 0; at < records->batch.count; at++)
        expect_foreign(vectors_text(one, "name"), &records->batch.records[at],
                       json_array_get(array, at));
    EXPECT_STR(records->iterator, vectors_text(expected, "NextShardIterator"));
    EXPECT_EQ_I64(records->batch.millis_behind,
                  json_integer_value(json_object_get(expected, "MillisBehindLatest")));
    EXPECT_STR(records->batch.children[0], vectors_text(json_array_get(children, 0), "ShardId"));
}

TEST(cbor_bodies_of_others_agree)
{
    static uint8_t body[BODY_MAX];
    char path[VECTORS_PATH_MAX];
    int answers = 0;
    int others = 0;

    if (!vectors_path("cbor/cbor.json", "bodies of others", path))
        return;
    json_t *root = vectors_load(path);
    const json_t *cases = json_object_get(root, "cases");
    for (size_t at = 0; at < json_array_size(cases); at++) {
        const json_t *one = json_array_get(cases, at);
        ks_view hex = ks_view_text(vectors_text(one, "hex"));
        struct ks_records records;

        EXPECT_OK(ks_hex_decode(hex, body));
        ks_err err = scan(true, ks_view_of(body, hex.size / 2), &records);
        if (strncmp(vectors_text(one, "name"), "GetRecords", 10) == 0) {
            if (!ks_ok(err))
                FAIL("%s: %s", vectors_text(one, "name"), ks_err_name(err));
            expect_foreign_answer(one, &records);
            ks_batch_free(&records.batch);
            answers++;
        } else {
            /* Errors, requests, bytes that are no CBOR. */
            if (!ks_err_is(err, KS_ERR_MALFORMED))
                FAIL("%s: %s", vectors_text(one, "name"), ks_err_name(err));
            others++;
        }
    }
    EXPECT(answers >= 14);
    EXPECT(others >= 9);
    fprintf(stderr, "read %d answers and %d others from %s\n", answers, others, path);
    json_decref(root);
}
