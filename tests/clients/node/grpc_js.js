// SPDX-License-Identifier: Apache-2.0
// grpc-js, with the messages that proto-loader makes when it runs.
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";
import { CLIENT_ID, HEARTBEAT_MS, MAX_IN_FLIGHT } from "./story.js";

const OPEN = { clientId: CLIENT_ID, maxInFlight: MAX_IN_FLIGHT, heartbeatMs: HEARTBEAT_MS };
const OUTCOMES = { ack: "OUTCOME_ACK", retry: "OUTCOME_RETRY", dead_letter: "OUTCOME_DEAD_LETTER" };

const definition = loader.loadSync("kinesis_sidecar/v1/service.proto", {
  includeDirs: [fileURLToPath(new URL("../../../proto", import.meta.url))],
  longs: String,
  enums: String,
  oneofs: true,
  arrays: true,
  defaults: true,
});
const { Consumer } = grpc.loadPackageDefinition(definition).kinesis_sidecar.v1;

function settlementsOf(items) {
  return { settlements: items.map(({ outcome, ...item }) => ({ ...item, outcome: OUTCOMES[outcome] })) };
}

async function* eventsOf(stream) {
  for await (const { event, ...members } of stream) yield { kind: event, value: members[event] };
}

export function connect(address, way, open = OPEN) {
  const client = new Consumer(address, grpc.credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
  const stream = way === "watch" ? client.Watch(open) : client.Stream();
  if (way === "stream") stream.write({ open: OPEN });
  return {
    events: eventsOf(stream),
    say: (id, items) => stream.write({ id, settle: settlementsOf(items) }),
    settle: (items) =>
      new Promise((resolve, reject) =>
        client.Settle(settlementsOf(items), (err, answer) => (err ? reject(err) : resolve(answer))),
      ),
    hangUp() {
      stream.on("error", () => {}); // That it was cancelled.
      stream.cancel();
      client.close();
    },
  };
}
