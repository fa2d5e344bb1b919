/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of vmware-go-kcl's table as its two versions write them (rows.json: examples, and what the libraries themselves
 * were seen to write), what they mean, and what we write to them. */
#include "adapters/dialects/go_kcl.h"

#include "adapters/dialects/foreign.h"
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

static void say_time(uint64_t ns)
{
    struct ks_bytes bytes;

    if (ns == 0) {
        SAY("-");
        return;
    }
    ks_bytes_init(&bytes, 64);
    EXPECT_OK(ks_go_kcl_put_time(&bytes, ns));
    SAY("%.*s", (int)bytes.size, (const char *)bytes.data);
    ks_bytes_free(&bytes);
}

static void say_row(const struct ks_store_lease *row)
{
    size = 0;
    if (row->damaged) {
        SAY("%s damaged", row->shard);
        return;
    }
    SAY("%s of %s until ", row->shard, or_none(row->owner.id));
    say_time(row->rev);
    SAY(" claimed by %s parent %s ", or_none(row->next_owner.id), or_none(row->parents[0]));
    if (row->finished)
        SAY("at its end");
    else if (row->unstarted)
        SAY("not begun");
    else if (row->checkpoint.sub_sequence >= 0)
        SAY("after %s/%" PRId64 ", for others after %s", row->checkpoint.sequence,
            row->checkpoint.sub_sequence, row->whole.sequence);
    else
        SAY("after %s", row->checkpoint.sequence);
}

TEST(rows_mean_what_the_vectors_say)
{
    static char text[64 << 10];
    const int fd = open("tests/vectors/rows/go_kcl/rows.json", O_RDONLY);
    const ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof(text));
    const struct ks_dialect *const dialect = &ks_go_kcl_dialect;
    struct ks_json *cases = NULL;
    struct ks_bytes texts;

    EXPECT(bytes > 0 && bytes < (ssize_t)sizeof(text));
    EXPECT_EQ_I64(close(fd), 0);
    EXPECT_OK(ks_json_parse(ks_view_of(text, (size_t)bytes), &cases));
    EXPECT(ks_json_count(cases) >= 25);
    ks_bytes_init(&texts, 4096);
    for (size_t at = 0; at < ks_json_count(cases); at++) {
        const struct ks_json *const one = ks_json_item(cases, at);
        struct ks_native_rows rows = {.workers = NULL};
        struct ks_item item;
        ks_view expected;

        EXPECT_OK(ks_json_text(ks_json_member(one, "row"), &expected));
        EXPECT_OK(ks_dynamodb_read_item(ks_json_member(one, "item"), dialect->tables[0].schema,
                                        &texts, &item));
        EXPECT_OK(dialect->add(&rows, &item, NULL));
        EXPECT_EQ_I64(rows.lease_count, 1);
        say_row(&rows.leases[0]);
        EXPECT_STR(line, (const char *)expected.data);
        ks_native_rows_free(&rows);
    }
    ks_bytes_free(&texts);
    ks_json_free(cases);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(a_time_has_one_spelling)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } times[] = {
        {"2024-05-01T12:00:10Z", UINT64_C(1714564810000000000)},
        {"2024-02-29T23:59:59.000000001Z", UINT64_C(1709251199000000001)},
        {"1970-01-01T00:00:01Z", UINT64_C(1000000000)},
        {"2100-03-01T00:00:00.5Z", UINT64_C(4107542400500000000)},
        {"2261-12-31T23:59:59.999999999Z", UINT64_C(9214646399999999999)},
        {"0001-01-01T00:00:00Z", 1},
    };
    static const char *const wrong[] = {
        "",
        "Z",
        "2024-05-01T12:00:10",
        "2024-05-01T12:00:10.Z",
        "2024-05-01T12:00:60Z",
        "2024-5-01T12:00:10Z",
        "2024-05-01t12:00:10Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00Z",
        "1970-01-01T00:00:00.000000001Z",
        "2262-01-01T00:00:00Z",
        "2024-05-01T12:00:10ZZ",
    };
    struct ks_bytes bytes;
    uint64_t ns;

    ks_bytes_init(&bytes, 64);
    for (size_t at = 0; at < sizeof(times) / sizeof(times[0]); at++) {
        EXPECT_OK(ks_go_kcl_get_time(ks_view_text(times[at].text), &ns));
        EXPECT(ns == times[at].ns);
        ks_bytes_clear(&bytes);
        EXPECT_OK(ks_go_kcl_put_time(&bytes, ns));
        EXPECT(ks_view_equal(ks_bytes_view(&bytes), ks_view_text(times[at].text)));
    }
    for (size_t at = 0; at < sizeof(wrong) / sizeof(wrong[0]); at++)
        EXPECT_ERR(ks_go_kcl_get_time(ks_view_text(wrong[at]), &ns), MALFORMED);
    ks_bytes_free(&bytes);
}

