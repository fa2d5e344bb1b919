/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/failure.h"

#include "aws/cbor.h"
#include "aws/head.h"
#include "aws/json.h"
#include "aws/xml.h"

#include <stdio.h>

enum trait { PLAIN = 0, THROTTLE = 1, CLOCK = 2, TOKEN = 4 };

/* Codes and what they mean. Throttles: botocore's list. Clock: the AWS SDK for JavaScript's list of
 * codes that a wrong clock may cause. What is not here is judged by the status. */
static const struct meaning {
    const char *code;
    enum ks_err_code err;
    unsigned traits;
} MEANINGS[] = {
    {"BandwidthLimitExceeded", KS_ERR_THROTTLED, THROTTLE},
    {"EC2ThrottledException", KS_ERR_THROTTLED, THROTTLE},
    {"KMSThrottling", KS_ERR_THROTTLED, THROTTLE},
    {"KMSThrottlingException", KS_ERR_THROTTLED, THROTTLE},
    {"KmsThrottled", KS_ERR_THROTTLED, THROTTLE},
    {"LimitExceededException", KS_ERR_THROTTLED, THROTTLE},
    {"PriorRequestNotComplete", KS_ERR_THROTTLED, THROTTLE},
    {"ProvisionedThroughputExceededException", KS_ERR_THROTTLED, THROTTLE},
    {"RequestLimitExceeded", KS_ERR_THROTTLED, THROTTLE},
    {"RequestThrottled", KS_ERR_THROTTLED, THROTTLE},
    {"RequestThrottledException", KS_ERR_THROTTLED, THROTTLE},
    {"SlowDown", KS_ERR_THROTTLED, THROTTLE},
    {"Throttled", KS_ERR_THROTTLED, THROTTLE},
    {"ThrottledException", KS_ERR_THROTTLED, THROTTLE},
    {"Throttling", KS_ERR_THROTTLED, THROTTLE},
    {"ThrottlingException", KS_ERR_THROTTLED, THROTTLE},
    {"TooManyRequestsException", KS_ERR_THROTTLED, THROTTLE},
    {"TransactionInProgressException", KS_ERR_THROTTLED, THROTTLE},

    {"AccessDenied", KS_ERR_DENIED, CLOCK},
    {"AccessDeniedException", KS_ERR_DENIED, CLOCK},
    {"AuthFailure", KS_ERR_DENIED, CLOCK},
    {"InvalidSignatureException", KS_ERR_DENIED, CLOCK},
    {"RequestExpired", KS_ERR_DENIED, CLOCK},
    {"RequestInTheFuture", KS_ERR_DENIED, CLOCK},
    {"RequestTimeTooSkewed", KS_ERR_DENIED, CLOCK},
    {"SignatureDoesNotMatch", KS_ERR_DENIED, CLOCK},
    {"ExpiredToken", KS_ERR_DENIED, TOKEN},
    {"ExpiredTokenException", KS_ERR_DENIED, TOKEN},
    {"IncompleteSignature", KS_ERR_DENIED, PLAIN},
    {"IncompleteSignatureException", KS_ERR_DENIED, PLAIN},
    {"InvalidClientTokenId", KS_ERR_DENIED, TOKEN},
    {"InvalidAccessKeyId", KS_ERR_DENIED, TOKEN},
    {"InvalidIdentityToken", KS_ERR_DENIED, PLAIN},
    {"IDPRejectedClaim", KS_ERR_DENIED, PLAIN},
    {"AuthorizationError", KS_ERR_DENIED, PLAIN},
    {"KMS.DisabledException", KS_ERR_DENIED, PLAIN},
    {"KMS.KMSInvalidStateException", KS_ERR_DENIED, PLAIN},
    {"KMS.NotFoundException", KS_ERR_DENIED, PLAIN},
    {"KMSAccessDenied", KS_ERR_DENIED, PLAIN},
    {"KMSAccessDeniedException", KS_ERR_DENIED, PLAIN},
    {"KMSDisabled", KS_ERR_DENIED, PLAIN},
    {"KMSDisabledException", KS_ERR_DENIED, PLAIN},
    {"KMSInvalidState", KS_ERR_DENIED, PLAIN},
    {"KMSInvalidStateException", KS_ERR_DENIED, PLAIN},
    {"KMSNotFound", KS_ERR_DENIED, PLAIN},
    {"KMSNotFoundException", KS_ERR_DENIED, PLAIN},
    {"KmsAccessDenied", KS_ERR_DENIED, PLAIN},
    {"KmsDisabled", KS_ERR_DENIED, PLAIN},
    {"KmsInvalidKeyUsage", KS_ERR_DENIED, PLAIN},
    {"KmsInvalidState", KS_ERR_DENIED, PLAIN},
    {"KmsNotFound", KS_ERR_DENIED, PLAIN},
    {"KmsOptInRequired", KS_ERR_DENIED, PLAIN},
    {"KMSOptInRequired", KS_ERR_DENIED, PLAIN},
    {"MissingAuthenticationToken", KS_ERR_DENIED, PLAIN},
    {"MissingAuthenticationTokenException", KS_ERR_DENIED, PLAIN},
    {"NotAuthorized", KS_ERR_DENIED, PLAIN},
    {"OptInRequired", KS_ERR_DENIED, PLAIN},
    {"RegionDisabledException", KS_ERR_DENIED, PLAIN},
    {"UnrecognizedClientException", KS_ERR_DENIED, TOKEN},

    {"ConditionalCheckFailedException", KS_ERR_CONDITION, PLAIN},
    {"PreconditionFailed", KS_ERR_CONDITION, PLAIN},
    {"ExpiredIteratorException", KS_ERR_EXPIRED, PLAIN},
    {"ExpiredNextTokenException", KS_ERR_EXPIRED, PLAIN},
    {"NoSuchBucket", KS_ERR_NOT_FOUND, PLAIN},
    {"NoSuchKey", KS_ERR_NOT_FOUND, PLAIN},
    {"ResourceNotFoundException", KS_ERR_NOT_FOUND, PLAIN},
    {"TableNotFoundException", KS_ERR_NOT_FOUND, PLAIN},
    {"NotFound", KS_ERR_NOT_FOUND, PLAIN},
    {"QueueDoesNotExist", KS_ERR_NOT_FOUND, PLAIN},
    {"AWS.SimpleQueueService.NonExistentQueue", KS_ERR_NOT_FOUND, PLAIN},
    {"ResourceInUseException", KS_ERR_EXISTS, PLAIN},
    {"TableAlreadyExistsException", KS_ERR_EXISTS, PLAIN},
    {"ConditionalRequestConflict", KS_ERR_BUSY, PLAIN},
    {"OperationAborted", KS_ERR_BUSY, PLAIN},
    {"TransactionConflictException", KS_ERR_BUSY, PLAIN},
    {"ReplicatedWriteConflictException", KS_ERR_BUSY, PLAIN},
    {"NotImplemented", KS_ERR_UNSUPPORTED, PLAIN},
    {"PermanentRedirect", KS_ERR_INVALID, PLAIN},
    {"UnknownOperationException", KS_ERR_UNSUPPORTED, PLAIN},

    {"IDPCommunicationError", KS_ERR_SERVER, PLAIN},
    {"InternalError", KS_ERR_SERVER, PLAIN},
    {"InternalFailure", KS_ERR_SERVER, PLAIN},
    {"InternalFailureException", KS_ERR_SERVER, PLAIN},
    {"InternalServerError", KS_ERR_SERVER, PLAIN},
    {"InternalServerErrorException", KS_ERR_SERVER, PLAIN},
    {"ServiceUnavailable", KS_ERR_SERVER, PLAIN},
    {"ServiceUnavailableException", KS_ERR_SERVER, PLAIN},
    {"RequestTimeout", KS_ERR_TIMEOUT, PLAIN},
    {"RequestTimeoutException", KS_ERR_TIMEOUT, PLAIN},
};

