/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/proxy.h"

#include "fetching.h"
#include "ks_test.h"

#include "http_script.h"
#include "tunnel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void forget_environment(void)
{
    static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY",
                                        "no_proxy",    "NO_PROXY",    "all_proxy",  "ALL_PROXY"};

    for (size_t at = 0; at < sizeof(names) / sizeof(names[0]); at++)
        EXPECT(unsetenv(names[at]) == 0);
}

static struct ks_proxies proxies_of(const char *https, const char *http, const char *none)
{
    struct ks_proxies proxies;

    forget_environment();
    EXPECT(setenv("HTTPS_PROXY", https, 1) == 0);
    EXPECT(setenv("HTTP_PROXY", http, 1) == 0);
    EXPECT(setenv("NO_PROXY", none, 1) == 0);
    EXPECT_OK(ks_proxies_read(&proxies, NULL));
    return proxies;
}

static const char *proxy_for(const struct ks_proxies *proxies, const char *url)
{
    struct ks_url parts;

    EXPECT_OK(ks_url_split(ks_view_text(url), &parts));
    return ks_proxies_find(proxies, &parts);
}

/* --- The rules --- */

TEST(each_scheme_has_its_proxy)
{
    struct ks_proxies proxies = proxies_of("http://secure:3128", "plain:8080", "");

    EXPECT_STR(proxy_for(&proxies, "https://kinesis.eu-west-1.amazonaws.com/"),
               "http://secure:3128");
    EXPECT_STR(proxy_for(&proxies, "http://emulator:4567/"), "http://plain:8080");
    proxies = proxies_of("", "plain", "");
    EXPECT_STR(proxy_for(&proxies, "https://host/"), "");
    EXPECT_STR(proxy_for(&proxies, "http://host/"), "http://plain:80");
    forget_environment();
    EXPECT_OK(ks_proxies_read(&proxies, NULL));
    EXPECT_STR(proxy_for(&proxies, "https://host/"), "");
}

TEST(lower_case_wins)
{
    struct ks_proxies proxies;

    (void)proxies_of("upper:1", "upper:2", "upper");
    EXPECT(setenv("https_proxy", "lower:1", 1) == 0);
    EXPECT(setenv("http_proxy", "lower:2", 1) == 0);
    EXPECT(setenv("no_proxy", "lower", 1) == 0);
    EXPECT_OK(ks_proxies_read(&proxies, NULL));
    EXPECT_STR(proxies.https, "http://lower:1");
    EXPECT_STR(proxies.http, "http://lower:2");
    EXPECT_STR(proxies.none, "lower");
}

TEST(a_proxy_is_written_with_scheme_and_port)
{
    static const struct {
        const char *said;
        const char *meant;
    } cases[] = {{"proxy", "http://proxy:80"},
                 {"proxy:3128", "http://proxy:3128"},
                 {"http://proxy", "http://proxy:80"},
                 {"http://proxy:3128/", "http://proxy:3128"},
                 {"https://proxy", "https://proxy:443"},
                 {"http://10.0.0.1:1", "http://10.0.0.1:1"},
                 {"[fd00::1]:3128", "http://[fd00::1]:3128"},
                 {"me:pass@proxy:1", "http://me:pass@proxy:1"},
                 {"http://me:p%40ss@proxy:1", "http://me:p%40ss@proxy:1"},
                 {"http://me:p@ss@proxy:1", "http://me:p@ss@proxy:1"}};

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++)
        EXPECT_STR(proxies_of(cases[at].said, "", "").https, cases[at].meant);
}

TEST(what_is_no_proxy_is_named_without_its_password)
{
    static const char *const broken[] = {"socks5://proxy:1080",
                                         "http://",
                                         "http://proxy:0",
                                         "http://proxy/path",
                                         "http://a b:1",
                                         "proxy:port",
                                         "me:secret@",
                                         "http://p?q",
                                         "http://me:secret@p:x",
                                         "http://me:se cret@p",
                                         "socks5://me:secret@p:1",
                                         "ftp://proxy:21"};
    struct ks_proxies proxies;
    struct ks_detail detail;

    for (size_t at = 0; at < sizeof(broken) / sizeof(broken[0]); at++) {
        forget_environment();
        EXPECT(setenv("HTTPS_PROXY", broken[at], 1) == 0);
        if (ks_ok(ks_proxies_read(&proxies, &detail)))
            FAIL("'%s' was taken as %s", broken[at], proxies.https);
        EXPECT_CONTAINS(detail.text, "HTTPS_PROXY is no proxy");
        EXPECT(strstr(detail.text, "secret") == NULL);
        EXPECT(strstr(detail.text, "se cret") == NULL);
    }
}

