// SPDX-License-Identifier: Apache-2.0
// client.js HOST:PORT SEED COUNT RETRIES LETTERS WAY CLIENT: grpc-js and connect-es. See judge.py.
//
// Both of them give their streams as async iterables, and name the members of messages alike.
import { RACE_BATCHES, RACE_IN_FLIGHT, Story } from "./story.js";

const [address, seed, count, retries, letters, way, client] = process.argv.slice(2);
const { connect } = await import(client === "grpc-js" ? "./grpc_js.js" : "./connect_es.js");

function told(request, answer) {
  const reasons = answer.failed.map(({ reason }) => reason);
  const positions = answer.positions.map(({ shardId, watermark, checkpoint }) => ({ shard_id: shardId, watermark, checkpoint }));
  story.settled(Number(request), Number(answer.ok), reasons, positions);
}

// One event; returns whether it tells of silence.
function handle({ kind, value }) {
  if (kind === "session") story.opened();
  else if (kind === "batch")
    for (const record of value.records)
      story.record(record.shardId, record.sequenceNumber, record.data, record.attempt, record.ackId);
  else if (kind === "answer" && value.settled) told(value.id, value.settled);
  else if (kind !== "heartbeat") throw new Error(`what is this? ${kind}`);
  return kind === "heartbeat";
}

// One stream, to its end; returns whether all is settled.
async function consume(connection) {
  for await (const event of connection.events) {
    const silence = handle(event);
    const due = story.due(silence);
    if (due && way === "watch") told(due.request, await connection.settle(due.items));
    else if (due) connection.say(due.request, due.items);
    if (story.isOver(silence)) return true;
    if (story.hangsUp()) return false;
  }
  throw new Error("the stream ended");
}

// See story.py: everything is acknowledged, batch by batch, and counted.
async function race() {
  const connection = connect(address, "watch", { maxInFlight: RACE_IN_FLIGHT });
  let seen = 0;
  let held = [];
  for await (const { kind, value } of connection.events) {
    if (kind !== "batch") continue;
    seen += value.records.length;
    held.push({ batchId: value.batchId, outcome: "ack" });
    if (held.length < RACE_BATCHES) continue;
    await connection.settle(held);
    held = [];
    console.log(seen);
  }
}

if (Number(count) === 0) await race();
const story = new Story(seed, count, retries, letters);
for (let over = false; !over; ) {
  const connection = connect(address, way);
  over = await consume(connection);
  connection.hangUp();
}
process.exit(0);
