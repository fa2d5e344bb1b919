/* SPDX-License-Identifier: Apache-2.0 */
#include "api/problem.h"

#include <assert.h>

#include "api/codec_proto.h"
#include "api/message.h"
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

void ks_problem_members(struct ks_writer *json, enum ks_problem problem, ks_view detail,
                        ks_view instance)
{
    const struct meaning *meaning = meaning_of(problem);

    ks_writer_pair(json, "type", ks_view_text(meaning->type));
    ks_writer_pair(json, "title", ks_view_text(meaning->title));
    ks_writer_key(json, "status");
    ks_writer_u64(json, meaning->status);
    ks_writer_pair(json, "detail", detail);
    ks_writer_pair(json, "instance", instance);
    ks_writer_key(json, "retryable");
    ks_writer_bool(json, meaning->retryable);
}

ks_err ks_problem_write(enum ks_problem problem, ks_view detail, ks_view instance,
                        struct ks_bytes *body)
{
    struct ks_writer json;

    ks_writer_begin(&json, body);
    ks_writer_open(&json, '{');
    ks_problem_members(&json, problem, detail, instance);
    ks_writer_pair(&json, "code", ks_view_text(meaning_of(problem)->code));
    ks_writer_pair(&json, "message", detail);
    ks_writer_key(&json, "details");
    ks_writer_open(&json, '[');
    ks_writer_close(&json, ']');
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    return ks_writer_end(&json);
}

void ks_problem_fill(enum ks_problem problem, const char *detail,
                     KinesisSidecar__V1__Problem *ret_message)
{
    const struct meaning *meaning = meaning_of(problem);

    kinesis_sidecar__v1__problem__init(ret_message);
    ret_message->type = ks_pb_text(meaning->type);
    ret_message->title = ks_pb_text(meaning->title);
    ret_message->status = meaning->status;
    ret_message->detail = ks_pb_text(detail);
    ret_message->retryable = meaning->retryable;
}

ks_err ks_problem_pack(enum ks_problem problem, const char *detail, ks_view instance,
                       struct ks_bytes *bytes)
{
    KinesisSidecar__V1__Problem message;
    char target[512] = "";

    ks_problem_fill(problem, detail, &message);
    /* A path that is too long, or no text, is known to who asked for it. */
    if (ks_view_is_utf8(instance) && ks_ok(ks_view_copy_text(instance, target, sizeof(target))))
        message.instance = target;
    return ks_proto_write(&message.base, false, bytes);
}
