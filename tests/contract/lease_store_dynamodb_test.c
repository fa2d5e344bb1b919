/* SPDX-License-Identifier: Apache-2.0 */
/* What only a server far away can do: tables that are not ours, not there yet, gone, or not
 * answering. */
#include "contract/lease_store_dynamodb.h"

#include "base/budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ks_store_request request;

static const request read_fleet = {.operation = KS_STORE_READ_FLEET};

static void begin(struct lease_rig *rig)
{
    *rig = (struct lease_rig){.adapter = &lease_rig_dynamodb};
    EXPECT_OK(ks_loop_new(&rig->loop));
    dynamodb_world_open(rig, ks_test_env("KS_DYNAMODB_URL"));
}

static void finish(struct lease_rig *rig)
{
    if (rig->store != NULL)
        rig->store->vtable->close(rig->store);
    dynamodb_world_close();
    ks_loop_free(rig->loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

/* Makes, or deletes, a table behind the store's back. */
static void raw(struct lease_rig *rig, const char *operation, const char *format, const char *table)
{
    struct ks_bytes answer;
    char body[1024];
    char rest[512];

    (void)snprintf(rest, sizeof(rest), "%s", format);
    (void)snprintf(body, sizeof(body), "{\"TableName\":\"%s\"%s}", table, rest);
    ks_bytes_init(&answer, 1 << 20);
    dynamodb_raw(rig, operation, ks_view_text(body), &answer);
    ks_bytes_free(&answer);
}

/* The table is somebody else's: nothing is written to it, and the sentence says whose it may be. */
static void is_foreign(const char *keys, const char *key, const char *owner)
{
    const char *const table = dynamodb_table();
    static struct lease_answer answer;
    struct lease_rig rig;
    struct ks_detail detail;

    begin(&rig);
    raw(&rig, "CreateTable", keys, table);
    rig.store = dynamodb_open(&rig, table);
    EXPECT_EQ_I64(dynamodb_await(&rig, rig.store, &detail), KS_STORE_UNUSABLE);
    EXPECT_CONTAINS(detail.text, key);
    EXPECT_CONTAINS(detail.text, owner);
    EXPECT_CONTAINS(detail.text, "--application");

    lease_ask(&rig, rig.store, read_fleet, &answer);
    lease_await(&rig, &answer);
    EXPECT_EQ_I64(answer.outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(answer.err, KS_ERR_FOREIGN));
    EXPECT_STR(answer.detail.text, detail.text);
    raw(&rig, "DeleteTable", "", table);
    finish(&rig);
}

TEST(a_table_of_the_kcl_is_not_touched)
{
    is_foreign(",\"BillingMode\":\"PAY_PER_REQUEST\",\"AttributeDefinitions\":"
               "[{\"AttributeName\":\"leaseKey\",\"AttributeType\":\"S\"}],\"KeySchema\":"
               "[{\"AttributeName\":\"leaseKey\",\"KeyType\":\"HASH\"}]",
               "leaseKey", "--dialect kcl");
}

TEST(a_table_of_vmware_go_kcl_is_not_touched)
{
    is_foreign(",\"BillingMode\":\"PAY_PER_REQUEST\",\"AttributeDefinitions\":"
               "[{\"AttributeName\":\"ShardID\",\"AttributeType\":\"S\"}],\"KeySchema\":"
               "[{\"AttributeName\":\"ShardID\",\"KeyType\":\"HASH\"}]",
               "ShardID", "--dialect go-kcl");
}

TEST(a_table_of_kinsumer_is_not_touched)
{
    is_foreign(",\"BillingMode\":\"PAY_PER_REQUEST\",\"AttributeDefinitions\":"
               "[{\"AttributeName\":\"Shard\",\"AttributeType\":\"S\"}],\"KeySchema\":"
               "[{\"AttributeName\":\"Shard\",\"KeyType\":\"HASH\"}]",
               "Shard", "kinsumer");
}

TEST(a_table_with_our_key_names_of_another_type_is_not_touched)
{
    is_foreign(",\"BillingMode\":\"PAY_PER_REQUEST\",\"AttributeDefinitions\":"
               "[{\"AttributeName\":\"p\",\"AttributeType\":\"S\"},"
               "{\"AttributeName\":\"k\",\"AttributeType\":\"N\"}],\"KeySchema\":"
               "[{\"AttributeName\":\"p\",\"KeyType\":\"HASH\"},"
               "{\"AttributeName\":\"k\",\"KeyType\":\"RANGE\"}]",
               "(p, k)", "of strings");
}

TEST(two_stores_make_the_table_at_once)
{
    struct ks_lease_store *stores[4];
    struct ks_detail detail;
    struct lease_rig rig;

    begin(&rig);
    for (int at = 0; at < 4; at++)
        stores[at] = dynamodb_open(&rig, dynamodb_table());
    for (int at = 0; at < 4; at++) {
        EXPECT_EQ_I64(dynamodb_await(&rig, stores[at], &detail), KS_STORE_READY);
        rig.store = stores[at];
        EXPECT_EQ_I64(lease_do(&rig, read_fleet), KS_DONE);
        stores[at]->vtable->close(stores[at]);
    }
    rig.store = NULL;
    finish(&rig);
}

TEST(before_the_table_is_ready_requests_are_answered_busy_at_once)
{
    static struct lease_answer answer;
    const ks_instant begun = ks_instant_now();
    struct ks_detail detail;
    struct lease_rig rig;

    begin(&rig);
    rig.store = dynamodb_open(&rig, dynamodb_table());
    EXPECT_EQ_I64(rig.store->vtable->state(rig.store, &detail), KS_STORE_OPENING);
    EXPECT_CONTAINS(detail.text, dynamodb_table());
    lease_ask(&rig, rig.store, read_fleet, &answer);
    lease_await(&rig, &answer);
    EXPECT_EQ_I64(answer.outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(answer.err, KS_ERR_BUSY));
    EXPECT(ks_instant_since(ks_instant_now(), begun).us < 2000000);
    EXPECT_EQ_I64(dynamodb_await(&rig, rig.store, &detail), KS_STORE_READY);
    finish(&rig);
}

TEST(a_table_that_is_gone_is_not_made_again)
{
    static struct lease_answer answer;
    struct ks_detail detail;
    struct lease_rig rig;

    begin(&rig);
    rig.store = dynamodb_open(&rig, dynamodb_table());
    EXPECT_EQ_I64(dynamodb_await(&rig, rig.store, &detail), KS_STORE_READY);
    raw(&rig, "DeleteTable", "", dynamodb_table());
    lease_ask(&rig, rig.store, read_fleet, &answer);
    lease_await(&rig, &answer);
    EXPECT_EQ_I64(answer.outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(answer.err, KS_ERR_BUSY));
    EXPECT_EQ_I64(dynamodb_await(&rig, rig.store, &detail), KS_STORE_UNUSABLE);
    EXPECT_CONTAINS(detail.text, "gone");
    finish(&rig);

    /* A new process may begin anew. */
    begin(&rig);
    rig.store = dynamodb_open(&rig, dynamodb_table());
    EXPECT_EQ_I64(dynamodb_await(&rig, rig.store, &detail), KS_STORE_READY);
    finish(&rig);
}

TEST(a_server_that_is_not_there_is_waited_for)
{
    static struct lease_answer answer;
    struct lease_rig rig = {.adapter = &lease_rig_dynamodb};
    struct ks_detail detail;

    EXPECT_OK(ks_loop_new(&rig.loop));
    /* Nobody listens there: port 1 is privileged. */
    dynamodb_world_open(&rig, "http://127.0.0.1:1/");
    rig.store = dynamodb_open(&rig, dynamodb_table());
    EXPECT_EQ_I64(dynamodb_await(&rig, rig.store, &detail), KS_STORE_AWAY);
    EXPECT(detail.text[0] != '\0');
    lease_ask(&rig, rig.store, read_fleet, &answer);
    lease_await(&rig, &answer);
    EXPECT_EQ_I64(answer.outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(answer.err, KS_ERR_BUSY));
    finish(&rig);
}

TEST(a_server_that_stops_is_away_and_comes_back)
{
    static struct lease_answer answers[KS_TOKENS_MAX];
    request quick = read_fleet;
    struct ks_detail detail;
    struct lease_rig rig;

    begin(&rig);
    rig.store = dynamodb_open(&rig, dynamodb_table());
    EXPECT_EQ_I64(dynamodb_await(&rig, rig.store, &detail), KS_STORE_READY);
    dynamodb_stop();
    quick.timeout = ks_span_ms(100);
    for (int at = 0; at < 5; at++)
        lease_ask(&rig, rig.store, quick, &answers[at]);
    for (int at = 0; at < 5; at++)
        lease_await(&rig, &answers[at]);
    EXPECT_EQ_I64(rig.store->vtable->state(rig.store, &detail), KS_STORE_AWAY);
    EXPECT(detail.text[0] != '\0');
    dynamodb_go_on();
    EXPECT_EQ_I64(lease_do(&rig, read_fleet), KS_DONE);
    EXPECT_EQ_I64(rig.store->vtable->state(rig.store, &detail), KS_STORE_READY);
    finish(&rig);
}

/* --- Tables of others --- */

/* Whatever it is asked, it is the second table, which others make. */
static uint32_t the_second(enum ks_store_operation operation)
{
    (void)operation;
    return 1;
}

TEST(a_table_that_others_make_and_that_is_absent_has_no_rows)
{
    struct ks_dialect dialect = ks_go_kcl_dialect;
    static struct lease_answer answer;
    struct ks_detail detail;
    struct lease_rig rig;

    dialect.tables[1] =
        (struct ks_dialect_table){"-Others", ks_go_kcl_dialect.tables[0].schema, true};
    dialect.table_count = 2;
    dialect.table = the_second;
    begin(&rig);
    rig.store = dynamodb_open_as(&rig, dynamodb_table(), &dialect);
    EXPECT_EQ_I64(dynamodb_await(&rig, rig.store, &detail), KS_STORE_READY);
    lease_turn(&rig, 300);
    EXPECT_EQ_I64(rig.store->vtable->state(rig.store, &detail), KS_STORE_READY);
    EXPECT_EQ_U64(lease_tell(&rig, (request){.operation = KS_STORE_READ_LEASES})->lease_count, 0);
    EXPECT_EQ_I64(lease_do(&rig, (request){.operation = KS_STORE_READ_LEASES}), KS_DONE);
    lease_ask(&rig, rig.store,
              (request){.operation = KS_STORE_ASSIGN,
                        .shard = "shardId-000000000000",
                        .worker = {.id = "a"},
                        .next_rev = UINT64_C(1714564810000000000)},
              &answer);
    lease_await(&rig, &answer);
    EXPECT_EQ_I64(answer.outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(answer.err, KS_ERR_NOT_FOUND));
    finish(&rig);
}

TEST(of_a_table_that_is_absent_every_row_is_gone)
{
    struct ks_detail detail;
    struct lease_rig rig;

    begin(&rig);
    rig.store = dynamodb_open_as(&rig, dynamodb_table(), &ks_kcl_dialect);
    EXPECT_EQ_I64(dynamodb_await(&rig, rig.store, &detail), KS_STORE_READY);
    EXPECT_EQ_I64(lease_do(&rig, (request){.operation = KS_STORE_SAY_GONE, .worker = {.id = "a"}}),
                  KS_DONE);
    finish(&rig);
}

#define NOW UINT64_C(1714564800123456789)
#define CAPTURED "shardId-000000000001"

static request of_kinsumer(enum ks_store_operation operation, uint64_t rev)
{
    return (request){.operation = operation,
                     .shard = CAPTURED,
                     .worker = {.id = "~me"},
                     .consistent = true,
                     .rev = rev,
                     .next_rev = rev == 0 ? NOW : rev + 1};
}

static void kinsumer_shards(struct lease_rig *rig)
{
    request checkpoint = of_kinsumer(KS_STORE_CHECKPOINT, NOW);
    const struct lease_answer *answer;

    EXPECT_EQ_I64(lease_do(rig, of_kinsumer(KS_STORE_ASSIGN, 0)), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, of_kinsumer(KS_STORE_ASSIGN, 0)), KS_REFUSED);
    checkpoint.has_checkpoint = true;
    checkpoint.checkpoint = checkpoint.whole = lease_after("4957");
    EXPECT_EQ_I64(lease_do(rig, checkpoint), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, checkpoint), KS_REFUSED); /* Its rev has moved on. */
    answer = lease_tell(rig, of_kinsumer(KS_STORE_READ_LEASE, 0));
    EXPECT_EQ_U64(answer->lease_count, 1);
    EXPECT_STR(answer->leases[0].owner.id, "~me");
    EXPECT_STR(answer->leases[0].checkpoint.sequence, "4957");
    EXPECT_EQ_U64(answer->leases[0].rev, NOW + 1);
    EXPECT_EQ_I64(lease_do(rig, of_kinsumer(KS_STORE_END, NOW + 1)), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, of_kinsumer(KS_STORE_ASSIGN, NOW + 2)), KS_REFUSED);
    answer = lease_tell(rig, of_kinsumer(KS_STORE_READ_LEASES, 0));
    EXPECT_EQ_U64(answer->lease_count, 1);
    EXPECT(answer->leases[0].finished && answer->leases[0].owner.id[0] == '\0');
}

