/* SPDX-License-Identifier: Apache-2.0 */
#include "main/aws_arns.h"

#include "adapters/s3/place.h"
#include "adapters/sinks/target.h"
#include "aws/arn.h"
#include "aws/endpoint.h"
#include "main/aws_tables.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ARN_SIZE = 4096 };

static const char *or_else(const char *text, const char *placeholder)
{
    return text != NULL && text[0] != '\0' ? text : placeholder;
}

static const char *region_of(const struct ks_aws_subject *subject)
{
    return or_else(subject->region, "REGION");
}

static const char *account_of(const struct ks_aws_subject *subject)
{
    return or_else(subject->account, "ACCOUNT");
}

/* Where nobody says the region: what the stream's ARN says. */
static const char *partition_of(const struct ks_aws_subject *subject)
{
    struct ks_arn arn;
    char region[KS_REGION_MAX + 1] = "";

    if (or_else(subject->region, "")[0] != '\0')
        return ks_endpoint_partition(subject->region);
    if (ks_ok(ks_arn_split(ks_view_text(subject->options->stream), &arn)) &&
        !ks_ok(ks_view_copy_text(arn.region, region, sizeof(region))))
        region[0] = '\0';
    return ks_endpoint_partition(region);
}

static bool has_line(const struct ks_bytes *lines, ks_view line)
{
    ks_view left = ks_bytes_view(lines);

    while (left.size > 0) {
        if (ks_view_equal(ks_view_cut(&left, '\n'), line))
            return true;
    }
    return false;
}

__attribute__((format(printf, 2, 3))) static ks_err add(struct ks_bytes *lines, const char *format,
                                                        ...)
{
    char arn[ARN_SIZE];
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(arn, sizeof(arn), format, arguments);
    va_end(arguments);
    if (size < 0 || size >= (int)sizeof(arn))
        return KS_FAIL(FULL);
    if (has_line(lines, ks_view_text(arn)))
        return KS_OK;
    KS_TRY(ks_bytes_append(lines, ks_view_text(arn)));
    return ks_bytes_append_byte(lines, '\n');
}

/* Of a thing of a service: "stream/orders", "table/orders-app". */
static ks_err add_named(struct ks_bytes *lines, const struct ks_aws_subject *subject,
                        const char *service, const char *kind, const char *name, const char *end)
{
    return add(lines, "arn:%s:%s:%s:%s:%s%s%s", partition_of(subject), service, region_of(subject),
               account_of(subject), kind, name, end);
}

/* ---- Streams ---- */

static ks_err add_stream(struct ks_bytes *lines, const struct ks_aws_subject *subject,
                         const char *stream, const char *end)
{
    if (strncmp(stream, "arn:", 4) == 0)
        return add(lines, "%s%s", stream, end);
    return add_named(lines, subject, "kinesis", "stream/", stream, end);
}

/* A consumer that is named by its name has a number at the end of its ARN, the second of its registration. */
static ks_err add_consumer(struct ks_bytes *lines, const struct ks_aws_subject *subject)
{
    const struct ks_options *const options = subject->options;

    if (strncmp(options->consumer, "arn:", 4) == 0)
        return add(lines, "%s", options->consumer);
    return add_stream(lines, subject, options->stream, "/consumer/*");
}

/* ---- Tables ---- */

static ks_err add_table(struct ks_bytes *lines, const struct ks_aws_subject *subject,
                        const char *name, const char *end)
{
    return add_named(lines, subject, "dynamodb", "table/", name, end);
}

static ks_err add_letters_table(struct ks_bytes *lines, const struct ks_aws_subject *subject)
{
    char name[KS_AWS_TABLE_NAME_SIZE];

    (void)ks_aws_tables_letters(subject->options, name);
    return add_table(lines, subject, name, "");
}

static ks_err add_index(struct ks_bytes *lines, const struct ks_aws_subject *subject)
{
    char end[128];

    (void)snprintf(end, sizeof(end), "/index/%s", ks_aws_tables_dialect(subject->options)->index);
    return add_table(lines, subject, subject->options->application, end);
}

/* Table `at` of the dialect. */
static ks_err add_table_at(struct ks_bytes *lines, const struct ks_aws_subject *subject,
                           uint32_t at)
{
    struct ks_aws_table tables[KS_AWS_TABLES_MAX];
    const uint32_t count = ks_aws_tables(subject->options, tables);

    assert(at < count);
    return add_table(lines, subject, tables[at].name, "");
}

static ks_err add_tables(struct ks_bytes *lines, const struct ks_aws_subject *subject)
{
    struct ks_aws_table tables[KS_AWS_TABLES_MAX];
    const uint32_t count = ks_aws_tables(subject->options, tables);

    for (uint32_t at = 0; at < count; at++)
        if (!tables[at].optional)
            KS_TRY(add_table(lines, subject, tables[at].name, ""));
    return KS_OK;
}

/* ---- Dead letters ---- */

static ks_err read_place(const struct ks_aws_subject *subject, struct ks_s3_place *ret_place,
                         struct ks_detail *detail)
{
    struct ks_detail why = {""};

    if (ks_ok(ks_s3_place_read(subject->options->dead_letters, ret_place, &why)))
        return KS_OK;
    return ks_err_because(KS_FAIL(INVALID), detail, "--dead-letters: %s", why.text);
}

