/* SPDX-License-Identifier: Apache-2.0 */
#include "story.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

void story_hash(struct world *world, uint64_t value)
{
    /* One round of splitmix64 over the sum: order matters. */
    struct ks_prng mix = {world->hash ^ value};

    world->hash = ks_prng_next(&mix);
}

__attribute__((format(printf, 3, 0))) static void tell(const struct world *world, const char *who,
                                                       const char *format, va_list list)
{
    fprintf(stdout, "[%3lld.%06lld] %-6s ", (long long)(world->now / SIM_SECOND),
            (long long)(world->now % SIM_SECOND), who);
    vfprintf(stdout, format, list);
    fputc('\n', stdout);
}

void story_say(struct world *world, const char *who, const char *format, ...)
{
    va_list list;

    if (world->verbose < 1)
        return;
    va_start(list, format);
    tell(world, who, format, list);
    va_end(list);
}

void story_whisper(struct world *world, const struct process *process, const char *format, ...)
{
    char who[16];
    va_list list;

    if (world->verbose < 2)
        return;
    snprintf(who, sizeof who, "w%u.%u", process->worker, process->slot);
    va_start(list, format);
    tell(world, who, format, list);
    va_end(list);
}

void story_table(struct world *world, const struct table_request *request)
{
    const struct ks_store_effect *ask = &request->ask;
    const struct table_lease *lease;

    story_hash(world, (uint64_t)ask->operation << 32 | ask->shard << 8 |
                          (uint32_t)request->answer.outcome);
    if (world->verbose < 1 || (world->verbose < 2 && ask->operation == KS_STORE_HEARTBEAT))
        return;
    if (!world_table_is_lease_write(ask->operation)) {
        story_say(world, "table", "%s of w%u#%04llx by slot %u: %s",
                  world_table_operation_name(ask->operation), ask->worker.worker,
                  (unsigned long long)(ask->worker.boot & 0xffff), request->process,
                  request->answer.outcome == KS_DONE ? "done" : "refused");
        for (uint32_t i = 0; i < ask->give_count + ask->take_count; i++) {
            bool give = i < ask->give_count;
            struct ks_lease_token token = give ? ask->gives[i] : ask->takes[i - ask->give_count];

            story_say(world, "table", "    %s shard-%u epoch %llu", give ? "give" : "take",
                      token.shard, (unsigned long long)token.epoch);
        }
        return;
    }
    lease = world_table_lease(&world->table, ask->shard);
    story_say(
        world, "table", "%s of shard-%u by slot %u: %s; w%u#%04llx epoch %llu rev %llu at %lld",
        world_table_operation_name(ask->operation), ask->shard, request->process,
        request->answer.outcome == KS_DONE ? "done" : "refused", lease->row.owner.worker,
        (unsigned long long)(lease->row.owner.boot & 0xffff), (unsigned long long)lease->row.epoch,
        (unsigned long long)lease->row.rev, (long long)lease->checkpoint);
}

static const char *const sentences[] = {
#define X(word, level, event, sentence) sentence,
    KS_STORY_TABLE(X)
#undef X
};

/* The value of the place holder at `name`, e.g. "{shard}"; returns its length in the sentence, 0 if it is none. */
static size_t fill(const char *name, const struct ks_effect *effect, char *into, size_t size)
{
    static const char *const names[] = {"{worker}", "{boot}",  "{shard}", "{epoch}",
                                        "{number}", "{count}", "{ms}"};
    size_t which = 0;

    while (which < 7 && strncmp(name, names[which], strlen(names[which])) != 0)
        which++;
    switch (which) {
    case 0: snprintf(into, size, "w%u", effect->story.worker.worker); break;
    case 1:
        snprintf(into, size, "%04llx", (unsigned long long)(effect->story.worker.boot & 0xffff));
        break;
    case 2: snprintf(into, size, "shard-%u", effect->story.shard); break;
    case 3: snprintf(into, size, "%llu", (unsigned long long)effect->story.epoch); break;
    case 4: snprintf(into, size, "%llu", (unsigned long long)effect->story.number); break;
    case 5: snprintf(into, size, "%u", effect->story.count); break;
    case 6: snprintf(into, size, "%lld", (long long)ks_span_to_ms(effect->story.span)); break;
    default: return 0;
    }
    return strlen(names[which]);
}

static void tell_story(struct world *world, const struct process *process,
                       const struct ks_effect *effect)
{
    const char *from = sentences[effect->story.story];
    char line[300];
    char value[40];
    size_t length = 0;
    char who[16];

    while (*from != '\0' && length + sizeof value < sizeof line) {
        size_t skipped = *from == '{' ? fill(from, effect, value, sizeof value) : 0;

        if (skipped == 0) {
            line[length++] = *from++;
            continue;
        }
        from += skipped;
        memcpy(line + length, value, strlen(value));
        length += strlen(value);
    }
    line[length] = '\0';
    snprintf(who, sizeof who, "w%u.%u", process->worker, process->slot);
    story_say(world, who, "> %s", line);
}

