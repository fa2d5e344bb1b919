/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/lease_store_rig.h"

#include "base/budget.h"

#include <stdlib.h>
#include <string.h>

static struct lease_answer told; /* Of lease_tell. */

void lease_rig_run(const struct lease_rig_adapter *adapter, void (*test)(struct lease_rig *rig))
{
    struct lease_rig rig = {.adapter = adapter};

    EXPECT_OK(ks_loop_new(&rig.loop));
    adapter->set_up(&rig);
    rig.store = adapter->open(&rig);
    test(&rig);
    rig.store->vtable->close(rig.store);
    lease_answer_free(&told);
    /* A job that was away comes home. */
    ks_loop_await_jobs(rig.loop, ks_span_ms(20000));
    lease_turn(&rig, 5);
    adapter->tear_down(&rig);
    ks_loop_free(rig.loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static int by_token(const void *a, const void *b)
{
    const struct ks_store_token *const one = a;
    const struct ks_store_token *const two = b;
    const int order = strcmp(one->shard, two->shard);

    return order != 0 ? order : (one->epoch > two->epoch) - (one->epoch < two->epoch);
}

static void copy_tokens(struct ks_store_token *to, const struct ks_store_token *from,
                        uint32_t count)
{
    EXPECT(count <= LEASE_RIG_TOKENS);
    if (count == 0)
        return;
    memcpy(to, from, count * sizeof(*to));
    qsort(to, count, sizeof(*to), by_token);
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct ks_store_worker *)a)->self.id,
                  ((const struct ks_store_worker *)b)->self.id);
}

static int by_shard(const void *a, const void *b)
{
    return strcmp(((const struct ks_store_lease *)a)->shard,
                  ((const struct ks_store_lease *)b)->shard);
}

static void answered(void *arg, uint64_t token, const struct ks_store_answer *from)
{
    struct lease_answer *const to = arg;

    to->times++;
    to->token = token;
    to->outcome = from->outcome;
    to->err = from->err;
    to->detail = from->detail;
    to->leader = from->leader;
    to->app = from->app;
    to->listed = from->list.present;
    to->list_rev = from->list.rev;
    to->list[0] = '\0';
    if (from->list.present)
        EXPECT_OK(ks_view_copy_text(from->list.shards, to->list, sizeof(to->list)));
    to->worker_count = from->worker_count;
    EXPECT(from->worker_count <= LEASE_RIG_WORKERS);
    if (from->worker_count > 0) {
        memcpy(to->workers, from->workers, from->worker_count * sizeof(*to->workers));
        copy_tokens(to->gives, from->workers[0].gives, from->workers[0].give_count);
        copy_tokens(to->takes, from->workers[0].takes, from->workers[0].take_count);
        qsort(to->workers, to->worker_count, sizeof(*to->workers), by_id);
    }
    to->lease_count = from->lease_count;
    to->leases = NULL;
    if (from->lease_count > 0) {
        to->leases = malloc(from->lease_count * sizeof(*to->leases));
        EXPECT(to->leases != NULL);
        memcpy(to->leases, from->leases, from->lease_count * sizeof(*to->leases));
        qsort(to->leases, to->lease_count, sizeof(*to->leases), by_shard);
    }
}

void lease_answer_free(struct lease_answer *answer)
{
    free(answer->leases);
    answer->leases = NULL;
}

void lease_ask(struct lease_rig *rig, struct ks_lease_store *store, struct ks_store_request request,
               struct lease_answer *answer)
{
    (void)rig;
    lease_answer_free(answer);
    memset(answer, 0, sizeof(*answer));
    if (request.timeout.us == 0)
        request.timeout = ks_span_ms(30000);
    request.answered = answered;
    request.arg = answer;
    store->vtable->ask(store, &request);
    EXPECT_EQ_U64(answer->times, 0);
}

void lease_await(struct lease_rig *rig, struct lease_answer *answer)
{
    const ks_instant begun = ks_instant_now();

    while (answer->times == 0) {
        ks_loop_turn(rig->loop, ks_span_ms(100));
        EXPECT(ks_instant_since(ks_instant_now(), begun).us < 20 * 1000000);
    }
    EXPECT_EQ_U64(answer->times, 1);
}

void lease_turn(struct lease_rig *rig, int64_t ms)
{
    const ks_instant end = ks_instant_add(ks_instant_now(), ks_span_ms(ms));

    while (!ks_instant_reached(ks_instant_now(), end))
        ks_loop_turn(rig->loop, ks_span_ms(1));
}

