/* SPDX-License-Identifier: Apache-2.0 */
/* GET /: the dashboard, a page that asks the API for all it shows (api/dashboard.html). */
#include "api/exchange.h"
#include "api/routes.h"
#include "base/codec.h"
#include "base/digest.h"

#include <assert.h>
#include <stdio.h>

#define TYPE_HTML "text/html; charset=utf-8"

static const uint8_t page[] = {
#include <dashboard.inc>
};

enum { HASH_SIZE = 48, POLICY_SIZE = 512 };

/* What stands between two marks that the page has once. */
static ks_view between(const char *open, const char *close)
{
    const uint8_t *from = memmem(page, sizeof(page), open, strlen(open));
    const uint8_t *to = memmem(page, sizeof(page), close, strlen(close));

    assert(from != NULL && to != NULL && from < to);
    from += strlen(open);
    return ks_view_of(from, (size_t)(to - from));
}

/* The hash by which a policy names what stands in the page itself (CSP level 3, 2.3.1, hash-source). */
static void hash(ks_view text, char ret_hash[HASH_SIZE])
{
    uint8_t digest[KS_SHA256_SIZE];
    size_t size;

    ks_sha256(text, digest);
    size = ks_base64_encode(ks_view_of(digest, sizeof(digest)), ret_hash);
    assert(size < HASH_SIZE);
    ret_hash[size] = '\0';
}

/* Its own script and style run, its own API is asked, and nothing else is possible: not even what a shard's or a
 * client's name would want to be. */
static void write_policy(char ret_policy[POLICY_SIZE])
{
    char script[HASH_SIZE];
    char style[HASH_SIZE];
    int size;

    hash(between("<script>", "</script>"), script);
    hash(between("<style>", "</style>"), style);
    size = snprintf(ret_policy, POLICY_SIZE,
                    "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; "
                    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                    "frame-ancestors 'none'; require-trusted-types-for 'script'",
                    script, style);
    assert(size > 0 && size < POLICY_SIZE);
}

void ks_handle_dashboard(struct ks_exchange *exchange)
{
    char policy[POLICY_SIZE];
    struct ks_bytes body;

    write_policy(policy);
    ks_bytes_init(&body, sizeof(page));
    if (!ks_ok(ks_bytes_append(&body, ks_view_of(page, sizeof(page))))) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return;
    }
    ks_exchange_reply(exchange, 200, TYPE_HTML, &body);
    ks_exchange_header(exchange, "Content-Security-Policy", policy);
    ks_exchange_header(exchange, "X-Content-Type-Options", "nosniff");
    ks_exchange_header(exchange, "Referrer-Policy", "no-referrer");
}
