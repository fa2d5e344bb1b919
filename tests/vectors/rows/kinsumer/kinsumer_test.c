/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of kinsumer's tables: those that the library and its fork were seen to write (tests/vectors/dialects), what
 * others mean, and what we write to them. */
#include "adapters/dialects/kinsumer.h"

#include "adapters/dialects/foreign.h"
#include "adapters/dynamodb/wire.h"
#include "aws/json.h"
#include "base/budget.h"
#include "ks_test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char line[4096];
static size_t size;

#define SAY(...) size += (size_t)snprintf(line + size, sizeof(line) - size, __VA_ARGS__)
#define SHARD "shardId-000000000001"

static const struct ks_dialect *const dialect = &ks_kinsumer_dialect;

static void add(struct ks_native_rows *rows, enum ks_kinsumer_table table,
                const struct ks_json *json, struct ks_bytes *texts)
{
    struct ks_item item;

    EXPECT_OK(ks_dynamodb_read_item(json, dialect->tables[table].schema, texts, &item));
    EXPECT_OK(dialect->add(rows, &item, NULL));
}

/* ---- As the libraries write ---- */

struct seen {
    uint32_t leases;
    uint32_t owned;
    uint32_t finished;
    uint32_t started;
    uint32_t workers;
    uint32_t lists;
    uint32_t leaders;
};

static void look(const struct ks_json *tables, struct seen *seen)
{
    struct ks_bytes texts;

    ks_bytes_init(&texts, 1 << 16);
    for (uint32_t table = 0; table < KS_KINSUMER_TABLES; table++) {
        const struct ks_json *const items = ks_json_member(tables, dialect->tables[table].suffix);
        struct ks_native_rows rows = {.workers = NULL};

        for (size_t at = 0; at < ks_json_count(items); at++)
            add(&rows, (enum ks_kinsumer_table)table, ks_json_item(items, at), &texts);
        for (uint32_t at = 0; at < rows.lease_count; at++) {
            const struct ks_store_lease *const lease = &rows.leases[at];

            EXPECT(!lease->damaged);
            EXPECT(lease->rev > UINT64_C(1700000000000000000));
            seen->owned += lease->owner.id[0] != '\0';
            seen->finished += lease->finished;
            seen->started += !lease->finished && !lease->unstarted;
        }
        for (uint32_t at = 0; at < rows.worker_count; at++)
            EXPECT(rows.workers[at].beat > UINT64_C(1700000000000000000));
        seen->leases += rows.lease_count;
        seen->workers += rows.worker_count;
        seen->lists += rows.list.present && rows.list.shards.size > 0 && rows.list.rev > 0;
        seen->leaders += rows.leader.present && rows.leader.holder.id[0] != '\0';
        ks_native_rows_free(&rows);
    }
    ks_bytes_free(&texts);
}

static void rows_of(const char *path)
{
    static char text[256 << 10];
    const int fd = open(path, O_RDONLY);
    const ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof(text));
    const struct ks_json *stages;
    struct ks_json *document = NULL;
    struct seen seen = {0};

    EXPECT(bytes > 0 && bytes < (ssize_t)sizeof(text));
    EXPECT_EQ_I64(close(fd), 0);
    EXPECT_OK(ks_json_parse(ks_view_of(text, (size_t)bytes), &document));
    stages = ks_json_member(document, "stages");
    EXPECT(ks_json_count(stages) >= 3);
    for (size_t at = 0; at < ks_json_count(stages); at++)
        look(ks_json_member(ks_json_item(stages, at), "tables"), &seen);
    ks_json_free(document);
    EXPECT(seen.leases > 0 && seen.workers > 0 && seen.lists > 0 && seen.leaders > 0);
    EXPECT(seen.owned > 0 && seen.owned < seen.leases);
    EXPECT(seen.started > 0 && seen.finished > 0);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(all_that_the_library_writes_is_read)
{
    rows_of("tests/vectors/dialects/kinsumer.json");
}

