/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the KCL's table (rows.json: what the library itself was seen to write, and what else may stand there), what
 * they mean, and what we write to them. */
#include "adapters/dialects/kcl.h"

#include "adapters/dynamodb/wire.h"
#include "aws/json.h"
#include "base/budget.h"
#include "ks_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char line[2048];
static size_t size;

#define SAY(...) size += (size_t)snprintf(line + size, sizeof(line) - size, __VA_ARGS__)

static const char *or_none(const char *text)
{
    return text[0] == '\0' ? "-" : text;
}

static void say_two(const char *what, const char *first, const char *second)
{
    SAY(" %s %s%s%s", what, or_none(first), second[0] == '\0' ? "" : " ", second);
}

static void say_place(const struct ks_position *position)
{
    switch (position->kind) {
    case KS_POSITION_TRIM_HORIZON: SAY("from TRIM_HORIZON"); return;
    case KS_POSITION_LATEST:
        SAY("from LATEST");
        if (position->timestamp_ms != 0)
            SAY(" since %lld", (long long)position->timestamp_ms);
        return;
    case KS_POSITION_AT_TIMESTAMP: SAY("from AT_TIMESTAMP"); return;
    case KS_POSITION_SHARD_END: SAY("at its end"); return;
    case KS_POSITION_AFTER_SEQUENCE:
        SAY("after %s/%lld", position->sequence, (long long)position->sub_sequence);
        return;
    case KS_POSITION_AT_SEQUENCE: SAY("at %s", position->sequence); return;
    }
}

static void say_row(const struct ks_store_lease *row)
{
    size = 0;
    if (row->stream[0] != '\0')
        SAY("%s: ", row->stream);
    if (row->damaged) {
        SAY("%s damaged", row->shard);
        return;
    }
    SAY("%s of %s counter %llu", row->shard, or_none(row->owner.id), (unsigned long long)row->rev);
    say_two("parents", row->parents[0], row->parents[1]);
    say_two("children", row->children[0], row->children[1]);
    SAY(" keys %s..%s ", or_none(row->hash_start), or_none(row->hash_end));
    say_place(&row->checkpoint);
    if (row->prepared)
        SAY(", prepared");
    EXPECT(row->finished == (row->checkpoint.kind == KS_POSITION_SHARD_END));
}

/* What `text`, an item in DynamoDB's JSON, is read as, by `add`. */
static ks_err add_item(const struct ks_json *json, struct ks_native_rows *rows)
{
    const struct ks_dialect *const dialect = &ks_kcl_dialect;
    struct ks_bytes texts;
    struct ks_item item;
    struct ks_detail detail;
    ks_err err;

    ks_bytes_init(&texts, 4096);
    EXPECT_OK(ks_dynamodb_read_item(json, dialect->tables[0].schema, &texts, &item));
    err = dialect->add(rows, &item, &detail);
    ks_bytes_free(&texts);
    return err;
}

TEST(rows_mean_what_the_vectors_say)
{
    static char text[64 << 10];
    const int fd = open("tests/vectors/rows/kcl/rows.json", O_RDONLY);
    const ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof(text));
    struct ks_json *cases = NULL;

    EXPECT(bytes > 0 && bytes < (ssize_t)sizeof(text));
    EXPECT_EQ_I64(close(fd), 0);
    EXPECT_OK(ks_json_parse(ks_view_of(text, (size_t)bytes), &cases));
    EXPECT(ks_json_count(cases) >= 40);
    for (size_t at = 0; at < ks_json_count(cases); at++) {
        const struct ks_json *const one = ks_json_item(cases, at);
        struct ks_native_rows rows = {.workers = NULL};
        ks_view expected;

        EXPECT_OK(ks_json_text(ks_json_member(one, "row"), &expected));
        EXPECT_OK(add_item(ks_json_member(one, "item"), &rows));
        EXPECT_EQ_I64(rows.lease_count, expected.size != 0);
        if (rows.lease_count != 0) {
            say_row(&rows.leases[0]);
            EXPECT_STR(line, (const char *)expected.data);
        }
        ks_native_rows_free(&rows);
    }
    ks_json_free(cases);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

/* ---- What we write ---- */

