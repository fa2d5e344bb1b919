/* SPDX-License-Identifier: Apache-2.0 */
/* letter_claims_s3_test.c - the world of claims_world.h on a bucket: the whole of adapters/s3, a store for each worker.
 *
 * This program plays the client of aws/client.h and the loop's timers, in virtual time: a request that gets no answer
 * is sent again, up to ATTEMPTS times, while an earlier one may still land; S3 may also refuse one because it is
 * busy. The bucket is tests/lib/object_bucket.h. An object that was written, claimed or removed was so by one
 * request, and the oracle judges that when it lands.
 */
#include "adapters/s3/letters.h"

#include <stdio.h>
#include <string.h>

#include "adapters/s3/letter_object.h"
#include "contract/claims_world.h"

#include "ks_test.h"
#include "object_bucket.h"

enum {
    SEEDS = 200,
    CHANGES = 64,
    CALLS = 64,
    FLIGHTS = 96,
    TIMERS = 64,
    ATTEMPTS = 3,
    PAUSE_MS = 100
};

static const int64_t NEVER = INT64_MAX;

#define FOLDER "p/app/demo/"

/* A change that a worker waits for. */
struct asked {
    bool used;
    struct claims_change change;
};

struct ks_loop {
    struct ks_timer *timers[TIMERS];
};

struct ks_aws_client {
    uint32_t worker;
};

struct ks_aws_call {
    bool used;
    const struct asked *asked; /* NULL: of the look at the start, which is not answered. */
    struct object_request request;
    void (*done)(void *arg, const struct ks_aws_answer *answer);
    void *arg;
    int64_t deadline;
    uint32_t attempts;
    uint64_t flight; /* The attempt that is waited for. */
    struct claims_message message;
    struct object_answer answer; /* Once it has landed. */
};

/* A request on its way. Nobody may wait for it any more. */
struct flight {
    bool used;
    uint64_t number;
    int64_t lands;
    struct object_request request;
    struct claims_change change;
};

static struct ks_loop loop;
static struct ks_aws_client clients[CLAIMS_WORKERS];
static struct ks_dead_letters *stores[CLAIMS_WORKERS];
static struct asked changes[CHANGES];
static struct ks_aws_call calls[CALLS];
static struct flight flights[FLIGHTS];
static uint64_t flight_numbers;
static struct object_bucket bucket;
static const struct asked *acting; /* The change whose requests are made now. */

/* ---- The loop ---- */

ks_instant ks_instant_now(void)
{
    return (ks_instant){claims_now() * 1000};
}

ks_wall ks_wall_now(void)
{
    return (ks_wall){claims_now()};
}

ks_instant ks_loop_now(const struct ks_loop *of)
{
    EXPECT(of == &loop);
    return ks_instant_now();
}

void ks_loop_timer_clear(struct ks_loop *of, struct ks_timer *timer)
{
    for (uint32_t at = 0; at < TIMERS; at++)
        if (of->timers[at] == timer)
            of->timers[at] = NULL;
}

void ks_loop_timer_set(struct ks_loop *of, struct ks_timer *timer, ks_instant at)
{
    uint32_t free_at = 0;

    ks_loop_timer_clear(of, timer);
    while (free_at < TIMERS && of->timers[free_at] != NULL)
        free_at++;
    EXPECT(free_at < TIMERS);
    timer->at = at;
    of->timers[free_at] = timer;
}

static void turn_timers(void)
{
    for (uint32_t at = 0; at < TIMERS; at++) {
        struct ks_timer *const timer = loop.timers[at];

        if (timer == NULL || !ks_instant_reached(ks_instant_now(), timer->at))
            continue;
        loop.timers[at] = NULL;
        timer->due(timer);
    }
}

/* ---- The client ---- */

static void copy(ks_view text, char *ret_text, size_t size)
{
    EXPECT_OK(ks_view_copy_text(text, ret_text, size));
}

/* The request of S3 that this is. */
static void read_request(const struct ks_aws_request *request, struct object_request *ret_request)
{
    const struct ks_aws_rest *const rest = request->rest;

    *ret_request = (struct object_request){.method = rest->method};
    copy(rest->path, ret_request->key, sizeof ret_request->key);
    copy(request->body, ret_request->body, sizeof ret_request->body);
    for (uint32_t at = 0; at < rest->header_count; at++) {
        if (ks_view_equal(rest->headers[at].name, KS_VIEW("If-Match")))
            copy(rest->headers[at].value, ret_request->if_match, sizeof ret_request->if_match);
        if (ks_view_equal(rest->headers[at].name, KS_VIEW("If-None-Match")))
            ret_request->if_none_match = ks_view_equal(rest->headers[at].value, KS_VIEW("*"));
    }
    for (uint32_t at = 0; at < rest->parameter_count; at++)
        if (ks_view_equal(rest->parameters[at].name, KS_VIEW("prefix"))) {
            ret_request->method = "LIST";
            copy(rest->parameters[at].value, ret_request->key, sizeof ret_request->key);
        }
}

