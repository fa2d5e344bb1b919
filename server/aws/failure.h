/* SPDX-License-Identifier: Apache-2.0 */
/* failure.h - what an AWS service means by an answer that is no success.
 *
 * The AWS JSON and CBOR protocols put the code into the body's `__type` (cut at the first ':', then
 * what follows the last '#'), or into the header x-amzn-ErrorType; the text into `message` or
 * `Message`. In XML (SNS, STS, S3) they are Code and Message of the element Error. Sources: botocore parsers.py, the
 * smithy AWS JSON 1.0/1.1, AWS Query and REST-XML protocols, and retries/standard.py for what counts as a throttle. A
 * body that cannot be read, or none at all,
 * still gives a failure: by the status. Pure.
 */
#ifndef KS_AWS_FAILURE_H
#define KS_AWS_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

#include "aws/limits.h"
#include "base/bytes.h"
#include "base/err.h"

struct ks_failure {
    char code[KS_FAILURE_CODE_MAX +
              1]; /* "ResourceNotFoundException"; "" if none was said. Cut if too long. */
    char message[KS_FAILURE_MESSAGE_MAX + 1]; /* Likewise; whole UTF-8 characters. */
    char request_id[KS_REQUEST_ID_MAX + 1];   /* x-amzn-RequestId, or x-amz-request-id of S3. */
    int status;
    ks_err err;             /* What it means to us; never KS_OK. */
    bool throttled;         /* The server asks for less. */
    bool skewed;            /* It may be about our clock. */
    bool token_expired;     /* Or the keys are not known any more: others may be had. */
    int32_t retry_after_ms; /* x-amz-retry-after, or Retry-After in seconds; -1: not said. */
};

/* Reads it. `head` is the response's header lines as ks_http_answer has them; `status` is not 2xx.
 */
void ks_failure_read(int status, ks_view head, ks_view body, struct ks_failure *ret_failure);

/* The id of the request in the header lines of an answer; its data is NULL if there is none. */
ks_view ks_failure_request_id(ks_view head);

/* Fills a failure from a code and message that were found elsewhere (the XML of STS); both are cut
 * if too long. */
void ks_failure_from(int status, ks_view code, ks_view message, struct ks_failure *ret_failure);

/* Writes the failure as a sentence: "CODE on SERVICE OPERATION: MESSAGE (request ID)", with the status where no code
 * was said. Of a call that a policy denied the action stands before the message: "allow kinesis:GetRecords to this role
 * (kinesis-sidecar iam-policy)". What does not fit is cut from the message. */
void ks_failure_explain(const struct ks_failure *failure, const char *service,
                        const char *operation, struct ks_detail *ret_detail);

/* Returns true if a policy denied the call: no wrong key, signature or clock. */
bool ks_failure_is_denied(const struct ks_failure *failure);

/* Writes the sentence for a denied call whose resource is known: "access denied: allow ACTION on RESOURCE to this role
 * (..): MESSAGE (request ID)". */
void ks_failure_deny(const struct ks_failure *failure, const char *action, const char *resource,
                     struct ks_detail *ret_detail);

/* Whoever asks AWS what happened needs the request: adds " (request ID)" to what is told, which is cut for it. An id
 * that is empty, too long or no printable ASCII adds nothing. */
void ks_failure_name_request(struct ks_detail *detail, ks_view request_id);

#endif
