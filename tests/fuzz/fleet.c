/* SPDX-License-Identifier: Apache-2.0 */
/* fleet.c - any rows of a lease table of any dialect, and how they change, as the core sees them: it holds what it
 * promises, whatever others write, and each write of its own can be said.
 *
 * The first byte says the dialect and how we are configured, the second one what becomes of writes. Behind 0xFF a new
 * look at the table begins; a line of it is a row, a digit for its table and JSON as DynamoDB has it.
 */
#include "adapters/dialects/dialect.h"
#include "adapters/dynamodb/wire.h"
#include "base/budget.h"
#include "base/prng.h"
#include "ports/rows.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    LOOKS_MAX = 8,
    ROWS_MAX = 24,
    TURNS = 300,
    SHARDS_MAX = 16,
    ASKS_MAX = 1024,
    TEXTS_MAX = 1 << 16
};

#define CLOSED "shardId-000000000000"

/* What the core asked, and what of it outlives the step. */
struct ask {
    struct ks_effect effect;
    bool sayable; /* STORE. */
    bool has_checkpoint;
    struct ks_position checkpoint;
};

struct world {
    const struct ks_dialect *dialect;
    struct ks_native_rows looks[LOOKS_MAX];
    uint32_t look_count;
    uint32_t row_count;
    uint32_t look; /* That is told now. */
    struct ks_rows rows;
    struct ks_core *core;
    ks_instant now;
    struct ks_prng prng;
    struct ks_effects effects;
    struct ask asks[ASKS_MAX]; /* Not answered. */
    uint32_t ask_count;
};

static max_align_t memory[1 << 16];
static const struct ks_store_app start = {
    .present = true, .start = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1}};

static struct world world;

/* ---- The table ---- */

/* Keys are unique in a table. */
static bool is_again(const struct ks_native_rows *rows)
{
    const uint32_t leases = rows->lease_count;
    const uint32_t workers = rows->worker_count;

    for (uint32_t i = 0; i + 1 < leases; i++)
        if (strcmp(rows->leases[i].shard, rows->leases[leases - 1].shard) == 0 &&
            strcmp(rows->leases[i].stream, rows->leases[leases - 1].stream) == 0)
            return true;
    for (uint32_t i = 0; i + 1 < workers; i++)
        if (strcmp(rows->workers[i].self.id, rows->workers[workers - 1].self.id) == 0)
            return true;
    return false;
}

static bool add_row(struct ks_native_rows *rows, ks_view line)
{
    const struct ks_dialect *const dialect = world.dialect;
    const uint8_t table = line.size == 0 ? 0 : (uint8_t)(line.data[0] - '0');
    const struct ks_json *item;
    struct ks_json *document = NULL;
    struct ks_detail detail;
    struct ks_bytes texts;
    struct ks_item read;
    bool good = true;

    if (table >= dialect->table_count || world.row_count++ >= ROWS_MAX ||
        !ks_ok(ks_json_parse(ks_view_of(line.data + 1, line.size - 1), &document)))
        return true;
    item = document;
    ks_bytes_init(&texts, TEXTS_MAX);
    if (ks_ok(ks_dynamodb_read_item(item, dialect->tables[table].schema, &texts, &read))) {
        read.asked = &rows->asked;
        good = ks_ok(dialect->add(rows, &read, &detail)) && !is_again(rows);
    }
    ks_bytes_free(&texts);
    ks_json_free(document);
    return good;
}

/* False if no table can look so, or the store would say that it cannot be read. */
static bool read_looks(ks_view text)
{
    while (text.size != 0 && world.look_count < LOOKS_MAX) {
        ks_view look = ks_view_cut(&text, 0xFF);
        struct ks_native_rows *const rows = &world.looks[world.look_count++];

        while (look.size != 0)
            if (!add_row(rows, ks_view_cut(&look, '\n')))
                return false;
    }
    return world.look_count > 0;
}