TEST(all_that_its_fork_writes_is_read)
{
    rows_of("tests/vectors/dialects/kinsumer-snowplow.json");
}

/* ---- What rows mean ---- */

static void say_row(const struct ks_store_lease *row)
{
    if (row->damaged) {
        SAY("damaged");
        return;
    }
    SAY("of %s at %" PRIu64 " ", row->owner.id[0] == '\0' ? "-" : row->owner.id, row->rev);
    if (row->finished)
        SAY("at its end");
    else if (row->unstarted)
        SAY("not begun");
    else if (row->checkpoint.kind == KS_POSITION_LATEST)
        SAY("latest");
    else if (row->checkpoint.sub_sequence >= 0)
        SAY("after %s/%" PRId64 ", for others after %s", row->checkpoint.sequence,
            row->checkpoint.sub_sequence, row->whole.sequence);
    else
        SAY("after %s", row->checkpoint.sequence);
}

#define ROW(rest) "{\"Shard\":{\"S\":\"" SHARD "\"}" rest "}"
#define AT ",\"LastUpdate\":{\"N\":\"1714564800123456789\"}"

TEST(a_checkpoint_row_is_read_or_damaged)
{
    static const struct {
        const char *text;
        const char *meaning;
    } cases[] = {
        {ROW(""), "of - at 0 not begun"},
        {ROW(AT), "of - at 1714564800123456789 not begun"},
        {ROW(AT ",\"OwnerID\":{\"NULL\":true},\"OwnerName\":{\"NULL\":true},\"SequenceNumber\":{"
                "\"NULL\":true},"
                "\"Finished\":{\"NULL\":true},\"FinishedRFC\":{\"NULL\":true}"),
         "of - at 1714564800123456789 not begun"},
        {ROW(AT ",\"OwnerID\":{\"S\":\"w\"},\"SequenceNumber\":{\"S\":\"\"}"),
         "of w at 1714564800123456789 not begun"},
        {ROW(AT ",\"OwnerID\":{\"S\":\"\"},\"SequenceNumber\":{\"S\":\"4957\"}"),
         "of \"\" at 1714564800123456789 after 4957"},
        {ROW(AT ",\"SequenceNumber\":{\"S\":\"LATEST\"}"), "of - at 1714564800123456789 latest"},
        {ROW(AT
             ",\"SequenceNumber\":{\"S\":\"4957\"},\"Finished\":{\"N\":\"1714564800123456789\"}"),
         "of - at 1714564800123456789 at its end"},
        {ROW(AT ",\"SequenceNumber\":{\"S\":\"4957\"},\"SidecarPosition\":{\"S\":\"4957:4958:3\"}"),
         "of - at 1714564800123456789 after 4958/3, for others after 4957"},
        {ROW(AT ",\"SequenceNumber\":{\"S\":\"4959\"},\"SidecarPosition\":{\"S\":\"4957:4958:3\"}"),
         "of - at 1714564800123456789 after 4959"},
        {ROW(AT ",\"SidecarPosition\":{\"S\":\":4958:3\"}"),
         "of - at 1714564800123456789 after 4958/3, for others after "},
        {ROW(AT ",\"SequenceNumber\":{\"S\":\"LATEST\"},\"SidecarPosition\":{\"S\":\":4958:3\"}"),
         "of - at 1714564800123456789 after 4958/3, for others after "},
        {ROW(AT ",\"Anything\":{\"M\":{}}"), "of - at 1714564800123456789 not begun"},
        /* Of a later version of ours, maybe: what we would pass over might be a place that a person ordered. */
        {ROW(AT ",\"SidecarPosition\":{\"N\":\"7\"}"), "damaged"},
        {ROW(AT ",\"SidecarPosition\":{\"S\":\":YESTERDAY\"}"), "damaged"},
        {ROW(AT ",\"SequenceNumber\":{\"S\":\"4957\"},\"SidecarPosition\":{\"S\":\"4957:4958\"}"),
         "damaged"},
        /* What clients could not decode, or would read from a wrong place. */
        {ROW(",\"LastUpdate\":{\"S\":\"1714564800123456789\"}"), "damaged"},
        {ROW(",\"LastUpdate\":{\"N\":\"1.5\"}"), "damaged"},
        {ROW(AT ",\"OwnerID\":{\"N\":\"7\"}"), "damaged"},
        {ROW(AT ",\"OwnerName\":{\"BOOL\":true}"), "damaged"},
        {ROW(AT ",\"Finished\":{\"S\":\"yes\"}"), "damaged"},
        {ROW(AT ",\"SequenceNumber\":{\"S\":\"TRIM_HORIZON\"}"), "damaged"},
        {ROW(AT ",\"SequenceNumber\":{\"S\":\"SHARD_END\"}"), "damaged"},
        {ROW(AT ",\"SequenceNumber\":{\"N\":\"4957\"}"), "damaged"},
    };
    struct ks_bytes texts;

    ks_bytes_init(&texts, 4096);
    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        struct ks_native_rows rows = {.workers = NULL};
        struct ks_json *document = NULL;

        EXPECT_OK(ks_json_parse(ks_view_text(cases[at].text), &document));
        add(&rows, KS_KINSUMER_CHECKPOINTS, document, &texts);
        size = 0;
        EXPECT_EQ_U64(rows.lease_count, 1);
        say_row(&rows.leases[0]);
        EXPECT_STR(line, cases[at].meaning);
        ks_native_rows_free(&rows);
        ks_json_free(document);
    }
    ks_bytes_free(&texts);
}

