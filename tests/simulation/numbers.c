/* SPDX-License-Identifier: Apache-2.0 */
#include "numbers.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/state.h"

/* Longer than any replica is old, where there are some. */
#define KEEP ks_span_ms(20000)
#define KEEP_OF_PEERS ks_span_ms(5000)
#define LOOK ks_span_ms(1000)
#define WHILE ks_span_ms(6000)
#define MILLION 1000000

/* Copies of one step. */
enum { ROWS_MAX = 128, TOKENS_MAX = 8192 };
static struct ks_lease_row rows[ROWS_MAX];
static struct ks_worker_row workers[ROWS_MAX];
static struct ks_shard_row listing[ROWS_MAX];
static ks_shard shards[ROWS_MAX];
static struct ks_lease_token tokens[TOKENS_MAX];
static uint32_t token_count;
static uint64_t given_again;

bool numbers_are_few(uint64_t seed)
{
    return seed / MILLION % 2 == 1;
}

uint64_t numbers_given_again(void)
{
    return given_again;
}

void numbers_begin(struct numbers *numbers, uint64_t seed, uint32_t shards_max, uint32_t old)
{
    assert(shards_max <= NUMBERS_MAX);
    *numbers = (struct numbers){
        .few = numbers_are_few(seed),
        .shards_max = shards_max,
        .old = shards_max - old,
        .free_at = KS_LONG_AGO,
    };
}

ks_shard numbers_of(const struct numbers *numbers, ks_shard shard)
{
    if (!numbers->few || shard == KS_SHARD_NONE)
        return shard;
    return numbers->of[shard] == 0 ? KS_SHARD_NONE - 1 : numbers->of[shard] - 1;
}

/* ---- Towards the core ---- */

static ks_shard give(struct numbers *numbers, ks_shard shard, ks_instant now)
{
    ks_shard number = 0;

    if (shard == KS_SHARD_NONE)
        return shard;
    assert(shard < numbers->shards_max);
    if (numbers->of[shard] == 0) {
        while (numbers->shard[number] != 0)
            number++;
        assert(number < numbers->shards_max);
        numbers->of[shard] = number + 1;
        numbers->shard[number] = shard + 1;
        given_again += numbers->before[number] != 0 && numbers->before[number] != shard + 1;
        numbers->before[number] = shard + 1;
    }
    number = numbers->of[shard] - 1;
    numbers->touched[number] = now;
    return number;
}

static void give_parents(struct numbers *numbers, ks_shard parents[KS_PARENTS_MAX], ks_instant now)
{
    for (uint32_t p = 0; p < KS_PARENTS_MAX; p++)
        parents[p] = give(numbers, parents[p], now);
}

static const struct ks_lease_token *give_tokens(struct numbers *numbers,
                                                const struct ks_lease_token *from, uint32_t count,
                                                ks_instant now)
{
    struct ks_lease_token *into = tokens + token_count;

    token_count += count;
    assert(token_count <= TOKENS_MAX);
    for (uint32_t i = 0; i < count; i++)
        into[i] = (struct ks_lease_token){give(numbers, from[i].shard, now), from[i].epoch};
    return into;
}

static const ks_shard *give_all(struct numbers *numbers, const ks_shard *from, uint32_t count,
                                ks_instant now)
{
    assert(count <= ROWS_MAX);
    for (uint32_t i = 0; i < count; i++)
        shards[i] = give(numbers, from[i], now);
    return shards;
}

/* One is seen in a while, the next one in the next, then for as long none. */
static void add_old(struct numbers *numbers, struct ks_event *event, ks_instant now)
{
    uint32_t olds = numbers->shards_max - numbers->old;
    ks_shard old = olds == 0 ? 0 : (ks_shard)(now.us / WHILE.us) % (2 * olds);

    if (old >= olds || ks_token_purpose(event->store.token) != KS_FOR_ROWS ||
        event->store.outcome != KS_DONE)
        return;
    assert(event->store.lease_count < ROWS_MAX);
    rows[event->store.lease_count++] = (struct ks_lease_row){
        .shard = give(numbers, numbers->old + old, now),
        .parents = {KS_SHARD_NONE, KS_SHARD_NONE},
        .rev = 1,
        .finished = true,
    };
}

