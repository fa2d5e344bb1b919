/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/ports/stage.h"

#include "adapters/kinesis/user_records.h"
#include "adapters/local/stream.h"
#include "adapters/sqlite/dead_letters.h"
#include "adapters/sqlite/store.h"
#include "adapters/system/lock_file.h"
#include "base/digest.h"
#include "base/log.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void on_drained(void *arg, bool clean, uint64_t unsaved)
{
    struct stage *stage = arg;

    EXPECT(!stage->drained);
    stage->drained = true;
    stage->clean = clean;
    stage->unsaved = unsaved;
}

static void on_refused(void *arg, const char *reason)
{
    struct stage *stage = arg;

    (void)snprintf(stage->refused, sizeof stage->refused, "%s", reason);
}

void stage_begin_with(struct stage *stage, const struct setting *setting)
{
    struct ks_switchboard_config config = {
        .stream = setting->stream,
        .application = "app",
        .dialect = "native",
        .worker_id = setting->worker_id,
        .version = "test",
        .start = {.kind = setting->start, .sub_sequence = -1},
        .core = ks_core_config_default(ks_span_ms(STAGE_LEASE_MS)),
        .kinship = setting->kinship,
        .shard_metrics = true,
        .drained = on_drained,
        .refused = on_refused,
        .arg = stage,
    };
    struct ks_detail detail;

    *stage = (struct stage){.loop = NULL};
    ks_log_open(STDERR_FILENO, KS_LOG_INFO, KS_LOG_TEXT);
    EXPECT_OK(ks_loop_new(&stage->loop));
    EXPECT_OK(ks_sqlite_store_open(stage->loop, ks_test_path("leases.db"), "app", NULL, NULL,
                                   &stage->store, &detail));
    EXPECT_OK(ks_local_source_open(stage->loop, ks_test_path("stream.db"), setting->stream,
                                   setting->shards, &stage->source, &detail));
    EXPECT_OK(ks_user_records_source_open(stage->loop, "demo", stage->source, &stage->source));
    config.loop = stage->loop;
    config.store = stage->store;
    config.source = stage->source;
    if (setting->lock)
        EXPECT_OK(ks_lock_file_open(stage->loop, ks_test_dir(), "app", setting->worker_id,
                                    &stage->lock, &detail));
    config.lock = stage->lock;
    EXPECT_OK(ks_sqlite_letters_open(stage->loop, ks_test_path("dead_letters.db"),
                                     &(const struct ks_letters_key){.application = "app"},
                                     &stage->letters, &detail));
    config.letters = stage->letters;
    config.core.capacity = setting->capacity;
    config.core.seed = ks_random_u64();
    config.core.budget_bytes = 8 << 20;
    config.core.shards_max = setting->shards_max;
    config.core.leases_max = 8;
    if (setting->keep.us > 0)
        config.core.keep = setting->keep;
    config.core.workers_max = 16;
    config.core.sessions_max = 4;
    config.core.window_max = 1024;
    config.core.list_every = ks_span_ms(300);
    config.core.checkpoint_interval = ks_span_ms(200);
    EXPECT_OK(ks_switchboard_new(&config, &stage->board));
    ks_switchboard_start(stage->board);
}

void stage_begin(struct stage *stage, const char *worker_id)
{
    stage_begin_with(stage, &(struct setting){.worker_id = worker_id,
                                              .stream = "stream",
                                              .shards = STAGE_SHARDS,
                                              .shards_max = STAGE_SHARDS_MAX});
}

void stage_sleep_past_lease(void)
{
    const struct timespec longer = {.tv_sec = STAGE_LEASE_MS / 1000, .tv_nsec = 100 * 1000 * 1000};

    (void)nanosleep(&longer, NULL);
}

/* Everything stops where it is, as if the process had died. */
void stage_vanish(struct stage *stage)
{
    ks_switchboard_stop(stage->board);
    stage->source->vtable->close(stage->source);
    stage->store->vtable->close(stage->store);
    if (stage->letters != NULL)
        stage->letters->vtable->close(stage->letters);
    if (stage->lock != NULL)
        stage->lock->vtable->close(stage->lock);
    ks_loop_await_jobs(stage->loop, ks_span_ms(20000));
    ks_loop_free(stage->loop);
    ks_switchboard_free(stage->board);
}

static bool is_drained(struct stage *stage)
{
    return stage->drained;
}

bool stage_is_refused(struct stage *stage)
{
    return stage->refused[0] != '\0';
}