TEST(a_client_without_a_time_is_none_and_a_list_of_another_type_stops_us)
{
    static const char *const texts_of[] = {
        "{\"ID\":{\"S\":\"a\"},\"LastUpdate\":{\"S\":\"yesterday\"}}",
        "{\"Key\":{\"S\":\"ShardCache\"},\"ShardIDs\":{\"S\":\"shardId-000000000000\"}}",
        "{\"Key\":{\"S\":\"Leader\"},\"LastUpdate\":{\"S\":\"yesterday\"}}",
    };
    struct ks_native_rows rows = {.workers = NULL};
    struct ks_bytes texts;

    ks_bytes_init(&texts, 4096);
    for (size_t at = 0; at < sizeof(texts_of) / sizeof(texts_of[0]); at++) {
        const enum ks_kinsumer_table table = at == 0 ? KS_KINSUMER_CLIENTS : KS_KINSUMER_METADATA;
        struct ks_json *document = NULL;
        struct ks_item item;
        ks_err err;

        EXPECT_OK(ks_json_parse(ks_view_text(texts_of[at]), &document));
        EXPECT_OK(ks_dynamodb_read_item(document, dialect->tables[table].schema, &texts, &item));
        err = dialect->add(&rows, &item, NULL);
        EXPECT(at == 1 ? ks_err_is(err, KS_ERR_CORRUPT) : ks_ok(err));
        ks_json_free(document);
    }
    EXPECT_EQ_U64(rows.worker_count, 0);
    EXPECT(!rows.list.present);
    /* Nobody leads, and yet the office is not to be had. */
    EXPECT_EQ_U64(rows.leader.epoch, INT64_MAX);
    ks_native_rows_free(&rows);
    ks_bytes_free(&texts);
}

/* ---- What we write ---- */

#define T0 UINT64_C(1714564800123456789)
#define T1 UINT64_C(1714564860123456789)
#define STAMP "LastUpdate = 1714564860123456789, LastUpdateRFC = Wed, 01 May 2024 12:01:00 +0000"

