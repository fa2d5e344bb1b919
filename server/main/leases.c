/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommand `leases`: who holds which shard, for people. A row of /v1/shards is the lease, and how far it is; with
 * --table it is the lease table itself that is looked at or mended (main/lease_commands.h). */
#include "main/commands.h"
#include "main/lease_commands.h"
#include "main/look.h"
#include "main/table.h"

#include "base/codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LIST_BYTES_MAX = KS_TABLE_BYTES_MAX, ONE_BYTES_MAX = 64 << 10 };

static const char *state_of(const ks_pb_shard *shard, char buffer[KS_JSON_WORD_MAX])
{
    if (shard->damaged)
        return "damaged";
    ks_look_word(&kinesis_sidecar__v1__lease_state__descriptor, (int)shard->state, buffer);
    return buffer;
}

static bool say(struct ks_bytes *text, ks_err err)
{
    if (ks_ok(err))
        err = ks_call_print(NULL, ks_bytes_view(text));
    if (!ks_ok(err))
        ks_call_complain("leases: %s", ks_err_text(err));
    return ks_ok(err);
}

/* ---- All ---- */

/* The table, and what is wrong of which shards. */
struct listing {
    struct ks_table table;
    struct ks_bytes wrong;
    uint32_t troubled;
    ks_err err; /* The first failure to write `wrong`. */
};

enum { TROUBLES_SAID = 10 };

static ks_err append_trouble(struct ks_bytes *wrong, const ks_pb_shard *shard)
{
    KS_TRY(ks_bytes_append(wrong, KS_VIEW("wrong: ")));
    KS_TRY(ks_table_append_plain(wrong, shard->reason));
    if (shard->remedy[0] != '\0') {
        KS_TRY(ks_bytes_append(wrong, KS_VIEW("\n  do: ")));
        KS_TRY(ks_table_append_plain(wrong, shard->remedy));
    }
    return ks_bytes_append_byte(wrong, '\n');
}

static const char *note_trouble(struct listing *listing, const ks_pb_shard *shard,
                                char buffer[KS_JSON_WORD_MAX])
{
    if (shard->trouble <= KINESIS_SIDECAR__V1__TROUBLE__TROUBLE_NONE)
        return "-";
    if (listing->troubled++ < TROUBLES_SAID && ks_ok(listing->err))
        listing->err = append_trouble(&listing->wrong, shard);
    ks_look_word(&kinesis_sidecar__v1__trouble__descriptor, (int)shard->trouble, buffer);
    return buffer;
}

static void add_page(void *arg, const ProtobufCMessage *message)
{
    const KinesisSidecar__V1__ShardsResponse *page =
        (const KinesisSidecar__V1__ShardsResponse *)message;
    struct listing *listing = arg;
    struct ks_table *table = &listing->table;
    char word[KS_JSON_WORD_MAX];
    char at[KS_TIMESTAMP_SIZE];
    char behind[KS_SPAN_SIZE];

    for (size_t i = 0; i < page->n_shards; i++) {
        const ks_pb_shard *shard = page->shards[i];
        bool moves = shard->next_owner[0] != '\0';

        ks_table_text(table, shard->shard_id);
        ks_table_format(table, "%s%s%s", shard->owner[0] == '\0' ? "-" : shard->owner,
                        moves ? " > " : "", shard->next_owner);
        ks_table_format(table, "%" PRIu64, shard->epoch);
        ks_table_text(table, state_of(shard, word));
        ks_table_text(table, ks_table_instant(shard->since, at));
        ks_table_span(shard->millis_behind_latest, behind);
        ks_table_text(table, behind);
        ks_table_span(shard->oldest_unsettled_age_ms, behind);
        ks_table_text(table, shard->oldest_unsettled_age_ms > 0 ? behind : "-");
        ks_table_text(table, note_trouble(listing, shard, word));
        if (shard->sub_sequence_number > 0)
            ks_table_format(table, "%s + %" PRId64, shard->checkpoint, shard->sub_sequence_number);
        else
            ks_table_text(table, shard->checkpoint);
    }
}

static ks_err end_troubles(struct listing *listing)
{
    KS_TRY(listing->err);
    if (listing->troubled <= TROUBLES_SAID)
        return KS_OK;
    return ks_bytes_format(&listing->wrong, "and %" PRIu32 " more: leases show SHARD\n",
                           listing->troubled - TROUBLES_SAID);
}

static bool list(const struct ks_call *call, const char *subscription)
{
    static const char *const heads[] = {"SHARD",      "OWNER",   "#EPOCH",         "STATE",
                                        "SINCE",      "#BEHIND", "#UNSETTLED AGE", "TROUBLE",
                                        "CHECKPOINT", NULL};
    struct listing listing = {.err = KS_OK};
    struct ks_bytes text;
    bool fine;

    ks_table_init(&listing.table, heads);
    ks_bytes_init(&listing.wrong, LIST_BYTES_MAX);
    ks_bytes_init(&text, LIST_BYTES_MAX);
    fine = ks_look_pages(call, "/v1/shards", subscription, KS_PAGE_SIZE_MAX,
                         &kinesis_sidecar__v1__shards_response__descriptor, add_page, &listing) &&
           say(&text, ks_table_write(&listing.table, 0, 0, &text)) &&
           say(&listing.wrong, end_troubles(&listing));
    ks_bytes_free(&text);
    ks_bytes_free(&listing.wrong);
    ks_table_free(&listing.table);
    return fine;
}

/* ---- One ---- */

static ks_err append_number(struct ks_bytes *text, const char *name, uint64_t value)
{
    return ks_bytes_format(text, "%-20s %" PRIu64 "\n", name, value);
}

