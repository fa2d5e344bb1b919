/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of vmware-go-kcl's table as its two versions write them (rows.json: examples, and what the libraries themselves
 * were seen to write), what they mean, and what we write to them. */
#include "adapters/dialects/go_kcl.h"

#include "adapters/dialects/foreign.h"
#include "base/budget.h"
#include "vectors/rows/foreign_rows.h"

#include <string.h>

static void say_time(uint64_t ns)
{
    struct ks_bytes bytes;

    if (ns == 0) {
        foreign_say("-");
        return;
    }
    ks_bytes_init(&bytes, 64);
    EXPECT_OK(ks_go_kcl_put_time(&bytes, ns));
    foreign_say("%.*s", (int)bytes.size, (const char *)bytes.data);
    ks_bytes_free(&bytes);
}

static void say_row(const struct ks_store_lease *row)
{
    foreign_say("%s of %s until ", row->shard, foreign_or_none(row->owner.id));
    say_time(row->rev);
    foreign_say(" claimed by %s parent %s ", foreign_or_none(row->next_owner.id),
                foreign_or_none(row->parents[0]));
    foreign_say_position(row);
}

TEST(rows_mean_what_the_vectors_say)
{
    foreign_rows_mean("tests/vectors/rows/go_kcl/rows.json", 25, &ks_go_kcl_dialect, say_row);
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
    (void)foreign_write(&ks_go_kcl_dialect, KS_GO_KCL_KEY, request);
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
    const struct ks_store_lease begun = {
        .checkpoint = {.kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = 1714564810000},
        .begins = true};

    say_write(&request);
    EXPECT_STR(foreign_line,
               "if AssignedTo absent , LeaseTimeout = 2024-05-01T12:00:10Z, ClaimRequest absent ; "
               "AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:20Z, ClaimRequest removed");
    request.rev = 0;
    request.lease = &made;
    say_write(&request);
    EXPECT_STR(foreign_line,
               "if AssignedTo absent , LeaseTimeout absent , ClaimRequest absent , Checkpoint =? ; "
               "AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:20Z, "
               "ParentShardId = shardId-000000000000, Checkpoint = , ClaimRequest removed");
    request = request_of(KS_STORE_ASSIGN);
    request.lease = &begun;
    say_write(&request);
    EXPECT_STR(foreign_line,
               "if AssignedTo absent , LeaseTimeout = 2024-05-01T12:00:10Z, ClaimRequest absent ; "
               "AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:20Z, "
               "SidecarPosition = :AT_TIMESTAMP:1714564810000, ClaimRequest removed");
    request = request_of(KS_STORE_TAKE_OVER);
    memcpy(request.owner.id, KS_FOREIGN_EMPTY, sizeof(KS_FOREIGN_EMPTY));
    memcpy(request.next_owner.id, "me", sizeof("me"));
    say_write(&request);
    EXPECT_STR(foreign_line,
               "if AssignedTo = , LeaseTimeout = 2024-05-01T12:00:10Z, ClaimRequest = me; "
               "AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:20Z, ClaimRequest removed");
}

TEST(what_an_owner_writes_names_its_own_last_time)
{
    struct ks_store_request request = request_of(KS_STORE_CHECKPOINT);

    say_write(&request);
    EXPECT_STR(foreign_line,
               "if AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:10Z, ClaimRequest absent ; "
               "LeaseTimeout = 2024-05-01T12:00:20Z");
    request.has_checkpoint = true;
    request.checkpoint = (struct ks_position){
        .kind = KS_POSITION_AFTER_SEQUENCE, .sub_sequence = -1, .sequence = SEQUENCE};
    request.whole = request.checkpoint;
    say_write(&request);
    EXPECT_STR(foreign_line,
               "if AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:10Z, ClaimRequest absent ; "
               "LeaseTimeout = 2024-05-01T12:00:20Z, Checkpoint = 4959, SidecarPosition removed");
    request.operation = KS_STORE_FINAL;
    say_write(&request);
    EXPECT_STR(foreign_line, "if AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:10Z; "
                             "AssignedTo removed, Checkpoint = 4959, SidecarPosition removed");
    request.operation = KS_STORE_END;
    say_write(&request);
    EXPECT_STR(foreign_line, "if AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:10Z; "
                             "AssignedTo removed, SidecarPosition removed, Checkpoint = SHARD_END");
    request.operation = KS_STORE_DELETE;
    say_write(&request);
    EXPECT_STR(foreign_line, "if Checkpoint = SHARD_END; delete");
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
    EXPECT_STR(foreign_line,
               "if AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:10Z; "
               "AssignedTo removed, Checkpoint = 4959, SidecarPosition = 4959:4960:2");
    request.whole = (struct ks_position){.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1};
    say_write(&request);
    EXPECT_STR(foreign_line, "if AssignedTo = me, LeaseTimeout = 2024-05-01T12:00:10Z; "
                             "AssignedTo removed, SidecarPosition = :4960:2");
}

TEST(a_claim_is_made_once_and_withdrawn_by_its_maker)
{
    struct ks_store_request request = request_of(KS_STORE_PLAN);

    memcpy(request.next_owner.id, "me", sizeof("me"));
    say_write(&request);
    EXPECT_STR(foreign_line,
               "if ClaimRequest absent , AssignedTo = other, LeaseTimeout = 2024-05-01T12:00:10Z; "
               "ClaimRequest = me");
    request.next_owner.id[0] = '\0';
    say_write(&request);
    EXPECT_STR(foreign_line, "if ClaimRequest = me; ClaimRequest removed");
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