const struct lease_answer *lease_tell(struct lease_rig *rig, struct ks_store_request request)
{
    lease_answer_free(&told);
    lease_ask(rig, rig->store, request, &told);
    lease_await(rig, &told);
    return &told;
}

enum ks_outcome lease_do(struct lease_rig *rig, struct ks_store_request request)
{
    const struct lease_answer *const answer = lease_tell(rig, request);

    if (answer->outcome == KS_UNKNOWN)
        FAIL("%s: %s: %s", ks_store_operation_name(request.operation), ks_err_text(answer->err),
             answer->detail.text);
    return answer->outcome;
}

struct ks_incarnation_text lease_who(const char *id, uint64_t boot)
{
    struct ks_incarnation_text who = {.boot = boot};

    EXPECT_OK(ks_view_copy_text(ks_view_text(id), who.id, sizeof(who.id)));
    return who;
}

bool lease_is(const struct ks_incarnation_text *who, const char *id, uint64_t boot)
{
    return strcmp(who->id, id) == 0 && who->boot == boot;
}

struct ks_position lease_after(const char *sequence)
{
    struct ks_position position = {.kind = KS_POSITION_AFTER_SEQUENCE, .sub_sequence = -1};

    EXPECT_OK(
        ks_view_copy_text(ks_view_text(sequence), position.sequence, sizeof(position.sequence)));
    return position;
}

void lease_register(struct lease_rig *rig, const char *id, uint64_t boot)
{
    EXPECT_EQ_I64(lease_do(rig, (struct ks_store_request){.operation = KS_STORE_REGISTER_NEW,
                                                          .worker = lease_who(id, boot)}),
                  KS_DONE);
}

void lease_create(struct lease_rig *rig, const char *shard)
{
    struct ks_store_lease lease = {
        .checkpoint = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1}};

    EXPECT_OK(ks_view_copy_text(ks_view_text(shard), lease.shard, sizeof(lease.shard)));
    EXPECT_EQ_I64(lease_do(rig, (struct ks_store_request){.operation = KS_STORE_CREATE,
                                                          .shard = shard,
                                                          .lease = &lease}),
                  KS_DONE);
}

void lease_hold(struct lease_rig *rig, const char *shard, const char *id, uint64_t boot)
{
    lease_create(rig, shard);
    EXPECT_EQ_I64(lease_do(rig, (struct ks_store_request){.operation = KS_STORE_ASSIGN,
                                                          .shard = shard,
                                                          .worker = lease_who(id, boot)}),
                  KS_DONE);
}

struct ks_store_worker lease_worker(struct lease_rig *rig, const char *id)
{
    const struct lease_answer *const answer =
        lease_tell(rig, (struct ks_store_request){.operation = KS_STORE_READ_WORKER,
                                                  .worker = lease_who(id, 0)});

    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    EXPECT_EQ_U64(answer->worker_count, 1);
    EXPECT_STR(answer->workers[0].self.id, id);
    return answer->workers[0];
}

bool lease_has_worker(struct lease_rig *rig, const char *id)
{
    const struct lease_answer *const answer =
        lease_tell(rig, (struct ks_store_request){.operation = KS_STORE_READ_WORKER,
                                                  .worker = lease_who(id, 0)});

    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    return answer->worker_count == 1;
}

struct ks_store_lease lease_row(struct lease_rig *rig, const char *shard)
{
    const struct lease_answer *const answer = lease_tell(
        rig, (struct ks_store_request){.operation = KS_STORE_READ_LEASE, .shard = shard});

    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    EXPECT_EQ_U64(answer->lease_count, 1);
    EXPECT_STR(answer->leases[0].shard, shard);
    return answer->leases[0];
}

bool lease_has_row(struct lease_rig *rig, const char *shard)
{
    const struct lease_answer *const answer = lease_tell(
        rig, (struct ks_store_request){.operation = KS_STORE_READ_LEASE, .shard = shard});

    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    return answer->lease_count == 1;
}

struct ks_store_leader lease_leader(struct lease_rig *rig)
{
    const struct lease_answer *const answer = lease_tell(
        rig, (struct ks_store_request){.operation = KS_STORE_READ_FLEET, .consistent = true});

    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    return answer->leader;
}
