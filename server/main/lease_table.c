/* SPDX-License-Identifier: Apache-2.0 */
#include "main/lease_table.h"

#include "adapters/dynamodb/store.h"
#include "adapters/sqlite/store.h"
#include "base/budget.h"
#include "ports/streams.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OPEN_MS = 30000,
    READ_MS = 30000,
    WRITE_MS = 5000,
    AT_ONCE = 32, /* Writes under way: a table of others' capacity is not to be throttled. */
    LOOKS = 4     /* While a lease would run out. */
};

/* ---- The desk ---- */

ks_err ks_lease_desk_open(struct ks_lease_desk *desk, const struct ks_options *options)
{
    *desk = (struct ks_lease_desk){.options = options};
    return ks_loop_new(&desk->loop);
}

void ks_lease_desk_close(struct ks_lease_desk *desk)
{
    ks_cloud_leave(&desk->part);
    if (desk->loop != NULL)
        ks_loop_await_jobs(desk->loop, ks_span_ms(READ_MS)); /* Of a closed store. */
    ks_cloud_close(&desk->cloud);
    if (desk->loop != NULL)
        ks_loop_free(desk->loop);
}

static ks_err open_client(struct ks_lease_desk *desk, struct ks_aws_client **ret_client,
                          struct ks_detail *detail)
{
    const struct ks_options *const options = desk->options;

    if (desk->part.cloud == NULL) {
        KS_TRY(ks_cloud_open(&desk->cloud, desk->loop, detail));
        desk->part = (struct ks_cloud_part){
            .cloud = &desk->cloud,
            .stream = options->stream,
            .roles = {[KS_AWS_DYNAMODB] = {options->dynamodb_role_arn,
                                           options->dynamodb_role_external_id}}};
    }
    if (desk->part.clients[KS_AWS_DYNAMODB] == NULL)
        return ks_cloud_client(&desk->part, KS_AWS_DYNAMODB, ret_client, detail);
    *ret_client = desk->part.clients[KS_AWS_DYNAMODB];
    return KS_OK;
}

/* ---- Opening ---- */

ks_err ks_lease_table_name(struct ks_lease_table *table, struct ks_lease_desk *desk,
                           const char *word, struct ks_detail *detail)
{
    ks_view rest = ks_view_text(word);
    const ks_view first = ks_view_cut(&rest, ':');
    char dialect[32] = "";

    *table = (struct ks_lease_table){.desk = desk};
    if (ks_ok(ks_view_copy_text(first, dialect, sizeof(dialect))))
        table->dialect = ks_dialect_find(dialect);
    if (table->dialect == NULL)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "%s: a table is named DIALECT[:NAME], as native:orders, or "
                              "native:sqlite:PATH",
                              word);
    if (ks_view_starts(rest, KS_VIEW("sqlite:"))) {
        table->path = word + first.size + 1 + strlen("sqlite:");
        rest = KS_VIEW_NONE;
    }
    if (table->path != NULL && table->dialect != &ks_native_dialect)
        return ks_err_because(KS_FAIL(INVALID), detail, "%s: only native tables are in SQLite",
                              word);
    if (rest.size == 0)
        rest = ks_view_text(desk->options->application);
    if (rest.size == 0)
        return ks_err_because(KS_FAIL(INVALID), detail, "%s: of which --application?", word);
    return ks_view_copy_text(rest, table->name, sizeof(table->name));
}

bool ks_lease_table_same(const struct ks_lease_table *a, const struct ks_lease_table *b)
{
    struct stat files[2];

    if (a->dialect != b->dialect || (a->path == NULL) != (b->path == NULL) ||
        strcmp(a->name, b->name) != 0)
        return false;
    if (a->path == NULL || strcmp(a->path, b->path) == 0)
        return true;
    return stat(a->path, &files[0]) == 0 && stat(b->path, &files[1]) == 0 &&
           files[0].st_dev == files[1].st_dev && files[0].st_ino == files[1].st_ino;
}

static ks_err open_store(struct ks_lease_table *table, bool make, struct ks_detail *detail)
{
    struct ks_aws_client *client;

    if (table->path != NULL) {
        table->absent = !make && access(table->path, F_OK) != 0;
        return table->absent ? KS_OK
                             : ks_sqlite_store_open(table->desk->loop, table->path, table->name,
                                                    NULL, NULL, &table->store, detail);
    }
    table->look = *table->dialect;
    for (uint32_t i = 0; i < table->look.table_count && !make; i++)
        table->look.tables[i].optional = true;
    KS_TRY(open_client(table->desk, &client, detail));
    return ks_dynamodb_store_open(table->desk->loop, client, table->name, &table->look,
                                  &table->store, detail);
}

