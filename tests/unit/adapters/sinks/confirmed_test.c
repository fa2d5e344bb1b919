/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sinks/confirmed.h"

#include "base/budget.h"
#include "ks_test.h"

#include <stdio.h>

static struct ks_sink_confirmed *confirmed;
static char text[32];

static ks_view id(uint32_t number)
{
    (void)snprintf(text, sizeof(text), "shard.%u.0", number);
    return ks_view_text(text);
}

static void begin(void)
{
    confirmed = ks_alloc(sizeof(*confirmed));
    EXPECT(confirmed != NULL);
}

static void end(void)
{
    ks_free(confirmed);
}

TEST(letter_is_remembered_until_it_is_removed)
{
    begin();
    EXPECT(!ks_sink_confirmed_has(confirmed, id(1)));
    ks_sink_confirmed_remove(confirmed, id(1));
    for (uint32_t at = 0; at < 5; at++) {
        ks_sink_confirmed_add(confirmed, id(at));
        ks_sink_confirmed_add(confirmed, id(at));
    }
    EXPECT_EQ_U64(confirmed->count, 5);
    ks_sink_confirmed_remove(confirmed, id(1));
    ks_sink_confirmed_remove(confirmed, id(4));
    for (uint32_t at = 0; at < 6; at++)
        EXPECT(ks_sink_confirmed_has(confirmed, id(at)) == (at == 0 || at == 2 || at == 3));
    end();
}

TEST(full_memory_forgets_the_oldest)
{
    begin();
    for (uint32_t at = 0; at < KS_SINK_CONFIRMED_MAX + 3; at++)
        ks_sink_confirmed_add(confirmed, id(at));
    EXPECT_EQ_U64(confirmed->count, KS_SINK_CONFIRMED_MAX);
    EXPECT(!ks_sink_confirmed_has(confirmed, id(2)));
    EXPECT(ks_sink_confirmed_has(confirmed, id(3)));
    EXPECT(ks_sink_confirmed_has(confirmed, id(KS_SINK_CONFIRMED_MAX + 2)));
    end();
}
