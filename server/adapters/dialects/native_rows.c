/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/dialect.h"

#include "adapters/dialects/native_words.h"
#include "base/budget.h"

enum {
    WORDS_BYTES_MAX = 256 << 20 /* Far more than any table has: 4 KiB for each row that may be. */
};

/* As the readers of item.h, with absent counting as 0, false or "". */
static ks_err read_signed(const struct ks_item *item, enum ks_native_attribute at,
                          int64_t *ret_number)
{
    const ks_err err = ks_item_signed(item, at, ret_number);

    return ks_err_is(err, KS_ERR_NOT_FOUND) ? KS_OK : err;
}

/* A number of at most `max`, for which the rest of the program has room. MALFORMED beyond. */
static ks_err read_bounded(const struct ks_item *item, enum ks_native_attribute at, uint64_t max,
                           uint64_t *ret_number)
{
    uint64_t number;

    KS_TRY(ks_item_number(item, at, &number));
    if (number > max)
        return KS_FAIL(MALFORMED);
    *ret_number = number;
    return KS_OK;
}

/* As read_bounded; absent counts as 0. */
static ks_err read_bounded_or_0(const struct ks_item *item, enum ks_native_attribute at,
                                uint64_t max, uint64_t *ret_number)
{
    const ks_err err = read_bounded(item, at, max, ret_number);

    return ks_err_is(err, KS_ERR_NOT_FOUND) ? KS_OK : err;
}

static ks_err read_text(const struct ks_item *item, enum ks_native_attribute at, ks_view *ret_text)
{
    const ks_err err = ks_item_text(item, at, ret_text);

    return ks_err_is(err, KS_ERR_NOT_FOUND) ? KS_OK : err;
}

static ks_err read_word(const struct ks_item *item, enum ks_native_attribute at,
                        const char *const *words, unsigned count, unsigned *ret_word)
{
    ks_view text;

    KS_TRY(ks_item_text(item, at, &text));
    for (unsigned i = 0; i < count; i++)
        if (ks_view_equal(text, ks_view_text(words[i]))) {
            *ret_word = i;
            return KS_OK;
        }
    return KS_FAIL(MALFORMED);
}

/* Absent is nobody. */
static ks_err read_incarnation(const struct ks_item *item, enum ks_native_attribute at,
                               struct ks_incarnation_text *ret_who)
{
    ks_view text;

    *ret_who = (struct ks_incarnation_text){.boot = 0};
    if (item->presence[at] == KS_ABSENT)
        return KS_OK;
    KS_TRY(ks_item_text(item, at, &text));
    return ks_native_get_incarnation(text, ret_who);
}

static ks_err read_position(const struct ks_item *item, enum ks_native_attribute at,
                            enum ks_native_attribute at_sub, enum ks_native_attribute at_ms,
                            struct ks_position *ret_position)
{
    struct ks_position position;
    ks_view text;

    KS_TRY(ks_item_text(item, at, &text));
    KS_TRY(ks_native_get_position(text, &position));
    if (position.kind == KS_POSITION_AT_TIMESTAMP)
        KS_TRY(ks_item_signed(item, at_ms, &position.timestamp_ms));
    if (position.kind == KS_POSITION_AFTER_SEQUENCE)
        KS_TRY(read_signed(item, at_sub, &position.sub_sequence));
    if (position.sub_sequence < -1)
        return KS_FAIL(MALFORMED);

    *ret_position = position;
    return KS_OK;
}

_Static_assert((int)KS_SHARD_ID_MAX == (int)KS_WORKER_ID_MAX, "ids of both kinds are read alike");

