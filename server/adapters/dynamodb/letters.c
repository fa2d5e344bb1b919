/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dynamodb/letters.h"

#include "adapters/dynamodb/letter_item.h"
#include "adapters/dynamodb/letter_shards.h"
#include "adapters/dynamodb/table.h"
#include "adapters/dynamodb/ttl.h"
#include "adapters/letter.h"
#include "aws/limits.h"
#include "base/budget.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>

enum {
    WRITE_MS = 5000, /* Of each request that changes something. */
    READ_MS = 5000,  /* Of each that does not. */
    LIST_MS = 30000, /* Of all that a list takes. */
    TABLE_MS = 20,   /* Between two looks whether the table is ready. */
    NOTE_SLACK_S = 86400,
    WORK_BYTES_MAX = 64 << 20 /* Letters of a write or of a page. */
};

enum task { TASK_WRITE, TASK_LIST, TASK_FIND, TASK_CLAIM, TASK_AMEND, TASK_KEEP, TASK_REMOVE };

struct table_letters {
    struct ks_dead_letters port;
    struct ks_loop *loop;
    struct ks_aws_client *client;
    struct ks_dynamodb_table table;
    char *stream; /* NULL: the table has one stream. */
    struct ks_link asks;
    struct ks_bytes body;           /* Of the request that is being written. */
    struct ks_bytes bytes;          /* Of the item that is being read. */
    struct ks_letter_shards *known; /* Shards that are known to be in the directory. */
    struct ks_dynamodb_ttl ttl;
    bool damaged; /* The last list met damaged items, and that was logged. */
};

struct sent {
    struct ask *ask;
    struct ks_aws_call *call;
};

struct ask {
    struct table_letters *store;
    struct ks_link link;
    enum task task;
    struct ks_letter_list list;
    struct ks_letter_place place; /* Of the letter; of a list: behind it the next page begins. */
    ks_instant deadline;
    struct sent *sent;              /* One for each letter of a write, else one. */
    uint32_t open;                  /* Requests without an answer. */
    bool directory;                 /* The request is to the directory. */
    int64_t expires_s;              /* Of the shard in the directory. */
    uint32_t damaged;               /* Items that a list passed over. */
    bool waiting;                   /* For the table; else the timer is about the answer. */
    void (*first)(struct ask *ask); /* Sends what it begins with. */
    struct ks_timer timer;
    struct ks_letters_answer answer;
    ks_letters_answered *answered;
    void *arg;
};

static void due(struct ks_timer *timer);

static struct table_letters *of_port(struct ks_dead_letters *port)
{
    return KS_LIST_ENTRY(port, struct table_letters, port);
}

/* ---- Answers ---- */

static void ask_free(struct ask *ask)
{
    ks_loop_timer_clear(ask->store->loop, &ask->timer);
    ks_list_remove(&ask->link);
    ks_letter_list_free(&ask->list);
    ks_free(ask->sent);
    ks_free(ask);
}

/* Damage that lasts is logged once, until a list from the first letter to the last meets none. */
static void log_damage(struct table_letters *store, const struct ask *ask)
{
    if (ask->task != TASK_LIST || ask->answer.outcome != KS_DONE)
        return;
    if (ask->damaged > 0 && !store->damaged)
        ks_warn("dead letters in the table %s: %s (%u such items in this list); they are not "
                "delivered again, repair or discard them",
                store->table.name, ask->answer.detail.text, ask->damaged);
    store->damaged = ask->damaged > 0 || (store->damaged && ask->answer.more);
}

static void finish(struct ask *ask)
{
    assert(ask->open == 0);

    log_damage(ask->store, ask);
    ks_letter_list_settle(&ask->list);
    ask->answer.letters = ask->list.letters;
    ask->answer.count = ask->answer.outcome == KS_DONE ? ask->list.count : 0;
    ask->answered(ask->arg, &ask->answer);
    ask_free(ask);
}

