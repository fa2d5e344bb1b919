/* SPDX-License-Identifier: Apache-2.0 */
#include "world_filter.h"

#include "oracle_place.h"
#include "oracle_share.h"
#include "world.h"

enum { FILTERS = 3, JUDGE_RECORDS = 64 };

/* A process deploys another filter about so often. */
#define DEPLOY_EVERY (15 * SIM_SECOND)

uint64_t world_filter_choose(struct world *world, const struct process *process)
{
    struct ks_prng *prng = &world->prng;

    if (world->swarm.filters == 0 || !draw_chance(prng, world->swarm.filters))
        return 0;
    if (draw_chance(prng, 100))
        return ks_prng_below(prng, FILTERS) + 1;
    return 1 + ((uint64_t)(world->now / DEPLOY_EVERY) + process->worker) % FILTERS;
}

static bool takes(uint64_t filter, ks_shard shard, uint64_t index)
{
    struct ks_prng prng;

    ks_prng_init(&prng, (index * SIM_SHARDS + shard) * (FILTERS + 1) + filter);
    return draw_chance(&prng, 500);
}

static bool accepts(const struct oracle_session *session, ks_shard shard)
{
    bool wanted = session->shard_count == 0;

    for (uint32_t i = 0; i < session->shard_count; i++)
        wanted = wanted || session->shards[i] == shard;
    return session->live && wanted;
}

/* The filter of a session that is to get the record; 0: nobody is. */
static uint64_t filter_for(const struct place *place, uint64_t number)
{
    const struct oracle_process *truth = &place->process->truth;
    bool in_share = (oracle_share_lanes(truth, place->shard) & lane_of(place, number)) != 0;

    for (uint32_t i = 0; i < SIM_SESSIONS; i++)
        if (accepts(&truth->sessions[i], place->shard) &&
            (truth->sessions[i].share != 0) == in_share)
            return truth->sessions[i].filter;
    return 0;
}

/* Its ack deadline has passed, and the core took it back: until then either was right. */
static bool is_back(const struct place *place, uint64_t number)
{
    return record_at(place, number)->state == RECORD_DOUBT &&
           !shell_is_out(place->process, place->shard, number) &&
           !shell_is_dying(place->process, place->shard, number);
}

/* What the filter says of the record. */
static bool judge(struct world *world, const struct place *place, uint64_t number)
{
    const uint64_t index = place->reader->base + number;
    const uint64_t filter = filter_for(place, number);
    const struct oracle_record *record = record_at(place, number);

    if (filter == 0)
        oracle_fail(world, "w%u wants a judgement of record %llu of shard-%u, which is for nobody",
                    place->process->worker, (unsigned long long)number, place->shard);
    if (record->state != RECORD_NEW && record->state != RECORD_WAITING && !is_back(place, number))
        oracle_fail(world, "w%u wants a judgement of record %llu of shard-%u, which does not wait",
                    place->process->worker, (unsigned long long)number, place->shard);
    if (takes(filter, place->shard, index))
        return false;
    world->excluded++;
    land(place, number, RECORD_SETTLED);
    world_stream_settle(world, place->shard, index);
    return true;
}

void world_filter_judge(struct world *world, struct process *process)
{
    struct ks_event event = {.kind = KS_EVENT_JUDGED};
    bool excluded[JUDGE_RECORDS];
    struct ks_unjudged unjudged;
    struct place place;

    if (world->swarm.filters == 0 || !process->alive || process->over || world->failed)
        return;
    if (!ks_core_unjudged(process->core, (uint32_t)ks_prng_between(&world->prng, 1, JUDGE_RECORDS),
                          (uint64_t)draw_log(&world->prng, 100, 100000), &unjudged))
        return;
    unjudged.shard = numbers_meant(&process->numbers, unjudged.shard);
    place = place_of(world, process, unjudged.shard);
    if (!is_current(&place, unjudged.epoch) || unjudged.first < place.reader->forgot ||
        unjudged.first + unjudged.count > place.reader->fetched) {
        oracle_fail(world, "w%u wants a judgement of records of shard-%u that it does not have",
                    process->worker, unjudged.shard);
        return;
    }
    for (uint32_t i = 0; i < unjudged.count; i++)
        excluded[i] = judge(world, &place, unjudged.first + i);
    event.judged.shard = unjudged.shard;
    event.judged.epoch = unjudged.epoch;
    event.judged.first = unjudged.first;
    event.judged.count = unjudged.count;
    event.judged.excluded = excluded;
    shell_step(world, process, &event);
}

void world_filter_opened(struct world *world, struct process *process, const struct ks_event *event,
                         uint32_t session)
{
    struct oracle_session *sessions = process->truth.sessions;

    if (world->failed)
        return;
    sessions[session].filter = event->open.filter;
    for (uint32_t i = 0; i < SIM_SESSIONS; i++)
        if (sessions[i].live && sessions[i].filter != event->open.filter)
            oracle_fail(world, "w%u opens a session with another filter than the others",
                        process->worker);
}

void world_filter_delivered(struct world *world, const struct process *process,
                            const struct ks_effect *effect)
{
    const ks_shard shard = effect->deliver.shard;
    uint64_t filter;

    if (world->failed || shard == KS_SHARD_NONE)
        return;
    filter = process->truth.sessions[effect->deliver.session].filter;
    for (uint32_t i = 0; filter != 0 && i < effect->deliver.count; i++) {
        const uint64_t index = process->readers[shard].base + effect->deliver.first + i;

        world->filtered++;
        if (!takes(filter, shard, index))
            oracle_fail(world,
                        "w%u delivers record %llu of shard-%u, which its session's filter "
                        "excludes",
                        process->worker, (unsigned long long)index, shard);
    }
}