static void attempt(struct ks_aws_call *call)
{
    struct flight *flight = flights;

    while (flight < flights + FLIGHTS && flight->used)
        flight++;
    EXPECT(flight < flights + FLIGHTS);
    call->attempts++;
    call->message = claims_send();
    if (call->message.answers > call->deadline) {
        call->message.answers = call->deadline;
        call->message.is_heard = false;
    }
    *flight = (struct flight){.used = call->message.lands != NEVER,
                              .number = ++flight_numbers,
                              .lands = call->message.lands,
                              .request = call->request,
                              .change = call->asked->change};
    call->flight = flight->number;
}

ks_err ks_aws_call(struct ks_aws_client *client, const struct ks_aws_request *request,
                   struct ks_aws_call **ret_call)
{
    struct ks_aws_call *call = calls;

    EXPECT(acting == NULL || acting->change.worker == client->worker);
    while (call < calls + CALLS && call->used)
        call++;
    EXPECT(call < calls + CALLS);
    *call = (struct ks_aws_call){.used = true,
                                 .asked = acting,
                                 .done = request->done,
                                 .arg = request->arg,
                                 .deadline = claims_now() + ks_span_to_ms(request->total)};
    *ret_call = call;
    read_request(request, &call->request);
    if (acting != NULL)
        attempt(call);
    return KS_OK;
}

void ks_aws_cancel(struct ks_aws_call *call)
{
    EXPECT(call->used);
    call->used = false;
}

int64_t ks_aws_client_now_ms(const struct ks_aws_client *client)
{
    (void)client;
    return claims_clock_of_worker();
}

static void give(struct ks_aws_call *call, ks_err err)
{
    static struct ks_failure failure;
    const struct ks_aws_call given = *call;
    char head[OBJECT_ETAG_MAX + 16];
    struct ks_aws_answer answer = {.err = err,
                                   .status = given.answer.status,
                                   .sent = true,
                                   .attempts = given.attempts,
                                   .body = ks_view_text(given.answer.body)};

    (void)snprintf(head, sizeof head, "ETag: %s\r\n", given.answer.etag);
    answer.head = given.answer.etag[0] == '\0' ? KS_VIEW("") : ks_view_text(head);
    if (answer.status / 100 > 2) {
        ks_failure_read(answer.status, answer.head, answer.body, &failure);
        answer.err = failure.err;
        answer.failure = &failure;
        ks_failure_explain(&failure, "s3", given.request.method, &answer.detail);
    }
    call->used = false;
    acting = given.asked;
    given.done(given.arg, &answer);
    acting = NULL;
}

/* ---- Time ---- */

static struct ks_aws_call *waiting_for(const struct flight *flight)
{
    for (uint32_t at = 0; at < CALLS; at++)
        if (calls[at].used && calls[at].flight == flight->number)
            return &calls[at];
    return NULL;
}

static void land(struct flight *flight)
{
    struct ks_aws_call *const call = waiting_for(flight);
    struct object_answer answer = {
        .status = 503, .body = "<Error><Code>SlowDown</Code><Message>Less.</Message></Error>"};

    flight->used = false;
    if (!claims_chance(20))
        object_perform(&bucket, &flight->request, &answer);
    if (answer.changed)
        claims_happened(&flight->change);
    claims_compare(flight->change.record);
    if (call != NULL)
        call->answer = answer;
}

static void look_at_call(struct ks_aws_call *call)
{
    const bool is_heard = call->message.is_heard;

    if (!call->used || call->asked == NULL || call->message.answers > claims_now() ||
        claims_is_paused(call->asked->change.worker))
        return;
    if (is_heard && call->answer.status != 503) {
        give(call, KS_OK);
    } else if (call->attempts < ATTEMPTS && claims_now() < call->deadline) {
        call->answer = (struct object_answer){.status = 0};
        attempt(call);
    } else {
        if (!is_heard)
            call->answer = (struct object_answer){.status = 0};
        give(call, is_heard ? KS_OK : KS_FAIL(TIMEOUT));
    }
}

static void turn(void)
{
    for (uint32_t at = 0; at < FLIGHTS; at++)
        if (flights[at].used && flights[at].lands <= claims_now())
            land(&flights[at]);
    for (uint32_t at = 0; at < CALLS; at++)
        look_at_call(&calls[at]);
    turn_timers();
}

