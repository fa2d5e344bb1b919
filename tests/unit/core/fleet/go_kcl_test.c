/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/protocol.h"

#include <stddef.h>

#include "ks_test.h"
#include "unit/core/fleet/peers_bed.h"

#define NS(seconds) ((uint64_t)(PEERS_WALL_US / 1000000 + (seconds)) * UINT64_C(1000000000))

TEST(a_lease_that_is_renewed_is_not_taken_though_our_clock_is_an_hour_ahead)
{
    peers_live(KS_PROTOCOL_GO_KCL);
    for (int seconds = 0; seconds < 40; seconds += 5) {
        struct ks_lease_row row = peers_row(BED_OTHER, NS(-3600 + 10 + seconds));

        peers_look(&row);
        EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
        peers_wait(3400);
        peers_look(&row);
        EXPECT(bed_asked(&peers_bed, KS_STORE_TAKE_OVER) == NULL);
        peers_wait(1600);
    }
}

TEST(what_has_run_out_and_stands_still_is_taken_as_it_was_read)
{
    struct ks_lease_row row = peers_row(BED_OTHER, NS(5));
    const struct ks_store_effect *taken;
    uint32_t looks = 0;

    peers_live(KS_PROTOCOL_GO_KCL);
    do {
        peers_look(&row);
        taken = bed_asked(&peers_bed, KS_STORE_TAKE_OVER);
    } while (taken == NULL && ++looks < 20);
    EXPECT(taken != NULL);
    EXPECT(peers_wall_us >=
           PEERS_WALL_US + 6000000); /* Five seconds, and what clocks may differ by. */
    EXPECT(taken->rev == row.rev && taken->owner.worker == BED_OTHER);
    EXPECT(taken->next_rev % UINT64_C(1000000000) == 0);
    EXPECT(taken->next_rev >= (uint64_t)(peers_wall_us + 10000000) * 1000);
}
