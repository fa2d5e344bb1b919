/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommand `leases convert`: the rows of one lease table as rows of another. */
#include "main/lease_verbs.h"
#include "main/table.h"

#include "base/budget.h"
#include "ports/streams.h"

#include <inttypes.h>
#include <string.h>

enum {
    PLACE_BYTES = 512,
    ROUNDS = 5 /* Of writing and reading again without progress: a write may have been lost. */
};

/* A row of the source. */
struct plan {
    const struct ks_store_lease *from;
    struct ks_conversion to;
    struct ks_detail problem; /* It cannot be converted; "": it can. */
    bool there;               /* The target says so already. */
    bool differs;             /* The target has another row of this shard. */
};

struct tally {
    uint32_t written, there, left_out, problems, differ, unseen, again, passed, family, range;
};

struct convert {
    const struct ks_lease_words *words;
    struct ks_lease_desk desk;
    struct ks_lease_table from;
    struct ks_lease_table to;
    struct ks_lease_rows source; /* What is converted: the source as it was read first. */
    struct ks_lease_rows target; /* As it was when nobody lived on it: what may be overwritten. */
    char stream[KS_STREAM_ID_MAX + 1]; /* Of which stream, if the source has several; */
    char as[KS_STREAM_ID_MAX + 1];     /* and the target. */
    struct plan *plans;
    uint32_t count;
    struct tally tally;
};

/* ---- Of which stream ---- */

static bool complain_stream(const char *table, const struct ks_detail *detail)
{
    ks_call_complain("convert: %s: %s", table, detail->text);
    return false;
}

/* A table of the KCL: as its rows are; as the source, if there are none. */
static ks_err find_target(struct convert *convert, struct ks_detail *detail)
{
    const struct ks_reading target = ks_lease_table_reading(&convert->to.rows);
    const struct ks_lease_rows *const rows = &convert->to.rows;
    const char *const word = convert->words->call->options.stream;

    if (rows->lease_count == 0) {
        memcpy(convert->as, convert->stream, sizeof(convert->as));
        return KS_OK;
    }
    for (uint32_t i = 0; i < target.lease_count && convert->stream[0] != '\0'; i++)
        if (strcmp(target.leases[i].stream, convert->stream) == 0) {
            memcpy(convert->as, convert->stream, sizeof(convert->as));
            return KS_OK;
        }
    KS_TRY(ks_lease_rows_stream(rows, word, convert->as, detail));
    if (word[0] != '\0' || convert->as[0] == '\0')
        return KS_OK;
    return ks_err_because(KS_FAIL(INVALID), detail,
                          "the table is of several streams: --stream, or --as, says which these "
                          "rows are of");
}

static bool all_of_one(const struct ks_lease_rows *rows)
{
    for (uint32_t i = 0; i < rows->lease_count; i++)
        if (rows->leases[i].stream[0] != '\0' || rows->leases[i].damaged)
            return false;
    return rows->lease_count > 0;
}

static bool find_streams(struct convert *convert)
{
    const char *const as = convert->words->as;
    struct ks_detail detail = {""};
    struct ks_stream_id id;

    if (!ks_ok(ks_lease_rows_stream(&convert->from.rows, convert->words->call->options.stream,
                                    convert->stream, &detail)))
        return complain_stream(convert->words->from, &detail);
    if (as == NULL && convert->to.dialect != &ks_kcl_dialect)
        return true;
    if (as == NULL)
        return ks_ok(find_target(convert, &detail)) || complain_stream(convert->words->to, &detail);
    if (convert->to.dialect != &ks_kcl_dialect)
        ks_detail_set(&detail, "only tables of kcl have several streams");
    else if (!ks_stream_id_read(ks_view_text(as), &id))
        ks_detail_set(&detail, "--as wants ACCOUNT:STREAM:EPOCH, as the application says it");
    else if (all_of_one(&convert->to.rows))
        ks_detail_set(&detail, "the table is of one stream: --as does not go with it");
    else
        memcpy(convert->as, as, strlen(as) + 1);
    return detail.text[0] == '\0' || complain_stream(convert->words->to, &detail);
}

/* Rows of which nobody can say that they are of another stream. */
static bool is_meant(const struct ks_store_lease *lease, const char *stream)
{
    return strcmp(lease->stream, stream) == 0 || (lease->stream[0] == '\0' && lease->damaged);
}

/* ---- What is to be done ---- */

