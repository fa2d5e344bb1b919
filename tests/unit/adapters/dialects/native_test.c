/* SPDX-License-Identifier: Apache-2.0 */
/* The writes of docs/PROTOCOL.md A3 and A5, each as one line of text. */
#include "adapters/dialects/native.h"

#include "base/budget.h"
#include "ks_test.h"

#include <string.h>

typedef struct ks_store_request request;

static const struct ks_store_token tokens[] = {{"s1", 3}, {"s2", 4}};

static const struct ks_store_lease lease = {
    .shard = "s9",
    .checkpoint = {.kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = 55, .sub_sequence = -1},
    .parents = {"s1", "s2"},
    .hash_start = "0",
    .hash_end = "99",
};

static const struct ks_store_app app = {
    .start = {.kind = KS_POSITION_TRIM_HORIZON},
    .stream_arn = "arn:x",
    .stream_created_ms = 12,
};

/* Everything that any operation may name. */
static request full(enum ks_store_operation operation)
{
    return (request){
        .operation = operation,
        .worker = {"me", 1},
        .mode = KS_IDLE,
        .expect_boot = 0xB,
        .expect_beat = 7,
        .held = 21,
        .changes = 22,
        .load = 23,
        .capacity = 24,
        .version = "v1",
        .gives = tokens,
        .give_count = 2,
        .takes = tokens,
        .take_count = 1,
        .shard = "s1",
        .owner = {"he", 2},
        .next_owner = {"she", 3},
        .epoch = 5,
        .rev = 6,
        .has_checkpoint = true,
        .checkpoint = {.kind = KS_POSITION_AFTER_SEQUENCE, .sequence = "1234", .sub_sequence = 8},
        .children = {"s3", "s4"},
        .deputies = {"d1", "d2"},
        .lease = &lease,
        .app = &app};
}

static void put(struct ks_bytes *bytes, const char *before, ks_view text)
{
    EXPECT_OK(ks_bytes_append(bytes, ks_view_text(before)));
    for (size_t at = 0; at < text.size; at++)
        EXPECT_OK(ks_bytes_append_byte(bytes, text.data[at] == '\n' ? '+' : text.data[at]));
}

/* "w/me if boot=.. do set life=fenced" */
static const char *line(request asked)
{
    static const char *const conditions[] = {[KS_IF_EQUALS] = "=",
                                             [KS_IF_EQUALS_OR_ABSENT] = "=?",
                                             [KS_IF_EXISTS] = " exists",
                                             [KS_IF_ABSENT] = " absent",
                                             [KS_IF_IN] = " in "};
    static const char *const updates[] = {[KS_DO_SET] = " set ",
                                          [KS_DO_REMOVE] = " remove ",
                                          [KS_DO_ADD] = " add ",
                                          [KS_DO_DELETE] = " delete "};
    static char text[1024];
    struct ks_detail detail = {""};
    struct ks_item_write write;
    struct ks_bytes bytes;
    const ks_err err = ks_native_write(&asked, &write, &detail);

    ks_bytes_init(&bytes, sizeof(text) - 1);
    if (!ks_ok(err)) {
        put(&bytes, "error: ", ks_view_text(detail.text));
    } else {
        put(&bytes, write.p, KS_VIEW("/"));
        put(&bytes, write.k, KS_VIEW(" if"));
        for (uint32_t at = 0; at < write.condition_count; at++) {
            const struct ks_condition *const one = &write.conditions[at];
            const bool valued = one->kind != KS_IF_ABSENT && one->kind != KS_IF_EXISTS;

            put(&bytes, " ", ks_view_text(one->name));
            put(&bytes, conditions[one->kind], valued ? one->value.text : KS_VIEW_NONE);
        }
        put(&bytes, write.delete_row ? " delete row" : " do", KS_VIEW_NONE);
        for (uint32_t at = 0; at < write.update_count; at++) {
            const struct ks_update *const one = &write.updates[at];

            put(&bytes, updates[one->kind], ks_view_text(one->name));
            if (one->kind != KS_DO_REMOVE)
                put(&bytes, "=", one->value.text);
        }
    }
    EXPECT_OK(ks_view_copy_text(ks_bytes_view(&bytes), text, sizeof(text)));
    ks_bytes_free(&bytes);
    ks_item_write_free(&write);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
    return text;
}

#define REGISTRATION                                                                               \
    " set boot=0000000000000001 set life=live set mode=idle set beat=0 set held=0 set changes=0"   \
    " set capacity=24 set load=0 set version=v1 remove give remove take"

