/* SPDX-License-Identifier: Apache-2.0 */
/* The manners of kinsumer (twitchscience, and its fork of snowplow-devops), of whose fleet we are a client:
 * docs/DIALECTS.md.
 *
 * Who reads what is not negotiated but counted: every client beats, sorts those that do by their ids, and of the list
 * of shards the i-th is for client i modulo their number. A row says who has captured a shard, and when that was
 * written last: that time is its rev here, in ns since 1970. Whoever a shard falls to captures it when its row is free,
 * or old. The first client leads: it keeps the list, and removes the dead. Rows are a fleet of equals' (peers.h). */
#include <assert.h>
#include <stddef.h>

#include "core/fleet/peers.h"
#include "core/lease.h"

/* A client's row is removed when it is so old: a constant of theirs. */
#define REAP_AGE_US (INT64_C(48) * 3600 * 1000000)
enum { REAPED_AT_ONCE = 8 };
/* Members that lead, or write without a look, see a change after so many of their periods. */
enum { PERIODS_TO_SEE = 2 };
/* No write of ours is under way for so long: a time that is this far ahead need not be passed. */
#define FAR_AHEAD_NS (UINT64_C(60) * 1000000000)
/* The next look, while something is to be had soon, and the next try of what got no answer. */
#define SOON ks_span_ms(1000)

static struct ks_division *ours(struct ks_core *core)
{
    return &core->fleet.division;
}

static ks_span soon(const struct ks_core *core)
{
    return core->config.beat.us < SOON.us ? core->config.beat : SOON;
}

/* ---- Times ---- */

/* By so much the clocks of two members may differ. */
static ks_span skew(const struct ks_core *core)
{
    return ks_span_us(2 * core->config.margin.us);
}

static uint64_t rev_after(const struct ks_core *core, uint64_t before)
{
    uint64_t rev = (uint64_t)core->wall_us * 1000;

    return rev > before ? rev : before + 1;
}

/* A time that somebody left whose clock was far ahead is not handed on: all would wait for it, were we to die. */
static uint64_t take_rev(const struct ks_core *core, uint64_t before)
{
    uint64_t rev = rev_after(core, 0);

    return before > rev + FAR_AHEAD_NS ? rev : rev_after(core, before);
}

static uint64_t next_rev(const struct ks_core *core, const struct ks_lease *lease)
{
    assert(lease->tried >= lease->rev);
    return rev_after(core, lease->tried);
}

/* How long ago it was written, by our clock. */
static int64_t age_us(const struct ks_core *core, uint64_t rev)
{
    return core->wall_us - (int64_t)(rev / 1000);
}

/* Others capture it when their clock says so: ours may be behind. */
static ks_instant serves_until(const struct ks_core *core, uint64_t rev)
{
    int64_t age = age_us(core, rev);

    return ks_instant_add(core->now, ks_span_us(core->config.lease_duration.us -
                                                (age > 0 ? age : 0) - skew(core).us));
}

/* Also where nothing is settled: an idle shard looks abandoned otherwise. */
static ks_instant renew_at(const struct ks_core *core, ks_instant asked_at)
{
    int64_t fifth_us = core->config.lease_duration.us / 5;

    return ks_instant_add(asked_at, core->config.beat.us < fifth_us ? core->config.beat
                                                                    : ks_span_us(fifth_us));
}

/* A row that our own final write made free is told as what lease.c looks for. */
static void read_row(const struct ks_core *core, struct ks_lease_row *row)
{
    const struct ks_lease *lease = ks_peers_held(core, &core->directory[row->shard]);

    ks_peers_read(core, row);
    if (lease != NULL && !row->damaged && row->owner.worker == 0 && lease->given_up &&
        row->rev == lease->tried)
        row->rev = lease->rev + 1;
}

/* ---- The clients ---- */

static bool live(const struct ks_core *core, const struct ks_worker_row *row)
{
    return !row->damaged && age_us(core, row->beat) < core->config.lease_duration.us;
}

static const struct ks_worker_row *own_row(const struct ks_core *core, const struct ks_event *event)
{
    for (uint32_t i = 0; i < event->store.worker_count; i++)
        if (ks_peers_is_me(core, event->store.workers[i].self))
            return &event->store.workers[i];
    return NULL;
}

