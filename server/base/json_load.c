/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_load.h"

#include <setjmp.h>

#include "base/budget.h"
#include "base/list.h"

/* What was taken since the parsing began. Afterwards its pieces know each other and no head. Of each thread: a value is
 * read and freed by one. */
static _Thread_local struct ks_link taken;
static _Thread_local bool loading;
static _Thread_local jmp_buf without_memory;

/* Each piece behind its link. */
static void *allocate(size_t size)
{
    struct ks_link *link = ks_alloc(sizeof(*link) + size);

    if (link == NULL && loading)
        longjmp(without_memory, 1);
    if (link == NULL)
        return NULL;
    if (taken.next == NULL)
        ks_link_init(&taken);
    ks_list_append(&taken, link);
    return link + 1;
}

static void release(void *memory)
{
    struct ks_link *link = memory;

    if (memory == NULL)
        return;
    link--;
    ks_list_remove(link);
    ks_free(link);
}

/* From the start: nothing of jansson's is older. */
__attribute__((constructor)) static void give_memory(void)
{
    json_set_alloc_funcs(allocate, release);
}

static void release_all(void)
{
    while (!ks_list_empty(&taken))
        release(taken.next + 1);
}

ks_err ks_json_load(ks_view text, size_t flags, json_t **ret_value, json_error_t *ret_error)
{
    json_t *value;

    if (taken.next == NULL)
        ks_link_init(&taken);
    ks_list_remove(&taken);
    loading = true;
    if (setjmp(without_memory) != 0) {
        loading = false;
        release_all();
        return KS_FAIL(NO_MEMORY);
    }
    value = json_loadb((const char *)text.data, text.size, flags, ret_error);
    loading = false;
    if (value == NULL)
        return KS_FAIL(MALFORMED);
    *ret_value = value;
    return KS_OK;
}