static void answer_in(struct ask *ask, int64_t ms)
{
    ks_loop_timer_set(ask->store->loop, &ask->timer,
                      ks_instant_add(ks_loop_now(ask->store->loop), ks_span_ms(ms)));
}

/* Answered in a later turn; nothing is under way. */
static void refuse(struct ask *ask, enum ks_outcome outcome, const char *why)
{
    ask->answer.outcome = outcome;
    if (why != NULL)
        ks_detail_set(&ask->answer.detail, "%s", why);
    answer_in(ask, 0);
}

/* ---- Requests ---- */

static bool reads(enum task task)
{
    return task == TASK_LIST || task == TASK_FIND;
}

static void came(void *arg, const struct ks_aws_answer *answer);

/* Notes what stands in the way of the answer; the first of it is told. */
static void fail(struct ask *ask, ks_err err, const char *detail)
{
    if (ask->answer.outcome == KS_UNKNOWN && ask->answer.detail.text[0] != '\0')
        return;
    ask->answer.outcome = KS_UNKNOWN;
    ks_detail_set(&ask->answer.detail, "%s", detail[0] != '\0' ? detail : ks_err_text(err));
}

/* Sends the request whose body is written. */
static ks_err post(struct ask *ask, struct sent *sent, const char *operation)
{
    struct table_letters *const store = ask->store;
    const ks_span left = ks_instant_since(ask->deadline, ks_loop_now(store->loop));
    const struct ks_aws_request request = {
        .operation = operation,
        .body = ks_bytes_view(&store->body),
        .timeout = ks_span_ms(reads(ask->task) ? READ_MS / 2 : WRITE_MS),
        .total = left,
        .conditional = !reads(ask->task),
        .response_max = KS_JSON_BYTES_MAX,
        .done = came,
        .arg = sent,
    };

    if (left.us <= 0)
        return KS_FAIL(TIMEOUT);
    sent->ask = ask;
    KS_TRY(ks_aws_call(store->client, &request, &sent->call));
    ask->open++;
    return KS_OK;
}

/* The same, if `put` was able to write it. */
static void send(struct ask *ask, struct sent *sent, ks_err put, const char *operation)
{
    const ks_err err = ks_ok(put) ? post(ask, sent, operation) : put;

    if (!ks_ok(err))
        fail(ask, err, "");
}

static void fail_by_answer(struct ask *ask, const char *operation,
                           const struct ks_aws_answer *answer)
{
    struct ks_dynamodb_table *const table = &ask->store->table;
    struct ks_detail detail = answer->detail;

    if (answer->failure != NULL && ks_failure_is_denied(answer->failure))
        ks_dynamodb_table_denied(table, operation, answer->failure, &detail);
    if (answer->failure != NULL && strcmp(answer->failure->code, "ResourceNotFoundException") == 0)
        ks_dynamodb_table_gone(table);
    fail(ask, answer->err, detail.text);
}

/* ---- Changes ---- */

static ks_err put_change(struct ask *ask, const struct ks_letter *letter,
                         const struct ks_letter_place *place)
{
    struct table_letters *const store = ask->store;
    const char *const table = store->table.name;

    ks_bytes_clear(&store->body);
    switch (ask->task) {
    case TASK_WRITE: return ks_letter_put_write(&store->body, table, place, letter);
    case TASK_CLAIM:
        return ks_letter_put_claim(&store->body, table, place, letter,
                                   ks_aws_client_now_ms(store->client));
    case TASK_AMEND: return ks_letter_put_amend(&store->body, table, place, letter);
    case TASK_KEEP: return ks_letter_put_keep(&store->body, table, place, letter);
    case TASK_REMOVE: return ks_letter_put_remove(&store->body, table, place, letter->claim);
    case TASK_LIST:
    case TASK_FIND: break;
    }
    assert(false);
    return KS_FAIL(INVALID);
}

static const char *change_of(const struct ask *ask)
{
    return ask->task == TASK_REMOVE ? "DeleteItem" : "UpdateItem";
}