static ks_err add_bucket(struct ks_bytes *lines, const struct ks_aws_subject *subject, bool objects,
                         struct ks_detail *detail)
{
    struct ks_s3_place place;

    KS_TRY(read_place(subject, &place, detail));
    return add(lines, "arn:%s:s3:::%s%s%s%s", partition_of(subject), place.bucket,
               objects ? "/" : "", objects ? place.prefix : "", objects ? "*" : "");
}

/* A queue URL ends with /ACCOUNT/NAME; that of an emulator may not. */
static ks_err add_queue(struct ks_bytes *lines, const struct ks_aws_subject *subject,
                        const struct ks_sink_target *target)
{
    const char *const name = strrchr(target->name, '/');
    const char *const region = or_else(target->region, region_of(subject));
    ks_view account = KS_VIEW_NONE;

    assert(name != NULL);
    for (const char *at = name; at > target->name && account.data == NULL; at--)
        if (at[-1] == '/')
            account = ks_view_of(at, (size_t)(name - at));
    if (!ks_account_is_valid(account))
        account = ks_view_text(account_of(subject));
    return add(lines, "arn:%s:sqs:%s:%.*s:%s", ks_endpoint_partition(region), region,
               (int)account.size, (const char *)account.data, name + 1);
}

static ks_err add_sink(struct ks_bytes *lines, const struct ks_aws_subject *subject,
                       struct ks_detail *detail)
{
    struct ks_sink_target target;

    KS_TRY(ks_sink_target_read(subject->options->dead_letters, &target, detail));
    switch (target.kind) {
    case KS_SINK_SQS: return add_queue(lines, subject, &target);
    case KS_SINK_SNS: return add(lines, "%s", target.name);
    case KS_SINK_KINESIS: return add_stream(lines, subject, target.name, "");
    }
    assert(false);
    return KS_FAIL(INVALID);
}

/* A statement about a key counts only with the ARN of the key itself (KMS developer guide, "Using IAM policies with AWS
 * KMS"). */
static ks_err add_letters_key(struct ks_bytes *lines, const struct ks_aws_subject *subject,
                              struct ks_detail *detail)
{
    struct ks_s3_place place;

    if (subject->letters_key != NULL)
        return add(lines, "%s", subject->letters_key);
    KS_TRY(read_place(subject, &place, detail));
    if (strstr(place.kms_key, "alias/") != NULL)
        return ks_err_because(
            KS_FAIL(INVALID), detail,
            "--dead-letters: %s is an alias, which no policy can name; give the ARN of its key "
            "with --dead-letters-kms-key",
            place.kms_key);
    if (strncmp(place.kms_key, "arn:", 4) == 0)
        return add(lines, "%s", place.kms_key);
    return add_named(lines, subject, "kms", "key/", place.kms_key, "");
}

bool ks_aws_arns_has_letters_key(const struct ks_aws_subject *subject)
{
    struct ks_s3_place place;
    struct ks_detail ignored;

    return subject->letters_key != NULL ||
           (ks_option_is_bucket(subject->options->dead_letters) &&
            ks_ok(read_place(subject, &place, &ignored)) && place.kms_key[0] != '\0');
}

/* ---- Roles ---- */

static ks_err add_roles(struct ks_bytes *lines, const struct ks_options *options)
{
    if (options->kinesis_role_arn[0] != '\0')
        KS_TRY(add(lines, "%s", options->kinesis_role_arn));
    if (options->dynamodb_role_arn[0] != '\0')
        KS_TRY(add(lines, "%s", options->dynamodb_role_arn));
    return KS_OK;
}

ks_err ks_aws_arns_add(struct ks_bytes *lines, enum ks_aws_resource resource,
                       const struct ks_aws_subject *subject, struct ks_detail *detail)
{
    switch (resource) {
    case KS_AWS_RESOURCE_STREAM: return add_stream(lines, subject, subject->options->stream, "");
    case KS_AWS_RESOURCE_CONSUMER: return add_consumer(lines, subject);
    case KS_AWS_RESOURCE_STREAM_KEY: return add(lines, "%s", subject->stream_key);
    case KS_AWS_RESOURCE_LEASES: return add_table_at(lines, subject, 0);
    case KS_AWS_RESOURCE_INDEX: return add_index(lines, subject);
    case KS_AWS_RESOURCE_SECOND: return add_table_at(lines, subject, 1);
    case KS_AWS_RESOURCE_THIRD: return add_table_at(lines, subject, 2);
    case KS_AWS_RESOURCE_TABLES: return add_tables(lines, subject);
    case KS_AWS_RESOURCE_LETTERS: return add_letters_table(lines, subject);
    case KS_AWS_RESOURCE_OBJECTS: return add_bucket(lines, subject, true, detail);
    case KS_AWS_RESOURCE_BUCKET: return add_bucket(lines, subject, false, detail);
    case KS_AWS_RESOURCE_SINK: return add_sink(lines, subject, detail);
    case KS_AWS_RESOURCE_LETTERS_KEY: return add_letters_key(lines, subject, detail);
    case KS_AWS_RESOURCE_ROLES: return add_roles(lines, subject->options);
    }
    assert(false);
    return KS_FAIL(INVALID);
}