ks_err ks_lease_table_open(struct ks_lease_table *table, bool make, struct ks_detail *detail)
{
    struct ks_loop *const loop = table->desk->loop;
    const ks_instant until = ks_instant_add(ks_loop_now(loop), ks_span_ms(OPEN_MS));
    enum ks_store_state state = KS_STORE_OPENING;

    table->absent = false;
    KS_TRY(open_store(table, make, detail));
    if (table->absent)
        return KS_OK;
    do {
        ks_loop_turn(loop, ks_span_ms(50));
        state = table->store->vtable->state(table->store, detail);
    } while ((state == KS_STORE_OPENING || state == KS_STORE_AWAY) &&
             !ks_instant_reached(ks_loop_now(loop), until));
    if (state == KS_STORE_READY)
        return KS_OK;
    return state == KS_STORE_UNUSABLE ? KS_FAIL(FOREIGN) : KS_FAIL(TIMEOUT);
}

void ks_lease_rows_free(struct ks_lease_rows *rows)
{
    ks_free(rows->leases);
    ks_free(rows->workers);
    ks_bytes_free(&rows->words);
    *rows = (struct ks_lease_rows){.leases = NULL};
}

static void close_store(struct ks_lease_table *table)
{
    if (table->store != NULL)
        table->store->vtable->close(table->store);
    table->store = NULL;
}

void ks_lease_table_close(struct ks_lease_table *table)
{
    close_store(table);
    ks_lease_rows_free(&table->rows);
    ks_lease_rows_free(&table->before);
}

/* ---- Asking ---- */

struct wait {
    struct ks_lease_table *table;
    struct ks_lease_rows *rows;
    struct ks_lease_mend *mends;
    uint32_t open;
    ks_err err;
    struct ks_detail *detail;
};

static int by_shard(const void *a, const void *b)
{
    const struct ks_store_lease *const one = a;
    const struct ks_store_lease *const other = b;

    return ks_stream_order(one->stream, one->shard, other->stream, other->shard);
}

/* A copy of an array; NULL if it is empty. */
static ks_err copy_of(const void *array, uint32_t count, size_t size, void **ret_copy)
{
    *ret_copy = NULL;
    if (count == 0)
        return KS_OK;
    *ret_copy = ks_alloc(count * size);
    if (*ret_copy == NULL)
        return KS_FAIL(NO_MEMORY);
    memcpy(*ret_copy, array, count * size);
    return KS_OK;
}

static ks_err keep_leases(const struct ks_store_answer *answer, struct ks_lease_rows *rows)
{
    size_t size = 1;
    void *copy;

    KS_TRY(copy_of(answer->leases, answer->lease_count, sizeof(*answer->leases), &copy));
    rows->leases = copy;
    rows->lease_count = answer->lease_count;
    for (uint32_t i = 0; i < rows->lease_count; i++)
        size += strlen(rows->leases[i].words) + 1;
    ks_bytes_init(&rows->words, size);
    KS_TRY(ks_bytes_reserve(&rows->words, size));
    for (uint32_t i = 0; i < rows->lease_count; i++) {
        const char *const words = rows->leases[i].words;

        rows->leases[i].words = (const char *)rows->words.data + rows->words.size;
        KS_TRY(ks_bytes_append(&rows->words, ks_view_of(words, strlen(words) + 1)));
    }
    if (rows->lease_count > 1)
        qsort(rows->leases, rows->lease_count, sizeof(*rows->leases), by_shard);
    return KS_OK;
}

static ks_err keep_workers(const struct ks_store_answer *answer, struct ks_lease_rows *rows)
{
    void *copy;

    KS_TRY(copy_of(answer->workers, answer->worker_count, sizeof(*answer->workers), &copy));
    rows->workers = copy;
    rows->worker_count = answer->worker_count;
    return KS_OK;
}