static ks_err append_names(struct ks_bytes *text, const char *name, size_t count, char **names)
{
    KS_TRY(ks_bytes_format(text, "%-20s", name));
    for (size_t i = 0; i < count; i++) {
        KS_TRY(ks_bytes_append_byte(text, ' '));
        KS_TRY(ks_table_append_plain(text, names[i]));
    }
    return ks_bytes_append(text, count == 0 ? KS_VIEW(" -\n") : KS_VIEW("\n"));
}

/* How far its records are; all zero where it is not held. */
static ks_err append_progress(struct ks_bytes *text, const ks_pb_shard *shard)
{
    char behind[KS_SPAN_SIZE];

    ks_table_span(shard->millis_behind_latest, behind);
    KS_TRY(ks_table_append_line(text, "behind", behind));
    ks_table_span(shard->oldest_unsettled_age_ms, behind);
    KS_TRY(ks_table_append_line(text, "oldest unsettled",
                                shard->oldest_unsettled_age_ms > 0 ? behind : ""));
    KS_TRY(ks_table_append_line(text, "watermark", shard->watermark));
    KS_TRY(append_number(text, "delivered", shard->delivered));
    KS_TRY(append_number(text, "settled", shard->settled));
    KS_TRY(append_number(text, "unsettled", shard->unsettled));
    KS_TRY(append_number(text, "in flight", shard->in_flight));
    KS_TRY(append_number(text, "assigned", shard->assigned));
    KS_TRY(append_number(text, "buffered", shard->buffered));
    KS_TRY(ks_table_append_line(text, "lane blocked", shard->blocked ? "yes" : "no"));
    return ks_table_append_line(text, "session", shard->session);
}

static ks_err append_shard(struct ks_bytes *text, const ks_pb_shard *shard)
{
    char word[KS_JSON_WORD_MAX];
    char at[KS_TIMESTAMP_SIZE];

    KS_TRY(ks_table_append_line(text, "shard", shard->shard_id));
    KS_TRY(ks_table_append_line(text, "state", state_of(shard, word)));
    KS_TRY(ks_table_append_line(text, "why", shard->reason));
    KS_TRY(ks_table_append_line(text, "do", shard->remedy));
    KS_TRY(ks_table_append_line(text, "owner", shard->owner));
    KS_TRY(ks_table_append_line(text, "next owner", shard->next_owner));
    KS_TRY(append_number(text, "epoch", shard->epoch));
    KS_TRY(ks_table_append_line(text, "since", ks_table_instant(shard->since, at)));
    KS_TRY(ks_table_append_line(text, "checkpoint", shard->checkpoint));
    KS_TRY(append_number(text, "sub-sequence number", (uint64_t)shard->sub_sequence_number));
    KS_TRY(append_progress(text, shard));
    if (shard->paused)
        KS_TRY(
            ks_table_append_line(text, "paused until", ks_table_instant(shard->paused_until, at)));
    KS_TRY(append_names(text, "parents", shard->n_parents, shard->parents));
    KS_TRY(append_names(text, "children", shard->n_children, shard->children));
    KS_TRY(ks_table_append_line(text, "first hash key", shard->starting_hash_key));
    KS_TRY(ks_table_append_line(text, "last hash key", shard->ending_hash_key));
    return ks_table_append_line(text, "read at", ks_table_instant(shard->read_at, at));
}

static bool show(const struct ks_call *call, const char *subscription, const char *id)
{
    ProtobufCMessage *message = NULL;
    struct ks_arena arena;
    struct ks_bytes text;
    bool fine;

    ks_bytes_init(&text, ONE_BYTES_MAX);
    fine = ks_look(call, "/v1/shards/", id, subscription, &kinesis_sidecar__v1__shard__descriptor,
                   &arena, &message) &&
           say(&text, append_shard(&text, (const ks_pb_shard *)message));
    ks_arena_free(&arena);
    ks_bytes_free(&text);
    return fine;
}

/* ---- The words ---- */

static bool asks_for_help(int argc, char *const *argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

int ks_command_leases(int argc, char *const *argv, char *const *environment)
{
    enum { SUBSCRIPTION, TABLE, FROM, TO, AT, AS, ALL, FORCE, DRY_RUN };
    static const struct ks_call_flag flags[] = {
        {"--subscription", true}, {"--table", true}, {"--from", true}, {"--to", true},
        {"--at", true},           {"--as", true},    {"--all", false}, {"--force", false},
        {"--dry-run", false},     {NULL, false}};
    struct ks_lease_words words;
    struct ks_call call;

    if (asks_for_help(argc, argv))
        return ks_leases_usage() ? 0 : 1;
    if (!ks_call_read(argc, argv, environment, flags, KS_CALL_WORDS_MAX, &call))
        return 2;
    words = (struct ks_lease_words){.call = &call,
                                    .table = call.values[TABLE],
                                    .from = call.values[FROM],
                                    .to = call.values[TO],
                                    .at = call.values[AT],
                                    .as = call.values[AS],
                                    .all = call.values[ALL] != NULL,
                                    .force = call.values[FORCE] != NULL,
                                    .dry_run = call.values[DRY_RUN] != NULL};
    if (words.table != NULL || words.from != NULL || words.to != NULL)
        return ks_leases_with_table(&words);
    if (call.word_count == 0 || (call.word_count == 1 && strcmp(call.words[0], "list") == 0))
        return list(&call, call.values[SUBSCRIPTION]) ? 0 : 1;
    if (call.word_count == 2 && strcmp(call.words[0], "show") == 0)
        return show(&call, call.values[SUBSCRIPTION], call.words[1]) ? 0 : 1;
    ks_call_complain("leases: list, or show SHARD; with a table more, leases --help says it");
    return 2;
}
