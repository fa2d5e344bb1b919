/* SPDX-License-Identifier: Apache-2.0 */
#include "api/head.h"

#include <assert.h>
#include <stddef.h>

/* The header lines that a request has a member for. */
static const struct {
    const char *name;
    size_t offset;
} known[] = {
    {"host", offsetof(struct ks_request, host)},
    {"origin", offsetof(struct ks_request, origin)},
    {"sec-fetch-site", offsetof(struct ks_request, fetch_site)},
    {"authorization", offsetof(struct ks_request, authorization)},
    {"accept", offsetof(struct ks_request, accept)},
    {"content-type", offsetof(struct ks_request, content_type)},
};

/* These and those that are looked up by their names: rpc_head.c, and the framing below. */
static const struct {
    const char *name;
    size_t size;
} asked_for[] = {
#define NAME(text)                                                                                 \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
    NAME("host"),
    NAME("origin"),
    NAME("sec-fetch-site"),
    NAME("authorization"),
    NAME("accept"),
    NAME("content-type"),
    NAME("content-length"),
    NAME("transfer-encoding"),
    NAME("connect-protocol-version"),
    NAME("connect-timeout-ms"),
    NAME("grpc-timeout"),
    NAME("content-encoding"),
    NAME("connect-content-encoding"),
    NAME("grpc-encoding"),
    NAME("accept-encoding"),
    NAME("connect-accept-encoding"),
    NAME("grpc-accept-encoding"),
#undef NAME
};

/* A line that nobody asks for, and a second one of its name, would only cost memory. */
static bool is_kept(const struct ks_head *head, ks_view name)
{
    if (head->all)
        return true;
    for (size_t i = 0; i < sizeof(asked_for) / sizeof(asked_for[0]); i++)
        if (name.size == asked_for[i].size &&
            ks_view_equal_nocase(name, ks_view_of(asked_for[i].name, name.size)))
            return ks_headers_find(head->headers, asked_for[i].name).data == NULL;
    return false;
}

void ks_head_line(struct ks_head *head, ks_view name, ks_view value)
{
    /* The colon, a space, and the end of the line. */
    head->bytes += name.size + value.size + 4;
    head->hosts += ks_view_equal_nocase(name, KS_VIEW("Host"));
    head->lengths += ks_view_equal_nocase(name, KS_VIEW("Content-Length"));
    head->codings += ks_view_equal_nocase(name, KS_VIEW("Transfer-Encoding"));
    if (!ks_header_name_is_good(name) || !ks_header_value_is_good(value))
        head->malformed = true;
    else if (head->bytes <= head->most && is_kept(head, name) &&
             !ks_ok(ks_headers_add(head->headers, name, value)))
        head->no_memory = true;
}

/* The sentence of what is wrong with the framing, or NULL. RFC 9112, section 6: whoever disagrees
 * with a proxy about where a request ends answers a request that nobody sent. */
static const char *framing_problem(const struct ks_head *head, ks_view length)
{
    uint64_t number;

    if (!head->whole)
        return "the request line holds a NUL, or the version is missing";
    if (head->malformed)
        return "a header line is folded, or its name or value holds what it may not";
    if (head->hosts > 1)
        return "more than one Host";
    if (head->lengths > 1)
        return "more than one Content-Length";
    if (head->codings > 1)
        return "more than one Transfer-Encoding";
    if (head->lengths > 0 && head->codings > 0)
        return "Content-Length beside Transfer-Encoding";
    if (head->lengths > 0 && !ks_ok(ks_view_u64(ks_view_trim(length), &number)))
        return "Content-Length is not a number";
    if (head->hosts == 0 && !head->host_may_be_absent)
        return "HTTP/1.1 requires a Host";
    return NULL;
}

static bool refuse(struct ks_exchange *exchange, enum ks_problem problem, const char *why)
{
    ks_exchange_problem(exchange, problem, "%s", why);
    exchange->answer.close = true;
    return false;
}

