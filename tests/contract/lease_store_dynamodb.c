/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/lease_store_dynamodb.h"

#include "adapters/dynamodb/store.h"
#include "adapters/dynamodb/wire.h"
#include "aws/json.h"
#include "base/digest.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct dynamodb_world world;

static bool was_answered;

static void raw_done(void *arg, const struct ks_aws_answer *answer)
{
    struct ks_bytes *const body = arg;

    was_answered = true;
    if (!ks_ok(answer->err))
        FAIL("%s", answer->detail.text);
    ks_bytes_clear(body);
    EXPECT_OK(ks_bytes_append(body, answer->body));
}

void dynamodb_raw(struct lease_rig *rig, const char *operation, ks_view body,
                  struct ks_bytes *ret_answer)
{
    const ks_instant begun = ks_instant_now();
    const struct ks_aws_request request = {.operation = operation,
                                           .body = body,
                                           .timeout = ks_span_ms(30000),
                                           .single_attempt = true,
                                           .response_max = 1 << 20,
                                           .done = raw_done,
                                           .arg = ret_answer};

    was_answered = false;
    EXPECT_OK(ks_aws_call(world.aws.client, &request, NULL));
    while (!was_answered) {
        ks_loop_turn(rig->loop, ks_span_ms(100));
        EXPECT(ks_instant_since(ks_instant_now(), begun).us < 10 * 1000000);
    }
}

bool dynamodb_opens(struct lease_rig *rig, const char *table, struct ks_lease_store **ret_store,
                    struct ks_detail *ret_detail)
{
    return ks_ok(ks_dynamodb_store_open(rig->loop, world.aws.client, table, &ks_native_dialect,
                                        ret_store, ret_detail));
}

struct ks_lease_store *dynamodb_open(struct lease_rig *rig, const char *table)
{
    struct ks_lease_store *store = NULL;
    struct ks_detail detail = {""};

    if (!dynamodb_opens(rig, table, &store, &detail))
        FAIL("%s", detail.text);
    return store;
}

struct ks_lease_store *dynamodb_open_as(struct lease_rig *rig, const char *table,
                                        const struct ks_dialect *dialect)
{
    struct ks_lease_store *store = NULL;
    struct ks_detail detail = {""};

    if (!ks_ok(
            ks_dynamodb_store_open(rig->loop, world.aws.client, table, dialect, &store, &detail)))
        FAIL("%s", detail.text);
    return store;
}

void dynamodb_requests(struct ks_aws_state *ret_state)
{
    ks_aws_client_state(world.aws.client, ret_state);
}

enum ks_store_state dynamodb_await(struct lease_rig *rig, struct ks_lease_store *store,
                                   struct ks_detail *ret_detail)
{
    const ks_instant begun = ks_instant_now();

    while (store->vtable->state(store, ret_detail) == KS_STORE_OPENING) {
        ks_loop_turn(rig->loop, ks_span_ms(20));
        EXPECT(ks_instant_since(ks_instant_now(), begun).us < 10 * 1000000);
    }
    return store->vtable->state(store, ret_detail);
}

void dynamodb_world_open(struct lease_rig *rig, const char *url)
{
    /* A server in Java takes its time with 200 requests at once, on a machine that others use, too. */
    aws_rig_open_with(&world.aws, rig->loop, KS_AWS_DYNAMODB, url,
                      &(struct aws_rig_options){.silence = ks_span_ms(30000)});
}

void dynamodb_world_close(void)
{
    aws_rig_close(&world.aws);
}

const char *dynamodb_table(void)
{
    if (world.table[0] == '\0')
        (void)snprintf(world.table, sizeof(world.table), "leases-%d-%016llx", (int)getpid(),
                       (unsigned long long)ks_random_u64());
    return world.table;
}

/* --- The adapter --- */

static pid_t emulator(void)
{
    return (pid_t)strtol(ks_test_env("KS_DYNAMODB_PID"), NULL, 10);
}

/* True if this thread runs no more. */
static bool is_stopped(const char *stat_path)
{
    char line[512] = "";
    FILE *const stat = fopen(stat_path, "re");
    const char *state;

    if (stat == NULL)
        return true; /* It has ended. */
    if (fgets(line, sizeof(line), stat) == NULL)
        line[0] = '\0';
    (void)fclose(stat);
    state = strrchr(line, ')');
    return state == NULL || strncmp(state, ") T", 3) == 0;
}