/* ---- What we write ---- */

#define T0 UINT64_C(1714564810000000000)
#define T1 UINT64_C(1714564820000000000)
#define SEQUENCE "4959"

static void say_write(const struct ks_store_request *request)
{
    static const char *const ifs[] = {
        [KS_IF_EQUALS] = "=", [KS_IF_EQUALS_OR_ABSENT] = "=?", [KS_IF_ABSENT] = "absent"};
    struct ks_item_write write;

    size = 0;
    EXPECT_OK(ks_go_kcl_dialect.write(request, &write, NULL));
    EXPECT_STR(write.key, "ShardID");
    EXPECT(write.p == NULL);
    for (uint32_t at = 0; at < write.condition_count; at++)
        SAY("%s%s %s %.*s", at == 0 ? "if " : ", ", write.conditions[at].name,
            ifs[write.conditions[at].kind], (int)write.conditions[at].value.text.size,
            (const char *)write.conditions[at].value.text.data);
    SAY(write.delete_row ? "; delete" : ";");
    for (uint32_t at = 0; at < write.update_count; at++) {
        EXPECT(write.updates[at].kind == KS_DO_REMOVE ||
               write.updates[at].value.type == KS_VALUE_TEXT);
        SAY("%s%s%s%.*s", at == 0 ? " " : ", ", write.updates[at].name,
            write.updates[at].kind == KS_DO_REMOVE ? " removed" : " = ",
            (int)write.updates[at].value.text.size,
            (const char *)write.updates[at].value.text.data);
    }
    ks_item_write_free(&write);
}

static struct ks_store_request request_of(enum ks_store_operation operation)
{
    return (struct ks_store_request){.operation = operation,
                                     .shard = "shardId-000000000001",
                                     .worker = {.id = "me"},
                                     .owner = {.id = "other"},
                                     .rev = T0,
                                     .next_rev = T1};
}

TEST(a_take_names_all_that_was_read)
{
    struct ks_store_request request = request_of(KS_STORE_ASSIGN);
    const struct ks_store_lease made = {.parents = {"shardId-000000000000"}, .unstarted = true};

    say_write(&request);
    EXPECT_STR(line,
               "if AssignedTo absent , LeaseTimeout = 2024-05-01T12:00:10Z, ClaimRequest absent ; "
               "AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:20Z, ClaimRequest removed");
    request.rev = 0;
    request.lease = &made;
    say_write(&request);
    EXPECT_STR(line,
               "if AssignedTo absent , LeaseTimeout absent , ClaimRequest absent , Checkpoint =? ; "
               "AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:20Z, "
               "ParentShardId = shardId-000000000000, Checkpoint = , ClaimRequest removed");
    request = request_of(KS_STORE_TAKE_OVER);
    memcpy(request.owner.id, KS_FOREIGN_EMPTY, sizeof(KS_FOREIGN_EMPTY));
    memcpy(request.next_owner.id, "me", sizeof("me"));
    say_write(&request);
    EXPECT_STR(line, "if AssignedTo = , LeaseTimeout = 2024-05-01T12:00:10Z, ClaimRequest = me; "
                     "AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:20Z, ClaimRequest removed");
}