static void say_write(const struct ks_store_request *request)
{
    static const char *const ifs[] = {[KS_IF_EQUALS] = "=",
                                      [KS_IF_EQUALS_OR_ABSENT] = "=?",
                                      [KS_IF_EXISTS] = "exists",
                                      [KS_IF_ABSENT] = "absent"};
    struct ks_item_write write;

    size = 0;
    EXPECT_OK(ks_kcl_dialect.write(request, &write, NULL));
    EXPECT_STR(write.key, "leaseKey");
    EXPECT(write.p == NULL);
    for (uint32_t at = 0; at < write.condition_count; at++)
        SAY("%s%s %s %.*s", at == 0 ? "if " : ", ", write.conditions[at].name,
            ifs[write.conditions[at].kind], (int)write.conditions[at].value.text.size,
            (const char *)write.conditions[at].value.text.data);
    SAY(write.delete_row ? "; delete" : ";");
    for (uint32_t at = 0; at < write.update_count; at++) {
        const struct ks_update *const update = &write.updates[at];

        SAY("%s%s%s", at == 0 ? " " : ", ", update->name,
            update->kind == KS_DO_REMOVE ? " removed"
            : update->kind == KS_DO_ADD  ? " + "
                                         : " = ");
        for (size_t i = 0; update->kind != KS_DO_REMOVE && i < update->value.text.size; i++)
            SAY("%c", update->value.text.data[i] == '\n' ? '|' : update->value.text.data[i]);
    }
    ks_item_write_free(&write);
}

static struct ks_store_request request_of(enum ks_store_operation operation)
{
    return (struct ks_store_request){.operation = operation,
                                     .shard = "shardId-000000000001",
                                     .worker = {.id = "me"},
                                     .owner = {.id = "other"},
                                     .rev = 7,
                                     .next_rev = 8};
}

TEST(a_row_of_several_streams_says_twice_whose_it_is)
{
    struct ks_store_request request = request_of(KS_STORE_CREATE);
    struct ks_store_lease made = {.checkpoint = {.kind = KS_POSITION_LATEST, .sub_sequence = -1}};
    struct ks_item_write write;

    request.stream = "123456789012:orders:1672531200";
    request.lease = &made;
    say_write(&request);
    EXPECT_STR(line, "if leaseKey absent ; streamName = 123456789012:orders:1672531200, "
                     "shardId = shardId-000000000001, leaseCounter = 0, checkpoint = LATEST, "
                     "checkpointSubSequenceNumber = 0, ownerSwitchesSinceCheckpoint = 0");
    EXPECT_OK(ks_kcl_dialect.write(&request, &write, NULL));
    EXPECT_STR(write.k, "123456789012:orders:1672531200:shardId-000000000001");
    ks_item_write_free(&write);

    request.operation = KS_STORE_CHECKPOINT;
    EXPECT_OK(ks_kcl_dialect.write(&request, &write, NULL));
    EXPECT_STR(write.k, "123456789012:orders:1672531200:shardId-000000000001");
    ks_item_write_free(&write);
}

TEST(a_row_of_several_streams_is_read_and_written_by_its_whole_key)
{
    char shard[KS_SHARD_ID_MAX + 1];
    char stream[KS_STREAM_ID_MAX + 1];
    struct ks_store_request request = request_of(KS_STORE_READ_LEASE);
    const char *partition;
    struct ks_item_write write;
    struct ks_item_keys keys;

    memset(shard, 's', KS_SHARD_ID_MAX);
    shard[KS_SHARD_ID_MAX] = '\0';
    memset(stream, 'n', KS_STREAM_ID_MAX);
    memcpy(stream, "123456789012:", 13);
    memcpy(stream + KS_STREAM_ID_MAX - 20, ":9223372036854775807", 21);
    request.stream = stream;
    request.shard = shard;
    EXPECT_OK(ks_kcl_dialect.read(&request, &partition, &keys));
    EXPECT_EQ_U64(strlen(keys.texts[0]), KS_LEASE_KEY_MAX);
    request.operation = KS_STORE_END;
    request.children[0] = request.children[1] = "";
    EXPECT_OK(ks_kcl_dialect.write(&request, &write, NULL));
    EXPECT_EQ_U64(strlen(write.k), KS_LEASE_KEY_MAX);
    ks_item_write_free(&write);
    request.stream = "orders";
    EXPECT_ERR(ks_kcl_dialect.write(&request, &write, NULL), INVALID);
}

TEST(a_row_is_made_with_all_that_members_need)
{
    struct ks_store_request request = request_of(KS_STORE_CREATE);
    struct ks_store_lease made = {
        .parents = {"shardId-000000000000", "shardId-000000000002"},
        .hash_start = "0",
        .hash_end = "9",
        .checkpoint = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1}};

    request.lease = &made;
    say_write(&request);
    EXPECT_STR(line, "if leaseKey absent ; leaseCounter = 0, checkpoint = TRIM_HORIZON, "
                     "checkpointSubSequenceNumber = 0, ownerSwitchesSinceCheckpoint = 0, "
                     "parentShardId = shardId-000000000000|shardId-000000000002, "
                     "startingHashKey = 0, endingHashKey = 9");
    made = (struct ks_store_lease){
        .checkpoint = {.kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = 1, .sub_sequence = -1}};
    say_write(&request);
    EXPECT_STR(line, "if leaseKey absent ; leaseCounter = 0, checkpoint = AT_TIMESTAMP, "
                     "checkpointSubSequenceNumber = 0, ownerSwitchesSinceCheckpoint = 0");
}

