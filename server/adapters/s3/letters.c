/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/s3/letters.h"

#include "adapters/s3/letter_reads.h"
#include "base/budget.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>

enum {
    TRIES_MAX = 8,   /* Of a change that others are always ahead of. */
    PROBE_MS = 10000 /* Of each attempt to list the bucket, at the start. */
};

static struct ks_s3_letters *of_port(struct ks_dead_letters *port)
{
    return KS_LIST_ENTRY(port, struct ks_s3_letters, port);
}

/* ---- Changes ---- */

/* Writes the letter as it shall be: where the object is not there yet, or in the place of the one that was read. */
static void send_put(struct ks_s3_part *part, const struct ks_letter *letter)
{
    struct ks_bytes *const body = &part->ask->store->body;
    ks_err err;

    ks_bytes_clear(body);
    err = ks_letter_object_put(body, letter);
    if (!ks_ok(err)) {
        ks_s3_ask_fail(part->ask, ks_err_text(err));
        return;
    }
    struct ks_s3_request request = {
        .operation = KS_S3_PUT,
        .absent = part->etag[0] == '\0' && !part->oversized,
        .etag = part->etag,
        .body = ks_bytes_view(body),
    };
    ks_s3_part_send(part, &request);
}

/* The letter that the part is about, as far as the ask says it. Its views are whole once the list is settled. */
static const struct ks_letter *letter_of(const struct ks_s3_part *part)
{
    return &part->ask->list.letters[part - part->ask->parts];
}

static void send_new(struct ks_s3_part *part)
{
    struct ks_letter letter = *letter_of(part);

    letter.first_died_ms = letter.died_ms;
    part->etag[0] = '\0';
    send_put(part, &letter);
}

/* The object is another one than was thought: what it is must be known first. */
static void look_again(struct ks_s3_part *part)
{
    if (++part->tries >= TRIES_MAX)
        ks_s3_ask_fail(part->ask, "others change the letter all the time");
    else
        ks_s3_part_get(part);
}

/* The letter was given up before: when that was first is kept. One that was given up later is not overwritten. */
static void write_over(struct ks_s3_part *part, const struct ks_letter_object *object)
{
    struct ks_letter letter = *letter_of(part);
    const struct ks_letter *const there = &object->letter;

    letter.first_died_ms = letter.died_ms;
    if (object->damage == NULL) {
        if (there->died_ms > letter.died_ms) {
            part->ask->maybe = true;
            return;
        }
        letter.first_died_ms = there->first_died_ms != 0 ? there->first_died_ms : there->died_ms;
    }
    send_put(part, &letter);
}

/* True if a change of the letter that is there must not be made: it is damaged. */
static bool is_damaged(struct ks_s3_part *part, const struct ks_letter_object *object)
{
    if (object->damage == NULL)
        return false;
    ks_s3_ask_note_damage(part->ask, part->id, object->damage);
    ks_s3_ask_fail(part->ask, part->ask->answer.detail.text);
    return true;
}

static void claim_over(struct ks_s3_part *part, const struct ks_letter_object *object)
{
    struct ks_s3_ask *const ask = part->ask;
    const struct ks_letter *const said = letter_of(part);
    const int64_t now_ms = ks_aws_client_now_ms(ask->store->client);
    struct ks_letter letter = object->letter;

    if (is_damaged(part, object))
        return;
    ks_letter_drop_claim(&letter, now_ms);
    if (letter.attempts != said->attempts ||
        (letter.claim.size > 0 && !ks_view_equal(letter.claim, said->claim))) {
        ask->answer.outcome = KS_REFUSED;
        return;
    }
    letter.claim = said->claim;
    letter.claimed_until_ms = now_ms + KS_LETTER_CLAIM_MS;
    send_put(part, &letter);
}

/* False: a change that names a claim finds another one, or none. The ask is refused then. */
static bool is_claimed(struct ks_s3_part *part, const struct ks_letter *there)
{
    const ks_view claim = letter_of(part)->claim;

    if (claim.size == 0 || ks_view_equal(there->claim, claim))
        return true;
    part->ask->answer.outcome = KS_REFUSED;
    return false;
}

