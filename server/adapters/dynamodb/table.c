/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dynamodb/table.h"

#include "adapters/dialects/probe.h"
#include "aws/json.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>

enum { LIKENESS_SIZE = 64 };

static void describe(struct ks_dynamodb_table *table);

/* --- What it comes to --- */

static void ask_again(struct ks_dynamodb_table *table, int64_t wait_ms)
{
    ks_loop_timer_set(table->loop, &table->timer,
                      ks_instant_add(ks_loop_now(table->loop), ks_span_ms(wait_ms)));
}

/* Not to be used before somebody has looked; `table->detail` says why. Told once. */
static void unusable(struct ks_dynamodb_table *table, ks_err err)
{
    if (table->state != KS_STORE_UNUSABLE || table->err.code != err.code)
        ks_error("%s %s: %s", table->what, table->name, table->detail.text);
    table->state = KS_STORE_UNUSABLE;
    table->err = err;
    ask_again(table, KS_DYNAMODB_UNUSABLE_MS);
}

static void ready(struct ks_dynamodb_table *table, bool absent)
{
    if (table->state != KS_STORE_READY || table->absent != absent)
        ks_info("%s %s: %s", table->what, table->name, absent ? "is not there" : "is ready");
    table->state = KS_STORE_READY;
    table->absent = absent;
    table->was_ready = true;
    table->err = KS_OK;
    table->detail.text[0] = '\0';
}

/* The role may not, and not: the signature is wrong, or the like. */
static bool is_denied(const struct ks_aws_answer *answer)
{
    return answer->failure != NULL && ks_failure_is_denied(answer->failure);
}

static void failed(struct ks_dynamodb_table *table, const char *operation,
                   const struct ks_aws_answer *answer)
{
    if (table->absent) {
        ask_again(table, KS_DYNAMODB_ABSENT_MS);
        return;
    }
    table->detail = answer->detail;
    if (is_denied(answer))
        ks_dynamodb_table_denied(table, operation, answer->failure, &table->detail);
    if (ks_err_class(answer->err) == KS_CLASS_REPORT) {
        unusable(table, answer->err);
        return;
    }
    if (table->state == KS_STORE_OPENING)
        ks_warn("%s %s: cannot be asked yet: %s", table->what, table->name, table->detail.text);
    table->state = KS_STORE_AWAY;
    ask_again(table, KS_DYNAMODB_AGAIN_MS);
}

void ks_dynamodb_table_denied(const struct ks_dynamodb_table *table, const char *operation,
                              const struct ks_failure *failure, struct ks_detail *ret_detail)
{
    char action[64];
    char resource[KS_DYNAMODB_TABLE_MAX + 16];

    (void)snprintf(action, sizeof(action), "dynamodb:%s", operation);
    (void)snprintf(resource, sizeof(resource), "the table %s", table->name);
    ks_failure_deny(failure, action, resource, ret_detail);
}

/* --- Calls --- */

static void call(struct ks_dynamodb_table *table, const char *operation,
                 ks_err (*put)(struct ks_bytes *body, const struct ks_dynamodb_table *table),
                 void (*done)(void *arg, const struct ks_aws_answer *answer))
{
    struct ks_bytes body;
    ks_err err;

    assert(table->call == NULL);

    ks_bytes_init(&body, KS_DYNAMODB_BODY_MAX);
    err = put(&body, table);
    if (ks_ok(err)) {
        const struct ks_aws_request request = {
            .operation = operation,
            .body = ks_bytes_view(&body),
            .timeout = ks_span_ms(KS_DYNAMODB_CALL_MS),
            .single_attempt = true,
            .response_max = KS_DYNAMODB_ANSWER_MAX,
            .done = done,
            .arg = table,
        };

        err = ks_aws_call(table->client, &request, &table->call);
    }
    ks_bytes_free(&body);
    if (!ks_ok(err)) {
        ks_detail_set(&table->detail, "%s: %s", operation, ks_err_text(err));
        ask_again(table, KS_DYNAMODB_AGAIN_MS);
    }
}