TEST(where_the_latest_begins_stands_in_the_row)
{
    struct ks_store_request request = request_of(KS_STORE_CREATE);
    struct ks_store_lease latest = {.checkpoint = {
                                        .kind = KS_POSITION_LATEST,
                                        .timestamp_ms = 1784600000000,
                                        .sub_sequence = -1,
                                    }};

    request.lease = &latest;
    say_write(&request);
    EXPECT_STR(line, "if leaseKey absent ; leaseCounter = 0, checkpoint = LATEST, "
                     "checkpointSubSequenceNumber = 0, ownerSwitchesSinceCheckpoint = 0, "
                     "SidecarSince = 1784600000000");
    request.operation = KS_STORE_ASSIGN;
    request.owner.id[0] = '\0';
    say_write(&request);
    EXPECT_STR(line, "if leaseCounter = 7, entityType =? LEASE, checkpointOwner absent ; "
                     "leaseCounter = 8, leaseOwner = me, checkpointOwner removed, "
                     "SidecarSince = 1784600000000");
}

TEST(hash_keys_are_filled_in_whoever_moves_the_counter)
{
    struct ks_store_request request = request_of(KS_STORE_FILL);
    struct ks_store_lease keys = {.hash_start = "0", .hash_end = "9"};
    struct ks_item_write write;
    struct ks_detail detail = {""};

    request.lease = &keys;
    say_write(&request);
    EXPECT_STR(line, "if leaseCounter exists , startingHashKey absent , entityType =? LEASE; "
                     "startingHashKey = 0, endingHashKey = 9");
    keys.hash_end[0] = '\0';
    EXPECT_ERR(ks_kcl_dialect.write(&request, &write, &detail), INVALID);
    ks_item_write_free(&write);
}

TEST(a_take_moves_the_counter_and_counts_a_switch_of_owners)
{
    struct ks_store_request request = request_of(KS_STORE_TAKE_OVER);

    say_write(&request);
    EXPECT_STR(
        line,
        "if leaseCounter = 7, entityType =? LEASE, leaseOwner =? other, checkpointOwner =? other; "
        "leaseCounter = 8, leaseOwner = me, checkpointOwner removed, "
        "ownerSwitchesSinceCheckpoint + 1");
    memcpy(request.next_owner.id, "third", sizeof("third"));
    say_write(&request);
    EXPECT_STR(
        line,
        "if leaseCounter = 7, entityType =? LEASE, leaseOwner = third, checkpointOwner = other; "
        "leaseCounter = 8, leaseOwner = me, checkpointOwner removed, "
        "ownerSwitchesSinceCheckpoint + 1");
    request.next_owner.id[0] = '\0';
    memcpy(request.owner.id, "me", sizeof("me"));
    say_write(&request);
    EXPECT_STR(line,
               "if leaseCounter = 7, entityType =? LEASE, leaseOwner =? me, checkpointOwner =? me; "
               "leaseCounter = 8, leaseOwner = me, checkpointOwner removed");
    request.operation = KS_STORE_ASSIGN;
    request.owner.id[0] = '\0';
    say_write(&request);
    EXPECT_STR(
        line,
        "if leaseCounter = 7, entityType =? LEASE, checkpointOwner absent ; leaseCounter = 8, "
        "leaseOwner = me, checkpointOwner removed");
}