/* As much of `text` as fits, in whole UTF-8 characters; everything from a NUL or a bad byte on is
 * left out. */
static void copy_cut(char *buffer, size_t capacity, ks_view text)
{
    size_t size = text.size < capacity - 1 ? text.size : capacity - 1;

    /* At most a few steps back for a character that was cut, and once to where the text goes bad.
     */
    for (size_t steps = 0; steps < 4 && size > 0; steps++) {
        if (ks_view_is_utf8(ks_view_of(text.data, size)))
            break;
        size--;
    }
    if (!ks_view_is_utf8(ks_view_of(text.data, size))) {
        for (size = 0; size < capacity - 1 && size < text.size; size++) {
            if (text.data[size] < 0x20 || text.data[size] > 0x7e)
                break;
        }
    }
    if (size > 0)
        memcpy(buffer, text.data, size);
    buffer[size] = '\0';
}

/* "ns#Name:http://.." -> "Name". */
static ks_view code_of(ks_view type)
{
    ks_view code = ks_view_cut(&type, ':');

    while (code.size > 0) {
        ks_view rest = code;
        (void)ks_view_cut(&rest, '#');
        if (rest.data == NULL)
            break;
        code = rest;
    }
    return ks_view_trim(code);
}

static enum ks_err_code meaning_of_status(int status)
{
    switch (status) {
    case 401:
    case 403: return KS_ERR_DENIED;
    case 404: return KS_ERR_SERVER; /* Somebody between us: a service says what it has not. */
    case 408: return KS_ERR_TIMEOUT;
    case 429: return KS_ERR_THROTTLED;
    default: return status >= 500 || status < 400 ? KS_ERR_SERVER : KS_ERR_INVALID;
    }
}

