/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommand `top`: what goes on in a running sidecar, each second. Rates are what came between two looks, so that
 * the first picture comes after a second, also with --once. */
#include "main/commands.h"
#include "main/look.h"
#include "main/table.h"

#include "base/budget.h"
#include "base/limits.h"
#include "base/loop.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LOOK_MS = 1000, PICTURE_BYTES_MAX = KS_TABLE_BYTES_MAX, ROWS_LEAST = 3, REASON_MAX = 512 };

/* A shard as it was at the last look. Rows of a list keep their place while the process lives. */
struct sample {
    uint64_t epoch;
    uint64_t delivered;
};

/* A shard and what became of it since. */
struct row {
    const ks_pb_shard *shard;
    uint64_t came; /* Records that were delivered since. */
};

struct top {
    const struct ks_call *call;
    const char *only; /* The subscription; NULL: all of them. */
    struct ks_loop *loop;
    struct ks_bytes samples[KS_SUBSCRIPTIONS_MAX]; /* Of each one's shards. */
    char boot_id[64];                              /* Of which process they are. */
    ks_instant looked_at;
    ks_span since; /* The look before this one. */
    bool known;    /* There was a look before this one. */
    bool terminal;
    uint32_t rows; /* Of the terminal; 0: as many as there are. */
    uint32_t width;
    struct ks_bytes picture;
    ks_err err; /* The first failure of what writes it. */
};

static void note(struct top *top, ks_err err)
{
    if (ks_ok(top->err))
        top->err = err;
}

/* ---- Shards ---- */

/* What is being filled with the pages of one subscription. */
struct filling {
    struct top *top;
    struct ks_table *table;
    struct ks_bytes *samples;
    uint32_t place;    /* Of the next row. */
    uint64_t came;     /* Of all. */
    uint32_t troubled; /* Shards with a trouble; the first of the worst kind: */
    KinesisSidecar__V1__Trouble worst;
    char reason[REASON_MAX];
    char remedy[REASON_MAX];
};

static uint64_t came_since(const struct top *top, const struct sample *before,
                           const ks_pb_shard *shard)
{
    uint64_t from = before->epoch == shard->epoch ? before->delivered : 0;

    return !top->known || shard->delivered < from ? 0 : shard->delivered - from;
}

enum { RATE_SIZE = 32 };

/* Records a second, with one decimal below 10. */
static const char *rate_of(const struct top *top, uint64_t came, char buffer[RATE_SIZE])
{
    double rate = top->since.us <= 0 ? 0 : (double)came * 1e6 / (double)top->since.us;

    (void)snprintf(buffer, RATE_SIZE, "%.*f", rate > 0 && rate < 9.95 ? 1 : 0, rate);
    return buffer;
}

/* The sample at a place; NULL: no memory. */
static struct sample *sample_at(struct ks_bytes *samples, uint32_t place)
{
    size_t end = ((size_t)place + 1) * sizeof(struct sample);

    if (samples->size < end) {
        if (!ks_ok(ks_bytes_reserve(samples, end - samples->size)))
            return NULL;
        memset(samples->data + samples->size, 0, end - samples->size);
        samples->size = end;
    }
    return (struct sample *)(void *)samples->data + place;
}

static bool has_trouble(const ks_pb_shard *shard)
{
    return shard->trouble > KINESIS_SIDECAR__V1__TROUBLE__TROUBLE_NONE;
}

/* What keeps it from its consumer, in a word; "" if nothing does. */
static const char *trouble_of(const ks_pb_shard *shard, char buffer[KS_JSON_WORD_MAX])
{
    buffer[0] = '\0';
    if (has_trouble(shard))
        ks_look_word(&kinesis_sidecar__v1__trouble__descriptor, (int)shard->trouble, buffer);
    return buffer;
}

