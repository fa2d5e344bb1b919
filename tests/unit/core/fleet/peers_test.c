/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fleet/peers.h"

#include <stddef.h>

#include "ks_test.h"
#include "unit/core/fleet/peers_bed.h"

#define NS(seconds) ((uint64_t)(PEERS_WALL_US / 1000000 + (seconds)) * UINT64_C(1000000000))

TEST(a_take_begins_with_the_row_that_it_wrote_and_no_other)
{
    struct ks_lease_row row = peers_row(0, NS(-100));
    const struct ks_store_effect *asked;
    uint64_t next;

    peers_live(KS_PROTOCOL_GO_KCL);
    peers_look(&row);
    asked = bed_asked(&peers_bed, KS_STORE_ASSIGN);
    EXPECT(asked != NULL);
    next = asked->next_rev;
    ks_core_wall(peers_bed.core, peers_wall_us);
    bed_answer(&peers_bed, asked->token, KS_UNKNOWN);
    asked = bed_asked(&peers_bed, KS_STORE_READ_LEASE);
    EXPECT(asked != NULL);
    row = peers_row(BED_ME, next + UINT64_C(1000000000)); /* Somebody else under our name. */
    bed_answer_lease(&peers_bed, asked->token, &row);
    EXPECT(bed_effect(&peers_bed, KS_EFFECT_OPEN, 0) == NULL);

    peers_live(KS_PROTOCOL_GO_KCL);
    row = peers_row(0, NS(-100));
    peers_look(&row);
    asked = bed_asked(&peers_bed, KS_STORE_ASSIGN);
    next = asked->next_rev;
    bed_answer(&peers_bed, asked->token, KS_UNKNOWN);
    asked = bed_asked(&peers_bed, KS_STORE_READ_LEASE);
    row = peers_row(BED_ME, next);
    bed_answer_lease(&peers_bed, asked->token, &row);
    EXPECT(bed_effect(&peers_bed, KS_EFFECT_OPEN, 0) != NULL);
    /* Renewed in time, and until the written time less what clocks may differ by. */
    EXPECT(ks_core_serving_lease(peers_bed.core, &peers_bed.core->leases[0]));
    peers_wait(3400);
    asked = bed_asked(&peers_bed, KS_STORE_CHECKPOINT);
    EXPECT(asked != NULL && asked->rev == next && asked->next_rev > next);
    peers_wait(6000);
    EXPECT(!ks_core_serving_lease(peers_bed.core, &peers_bed.core->leases[0]));
}

static bool takes(void)
{
    return bed_asked(&peers_bed, KS_STORE_ASSIGN) != NULL ||
           bed_asked(&peers_bed, KS_STORE_TAKE_OVER) != NULL;
}

/* As where GetItem is denied: it takes a lease once, for one length of it, and leaves all to others then. */
TEST(whoever_cannot_read_a_row_back_takes_none)
{
    struct ks_lease_row row = peers_row(0, NS(-100));
    const struct ks_store_effect *asked;

    peers_live(KS_PROTOCOL_GO_KCL);
    peers_look(&row);
    asked = bed_asked(&peers_bed, KS_STORE_ASSIGN);
    row = peers_row(BED_ME, asked->next_rev);
    bed_answer(&peers_bed, asked->token, KS_DONE);
    for (int i = 0; i < 120; i++) { /* A minute. */
        if (peers_read_token() != 0)
            bed_answer(&peers_bed, peers_read_token(), KS_UNKNOWN);
        EXPECT(!takes());
        if (peers_bed.core->fleet.rows != 0)
            peers_look(&row);
        EXPECT(!takes());
        peers_wait(500);
        EXPECT(!takes());
    }
    EXPECT(peers_read(&row)); /* It tries. */
    peers_look(&row);
    EXPECT(takes());
}