/* Of a write each letter at once, else the one. */
static void send_changes(struct ask *ask)
{
    const uint32_t count = ask->task == TASK_WRITE ? ask->list.count : 1;
    struct ks_letter_place place = ask->place;

    ask->directory = false;
    for (uint32_t at = 0; at < count; at++) {
        const struct ks_letter *const letter = &ask->list.letters[at];
        ks_err err = KS_OK;

        if (ask->task == TASK_WRITE)
            err = ks_letter_place_of(letter->id, ask->store->stream, &place);
        if (ks_ok(err))
            err = put_change(ask, letter, &place);
        send(ask, &ask->sent[at], err, change_of(ask));
    }
}

/* The directory has the shard before the table has a letter of it: what no list finds does not survive. It has it for a
 * day longer, so that not every letter must say it anew. */
static void send_note(struct ask *ask)
{
    struct ks_bytes *const body = &ask->store->body;

    ask->directory = true;
    ask->expires_s += ask->expires_s == 0 ? 0 : NOTE_SLACK_S;
    ks_bytes_clear(body);
    send(ask, &ask->sent[0],
         ks_letter_put_note(body, ask->store->table.name, ask->place.shard, ask->expires_s),
         "UpdateItem");
}

static void begin_changes(struct ask *ask)
{
    const bool adds = ask->task == TASK_WRITE || ask->task == TASK_KEEP;

    if (ask->task == TASK_WRITE)
        ks_dynamodb_ttl_ask(&ask->store->ttl);
    if (adds && !ks_letter_shards_have(ask->store->known, ask->place.shard, ask->expires_s))
        send_note(ask);
    else
        send_changes(ask);
}

static void changed(struct ask *ask, const struct ks_aws_answer *answer)
{
    const bool refused = ks_err_is(answer->err, KS_ERR_CONDITION);

    if (!ks_ok(answer->err) && !refused) {
        fail_by_answer(ask, change_of(ask), answer);
    } else if (ask->directory) {
        ks_letter_shards_note(ask->store->known, ask->place.shard, ask->expires_s);
        send_changes(ask);
    } else if (refused && ask->task != TASK_WRITE) {
        ask->answer.outcome = KS_REFUSED;
    }
}

/* ---- Reads ---- */

static void send_find(struct ask *ask)
{
    struct ks_bytes *const body = &ask->store->body;

    ks_bytes_clear(body);
    send(ask, &ask->sent[0], ks_letter_put_find(body, ask->store->table.name, &ask->place),
         "GetItem");
}

/* The next page of the shard's letters, with one more than there is room for: if it comes, there are more. */
static void send_page(struct ask *ask)
{
    struct ks_bytes *const body = &ask->store->body;
    const uint32_t most = ask->list.most - ask->list.count + 1;

    ask->directory = false;
    ks_bytes_clear(body);
    send(ask, &ask->sent[0], ks_letter_put_list(body, ask->store->table.name, &ask->place, most),
         "Query");
}

static void send_next_shard(struct ask *ask)
{
    struct ks_bytes *const body = &ask->store->body;

    ask->directory = true;
    ks_bytes_clear(body);
    send(ask, &ask->sent[0],
         ks_letter_put_next_shard(body, ask->store->table.name, ask->place.shard), "Query");
}

/* The sort key of an item; "" if there is none. */
static ks_view k_of(const struct ks_json *item)
{
    ks_view k = KS_VIEW("");

    return ks_ok(ks_json_text(ks_json_member(ks_json_member(item, "k"), "S"), &k)) ? k
                                                                                   : KS_VIEW("");
}

static void note_damage(struct ask *ask, const struct ks_json *item, const char *damage)
{
    const ks_view k = k_of(item);

    if (ask->damaged++ == 0)
        ks_detail_set(
            &ask->answer.detail, "the letter %.*s of %s is damaged: its attribute %s cannot be",
            k.size < 80 ? (int)k.size : 80, (const char *)k.data, ask->place.shard, damage);
}

