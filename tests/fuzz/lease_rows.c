/* SPDX-License-Identifier: Apache-2.0 */
/* lease_rows.c - any bytes as the answer to a Query or a BatchGetItem of the lease table: a row means something or is
 * damaged, the words of a good one are written as they were read, and what was left out was asked for.
 */
#include "adapters/dialects/native.h"
#include "adapters/dialects/native_words.h"
#include "adapters/dynamodb/wire.h"
#include "base/budget.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ks_bytes word;

static void check_incarnation(const struct ks_incarnation_text *who)
{
    struct ks_incarnation_text again;

    if (who->id[0] == '\0')
        return;
    ks_bytes_clear(&word);
    assert(ks_ok(ks_native_put_incarnation(&word, who)));
    assert(ks_ok(ks_native_get_incarnation(ks_bytes_view(&word), &again)));
    assert(again.boot == who->boot && strcmp(again.id, who->id) == 0);
}

static void check_position(const struct ks_position *position)
{
    struct ks_position again;

    ks_bytes_clear(&word);
    assert(ks_ok(ks_native_put_position(&word, position)));
    assert(ks_ok(ks_native_get_position(ks_bytes_view(&word), &again)));
    assert(again.kind == position->kind && strcmp(again.sequence, position->sequence) == 0);
    assert(position->sub_sequence >= -1);
}

static void check_tokens(const struct ks_store_token *tokens, uint32_t count)
{
    struct ks_store_token again;

    for (uint32_t at = 0; at < count; at++) {
        ks_bytes_clear(&word);
        assert(ks_ok(ks_native_put_token(&word, &tokens[at])));
        assert(ks_ok(ks_native_get_token(ks_bytes_view(&word), &again)));
        assert(again.epoch == tokens[at].epoch && strcmp(again.shard, tokens[at].shard) == 0);
    }
}

static void check_answer(const struct ks_store_answer *answer)
{
    for (uint32_t at = 0; at < answer->worker_count; at++) {
        const struct ks_store_worker *worker = &answer->workers[at];

        assert(ks_view_is_utf8(ks_view_text(worker->self.id)));
        assert(!worker->damaged || worker->give_count + worker->take_count == 0);
        if (worker->damaged)
            continue;
        check_incarnation(&worker->self);
        check_tokens(worker->gives, worker->give_count);
        check_tokens(worker->takes, worker->take_count);
    }
    for (uint32_t at = 0; at < answer->lease_count; at++) {
        const struct ks_store_lease *lease = &answer->leases[at];

        if (lease->damaged)
            continue;
        assert(ks_native_is_shard(ks_view_text(lease->shard)));
        assert(lease->epoch <= INT64_MAX && lease->rev <= INT64_MAX);
        check_incarnation(&lease->owner);
        check_incarnation(&lease->next_owner);
        check_position(&lease->checkpoint);
    }
    check_incarnation(&answer->leader.holder);
    if (answer->app.present)
        check_position(&answer->app.start);
}

static void read_items(const struct ks_json *items, struct ks_bytes *texts)
{
    struct ks_native_rows rows = {.workers = NULL};
    struct ks_store_answer answer = {.outcome = KS_DONE};
    struct ks_detail detail = {""};
    struct ks_item item;

    for (size_t at = 0; at < ks_json_count(items); at++) {
        if (ks_ok(
                ks_dynamodb_read_item(ks_json_item(items, at), &ks_native_schema, texts, &item)) &&
            !ks_ok(ks_native_rows_add(&rows, &item, &detail)))
            assert(detail.text[0] != '\0');
    }
    ks_native_rows_answer(&rows, &answer);
    check_answer(&answer);
    ks_native_rows_free(&rows);
}

static void read_left(const struct ks_json *answer)
{
    struct ks_item_keys asked = {.texts = {"#leader", "pod-a"}, .count = 2};
    struct ks_item_keys left;

    if (ks_ok(ks_dynamodb_read_unprocessed(answer, "app", NULL, &asked, &left)))
        assert(left.count <= asked.count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_json *answer = NULL;
    struct ks_bytes texts;

    ks_bytes_init(&word, 1024);
    ks_bytes_init(&texts, 1 << 20);
    if (ks_ok(ks_json_parse(ks_view_of(data, size), &answer))) {
        read_items(ks_json_member(answer, "Items"), &texts);
        read_left(answer);
        ks_json_free(answer);
    }
    ks_bytes_free(&texts);
    ks_bytes_free(&word);
    assert(ks_alloc_live() == 0);
    return 0;
}
