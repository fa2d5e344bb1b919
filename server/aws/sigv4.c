/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/sigv4.h"

#include "base/codec.h"

#include <assert.h>
#include <string.h>

/* With those that the signer adds. */
enum { HEADERS_MAX = KS_SIGV4_HEADERS_MAX + 3 };

/* --- Encoding --- */

static bool is_unreserved(uint8_t byte)
{
    return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
           (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_' || byte == '~';
}

static ks_err append_encoded(struct ks_bytes *bytes, uint8_t byte)
{
    static const char HEX[] = "0123456789ABCDEF";

    if (is_unreserved(byte))
        return ks_bytes_append_byte(bytes, byte);
    return ks_bytes_append(bytes,
                           ks_view_of((const char[]){'%', HEX[byte >> 4], HEX[byte & 15]}, 3));
}

ks_err ks_sigv4_encode(struct ks_bytes *bytes, ks_view text, const char *others)
{
    for (size_t at = 0; at < text.size; at++) {
        const uint8_t byte = text.data[at];

        if (byte != '\0' && strchr(others, byte) != NULL)
            KS_TRY(ks_bytes_append_byte(bytes, byte));
        else
            KS_TRY(append_encoded(bytes, byte));
    }
    return KS_OK;
}

/* --- Path --- */

/* Appends `path` without empty and dot segments, as RFC 3986 5.2.4 does, and with one slash for
 * many. */
static ks_err append_normalized(struct ks_bytes *bytes, ks_view path)
{
    size_t begin = bytes->size;
    bool ends_with_slash = true;

    while (path.data != NULL) {
        ks_view segment = ks_view_cut(&path, '/');
        bool up = ks_view_equal(segment, KS_VIEW(".."));

        ends_with_slash = segment.size == 0 || up || ks_view_equal(segment, KS_VIEW("."));
        while (up && bytes->size > begin && bytes->data[--bytes->size] != '/') {}
        if (ends_with_slash)
            continue;
        KS_TRY(ks_bytes_append_byte(bytes, '/'));
        for (size_t at = 0; at < segment.size; at++)
            KS_TRY(append_encoded(bytes, segment.data[at]));
    }
    return ends_with_slash ? ks_bytes_append_byte(bytes, '/') : KS_OK;
}

static ks_err append_path(struct ks_bytes *bytes, const struct ks_sigv4_request *request)
{
    ks_view path = request->path;

    if (!request->path_as_is)
        return append_normalized(bytes, path);
    if (path.size == 0)
        return ks_bytes_append_byte(bytes, '/');
    return ks_sigv4_encode(bytes, path, "/");
}

/* --- Query --- */

struct parameter {
    ks_view name;
    ks_view value;
};

/* Bytewise, as the signature sorts. */
static int compare(ks_view a, ks_view b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size == 0 ? 0 : memcmp(a.data, b.data, size);

    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

/* Appends `text` in its canonical encoding, whether it was encoded already or not; `bytes` must
 * have room. */
static ks_err append_reencoded(struct ks_bytes *bytes, ks_view text, ks_view *ret_text)
{
    size_t begin = bytes->size;

    for (size_t at = 0; at < text.size; at++) {
        uint8_t byte = text.data[at];

        if (byte == '%' && text.size - at > 2 &&
            ks_ok(ks_hex_decode(ks_view_of(text.data + at + 1, 2), &byte)))
            at += 2;
        KS_TRY(append_encoded(bytes, byte));
    }
    *ret_text = ks_view_of(bytes->data + begin, bytes->size - begin);
    return KS_OK;
}

static ks_err append_sorted(struct ks_bytes *bytes, struct ks_bytes *room, ks_view query)
{
    struct parameter sorted[KS_SIGV4_PARAMETERS_MAX];
    size_t count = 0;

    while (query.data != NULL) {
        ks_view value = ks_view_cut(&query, '&');
        struct parameter parameter;
        size_t at = count;

        if (value.size == 0)
            continue;
        if (count == KS_SIGV4_PARAMETERS_MAX)
            return KS_FAIL(INVALID);
        KS_TRY(append_reencoded(room, ks_view_cut(&value, '='), &parameter.name));
        KS_TRY(append_reencoded(room, value, &parameter.value));
        for (; at > 0; at--) {
            int order = compare(sorted[at - 1].name, parameter.name);
            if (order < 0 || (order == 0 && compare(sorted[at - 1].value, parameter.value) <= 0))
                break;
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = parameter;
        count++;
    }

    for (size_t at = 0; at < count; at++) {
        if (at > 0)
            KS_TRY(ks_bytes_append_byte(bytes, '&'));
        KS_TRY(ks_bytes_append(bytes, sorted[at].name));
        KS_TRY(ks_bytes_append_byte(bytes, '='));
        KS_TRY(ks_bytes_append(bytes, sorted[at].value));
    }
    return KS_OK;
}

static ks_err append_query(struct ks_bytes *bytes, ks_view query)
{
    struct ks_bytes room;

    if (query.size == 0)
        return KS_OK;
    /* Encoded, a byte takes three: with that much room at once the views into it stay where they
     * are. */
    ks_bytes_init(&room, KS_SIGV4_TEXT_MAX);
    ks_err err = query.size <= KS_SIGV4_TEXT_MAX / 3 ? ks_bytes_reserve(&room, 3 * query.size)
                                                     : KS_FAIL(FULL);
    if (ks_ok(err))
        err = append_sorted(bytes, &room, query);
    ks_bytes_free(&room);
    return err;
}

/* --- Headers --- */

static bool is_signed(ks_view name)
{
    static const char *const NEVER[] = {
        "authorization", "connection",        "expect",  "keep-alive", "te",
        "trailer",       "transfer-encoding", "upgrade", "user-agent", "x-amzn-trace-id"};

    for (size_t at = 0; at < sizeof(NEVER) / sizeof(NEVER[0]); at++) {
        if (ks_view_equal_nocase(name, ks_view_text(NEVER[at])))
            return false;
    }
    return name.size < 6 || !ks_view_equal_nocase(ks_view_of(name.data, 6), KS_VIEW("proxy-"));
}

static uint8_t lower(uint8_t byte)
{
    return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + 32) : byte;
}

static int compare_names(ks_view a, ks_view b)
{
    for (size_t at = 0; at < a.size && at < b.size; at++) {
        if (lower(a.data[at]) != lower(b.data[at]))
            return lower(a.data[at]) < lower(b.data[at]) ? -1 : 1;
    }
    return (a.size > b.size) - (a.size < b.size);
}

struct sorted_headers {
    struct ks_http_header list[HEADERS_MAX];
    uint32_t count;
};

/* Headers of one name keep their order. */
static void insert_header(struct sorted_headers *headers, ks_view name, ks_view value)
{
    uint32_t at = headers->count++;

    assert(at < HEADERS_MAX);
    for (; at > 0 && compare_names(headers->list[at - 1].name, name) > 0; at--)
        headers->list[at] = headers->list[at - 1];
    headers->list[at] = (struct ks_http_header){name, value};
}

static bool is_space(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Trimmed, and with one space for many; a folded line is white space. */
static ks_err append_value(struct ks_bytes *bytes, ks_view value)
{
    size_t begin = bytes->size;
    size_t at = 0;

    while (at < value.size) {
        size_t word = at;

        while (at < value.size && !is_space(value.data[at]))
            at++;
        if (at > word && bytes->size > begin)
            KS_TRY(ks_bytes_append_byte(bytes, ' '));
        KS_TRY(ks_bytes_append(bytes, ks_view_of(value.data + word, at - word)));
        while (at < value.size && is_space(value.data[at]))
            at++;
    }
    return KS_OK;
}

static ks_err append_name(struct ks_bytes *bytes, ks_view name)
{
    for (size_t at = 0; at < name.size; at++)
        KS_TRY(ks_bytes_append_byte(bytes, lower(name.data[at])));
    return KS_OK;
}

static ks_err append_headers(struct ks_bytes *bytes, struct ks_bytes *names,
                             const struct sorted_headers *headers)
{
    for (uint32_t at = 0; at < headers->count; at++) {
        ks_view name = headers->list[at].name;
        bool again = at > 0 && compare_names(headers->list[at - 1].name, name) == 0;

        if (again) {
            bytes->size--; /* Its end of line; the values of one name stand in one line. */
            KS_TRY(ks_bytes_append_byte(bytes, ','));
        } else {
            KS_TRY(names->size > 0 ? ks_bytes_append_byte(names, ';') : KS_OK);
            KS_TRY(append_name(names, name));
            KS_TRY(append_name(bytes, name));
            KS_TRY(ks_bytes_append_byte(bytes, ':'));
        }
        KS_TRY(append_value(bytes, headers->list[at].value));
        KS_TRY(ks_bytes_append_byte(bytes, '\n'));
    }
    return KS_OK;
}

/* --- The three texts --- */

/* "20260102T030405Z" */
static ks_err format_date(int64_t unix_ms, char ret_date[KS_SIGV4_DATE_SIZE])
{
    static const int64_t YEAR_10000 = INT64_C(253402300800000);
    char rfc3339[KS_TIMESTAMP_SIZE]; /* "2026-01-02T03:04:05.000Z" */

    if (unix_ms < 0 || unix_ms >= YEAR_10000)
        return KS_FAIL(INVALID);
    ks_timestamp_format(unix_ms, rfc3339);
    memcpy(ret_date, rfc3339, 4);
    memcpy(ret_date + 4, rfc3339 + 5, 2);
    memcpy(ret_date + 6, rfc3339 + 8, 5);
    memcpy(ret_date + 11, rfc3339 + 14, 2);
    memcpy(ret_date + 13, rfc3339 + 17, 2);
    memcpy(ret_date + 15, "Z", 2);
    return KS_OK;
}

static void hash_hex(ks_view message, char ret_hex[2 * KS_SHA256_SIZE + 1])
{
    uint8_t digest[KS_SHA256_SIZE];

    ks_sha256(message, digest);
    ks_hex_encode(ks_view_of(digest, sizeof(digest)), ret_hex);
    ret_hex[2 * KS_SHA256_SIZE] = '\0';
}

ks_err ks_sigv4_canonical(const struct ks_sigv4_request *request, struct ks_bytes *bytes,
                          struct ks_bytes *names)
{
    struct sorted_headers headers = {.count = 0};
    char date[KS_SIGV4_DATE_SIZE];
    char body_hash[2 * KS_SHA256_SIZE + 1];

    KS_TRY(format_date(request->unix_ms, date));
    hash_hex(request->body, body_hash);
    if (request->header_count > KS_SIGV4_HEADERS_MAX)
        return KS_FAIL(INVALID);
    for (uint32_t at = 0; at < request->header_count; at++) {
        if (is_signed(request->headers[at].name))
            insert_header(&headers, request->headers[at].name, request->headers[at].value);
    }
    insert_header(&headers, KS_VIEW("x-amz-date"), ks_view_text(date));
    if (request->with_body_hash)
        insert_header(&headers, KS_VIEW("x-amz-content-sha256"), ks_view_text(body_hash));
    if (request->token.size > 0 && !request->token_unsigned)
        insert_header(&headers, KS_VIEW("x-amz-security-token"), request->token);

    KS_TRY(ks_bytes_append(bytes, request->method));
    KS_TRY(ks_bytes_append_byte(bytes, '\n'));
    KS_TRY(append_path(bytes, request));
    KS_TRY(ks_bytes_append_byte(bytes, '\n'));
    KS_TRY(append_query(bytes, request->query));
    KS_TRY(ks_bytes_append_byte(bytes, '\n'));
    KS_TRY(append_headers(bytes, names, &headers));
    KS_TRY(ks_bytes_append_byte(bytes, '\n'));
    KS_TRY(ks_bytes_append(bytes, ks_bytes_view(names)));
    KS_TRY(ks_bytes_append_byte(bytes, '\n'));
    return ks_bytes_append(bytes, ks_view_text(body_hash));
}

ks_err ks_sigv4_string_to_sign(const struct ks_sigv4_request *request, ks_view canonical,
                               struct ks_bytes *bytes)
{
    char date[KS_SIGV4_DATE_SIZE];
    char hash[2 * KS_SHA256_SIZE + 1];

    KS_TRY(format_date(request->unix_ms, date));
    hash_hex(canonical, hash);
    return ks_bytes_format(bytes, "AWS4-HMAC-SHA256\n%s\n%.8s/%s/%s/aws4_request\n%s", date, date,
                           request->region, request->service, hash);
}

/* --- Signing --- */

static void chain(uint8_t key[KS_SHA256_SIZE], const char *text)
{
    uint8_t mac[KS_SHA256_SIZE];

    ks_hmac_sha256(ks_view_of(key, KS_SHA256_SIZE), ks_view_text(text), mac);
    memcpy(key, mac, KS_SHA256_SIZE);
}

/* Makes signer->key the key of this day, region, service and secret. */
static ks_err find_key(struct ks_sigv4_signer *signer, const struct ks_sigv4_request *request,
                       const char *date)
{
    char first[4 + KS_SECRET_KEY_MAX + 1] = "AWS4";

    if (memcmp(signer->key_date, date, 8) == 0 &&
        strcmp(signer->key_region, request->region) == 0 &&
        strcmp(signer->key_service, request->service) == 0 &&
        ks_view_equal(ks_view_text(signer->key_secret), request->secret_key))
        return KS_OK;

    signer->key_date[0] = '\0'; /* No key, until all of it is known. */
    if (!ks_ok(ks_view_copy_text(request->secret_key, signer->key_secret,
                                 sizeof(signer->key_secret))) ||
        !ks_ok(ks_view_copy_text(ks_view_text(request->region), signer->key_region,
                                 sizeof(signer->key_region))) ||
        !ks_ok(ks_view_copy_text(ks_view_text(request->service), signer->key_service,
                                 sizeof(signer->key_service))))
        return KS_FAIL(INVALID);

    char day[9] = "";
    memcpy(day, date, 8);
    memcpy(first + 4, signer->key_secret, request->secret_key.size);
    ks_hmac_sha256(ks_view_of(first, 4 + request->secret_key.size), ks_view_text(day), signer->key);
    explicit_bzero(first, sizeof(first));
    chain(signer->key, request->region);
    chain(signer->key, request->service);
    chain(signer->key, "aws4_request");
    memcpy(signer->key_date, day, sizeof(day));
    return KS_OK;
}

void ks_sigv4_init(struct ks_sigv4_signer *signer)
{
    *signer = (struct ks_sigv4_signer){.key_date = ""};
    ks_bytes_init(&signer->canonical, KS_SIGV4_TEXT_MAX);
    ks_bytes_init(&signer->names, KS_SIGV4_TEXT_MAX);
    ks_bytes_init(&signer->text, KS_SIGV4_TEXT_MAX);
}

void ks_sigv4_free(struct ks_sigv4_signer *signer)
{
    ks_bytes_free(&signer->canonical);
    ks_bytes_free(&signer->names);
    ks_bytes_free(&signer->text);
    explicit_bzero(signer, sizeof(*signer));
}

ks_err ks_sigv4_sign(struct ks_sigv4_signer *signer, const struct ks_sigv4_request *request,
                     struct ks_sigv4_signature *ret_signature)
{
    struct ks_sigv4_signature signature = {.date = ""};
    uint8_t mac[KS_SHA256_SIZE];
    char hex[2 * KS_SHA256_SIZE + 1] = "";

    ks_bytes_clear(&signer->canonical);
    ks_bytes_clear(&signer->names);
    ks_bytes_clear(&signer->text);
    KS_TRY(format_date(request->unix_ms, signature.date));
    KS_TRY(find_key(signer, request, signature.date));
    KS_TRY(ks_sigv4_canonical(request, &signer->canonical, &signer->names));
    KS_TRY(ks_sigv4_string_to_sign(request, ks_bytes_view(&signer->canonical), &signer->text));
    ks_hmac_sha256(ks_view_of(signer->key, sizeof(signer->key)), ks_bytes_view(&signer->text), mac);
    ks_hex_encode(ks_view_of(mac, sizeof(mac)), hex);

    ks_bytes_clear(&signer->text);
    KS_TRY(ks_bytes_format(&signer->text,
                           "AWS4-HMAC-SHA256 Credential=%.*s/%.8s/%s/%s/aws4_request, "
                           "SignedHeaders=%.*s, Signature=%s",
                           (int)request->access_key.size, (const char *)request->access_key.data,
                           signature.date, request->region, request->service,
                           (int)signer->names.size, (const char *)signer->names.data, hex));
    /* The end of the canonical request is the hash of the body. */
    memcpy(signature.body_hash, signer->canonical.data + signer->canonical.size - 64, 64);
    signature.authorization = ks_bytes_view(&signer->text);
    *ret_signature = signature;
    return KS_OK;
}
