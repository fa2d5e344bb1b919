/* SPDX-License-Identifier: Apache-2.0 */
/* sigv4_test.c - our signatures against those of others.
 *
 * tests/vectors/sigv4.json and sigv4_random.json are ours, signed by botocore. In VECTORS_DIR,
 * where it is set: sigv4/v4 (the suite of awslabs/aws-c-auth, its part with the signature in the
 * header) and sigv4/kinesis-dynamodb.json.
 */
#include "ks_test.h"

#include "aws/sigv4.h"
#include "base/codec.h"
#include "vectors/vectors.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 64 * 1024, BODY_MAX = 2 << 20 };

/* What a case must give. */
struct expected {
    const char *canonical;
    const char *string_to_sign;
    const char *authorization;
};

static void expect_bytes(const char *name, const char *what, ks_view actual, const char *expected)
{
    if (!ks_view_equal(actual, ks_view_text(expected)))
        FAIL("%s: %s is\n%.*s\nand not\n%s", name, what, (int)actual.size,
             (const char *)actual.data, expected);
}

static void expect_signature(struct ks_sigv4_signer *signer, const char *name,
                             const struct ks_sigv4_request *request,
                             const struct expected *expected)
{
    struct ks_bytes canonical;
    struct ks_bytes names;
    struct ks_bytes to_sign;
    struct ks_sigv4_signature signature;

    ks_bytes_init(&canonical, KS_SIGV4_TEXT_MAX);
    ks_bytes_init(&names, KS_SIGV4_TEXT_MAX);
    ks_bytes_init(&to_sign, KS_SIGV4_TEXT_MAX);
    EXPECT_OK(ks_sigv4_canonical(request, &canonical, &names));
    expect_bytes(name, "the canonical request", ks_bytes_view(&canonical), expected->canonical);
    EXPECT_OK(ks_sigv4_string_to_sign(request, ks_bytes_view(&canonical), &to_sign));
    expect_bytes(name, "the string to sign", ks_bytes_view(&to_sign), expected->string_to_sign);
    EXPECT_OK(ks_sigv4_sign(signer, request, &signature));
    expect_bytes(name, "the authorization", signature.authorization, expected->authorization);
    ks_bytes_free(&canonical);
    ks_bytes_free(&names);
    ks_bytes_free(&to_sign);
}

/* --- Ours, and the file of the same kind in VECTORS_DIR --- */

static uint32_t read_header_list(const json_t *list, struct ks_http_header *headers)
{
    uint32_t count = 0;

    for (size_t at = 0; at < json_array_size(list); at++) {
        const json_t *pair = json_array_get(list, at);
        EXPECT(count < KS_SIGV4_HEADERS_MAX);
        headers[count].name = ks_view_text(json_string_value(json_array_get(pair, 0)));
        headers[count].value = ks_view_text(json_string_value(json_array_get(pair, 1)));
        count++;
    }
    return count;
}

static uint32_t read_header_object(json_t *object, struct ks_http_header *headers)
{
    uint32_t count = 0;
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        EXPECT(count < KS_SIGV4_HEADERS_MAX);
        headers[count].name = ks_view_text(name);
        headers[count].value = ks_view_text(json_string_value(value));
        count++;
    }
    return count;
}

/* One piece of the body in hex, and how often it repeats. */
static ks_view read_body(const json_t *one, uint8_t *buffer)
{
    ks_view hex = ks_view_text(vectors_text(one, "body_hex"));
    size_t repeats = (size_t)json_integer_value(json_object_get(one, "body_repeats"));
    size_t size = hex.size / 2;

    repeats = repeats == 0 ? 1 : repeats;
    EXPECT(size * repeats <= BODY_MAX);
    for (size_t at = 0; at < repeats; at++)
        EXPECT_OK(ks_hex_decode(hex, buffer + at * size));
    return ks_view_of(buffer, size * repeats);
}