/* Sets what code and status mean together. */
static void judge(struct ks_failure *failure)
{
    failure->err = (ks_err){(uint16_t)meaning_of_status(failure->status)};
    failure->throttled = failure->status == 429;
    for (size_t at = 0; at < sizeof(MEANINGS) / sizeof(MEANINGS[0]); at++) {
        const struct meaning *meaning = &MEANINGS[at];

        if (strcmp(meaning->code, failure->code) == 0) {
            failure->err = (ks_err){(uint16_t)meaning->err};
            failure->throttled = (meaning->traits & THROTTLE) != 0;
            failure->skewed = (meaning->traits & CLOCK) != 0;
            failure->token_expired = (meaning->traits & TOKEN) != 0;
        }
    }
}

static ks_err read_json(ks_view body, struct ks_failure *failure)
{
    struct ks_json *json = NULL;
    ks_view text;

    KS_TRY(ks_json_parse(body, &json));
    if (ks_ok(ks_json_text(ks_json_member(json, "__type"), &text)))
        copy_cut(failure->code, sizeof(failure->code), code_of(text));
    if (ks_ok(ks_json_text(ks_json_member(json, "message"), &text)) ||
        ks_ok(ks_json_text(ks_json_member(json, "Message"), &text)))
        copy_cut(failure->message, sizeof(failure->message), text);
    ks_json_free(json);
    return KS_OK;
}

/* Copies the text of an element; one with an entity that is not of XML itself is copied as it was sent. */
static void copy_element(char *buffer, size_t capacity, ks_view xml, const char *name)
{
    char text[KS_FAILURE_MESSAGE_MAX + 1];
    ks_view content;

    if (!ks_ok(ks_xml_child(xml, name, &content)))
        return;
    if (ks_ok(ks_xml_text(content, text, sizeof(text))))
        content = ks_view_text(text);
    copy_cut(buffer, capacity, content);
}

/* Error with Code and Message. It is the root in S3 (API reference, "REST error responses"). In the AWS Query protocol
 * it is within ErrorResponse (smithy awsQuery, "Operation error serialization"). */
static ks_err read_xml(ks_view body, struct ks_failure *failure)
{
    ks_view xml = body;
    ks_view inner;

    if (ks_ok(ks_xml_child(body, "ErrorResponse", &inner)))
        xml = inner;
    KS_TRY(ks_xml_child(xml, "Error", &xml));
    copy_element(failure->code, sizeof(failure->code), xml, "Code");
    copy_element(failure->message, sizeof(failure->message), xml, "Message");
    return KS_OK;
}

/* A text that is longer than its place is left out; AWS has none in CBOR. */
static ks_err read_cbor_member(ks_view *body, struct ks_failure *failure)
{
    struct ks_cbor_string name;
    struct ks_cbor_string text;
    enum ks_cbor_type type;

    KS_TRY(ks_cbor_text(body, &name));
    bool is_code = ks_cbor_string_is(&name, "__type");
    bool is_message = ks_cbor_string_is(&name, "message") || ks_cbor_string_is(&name, "Message");

    KS_TRY(ks_cbor_peek(*body, &type));
    if ((!is_code && !is_message) || type != KS_CBOR_TEXT)
        return ks_cbor_skip(body);
    KS_TRY(ks_cbor_text(body, &text));

    char copy[KS_FAILURE_MESSAGE_MAX + 1] = "";
    if (!ks_ok(ks_cbor_string_copy_text(&text, copy, sizeof(copy))))
        return KS_OK;
    if (is_code)
        copy_cut(failure->code, sizeof(failure->code), code_of(ks_view_text(copy)));
    else
        copy_cut(failure->message, sizeof(failure->message), ks_view_text(copy));
    return KS_OK;
}

static ks_err read_cbor(ks_view body, struct ks_failure *failure)
{
    struct ks_cbor_container map;
    bool more = true;

    KS_TRY(ks_cbor_map(&body, &map));
    for (;;) {
        KS_TRY(ks_cbor_more(&body, &map, &more));
        if (!more)
            return KS_OK;
        KS_TRY(read_cbor_member(&body, failure));
    }
}

/* Milliseconds, or whole seconds in the header that all of HTTP has; at most an hour is believed.
 */