static void know_members(struct ks_core *core, const struct ks_event *event)
{
    for (uint32_t i = 0; i < core->config.workers_max; i++)
        core->members[i].present = false;
    for (uint32_t i = 0; i < event->store.worker_count; i++) {
        const struct ks_worker_row *row = &event->store.workers[i];
        struct ks_member *member = live(core, row) ? ks_peers_member(core, row->self) : NULL;

        if (member == NULL)
            continue;
        member->beat = row->beat;
        member->rank = row->rank;
        member->mode = KS_ACTIVE;
    }
}

/* False: it cannot be said now who we are among them. */
static bool count_clients(struct ks_core *core, const struct ks_event *event,
                          struct ks_effects *effects)
{
    const struct ks_worker_row *self;

    if (event->store.worker_count > core->config.workers_max) {
        if (!core->fleet.crowded)
            ks_effects_story(effects, KS_STORY_CROWDED, KS_SHARD_NONE, KS_NOBODY)->story.number =
                event->store.worker_count;
        core->fleet.crowded = true;
        return false;
    }
    core->fleet.crowded = false;
    self = own_row(core, event);
    if (self == NULL || !live(core, self))
        return false;
    know_members(core, event);
    ours(core)->read_index = 0;
    ours(core)->read_total = 0;
    for (uint32_t i = 0; i < event->store.worker_count; i++) {
        const struct ks_worker_row *row = &event->store.workers[i];

        ours(core)->read_total += live(core, row);
        ours(core)->read_index += live(core, row) && row->rank < self->rank;
    }
    return true;
}

/* ---- The division ---- */

static bool is_ours(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    const struct ks_division *division = &core->fleet.division;

    return division->total > 0 && entry->place > 0 &&
           (entry->place - 1) % division->total == division->index;
}

/* True if it differs from the one that we knew. Of what stands in it twice, the first place counts. */
static bool know_list(struct ks_core *core, const struct ks_list_row *list)
{
    struct ks_division *division = ours(core);
    uint32_t serial = ks_core_serial(core);
    bool changed = false;

    division->known = true;
    division->empty = list->count == 0;
    division->twice = false;
    division->list_rev = list->present ? list->rev : 0;
    if (division->empty) /* It is made anew by whoever sees it, and means nothing. */
        return false;
    for (uint32_t i = 0; i < list->count; i++) {
        struct ks_directory_entry *entry;

        if (!ks_native_know(core, list->shards[i]))
            continue;
        entry = &core->directory[list->shards[i]];
        if (entry->named == serial) {
            division->twice = true;
            continue;
        }
        changed |= entry->place != i + 1;
        entry->place = i + 1;
        entry->named = serial;
    }
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];

        if (entry->place == 0 || entry->named == serial)
            continue;
        changed = true;
        entry->place = 0;
    }
    return changed;
}

/* What falls to others is given back; what stays ours is not touched. */
static void divide(struct ks_core *core, const struct ks_list_row *list, struct ks_effects *effects)
{
    struct ks_division *division = ours(core);
    bool changed = know_list(core, list);
    struct ks_effect *story;

    if (division->index != division->read_index || division->total != division->read_total) {
        division->index = division->read_index;
        division->total = division->read_total;
        changed = true;
        story = ks_effects_story(effects, KS_STORY_DIVIDED, KS_SHARD_NONE, core->fleet.self);
        story->story.number = division->index;
        story->story.count = division->total;
    }
    if (changed)
        division->since = core->now;
    for (uint32_t i = 0; i < core->leases_top; i++)
        if (core->leases[i].used && !is_ours(core, &core->directory[core->leases[i].shard]))
            ks_lease_return(core, &core->leases[i]);
    core->fleet.round_at = core->now;
}

/* ---- The office ---- */

static bool holds_office(const struct ks_core *core)
{
    return ks_peers_is_me(core, core->fleet.office.holder);
}

static void say_office(struct ks_core *core, bool leads, struct ks_effects *effects)
{
    if (leads != core->fleet.leads)
        ks_effects_story(effects, leads ? KS_STORY_OFFICE_WON : KS_STORY_OFFICE_LOST, KS_SHARD_NONE,
                         core->fleet.self);
    core->fleet.leads = leads;
}

