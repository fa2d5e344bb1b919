/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_share.h"

#include "core/lanes.h"
#include "world.h"

uint64_t oracle_share_lanes(const struct oracle_process *truth, ks_shard shard)
{
    for (uint32_t i = 0; i < SIM_SESSIONS; i++) {
        const struct oracle_session *session = &truth->sessions[i];
        bool wanted = session->shard_count == 0;

        for (uint32_t j = 0; j < session->shard_count; j++)
            wanted = wanted || session->shards[j] == shard;
        if (session->live && session->share != 0 && wanted)
            return ks_share_lanes(session->share, session->salt, truth->lane_count);
    }
    return 0;
}

void oracle_share_opened(struct world *world, struct process *process, const struct ks_event *event,
                         struct oracle_session *opened)
{
    opened->share = event->open.share;
    opened->salt = event->open.salt;
    for (uint32_t i = 0; i < SIM_SESSIONS && event->open.share != 0; i++) {
        const struct oracle_session *session = &process->truth.sessions[i];

        if (session->live && session->share != 0 &&
            (session->share != opened->share || session->salt != opened->salt))
            oracle_fail(world, "w%u opens a session with another share than the others",
                        process->worker);
    }
}

void oracle_share_delivered(struct world *world, struct process *process, ks_shard shard,
                            uint64_t lanes, uint32_t session)
{
    const struct oracle_process *truth = &process->truth;
    uint64_t canary = oracle_share_lanes(truth, shard);
    bool in_share = truth->sessions[session].share != 0;

    world->canaries += in_share;
    if ((lanes & ~(in_share ? canary : ~canary)) != 0)
        oracle_fail(world, "w%u delivers records of shard-%u to the wrong side of a share",
                    process->worker, shard);
}
