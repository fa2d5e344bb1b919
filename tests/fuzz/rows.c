/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - random and boundary values in the rows of a lease table, by each dialect, up to the wire.
 *
 * The real core runs on a table in memory, through the real readers and writers of rows. It makes its rows itself. Then
 * attributes are damaged while it runs: it must take leases, deliver records, write their ack_ids, settle them and
 * write checkpoints, or leave a damaged row alone. The input is a list of choices; a generator gives those beyond it.
 */
#include "adapters/dialects/dialect.h"
#include "api/ack_id.h"
#include "base/budget.h"
#include "base/prng.h"
#include "ports/rows.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    ROWS_MAX = 24,
    TEXT_MAX = 1024,
    SHARDS = 3,
    SHARDS_MAX = 16,
    ASKS_MAX = 1024,
    ROUNDS = 6,  /* Of damage. */
    TURNS = 150, /* Of the core, in each round. */
    READ_MAX = 3 /* Records of one answer. */
};

/* A row as the table has it. */
struct stored {
    bool used;
    uint32_t table;
    char p[8];
    char k[KS_ITEM_KEY_MAX + 1];
    enum ks_presence presence[KS_ITEM_ATTRIBUTES_MAX];
    char texts[KS_ITEM_ATTRIBUTES_MAX][TEXT_MAX];
};

struct ask {
    struct ks_effect effect;
    uint32_t table;
    const char *partition;
    struct ks_item_keys keys;
    bool reads;
    enum ks_outcome outcome; /* Of a write, which is done when it is asked for. */
    bool has_checkpoint;
    struct ks_position checkpoint;
};

static struct world {
    const struct ks_dialect *dialect;
    struct stored table[ROWS_MAX];
    struct ks_rows rows;
    struct ks_core *core;
    ks_instant now;
    int64_t wall_us; /* What the wall clock stands on; 0: it goes with `now`. */
    struct ks_prng prng;
    ks_view choices;
    struct ks_effects effects;
    struct ask asks[ASKS_MAX];
    uint32_t ask_count;
    struct ks_ack_key ack_key;
    uint64_t delivered; /* Records whose ack_id was written. */
    uint64_t persisted; /* Checkpoints of records that the table took. */
    uint64_t damage;    /* Rows that were read as damaged. */
} world;

static max_align_t memory[1 << 16];

static uint32_t choose(uint32_t count)
{
    uint32_t chosen;

    if (world.choices.size < 2)
        return (uint32_t)ks_prng_below(&world.prng, count);
    chosen = ((uint32_t)world.choices.data[0] << 8 | world.choices.data[1]) % count;
    world.choices = ks_view_of(world.choices.data + 2, world.choices.size - 2);
    return chosen;
}

static ks_wall wall(void)
{
    return (ks_wall){world.now.us / 1000};
}

static void step(const struct ks_event *event)
{
    ks_core_wall(world.core, world.wall_us == 0 ? world.now.us : world.wall_us);
    ks_core_step(world.core, world.now, event, &world.effects);
}

/* ---- The table ---- */

static struct stored *find_row(uint32_t table, const char *p, const char *k)
{
    for (uint32_t i = 0; i < ROWS_MAX; i++)
        if (world.table[i].used && world.table[i].table == table &&
            strcmp(world.table[i].p, p == NULL ? "" : p) == 0 && strcmp(world.table[i].k, k) == 0)
            return &world.table[i];
    return NULL;
}

static bool equals(const struct stored *row, uint32_t at, ks_view text)
{
    return row->presence[at] == KS_PRESENT && ks_view_equal(ks_view_text(row->texts[at]), text);
}

static bool holds(const struct stored *row, const struct ks_schema *schema,
                  const struct ks_condition *condition)
{
    const uint32_t at = ks_schema_find(schema, ks_view_text(condition->name));
    const bool is_key = at == schema->count &&
                        strcmp(condition->name, schema->key == NULL ? "p" : schema->key) == 0;
    const bool there =
        row != NULL && (is_key || (at < schema->count && row->presence[at] != KS_ABSENT));

    switch (condition->kind) {
    case KS_IF_EQUALS: return there && !is_key && equals(row, at, condition->value.text);
    case KS_IF_EQUALS_OR_ABSENT: return !there || equals(row, at, condition->value.text);
    case KS_IF_EXISTS: return there;
    case KS_IF_IN: return there && ks_set_has(condition->value.text, ks_view_text(row->texts[at]));
    case KS_IF_ABSENT:
    case KS_IF_ABSENT_OR_NULL: return !there;
    }
    return false;
}