/* ---- Changes ---- */

static void answered(void *arg, const struct ks_letters_answer *answer)
{
    struct asked *const asked = arg;

    asked->used = false;
    claims_answered(&asked->change, answer->outcome);
}

static void ask(struct ks_dead_letters *store, const struct claims_change *change,
                struct asked *asked)
{
    char id[64];
    struct ks_letter letter = {.stream = KS_VIEW("demo"),
                               .shard_id = KS_VIEW(CLAIMS_SHARD),
                               .partition_key = KS_VIEW("k"),
                               .data = KS_VIEW("data"),
                               .sub_sequence = -1,
                               .died_ms = change->died_ms,
                               .attempts = change->attempts,
                               .claim = ks_view_text(change->claim)};

    claims_id(change->record, id);
    letter.id = ks_view_text(id);
    letter.sequence = ks_view_of(id + strlen(CLAIMS_SHARD "."), 2);
    switch (change->kind) {
    case CLAIMS_WRITE: store->vtable->write(store, &letter, 1, answered, asked); return;
    case CLAIMS_CLAIM: store->vtable->claim(store, &letter, answered, asked); return;
    case CLAIMS_AMEND: store->vtable->amend(store, &letter, answered, asked); return;
    case CLAIMS_REMOVE:
        store->vtable->remove(store, letter.id, letter.claim, answered, asked);
        return;
    case CLAIMS_KEEP:
    case CLAIMS_EXPIRE: break;
    }
    FAIL("an object does not expire");
}

static void change(const struct claims_change *asked_for)
{
    struct asked *asked = changes;

    while (asked < changes + CHANGES && asked->used)
        asked++;
    EXPECT(asked < changes + CHANGES);
    *asked = (struct asked){.used = true, .change = *asked_for};
    acting = asked;
    ask(stores[asked_for->worker], asked_for, asked);
    acting = NULL;
}

static void read_letter(uint32_t record, struct claims_letter *ret_letter)
{
    struct ks_letter_object object;
    const struct object *there;
    char key[KS_S3_KEY_MAX + 1];
    struct ks_bytes bytes;
    char id[64];

    *ret_letter = (struct claims_letter){.is_there = false};
    claims_id(record, id);
    EXPECT_OK(ks_letter_key_put(FOLDER, ks_view_text(id), key));
    there = object_find(&bucket, key);
    if (there == NULL)
        return;
    ks_bytes_init(&bytes, KS_LETTER_OBJECT_MAX);
    EXPECT_OK(ks_letter_object_read(ks_view_text(there->body), ks_view_text(id), &bytes, &object));
    EXPECT(object.damage == NULL && ks_view_equal(object.letter.data, KS_VIEW("data")));
    *ret_letter = (struct claims_letter){.is_there = true,
                                         .attempts = object.letter.attempts,
                                         .claimed_until = object.letter.claimed_until_ms,
                                         .died_ms = object.letter.died_ms};
    copy(object.letter.claim, ret_letter->claim, sizeof ret_letter->claim);
    ks_letter_object_free(&object);
    ks_bytes_free(&bytes);
}

static void open_store(uint32_t worker)
{
    static const struct ks_s3_place place = {.bucket = "bucket", .prefix = "p/"};
    struct ks_detail detail;

    clients[worker].worker = worker;
    EXPECT_OK(ks_s3_letters_open(&loop, &clients[worker], &place, "app", KS_VIEW("demo"),
                                 &stores[worker], &detail));
}

/* What is under way still lands. */
static void die(uint32_t worker)
{
    stores[worker]->vtable->close(stores[worker]);
    for (uint32_t at = 0; at < CHANGES; at++)
        changes[at].used &= changes[at].change.worker != worker;
    open_store(worker);
}

static void begin(void)
{
    memset(&bucket, 0, sizeof bucket);
    memset(changes, 0, sizeof changes);
    memset(calls, 0, sizeof calls);
    memset(flights, 0, sizeof flights);
    for (uint32_t worker = 0; worker < CLAIMS_WORKERS; worker++)
        open_store(worker);
}

static void end(void)
{
    for (uint32_t worker = 0; worker < CLAIMS_WORKERS; worker++)
        stores[worker]->vtable->close(stores[worker]);
}

TEST(objects_are_redriven_by_one_claim_at_a_time_and_none_is_lost)
{
    static const struct claims_store store = {.later_stays = true,
                                              .begin = begin,
                                              .end = end,
                                              .change = change,
                                              .read = read_letter,
                                              .turn = turn,
                                              .die = die};

    claims_run(&store, SEEDS);
}