static void give_store(struct numbers *numbers, struct ks_event *event, ks_instant now)
{
    assert(event->store.lease_count <= ROWS_MAX && event->store.worker_count <= ROWS_MAX);
    for (uint32_t i = 0; i < event->store.lease_count; i++) {
        rows[i] = event->store.leases[i];
        rows[i].shard = give(numbers, rows[i].shard, now);
        give_parents(numbers, rows[i].parents, now);
    }
    add_old(numbers, event, now);
    event->store.leases = rows;
    for (uint32_t i = 0; i < event->store.worker_count; i++) {
        workers[i] = event->store.workers[i];
        workers[i].gives = give_tokens(numbers, workers[i].gives, workers[i].give_count, now);
        workers[i].takes = give_tokens(numbers, workers[i].takes, workers[i].take_count, now);
    }
    event->store.workers = workers;
    event->store.list.shards =
        give_all(numbers, event->store.list.shards, event->store.list.count, now);
}

static void give_listed(struct numbers *numbers, struct ks_event *event, ks_instant now)
{
    assert(event->listed.count <= ROWS_MAX);
    for (uint32_t i = 0; i < event->listed.count; i++) {
        listing[i] = event->listed.shards[i];
        listing[i].shard = give(numbers, listing[i].shard, now);
        give_parents(numbers, listing[i].parents, now);
    }
    event->listed.shards = listing;
}

static void inwards(struct numbers *numbers, struct ks_event *event, ks_instant now)
{
    switch ((int)event->kind) {
    case KS_EVENT_STORE: give_store(numbers, event, now); return;
    case KS_EVENT_LISTED: give_listed(numbers, event, now); return;
    case KS_EVENT_SESSION_OPEN:
        event->open.shards = give_all(numbers, event->open.shards, event->open.shard_count, now);
        return;
    case KS_EVENT_RECORDS: event->records.shard = numbers_of(numbers, event->records.shard); return;
    case KS_EVENT_JUDGED: event->judged.shard = numbers_of(numbers, event->judged.shard); return;
    case KS_EVENT_READ_FAILED:
        event->read_failed.shard = numbers_of(numbers, event->read_failed.shard);
        return;
    case KS_EVENT_WRITE: event->write.shard = numbers_of(numbers, event->write.shard); return;
    case KS_EVENT_SETTLE: event->settle.shard = numbers_of(numbers, event->settle.shard); return;
    case KS_EVENT_CHECKPOINT:
        event->checkpoint.shard = numbers_of(numbers, event->checkpoint.shard);
        return;
    case KS_EVENT_PERSIST: event->persist.shard = numbers_of(numbers, event->persist.shard); return;
    case KS_EVENT_PAUSE: event->pause.shard = give(numbers, event->pause.shard, now); return;
    case KS_EVENT_RESUME:
    case KS_EVENT_RELEASE: event->shard.shard = numbers_of(numbers, event->shard.shard); return;
    case KS_EVENT_SEEK: event->seek.shard = numbers_of(numbers, event->seek.shard); return;
    case KS_EVENT_SKIP: event->skip.shard = numbers_of(numbers, event->skip.shard); return;
    case KS_EVENT_BURIED: event->buried.shard = numbers_of(numbers, event->buried.shard); return;
    case KS_EVENT_REDRIVE: event->redrive.shard = give(numbers, event->redrive.shard, now); return;
    default: return;
    }
}

/* ---- Towards the world ---- */

ks_shard numbers_meant(const struct numbers *numbers, ks_shard number)
{
    if (!numbers->few || number == KS_SHARD_NONE)
        return number;
    assert(number < numbers->shards_max);
    assert(numbers->shard[number] != 0); /* It stands for something. */
    return numbers->shard[number] - 1;
}