TEST(a_list_beyond_its_limit_is_refused)
{
    static char list[KS_NO_PROXY_MAX + 2];
    struct ks_proxies proxies;
    struct ks_detail detail;

    memset(list, 'x', sizeof(list) - 1);
    forget_environment();
    EXPECT(setenv("no_proxy", list, 1) == 0);
    EXPECT_ERR(ks_proxies_read(&proxies, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "no_proxy is longer");
}

TEST(what_is_listed_is_asked_directly)
{
    static const struct {
        const char *none;
        const char *url;
        bool direct;
    } cases[] = {
        {"*", "https://any.example/", true},
        {"example.com", "https://example.com/", true},
        {"example.com", "https://a.b.example.com/", true},
        {"example.com", "https://EXAMPLE.Com/", true},
        {"example.com", "https://example.com./", true},
        {"example.com", "https://notexample.com/", false},
        {"example.com", "https://example.com.evil/", false},
        {".example.com", "https://a.example.com/", true},
        {".example.com", "https://example.com/", true},
        {"*.example.com", "https://a.example.com/", true},
        {"*.example.com", "https://anexample.com/", false},
        {"com", "https://example.com/", true},
        {".", "https://example.com/", false},
        {"", "https://example.com/", false},
        {",,", "https://example.com/", false},
        {"one.example, two.example ,three.example", "https://two.example/", true},
        {"one.example, two.example ,three.example", "https://three.example/", true},
        {"one.example, two.example ,three.example", "https://four.example/", false},
        {".vpce.amazonaws.com", "https://vpce-1.kinesis.eu-west-1.vpce.amazonaws.com/", true},
        {"example.com:443", "https://example.com/", true},
        {"example.com:443", "https://example.com:8443/", false},
        {"example.com:8443", "https://a.example.com:8443/", true},
        {"example.com:x", "https://example.com/", false},
        {"10.0.0.0/8", "https://10.1.2.3/", true},
        {"10.0.0.0/8", "https://11.1.2.3/", false},
        {"10.128.0.0/9", "https://10.127.0.1/", false},
        {"10.128.0.0/9", "https://10.200.0.1/", true},
        {"10.0.0.0/33", "https://10.0.0.0/", false},
        {"0.0.0.0/0", "https://10.0.0.1/", true},
        {"0.0.0.0/0", "https://example.com/", false},
        {"10.0.0.0/8", "https://10.example.com/", false},
        {"10.1.2.3", "https://10.1.2.3/", true},
        {"10.1.2.3:443", "https://10.1.2.3/", true},
        {"10.1.2.3:80", "https://10.1.2.3/", false},
        {"2.3", "https://10.1.2.3/", false},
        {"fd00::/8", "https://[fd12::1]/", true},
        {"fd00::/8", "https://[fe00::1]/", false},
        {"fd12:0::1", "https://[fd12::1]/", true},
        {"[fd12::1]", "https://[fd12::1]/", true},
        {"[fd12::1]:443", "https://[fd12::1]/", true},
        {"[fd12::1]:80", "https://[fd12::1]/", false},
        {"::/0", "https://10.0.0.1/", false},
    };

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        struct ks_proxies proxies = proxies_of("proxy:1", "", cases[at].none);

        if ((proxy_for(&proxies, cases[at].url)[0] == '\0') != cases[at].direct)
            FAIL("no_proxy '%s', %s: direct %d", cases[at].none, cases[at].url, !cases[at].direct);
    }
}

