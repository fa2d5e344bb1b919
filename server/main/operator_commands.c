/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands pause, resume, release, seek and skip: what an operator orders of a running sidecar. Each is one call
 * of the API (docs/API.md, "Operations"), and prints what became of it for people. */
#include "api/operate.h"
#include "main/commands.h"
#include "main/look.h"
#include "main/table.h"

#include "base/codec.h"
#include "base/json_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BODY_MAX = 256 << 10, LINES_MAX = KS_TABLE_BYTES_MAX };

/* ---- What all of them share ---- */

static ks_err append_shards(struct ks_bytes *body, const char *const *shards, uint32_t count)
{
    KS_TRY(ks_bytes_append(body, KS_VIEW("\"shards\":[")));
    for (uint32_t i = 0; i < count; i++) {
        KS_TRY(ks_bytes_append(body, i == 0 ? KS_VIEW("\"") : KS_VIEW(",\"")));
        KS_TRY(ks_writer_append_escaped(body, ks_view_text(shards[i])));
        KS_TRY(ks_bytes_append_byte(body, '"'));
    }
    return ks_bytes_append_byte(body, ']');
}

static ks_err append_text(struct ks_bytes *body, const char *name, const char *value)
{
    if (value == NULL)
        return KS_OK;
    KS_TRY(ks_bytes_format(body, ",\"%s\":\"", name));
    KS_TRY(ks_writer_append_escaped(body, ks_view_text(value)));
    return ks_bytes_append_byte(body, '"');
}

static bool fits(const char *name, ks_err err)
{
    if (!ks_ok(err))
        ks_call_complain("%s: %s", name, ks_err_text(err));
    return ks_ok(err);
}

static bool say(const char *name, struct ks_bytes *text, ks_err err)
{
    if (ks_ok(err))
        err = ks_call_print(NULL, ks_bytes_view(text));
    return fits(name, err);
}

/* "paused: all shards", or a line for each. */
static ks_err append_done(struct ks_bytes *text, const char *word, const char *const *shards,
                          uint32_t count)
{
    if (count == 0)
        return ks_bytes_format(text, "all shards: %s\n", word);
    for (uint32_t i = 0; i < count; i++) {
        KS_TRY(ks_table_append_plain(text, shards[i]));
        KS_TRY(ks_bytes_format(text, ": %s\n", word));
    }
    return KS_OK;
}

/* Sends `body` to `path` and says of each shard that it is `word`. */
static bool order(const struct ks_call *call, const char *path, const char *subscription,
                  ks_view body, const ProtobufCMessageDescriptor *type, const char *word)
{
    ProtobufCMessage *message = NULL;
    struct ks_arena arena;
    struct ks_bytes text;
    bool fine;

    ks_bytes_init(&text, LINES_MAX);
    fine = ks_look_order(call, path, subscription, body, type, &arena, &message) &&
           say(path, &text, append_done(&text, word, call->words, call->word_count));
    ks_arena_free(&arena);
    ks_bytes_free(&text);
    return fine;
}

/* ---- Pause, resume, release ---- */

static ks_err write_pause(struct ks_bytes *body, const struct ks_call *call, const char *until,
                          bool gives)
{
    KS_TRY(ks_bytes_append_byte(body, '{'));
    KS_TRY(append_shards(body, call->words, call->word_count));
    KS_TRY(append_text(body, "until", until));
    return ks_bytes_append(body, gives ? KS_VIEW(",\"keep_leases\":false}") : KS_VIEW("}"));
}

int ks_command_pause(int argc, char *const *argv, char *const *environment)
{
    enum { SUBSCRIPTION, UNTIL, GIVE };
    static const struct ks_call_flag flags[] = {
        {"--subscription", true}, {"--until", true}, {"--give-leases", false}, {NULL, false}};
    struct ks_call call;
    struct ks_bytes body;
    bool fine;

    if (!ks_call_read(argc, argv, environment, flags, KS_CALL_WORDS_MAX, &call))
        return 2;
    ks_bytes_init(&body, BODY_MAX);
    fine =
        fits("pause", write_pause(&body, &call, call.values[UNTIL], call.values[GIVE] != NULL)) &&
        order(&call, "/v1/pause", call.values[SUBSCRIPTION], ks_bytes_view(&body),
              &kinesis_sidecar__v1__pause_response__descriptor,
              call.values[GIVE] != NULL ? "paused, its lease goes to another worker" : "paused");
    ks_bytes_free(&body);
    return fine ? 0 : 1;
}

