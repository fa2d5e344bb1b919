/* SPDX-License-Identifier: Apache-2.0 */
/* letter_claims_test.c - workers redrive the letters of one table at the same time (docs/PROTOCOL.md, A9).
 *
 * The requests are those of adapters/dynamodb/letter_item.c, on a table in memory; the workers are a model of
 * ports/board_redrive.c. Requests arrive late, out of order and after their answer was given up; answers are lost;
 * workers are paused and die; clocks of workers lag behind the table's; the owner of a shard writes its letters anew.
 * The oracle knows what each request may do when it arrives, without a look at the table.
 */
#include "adapters/dynamodb/letter_item.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/budget.h"
#include "base/prng.h"

#include "item_table.h"
#include "ks_test.h"

enum {
    SEEDS = 400,
    RECORDS = 3,
    WORKERS = 3,
    REDRIVES = 8,
    PACKETS = 64,
    FAULTS_MS = 900000,  /* So long things go wrong. */
    PEACE_MS = 400000,   /* So long everything that is left may take. */
    PATIENCE_MS = 10000, /* Then an answer is not waited for. */
    RENEWAL_MS = KS_LETTER_CLAIM_MS / 3
};

static const int64_t NEVER = INT64_MAX;

enum kind { WRITE, CLAIM, AMEND, REMOVE };
enum state { FREE, CLAIMING, DELIVERED, ENDING };

struct redrive {
    enum state state;
    uint32_t worker;
    uint32_t record;
    char claim[32];
    uint32_t attempts;
    bool acked;
    int64_t due; /* It ends, or what it says is said again. */
    int64_t renewal;
};

struct packet {
    bool used;
    enum kind kind;
    uint32_t record;
    char claim[32];
    uint32_t attempts;
    int64_t claimed_until;
    char body[1500];
    int64_t lands;   /* NEVER: it has, or it does not. */
    int64_t answers; /* NEVER: nobody waits. */
    bool is_heard;   /* The answer is not lost, and comes in time. */
    enum ks_outcome outcome;
};

/* What holds of a letter. */
struct truth {
    bool is_there;
    uint32_t attempts;
    char claim[32];
    int64_t claimed_until;
};

static struct {
    uint64_t seed;
    struct ks_prng prng;
    int64_t now;
    bool peace;
    struct item_table table;
    struct truth truths[RECORDS];
    int64_t paused_until[WORKERS];
    struct redrive redrives[REDRIVES];
    struct packet packets[PACKETS];
    uint64_t claims;
    uint64_t removed, amended, refused, lapsed,
        rewritten; /* What was met: a test that meets nothing proves nothing. */
} world;

static int64_t below(int64_t limit)
{
    return (int64_t)ks_prng_below(&world.prng, (uint64_t)limit);
}

static bool chance(int64_t in_thousand)
{
    return !world.peace && below(1000) < in_thousand;
}

static void place_of(uint32_t record, struct ks_letter_place *ret_place)
{
    char id[64];

    (void)snprintf(id, sizeof id, "shardId-000000000000.%" PRIu32 ".0", 40 + record);
    EXPECT_OK(ks_letter_place_of(ks_view_text(id), NULL, ret_place));
}

static const struct item *item_at(uint32_t record)
{
    struct ks_letter_place place;

    place_of(record, &place);
    return item_find(&world.table, "letters#shardId-000000000000", place.k);
}

/* ---- Requests ---- */

/* The clock of the service as a worker knows it: never ahead (ks_aws_client_now_ms). */
static int64_t clock_of_worker(void)
{
    return world.now - below(2000);
}

static void write_body(struct packet *packet)
{
    const struct ks_letter letter = {.stream = KS_VIEW("demo"),
                                     .partition_key = KS_VIEW("k"),
                                     .sub_sequence = -1,
                                     .died_ms = world.now,
                                     .attempts = packet->attempts,
                                     .claim = ks_view_text(packet->claim)};
    const int64_t now = clock_of_worker();
    struct ks_letter_place place;
    struct ks_bytes body;
    ks_err err = KS_OK;

    place_of(packet->record, &place);
    ks_bytes_init(&body, sizeof packet->body - 1);
    packet->claimed_until = now + KS_LETTER_CLAIM_MS;
    switch (packet->kind) {
    case WRITE: err = ks_letter_put_write(&body, "t", &place, &letter); break;
    case CLAIM: err = ks_letter_put_claim(&body, "t", &place, &letter, now); break;
    case AMEND: err = ks_letter_put_amend(&body, "t", &place, &letter); break;
    case REMOVE: err = ks_letter_put_remove(&body, "t", &place, letter.claim); break;
    }
    EXPECT_OK(err);
    EXPECT_OK(ks_view_copy_text(ks_bytes_view(&body), packet->body, sizeof packet->body));
    ks_bytes_free(&body);
}

