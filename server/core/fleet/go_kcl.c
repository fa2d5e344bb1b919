/* SPDX-License-Identifier: Apache-2.0 */
/* The manners of vmware-go-kcl (v1 and v2), of whose fleet we are a member: docs/DIALECTS.md.
 *
 * A fleet of equals (peers.h). A row says who has the lease and until when, by the wall clock; whoever finds it free
 * or run out takes it by a write that names what it read. That time is the row's rev here, in ns since 1970: every
 * write of ours moves it on, so that no two of them can both be applied, and a checkpoint is a renewal, too. Who wants
 * a lease of somebody else claims it, and waits until it is given back. */
#include <assert.h>
#include <stddef.h>

#include "core/fleet/go_kcl.h"

enum { US_PER_SECOND = 1000000 };
#define NS_PER_SECOND UINT64_C(1000000000)
/* A lease is left to who claimed it until its time is over for so long: a constant of theirs. */
#define CLAIM_TIMEOUT ks_span_ms(120000)
/* No write of ours is under way for so long: a time that is this far ahead need not be passed. */
#define FAR_AHEAD (60 * NS_PER_SECOND)
/* Between two claims of ours: LeaseStealingIntervalMillis. */
#define CLAIM_EVERY ks_span_ms(5000)
/* The next look, while something is to be had soon. */
#define SOON ks_span_ms(1000)

/* ---- Times ---- */

/* By so much the clocks of two members may differ. */
static ks_span skew(const struct ks_core *core)
{
    return ks_span_us(2 * core->config.margin.us);
}

/* Whole seconds, rounded up: all members read and write these alike. */
static uint64_t rev_after(const struct ks_core *core, uint64_t before)
{
    int64_t until_us = core->wall_us + core->config.lease_duration.us;
    uint64_t rev = (uint64_t)((until_us + US_PER_SECOND - 1) / US_PER_SECOND) * NS_PER_SECOND;

    return rev > before ? rev : (before / NS_PER_SECOND + 1) * NS_PER_SECOND;
}

/* A time that somebody left whose clock was far ahead is not handed on: all would wait for it, were we to die. */
static uint64_t take_rev(const struct ks_core *core, uint64_t before)
{
    uint64_t rev = rev_after(core, 0);

    return before > rev + FAR_AHEAD ? rev : rev_after(core, before);
}

uint64_t ks_go_kcl_next_rev(const struct ks_core *core, const struct ks_lease *lease)
{
    assert(lease->tried >= lease->rev);
    return rev_after(core, lease->tried);
}

/* A write moves the time on by a second at least: with more of them than seconds pass, the lease of who dies would be
 * waited for the longer, the more he wrote. Where the clock was set back, none waits for more than that second. */
ks_instant ks_go_kcl_next_at(const struct ks_core *core, const struct ks_lease *lease)
{
    int64_t ahead_us =
        (int64_t)(lease->tried / 1000) - core->config.lease_duration.us - core->wall_us;

    return ks_instant_min(ks_instant_add(core->now, ks_span_us(ahead_us > 0 ? ahead_us : 0)),
                          ks_instant_add(lease->asked_at, ks_span_us(US_PER_SECOND)));
}

/* Others take it when their clock shows its time: ours may be behind. Whatever the row says, it is no longer than what
 * we asked for. */
ks_instant ks_go_kcl_serves_until(const struct ks_core *core, uint64_t rev)
{
    int64_t left_us = (int64_t)(rev / 1000) - core->wall_us;
    int64_t most_us = core->config.lease_duration.us + US_PER_SECOND;

    return ks_instant_add(core->now,
                          ks_span_us((left_us < most_us ? left_us : most_us) - skew(core).us));
}

/* True if the row's time was over `since` ago, by our clock and whoever's may be behind it. */
static bool over_since(const struct ks_core *core, const struct ks_directory_entry *entry,
                       ks_span since)
{
    return core->wall_us - (int64_t)(entry->rev / 1000) >= since.us + skew(core).us;
}

/* A row that our own final write made free is told as what lease.c looks for: that write does not move the time. */
void ks_go_kcl_read(const struct ks_core *core, struct ks_lease_row *row)
{
    const struct ks_lease *lease = ks_peers_held(core, &core->directory[row->shard]);

    ks_peers_read(core, row);
    if (lease != NULL && !row->damaged && row->owner.worker == 0 && lease->given_up &&
        row->rev == lease->rev)
        row->rev++;
}

