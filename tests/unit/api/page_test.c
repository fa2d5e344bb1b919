/* SPDX-License-Identifier: Apache-2.0 */
#include "api/page.h"
#include "api/server.h"
#include "ks_test.h"

#include <string.h>

static struct ks_api api = {.request_bytes_max = 1000};
static struct ks_exchange exchange;
static struct ks_page page;

static bool good;

static void handle(struct ks_exchange *with, const ProtobufCMessage *request,
                   struct ks_arena *arena)
{
    (void)arena;
    good = ks_page_read(with, (const ks_pb_page_request *)request, &page);
}

static bool read_page(const char *target)
{
    struct ks_detail detail;

    good = false;
    ks_exchange_init(&exchange, &api, NULL);
    EXPECT_OK(ks_target_parse(ks_view_text(target), &exchange.request.decoded, &detail));
    ks_page_serve(&exchange, handle);
    EXPECT(good == !exchange.answered);
    ks_exchange_end(&exchange);
    return good;
}

/* As a call sends it: absence is a zero. */
static bool read_message(uint32_t size, const char *token)
{
    ks_pb_page_request request;

    kinesis_sidecar__v1__page_request__init(&request);
    request.page_size = size;
    request.page_token = ks_pb_text(token);
    ks_exchange_init(&exchange, &api, NULL);
    handle(&exchange, &request.base, NULL);
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
    EXPECT(!read_message(10001, ""));
    EXPECT(!read_message(1, "next"));
    EXPECT(!read_message(1, "4294967295"));
}

TEST(a_message_without_a_size_means_the_usual_one)
{
    EXPECT(read_message(0, ""));
    EXPECT_EQ_U64(page.room, KS_PAGE_SIZE);
    EXPECT_EQ_U64(page.next, 0);
    EXPECT(read_message(3, "9"));
    EXPECT_EQ_U64(page.room, 3);
    EXPECT_EQ_U64(page.next, 9);
}