/* What comes first in the enum stops more, but for a pause, which somebody wanted. */
static void note_trouble(struct filling *filling, const ks_pb_shard *shard)
{
    bool pause = shard->trouble == KINESIS_SIDECAR__V1__TROUBLE__TROUBLE_PAUSED;

    if (!has_trouble(shard))
        return;
    if (filling->troubled++ > 0 &&
        (pause || (filling->worst != KINESIS_SIDECAR__V1__TROUBLE__TROUBLE_PAUSED &&
                   filling->worst <= shard->trouble)))
        return;
    filling->worst = shard->trouble;
    (void)snprintf(filling->reason, sizeof filling->reason, "%s", shard->reason);
    (void)snprintf(filling->remedy, sizeof filling->remedy, "%s", shard->remedy);
}

static bool in_trouble(const ks_pb_shard *shard)
{
    return shard->damaged || shard->blocked || has_trouble(shard) ||
           shard->state != KINESIS_SIDECAR__V1__LEASE_STATE__LEASE_STATE_HELD;
}

/* Trouble first, then who is furthest behind. */
static int compare(const void *a, const void *b)
{
    const ks_pb_shard *one = ((const struct row *)a)->shard;
    const ks_pb_shard *two = ((const struct row *)b)->shard;

    if (in_trouble(one) != in_trouble(two))
        return in_trouble(one) ? -1 : 1;
    if (one->millis_behind_latest != two->millis_behind_latest)
        return one->millis_behind_latest > two->millis_behind_latest ? -1 : 1;
    return strcmp(one->shard_id, two->shard_id);
}

static void add_shard(const struct top *top, struct ks_table *table, const struct row *row)
{
    const ks_pb_shard *shard = row->shard;
    char word[KS_JSON_WORD_MAX];
    char behind[KS_SPAN_SIZE];
    char rate[RATE_SIZE];

    ks_look_word(&kinesis_sidecar__v1__lease_state__descriptor, (int)shard->state, word);
    ks_table_span(shard->millis_behind_latest, behind);
    ks_table_text(table, shard->shard_id);
    ks_table_text(table, shard->damaged ? "damaged" : word);
    ks_table_format(table, "%s%s%s", shard->owner[0] == '\0' ? "-" : shard->owner,
                    shard->next_owner[0] == '\0' ? "" : " > ", shard->next_owner);
    ks_table_format(table, "%" PRIu64, shard->epoch);
    ks_table_text(table, behind);
    ks_table_text(table, rate_of(top, row->came, rate));
    ks_table_format(table, "%" PRIu64, shard->unsettled);
    ks_table_format(table, "%" PRIu32, shard->in_flight);
    ks_table_format(table, "%" PRIu32, shard->assigned);
    ks_table_text(table, trouble_of(shard, word));
    ks_table_text(table, shard->session);
}

static void add_shards(void *arg, const ProtobufCMessage *message)
{
    const KinesisSidecar__V1__ShardsResponse *page =
        (const KinesisSidecar__V1__ShardsResponse *)message;
    struct filling *filling = arg;
    struct row *rows = ks_alloc((page->n_shards + 1) * sizeof(*rows));
    size_t count = 0;

    for (size_t i = 0; i < page->n_shards && rows != NULL; i++) {
        const ks_pb_shard *shard = page->shards[i];
        struct sample *sample = sample_at(filling->samples, filling->place++);

        if (sample == NULL)
            break;
        rows[count] = (struct row){shard, came_since(filling->top, sample, shard)};
        filling->came += rows[count].came;
        note_trouble(filling, shard);
        *sample = (struct sample){shard->epoch, shard->delivered};
        /* What is read to its end asks for nobody's eye. */
        count += shard->state != KINESIS_SIDECAR__V1__LEASE_STATE__LEASE_STATE_FINISHED;
    }
    if (rows != NULL)
        qsort(rows, count, sizeof(*rows), compare);
    for (size_t i = 0; i < count; i++)
        add_shard(filling->top, filling->table, &rows[i]);
    ks_free(rows);
}

/* ---- Sessions ---- */