static bool all_stopped(pid_t process)
{
    char pattern[64];
    glob_t threads;
    bool stopped = true;

    (void)snprintf(pattern, sizeof(pattern), "/proc/%d/task/*/stat", (int)process);
    EXPECT_EQ_I64(glob(pattern, 0, NULL, &threads), 0);
    for (size_t at = 0; at < threads.gl_pathc; at++)
        stopped = stopped && is_stopped(threads.gl_pathv[at]);
    globfree(&threads);
    return stopped;
}

void dynamodb_stop(void)
{
    EXPECT_EQ_I64(kill(emulator(), SIGSTOP), 0);
    while (!all_stopped(emulator()))
        (void)usleep(1000);
}

void dynamodb_go_on(void)
{
    EXPECT_EQ_I64(kill(emulator(), SIGCONT), 0);
}

static void set_up(struct lease_rig *rig)
{
    dynamodb_go_on(); /* A test that failed may have left it stopped. */
    dynamodb_world_open(rig, ks_test_env("KS_DYNAMODB_URL"));
    (void)dynamodb_table();
}

static struct ks_lease_store *open_store(struct lease_rig *rig)
{
    struct ks_lease_store *const store = dynamodb_open(rig, dynamodb_table());
    const ks_instant begun = ks_instant_now();
    struct ks_detail detail;

    /* An emulator on a crowded machine may say nothing for many seconds; the store asks again. */
    while (store->vtable->state(store, &detail) != KS_STORE_READY) {
        ks_loop_turn(rig->loop, ks_span_ms(20));
        EXPECT(ks_instant_since(ks_instant_now(), begun).us < 60 * 1000000);
    }
    return store;
}

static void poke(struct lease_rig *rig, const char *p, const char *k, const char *name,
                 enum ks_value_type type, const char *text)
{
    struct ks_item_write write;
    struct ks_bytes body;
    struct ks_bytes answer;

    EXPECT_OK(ks_item_write_init(&write, p, k, 64));
    /* Always: there is a row, or there is none. The store never writes without a condition. */
    ks_item_write_if(&write, KS_IF_EQUALS_OR_ABSENT, "p",
                     (struct ks_value){KS_VALUE_TEXT, ks_view_text(p)});
    ks_item_write_do(&write, text == NULL ? KS_DO_REMOVE : KS_DO_SET, name,
                     (struct ks_value){type, ks_view_text(text == NULL ? "" : text)});
    ks_bytes_init(&body, 1 << 20);
    ks_bytes_init(&answer, 1 << 20);
    EXPECT_OK(ks_dynamodb_put_write(&body, world.table, &write, false));
    dynamodb_raw(rig, "UpdateItem", ks_bytes_view(&body), &answer);
    ks_bytes_free(&body);
    ks_bytes_free(&answer);
    ks_item_write_free(&write);
}

static void peek(struct lease_rig *rig, const char *p, const char *k, const char *name,
                 char *buffer, size_t size)
{
    struct ks_attribute attribute = {name, KS_VALUE_TEXT};
    const struct ks_schema schema = {.attributes = &attribute, .count = 1};
    struct ks_json *document = NULL;
    struct ks_bytes body;
    struct ks_bytes texts;
    struct ks_item item;

    ks_bytes_init(&body, 1 << 20);
    ks_bytes_init(&texts, 1 << 20);
    EXPECT_OK(ks_dynamodb_put_get(&body, world.table, NULL, p, k));
    dynamodb_raw(rig, "GetItem", ks_bytes_view(&body), &body);
    EXPECT_OK(ks_json_parse(ks_bytes_view(&body), &document));
    /* Of whatever type it is. */
    for (int type = KS_VALUE_TEXT; type <= KS_VALUE_BOOL; type++) {
        attribute.type = (enum ks_value_type)type;
        EXPECT_OK(ks_dynamodb_read_item(ks_json_member(document, "Item"), &schema, &texts, &item));
        if (item.presence[0] != KS_STRANGE)
            break;
    }
    buffer[0] = '\0';
    if (item.presence[0] == KS_PRESENT)
        EXPECT_OK(ks_view_copy_text(item.texts[0], buffer, size));
    ks_json_free(document);
    ks_bytes_free(&body);
    ks_bytes_free(&texts);
}

/* What was sent waits in its socket, and is done when it goes on. */
static void hold(struct lease_rig *rig)
{
    (void)rig;
    dynamodb_stop();
}

static void release(struct lease_rig *rig)
{
    (void)rig;
    dynamodb_go_on();
}

static void tear_down(struct lease_rig *rig)
{
    (void)rig;
    dynamodb_world_close();
}

const struct lease_rig_adapter lease_rig_dynamodb = {
    .name = "dynamodb",
    .set_up = set_up,
    .open = open_store,
    .poke = poke,
    .peek = peek,
    .hold = hold,
    .release = release,
    .tear_down = tear_down,
};