static void set_text(struct stored *row, uint32_t at, ks_view text)
{
    if (text.size >= TEXT_MAX)
        return;
    row->presence[at] = KS_PRESENT;
    memcpy(row->texts[at], text.data, text.size);
    row->texts[at][text.size] = '\0';
}

static void set_changed(struct stored *row, uint32_t at, const struct ks_update *update)
{
    const ks_view before =
        row->presence[at] == KS_PRESENT ? ks_view_text(row->texts[at]) : KS_VIEW("");
    struct ks_bytes set;
    ks_err err;

    ks_bytes_init(&set, 1 << 16);
    err = update->kind == KS_DO_ADD ? ks_set_with(before, update->value.text, &set)
                                    : ks_set_without(before, update->value.text, &set);
    row->presence[at] = KS_ABSENT;
    if (ks_ok(err) && set.size > 0)
        set_text(row, at, ks_bytes_view(&set));
    ks_bytes_free(&set);
}

static void count_on(struct stored *row, uint32_t at, ks_view more)
{
    char digits[24];
    int64_t number = 0;
    int64_t added = 0;

    if (row->presence[at] != KS_ABSENT &&
        !ks_ok(ks_view_i64(ks_view_text(row->texts[at]), &number)))
        return;
    /* A real table would have more digits. */
    if (!ks_ok(ks_view_i64(more, &added)) || number > INT64_MAX - added)
        return;
    (void)snprintf(digits, sizeof(digits), "%" PRId64, number + added);
    set_text(row, at, ks_view_text(digits));
}

static void update_row(struct stored *row, const struct ks_schema *schema,
                       const struct ks_update *update)
{
    const uint32_t at = ks_schema_find(schema, ks_view_text(update->name));

    if (at == schema->count)
        return; /* An attribute that no reader asks for. */
    if (update->kind == KS_DO_REMOVE)
        row->presence[at] = KS_ABSENT;
    else if (update->kind == KS_DO_SET)
        set_text(row, at, update->value.text);
    else if (update->value.type == KS_VALUE_SET)
        set_changed(row, at, update);
    else
        count_on(row, at, update->value.text);
}

static struct stored *make_row(uint32_t table, const struct ks_item_write *write)
{
    for (uint32_t i = 0; i < ROWS_MAX; i++) {
        struct stored *const row = &world.table[i];

        if (row->used)
            continue;
        *row = (struct stored){.used = true, .table = table};
        (void)snprintf(row->p, sizeof(row->p), "%s", write->p == NULL ? "" : write->p);
        (void)snprintf(row->k, sizeof(row->k), "%s", write->k);
        return row;
    }
    return NULL;
}

static enum ks_outcome apply(uint32_t table, const struct ks_item_write *write)
{
    const struct ks_schema *const schema = world.dialect->tables[table].schema;
    struct stored *row = find_row(table, write->p, write->k);

    for (uint32_t i = 0; i < write->condition_count; i++)
        if (!holds(row, schema, &write->conditions[i]))
            return KS_REFUSED;
    if (write->delete_row && row != NULL)
        row->used = false;
    if (write->delete_row)
        return KS_DONE;
    if (row == NULL)
        row = make_row(table, write);
    for (uint32_t i = 0; row != NULL && i < write->update_count; i++)
        update_row(row, schema, &write->updates[i]);
    return row == NULL ? KS_UNKNOWN : KS_DONE;
}

/* False: the store would say that the row cannot be read, and that nothing is known. */
static bool add_row(struct ks_native_rows *rows, const struct stored *row)
{
    const struct ks_schema *const schema = world.dialect->tables[row->table].schema;
    struct ks_detail detail;
    struct ks_item item;

    ks_item_init(&item, schema);
    item.p = ks_view_text(row->p);
    item.k = ks_view_text(row->k);
    item.asked = &rows->asked;
    for (uint32_t at = 0; at < schema->count; at++) {
        item.presence[at] = row->presence[at];
        item.texts[at] = ks_view_text(row->texts[at]);
    }
    return ks_ok(world.dialect->add(rows, &item, &detail));
}