static void created(void *arg, const struct ks_aws_answer *answer)
{
    struct ks_dynamodb_table *const table = arg;

    table->call = NULL;
    if (ks_ok(answer->err))
        ks_info("%s %s: was not there, is being created", table->what, table->name);
    /* EXISTS: another sidecar was first, and it is being created all the same. */
    if (!ks_ok(answer->err) && !ks_err_is(answer->err, KS_ERR_EXISTS)) {
        failed(table, "CreateTable", answer);
        return;
    }
    table->state = KS_STORE_OPENING;
    ks_detail_set(&table->detail, "the table %s is being created", table->name);
    describe(table);
}

/* --- The description --- */

/* ", like a table of --dialect kcl" or nothing. */
static const char *likeness(const char *hash, const char *range, char ret_text[LIKENESS_SIZE])
{
    const char *const dialect = ks_probe_keys(hash, range);

    ret_text[0] = '\0';
    if (dialect != NULL)
        (void)snprintf(ret_text, LIKENESS_SIZE, ", like a table of --dialect %s", dialect);
    return ret_text;
}

/* The name of the key attribute of this type (HASH, RANGE), cut at `capacity`; "" if there is
 * none. */
static void key_name(const struct ks_json *description, ks_view type, char *buffer, size_t capacity)
{
    const struct ks_json *const schema = ks_json_member(description, "KeySchema");

    buffer[0] = '\0';
    for (size_t at = 0; at < ks_json_count(schema); at++) {
        const struct ks_json *const key = ks_json_item(schema, at);
        ks_view key_type = KS_VIEW_NONE;
        ks_view name = KS_VIEW_NONE;

        if (!ks_ok(ks_json_text(ks_json_member(key, "KeyType"), &key_type)) ||
            !ks_view_equal(key_type, type) ||
            !ks_ok(ks_json_text(ks_json_member(key, "AttributeName"), &name)))
            continue;
        if (name.size >= capacity)
            name.size = ks_view_whole_characters(ks_view_of(name.data, capacity - 1));
        if (!ks_ok(ks_view_copy_text(name, buffer, capacity)))
            buffer[0] = '\0';
    }
}

/* True if the attribute is defined as a string. */
static bool is_string(const struct ks_json *description, ks_view name)
{
    const struct ks_json *const all = ks_json_member(description, "AttributeDefinitions");

    for (size_t at = 0; at < ks_json_count(all); at++) {
        ks_view defined = KS_VIEW_NONE;
        ks_view type = KS_VIEW_NONE;

        if (ks_ok(ks_json_text(ks_json_member(ks_json_item(all, at), "AttributeName"), &defined)) &&
            ks_ok(ks_json_text(ks_json_member(ks_json_item(all, at), "AttributeType"), &type)) &&
            ks_view_equal(defined, name))
            return ks_view_equal(type, KS_VIEW("S"));
    }
    return false;
}

/* Of a fleet that we join. */
static bool is_of_dialect(struct ks_dynamodb_table *table, const struct ks_json *description,
                          const char *hash, const char *range)
{
    char text[LIKENESS_SIZE];

    if (strcmp(hash, table->key) == 0 && range[0] == '\0' &&
        is_string(description, ks_view_text(table->key)))
        return true;
    ks_detail_set(&table->detail,
                  "not of this dialect: its key is (%s%s%s)%s, and not (%s) of strings; give "
                  "another --application or --dialect; table %s",
                  hash, range[0] == '\0' ? "" : ", ", range, likeness(hash, range, text),
                  table->key, table->name);
    return false;
}

static bool is_ours(struct ks_dynamodb_table *table, const struct ks_json *description)
{
    char hash[32];
    char range[32];
    char text[LIKENESS_SIZE];

    key_name(description, KS_VIEW("HASH"), hash, sizeof(hash));
    key_name(description, KS_VIEW("RANGE"), range, sizeof(range));
    if (table->key != NULL)
        return is_of_dialect(table, description, hash, range);
    if (strcmp(hash, "p") == 0 && strcmp(range, "k") == 0 && is_string(description, KS_VIEW("p")) &&
        is_string(description, KS_VIEW("k")))
        return true;
    ks_detail_set(&table->detail,
                  "not ours: its key is (%s%s%s)%s, and not (p, k) of strings; give another "
                  "--application or --dialect; table %s",
                  hash, range[0] == '\0' ? "" : ", ", range, likeness(hash, range, text),
                  table->name);
    return false;
}

