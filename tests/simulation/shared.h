/* SPDX-License-Identifier: Apache-2.0 */
/* shared.h - a lease table that others made: real cores with the go-kcl protocol, alone or beside models of
 * vmware-go-kcl's members with the defects of their library.
 *
 * Faults: requests and answers lost, writes that land up to 30 s late, pauses up to 25 s, kills with and without a
 * new name, clocks that differ by up to L/20 and drift by up to 4 %, splits, a table that is away for one or for all
 * for up to 25 s, wall clocks of ours that jump by up to 30 s (then nobody promises that one alone delivers). Members
 * write checkpoints without a condition, also late and after they gave a lease back, wipe claims, stand still, and
 * take what has run out by their own clock.
 * kinsumer's divide the list of shards, hand records out before they are done, leave idle shards without a sign of life
 * (or, the fork's, do not), go on reading what is not theirs any more when they wake, and end when a write of
 * theirs is refused.
 *
 * kcl-rb's take whatever they find, once a second, and end at what they do not expect; they are stopped before we
 * serve, or work beside us while we mask, or do what they like; in the end all is ours, or shared by masks, or given
 * back.
 *
 * The KCL's shards are merged, too, and expire; listings are behind; applications begin at the oldest, the latest or an
 * instant, in streams and tables that had a life before them; rows become unreadable and are mended.
 *
 * What is ours must hold always:
 *   - a checkpoint of ours never covers a record that nobody settled;
 *   - no record of a child is delivered by us before the row of its parent says SHARD_END;
 *   - a LeaseTimeout of ours is in whole seconds, later than the one that it replaces, and no owner stands without it;
 *   - of kinsumer's, what we capture was free, ours or old, and a list of ours has no shard twice or finished, and
 *     lacks none that is long there;
 *   - of kcl-rb's, nothing is taken or delivered without a mask while a stranger was seen at work, and what we give
 *     back says neither an owner nor a mask, so that a process of theirs goes on there and does not end;
 *   - of the KCL's, what was put after our LATEST stood in a row is settled before a checkpoint passes it, nothing is
 *     delivered that is older than the begin, and nothing is written to a row that we could not read;
 * and where all keep to conditions (alone, or beside members without late writes):
 *   - nobody takes a lease while one of ours may deliver it, but where wall clocks jump;
 *   - no checkpoint in the table goes back;
 * and after the faults everything is settled, and every open shard is somebody's (of kinsumer's, that client's to whom
 * it falls), within a bounded time.
 */
#ifndef KS_SIM_SHARED_H
#define KS_SIM_SHARED_H

#include <stdbool.h>
#include <stdint.h>

struct shared_fleet;
extern const struct shared_fleet shared_go_kcl;
extern const struct shared_fleet shared_kcl;
extern const struct shared_fleet shared_kcl3;
extern const struct shared_fleet shared_kcl_streams;
extern const struct shared_fleet shared_kcl3_streams;
extern const struct shared_fleet shared_kinsumer;
extern const struct shared_fleet shared_kcl_rb;

/* Runs these seeds. False at the first one that breaks a promise; it is told. `verbose`: with the story. */
bool shared_run(const struct shared_fleet *fleet, uint64_t seed, uint64_t count, bool verbose);

#endif