/* ---- Answers ---- */

static ks_wall wall(void)
{
    return (ks_wall){world.now.us / 1000};
}

static void step(const struct ks_event *event)
{
    ks_core_wall(world.core, world.now.us);
    ks_core_step(world.core, world.now, event, &world.effects);
}

/* The rows with the keys that were asked for. */
static void pick(const struct ks_store_effect *ask, struct ks_store_answer *answer)
{
    const char *const shard = ks_names_text(&world.rows.shards, ask->shard);
    const char *const worker = ks_names_text(&world.rows.workers, ask->worker.worker);
    const struct ks_native_rows *const rows = &world.looks[world.look];

    answer->lease_count = answer->worker_count = 0;
    for (uint32_t i = 0; ask->operation == KS_STORE_READ_LEASE && i < rows->lease_count; i++) {
        if (strcmp(rows->leases[i].shard, shard) != 0 ||
            strcmp(rows->leases[i].stream, world.rows.streams.id) != 0)
            continue;
        answer->leases = &rows->leases[i];
        answer->lease_count = 1;
    }
    for (uint32_t i = 0; ask->operation != KS_STORE_READ_LEASE && i < rows->worker_count; i++) {
        if (strcmp(rows->workers[i].self.id, worker) != 0)
            continue;
        answer->workers = &rows->workers[i];
        answer->worker_count = 1;
    }
}

static void answer_read(const struct ks_store_effect *ask, struct ks_store_answer *answer)
{
    struct ks_native_rows *const rows = &world.looks[world.look];

    ks_native_rows_answer(rows, answer);
    if (ask->operation != KS_STORE_READ_LEASES && ask->operation != KS_STORE_READ_FLEET &&
        ask->operation != KS_STORE_READ_OWNED)
        pick(ask, answer);
}

/* It is written, or not, or nobody knows. */
static void answer_write(const struct ask *ask, struct ks_store_answer *answer)
{
    const struct ks_store_effect *const effect = &ask->effect.store;
    const bool given =
        effect->operation == KS_STORE_ASSIGN || effect->operation == KS_STORE_TAKE_OVER;

    answer->outcome = (enum ks_outcome)ks_prng_below(&world.prng, KS_UNKNOWN + 1);
    if (answer->outcome == KS_DONE && effect->operation == KS_STORE_CREATE_APP)
        world.rows.app = start;
    if (answer->outcome == KS_DONE && effect->operation >= KS_STORE_CREATE)
        ks_rows_wrote(&world.rows, effect->operation, effect->shard, effect->epoch, effect->rev,
                      ask->has_checkpoint ? &ask->checkpoint : NULL,
                      given ? effect->worker : KS_NOBODY, wall());
}

static void answer_store(const struct ask *ask)
{
    const struct ks_store_effect *const effect = &ask->effect.store;
    struct ks_store_answer answer = {.outcome = KS_DONE};
    struct ks_event event = {.kind = KS_EVENT_STORE};

    if (!ask->sayable || ks_prng_below(&world.prng, 16) == 0)
        answer = (struct ks_store_answer){.outcome = KS_UNKNOWN, .err = KS_FAIL(TIMEOUT)};
    else if (ks_native_writes(effect->operation))
        answer_write(ask, &answer);
    else
        answer_read(effect, &answer);
    ks_rows_answered(&world.rows, effect->operation, effect->consistent, &answer, world.now, wall(),
                     &event);
    event.store.token = effect->token;
    step(&event);
}

static void answer_list(void)
{
    static const struct ks_shard_listing shards[] = {
        {.shard = CLOSED, .hash_start = "0", .hash_end = "99", .closed = true},
        {.shard = "shardId-000000000001", .parents = {CLOSED}, .hash_start = "0", .hash_end = "99"},
    };
    const struct ks_list_answer answer = {.shards = shards, .count = 2};
    struct ks_event event = {.kind = KS_EVENT_LISTED};

    ks_rows_listed(&world.rows, &answer, world.now, &event);
    step(&event);
}