int ks_command_resume(int argc, char *const *argv, char *const *environment)
{
    enum { SUBSCRIPTION };
    static const struct ks_call_flag flags[] = {{"--subscription", true}, {NULL, false}};
    struct ks_call call;
    struct ks_bytes body;
    bool fine;

    if (!ks_call_read(argc, argv, environment, flags, KS_CALL_WORDS_MAX, &call))
        return 2;
    ks_bytes_init(&body, BODY_MAX);
    fine = fits("resume", write_pause(&body, &call, NULL, false)) &&
           order(&call, "/v1/resume", call.values[SUBSCRIPTION], ks_bytes_view(&body),
                 &kinesis_sidecar__v1__resume_response__descriptor, "resumed");
    ks_bytes_free(&body);
    return fine ? 0 : 1;
}

static bool release(const struct ks_call *call, const char *shard, const char *subscription)
{
    struct ks_bytes path;
    bool fine;

    ks_bytes_init(&path, BODY_MAX);
    fine = fits("release", ks_bytes_append(&path, KS_VIEW("/v1/leases/"))) &&
           fits("release", ks_client_append_query(&path, ks_view_text(shard))) &&
           fits("release", ks_bytes_append(&path, ks_view_of("/release", sizeof "/release"))) &&
           order(call, (const char *)path.data, subscription, KS_VIEW("{}"),
                 &kinesis_sidecar__v1__release_lease_response__descriptor,
                 "its lease goes to another worker");
    ks_bytes_free(&path);
    return fine;
}

int ks_command_release(int argc, char *const *argv, char *const *environment)
{
    enum { SUBSCRIPTION };
    static const struct ks_call_flag flags[] = {{"--subscription", true}, {NULL, false}};
    struct ks_call call;

    if (!ks_call_read(argc, argv, environment, flags, 1, &call))
        return 2;
    if (call.word_count != 1) {
        ks_call_complain("release: name one shard, as in: release shardId-000000000000");
        return 2;
    }
    return release(&call, call.words[0], call.values[SUBSCRIPTION]) ? 0 : 1;
}

/* ---- Seek ---- */

static ks_err write_seek(struct ks_bytes *body, const char *to, const char *const *shards,
                         uint32_t count, bool dry_run, bool force)
{
    KS_TRY(ks_bytes_append_byte(body, '{'));
    KS_TRY(append_shards(body, shards, count));
    KS_TRY(append_text(body, "to", to));
    if (dry_run)
        KS_TRY(ks_bytes_append(body, KS_VIEW(",\"dry_run\":true")));
    if (force)
        KS_TRY(ks_bytes_append(body, KS_VIEW(",\"force\":true")));
    return ks_bytes_append_byte(body, '}');
}

static void add_place(struct ks_table *table, const KinesisSidecar__V1__Place *place)
{
    char at[KS_TIMESTAMP_SIZE] = "";

    if (place == NULL) {
        ks_table_text(table, "-");
        return;
    }
    if (place->at_timestamp != 0)
        ks_timestamp_format(place->at_timestamp, at);
    ks_table_format(table, "%s%s%s", place->checkpoint, at[0] == '\0' ? "" : " ", at);
}

/* True if every shard is where it was to be. */
static bool say_sought(const KinesisSidecar__V1__SeekResponse *response)
{
    static const char *const heads[] = {"SHARD", "OUTCOME", "BEFORE", "AFTER", NULL};
    struct ks_table table;
    struct ks_bytes text;
    bool done = true;
    bool fine;

    ks_table_init(&table, heads);
    ks_bytes_init(&text, LINES_MAX);
    for (size_t i = 0; i < response->n_shards; i++) {
        const KinesisSidecar__V1__SoughtShard *shard = response->shards[i];
        char word[KS_JSON_WORD_MAX];

        ks_look_word(&kinesis_sidecar__v1__seek_outcome__descriptor, (int)shard->outcome, word);
        ks_table_text(&table, shard->shard_id);
        ks_table_text(&table, word);
        add_place(&table, shard->before);
        add_place(&table, shard->after);
        done &= shard->outcome == KINESIS_SIDECAR__V1__SEEK_OUTCOME__SEEK_OUTCOME_DONE ||
                shard->outcome == KINESIS_SIDECAR__V1__SEEK_OUTCOME__SEEK_OUTCOME_DRY_RUN;
    }
    fine = say("seek", &text, ks_table_write(&table, 0, 0, &text));
    ks_bytes_free(&text);
    ks_table_free(&table);
    return fine && done;
}

