/* SPDX-License-Identifier: Apache-2.0 */
/* letters_api.c - any rows in a file of dead letters, up to the byte that is written to an app: they are listed, are
 * ordered to be delivered again or discarded, come in each encoding as they were listed, and are settled.
 *
 * The first byte says in which ways they are asked for, the second one has a bit for each that is discarded. Then rows:
 * two bytes, a bit for each column that follows; a column is a byte that says its type, two of its length, and its
 * bytes. A column that does not follow is sound.
 */
#include "aws.h"
#include "deliveries.h"

#include "adapters/kinesis/polling.h"
#include "adapters/kinesis/user_records.h"
#include "adapters/sqlite/dead_letters.h"
#include "adapters/sqlite/store.h"

#include <sqlite3.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS_MAX = 6, COLUMNS = 12, IDS_MAX = 8, ID_BYTES = 3 * 600, PAGES_MAX = 20 };

static ks_view rest;
static char ids[IDS_MAX][ID_BYTES]; /* As they stand in a path. */
static uint32_t id_count;

/* ---- The file ---- */

static ks_view take(size_t size)
{
    const ks_view taken = ks_view_of(rest.data, size < rest.size ? size : rest.size);

    rest = ks_view_of(rest.data + taken.size, rest.size - taken.size);
    return taken;
}

static uint32_t take_number(void)
{
    const ks_view bytes = take(2);

    return bytes.size < 2 ? 0 : (uint32_t)bytes.data[0] << 8 | bytes.data[1];
}

static int64_t integer_of(ks_view bytes)
{
    uint64_t number = 0;

    for (size_t at = 0; at < bytes.size && at < 8; at++)
        number = number << 8 | bytes.data[at];
    return (int64_t)number;
}

static void bind_sound(sqlite3_stmt *insert, int column, uint32_t row)
{
    static const char *const texts[COLUMNS] = {
        NULL, "demo", "shardId-000000000000", NULL, NULL, "key", "data", "why"};
    static const int64_t numbers[COLUMNS] = {
        [4] = -1, [8] = 1795219200000, [9] = 1795219200000, [10] = 3, [11] = 1};
    char name[40];

    (void)snprintf(name, sizeof(name), column == 0 ? "shardId-000000000000.%u" : "%u", 40 + row);
    if (column == 0 || column == 3)
        (void)sqlite3_bind_text(insert, column + 1, name, -1, SQLITE_TRANSIENT);
    else if (column >= 5 && column <= 7)
        (void)sqlite3_bind_blob(insert, column + 1, texts[column], (int)strlen(texts[column]),
                                SQLITE_STATIC);
    else if (texts[column] != NULL)
        (void)sqlite3_bind_text(insert, column + 1, texts[column], -1, SQLITE_STATIC);
    else
        (void)sqlite3_bind_int64(insert, column + 1, numbers[column]);
}

static void bind_given(sqlite3_stmt *insert, int column)
{
    const ks_view type = take(1);
    const ks_view value = take(take_number());
    const int size = (int)value.size;

    switch (type.size == 0 ? 0 : type.data[0] % 4) {
    case 0:
        (void)sqlite3_bind_text(insert, column + 1, (const char *)value.data, size,
                                SQLITE_TRANSIENT);
        break;
    case 1: (void)sqlite3_bind_blob(insert, column + 1, value.data, size, SQLITE_TRANSIENT); break;
    case 2: (void)sqlite3_bind_int64(insert, column + 1, integer_of(value)); break;
    case 3: (void)sqlite3_bind_double(insert, column + 1, (double)integer_of(value) / 3); break;
    }
}

/* Rows that the table itself refuses are left out. */
static void write_rows(void)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *insert = NULL;

    if (sqlite3_open(place("letters.db"), &db) != SQLITE_OK ||
        sqlite3_prepare_v2(
            db, "INSERT INTO dead_letter VALUES ('app', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", -1,
            &insert, NULL) != SQLITE_OK)
        abort();
    for (uint32_t row = 0; row < ROWS_MAX && rest.size > 0; row++) {
        const uint32_t given = take_number();

        for (int column = 0; column < COLUMNS; column++)
            if (given >> column & 1)
                bind_given(insert, column);
            else
                bind_sound(insert, column, row);
        (void)sqlite3_step(insert);
        (void)sqlite3_reset(insert);
    }
    (void)sqlite3_finalize(insert);
    (void)sqlite3_close(db);
}