/* True if the letter that is there is what an earlier request of this ask made it, whose answer was lost. */
static bool is_amended(const struct ks_s3_part *part, const struct ks_letter *there)
{
    const struct ks_letter *const said = letter_of(part);

    return part->tries > 0 && there->claim.size == 0 && there->died_ms == said->died_ms &&
           there->attempts == said->attempts && there->cause == said->cause &&
           ks_view_equal(there->reason, said->reason);
}

static void amend_over(struct ks_s3_part *part, const struct ks_letter_object *object)
{
    const struct ks_letter *const said = letter_of(part);
    struct ks_letter letter = object->letter;

    if (is_amended(part, &letter) || !is_claimed(part, &letter) || is_damaged(part, object))
        return;
    letter.claim = KS_VIEW("");
    letter.reason = said->reason;
    letter.died_ms = said->died_ms;
    letter.attempts = said->attempts;
    letter.cause = said->cause;
    send_put(part, &letter);
}

/* Deletes the object that was seen. */
static void send_delete(struct ks_s3_part *part)
{
    struct ks_s3_request request = {.operation = KS_S3_DELETE, .etag = part->etag};

    ks_s3_part_send(part, &request);
}

static void keep_etag(struct ks_s3_part *part, const struct ks_aws_answer *answer)
{
    const ks_view etag = ks_head_find(answer->head, "ETag");

    part->etag[0] = '\0';
    if (ks_s3_etag_is_valid(etag))
        (void)snprintf(part->etag, sizeof(part->etag), "%.*s", (int)etag.size,
                       (const char *)etag.data);
}

/* The object of a change was read. */
static void replace(struct ks_s3_part *part, const struct ks_aws_answer *answer)
{
    struct ks_s3_ask *const ask = part->ask;
    struct ks_letter_object object;
    ks_err err;

    keep_etag(part, answer);
    if (part->etag[0] == '\0') {
        ks_s3_ask_fail(ask, "the object came without an ETag");
        return;
    }
    err = ks_letter_object_read(answer->body, ks_view_text(part->id), &ask->store->bytes, &object);
    if (!ks_ok(err)) {
        ks_s3_ask_fail(ask, ks_err_text(err));
        return;
    }
    switch (ask->task) {
    case KS_S3_LETTERS_WRITE: write_over(part, &object); break;
    case KS_S3_LETTERS_CLAIM: claim_over(part, &object); break;
    case KS_S3_LETTERS_AMEND: amend_over(part, &object); break;
    case KS_S3_LETTERS_REMOVE:
        if (is_claimed(part, &object.letter))
            send_delete(part);
        break;
    case KS_S3_LETTERS_LIST:
    case KS_S3_LETTERS_FIND: assert(false);
    }
    ks_letter_object_free(&object);
}

static void got_for_change(struct ks_s3_part *part, const struct ks_aws_answer *answer)
{
    struct ks_s3_ask *const ask = part->ask;

    if (ks_ok(answer->err))
        replace(part, answer);
    else if (ks_s3_is_absent(answer) && ask->task == KS_S3_LETTERS_WRITE)
        send_new(part);
    else if (ks_s3_is_absent(answer))
        ask->answer.outcome = KS_REFUSED;
    else if (ks_err_is(answer->err, KS_ERR_FULL) && ask->task == KS_S3_LETTERS_WRITE) {
        /* Not a letter: it is overwritten, as any other damage. */
        part->oversized = true;
        send_new(part);
    } else
        ks_s3_ask_fail_by_answer(ask, KS_S3_GET, answer);
}

static void put_came(struct ks_s3_part *part, const struct ks_aws_answer *answer)
{
    if (ks_ok(answer->err))
        part->ask->maybe = true;
    else if (ks_s3_is_changed(answer) || ks_s3_is_absent(answer)) {
        part->ask->maybe = true; /* Perhaps by an attempt of ours whose answer was lost. */
        look_again(part);
    } else
        ks_s3_ask_fail_by_answer(part->ask, KS_S3_PUT, answer);
}

