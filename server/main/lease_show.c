/* SPDX-License-Identifier: Apache-2.0 */
/* What a lease table says, for people. */
#include "main/lease_verbs.h"
#include "main/table.h"

#include "adapters/dialects/native_words.h"
#include "base/codec.h"
#include "ports/streams.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ONE_BYTES_MAX = 64 << 10, PLACE_BYTES = 512, REV_SIZE = 48 };

/* ---- What the commands share ---- */

ks_err ks_lease_place(const struct ks_store_lease *lease, struct ks_bytes *ret_text)
{
    const struct ks_position *const position = &lease->checkpoint;
    char at[KS_TIMESTAMP_SIZE];

    if (lease->unstarted)
        return ks_bytes_append_byte(ret_text, '-');
    KS_TRY(ks_native_put_position(ret_text, position));
    if (position->kind == KS_POSITION_AT_TIMESTAMP) {
        ks_timestamp_format(position->timestamp_ms, at);
        return ks_bytes_format(ret_text, " %s", at);
    }
    if (position->kind == KS_POSITION_LATEST && position->timestamp_ms > 0) {
        ks_timestamp_format(position->timestamp_ms, at);
        return ks_bytes_format(ret_text, " since %s", at);
    }
    if (position->kind == KS_POSITION_AFTER_SEQUENCE && position->sub_sequence >= 0)
        return ks_bytes_format(ret_text, " + %" PRId64, position->sub_sequence);
    return KS_OK;
}

bool ks_lease_say(struct ks_bytes *text, ks_err err)
{
    if (ks_ok(err))
        err = ks_call_print(NULL, ks_bytes_view(text));
    if (!ks_ok(err))
        ks_call_complain("leases: %s", ks_err_text(err));
    return ks_ok(err);
}

bool ks_lease_table_find(struct ks_lease_desk *desk, const char *word, bool there,
                         struct ks_lease_table *table)
{
    struct ks_detail detail = {""};
    ks_err err = ks_lease_table_name(table, desk, word, &detail);

    if (ks_ok(err))
        err = ks_lease_table_open(table, false, &detail);
    if (ks_ok(err))
        err = ks_lease_table_read(table, &detail);
    if (!ks_ok(err))
        ks_call_complain("%s: %s", word, detail.text[0] != '\0' ? detail.text : ks_err_text(err));
    if (!ks_ok(err) || !there || !table->absent)
        return ks_ok(err);
    ks_call_complain("%s: there is no such table", word);
    return false;
}

bool ks_lease_tables_rest(const struct ks_lease_words *words,
                          struct ks_lease_table *const tables[2])
{
    const ks_span lease = ks_span_ms(words->call->options.lease_duration_ms);
    struct ks_detail sign = {""};
    ks_err err = KS_OK;

    if (words->force)
        return true;
    ks_call_complain("watching for %" PRIu32
                     " ms (--lease-duration-ms) whether somebody works with it",
                     words->call->options.lease_duration_ms);
    if (ks_lease_tables_live(tables, lease, &sign, &err)) {
        ks_call_complain("a fleet lives: %s. Nothing was written. Stop it first; --force does not "
                         "wait for that",
                         sign.text);
        return false;
    }
    if (!ks_ok(err))
        ks_call_complain("%s", sign.text[0] != '\0' ? sign.text : ks_err_text(err));
    return ks_ok(err);
}

/* ---- All rows ---- */

static const char *state_of(const struct ks_store_lease *lease)
{
    if (lease->damaged)
        return "damaged";
    if (lease->finished)
        return "finished";
    return lease->owner.id[0] == '\0' ? "free" : "owned";
}

/* The counter, or the time, that stands for the last write. */
static void rev_of(const struct ks_dialect *dialect, uint64_t rev, char buffer[REV_SIZE])
{
    if (rev == 0 && dialect->rev != KS_REV_COUNTER)
        (void)snprintf(buffer, REV_SIZE, "-");
    else if (dialect->rev == KS_REV_COUNTER)
        (void)snprintf(buffer, REV_SIZE, "%" PRIu64, rev);
    else
        ks_timestamp_format((int64_t)(rev / 1000000), buffer);
}

