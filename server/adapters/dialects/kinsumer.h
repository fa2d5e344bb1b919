/* SPDX-License-Identifier: Apache-2.0 */
/* kinsumer.h - the tables of kinsumer (twitchscience, and its fork of snowplow-devops): what their rows mean, and what
 * each operation writes.
 *
 * The formats are those of checkpoints.go, clients.go and leader.go, at da24975 and at v1.7.0 of the fork. LastUpdate
 * is N, ns since 1970; LastUpdateRFC, FinishedRFC and the names are for people. A NULL is as good as no attribute.
 *
 *   APPLICATION_checkpoints, key Shard
 *     OwnerID, OwnerName  S; absent: free. "" is an owner, too
 *     LastUpdate          of the last write of its owner: the row's rev
 *     SequenceNumber      S: digits (the record after it), LATEST, or "": none yet
 *     Finished            N: when the shard was read to its end
 *     SidecarPosition     ours: foreign.h
 *   APPLICATION_clients, key ID
 *     Name, LastUpdate    a worker, whose beat is LastUpdate
 *   APPLICATION_metadata, key Key
 *     Leader              ID, Name, LastUpdate: the leader, whose epoch is LastUpdate
 *     ShardCache          ShardIDs, L of S, and LastUpdate: the list of shards that the clients divide
 *
 * Always UpdateItem, so that what we do not know survives; members PutItem, and wipe what is ours. A checkpoint row in
 * any other form (another type, TRIM_HORIZON, SHARD_END) is damaged: it is named and left alone.
 */
#ifndef KS_ADAPTERS_DIALECTS_KINSUMER_H
#define KS_ADAPTERS_DIALECTS_KINSUMER_H

#include "adapters/dialects/dialect.h"

/* In ks_kinsumer_dialect.tables. */
enum ks_kinsumer_table {
    KS_KINSUMER_CHECKPOINTS,
    KS_KINSUMER_CLIENTS,
    KS_KINSUMER_METADATA,
    KS_KINSUMER_TABLES
};

/* Appends ns since 1970 as RFC 1123 with a numeric zone: "Wed, 01 May 2024 12:00:00 +0000". FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_kinsumer_put_time(struct ks_bytes *bytes, uint64_t ns);

#endif
