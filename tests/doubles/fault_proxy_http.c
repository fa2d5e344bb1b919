/* SPDX-License-Identifier: Apache-2.0 */
#include "fault_proxy_http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { HEAD_BYTES_MAX = 8192, BODY_BYTES_SEEN = 32768 };

/* ---- Heads ---- */

/* The value of a header and its size; NULL: there is none. */
static uint8_t *find_header(uint8_t *head, size_t head_size, const char *name, size_t *ret_size)
{
    uint8_t *end = head + head_size;
    size_t name_size = strlen(name);

    for (uint8_t *line = head; line < end;) {
        uint8_t *line_end = memchr(line, '\r', (size_t)(end - line));
        if (line_end == NULL)
            return NULL;
        size_t size = (size_t)(line_end - line);
        if (size > name_size && line[name_size] == ':' &&
            strncasecmp((const char *)line, name, name_size) == 0) {
            uint8_t *value = line + name_size + 1;
            while (value < line_end && *value == ' ')
                value++;
            *ret_size = (size_t)(line_end - value);
            return value;
        }
        line = line_end + 2;
    }
    return NULL;
}

/* The number at the front of a value; -1: there is no such header. */
static int64_t find_number(uint8_t *head, size_t head_size, const char *name)
{
    size_t size;
    const uint8_t *value = find_header(head, head_size, name, &size);

    return value == NULL ? -1 : strtoll((const char *)value, NULL, 10);
}

/* The size of the head; 0: it is not all there. */
static size_t head_size_of(const uint8_t *bytes, size_t size)
{
    const uint8_t *end = memmem(bytes, size, "\r\n\r\n", 4);

    return end == NULL ? 0 : (size_t)(end - bytes) + 4;
}

/* True if the bytes are the beginning of one of the words, or begin with one. */
static bool begins(const uint8_t *bytes, size_t size, const char *const *words)
{
    for (; *words != NULL; words++) {
        size_t length = strlen(*words);
        if (memcmp(bytes, *words, size < length ? size : length) == 0)
            return true;
    }
    return false;
}

/* ---- Requests ---- */

static bool is_meant(const struct http_rules *rules, uint8_t *head, size_t head_size)
{
    size_t size;
    const uint8_t *target = find_header(head, head_size, "x-amz-target", &size);
    size_t only = strlen(rules->only);

    if (only == 0)
        return true;
    if (target == NULL)
        return head_size > only && head[only] == ' ' && memcmp(head, rules->only, only) == 0;
    return size > only && target[size - only - 1] == '.' &&
           memcmp(target + size - only, rules->only, only) == 0;
}

static bool take_one(uint32_t *left)
{
    if (*left == 0)
        return false;
    --*left;
    return true;
}

/* One fault for a request. */
static void choose(struct http *http, struct http_rules *rules, uint8_t *head, size_t size,
                   bool contains)
{
    size_t target_size;

    http->refusing = http->losing = http->spoiling = http->resetting = http->muted = false;
    if (!contains || !is_meant(rules, head, size))
        return;
    http->refusal = rules->refusal;
    http->xml = find_header(head, size, "x-amz-target", &target_size) == NULL;
    http->muted = take_one(&rules->mute);
    http->resetting = !http->muted && take_one(&rules->reset);
    if (http->muted || http->resetting) {
        rules->spoiled++;
        return;
    }
    http->refusing = take_one(&rules->refuse);
    http->losing = !http->refusing && take_one(&rules->lose);
    http->spoiling = !http->refusing && !http->losing && take_one(&rules->wrong_crc);
    rules->spoiled += http->refusing || http->losing || http->spoiling;
}

static enum http_verdict verdict_of(const struct http *http)
{
    if (http->resetting)
        return HTTP_RESET;
    if (http->muted)
        return HTTP_DROP;
    if (!http->refusing)
        return HTTP_PASS;
    return http->requests.body_left == 0 ? HTTP_REFUSE : HTTP_DROP;
}

