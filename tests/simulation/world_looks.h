/* SPDX-License-Identifier: Apache-2.0 */
/* world_looks.h - slow looks at the lease rows: they come page by page, and whatever else is asked passes them by.
 *
 * A page shows its rows as they are when it is read, so that one look shows the table at several times. Slow looks are
 * the manners of a large table, and go on in peace; in war some of them come to nothing, late. What they draw comes
 * from a generator of their own: what other seeds draw stays as it was.
 */
#ifndef KS_SIM_WORLD_LOOKS_H
#define KS_SIM_WORLD_LOOKS_H

#include "world_limits.h"

struct table_request;
struct world;

/* All pages of a look have this time, as KS_ASKS_WHOLE_MS of the product. */
#define SIM_LOOK (30 * SIM_SECOND)

/* Before the first request: whether looks are slow, and how slow. */
void world_looks_begin(struct world *world);
/* A request is sent: how many pages its answer has, how long each takes, and at which it fails. */
void world_looks_draw(struct world *world, struct table_request *request);
/* How long a look takes at most; 0: no longer than any request. */
sim_time world_looks_time(const struct world *world);

#endif
