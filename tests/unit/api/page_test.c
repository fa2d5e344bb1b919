/* SPDX-License-Identifier: Apache-2.0 */
#include "api/page.h"
#include "api/server.h"
#include "ks_test.h"

#include <string.h>

static struct ks_api api = {.request_bytes_max = 1000};
static struct ks_exchange exchange;
static struct ks_page page;

static bool read_page(const char *target)
{
    struct ks_detail detail;
    bool good;

    ks_exchange_init(&exchange, &api, NULL);
    EXPECT_OK(ks_target_parse(ks_view_text(target), &exchange.request.decoded, &detail));
    good = ks_page_read(&exchange, &page);
    EXPECT(good == !exchange.answered);
    ks_exchange_end(&exchange);
    return good;
}

TEST(a_page_has_a_size_and_a_place)
{
    EXPECT(read_page("/"));
    EXPECT_EQ_U64(page.room, KS_PAGE_SIZE);
    EXPECT_EQ_U64(page.next, 0);
    EXPECT(read_page("/?page_size=5&page_token=17"));
    EXPECT_EQ_U64(page.room, 5);
    EXPECT_EQ_U64(page.next, 17);
    ks_page_end(&page, 4294967294);
    EXPECT_STR(page.token, "4294967294");
}

TEST(bad_sizes_and_tokens_are_refused)
{
    EXPECT(!read_page("/?page_size=0"));
    EXPECT(!read_page("/?page_size=10001"));
    EXPECT(!read_page("/?page_token=-1"));
    EXPECT(!read_page("/?page_token=next"));
}
