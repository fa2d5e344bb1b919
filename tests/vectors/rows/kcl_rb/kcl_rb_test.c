/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of kcl-rb's table as it writes them, and as we do (rows.json, by hand), what they mean, and what we write. */
#include "adapters/dialects/kcl_rb.h"

#include "base/budget.h"
#include "vectors/rows/foreign_rows.h"

#include <string.h>

static void say_row(const struct ks_store_lease *row)
{
    struct ks_bytes bytes;

    ks_bytes_init(&bytes, 64);
    if (row->rev != 0)
        EXPECT_OK(ks_kcl_rb_put_time(&bytes, row->rev));
    foreign_say("%s of %s until %.*s by a %s %s", row->shard, foreign_or_none(row->owner.id),
                row->rev < 2 ? 2 * (int)row->rev + (row->rev == 0) : (int)bytes.size,
                row->rev == 0   ? "-"
                : row->rev == 1 ? "\"\""
                                : (const char *)bytes.data,
                row->stranger ? "stranger" : "sidecar", row->masked ? "masked " : "");
    foreign_say_position(row);
    ks_bytes_free(&bytes);
}

TEST(rows_mean_what_the_vectors_say)
{
    foreign_rows_mean("tests/vectors/rows/kcl_rb/rows.json", 25, &ks_kcl_rb_dialect, say_row);
}

TEST(a_time_has_one_spelling)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } times[] = {
        {"2024-05-01 12:00:10 UTC", UINT64_C(1714564810000000000)},
        {"2024-02-29 23:59:59 UTC", UINT64_C(1709251199000000000)},
        {"1970-01-01 00:00:01 UTC", UINT64_C(1000000000)},
        {"2261-12-31 23:59:59 UTC", UINT64_C(9214646399000000000)},
        {"", 1},
    };
    static const char *const wrong[] = {
        " ",
        "2024-05-01 12:00:10",
        "2024-05-01 12:00:10 UTC ",
        "2024-05-01 12:00:10 GMT",
        "2024-05-01T12:00:10 UTC",
        "2024-05-01 12:00:60 UTC",
        "2024-05-01 12:00:1Z UTC",
        "1970-01-01 00:00:00 UTC",
        "0001-01-01 00:00:00 UTC",
        "2262-01-01 00:00:00 UTC",
    };
    struct ks_bytes bytes;
    uint64_t ns;

    ks_bytes_init(&bytes, 64);
    for (size_t at = 0; at < sizeof(times) / sizeof(times[0]); at++) {
        EXPECT_OK(ks_kcl_rb_get_time(ks_view_text(times[at].text), &ns));
        EXPECT(ns == times[at].ns);
        ks_bytes_clear(&bytes);
        EXPECT_OK(ks_kcl_rb_put_time(&bytes, ns));
        EXPECT(ks_view_equal(ks_bytes_view(&bytes), ks_view_text(times[at].text)));
    }
    for (size_t at = 0; at < sizeof(wrong) / sizeof(wrong[0]); at++)
        EXPECT_ERR(ks_kcl_rb_get_time(ks_view_text(wrong[at]), &ns), MALFORMED);
    EXPECT_ERR(ks_kcl_rb_put_time(&bytes, UINT64_C(1714564810500000000)), INVALID);
    ks_bytes_free(&bytes);
}

/* ---- What we write ---- */

#define T0 UINT64_C(1714564810000000000)
#define T1 UINT64_C(1714564820000000000)
#define IF_OURS "if assigned_to = me, lease_timeout = 2024-05-01 12:00:10 UTC"
#define IF_FREE "if assigned_to absent or null , lease_timeout = 2024-05-01 12:00:10 UTC"
#define TAKEN "assigned_to = me, sidecar_worker = me, lease_timeout = 2024-05-01 12:00:20 UTC"

static struct ks_store_lease as_read(const char *sequence)
{
    struct ks_store_lease lease = {.checkpoint.sub_sequence = -1};

    if (sequence != NULL) {
        lease.checkpoint.kind = KS_POSITION_AFTER_SEQUENCE;
        memcpy(lease.checkpoint.sequence, sequence, strlen(sequence) + 1);
    }
    lease.whole = lease.checkpoint;
    return lease;
}

static struct ks_store_request request_of(enum ks_store_operation operation,
                                          const struct ks_store_lease *read)
{
    return (struct ks_store_request){.operation = operation,
                                     .shard = "shardId-000000000001",
                                     .worker = {.id = "me"},
                                     .owner = {.id = "other"},
                                     .rev = T0,
                                     .next_rev = T1,
                                     .lease = read};
}