TEST(a_renewal_leaves_all_else_and_a_checkpoint_ends_what_was_prepared)
{
    struct ks_store_request request = request_of(KS_STORE_CHECKPOINT);

    say_write(&request);
    EXPECT_STR(line,
               "if leaseCounter = 7, entityType =? LEASE, leaseOwner =? me, checkpointOwner =? me; "
               "leaseCounter = 8, "
               "throughputKBps = 0.000000");
    request.load = 217604;
    request.has_checkpoint = true;
    request.checkpoint = (struct ks_position){
        .kind = KS_POSITION_AFTER_SEQUENCE, .sub_sequence = -1, .sequence = "4959"};
    say_write(&request);
    EXPECT_STR(line,
               "if leaseCounter = 7, entityType =? LEASE, leaseOwner =? me, checkpointOwner =? me; "
               "leaseCounter = 8, "
               "throughputKBps = 212.503906, checkpoint = 4959, "
               "checkpointSubSequenceNumber = 0, ownerSwitchesSinceCheckpoint = 0, "
               "pendingCheckpoint removed, pendingCheckpointSubSequenceNumber removed, "
               "pendingCheckpointState removed, SidecarSince removed");
    request.checkpoint.sub_sequence = 41;
    request.operation = KS_STORE_FINAL;
    say_write(&request);
    EXPECT_STR(line,
               "if leaseCounter = 7, entityType =? LEASE, leaseOwner =? me, checkpointOwner =? me; "
               "leaseCounter = 8, "
               "leaseOwner removed, checkpointOwner removed, checkpoint = 4959, "
               "checkpointSubSequenceNumber = 41, ownerSwitchesSinceCheckpoint = 0, "
               "pendingCheckpoint removed, pendingCheckpointSubSequenceNumber removed, "
               "pendingCheckpointState removed, SidecarSince removed");
    request.has_checkpoint = false;
    say_write(&request);
    EXPECT_STR(line,
               "if leaseCounter = 7, entityType =? LEASE, leaseOwner =? me, checkpointOwner =? me; "
               "leaseCounter = 8, "
               "leaseOwner removed, checkpointOwner removed");
}

TEST(what_a_leader_gives_on_is_renewed_until_it_is_given)
{
    struct ks_store_request request = request_of(KS_STORE_CHECKPOINT);

    memcpy(request.next_owner.id, "other", sizeof("other"));
    say_write(&request);
    EXPECT_STR(
        line, "if leaseCounter = 7, entityType =? LEASE, leaseOwner = other, checkpointOwner = me; "
              "leaseCounter = 8, throughputKBps = 0.000000");
    request.operation = KS_STORE_FINAL;
    say_write(&request);
    EXPECT_STR(
        line, "if leaseCounter = 7, entityType =? LEASE, leaseOwner = other, checkpointOwner = me; "
              "leaseCounter = 8, checkpointOwner removed");
}

TEST(an_end_names_the_children)
{
    struct ks_store_request request = request_of(KS_STORE_END);

    request.has_checkpoint = true;
    request.checkpoint.kind = KS_POSITION_SHARD_END;
    request.children[0] = "shardId-000000000003";
    request.children[1] = "shardId-000000000004";
    say_write(&request);
    EXPECT_STR(line,
               "if leaseCounter = 7, entityType =? LEASE; leaseCounter = 8, leaseOwner removed, "
               "checkpointOwner removed, checkpoint = SHARD_END, "
               "checkpointSubSequenceNumber = 0, ownerSwitchesSinceCheckpoint = 0, "
               "pendingCheckpoint removed, pendingCheckpointSubSequenceNumber removed, "
               "pendingCheckpointState removed, SidecarSince removed, "
               "childShardIds = shardId-000000000003|shardId-000000000004");
    request.operation = KS_STORE_DELETE;
    say_write(&request);
    EXPECT_STR(line, "if checkpoint = SHARD_END, entityType =? LEASE; delete");
}

TEST(what_the_table_cannot_hold_is_refused)
{
    static const enum ks_store_operation others[] = {KS_STORE_CREATE_APP, KS_STORE_FORCE,
                                                     KS_STORE_PLAN, KS_STORE_SEEK};
    struct ks_item_write write;
    struct ks_detail detail = {""};
    struct ks_store_request request = request_of(KS_STORE_CHECKPOINT);

    request.has_checkpoint = true;
    request.checkpoint.kind = KS_POSITION_TRIM_HORIZON;
    EXPECT_ERR(ks_kcl_dialect.write(&request, &write, &detail), INVALID);
    ks_item_write_free(&write);
    request = request_of(KS_STORE_CHECKPOINT);
    request.rev = INT64_MAX;
    EXPECT_ERR(ks_kcl_dialect.write(&request, &write, &detail), INVALID);
    ks_item_write_free(&write);
    request = request_of(KS_STORE_CHECKPOINT);
    request.shard = "two words";
    EXPECT_ERR(ks_kcl_dialect.write(&request, &write, &detail), INVALID);
    ks_item_write_free(&write);
    for (size_t at = 0; at < sizeof(others) / sizeof(others[0]); at++) {
        request = request_of(others[at]);
        EXPECT_ERR(ks_kcl_dialect.write(&request, &write, &detail), UNSUPPORTED);
        ks_item_write_free(&write);
    }
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
