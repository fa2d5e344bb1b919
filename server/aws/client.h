/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - a client of one AWS service (Kinesis, DynamoDB, SQS, SNS, S3): a call is credentials, a signature,
 * HTTP, and its failure.
 *
 * A call names an operation and brings a body; its answer comes later on the loop, never inside the
 * call that asked for it, and exactly once, unless it is cancelled: then never.
 *
 * Failed attempts are made again as the standard mode of the SDKs says (aws/retry.h), and here alone:
 * HTTP itself resends nothing, not even when a kept connection turns out to be dead. Reads are made
 * again whatever happened. A `conditional` write leaves a second time only if the first was surely not
 * done; whether an unknown one is done its caller finds out by reading back. A `single_attempt` leaves
 * at most once (*): its caller paces itself.
 * (*) In all modes a request that was refused because of our clock or an expired session token, and is
 * therefore certainly not done, is signed anew and sent once more.
 *
 * Whether a write is done: err KS_OK is done; CONDITION (and any other KS_CLASS_REPORT that came
 * with status 4xx) is not done; everything of KS_CLASS_RETRY, and everything without a status, is
 * UNKNOWN, and `sent` false says that nothing left this machine.
 *
 * S3 answers a request that is signed for another region than the bucket's with the name of that region
 * (x-amz-bucket-region). The client signs for that region from then on, and repeats the request once: a bucket in
 * another region needs no setting. A client without rules reports the failure instead.
 *
 * The clock: signatures carry wall time. When the server refuses it, the difference to the Date of
 * its answer is kept and used from then on. What the service compares with its own times is taken from
 * ks_aws_client_now_ms. Loop thread only.
 */
#ifndef KS_AWS_CLIENT_H
#define KS_AWS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aws/failure.h"
#include "aws/http.h"
#include "aws/rest.h"
#include "base/bytes.h"
#include "base/instant.h"
#include "base/loop.h"

struct ks_aws_client;
struct ks_aws_call;
struct ks_credentials_source;
struct ks_endpoint;
struct ks_endpoint_rules;

/* SNS takes forms and answers in XML (the AWS Query protocol); S3 takes requests of REST and answers in XML; the others
 * take what an X-Amz-Target names. */
enum ks_aws_service { KS_AWS_KINESIS, KS_AWS_DYNAMODB, KS_AWS_SQS, KS_AWS_SNS, KS_AWS_S3 };
enum { KS_AWS_SERVICES = KS_AWS_S3 + 1 };

struct ks_aws_client_options {
    enum ks_aws_service service;
    struct ks_loop *loop;
    struct ks_http *http;                      /* Shared; outlives the client. */
    struct ks_credentials_source *credentials; /* Shared; outlives the client. */
    const struct ks_endpoint *endpoint;        /* Where it asks. Copied. */
    const struct ks_endpoint_rules
        *rules;            /* Not NULL: where depends on the account of the credentials
                                              and on the operation. Copied, its texts borrowed. */
    uint32_t attempts_max; /* Of one call; 0: as the standard mode of the service. */
    ks_span
        silence; /* So long nothing may come; 0: KS_AWS_SILENCE_MS, and less on a kept connection. */
    uint64_t seed; /* For the jitter. */
};

/* NO_MEMORY. */
KS_MUST_USE ks_err ks_aws_client_new(const struct ks_aws_client_options *options,
                                     struct ks_aws_client **ret_client);
/* Forgets its open calls: they are never answered. NULL is allowed. */
void ks_aws_client_free(struct ks_aws_client *client);

struct ks_aws_answer {
    /* KS_OK: status 2xx and a whole body. Of credentials that are not to be had NO_CREDENTIALS, DENIED, or what passes;
     * NOT_FOUND and its like are said by the service alone. */
    ks_err err;
    struct ks_detail detail; /* "ResourceNotFoundException on kinesis GetRecords: Stream s ..". */
    int status;              /* Of HTTP; 0: there was no answer. */
    bool sent;               /* Something may have reached the server, in any attempt. */
    uint32_t attempts;
    const struct ks_failure *failure; /* What the server said; NULL if nothing, or KS_OK. */
    /* All valid during the call of `done`. */
    ks_view content_type;
    ks_view head;       /* The header lines (aws/head.h). */
    ks_view request_id; /* By which AWS knows it; empty if it was not told. */
    ks_view body;       /* Of an error, too. Empty for what went to a sink. */
};

struct ks_aws_request {
    const char *operation;          /* "GetItem"; must live as long as the call: a literal. */
    const char *content_type;       /* NULL: the service's own type. Likewise a literal. */
    const struct ks_aws_rest *rest; /* NULL: a POST to the path of the endpoint. Copied. */
    ks_view body;                   /* Copied. */
    ks_span timeout;     /* Of one attempt, from the moment it is handed to HTTP; of silence
                                 within it: KS_AWS_SILENCE_MS. */
    ks_span total;       /* Of all of them, waits included; then TIMEOUT. 0: no limit. */
    bool conditional;    /* Made again only if it was surely not done. */
    bool single_attempt; /* Never made again. */
    size_t response_max; /* Bytes of body; more is FULL. */
    const struct ks_http_sink *sink; /* For the body of a 2xx; NULL: our memory. Copied. */
    bool stream; /* The answer goes on: as in aws/http.h, with `timeout` for its silence once it has
                    begun. */
    void (*done)(void *arg, const struct ks_aws_answer *answer);
    void *arg;
};

extern const char KS_AWS_JSON_TYPE_1_0[]; /* application/x-amz-json-1.0 */
extern const char KS_AWS_JSON_TYPE_1_1[]; /* application/x-amz-json-1.1 */
extern const char KS_AWS_CBOR_TYPE[];     /* application/x-amz-cbor-1.1 */
extern const char KS_AWS_FORM_TYPE[];     /* application/x-www-form-urlencoded; charset=utf-8 */

/* Begins a call. NO_MEMORY, FULL (too many in flight): then there is no call, and `done` is never
 * called. `ret_call` is good until `done` is called, and may be NULL. */
KS_MUST_USE ks_err ks_aws_call(struct ks_aws_client *client, const struct ks_aws_request *request,
                               struct ks_aws_call **ret_call);
/* Forgets the call: `done` is never called. What has left has left. Not from within the sink. */
void ks_aws_cancel(struct ks_aws_call *call);
/* As ks_http_resume. */
void ks_aws_resume(struct ks_aws_call *call);

/* For readiness and metrics. */
struct ks_aws_state {
    /* KS_LONG_AGO: never. A success is any answer that is no failure of service or access. */
    ks_instant succeeded_at;
    ks_instant failed_at;
    ks_err last_err;              /* Of the last attempt: KS_OK or why it failed. */
    struct ks_detail last_detail; /* Of the last failure. */
    uint32_t failures_in_row;     /* Attempts. */
    int64_t skew_ms;              /* What is added to our clock. */
    uint64_t requests;            /* Attempts that were sent, since the start. */
    uint64_t throttles;           /* Answers that asked for less. */
    uint64_t retries;             /* Attempts after the first one of a call. */
    uint64_t failures; /* Attempts that failed, throttles included, failed conditions not. */
};
void ks_aws_client_state(const struct ks_aws_client *client, struct ks_aws_state *ret_state);

/* Returns what the service's clock shows at least, Unix ms (aws/server_clock.h); 0: it has not answered yet. The wall
 * clock of this machine less a second stands in for a service whose answers have no Date. */
/* The region that requests are signed for. Valid as long as the client. */
const char *ks_aws_client_region(const struct ks_aws_client *client);
int64_t ks_aws_client_now_ms(const struct ks_aws_client *client);

#endif
