/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dynamodb/store.h"

#include "adapters/asks.h"
#include "adapters/dialects/probe.h"
#include "adapters/dynamodb/table.h"
#include "adapters/dynamodb/wire.h"
#include "aws/limits.h"
#include "aws/traffic.h"
#include "base/budget.h"

#include <assert.h>

struct dynamodb_store {
    struct ks_lease_store port;
    struct ks_loop *loop;
    struct ks_aws_client *client;
    struct ks_asks asks;
    struct ks_dynamodb_table tables[KS_DIALECT_TABLES_MAX];
    uint32_t table_count;
    bool looked;           /* native: a look at the leases found nobody else's rows. */
    struct ks_bytes body;  /* Of the request that is being written. */
    struct ks_bytes texts; /* Of the item that is being read. */
};

static struct dynamodb_store *of_port(struct ks_lease_store *store)
{
    return KS_LIST_ENTRY(store, struct dynamodb_store, port);
}

static struct dynamodb_store *of_ask(const struct ks_ask *ask)
{
    return KS_LIST_ENTRY(ask->asks, struct dynamodb_store, asks);
}

static struct ks_dynamodb_table *table_of(struct dynamodb_store *store,
                                          const struct ks_ask_work *work)
{
    assert(work->table < store->table_count);
    return &store->tables[work->table];
}

/* Operations that read a partition. */
static bool reads_all(const struct ks_ask_work *work)
{
    return !ks_native_writes(work->operation) &&
           (work->keys.count == 0 || work->operation == KS_STORE_READ_OWNED);
}

/* Operations that read several rows by their keys. */
static bool reads_some(const struct ks_ask_work *work)
{
    return work->operation == KS_STORE_READ_NEWS &&
           (work->partition != NULL || work->keys.count > 1);
}

/* A native worker writes its own row before it reads any lease: whose table it is must be known first. The members of
 * other fleets read first. */
static bool looks_first(const struct dynamodb_store *store, const struct ks_ask_work *work)
{
    return !store->looked && store->asks.dialect == &ks_native_dialect &&
           (work->operation == KS_STORE_REGISTER_NEW || work->operation == KS_STORE_REGISTER_DEAD ||
            work->operation == KS_STORE_REGISTER_SILENT ||
            work->operation == KS_STORE_REGISTER_CORPSE);
}

static const char *operation_of(const struct ks_ask_work *work)
{
    if (work->looks)
        return "Query";
    if (ks_native_writes(work->operation))
        return ks_dynamodb_write_operation(&work->write);
    if (reads_some(work))
        return "BatchGetItem";
    if (!reads_all(work))
        return "GetItem";
    return work->partition != NULL || work->operation == KS_STORE_READ_OWNED ? "Query" : "Scan";
}

/* --- Sending --- */

static void done(void *arg, const struct ks_aws_answer *answer);

static ks_err put_body(struct dynamodb_store *store, const struct ks_ask_work *work, ks_view after)
{
    const char *const table = table_of(store, work)->name;
    const char *const key = table_of(store, work)->key;

    ks_bytes_clear(&store->body);
    if (work->looks)
        return ks_dynamodb_put_query(&store->body, table, KS_NATIVE_LEASES, after, true);
    if (ks_native_writes(work->operation))
        return ks_dynamodb_put_write(&store->body, table, &work->write,
                                     work->operation == KS_STORE_HEARTBEAT);
    if (reads_some(work))
        return ks_dynamodb_put_batch_get(&store->body, table, key, work->partition, &work->keys);
    if (work->operation == KS_STORE_READ_OWNED)
        return ks_dynamodb_put_index_query(&store->body, table, key, store->asks.dialect->index,
                                           store->asks.dialect->index_key,
                                           ks_view_text(work->keys.texts[0]), after);
    if (!reads_all(work))
        return ks_dynamodb_put_get(&store->body, table, key, work->partition, work->keys.texts[0]);
    if (key != NULL)
        return ks_dynamodb_put_scan(&store->body, table, key, after, work->consistent);
    return ks_dynamodb_put_query(&store->body, table, work->partition, after, work->consistent);
}