static bool is_asked(const struct ask *ask, const struct stored *row)
{
    const bool all = ask->keys.count == 0 || ask->effect.store.operation == KS_STORE_READ_OWNED;

    if (!row->used || row->table != ask->table ||
        (ask->partition != NULL && strcmp(row->p, ask->partition) != 0))
        return false;
    for (uint32_t i = 0; !all && i < ask->keys.count; i++)
        if (strcmp(row->k, ask->keys.texts[i]) == 0)
            return true;
    return all;
}

/* ---- Damage ---- */

static const char *const values[] = {
    "0",
    "-1",
    "1",
    "2147483648",
    "4294967295",
    "4294967296",
    "1098510565375", /* The largest epoch of a row, and what is around it. */
    "1098510565376",
    "1099511627774",
    "1099511627775",
    "1099511627776",
    "2199023255552",
    "4611686018427387904",
    "9223372032559808511", /* The largest counter. */
    "9223372032559808512",
    "9223372036854775806",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999999999999999999999999999999999999999",
    "",
    "x",
    "1.5",
    "true",
    "TRIM_HORIZON",
    "LATEST",
    "AT_TIMESTAMP",
    "SHARD_END",
    "AT_SEQUENCE:7",
    ":AT_TIMESTAMP:9223372036854775807",
    ":LATEST",
    "5:5:9223372036854775807",
    "live",
    "fenced",
    "gone",
    "me#000000000000002a",
    "me",
    "other#0000000000000001",
    "other",
    "shardId-000000000001",
    "shardId-000000000002@9223372036854775807",
    "shardId-000000000001@1099511627775\nshardId-000000000002@1",
    "2026-11-21T00:00:09Z",
    "2261-12-31T23:59:59.999999999Z",
    "0001-01-01T00:00:00Z",
    "1970-01-01T00:00:01Z",
    "2026-11-21 00:00:09 UTC",
    "2261-12-31 23:59:59 UTC",
    "340282366920938463463374607431768211455",
};
enum { VALUES = sizeof(values) / sizeof(values[0]), NUMBERS = 19 };

/* A wall clock says anything, too: before 1970, and the years 2318 (40 bits of 10 ms) and 3000. */
static const int64_t clocks[] = {0, -1000000, 1, INT64_C(10995116277760000),
                                 INT64_C(32503680000000000)};
enum { CLOCKS = sizeof(clocks) / sizeof(clocks[0]) };

static void damage(void)
{
    struct stored *row = NULL;
    const struct ks_schema *schema;
    uint32_t used = 0;
    bool number;
    uint32_t at;

    for (uint32_t i = 0; i < ROWS_MAX; i++)
        if (world.table[i].used && choose(++used) == 0)
            row = &world.table[i];
    if (row == NULL)
        return;
    schema = world.dialect->tables[row->table].schema;
    at = choose(schema->count);
    switch (choose(8)) {
    case 0: row->presence[at] = KS_ABSENT; break;
    case 1: row->presence[at] = KS_STRANGE; break;
    case 2: row->used = choose(4) != 0; break;
    default:
        /* A number is read by a reader of numbers, most often. */
        number = schema->attributes[at].type == KS_VALUE_NUMBER && choose(4) != 0;
        set_text(row, at, ks_view_text(values[choose(number ? NUMBERS : VALUES)]));
        break;
    }
}

/* ---- Asks and answers ---- */

static void send_store(struct ask *ask)
{
    const struct ks_store_effect *const effect = &ask->effect.store;
    struct ks_store_request request;
    struct ks_item_write write;
    struct ks_detail detail;

    ask->outcome = KS_UNKNOWN;
    if (!ks_rows_request(&world.rows, effect, &request))
        return;
    request.version = "fuzz";
    request.app = &world.rows.app;
    ask->has_checkpoint = request.has_checkpoint || effect->operation == KS_STORE_CREATE;
    ask->checkpoint = request.lease != NULL ? request.lease->checkpoint : request.checkpoint;
    ask->table = world.dialect->table == NULL || request.together
                     ? 0
                     : world.dialect->table(effect->operation);
    if (!ks_native_writes(effect->operation)) {
        ask->reads = ks_ok(world.dialect->read(&request, &ask->partition, &ask->keys));
        return;
    }
    if (ks_ok(world.dialect->write(&request, &write, &detail)) && choose(16) != 0)
        ask->outcome = apply(ask->table, &write);
    if (choose(16) == 0)
        ask->outcome = KS_UNKNOWN;
    ks_item_write_free(&write);
}