static ks_err read_item(struct ask *ask, const struct ks_json *item, struct ks_letter *ret_letter,
                        const char **ret_damage)
{
    struct ks_bytes *const bytes = &ask->store->bytes;

    ks_bytes_clear(bytes);
    KS_TRY(ks_bytes_reserve(bytes, ks_letter_item_bytes(item)));
    *ret_damage = ks_letter_read(item, ask->store->stream, bytes, ret_letter);
    ks_letter_drop_claim(ret_letter, ks_aws_client_now_ms(ask->store->client));
    if (*ret_damage != NULL)
        note_damage(ask, item, *ret_damage);
    return KS_OK;
}

/* Behind this item the list goes on. False: no such place can be named. */
static bool move_behind(struct ask *ask, const struct ks_json *item)
{
    const ks_view k = k_of(item);

    return k.size > 0 && ks_ok(ks_view_copy_text(k, ask->place.k, sizeof(ask->place.k)));
}

static bool is_full(const struct ask *ask, const struct ks_letter *letter)
{
    const size_t size = letter->data.size + letter->partition_key.size + letter->reason.size;

    return ask->list.count == ask->list.most ||
           (ask->list.count > 0 && ask->list.bytes.size + size > KS_LETTERS_BYTES_MAX);
}

/* Takes an item into the list, or passes it over. False: the list ends here, or has failed. */
static bool take_item(struct ask *ask, const struct ks_json *item)
{
    struct ks_letter letter;
    const char *damage = NULL;
    char mark[64];
    ks_err err = read_item(ask, item, &letter, &damage);

    if (ks_ok(err) && damage != NULL && letter.id.size == 0)
        return move_behind(ask, item);
    if (damage != NULL) {
        (void)snprintf(mark, sizeof(mark), "damaged item: its attribute %s cannot be", damage);
        letter.reason = ks_view_text(mark);
    }
    if (ks_ok(err) && is_full(ask, &letter)) {
        ask->answer.more = true;
        return false;
    }
    if (ks_ok(err))
        err = ks_letter_list_add(&ask->list, &letter);
    if (!ks_ok(err)) {
        fail(ask, err, "a letter is too large, or memory is out");
        return false;
    }
    return move_behind(ask, item);
}

/* A page of letters. What comes next is sent, unless the list ends. */
static void read_page(struct ask *ask, const struct ks_json *page)
{
    const struct ks_json *const items = ks_json_member(page, "Items");

    for (size_t at = 0; at < ks_json_count(items); at++)
        if (!take_item(ask, ks_json_item(items, at))) {
            if (ask->answer.more || ask->answer.outcome != KS_DONE)
                return;
            send_next_shard(ask); /* The key of this item can begin no page. */
            return;
        }
    if (ks_json_member(page, "LastEvaluatedKey") != NULL && ks_json_count(items) > 0)
        send_page(ask);
    else
        send_next_shard(ask);
}

/* The next shard with letters; if there is none, this is the end. */
static void read_directory(struct ask *ask, const struct ks_json *page)
{
    const struct ks_json *const item = ks_json_item(ks_json_member(page, "Items"), 0);
    char shard[KS_LETTER_SHARD_MAX + 1];
    ks_err err;

    if (item == NULL)
        return;
    err = ks_letter_read_shard(item, shard);
    if (!ks_ok(err) || strcmp(shard, ask->place.shard) <= 0) {
        fail(ask, KS_FAIL(MALFORMED), "the directory of dead letters names no shard");
        return;
    }
    memcpy(ask->place.shard, shard, sizeof(shard));
    ask->place.k[0] = '\0';
    send_page(ask);
}

static void read_found(struct ask *ask, const struct ks_json *answer)
{
    const struct ks_json *const item = ks_json_member(answer, "Item");
    struct ks_letter letter;
    const char *damage = NULL;
    struct ks_detail detail;
    ks_err err;

    if (item == NULL)
        return;
    err = read_item(ask, item, &letter, &damage);
    if (ks_ok(err) && damage != NULL) {
        detail = ask->answer.detail;
        ask->answer.detail.text[0] = '\0';
        ks_detail_set(&ask->answer.detail, "%s; repair the item, or discard the letter",
                      detail.text);
        ask->answer.outcome = KS_UNKNOWN;
        return;
    }
    if (ks_ok(err))
        err = ks_letter_list_add(&ask->list, &letter);
    if (!ks_ok(err))
        fail(ask, err, "a letter is too large, or memory is out");
}