/* Sends the request of an ask, or the one for its next page. A table of many rows is read as long as pages come. */
static void send(struct dynamodb_store *store, struct ks_ask *ask, ks_view after)
{
    const struct ks_ask_work *const work = ask->work;
    const bool writes = ks_native_writes(work->operation) && !work->looks;
    struct ks_aws_call *call = NULL;
    ks_span left;
    ks_err err;

    if (reads_all(work))
        ks_ask_page(ask);
    left = ks_instant_since(work->deadline, ks_loop_now(store->loop));
    err = left.us <= 0 ? KS_FAIL(TIMEOUT) : put_body(store, work, after);
    if (ks_ok(err)) {
        const struct ks_aws_request request = {
            .operation = operation_of(work),
            .body = ks_bytes_view(&store->body),
            /* A read that is lost has time for another one. */
            .timeout = writes ? left : ks_span_us(left.us / 2),
            .total = left,
            .conditional = writes,
            .response_max = KS_JSON_BYTES_MAX,
            .done = done,
            .arg = ask,
        };

        err = ks_aws_call(store->client, &request, &call);
    }
    ask->call = call;
    if (!ks_ok(err))
        ks_ask_refuse(ask, err, NULL);
}

/* --- Answers --- */

/* Two applications, or two dialects, on one table: each would read every record again. */
static ks_err check_row(const struct dynamodb_store *store, struct ks_ask_work *work,
                        const struct ks_json *json, const struct ks_item *item)
{
    struct ks_json_cursor cursor = {.at = NULL};
    struct ks_probe probe = {.marks = {0}};
    const struct ks_json *value;
    const char *stranger;
    ks_view name;

    while (ks_json_each(json, &cursor, &name, &value))
        ks_probe_see(&probe, name);
    stranger = ks_probe_stranger(&probe, item->schema);
    if (stranger == NULL)
        return KS_OK;
    return ks_err_because(
        KS_FAIL(FOREIGN), &work->detail,
        "two dialects on one table: the row %.*s is of --dialect %s, and not of %s; "
        "give each its own, and take out those rows",
        item->k.size < 64 ? (int)item->k.size : 64, (const char *)item->k.data, stranger,
        store->asks.dialect->name);
}

/* Of a read by keys or of a write only the rows that it named are an answer: the core knows which one it asked for. */
static bool was_asked(const struct ks_ask_work *work, const struct ks_item *item)
{
    const bool writes = ks_native_writes(work->operation) && !work->looks;
    const char *const p = writes ? work->write.p : work->partition;

    if (p != NULL && !ks_view_equal(item->p, ks_view_text(p)))
        return false;
    if (writes)
        return ks_view_equal(item->k, ks_view_text(work->write.k));
    if (work->looks || reads_all(work))
        return true;
    for (uint32_t at = 0; at < work->keys.count; at++)
        if (ks_view_equal(item->k, ks_view_text(work->keys.texts[at])))
            return true;
    return false;
}

static ks_err add_item(struct dynamodb_store *store, struct ks_ask_work *work,
                       const struct ks_json *json)
{
    struct ks_item item;

    KS_TRY(ks_dynamodb_read_item(json, store->asks.dialect->tables[work->table].schema,
                                 &store->texts, &item));
    if (!was_asked(work, &item))
        return ks_err_because(KS_FAIL(MALFORMED), &work->detail,
                              "%s answered a row that was not asked for", operation_of(work));
    KS_TRY(check_row(store, work, json, &item));
    work->rows.asked = UINT32_MAX;
    item.asked = &work->rows.asked;
    return store->asks.dialect->add(&work->rows, &item, &work->detail);
}

static ks_err add_items(struct dynamodb_store *store, struct ks_ask_work *work,
                        const struct ks_json *items)
{
    if (!ks_json_is_array(items))
        return KS_FAIL(MALFORMED);
    for (size_t at = 0; at < ks_json_count(items); at++)
        KS_TRY(add_item(store, work, ks_json_item(items, at)));
    return KS_OK;
}