/* At most two ids, in the order of the alphabet: a set has none of its own. */
static ks_err read_ids(const struct ks_item *item, enum ks_native_attribute at,
                       bool (*is_id)(ks_view text), char ret_ids[2][KS_SHARD_ID_MAX + 1])
{
    ks_view text = KS_VIEW_NONE;
    ks_view first;
    ks_view last;

    KS_TRY(read_text(item, at, &text));
    if (item->presence[at] == KS_ABSENT)
        return KS_OK;

    first = ks_view_cut(&text, '\n');
    last = text;
    if (!is_id(first) || (last.size != 0 && !is_id(last)))
        return KS_FAIL(MALFORMED);
    KS_TRY(ks_view_copy_text(first, ret_ids[0], KS_SHARD_ID_MAX + 1));
    if (last.size == 0)
        return KS_OK;

    KS_TRY(ks_view_copy_text(last, ret_ids[1], KS_SHARD_ID_MAX + 1));
    if (strcmp(ret_ids[0], ret_ids[1]) > 0) {
        KS_TRY(ks_view_copy_text(last, ret_ids[0], KS_SHARD_ID_MAX + 1));
        KS_TRY(ks_view_copy_text(first, ret_ids[1], KS_SHARD_ID_MAX + 1));
    }
    return KS_OK;
}

static ks_err read_hash_key(const struct ks_item *item, enum ks_native_attribute at,
                            char ret_digits[KS_HASH_KEY_MAX + 1])
{
    ks_view text = KS_VIEW_NONE;

    KS_TRY(read_text(item, at, &text));
    if (item->presence[at] == KS_ABSENT)
        return KS_OK;
    if (!ks_native_is_decimal(text, KS_HASH_KEY_MAX))
        return KS_FAIL(MALFORMED);
    return ks_view_copy_text(text, ret_digits, KS_HASH_KEY_MAX + 1);
}

static ks_err read_lease(const struct ks_item *item, struct ks_store_lease *lease)
{
    ks_err err;

    if (!ks_native_is_shard(item->k))
        return KS_FAIL(MALFORMED);
    KS_TRY(read_incarnation(item, KS_NATIVE_OWNER, &lease->owner));
    KS_TRY(read_incarnation(item, KS_NATIVE_NEXT_OWNER, &lease->next_owner));
    KS_TRY(read_bounded(item, KS_NATIVE_EPOCH, KS_ROW_EPOCH_MAX, &lease->epoch));
    KS_TRY(read_bounded(item, KS_NATIVE_REV, KS_ROW_COUNTER_MAX, &lease->rev));
    KS_TRY(read_position(item, KS_NATIVE_CHECKPOINT, KS_NATIVE_SUB, KS_NATIVE_CHECKPOINT_MS,
                         &lease->checkpoint));
    KS_TRY(read_ids(item, KS_NATIVE_PARENTS, ks_native_is_shard, lease->parents));
    KS_TRY(read_ids(item, KS_NATIVE_CHILDREN, ks_native_is_shard, lease->children));
    KS_TRY(read_hash_key(item, KS_NATIVE_HASH_START, lease->hash_start));
    KS_TRY(read_hash_key(item, KS_NATIVE_HASH_END, lease->hash_end));
    KS_TRY(read_bounded_or_0(item, KS_NATIVE_LOAD, KS_ROW_LOAD_MAX, &lease->load));
    err = ks_item_flag(item, KS_NATIVE_FINISHED, &lease->finished);
    return ks_err_is(err, KS_ERR_NOT_FOUND) ? KS_OK : err;
}

/* Makes `*array` longer by one when it is full. */
static ks_err grow(void **array, uint32_t count, uint32_t *room, uint32_t max, size_t size)
{
    const uint32_t more = *room == 0 ? 16 : *room * 2;
    void *longer;

    if (count < *room)
        return KS_OK;
    if (count >= max)
        return KS_FAIL(FULL);
    longer = ks_realloc(*array, (size_t)more * size);
    if (longer == NULL)
        return KS_FAIL(NO_MEMORY);

    *array = longer;
    *room = more;
    return KS_OK;
}

static ks_err grow_tokens(struct ks_native_rows *rows)
{
    void *array = rows->tokens;

    KS_TRY(grow(&array, rows->token_count, &rows->token_room, KS_NATIVE_TOKENS_MAX,
                sizeof(*rows->tokens)));
    rows->tokens = array;
    return KS_OK;
}

static ks_err read_tokens(struct ks_native_rows *rows, const struct ks_item *item,
                          enum ks_native_attribute at, uint32_t *ret_count)
{
    ks_view text = KS_VIEW_NONE;
    uint32_t count = 0;