static void rows_answered(void *arg, uint64_t token, const struct ks_store_answer *answer)
{
    struct wait *const wait = arg;

    wait->open--;
    wait->err = answer->err;
    if (answer->outcome != KS_DONE) {
        ks_detail_set(wait->detail, "%s: %s", wait->table->name,
                      answer->detail.text[0] != '\0' ? answer->detail.text
                                                     : ks_err_text(answer->err));
        return;
    }
    /* One that is not there has no rows. */
    if (token == KS_STORE_READ_LEASES)
        wait->table->absent = ks_err_is(answer->err, KS_ERR_NOT_FOUND);
    wait->err = token == KS_STORE_READ_LEASES ? keep_leases(answer, wait->rows)
                                              : keep_workers(answer, wait->rows);
}

static ks_err ask(struct ks_lease_table *table, enum ks_store_operation operation,
                  struct ks_lease_rows *rows, struct ks_detail *detail)
{
    struct wait wait = {.table = table, .rows = rows, .open = 1, .detail = detail};
    const struct ks_store_request request = {.operation = operation,
                                             .consistent = true,
                                             .words = true,
                                             .timeout = ks_span_ms(READ_MS),
                                             .answered = rows_answered,
                                             .arg = &wait,
                                             .token = operation};

    table->store->vtable->ask(table->store, &request);
    while (wait.open > 0)
        ks_loop_turn(table->desk->loop, ks_span_ms(READ_MS));
    return wait.err;
}

ks_err ks_lease_table_read(struct ks_lease_table *table, struct ks_detail *detail)
{
    struct ks_lease_rows rows = {.leases = NULL};
    ks_err err = KS_OK;

    if (table->store != NULL)
        err = ask(table, KS_STORE_READ_LEASES, &rows, detail);
    if (ks_ok(err) && table->store != NULL && table->dialect->has_workers)
        err = ask(table, KS_STORE_READ_FLEET, &rows, detail);
    if (!ks_ok(err)) {
        ks_lease_rows_free(&rows);
        return err;
    }
    ks_lease_rows_free(&table->before);
    table->before = table->rows;
    table->rows = rows;
    return KS_OK;
}

struct ks_reading ks_lease_table_reading(const struct ks_lease_rows *rows)
{
    return (struct ks_reading){rows->leases, rows->lease_count, rows->workers, rows->worker_count};
}

/* ---- Of several streams ---- */

ks_err ks_lease_rows_stream(const struct ks_lease_rows *rows, const char *word,
                            char ret_stream[KS_STREAM_ID_MAX + 1], struct ks_detail *detail)
{
    const char *found = "";
    bool several = false;

    for (uint32_t i = 0; i < rows->lease_count; i++) {
        const char *const stream = rows->leases[i].stream;

        several |= stream[0] != '\0';
        if (stream[0] == '\0' || strcmp(stream, found) == 0 ||
            (word[0] != '\0' && !ks_stream_means(word, ks_view_text(stream))))
            continue;
        if (found[0] != '\0')
            return ks_err_because(KS_FAIL(INVALID), detail,
                                  word[0] == '\0' ? "the table is of several streams, %s and %s "
                                                    "among them: which one, --stream says"
                                                  : "%s and %s: both could be meant",
                                  found, stream);
        found = stream;
    }
    if (several && found[0] == '\0')
        return ks_err_because(KS_FAIL(NOT_FOUND), detail,
                              "the table is of several streams, and none of them is %s", word);
    memcpy(ret_stream, found, strlen(found) + 1);
    return KS_OK;
}

bool ks_lease_is_named(const struct ks_store_lease *lease, const char *stream, const char *word)
{
    char key[KS_LEASE_KEY_MAX + 1];

    ks_stream_key(lease, key);
    if (strcmp(key, word) == 0)
        return true;
    return stream[0] != '\0' && ks_stream_means(stream, ks_view_text(lease->stream)) &&
           strcmp(lease->shard, word) == 0;
}

/* ---- Watching ---- */

static uint64_t wall_ns(void)
{
    return (uint64_t)ks_wall_now().ms * UINT64_C(1000000);
}

/* How long a worker lives that is not heard of. */
static ks_span life_of(const struct ks_lease_table *table, ks_span lease)
{
    const struct ks_options *const options = table->desk->options;

    if (table->dialect->rev != KS_REV_WRITTEN)
        return lease;
    return ks_span_ms(options->client_max_age_ms != 0 ? (int64_t)options->client_max_age_ms
                                                      : INT64_C(5) * options->shard_check_ms);
}