/* The rows of a page. `ret_after` is the key behind which the next one begins, or empty. */
static ks_err read_page(struct dynamodb_store *store, struct ks_ask_work *work,
                        const struct ks_json *page, ks_view *ret_after)
{
    const struct ks_json *const last = ks_json_member(page, "LastEvaluatedKey");
    const char *const key = table_of(store, work)->key;
    const char *const k = key == NULL ? "k" : key;

    *ret_after = KS_VIEW_NONE;
    KS_TRY(add_items(store, work, ks_json_member(page, "Items")));
    if (last == NULL)
        return KS_OK;
    if (!ks_ok(ks_json_text(ks_json_member(ks_json_member(last, k), "S"), ret_after)) ||
        ret_after->size == 0)
        return KS_FAIL(MALFORMED);
    return KS_OK;
}

/* The row that GetItem or UpdateItem answered, if there is one. */
static ks_err read_row(struct dynamodb_store *store, struct ks_ask_work *work, ks_view body,
                       const char *member)
{
    struct ks_json *document = NULL;
    ks_err err;

    KS_TRY(ks_json_parse(body, &document));
    err = ks_json_member(document, member) == NULL
              ? KS_OK
              : add_item(store, work, ks_json_member(document, member));
    ks_json_free(document);
    return err;
}

/* A whole partition may take several pages: false when the next one was sent for. */
static bool finish_query(struct dynamodb_store *store, struct ks_ask *ask, ks_view body)
{
    struct ks_ask_work *const work = ask->work;
    struct ks_json *document = NULL;
    ks_view after = KS_VIEW_NONE;

    work->err = ks_json_parse(body, &document);
    if (ks_ok(work->err))
        work->err = read_page(store, work, document, &after);
    if (ks_ok(work->err) && after.size != 0)
        send(store, ask, after);
    ks_json_free(document);
    if (ks_ok(work->err) && after.size == 0)
        work->outcome = KS_DONE;
    return !ks_ok(work->err) || after.size == 0;
}

/* The look before the first write. False when what comes next was sent: the next page, or the write. */
static bool finish_look(struct dynamodb_store *store, struct ks_ask *ask, ks_view body)
{
    struct ks_ask_work *const work = ask->work;

    if (!finish_query(store, ask, body))
        return false;
    if (!ks_ok(work->err))
        return true;
    store->looked = true;
    work->looks = false;
    ks_native_rows_free(&work->rows);
    work->outcome = KS_UNKNOWN;
    send(store, ask, KS_VIEW_NONE);
    return false;
}

/* The rows of a batch, and in work->keys those that it left out. One that gave none of what it was asked for is not
 * asked again at once: so they become fewer each time. */
static ks_err read_batch(struct dynamodb_store *store, struct ks_ask_work *work,
                         const struct ks_json *batch)
{
    const char *const table = table_of(store, work)->name;
    struct ks_item_keys left;

    KS_TRY(add_items(store, work, ks_json_member(ks_json_member(batch, "Responses"), table)));
    KS_TRY(
        ks_dynamodb_read_unprocessed(batch, table, table_of(store, work)->key, &work->keys, &left));
    if (left.count == work->keys.count)
        return KS_FAIL(THROTTLED);
    work->keys = left;
    return KS_OK;
}

/* False when what is left was sent for. */
static bool finish_batch(struct dynamodb_store *store, struct ks_ask *ask, ks_view body)
{
    struct ks_ask_work *const work = ask->work;
    struct ks_json *document = NULL;

    work->err = ks_json_parse(body, &document);
    if (ks_ok(work->err))
        work->err = read_batch(store, work, document);
    ks_json_free(document);
    if (!ks_ok(work->err))
        return true;
    if (work->keys.count != 0) {
        send(store, ask, KS_VIEW_NONE);
        return false;
    }
    work->outcome = KS_DONE;
    return true;
}

static void finish_write(struct dynamodb_store *store, struct ks_ask_work *work,
                         const struct ks_aws_answer *answer)
{
    const bool tells = work->operation == KS_STORE_HEARTBEAT;
    ks_err err = KS_OK;

    work->outcome = ks_ok(answer->err) ? KS_DONE : KS_REFUSED;
    if (work->outcome == KS_REFUSED)
        err = read_row(store, work, answer->body, "Item");
    else if (tells)
        err = read_row(store, work, answer->body, "Attributes");
    /* A heartbeat whose row cannot be read may hide a give: it is not known what came of it. Of a
     * refusal the row is only a courtesy. */
    if (!ks_ok(err) && work->outcome == KS_DONE) {
        work->outcome = KS_UNKNOWN;
        work->err = err;
    } else if (!ks_ok(err)) {
        ks_native_rows_free(&work->rows);
    }
}