    KS_TRY(read_text(item, at, &text));
    while (text.size != 0) {
        if (count == KS_NATIVE_ROW_TOKENS_MAX)
            return KS_FAIL(MALFORMED);
        KS_TRY(grow_tokens(rows));
        KS_TRY(ks_native_get_token(ks_view_cut(&text, '\n'), &rows->tokens[rows->token_count]));
        rows->token_count++;
        count++;
    }
    *ret_count = count;
    return KS_OK;
}

/* As much of `text` as fits, in whole characters; nothing of what is no text. */
static void copy_cut(ks_view text, char *buffer, size_t capacity)
{
    if (text.size > capacity - 1)
        text.size = ks_view_whole_characters(ks_view_of(text.data, capacity - 1));
    if (!ks_ok(ks_view_copy_text(text, buffer, capacity)))
        buffer[0] = '\0';
}

static ks_err read_worker(struct ks_native_rows *rows, const struct ks_item *item,
                          struct ks_store_worker *worker)
{
    ks_view boot;
    ks_view version = KS_VIEW_NONE;
    unsigned life;
    unsigned mode;

    if (!ks_native_is_worker_id(item->k))
        return KS_FAIL(MALFORMED);
    KS_TRY(ks_item_text(item, KS_NATIVE_BOOT, &boot));
    KS_TRY(ks_native_get_boot(boot, &worker->self.boot));
    KS_TRY(read_word(item, KS_NATIVE_LIFE, ks_native_lives, KS_LIVES, &life));
    KS_TRY(read_word(item, KS_NATIVE_MODE, ks_native_modes, KS_MODES, &mode));
    KS_TRY(read_bounded(item, KS_NATIVE_BEAT, KS_ROW_COUNTER_MAX, &worker->beat));
    KS_TRY(read_bounded_or_0(item, KS_NATIVE_HELD, UINT32_MAX, &worker->held));
    KS_TRY(read_bounded_or_0(item, KS_NATIVE_CHANGES, KS_ROW_COUNTER_MAX, &worker->changes));
    KS_TRY(read_bounded_or_0(item, KS_NATIVE_CAPACITY, KS_ROW_COUNTER_MAX, &worker->capacity));
    KS_TRY(read_bounded_or_0(item, KS_NATIVE_LOAD, KS_ROW_LOAD_MAX, &worker->load));
    KS_TRY(read_text(item, KS_NATIVE_VERSION, &version));
    copy_cut(version, worker->version, sizeof(worker->version));
    KS_TRY(read_tokens(rows, item, KS_NATIVE_GIVE, &worker->give_count));
    KS_TRY(read_tokens(rows, item, KS_NATIVE_TAKE, &worker->take_count));

    worker->life = (enum ks_life)life;
    worker->mode = (enum ks_mode)mode;
    return KS_OK;
}

/* What the row itself is to blame for; the rest is ours (FULL, NO_MEMORY). */
static bool is_damage(ks_err err)
{
    return ks_err_is(err, KS_ERR_MALFORMED) || ks_err_is(err, KS_ERR_NOT_FOUND) ||
           ks_err_is(err, KS_ERR_INVALID);
}

/* The attribute that was asked for last; a row whose key is none is not asked for any. */
static const char *blame_of(const struct ks_native_rows *rows, const struct ks_item *item)
{
    const uint32_t at = item->asked == NULL ? UINT32_MAX : rows->asked;

    return at < item->schema->count ? item->schema->attributes[at].name : NULL;
}

/* As they stand there: members of a set with commas between them. */
static ks_err add_words(struct ks_native_rows *rows, const struct ks_item *item)
{
    struct ks_bytes *const words = &rows->words;

    if (words->max == 0)
        ks_bytes_init(words, WORDS_BYTES_MAX);
    for (uint32_t at = 0; at < item->schema->count; at++) {
        ks_view text = item->presence[at] == KS_STRANGE ? KS_VIEW("?") : item->texts[at];

        if (item->presence[at] == KS_ABSENT)
            continue;
        KS_TRY(ks_bytes_format(words, "%s ", item->schema->attributes[at].name));
        for (size_t i = 0; i < text.size; i++)
            KS_TRY(ks_bytes_append_byte(words, text.data[i] == '\n'   ? ','
                                               : text.data[i] == '\0' ? '?'
                                                                      : text.data[i]));
        KS_TRY(ks_bytes_append_byte(words, '\n'));
    }
    return ks_bytes_append_byte(words, '\0');
}