static const char *say_write(const struct ks_store_request *request)
{
    static const char *const ifs[] = {
        [KS_IF_EQUALS] = "=",
        [KS_IF_EQUALS_OR_ABSENT] = "=?",
        [KS_IF_EXISTS] = "there",
        [KS_IF_ABSENT_OR_NULL] = "none",
    };
    static const char *const types[] = {
        [KS_VALUE_TEXT] = "", [KS_VALUE_NUMBER] = "", [KS_VALUE_LIST] = "list "};
    struct ks_item_write write;

    size = 0;
    EXPECT_OK(dialect->write(request, &write, NULL));
    EXPECT_STR(write.key, dialect->tables[dialect->table(request->operation)].schema->key);
    EXPECT(write.p == NULL);
    EXPECT((write.condition_count == 0) == write.unconditional);
    SAY("%s:", write.k);
    for (uint32_t at = 0; at < write.condition_count; at++)
        SAY("%s%s %s %.*s", at == 0 ? " if " : ", ", write.conditions[at].name,
            ifs[write.conditions[at].kind], (int)write.conditions[at].value.text.size,
            (const char *)write.conditions[at].value.text.data);
    SAY(write.delete_row ? "; delete" : ";");
    for (uint32_t at = 0; at < write.update_count; at++)
        SAY("%s%s%s%s%.*s", at == 0 ? " " : ", ", write.updates[at].name,
            write.updates[at].kind == KS_DO_REMOVE ? " removed" : " = ",
            write.updates[at].kind == KS_DO_REMOVE ? "" : types[write.updates[at].value.type],
            (int)write.updates[at].value.text.size,
            (const char *)write.updates[at].value.text.data);
    ks_item_write_free(&write);
    return line;
}

static struct ks_store_request request_of(enum ks_store_operation operation)
{
    return (struct ks_store_request){.operation = operation,
                                     .shard = SHARD,
                                     .worker = {.id = "me"},
                                     .owner = {.id = "other"},
                                     .rev = T0,
                                     .next_rev = T1};
}

TEST(a_capture_names_all_that_was_read)
{
    struct ks_store_request request = request_of(KS_STORE_ASSIGN);
    const struct ks_store_lease begun = {
        .checkpoint = {.kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = 1714564810000},
        .begins = true};

    EXPECT_STR(say_write(&request),
               SHARD ": if OwnerID none , LastUpdate = 1714564800123456789, Finished none ; "
                     "OwnerID = me, OwnerName = me, " STAMP);
    request.rev = 0;
    EXPECT_STR(say_write(&request), SHARD ": if OwnerID none , LastUpdate =? 0, Finished none ; "
                                          "OwnerID = me, OwnerName = me, " STAMP);
    request = request_of(KS_STORE_TAKE_OVER);
    EXPECT_STR(say_write(&request),
               SHARD ": if OwnerID = other, LastUpdate = 1714564800123456789, Finished none ; "
                     "OwnerID = me, OwnerName = me, " STAMP);
    request.lease = &begun;
    EXPECT_STR(say_write(&request),
               SHARD ": if OwnerID = other, LastUpdate = 1714564800123456789, Finished none ; "
                     "OwnerID = me, OwnerName = me, "
                     "SidecarPosition = :AT_TIMESTAMP:1714564810000, " STAMP);
    request.lease = NULL;
    memcpy(request.owner.id, KS_FOREIGN_EMPTY, sizeof(KS_FOREIGN_EMPTY));
    EXPECT_STR(say_write(&request),
               SHARD ": if OwnerID = , LastUpdate = 1714564800123456789, Finished none ; "
                     "OwnerID = me, OwnerName = me, " STAMP);
}

#define IF_OURS SHARD ": if OwnerID = me, LastUpdate = 1714564800123456789; "

static struct ks_position after(const char *sequence, int64_t sub)
{
    struct ks_position position = {.kind = KS_POSITION_AFTER_SEQUENCE, .sub_sequence = sub};

    EXPECT_OK(
        ks_view_copy_text(ks_view_text(sequence), position.sequence, sizeof(position.sequence)));
    return position;
}

