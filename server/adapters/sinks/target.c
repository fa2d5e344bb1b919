/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sinks/target.h"

#include "aws/arn.h"
#include "aws/endpoint.h"

#include <stdio.h>

/* Characters of a queue's, a topic's and a stream's name (API references of CreateQueue, CreateTopic, CreateStream). */
enum { QUEUE_MAX = 80, TOPIC_MAX = 256, STREAM_MAX = 128 };

static const struct form {
    const char *prefix;
    const char *wanted;
} FORMS[] = {
    [KS_SINK_SQS] = {"sqs:", "sqs:https://sqs.REGION.amazonaws.com/ACCOUNT/QUEUE"},
    [KS_SINK_SNS] = {"sns:", "sns:arn:aws:sns:REGION:ACCOUNT:TOPIC"},
    [KS_SINK_KINESIS] = {"kinesis:",
                         "kinesis:STREAM or kinesis:arn:aws:kinesis:REGION:ACCOUNT:stream/STREAM"},
};
enum { KINDS = sizeof(FORMS) / sizeof(FORMS[0]) };

static bool is_name(ks_view text, size_t max, const char *others)
{
    for (size_t at = 0; at < text.size; at++) {
        const uint8_t c = text.data[at];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (!letter && !(c >= '0' && c <= '9') && (c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return text.size > 0 && text.size <= max;
}

/* Takes ".fifo" off the end of a name. */
static bool cut_fifo(ks_view *name)
{
    const ks_view end = KS_VIEW(".fifo");

    if (name->size <= end.size ||
        memcmp(name->data + name->size - end.size, end.data, end.size) != 0)
        return false;
    name->size -= end.size;
    return true;
}

/* ---- A queue ---- */

/* The region of a host of SQS: sqs.REGION.amazonaws.com, sqs-fips.REGION.., VPCE.sqs.REGION.vpce.amazonaws.com, and of
 * old queues REGION.queue.amazonaws.com and queue.amazonaws.com ("Amazon SQS endpoints and quotas" of the AWS General
 * Reference). */
static ks_view region_of(ks_view host)
{
    ks_view before = KS_VIEW_NONE;
    ks_view rest = host;

    for (ks_view label = ks_view_cut(&rest, '.'); rest.data != NULL;
         label = ks_view_cut(&rest, '.')) {
        ks_view next = rest;

        if (ks_view_equal(label, KS_VIEW("sqs")) || ks_view_equal(label, KS_VIEW("sqs-fips")))
            return ks_view_cut(&next, '.');
        if (ks_view_equal(label, KS_VIEW("queue")) &&
            ks_view_starts(rest, KS_VIEW("amazonaws.com")))
            return before.data == NULL ? KS_VIEW("us-east-1") : before;
        before = label;
    }
    return KS_VIEW_NONE;
}

/* True if the host is that of the region, which FIPS and dual stack may change, or an old one, which knows no JSON. */
static bool is_of_region(const struct ks_url *url, const char *region)
{
    struct ks_endpoint endpoint;

    return url->https && ks_ok(ks_endpoint_resolve("sqs", region, NULL, &endpoint, NULL)) &&
           (ks_view_equal(url->host, ks_view_text(endpoint.host)) ||
            ks_view_starts(url->host, KS_VIEW("queue.")) ||
            memmem(url->host.data, url->host.size, ".queue.", 7) != NULL);
}

static ks_err read_queue(ks_view text, struct ks_sink_target *target)
{
    struct ks_url url;
    ks_view name;

    KS_TRY(ks_url_split(text, &url));
    name = url.path;
    for (ks_view rest = url.path; rest.data != NULL;)
        name = ks_view_cut(&rest, '/');
    target->fifo = cut_fifo(&name);
    if (url.query.data != NULL || !is_name(name, QUEUE_MAX, "_-"))
        return KS_FAIL(INVALID);
    if (!ks_ok(ks_view_copy_text(region_of(url.host), target->region, sizeof(target->region))) ||
        !ks_region_is_valid(ks_view_text(target->region)))
        target->region[0] = '\0';
    if (target->region[0] != '\0' && is_of_region(&url, target->region))
        return KS_OK;
    /* What stands before the path. */
    return ks_view_copy_text(ks_view_of(text.data, (size_t)(url.path.data - text.data)),
                             target->url, sizeof(target->url));
}

/* ---- What an ARN names ---- */

static ks_err read_arn(ks_view text, ks_view service, struct ks_sink_target *target,
                       ks_view *ret_resource)
{
    struct ks_arn arn;

    KS_TRY(ks_arn_split(text, &arn));
    if (!ks_view_equal(arn.service, service) || arn.account.size == 0 ||
        !ks_region_is_valid(arn.region))
        return KS_FAIL(INVALID);
    *ret_resource = arn.resource;
    return ks_view_copy_text(arn.region, target->region, sizeof(target->region));
}

static ks_err read_topic(ks_view text, struct ks_sink_target *target)
{
    ks_view name;

    KS_TRY(read_arn(text, KS_VIEW("sns"), target, &name));
    target->fifo = cut_fifo(&name);
    return is_name(name, TOPIC_MAX, "_-") ? KS_OK : KS_FAIL(INVALID);
}

static ks_err read_stream(ks_view text, struct ks_sink_target *target)
{
    const ks_view before = KS_VIEW("stream/");
    ks_view name = text;

    if (ks_view_starts(text, KS_VIEW("arn:"))) {
        KS_TRY(read_arn(text, KS_VIEW("kinesis"), target, &name));
        if (!ks_view_starts(name, before))
            return KS_FAIL(INVALID);
        name = ks_view_of(name.data + before.size, name.size - before.size);
    }
    return is_name(name, STREAM_MAX, "._-") ? KS_OK : KS_FAIL(INVALID);
}

/* ---- All ---- */

/* The kind whose prefix the text has, or KINDS. */
static int kind_of(const char *text)
{
    int kind = 0;

    while (kind < KINDS && strncmp(text, FORMS[kind].prefix, strlen(FORMS[kind].prefix)) != 0)
        kind++;
    return kind;
}

bool ks_sink_is_named(const char *text)
{
    return kind_of(text) < KINDS;
}

static ks_err read_kind(ks_view name, struct ks_sink_target *target)
{
    KS_TRY(ks_view_copy_text(name, target->name, sizeof(target->name)));
    switch (target->kind) {
    case KS_SINK_SQS: return read_queue(name, target);
    case KS_SINK_SNS: return read_topic(name, target);
    case KS_SINK_KINESIS: return read_stream(name, target);
    }
    return KS_FAIL(INVALID);
}

ks_err ks_sink_target_read(const char *text, struct ks_sink_target *ret_target,
                           struct ks_detail *detail)
{
    const int kind = kind_of(text);
    struct ks_sink_target target = {.name = ""};

    if (kind == KINDS)
        return ks_err_because(KS_FAIL(INVALID), detail, "--dead-letters: %s is not a sink", text);
    target.kind = (enum ks_sink_kind)kind;
    if (!ks_ok(read_kind(ks_view_text(text + strlen(FORMS[kind].prefix)), &target)))
        return ks_err_because(KS_FAIL(INVALID), detail, "--dead-letters must be like %s, got %s",
                              FORMS[kind].wanted, strchr(text, '@') == NULL ? text : "***");
    *ret_target = target;
    return KS_OK;
}