static void kinsumer_clients(struct lease_rig *rig)
{
    request list = of_kinsumer(KS_STORE_NAME_SHARDS, 0);
    request beat = of_kinsumer(KS_STORE_HEARTBEAT, 0);
    const struct lease_answer *answer;

    EXPECT_EQ_I64(lease_do(rig, beat), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, beat), KS_DONE);
    beat.expect_beat = NOW;
    EXPECT_EQ_I64(lease_do(rig, beat), KS_DONE);
    answer = lease_tell(rig, of_kinsumer(KS_STORE_READ_FLEET, 0));
    EXPECT_EQ_U64(answer->worker_count, 1);
    EXPECT_STR(answer->workers[0].self.id, "~me");
    EXPECT_EQ_U64(answer->workers[0].beat, NOW);
    EXPECT(!lease_tell(rig, of_kinsumer(KS_STORE_READ_NEWS, 0))->listed);
    EXPECT_EQ_I64(lease_do(rig, of_kinsumer(KS_STORE_CLAIM_OFFICE, 0)), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, of_kinsumer(KS_STORE_CLAIM_OFFICE, 0)), KS_REFUSED);
    list.shards = KS_VIEW("b\na");
    EXPECT_EQ_I64(lease_do(rig, list), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, list), KS_REFUSED);
    answer = lease_tell(rig, of_kinsumer(KS_STORE_READ_NEWS, 0));
    EXPECT(answer->listed);
    EXPECT_STR(answer->list, "b\na");
    EXPECT_EQ_U64(answer->list_rev, NOW);
    EXPECT_STR(answer->leader.holder.id, "~me");
    EXPECT_EQ_I64(lease_do(rig, of_kinsumer(KS_STORE_SAY_GONE, 0)), KS_DONE);
    beat.expect_beat = NOW;
    EXPECT_EQ_I64(lease_do(rig, beat), KS_REFUSED); /* It came too late, and makes no ghost. */
    EXPECT_EQ_U64(lease_tell(rig, of_kinsumer(KS_STORE_READ_FLEET, 0))->worker_count, 0);
}