static void judge(struct ks_dynamodb_table *table, const struct ks_json *description,
                  ks_view request_id)
{
    ks_view status = KS_VIEW_NONE;

    if (!ks_ok(ks_json_text(ks_json_member(description, "TableStatus"), &status))) {
        ks_detail_set(&table->detail, "its description cannot be read");
        ks_failure_name_request(&table->detail, request_id);
        unusable(table, KS_FAIL(MALFORMED));
    } else if (!is_ours(table, description)) {
        unusable(table, KS_FAIL(FOREIGN));
    } else if (ks_view_equal(status, KS_VIEW("ACTIVE")) ||
               ks_view_equal(status, KS_VIEW("UPDATING"))) {
        ready(table, false);
    } else if (ks_view_equal(status, KS_VIEW("CREATING"))) {
        table->state = KS_STORE_OPENING;
        ks_detail_set(&table->detail, "the table %s is being created", table->name);
        ask_again(table, KS_DYNAMODB_CREATING_MS);
    } else {
        ks_detail_set(&table->detail, "it cannot be used now: %.*s",
                      status.size < 64 ? (int)status.size : 64, (const char *)status.data);
        unusable(table, KS_FAIL(UNSUPPORTED));
    }
}

/* --- One that may not be asked for --- */

static bool has_index(const struct ks_json *description, ks_view index)
{
    const struct ks_json *const all = ks_json_member(description, "GlobalSecondaryIndexes");

    for (size_t at = 0; at < ks_json_count(all); at++) {
        ks_view name = KS_VIEW_NONE;

        if (ks_ok(ks_json_text(ks_json_member(ks_json_item(all, at), "IndexName"), &name)) &&
            ks_view_equal(name, index))
            return true;
    }
    return false;
}

/* Nobody has it yet. That can change, so it is asked again. */
static void not_needed(struct ks_dynamodb_table *table)
{
    if (!table->absent)
        ks_warn("%s %s: access denied, taken as not there, as the table %s has no index "
                "%s; allow dynamodb:DescribeTable on it to this role before it has one",
                table->what, table->name, table->beside, table->index);
    ready(table, true);
    ask_again(table, KS_DYNAMODB_ABSENT_MS);
}

static void beside_described(void *arg, const struct ks_aws_answer *answer)
{
    static const struct ks_failure refused = {.message = ""}; /* The words of AWS are gone. */
    struct ks_dynamodb_table *const table = arg;
    struct ks_json *document = NULL;

    table->call = NULL;
    if (!ks_ok(answer->err) && !ks_err_is(answer->err, KS_ERR_NOT_FOUND)) {
        failed(table, "DescribeTable", answer);
        return;
    }
    if (!ks_ok(answer->err) || !ks_ok(ks_json_parse(answer->body, &document)))
        document = NULL;
    if (has_index(ks_json_member(document, "Table"), ks_view_text(table->index))) {
        table->absent = false;
        ks_dynamodb_table_denied(table, "DescribeTable", &refused, &table->detail);
        unusable(table, KS_FAIL(DENIED));
    } else {
        not_needed(table);
    }
    ks_json_free(document);
}

static ks_err put_describe_beside(struct ks_bytes *body, const struct ks_dynamodb_table *table)
{
    return ks_dynamodb_put_describe(body, table->beside);
}

/* --- Looks --- */

static ks_err put_create(struct ks_bytes *body, const struct ks_dynamodb_table *table)
{
    return ks_dynamodb_put_create(body, table->name, table->key);
}

/* It is not there. */
static void make(struct ks_dynamodb_table *table)
{
    struct ks_detail awaited = {""};

    if (table->may_make == NULL || table->may_make(table->may_make_arg, &awaited)) {
        call(table, "CreateTable", put_create, created);
        return;
    }
    ks_detail_set(&table->detail, "the table %s is not there, and is made later: %s", table->name,
                  awaited.text);
    ask_again(table, KS_DYNAMODB_CREATING_MS);
}

