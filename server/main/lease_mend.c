/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands `leases seize`, `release` and `reset`: rows of a lease table as a person wants them. */
#include "main/lease_verbs.h"

#include "adapters/dialects/native_words.h"
#include "base/budget.h"
#include "base/codec.h"
#include "ports/streams.h"

#include <inttypes.h>
#include <string.h>

enum { SAY_BYTES_MAX = 64 << 20, TRIES = 3 };

struct mend {
    const struct ks_lease_words *words;
    const char *verb;
    const char *worker;                /* seize: whose leases. */
    const struct ks_position *place;   /* reset: where to. */
    char stream[KS_STREAM_ID_MAX + 1]; /* --all: of which one, of several. */
    struct ks_lease_desk desk;
    struct ks_lease_table table;
    struct ks_store_lease *wanted;
    struct ks_lease_mend *mends;
    uint32_t count;
};

/* ---- Which rows, and what they shall say ---- */

static bool is_chosen(const struct mend *mend, const struct ks_store_lease *lease)
{
    const struct ks_call *const call = mend->words->call;

    if (mend->worker != NULL)
        return strcmp(lease->owner.id[0] == '\0' ? lease->masked_by : lease->owner.id,
                      mend->worker) == 0;
    if (mend->words->all && strcmp(lease->stream, mend->stream) != 0)
        return false;
    if (mend->words->all)
        return mend->place != NULL ? !lease->damaged : lease->owner.id[0] != '\0';
    for (uint32_t i = 1; i < call->word_count; i++)
        if (ks_lease_is_named(lease, call->options.stream, call->words[i]))
            return true;
    return false;
}

/* Each word is the name of one row. */
static bool words_are_rows(const struct mend *mend)
{
    const struct ks_call *const call = mend->words->call;
    const struct ks_lease_rows *const rows = &mend->table.rows;

    for (uint32_t word = 1; word < call->word_count; word++) {
        uint32_t count = 0;

        for (uint32_t i = 0; i < rows->lease_count; i++)
            count += ks_lease_is_named(&rows->leases[i], call->options.stream, call->words[word]);
        if (count == 1)
            continue;
        ks_call_complain(count == 0 ? "%s: %s: there is no such row"
                                    : "%s: %s: several rows are called so: say the whole key",
                         mend->verb, call->words[word]);
        return false;
    }
    return true;
}

/* Moves it to the place, and says what members of the fleet do not see of that. */
static bool move(const struct mend *mend, struct ks_store_lease *lease)
{
    const struct ks_dialect *const dialect = mend->table.dialect;
    struct ks_conversion conversion;
    struct ks_detail detail = {""};

    lease->finished = false;
    lease->unstarted = false;
    lease->prepared = false;
    lease->checkpoint = *mend->place;
    lease->whole = (struct ks_position){.sub_sequence = -1};
    if (!ks_ok(ks_convert(dialect, lease->stream, lease, &conversion, &detail))) {
        ks_call_complain("%s: %s", mend->verb, detail.text);
        return false;
    }
    lease->whole = conversion.lease.whole;
    if (conversion.unseen)
        ks_call_complain(
            "%s: sidecars go on there; members of %s begin at the initial position that "
            "they are configured with",
            lease->shard, dialect->name);
    return true;
}

static void complain_damaged(const struct ks_store_lease *lease)
{
    char key[KS_LEASE_KEY_MAX + 1];

    ks_stream_key(lease, key);
    ks_call_complain("%s: the row is damaged, attribute %s: left alone", key,
                     lease->blame == NULL ? "of its key" : lease->blame);
}

static bool add_row(struct mend *mend, const struct ks_store_lease *was)
{
    struct ks_store_lease *const lease = &mend->wanted[mend->count];

    if (was->damaged) {
        complain_damaged(was);
        return false;
    }
    *lease = *was;
    lease->owner = (struct ks_incarnation_text){.boot = 0};
    lease->next_owner = lease->owner;
    if (mend->place != NULL && !move(mend, lease))
        return false;
    mend->mends[mend->count++] = (struct ks_lease_mend){.lease = lease, .was = was};
    return true;
}

