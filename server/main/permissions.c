/* SPDX-License-Identifier: Apache-2.0 */
#include "main/permissions.h"

#include "base/json_writer.h"
#include "main/aws_arns.h"

#include <assert.h>
#include <string.h>

/* ---- The table ---- */

/* Options whose role makes a call. */
enum role { ROLE_KINESIS, ROLE_DYNAMODB, ROLE_PROCESS };

enum use { USE_NEEDED, USE_MAKES };

/*  name  what docs/AWS.md says of it */
#define WHEN_TABLE(X)                                                                              \
    X(STREAM, "a stream in Kinesis")                                                               \
    X(FANOUT, "`--retrieval fanout`")                                                              \
    X(CONSUMER_BY_NAME, "`--retrieval fanout`, `--consumer` not an ARN")                           \
    X(STREAM_KEY, "an encrypted stream")                                                           \
    X(TABLES, "leases in DynamoDB")                                                                \
    X(NATIVE, "`--dialect native`")                                                                \
    X(KCL, "`--dialect kcl`")                                                                      \
    X(GO_KCL_OR_KCL_RB, "`--dialect go-kcl`, `kcl-rb`")                                            \
    X(KINSUMER, "`--dialect kinsumer`")                                                            \
    X(LETTERS_TABLE, "`--dead-letters table`")                                                     \
    X(LETTERS_S3, "`--dead-letters s3://BUCKET/PREFIX`")                                           \
    X(LETTERS_SQS, "`--dead-letters sqs:`")                                                        \
    X(LETTERS_SNS, "`--dead-letters sns:`")                                                        \
    X(LETTERS_KINESIS, "`--dead-letters kinesis:`")                                                \
    X(LETTERS_KEY, "encrypted, `s3:`, `sqs:`, `sns:`")                                             \
    X(LETTERS_STREAM_KEY, "encrypted, `kinesis:`")                                                 \
    X(ROLES, "`--kinesis-role-arn`, `--dynamodb-role-arn`")

#define RESOURCE_TABLE(X)                                                                          \
    X(STREAM, "the stream")                                                                        \
    X(CONSUMER, "`STREAM_ARN/consumer/*`, or `--consumer` if it is an ARN")                        \
    X(STREAM_KEY, "the stream's KMS key")                                                          \
    X(LEASES, "the lease table; of kinsumer `APPLICATION_checkpoints`")                            \
    X(INDEX, "its index `LeaseOwnerToLeaseKeyIndex`")                                              \
    X(SECOND, "`APPLICATION-CoordinatorState`; of kinsumer `APPLICATION_clients`")                 \
    X(THIRD, "`APPLICATION-WorkerMetricStats`; of kinsumer `APPLICATION_metadata`")                \
    X(TABLES, "the tables but those of KCL 3.x beside the lease table")                            \
    X(LETTERS, "the lease table; of another dialect than native `APPLICATION-letters`")            \
    X(OBJECTS, "`arn:aws:s3:::BUCKET/PREFIX/*`")                                                   \
    X(BUCKET, "`arn:aws:s3:::BUCKET`")                                                             \
    X(SINK, "the queue, topic or stream")                                                          \
    X(LETTERS_KEY, "its KMS key")                                                                  \
    X(ROLES, "these roles")

enum when {
#define X(name, text) WHEN_##name,
    WHEN_TABLE(X)
#undef X
};

static const struct word {
    const char *name;
    const char *text;
} whens[] =
    {
#define X(name, text) [WHEN_##name] = {#name, text},
        WHEN_TABLE(X)
#undef X
},
  resources[] = {
#define X(name, text) [KS_AWS_RESOURCE_##name] = {#name, text},
      RESOURCE_TABLE(X)
#undef X
};

static const char *const roles[] = {
    [ROLE_KINESIS] = "KINESIS", [ROLE_DYNAMODB] = "DYNAMODB", [ROLE_PROCESS] = "PROCESS"};

