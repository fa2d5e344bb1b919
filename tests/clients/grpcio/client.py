# SPDX-License-Identifier: Apache-2.0
"""client.py HOST:PORT SEED COUNT RETRIES LETTERS WAY: grpcio. See judge.py."""

import base64
import os
import queue
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(HERE, "..", "..", "..", "build", "clients", "grpcio", "gen")]
import grpc  # noqa: E402
from kinesis_sidecar.v1 import service_pb2, service_pb2_grpc, settle_pb2  # noqa: E402
from story import CLIENT_ID, HEARTBEAT_MS, MAX_IN_FLIGHT, RACE_BATCHES, RACE_IN_FLIGHT, Story  # noqa: E402

OPEN = service_pb2.OpenRequest(client_id=CLIENT_ID, max_in_flight=MAX_IN_FLIGHT, heartbeat_ms=HEARTBEAT_MS)
OUTCOMES = {"ack": settle_pb2.OUTCOME_ACK, "retry": settle_pb2.OUTCOME_RETRY,
            "dead_letter": settle_pb2.OUTCOME_DEAD_LETTER}


class Watch:
    """Records by a stream of the server, settles by calls."""

    def __init__(self, stub):
        self.stub = stub
        self.events = stub.Watch(OPEN)

    def settle(self, story, request, settlements):
        told(story, request, self.stub.Settle(settlements))


class Stream:
    """Settles go up where records come down; the answers come as events."""

    def __init__(self, stub):
        self.up = queue.SimpleQueue()
        self.up.put(service_pb2.StreamRequest(open=OPEN))
        self.events = stub.Stream(iter(self.up.get, None))

    def settle(self, _, request, settlements):
        self.up.put(service_pb2.StreamRequest(id=request, settle=settlements))


WAYS = {"watch": Watch, "stream": Stream}


def told(story, request, answer):
    story.settled(request, answer.ok, [failure.reason for failure in answer.failed],
                  [(position.shard_id, position.watermark, position.checkpoint) for position in answer.positions])


def settlements_of(items):
    return settle_pb2.SettleRequest(settlements=[
        settle_pb2.Settlement(ack_id=ack_id, outcome=OUTCOMES[outcome], delay_ms=delay)
        for ack_id, outcome, delay in items])


def handle(story, event):
    """One event; returns whether it tells of silence."""
    kind = event.WhichOneof("event")
    if kind == "session":
        story.opened()
    elif kind == "batch":
        for record in event.batch.records:
            story.record(record.shard_id, record.sequence_number, base64.b64encode(record.data).decode(), record.attempt,
                         record.ack_id)
    elif kind == "answer" and event.answer.WhichOneof("answer") == "settled":
        told(story, event.answer.id, event.answer.settled)
    elif kind != "heartbeat":
        raise SystemExit(f"what is this? {event}")
    return kind == "heartbeat"


def consume(way, story):
    """One stream, to its end; returns whether all is settled."""
    for event in way.events:
        silence = handle(story, event)
        due = story.due(silence)
        if due is not None:
            way.settle(story, due[0], settlements_of(due[1]))
        if story.is_over(silence):
            return True
        if story.hangs_up():
            return False
    raise SystemExit("the stream ended")


def race(address):
    """Sees and acknowledges everything, batch by batch, and says how many records those were."""
    with grpc.insecure_channel(address) as channel:
        stub = service_pb2_grpc.ConsumerStub(channel)
        seen, held = 0, []
        for event in stub.Watch(service_pb2.OpenRequest(max_in_flight=RACE_IN_FLIGHT)):
            seen += sum(1 for record in event.batch.records if record.data)
            if event.WhichOneof("event") == "batch":
                held.append(settle_pb2.Settlement(batch_id=event.batch.batch_id, outcome=settle_pb2.OUTCOME_ACK))
            if len(held) == RACE_BATCHES:
                stub.Settle(settle_pb2.SettleRequest(settlements=held))
                held = []
                print(seen, flush=True)


def run(address, seed, count, retries, letters, way, _):
    if int(count) == 0:
        race(address)
    story = Story(seed, count, retries, letters)
    over = False
    while not over:
        # The connection goes with the stream: nobody is told that it does.
        with grpc.insecure_channel(address) as channel:
            over = consume(WAYS[way](service_pb2_grpc.ConsumerStub(channel)), story)


if __name__ == "__main__":
    run(*sys.argv[1:])
    # A queue that nobody reads must not keep us.
    sys.stdout.flush()
    os._exit(0)