static struct ks_store_effect *ask_office(struct ks_core *core, enum ks_store_operation operation,
                                          uint64_t rev, struct ks_effects *effects)
{
    struct ks_division *division = ours(core);
    struct ks_store_effect *store;

    division->office = ks_core_serial(core);
    division->claiming = operation;
    division->office_rev = take_rev(core, rev);
    store = ks_effects_store(effects, operation, ks_token_make(KS_FOR_OFFICE, 0, division->office));
    store->worker = core->fleet.self;
    store->rev = rev;
    store->next_rev = division->office_rev;
    return store;
}

static bool office_free(const struct ks_core *core)
{
    const struct ks_division *division = &core->fleet.division;

    return division->office == 0;
}

/* Written by a clock that is ahead of ours. */
static bool is_ahead(const struct ks_core *core, uint64_t rev)
{
    return age_us(core, rev) < -skew(core).us;
}

/* Whoever did not write it for long; or who is no client any more, and whose clock was ahead. */
static bool is_silent(struct ks_core *core, const struct ks_leader_row *office)
{
    return age_us(core, office->epoch) >= core->config.lease_duration.us + skew(core).us ||
           (is_ahead(core, office->epoch) && ks_native_member(core, office->holder.worker) == NULL);
}

/* The first client leads, if nobody does, or whoever did is silent. */
static void claim(struct ks_core *core, struct ks_effects *effects)
{
    const struct ks_leader_row *office = &core->fleet.office;
    bool first = ours(core)->total > 0 && ours(core)->index == 0;
    bool vacant = !office->present || (office->holder.worker == 0 && office->holder.boot == 0);
    struct ks_store_effect *store;

    if (first && (vacant || holds_office(core) || is_silent(core, office))) {
        store =
            ask_office(core, KS_STORE_CLAIM_OFFICE, office->present ? office->epoch : 0, effects);
        store->owner = office->holder;
        return;
    }
    if (first || !holds_office(core)) {
        say_office(core, first && holds_office(core), effects);
        return;
    }
    store = ask_office(core, KS_STORE_RESIGN_OFFICE, office->epoch, effects);
    store->owner = office->holder;
}

static void office_answered(struct ks_core *core, enum ks_outcome outcome,
                            struct ks_effects *effects)
{
    struct ks_division *division = ours(core);

    division->office = 0;
    if (outcome == KS_DONE && division->claiming == KS_STORE_NAME_SHARDS) {
        division->next_at = core->now; /* It is read as all of them read it. */
        return;
    }
    if (outcome != KS_DONE || division->claiming == KS_STORE_NAME_SHARDS)
        return; /* The next cycle tells. */
    core->fleet.office.present = true;
    core->fleet.office.epoch = division->office_rev;
    core->fleet.office.holder =
        division->claiming == KS_STORE_CLAIM_OFFICE ? core->fleet.self : KS_NOBODY;
    say_office(core, holds_office(core), effects);
}

/* The shards of the stream that are not read to their end. */
static bool belongs(const struct ks_directory_entry *entry)
{
    return entry->listed && !(entry->present && entry->finished);
}

/* The leader sees to the list once in a period; where there is none, everybody does. */
static void keep_list(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_division *division = ours(core);
    bool due = core->fleet.leads && (age_us(core, division->list_rev) >= core->config.beat.us ||
                                     is_ahead(core, division->list_rev));
    struct ks_store_effect *store;
    uint32_t count = 0;
    bool differs = division->twice;

    if (!division->enrolled || !division->known || !office_free(core) ||
        !(division->empty || due) || ks_instant_before(core->fleet.rows_at, division->began_at))
        return;
    /* Whoever has slept may know an old stream, also by an answer that comes now. */
    if (ks_instant_before(
            ks_instant_add(core->fleet.listed_at, ks_span_us(2 * core->config.beat.us)),
            core->now)) {
        core->fleet.list_at = core->now;
        return;
    }
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        differs |= belongs(entry) != (entry->place > 0 && !division->empty);
        if (belongs(entry))
            core->by_key[count++] = shard;
    }
    if (!differs || count == 0 || !ks_effects_room(core, effects, 1))
        return;
    store = ask_office(core, KS_STORE_NAME_SHARDS, division->list_rev, effects);
    store->shards = core->by_key;
    store->shard_count = count;
}