/* ---- Writes ---- */

static bool write_row(struct ks_core *core, ks_shard shard, enum ks_store_operation operation,
                      struct ks_incarnation target, struct ks_effects *effects)
{
    return ks_peers_write(core, shard, operation, target,
                          take_rev(core, core->directory[shard].rev), effects);
}

/* ---- Taking ---- */

/* Its time is over, and we saw nobody renew it for longer than any member waits with that: also where our own clock is
 * wrong, no lease is taken from one who lives. */
static bool run_out(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    int64_t longest_us = core->config.lease_duration.us / 2 + core->config.margin.us;

    return over_since(core, entry, ks_span_us(0)) &&
           ks_peers_unchanged(core, entry).us >= longest_us;
}

/* Somebody else waits for it. */
static bool claimed(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return entry->next_owner.worker != 0 && !ks_peers_is_me(core, entry->next_owner) &&
           !over_since(core, entry, CLAIM_TIMEOUT);
}

static bool takeable(struct ks_core *core, const struct ks_directory_entry *entry)
{
    return ks_peers_writable(entry) && !claimed(core, entry) &&
           (entry->owner.worker == 0 || run_out(core, entry)) &&
           ks_shards_parents_over(core, entry);
}

bool ks_go_kcl_take(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    const struct ks_directory_entry *entry = &core->directory[shard];

    return takeable(core, entry) &&
           write_row(core, shard, entry->owner.worker != 0 ? KS_STORE_TAKE_OVER : KS_STORE_ASSIGN,
                     KS_NOBODY, effects);
}

/* A row that names us, and that we do not hold: of an earlier run of ours, or by a write that came late. */
static bool names_us(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return ks_peers_open(entry) && ks_peers_is_me(core, entry->owner) &&
           entry->held == KS_HELD_NONE && !entry->writing;
}

/* Room for what nobody has: what names us has a place already. */
static uint32_t room_beside(const struct ks_core *core)
{
    uint32_t room = ks_peers_room(core);

    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        room -= room > 0 && names_us(core, &core->directory[shard]);
    return room;
}

/* Room whatever our limit: for what no other process reads. */
static uint32_t room_at_most(const struct ks_core *core)
{
    const uint32_t have = core->leases_used + ks_peers_writes(&core->fleet);

    return have < core->config.leases_max ? core->config.leases_max - have : 0;
}

/* What is free, in the order in which it is taken. */
enum vacancy {
    OWN,    /* Names us. Behind a mask no other process reads it: it is ours whatever our limit. */
    HIDDEN, /* Masked, without an owner that lives: no process of kcl-rb reads it. */
    VACANT,
    VACANCIES
};

static enum vacancy vacancy_of(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    if (names_us(core, entry))
        return OWN;
    return entry->present && entry->masked ? HIDDEN : VACANT;
}

static uint32_t room_for(const struct ks_core *core, enum vacancy vacancy)
{
    switch (vacancy) {
    case OWN: return core->config.masking ? room_at_most(core) : ks_peers_room(core);
    case HIDDEN: return room_at_most(core);
    case VACANT:
    case VACANCIES: break;
    }
    return room_beside(core);
}

/* It was free at the last look at all rows, and is, as far as we know. Its time does not run out between two looks. */
static bool is_free(struct ks_core *core, const struct ks_directory_entry *entry)
{
    return entry->vacant && takeable(core, entry);
}

/* Half of what is free at a time, and not every worker the same: so those who start together share it. What names us
 * is ours before that. Returns how much was free, as far as there is still room for it. */
static uint32_t take_vacancy(struct ks_core *core, enum vacancy vacancy, ks_shard first,
                             struct ks_effects *effects)
{
    const uint32_t top = core->directory_top;
    uint32_t room = room_for(core, vacancy);
    uint32_t free = 0;
    uint32_t most;

