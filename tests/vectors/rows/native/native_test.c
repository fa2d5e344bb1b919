/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of our own table as DynamoDB holds them, and what they mean: rows.json. */
#include "adapters/dialects/native.h"

#include "adapters/dialects/native_words.h"
#include "adapters/dynamodb/wire.h"
#include "aws/json.h"
#include "base/budget.h"
#include "ks_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char line[2048];
static size_t size;

#define SAY(...) size += (size_t)snprintf(line + size, sizeof(line) - size, __VA_ARGS__)

static void say_who(const struct ks_incarnation_text *who)
{
    SAY("%s#%016" PRIx64, who->id, who->boot);
}

static void say_worker(const struct ks_store_worker *row)
{
    if (row->damaged) {
        SAY("worker %s damaged", row->self.id);
        return;
    }
    SAY("worker ");
    say_who(&row->self);
    SAY(" %s %s beat %" PRIu64 " held %" PRIu64 " changes %" PRIu64 " capacity %" PRIu64
        " load %" PRIu64 " version %s",
        ks_native_lives[row->life], ks_native_modes[row->mode], row->beat, row->held, row->changes,
        row->capacity, row->load, row->version);
    for (uint32_t at = 0; at < row->give_count; at++)
        SAY(" give %s@%" PRIu64, row->gives[at].shard, row->gives[at].epoch);
    for (uint32_t at = 0; at < row->take_count; at++)
        SAY(" take %s@%" PRIu64, row->takes[at].shard, row->takes[at].epoch);
}

static void say_position(const struct ks_position *position)
{
    struct ks_bytes text;

    ks_bytes_init(&text, 256);
    EXPECT_OK(ks_native_put_position(&text, position));
    SAY("%.*s", (int)text.size, (const char *)text.data);
    ks_bytes_free(&text);
}

static void say_lease(const struct ks_store_lease *row)
{
    if (row->damaged) {
        SAY("lease %s damaged", row->shard);
        return;
    }
    SAY("lease %s owner ", row->shard);
    say_who(&row->owner);
    SAY(" next ");
    say_who(&row->next_owner);
    SAY(" epoch %" PRIu64 " rev %" PRIu64 " at ", row->epoch, row->rev);
    say_position(&row->checkpoint);
    SAY(" sub %" PRId64 " parents %s %s children %s %s range %s %s load %" PRIu64 "%s",
        row->checkpoint.sub_sequence, row->parents[0], row->parents[1], row->children[0],
        row->children[1], row->hash_start, row->hash_end, row->load,
        row->finished ? " finished" : "");
}

/* The one row of an answer, in words. */
static void say_row(const struct ks_store_answer *answer)
{
    size = 0;
    line[0] = '\0';
    if (answer->worker_count == 1)
        say_worker(&answer->workers[0]);
    if (answer->lease_count == 1)
        say_lease(&answer->leases[0]);
    if (answer->leader.present) {
        SAY("leader ");
        say_who(&answer->leader.holder);
        SAY(" epoch %" PRIu64 " deputies %s %s", answer->leader.epoch, answer->leader.deputies[0],
            answer->leader.deputies[1]);
    }
    if (answer->app.present) {
        SAY("app ");
        say_position(&answer->app.start);
        SAY(" %" PRId64 " %s %" PRId64, answer->app.start.timestamp_ms, answer->app.stream_arn,
            answer->app.stream_created_ms);
    }
}

TEST(rows_mean_what_the_vectors_say)
{
    static char text[64 << 10];
    const int fd = open("tests/vectors/rows/native/rows.json", O_RDONLY);
    const ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof(text));
    struct ks_json *cases = NULL;
    struct ks_bytes texts;

    EXPECT(bytes > 0 && bytes < (ssize_t)sizeof(text));
    EXPECT_EQ_I64(close(fd), 0);
    EXPECT_OK(ks_json_parse(ks_view_of(text, (size_t)bytes), &cases));
    EXPECT(ks_json_count(cases) >= 9);
    ks_bytes_init(&texts, 4096);
    for (size_t at = 0; at < ks_json_count(cases); at++) {
        const struct ks_json *const one = ks_json_item(cases, at);
        struct ks_native_rows rows = {.workers = NULL};
        struct ks_store_answer answer = {.outcome = KS_DONE};
        struct ks_item item;
        ks_view expected;

        EXPECT_OK(ks_json_text(ks_json_member(one, "row"), &expected));
        EXPECT_OK(
            ks_dynamodb_read_item(ks_json_member(one, "item"), &ks_native_schema, &texts, &item));
        EXPECT_OK(ks_native_rows_add(&rows, &item, NULL));
        ks_native_rows_answer(&rows, &answer);
        say_row(&answer);
        EXPECT_STR(line, (const char *)expected.data);
        ks_native_rows_free(&rows);
    }
    ks_bytes_free(&texts);
    ks_json_free(cases);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
