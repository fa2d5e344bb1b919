/* SPDX-License-Identifier: Apache-2.0 */
/* letter_claims_test.c - the world of claims_world.h on a table: the requests of adapters/dynamodb/letter_item.c.
 *
 * A change is one request; before a letter is written or kept, the directory has its shard for as long, as in
 * adapters/dynamodb/letters.c. Letters are pointers: DynamoDB removes letters and shards whose time is over, the leader
 * does so later, and it keeps records before their time is over. A letter that the directory does not lead to is lost.
 */
#include "contract/claims_world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/dynamodb/letter_shards.h"

#include "item_table.h"
#include "ks_test.h"

enum {
    SEEDS = 400,
    PACKETS = 96,
    SLACK_S =
        200 /* The directory has a shard for so much longer than its letters: longer than a request may be late. */
};

static const int64_t NEVER = INT64_MAX;

struct packet {
    bool used;
    bool notes; /* It is about the directory, before the change. */
    struct claims_change change;
    char body[1500];
    struct claims_message message;
    enum ks_outcome outcome;
};

static struct item_table table;
static struct packet packets[PACKETS];
static struct ks_letter_shards known[CLAIMS_WORKERS]; /* As each worker knows the directory. */

static void place_of(uint32_t record, struct ks_letter_place *ret_place)
{
    char id[64];

    claims_id(record, id);
    EXPECT_OK(ks_letter_place_of(ks_view_text(id), NULL, ret_place));
}

static struct item *item_at(uint32_t record)
{
    struct ks_letter_place place;

    place_of(record, &place);
    return item_find(&table, "letters#" CLAIMS_SHARD, place.k);
}

static int64_t number_of(const struct item *item, const char *name)
{
    return atoll(item_text(item, name));
}

/* Until when the directory has to have the shard for this change; 0: for good. */
static int64_t note_of(const struct claims_change *change)
{
    return change->expires_ms == 0 ? 0 : change->expires_ms / 1000 + SLACK_S;
}

/* ---- Requests ---- */

static ks_err put_body(const struct packet *packet, struct ks_bytes *body)
{
    const struct claims_change *const change = &packet->change;
    const struct ks_letter letter = {.stream = KS_VIEW("demo"),
                                     .partition_key = KS_VIEW("k"),
                                     .data = KS_VIEW("kept"),
                                     .sub_sequence = -1,
                                     .died_ms = change->died_ms,
                                     .expires_ms = change->expires_ms,
                                     .attempts = change->attempts,
                                     .claim = ks_view_text(change->claim)};
    struct ks_letter_place place;

    if (packet->notes)
        return ks_letter_put_note(body, "t", CLAIMS_SHARD, note_of(change));
    place_of(change->record, &place);
    switch (change->kind) {
    case CLAIMS_WRITE: return ks_letter_put_write(body, "t", &place, &letter);
    case CLAIMS_CLAIM:
        return ks_letter_put_claim(body, "t", &place, &letter, claims_clock_of_worker());
    case CLAIMS_AMEND: return ks_letter_put_amend(body, "t", &place, &letter);
    case CLAIMS_REMOVE: return ks_letter_put_remove(body, "t", &place, letter.claim);
    case CLAIMS_KEEP: return ks_letter_put_keep(body, "t", &place, &letter);
    case CLAIMS_EXPIRE: break;
    }
    return KS_FAIL(INVALID);
}

static void send(const struct claims_change *change, bool notes)
{
    struct packet *packet = packets;
    struct ks_bytes body;

    while (packet < packets + PACKETS && packet->used)
        packet++;
    EXPECT(packet < packets + PACKETS);
    *packet = (struct packet){.used = true,
                              .notes = notes,
                              .change = *change,
                              .message = claims_send(),
                              .outcome = KS_UNKNOWN};
    ks_bytes_init(&body, sizeof packet->body - 1);
    EXPECT_OK(put_body(packet, &body));
    EXPECT_OK(ks_view_copy_text(ks_bytes_view(&body), packet->body, sizeof packet->body));
    ks_bytes_free(&body);
}

static void expire(uint32_t record)
{
    item_at(record)->used = false;
}

