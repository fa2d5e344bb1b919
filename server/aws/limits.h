/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - every maximum of the floor aws/, with its reason. */
#ifndef KS_AWS_LIMITS_H
#define KS_AWS_LIMITS_H

enum {
    /* json: a page of Scan or Query is at most 1 MiB of items, written out about three times as
       long. */
    KS_JSON_BYTES_MAX = 8 * 1024 * 1024,
    /* json: our deepest message has 8 levels; the parser recurses, so that this also bounds the
       stack. */
    KS_JSON_DEPTH_MAX = 32,
    /* cbor: GetRecords nests 5 deep. */
    KS_CBOR_DEPTH_MAX = 32,

    /* http: the whole response head; AWS sends about 500 bytes. */
    KS_HTTP_HEAD_MAX = 32 * 1024,
    /* http: headers of one request; ours have at most 8. */
    KS_HTTP_HEADERS_MAX = 16,
    /* http: name and value of one request header; a session token is the longest. */
    KS_HTTP_HEADER_MAX = 8 * 1024 + 256,
    KS_HTTP_NAME_MAX = 63,
    KS_HTTP_URL_MAX = 2048,
    /* proxy: the list of hosts that are asked directly; the longest seen in clusters has about 1 KB.
     */
    KS_NO_PROXY_MAX = 8 * 1024,
    /* http: calls in flight: a poll for each of 4,096 shards, and lease writes. */
    KS_HTTP_CALLS_MAX = 8192,

    /* credentials: as IAM writes them (20 and 40 characters), with room; STS does not promise a
     * length of the token, known ones have up to 4 KiB. */
    KS_ACCESS_KEY_MAX = 128,
    KS_SECRET_KEY_MAX = 256,
    KS_SESSION_TOKEN_MAX = 8 * 1024,
    /* credentials: token files (JWT); Kubernetes projects about 1.5 KB, STS takes 20,000
       characters. */
    KS_TOKEN_FILE_MAX = 20000,
    /* credentials: a profile file of ~ 2,000 profiles. */
    KS_PROFILE_FILE_MAX = 256 * 1024,
    KS_PROFILE_NAME_MAX = 128,
    /* credentials: the answer of STS or of a container endpoint, around one token. */
    KS_CREDENTIALS_ANSWER_MAX = 64 * 1024,
    /* credentials: what STS takes. */
    KS_ROLE_ARN_MAX = 2048,
    KS_ROLE_SESSION_NAME_MAX = 64,
    KS_EXTERNAL_ID_MAX = 1224,
    /* credentials: roles that are assumed one on top of the other; people need two. */
    KS_ROLES_MAX = 8,
    /* credentials: a credential_process with its arguments. */
    KS_COMMAND_MAX = 4096,
    KS_COMMAND_WORDS_MAX = 64,
    /* credentials: tokens of the instance metadata service have 56 characters, names of roles up to
       64. */
    KS_IMDS_TOKEN_MAX = 1024,
    KS_IMDS_ROLE_MAX = 128,
    KS_PATH_MAX = 4096,

    KS_REGION_MAX = 63, /* It becomes a DNS label. */
    KS_HOST_MAX = 255,  /* RFC 1035. */

    /* failure: codes have up to 45 characters; messages hold names, ARNs and validation lists. */
    KS_FAILURE_CODE_MAX = 95,
    KS_FAILURE_MESSAGE_MAX = 511,
    KS_REQUEST_ID_MAX = 127,

    /* sigv4: a canonical request, the body excepted: all headers and the query. */
    KS_SIGV4_TEXT_MAX = 64 * 1024,
    KS_SIGV4_HEADERS_MAX = 32,
    KS_SIGV4_PARAMETERS_MAX = 64,

    /* client: so long nothing may come of an answer that was asked for. Services begin to answer within a second, or
       say that they cannot; here is room for one that is ten times as slow. A connection that was kept may have been
       forgotten by the network, and the next request finds out on a new one; 5 s is beyond four lost packets in a row
       (RTO_MIN 0.2 s, doubled each time). */
    KS_AWS_SILENCE_MS = 10000,
    KS_AWS_SILENCE_KEPT_MS = 5000,

    /* rest: path, query and headers of a request: two keys of S3 (1,024 bytes each), each byte encoded as three, and
       the ARN of a key of KMS. */
    KS_REST_TEXT_MAX = 8 * 1024,
    /* rest: of KS_HTTP_HEADERS_MAX the client itself sends up to 8. */
    KS_REST_HEADERS_MAX = 6,
    KS_BUCKET_MAX = 63, /* "Bucket naming rules" of S3: 3 to 63. */

    /* client: "Kinesis_20131202.RegisterStreamConsumer" has 39 characters. */
    KS_AWS_TARGET_MAX = 95,
    KS_CONTENT_TYPE_MAX = 63
};

#endif