static bool lives_now(const struct ks_lease_table *table, ks_span lease, struct ks_detail *ret_sign)
{
    const struct ks_reading reading = ks_lease_table_reading(&table->rows);

    return ks_reading_lives(table->dialect, &reading, life_of(table, lease), wall_ns(), ret_sign);
}

static bool has_moved(struct ks_lease_table *table, struct ks_detail *ret_sign, ks_err *ret_err)
{
    struct ks_reading before;
    struct ks_reading now;

    *ret_err = ks_lease_table_read(table, ret_sign);
    if (!ks_ok(*ret_err))
        return false;
    before = ks_lease_table_reading(&table->before);
    now = ks_lease_table_reading(&table->rows);
    return ks_reading_moved(&before, &now, ret_sign);
}

bool ks_lease_tables_live(struct ks_lease_table *const tables[2], ks_span lease,
                          struct ks_detail *ret_sign, ks_err *ret_err)
{
    bool any = false;

    *ret_err = KS_OK;
    for (int i = 0; i < 2; i++) {
        if (tables[i] == NULL)
            continue;
        if (lives_now(tables[i], lease, ret_sign))
            return true;
        /* Where there is no row, nothing can move; and whose clients write down when they were there has said it. */
        any |= tables[i]->dialect->rev != KS_REV_WRITTEN &&
               tables[i]->rows.lease_count + tables[i]->rows.worker_count > 0;
    }
    for (int look = 0; look < LOOKS && any; look++) {
        struct ks_loop *const loop = (tables[0] != NULL ? tables[0] : tables[1])->desk->loop;
        const ks_instant until = ks_instant_add(ks_loop_now(loop), ks_span_us(lease.us / LOOKS));

        while (!ks_instant_reached(ks_loop_now(loop), until))
            ks_loop_turn(loop, ks_instant_since(until, ks_loop_now(loop)));
        for (int i = 0; i < 2; i++)
            if (tables[i] != NULL && has_moved(tables[i], ret_sign, ret_err))
                return true;
            else if (!ks_ok(*ret_err))
                return false;
    }
    return false;
}

/* ---- Writing ---- */

static void mended(void *arg, uint64_t token, const struct ks_store_answer *answer)
{
    struct wait *const wait = arg;
    struct ks_lease_mend *const mend = &wait->mends[token];

    wait->open--;
    mend->outcome = answer->outcome;
    mend->err = answer->err;
    mend->detail = answer->detail;
}

void ks_lease_table_mend(struct ks_lease_table *table, struct ks_lease_mend *mends, uint32_t count)
{
    struct wait wait = {.table = table, .mends = mends};
    uint32_t next = 0;

    assert(table->store != NULL);

    while (next < count || wait.open > 0) {
        while (next < count && wait.open < AT_ONCE) {
            struct ks_store_request request =
                ks_mend_request(mends[next].lease, mends[next].was, wall_ns());

            request.timeout = ks_span_ms(WRITE_MS);
            request.answered = mended;
            request.arg = &wait;
            request.token = next++;
            wait.open++;
            table->store->vtable->ask(table->store, &request);
        }
        ks_loop_turn(table->desk->loop, ks_span_ms(WRITE_MS));
    }
}

static void fenced(void *arg, uint64_t token, const struct ks_store_answer *answer)
{
    struct wait *const wait = arg;

    (void)token;
    wait->open--;
    if (answer->outcome != KS_DONE)
        wait->err = KS_FAIL(CONDITION);
}

bool ks_lease_table_fence(struct ks_lease_table *table, const struct ks_store_worker *worker)
{
    struct wait wait = {.table = table, .open = 1};
    const struct ks_store_request request = {.operation = table->dialect->rev == KS_REV_WRITTEN
                                                              ? KS_STORE_REMOVE_WORKER
                                                              : KS_STORE_FENCE,
                                             .worker = worker->self,
                                             .expect_boot = worker->self.boot,
                                             .expect_beat = worker->beat,
                                             .timeout = ks_span_ms(WRITE_MS),
                                             .answered = fenced,
                                             .arg = &wait};

    if (worker->life != KS_LIVE)
        return true;
    table->store->vtable->ask(table->store, &request);
    while (wait.open > 0)
        ks_loop_turn(table->desk->loop, ks_span_ms(WRITE_MS));
    return ks_ok(wait.err);
}
