/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/claims_world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/letter.h"
#include "base/budget.h"
#include "base/prng.h"

#include "ks_test.h"

enum {
    REDRIVES = 8,
    FAULTS_MS = 900000, /* So long things go wrong. */
    PEACE_MS = 400000,  /* So long everything that is left may take. */
    RENEWAL_MS = KS_LETTER_CLAIM_MS / 3,
    LATE_MS = 120000, /* How late a request may land. */
    AGE_MS = 100000,  /* Between two records of which the letters are pointers. */
    LIVES = 4,        /* Such records in the stream at one time. */
    /* How long after its end the leader deletes a pointer: longer than a request may be late, as the hour of
     * PROTOCOL.md is longer than AWS takes a signature. */
    OVER_MS = LATE_MS + 30000
};

static const int64_t NEVER = INT64_MAX;

enum state { FREE, CLAIMING, DELIVERED, ENDING };

struct redrive {
    enum state state;
    uint32_t worker;
    uint32_t record;
    char claim[32];
    uint32_t attempts;
    bool acked;
    int64_t died_ms;
    int64_t due; /* It ends, or what it says is said again. */
    int64_t renewal;
};

static struct {
    const struct claims_store *store;
    uint64_t seed;
    struct ks_prng prng;
    int64_t now;
    bool peace;
    int64_t begun;
    struct claims_letter truths[CLAIMS_RECORDS];
    uint32_t written[CLAIMS_RECORDS]; /* The most attempts that a letter had. */
    int64_t died_ms[CLAIMS_RECORDS];  /* The latest death. */
    int64_t paused_until[CLAIMS_WORKERS];
    struct redrive redrives[REDRIVES];
    uint64_t claims;
    /* What was met: a test that meets nothing proves nothing. */
    uint64_t removed, discarded, amended, refused, lapsed, rewritten, kept, expired;
} world;

static int64_t below(int64_t limit)
{
    return (int64_t)ks_prng_below(&world.prng, (uint64_t)limit);
}

bool claims_chance(int64_t in_thousand)
{
    return !world.peace && below(1000) < in_thousand;
}

int64_t claims_now(void)
{
    return world.now;
}

int64_t claims_clock_of_worker(void)
{
    return world.now - below(2000);
}

bool claims_is_paused(uint32_t worker)
{
    return world.paused_until[worker] > world.now;
}

void claims_id(uint32_t record, char ret_id[64])
{
    (void)snprintf(ret_id, 64, CLAIMS_SHARD ".%" PRIu32 ".0", 40 + record);
}

struct claims_message claims_send(void)
{
    struct claims_message message = {
        .lands = claims_chance(50)    ? NEVER
                 : claims_chance(100) ? world.now + below(LATE_MS)
                                      : world.now + below(200),
        .answers = world.now + CLAIMS_PATIENCE_MS,
    };

    message.is_heard = !claims_chance(100) && message.lands < message.answers - 200;
    if (message.is_heard)
        message.answers = message.lands + below(200);
    return message;
}

/* ---- The oracle ---- */

static void broke(const char *what, const struct claims_change *change)
{
    FAIL("seed %" PRIu64 ", %" PRId64 " ms: %s (record %" PRIu32 ", claim %s)", world.seed,
         world.now, what, change->record, change->claim);
}

static void note_death(const struct claims_change *change)
{
    if (world.written[change->record] < change->attempts)
        world.written[change->record] = change->attempts;
    if (world.died_ms[change->record] < change->died_ms)
        world.died_ms[change->record] = change->died_ms;
}

static void judge_write(const struct claims_change *change)
{
    struct claims_letter *const truth = &world.truths[change->record];

    if (truth->is_there && world.store->later_stays && change->died_ms < truth->died_ms)
        broke("a letter was overwritten by one that died earlier", change);
    if (truth->is_there && !world.store->later_stays && change->attempts < truth->attempts)
        broke("a letter forgot attempts", change);
    world.rewritten += truth->is_there;
    note_death(change);
    *truth = (struct claims_letter){.is_there = true,
                                    .attempts = change->attempts,
                                    .died_ms = change->died_ms,
                                    .expires_ms = change->expires_ms};
}