static void add_row(struct ks_table *table, const struct ks_dialect *dialect,
                    const struct ks_store_lease *lease)
{
    const bool moves = lease->next_owner.id[0] != '\0';
    char key[KS_LEASE_KEY_MAX + 1];
    char rev[REV_SIZE];
    struct ks_bytes place;

    ks_stream_key(lease, key);
    ks_table_text(table, key);
    ks_table_format(table, "%s%s%s", lease->owner.id[0] == '\0' ? "-" : lease->owner.id,
                    moves ? " > " : "", lease->next_owner.id);
    ks_table_text(table, state_of(lease));
    if (lease->damaged) {
        ks_table_text(table, "-");
        ks_table_format(table, "the attribute %s cannot be read",
                        lease->blame == NULL ? "that is its key" : lease->blame);
        return;
    }
    rev_of(dialect, lease->rev, rev);
    ks_table_text(table, rev);
    ks_bytes_init(&place, PLACE_BYTES);
    if (ks_ok(ks_lease_place(lease, &place)) && ks_ok(ks_bytes_append_byte(&place, '\0')))
        ks_table_text(table, (const char *)place.data);
    else
        table->err = KS_FAIL(NO_MEMORY);
    ks_bytes_free(&place);
}

static bool list_leases(const struct ks_lease_table *found)
{
    static const char *const words[] = {
        [KS_REV_COUNTER] = "#WRITES", [KS_REV_UNTIL] = "UNTIL", [KS_REV_WRITTEN] = "WRITTEN"};
    const char *const heads[] = {"SHARD",      "OWNER", "STATE", words[found->dialect->rev],
                                 "CHECKPOINT", NULL};
    struct ks_table table;
    struct ks_bytes text;
    bool fine;

    ks_table_init(&table, heads);
    ks_bytes_init(&text, KS_TABLE_BYTES_MAX);
    for (uint32_t i = 0; i < found->rows.lease_count; i++)
        add_row(&table, found->dialect, &found->rows.leases[i]);
    fine = ks_lease_say(&text, ks_table_write(&table, 0, 0, &text));
    ks_bytes_free(&text);
    ks_table_free(&table);
    return fine;
}

static bool list_workers(const struct ks_lease_table *found)
{
    static const char *const heads[] = {"WORKER", "LIFE", "BEAT", NULL};
    static const char *const lives[] = {"live", "fenced", "gone"};
    struct ks_table table;
    struct ks_bytes text;
    char beat[REV_SIZE];
    bool fine;

    if (found->rows.worker_count == 0)
        return true;
    ks_table_init(&table, heads);
    ks_bytes_init(&text, KS_TABLE_BYTES_MAX);
    for (uint32_t i = 0; i < found->rows.worker_count; i++) {
        const struct ks_store_worker *const worker = &found->rows.workers[i];

        rev_of(found->dialect, worker->beat, beat);
        ks_table_text(&table, worker->self.id);
        ks_table_text(&table, worker->damaged ? "damaged" : lives[worker->life]);
        ks_table_text(&table, beat);
    }
    fine = ks_ok(ks_bytes_append_byte(&text, '\n')) &&
           ks_lease_say(&text, ks_table_write(&table, 0, 0, &text));
    ks_bytes_free(&text);
    ks_table_free(&table);
    return fine;
}

int ks_leases_list(const struct ks_lease_words *words)
{
    struct ks_lease_table table = {.store = NULL};
    struct ks_lease_desk desk;
    bool fine = ks_ok(ks_lease_desk_open(&desk, &words->call->options)) &&
                ks_lease_table_find(&desk, words->table, true, &table);

    fine = fine && list_leases(&table) && list_workers(&table);
    ks_lease_table_close(&table);
    ks_lease_desk_close(&desk);
    return fine ? 0 : 1;
}

/* ---- One row ---- */

static ks_err append_line(struct ks_bytes *text, const char *name, const char *value)
{
    KS_TRY(ks_bytes_format(text, "%-20s ", name));
    KS_TRY(ks_table_append_plain(text, value[0] == '\0' ? "-" : value));
    return ks_bytes_append_byte(text, '\n');
}

