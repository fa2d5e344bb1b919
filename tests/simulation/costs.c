/* SPDX-License-Identifier: Apache-2.0 */
#include "costs.h"

#include <stdio.h>

#include "scale.h"

#define MONTH 2.592e6        /* Seconds. */
#define WRITE_PRICE 0.625e-6 /* US dollars for a unit, on demand, us-east-1. */
#define READ_PRICE 0.125e-6

static double dollars(double writes, double reads)
{
    return (writes * WRITE_PRICE + reads * READ_PRICE) * MONTH;
}

/* KCL's writes and reads, without checkpoints, by its defaults: each lease is renewed every 3.3 s; 2.x scans the table
 * from every worker, 3.x from its leader, with a query of an index from each worker. */
static double kcl(double workers, double leases, bool three)
{
    double scan = 0.05 * leases;
    double share = leases / workers * 0.15 / 4 * 0.5;
    double writes = 0.3023 * leases;
    double reads = scan / 120 + workers * 1.5 / 30;

    if (three) {
        writes += workers / 30 + 1.0 / 30;
        reads += scan / 20 + workers * (share > 0.5 ? share : 0.5) / 9.975;
    } else {
        reads += workers * scan / 20.05 + workers * scan / 300;
    }
    return dollars(writes, reads);
}

bool costs_tell(void)
{
    static const uint32_t fleets[][2] = {{2, 10}, {20, 1000}, {100, 10000}};
    bool good = true;

    printf(
        "DynamoDB a month, on demand, without checkpoints (one per shard and 10 s is $0.16 a shard "
        "for all):\n");
    for (size_t i = 0; i < sizeof fleets / sizeof fleets[0]; i++) {
        uint32_t workers = fleets[i][0];
        uint32_t shards = fleets[i][1];
        double writes = 0;
        double reads = 0;

        good = scale_at_rest(workers, shards, &writes, &reads) && good;
        printf("  %5u shards, %3u workers: $%8.2f (%6.1f WRU/s, %6.1f RRU/s); KCL 2.x $%8.2f, "
               "KCL 3.x $%8.2f; checkpoints $%.0f\n",
               shards, workers, dollars(writes, reads), writes, reads, kcl(workers, shards, false),
               kcl(workers, shards, true), dollars(0.1 * shards, 0));
        fflush(stdout);
    }
    return good;
}