TEST(what_is_near_never_goes_through_a_proxy)
{
    static const char *const near[] = {
        "http://localhost:4566/",         "http://127.0.0.1/",       "http://127.9.9.9/",
        "http://169.254.170.2/v2",        "http://169.254.169.254/", "http://[::1]:80/",
        "http://[fd00:ec2::254]/latest/", "http://[fe80::1]/",       "https://LOCALHOST/"};
    static const char *const far[] = {"http://localhost.example/", "http://128.0.0.1/",
                                      "http://[fd00:ec3::1]/", "http://169.253.0.1/"};
    struct ks_proxies proxies = proxies_of("proxy:1", "proxy:1", "");

    for (size_t at = 0; at < sizeof(near) / sizeof(near[0]); at++)
        EXPECT_STR(proxy_for(&proxies, near[at]), "");
    for (size_t at = 0; at < sizeof(far) / sizeof(far[0]); at++)
        EXPECT_STR(proxy_for(&proxies, far[at]), "http://proxy:1");
}

/* --- With a proxy --- */

static const struct http_step STEPS[] = {{.body = "answer"}};

/* A service that only the proxy can find: its name leads nowhere. */
struct world {
    struct authority *authority;
    struct http_script *service;
    struct tunnel *tunnel;
    struct ks_proxies proxies;
    struct ks_http_options options;
    char url[128];
};

static void open_world(struct world *world, const char *names, const char *refusal, SSL_CTX *tls)
{
    const struct certificate certificate = {.names = names};

    world->authority = authority_new(ks_test_path("ca.pem"));
    world->service =
        http_script_start_with(STEPS, 1, certificate_server(world->authority, &certificate));
    world->tunnel = tunnel_start(http_script_url(world->service), refusal, tls);
    world->proxies = (struct ks_proxies){.none = ""};
    snprintf(world->proxies.https, sizeof(world->proxies.https), "%s://me:pass@%s",
             tls == NULL ? "http" : "https", tunnel_address(world->tunnel));
    snprintf(world->url, sizeof(world->url), "https://kinesis.test%s",
             strrchr(http_script_url(world->service), ':'));
    world->options =
        (struct ks_http_options){.ca_bundle = ks_test_path("ca.pem"), .proxies = &world->proxies};
}

static void close_world(struct world *world)
{
    tunnel_stop(world->tunnel);
    http_script_stop(world->service);
    authority_free(world->authority);
}

TEST(https_goes_through_a_tunnel_that_sees_only_the_host)
{
    struct world world;

    open_world(&world, "DNS:kinesis.test", NULL, NULL);
    struct fetched fetched = fetch(&world.options, world.url);
    EXPECT_OK(fetched.err);
    EXPECT_STR(fetched.body, "answer");
    EXPECT_EQ_U64(tunnel_count(world.tunnel), 1);
    EXPECT_CONTAINS(tunnel_head(world.tunnel), "CONNECT kinesis.test:");
    /* me:pass, for the proxy; and nothing that is for the service. */
    EXPECT_CONTAINS(tunnel_head(world.tunnel), "Proxy-Authorization: Basic bWU6cGFzcw==\r\n");
    EXPECT(strstr(tunnel_head(world.tunnel), "signature") == NULL);
    EXPECT_CONTAINS(http_script_request(world.service, 0), "Authorization: signature\r\n");
    EXPECT(strstr(http_script_request(world.service, 0), "Proxy-") == NULL);
    close_world(&world);
}

TEST(the_service_behind_the_tunnel_is_verified)
{
    struct world world;

    open_world(&world, "DNS:other.test", NULL, NULL);
    struct fetched fetched = fetch(&world.options, world.url);
    EXPECT_ERR(fetched.err, DENIED);
    EXPECT(!fetched.sent);
    EXPECT_EQ_U64(tunnel_count(world.tunnel), 1);
    EXPECT_EQ_U64(http_script_count(world.service), 0);
    close_world(&world);
}

TEST(a_proxy_that_refuses_is_named_and_nothing_was_sent)
{
    struct world world;

    open_world(&world, "DNS:kinesis.test", "407 Proxy Authentication Required", NULL);
    struct fetched fetched = fetch(&world.options, world.url);
    EXPECT_ERR(fetched.err, CONNECTION);
    EXPECT_CONTAINS(fetched.detail.text, "407");
    EXPECT(strstr(fetched.detail.text, "pass") == NULL);
    EXPECT(!fetched.sent);
    EXPECT_EQ_I64(fetched.status, 0);
    EXPECT_EQ_U64(http_script_count(world.service), 0);
    close_world(&world);
}