static void read(struct ask *ask, const struct ks_aws_answer *answer)
{
    struct ks_json *document = NULL;
    ks_err err = answer->err;

    if (!ks_ok(err)) {
        fail_by_answer(ask, ask->task == TASK_FIND ? "GetItem" : "Query", answer);
        return;
    }
    err = ks_json_parse(answer->body, &document);
    if (!ks_ok(err))
        fail(ask, err, "");
    else if (ask->task == TASK_FIND)
        read_found(ask, document);
    else if (ask->directory)
        read_directory(ask, document);
    else
        read_page(ask, document);
    ks_json_free(document);
}

static void came(void *arg, const struct ks_aws_answer *answer)
{
    struct sent *const sent = arg;
    struct ask *const ask = sent->ask;

    sent->call = NULL;
    ask->open--;
    if (reads(ask->task))
        read(ask, answer);
    else
        changed(ask, answer);
    if (ask->open == 0)
        finish(ask);
}

/* ---- The port ---- */

/* An ask with room for `most` letters. NULL: no memory; that was told. */
static struct ask *begin(struct ks_dead_letters *port, enum task task, uint32_t most,
                         ks_letters_answered *answered, void *arg)
{
    struct table_letters *const store = of_port(port);
    struct ask *const ask = ks_alloc(sizeof(*ask));

    if (ask != NULL) {
        *ask = (struct ask){.store = store, .task = task, .answered = answered, .arg = arg};
        ask->timer.due = due;
        ask->answer.outcome = KS_DONE;
        ask->deadline = ks_instant_add(ks_loop_now(store->loop),
                                       ks_span_ms(task == TASK_LIST   ? LIST_MS
                                                  : task == TASK_FIND ? READ_MS
                                                                      : 2 * WRITE_MS));
        ask->sent = ks_alloc((task == TASK_WRITE ? most : 1) * sizeof(*ask->sent));
        ks_list_append(&store->asks, &ask->link);
        if (ask->sent != NULL && ks_ok(ks_letter_list_init(&ask->list, most, WORK_BYTES_MAX)))
            return ask;
        ask_free(ask);
    }
    ks_letters_no_memory(task == TASK_WRITE ? KS_REFUSED : KS_UNKNOWN, answered, arg);
    return NULL;
}

static ks_err open_table(struct table_letters *store, const char *name, bool optional,
                         struct ks_detail *ret_detail)
{
    return ks_dynamodb_table_open(&store->table, store->loop, store->client,
                                  "table of dead letters", name, NULL, optional, NULL, NULL,
                                  ret_detail);
}

/* The first letter makes the table, and nothing before it. */
static void make_table(struct table_letters *store)
{
    char name[KS_DYNAMODB_TABLE_MAX + 1];
    struct ks_detail detail;
    ks_err opened;

    memcpy(name, store->table.name, sizeof(name));
    ks_dynamodb_table_close(&store->table);
    opened = open_table(store, name, false, &detail);
    assert(ks_ok(opened)); /* It had this name before. */
}

/* True while the table may become ready before the ask has no more time. */
static bool may_wait(const struct ask *ask)
{
    return ask->store->table.state == KS_STORE_OPENING &&
           !ks_instant_reached(ks_loop_now(ask->store->loop), ask->deadline);
}

