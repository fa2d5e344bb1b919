/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/names.h"

#include "base/budget.h"

#include <assert.h>
#include <string.h>

static ks_view name_of(const void *owner, uint32_t number)
{
    const struct ks_names *names = owner;

    return ks_view_of(names->texts + number * names->stride, names->entries[number].size);
}

ks_err ks_names_init(struct ks_names *names, uint32_t first, uint32_t end, size_t text_max)
{
    uint32_t slots = 2;
    uint32_t *map;

    assert(first < end);
    assert(end <= UINT32_MAX / 4);
    assert(text_max <= UINT16_MAX);

    while (slots < 2 * end)
        slots *= 2;
    *names = (struct ks_names){.first = first, .end = end, .fresh = first, .stride = text_max + 1};
    names->entries = ks_alloc(end * sizeof *names->entries);
    names->texts = ks_alloc(end * names->stride);
    map = ks_alloc(slots * sizeof *map);
    ks_map_init(&names->map, map, slots, name_of, names);
    if (names->entries != NULL && names->texts != NULL && map != NULL)
        return KS_OK;

    ks_names_free(names);
    return KS_FAIL(NO_MEMORY);
}

void ks_names_free(struct ks_names *names)
{
    ks_free(names->entries);
    ks_free(names->texts);
    ks_free(names->map.slots);
    *names = (struct ks_names){.first = 0};
}

/* A number that stands for nothing. FULL if there is none. */
static ks_err free_number(struct ks_names *names, uint32_t *ret_number)
{
    uint32_t number;

    if (names->fresh < names->end) {
        *ret_number = names->fresh++;
        return KS_OK;
    }
    if (names->spare == 0)
        return KS_FAIL(FULL);

    for (number = names->first; names->entries[number].size != 0; number++)
        assert(number + 1 < names->end);
    names->spare--;
    *ret_number = number;
    return KS_OK;
}

ks_err ks_names_add(struct ks_names *names, ks_view text, ks_instant now, uint32_t *ret_number)
{
    uint32_t number;
    ks_err added;

    if (text.size == 0 || text.size >= names->stride || memchr(text.data, 0, text.size) != NULL)
        return KS_FAIL(INVALID);
    if (ks_names_find(names, text, ret_number)) {
        names->entries[*ret_number].touched = now;
        return KS_OK;
    }

    KS_TRY(free_number(names, &number));
    memcpy(names->texts + number * names->stride, text.data, text.size);
    names->texts[number * names->stride + text.size] = '\0';
    names->entries[number].touched = now;
    names->entries[number].size = (uint16_t)text.size;
    added = ks_map_add(&names->map, number);
    assert(ks_ok(added)); /* It has twice the slots. */
    *ret_number = number;
    return KS_OK;
}

bool ks_names_find(const struct ks_names *names, ks_view text, uint32_t *ret_number)
{
    return text.size != 0 && ks_map_find(&names->map, text, ret_number);
}

static bool in_use(const struct ks_names *names, uint32_t number)
{
    return number >= names->first && number < names->fresh && names->entries[number].size != 0;
}

const char *ks_names_text(const struct ks_names *names, uint32_t number)
{
    return in_use(names, number) ? names->texts + number * names->stride : "";
}

uint32_t ks_names_handle(const struct ks_names *names, uint32_t number)
{
    if (!in_use(names, number))
        return KS_NAMES_NONE;
    assert(number < KS_NAMES_HANDLED_MAX);
    return (uint32_t)names->entries[number].life << 16 | number;
}

uint32_t ks_names_number(const struct ks_names *names, uint32_t handle)
{
    uint32_t number = handle & UINT16_MAX;

    return in_use(names, number) && names->entries[number].life == handle >> 16 ? number
                                                                                : KS_NAMES_NONE;
}

bool ks_names_room(const struct ks_names *names)
{
    return names->fresh < names->end || names->spare > 0;
}

void ks_names_touch(struct ks_names *names, uint32_t number, ks_instant now)
{
    if (in_use(names, number))
        names->entries[number].touched = now;
}

void ks_names_sweep(struct ks_names *names, ks_instant before,
                    void (*freed)(void *arg, uint32_t number), void *arg)
{
    for (uint32_t number = names->first; number < names->fresh; number++) {
        if (!in_use(names, number) || !ks_instant_before(names->entries[number].touched, before))
            continue;
        ks_map_remove(&names->map, number);
        names->entries[number].size = 0;
        names->entries[number].life++;
        names->spare++;
        freed(arg, number);
    }
}
