/* SPDX-License-Identifier: Apache-2.0 */
/* SigV4: who asks, with which words AWS turns him away. */
#include "kinesis.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct credential {
    char access_key[128];
    char secret_key[256];
    char token[4096];   /* "": none. */
    int64_t expires_ms; /* 0: never. */
    char denied[64];    /* Operation that it may not do; "": none. */

    /* The signing key of a scope, kept. */
    char scope[320];
    uint8_t key[SHA256_DIGEST_LENGTH];
};

enum { CREDENTIALS_MAX = 64 };
static struct credential credentials[CREDENTIALS_MAX];
static uint32_t credential_count;

const char *credentials_set(const json_t *list)
{
    size_t index;
    json_t *from;

    if (!json_is_array(list) || json_array_size(list) > CREDENTIALS_MAX)
        return "not a list, or too long";
    credential_count = 0;
    json_array_foreach(list, index, from)
    {
        const char *token = json_string_value(json_object_get(from, "token"));
        const char *denied = json_string_value(json_object_get(from, "denied"));
        const char *access_key = json_string_value(json_object_get(from, "access_key"));
        const char *secret_key = json_string_value(json_object_get(from, "secret_key"));
        struct credential *to = &credentials[credential_count];

        if (access_key == NULL || secret_key == NULL)
            return "a credential without its keys";
        *to = (struct credential){.expires_ms =
                                      json_integer_value(json_object_get(from, "expires_ms"))};
        snprintf(to->access_key, sizeof to->access_key, "%s", access_key);
        snprintf(to->secret_key, sizeof to->secret_key, "%s", secret_key);
        snprintf(to->token, sizeof to->token, "%s", token == NULL ? "" : token);
        snprintf(to->denied, sizeof to->denied, "%s", denied == NULL ? "" : denied);
        credential_count++;
    }
    return NULL;
}

/* ---- What the request says ---- */

struct claim {
    char access_key[128];
    char day[16], scope_region[64], service[64], end[32];
    char scope[320];
    char signed_headers[2048];
    char signature[128];
    const char *date; /* X-Amz-Date. */
};

/* The value of `name=..,` in the Authorization; false: it is not there, or too long. */
static bool cut_parameter(const char *authorization, const char *name, char *to, size_t size)
{
    const char *at = strstr(authorization, name);

    if (at == NULL)
        return false;
    at += strlen(name);
    int length = snprintf(to, size, "%.*s", (int)strcspn(at, ", "), at);
    return length > 0 && (size_t)length < size;
}

/* False: refused. */
static bool read_claim(struct call *call, struct claim *claim)
{
    const char *authorization = call_header(call, "authorization");
    char credential[320] = "";
    char wrong[512] = "";
    size_t at = 0;

    if (authorization == NULL) {
        fail(call, "MissingAuthenticationTokenException", "Missing Authentication Token");
        return false;
    }
    if (!cut_parameter(authorization, "Credential=", credential, sizeof credential))
        at += (size_t)snprintf(wrong + at, sizeof wrong - at,
                               "Authorization header requires 'Credential' parameter. ");
    if (!cut_parameter(authorization, "Signature=", claim->signature, sizeof claim->signature))
        at += (size_t)snprintf(wrong + at, sizeof wrong - at,
                               "Authorization header requires 'Signature' parameter. ");
    if (!cut_parameter(authorization, "SignedHeaders=", claim->signed_headers,
                       sizeof claim->signed_headers))
        at += (size_t)snprintf(wrong + at, sizeof wrong - at,
                               "Authorization header requires 'SignedHeaders' parameter. ");
    claim->date = call_header(call, "x-amz-date");
    if (claim->date == NULL)
        at += (size_t)snprintf(wrong + at, sizeof wrong - at,
                               "Authorization header requires existence of either a 'X-Amz-Date' "
                               "or a 'Date' header. ");
    if (at > 0) {
        fail(call, "IncompleteSignatureException", "%sAuthorization=%s", wrong, authorization);
        return false;
    }
    if (sscanf(credential, "%127[^/]/%15[^/]/%63[^/]/%63[^/]/%31s", claim->access_key, claim->day,
               claim->scope_region, claim->service, claim->end) != 5) {
        fail(call, "IncompleteSignatureException",
             "Credential must have exactly 5 slash-delimited elements, e.g. "
             "keyid/date/region/service/term, got '%s'",
             credential);
        return false;
    }
    snprintf(claim->scope, sizeof claim->scope, "%s", credential + strlen(claim->access_key) + 1);
    return true;
}