static void note_written(const struct ask *ask)
{
    const struct ks_store_effect *const effect = &ask->effect.store;
    const bool given =
        effect->operation == KS_STORE_ASSIGN || effect->operation == KS_STORE_TAKE_OVER;

    if (effect->operation < KS_STORE_CREATE)
        return;
    ks_rows_wrote(&world.rows, effect->operation, effect->shard, effect->epoch, effect->rev,
                  ask->has_checkpoint ? &ask->checkpoint : NULL, given ? effect->worker : KS_NOBODY,
                  wall());
    world.persisted += effect->operation == KS_STORE_CHECKPOINT && effect->up_to > 0;
}

static void answer_store(const struct ask *ask)
{
    const struct ks_store_effect *const effect = &ask->effect.store;
    struct ks_store_answer answer = {.outcome = ask->outcome, .err = KS_FAIL(TIMEOUT)};
    struct ks_native_rows rows = {.workers = NULL};
    struct ks_event event = {.kind = KS_EVENT_STORE};
    bool good = true;

    for (uint32_t i = 0; ask->reads && i < ROWS_MAX; i++)
        if (is_asked(ask, &world.table[i]))
            good &= add_row(&rows, &world.table[i]);
    if (effect->operation == KS_STORE_HEARTBEAT && ask->outcome == KS_DONE) {
        const struct stored *const row =
            find_row(ask->table, world.dialect == &ks_native_dialect ? "w" : NULL, "me");

        good = row == NULL || add_row(&rows, row);
    }
    if (ask->reads && good)
        answer.outcome = KS_DONE;
    if (!good)
        answer.outcome = KS_UNKNOWN;
    if (answer.outcome == KS_DONE && !ask->reads)
        note_written(ask);
    if (answer.outcome != KS_UNKNOWN)
        ks_native_rows_answer(&rows, &answer);
    for (uint32_t i = 0; i < answer.lease_count; i++)
        world.damage += answer.leases[i].damaged;
    ks_rows_answered(&world.rows, effect->operation, effect->consistent, &answer, world.now, wall(),
                     &event);
    event.store.token = effect->token;
    step(&event);
    ks_native_rows_free(&rows);
}

static void answer_list(void)
{
    struct ks_shard_listing shards[SHARDS];
    const struct ks_list_answer answer = {.shards = shards, .count = SHARDS};
    struct ks_event event = {.kind = KS_EVENT_LISTED};

    for (uint32_t i = 0; i < SHARDS; i++) {
        shards[i] = (struct ks_shard_listing){.hash_start = "0", .hash_end = "99"};
        (void)snprintf(shards[i].shard, sizeof(shards[i].shard), "shardId-%012" PRIu32, i);
    }
    ks_rows_listed(&world.rows, &answer, world.now, &event);
    step(&event);
}

static void answer_records(ks_shard shard, ks_epoch epoch)
{
    static const uint32_t sizes[READ_MAX] = {10, 10, 10};

    step(&(struct ks_event){
        .kind = KS_EVENT_RECORDS,
        .records = {
            .shard = shard, .epoch = epoch, .sizes = sizes, .count = choose(READ_MAX + 1)}});
}

/* ---- What the core orders ---- */

static void open_shard(ks_shard shard, ks_epoch epoch)
{
    struct ks_shard_words *const words = ks_rows_words(&world.rows, shard);

    words->mark_epoch = words->persisted_epoch = epoch;
    words->marked = words->persisted = 0;
    words->whole = ks_rows_whole(words);
}

static void close_shard(ks_shard shard)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < world.ask_count; i++)
        if (world.asks[i].effect.kind != KS_EFFECT_READ ||
            world.asks[i].effect.lease.shard != shard)
            world.asks[kept++] = world.asks[i];
    world.ask_count = kept;
}