TEST(registrations_are_those_of_the_protocol)
{
    EXPECT_STR(line(full(KS_STORE_REGISTER_NEW)), "w/me if p absent do" REGISTRATION);
    EXPECT_STR(line(full(KS_STORE_REGISTER_DEAD)),
               "w/me if boot=000000000000000b life in fenced+gone do" REGISTRATION);
    EXPECT_STR(line(full(KS_STORE_REGISTER_SILENT)),
               "w/me if boot=000000000000000b beat=7 life=live do" REGISTRATION);
    EXPECT_STR(line(full(KS_STORE_REGISTER_CORPSE)),
               "w/me if boot=000000000000000b do" REGISTRATION);
}

TEST(writes_of_a_worker_row_are_those_of_the_protocol)
{
    request bare = full(KS_STORE_HEARTBEAT);

    EXPECT_STR(
        line(full(KS_STORE_HEARTBEAT)),
        "w/me if boot=0000000000000001 life=live do add beat=1 set mode=idle set held=21"
        " set changes=22 set capacity=24 set load=23 delete give=s1@3+s2@4 delete take=s1@3");
    bare.give_count = 0;
    bare.take_count = 0;
    EXPECT_STR(line(bare), "w/me if boot=0000000000000001 life=live do add beat=1 set mode=idle"
                           " set held=21 set changes=22 set capacity=24 set load=23");
    EXPECT_STR(line(full(KS_STORE_FENCE)),
               "w/me if boot=000000000000000b beat=7 life=live do set life=fenced");
    EXPECT_STR(line(full(KS_STORE_SAY_GONE)),
               "w/me if boot=0000000000000001 life=live do set life=gone");
    EXPECT_STR(line(full(KS_STORE_HINTS)),
               "w/me if boot=000000000000000b life=live do add give=s1@3+s2@4 add take=s1@3");
    bare.operation = KS_STORE_HINTS;
    bare.take_count = 1;
    EXPECT_STR(line(bare), "w/me if boot=000000000000000b life=live do add take=s1@3");
    EXPECT_STR(line(full(KS_STORE_REMOVE_WORKER)),
               "w/me if boot=000000000000000b life in fenced+gone delete row");
}

TEST(writes_of_the_leader_and_app_rows_are_those_of_the_protocol)
{
    request claim = full(KS_STORE_CLAIM_OFFICE);

    EXPECT_STR(line(claim), "w/#leader if holder=he#0000000000000002 epoch=5 do"
                            " set holder=me#0000000000000001 set epoch=6");
    claim.owner.id[0] = '\0';
    EXPECT_STR(line(claim), "w/#leader if holder absent epoch=5 do"
                            " set holder=me#0000000000000001 set epoch=6");
    claim.epoch = 0;
    EXPECT_STR(line(claim), "w/#leader if holder absent epoch=?0 do"
                            " set holder=me#0000000000000001 set epoch=1");
    EXPECT_STR(line(full(KS_STORE_RESIGN_OFFICE)),
               "w/#leader if holder=me#0000000000000001 epoch=5 do remove holder");
    EXPECT_STR(line(full(KS_STORE_CREATE_APP)),
               "w/#app if p absent do set start=TRIM_HORIZON remove start_sub remove start_ms"
               " set stream_arn=arn:x set stream_created_ms=12");
}

TEST(deputies_are_named_or_not_at_all)
{
    request name = full(KS_STORE_NAME_DEPUTIES);

    EXPECT_STR(line(name), "w/#leader if holder=me#0000000000000001 epoch=5 do set deputies=d1+d2");
    name.deputies[0] = NULL;
    EXPECT_STR(line(name), "w/#leader if holder=me#0000000000000001 epoch=5 do set deputies=d2");
    name.deputies[0] = "d2";
    EXPECT_STR(line(name), "w/#leader if holder=me#0000000000000001 epoch=5 do set deputies=d2");
    name.deputies[0] = "#app";
    EXPECT_STR(line(name), "error: name deputies of #leader: deputies: invalid value");
    name.deputies[0] = name.deputies[1] = NULL;
    EXPECT_STR(line(name), "w/#leader if holder=me#0000000000000001 epoch=5 do remove deputies");
}