bool stage_holds_all(struct stage *stage)
{
    struct ks_board_status status;

    ks_switchboard_status(stage->board, &status);
    return status.self.leases_held == STAGE_SHARDS;
}

bool stage_is_ready(struct stage *stage)
{
    struct ks_board_status status;

    ks_switchboard_status(stage->board, &status);
    return status.ready;
}

static bool no_puts(struct stage *stage)
{
    return stage->puts_open == 0;
}

void stage_turn_until(struct stage *stage, bool (*reached)(struct stage *stage))
{
    ks_instant until = stage_patience();

    while (!reached(stage))
        stage_turn(stage, until, ks_span_ms(50));
}

ks_instant stage_patience(void)
{
    return ks_instant_add(ks_instant_now(), ks_span_ms(STAGE_WAIT_MS));
}

void stage_turn(struct stage *stage, ks_instant until, ks_span span)
{
    if (ks_instant_reached(ks_instant_now(), until))
        FAIL("waited for more than %d ms", STAGE_WAIT_MS);
    ks_loop_turn(stage->loop, span);
}

void stage_drain(struct stage *stage)
{
    ks_switchboard_drain(stage->board, ks_span_ms(500));
    stage_turn_until(stage, is_drained);
}

static void put_done(void *arg, const struct ks_put_answer *answer)
{
    struct stage *stage = arg;

    EXPECT_OK(answer->err);
    stage->puts_open--;
}

/* Puts records whose data are the numbers first .. first + count - 1. */
void stage_put(struct stage *stage, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char text[16];
        int length = snprintf(text, sizeof text, "%u", first + i);
        struct ks_put_entry entry = {
            .data = ks_view_of(text, (size_t)length),
            .partition_key = ks_view_of(text, (size_t)length),
        };

        stage->puts_open++;
        EXPECT_OK(ks_switchboard_put(stage->board, &entry, 1, put_done, stage));
    }
    stage_turn_until(stage, no_puts);
}

void stage_put_one(struct stage *stage, const struct ks_put_entry *entry)
{
    stage->puts_open++;
    EXPECT_OK(ks_switchboard_put(stage->board, entry, 1, put_done, stage));
    stage_turn_until(stage, no_puts);
}

void stage_put_copies(struct stage *stage, const struct ks_put_entry *entry, uint32_t count)
{
    enum { WRITE = 500 };
    struct ks_put_entry entries[WRITE];

    for (uint32_t i = 0; i < WRITE; i++)
        entries[i] = *entry;
    for (uint32_t put = 0; put < count; put += WRITE) {
        stage->puts_open++;
        EXPECT_OK(ks_switchboard_put(stage->board, entries,
                                     count - put < WRITE ? count - put : WRITE, put_done, stage));
        stage_turn_until(stage, no_puts);
    }
}

/* ---- One who consumes. ---- */

static void on_wake(struct ks_consumer *port)
{
    struct consumer *consumer = (struct consumer *)(void *)port;

    consumer->wakes++;
}

static void on_ended(struct ks_consumer *port, enum ks_session_end why)
{
    struct consumer *consumer = (struct consumer *)(void *)port;

    consumer->endings++;
    consumer->why = why;
}

static void on_returning(struct ks_consumer *port, const char *shard, ks_wall deadline)
{
    struct consumer *consumer = (struct consumer *)(void *)port;

    (void)shard;
    EXPECT(deadline.ms > ks_wall_now().ms - 60000);
    consumer->returnings++;
}

struct ks_session_request consumer_request(const char *client_id)
{
    return (struct ks_session_request){
        .client_id = ks_view_text(client_id),
        .max_in_flight = 100,
        .max_in_flight_bytes = 1 << 20,
        .ack_deadline = ks_span_ms(60000),
        .grace = ks_span_ms(5000),
        .linger = ks_span_ms(5000),
    };
}

void consumer_join(struct consumer *consumer, struct stage *stage, const char *client_id)
{
    struct ks_session_request request = consumer_request(client_id);
    struct ks_session_status status;
    struct ks_detail detail;

    *consumer = (struct consumer){
        .port = {.wake = on_wake, .ended = on_ended, .returning = on_returning},
        .stage = stage,
    };
    EXPECT_OK(
        ks_switchboard_open(stage->board, &request, &consumer->port, &consumer->session, &detail));
    EXPECT(ks_switchboard_session(stage->board, consumer->session, &status));
    consumer->session_epoch = status.session.epoch;
}

