/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommand `dead-letters`: the records that were given up, for people, and what becomes of them. */
#include "main/commands.h"
#include "main/look.h"
#include "main/table.h"

#include "base/codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PAGE = 1000, TEXT_MAX = KS_TABLE_BYTES_MAX, ONE_MAX = 16 << 20, PATH_MAX_SIZE = 8192 };
enum { PREVIEW = 60 }; /* Characters of data in a list. */

typedef KinesisSidecar__V1__DeadLetter ks_pb_letter;

static bool say(struct ks_bytes *text, ks_err err)
{
    if (ks_ok(err))
        err = ks_call_print(NULL, ks_bytes_view(text));
    if (!ks_ok(err))
        ks_call_complain("dead-letters: %s", ks_err_text(err));
    return ks_ok(err);
}

/* ---- All ---- */

struct listing {
    struct ks_table table;
    uint64_t count;
};

static void add_data(struct ks_table *table, const ks_pb_letter *letter)
{
    const char *text = letter->text;
    const ks_view start = ks_view_of(text, strnlen(text, PREVIEW));

    if (letter->in_stream)
        ks_table_text(table, "(in the stream)");
    else if (letter->data.len > 0)
        ks_table_format(table, "(%zu bytes)", letter->data.len);
    else
        ks_table_format(table, "%.*s%s", (int)ks_view_whole_characters(start), text,
                        strlen(text) > PREVIEW ? ".." : "");
}

static void add_page(void *arg, const ProtobufCMessage *message)
{
    const KinesisSidecar__V1__DeadLettersResponse *page =
        (const KinesisSidecar__V1__DeadLettersResponse *)message;
    struct listing *listing = arg;

    for (size_t i = 0; i < page->n_dead_letters; i++) {
        const ks_pb_letter *letter = page->dead_letters[i];
        char cause[KS_JSON_WORD_MAX];
        char at[KS_TIMESTAMP_SIZE];

        listing->count++;
        ks_look_word(&kinesis_sidecar__v1__dead_letter_cause__descriptor, (int)letter->cause,
                     cause);
        ks_table_text(&listing->table, letter->id);
        ks_table_format(&listing->table, "%" PRIu32, letter->attempts);
        ks_table_text(&listing->table, cause);
        ks_table_text(&listing->table, ks_table_instant(letter->died_at, at));
        ks_table_text(&listing->table, letter->reason);
        add_data(&listing->table, letter);
    }
}

static bool list(const struct ks_call *call, const char *subscription, bool counts)
{
    static const char *const heads[] = {"ID",     "#ATTEMPTS", "CAUSE", "GIVEN UP",
                                        "REASON", "DATA",      NULL};
    struct listing listing = {.count = 0};
    struct ks_bytes text;
    bool fine;

    ks_table_init(&listing.table, heads);
    ks_bytes_init(&text, TEXT_MAX);
    fine =
        ks_look_pages(call, "/v1/dead-letters?encoding=utf8", subscription, PAGE,
                      &kinesis_sidecar__v1__dead_letters_response__descriptor, add_page, &listing);
    if (fine && counts)
        fine = say(&text, ks_bytes_format(&text, "%" PRIu64 "\n", listing.count));
    else if (fine)
        fine = say(&text, ks_table_write(&listing.table, 0, 0, &text));
    ks_bytes_free(&text);
    ks_table_free(&listing.table);
    return fine;
}

/* ---- One ---- */

/* Text as it is, line feeds and all; bytes as base64. */
static ks_err append_data(struct ks_bytes *text, const ks_pb_letter *letter)
{
    if (letter->in_stream)
        return ks_bytes_append(text, KS_VIEW("\n(in the stream: redrive reads it there)\n"));
    if (letter->data.len == 0) {
        KS_TRY(ks_bytes_format(text, "\n%s\n", letter->text));
        return KS_OK;
    }
    KS_TRY(ks_bytes_append(text, KS_VIEW("\nbase64: ")));
    KS_TRY(ks_bytes_reserve(text, ks_base64_size(letter->data.len) + 1));
    text->size += ks_base64_encode(ks_view_of(letter->data.data, letter->data.len),
                                   (char *)text->data + text->size);
    return ks_bytes_append_byte(text, '\n');
}

static ks_err append_letter(struct ks_bytes *text, const ks_pb_letter *letter)
{
    char cause[KS_JSON_WORD_MAX];
    char at[KS_TIMESTAMP_SIZE];

    ks_look_word(&kinesis_sidecar__v1__dead_letter_cause__descriptor, (int)letter->cause, cause);
    KS_TRY(ks_table_append_line(text, "id", letter->id));
    KS_TRY(ks_table_append_line(text, "stream", letter->stream));
    KS_TRY(ks_table_append_line(text, "shard", letter->shard_id));
    KS_TRY(ks_table_append_line(text, "sequence number", letter->sequence_number));
    KS_TRY(ks_table_append_line(text, "partition key", letter->partition_key));
    KS_TRY(ks_table_append_line(text, "arrived",
                                ks_table_instant(letter->approximate_arrival_timestamp, at)));
    KS_TRY(
        ks_table_append_line(text, "given up first", ks_table_instant(letter->first_died_at, at)));
    KS_TRY(ks_table_append_line(text, "given up last", ks_table_instant(letter->died_at, at)));
    KS_TRY(ks_bytes_format(text, "%-20s %" PRIu32 "\n", "attempts", letter->attempts));
    KS_TRY(ks_table_append_line(text, "cause", cause));
    KS_TRY(ks_table_append_line(text, "reason", letter->reason));
    KS_TRY(ks_table_append_line(text, "delivered again", letter->redriven ? "yes, now" : "no"));
    if (letter->expires_at != 0)
        KS_TRY(ks_table_append_line(text, "leaves the stream",
                                    ks_table_instant(letter->expires_at, at)));
    return append_data(text, letter);
}

