/* SPDX-License-Identifier: Apache-2.0 */
/* letters_file.c - any bytes as the SQLite file of dead letters: it is opened or refused with a sentence, its pages are
 * in order and come to an end, each letter of them is whole, and nothing is kept.
 */
#include "adapters/sqlite/dead_letters.h"
#include "base/budget.h"

#include "file.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAGES_MAX = 50 };

static struct ks_loop *loop;

struct heard {
    uint32_t times;
    bool more;
    bool any;
    char last[KS_LETTER_ID_MAX + 1];
};

/* Its bytes are there, and its texts are what answers are made of. */
static void check_letter(const struct ks_letter *letter)
{
    const ks_view views[] = {letter->id, letter->stream, letter->shard_id, letter->sequence};
    static volatile uint8_t last;

    for (size_t at = 0; at < sizeof(views) / sizeof(views[0]); at++)
        assert(ks_view_is_unicode(views[at]));
    assert(letter->id.size > 0 && letter->id.size <= KS_LETTER_ID_MAX);
    if (letter->data.size > 0)
        last = letter->data.data[letter->data.size - 1];
    (void)last;
    assert((int)letter->cause >= 0 && letter->cause < KS_CAUSES);
}

static void on_answer(void *arg, const struct ks_letters_answer *answer)
{
    struct heard *heard = arg;

    heard->times++;
    heard->more = answer->outcome == KS_DONE && answer->more;
    heard->any = false;
    assert(answer->outcome != KS_UNKNOWN || answer->detail.text[0] != '\0');
    if (answer->outcome != KS_DONE)
        return;
    for (uint32_t at = 0; at < answer->count; at++) {
        const struct ks_letter *letter = &answer->letters[at];

        check_letter(letter);
        (void)snprintf(heard->last, sizeof(heard->last), "%.*s", (int)letter->id.size,
                       (const char *)letter->id.data);
        heard->any = true;
    }
    assert(!heard->more || heard->any);
}

static void await(const struct heard *heard, uint32_t times)
{
    while (heard->times < times)
        ks_loop_turn(loop, ks_span_ms(1000));
}

static void read_pages(struct ks_dead_letters *store)
{
    struct heard heard = {.more = true};
    char after[KS_LETTER_ID_MAX + 1] = "";

    for (uint32_t page = 0; page < PAGES_MAX && heard.more; page++) {
        store->vtable->list(store, ks_view_text(after), 2, on_answer, &heard);
        await(&heard, page + 1);
        /* The next page lies behind this one. */
        assert(!heard.any || strcmp(heard.last, after) > 0);
        memcpy(after, heard.last, sizeof(after));
    }
}

static void change(struct ks_dead_letters *store, ks_view id)
{
    struct heard heard = {.times = 0};
    struct ks_letter again = {.id = id, .reason = KS_VIEW("again"), .died_ms = 1, .attempts = 2};

    store->vtable->find(store, id, on_answer, &heard);
    store->vtable->amend(store, &again, on_answer, &heard);
    store->vtable->remove(store, id, KS_VIEW(""), on_answer, &heard);
    await(&heard, 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_dead_letters *store = NULL;
    struct ks_detail detail = {""};
    const struct ks_letters_key key = {"app", "other", "s"};

    if (loop == NULL && !ks_ok(ks_loop_new(&loop)))
        abort();
    int64_t live = ks_alloc_live();
    write_file(data, size);
    if (ks_ok(ks_sqlite_letters_open(loop, path, &key, &store, &detail))) {
        read_pages(store);
        change(store, KS_VIEW("shardId-000000000000.42"));
        store->vtable->close(store);
    } else {
        assert(detail.text[0] != '\0');
    }
    assert(ks_alloc_live() == live);
    return 0;
}