static void finish_failure(struct dynamodb_store *store, struct ks_ask_work *work,
                           const struct ks_aws_answer *answer)
{
    work->err = answer->err;
    work->detail = answer->detail;
    if (answer->failure == NULL)
        return;
    if (ks_failure_is_denied(answer->failure))
        ks_dynamodb_table_denied(table_of(store, work), operation_of(work), answer->failure,
                                 &work->detail);
    /* Whoever makes the index takes his time; until then all rows are looked at. */
    if (work->operation == KS_STORE_READ_OWNED &&
        strcmp(answer->failure->code, "ValidationException") == 0)
        work->err = KS_FAIL(BUSY);
    /* The table tells what has become of it; this request has only come in between. */
    if (strcmp(answer->failure->code, "ResourceNotFoundException") == 0) {
        work->err = KS_FAIL(BUSY);
        ks_dynamodb_table_gone(table_of(store, work));
    }
}

/* What came is no answer. Whoever asks AWS what happened needs the request. */
static void explain_garbage(struct ks_ask_work *work, const struct ks_aws_answer *answer)
{
    ks_traffic_failed("dynamodb", work->err);
    if (work->detail.text[0] != '\0')
        return;
    ks_detail_set(&work->detail, "%s on dynamodb, %zu bytes: %s", operation_of(work),
                  answer->body.size, ks_err_text(work->err));
    ks_failure_name_request(&work->detail, answer->request_id);
}

static void done(void *arg, const struct ks_aws_answer *answer)
{
    struct ks_ask *const ask = arg;
    struct ks_ask_work *const work = ask->work;
    struct dynamodb_store *const store = of_ask(ask);
    const bool writes = ks_native_writes(work->operation) && !work->looks;

    ask->call = NULL;
    if (writes && (ks_ok(answer->err) || ks_err_is(answer->err, KS_ERR_CONDITION))) {
        finish_write(store, work, answer);
    } else if (!ks_ok(answer->err)) {
        finish_failure(store, work, answer);
    } else if (work->looks) {
        if (!finish_look(store, ask, answer->body))
            return;
    } else if (reads_some(work)) {
        if (!finish_batch(store, ask, answer->body))
            return;
    } else if (reads_all(work)) {
        if (!finish_query(store, ask, answer->body))
            return;
    } else {
        work->err = read_row(store, work, answer->body, "Item");
        if (ks_ok(work->err))
            work->outcome = KS_DONE;
    }
    if (ks_ok(answer->err) && ks_err_is(work->err, KS_ERR_MALFORMED))
        explain_garbage(work, answer);
    ks_ask_answer(ask);
}

/* --- The store --- */

/* There is no such table: a read finds nothing, and so does who deletes its row; another write is not done. Told in the
 * next turn. */
static void ask_nobody(struct ks_ask *ask, const struct ks_dynamodb_table *table)
{
    struct ks_detail detail;

    ks_detail_set(&detail, "the table %s is not there", table->name);
    if (!ks_native_writes(ask->work->operation) || ask->work->operation == KS_STORE_SAY_GONE)
        ask->work->outcome = KS_DONE;
    ks_ask_refuse(ask, KS_FAIL(NOT_FOUND), detail.text);
}

static void ask_table(struct ks_lease_store *port, const struct ks_store_request *request)
{
    struct dynamodb_store *const store = of_port(port);
    struct ks_ask *const ask = ks_asks_take(&store->asks, request);
    const struct ks_dynamodb_table *table;

    if (ask == NULL)
        return;
    table = table_of(store, ask->work);
    ask->work->looks = looks_first(store, ask->work);
    if (table->state != KS_STORE_READY)
        ks_ask_refuse(ask, table->state == KS_STORE_UNUSABLE ? table->err : KS_FAIL(BUSY),
                      table->detail.text);
    else if (table->absent)
        ask_nobody(ask, table);
    else
        send(store, ask, KS_VIEW_NONE);
}

