/* SPDX-License-Identifier: Apache-2.0 */
#include "api/problem.h"

#include <assert.h>

#include "api/codec_proto.h"
#include "base/codec.h"
#include "base/json_writer.h"

struct meaning {
    const char *type;
    const char *code;
    const char *title;
    uint16_t status;
    bool retryable;
};

static const struct meaning meanings[] = {
#define X(kind, type, code, status, retry, title)                                                  \
    [KS_PROBLEM_##kind] = {"urn:kinesis-sidecar:problem:" type, code, title, status, retry},
    KS_PROBLEM_TABLE(X)
#undef X
};
#define MEANINGS (sizeof(meanings) / sizeof(meanings[0]))

static const struct meaning *meaning_of(enum ks_problem problem)
{
    assert(problem < MEANINGS);
    return &meanings[problem];
}

uint16_t ks_problem_status(enum ks_problem problem)
{
    return meaning_of(problem)->status;
}

bool ks_problem_is_retryable(enum ks_problem problem)
{
    return meaning_of(problem)->retryable;
}

const char *ks_problem_code(enum ks_problem problem)
{
    return meaning_of(problem)->code;
}

void ks_problem_detail(struct ks_writer *json, const char *type, ks_view packed)
{
    struct ks_bytes text;

    ks_bytes_init(&text, ks_base64_size(packed.size));
    if (!ks_ok(ks_bytes_reserve(&text, ks_base64_size(packed.size))))
        return; /* The rest says it, too. */
    text.size = ks_base64_encode(packed, (char *)text.data);
    while (text.size > 0 && text.data[text.size - 1] == '=')
        text.size--;
    ks_writer_open(json, '{');
    ks_writer_key(json, "type");
    ks_writer_string(json, type);
    ks_writer_key(json, "value");
    ks_writer_text(json, ks_bytes_view(&text));
    ks_writer_close(json, '}');
    ks_bytes_free(&text);
}

ks_err ks_problem_write_call(enum ks_problem problem, ks_view detail, ks_view instance,
                             ks_view packed, struct ks_bytes *body)
{
    const struct meaning *meaning = meaning_of(problem);
    struct ks_writer json;

    ks_writer_begin(&json, body);
    ks_writer_open(&json, '{');
    ks_writer_key(&json, "type");
    ks_writer_string(&json, meaning->type);
    ks_writer_key(&json, "title");
    ks_writer_string(&json, meaning->title);
    ks_writer_key(&json, "status");
    ks_writer_u64(&json, meaning->status);
    ks_writer_key(&json, "detail");
    ks_writer_text(&json, detail);
    ks_writer_key(&json, "instance");
    ks_writer_text(&json, instance);
    ks_writer_key(&json, "code");
    ks_writer_string(&json, meaning->code);
    ks_writer_key(&json, "message");
    ks_writer_text(&json, detail);
    ks_writer_key(&json, "details");
    ks_writer_open(&json, '[');
    if (packed.size > 0)
        ks_problem_detail(&json, KS_PROBLEM_MESSAGE, packed);
    ks_writer_close(&json, ']');
    ks_writer_key(&json, "retryable");
    ks_writer_bool(&json, meaning->retryable);
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    return ks_writer_end(&json);
}

ks_err ks_problem_write(enum ks_problem problem, ks_view detail, ks_view instance,
                        struct ks_bytes *body)
{
    return ks_problem_write_call(problem, detail, instance, KS_VIEW_NONE, body);
}

ks_err ks_problem_pack(enum ks_problem problem, const char *detail, ks_view instance,
                       struct ks_bytes *bytes)
{
    const struct meaning *meaning = meaning_of(problem);
    KinesisSidecar__V1__Problem message;
    char target[512] = "";

    kinesis_sidecar__v1__problem__init(&message);
    message.type = ks_pb_text(meaning->type);
    message.title = ks_pb_text(meaning->title);
    message.status = meaning->status;
    message.detail = ks_pb_text(detail);
    message.retryable = meaning->retryable;
    /* A path that is too long, or no text, is known to who asked for it. */
    if (ks_view_is_utf8(instance) && ks_ok(ks_view_copy_text(instance, target, sizeof(target))))
        message.instance = target;
    return ks_proto_write(&message.base, false, bytes);
}