static const struct permission {
    const char *sid;
    enum role role;
    enum when when;
    enum ks_aws_resource resource;
    enum use use;
    const char *actions;
    const char *purpose;
} permissions[] = {
#define X(sid, role, when, resource, use, actions, purpose)                                        \
    {#sid, ROLE_##role, WHEN_##when, KS_AWS_RESOURCE_##resource, USE_##use, actions, purpose},
#include "main/permissions.def"
#undef X
};
enum { PERMISSIONS = sizeof(permissions) / sizeof(permissions[0]) };

/* ---- Which rows count ---- */

static bool is(const char *value, const char *word)
{
    return strcmp(value, word) == 0;
}

static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool applies(enum when when, const struct ks_aws_subject *subject)
{
    const struct ks_options *const options = subject->options;
    const char *const letters = options->dead_letters;
    const bool stream = ks_option_path(options->source) == NULL;
    const bool fanout = stream && is(options->retrieval, "fanout");
    const bool tables = ks_option_path(options->leases) == NULL;

    switch (when) {
    case WHEN_STREAM: return stream;
    case WHEN_FANOUT: return fanout;
    case WHEN_CONSUMER_BY_NAME: return fanout && !starts(options->consumer, "arn:");
    case WHEN_STREAM_KEY: return stream && subject->stream_key != NULL;
    case WHEN_TABLES: return tables;
    case WHEN_NATIVE: return tables && is(options->dialect, "native");
    case WHEN_KCL: return tables && is(options->dialect, "kcl");
    case WHEN_GO_KCL_OR_KCL_RB:
        return tables && (is(options->dialect, "go-kcl") || is(options->dialect, "kcl-rb"));
    case WHEN_KINSUMER: return tables && is(options->dialect, "kinsumer");
    case WHEN_LETTERS_TABLE: return is(letters, "table");
    case WHEN_LETTERS_S3: return ks_option_is_bucket(letters);
    case WHEN_LETTERS_SQS: return starts(letters, "sqs:");
    case WHEN_LETTERS_SNS: return starts(letters, "sns:");
    case WHEN_LETTERS_KINESIS: return starts(letters, "kinesis:");
    case WHEN_LETTERS_KEY:
        return (ks_option_is_bucket(letters) || starts(letters, "sqs:") ||
                starts(letters, "sns:")) &&
               ks_aws_arns_has_letters_key(subject);
    case WHEN_LETTERS_STREAM_KEY:
        return starts(letters, "kinesis:") && subject->letters_key != NULL;
    case WHEN_ROLES: return true;
    }
    assert(false);
    return false;
}

/* ARN of the role that makes the calls of a row; "": the process. */
static const char *holder_of(enum role role, const struct ks_options *options)
{
    switch (role) {
    case ROLE_KINESIS: return options->kinesis_role_arn;
    case ROLE_DYNAMODB: return options->dynamodb_role_arn;
    case ROLE_PROCESS: return "";
    }
    assert(false);
    return "";
}

static struct ks_aws_subject subject_of(const struct ks_permissions_query *query, uint32_t index)
{
    return (struct ks_aws_subject){.options = ks_options_subscription(query->options, index),
                                   .region = query->region,
                                   .account = query->account,
                                   .stream_key = query->stream_key,
                                   .letters_key = query->letters_key};
}

/* The ARNs of a row, of all subscriptions. */
static ks_err find_arns(struct ks_bytes *lines, const struct permission *row,
                        const struct ks_permissions_query *query, struct ks_detail *detail)
{
    const char *const holder = query->role == NULL ? "" : query->role;

    ks_bytes_clear(lines);
    if (row->use == USE_MAKES && query->existing)
        return KS_OK;
    for (uint32_t at = 0; at < ks_options_subscriptions(query->options); at++) {
        const struct ks_aws_subject subject = subject_of(query, at);

        if (is(holder_of(row->role, subject.options), holder) && applies(row->when, &subject))
            KS_TRY(ks_aws_arns_add(lines, row->resource, &subject, detail));
    }
    return KS_OK;
}

/* ---- The policy ---- */

static void put_actions(struct ks_writer *json, const char *name, const char *actions)
{
    ks_view left = ks_view_text(actions);

    ks_writer_key(json, name);
    ks_writer_open(json, '[');
    while (left.size > 0)
        ks_writer_text(json, ks_view_cut(&left, ' '));
    ks_writer_close(json, ']');
}

static ks_err put_statement(struct ks_bytes *bytes, const struct permission *row, ks_view arns)
{
    struct ks_writer json;

    ks_writer_begin_strict(&json, bytes);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "Sid", ks_view_text(row->sid));
    ks_writer_pair(&json, "Effect", KS_VIEW("Allow"));
    put_actions(&json, "Action", row->actions);
    ks_writer_key(&json, "Resource");
    ks_writer_open(&json, '[');
    while (arns.size > 0)
        ks_writer_text(&json, ks_view_cut(&arns, '\n'));
    ks_writer_close(&json, ']');
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}