/* ---- Removal ---- */

/* S3 deletes what is not there as well: whether it is there is seen first. A claim is in the object alone; without one
 * the object is not read, for it may be damaged. */
static void send_look(struct ks_s3_part *part)
{
    struct ks_s3_request request = {
        .operation = KS_S3_LIST, .most = 1, .response_max = KS_S3_PAGE_BYTES_MAX};

    if (letter_of(part)->claim.size > 0)
        ks_s3_part_get(part);
    else
        ks_s3_part_send(part, &request);
}

static void looked(struct ks_s3_part *part, const struct ks_aws_answer *answer)
{
    struct ks_s3_ask *const ask = part->ask;
    struct ks_s3_listing listing;
    struct ks_s3_object object;
    char key[KS_S3_KEY_MAX + 1];

    if (!ks_ok(answer->err)) {
        ks_s3_ask_fail_by_answer(ask, KS_S3_LIST, answer);
        return;
    }
    ks_err err = ks_s3_listing_read(answer->body, &listing);
    if (ks_ok(err))
        err = ks_s3_listing_next(&listing, &object);
    if (ks_ok(err))
        err = ks_letter_key_put(ask->store->folder, ks_view_text(part->id), key);
    if (ks_err_is(err, KS_ERR_NOT_FOUND) || (ks_ok(err) && strcmp(object.key, key) != 0)) {
        ask->answer.outcome = KS_REFUSED;
        return;
    }
    if (!ks_ok(err)) {
        ks_s3_ask_fail(ask, "the answer to ListObjectsV2 cannot be read");
        return;
    }
    memcpy(part->etag, object.etag, sizeof(part->etag));
    send_delete(part);
}

static void deleted(struct ks_s3_part *part, const struct ks_aws_answer *answer)
{
    if (ks_ok(answer->err))
        return;
    if (!ks_s3_is_changed(answer) && !ks_s3_is_absent(answer))
        ks_s3_ask_fail_by_answer(part->ask, KS_S3_DELETE, answer);
    else if (++part->tries >= TRIES_MAX)
        ks_s3_ask_fail(part->ask, "others change the letter all the time");
    else
        send_look(part);
}

/* ---- The course of an ask ---- */

static void begin_part(struct ks_s3_part *part)
{
    switch (part->ask->task) {
    case KS_S3_LETTERS_WRITE: send_new(part); return;
    case KS_S3_LETTERS_LIST:
        if (!part->oversized)
            ks_s3_part_get(part);
        return;
    case KS_S3_LETTERS_FIND:
    case KS_S3_LETTERS_CLAIM:
    case KS_S3_LETTERS_AMEND: ks_s3_part_get(part); return;
    case KS_S3_LETTERS_REMOVE: send_look(part); return;
    }
    assert(false);
}

/* Begins parts while there is room; without any under way the ask is answered. A list begins them once all keys are
 * there. */
static void turn(struct ks_s3_ask *ask)
{
    while (ask->page == NULL && ask->next < ask->part_count && ask->open < KS_S3_LETTERS_AT_ONCE)
        begin_part(&ask->parts[ask->next++]);
    if (ask->open > 0)
        return;
    if (ask->task == KS_S3_LETTERS_LIST)
        ks_s3_read_objects(ask);
    if (ask->open == 0)
        ks_s3_ask_finish(ask);
}

static void came(void *arg, const struct ks_aws_answer *answer)
{
    struct ks_s3_part *const part = arg;
    struct ks_s3_ask *const ask = part->ask;

    part->call = NULL;
    ask->open--;
    switch (part->operation) {
    case KS_S3_PUT: put_came(part, answer); break;
    case KS_S3_GET:
        if (ask->task == KS_S3_LETTERS_LIST)
            ks_s3_read_listed(part, answer);
        else if (ask->task == KS_S3_LETTERS_FIND)
            ks_s3_read_found(part, answer);
        else
            got_for_change(part, answer);
        break;
    case KS_S3_DELETE: deleted(part, answer); break;
    case KS_S3_LIST: looked(part, answer); break;
    }
    turn(ask);
}