enum http_verdict http_request(struct http *http, struct http_rules *rules, const uint8_t *bytes,
                               size_t size, size_t *ret_size)
{
    static const char *const methods[] = {"GET ", "POST ", "PUT ", "DELETE ", "HEAD ", NULL};
    struct http_side *side = &http->requests;
    uint8_t head[HEAD_BYTES_MAX];

    *ret_size = size;
    if (side->opaque)
        return HTTP_PASS;
    if (side->body_left > 0) {
        *ret_size = size < side->body_left ? size : (size_t)side->body_left;
        side->body_left -= *ret_size;
        return verdict_of(http);
    }
    size_t head_size = head_size_of(bytes, size);
    side->opaque =
        !begins(bytes, size, methods) || (head_size == 0 ? size : head_size) > HEAD_BYTES_MAX;
    if (side->opaque)
        return HTTP_PASS;
    if (head_size == 0)
        return HTTP_WAIT;
    memcpy(head, bytes, head_size);
    int64_t length = find_number(head, head_size, "content-length");
    size_t body = length > 0 ? (size_t)length : 0;
    size_t seen = body < BODY_BYTES_SEEN ? body : BODY_BYTES_SEEN;
    if (rules->containing[0] != '\0' && size < head_size + seen)
        return HTTP_WAIT;
    side->body_left = body;
    *ret_size = head_size;
    choose(http, rules, head, head_size,
           rules->containing[0] == '\0' || memmem(bytes + head_size, seen, rules->containing,
                                                  strlen(rules->containing)) != NULL);
    return verdict_of(http);
}

size_t http_print_refusal(const struct http *http, char text[HTTP_ANSWER_BYTES])
{
    static const char in_xml[] =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<Error><Code>%s</Code><Message>Said by the fault proxy.</Message></Error>";
    static const char in_json[] = "{\"__type\":\"%s\",\"message\":\"Said by the fault proxy.\"}";
    char body[HTTP_CODE_BYTES + 160];
    int size = http->xml ? snprintf(body, sizeof body, in_xml, http->refusal.code)
                         : snprintf(body, sizeof body, in_json, http->refusal.code);

    return (size_t)snprintf(text, HTTP_ANSWER_BYTES,
                            "HTTP/1.1 %d Refused\r\nContent-Type: %s\r\n"
                            "%s: FAULTPROXY\r\nContent-Length: %d\r\n\r\n%s",
                            http->refusal.status,
                            http->xml ? "application/xml" : "application/x-amz-json-1.0",
                            http->xml ? "x-amz-request-id" : "x-amzn-RequestId", size, body);
}

/* ---- Answers ---- */

/* A Date is always of the same length. */
static void skew(uint8_t *head, size_t head_size, int64_t skew_s)
{
    static const char format[] = "%a, %d %b %Y %H:%M:%S GMT";
    struct tm parts = {0};
    char text[64];
    size_t size;
    uint8_t *date = find_header(head, head_size, "date", &size);

    if (date == NULL || size >= sizeof text)
        return;
    memcpy(text, date, size);
    text[size] = '\0';
    if (strptime(text, format, &parts) == NULL)
        return;
    time_t then = timegm(&parts) + (time_t)skew_s;
    if (gmtime_r(&then, &parts) != NULL && strftime(text, sizeof text, format, &parts) == size)
        memcpy(date, text, size);
}

static void spoil_crc(uint8_t *head, size_t head_size)
{
    size_t size;
    uint8_t *crc = find_header(head, head_size, "x-amz-crc32", &size);

    if (crc != NULL && size > 0)
        crc[size - 1] = crc[size - 1] == '0' ? '1' : '0';
}

enum http_verdict http_answer(struct http *http, struct http_rules *rules, uint8_t *bytes,
                              size_t size, size_t *ret_size)
{
    static const char *const versions[] = {"HTTP/1.", NULL};
    struct http_side *side = &http->answers;

    *ret_size = size;
    if (side->opaque || http->requests.opaque)
        return HTTP_PASS;
    if (http->losing)
        return HTTP_RESET;
    if (side->body_left > 0) {
        *ret_size = size < side->body_left ? size : (size_t)side->body_left;
        side->body_left -= *ret_size;
        return HTTP_PASS;
    }
    size_t head_size = head_size_of(bytes, size);
    side->opaque = !begins(bytes, size, versions) || (head_size == 0 && size > HEAD_BYTES_MAX);
    if (side->opaque)
        return HTTP_PASS;
    if (head_size == 0)
        return HTTP_WAIT;
    bool is_final = bytes[9] != '1';
    int64_t length = find_number(bytes, head_size, "content-length");
    side->opaque = is_final && length < 0;
    side->body_left = length > 0 ? (uint64_t)length : 0;
    if (rules->skew_s != 0)
        skew(bytes, head_size, rules->skew_s);
    if (http->spoiling && is_final)
        spoil_crc(bytes, head_size);
    *ret_size = head_size;
    return HTTP_PASS;
}