/* Clients that were silent for two days. */
static void reap(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects)
{
    uint32_t reaped = 0;

    if (!core->fleet.leads)
        return;
    for (uint32_t i = 0; i < event->store.worker_count && i < core->config.workers_max; i++) {
        const struct ks_worker_row *row = &event->store.workers[i];
        struct ks_store_effect *store;

        /* A row that says no time is no client's: its owner may be anybody, and members leave it, too. */
        if (row->damaged || row->beat == 0 || age_us(core, row->beat) < REAP_AGE_US ||
            reaped == REAPED_AT_ONCE || !ks_effects_room(core, effects, 1))
            continue;
        reaped++;
        store = ks_effects_store(effects, KS_STORE_REMOVE_WORKER,
                                 ks_token_make(KS_FOR_FENCE, 0, ks_core_serial(core)));
        store->worker = row->self;
        store->expect_beat = row->beat;
    }
}

/* ---- A cycle: beat, count the clients, read the list ---- */

static void ask(struct ks_core *core, enum ks_store_operation operation, struct ks_effects *effects)
{
    struct ks_division *division = ours(core);
    struct ks_store_effect *store;

    division->serial = ks_core_serial(core);
    division->asking = operation;
    store = ks_effects_store(effects, operation, ks_token_make(KS_FOR_SELF, 0, division->serial));
    store->worker = core->fleet.self;
    store->consistent = true;
    store->next_rev = rev_after(core, 0);
    if (operation == KS_STORE_HEARTBEAT) {
        store->expect_beat = division->beat;
        division->trying = store->next_rev;
    }
}

static void cycle_failed(struct ks_core *core)
{
    ours(core)->next_at = ks_instant_add(core->now, soon(core));
}

/* Whose row was there writes it only while it is: what lands after we signed off makes no client that nobody is. If
 * somebody has removed it, as one that was silent for long, it is made again. */
static void beaten(struct ks_core *core, enum ks_outcome outcome)
{
    struct ks_division *division = ours(core);

    if (outcome == KS_DONE)
        division->beat = division->trying;
    if (outcome == KS_REFUSED)
        division->beat = 0;
}

static void cycle_answered(struct ks_core *core, const struct ks_event *event,
                           struct ks_effects *effects)
{
    struct ks_division *division = ours(core);

    division->serial = 0;
    if (division->asking == KS_STORE_HEARTBEAT)
        beaten(core, event->store.outcome);
    if (event->store.outcome != KS_DONE) {
        cycle_failed(core);
        return;
    }
    if (!ks_peers_want(core) && division->asking != KS_STORE_SAY_GONE)
        return;
    switch ((int)division->asking) {
    case KS_STORE_HEARTBEAT: ask(core, KS_STORE_READ_FLEET, effects); return;
    case KS_STORE_READ_FLEET:
        reap(core, event, effects);
        if (count_clients(core, event, effects))
            ask(core, KS_STORE_READ_NEWS, effects);
        else
            cycle_failed(core);
        return;
    case KS_STORE_READ_NEWS:
        core->fleet.office = event->store.leader;
        divide(core, &event->store.list, effects);
        if (office_free(core))
            claim(core, effects);
        return;
    case KS_STORE_SAY_GONE: division->enrolled = false; return;
    default: assert(false);
    }
}

static void answered(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects)
{
    uint64_t token = event->store.token;
    uint32_t serial = ks_token_serial(token);

    switch ((int)ks_token_purpose(token)) {
    case KS_FOR_SELF:
        if (ours(core)->serial == serial)
            cycle_answered(core, event, effects);
        return;
    case KS_FOR_OFFICE:
        if (ours(core)->office == serial)
            office_answered(core, event->store.outcome, effects);
        return;
    case KS_FOR_FENCE: return;
    default: ks_peers_answered(core, event, effects);
    }
}

/* ---- Capturing ---- */

/* Somebody has it, and has said so lately. */
static bool served(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return entry->present && entry->owner.worker != 0 &&
           age_us(core, entry->rev) < core->config.lease_duration.us + skew(core).us;
}

