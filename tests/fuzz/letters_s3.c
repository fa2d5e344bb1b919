/* SPDX-License-Identifier: Apache-2.0 */
/* letters_s3.c - any bytes as what S3 answers to a store of dead letters: pages of keys, objects, failures.
 *
 * The input is answers with a byte 0x1e between them, given to one request after the other; one that begins with '!' is
 * a failure, and so is what follows the last one. Every call is answered once; a list is in order, each letter of it is
 * whole, and a list that has more has a letter to go on from; nothing is kept.
 */
#include "adapters/s3/letter_object.h"
#include "adapters/s3/letters.h"
#include "base/budget.h"

#include "aws.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FOLDER "p/app/demo/"

static struct ks_loop *loop;
static struct ks_dead_letters *store;
static ks_view answers;

struct heard {
    uint32_t times;
    bool more;
    char last[KS_S3_KEY_MAX + 1]; /* The key of the last letter of the last list. */
};

/* ---- Answers of S3 ---- */

/* Gives each open request the next answer. */
static void give_all(void)
{
    const ks_view over = KS_VIEW("!<Error><Code>AccessDenied</Code></Error>");

    for (size_t at = 0; at < AWS_CALLS_MAX; at++) {
        if (!calls[at].open)
            continue;
        if (answers.data == NULL)
            give(&calls[at], over);
        else
            give(&calls[at], ks_view_cut(&answers, 0x1e));
    }
}

static void await(const struct heard *heard, uint32_t times)
{
    while (heard->times < times) {
        give_all();
        ks_loop_turn(loop, ks_span_ms(0));
    }
    assert(heard->times == times);
}

/* ---- Answers of the store ---- */

static void check_letter(const struct ks_letter *letter, struct heard *heard)
{
    const ks_view names[] = {letter->id, letter->stream, letter->shard_id, letter->sequence};
    char key[KS_S3_KEY_MAX + 1];
    static volatile uint8_t last;

    for (size_t at = 0; at < sizeof(names) / sizeof(names[0]); at++)
        assert(ks_view_is_utf8(names[at]));
    assert(ks_view_is_unicode(letter->reason) && letter->reason.size <= KS_LETTER_REASON_MAX);
    assert(ks_view_is_unicode(letter->claim) && letter->claim.size <= KS_LETTER_CLAIM_MAX);
    assert(letter->data.size <= KS_RECORD_BYTES_MAX);
    if (letter->data.size > 0)
        last = letter->data.data[letter->data.size - 1];
    (void)last;
    assert((int)letter->cause >= 0 && letter->cause < KS_CAUSES);
    assert(letter->sub_sequence >= -1 && letter->sub_sequence <= UINT32_MAX);
    assert(!letter->pointer);
    assert(ks_ok(ks_letter_key_put(FOLDER, letter->id, key)));
    assert(strcmp(key, heard->last) > 0);
    memcpy(heard->last, key, sizeof(key));
}

static void on_list(void *arg, const struct ks_letters_answer *answer)
{
    struct heard *const heard = arg;

    heard->times++;
    heard->more = answer->outcome == KS_DONE && answer->more;
    assert(answer->outcome == KS_DONE || answer->detail.text[0] != '\0');
    assert(!heard->more || answer->count > 0);
    for (uint32_t at = 0; at < answer->count; at++)
        check_letter(&answer->letters[at], heard);
}

static void on_answer(void *arg, const struct ks_letters_answer *answer)
{
    struct heard *const heard = arg;

    heard->times++;
    assert(answer->outcome != KS_UNKNOWN || answer->detail.text[0] != '\0');
    assert(ks_view_is_utf8(ks_view_text(answer->detail.text)));
}

static void read_pages(void)
{
    struct heard heard = {.more = true};
    char after[KS_LETTER_ID_MAX + 1] = "";

    for (uint32_t page = 0; page < 3 && heard.more; page++) {
        store->vtable->list(store, ks_view_text(after), 2, on_list, &heard);
        await(&heard, page + 1);
        if (heard.more)
            assert(ks_ok(ks_letter_key_read(FOLDER, heard.last, after)));
    }
}

/* Finds, amends and removes a letter, and writes it; with a claim that is made before. */
static void change(ks_view claim)
{
    struct heard heard = {.times = 0};
    uint32_t asked = 0;
    const struct ks_letter letter = {.id = KS_VIEW("s.1.0"),
                                     .stream = KS_VIEW("demo"),
                                     .shard_id = KS_VIEW("s"),
                                     .sequence = KS_VIEW("1"),
                                     .sub_sequence = -1,
                                     .claim = claim,
                                     .died_ms = 1795219200000,
                                     .attempts = 2};

    store->vtable->find(store, letter.id, on_answer, &heard);
    await(&heard, ++asked);
    if (claim.size > 0) {
        store->vtable->claim(store, &letter, on_answer, &heard);
        await(&heard, ++asked);
    }
    store->vtable->amend(store, &letter, on_answer, &heard);
    await(&heard, ++asked);
    store->vtable->remove(store, letter.id, claim, on_answer, &heard);
    await(&heard, ++asked);
    store->vtable->write(store, &letter, 1, on_answer, &heard);
    await(&heard, ++asked);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ks_s3_place place = {.bucket = "bucket", .prefix = "p/"};
    struct ks_detail detail = {""};

    if (loop == NULL && !ks_ok(ks_loop_new(&loop)))
        abort();
    const int64_t live = ks_alloc_live();
    answers = ks_view_of(data, size);
    if (!ks_ok(ks_s3_letters_open(loop, &client, &place, "app", KS_VIEW("demo"), &store, &detail)))
        abort();
    give_all();
    if (size > 0 && data[0] == '?')
        change(KS_VIEW(""));
    if (size > 0 && data[0] == '#')
        change(KS_VIEW("w#1.0"));
    read_pages();
    change(KS_VIEW(""));
    store->vtable->close(store);
    assert(ks_alloc_live() == live);
    return 0;
}