/* There is nothing in any shard. */
static void answer_records(ks_shard shard, ks_epoch epoch)
{
    const char *const id = ks_names_text(&world.rows.shards, shard);

    step(&(struct ks_event){
        .kind = KS_EVENT_RECORDS,
        .records = {.shard = shard, .epoch = epoch, .at_end = strcmp(id, CLOSED) == 0}});
}

/* ---- Asks ---- */

/* What the store makes of a request, at once: its texts do not live long. */
static void say(struct ask *ask)
{
    const struct ks_store_effect *const effect = &ask->effect.store;
    struct ks_store_request request;
    struct ks_item_write write;
    struct ks_item_keys keys;
    struct ks_detail detail;
    const char *partition;

    if (!ks_rows_request(&world.rows, effect, &request))
        return;
    request.version = "fuzz";
    request.app = &start;
    ask->has_checkpoint = request.has_checkpoint || effect->operation == KS_STORE_CREATE;
    ask->checkpoint = request.lease != NULL ? request.lease->checkpoint : request.checkpoint;
    if (!ks_native_writes(effect->operation)) {
        ask->sayable = ks_ok(world.dialect->read(&request, &partition, &keys));
        return;
    }
    ask->sayable = ks_ok(world.dialect->write(&request, &write, &detail));
    ks_item_write_free(&write);
    assert(ask->sayable);
}

static void open_shard(ks_shard shard, ks_epoch epoch)
{
    struct ks_shard_words *const words = ks_rows_words(&world.rows, shard);

    assert(words != NULL);
    words->mark_epoch = words->persisted_epoch = epoch;
    words->marked = words->persisted = 0;
    words->whole = ks_rows_whole(words);
}

/* Nobody waits for records of an epoch that is over. */
static void close_shard(ks_shard shard)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < world.ask_count; i++)
        if (world.asks[i].effect.kind != KS_EFFECT_READ ||
            world.asks[i].effect.lease.shard != shard)
            world.asks[kept++] = world.asks[i];
    world.ask_count = kept;
}

static void perform(void)
{
    for (uint32_t i = 0; i < world.effects.count; i++) {
        const struct ks_effect *const effect = &world.effects.items[i];
        struct ask ask = {.effect = *effect};

        if (effect->kind == KS_EFFECT_OPEN)
            open_shard(effect->lease.shard, effect->lease.epoch);
        if (effect->kind == KS_EFFECT_CLOSE)
            close_shard(effect->lease.shard);
        if (effect->kind == KS_EFFECT_STORE)
            say(&ask);
        if (effect->kind != KS_EFFECT_STORE && effect->kind != KS_EFFECT_LIST &&
            effect->kind != KS_EFFECT_READ)
            continue;
        assert(world.ask_count < ASKS_MAX);
        world.asks[world.ask_count++] = ask;
    }
    world.effects.count = 0;
}

static void answer_one(void)
{
    const struct ask ask = world.asks[0];

    memmove(&world.asks[0], &world.asks[1], --world.ask_count * sizeof(world.asks[0]));
    if (ask.effect.kind == KS_EFFECT_STORE)
        answer_store(&ask);
    else if (ask.effect.kind == KS_EFFECT_LIST)
        answer_list();
    else
        answer_records(ask.effect.lease.shard, ask.effect.lease.epoch);
    perform();
}

/* ---- Life ---- */

static void touch_nothing(void *arg, ks_instant now)
{
    (void)arg;
    (void)now;
}