int ks_command_seek(int argc, char *const *argv, char *const *environment)
{
    enum { SUBSCRIPTION, DRY_RUN, FORCE };
    static const struct ks_call_flag flags[] = {
        {"--subscription", true}, {"--dry-run", false}, {"--force", false}, {NULL, false}};
    ProtobufCMessage *message = NULL;
    struct ks_arena arena;
    struct ks_bytes body;
    struct ks_call call;
    bool fine;

    if (!ks_call_read(argc, argv, environment, flags, KS_CALL_WORDS_MAX, &call))
        return 2;
    if (call.word_count == 0) {
        ks_call_complain(
            "seek: name the place first: trim_horizon, latest, an RFC 3339 instant, or "
            "a sequence number and its shard");
        return 2;
    }
    ks_arena_init(&arena, 0);
    ks_bytes_init(&body, BODY_MAX);
    fine = fits("seek", write_seek(&body, call.words[0], &call.words[1], call.word_count - 1,
                                   call.values[DRY_RUN] != NULL, call.values[FORCE] != NULL)) &&
           ks_look_order(&call, "/v1/seek", call.values[SUBSCRIPTION], ks_bytes_view(&body),
                         &kinesis_sidecar__v1__seek_response__descriptor, &arena, &message) &&
           say_sought((const KinesisSidecar__V1__SeekResponse *)message);
    ks_arena_free(&arena);
    ks_bytes_free(&body);
    return fine ? 0 : 1;
}

/* ---- Skip ---- */

enum { PLACE_MAX = 128 };

/* "after:SEQUENCE[:SUB]" of the record that holds up the shard. False: it complained. */
static bool find_blocker(const struct ks_call *call, const char *shard, const char *subscription,
                         char ret_place[PLACE_MAX])
{
    ProtobufCMessage *message = NULL;
    const ks_pb_shard *row;
    struct ks_arena arena;
    bool fine = ks_look(call, "/v1/shards/", shard, subscription,
                        &kinesis_sidecar__v1__shard__descriptor, &arena, &message);

    row = (const ks_pb_shard *)message;
    if (fine && row->blocked_by[0] == '\0') {
        ks_call_complain("skip: no record of %s holds up others", shard);
        fine = false;
    }
    if (fine && row->blocked_by_sub_sequence_number >= 0)
        (void)snprintf(ret_place, PLACE_MAX, "after:%s:%" PRId64, row->blocked_by,
                       row->blocked_by_sub_sequence_number);
    else if (fine)
        (void)snprintf(ret_place, PLACE_MAX, "after:%s", row->blocked_by);
    ks_arena_free(&arena);
    return fine;
}

static bool say_skipped(const KinesisSidecar__V1__SeekResponse *response)
{
    const KinesisSidecar__V1__SoughtShard *shard =
        response->n_shards == 1 ? response->shards[0] : NULL;
    struct ks_bytes text;
    bool fine;

    if (shard == NULL || shard->after == NULL) {
        ks_call_complain("skip: the answer names no shard");
        return false;
    }
    ks_bytes_init(&text, LINES_MAX);
    fine = fits("skip", ks_table_append_plain(&text, shard->shard_id)) &&
           fits("skip", ks_bytes_append(&text, KS_VIEW(": record "))) &&
           fits("skip", ks_table_append_plain(&text, shard->after->checkpoint)) &&
           say("skip", &text,
               ks_bytes_format(&text, "%s%s\n", response->dry_run ? " would be" : " is",
                               shard->lost ? " given up and lost: there are no dead letters"
                                           : " given up, and becomes a dead letter"));
    ks_bytes_free(&text);
    return fine;
}

int ks_command_skip(int argc, char *const *argv, char *const *environment)
{
    enum { SUBSCRIPTION, DRY_RUN };
    static const struct ks_call_flag flags[] = {
        {"--subscription", true}, {"--dry-run", false}, {NULL, false}};
    ProtobufCMessage *message = NULL;
    char place[PLACE_MAX] = "";
    struct ks_arena arena;
    struct ks_bytes body;
    struct ks_call call;
    bool fine;

    if (!ks_call_read(argc, argv, environment, flags, 2, &call))
        return 2;
    if (call.word_count == 0) {
        ks_call_complain("skip: name the shard, as in: skip shardId-000000000000 [SEQUENCE[:SUB]]");
        return 2;
    }
    if (call.word_count == 2)
        (void)snprintf(place, sizeof place, "after:%s", call.words[1]);
    else if (!find_blocker(&call, call.words[0], call.values[SUBSCRIPTION], place))
        return 1;
    ks_arena_init(&arena, 0);
    ks_bytes_init(&body, BODY_MAX);
    fine = fits("skip",
                write_seek(&body, place, call.words, 1, call.values[DRY_RUN] != NULL, false)) &&
           ks_look_order(&call, "/v1/seek", call.values[SUBSCRIPTION], ks_bytes_view(&body),
                         &kinesis_sidecar__v1__seek_response__descriptor, &arena, &message) &&
           say_skipped((const KinesisSidecar__V1__SeekResponse *)message);
    ks_arena_free(&arena);
    ks_bytes_free(&body);
    return fine ? 0 : 1;
}
