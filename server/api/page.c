/* SPDX-License-Identifier: Apache-2.0 */
#include "api/page.h"

#include "api/rpc.h"
#include "api/server.h"
#include "base/budget.h"

#include <assert.h>
#include <stdio.h>

/* A question that waits for fresh rows. */
struct waiting {
    struct ks_look look;
    struct ks_exchange *exchange;
    struct ks_page page;
    ks_rows_answer *answer;
    /* Or a message, and what handles it. */
    const ProtobufCMessage *message;
    struct ks_arena arena;
    ks_message_handler *handler;
};

void ks_page_serve(struct ks_exchange *exchange, ks_message_handler *handler)
{
    ks_pb_page_request request;
    char token[24];
    uint64_t size;
    uint64_t next;

    if (!ks_request_number(exchange, "page_size", 1, KS_PAGE_SIZE_MAX, KS_PAGE_SIZE, &size) ||
        !ks_request_number(exchange, "page_token", 0, UINT32_MAX - 1, 0, &next))
        return;
    kinesis_sidecar__v1__page_request__init(&request);
    (void)snprintf(token, sizeof(token), "%u", (unsigned)next);
    request.page_size = (uint32_t)size;
    request.page_token = token;
    handler(exchange, &request.base, NULL);
}

bool ks_page_read(struct ks_exchange *exchange, const ks_pb_page_request *request,
                  struct ks_page *ret_page)
{
    ks_view token = ks_view_text(request->page_token);
    uint64_t next = 0;

    if (request->page_size > KS_PAGE_SIZE_MAX ||
        (token.size > 0 && (!ks_ok(ks_view_u64(token, &next)) || next >= UINT32_MAX))) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "page_size may be %d at most, page_token is what the last page said",
                            KS_PAGE_SIZE_MAX);
        return false;
    }
    *ret_page = (struct ks_page){
        .next = (uint32_t)next,
        .room = request->page_size == 0 ? KS_PAGE_SIZE : request->page_size,
    };
    return true;
}

void ks_page_end(struct ks_page *page, uint32_t index)
{
    int size = snprintf(page->token, sizeof(page->token), "%u", index);

    assert(size > 0 && (size_t)size < sizeof(page->token));
}

/* ---- Fresh rows ---- */

static void left(struct ks_exchange *exchange)
{
    struct waiting *waiting = exchange->context;

    ks_switchboard_forget_look(&waiting->look);
    ks_arena_free(&waiting->arena);
    ks_free(waiting);
}

static void looked(struct ks_look *look)
{
    struct waiting *entry = KS_LIST_ENTRY(look, struct waiting, look);
    struct waiting waiting = *entry;

    /* Whoever answers may keep a state of its own. */
    waiting.exchange->context = NULL;
    waiting.exchange->closed = NULL;
    ks_free(entry);
    if (waiting.exchange->rpc != NULL)
        ks_rpc_release(waiting.exchange);
    if (waiting.handler == NULL)
        waiting.answer(waiting.exchange, &waiting.page);
    else if (!waiting.exchange->answered) /* What came meanwhile may have been too much. */
        waiting.handler(waiting.exchange, waiting.message, NULL);
    ks_arena_free(&waiting.arena);
    if (waiting.exchange->rpc != NULL)
        ks_rpc_go_on(waiting.exchange);
    ks_exchange_wake(waiting.exchange);
}

/* NULL: what there is must do. */
static struct waiting *begin_waiting(struct ks_exchange *exchange)
{
    struct waiting *waiting = ks_alloc(sizeof(*waiting));

    if (waiting == NULL)
        return NULL;
    ks_link_init(&waiting->look.link);
    waiting->look.done = looked;
    waiting->exchange = exchange;
    if (ks_switchboard_fresh(exchange->subscription->board, &waiting->look)) {
        ks_free(waiting);
        return NULL;
    }
    exchange->context = waiting;
    exchange->closed = left;
    return waiting;
}

void ks_page_when_fresh(struct ks_exchange *exchange, const struct ks_page *page,
                        ks_rows_answer *answer)
{
    struct waiting *waiting = begin_waiting(exchange);

    if (waiting == NULL) {
        answer(exchange, page);
        return;
    }
    waiting->page = *page;
    waiting->answer = answer;
}

bool ks_page_shards_wait(struct ks_exchange *exchange, char *const *shards, size_t count,
                         const ProtobufCMessage *message, struct ks_arena *arena,
                         ks_message_handler *handler)
{
    struct waiting *waiting;
    bool known = true;
    ks_shard ignored;

    for (size_t i = 0; known && i < count; i++)
        known = ks_switchboard_find_shard(exchange->subscription->board, ks_view_text(shards[i]),
                                          &ignored);
    waiting = known || arena == NULL ? NULL : begin_waiting(exchange);
    if (waiting == NULL)
        return false;
    waiting->message = message;
    waiting->handler = handler;
    waiting->arena = *arena;
    ks_arena_init(arena, 0);
    if (exchange->rpc != NULL)
        ks_rpc_hold(exchange);
    return true;
}
