/* SPDX-License-Identifier: Apache-2.0 */
#include "main/look.h"

#include "api/codec_proto.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum {
    TARGET_MAX = 8192,
    ANSWER_MAX = KS_ANSWER_BYTES_MAX,
    SPARSE = 4, /* Rows of short names take more of their wire than records do. */
    WAIT_MS = 30000
};

/* ---- One message ---- */

static ks_err append_param(struct ks_bytes *target, char separator, const char *name,
                           const char *value)
{
    KS_TRY(ks_bytes_format(target, "%c%s=", separator, name));
    return ks_client_append_query(target, ks_view_text(value));
}

/* What is asked for, without its NUL. */
struct question {
    const char *path;
    const char *part;         /* NULL: none. */
    const char *subscription; /* NULL: not said. */
    const char *page_token;   /* NULL: no pages. */
    uint32_t page_size;
    ks_view body; /* Of a POST; empty: a GET. */
};

static ks_err write_target(const struct question *question, struct ks_bytes *target)
{
    char separator = strchr(question->path, '?') == NULL ? '?' : '&';

    KS_TRY(ks_bytes_append(target, ks_view_text(question->path)));
    if (question->part != NULL)
        KS_TRY(ks_client_append_query(target, ks_view_text(question->part)));
    if (question->subscription != NULL) {
        KS_TRY(append_param(target, separator, "subscription", question->subscription));
        separator = '&';
    }
    if (question->page_token != NULL)
        KS_TRY(ks_bytes_format(target, "%cpage_size=%" PRIu32, separator, question->page_size));
    if (question->page_token != NULL && question->page_token[0] != '\0')
        KS_TRY(append_param(target, '&', "page_token", question->page_token));
    return ks_bytes_append_byte(target, '\0');
}

static bool read_answer(ks_view answer, const ProtobufCMessageDescriptor *type,
                        struct ks_arena *arena, ProtobufCMessage **ret_message)
{
    struct ks_detail detail = {"out of memory"};
    ks_err err;

    ks_arena_init(arena, ks_proto_room(SPARSE * answer.size));
    err = ks_proto_read(answer, type, arena, ret_message, &detail);
    if (!ks_ok(err))
        ks_call_complain("the answer cannot be read: %s", detail.text);
    return ks_ok(err);
}

static bool ask(const struct ks_call *call, const struct question *question,
                const ProtobufCMessageDescriptor *type, struct ks_arena *arena,
                ProtobufCMessage **ret_message)
{
    struct ks_call_request request = {
        .method = question->body.size > 0 ? "POST" : "GET",
        .body = question->body,
        .accept = KS_TYPE_PROTOBUF,
        .timeout = ks_span_ms(WAIT_MS),
        .part = ks_call_keep,
    };
    struct ks_bytes target;
    struct ks_bytes answer;
    bool fine;

    ks_arena_init(arena, 0);
    ks_bytes_init(&target, TARGET_MAX);
    ks_bytes_init(&answer, ANSWER_MAX);
    request.arg = &answer;
    fine = ks_ok(write_target(question, &target));
    if (!fine) {
        ks_call_complain("%s: what is asked for is too long", question->path);
    } else {
        request.target = (const char *)target.data;
        fine = ks_call_send(call, &request) &&
               read_answer(ks_bytes_view(&answer), type, arena, ret_message);
    }
    ks_bytes_free(&target);
    ks_bytes_free(&answer);
    return fine;
}

bool ks_look(const struct ks_call *call, const char *path, const char *part,
             const char *subscription, const ProtobufCMessageDescriptor *type,
             struct ks_arena *arena, ProtobufCMessage **ret_message)
{
    struct question question = {.path = path, .part = part, .subscription = subscription};

    return ask(call, &question, type, arena, ret_message);
}

bool ks_look_order(const struct ks_call *call, const char *path, const char *subscription,
                   ks_view body, const ProtobufCMessageDescriptor *type, struct ks_arena *arena,
                   ProtobufCMessage **ret_message)
{
    struct question question = {.path = path, .subscription = subscription, .body = body};

    return ask(call, &question, type, arena, ret_message);
}

/* ---- Pages ---- */

/* Of a list's message: the token of its next page. */
static const char *next_page(const ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "next_page_token");
    const char *token;

    assert(field != NULL && field->type == PROTOBUF_C_TYPE_STRING);
    memcpy(&token, (const uint8_t *)message + field->offset, sizeof(token));
    return token;
}

bool ks_look_pages(const struct ks_call *call, const char *path, const char *subscription,
                   uint32_t page_size, const ProtobufCMessageDescriptor *type,
                   void (*page)(void *arg, const ProtobufCMessage *message), void *arg)
{
    char token[KS_LOOK_TOKEN_SIZE] = "";
    struct question question = {
        .path = path, .subscription = subscription, .page_token = token, .page_size = page_size};

    for (int i = 0; i < KS_LOOK_PAGES_MAX; i++) {
        ProtobufCMessage *message = NULL;
        struct ks_arena arena;
        bool fine = ask(call, &question, type, &arena, &message);

        if (fine) {
            page(arg, message);
            fine = ks_ok(ks_view_copy_text(ks_view_text(next_page(message)), token, sizeof(token)));
            if (!fine)
                ks_call_complain("the answer cannot be read: its page token is too long");
        }
        ks_arena_free(&arena);
        if (!fine || token[0] == '\0')
            return fine;
    }
    ks_call_complain("%s: there is no end to it, after %d pages", path, KS_LOOK_PAGES_MAX);
    return false;
}

/* ---- Words ---- */

void ks_look_word(const ProtobufCEnumDescriptor *type, int value, char ret_word[KS_JSON_WORD_MAX])
{
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);

    ret_word[0] = '\0';
    if (found == NULL)
        memcpy(ret_word, "?", 2);
    else if (value != 0)
        ks_enum_word(type, found->name, ret_word);
}