static const char *written(const struct ks_store_request *request)
{
    return foreign_write(&ks_kcl_rb_dialect, KS_KCL_RB_KEY, request);
}

TEST(a_take_names_all_that_was_read_and_marks_the_row_as_a_sidecars)
{
    struct ks_store_lease read = as_read("4959");
    struct ks_store_request request = request_of(KS_STORE_ASSIGN, &read);
    const struct ks_store_lease begun = {
        .checkpoint = {.kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = 1714564810000},
        .begins = true};

    EXPECT_STR(written(&request), IF_FREE "; " TAKEN);
    request.rev = 0;
    EXPECT_STR(written(&request),
               "if assigned_to absent or null , lease_timeout absent or null ; " TAKEN);
    request.rev = 1;
    EXPECT_STR(written(&request), "if assigned_to absent or null , lease_timeout = ; " TAKEN);
    request = request_of(KS_STORE_ASSIGN, &begun);
    EXPECT_STR(written(&request),
               IF_FREE "; " TAKEN ", SidecarPosition = :AT_TIMESTAMP:1714564810000");
    request = request_of(KS_STORE_TAKE_OVER, &read);
    EXPECT_STR(written(&request),
               "if assigned_to = other, lease_timeout = 2024-05-01 12:00:10 UTC; " TAKEN);
}

TEST(a_mask_keeps_the_checkpoint_beside_it)
{
    struct ks_store_lease read = as_read("4959");
    struct ks_store_request request = request_of(KS_STORE_ASSIGN, &read);

    request.masks = true;
    EXPECT_STR(written(&request), IF_FREE ", checkpoint = 4959; " TAKEN
                                          ", checkpoint = SHARD_END, sidecar_checkpoint = 4959, "
                                          "SidecarPosition removed");
    read.checkpoint = (struct ks_position){
        .kind = KS_POSITION_AFTER_SEQUENCE, .sub_sequence = 2, .sequence = "4960"};
    EXPECT_STR(written(&request), IF_FREE ", checkpoint = 4959; " TAKEN
                                          ", checkpoint = SHARD_END, sidecar_checkpoint = 4959, "
                                          "SidecarPosition = 4959:4960:2");
    read = as_read(NULL);
    EXPECT_STR(written(&request), IF_FREE ", checkpoint absent or null ; " TAKEN
                                          ", checkpoint = SHARD_END, sidecar_checkpoint = ");
    read = as_read("4959"); /* The mask of somebody who is gone. */
    read.masked = true;
    EXPECT_STR(written(&request), IF_FREE ", checkpoint = SHARD_END; " TAKEN
                                          ", checkpoint = SHARD_END, sidecar_checkpoint = 4959, "
                                          "SidecarPosition removed");
}

TEST(who_does_not_mask_takes_a_mask_off)
{
    struct ks_store_lease read = as_read("4959");
    struct ks_store_request request = request_of(KS_STORE_ASSIGN, &read);

    read.masked = true;
    EXPECT_STR(written(&request), IF_FREE ", checkpoint = SHARD_END; " TAKEN
                                          ", sidecar_checkpoint removed, checkpoint = 4959, "
                                          "SidecarPosition removed");
    read = as_read(NULL);
    read.masked = true;
    EXPECT_STR(written(&request), IF_FREE ", checkpoint = SHARD_END; " TAKEN
                                          ", sidecar_checkpoint removed, checkpoint removed");
}

TEST(a_start_that_no_record_says_stays_where_it_is_under_a_mask_and_without)
{
    struct ks_store_lease read = as_read(NULL);
    struct ks_store_request request = request_of(KS_STORE_ASSIGN, &read);

    read.checkpoint = (struct ks_position){
        .kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = 1714564810000, .sub_sequence = -1};
    request.masks = true;
    EXPECT(strstr(written(&request), "SidecarPosition") == NULL);
    read.masked = true;
    EXPECT(strstr(written(&request), "SidecarPosition") == NULL);
    request.masks = false;
    EXPECT(strstr(written(&request), "SidecarPosition") == NULL);
}

