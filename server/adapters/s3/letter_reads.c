/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/s3/letter_reads.h"

#include <assert.h>
#include <stdio.h>

enum {
    PAGE_KEYS = 1000, /* Of ListObjectsV2 itself. */
    /* Objects of one list: KS_LETTERS_BYTES_MAX of data in base64. */
    LIST_BYTES_MAX = KS_LETTERS_BYTES_MAX / 3 * 4
};

static void page_came(void *arg, const struct ks_aws_answer *answer);

/* ---- Objects ---- */

/* Adds what the object says to the list. */
static void add_letter(struct ks_s3_part *part, ks_view text)
{
    struct ks_s3_ask *const ask = part->ask;
    struct ks_letter_object object;
    char mark[80];
    ks_err err = ks_letter_object_read(text, ks_view_text(part->id), &ask->store->bytes, &object);

    if (!ks_ok(err)) {
        ks_s3_ask_fail(ask, ks_err_text(err));
        return;
    }
    ks_letter_drop_claim(&object.letter, ks_aws_client_now_ms(ask->store->client));
    if (part->oversized)
        object.damage = "size";
    if (object.damage != NULL) {
        ks_s3_ask_note_damage(ask, part->id, object.damage);
        (void)snprintf(mark, sizeof(mark), "damaged object: its %s is not valid", object.damage);
        object.letter.reason = ks_view_text(mark);
    }
    if (object.damage != NULL && ask->task == KS_S3_LETTERS_FIND)
        ks_s3_ask_fail(ask, ask->answer.detail.text);
    else
        err = ks_letter_list_add(&ask->list, &object.letter);
    if (!ks_ok(err))
        ks_s3_ask_fail(ask, ks_err_text(err));
    ks_letter_object_free(&object);
}

/* Objects come in any order: each is kept until all are there. */
void ks_s3_read_listed(struct ks_s3_part *part, const struct ks_aws_answer *answer)
{
    ks_err err = KS_OK;

    if (ks_ok(answer->err))
        err = ks_bytes_append(&part->object, answer->body);
    else if (ks_s3_is_absent(answer))
        part->gone = true;
    else if (ks_err_is(answer->err, KS_ERR_FULL))
        part->oversized = true;
    else
        ks_s3_ask_fail_by_answer(part->ask, KS_S3_GET, answer);
    if (!ks_ok(err))
        ks_s3_ask_fail(part->ask, ks_err_text(err));
}

void ks_s3_read_found(struct ks_s3_part *part, const struct ks_aws_answer *answer)
{
    if (ks_ok(answer->err))
        add_letter(part, answer->body);
    else if (ks_err_is(answer->err, KS_ERR_FULL)) {
        ks_s3_ask_note_damage(part->ask, part->id, "size");
        ks_s3_ask_fail(part->ask, part->ask->answer.detail.text);
    } else if (!ks_s3_is_absent(answer))
        ks_s3_ask_fail_by_answer(part->ask, KS_S3_GET, answer);
}

/* ---- Lists ---- */

void ks_s3_read_keys(struct ks_s3_ask *ask)
{
    struct ks_s3_request request = {
        .operation = KS_S3_LIST,
        .key = ask->store->folder,
        .after = ask->after,
        .most = ask->list.most < PAGE_KEYS ? ask->list.most + 1 : PAGE_KEYS,
        .response_max = KS_S3_PAGE_BYTES_MAX,
        .done = page_came,
        .arg = ask,
    };
    const ks_err err = ks_s3_ask_send(ask, &request, &ask->page);

    if (!ks_ok(err))
        ks_s3_ask_fail(ask, ks_err_text(err));
}

/* Takes the object into the list, or passes it over. False: the list ends before it. */
static bool take_object(struct ks_s3_ask *ask, const struct ks_s3_object *object)
{
    char id[KS_LETTER_ID_MAX + 1];
    const bool oversized = object->size > KS_LETTER_OBJECT_MAX;
    const uint64_t size = oversized ? 0 : object->size;

    if (!ks_ok(ks_letter_key_read(ask->store->folder, object->key, id))) {
        ks_s3_ask_note_damage(ask, object->key, "key");
        return true;
    }
    if (ask->part_count == ask->parts_max ||
        (ask->part_count > 0 && ask->bytes + size > LIST_BYTES_MAX)) {
        ask->answer.more = true;
        return false;
    }
    struct ks_s3_part *const part = &ask->parts[ask->part_count++];
    *part = (struct ks_s3_part){.ask = ask, .size = size, .oversized = oversized};
    memcpy(part->id, id, sizeof(id));
    ks_bytes_init(&part->object, (size_t)size + KS_S3_GROWTH_BYTES);
    ask->bytes += size;
    return true;
}

static void read_page(struct ks_s3_ask *ask, ks_view answer)
{
    struct ks_s3_listing listing;
    struct ks_s3_object object;
    ks_err err = ks_s3_listing_read(answer, &listing);
    bool any = false;

    while (ks_ok(err) && ks_ok(err = ks_s3_listing_next(&listing, &object))) {
        if (strcmp(object.key, ask->after) <= 0) {
            err = KS_FAIL(MALFORMED); /* Without an order a list would have no end. */
            break;
        }
        if (!take_object(ask, &object))
            return;
        memcpy(ask->after, object.key, sizeof(ask->after));
        any = true;
    }
    if (!ks_err_is(err, KS_ERR_NOT_FOUND) || (listing.truncated && !any))
        ks_s3_ask_fail(ask, "the answer to ListObjectsV2 cannot be read");
    else if (listing.truncated)
        ks_s3_read_keys(ask);
}

static void page_came(void *arg, const struct ks_aws_answer *answer)
{
    struct ks_s3_ask *const ask = arg;

    ask->page = NULL;
    ask->open--;
    if (ks_ok(answer->err))
        read_page(ask, answer->body);
    else
        ks_s3_ask_fail_by_answer(ask, KS_S3_LIST, answer);
    ask->store->turn(ask);
}

/* All objects are there. Those that were removed meanwhile are not letters any more; if none is left, the list goes on
 * behind them: a page without letters would be the last one. */
void ks_s3_read_objects(struct ks_s3_ask *ask)
{
    for (uint32_t at = 0; at < ask->part_count && ask->answer.outcome == KS_DONE; at++)
        if (!ask->parts[at].gone)
            add_letter(&ask->parts[at], ks_bytes_view(&ask->parts[at].object));
    ks_s3_ask_free_parts(ask);
    if (ask->answer.outcome != KS_DONE || ask->list.count > 0 || !ask->answer.more)
        return;
    ask->answer.more = false;
    ask->bytes = 0;
    ks_s3_read_keys(ask);
}