/* Whether there is a body, and how long it says that it is. */
static void announce(const struct ks_head *head, ks_view length, struct ks_request *request)
{
    request->length = UINT64_MAX;
    if (head->lengths > 0 && !ks_ok(ks_view_u64(ks_view_trim(length), &request->length)))
        assert(false);
    /* The largest number is how a length that is not known is written down here. */
    if (head->lengths > 0 && request->length == UINT64_MAX)
        request->length--;
    if (head->http == 1 && head->lengths == 0 && head->codings == 0)
        request->length = 0;
    if (head->ended)
        request->length = 0;
    request->has_body = request->length > 0;
}

bool ks_head_judge(const struct ks_head *head, struct ks_exchange *exchange)
{
    struct ks_request *request = &exchange->request;
    const char *problem;
    ks_view coding;
    ks_view length;

    if (head->bytes + request->target.size > head->most || request->target.size > KS_TARGET_MAX)
        return refuse(exchange, KS_PROBLEM_HEAD_TOO_LARGE,
                      request->ops ? "request line and headers may have 8 KiB"
                                   : "request line and headers may have 16 KiB, the target 8 KiB");
    if (head->no_memory)
        return refuse(exchange, KS_PROBLEM_EXHAUSTED, "no memory for the headers");
    length = ks_request_header(request, "content-length");
    problem = framing_problem(head, length);
    if (problem != NULL)
        return refuse(exchange, KS_PROBLEM_INVALID_ARGUMENT, problem);
    /* To the letter, as libmicrohttpd reads it: a body that it does not take for chunked would have
     * no end. */
    coding = ks_request_header(request, "transfer-encoding");
    if (head->codings > 0 && !ks_view_equal_nocase(coding, KS_VIEW("chunked")))
        return refuse(exchange, KS_PROBLEM_UNIMPLEMENTED, "the only transfer coding is chunked");

    ks_headers_lower(&request->headers);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        ks_view *place = (ks_view *)(void *)((char *)request + known[i].offset);
        *place = ks_request_header(request, known[i].name);
    }
    request->http = head->http;
    announce(head, length, request);
    return true;
}

/* Parameters of a query, at least one. */
static size_t count_parameters(ks_view target)
{
    ks_view query = target;
    size_t count = 1;

    (void)ks_view_cut(&query, '?');
    for (size_t at = 0; at < query.size; at++)
        count += query.data[at] == '&';
    return count;
}

const char *ks_head_target_refusal(ks_view target)
{
    if (target.size > KS_TARGET_MAX)
        return "request line and headers may have 16 KiB, the target 8 KiB";
    return count_parameters(target) > KS_PARAMETERS_MAX ? "a query may have 1024 parameters" : NULL;
}

static bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

/* The word behind the last space; empty if there is no space, or nothing behind it. */
static ks_view last_word(ks_view line)
{
    size_t at = line.size;

    while (at > 0 && line.data[at - 1] != ' ')
        at--;
    return at == 0 ? KS_VIEW_NONE : ks_view_of(line.data + at, line.size - at);
}

bool ks_head_refuses_line(ks_view start, enum ks_problem *ret_problem, const char **ret_why)
{
    static const size_t VERSION_SIZE = sizeof("HTTP/1.1") - 1;
    const uint8_t *end = start.size == 0 ? NULL : memchr(start.data, '\n', start.size);

    if (end == NULL)
        return false;
    ks_view line = ks_view_of(start.data, (size_t)(end - start.data));
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    if (line.size == 0)
        return false;
    ks_view version = last_word(line);
    bool named = version.size == VERSION_SIZE && ks_view_starts(version, KS_VIEW("HTTP/")) &&
                 is_digit(version.data[5]) && version.data[6] == '.' && is_digit(version.data[7]);
    if (named && version.data[5] == '1')
        return false;
    *ret_problem = named ? KS_PROBLEM_HTTP_VERSION : KS_PROBLEM_INVALID_ARGUMENT;
    *ret_why = named ? "the version of HTTP must be 1.0 or 1.1, or 2 by prior knowledge"
                     : "a request line has a method, a target, and HTTP/1.1";
    return true;
}