static void judge_claim(const struct claims_change *change, bool is_its)
{
    struct claims_letter *const truth = &world.truths[change->record];
    struct claims_letter letter;

    if (!truth->is_there)
        broke("a letter that is not there was claimed", change);
    if (change->attempts != truth->attempts)
        broke("a letter was claimed that was given up again since it was read", change);
    if (!is_its && truth->claim[0] != '\0' && truth->claimed_until >= world.now)
        broke("a letter was claimed while another claim lasts", change);
    world.lapsed += !is_its && truth->claim[0] != '\0';
    world.store->read(change->record, &letter);
    memcpy(truth->claim, change->claim, sizeof truth->claim);
    truth->claimed_until = letter.claimed_until;
}

static void judge_amend(const struct claims_change *change, bool is_its)
{
    struct claims_letter *const truth = &world.truths[change->record];

    if (!is_its || change->attempts < truth->attempts)
        broke("a letter was given up again that was written or claimed since", change);
    truth->attempts = change->attempts;
    truth->died_ms = change->died_ms;
    truth->claim[0] = '\0';
    truth->claimed_until = 0;
    note_death(change);
    world.amended++;
}

static void judge_remove(const struct claims_change *change, bool is_its)
{
    struct claims_letter *const truth = &world.truths[change->record];

    if (!truth->is_there)
        broke("a letter that is not there was removed", change);
    if (change->over && (truth->expires_ms == 0 || truth->expires_ms >= world.now))
        broke("the leader removed a letter before its time", change);
    if (change->claim[0] == '\0')
        world.discarded += !change->over;
    else if (!is_its)
        broke("a letter was removed that was written or claimed since", change);
    *truth = (struct claims_letter){.is_there = false};
    world.removed++;
}

void claims_happened(const struct claims_change *change)
{
    struct claims_letter *const truth = &world.truths[change->record];
    const bool is_its = truth->is_there && strcmp(truth->claim, change->claim) == 0;

    switch (change->kind) {
    case CLAIMS_WRITE: judge_write(change); return;
    case CLAIMS_CLAIM: judge_claim(change, is_its); return;
    case CLAIMS_AMEND: judge_amend(change, is_its); return;
    case CLAIMS_REMOVE: judge_remove(change, is_its); return;
    case CLAIMS_KEEP:
        if (!truth->is_there)
            broke("a letter that is not there was kept", change);
        truth->expires_ms = 0;
        world.kept++;
        return;
    case CLAIMS_EXPIRE:
        if (truth->is_there && (truth->expires_ms == 0 || truth->expires_ms >= world.now))
            broke("a letter was lost before its time", change);
        *truth = (struct claims_letter){.is_there = false};
        world.expired++;
        return;
    }
}

void claims_compare(uint32_t record)
{
    const struct claims_letter *const truth = &world.truths[record];
    struct claims_letter letter;

    world.store->read(record, &letter);
    if (letter.is_there != truth->is_there)
        FAIL("seed %" PRIu64 ": letter %" PRIu32 " %s", world.seed, record,
             letter.is_there ? "is there" : "is lost");
    if (!letter.is_there)
        return;
    EXPECT_EQ_U64(letter.attempts, truth->attempts);
    EXPECT_STR(letter.claim, truth->claim);
    EXPECT_EQ_I64(letter.claimed_until, truth->claimed_until);
    EXPECT_EQ_I64(letter.died_ms, truth->died_ms);
    EXPECT_EQ_I64(letter.expires_ms, truth->expires_ms);
}

/* ---- Workers ---- */

static struct redrive *find_claim(const char *claim)
{
    for (uint32_t at = 0; at < REDRIVES; at++)
        if (world.redrives[at].state != FREE && strcmp(world.redrives[at].claim, claim) == 0)
            return &world.redrives[at];
    return NULL;
}

static void ask(enum claims_kind kind, const struct redrive *redrive)
{
    struct claims_change change = {.kind = kind,
                                   .worker = redrive->worker,
                                   .record = redrive->record,
                                   .attempts = redrive->attempts + (kind == CLAIMS_AMEND),
                                   .died_ms = redrive->died_ms};

    memcpy(change.claim, redrive->claim, sizeof change.claim);
    world.store->change(&change);
}

