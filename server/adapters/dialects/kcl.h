/* SPDX-License-Identifier: Apache-2.0 */
/* kcl.h - the lease table of the AWS KCL for Java, 2.x: what its rows mean, and what each operation writes.
 *
 * The format is that of leases/dynamodb/DynamoDBLeaseSerializer.java and DynamoDBLeaseRefresher.java of 2.7.3:
 *
 *   leaseKey                      the key, alone: the shard id; of an application that reads several streams
 *                                 "STREAM-ID:SHARD" (ports/streams.h)
 *   streamName, shardId           of such an application: both parts of the key again (2.x and 3.x,
 *                                 DynamoDBMultiStreamLeaseSerializer.java); the first one is the whole STREAM-ID
 *   leaseCounter N                moves with every write of an owner, and with every take: the row's rev
 *   leaseOwner                    id of the owner; absent: free
 *   ownerSwitchesSinceCheckpoint N
 *   checkpoint                    digits | TRIM_HORIZON | LATEST | AT_TIMESTAMP | SHARD_END; what the middle two mean
 *                                 does not stand in the table: each worker takes its own start for it
 *   checkpointSubSequenceNumber N the last record of an aggregate that is done; 0 for all else; absent: 0
 *   parentShardId SS, childShardIds SS   at most two of each
 *   startingHashKey, endingHashKey       digits
 *   pendingCheckpoint..           what a member prepared and did not commit; a checkpoint removes it
 *   checkpointOwner               of 3.x: who hands the lease over to leaseOwner; a take removes it
 *   entityType                    of 3.5: absent or LEASE are leases, other known ones are left out
 *
 * Always UpdateItem, also to make a row, and attributes that are not named here (throughputKBps) stay. A row without
 * one of leaseCounter, ownerSwitchesSinceCheckpoint and checkpoint, with a value of another type, or of an entityType
 * that nobody knows, is damaged: it is named and left alone. So is one whose streamName and shardId are not what its
 * key says. Rows of one stream and of several in one table are for the caller to judge: they break such applications.
 */
#ifndef KS_ADAPTERS_DIALECTS_KCL_H
#define KS_ADAPTERS_DIALECTS_KCL_H

#include "adapters/dialects/dialect.h"

#define KS_KCL_KEY "leaseKey"

#endif