TEST(without_the_proxy_nothing_is_sent)
{
    struct world world;

    open_world(&world, "DNS:kinesis.test", NULL, NULL);
    snprintf(world.proxies.https, sizeof(world.proxies.https), "http://127.0.0.1:1");
    struct fetched fetched = fetch(&world.options, world.url);
    EXPECT_ERR(fetched.err, CONNECTION);
    EXPECT(!fetched.sent);
    close_world(&world);
}

TEST(a_proxy_may_speak_tls_and_is_verified)
{
    const struct certificate good = {.names = "IP:127.0.0.1", .pem_path = ks_test_path("own.pem")};
    const struct certificate other = {.names = "IP:127.0.0.2"};
    struct authority *authority = authority_new(ks_test_path("proxy.pem"));
    struct world world;

    /* It is the bundle of the service that must vouch for the proxy, too. */
    open_world(&world, "DNS:kinesis.test", NULL, certificate_server(authority, &good));
    struct fetched fetched = fetch(&world.options, world.url);
    EXPECT_ERR(fetched.err, DENIED);
    EXPECT(!fetched.sent);
    EXPECT_EQ_U64(tunnel_count(world.tunnel), 0);
    tunnel_stop(world.tunnel);

    /* And its name must be the right one. */
    world.tunnel = tunnel_start(http_script_url(world.service), NULL,
                                certificate_server(world.authority, &other));
    snprintf(world.proxies.https, sizeof(world.proxies.https), "https://%s",
             tunnel_address(world.tunnel));
    EXPECT_ERR(fetch(&world.options, world.url).err, DENIED);
    EXPECT_EQ_U64(tunnel_count(world.tunnel), 0);
    tunnel_stop(world.tunnel);

    world.tunnel = tunnel_start(http_script_url(world.service), NULL,
                                certificate_server(world.authority, &good));
    snprintf(world.proxies.https, sizeof(world.proxies.https), "https://%s",
             tunnel_address(world.tunnel));
    EXPECT_OK(fetch(&world.options, world.url).err);
    EXPECT_EQ_U64(tunnel_count(world.tunnel), 1);
    close_world(&world);
    authority_free(authority);
}

/* What the environment says is not asked behind our back. */
TEST(the_environment_is_read_by_nobody_else)
{
    struct world world;

    open_world(&world, "DNS:kinesis.test", NULL, NULL);
    forget_environment();
    EXPECT(setenv("no_proxy", "*", 1) == 0);
    EXPECT_OK(fetch(&world.options, world.url).err);
    EXPECT_EQ_U64(tunnel_count(world.tunnel), 1);

    EXPECT(unsetenv("no_proxy") == 0);
    EXPECT(setenv("https_proxy", world.proxies.https, 1) == 0);
    world.options.proxies = NULL;
    EXPECT_ERR(fetch(&world.options, world.url).err, CONNECTION);
    EXPECT_EQ_U64(tunnel_count(world.tunnel), 1);
    close_world(&world);
}

TEST(a_direct_request_goes_through_no_proxy)
{
    struct world world;

    open_world(&world, "DNS:kinesis.test", NULL, NULL);
    struct fetched fetched =
        fetch_as(&world.options, world.url, (struct ks_http_request){.direct = true});
    EXPECT_ERR(fetched.err, CONNECTION);
    EXPECT(!fetched.sent);
    EXPECT_EQ_U64(tunnel_count(world.tunnel), 0);
    close_world(&world);
}

/* Of http:// the proxy sees all, and asks in our name. */
TEST(http_is_handed_to_the_proxy_as_a_whole)
{
    struct http_script *proxy = http_script_start(STEPS, 1);
    struct ks_proxies proxies = {.none = ""};
    struct ks_http_options options = {.proxies = &proxies};

    snprintf(proxies.http, sizeof(proxies.http), "%s", http_script_url(proxy));
    struct fetched fetched = fetch(&options, "http://emulator.test:4567/path");
    EXPECT_OK(fetched.err);
    EXPECT_STR(fetched.body, "answer");
    EXPECT_CONTAINS(http_script_request(proxy, 0),
                    "POST http://emulator.test:4567/path HTTP/1.1\r\n");
    EXPECT_CONTAINS(http_script_request(proxy, 0), "Host: emulator.test:4567\r\n");
    http_script_stop(proxy);
}
