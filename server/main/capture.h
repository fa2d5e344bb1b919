/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h - capture FILE: writes a slice of a stream into a file that --source local:FILE reads
 * (adapters/local/slice.h).
 *
 * It reads --source by itself, with or without a running sidecar: no lease and no checkpoint is touched. Kinesis is
 * polled, which takes reads of the five a second of each shard. The shards are read in turn, one batch at a time.
 * Aggregates are captured as they are.
 */
#ifndef KS_MAIN_CAPTURE_H
#define KS_MAIN_CAPTURE_H

/* capture FILE [--from PLACE] [--to PLACE] [--shard ID] [--most-records N] [--most-bytes N] [--force]. Returns the exit
 * code: 0 done, 1 not done, 2 wrong words. */
int ks_command_capture(int argc, char *const *argv, char *const *environment);

#endif