/* ---- The port ---- */

/* Answers come in later turns, also that nothing could be sent. */
static void start(struct ks_s3_ask *ask)
{
    ks_letter_list_settle(&ask->list);
    while (ask->next < ask->part_count && ask->open < KS_S3_LETTERS_AT_ONCE)
        begin_part(&ask->parts[ask->next++]);
    if (ask->open == 0)
        ks_s3_ask_answer_later(ask);
}

static void write_letters(struct ks_dead_letters *port, const struct ks_letter *letters,
                          uint32_t count, ks_letters_answered *answered, void *arg)
{
    struct ks_s3_ask *const ask =
        ks_s3_ask_new(of_port(port), KS_S3_LETTERS_WRITE, count, answered, arg);
    ks_err err = KS_OK;

    assert(count > 0);
    if (ask == NULL)
        return;
    for (uint32_t at = 0; at < count && ks_ok(err); at++) {
        struct ks_letter unclaimed = letters[at];

        assert(ks_view_equal(letters[at].shard_id, letters[0].shard_id));
        unclaimed.claim = KS_VIEW("");
        err = ks_s3_ask_add(ask, letters[at].id);
        if (ks_ok(err))
            err = ks_letter_list_add(&ask->list, &unclaimed);
    }
    if (ks_ok(err))
        start(ask);
    else
        ks_s3_ask_refuse(ask, KS_REFUSED, ks_err_text(err));
}

static void list(struct ks_dead_letters *port, ks_view after, uint32_t most,
                 ks_letters_answered *answered, void *arg)
{
    struct ks_s3_ask *const ask =
        ks_s3_ask_new(of_port(port), KS_S3_LETTERS_LIST, most, answered, arg);

    assert(most > 0 && most <= KS_LETTERS_PAGE_MAX);
    if (ask == NULL)
        return;
    if (after.size > 0 && !ks_ok(ks_letter_key_put(ask->store->folder, after, ask->after))) {
        ks_s3_ask_refuse(ask, KS_UNKNOWN, "the page token is none of this list");
        return;
    }
    ks_s3_read_keys(ask);
    if (ask->open == 0)
        ks_s3_ask_answer_later(ask);
}

/* About the one letter of this id; `absent` is what it is if there can be none. `letter` NULL: nothing is changed. */
static void ask_about(struct ks_dead_letters *port, enum ks_s3_task task, ks_view id,
                      const struct ks_letter *letter, enum ks_outcome absent,
                      ks_letters_answered *answered, void *arg)
{
    struct ks_s3_ask *const ask = ks_s3_ask_new(of_port(port), task, 1, answered, arg);

    if (ask == NULL)
        return;
    if (!ks_ok(ks_s3_ask_add(ask, id)))
        ks_s3_ask_refuse(ask, absent, NULL);
    else if (letter != NULL && !ks_ok(ks_letter_list_add(&ask->list, letter)))
        ks_s3_ask_refuse(ask, KS_UNKNOWN, "out of memory");
    else
        start(ask);
}

static void find(struct ks_dead_letters *port, ks_view id, ks_letters_answered *answered, void *arg)
{
    ask_about(port, KS_S3_LETTERS_FIND, id, NULL, KS_DONE, answered, arg);
}

static void claim(struct ks_dead_letters *port, const struct ks_letter *letter,
                  ks_letters_answered *answered, void *arg)
{
    const struct ks_letter claimed = {.claim = letter->claim, .attempts = letter->attempts};

    ask_about(port, KS_S3_LETTERS_CLAIM, letter->id, &claimed, KS_REFUSED, answered, arg);
}

static void amend(struct ks_dead_letters *port, const struct ks_letter *letter,
                  ks_letters_answered *answered, void *arg)
{
    const struct ks_letter changed = {.reason = letter->reason,
                                      .claim = letter->claim,
                                      .died_ms = letter->died_ms,
                                      .attempts = letter->attempts,
                                      .cause = letter->cause};

    ask_about(port, KS_S3_LETTERS_AMEND, letter->id, &changed, KS_REFUSED, answered, arg);
}