static void add_sessions(void *arg, const ProtobufCMessage *message)
{
    const KinesisSidecar__V1__SessionsResponse *page =
        (const KinesisSidecar__V1__SessionsResponse *)message;
    struct ks_table *table = arg;

    for (size_t i = 0; i < page->n_sessions; i++) {
        const ks_pb_session *session = page->sessions[i];
        char kind[KS_JSON_WORD_MAX];
        char idle[KS_JSON_WORD_MAX];

        ks_look_word(&kinesis_sidecar__v1__session_kind__descriptor, (int)session->kind, kind);
        ks_look_word(&kinesis_sidecar__v1__idle_reason__descriptor, (int)session->idle_reason,
                     idle);
        ks_table_text(table, session->client_id);
        ks_table_text(table, kind);
        ks_table_text(table, session->attached ? "yes" : "no");
        ks_table_format(table, "%" PRIu32 " / %" PRIu32, session->in_flight,
                        session->max_in_flight);
        ks_table_format(table, "%" PRIu32, session->assigned);
        ks_table_format(table, "%" PRIu32, session->credit);
        ks_table_format(table, "%" PRIu32, session->lanes);
        ks_table_format(table, "%s%s%s", session->share, session->salt[0] == '\0' ? "" : ", ",
                        session->salt);
        ks_table_text(table, idle);
        ks_table_text(table, session->filter);
    }
}

/* ---- A picture ---- */

/* How many rows of a table still fit, with what is yet to come. */
static uint32_t rows_left(const struct top *top)
{
    uint32_t used = 0;

    for (size_t i = 0; i < top->picture.size; i++)
        used += top->picture.data[i] == '\n';
    if (top->rows == 0)
        return 0;
    return top->rows > used + 2 + ROWS_LEAST ? top->rows - used - 2 : ROWS_LEAST;
}

static void write_table(struct top *top, const struct ks_table *table)
{
    note(top, ks_bytes_append_byte(&top->picture, '\n'));
    note(top, ks_table_write(table, rows_left(top), top->width, &top->picture));
}

static void write_head(struct top *top, const ks_pb_status *status)
{
    char state[KS_JSON_WORD_MAX];
    char since[KS_SPAN_SIZE];

    ks_look_word(&kinesis_sidecar__v1__sidecar_state__descriptor, (int)status->state, state);
    /* Whoever answers there may say any number. */
    ks_table_span(status->started_at > 0 ? ks_wall_now().ms - status->started_at : -1, since);
    note(top, ks_bytes_append(&top->picture, KS_VIEW("kinesis-sidecar ")));
    note(top, ks_table_append_plain(&top->picture, status->version));
    note(top, ks_bytes_append(&top->picture, KS_VIEW(", worker ")));
    note(top, ks_table_append_plain(&top->picture, status->worker_id));
    note(top, ks_bytes_format(&top->picture, ": %s, %s, up %s\n", state,
                              status->ready ? "ready" : "not ready", since));
    for (size_t i = 0; i < status->n_reasons; i++) {
        note(top, ks_bytes_append(&top->picture, KS_VIEW("  ")));
        note(top, ks_table_append_plain(&top->picture, status->reasons[i]));
        note(top, ks_bytes_append_byte(&top->picture, '\n'));
    }
}

static void write_line(struct top *top, const char *head, const char *text)
{
    note(top, ks_bytes_append(&top->picture, ks_view_text(head)));
    note(top, ks_table_append_plain(&top->picture, text));
    note(top, ks_bytes_append_byte(&top->picture, '\n'));
}

/* What is wrong, and what to do about it. */
static void write_trouble(struct top *top, const struct filling *filling)
{
    if (filling->troubled == 0)
        return;
    write_line(top, "  wrong: ", filling->reason);
    if (filling->remedy[0] != '\0')
        write_line(top, "  do:    ", filling->remedy);
    if (filling->troubled > 1)
        note(top, ks_bytes_format(&top->picture, "  and %" PRIu32 " more shards: leases\n",
                                  filling->troubled - 1));
}