TEST(kinsumers_three_tables_are_made_read_and_written)
{
    struct ks_detail detail;
    struct lease_rig rig;

    begin(&rig);
    rig.store = dynamodb_open_as(&rig, dynamodb_table(), &ks_kinsumer_dialect);
    EXPECT_EQ_I64(dynamodb_await(&rig, rig.store, &detail), KS_STORE_READY);
    kinsumer_shards(&rig);
    kinsumer_clients(&rig);
    finish(&rig);
}

TEST(kinsumers_nulls_are_as_good_as_nothing)
{
    char name[128];
    struct ks_detail detail;
    struct lease_rig rig;

    begin(&rig);
    rig.store = dynamodb_open_as(&rig, dynamodb_table(), &ks_kinsumer_dialect);
    EXPECT_EQ_I64(dynamodb_await(&rig, rig.store, &detail), KS_STORE_READY);
    (void)snprintf(name, sizeof(name), "%s_checkpoints", dynamodb_table());
    raw(&rig, "PutItem",
        ",\"Item\":{\"Shard\":{\"S\":\"" CAPTURED "\"},\"OwnerID\":{\"NULL\":true},"
        "\"Finished\":{\"NULL\":true},\"LastUpdate\":{\"N\":\"1714564800123456789\"}}",
        name);
    EXPECT_EQ_I64(lease_do(&rig, of_kinsumer(KS_STORE_ASSIGN, NOW)), KS_DONE);
    EXPECT_EQ_U64(lease_tell(&rig, of_kinsumer(KS_STORE_READ_LEASE, 0))->leases[0].rev, NOW + 1);
    finish(&rig);
}