static void described(void *arg, const struct ks_aws_answer *answer)
{
    struct ks_dynamodb_table *const table = arg;
    struct ks_json *document = NULL;

    table->call = NULL;
    if (ks_err_is(answer->err, KS_ERR_NOT_FOUND) && table->optional) {
        ready(table, true);
        ask_again(table, KS_DYNAMODB_ABSENT_MS);
    } else if (ks_err_is(answer->err, KS_ERR_NOT_FOUND) && table->was_ready) {
        ks_detail_set(&table->detail,
                      "the lease table is gone, and with it every checkpoint: restore it, or "
                      "restart to begin anew");
        unusable(table, KS_FAIL(NOT_FOUND));
    } else if (ks_err_is(answer->err, KS_ERR_NOT_FOUND)) {
        make(table);
    } else if (is_denied(answer) && table->beside != NULL) {
        call(table, "DescribeTable", put_describe_beside, beside_described);
    } else if (!ks_ok(answer->err)) {
        failed(table, "DescribeTable", answer);
    } else {
        /* A document that cannot be read has no description. */
        if (!ks_ok(ks_json_parse(answer->body, &document)))
            document = NULL;
        judge(table, ks_json_member(document, "Table"), answer->request_id);
        ks_json_free(document);
    }
}

static ks_err put_describe(struct ks_bytes *body, const struct ks_dynamodb_table *table)
{
    return ks_dynamodb_put_describe(body, table->name);
}

static void describe(struct ks_dynamodb_table *table)
{
    call(table, "DescribeTable", put_describe, described);
}

static void due(struct ks_timer *timer)
{
    describe(KS_LIST_ENTRY(timer, struct ks_dynamodb_table, timer));
}

/* --- Opening --- */

/* CreateTable: 3 to 255 characters of [a-zA-Z0-9_.-]. */
static bool is_table_name(ks_view name)
{
    for (size_t at = 0; at < name.size; at++) {
        const uint8_t c = name.data[at];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '_' && c != '.' && c != '-')
            return false;
    }
    return name.size >= KS_DYNAMODB_TABLE_MIN && name.size <= KS_DYNAMODB_TABLE_MAX;
}

ks_err ks_dynamodb_table_open(struct ks_dynamodb_table *table, struct ks_loop *loop,
                              struct ks_aws_client *client, const char *what, const char *name,
                              const char *key, bool optional, const char *beside, const char *index,
                              struct ks_detail *ret_detail)
{
    if (!is_table_name(ks_view_text(name))) {
        ks_detail_set(ret_detail,
                      "no name for a DynamoDB table (%d to %d of a-z A-Z 0-9 _ . -): %s",
                      KS_DYNAMODB_TABLE_MIN, KS_DYNAMODB_TABLE_MAX, name);
        return KS_FAIL(INVALID);
    }
    *table = (struct ks_dynamodb_table){.loop = loop,
                                        .client = client,
                                        .what = what,
                                        .key = key,
                                        .optional = optional,
                                        .beside = index == NULL ? NULL : beside,
                                        .index = index,
                                        .state = KS_STORE_OPENING,
                                        .timer.due = due};
    KS_TRY(ks_view_copy_text(ks_view_text(name), table->name, sizeof(table->name)));
    ks_detail_set(&table->detail, "the table %s was not reached yet", table->name);
    describe(table);
    return KS_OK;
}

void ks_dynamodb_table_close(struct ks_dynamodb_table *table)
{
    ks_loop_timer_clear(table->loop, &table->timer);
    if (table->call != NULL)
        ks_aws_cancel(table->call);
    table->call = NULL;
}

void ks_dynamodb_table_gone(struct ks_dynamodb_table *table)
{
    if (table->state != KS_STORE_READY || table->absent)
        return;
    assert(table->call == NULL);

    table->state = KS_STORE_OPENING;
    ks_detail_set(&table->detail, "the table %s was not found", table->name);
    describe(table);
}