static void send(enum kind kind, uint32_t record, const char *claim, uint32_t attempts)
{
    struct packet *packet = world.packets;

    while (packet < world.packets + PACKETS && packet->used)
        packet++;
    EXPECT(packet < world.packets + PACKETS);
    *packet = (struct packet){.used = true, .kind = kind, .record = record, .attempts = attempts};
    (void)snprintf(packet->claim, sizeof packet->claim, "%s", claim);
    write_body(packet);
    packet->lands = chance(50)    ? NEVER
                    : chance(100) ? world.now + below(120000)
                                  : world.now + below(200);
    packet->answers = world.now + PATIENCE_MS;
    packet->outcome = KS_UNKNOWN;
    packet->is_heard = !chance(100) && packet->lands < packet->answers - 200;
    if (packet->is_heard)
        packet->answers = packet->lands + below(200);
}

/* ---- The oracle ---- */

static void broke(const char *what, const struct packet *packet)
{
    FAIL("seed %" PRIu64 ", %" PRId64 " ms: %s (record %" PRIu32 ", claim %s)", world.seed,
         world.now, what, packet->record, packet->claim);
}

static void judge(const struct packet *packet)
{
    struct truth *const truth = &world.truths[packet->record];
    const bool is_its = truth->is_there && strcmp(truth->claim, packet->claim) == 0;

    switch (packet->kind) {
    case WRITE:
        if (truth->is_there && packet->attempts < truth->attempts)
            broke("a letter forgot attempts", packet);
        world.rewritten += truth->is_there;
        *truth = (struct truth){.is_there = true, .attempts = packet->attempts};
        return;
    case CLAIM:
        if (!truth->is_there)
            broke("a letter that is not there was claimed", packet);
        if (!is_its && truth->claim[0] != '\0' && truth->claimed_until >= world.now)
            broke("a letter was claimed while another claim lasts", packet);
        world.lapsed += !is_its && truth->claim[0] != '\0';
        memcpy(truth->claim, packet->claim, sizeof truth->claim);
        truth->claimed_until = packet->claimed_until;
        return;
    case AMEND:
        if (!is_its || packet->attempts < truth->attempts)
            broke("a letter was given up again that was written or claimed since", packet);
        truth->attempts = packet->attempts;
        truth->claim[0] = '\0';
        world.amended++;
        return;
    case REMOVE:
        if (!is_its)
            broke("a letter was removed that was written or claimed since", packet);
        truth->is_there = false;
        world.removed++;
        return;
    }
}

/* A letter stays until it is removed, and says what it should. */
static void compare(uint32_t record)
{
    const struct truth *const truth = &world.truths[record];
    const struct item *const item = item_at(record);
    char attempts[16];

    (void)snprintf(attempts, sizeof attempts, "%" PRIu32, truth->attempts);
    if ((item != NULL) != truth->is_there)
        FAIL("seed %" PRIu64 ": letter %" PRIu32 " %s", world.seed, record,
             item == NULL ? "is lost" : "is there");
    if (item != NULL)
        EXPECT_STR(item_text(item, "attempts"), attempts);
}

/* ---- Workers ---- */

static bool is_paused(const struct redrive *redrive)
{
    return world.paused_until[redrive->worker] > world.now;
}

static struct redrive *find_claim(const char *claim)
{
    for (uint32_t at = 0; at < REDRIVES; at++)
        if (world.redrives[at].state != FREE && strcmp(world.redrives[at].claim, claim) == 0)
            return &world.redrives[at];
    return NULL;
}

static void say_end(struct redrive *redrive)
{
    redrive->state = ENDING;
    redrive->due = NEVER;
    send(redrive->acked ? REMOVE : AMEND, redrive->record, redrive->claim, redrive->attempts + 1);
}

static void order(uint32_t worker, uint32_t record)
{
    const struct item *const item = item_at(record);
    struct redrive *redrive = world.redrives;

    while (redrive < world.redrives + REDRIVES && redrive->state != FREE)
        redrive++;
    if (item == NULL || redrive == world.redrives + REDRIVES ||
        (item_text(item, "claim")[0] != '\0' &&
         atoll(item_text(item, "claimed_until")) >= clock_of_worker()))
        return;
    *redrive = (struct redrive){.state = CLAIMING,
                                .worker = worker,
                                .record = record,
                                .attempts = (uint32_t)atoi(item_text(item, "attempts")),
                                .due = NEVER,
                                .renewal = NEVER};
    (void)snprintf(redrive->claim, sizeof redrive->claim, "w%" PRIu32 "#%" PRIu64, worker,
                   world.claims++);
    send(CLAIM, record, redrive->claim, redrive->attempts);
}