static void say_end(struct redrive *redrive)
{
    redrive->state = ENDING;
    redrive->due = NEVER;
    ask(redrive->acked ? CLAIMS_REMOVE : CLAIMS_AMEND, redrive);
}

static void order(uint32_t worker, uint32_t record)
{
    struct redrive *redrive = world.redrives;
    struct claims_letter letter;

    world.store->read(record, &letter);
    while (redrive < world.redrives + REDRIVES && redrive->state != FREE)
        redrive++;
    if (letter.expires_ms != 0 && letter.expires_ms < world.now)
        return; /* The record has left the stream. */
    if (claims_is_paused(worker) || !letter.is_there || redrive == world.redrives + REDRIVES ||
        (letter.claim[0] != '\0' && letter.claimed_until >= claims_clock_of_worker()))
        return;
    *redrive = (struct redrive){.state = CLAIMING,
                                .worker = worker,
                                .record = record,
                                .attempts = letter.attempts,
                                .due = NEVER,
                                .renewal = NEVER};
    (void)snprintf(redrive->claim, sizeof redrive->claim, "w%" PRIu32 "#%" PRIu64, worker,
                   world.claims++);
    ask(CLAIMS_CLAIM, redrive);
}

/* The owner's watermark passes the record. */
static void check_written(const struct claims_change *change)
{
    if (world.store->later_stays ? world.died_ms[change->record] < change->died_ms
                                 : world.written[change->record] < change->attempts)
        broke("a write was done, and the letter was never there", change);
}

void claims_answered(const struct claims_change *change, enum ks_outcome outcome)
{
    struct redrive *const redrive = find_claim(change->claim);
    const bool claims = change->kind == CLAIMS_CLAIM;

    if (change->kind == CLAIMS_WRITE && outcome == KS_DONE)
        check_written(change);
    if (redrive == NULL || change->claim[0] == '\0')
        return;
    world.refused += outcome == KS_REFUSED;
    if (claims && redrive->state == CLAIMING && outcome == KS_DONE) {
        redrive->state = DELIVERED;
        redrive->due = world.now + below(150000);
        redrive->renewal = world.now + RENEWAL_MS;
    } else if (claims && (redrive->state == CLAIMING || outcome == KS_REFUSED)) {
        if (redrive->state != ENDING)
            redrive->state = FREE;
    } else if (!claims && outcome == KS_UNKNOWN) {
        redrive->due = world.now + 1000;
    } else if (!claims) {
        redrive->state = FREE;
    }
}

static void look_at_redrive(struct redrive *redrive)
{
    if (redrive->state == FREE || claims_is_paused(redrive->worker))
        return;
    if (redrive->renewal <= world.now) {
        redrive->renewal = redrive->state == DELIVERED ? world.now + RENEWAL_MS : NEVER;
        if (redrive->state == DELIVERED)
            ask(CLAIMS_CLAIM, redrive);
    }
    if (redrive->due <= world.now) {
        if (redrive->state == DELIVERED) {
            redrive->acked = world.peace || below(2) == 0;
            redrive->died_ms = world.now;
        }
        say_end(redrive);
    }
}

static void die(uint32_t worker)
{
    for (uint32_t at = 0; at < REDRIVES; at++)
        if (world.redrives[at].worker == worker)
            world.redrives[at].state = FREE;
    if (world.store->die != NULL)
        world.store->die(worker);
}

/* ---- Time ---- */

static uint32_t records(void)
{
    return world.store->pointers ? CLAIMS_RECORDS : 3;
}

/* When the record leaves its stream; 0: letters are no pointers. */
static int64_t expiry_of(uint32_t record)
{
    return world.store->pointers ? world.begun + (record + LIVES) * (int64_t)AGE_MS : 0;
}

/* A record of the stream: of the newest, where they expire. */
static uint32_t pick(void)
{
    const int64_t newest = (world.now - world.begun) / AGE_MS;
    const int64_t record = newest - below(LIVES);

    if (!world.store->pointers)
        return (uint32_t)below(records());
    return record < 0 ? 0 : record < CLAIMS_RECORDS ? (uint32_t)record : CLAIMS_RECORDS - 1;
}