TEST(what_is_ours_is_written_if_it_is_as_we_wrote_it)
{
    struct ks_store_request request = request_of(KS_STORE_CHECKPOINT);

    EXPECT_STR(say_write(&request), IF_OURS STAMP);
    request.has_checkpoint = true;
    request.checkpoint = request.whole = after("4957", -1);
    EXPECT_STR(say_write(&request),
               IF_OURS "SequenceNumber = 4957, SidecarPosition removed, " STAMP);
    request.checkpoint = after("4958", 3);
    EXPECT_STR(say_write(&request),
               IF_OURS "SequenceNumber = 4957, SidecarPosition = 4957:4958:3, " STAMP);
    request.whole = (struct ks_position){.kind = KS_POSITION_TRIM_HORIZON};
    EXPECT_STR(say_write(&request), IF_OURS "SidecarPosition = :4958:3, " STAMP);

    request = request_of(KS_STORE_FINAL);
    EXPECT_STR(say_write(&request), IF_OURS "OwnerID removed, OwnerName removed, " STAMP);
    request = request_of(KS_STORE_END);
    request.whole = after("4957", -1);
    EXPECT_STR(
        say_write(&request), IF_OURS
        "OwnerID removed, OwnerName removed, SidecarPosition removed, SequenceNumber = 4957, "
        "Finished = 1714564860123456789, FinishedRFC = Wed, 01 May 2024 12:01:00 +0000, " STAMP);
}

TEST(clients_leader_and_list)
{
    struct ks_store_request request = request_of(KS_STORE_HEARTBEAT);

    EXPECT_STR(say_write(&request), "me:; Name = me, " STAMP);
    request.expect_beat = T0;
    EXPECT_STR(say_write(&request), "me: if ID there ; Name = me, " STAMP);
    request.operation = KS_STORE_SAY_GONE;
    EXPECT_STR(say_write(&request), "me:; delete");
    request.operation = KS_STORE_REMOVE_WORKER;
    request.expect_beat = T0;
    EXPECT_STR(say_write(&request), "me: if LastUpdate = 1714564800123456789; delete");

    request = request_of(KS_STORE_CLAIM_OFFICE);
    EXPECT_STR(
        say_write(&request),
        "Leader: if LastUpdate = 1714564800123456789, ID = other; ID = me, Name = me, " STAMP);
    request.owner = (struct ks_incarnation_text){.boot = 0};
    request.rev = 0;
    EXPECT_STR(say_write(&request),
               "Leader: if LastUpdate =? 0, ID none ; ID = me, Name = me, " STAMP);
    request = request_of(KS_STORE_RESIGN_OFFICE);
    request.owner = request.worker;
    EXPECT_STR(say_write(&request),
               "Leader: if LastUpdate = 1714564800123456789, ID = me; ID removed, " STAMP);

    request = request_of(KS_STORE_NAME_SHARDS);
    request.shards = KS_VIEW("shardId-000000000000\nshardId-000000000001");
    EXPECT_STR(say_write(&request),
               "ShardCache: if LastUpdate = 1714564800123456789; ShardIDs = list "
               "shardId-000000000000\nshardId-000000000001, " STAMP);
}

TEST(what_the_tables_cannot_hold_is_refused)
{
    static const enum ks_store_operation others[] = {KS_STORE_SEEK, KS_STORE_PLAN, KS_STORE_DELETE,
                                                     KS_STORE_CREATE};
    struct ks_item_write write;
    struct ks_detail detail;

    for (size_t at = 0; at < sizeof(others) / sizeof(others[0]); at++) {
        const struct ks_store_request request = request_of(others[at]);

        EXPECT_ERR(dialect->write(&request, &write, &detail), UNSUPPORTED);
        ks_item_write_free(&write);
    }
    struct ks_store_request request = request_of(KS_STORE_CHECKPOINT);
    request.has_checkpoint = true;
    request.checkpoint = (struct ks_position){.kind = KS_POSITION_TRIM_HORIZON};
    EXPECT_ERR(dialect->write(&request, &write, &detail), INVALID);
    ks_item_write_free(&write);
    request.shard = "no shard id at all\n";
    EXPECT_ERR(dialect->write(&request, &write, &detail), INVALID);
    ks_item_write_free(&write);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