static void write_subscription(struct top *top, const ks_pb_subscription *of, uint64_t came)
{
    char rate[RATE_SIZE];
    char idle[KS_JSON_WORD_MAX];
    char behind[KS_SPAN_SIZE];
    char oldest[KS_SPAN_SIZE];

    ks_look_word(&kinesis_sidecar__v1__idle_reason__descriptor, (int)of->idle_reason, idle);
    ks_table_span(of->millis_behind_latest, behind);
    ks_table_span(of->oldest_unsettled_age_ms, oldest);
    note(top, ks_bytes_append_byte(&top->picture, '\n'));
    note(top, ks_table_append_plain(&top->picture, of->subscription));
    note(top, ks_bytes_append(&top->picture, KS_VIEW(", stream ")));
    note(top, ks_table_append_plain(&top->picture, of->stream));
    note(top, ks_bytes_format(&top->picture,
                              ": %" PRIu32 " leases, %" PRIu32 " sessions, %" PRIu64
                              " in flight, behind %s, oldest unsettled %s, %s records/s%s%s\n",
                              of->leases_held, of->sessions, of->in_flight, behind, oldest,
                              rate_of(top, came, rate), idle[0] == '\0' ? "" : ", ", idle));
}

/* One subscription; false: it complained. */
static bool add_subscription(struct top *top, const ks_pb_subscription *of, uint32_t place)
{
    static const char *const shard_heads[] = {"SHARD",     "STATE",   "OWNER",      "#EPOCH",
                                              "#BEHIND",   "#REC/S",  "#UNSETTLED", "#IN FLIGHT",
                                              "#ASSIGNED", "TROUBLE", "SESSION",    NULL};
    static const char *const session_heads[] = {"CLIENT",    "KIND",    "CONNECTED", "#IN FLIGHT",
                                                "#ASSIGNED", "#CREDIT", "#LANES",    "SHARE",
                                                "IDLE",      "FILTER",  NULL};
    struct ks_table shards;
    struct ks_table sessions;
    struct filling filling = {.top = top, .table = &shards, .samples = &top->samples[place]};
    bool fine;

    ks_table_init(&shards, shard_heads);
    ks_table_init(&sessions, session_heads);
    fine =
        ks_look_pages(top->call, "/v1/shards", of->subscription, KS_PAGE_SIZE_MAX,
                      &kinesis_sidecar__v1__shards_response__descriptor, add_shards, &filling) &&
        ks_look_pages(top->call, "/v1/sessions", of->subscription, KS_PAGE_SIZE_MAX,
                      &kinesis_sidecar__v1__sessions_response__descriptor, add_sessions, &sessions);
    if (fine) {
        write_subscription(top, of, filling.came);
        write_trouble(top, &filling);
        write_table(top, &sessions);
        write_table(top, &shards);
    }
    ks_table_free(&shards);
    ks_table_free(&sessions);
    return fine;
}

/* Another process has other rows. */
static void know_boot(struct top *top, const char *boot_id)
{
    if (top->known && strcmp(top->boot_id, boot_id) != 0) {
        for (size_t i = 0; i < KS_SUBSCRIPTIONS_MAX; i++)
            ks_bytes_clear(&top->samples[i]);
        top->known = false;
    }
    (void)snprintf(top->boot_id, sizeof(top->boot_id), "%s", boot_id);
}