static void ask_otherwise(enum claims_kind kind, uint32_t worker, uint32_t record, bool over)
{
    const struct claims_change change = {.kind = kind,
                                         .worker = worker,
                                         .record = record,
                                         .attempts = 1 + (uint32_t)below(6),
                                         .died_ms = world.now,
                                         .expires_ms = expiry_of(record),
                                         .over = over};

    world.store->change(&change);
}

/* The owner of the shard, a person, and the leader in the last part of a pointer's time. */
static void change_otherwise(uint32_t worker, uint32_t record)
{
    const int64_t expiry = expiry_of(record);
    const bool lives = expiry == 0 || expiry > world.now;

    if (lives && claims_chance(300))
        ask_otherwise(CLAIMS_WRITE, worker, record, false);
    if (claims_chance(20))
        ask_otherwise(CLAIMS_REMOVE, worker, record, false);
    if (lives && expiry > 0 && expiry < world.now + AGE_MS && claims_chance(200))
        ask_otherwise(CLAIMS_KEEP, worker, record, false);
}

/* DynamoDB removes letters whose time is over, and so does the leader of the fleet, later. */
static void expire(uint32_t worker, uint32_t record)
{
    struct claims_letter letter;

    world.store->read(record, &letter);
    if (!letter.is_there || letter.expires_ms == 0 || letter.expires_ms >= world.now)
        return;
    if (below(4) == 0)
        ask_otherwise(CLAIMS_EXPIRE, worker, record, false);
    else if (letter.expires_ms < world.now - OVER_MS && !claims_is_paused(worker))
        ask_otherwise(CLAIMS_REMOVE, worker, record, true);
}

static void happen(void)
{
    const uint32_t worker = (uint32_t)below(CLAIMS_WORKERS);
    const uint32_t record = pick();

    if (!claims_is_paused(worker))
        change_otherwise(worker, record);
    if (world.store->pointers)
        expire(worker, (uint32_t)below(records()));
    if (claims_chance(700) || world.peace)
        order(worker, world.peace ? (uint32_t)below(records()) : record);
    if (claims_chance(100))
        world.paused_until[worker] = world.now + below(150000);
    if (claims_chance(50))
        die(worker);
}

static void run(uint64_t seed)
{
    struct claims_letter letter;

    world.seed = seed;
    ks_prng_init(&world.prng, seed);
    world.now = world.begun = 1000000;
    world.peace = false;
    memset(world.truths, 0, sizeof world.truths);
    memset(world.written, 0, sizeof world.written);
    memset(world.died_ms, 0, sizeof world.died_ms);
    memset(world.paused_until, 0, sizeof world.paused_until);
    memset(world.redrives, 0, sizeof world.redrives);
    world.store->begin();
    for (int64_t end = world.now + FAULTS_MS + PEACE_MS; world.now < end;
         world.now += CLAIMS_TURN_MS) {
        world.peace = world.now > end - PEACE_MS;
        world.store->turn();
        for (uint32_t at = 0; at < REDRIVES; at++)
            look_at_redrive(&world.redrives[at]);
        if (below(world.peace ? 20 : 50) == 0)
            happen();
    }
    for (uint32_t record = 0; record < records(); record++) {
        world.store->read(record, &letter);
        if (letter.is_there)
            FAIL("seed %" PRIu64 ": letter %" PRIu32 " cannot be redriven", seed, record);
    }
    world.store->end();
}

void claims_run(const struct claims_store *store, uint64_t seeds)
{
    const char *const wanted = getenv("KS_SEEDS");

    if (wanted != NULL)
        seeds = strtoull(wanted, NULL, 10);
    memset(&world, 0, sizeof world);
    world.store = store;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        run(seed);
    printf("%" PRIu64 " removed, %" PRIu64 " of them by people, %" PRIu64
           " given up again, %" PRIu64 " refused, %" PRIu64
           " claims of others that were over, %" PRIu64 " written anew, %" PRIu64 " kept, %" PRIu64
           " expired\n",
           world.removed, world.discarded, world.amended, world.refused, world.lapsed,
           world.rewritten, world.kept, world.expired);
    EXPECT(world.removed > seeds && world.amended > seeds && world.refused > seeds);
    EXPECT(world.lapsed > seeds / 10 && world.rewritten > seeds && world.discarded > seeds / 10);
    EXPECT(!store->pointers || (world.kept > seeds && world.expired > seeds));
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