/* What is settled has places: sequence numbers that grow with epoch and number. */
static void forget_below(ks_shard shard, ks_epoch epoch, ks_number number)
{
    struct ks_shard_words *const words = ks_rows_words(&world.rows, shard);

    assert(words->mark_epoch == epoch && words->marked <= number);
    words->marked = number;
    words->mark = (struct ks_position){.kind = KS_POSITION_AFTER_SEQUENCE, .sub_sequence = -1};
    (void)snprintf(words->mark.sequence, sizeof(words->mark.sequence), "1%020" PRIu64 "%020" PRIu64,
                   epoch, number);
    words->whole = words->mark;
}

/* As the records stand on the wire: what is read of an id is what was written. */
static void write_ids(const struct ks_effect *effect)
{
    const ks_shard shard = effect->deliver.shard;
    const ks_epoch epoch = effect->deliver.epoch;
    const struct ks_ack batch = {.run_count = 1,
                                 .runs = {{shard, epoch, effect->deliver.first,
                                           effect->deliver.count, effect->deliver.assignment}}};
    char text[KS_BATCH_ID_MAX + 1];
    struct ks_ack_stamp stamp;
    struct ks_ack read;

    ks_ack_stamp_init(&stamp, &world.ack_key, effect->deliver.session, 1, &batch.runs[0]);
    for (uint32_t i = 0; i < effect->deliver.count; i++) {
        ks_ack_id_write(&stamp, effect->deliver.first + i, text);
        assert(ks_ack_id_read(&world.ack_key, ks_view_of(text, KS_ACK_ID_SIZE), &read) ==
               KS_ACK_ID_OK);
        assert(read.runs[0].epoch == epoch && read.runs[0].shard == shard &&
               read.runs[0].first == effect->deliver.first + i);
    }
    (void)ks_batch_id_write(&world.ack_key, &batch, text);
    assert(ks_batch_id_read(&world.ack_key, ks_view_text(text), &read) == KS_ACK_ID_OK);
    assert(read.runs[0].epoch == epoch && read.runs[0].assignment == batch.runs[0].assignment);
    world.delivered += effect->deliver.count;
}

static void perform_one(const struct ks_effect *effect)
{
    struct ask ask = {.effect = *effect};

    if (effect->kind == KS_EFFECT_OPEN)
        open_shard(effect->lease.shard, effect->lease.epoch);
    if (effect->kind == KS_EFFECT_CLOSE)
        close_shard(effect->lease.shard);
    if (effect->kind == KS_EFFECT_FORGET)
        forget_below(effect->lease.shard, effect->lease.epoch, effect->lease.number);
    if (effect->kind == KS_EFFECT_DELIVER)
        write_ids(effect);
    if (effect->kind == KS_EFFECT_STORE)
        send_store(&ask);
    if (effect->kind != KS_EFFECT_STORE && effect->kind != KS_EFFECT_LIST &&
        effect->kind != KS_EFFECT_READ && effect->kind != KS_EFFECT_DELIVER &&
        effect->kind != KS_EFFECT_LOCK)
        return;
    assert(world.ask_count < ASKS_MAX);
    world.asks[world.ask_count++] = ask;
}

static void perform(void)
{
    static struct ks_effects effects;

    effects.count = world.effects.count;
    memcpy(effects.items, world.effects.items, effects.count * sizeof(effects.items[0]));
    world.effects.count = 0;
    for (uint32_t i = 0; i < effects.count; i++)
        perform_one(&effects.items[i]);
}

static void write_run(const struct ks_effect *effect, enum ks_write_stage stage)
{
    step(&(struct ks_event){.kind = KS_EVENT_WRITE,
                            .write = {.stage = stage,
                                      .session = effect->deliver.session,
                                      .shard = effect->deliver.shard,
                                      .epoch = effect->deliver.epoch,
                                      .first = effect->deliver.first,
                                      .count = effect->deliver.count,
                                      .assignment = effect->deliver.assignment}});
}