/* Asks for everything, and makes the picture of it. False: it complained. */
static bool look(struct top *top)
{
    ProtobufCMessage *message = NULL;
    ks_instant now = ks_instant_now();
    struct ks_arena arena;
    bool fine = ks_look(top->call, "/v1/status", NULL, top->only,
                        &kinesis_sidecar__v1__status__descriptor, &arena, &message);

    if (fine) {
        const ks_pb_status *status = (const ks_pb_status *)message;

        know_boot(top, status->boot_id);
        top->since = ks_instant_since(now, top->looked_at);
        top->looked_at = now;
        ks_bytes_clear(&top->picture);
        write_head(top, status);
        for (uint32_t i = 0; i < status->n_subscriptions && i < KS_SUBSCRIPTIONS_MAX && fine; i++)
            fine = add_subscription(top, status->subscriptions[i], i);
        top->known = true;
    }
    ks_arena_free(&arena);
    if (fine && !ks_ok(top->err))
        ks_call_complain("top: %s", ks_err_text(top->err));
    return fine && ks_ok(top->err);
}

/* ---- The screen ---- */

static void measure(struct top *top)
{
    struct winsize size = {.ws_row = 0};

    if (!top->terminal || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        return;
    top->rows = size.ws_row;
    top->width = size.ws_col;
}

/* A terminal is written over, line by line and without wrapping, and cleared below; else pictures
 * stand one under the other. */
static ks_err print(const struct top *top)
{
    ks_view rest = ks_bytes_view(&top->picture);

    if (!top->terminal)
        return ks_call_print(NULL, rest);
    KS_TRY(ks_call_print(NULL, KS_VIEW("\033[?7l\033[H")));
    for (uint32_t i = 1; rest.size > 0 && (top->rows == 0 || i < top->rows); i++) {
        KS_TRY(ks_call_print(NULL, ks_view_cut(&rest, '\n')));
        KS_TRY(ks_call_print(NULL, KS_VIEW("\033[K\n")));
    }
    return ks_call_print(NULL, KS_VIEW("\033[J\033[?7h"));
}

static void pause_for(struct ks_loop *loop, ks_span span)
{
    ks_instant until = ks_instant_add(ks_instant_now(), span);

    while (!ks_instant_reached(ks_loop_now(loop), until))
        ks_loop_turn(loop, ks_instant_since(until, ks_loop_now(loop)));
}

static bool watch(struct top *top, bool once)
{
    bool fine = look(top);
    bool first = true;

    while (fine && (first || !once)) {
        pause_for(top->loop, ks_span_ms(LOOK_MS));
        measure(top);
        fine = look(top);
        if (fine && !top->terminal && !first)
            fine = ks_ok(ks_call_print(NULL, KS_VIEW("\n")));
        if (fine)
            fine = ks_ok(print(top));
        first = false;
    }
    return fine;
}

int ks_command_top(int argc, char *const *argv, char *const *environment)
{
    enum { SUBSCRIPTION, ONCE, SAMPLES_BYTES_MAX = 16 << 20 };
    static const struct ks_call_flag flags[] = {
        {"--subscription", true}, {"--once", false}, {NULL, false}};
    struct ks_call call;
    struct top top = {.call = &call, .err = KS_OK};
    bool fine;
    ks_err err;

    if (!ks_call_read(argc, argv, environment, flags, 0, &call))
        return 2;
    err = ks_loop_new(&top.loop); /* For its waiting. */
    if (!ks_ok(err)) {
        ks_call_complain("top: %s", ks_err_text(err));
        return 1;
    }
    top.only = call.values[SUBSCRIPTION];
    top.terminal = call.values[ONCE] == NULL && isatty(STDOUT_FILENO) == 1;
    ks_bytes_init(&top.picture, PICTURE_BYTES_MAX);
    for (size_t i = 0; i < KS_SUBSCRIPTIONS_MAX; i++)
        ks_bytes_init(&top.samples[i], SAMPLES_BYTES_MAX);
    if (top.terminal)
        (void)ks_call_print(NULL, KS_VIEW("\033[2J")).code;
    fine = watch(&top, call.values[ONCE] != NULL);
    for (size_t i = 0; i < KS_SUBSCRIPTIONS_MAX; i++)
        ks_bytes_free(&top.samples[i]);
    ks_bytes_free(&top.picture);
    ks_loop_free(top.loop);
    return fine ? 0 : 1;
}
