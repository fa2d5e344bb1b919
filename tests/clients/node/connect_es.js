// SPDX-License-Identifier: Apache-2.0
// connect-es: the protocol of Connect over HTTP/2, with the messages of protoc-gen-es.
import { createClient } from "@connectrpc/connect";
import { createConnectTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { Consumer } from "./gen/kinesis_sidecar/v1/service_pb.js";
import { Outcome } from "./gen/kinesis_sidecar/v1/settle_pb.js";
import { CLIENT_ID, HEARTBEAT_MS, MAX_IN_FLIGHT } from "./story.js";

const OPEN = { clientId: CLIENT_ID, maxInFlight: MAX_IN_FLIGHT, heartbeatMs: BigInt(HEARTBEAT_MS) };
const OUTCOMES = { ack: Outcome.ACK, retry: Outcome.RETRY, dead_letter: Outcome.DEAD_LETTER };

function settlementsOf(items) {
  return {
    settlements: items.map(({ outcome, delayMs = 0, ...item }) => ({
      ...item,
      outcome: OUTCOMES[outcome],
      delayMs: BigInt(delayMs),
    })),
  };
}

// What is said in a stream: an iterable that waits for more.
class Up {
  said = [];
  wake = () => {};
  ended = false;

  say(message) {
    this.said.push(message);
    this.wake();
  }

  async *[Symbol.asyncIterator]() {
    while (!this.ended) {
      while (this.said.length > 0) yield this.said.shift();
      await new Promise((resolve) => (this.wake = resolve));
    }
  }
}

async function* eventsOf(stream) {
  for await (const { event } of stream) {
    const { case: kind, value } = event;
    if (kind === "answer") yield { kind, value: { id: value.id, [value.answer.case]: value.answer.value } };
    else yield { kind, value };
  }
}

export function connect(address, way, open = OPEN) {
  const sessionManager = new Http2SessionManager(`http://${address}`);
  const transport = createConnectTransport({ baseUrl: `http://${address}`, httpVersion: "2", sessionManager });
  const client = createClient(Consumer, transport);
  const hangUp = new AbortController();
  const up = new Up();
  if (way === "stream") up.say({ request: { case: "open", value: OPEN } });
  const options = { signal: hangUp.signal };
  return {
    events: eventsOf(way === "watch" ? client.watch(open, options) : client.stream(up, options)),
    say: (id, items) => up.say({ id: BigInt(id), request: { case: "settle", value: settlementsOf(items) } }),
    settle: (items) => client.settle(settlementsOf(items)),
    hangUp() {
      hangUp.abort();
      sessionManager.abort();
    },
  };
}