    for (ks_shard shard = 0; shard < top; shard++)
        free += is_free(core, &core->directory[shard]) &&
                vacancy_of(core, &core->directory[shard]) == vacancy;
    most = vacancy == OWN ? free : (free + 1) / 2;
    most = most < room ? most : room;
    for (uint32_t i = 0; i < top && most > 0; i++) {
        const ks_shard shard = (first + i) % top;
        const struct ks_directory_entry *entry = &core->directory[shard];

        if (!is_free(core, entry) || vacancy_of(core, entry) != vacancy)
            continue;
        if (!ks_go_kcl_take(core, shard, effects))
            break;
        most--;
    }
    room = room_for(core, vacancy);
    return free < room ? free : room;
}

/* Returns how much was free, as far as there is room for it. */
static uint32_t take_free(struct ks_core *core, struct ks_effects *effects)
{
    uint32_t free = 0;
    ks_shard first;

    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        free += is_free(core, &core->directory[shard]);
    if (free == 0)
        return 0;
    free = 0;
    first = (ks_shard)ks_prng_below(&core->prng, core->directory_top);
    for (enum vacancy vacancy = OWN; vacancy < VACANCIES; vacancy++)
        free += take_vacancy(core, vacancy, first, effects);
    return free;
}

/* ---- Claiming ---- */

static bool claims(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return ks_peers_open(entry) && ks_peers_is_me(core, entry->next_owner) &&
           !ks_peers_is_me(core, entry->owner);
}

static bool any_claim(const struct ks_core *core)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        if (claims(core, &core->directory[shard]))
            return true;
    return false;
}

/* Whoever has two more than we can give one away, and nothing swings back. */
static const struct ks_member *richest(const struct ks_core *core)
{
    const struct ks_member *richest = NULL;

    for (uint32_t i = 0; i < core->config.workers_max; i++) {
        const struct ks_member *member = &core->members[i];

        if (member->present && !ks_peers_is_me(core, member->self) &&
            member->held >= (uint64_t)core->leases_used + 2 &&
            (richest == NULL || member->held > richest->held))
            richest = member;
    }
    return richest;
}

/* One at a time. NULL: of nobody, now. */
static const struct ks_member *victim(const struct ks_core *core)
{
    return ks_peers_room(core) == 0 || ks_peers_writes(&core->fleet) > 0 || any_claim(core)
               ? NULL
               : richest(core);
}

/* And the lease may be had, and read then: what waits for its parents would go on waiting with us, until the next look
 * at all rows. */
static bool has(struct ks_core *core, const struct ks_member *member, ks_shard shard)
{
    const struct ks_directory_entry *entry = &core->directory[shard];

    return ks_peers_writable(entry) && entry->next_owner.worker == 0 &&
           ks_incarnation_equal(entry->owner, member->self) && ks_shards_parents_over(core, entry);
}

static void claim_one(struct ks_core *core)
{
    const struct ks_member *whom = victim(core);
    uint32_t at;

    if (whom == NULL || !ks_instant_reached(core->now, core->fleet.claim_at))
        return;
    core->fleet.claim_at = ks_instant_add(core->now, CLAIM_EVERY);
    at = (uint32_t)ks_prng_below(&core->prng, core->directory_top);
    for (uint32_t i = 0; i < core->directory_top; i++) {
        ks_shard shard = (at + i) % core->directory_top;

        if (!has(core, whom, shard))
            continue;
        (void)ks_peers_claim(core, shard, ks_span_us(0));
        return;
    }
}

/* Until its owner gives it back nobody reads on: that is not waited for by looks at all rows. */
static void follow(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    const struct ks_directory_entry *entry = &core->directory[shard];
    const bool owned = entry->owner.worker != 0;

    if (!ks_peers_want(core))
        (void)write_row(core, shard, KS_STORE_PLAN, KS_NOBODY, effects);
    else if (takeable(core, entry) && ks_peers_room(core) > 0)
        (void)write_row(core, shard, owned ? KS_STORE_TAKE_OVER : KS_STORE_ASSIGN, KS_NOBODY,
                        effects);
    else
        (void)ks_peers_claim(core, shard, SOON);
}

static void follow_all(struct ks_core *core)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        if (claims(core, &core->directory[shard]) && ks_peers_writable(&core->directory[shard]))
            (void)ks_peers_claim(core, shard, SOON);
}