/* As main/room.c and ports/switchboard.c have it. */
static void begin(uint8_t how)
{
    static const enum ks_protocol protocols[] = {KS_PROTOCOL_NATIVE, KS_PROTOCOL_KCL,
                                                 KS_PROTOCOL_GO_KCL, KS_PROTOCOL_KINSUMER,
                                                 KS_PROTOCOL_KCL_RB};
    struct ks_core_config config = ks_core_config_default(ks_span_ms(10000));
    struct ks_describe_answer stream = {.stream_arn =
                                            "arn:aws:kinesis:us-east-1:123456789012:stream/demo",
                                        .created_ms = 1700000000000};

    config.protocol = protocols[how];
    config.seed = config.boot = 42;
    config.shards_max = SHARDS_MAX;
    config.leases_max = 8;
    config.window_max = 64;
    config.workers_max = 4;
    config.sessions_max = 2;
    config.budget_bytes = 1 << 20;
    config.read_bytes = 10000;
    config.report_every = ks_span_ms(30000);
    config.stealing = config.protocol == KS_PROTOCOL_GO_KCL;
    config.masking = config.protocol == KS_PROTOCOL_KCL_RB;
    ks_err err = ks_rows_init(&world.rows, SHARDS_MAX, 4, "me", touch_nothing, NULL);
    assert(ks_ok(err));
    if (config.protocol != KS_PROTOCOL_NATIVE) {
        ks_rows_share(&world.rows, &start.start, config.stealing,
                      config.protocol == KS_PROTOCOL_KINSUMER ? config.lease_duration
                                                              : ks_span_us(0));
        world.rows.mixed = (struct ks_mixed){.protocol = config.protocol,
                                             .lease = config.lease_duration,
                                             .check = config.beat,
                                             .stealing = config.stealing};
    }
    if (config.masking)
        ks_rows_mask(&world.rows);
    if (config.protocol == KS_PROTOCOL_KCL) {
        ks_rows_keep(&world.rows, &start.start, world.now.us / 1000);
        ks_rows_stream(&world.rows, &(struct ks_streams){.word = "demo"});
        ks_rows_described(&world.rows, &stream);
    }
    config.self = world.rows.self;
    assert(ks_core_size(&config) <= sizeof(memory));
    memset(memory, 0, ks_core_size(&config));
    world.core = ks_core_init(memory, &config);
}

static void live(void)
{
    step(&(struct ks_event){.kind = KS_EVENT_START});
    perform();
    step(&(struct ks_event){.kind = KS_EVENT_SESSION_OPEN,
                            .open = {.take_over = KS_SESSION_NONE,
                                     .max_in_flight = 10,
                                     .max_in_flight_bytes = 1 << 20,
                                     .ack_deadline = ks_span_ms(60000),
                                     .grace = ks_span_ms(5000)}});
    perform();
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        const ks_instant due = ks_core_deadline(world.core);

        if (world.ask_count > 0) {
            answer_one();
            continue;
        }
        ks_core_check(world.core);
        /* Each look is seen for some time. */
        world.look = turn * world.look_count / TURNS;
        world.now = ks_instant_reached(world.now, due) ? ks_instant_add(world.now, ks_span_ms(1))
                    : ks_instant_reached(ks_instant_add(world.now, ks_span_ms(1000)), due)
                        ? due
                        : ks_instant_add(world.now, ks_span_ms(1000));
        step(&(struct ks_event){.kind = KS_EVENT_TICK});
        perform();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t dialects = 0;

    if (size < 2)
        return 0;
    while (ks_dialect_at(dialects) != NULL)
        dialects++;
    memset(&world, 0, offsetof(struct world, asks));
    world.ask_count = 0;
    world.dialect = ks_dialect_at(data[0] % dialects);
    world.now.us = INT64_C(1795219200000000);
    ks_prng_init(&world.prng, data[1]);
    if (read_looks(ks_view_of(data + 2, size - 2))) {
        begin(data[0] % (uint8_t)dialects);
        live();
        ks_rows_free(&world.rows);
    }
    for (uint32_t i = 0; i < world.look_count; i++)
        ks_native_rows_free(&world.looks[i]);
    assert(ks_alloc_live() == 0);
    return 0;
}
