/* SPDX-License-Identifier: Apache-2.0 */
/* listing.c - any bytes as pages of ListShards: two pages in a row, a line each, and the request for what comes behind
 * them. What was taken in is whole, and a token leads on.
 */
#include "adapters/kinesis/listing.h"

#include "adapters/kinesis/request.h"
#include "base/budget.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool take(struct ks_listing *listing, ks_view page)
{
    uint32_t before = listing->count;
    bool more = false;

    if (!ks_ok(ks_listing_take(listing, page, &more))) {
        assert(listing->count >= before && listing->count <= KS_LISTING_SHARDS_MAX);
        return false;
    }
    assert(more == (listing->token.size > 0));
    for (uint32_t at = before; at < listing->count; at++) {
        const struct ks_shard_listing *shard = &listing->shards[at];
        assert(shard->shard[0] != '\0');
        assert(memchr(shard->shard, '\0', sizeof(shard->shard)) != NULL);
    }
    return more;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_listing listing;
    struct ks_bytes body;
    ks_view rest = ks_view_of(data, size);
    ks_view first = ks_view_cut(&rest, '\n');

    ks_listing_init(&listing, 1000);
    if (take(&listing, first) && rest.data != NULL)
        (void)take(&listing, rest);
    ks_bytes_init(&body, KS_KINESIS_REQUEST_MAX);
    if (ks_ok(ks_listing_request(&listing, "stream", 100, &body)))
        assert(ks_view_is_utf8(ks_bytes_view(&body)));
    ks_bytes_free(&body);
    ks_listing_free(&listing);
    assert(ks_alloc_live() == 0);
    return 0;
}