static void answered(struct redrive *redrive, enum kind kind, enum ks_outcome outcome)
{
    world.refused += outcome == KS_REFUSED;
    if (kind == CLAIM && redrive->state == CLAIMING && outcome == KS_DONE) {
        redrive->state = DELIVERED;
        redrive->due = world.now + below(150000);
        redrive->renewal = world.now + RENEWAL_MS;
    } else if (kind == CLAIM && (redrive->state == CLAIMING || outcome == KS_REFUSED)) {
        if (redrive->state != ENDING)
            redrive->state = FREE;
    } else if (kind != CLAIM && outcome == KS_UNKNOWN) {
        redrive->due = world.now + 1000;
    } else if (kind != CLAIM) {
        redrive->state = FREE;
    }
}

static void look_at_redrive(struct redrive *redrive)
{
    if (redrive->state == FREE || is_paused(redrive))
        return;
    if (redrive->renewal <= world.now) {
        redrive->renewal = redrive->state == DELIVERED ? world.now + RENEWAL_MS : NEVER;
        if (redrive->state == DELIVERED)
            send(CLAIM, redrive->record, redrive->claim, redrive->attempts);
    }
    if (redrive->due <= world.now) {
        if (redrive->state == DELIVERED)
            redrive->acked = world.peace || below(2) == 0;
        say_end(redrive);
    }
}

/* ---- Time ---- */

static void land(struct packet *packet)
{
    struct ks_json *request = NULL;
    bool done;

    EXPECT_OK(ks_json_parse(ks_view_text(packet->body), &request));
    done = packet->kind == REMOVE ? item_delete(&world.table, request)
                                  : item_update(&world.table, request);
    ks_json_free(request);
    packet->lands = NEVER;
    if (packet->is_heard)
        packet->outcome = done ? KS_DONE : KS_REFUSED;
    if (done)
        judge(packet);
    compare(packet->record);
}

static void look_at_packet(struct packet *packet)
{
    struct redrive *redrive;

    if (packet->used && packet->lands <= world.now)
        land(packet);
    if (!packet->used || packet->answers > world.now)
        return;
    redrive = find_claim(packet->claim);
    if (redrive != NULL && is_paused(redrive))
        return;
    packet->answers = NEVER;
    if (redrive != NULL && packet->kind != WRITE)
        answered(redrive, packet->kind, packet->outcome);
}

static void happen(void)
{
    const uint32_t worker = (uint32_t)below(WORKERS);
    const uint32_t record = (uint32_t)below(RECORDS);

    if (chance(300))
        send(WRITE, record, "", 1 + (uint32_t)below(6));
    if (chance(700) || world.peace)
        order(worker, record);
    if (chance(100))
        world.paused_until[worker] = world.now + below(150000);
    if (chance(50))
        for (uint32_t at = 0; at < REDRIVES; at++)
            if (world.redrives[at].worker == worker)
                world.redrives[at].state = FREE;
}

static void turn(void)
{
    for (uint32_t at = 0; at < PACKETS; at++) {
        struct packet *const packet = &world.packets[at];

        look_at_packet(packet);
        packet->used &= packet->lands != NEVER || packet->answers != NEVER;
    }
    for (uint32_t at = 0; at < REDRIVES; at++)
        look_at_redrive(&world.redrives[at]);
}

static void run(uint64_t seed)
{
    world.seed = seed;
    ks_prng_init(&world.prng, seed);
    world.now = 1000000;
    world.peace = false;
    memset(&world.table, 0, sizeof world.table);
    memset(world.truths, 0, sizeof world.truths);
    memset(world.paused_until, 0, sizeof world.paused_until);
    memset(world.redrives, 0, sizeof world.redrives);
    memset(world.packets, 0, sizeof world.packets);
    for (int64_t end = world.now + FAULTS_MS + PEACE_MS; world.now < end; world.now += 100) {
        world.peace = world.now > end - PEACE_MS;
        turn();
        if (below(world.peace ? 20 : 50) == 0)
            happen();
    }
    for (uint32_t record = 0; record < RECORDS; record++)
        if (item_at(record) != NULL)
            FAIL("seed %" PRIu64 ": letter %" PRIu32 " cannot be redriven", seed, record);
}

TEST(letters_are_redriven_by_one_claim_at_a_time_and_none_is_lost)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run(seed);
    printf("%" PRIu64 " removed, %" PRIu64 " given up again, %" PRIu64 " refused, %" PRIu64
           " claims of others that were over, %" PRIu64 " written anew\n",
           world.removed, world.amended, world.refused, world.lapsed, world.rewritten);
    EXPECT(world.removed > SEEDS && world.amended > SEEDS && world.refused > SEEDS);
    EXPECT(world.lapsed > SEEDS / 10 && world.rewritten > SEEDS);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