static ks_err append_two(struct ks_bytes *text, const char *name,
                         const char (*ids)[KS_SHARD_ID_MAX + 1])
{
    KS_TRY(ks_bytes_format(text, "%-20s ", name));
    KS_TRY(ks_table_append_plain(text, ids[0][0] == '\0' ? "-" : ids[0]));
    if (ids[1][0] != '\0') {
        KS_TRY(ks_bytes_append_byte(text, ' '));
        KS_TRY(ks_table_append_plain(text, ids[1]));
    }
    return ks_bytes_append_byte(text, '\n');
}

static ks_err append_meaning(struct ks_bytes *text, const struct ks_store_lease *lease)
{
    struct ks_bytes place;
    ks_err err;

    if (lease->damaged)
        return append_line(text, "cannot be read", lease->blame == NULL ? "its key" : lease->blame);
    ks_bytes_init(&place, PLACE_BYTES);
    err = ks_lease_place(lease, &place);
    if (ks_ok(err))
        err = ks_bytes_append_byte(&place, '\0');
    if (ks_ok(err))
        err = append_line(text, "checkpoint", (const char *)place.data);
    ks_bytes_free(&place);
    KS_TRY(err);
    KS_TRY(append_line(text, "owner", lease->owner.id));
    KS_TRY(append_line(text, "next owner", lease->next_owner.id));
    KS_TRY(append_two(text, "parents", lease->parents));
    KS_TRY(append_two(text, "children", lease->children));
    KS_TRY(append_line(text, "first hash key", lease->hash_start));
    return append_line(text, "last hash key", lease->hash_end);
}

/* The dialect's own words. */
static ks_err append_words(struct ks_bytes *text, const struct ks_store_lease *lease)
{
    ks_view words = ks_view_text(lease->words);

    KS_TRY(ks_bytes_append(text, KS_VIEW("\nin the table\n")));
    while (words.size != 0) {
        ks_view line = ks_view_cut(&words, '\n');
        const ks_view name = ks_view_cut(&line, ' ');
        char value[PLACE_BYTES];

        if (line.size >= sizeof(value))
            line.size = ks_view_whole_characters(ks_view_of(line.data, sizeof(value) - 1));
        if (!ks_ok(ks_view_copy_text(line, value, sizeof(value))))
            (void)snprintf(value, sizeof(value), "?");
        KS_TRY(ks_bytes_format(text, "  %-24.*s ", (int)name.size, (const char *)name.data));
        KS_TRY(ks_table_append_plain(text, value));
        KS_TRY(ks_bytes_append_byte(text, '\n'));
    }
    return KS_OK;
}

static ks_err append_row(struct ks_bytes *text, const struct ks_store_lease *lease)
{
    if (lease->stream[0] != '\0')
        KS_TRY(append_line(text, "stream", lease->stream));
    KS_TRY(append_line(text, "shard", lease->shard));
    KS_TRY(append_line(text, "state", state_of(lease)));
    KS_TRY(append_meaning(text, lease));
    return append_words(text, lease);
}

/* NULL, with a complaint: none, or more than one. */
static const struct ks_store_lease *find_row(const struct ks_lease_words *words,
                                             const struct ks_lease_rows *rows)
{
    const char *const word = words->call->words[1];
    const struct ks_store_lease *found = NULL;

    for (uint32_t i = 0; i < rows->lease_count; i++) {
        if (!ks_lease_is_named(&rows->leases[i], words->call->options.stream, word))
            continue;
        if (found != NULL) {
            ks_call_complain("%s: several rows are called %s: say the whole key", words->table,
                             word);
            return NULL;
        }
        found = &rows->leases[i];
    }
    if (found == NULL)
        ks_call_complain("%s: there is no row of %s", words->table, word);
    return found;
}

int ks_leases_show(const struct ks_lease_words *words)
{
    struct ks_lease_table table = {.store = NULL};
    const struct ks_store_lease *lease = NULL;
    struct ks_lease_desk desk;
    struct ks_bytes text;
    bool fine = ks_ok(ks_lease_desk_open(&desk, &words->call->options)) &&
                ks_lease_table_find(&desk, words->table, true, &table);

    ks_bytes_init(&text, ONE_BYTES_MAX);
    if (fine)
        lease = find_row(words, &table.rows);
    fine = fine && lease != NULL && ks_lease_say(&text, append_row(&text, lease));
    ks_bytes_free(&text);
    ks_lease_table_close(&table);
    ks_lease_desk_close(&desk);
    return fine ? 0 : 1;
}