ks_err ks_native_rows_add_lease(struct ks_native_rows *rows, const struct ks_item *item, ks_err err,
                                const struct ks_store_lease *read)
{
    struct ks_store_lease lease = *read;
    void *array = rows->leases;

    /* Who wrote it knows something that we do not, also of what we have no need of. */
    if (ks_ok(err))
        err = ks_item_types(item);
    KS_TRY(grow(&array, rows->lease_count, &rows->lease_room, KS_NATIVE_ROWS_MAX, sizeof(lease)));
    rows->leases = array;
    if (!ks_ok(err) && !is_damage(err))
        return err;
    if (!ks_ok(err)) {
        lease = (struct ks_store_lease){.damaged = true, .blame = blame_of(rows, item)};
        memcpy(lease.stream, read->stream, sizeof(lease.stream));
        memcpy(lease.shard, read->shard, sizeof(lease.shard));
    }
    if (rows->with_words)
        KS_TRY(add_words(rows, item));
    if (lease.stream[0] == '\0')
        copy_cut(item->k, lease.shard, sizeof(lease.shard));
    rows->leases[rows->lease_count++] = lease;
    return KS_OK;
}

static ks_err add_lease(struct ks_native_rows *rows, const struct ks_item *item)
{
    struct ks_store_lease lease = {.checkpoint.sub_sequence = -1};
    const ks_err err = read_lease(item, &lease);

    return ks_native_rows_add_lease(rows, item, err, &lease);
}

ks_err ks_native_rows_add_worker(struct ks_native_rows *rows, const struct ks_item *item,
                                 ks_err err, const struct ks_store_worker *read)
{
    struct ks_store_worker worker = *read;
    void *array = rows->workers;

    KS_TRY(
        grow(&array, rows->worker_count, &rows->worker_room, KS_NATIVE_ROWS_MAX, sizeof(worker)));
    rows->workers = array;
    if (!ks_ok(err) && !is_damage(err))
        return err;
    if (!ks_ok(err))
        worker = (struct ks_store_worker){.damaged = true};
    copy_cut(item->k, worker.self.id, sizeof(worker.self.id));
    rows->workers[rows->worker_count++] = worker;
    return KS_OK;
}

static ks_err add_worker(struct ks_native_rows *rows, const struct ks_item *item)
{
    const uint32_t tokens_before = rows->token_count;
    struct ks_store_worker worker = {.damaged = false};
    const ks_err err = read_worker(rows, item, &worker);

    if (!ks_ok(err))
        rows->token_count = tokens_before;
    return ks_native_rows_add_worker(rows, item, err, &worker);
}

ks_err ks_native_rows_list(struct ks_native_rows *rows, ks_view shards, uint64_t rev)
{
    ks_bytes_free(&rows->list_text);
    ks_bytes_init(&rows->list_text, KS_ITEM_BYTES_MAX);
    KS_TRY(ks_bytes_append(&rows->list_text, shards));
    rows->list = (struct ks_store_list){true, rev, ks_bytes_view(&rows->list_text)};
    return KS_OK;
}

static ks_err read_leader(const struct ks_item *item, struct ks_store_leader *ret_leader)
{
    struct ks_store_leader leader = {.present = true};

    KS_TRY(read_incarnation(item, KS_NATIVE_HOLDER, &leader.holder));
    KS_TRY(read_bounded_or_0(item, KS_NATIVE_EPOCH, KS_ROW_COUNTER_MAX, &leader.epoch));
    KS_TRY(read_ids(item, KS_NATIVE_DEPUTIES, ks_native_is_worker_id, leader.deputies));
    *ret_leader = leader;
    return KS_OK;
}

