// SPDX-License-Identifier: Apache-2.0
// The same consumer by three libraries: node rpc_clients.mjs grpc-js|connect-1|connect-2|connect-grpc HOST:PORT COUNT DESCRIPTORS
// Receives COUNT records, retries each twentieth once, acknowledges all, and says what it saw as one line of JSON.
import { readFileSync } from "node:fs";
import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [kind, address, count, descriptors] = process.argv.slice(2);
const set = readFileSync(descriptors);
const text = new TextDecoder();

function byGrpcJs() {
  // Loaded from descriptors, members keep the names of the .proto.
  const options = { longs: String, enums: String, defaults: true, oneofs: true };
  const { v1 } = grpc.loadPackageDefinition(
    loader.loadFileDescriptorSetFromBuffer(set, options)).kinesis_sidecar;
  const consumer = new v1.Consumer(address, grpc.credentials.createInsecure());
  return {
    watch: () => consumer.watch({ client_id: kind }),
    batch: ({ batch }) => batch && { records: batch.records.map((record) =>
      ({ data: record.data, ackId: record.ack_id })) },
    settle: (settlements) => new Promise((done, failed) =>
      consumer.settle({ settlements: settlements.map(({ ackId, outcome }) => ({ ack_id: ackId, outcome })) }, (error, answer) =>
        error ? failed(error) : done(Number(answer.ok)))),
    notFound: () => new Promise((done) =>
      consumer.closeSession({ session: "nobody" }, (error) =>
        done(error.code === grpc.status.NOT_FOUND && error.details === "no such session"))),
    outcome: (name) => name,
  };
}

function byConnect() {
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, set));
  const baseUrl = `http://${address}`;
  const transport = kind === "connect-grpc" ? createGrpcTransport({ baseUrl })
    : createConnectTransport({ baseUrl, httpVersion: kind.slice(-1) === "2" ? "2" : "1.1",
        useBinaryFormat: kind.slice(-1) === "2", useHttpGet: true });
  const consumer = createClient(registry.getService("kinesis_sidecar.v1.Consumer"), transport);
  const outcomes = { OUTCOME_ACK: 1, OUTCOME_RETRY: 2 };
  return {
    watch: () => consumer.watch({ clientId: kind }),
    batch: (event) => event.event.case === "batch" ? event.event.value : undefined,
    settle: async (settlements) => Number((await consumer.settle({ settlements })).ok),
    notFound: () => consumer.closeSession({ session: "nobody" }).then(() => false, (error) => {
      const found = ConnectError.from(error);
      return found.code === Code.NotFound && found.rawMessage === "no such session"
        && found.details[0].type === "kinesis_sidecar.v1.Problem";
    }),
    outcome: (name) => outcomes[name],
  };
}

const client = kind === "grpc-js" ? byGrpcJs() : byConnect();
const seen = new Map();
let retried = 0;
const acknowledged = new Set();
if (!await client.notFound())
  throw new Error("a call that fails does not say why");
for await (const event of client.watch()) {
  const batch = client.batch(event);
  if (!batch)
    continue;
  const settlements = [];
  for (const record of batch.records) {
    const data = text.decode(record.data);
    const again = Number(data.split("-")[1]) % 20 === 0 && !seen.has(data);
    retried += again ? 1 : 0;
    seen.set(data, (seen.get(data) ?? 0) + 1);
    if (!again)
      acknowledged.add(data);
    settlements.push({ ackId: record.ackId,
      outcome: client.outcome(again ? "OUTCOME_RETRY" : "OUTCOME_ACK") });
  }
  if (await client.settle(settlements) !== settlements.length)
    throw new Error("a settlement was not accepted");
  if (acknowledged.size === Number(count))
    break;
}
console.log(JSON.stringify({ distinct: seen.size, retried }));
process.exit(0);