TEST(writes_of_a_lease_row_are_those_of_the_protocol)
{
    request free = full(KS_STORE_PLAN);

    EXPECT_STR(line(full(KS_STORE_CREATE)),
               "s/s9 if p absent do set epoch=0 set rev=0 set checkpoint=AT_TIMESTAMP remove sub"
               " set checkpoint_ms=55 set parents=s1+s2 set hash_start=0 set hash_end=99");
    EXPECT_STR(line(full(KS_STORE_ASSIGN)), "s/s1 if owner absent epoch=5 finished absent do"
                                            " set owner=me#0000000000000001 set epoch=6");
    EXPECT_STR(line(full(KS_STORE_TAKE_OVER)),
               "s/s1 if owner=he#0000000000000002 epoch=5 do set owner=me#0000000000000001"
               " set epoch=6 remove next_owner");
    EXPECT_STR(line(free), "s/s1 if owner=he#0000000000000002 epoch=5 do"
                           " set next_owner=she#0000000000000003");
    free.next_owner.id[0] = '\0';
    EXPECT_STR(line(free), "s/s1 if owner=he#0000000000000002 epoch=5 do remove next_owner");
    EXPECT_STR(line(full(KS_STORE_FORCE)),
               "s/s1 if owner=he#0000000000000002 epoch=5 do set owner=me#0000000000000001"
               " set epoch=6 remove next_owner");
    EXPECT_STR(line(full(KS_STORE_CHECKPOINT)),
               "s/s1 if owner=me#0000000000000001 epoch=5 rev=6 do set checkpoint=1234 set sub=8"
               " remove checkpoint_ms set load=23 set rev=7");
    EXPECT_STR(line(full(KS_STORE_DELETE)), "s/s1 if finished=true epoch=5 delete row");
}

TEST(last_writes_of_an_owner_are_those_of_the_protocol)
{
    request final = full(KS_STORE_FINAL);

    EXPECT_STR(line(final),
               "s/s1 if owner=me#0000000000000001 epoch=5 rev=6 next_owner=she#0000000000000003 do"
               " set checkpoint=1234 set sub=8 remove checkpoint_ms set load=23"
               " set owner=she#0000000000000003 remove next_owner set epoch=6 set rev=7");
    final.next_owner.id[0] = '\0';
    final.has_checkpoint = false;
    EXPECT_STR(line(final), "s/s1 if owner=me#0000000000000001 epoch=5 rev=6 next_owner absent do"
                            " set load=23 remove owner remove next_owner set epoch=6 set rev=7");
    EXPECT_STR(line(full(KS_STORE_END)),
               "s/s1 if owner=me#0000000000000001 epoch=5 rev=6 do set checkpoint=SHARD_END"
               " remove sub remove checkpoint_ms set children=s3+s4 set finished=true remove load"
               " remove owner remove next_owner set epoch=6 set rev=7");
    EXPECT_STR(line(full(KS_STORE_SEEK)),
               "s/s1 if owner=me#0000000000000001 epoch=5 rev=6 next_owner absent do"
               " set checkpoint=1234 set sub=8 remove checkpoint_ms set epoch=6 set rev=7");
}

TEST(five_writes_make_rows_and_no_other)
{
    for (int operation = 0; operation < KS_STORE_OPERATIONS; operation++) {
        request asked = full((enum ks_store_operation)operation);
        struct ks_item_write write;

        if (!ks_native_writes(asked.operation)) {
            EXPECT(operation <= KS_STORE_READ_WORKER);
            continue;
        }
        if (operation == KS_STORE_NAME_SHARDS || operation == KS_STORE_FILL)
            continue; /* Not of this table. */
        if (operation == KS_STORE_CLAIM_OFFICE) {
            asked.owner.id[0] = '\0';
            asked.epoch = 0;
        }
        EXPECT_OK(ks_native_write(&asked, &write, NULL));
        EXPECT(write.condition_count != 0);
        EXPECT(ks_item_write_may_create(&write) ==
               (operation == KS_STORE_REGISTER_NEW || operation == KS_STORE_CLAIM_OFFICE ||
                operation == KS_STORE_CREATE_APP || operation == KS_STORE_CREATE ||
                operation == KS_STORE_MEND));
        ks_item_write_free(&write);
    }
}