static ks_err read_app(const struct ks_item *item, struct ks_store_app *ret_app)
{
    struct ks_store_app app = {.present = true};
    ks_view arn = KS_VIEW_NONE;

    KS_TRY(
        read_position(item, KS_NATIVE_START, KS_NATIVE_START_SUB, KS_NATIVE_START_MS, &app.start));
    if (app.start.kind == KS_POSITION_LATEST || app.start.kind == KS_POSITION_SHARD_END)
        return KS_FAIL(MALFORMED);
    KS_TRY(read_text(item, KS_NATIVE_STREAM_ARN, &arn));
    if (arn.size != 0)
        KS_TRY(ks_view_copy_text(arn, app.stream_arn, sizeof(app.stream_arn)));
    KS_TRY(read_signed(item, KS_NATIVE_STREAM_CREATED, &app.stream_created_ms));
    *ret_app = app;
    return KS_OK;
}

/* These two have no way to be damaged and yet answered: without them nothing may be decided. */
static ks_err single(ks_err err, const char *row, struct ks_detail *ret_detail)
{
    if (ks_ok(err))
        return KS_OK;
    ks_detail_set(ret_detail,
                  "the lease table's row p=w, k=%s cannot be read: repair it, or delete it by hand",
                  row);
    return KS_FAIL(CORRUPT);
}

ks_err ks_native_rows_add(struct ks_native_rows *rows, const struct ks_item *item,
                          struct ks_detail *ret_detail)
{
    if (ks_view_equal(item->p, KS_VIEW(KS_NATIVE_LEASES)))
        return add_lease(rows, item);
    if (!ks_view_equal(item->p, KS_VIEW(KS_NATIVE_WORKERS))) {
        ks_detail_set(ret_detail, "a row of another partition was answered");
        return KS_FAIL(CORRUPT);
    }
    if (ks_view_equal(item->k, KS_VIEW(KS_NATIVE_LEADER)))
        return single(read_leader(item, &rows->leader), KS_NATIVE_LEADER, ret_detail);
    if (ks_view_equal(item->k, KS_VIEW(KS_NATIVE_APP)))
        return single(read_app(item, &rows->app), KS_NATIVE_APP, ret_detail);
    /* Rows that a later version may add are none of our workers. */
    if (item->k.size != 0 && item->k.data[0] == '#')
        return KS_OK;
    return add_worker(rows, item);
}

void ks_native_rows_answer(struct ks_native_rows *rows, struct ks_store_answer *answer)
{
    const char *words = (const char *)rows->words.data;
    uint32_t token = 0;

    for (uint32_t i = 0; i < rows->lease_count && rows->with_words; i++) {
        rows->leases[i].words = words;
        words += strlen(words) + 1;
    }

    for (uint32_t i = 0; i < rows->worker_count; i++) {
        struct ks_store_worker *const worker = &rows->workers[i];

        worker->gives = worker->give_count == 0 ? NULL : &rows->tokens[token];
        token += worker->give_count;
        worker->takes = worker->take_count == 0 ? NULL : &rows->tokens[token];
        token += worker->take_count;
    }
    answer->workers = rows->workers;
    answer->worker_count = rows->worker_count;
    answer->leases = rows->leases;
    answer->lease_count = rows->lease_count;
    answer->leader = rows->leader;
    answer->app = rows->app;
    answer->kcl = rows->kcl;
    answer->list = rows->list;
}

void ks_native_rows_free(struct ks_native_rows *rows)
{
    ks_free(rows->workers);
    ks_free(rows->leases);
    ks_free(rows->tokens);
    ks_bytes_free(&rows->words);
    ks_bytes_free(&rows->list_text);
    *rows = (struct ks_native_rows){.workers = NULL};
}

const struct ks_dialect ks_native_dialect = {.name = "native",
                                             .tables = {{"", &ks_native_schema, false}},
                                             .table_count = 1,
                                             .has_workers = true,
                                             .read = ks_native_read,
                                             .write = ks_native_write,
                                             .add = ks_native_rows_add};