static void remove_letter(struct ks_dead_letters *port, ks_view id, ks_view claim_of,
                          ks_letters_answered *answered, void *arg)
{
    const struct ks_letter removed = {.claim = claim_of};

    ask_about(port, KS_S3_LETTERS_REMOVE, id, &removed, KS_REFUSED, answered, arg);
}

static void close_letters(struct ks_dead_letters *port)
{
    struct ks_s3_letters *const store = of_port(port);

    while (!ks_list_empty(&store->asks))
        ks_s3_ask_free(KS_LIST_ENTRY(store->asks.next, struct ks_s3_ask, link));
    if (store->probe != NULL)
        ks_aws_cancel(store->probe);
    ks_bytes_free(&store->body);
    ks_bytes_free(&store->bytes);
    ks_free(store);
}

static const struct ks_dead_letters_vtable vtable = {
    .write = write_letters,
    .list = list,
    .find = find,
    .claim = claim,
    .amend = amend,
    .remove = remove_letter,
    .close = close_letters,
};

/* ---- The start ---- */

static void probed(void *arg, const struct ks_aws_answer *answer)
{
    struct ks_s3_letters *const store = arg;
    struct ks_detail detail = {""};

    store->probe = NULL;
    if (ks_ok(answer->err)) {
        ks_info("dead letters are objects in s3://%s/%s", store->place.bucket, store->folder);
        return;
    }
    ks_s3_explain(&store->place, KS_S3_LIST, answer, &detail);
    ks_error("dead letters in s3://%s/%s cannot be listed: %s", store->place.bucket, store->folder,
             detail.text);
}

/* What is wrong with the place is said at the start, not when the first record is given up. */
static ks_err probe(struct ks_s3_letters *store)
{
    const struct ks_s3_request request = {
        .operation = KS_S3_LIST,
        .key = store->folder,
        .most = 1,
        .response_max = KS_S3_PAGE_BYTES_MAX,
        .timeout = ks_span_ms(PROBE_MS),
        .total = ks_span_ms(2 * PROBE_MS),
        .done = probed,
        .arg = store,
    };

    return ks_s3_call(store->client, &store->place, &request, &store->probe);
}

static ks_err name_folder(struct ks_s3_letters *store, const char *application, ks_view stream,
                          struct ks_detail *ret_detail)
{
    const int size =
        snprintf(store->folder, sizeof(store->folder), "%s%s/%.*s/", store->place.prefix,
                 application, (int)stream.size, (const char *)stream.data);

    if ((size_t)size < sizeof(store->folder) && application[0] != '.' && stream.size > 0 &&
        stream.data[0] != '.')
        return KS_OK;
    return ks_err_because(KS_FAIL(INVALID), ret_detail,
                          "--dead-letters s3://..: the application and the stream are parts of "
                          "keys, and may not begin with a dot");
}

ks_err ks_s3_letters_open(struct ks_loop *loop, struct ks_aws_client *client,
                          const struct ks_s3_place *place, const char *application, ks_view stream,
                          struct ks_dead_letters **ret, struct ks_detail *ret_detail)
{
    struct ks_s3_letters *const store = ks_alloc(sizeof(*store));
    ks_err err;

    if (store == NULL)
        return KS_FAIL(NO_MEMORY);
    *store = (struct ks_s3_letters){.port = {.vtable = &vtable, .claim_ms = KS_LETTER_CLAIM_MS},
                                    .loop = loop,
                                    .client = client,
                                    .place = *place,
                                    .came = came,
                                    .turn = turn};
    ks_link_init(&store->asks);
    ks_bytes_init(&store->body, KS_LETTER_OBJECT_MAX);
    ks_bytes_init(&store->bytes, KS_LETTER_OBJECT_MAX + KS_LETTER_OBJECT_HEAD_MAX);
    err = name_folder(store, application, stream, ret_detail);
    if (ks_ok(err))
        err = probe(store);
    if (!ks_ok(err)) {
        ks_free(store);
        return err;
    }
    *ret = &store->port;
    return KS_OK;
}