static void plan_row(struct convert *convert, const struct ks_store_lease *lease, struct plan *plan)
{
    const struct ks_reading target = ks_lease_table_reading(&convert->to.rows);
    const struct ks_store_lease *const found = ks_reading_lease(&target, convert->as, lease->shard);

    *plan = (struct plan){.from = lease};
    if (lease->damaged) {
        ks_detail_set(&plan->problem, "the attribute %s cannot be read",
                      lease->blame == NULL ? "that is its key" : lease->blame);
        return;
    }
    if (found != NULL && found->damaged) {
        ks_detail_set(&plan->problem, "the attribute %s of the target's row cannot be read",
                      found->blame == NULL ? "that is its key" : found->blame);
        return;
    }
    if (!ks_ok(ks_convert(convert->to.dialect, convert->as, lease, &plan->to, &plan->problem))) {
        if (plan->problem.text[0] == '\0')
            ks_detail_set(&plan->problem, "it cannot be converted");
        return;
    }
    plan->problem.text[0] = '\0';
    plan->there = found != NULL && !plan->to.left_out && ks_convert_agrees(&plan->to.held, found);
    plan->differs = found != NULL && !plan->there;
}

static void count_row(struct tally *tally, const struct plan *plan)
{
    if (plan->problem.text[0] != '\0') {
        tally->problems++;
        return;
    }
    tally->left_out += plan->to.left_out;
    tally->there += plan->there;
    tally->differ += plan->differs;
    tally->written += !plan->to.left_out && !plan->there;
    tally->unseen += plan->to.unseen;
    tally->again += plan->to.again;
    tally->passed += plan->to.passed;
    tally->family += plan->to.family_lost;
    tally->range += plan->to.range_lost;
}

static bool make_plans(struct convert *convert)
{
    convert->source = convert->from.rows;
    convert->from.rows = (struct ks_lease_rows){.leases = NULL};
    convert->plans = ks_alloc((convert->source.lease_count + 1) * sizeof(*convert->plans));
    if (convert->plans == NULL)
        return false;
    for (uint32_t i = 0; i < convert->source.lease_count; i++) {
        struct plan *const plan = &convert->plans[convert->count];

        if (!is_meant(&convert->source.leases[i], convert->stream))
            continue;
        plan_row(convert, &convert->source.leases[i], plan);
        count_row(&convert->tally, plan);
        convert->count++;
    }
    return true;
}

/* Rows of the target whose shard the source does not have. */
static uint32_t count_others(const struct convert *convert)
{
    const struct ks_reading source = ks_lease_table_reading(&convert->source);
    uint32_t others = 0;

    for (uint32_t i = 0; i < convert->to.rows.lease_count; i++) {
        const struct ks_store_lease *const lease = &convert->to.rows.leases[i];

        others += is_meant(lease, convert->as) &&
                  ks_reading_lease(&source, convert->stream, lease->shard) == NULL;
    }
    return others;
}

/* ---- What is said of it ---- */

static const char *note_of(const struct plan *plan)
{
    if (plan->problem.text[0] != '\0')
        return plan->problem.text;
    if (plan->differs)
        return "the target has another row";
    if (plan->there)
        return "is there";
    if (plan->to.left_out)
        return "no position, no row: begins at the initial position";
    if (plan->to.unseen)
        return "sidecars go on here, members begin at their initial position";
    if (plan->to.again)
        return "sidecars go on here, members read the aggregate again";
    return "";
}

static void add_row(struct ks_table *table, const struct plan *plan)
{
    struct ks_bytes place;

    ks_table_text(table, plan->from->shard);
    ks_bytes_init(&place, PLACE_BYTES);
    if (plan->from->damaged)
        ks_table_text(table, "?");
    else if (ks_ok(ks_lease_place(plan->from, &place)) && ks_ok(ks_bytes_append_byte(&place, '\0')))
        ks_table_text(table, (const char *)place.data);
    else
        table->err = KS_FAIL(NO_MEMORY);
    ks_bytes_free(&place);
    ks_table_text(table, note_of(plan));
}

static bool say_rows(const struct convert *convert)
{
    static const char *const heads[] = {"SHARD", "CHECKPOINT", "NOTE", NULL};
    struct ks_table table;
    struct ks_bytes text;
    bool fine;

    ks_table_init(&table, heads);
    ks_bytes_init(&text, KS_TABLE_BYTES_MAX);
    for (uint32_t i = 0; i < convert->count; i++)
        add_row(&table, &convert->plans[i]);
    fine = ks_lease_say(&text, ks_table_write(&table, 0, 0, &text));
    ks_bytes_free(&text);
    ks_table_free(&table);
    return fine;
}