static void settle(const struct ks_effect *effect)
{
    write_run(effect, KS_STAGE_BEGUN);
    write_run(effect, KS_STAGE_WRITTEN);
    step(&(struct ks_event){
        .kind = KS_EVENT_CHECKPOINT,
        .checkpoint = {.shard = effect->deliver.shard,
                       .epoch = effect->deliver.epoch,
                       .number = effect->deliver.first + effect->deliver.count - 1}});
}

static void answer_one(void)
{
    static struct ask ask;

    ask = world.asks[0];
    memmove(&world.asks[0], &world.asks[1], --world.ask_count * sizeof(world.asks[0]));
    if (ask.effect.kind == KS_EFFECT_STORE)
        answer_store(&ask);
    else if (ask.effect.kind == KS_EFFECT_LIST)
        answer_list();
    else if (ask.effect.kind == KS_EFFECT_DELIVER)
        settle(&ask.effect);
    else if (ask.effect.kind == KS_EFFECT_READ)
        answer_records(ask.effect.lease.shard, ask.effect.lease.epoch);
    else
        step(&(struct ks_event){.kind = KS_EVENT_LOCKED,
                                .locked = {.boot = ask.effect.lock.boot, .ok = true}});
    perform();
}

/* ---- Life ---- */

static void touch_nothing(void *arg, ks_instant now)
{
    (void)arg;
    (void)now;
}

static struct ks_core_config config_of(uint32_t dialect)
{
    static const enum ks_protocol protocols[] = {KS_PROTOCOL_NATIVE, KS_PROTOCOL_KCL,
                                                 KS_PROTOCOL_GO_KCL, KS_PROTOCOL_KINSUMER,
                                                 KS_PROTOCOL_KCL_RB};
    struct ks_core_config config = ks_core_config_default(ks_span_ms(10000));

    config.protocol = protocols[dialect];
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
    config.masking = config.protocol == KS_PROTOCOL_KCL_RB && choose(2) == 0;
    return config;
}

/* As main/room.c and ports/switchboard.c have it. */
static void begin(uint32_t dialect)
{
    static const struct ks_store_app start = {
        .present = true, .start = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1}};
    const struct ks_describe_answer stream = {
        .stream_arn = "arn:aws:kinesis:us-east-1:123456789012:stream/demo",
        .created_ms = 1700000000000};
    struct ks_core_config config = config_of(dialect);
    const ks_err err = ks_rows_init(&world.rows, SHARDS_MAX, 4, "me", touch_nothing, NULL);

    assert(ks_ok(err));
    world.rows.app = start;
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

static void pass_time(void)
{
    const ks_instant due = ks_core_deadline(world.core);

    ks_core_check(world.core);
    /* Not each time when something is due: a process may be late. */
    world.now = ks_instant_max(ks_instant_add(world.now, ks_span_ms(100)),
                               ks_instant_min(due, ks_instant_add(world.now, ks_span_ms(1000))));
    step(&(struct ks_event){.kind = KS_EVENT_TICK});
    perform();
    step(&(struct ks_event){
        .kind = KS_EVENT_SESSION_PULL,
        .pull = {
            .session = 0, .max_records = 10, .max_bytes = 1 << 20, .max_runs = KS_BATCH_RUNS_MAX}});
    perform();
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
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            for (uint32_t i = 0; i < 50 && world.ask_count > 0; i++)
                answer_one();
            pass_time();
        }
        for (uint32_t i = choose(6); round > 0 && i > 0; i--)
            damage();
        if (choose(16) == 0)
            world.wall_us = clocks[choose(CLOCKS)];
    }
}

static uint32_t dialect_count(void)
{
    uint32_t count = 0;

    while (ks_dialect_at(count) != NULL)
        count++;
    return count;
}

static void run_rows(uint32_t dialect, uint64_t seed, ks_view choices)
{
    memset(&world, 0, sizeof(world));
    world.dialect = ks_dialect_at(dialect);
    world.now.us = INT64_C(1795219200000000);
    world.choices = choices;
    ks_prng_init(&world.prng, seed);
    ks_ack_key_init(&world.ack_key, 42, 0);
    begin(dialect);
    live();
    ks_rows_free(&world.rows);
    assert(ks_alloc_live() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    run_rows(data[0] % dialect_count(), data[1], ks_view_of(data + 2, size - 2));
    return 0;
}