static uint32_t number_of(const struct ks_record *record)
{
    uint64_t number = 0;

    EXPECT_OK(ks_view_u64(record->data, &number));
    EXPECT(number < 128);
    return (uint32_t)number;
}

const struct ks_record *stage_record(struct ks_switchboard *board, const struct ks_run *run,
                                     ks_number number)
{
    uint32_t count;

    return ks_switchboard_records(board, run, number, &count);
}

void stage_write(struct ks_switchboard *board, ks_session_id session, const struct ks_run *run)
{
    ks_switchboard_write(board, session, run, KS_STAGE_BEGUN, run->first, run->count);
    ks_switchboard_write(board, session, run, KS_STAGE_WRITTEN, run->first, run->count);
}

/* Takes what there is, and looks at every record. */
void consumer_pull(struct consumer *consumer)
{
    struct ks_switchboard *board = consumer->stage->board;
    struct ks_run runs[STAGE_RUNS];
    uint32_t count = ks_switchboard_pull(board, consumer->session, 100, 1 << 20, runs, STAGE_RUNS);

    for (uint32_t i = 0; i < count; i++) {
        EXPECT(runs[i].shard < STAGE_SHARDS_MAX);
        for (uint32_t k = 0; k < runs[i].count; k++) {
            const struct ks_record *record = stage_record(board, &runs[i], runs[i].first + k);
            char *last = consumer->last_sequence[runs[i].shard];

            EXPECT(record != NULL);
            EXPECT(ks_view_equal(record->data, record->partition_key));
            EXPECT(strncmp(last, (const char *)record->sequence.data, record->sequence.size) < 0);
            EXPECT_OK(ks_view_copy_text(record->sequence, last, KS_SEQUENCE_MAX + 1));
            consumer->seen[number_of(record)]++;
            consumer->records++;
        }
        stage_write(board, consumer->session, &runs[i]);
        EXPECT(consumer->run_count < 64);
        consumer->runs[consumer->run_count++] = runs[i];
    }
}

void consumer_pull_until(struct consumer *consumer, uint32_t records)
{
    ks_instant until =
        ks_instant_add(ks_loop_now(consumer->stage->loop), ks_span_ms(STAGE_WAIT_MS));

    for (consumer_pull(consumer); consumer->records < records; consumer_pull(consumer)) {
        if (ks_instant_reached(ks_loop_now(consumer->stage->loop), until))
            FAIL("only %u of %u records came", consumer->records, records);
        ks_loop_turn(consumer->stage->loop, ks_span_ms(50));
    }
    EXPECT_EQ_U64(consumer->records, records);
}

enum ks_settle_status consumer_settle(struct consumer *consumer, const struct ks_run *run,
                                      enum ks_settle_outcome outcome, ks_number *ret_up_to)
{
    struct ks_settlement settlement = {
        .session = consumer->session,
        .session_epoch = consumer->session_epoch,
        .shard = run->shard,
        .epoch = run->epoch,
        .first = run->first,
        .count = run->count,
        .outcome = outcome,
    };
    struct ks_settled settled = ks_switchboard_settle(consumer->stage->board, &settlement);

    *ret_up_to = settled.up_to;
    return settled.status;
}

void consumer_ack_all(struct consumer *consumer)
{
    ks_number up_to = 0;

    for (uint32_t i = 0; i < consumer->run_count; i++) {
        const struct ks_run *run = &consumer->runs[i];

        EXPECT_EQ_I64(consumer_settle(consumer, run, KS_ACK, &up_to), KS_SETTLE_OK);
        EXPECT_EQ_U64(up_to, run->first + run->count);
    }
}

static bool all_persisted(struct stage *stage, const struct consumer *consumer)
{
    for (uint32_t i = 0; i < consumer->run_count; i++) {
        const struct ks_run *run = &consumer->runs[i];

        if (!ks_switchboard_persisted(stage->board, run->shard, run->epoch,
                                      run->first + run->count))
            return false;
    }
    return true;
}

void consumer_persist_all(struct consumer *consumer)
{
    ks_instant until = stage_patience();

    for (uint32_t i = 0; i < consumer->run_count; i++)
        ks_switchboard_persist(consumer->stage->board, consumer->runs[i].shard);
    while (!all_persisted(consumer->stage, consumer))
        stage_turn(consumer->stage, until, ks_span_ms(20));
}
