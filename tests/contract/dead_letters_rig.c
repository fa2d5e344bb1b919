/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/dead_letters_rig.h"

#include "base/budget.h"
#include "contract/letters_faults.h"

#include <stdio.h>
#include <string.h>

enum {
    TRIES_MAX = 50,  /* Of a call under faults. */
    FAULTS_MAX = 3,  /* So many of them have one. */
    AGAIN_TURNS = 20 /* Between two of them. */
};

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
    for (int i = 0; i < 6000 && heard.calls == calls_before; i++) {
        ks_loop_turn(letters_loop, ks_span_ms(10));
        letters_faults_turn();
    }
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

void letters_rig_run_under_faults(const struct letters_adapter *adapter, void (*test)(void),
                                  uint64_t seed)
{
    letters_faults_begin(seed, adapter->throttle);
    letters_rig_run(adapter, test);
    letters_faults_end();
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

/* ---- Calls ---- */

enum kind { WRITE, LIST, FIND, CLAIM, AMEND, KEEP, REMOVE };

struct call {
    enum kind kind;
    const struct ks_letter *letters;
    uint32_t count; /* Of letters; of a list, the most. */
    const char *id;
    const char *claim;
};

static void send(const struct call *call)
{
    const struct ks_dead_letters_vtable *const vtable = letters_store->vtable;

    switch (call->kind) {
    case WRITE:
        vtable->write(letters_store, call->letters, call->count, letters_answered, NULL);
        return;
    case LIST:
        vtable->list(letters_store, ks_view_text(call->id), call->count, letters_answered, NULL);
        return;
    case FIND: vtable->find(letters_store, ks_view_text(call->id), letters_answered, NULL); return;
    case CLAIM: vtable->claim(letters_store, call->letters, letters_answered, NULL); return;
    case AMEND: vtable->amend(letters_store, call->letters, letters_answered, NULL); return;
    case KEEP: vtable->keep(letters_store, call->letters, letters_answered, NULL); return;
    case REMOVE:
        vtable->remove(letters_store, ks_view_text(call->id), ks_view_text(call->claim),
                       letters_answered, NULL);
        return;
    }
    FAIL("no such call");
}

/* True if the call has to be made again. No write is refused for what it is. */
static bool is_open(const struct call *call)
{
    return heard.outcome == KS_UNKNOWN || (call->kind == WRITE && heard.outcome == KS_REFUSED);
}

/* As the core does, a call that is made again waits before it: a table that could not be asked is asked again by
 * then. */
static void wait_a_while(void)
{
    for (int turn = 0; turn < AGAIN_TURNS; turn++)
        ks_loop_turn(letters_loop, ks_span_ms(10));
}

static enum ks_outcome perform(const struct call *call)
{
    const bool repeats =
        call->kind != REMOVE && (call->kind != AMEND || call->letters->claim.size == 0);
    uint32_t tries = 0;

    for (;;) {
        const uint32_t before = heard.calls;

        if (tries < FAULTS_MAX)
            letters_faults_next(repeats);
        send(call);
        letters_await(before);
        letters_faults_heal();
        if (!letters_faults_are_on() || !repeats || !is_open(call) || ++tries == TRIES_MAX)
            return heard.outcome;
        wait_a_while();
    }
}

enum ks_outcome letters_write(const struct ks_letter *letters, uint32_t count)
{
    return perform(&(const struct call){.kind = WRITE, .letters = letters, .count = count});
}

enum ks_outcome letters_write_one(const char *sequence, size_t data_size)
{
    const struct ks_letter one = letters_make(sequence, data_size);

    return letters_write(&one, 1);
}

enum ks_outcome letters_list(const char *after, uint32_t most)
{
    return perform(&(const struct call){.kind = LIST, .id = after, .count = most});
}

enum ks_outcome letters_find_id(const char *id)
{
    return perform(&(const struct call){.kind = FIND, .id = id});
}

enum ks_outcome letters_find(const char *sequence)
{
    return letters_find_id(letters_id(sequence));
}

enum ks_outcome letters_remove_id(const char *id, const char *claim)
{
    return perform(&(const struct call){.kind = REMOVE, .id = id, .claim = claim});
}

enum ks_outcome letters_remove(const char *sequence)
{
    return letters_remove_id(letters_id(sequence), "");
}

enum ks_outcome letters_amend_with(const struct ks_letter *said)
{
    return perform(&(const struct call){.kind = AMEND, .letters = said});
}

enum ks_outcome letters_amend(const char *sequence, uint32_t attempts)
{
    struct ks_letter said = letters_make(sequence, 0);

    said.attempts = attempts;
    said.reason = KS_VIEW("second");
    said.cause = KS_CAUSE_ATTEMPTS;
    said.died_ms = 1795219205000;
    return letters_amend_with(&said);
}

enum ks_outcome letters_claim(const struct ks_letter *claimed)
{
    return perform(&(const struct call){.kind = CLAIM, .letters = claimed});
}

enum ks_outcome letters_keep(const char *sequence, size_t data_size)
{
    const struct ks_letter kept = letters_make(sequence, data_size);

    return perform(&(const struct call){.kind = KEEP, .letters = &kept});
}