/* A case of ours as a request; `headers` and `body` are its room. */
static struct ks_sigv4_request request_of(const json_t *one, struct ks_http_header *headers,
                                          uint8_t *body)
{
    return (struct ks_sigv4_request){
        .method = ks_view_text(vectors_text(one, "method")),
        .path = ks_view_text(vectors_text(one, "path")),
        .query = ks_view_text(vectors_text(one, "query")),
        .headers = headers,
        .header_count = read_header_list(json_object_get(one, "headers"), headers),
        .body = read_body(one, body),
        .access_key = ks_view_text(vectors_text(one, "access_key")),
        .secret_key = ks_view_text(vectors_text(one, "secret_key")),
        .token = ks_view_text(vectors_text(one, "token")),
        .region = vectors_text(one, "region"),
        .service = vectors_text(one, "service"),
        .unix_ms = json_integer_value(json_object_get(one, "unix_ms")),
    };
}

TEST(own_requests_are_signed_as_botocore_does)
{
    static uint8_t body[BODY_MAX];
    struct ks_sigv4_signer signer;
    json_t *root = vectors_load("tests/vectors/sigv4.json");
    const json_t *cases = json_object_get(root, "cases");

    ks_sigv4_init(&signer);
    for (size_t at = 0; at < json_array_size(cases); at++) {
        const json_t *one = json_array_get(cases, at);
        struct ks_http_header headers[KS_SIGV4_HEADERS_MAX];
        struct ks_sigv4_request request = request_of(one, headers, body);
        struct expected expected = {vectors_text(one, "canonical"),
                                    vectors_text(one, "string_to_sign"),
                                    vectors_text(one, "authorization")};
        expect_signature(&signer, vectors_text(one, "name"), &request, &expected);
    }
    vectors_read(json_array_size(cases), 20, "tests/vectors/sigv4.json");
    ks_sigv4_free(&signer);
    json_decref(root);
}

/* One signer for all of them, so that it keeps keys that are right for some and wrong for others.
 */
TEST(requests_that_were_made_up_are_signed_as_botocore_does)
{
    static uint8_t body[BODY_MAX];
    struct ks_sigv4_signer signer;
    json_t *root = vectors_load("tests/vectors/sigv4_random.json");
    const json_t *cases = json_object_get(root, "cases");

    ks_sigv4_init(&signer);
    for (size_t at = 0; at < json_array_size(cases); at++) {
        const json_t *one = json_array_get(cases, at);
        struct ks_http_header headers[KS_SIGV4_HEADERS_MAX];
        struct ks_sigv4_request request = request_of(one, headers, body);
        struct ks_sigv4_signature signature;

        EXPECT_OK(ks_sigv4_sign(&signer, &request, &signature));
        expect_bytes(vectors_text(one, "name"), "the authorization", signature.authorization,
                     vectors_text(one, "authorization"));
    }
    vectors_read(json_array_size(cases), 250, "tests/vectors/sigv4_random.json");
    ks_sigv4_free(&signer);
    json_decref(root);
}