/* Begins what the ask is about, unless the table cannot be used. Of what can't be sent the answer comes later. */
static void start(struct ask *ask)
{
    const struct ks_dynamodb_table *const table = &ask->store->table;

    if (table->state == KS_STORE_READY && table->absent && ask->task == TASK_WRITE)
        make_table(ask->store);
    ask->waiting = may_wait(ask);
    if (ask->waiting) {
        answer_in(ask, TABLE_MS);
    } else if (table->state != KS_STORE_READY) {
        refuse(ask, ask->task == TASK_WRITE ? KS_REFUSED : KS_UNKNOWN, table->detail.text);
    } else if (table->absent) {
        refuse(ask, reads(ask->task) ? KS_DONE : KS_REFUSED, NULL);
    } else {
        ask->first(ask);
        if (ask->open == 0)
            refuse(ask, ask->answer.outcome, NULL);
    }
}

static void due(struct ks_timer *timer)
{
    struct ask *const ask = KS_LIST_ENTRY(timer, struct ask, timer);

    if (ask->waiting)
        start(ask);
    else
        finish(ask);
}

static void begin_with(struct ask *ask, void (*first)(struct ask *ask))
{
    ask->first = first;
    start(ask);
}

static void write_letters(struct ks_dead_letters *port, const struct ks_letter *letters,
                          uint32_t count, ks_letters_answered *answered, void *arg)
{
    struct ask *const ask = begin(port, TASK_WRITE, count, answered, arg);
    ks_err err = KS_OK;

    assert(count > 0);
    if (ask == NULL)
        return;
    for (uint32_t at = 0; at < count && ks_ok(err); at++) {
        struct ks_letter pointer = letters[at];

        pointer.data = KS_VIEW("");
        assert(ks_view_equal(pointer.shard_id, letters[0].shard_id));
        if (pointer.expires_ms / 1000 > ask->expires_s)
            ask->expires_s = pointer.expires_ms / 1000;
        err = ks_letter_list_add(&ask->list, &pointer);
    }
    if (ks_ok(err))
        err = ks_letter_place_of(letters[0].id, ask->store->stream, &ask->place);
    if (!ks_ok(err)) {
        refuse(ask, KS_REFUSED, ks_err_text(err));
        return;
    }
    ks_letter_list_settle(&ask->list);
    begin_with(ask, begin_changes);
}

static void list(struct ks_dead_letters *port, ks_view after, uint32_t most,
                 ks_letters_answered *answered, void *arg)
{
    struct ask *const ask = begin(port, TASK_LIST, most, answered, arg);

    assert(most > 0 && most <= KS_LETTERS_PAGE_MAX);
    if (ask == NULL)
        return;
    if (after.size == 0) {
        begin_with(ask, send_next_shard);
        return;
    }
    if (ks_ok(ks_letter_place_of(after, ask->store->stream, &ask->place)))
        begin_with(ask, send_page);
    else
        refuse(ask, KS_UNKNOWN, "the page token is none of this list");
}

static void find(struct ks_dead_letters *port, ks_view id, ks_letters_answered *answered, void *arg)
{
    struct ask *const ask = begin(port, TASK_FIND, 1, answered, arg);

    if (ask == NULL)
        return;
    if (ks_ok(ks_letter_place_of(id, ask->store->stream, &ask->place)))
        begin_with(ask, send_find);
    else
        refuse(ask, KS_DONE, NULL); /* None has such an id. */
}

/* A change of the one letter of this id. */
static void change(struct ks_dead_letters *port, enum task task, ks_view id,
                   const struct ks_letter *letter, ks_letters_answered *answered, void *arg)
{
    struct ask *const ask = begin(port, task, 1, answered, arg);

    if (ask == NULL)
        return;
    if (!ks_ok(ks_letter_place_of(id, ask->store->stream, &ask->place))) {
        refuse(ask, KS_REFUSED, NULL);
        return;
    }
    if (!ks_ok(ks_letter_list_add(&ask->list, letter))) {
        refuse(ask, KS_UNKNOWN, "out of memory");
        return;
    }
    ks_letter_list_settle(&ask->list);
    begin_with(ask, begin_changes);
}

static void claim(struct ks_dead_letters *port, const struct ks_letter *letter,
                  ks_letters_answered *answered, void *arg)
{
    const struct ks_letter claimed = {.claim = letter->claim, .attempts = letter->attempts};

    change(port, TASK_CLAIM, letter->id, &claimed, answered, arg);
}