static void say_losses(const struct convert *convert)
{
    const struct tally *const tally = &convert->tally;
    const char *const dialect = convert->to.dialect->name;

    if (tally->left_out > 0)
        ks_call_complain("%" PRIu32
                         " rows have no position, and %s no word for that: they are left "
                         "out, and their shards begin at the --initial-position of the sidecar",
                         tally->left_out, dialect);
    if (tally->unseen > 0)
        ks_call_complain("%" PRIu32 " positions stand in a place that sidecars read and members of "
                         "%s do not: members would begin these shards at the initial position that "
                         "they are configured with",
                         tally->unseen, dialect);
    if (tally->again > 0)
        ks_call_complain("%" PRIu32
                         " positions are inside an aggregate: members of %s read it again "
                         "from its beginning",
                         tally->again, dialect);
    if (tally->passed > 0)
        ks_call_complain(
            "%" PRIu32 " positions may be inside an aggregate (0 is what KCL writes for "
            "other records, too): members of %s go on behind all of it, sidecars inside",
            tally->passed, dialect);
    if (tally->family > 0 || tally->range > 0)
        ks_call_complain("%s does not keep parents and children of %" PRIu32
                         " rows, nor the hash-key range of %" PRIu32 "; the stream knows them",
                         dialect, tally->family, tally->range);
}

/* What a person must decide about. */
static bool may_go_on(const struct convert *convert)
{
    const uint32_t others = count_others(convert);
    const bool force = convert->words->force;

    if (convert->tally.problems > 0)
        ks_call_complain("%" PRIu32 " rows cannot be converted%s", convert->tally.problems,
                         force ? " and are left out" : ": mend them, or --force leaves them out");
    if (convert->tally.differ > 0)
        ks_call_complain("%s has other rows of %" PRIu32 " of these shards%s", convert->words->to,
                         convert->tally.differ,
                         force ? ": they are overwritten" : "; --force overwrites them");
    if (others > 0)
        ks_call_complain("%s has rows of %" PRIu32 " other shards%s", convert->words->to, others,
                         force ? ": they stay" : "; --force leaves them as they are");
    return force || (convert->tally.problems == 0 && convert->tally.differ == 0 && others == 0);
}

/* ---- Doing it ---- */

/* The target, made if it is not there. */
static bool open_target(struct convert *convert)
{
    struct ks_detail detail = {""};
    ks_err err;

    convert->target = convert->to.rows;
    convert->to.rows = (struct ks_lease_rows){.leases = NULL};
    ks_lease_table_close(&convert->to);
    err = ks_lease_table_open(&convert->to, true, &detail);
    if (ks_ok(err))
        err = ks_lease_table_read(&convert->to, &detail);
    if (!ks_ok(err))
        ks_call_complain("%s: %s", convert->words->to,
                         detail.text[0] != '\0' ? detail.text : ks_err_text(err));
    return ks_ok(err);
}

/* True if nobody but us has written this row since the target was looked at, or that does not matter. */
static bool may_write(const struct convert *convert, const struct ks_store_lease *found,
                      const char *shard)
{
    const struct ks_reading target = ks_lease_table_reading(&convert->target);

    return convert->words->force ||
           !ks_reading_row_moved(ks_reading_lease(&target, convert->as, shard), found);
}

/* The rows that the target does not have as they should be, and that are ours to write. */
static uint32_t find_missing(const struct convert *convert, struct ks_lease_mend *ret_mends)
{
    const struct ks_reading target = ks_lease_table_reading(&convert->to.rows);
    uint32_t count = 0;

    for (uint32_t i = 0; i < convert->count; i++) {
        const struct plan *const plan = &convert->plans[i];
        const struct ks_store_lease *const found =
            ks_reading_lease(&target, convert->as, plan->from->shard);

        if (plan->problem.text[0] != '\0' || plan->to.left_out ||
            (found != NULL && ks_convert_agrees(&plan->to.held, found)) ||
            !may_write(convert, found, plan->from->shard))
            continue;
        ret_mends[count++] = (struct ks_lease_mend){.lease = &plan->to.lease, .was = found};
    }
    return count;
}

/* A failure that will not go away. */
static bool is_over(const struct ks_lease_mend *mends, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (mends[i].outcome != KS_UNKNOWN || ks_err_class(mends[i].err) != KS_CLASS_REPORT)
            continue;
        ks_call_complain("%s: %s", mends[i].lease->shard,
                         mends[i].detail.text[0] != '\0' ? mends[i].detail.text
                                                         : ks_err_text(mends[i].err));
        return true;
    }
    return false;
}

/* Writes what is missing until a reading shows that nothing is: that is the proof, too. */
static bool write_rows(struct convert *convert, struct ks_lease_mend *mends)
{
    struct ks_detail detail = {""};
    uint32_t missing = find_missing(convert, mends);

    for (int round = 0; round < ROUNDS && missing > 0;) {
        const uint32_t before = missing;

        ks_lease_table_mend(&convert->to, mends, missing);
        if (is_over(mends, missing))
            return false;
        if (!ks_ok(ks_lease_table_read(&convert->to, &detail))) {
            ks_call_complain("%s", detail.text);
            return false;
        }
        missing = find_missing(convert, mends);
        round = missing < before ? 0 : round + 1;
    }
    if (missing > 0)
        ks_call_complain("%" PRIu32
                         " rows, %s among them, are not in %s as they should be: look at "
                         "it, and do it again",
                         missing, mends[0].lease->shard, convert->words->to);
    return missing == 0;
}

