/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/store.h"

#include "adapters/asks.h"
#include "adapters/sqlite/table.h"
#include "base/budget.h"
#include "base/log.h"

#include <assert.h>

/* The file and the one job that works with it. Outlives the store while the job is away. */
struct engine {
    struct ks_job job;
    struct ks_job_queue *queue;
    struct ks_sqlite_table *table;
    struct sqlite_store *store; /* NULL: closed. */
    /* What the job was given; it touches nothing else. */
    struct ks_ask_work *works[KS_SQLITE_JOB_MAX];
    uint32_t count;
    int64_t version;
    char holder[KS_SQLITE_HOLDER_SIZE]; /* Who kept the file locked. */
    /* The loop's: whose works they are. NULL: its time was up meanwhile. */
    struct ks_ask *asks[KS_SQLITE_JOB_MAX];
    bool away; /* The job is queued or running. */
};

struct sqlite_store {
    struct ks_lease_store port;
    struct ks_loop *loop;
    struct ks_asks asks;
    char *path;
    struct engine *engine;
    struct ks_link waiting; /* Asks that no job has taken yet. */
    struct ks_timer look;
    void (*changed)(void *arg);
    void *arg;
    int64_t version; /* As last seen. */
    bool locked;     /* And that was logged. */
};

static struct sqlite_store *of_port(struct ks_lease_store *store)
{
    return KS_LIST_ENTRY(store, struct sqlite_store, port);
}

static void engine_free(struct engine *engine)
{
    for (uint32_t at = 0; at < engine->count; at++)
        ks_ask_work_free(engine->works[at]);
    ks_loop_queue_close(engine->queue);
    ks_sqlite_table_close(engine->table);
    ks_free(engine);
}

/* --- The job --- */

static void run(struct ks_job *job)
{
    struct engine *const engine = KS_LIST_ENTRY(job, struct engine, job);

    for (uint32_t at = 0; at < engine->count; at++)
        ks_sqlite_table_perform(engine->table, engine->works[at]);
    ks_sqlite_table_settle(engine->table, engine->works, engine->count);
    ks_sqlite_table_holder(engine->table, engine->holder);
    ks_sqlite_table_version(engine->table, &engine->version);
}

/* Gives the job what waits, or just a look at the file. */
static void send(struct sqlite_store *store)
{
    struct engine *const engine = store->engine;

    assert(!engine->away);
    assert(engine->count == 0);

    while (engine->count < KS_SQLITE_JOB_MAX && !ks_list_empty(&store->waiting)) {
        struct ks_ask *const ask = KS_LIST_ENTRY(store->waiting.next, struct ks_ask, store);

        ks_list_remove(&ask->store);
        ask->call = &engine->asks[engine->count];
        engine->asks[engine->count] = ask;
        engine->works[engine->count++] = ask->work;
    }
    engine->away = true;
    ks_loop_submit_to(store->loop, engine->queue, &engine->job);
}

/* A lock that lasts is logged once; it is over when requests get through again. */
static void log_lock(struct sqlite_store *store, const struct engine *engine)
{
    const bool locked = engine->holder[0] != '\0';

    if (locked == store->locked || (!locked && engine->count == 0))
        return;
    store->locked = locked;
    if (locked)
        ks_warn("lease table %s: locked%s; requests wait for it, and leases run out meanwhile",
                store->path, engine->holder);
    else
        ks_info("lease table %s: no longer locked", store->path);
}

static void done(struct ks_job *job)
{
    struct engine *const engine = KS_LIST_ENTRY(job, struct engine, job);
    struct sqlite_store *const store = engine->store;

    if (store == NULL) {
        engine_free(engine);
        return;
    }
    log_lock(store, engine);
    /* It counts as away until all is told, so that new requests wait. */
    for (uint32_t at = 0; at < engine->count; at++) {
        struct ks_ask *const ask = engine->asks[at];

        engine->asks[at] = NULL;
        if (ask == NULL) {
            ks_ask_work_free(engine->works[at]);
            continue;
        }
        ask->call = NULL;
        ks_ask_answer(ask);
    }
    if (engine->version != store->version) {
        store->version = engine->version;
        if (store->changed != NULL)
            store->changed(store->arg);
    }
    engine->count = 0;
    engine->away = false;
    if (!ks_list_empty(&store->waiting))
        send(store);
}