TEST(what_a_row_cannot_hold_is_named)
{
    struct ks_store_lease odd = lease;
    request asked = full(KS_STORE_CHECKPOINT);

    asked.checkpoint.sequence[0] = 'x';
    EXPECT_STR(line(asked), "error: checkpoint of s1: checkpoint: invalid value");
    asked = full(KS_STORE_CHECKPOINT);
    asked.rev = INT64_MAX;
    EXPECT_STR(line(asked), "error: checkpoint of s1: rev: invalid value");
    asked = full(KS_STORE_CHECKPOINT);
    asked.shard = "a/b";
    EXPECT_STR(line(asked), "error: checkpoint: not a shard id");
    asked = full(KS_STORE_HEARTBEAT);
    asked.worker.id[0] = '#';
    EXPECT_STR(line(asked), "error: heartbeat: not a worker id");
    asked = full(KS_STORE_HEARTBEAT);
    asked.mode = (enum ks_mode)9;
    EXPECT_STR(line(asked), "error: heartbeat of me: mode: invalid value");
    asked = full(KS_STORE_HINTS);
    asked.give_count = KS_TOKENS_MAX + 1;
    EXPECT_STR(line(asked), "error: hints of me: give: invalid value");
    asked = full(KS_STORE_CREATE);
    odd.hash_end[0] = 'f';
    asked.lease = &odd;
    EXPECT_STR(line(asked), "error: create lease of s9: hash_end: invalid value");
}

TEST(the_longest_write_fits)
{
    static struct ks_store_token longest[KS_TOKENS_MAX];
    request asked = full(KS_STORE_HINTS);
    struct ks_item_write write;

    for (size_t at = 0; at < KS_TOKENS_MAX; at++) {
        memset(longest[at].shard, 's', KS_SHARD_ID_MAX);
        longest[at].epoch = INT64_MAX;
    }
    asked.gives = longest;
    asked.takes = longest;
    asked.give_count = KS_TOKENS_MAX;
    asked.take_count = KS_TOKENS_MAX;
    EXPECT_OK(ks_native_write(&asked, &write, NULL));
    EXPECT_EQ_U64(write.updates[0].value.text.size, KS_TOKENS_MAX * (128 + 1 + 19) + 127);
    ks_item_write_free(&write);
}

/* "w/a+b", "s/" for a whole partition. */
static const char *look(request asked)
{
    static char text[512];
    struct ks_item_keys keys;
    struct ks_bytes bytes;
    const char *partition;

    EXPECT_OK(ks_native_read(&asked, &partition, &keys));
    ks_bytes_init(&bytes, sizeof(text) - 1);
    put(&bytes, partition, KS_VIEW("/"));
    for (uint32_t at = 0; at < keys.count; at++)
        put(&bytes, at == 0 ? "" : "+", ks_view_text(keys.texts[at]));
    EXPECT_OK(ks_view_copy_text(ks_bytes_view(&bytes), text, sizeof(text)));
    ks_bytes_free(&bytes);
    return text;
}

static void has_no_look(request asked)
{
    struct ks_item_keys keys;
    const char *partition;

    EXPECT(ks_err_is(ks_native_read(&asked, &partition, &keys), KS_ERR_INVALID));
}

TEST(reads_name_a_partition_or_rows)
{
    request asked = full(KS_STORE_READ_LEASE);

    EXPECT_STR(look(full(KS_STORE_READ_FLEET)), "w/");
    EXPECT_STR(look(full(KS_STORE_READ_LEASES)), "s/");
    EXPECT_STR(look(asked), "s/s1");
    asked.shard = "a/b";
    has_no_look(asked);
    asked = full(KS_STORE_READ_WORKER);
    EXPECT_STR(look(asked), "w/me");
    asked.worker.id[0] = '\0';
    has_no_look(asked);
}

TEST(the_news_name_each_row_once)
{
    request asked = full(KS_STORE_READ_NEWS);

    EXPECT_STR(look(asked), "w/#leader+me+he");
    asked.owner = asked.worker;
    EXPECT_STR(look(asked), "w/#leader+me");
    asked.owner.id[0] = '\0';
    EXPECT_STR(look(asked), "w/#leader+me");
    asked.owner.id[0] = '#';
    has_no_look(asked);
    asked = full(KS_STORE_READ_NEWS);
    asked.worker.id[0] = '\0';
    has_no_look(asked);
}

TEST(a_write_without_memory_leaves_nothing)
{
    request asked = full(KS_STORE_FINAL);
    struct ks_item_write write;

    ks_alloc_fail_after(1, 1);
    EXPECT(ks_err_is(ks_native_write(&asked, &write, NULL), KS_ERR_NO_MEMORY));
    ks_alloc_fail_after(0, 0);
    ks_item_write_free(&write);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