/* ---- What is asked of AWS ---- */

static ks_view answer_to(const struct ks_aws_call *call)
{
    if (is_asked(call, "DescribeStreamSummary"))
        return AWS_SUMMARY;
    if (is_asked(call, "ListShards"))
        return KS_VIEW("{\"Shards\":[]}");
    return KS_VIEW("!{\"__type\":\"AccessDeniedException\",\"message\":\"not here\"}");
}

static void answer_calls(void)
{
    for (size_t at = 0; at < AWS_CALLS_MAX; at++)
        if (calls[at].open)
            give(&calls[at], answer_to(&calls[at]));
}

/* ---- Its letters ---- */

/* As it stands in a path. */
static void keep_id(ks_view id)
{
    size_t size = 0;

    if (id_count == IDS_MAX)
        return;
    assert(id.size > 0 && id.size <= KS_LETTER_ID_MAX);
    for (size_t at = 0; at < id.size; at++)
        size += (size_t)snprintf(ids[id_count] + size, ID_BYTES - size, "%%%02X", id.data[at]);
    id_count++;
}

static void see_letter(const json_t *letter)
{
    const char *const shard = json_string_value(json_object_get(letter, "shard_id"));
    const char *const sequence = json_string_value(json_object_get(letter, "sequence_number"));
    const int64_t sub = number_of(json_object_get(letter, "sub_sequence_number"));
    const ks_view text = text_of(json_object_get(letter, "data"));
    uint8_t *const bytes = malloc(ks_base64_decoded_max(text.size) + 32);
    ks_view data = {bytes, 0};
    const ks_err err = ks_base64_decode(text, bytes, &data.size);

    assert(ks_ok(err));
    keep_id(text_of(json_object_get(letter, "id")));
    see(shard, sequence, sub, text_of(json_object_get(letter, "partition_key")), data, true);
    free(bytes);
}

static void list_letters(void)
{
    char target[ID_BYTES + 80] = "/v1/dead-letters?page_size=2";

    for (uint32_t page = 0; page < PAGES_MAX; page++) {
        json_t *list;
        ks_view token;

        ask(DOOR_API, "GET", target, "", NULL);
        if (check_problem())
            return;
        list = read_json(answer.body, answer.body_size);
        for (size_t at = 0; at < json_array_size(json_object_get(list, "dead_letters")); at++)
            see_letter(json_array_get(json_object_get(list, "dead_letters"), at));
        token = text_of(json_object_get(list, "next_page_token"));
        (void)snprintf(target, sizeof(target), "/v1/dead-letters?page_size=2&page_token=%.*s",
                       (int)token.size, (const char *)token.data);
        json_decref(list);
        if (token.size == 0)
            return;
        assert(page + 1 < PAGES_MAX);
    }
}

static void order(const char *id, const char *what)
{
    char target[ID_BYTES + 80];

    (void)snprintf(target, sizeof(target), "/v1/dead-letters/%s/%s", id, what);
    ask(DOOR_API, "POST", target, "", NULL);
    if (!check_problem())
        json_decref(read_json(answer.body, answer.body_size));
}

static void open_all(void)
{
    const struct ks_letters_key key = {.application = "app"};
    struct ks_detail detail;

    begin_house();
    house.answer = answer_calls;
    remove_database("leases.db");
    remove_database("letters.db");
    if (!ks_ok(ks_sqlite_store_open(house.loop, place("leases.db"), "app", NULL, NULL, &house.store,
                                    &detail)) ||
        !ks_ok(ks_kinesis_source_open(house.loop, &client, "demo", &house.source, &detail)) ||
        !ks_ok(ks_user_records_source_open(house.loop, "app", house.source, &house.source)) ||
        !ks_ok(
            ks_sqlite_letters_open(house.loop, place("letters.db"), &key, &house.letters, &detail)))
        abort();
    write_rows();
    open_house(&ks_native_dialect);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    rest = ks_view_of(data + 2, size - 2);
    id_count = 0;
    begin_deliveries();
    open_all();
    list_letters();
    for (uint32_t at = 0; at < id_count; at++)
        order(ids[at], data[1] >> at & 1 ? "discard" : "redrive");
    for (uint32_t at = 0; at < 2; at++) {
        receive(&ways[(data[0] + at) % WAYS]);
        settle("nack", "");
    }
    receive(&ways[0]);
    settle("ack", "&wait=persisted");
    id_count = 0;
    list_letters();
    close_house();
    return 0;
}
