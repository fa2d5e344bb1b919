/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/dead_letters_rig.h"

#include "base/budget.h"

#include <stdio.h>
#include <string.h>

#define SHARD "shardId-000000000000"

const struct letters_adapter *letters_of;
struct ks_loop *letters_loop;
struct ks_dead_letters *letters_store;
struct ks_detail letters_why;
struct letters_heard heard;

static uint8_t payload[LETTERS_MIB];

static void hear(const struct ks_letter *letter)
{
    heard.first = *letter;
    heard.data_size = letter->data.size;
    heard.data_end = letter->data.size == 0 ? 0 : letter->data.data[letter->data.size - 1];
    EXPECT_OK(ks_view_copy_text(letter->shard_id, heard.shard, sizeof heard.shard));
    EXPECT_OK(ks_view_copy_text(letter->partition_key, heard.key, sizeof heard.key));
    EXPECT_OK(ks_view_copy_text(letter->reason, heard.reason, sizeof heard.reason));
    EXPECT_OK(ks_view_copy_text(letter->claim, heard.claim, sizeof heard.claim));
}

void letters_answered(void *arg, const struct ks_letters_answer *answer)
{
    (void)arg;
    heard.calls++;
    heard.outcome = answer->outcome;
    heard.count = answer->count;
    heard.more = answer->more;
    (void)snprintf(heard.detail, sizeof heard.detail, "%s", answer->detail.text);
    if (answer->outcome != KS_DONE || answer->letters == NULL || answer->count == 0)
        return;
    for (uint32_t i = 0; i < answer->count && i < LETTERS_HEARD_MAX; i++)
        EXPECT_OK(ks_view_copy_text(answer->letters[i].sequence, heard.sequences[i],
                                    sizeof heard.sequences[i]));
    hear(&answer->letters[0]);
}

void letters_await(uint32_t calls_before)
{
    for (int i = 0; i < 6000 && heard.calls == calls_before; i++)
        ks_loop_turn(letters_loop, ks_span_ms(10));
    EXPECT_EQ_I64(heard.calls, calls_before + 1);
}

void letters_begin(void)
{
    EXPECT_OK(ks_loop_new(&letters_loop));
    letters_of->set_up();
    if (!ks_ok(letters_of->open(&letters_store, &letters_why)))
        FAIL("%s", letters_why.text);
}

void letters_end(void)
{
    letters_store->vtable->close(letters_store);
    letters_of->tear_down();
    ks_loop_free(letters_loop);
}

void letters_restart(void)
{
    letters_end();
    letters_begin();
}

void letters_rig_run(const struct letters_adapter *adapter, void (*test)(void))
{
    letters_of = adapter;
    letters_begin();
    test();
    letters_end();
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

/* Place for a text, until 256 more were asked for. */
static char *place(void)
{
    enum { TEXTS = 256 };
    static char texts[TEXTS][KS_LETTER_ID_MAX + 1];
    static unsigned next;

    return texts[next++ % TEXTS];
}

static ks_view text_of(const char *text)
{
    char *const copy = place();

    (void)snprintf(copy, KS_LETTER_ID_MAX + 1, "%s", text);
    return ks_view_text(copy);
}

static const char *id_of(const char *shard, const char *sequence, int64_t sub)
{
    char *const id = place();

    (void)snprintf(id, KS_LETTER_ID_MAX + 1, "%s.%s.%lld", shard, sequence, (long long)sub);
    return id;
}

struct ks_letter letters_make_of(const char *shard, const char *sequence, int64_t sub)
{
    return (struct ks_letter){
        .id = ks_view_text(id_of(shard, sequence, sub < 0 ? 0 : sub)),
        .stream = KS_VIEW("demo"),
        .shard_id = text_of(shard),
        .sequence = text_of(sequence),
        .sub_sequence = sub,
        .partition_key = KS_VIEW("k"),
        .data = ks_view_of(payload, 10),
        .reason = KS_VIEW("first"),
        .arrival_ms = 1795219200000,
        .died_ms = 1795219201000,
        .attempts = 1,
    };
}

struct ks_letter letters_make(const char *sequence, size_t data_size)
{
    struct ks_letter letter = letters_make_of(SHARD, sequence, -1);

    memset(payload, 'd', sizeof payload);
    letter.data = ks_view_of(payload, data_size);
    return letter;
}

const char *letters_id(const char *sequence)
{
    return id_of(SHARD, sequence, 0);
}

enum ks_outcome letters_write(const struct ks_letter *letters, uint32_t count)
{
    const uint32_t before = heard.calls;

    letters_store->vtable->write(letters_store, letters, count, letters_answered, NULL);
    letters_await(before);
    return heard.outcome;
}

enum ks_outcome letters_write_one(const char *sequence, size_t data_size)
{
    const struct ks_letter one = letters_make(sequence, data_size);

    return letters_write(&one, 1);
}

enum ks_outcome letters_list(const char *after, uint32_t most)
{
    const uint32_t before = heard.calls;

    letters_store->vtable->list(letters_store, ks_view_text(after), most, letters_answered, NULL);
    letters_await(before);
    return heard.outcome;
}

enum ks_outcome letters_find(const char *sequence)
{
    const uint32_t before = heard.calls;

    letters_store->vtable->find(letters_store, ks_view_text(letters_id(sequence)), letters_answered,
                                NULL);
    letters_await(before);
    return heard.outcome;
}

enum ks_outcome letters_remove(const char *sequence)
{
    const uint32_t before = heard.calls;

    letters_store->vtable->remove(letters_store, ks_view_text(letters_id(sequence)), KS_VIEW(""),
                                  letters_answered, NULL);
    letters_await(before);
    return heard.outcome;
}

enum ks_outcome letters_amend(const char *sequence, uint32_t attempts)
{
    const uint32_t before = heard.calls;
    struct ks_letter said = letters_make(sequence, 0);

    said.attempts = attempts;
    said.reason = KS_VIEW("second");
    said.cause = KS_CAUSE_ATTEMPTS;
    said.died_ms = 1795219205000;
    letters_store->vtable->amend(letters_store, &said, letters_answered, NULL);
    letters_await(before);
    return heard.outcome;
}

enum ks_outcome letters_keep(const char *sequence, size_t data_size)
{
    const uint32_t before = heard.calls;
    const struct ks_letter kept = letters_make(sequence, data_size);

    letters_store->vtable->keep(letters_store, &kept, letters_answered, NULL);
    letters_await(before);
    return heard.outcome;
}