/* --- The store --- */

static void ask(struct ks_lease_store *port, const struct ks_store_request *request)
{
    struct sqlite_store *const store = of_port(port);
    struct ks_ask *const ask = ks_asks_take(&store->asks, request);

    if (ask == NULL)
        return;
    /* A worker's life hangs on its heartbeat: it waits for nothing but the running job. */
    if (request->operation == KS_STORE_HEARTBEAT)
        ks_list_append(store->waiting.next, &ask->store);
    else
        ks_list_append(&store->waiting, &ask->store);
    if (!store->engine->away)
        send(store);
}

static void forget(struct ks_asks *asks, struct ks_ask *ask)
{
    (void)asks;
    ks_list_remove(&ask->store);
    if (ask->call == NULL)
        return;
    /* The job has its work, and keeps it. */
    *(struct ks_ask **)ask->call = NULL;
    ask->call = NULL;
    ask->work = NULL;
}

static void look(struct ks_timer *timer)
{
    struct sqlite_store *const store = KS_LIST_ENTRY(timer, struct sqlite_store, look);

    if (!store->engine->away)
        send(store);
    ks_loop_timer_set(store->loop, &store->look,
                      ks_instant_add(ks_loop_now(store->loop), ks_span_ms(KS_SQLITE_LOOK_MS)));
}

static enum ks_store_state state(const struct ks_lease_store *port, struct ks_detail *ret_detail)
{
    const struct sqlite_store *const store =
        (const struct sqlite_store *)(const void *)((const char *)port -
                                                    offsetof(struct sqlite_store, port));

    return ks_asks_state(&store->asks, ret_detail);
}

static void close_store(struct ks_lease_store *port)
{
    struct sqlite_store *const store = of_port(port);
    struct engine *const engine = store->engine;

    ks_loop_timer_clear(store->loop, &store->look);
    ks_asks_end(&store->asks);
    engine->store = NULL;
    if (!engine->away)
        engine_free(engine);
    ks_free(store->path);
    ks_free(store);
}

static const struct ks_lease_store_vtable vtable = {
    .ask = ask, .state = state, .close = close_store};

static ks_err start(struct sqlite_store *store, const char *path)
{
    store->path = ks_strdup(path);
    if (store->path == NULL)
        return KS_FAIL(NO_MEMORY);
    KS_TRY(ks_loop_queue_new(store->loop, &store->engine->queue));
    KS_TRY(ks_asks_init(&store->asks, store->loop, store->path, forget));

    /* What it is now is no news. */
    ks_sqlite_table_version(store->engine->table, &store->version);
    store->engine->version = store->version;
    store->engine->store = store;
    store->engine->job = (struct ks_job){.run = run, .done = done};
    ks_link_init(&store->waiting);
    store->look.due = look;
    look(&store->look);
    return KS_OK;
}

ks_err ks_sqlite_store_open(struct ks_loop *loop, const char *path, const char *application,
                            void (*changed)(void *arg), void *arg,
                            struct ks_lease_store **ret_store, struct ks_detail *ret_detail)
{
    struct ks_sqlite_table *table;
    struct sqlite_store *store;
    ks_err err = KS_FAIL(NO_MEMORY);

    KS_TRY(ks_sqlite_table_open(path, application, &table, ret_detail));
    store = ks_alloc(sizeof(*store));
    if (store != NULL) {
        *store = (struct sqlite_store){
            .port.vtable = &vtable, .loop = loop, .changed = changed, .arg = arg};
        store->engine = ks_alloc(sizeof(*store->engine));
    }
    if (store != NULL && store->engine != NULL) {
        store->engine->table = table;
        err = start(store, path);
    }
    if (ks_ok(err)) {
        *ret_store = &store->port;
        return KS_OK;
    }
    ks_sqlite_table_close(table);
    if (store != NULL) {
        if (store->engine != NULL)
            ks_loop_queue_close(store->engine->queue);
        ks_free(store->path);
        ks_free(store->engine);
    }
    ks_free(store);
    return err;
}