static const struct ks_lease_token *meant_tokens(const struct numbers *numbers,
                                                 const struct ks_lease_token *from, uint32_t count)
{
    struct ks_lease_token *into = tokens + token_count;

    token_count += count;
    assert(token_count <= TOKENS_MAX);
    for (uint32_t i = 0; i < count; i++)
        into[i] = (struct ks_lease_token){numbers_meant(numbers, from[i].shard), from[i].epoch};
    return into;
}

static void store_outwards(const struct numbers *numbers, struct ks_store_effect *store)
{
    assert(store->shard_count <= ROWS_MAX);
    store->shard = numbers_meant(numbers, store->shard);
    assert(store->shard == KS_SHARD_NONE || store->shard < numbers->old); /* That is over. */
    store->gives = meant_tokens(numbers, store->gives, store->give_count);
    store->takes = meant_tokens(numbers, store->takes, store->take_count);
    for (uint32_t i = 0; i < store->shard_count; i++)
        shards[i] = numbers_meant(numbers, store->shards[i]);
    if (store->shard_count > 0)
        store->shards = shards;
}

static void outwards(const struct numbers *numbers, struct ks_effect *effect)
{
    switch ((int)effect->kind) {
    case KS_EFFECT_STORE: store_outwards(numbers, &effect->store); return;
    case KS_EFFECT_OPEN:
    case KS_EFFECT_READ:
    case KS_EFFECT_CLOSE:
    case KS_EFFECT_FORGET:
    case KS_EFFECT_PERSISTED:
        effect->lease.shard = numbers_meant(numbers, effect->lease.shard);
        return;
    case KS_EFFECT_DELIVER:
        effect->deliver.shard = numbers_meant(numbers, effect->deliver.shard);
        return;
    case KS_EFFECT_STORY: effect->story.shard = numbers_meant(numbers, effect->story.shard); return;
    case KS_EFFECT_SOUGHT:
        effect->sought.shard = numbers_meant(numbers, effect->sought.shard);
        return;
    case KS_EFFECT_BURY: effect->bury.shard = numbers_meant(numbers, effect->bury.shard); return;
    default: return;
    }
}

/* ---- What nobody uses ---- */

static void free_old(struct numbers *numbers, struct ks_core *core, ks_instant now)
{
    bool held[NUMBERS_MAX];
    bool freed[NUMBERS_MAX] = {false};
    ks_span keep = core->config.protocol == KS_PROTOCOL_NATIVE ? KEEP : KEEP_OF_PEERS;

    if (!ks_instant_reached(now, numbers->free_at))
        return;
    numbers->free_at = ks_instant_add(now, LOOK);
    ks_core_held(core, held);
    for (ks_shard number = 0; number < numbers->shards_max; number++) {
        if (numbers->shard[number] == 0)
            continue;
        if (held[number])
            numbers->touched[number] = now;
        if (!ks_instant_reached(now, ks_instant_add(numbers->touched[number], keep)))
            continue;
        freed[number] = true;
        numbers->of[numbers->shard[number] - 1] = 0;
        numbers->shard[number] = 0;
    }
    ks_core_free(core, freed);
    ks_core_held(core, held);
    for (ks_shard number = 0; number < numbers->shards_max; number++)
        assert(!freed[number] || !held[number]);
}

void numbers_step(struct numbers *numbers, struct ks_core *core, ks_instant now,
                  const struct ks_event *event, struct ks_effects *effects)
{
    struct ks_event copy = *event;

    if (!numbers->few) {
        ks_core_step(core, now, event, effects);
        return;
    }
    token_count = 0;
    inwards(numbers, &copy, now);
    ks_core_step(core, now, &copy, effects);
    for (uint32_t i = 0; i < effects->count; i++)
        outwards(numbers, &effects->items[i]);
    free_old(numbers, core, now);
}