TEST(the_file_of_service_requests_agrees)
{
    static uint8_t body[BODY_MAX];
    char path[VECTORS_PATH_MAX];
    struct ks_sigv4_signer signer;

    if (!vectors_path("sigv4/kinesis-dynamodb.json", "requests of Kinesis and DynamoDB", path))
        return;
    json_t *root = vectors_load(path);
    const json_t *cases = json_object_get(root, "cases");

    ks_sigv4_init(&signer);
    for (size_t at = 0; at < json_array_size(cases); at++) {
        const json_t *one = json_array_get(cases, at);
        const json_t *out = json_object_get(one, "headers_out");
        struct ks_http_header headers[KS_SIGV4_HEADERS_MAX];
        struct ks_sigv4_request request = {
            .method = ks_view_text(vectors_text(one, "method")),
            .path = ks_view_text(vectors_text(one, "path")),
            .headers = headers,
            .header_count = read_header_object(json_object_get(one, "headers_in"), headers),
            .body = read_body(one, body),
            .access_key = KS_VIEW("AKIDEXAMPLE"),
            .secret_key = KS_VIEW("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            .token = ks_view_text(vectors_text(one, "session_token")),
            .region = vectors_text(one, "region"),
            .service = vectors_text(one, "service"),
        };
        struct expected expected = {vectors_text(one, "canonical_request"),
                                    vectors_text(one, "string_to_sign"),
                                    vectors_text(out, "Authorization")};
        EXPECT_OK(ks_timestamp_parse(KS_VIEW("2026-01-02T03:04:05Z"), &request.unix_ms));
        expect_signature(&signer, vectors_text(one, "name"), &request, &expected);
    }
    vectors_read(json_array_size(cases), 1, path);
    ks_sigv4_free(&signer);
    json_decref(root);
}

/* --- The public suite: a folder for each case --- */

static char *read_file(const char *folder, const char *name, const char *file, char *buffer)
{
    char path[1024];

    snprintf(path, sizeof(path), "%s/%s/%s", folder, name, file);
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        FAIL("%s is not there", path);
    size_t size = fread(buffer, 1, TEXT_MAX - 1, stream);
    buffer[size] = '\0';
    fclose(stream);
    return buffer;
}

/* Reads "GET /path?query HTTP/1.1", header lines (folded ones begin with white space) and a body.
 */
static void read_request(char *text, struct ks_sigv4_request *request,
                         struct ks_http_header *headers)
{
    ks_view rest = ks_view_text(text);
    ks_view line = ks_view_cut(&rest, '\n');
    uint32_t count = 0;

    request->method = ks_view_cut(&line, ' ');
    EXPECT(line.size > 9);
    ks_view target =
        ks_view_of(line.data, line.size - 9); /* Before " HTTP/1.1"; it may hold spaces. */
    request->path = ks_view_cut(&target, '?');
    request->query = target;

    while (rest.data != NULL) {
        line = ks_view_cut(&rest, '\n');
        if (line.size == 0)
            break;
        if (line.data[0] == ' ') {
            struct ks_http_header *last = &headers[count - 1];
            last->value.size = (size_t)(line.data + line.size - last->value.data);
            continue;
        }
        EXPECT(count < KS_SIGV4_HEADERS_MAX);
        headers[count].name = ks_view_cut(&line, ':');
        headers[count++].value = line;
    }
    request->headers = headers;
    request->header_count = count;
    request->body = rest;
}

static void run_suite_case(struct ks_sigv4_signer *signer, const char *folder, const char *name)
{
    static char text[4][TEXT_MAX];
    struct ks_http_header headers[KS_SIGV4_HEADERS_MAX];
    struct ks_sigv4_request request = {.header_count = 0};
    char path[1024];
    char authorization[2 * TEXT_MAX];

    snprintf(path, sizeof(path), "%s/%s/context.json", folder, name);
    json_t *context = vectors_load(path);
    const json_t *keys = json_object_get(context, "credentials");
    request.access_key = ks_view_text(vectors_text(keys, "access_key_id"));
    request.secret_key = ks_view_text(vectors_text(keys, "secret_access_key"));
    request.token = ks_view_text(vectors_text(keys, "token"));
    request.region = vectors_text(context, "region");
    request.service = vectors_text(context, "service");
    request.path_as_is = json_is_false(json_object_get(context, "normalize"));
    request.with_body_hash = json_is_true(json_object_get(context, "sign_body"));
    request.token_unsigned = json_is_true(json_object_get(context, "omit_session_token"));
    EXPECT_OK(
        ks_timestamp_parse(ks_view_text(vectors_text(context, "timestamp")), &request.unix_ms));
    read_request(read_file(folder, name, "request.txt", text[0]), &request, headers);

    /* Of the signed request only the line that we make is compared: the others are the request's
     * own. */
    const char *begin =
        strstr(read_file(folder, name, "header-signed-request.txt", text[1]), "\nAuthorization:");
    EXPECT(begin != NULL);
    begin += strlen("\nAuthorization:");
    snprintf(authorization, sizeof(authorization), "%.*s", (int)strcspn(begin, "\n"), begin);
    struct expected expected = {
        read_file(folder, name, "header-canonical-request.txt", text[2]),
        read_file(folder, name, "header-string-to-sign.txt", text[3]),
        authorization,
    };
    expect_signature(signer, name, &request, &expected);
    json_decref(context);
}

TEST(the_public_suite_agrees)
{
    char folder[VECTORS_PATH_MAX];
    struct ks_sigv4_signer signer;
    size_t count = 0;

    if (!vectors_path("sigv4/v4", "cases of the public suite", folder))
        return;
    DIR *directory = opendir(folder);
    EXPECT(directory != NULL);
    ks_sigv4_init(&signer);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        run_suite_case(&signer, folder, entry->d_name);
        count++;
    }
    closedir(directory);
    ks_sigv4_free(&signer);
    vectors_read(count, 38, folder);
}
