/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/trust.h"

#include "fetching.h"
#include "ks_test.h"

#include "http_script.h"

#include <stdio.h>
#include <string.h>

static const struct http_step STEPS[] = {{.body = "secret"}};
static const char LOOPBACK[] = "DNS:localhost,IP:127.0.0.1";

TEST(a_named_bundle_must_be_readable)
{
    struct ks_detail detail;
    const char *path = NULL;

    EXPECT_ERR(ks_trust_find("/nowhere/ca.pem", &path, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "/nowhere/ca.pem");
    EXPECT_ERR(ks_trust_find("/etc/ssl", &path, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "the CA bundle /etc/ssl cannot be read");
    EXPECT(path == NULL);
    EXPECT_OK(ks_trust_find("/dev/null", &path, &detail));
    EXPECT_STR(path, "/dev/null");
}

TEST(without_a_name_it_is_one_of_the_system)
{
    const char *path = NULL;
    const char *other = NULL;

    EXPECT_OK(ks_trust_find(NULL, &path, NULL));
    EXPECT_OK(ks_trust_find("", &other, NULL));
    EXPECT_STR(path, other);
    EXPECT(path[0] == '/');
}

/* Asks a server with this TLS, as one who trusts `bundle`; nothing reaches it unless it is trusted. */
static struct fetched ask(SSL_CTX *tls, const char *bundle)
{
    struct ks_http_options options = {.ca_bundle = bundle};
    struct http_script *script = http_script_start_with(STEPS, 1, tls);
    struct fetched fetched = fetch(&options, http_script_url(script));

    EXPECT_EQ_U64(http_script_count(script), fetched.status == 200 ? 1 : 0);
    EXPECT_EQ_I64(fetched.sent, fetched.status == 200);
    http_script_stop(script);
    return fetched;
}

static void expect_refused(SSL_CTX *tls, const char *bundle, const char *why)
{
    struct fetched fetched = ask(tls, bundle);

    EXPECT_ERR(fetched.err, DENIED);
    EXPECT_EQ_I64(fetched.status, 0);
    EXPECT_CONTAINS(fetched.detail.text, why);
}

TEST(a_server_is_believed_whom_the_bundle_vouches_for)
{
    struct authority *authority = authority_new(ks_test_path("ca.pem"));
    const struct certificate certificate = {.names = LOOPBACK};
    struct fetched fetched =
        ask(certificate_server(authority, &certificate), ks_test_path("ca.pem"));

    EXPECT_OK(fetched.err);
    EXPECT_STR(fetched.body, "secret");
    authority_free(authority);
}

TEST(a_server_that_nobody_vouches_for_is_refused)
{
    struct authority *known = authority_new(ks_test_path("known.pem"));
    struct authority *other = authority_new(ks_test_path("other.pem"));
    const struct certificate certificate = {.names = LOOPBACK};

    expect_refused(certificate_server(other, &certificate), ks_test_path("known.pem"),
                   "certificate");
    /* Neither does the system know it. */
    expect_refused(certificate_server(other, &certificate), NULL, "certificate");
    authority_free(known);
    authority_free(other);
}

TEST(a_server_that_vouches_for_itself_is_refused_unless_it_is_the_bundle)
{
    struct authority *known = authority_new(ks_test_path("known.pem"));
    const struct certificate certificate = {.names = LOOPBACK, .pem_path = ks_test_path("own.pem")};

    expect_refused(certificate_server(NULL, &certificate), ks_test_path("known.pem"),
                   "self-signed certificate");
    EXPECT_OK(ask(certificate_server(NULL, &certificate), ks_test_path("own.pem")).err);
    authority_free(known);
}

TEST(a_certificate_of_another_host_is_refused)
{
    static const char *const names[] = {"DNS:other.example", "IP:127.0.0.2", "DNS:*.0.0.1",
                                        "DNS:127.0.0.1"};
    struct authority *authority = authority_new(ks_test_path("ca.pem"));

    for (size_t at = 0; at < sizeof(names) / sizeof(names[0]); at++) {
        const struct certificate certificate = {.names = names[at]};
        expect_refused(certificate_server(authority, &certificate), ks_test_path("ca.pem"),
                       "127.0.0.1");
    }
    authority_free(authority);
}

TEST(a_certificate_out_of_its_time_is_refused)
{
    static const long spans[][2] = {{-7200, -60}, {3600, 7200}};
    static const char *const whys[] = {"expired", "not yet valid"};
    struct authority *authority = authority_new(ks_test_path("ca.pem"));

    for (int at = 0; at < 2; at++) {
        const struct certificate certificate = {
            .names = LOOPBACK, .from_s = spans[at][0], .to_s = spans[at][1]};
        expect_refused(certificate_server(authority, &certificate), ks_test_path("ca.pem"),
                       whys[at]);
    }
    authority_free(authority);
}

/* A server that speaks versions from `least` to `most` only. */
static struct fetched ask_version(const struct authority *authority, int least, int most)
{
    const struct certificate certificate = {.names = LOOPBACK};
    SSL_CTX *tls = certificate_server(authority, &certificate);

    /* Without it OpenSSL would not speak the old ones on its own account. */
    SSL_CTX_set_security_level(tls, 0);
    EXPECT(SSL_CTX_set_min_proto_version(tls, least) == 1);
    EXPECT(SSL_CTX_set_max_proto_version(tls, most) == 1);
    return ask(tls, ks_test_path("ca.pem"));
}

TEST(tls_is_1_2_or_newer)
{
    static const int old[] = {TLS1_VERSION, TLS1_1_VERSION};
    static const int good[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    struct authority *authority = authority_new(ks_test_path("ca.pem"));

    for (int at = 0; at < 2; at++) {
        struct fetched fetched = ask_version(authority, old[at], old[at]);

        EXPECT_ERR(fetched.err, CONNECTION);
        EXPECT_CONTAINS(fetched.detail.text, "protocol version");
        EXPECT_OK(ask_version(authority, good[at], good[at]).err);
    }
    /* One that would go lower is taken at its best. */
    EXPECT_OK(ask_version(authority, TLS1_VERSION, TLS1_2_VERSION).err);
    authority_free(authority);
}

TEST(a_server_without_tls_is_not_asked_in_the_clear)
{
    struct http_script *script = http_script_start(STEPS, 1);
    struct ks_http_options options = {.ca_bundle = NULL};
    char url[128];

    snprintf(url, sizeof(url), "https%s", strchr(http_script_url(script), ':'));
    struct fetched fetched = fetch(&options, url);
    EXPECT(!ks_ok(fetched.err));
    EXPECT(!fetched.sent);
    EXPECT_EQ_U64(http_script_count(script), 0);
    http_script_stop(script);
}