TEST(what_an_owner_writes_names_its_own_last_time)
{
    struct ks_store_request request = request_of(KS_STORE_CHECKPOINT, NULL);

    EXPECT_STR(written(&request), IF_OURS "; lease_timeout = 2024-05-01 12:00:20 UTC");
    request.has_checkpoint = true;
    request.checkpoint = request.whole = as_read("4959").checkpoint;
    EXPECT_STR(written(&request), IF_OURS "; lease_timeout = 2024-05-01 12:00:20 UTC, "
                                          "checkpoint = 4959, SidecarPosition removed");
    request.operation = KS_STORE_FINAL;
    EXPECT_STR(written(&request), IF_OURS "; assigned_to removed, checkpoint = 4959, "
                                          "SidecarPosition removed");
    request.operation = KS_STORE_END;
    EXPECT_STR(written(&request), IF_OURS
               "; assigned_to removed, sidecar_checkpoint removed, SidecarPosition removed, "
               "checkpoint = SHARD_END");
    request.operation = KS_STORE_DELETE;
    EXPECT_STR(written(&request), "if checkpoint = SHARD_END, sidecar_checkpoint absent ; delete");
}

TEST(an_owner_of_a_masked_row_writes_beside_the_mask_and_takes_it_off_in_the_end)
{
    struct ks_store_request request = request_of(KS_STORE_CHECKPOINT, NULL);

    request.masks = true;
    EXPECT_STR(written(&request), IF_OURS "; lease_timeout = 2024-05-01 12:00:20 UTC");
    request.has_checkpoint = true;
    request.checkpoint = request.whole = as_read("4959").checkpoint;
    EXPECT_STR(written(&request), IF_OURS "; lease_timeout = 2024-05-01 12:00:20 UTC, "
                                          "sidecar_checkpoint = 4959, SidecarPosition removed");
    request.operation = KS_STORE_FINAL;
    EXPECT_STR(written(&request), IF_OURS "; assigned_to removed, sidecar_checkpoint removed, "
                                          "checkpoint = 4959, SidecarPosition removed");
    request.whole = as_read(NULL).whole;
    request.checkpoint.sub_sequence = 3;
    EXPECT_STR(written(&request), IF_OURS "; assigned_to removed, sidecar_checkpoint removed, "
                                          "checkpoint removed, SidecarPosition = :4959:3");
    request.has_checkpoint = false;
    EXPECT_STR(written(&request), IF_OURS "; assigned_to removed, sidecar_checkpoint removed, "
                                          "checkpoint removed");
}

TEST(what_a_person_mends_is_as_it_was_read_and_without_a_mask)
{
    struct ks_store_lease lease = as_read("4959");
    struct ks_store_request request = request_of(KS_STORE_MEND, &lease);

    request.exists = request.masks = true;
    request.checkpoint = request.whole = lease.checkpoint;
    lease.rev = T0 + 1000;
    EXPECT_STR(written(&request),
               "if assigned_to = other, lease_timeout = 2024-05-01 12:00:10 UTC, "
               "checkpoint = SHARD_END; assigned_to removed, "
               "lease_timeout = 2024-05-01 12:00:11 UTC, sidecar_checkpoint removed, "
               "checkpoint = 4959, SidecarPosition removed");
    request.exists = false;
    lease = as_read(NULL);
    lease.unstarted = true;
    EXPECT_STR(written(&request),
               "if shard_id absent ; assigned_to removed, lease_timeout removed, "
               "sidecar_checkpoint removed, SidecarPosition removed, "
               "checkpoint removed");
}

TEST(what_the_table_cannot_hold_is_refused)
{
    static const enum ks_store_operation others[] = {KS_STORE_HEARTBEAT, KS_STORE_CREATE_APP,
                                                     KS_STORE_PLAN, KS_STORE_FORCE, KS_STORE_SEEK};
    struct ks_store_request request = request_of(KS_STORE_CHECKPOINT, NULL);
    struct ks_item_write write;
    struct ks_detail detail = {""};

    request.has_checkpoint = true;
    request.checkpoint.kind = KS_POSITION_TRIM_HORIZON;
    EXPECT_ERR(ks_kcl_rb_dialect.write(&request, &write, &detail), INVALID);
    ks_item_write_free(&write);
    request = request_of(KS_STORE_ASSIGN, NULL);
    EXPECT_ERR(ks_kcl_rb_dialect.write(&request, &write, &detail), INVALID);
    ks_item_write_free(&write);
    for (size_t at = 0; at < sizeof(others) / sizeof(others[0]); at++) {
        request = request_of(others[at], NULL);
        EXPECT_ERR(ks_kcl_rb_dialect.write(&request, &write, &detail), UNSUPPORTED);
        ks_item_write_free(&write);
    }
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