/* The row was read. */
void ks_go_kcl_claim(struct ks_core *core, ks_shard shard, struct ks_effects *effects)
{
    const struct ks_member *whom = victim(core);

    if (claims(core, &core->directory[shard]))
        follow(core, shard, effects);
    else if (whom != NULL && has(core, whom, shard) && ks_peers_want(core))
        (void)write_row(core, shard, KS_STORE_PLAN, core->fleet.self, effects);
}

/* We do not want it any more: its owner would give it back to nobody. */
static void unclaim(struct ks_core *core, struct ks_effects *effects)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        if (claims(core, entry) && !entry->writing && !entry->doubtful &&
            !write_row(core, shard, KS_STORE_PLAN, KS_NOBODY, effects))
            return;
    }
}

/* ---- Rounds ---- */

/* Whoever had time left when the rows were asked for has renewed it while they came. */
bool ks_go_kcl_lives(const struct ks_core *core, const struct ks_directory_entry *entry)
{
    return !over_since(core, entry, ks_instant_since(core->now, core->fleet.rows_asked_at));
}

/* Half of the rest each time: what was free at a look is taken within two beats. */
static ks_span take_every(const struct ks_core *core)
{
    return ks_span_us(core->config.beat.us / 16);
}

static void note_vacant(struct ks_core *core)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++)
        core->directory[shard].vacant = takeable(core, &core->directory[shard]);
}

void ks_go_kcl_round(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;
    uint32_t free = 0;

    ks_peers_count(core, ks_go_kcl_lives); /* Others have no owner who counts. */
    note_vacant(core);
    if (ks_peers_want(core)) {
        free = take_free(core, effects);
        follow_all(core);
    } else {
        unclaim(core, effects);
    }

    if (ks_peers_want(core) && free == 0 && core->config.stealing)
        claim_one(core);
    ks_peers_clean_up(core, ks_shards_may_delete, effects);
    fleet->round_at = ks_instant_add(core->now, core->config.beat);
    fleet->take_at = free > 0 ? ks_instant_add(core->now, take_every(core)) : KS_NEVER;
    if (free > 0)
        fleet->round_at = ks_instant_min(fleet->round_at, ks_instant_add(core->now, SOON));
}

/* A take of what we claimed was refused, and no look at all rows may come before we leave. */
static void give_up_claims(struct ks_core *core)
{
    for (ks_shard shard = 0; shard < core->directory_top; shard++) {
        const struct ks_directory_entry *entry = &core->directory[shard];

        if (claims(core, entry) && !entry->writing && entry->held == KS_HELD_NONE)
            (void)ks_peers_claim(core, shard, ks_span_us(0));
    }
}

/* A look at all rows may take half a minute, and one brings at most half of what is free and as many as can be written
 * at once. The rest is taken meanwhile: its rows are as they were, or the write is refused. */
static void turn(struct ks_core *core, struct ks_effects *effects)
{
    struct ks_fleet *fleet = &core->fleet;

    if (fleet->step == KS_SELF_LIVE && !ks_peers_want(core))
        give_up_claims(core);
    ks_peers_turn(core, effects);
    if (fleet->step != KS_SELF_LIVE || !ks_instant_reached(core->now, fleet->take_at))
        return;
    fleet->take_at = ks_peers_want(core) && take_free(core, effects) > 0
                         ? ks_instant_add(core->now, take_every(core))
                         : KS_NEVER;
}

static ks_instant deadline(const struct ks_core *core)
{
    const ks_instant due = ks_peers_deadline(core);

    return core->fleet.step == KS_SELF_LIVE ? ks_instant_min(due, core->fleet.take_at) : due;
}

static void start(struct ks_core *core)
{
    ks_peers_start(core);
    core->fleet.take_at = KS_NEVER;
}

const struct ks_fleet_protocol ks_go_kcl_protocol = {
    .start = start,
    .answered = ks_peers_answered,
    .listed = ks_peers_listed,
    .look = ks_peers_look,
    .locked = ks_peers_locked,
    .turn = turn,
    .deadline = deadline,
    .changed = ks_peers_changed,
    .read = ks_go_kcl_read,
    .see = ks_peers_see,
    .take = ks_peers_take,
    .next_rev = ks_go_kcl_next_rev,
    .next_at = ks_go_kcl_next_at,
    .serves_until = ks_go_kcl_serves_until,
    .renew_at = ks_peers_renew_at,
    .round = ks_go_kcl_round,
    .claim = ks_go_kcl_claim,
};