/* For all rows that were read last. */
static bool make_room(struct mend *mend)
{
    const size_t room = mend->table.rows.lease_count + 1;

    ks_free(mend->wanted);
    ks_free(mend->mends);
    mend->wanted = ks_alloc(room * sizeof(*mend->wanted));
    mend->mends = ks_alloc(room * sizeof(*mend->mends));
    return mend->wanted != NULL && mend->mends != NULL;
}

static bool choose(struct mend *mend)
{
    const struct ks_lease_rows *const rows = &mend->table.rows;
    struct ks_detail detail = {""};

    mend->count = 0;
    if (mend->words->all && !ks_ok(ks_lease_rows_stream(rows, mend->words->call->options.stream,
                                                        mend->stream, &detail))) {
        ks_call_complain("%s: %s", mend->verb, detail.text);
        return false;
    }
    if (mend->worker == NULL && !mend->words->all && !words_are_rows(mend))
        return false;
    if (!make_room(mend))
        return false;
    for (uint32_t i = 0; i < rows->lease_count; i++)
        if (is_chosen(mend, &rows->leases[i]) && !add_row(mend, &rows->leases[i]))
            return false;
    return true;
}

/* What `--all` passes over. */
static void say_damaged(const struct mend *mend)
{
    const struct ks_lease_rows *const rows = &mend->table.rows;

    for (uint32_t i = 0; i < rows->lease_count && mend->words->all; i++)
        if (rows->leases[i].damaged && strcmp(rows->leases[i].stream, mend->stream) == 0)
            complain_damaged(&rows->leases[i]);
}

static ks_err append_row(struct ks_bytes *text, const struct ks_lease_mend *mend)
{
    const char *const owner = mend->was->owner.id;
    char key[KS_LEASE_KEY_MAX + 1];

    ks_stream_key(mend->lease, key);
    KS_TRY(
        ks_bytes_format(text, "%s: %s%s, ", key, owner[0] == '\0' ? "free" : "taken from ", owner));
    if (ks_position_same(&mend->was->checkpoint, &mend->lease->checkpoint) &&
        mend->was->unstarted == mend->lease->unstarted) {
        KS_TRY(ks_bytes_append(text, KS_VIEW("checkpoint stays ")));
        KS_TRY(ks_lease_place(mend->lease, text));
    } else {
        KS_TRY(ks_bytes_append(text, KS_VIEW("checkpoint ")));
        KS_TRY(ks_lease_place(mend->was, text));
        KS_TRY(ks_bytes_append(text, KS_VIEW(" -> ")));
        KS_TRY(ks_lease_place(mend->lease, text));
    }
    return ks_bytes_append_byte(text, '\n');
}

static const struct ks_store_worker *find_worker(const struct mend *mend, const char *id)
{
    const struct ks_reading reading = ks_lease_table_reading(&mend->table.rows);

    return ks_reading_worker(&reading, id);
}

/* seize: what becomes of the worker itself. */
static ks_err append_worker(struct ks_bytes *text, const struct mend *mend)
{
    const struct ks_store_worker *const worker =
        mend->worker == NULL ? NULL : find_worker(mend, mend->worker);

    if (worker == NULL || worker->damaged || worker->life != KS_LIVE)
        return KS_OK;
    return ks_bytes_format(text, "%s: %s\n", mend->worker,
                           mend->table.dialect == &ks_native_dialect
                               ? "fenced, nothing that it writes from then on counts"
                               : "a client no more, its row is deleted");
}

static bool say_rows(const struct mend *mend)
{
    struct ks_bytes text;
    ks_err err;
    bool fine;

    ks_bytes_init(&text, SAY_BYTES_MAX);
    err = append_worker(&text, mend);
    for (uint32_t i = 0; i < mend->count && ks_ok(err); i++)
        err = append_row(&text, &mend->mends[i]);
    fine = ks_lease_say(&text, err);
    ks_bytes_free(&text);
    return fine;
}

/* ---- native: who owns must be dead for good ---- */

/* The worker row says that this incarnation may go on. */
static bool may_write(const struct mend *mend, const struct ks_incarnation_text *owner)
{
    const struct ks_store_worker *const worker = find_worker(mend, owner->id);

    return worker != NULL &&
           (worker->damaged || (worker->self.boot == owner->boot && worker->life == KS_LIVE));
}