void story_event(struct world *world, const struct process *process, const struct ks_event *event)
{
    static const char *const outcomes[] = {"acks", "nacks", "extends", "dead-letters", "drops"};
    static const char *const stages[] = {"begun", "written", "torn", "returned"};

    if (world->verbose < 2)
        return;
    if (event->kind == KS_EVENT_SETTLE)
        story_whisper(
            world, process, "session %u.%u %s shard-%u epoch %llu %llu+%u of pull %llu, %lld ms",
            event->settle.session, event->settle.session_epoch, outcomes[event->settle.outcome],
            event->settle.shard, (unsigned long long)event->settle.epoch,
            (unsigned long long)event->settle.first, event->settle.count,
            (unsigned long long)event->settle.assignment,
            (long long)ks_span_to_ms(event->settle.delay));
    if (event->kind == KS_EVENT_WRITE)
        story_whisper(world, process, "session %u: shard-%u epoch %llu %llu+%u of pull %llu %s",
                      event->write.session, event->write.shard,
                      (unsigned long long)event->write.epoch,
                      (unsigned long long)event->write.first, event->write.count,
                      (unsigned long long)event->write.assignment, stages[event->write.stage]);
    if (event->kind == KS_EVENT_CHECKPOINT)
        story_whisper(world, process, "checkpoint of shard-%u epoch %llu at %llu",
                      event->checkpoint.shard, (unsigned long long)event->checkpoint.epoch,
                      (unsigned long long)event->checkpoint.number);
}

void story_effect(struct world *world, const struct process *process,
                  const struct ks_effect *effect)
{
    static const char *const names[] = {
        "store",     "list",  "open",    "read",       "close",         "forget",
        "deliver",   "wake",  "opened",  "not opened", "session ended", "settled",
        "persisted", "story", "drained", "refused",    "lock",          "operated",
        "sought",    "bury",  "letter",  "letter over"};

    story_hash(world,
               (uint64_t)effect->kind << 56 | (uint64_t)process->slot << 48 | (uint64_t)world->now);
    if (effect->kind == KS_EFFECT_DELIVER)
        story_hash(world, effect->deliver.first << 32 | effect->deliver.count);
    if (world->verbose < 1)
        return;
    if (effect->kind == KS_EFFECT_STORY) {
        tell_story(world, process, effect);
        return;
    }
    if (effect->kind == KS_EFFECT_DRAINED || effect->kind == KS_EFFECT_REFUSED)
        story_say(world, "core", "w%u is %s", process->worker,
                  effect->kind == KS_EFFECT_DRAINED ? "drained" : "refused");
    else if (effect->kind == KS_EFFECT_STORE)
        story_whisper(world, process, "asks %s shard %d epoch %llu rev %llu up to %llu",
                      world_table_operation_name(effect->store.operation), (int)effect->store.shard,
                      (unsigned long long)effect->store.epoch,
                      (unsigned long long)effect->store.rev,
                      (unsigned long long)effect->store.up_to);
    else if (effect->kind == KS_EFFECT_DELIVER)
        story_whisper(world, process, "delivers shard-%u %llu+%u to session %u, attempt %u",
                      effect->deliver.shard, (unsigned long long)effect->deliver.first,
                      effect->deliver.count, effect->deliver.session, effect->deliver.attempt);
    else if (effect->kind == KS_EFFECT_WAKE || effect->kind == KS_EFFECT_OPENED ||
             effect->kind == KS_EFFECT_SESSION_ENDED || effect->kind == KS_EFFECT_NOT_OPENED)
        story_whisper(world, process, "%s session %u", names[effect->kind],
                      effect->session.session);
    else if (effect->kind == KS_EFFECT_SETTLED)
        story_whisper(world, process, "settled: status %d", (int)effect->settled.status);
    else if (effect->kind == KS_EFFECT_OPERATED)
        story_whisper(world, process, "an order: status %d", (int)effect->operated.status);
    else if (effect->kind == KS_EFFECT_SOUGHT)
        story_whisper(world, process, "a seek of shard-%u is %s", effect->sought.shard,
                      effect->sought.done ? "done" : "over");
    else if (effect->kind == KS_EFFECT_LOCK)
        story_whisper(world, process, "writes its lock");
    else if (effect->kind == KS_EFFECT_LIST)
        story_whisper(world, process, "lists the stream");
    else
        story_whisper(world, process, "%s shard-%u epoch %llu, number %llu", names[effect->kind],
                      effect->lease.shard, (unsigned long long)effect->lease.epoch,
                      (unsigned long long)effect->lease.number);
}
