/* SPDX-License-Identifier: Apache-2.0 */
#include "api/page.h"

#include <assert.h>
#include <stdio.h>

bool ks_page_read(struct ks_exchange *exchange, struct ks_page *ret_page)
{
    uint64_t size;
    uint64_t next;

    if (!ks_request_number(exchange, "page_size", 1, KS_PAGE_SIZE_MAX, KS_PAGE_SIZE, &size) ||
        !ks_request_number(exchange, "page_token", 0, UINT32_MAX - 1, 0, &next))
        return false;
    *ret_page = (struct ks_page){.next = (uint32_t)next, .room = (uint32_t)size};
    return true;
}

void ks_page_end(struct ks_page *page, uint32_t index)
{
    int size = snprintf(page->token, sizeof(page->token), "%u", index);

    assert(size > 0 && (size_t)size < sizeof(page->token));
}