static ks_err put_statements(struct ks_bytes *bytes, struct ks_bytes *lines,
                             const struct ks_permissions_query *query, struct ks_detail *detail)
{
    bool any = false;

    for (int at = 0; at < PERMISSIONS; at++) {
        KS_TRY(find_arns(lines, &permissions[at], query, detail));
        if (lines->size == 0)
            continue;
        KS_TRY(ks_bytes_append(bytes, any ? KS_VIEW(",\n") : KS_VIEW("\n")));
        KS_TRY(put_statement(bytes, &permissions[at], ks_bytes_view(lines)));
        any = true;
    }
    return any ? KS_OK
               : ks_err_because(KS_FAIL(NOT_FOUND), detail,
                                "these options use nothing in AWS that needs a permission");
}

static ks_err check_role(const struct ks_permissions_query *query, struct ks_detail *detail)
{
    if (query->role == NULL)
        return KS_OK;
    for (uint32_t at = 0; at < ks_options_subscriptions(query->options); at++) {
        const struct ks_options *const options = ks_options_subscription(query->options, at);

        if (is(options->kinesis_role_arn, query->role) ||
            is(options->dynamodb_role_arn, query->role))
            return KS_OK;
    }
    return ks_err_because(
        KS_FAIL(INVALID), detail,
        "--role must be the --kinesis-role-arn or the --dynamodb-role-arn, got %s", query->role);
}

ks_err ks_permissions_policy(struct ks_bytes *bytes, const struct ks_permissions_query *query,
                             struct ks_detail *detail)
{
    struct ks_bytes lines;
    ks_err err;

    KS_TRY(check_role(query, detail));
    KS_TRY(ks_bytes_append(bytes, KS_VIEW("{\"Version\":\"2012-10-17\",\"Statement\":[")));
    ks_bytes_init(&lines, KS_PERMISSIONS_BYTES_MAX);
    err = put_statements(bytes, &lines, query, detail);
    ks_bytes_free(&lines);
    KS_TRY(err);
    return ks_bytes_append(bytes, KS_VIEW("\n]}\n"));
}

/* ---- For people, and for Terraform ---- */

static ks_err put_row(struct ks_bytes *bytes, const struct permission *row)
{
    ks_view left = ks_view_text(row->actions);

    KS_TRY(ks_bytes_format(bytes, "| %s | %s%s | %s | %s | ", row->sid, row->purpose,
                           row->use == USE_MAKES ? " (not with `--existing`)" : "",
                           whens[row->when].text, resources[row->resource].text));
    while (left.size > 0) {
        const ks_view action = ks_view_cut(&left, ' ');

        KS_TRY(ks_bytes_format(bytes, "`%.*s`%s", (int)action.size, (const char *)action.data,
                               left.size > 0 ? ", " : ""));
    }
    return ks_bytes_append(bytes, KS_VIEW(" |\n"));
}

ks_err ks_permissions_markdown(struct ks_bytes *bytes)
{
    KS_TRY(ks_bytes_append(bytes, KS_VIEW("| statement | what for | with | on | actions |\n"
                                          "|---|---|---|---|---|\n")));
    for (int at = 0; at < PERMISSIONS; at++)
        KS_TRY(put_row(bytes, &permissions[at]));
    return KS_OK;
}

static ks_err put_object(struct ks_bytes *bytes, const struct permission *row)
{
    struct ks_writer json;

    ks_writer_begin_strict(&json, bytes);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "sid", ks_view_text(row->sid));
    ks_writer_pair(&json, "role", ks_view_text(roles[row->role]));
    ks_writer_pair(&json, "when", ks_view_text(whens[row->when].name));
    ks_writer_pair(&json, "resource", ks_view_text(resources[row->resource].name));
    ks_writer_key(&json, "makes");
    ks_writer_bool(&json, row->use == USE_MAKES);
    put_actions(&json, "actions", row->actions);
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}

ks_err ks_permissions_json(struct ks_bytes *bytes)
{
    for (int at = 0; at < PERMISSIONS; at++) {
        KS_TRY(ks_bytes_append(bytes, at == 0 ? KS_VIEW("[\n") : KS_VIEW(",\n")));
        KS_TRY(put_object(bytes, &permissions[at]));
    }
    return ks_bytes_append(bytes, KS_VIEW("\n]\n"));
}