/* A process that only slept would go on with what it is not told of: it is told by its worker row. */
static bool owners_are_dead(const struct mend *mend)
{
    if (mend->table.dialect != &ks_native_dialect)
        return true;
    for (uint32_t i = 0; i < mend->count; i++) {
        const struct ks_incarnation_text *const owner = &mend->mends[i].was->owner;

        if (owner->id[0] == '\0' || !may_write(mend, owner))
            continue;
        ks_call_complain("%s: its owner %s may come back: leases seize %s first",
                         mend->mends[i].was->shard, owner->id, owner->id);
        return false;
    }
    return true;
}

static void pass(struct mend *mend, ks_span span)
{
    struct ks_loop *const loop = mend->desk.loop;
    const ks_instant until = ks_instant_add(ks_loop_now(loop), span);

    while (!ks_instant_reached(ks_loop_now(loop), until))
        ks_loop_turn(loop, ks_instant_since(until, ks_loop_now(loop)));
}

/* Ends the life of the worker, and reads what it wrote last. */
static bool fence(struct mend *mend)
{
    const struct ks_store_worker *worker;
    struct ks_detail detail = {""};
    bool over = false;

    for (int try = 0; try < TRIES; try++) {
        worker = find_worker(mend, mend->worker);
        if (worker == NULL)
            return true;
        over = !worker->damaged && ks_lease_table_fence(&mend->table, worker);
        /* Nobody has watched it: it may have beaten a moment ago, and delivers until its time is over. */
        if (over && mend->words->force && worker->life != KS_GONE &&
            mend->table.dialect == &ks_native_dialect)
            pass(mend, ks_span_ms(mend->words->call->options.lease_duration_ms));
        if (!ks_ok(ks_lease_table_read(&mend->table, &detail)))
            break;
        if (over)
            return true;
    }
    worker = find_worker(mend, mend->worker);
    if (detail.text[0] == '\0' && worker != NULL && worker->damaged)
        ks_detail_set(&detail, "its row is damaged; end its process, delete that row, do it again");
    ks_call_complain("worker %s cannot be fenced: %s", mend->worker,
                     detail.text[0] != '\0' ? detail.text : "its row moves");
    return false;
}

/* ---- Doing it ---- */

/* How many rows are not as they were to be; each is named. */
static uint32_t count_failures(const struct mend *mend)
{
    const struct ks_reading reading = ks_lease_table_reading(&mend->table.rows);
    uint32_t failures = 0;

    for (uint32_t i = 0; i < mend->count; i++) {
        const struct ks_lease_mend *const one = &mend->mends[i];
        const struct ks_store_lease *const found =
            ks_reading_lease(&reading, one->lease->stream, one->lease->shard);

        struct ks_store_lease held;
        bool fine =
            found != NULL && ks_ok(ks_convert_held(mend->table.dialect, one->lease, &held, NULL));

        if (fine) {
            held.prepared = one->lease->prepared; /* It stays, and is in no row that is made. */
            fine = ks_convert_agrees(&held, found);
        }
        if (fine)
            continue;
        failures++;
        ks_call_complain("%s: %s", one->lease->shard,
                         one->outcome == KS_REFUSED ? "not done: somebody wrote the row meanwhile"
                         : one->detail.text[0] != '\0' ? one->detail.text
                                                       : "the row does not say so now: look at it");
    }
    return failures;
}

static bool carry_out(struct mend *mend)
{
    struct ks_lease_rows rows;
    struct ks_detail detail = {""};
    struct ks_bytes text;
    bool fine;

    ks_lease_table_mend(&mend->table, mend->mends, mend->count);
    /* What the rows said before stays until all is said. */
    rows = mend->table.rows;
    mend->table.rows = (struct ks_lease_rows){.leases = NULL};
    fine = ks_ok(ks_lease_table_read(&mend->table, &detail));
    if (!fine)
        ks_call_complain("%s", detail.text);
    fine = fine && count_failures(mend) == 0;
    ks_lease_rows_free(&rows);
    if (!fine)
        return false;
    ks_bytes_init(&text, SAY_BYTES_MAX);
    fine = ks_lease_say(
        &text, ks_bytes_format(&text, "%" PRIu32 " rows written, and read again\n", mend->count));
    ks_bytes_free(&text);
    return fine;
}

static bool say_dry(void)
{
    struct ks_bytes text;
    bool fine;

    ks_bytes_init(&text, SAY_BYTES_MAX);
    fine = ks_lease_say(&text, ks_bytes_append(&text, KS_VIEW("dry run: nothing was written\n")));
    ks_bytes_free(&text);
    return fine;
}