TEST(a_partition_beyond_a_megabyte_takes_several_queries)
{
    struct ks_aws_state before;
    struct ks_aws_state after;
    static struct ks_store_lease lease;
    struct ks_detail detail;
    struct lease_rig rig;

    begin(&rig);
    rig.store = dynamodb_open(&rig, dynamodb_table());
    EXPECT_EQ_I64(dynamodb_await(&rig, rig.store, &detail), KS_STORE_READY);
    lease.checkpoint.kind = KS_POSITION_TRIM_HORIZON;
    for (int row = 0; row < 5; row++) {
        static char note[300 << 10];

        (void)snprintf(lease.shard, sizeof(lease.shard), "shard-%d", row);
        EXPECT_EQ_I64(lease_do(&rig, (request){.operation = KS_STORE_CREATE, .lease = &lease}),
                      KS_DONE);
        memset(note, 'n', sizeof(note) - 1);
        rig.adapter->poke(&rig, "s", lease.shard, "note", KS_VALUE_TEXT, note);
    }
    dynamodb_requests(&before);
    EXPECT_EQ_U64(lease_tell(&rig, (request){.operation = KS_STORE_READ_LEASES, .consistent = true})
                      ->lease_count,
                  5);
    dynamodb_requests(&after);
    EXPECT(after.requests >= before.requests + 2);
    finish(&rig);
}

TEST(a_name_that_no_table_can_have_is_told_at_once)
{
    static const char *const names[] = {"", "ab", "orders/eu", "a b c"};
    struct ks_lease_store *store = NULL;
    struct ks_detail detail;
    struct lease_rig rig;

    begin(&rig);
    for (size_t at = 0; at < sizeof(names) / sizeof(names[0]); at++) {
        EXPECT(!dynamodb_opens(&rig, names[at], &store, &detail));
        EXPECT_CONTAINS(detail.text, "3 to 255");
    }
    finish(&rig);
}