static void amend(struct ks_dead_letters *port, const struct ks_letter *letter,
                  ks_letters_answered *answered, void *arg)
{
    const struct ks_letter changed = {.reason = letter->reason,
                                      .claim = letter->claim,
                                      .died_ms = letter->died_ms,
                                      .attempts = letter->attempts,
                                      .cause = letter->cause};

    change(port, TASK_AMEND, letter->id, &changed, answered, arg);
}

static void refuse_large(struct ks_dead_letters *port, ks_letters_answered *answered, void *arg)
{
    struct ask *const ask = begin(port, TASK_KEEP, 1, answered, arg);

    if (ask != NULL)
        refuse(ask, KS_UNKNOWN, "the record is too large to be kept in an item of DynamoDB");
}

static void keep(struct ks_dead_letters *port, const struct ks_letter *letter,
                 ks_letters_answered *answered, void *arg)
{
    const struct ks_letter kept = {.data = letter->data};

    if (letter->data.size <= KS_LETTER_DATA_MAX)
        change(port, TASK_KEEP, letter->id, &kept, answered, arg);
    else
        refuse_large(port, answered, arg);
}

static void remove_letter(struct ks_dead_letters *port, ks_view id, ks_view claim_of,
                          ks_letters_answered *answered, void *arg)
{
    const struct ks_letter removed = {.claim = claim_of};

    change(port, TASK_REMOVE, id, &removed, answered, arg);
}

static void cancel(struct ask *ask)
{
    const uint32_t count = ask->task == TASK_WRITE ? ask->list.most : 1;

    for (uint32_t at = 0; at < count; at++)
        if (ask->sent[at].call != NULL)
            ks_aws_cancel(ask->sent[at].call);
    ask_free(ask);
}

static void close_letters(struct ks_dead_letters *port)
{
    struct table_letters *const store = of_port(port);

    while (!ks_list_empty(&store->asks))
        cancel(KS_LIST_ENTRY(store->asks.next, struct ask, link));
    ks_dynamodb_ttl_close(&store->ttl);
    ks_dynamodb_table_close(&store->table);
    ks_bytes_free(&store->body);
    ks_bytes_free(&store->bytes);
    ks_free(store->known);
    ks_free(store->stream);
    ks_free(store);
}

static const struct ks_dead_letters_vtable vtable = {
    .write = write_letters,
    .list = list,
    .find = find,
    .claim = claim,
    .amend = amend,
    .keep = keep,
    .remove = remove_letter,
    .close = close_letters,
};

ks_err ks_dynamodb_letters_open(struct ks_loop *loop, struct ks_aws_client *client,
                                const char *table, const char *stream, struct ks_dead_letters **ret,
                                struct ks_detail *ret_detail)
{
    struct table_letters *const store = ks_alloc(sizeof(*store));
    ks_err err = KS_OK;

    if (store == NULL)
        return KS_FAIL(NO_MEMORY);
    *store = (struct table_letters){
        .port = {.vtable = &vtable, .claim_ms = KS_LETTER_CLAIM_MS},
        .loop = loop,
        .client = client,
        .stream = stream == NULL ? NULL : ks_strdup(stream),
        .known = ks_alloc(sizeof(struct ks_letter_shards)),
    };
    ks_link_init(&store->asks);
    ks_bytes_init(&store->body, KS_DYNAMODB_BODY_MAX);
    ks_bytes_init(&store->bytes, WORK_BYTES_MAX);
    if (store->known == NULL || (stream != NULL && store->stream == NULL))
        err = KS_FAIL(NO_MEMORY);
    if (ks_ok(err))
        err = open_table(store, table, true, ret_detail);
    if (!ks_ok(err)) {
        ks_free(store->known);
        ks_free(store->stream);
        ks_free(store);
        return err;
    }
    ks_dynamodb_ttl_init(&store->ttl, client, store->table.name);
    *ret = &store->port;
    return KS_OK;
}