/* seize: there is a row of the worker; otherwise there is nothing to do, and it says so. */
static bool knows_worker(const struct mend *mend)
{
    if (mend->worker != NULL && find_worker(mend, mend->worker) != NULL)
        return true;
    if (mend->worker != NULL)
        ks_call_complain("%s: nothing there names %s", mend->words->table, mend->worker);
    else
        ks_call_complain("%s: there is nothing to do", mend->verb);
    return false;
}

static bool run(struct mend *mend)
{
    struct ks_lease_table *const tables[2] = {&mend->table, NULL};

    if (!ks_lease_table_find(&mend->desk, mend->words->table, true, &mend->table) ||
        !choose(mend) || !say_rows(mend))
        return false;
    say_damaged(mend);
    if (mend->count == 0 && !knows_worker(mend))
        return mend->worker == NULL;
    /* As it was read last. */
    if (!ks_lease_tables_rest(mend->words, tables) || !choose(mend) ||
        (mend->worker == NULL && !owners_are_dead(mend)))
        return false;
    if (mend->words->dry_run)
        return say_dry();
    if (mend->worker != NULL && mend->table.dialect->has_workers &&
        (!fence(mend) || !choose(mend) || !owners_are_dead(mend)))
        return false;
    return carry_out(mend);
}

static int finish(struct mend *mend)
{
    const bool fine =
        ks_ok(ks_lease_desk_open(&mend->desk, &mend->words->call->options)) && run(mend);

    ks_lease_table_close(&mend->table);
    ks_lease_desk_close(&mend->desk);
    ks_free(mend->wanted);
    ks_free(mend->mends);
    return fine ? 0 : 1;
}

/* ---- The subcommands ---- */

int ks_leases_seize(const struct ks_lease_words *words)
{
    struct mend mend = {.words = words, .verb = "seize", .worker = words->call->words[1]};

    return finish(&mend);
}

int ks_leases_release(const struct ks_lease_words *words)
{
    struct mend mend = {.words = words, .verb = "release"};

    return finish(&mend);
}

/* "after:SEQUENCE" or "after:SEQUENCE:SUB", what follows "after:". */
static bool read_after(ks_view text, struct ks_position *place)
{
    const ks_view sequence = ks_view_cut(&text, ':');

    place->kind = KS_POSITION_AFTER_SEQUENCE;
    if (!ks_native_is_decimal(sequence, KS_SEQUENCE_MAX) ||
        !ks_ok(ks_view_copy_text(sequence, place->sequence, sizeof(place->sequence))))
        return false;
    return text.size == 0 ||
           (ks_ok(ks_view_i64(text, &place->sub_sequence)) && place->sub_sequence >= 0);
}

static bool read_place(ks_view text, struct ks_position *place)
{
    ks_view rest = text;

    if (ks_view_equal(ks_view_cut(&rest, ':'), KS_VIEW("after")))
        return read_after(rest, place);
    if (ks_view_equal(text, KS_VIEW("trim_horizon"))) {
        place->kind = KS_POSITION_TRIM_HORIZON;
        return true;
    }
    if (ks_view_equal(text, KS_VIEW("latest"))) {
        place->kind = KS_POSITION_LATEST;
        return true;
    }
    if (ks_native_is_decimal(text, KS_SEQUENCE_MAX)) {
        place->kind = KS_POSITION_AT_SEQUENCE;
        return ks_ok(ks_view_copy_text(text, place->sequence, sizeof(place->sequence)));
    }
    place->kind = KS_POSITION_AT_TIMESTAMP;
    return ks_ok(ks_timestamp_parse(text, &place->timestamp_ms)) && place->timestamp_ms >= 0;
}

int ks_leases_reset(const struct ks_lease_words *words)
{
    struct ks_position place = {.sub_sequence = -1};
    struct mend mend = {.words = words, .verb = "reset", .place = &place};

    if (!read_place(ks_view_text(words->at), &place)) {
        ks_call_complain(
            "reset: --at must be trim_horizon, latest, an RFC 3339 instant, the sequence "
            "number of the next record, or after:SEQUENCE[:SUB]");
        return 2;
    }
    return finish(&mend);
}
