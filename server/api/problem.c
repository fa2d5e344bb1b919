/* SPDX-License-Identifier: Apache-2.0 */
#include "api/problem.h"

#include <assert.h>

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

ks_err ks_problem_write(enum ks_problem problem, ks_view detail, ks_view instance,
                        struct ks_bytes *body)
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
    ks_writer_close(&json, ']');
    ks_writer_key(&json, "retryable");
    ks_writer_bool(&json, meaning->retryable);
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    return ks_writer_end(&json);
}