static void change(const struct claims_change *asked)
{
    struct claims_change kept = *asked;

    if (asked->kind == CLAIMS_EXPIRE) {
        expire(asked->record);
        claims_happened(asked);
        return;
    }
    if (asked->kind == CLAIMS_KEEP)
        kept.expires_ms = 0;
    send(&kept, (asked->kind == CLAIMS_WRITE || asked->kind == CLAIMS_KEEP) &&
                    !ks_letter_shards_have(&known[asked->worker], CLAIMS_SHARD, note_of(&kept)));
}

/* ---- The table ---- */

static void read_letter(uint32_t record, struct claims_letter *ret_letter)
{
    const struct item *const item = item_at(record);

    *ret_letter = (struct claims_letter){.is_there = item != NULL};
    if (item == NULL)
        return;
    ret_letter->attempts = (uint32_t)number_of(item, "attempts");
    ret_letter->claimed_until = number_of(item, "claimed_until");
    ret_letter->died_ms = number_of(item, "died");
    ret_letter->expires_ms = number_of(item, "expires") * 1000;
    (void)snprintf(ret_letter->claim, sizeof ret_letter->claim, "%s", item_text(item, "claim"));
}

/* A list begins with the directory. */
static void check_directory(uint32_t record)
{
    const struct item *const shard = item_find(&table, "letters", CLAIMS_SHARD);
    struct claims_letter letter;

    read_letter(record, &letter);
    if (!letter.is_there)
        return;
    if (shard == NULL)
        FAIL("%" PRId64 " ms: letter %" PRIu32 " is in no list", claims_now(), record);
    if (item_text(shard, "expires")[0] != '\0' &&
        (letter.expires_ms == 0 || number_of(shard, "expires") * 1000 < letter.expires_ms))
        FAIL("%" PRId64 " ms: letter %" PRIu32 " outlives its shard", claims_now(), record);
}

static void land(struct packet *packet)
{
    struct ks_json *request = NULL;
    bool done;

    EXPECT_OK(ks_json_parse(ks_view_text(packet->body), &request));
    done = packet->change.kind == CLAIMS_REMOVE ? item_delete(&table, request)
                                                : item_update(&table, request);
    ks_json_free(request);
    packet->message.lands = NEVER;
    if (packet->message.is_heard)
        packet->outcome = done ? KS_DONE : KS_REFUSED;
    if (done && !packet->notes)
        claims_happened(&packet->change);
    claims_compare(packet->change.record);
    for (uint32_t record = 0; record < CLAIMS_RECORDS; record++)
        check_directory(record);
}

static void answer(const struct packet *packet)
{
    const struct claims_change *const asked = &packet->change;

    if (!packet->notes) {
        claims_answered(asked, packet->outcome);
    } else if (packet->outcome != KS_UNKNOWN) {
        ks_letter_shards_note(&known[asked->worker], CLAIMS_SHARD, note_of(asked));
        send(asked, false);
    }
}

static void look_at_packet(struct packet *packet)
{
    if (packet->used && packet->message.lands <= claims_now())
        land(packet);
    if (packet->used && packet->message.answers <= claims_now() &&
        !claims_is_paused(packet->change.worker)) {
        packet->message.answers = NEVER;
        answer(packet);
    }
    packet->used &= packet->message.lands != NEVER || packet->message.answers != NEVER;
}

static void turn(void)
{
    struct item *const shard = item_find(&table, "letters", CLAIMS_SHARD);

    for (uint32_t at = 0; at < PACKETS; at++)
        look_at_packet(&packets[at]);
    if (shard != NULL && item_text(shard, "expires")[0] != '\0' &&
        number_of(shard, "expires") * 1000 < claims_now())
        shard->used = false;
}

static void begin(void)
{
    memset(&table, 0, sizeof table);
    memset(packets, 0, sizeof packets);
    memset(known, 0, sizeof known);
}

static void end(void)
{
}

/* What is under way still lands; nobody waits for it. */
static void die(uint32_t worker)
{
    for (uint32_t at = 0; at < PACKETS; at++)
        if (packets[at].used && packets[at].change.worker == worker)
            packets[at].message.answers = NEVER;
    known[worker].count = known[worker].next = 0;
}

TEST(letters_are_redriven_by_one_claim_at_a_time_and_none_is_lost)
{
    static const struct claims_store store = {.pointers = true,
                                              .begin = begin,
                                              .end = end,
                                              .change = change,
                                              .read = read_letter,
                                              .turn = turn,
                                              .die = die};

    claims_run(&store, SEEDS);
}