static void forget(struct ks_asks *asks, struct ks_ask *ask)
{
    (void)asks;
    if (ask->call != NULL)
        ks_aws_cancel(ask->call);
    ask->call = NULL;
}

static enum ks_store_state state(const struct ks_lease_store *port, struct ks_detail *ret_detail)
{
    const struct dynamodb_store *const store =
        (const struct dynamodb_store *)(const void *)((const char *)port -
                                                      offsetof(struct dynamodb_store, port));

    for (uint32_t at = 0; at < store->table_count; at++) {
        if (store->tables[at].state == KS_STORE_READY)
            continue;
        ks_detail_set(ret_detail, "%s", store->tables[at].detail.text);
        return store->tables[at].state;
    }
    return ks_asks_state(&store->asks, ret_detail);
}

static void close_tables(struct dynamodb_store *store)
{
    for (uint32_t at = 0; at < store->table_count; at++)
        ks_dynamodb_table_close(&store->tables[at]);
    store->table_count = 0;
}

static void close_store(struct ks_lease_store *port)
{
    struct dynamodb_store *const store = of_port(port);

    ks_asks_end(&store->asks);
    close_tables(store);
    ks_bytes_free(&store->body);
    ks_bytes_free(&store->texts);
    ks_free(store);
}

static const struct ks_lease_store_vtable vtable = {
    .ask = ask_table, .state = state, .close = close_store};

static ks_err open_tables(struct dynamodb_store *store, const char *name,
                          const struct ks_dialect *dialect, struct ks_detail *ret_detail)
{
    for (uint32_t at = 0; at < dialect->table_count; at++) {
        const struct ks_dialect_table *const table = &dialect->tables[at];
        struct ks_bytes whole;
        ks_err err;

        ks_bytes_init(&whole, KS_DYNAMODB_BODY_MAX);
        err = ks_bytes_format(&whole, "%s%s%c", name, table->suffix, '\0');
        if (ks_ok(err))
            err = ks_dynamodb_table_open(&store->tables[at], store->loop, store->client,
                                         "lease table", (const char *)whole.data,
                                         table->schema->key, table->optional,
                                         at > 0 && table->optional ? store->tables[0].name : NULL,
                                         dialect->index, ret_detail);
        ks_bytes_free(&whole);
        KS_TRY(err);
        store->table_count++;
    }
    return KS_OK;
}

void ks_dynamodb_store_make_when(struct ks_lease_store *port, ks_dynamodb_may_make *may_make,
                                 void *arg)
{
    struct dynamodb_store *const store = KS_LIST_ENTRY(port, struct dynamodb_store, port);

    for (uint32_t at = 0; at < store->table_count; at++) {
        store->tables[at].may_make = may_make;
        store->tables[at].may_make_arg = arg;
    }
}

ks_err ks_dynamodb_store_open(struct ks_loop *loop, struct ks_aws_client *client, const char *table,
                              const struct ks_dialect *dialect, struct ks_lease_store **ret_store,
                              struct ks_detail *ret_detail)
{
    struct dynamodb_store *const store = ks_alloc(sizeof(*store));
    ks_err err;

    if (store == NULL)
        return KS_FAIL(NO_MEMORY);
    *store = (struct dynamodb_store){.port.vtable = &vtable, .loop = loop, .client = client};
    ks_bytes_init(&store->body, KS_DYNAMODB_BODY_MAX);
    ks_bytes_init(&store->texts, KS_JSON_BYTES_MAX);
    err = ks_asks_init(&store->asks, loop, store->tables[0].name, forget);
    if (!ks_ok(err)) {
        ks_free(store);
        return err;
    }
    store->asks.dialect = dialect;
    err = open_tables(store, table, dialect, ret_detail);
    if (!ks_ok(err)) {
        close_tables(store);
        ks_asks_end(&store->asks);
        ks_free(store);
        return err;
    }
    *ret_store = &store->port;
    return KS_OK;
}