/* A shard whose parents are not read to their end waits for them. What the stream has forgotten is over when nobody
 * reads the rest of it; it is in no list any more, so that nobody will. */
static bool parents_over(struct ks_core *core, const struct ks_directory_entry *entry)
{
    for (uint32_t p = 0; p < KS_PARENTS_MAX; p++) {
        const struct ks_directory_entry *parent;

        if (entry->parents[p] == KS_SHARD_NONE || entry->parents[p] >= core->directory_top)
            continue;
        parent = &core->directory[entry->parents[p]];
        if (!(parent->present && parent->finished) &&
            (!ks_shards_gone(core, entry->parents[p]) || served(core, parent)))
            return false;
    }
    return true;
}

/* It is old by our clock, and we saw nobody write it for longer than those wait who keep idle shards. Others do not:
 * an owner that lives has time to see that the shard is not its own any more, or its release would end it. */
static bool abandoned(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    int64_t old_us = core->config.lease_duration.us + skew(core).us;
    int64_t longest_us = core->config.lease_duration.us / 2 + core->config.margin.us;
    int64_t patience_us = PERIODS_TO_SEE * core->config.beat.us;
    bool lives = ks_native_member(core, entry->owner.worker) != NULL;

    return age_us(core, entry->rev) >= old_us && ks_peers_unchanged(core, entry).us >= longest_us &&
           (!lives || ks_instant_since(core->now, core->fleet.division.since).us >= patience_us);
}

/* Ours to capture, now or when whoever has it lets it go. */
static bool wanted(struct ks_core *core, const struct ks_directory_entry *entry)
{
    return is_ours(core, entry) && entry->listed && ks_peers_writable(entry) &&
           parents_over(core, entry);
}

static void capture(struct ks_core *core, struct ks_effects *effects)
{
    uint32_t waiting = 0;

    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        if (!wanted(core, entry))
            continue;
        waiting++;
        if (core->leases_used + ks_peers_writes(&core->fleet) >= core->config.leases_max)
            break;
        if (entry->owner.worker != 0 && !ks_peers_is_me(core, entry->owner) &&
            !abandoned(core, entry))
            continue;
        if (!ks_peers_write(core, shard,
                            entry->owner.worker == 0 ? KS_STORE_ASSIGN : KS_STORE_TAKE_OVER,
                            KS_NOBODY, take_rev(core, entry->rev), effects))
            break;
    }
    if (waiting > 0)
        core->fleet.round_at = ks_instant_add(core->now, soon(core));
}

static void count_held(struct ks_core *core)
{
    struct ks_member *member;

    for (uint32_t i = 0; i < core->config.workers_max; i++)
        core->members[i].held = 0;
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        member = ks_peers_open(entry) ? ks_native_member(core, entry->owner.worker) : NULL;
        if (member != NULL)
            member->held++;
    }
    member = ks_native_member(core, core->fleet.self.worker);
    if (member != NULL)
        member->load = core->fleet.load;
}

/* ---- What others leave unread ---- */

/* The client that the shard falls to. */
static struct ks_incarnation client_of(const struct ks_core *core,
                                       const struct ks_directory_entry *entry)
{
    uint32_t index = (entry->place - 1) % core->fleet.division.total;

    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        uint32_t before = 0;

        for (uint32_t other = 0; core->members[i].present && other < core->config.workers_max;
             other++)
            before +=
                core->members[other].present && core->members[other].rank < core->members[i].rank;
        if (core->members[i].present && before == index)
            return core->members[i].self;
    }
    return KS_NOBODY;
}

/* How long another client who lives could have had it, and has not. */
static ks_span neglected(struct ks_core *core, const struct ks_directory_entry *entry)
{
    const struct ks_division *division = &core->fleet.division;
    ks_instant since = entry->present ? entry->seen_at : entry->missed_at;

    if (division->total == 0 || entry->place == 0 || is_ours(core, entry) || !entry->listed ||
        !ks_peers_open(entry) || entry->owner.worker != 0 || entry->doubtful ||
        since.us == KS_NEVER.us || !parents_over(core, entry))
        return ks_span_us(0);
    return ks_instant_since(core->now, ks_instant_max(since, division->since));
}