/* False: refused. */
static bool check_scope(struct call *call, const struct claim *claim)
{
    char wrong[512] = "";

    if (strncmp(claim->date, claim->day, 8) != 0 || strlen(claim->day) != 8)
        snprintf(wrong, sizeof wrong,
                 "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date "
                 "from HTTP: '%s' != '%.8s', from '%s'.",
                 claim->day, claim->date, claim->date);
    else if (strcmp(claim->scope_region, region) != 0)
        snprintf(wrong, sizeof wrong, "Credential should be scoped to a valid region. ");
    else if (strcmp(claim->service, "kinesis") != 0)
        snprintf(wrong, sizeof wrong,
                 "Credential should be scoped to correct service: 'kinesis'. ");
    else if (strcmp(claim->end, "aws4_request") != 0)
        snprintf(wrong, sizeof wrong,
                 "Credential should be scoped with a valid terminator: 'aws4_request'. ");
    if (wrong[0] != '\0')
        fail(call, "InvalidSignatureException", "%s", wrong);
    return wrong[0] == '\0';
}

static void print_date(int64_t unix_ms, char text[20])
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;

    if (gmtime_r(&seconds, &parts) != NULL)
        strftime(text, 20, "%Y%m%dT%H%M%SZ", &parts);
}

/* False: refused. */
static bool check_clock(struct call *call, const struct claim *claim)
{
    struct tm parts = {0};
    char now[20];
    char edge[20];
    const char *end = strptime(claim->date, "%Y%m%dT%H%M%SZ", &parts);

    if (end == NULL || *end != '\0') {
        fail(call, "IncompleteSignatureException",
             "Date must be in ISO-8601 'basic format'. Got '%s'. See "
             "http://en.wikipedia.org/wiki/ISO_8601",
             claim->date);
        return false;
    }
    int64_t ahead_ms = (int64_t)timegm(&parts) * 1000 - now_ms;
    long long minutes = knobs.signature_ms / 60000;
    print_date(now_ms, now);
    if (ahead_ms < -knobs.signature_ms) {
        print_date(now_ms - knobs.signature_ms, edge);
        fail(call, "InvalidSignatureException",
             "Signature expired: %s is now earlier than %s (%s - %lld min.)", claim->date, edge,
             now, minutes);
        return false;
    }
    if (ahead_ms > knobs.signature_ms) {
        print_date(now_ms + knobs.signature_ms, edge);
        fail(call, "InvalidSignatureException",
             "Signature not yet current: %s is still later than %s (%s + %lld min.)", claim->date,
             edge, now, minutes);
        return false;
    }
    return true;
}

/* ---- What it should say ---- */

static void sha256_hex(const void *data, size_t size, char text[2 * SHA256_DIGEST_LENGTH + 1])
{
    static const uint8_t nothing;
    uint8_t digest[SHA256_DIGEST_LENGTH];

    SHA256(size > 0 ? data : &nothing, size, digest);
    hex_of(digest, sizeof digest, text);
}

/* Trimmed, and each run of spaces as one. */
static void add_value(struct bytes *to, const char *value)
{
    bool space = false;
    bool begun = false;

    for (; *value != '\0'; value++) {
        if (*value == ' ' || *value == '\t') {
            space = true;
            continue;
        }
        if (space && begun)
            bytes_add(to, " ", 1);
        bytes_add(to, value, 1);
        space = false;
        begun = true;
    }
}

/* All values of a signed header, joined. */
static void add_header(struct bytes *to, const struct call *call, const char *name, size_t size)
{
    bool first = true;

    bytes_print(to, "%.*s:", (int)size, name);
    for (uint32_t at = 0; at < call->header_count; at++) {
        if (strlen(call->headers[at].name) != size ||
            memcmp(call->headers[at].name, name, size) != 0)
            continue;
        bytes_print(to, "%s", first ? "" : ",");
        add_value(to, call->headers[at].value);
        first = false;
    }
    bytes_print(to, "\n");
}

static void canonical_request(const struct call *call, const struct claim *claim, struct bytes *to)
{
    char digest[2 * SHA256_DIGEST_LENGTH + 1];

    bytes_print(to, "%s\n%.*s\n\n", call->method, (int)strcspn(call->path, "?"), call->path);
    for (const char *at = claim->signed_headers; *at != '\0';) {
        size_t size = strcspn(at, ";");
        add_header(to, call, at, size);
        at += size + (at[size] == ';');
    }
    sha256_hex(bytes_front(&call->body), bytes_size(&call->body), digest);
    bytes_print(to, "\n%s\n%s", claim->signed_headers, digest);
}

static void hmac(const uint8_t *key, size_t key_size, const char *text,
                 uint8_t ret_digest[SHA256_DIGEST_LENGTH])
{
    if (HMAC(EVP_sha256(), key, (int)key_size, (const uint8_t *)text, strlen(text), ret_digest,
             NULL) == NULL)
        die("no HMAC");
}