TEST(what_an_owner_writes_names_its_own_last_time)
{
    struct ks_store_request request = request_of(KS_STORE_CHECKPOINT);

    say_write(&request);
    EXPECT_STR(line,
               "if AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:10Z, ClaimRequest absent ; "
               "LeaseTimeout = 2024-05-01T12:00:20Z");
    request.has_checkpoint = true;
    request.checkpoint = (struct ks_position){
        .kind = KS_POSITION_AFTER_SEQUENCE, .sub_sequence = -1, .sequence = SEQUENCE};
    request.whole = request.checkpoint;
    say_write(&request);
    EXPECT_STR(line,
               "if AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:10Z, ClaimRequest absent ; "
               "LeaseTimeout = 2024-05-01T12:00:20Z, Checkpoint = 4959, SidecarPosition removed");
    request.operation = KS_STORE_FINAL;
    say_write(&request);
    EXPECT_STR(line, "if AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:10Z; "
                     "AssignedTo removed, Checkpoint = 4959, SidecarPosition removed");
    request.operation = KS_STORE_END;
    say_write(&request);
    EXPECT_STR(line, "if AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:10Z; "
                     "AssignedTo removed, SidecarPosition removed, Checkpoint = SHARD_END");
    request.operation = KS_STORE_DELETE;
    say_write(&request);
    EXPECT_STR(line, "if Checkpoint = SHARD_END; delete");
}

TEST(inside_an_aggregate_members_see_the_record_before_it)
{
    struct ks_store_request request = request_of(KS_STORE_FINAL);

    request.has_checkpoint = true;
    request.checkpoint = (struct ks_position){
        .kind = KS_POSITION_AFTER_SEQUENCE, .sub_sequence = 2, .sequence = "4960"};
    request.whole = (struct ks_position){
        .kind = KS_POSITION_AFTER_SEQUENCE, .sub_sequence = -1, .sequence = SEQUENCE};
    say_write(&request);
    EXPECT_STR(line, "if AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:10Z; "
                     "AssignedTo removed, Checkpoint = 4959, SidecarPosition = 4959:4960:2");
    request.whole = (struct ks_position){.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1};
    say_write(&request);
    EXPECT_STR(line, "if AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:10Z; "
                     "AssignedTo removed, SidecarPosition = :4960:2");
}

TEST(a_claim_is_made_once_and_withdrawn_by_its_maker)
{
    struct ks_store_request request = request_of(KS_STORE_PLAN);

    memcpy(request.next_owner.id, "me", sizeof("me"));
    say_write(&request);
    EXPECT_STR(line,
               "if ClaimRequest absent , AssignedTo = other, LeaseTimeout = 2024-05-01T12:00:10Z; "
               "ClaimRequest = me");
    request.next_owner.id[0] = '\0';
    say_write(&request);
    EXPECT_STR(line, "if ClaimRequest = me; ClaimRequest removed");
}

TEST(what_the_table_cannot_hold_is_refused)
{
    static const enum ks_store_operation others[] = {KS_STORE_HEARTBEAT, KS_STORE_CREATE_APP,
                                                     KS_STORE_FORCE, KS_STORE_SEEK};
    struct ks_item_write write;
    struct ks_detail detail = {""};
    struct ks_store_request request = request_of(KS_STORE_CHECKPOINT);

    request.has_checkpoint = true;
    request.checkpoint.kind = KS_POSITION_TRIM_HORIZON;
    EXPECT_ERR(ks_go_kcl_dialect.write(&request, &write, &detail), INVALID);
    ks_item_write_free(&write);
    for (size_t at = 0; at < sizeof(others) / sizeof(others[0]); at++) {
        request = request_of(others[at]);
        EXPECT_ERR(ks_go_kcl_dialect.write(&request, &write, &detail), UNSUPPORTED);
        ks_item_write_free(&write);
    }
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
