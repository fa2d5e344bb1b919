/* SPDX-License-Identifier: Apache-2.0 */
/* listing.h - all shards of a stream, collected over the pages of ListShards (API reference).
 *
 * The first request names the stream, a page size, and from when on shards are wanted; a request with a
 * NextToken has nothing else beside it. A token lives 300 s: when one has expired the listing begins again, at most
 * KS_LISTING_RESTARTS_MAX times. Pure, but for memory.
 */
#ifndef KS_ADAPTERS_KINESIS_LISTING_H
#define KS_ADAPTERS_KINESIS_LISTING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "ports/stream_source.h"

enum {
    KS_LISTING_SHARDS_MAX = 65536,  /* Open and closed; AWS' default quota is 20,000 open ones. */
    KS_LISTING_PAGE = 1000,         /* ListShards gives no more at once. */
    KS_LISTING_TOKEN_MAX = 1 << 20, /* API reference. */
    KS_LISTING_RESTARTS_MAX = 3
};

struct ks_listing {
    struct ks_shard_listing *shards;
    uint32_t count;
    uint32_t capacity;
    uint32_t restarts;
    int64_t since_ms;      /* Those that were closed before are left out; 0: none. */
    bool widened;          /* `since_ms` is not what was asked for. */
    struct ks_bytes token; /* Of the next page; empty: there is none, or it is the first. */
};

void ks_listing_init(struct ks_listing *listing, int64_t since_ms);
void ks_listing_free(struct ks_listing *listing);

/* Writes the next request's body. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_listing_request(const struct ks_listing *listing, const char *stream,
                                      uint32_t page_size, struct ks_bytes *body);
/* Takes a page in. `ret_more`: there is another one. MALFORMED, FULL (KS_LISTING_SHARDS_MAX), NO_MEMORY. */
KS_MUST_USE ks_err ks_listing_take(struct ks_listing *listing, ks_view body, bool *ret_more);
/* The token has expired: begins again. False if that has happened too often. */
bool ks_listing_restart(struct ks_listing *listing);
/* The server refused the request: true if it may have been the filter. Then it begins again, from five minutes
 * earlier, for the instant may lie before us on the server's clock; then without a filter. */
bool ks_listing_widen(struct ks_listing *listing);

#endif
