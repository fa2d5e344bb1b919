// SPDX-License-Identifier: Apache-2.0
// sdk.mjs COUNT - an app that uses the AWS SDK by itself: GetRecords loops for all shards, from TRIM_HORIZON.
import { writeSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { GetRecordsCommand, GetShardIteratorCommand, KinesisClient, ListShardsCommand } from "@aws-sdk/client-kinesis";
import { NodeHttpHandler } from "@smithy/node-http-handler";

const REPORT = 1000;
const StreamName = "demo";
const POLL_MS = 200; // A shard allows 5 reads a second.

const count = Number(process.argv[2]);
// The SDK speaks HTTP/2 to Kinesis by default, and the endpoint of the tests HTTP/1.1.
const kinesis = new KinesisClient({ requestHandler: new NodeHttpHandler() });
let read = 0;
let touched = 0;

async function readShard(ShardId) {
    const position = { StreamName, ShardId, ShardIteratorType: "TRIM_HORIZON" };
    let { ShardIterator } = await kinesis.send(new GetShardIteratorCommand(position));
    while (ShardIterator && read < count) {
        const answer = await kinesis.send(new GetRecordsCommand({ ShardIterator, Limit: 10000 }));
        for (const { Data } of answer.Records) {
            touched ^= Data[0] ?? 0;
            if (++read % REPORT === 0) writeSync(1, `${read}\n`);
        }
        ShardIterator = answer.NextShardIterator;
        if (answer.Records.length === 0) await setTimeout(POLL_MS);
    }
}

const { Shards } = await kinesis.send(new ListShardsCommand({ StreamName }));
await Promise.all(Shards.map(({ ShardId }) => readShard(ShardId)));
kinesis.destroy();