/* A client that came to an error reads the shard no more until the division changes, and beats: so nobody takes it.
 * Whoever captures does so within a second; what is free for as long as the silent are waited for is told. */
static void watch_unread(struct ks_core *core, struct ks_effects *effects)
{
    ours(core)->unread = 0;
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        struct ks_directory_entry *entry = &core->directory[shard];
        ks_span span = neglected(core, entry);

        if (span.us < core->config.lease_duration.us) {
            entry->unread = false;
            continue;
        }
        ours(core)->unread++;
        if (entry->unread || !ks_effects_room(core, effects, 1))
            continue;
        entry->unread = true;
        ks_effects_story(effects, KS_STORY_UNREAD, shard, client_of(core, entry))->story.span =
            span;
    }
}

static void round_of(struct ks_core *core, struct ks_effects *effects)
{
    core->fleet.round_at = ks_instant_add(core->now, core->config.beat);
    count_held(core);
    watch_unread(core, effects);
    if (ks_peers_want(core))
        capture(core, effects);
    keep_list(core, effects);
}

/* ---- We ourselves ---- */

static void start(struct ks_core *core)
{
    ks_peers_start(core);
    ours(core)->next_at = core->now;
    ours(core)->began_at = core->now;
    ours(core)->since = core->now;
    core->fleet.listed_at = KS_LONG_AGO;
}

static bool may_sign_off(const struct ks_core *core)
{
    const struct ks_division *division = &core->fleet.division;

    return division->enrolled && !ks_peers_want(core) && core->leases_used == 0 &&
           ks_peers_writes(&core->fleet) == 0 && division->serial == 0 && division->office == 0;
}

/* Nothing of ours is left: then we resign, and sign off. */
static void sign_off(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_division *division = ours(core);

    if (!may_sign_off(core))
        return;
    if (!division->leaving)
        division->next_at = core->now;
    division->leaving = true;
    if (!ks_instant_reached(core->now, division->next_at))
        return;
    division->next_at = ks_instant_add(core->now, soon(core));
    division->total = 0;
    if (core->fleet.leads && holds_office(core)) {
        ask_office(core, KS_STORE_RESIGN_OFFICE, core->fleet.office.epoch, effects)->owner =
            core->fleet.self;
        core->fleet.office.holder = KS_NOBODY; /* Once. */
        division->next_at = core->now;
        return;
    }
    division->beat = 0;
    ask(core, KS_STORE_SAY_GONE, effects);
}

static void turn(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_division *division = ours(core);

    if (core->fleet.step == KS_SELF_LIVE && ks_effects_room(core, effects, 2)) {
        sign_off(core, effects);
        if (ks_peers_want(core) && division->serial == 0 &&
            ks_instant_reached(core->now, division->next_at)) {
            division->enrolled = true;
            division->leaving = false;
            division->began_at = core->now;
            division->next_at = ks_instant_add(core->now, core->config.beat);
            ask(core, KS_STORE_HEARTBEAT, effects);
        }
    }
    ks_peers_turn(core, effects);
}

static void look(struct ks_core *core)
{
    ours(core)->next_at = core->now;
    ks_peers_look(core);
}

static ks_instant deadline(const struct ks_core *core)
{
    const struct ks_division *division = &core->fleet.division;
    ks_instant due = ks_peers_deadline(core);

    if (core->fleet.step != KS_SELF_LIVE || division->serial != 0)
        return due;
    if (may_sign_off(core) && !division->leaving)
        return core->now;
    return ks_peers_want(core) || may_sign_off(core) ? ks_instant_min(due, division->next_at) : due;
}

const struct ks_fleet_protocol ks_kinsumer_protocol = {
    .start = start,
    .answered = answered,
    .listed = ks_peers_listed,
    .look = look,
    .locked = ks_peers_locked,
    .turn = turn,
    .deadline = deadline,
    .changed = ks_peers_changed,
    .read = read_row,
    .see = ks_peers_see,
    .take = ks_peers_take,
    .next_rev = next_rev,
    .serves_until = serves_until,
    .renew_at = renew_at,
    .round = round_of,
};