/* "/v1/dead-letters/ID" and what comes behind it, with a NUL. False: it complained. */
static bool write_path(struct ks_bytes *path, const char *id, const char *rest)
{
    bool fine = ks_ok(ks_bytes_append(path, KS_VIEW("/v1/dead-letters/"))) &&
                ks_ok(ks_client_append_query(path, ks_view_text(id))) &&
                ks_ok(ks_bytes_format(path, "%s%c", rest, '\0'));

    if (!fine)
        ks_call_complain("dead-letters: the id is too long");
    return fine;
}

static bool show(const struct ks_call *call, const char *subscription, const char *id)
{
    ProtobufCMessage *message = NULL;
    struct ks_arena arena;
    struct ks_bytes path;
    struct ks_bytes text;
    bool fine;

    ks_arena_init(&arena, 0);
    ks_bytes_init(&path, PATH_MAX_SIZE);
    ks_bytes_init(&text, ONE_MAX);
    fine = write_path(&path, id, "?encoding=utf8") &&
           ks_look(call, (const char *)path.data, NULL, subscription,
                   &kinesis_sidecar__v1__dead_letter__descriptor, &arena, &message);
    if (fine) {
        ks_err err = append_letter(&text, (const ks_pb_letter *)message);

        if (ks_ok(err))
            err = ks_call_show(ks_bytes_view(&text));
        if (!ks_ok(err))
            ks_call_complain("dead-letters: %s", ks_err_text(err));
        fine = ks_ok(err);
    }
    ks_arena_free(&arena);
    ks_bytes_free(&path);
    ks_bytes_free(&text);
    return fine;
}

/* ---- What becomes of them ---- */

static bool order(const struct ks_call *call, const char *subscription, const char *id,
                  const char *what, const ProtobufCMessageDescriptor *type, const char *said)
{
    ProtobufCMessage *message = NULL;
    struct ks_arena arena;
    struct ks_bytes path;
    struct ks_bytes text;
    bool fine;

    ks_arena_init(&arena, 0);
    ks_bytes_init(&path, PATH_MAX_SIZE);
    ks_bytes_init(&text, TEXT_MAX);
    fine = write_path(&path, id, what) &&
           ks_look_order(call, (const char *)path.data, subscription, KS_VIEW("{}"), type, &arena,
                         &message) &&
           ks_ok(ks_table_append_plain(&text, id)) &&
           say(&text, ks_bytes_format(&text, ": %s\n", said));
    ks_arena_free(&arena);
    ks_bytes_free(&path);
    ks_bytes_free(&text);
    return fine;
}

static bool order_all(const struct ks_call *call, const char *subscription)
{
    const bool redrive = strcmp(call->words[0], "redrive") == 0;
    bool fine = true;

    for (uint32_t i = 1; i < call->word_count; i++)
        fine &= redrive ? order(call, subscription, call->words[i], "/redrive",
                                &kinesis_sidecar__v1__redrive_dead_letter_response__descriptor,
                                "is delivered again")
                        : order(call, subscription, call->words[i], "/discard",
                                &kinesis_sidecar__v1__discard_dead_letter_response__descriptor,
                                "is removed");
    return fine;
}

int ks_command_dead_letters(int argc, char *const *argv, char *const *environment)
{
    enum { SUBSCRIPTION };
    static const struct ks_call_flag flags[] = {{"--subscription", true}, {NULL, false}};
    struct ks_call call;
    const char *word;

    if (!ks_call_read(argc, argv, environment, flags, KS_CALL_WORDS_MAX, &call))
        return 2;
    word = call.word_count == 0 ? "list" : call.words[0];
    if (call.word_count <= 1 && (strcmp(word, "list") == 0 || strcmp(word, "count") == 0))
        return list(&call, call.values[SUBSCRIPTION], word[0] == 'c') ? 0 : 1;
    if (call.word_count == 2 && strcmp(word, "show") == 0)
        return show(&call, call.values[SUBSCRIPTION], call.words[1]) ? 0 : 1;
    if (call.word_count >= 2 && (strcmp(word, "redrive") == 0 || strcmp(word, "discard") == 0))
        return order_all(&call, call.values[SUBSCRIPTION]) ? 0 : 1;
    ks_call_complain("dead-letters: list, count, show ID, redrive ID .., or discard ID ..");
    return 2;
}