static const uint8_t *signing_key(struct credential *credential, const struct claim *claim)
{
    const char *const parts[] = {claim->day, claim->scope_region, claim->service, claim->end};
    uint8_t *key = credential->key;
    char secret[300];

    if (strcmp(credential->scope, claim->scope) == 0)
        return key;
    int size = snprintf(secret, sizeof secret, "AWS4%s", credential->secret_key);
    hmac((const uint8_t *)secret, (size_t)size, parts[0], key);
    for (size_t at = 1; at < sizeof parts / sizeof parts[0]; at++)
        hmac(key, SHA256_DIGEST_LENGTH, parts[at], key);
    snprintf(credential->scope, sizeof credential->scope, "%s", claim->scope);
    return key;
}

/* False: refused. */
static bool check_signature(struct call *call, const struct claim *claim,
                            struct credential *credential)
{
    struct bytes canonical = {.data = NULL};
    char digest[2 * SHA256_DIGEST_LENGTH + 1];
    char to_sign[512];
    uint8_t signature[SHA256_DIGEST_LENGTH];
    char expected[2 * SHA256_DIGEST_LENGTH + 1];

    canonical_request(call, claim, &canonical);
    sha256_hex(bytes_front(&canonical), bytes_size(&canonical), digest);
    snprintf(to_sign, sizeof to_sign, "AWS4-HMAC-SHA256\n%s\n%s\n%s", claim->date, claim->scope,
             digest);
    hmac(signing_key(credential, claim), SHA256_DIGEST_LENGTH, to_sign, signature);
    hex_of(signature, sizeof signature, expected);
    bool good = strcmp(expected, claim->signature) == 0;
    if (!good)
        fail(call, "InvalidSignatureException",
             "The request signature we calculated does not match the signature you provided. Check "
             "your AWS Secret Access Key and signing method. Consult the service documentation for "
             "details.\n\nThe Canonical String for this request should have been\n'%s'\n\nThe "
             "String-to-Sign should have been\n'%s'\n",
             (const char *)bytes_front(&canonical), to_sign);
    bytes_free(&canonical);
    return good;
}

/* What must be signed, so that nobody in between can change it. False: refused. */
static bool check_signed_headers(struct call *call, const struct claim *claim)
{
    static const char *const needed[] = {"host", "x-amz-date", "x-amz-target",
                                         "x-amz-security-token"};
    char all[sizeof claim->signed_headers + 2];
    char one[64];

    snprintf(all, sizeof all, ";%s;", claim->signed_headers);
    for (size_t at = 0; at < sizeof needed / sizeof needed[0]; at++) {
        snprintf(one, sizeof one, ";%s;", needed[at]);
        if (call_header(call, needed[at]) == NULL || strstr(all, one) != NULL)
            continue;
        fail(call, "InvalidSignatureException",
             "'%s' must be a 'SignedHeader' in the AWS Authorization.", needed[at]);
        return false;
    }
    return true;
}

static struct credential *find_credential(const struct call *call, const struct claim *claim)
{
    const char *token = call_header(call, "x-amz-security-token");

    for (uint32_t at = 0; at < credential_count; at++) {
        if (strcmp(credentials[at].access_key, claim->access_key) == 0 &&
            strcmp(credentials[at].token, token == NULL ? "" : token) == 0)
            return &credentials[at];
    }
    return NULL;
}

static bool check(struct call *call)
{
    struct claim claim = {.date = NULL};

    if (!read_claim(call, &claim))
        return false;
    struct credential *credential = find_credential(call, &claim);
    if (credential == NULL) {
        fail(call, "UnrecognizedClientException",
             "The security token included in the request is invalid.");
        return false;
    }
    if (!check_scope(call, &claim) || !check_signed_headers(call, &claim) ||
        !check_clock(call, &claim) || !check_signature(call, &claim, credential))
        return false;
    if (credential->expires_ms != 0 && credential->expires_ms <= now_ms) {
        fail(call, "ExpiredTokenException",
             "The security token included in the request is expired");
        return false;
    }
    if (strcmp(credential->denied, call->operation) == 0) {
        fail(call, "AccessDeniedException",
             "User: arn:aws:iam::" ACCOUNT ":user/%s is not authorized to perform: kinesis:%s on "
             "resource: arn:aws:kinesis:%s:" ACCOUNT ":stream/%s because no identity-based policy "
             "allows the kinesis:%s action",
             credential->access_key, call->operation, region, call->stream_name, call->operation);
        return false;
    }
    return true;
}

bool signature_valid(struct call *call)
{
    if (credential_count == 0)
        return true;
    bool valid = check(call);
    counts.signatures_checked++;
    counts.signatures_refused += !valid;
    return valid;
}