/* The row says what we were to write there. */
static bool is_ours(const struct convert *convert, const struct ks_store_lease *found)
{
    for (uint32_t i = 0; i < convert->count && strcmp(found->stream, convert->as) == 0; i++) {
        const struct plan *const plan = &convert->plans[i];

        if (strcmp(plan->from->shard, found->shard) == 0)
            return plan->problem.text[0] == '\0' && !plan->to.left_out &&
                   ks_convert_agrees(&plan->to.held, found);
    }
    return false;
}

/* Nobody has begun to work on the target since it was looked at. */
static bool is_alone(const struct convert *convert)
{
    const struct ks_reading before = ks_lease_table_reading(&convert->target);
    const struct ks_reading now = ks_lease_table_reading(&convert->to.rows);
    const struct ks_reading workers[2] = {
        {.workers = before.workers, .worker_count = before.worker_count},
        {.workers = now.workers, .worker_count = now.worker_count}};
    struct ks_detail sign = {""};

    if (convert->words->force)
        return true;
    for (uint32_t i = 0; i < now.lease_count && sign.text[0] == '\0'; i++) {
        const struct ks_store_lease *const found = &now.leases[i];

        if (ks_reading_row_moved(ks_reading_lease(&before, found->stream, found->shard), found) &&
            !is_ours(convert, found))
            ks_detail_set(&sign, "%s: somebody wrote its row meanwhile", found->shard);
    }
    if (sign.text[0] == '\0' && !ks_reading_moved(&workers[0], &workers[1], &sign))
        return true;
    ks_call_complain("%s: %s. What others wrote stays. Stop them, look at the rows, do it again",
                     convert->words->to, sign.text);
    return false;
}

/* The source is as it was when it was read first. */
static bool is_unmoved(struct convert *convert)
{
    const struct ks_reading before = ks_lease_table_reading(&convert->source);
    struct ks_detail detail = {""};
    struct ks_reading now;

    if (!ks_ok(ks_lease_table_read(&convert->from, &detail))) {
        ks_call_complain("%s", detail.text);
        return false;
    }
    now = ks_lease_table_reading(&convert->from.rows);
    if (!ks_reading_moved(&before, &now, &detail))
        return true;
    ks_call_complain("%s was written meanwhile: %s. What stands in %s is older",
                     convert->words->from, detail.text, convert->words->to);
    return false;
}

static bool carry_out(struct convert *convert)
{
    struct ks_lease_mend *mends;
    bool fine;

    if (!open_target(convert))
        return false;
    mends = ks_alloc((convert->count + 1) * sizeof(*mends));
    fine = mends != NULL && write_rows(convert, mends) && is_alone(convert) && is_unmoved(convert);
    ks_free(mends);
    return fine;
}

static bool say_done(const struct convert *convert)
{
    struct ks_bytes text;
    bool fine;

    ks_bytes_init(&text, PLACE_BYTES);
    fine = ks_lease_say(
        &text,
        convert->words->dry_run
            ? ks_bytes_format(&text, "dry run: %" PRIu32 " rows to write; nothing was written\n",
                              convert->tally.written)
            : ks_bytes_format(&text,
                              "%" PRIu32 " rows written, read again and compared; %" PRIu32
                              " were there\n",
                              convert->tally.written, convert->tally.there));
    ks_bytes_free(&text);
    return fine;
}

static bool run(struct convert *convert)
{
    struct ks_lease_table *const tables[2] = {&convert->from, &convert->to};
    struct ks_detail detail = {""};

    if (!ks_lease_table_find(&convert->desk, convert->words->from, true, &convert->from) ||
        !ks_lease_table_find(&convert->desk, convert->words->to, false, &convert->to) ||
        !find_streams(convert) || !make_plans(convert) || !say_rows(convert))
        return false;
    say_losses(convert);
    if (!may_go_on(convert))
        return false;
    if (!ks_ok(ks_lease_table_read(&convert->from, &detail))) {
        ks_call_complain("%s", detail.text);
        return false;
    }
    if (!ks_lease_tables_rest(convert->words, tables))
        return false;
    return (convert->words->dry_run || carry_out(convert)) && say_done(convert);
}

int ks_leases_convert(const struct ks_lease_words *words)
{
    struct convert convert = {.words = words};
    bool fine;

    fine = ks_ok(ks_lease_desk_open(&convert.desk, &words->call->options)) && run(&convert);
    ks_lease_table_close(&convert.from);
    ks_lease_table_close(&convert.to);
    ks_lease_desk_close(&convert.desk);
    ks_lease_rows_free(&convert.source);
    ks_lease_rows_free(&convert.target);
    ks_free(convert.plans);
    return fine ? 0 : 1;
}