static int32_t retry_after(ks_view head)
{
    static const uint64_t MS_MAX = 3600 * 1000;
    uint64_t value = 0;

    if (ks_ok(ks_view_u64(ks_head_find(head, "x-amz-retry-after"), &value)))
        return (int32_t)(value < MS_MAX ? value : MS_MAX);
    if (ks_ok(ks_view_u64(ks_head_find(head, "Retry-After"), &value)))
        return (int32_t)(value < MS_MAX / 1000 ? value * 1000 : MS_MAX);
    return -1;
}

ks_view ks_failure_request_id(ks_view head)
{
    const ks_view id = ks_head_find(head, "x-amzn-RequestId");

    return id.data != NULL ? id : ks_head_find(head, "x-amz-request-id");
}

void ks_failure_read(int status, ks_view head, ks_view body, struct ks_failure *ret_failure)
{
    struct ks_failure failure = {.status = status, .retry_after_ms = retry_after(head)};
    ks_view type = ks_head_find(head, "Content-Type");
    ks_view name = ks_head_find(head, "x-amzn-ErrorType");

    /* A body that breaks off may still have told its code: what was read so far counts. */
    ks_err err = ks_view_starts(ks_view_trim(body), KS_VIEW("<")) ? read_xml(body, &failure)
                 : ks_view_starts(type, KS_VIEW("application/x-amz-cbor"))
                     ? read_cbor(body, &failure)
                     : read_json(body, &failure);
    (void)err;
    if (failure.code[0] == '\0')
        copy_cut(failure.code, sizeof(failure.code), code_of(name));
    copy_cut(failure.request_id, sizeof(failure.request_id), ks_failure_request_id(head));
    judge(&failure);
    *ret_failure = failure;
}

void ks_failure_from(int status, ks_view code, ks_view message, struct ks_failure *ret_failure)
{
    struct ks_failure failure = {.status = status, .retry_after_ms = -1};

    copy_cut(failure.code, sizeof(failure.code), code);
    copy_cut(failure.message, sizeof(failure.message), message);
    judge(&failure);
    *ret_failure = failure;
}

void ks_failure_name_request(struct ks_detail *detail, ks_view request_id)
{
    char name[KS_REQUEST_ID_MAX + 16];

    for (size_t at = 0; at < request_id.size; at++) {
        if (request_id.data[at] <= ' ' || request_id.data[at] >= 0x7f)
            return;
    }
    if (request_id.size == 0 || request_id.size > KS_REQUEST_ID_MAX)
        return;
    int size = snprintf(name, sizeof(name), " (request %.*s)", (int)request_id.size,
                        (const char *)request_id.data);
    size_t room = sizeof(detail->text) - 1 - (size_t)size;
    size_t kept = ks_view_whole_characters(ks_view_of(detail->text, strnlen(detail->text, room)));
    memcpy(detail->text + kept, name, (size_t)size + 1);
}

/* Services whose calls a policy of the caller allows; queues and topics are left to adapters/sinks, which name the key
 * of KMS, too. AssumeRoleWithWebIdentity is allowed by the role's trust policy alone. */
static bool has_action(const char *service, const char *operation)
{
    return strcmp(service, "kinesis") == 0 || strcmp(service, "dynamodb") == 0 ||
           (strcmp(service, "STS") == 0 && strcmp(operation, "AssumeRole") == 0);
}

bool ks_failure_is_denied(const struct ks_failure *failure)
{
    return strcmp(failure->code, "AccessDeniedException") == 0 ||
           strcmp(failure->code, "AccessDenied") == 0;
}

void ks_failure_deny(const struct ks_failure *failure, const char *action, const char *resource,
                     struct ks_detail *ret_detail)
{
    ks_detail_set(ret_detail,
                  "access denied: allow %s on %s to this role (kinesis-sidecar iam-policy)%s%s",
                  action, resource, failure->message[0] == '\0' ? "" : ": ", failure->message);
    ks_failure_name_request(ret_detail, ks_view_text(failure->request_id));
}

void ks_failure_explain(const struct ks_failure *failure, const char *service,
                        const char *operation, struct ks_detail *ret_detail)
{
    char advice[128] = "";
    char status[32];
    const char *code = failure->code;

    if (code[0] == '\0') {
        snprintf(status, sizeof(status), "status %d", failure->status);
        code = status;
    }
    if (ks_failure_is_denied(failure) && has_action(service, operation))
        (void)snprintf(advice, sizeof(advice),
                       ": allow %s:%s to this role (kinesis-sidecar iam-policy)",
                       strcmp(service, "STS") == 0 ? "sts" : service, operation);
    ks_detail_set(ret_detail, "%s on %s %s%s%s%s", code, service, operation, advice,
                  failure->message[0] == '\0' ? "" : ": ", failure->message);
    ks_failure_name_request(ret_detail, ks_view_text(failure->request_id));
}
