#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls, by clients that others wrote: curl, grpcio, grpc-js, connect-node. One service, one scenario, the same promises."""

import gzip
import json
import os
import queue
import subprocess
import threading

from lib import ROOT, Sidecar, check, check_equal, main, numbered, test, wait_until
from stub import DESCRIPTORS, Stub, grpc

RECORDS = 400


def consumer(sidecar):
    channel = grpc.insecure_channel(sidecar.options["listen"])
    return Stub(channel, "kinesis_sidecar.v1.Consumer")


def fails(code, call, **members):
    try:
        call(**members)
    except grpc.RpcError as error:
        check_equal(error.code(), code, error)
        return error
    check(False, "it should have failed with", code)


def curl(sidecar, path, *args):
    done = subprocess.run(["curl", "-sS", "--max-time", "20", *args, f"http://{sidecar.options['listen']}{path}"],
                          capture_output=True, check=True)
    return done.stdout


@test()
def curl_calls_a_method(folder):
    sidecar = Sidecar.local(folder)
    sidecar.start()
    status = json.loads(curl(sidecar, "/kinesis_sidecar.v1.Admin/GetStatus", "-d", "{}"))
    check_equal(status["subscriptions"][0]["dialect"], "native")
    status = json.loads(curl(sidecar, "/kinesis_sidecar.v1.Admin/GetStatus?encoding=json&message=%7B%7D"))
    check_equal(status["ready"], True)
    packed = os.path.join(folder, "packed")
    with open(packed, "wb") as file:
        file.write(gzip.compress(b'{"session": "nobody"}'))
    for version in "--http1.1", "--http2-prior-knowledge":
        refused = json.loads(curl(sidecar, "/kinesis_sidecar.v1.Consumer/CloseSession", version,
                                  "-H", "Content-Type: application/json", "-H", "Content-Encoding: gzip",
                                  "--data-binary", f"@{packed}"))
        check_equal((refused["code"], refused["message"]), ("not_found", "no such session"))
    sidecar.stop()


@test(60)
def grpcio_consumes_and_settles_in_one_stream(folder):
    sidecar = Sidecar.local(folder)
    sidecar.start()
    sidecar.put(numbered(RECORDS))
    said = queue.Queue()

    def say(**members):
        said.put(Stub.message("kinesis_sidecar.v1.StreamRequest", **members))
    say(open={"client_id": "python"})
    seen, settled, asked = set(), 0, 0
    for event in consumer(sidecar).Stream(iter(said.get, None), timeout=40):
        if event.WhichOneof("event") == "batch":
            asked += 1
            seen |= {record.data for record in event.batch.records}
            say(id=asked, settle={"settlements": [{"batch_id": event.batch.batch_id, "outcome": 1}], "wait": 2})
        elif event.WhichOneof("event") == "answer":
            settled += event.answer.settled.ok
            check(event.answer.settled.persisted, "it was asked to wait until it is", event)
            if settled == RECORDS:
                said.put(None)
    check_equal((len(seen), settled), (RECORDS, RECORDS))
    check_equal(sidecar.get("/v1/sessions")["sessions"], [], "the session ended with the stream")
    sidecar.stop()


class Talk:
    """A Stream that is open both ways: what comes is counted in a thread of its own."""

    def __init__(self, sidecar, **opened):
        self.said, self.lock = queue.Queue(), threading.Lock()
        self.records, self.answers, self.ended = [], {}, None
        self.say(open=opened)
        events = consumer(sidecar).Stream(iter(self.said.get, None), timeout=60)
        self.thread = threading.Thread(target=self.hear, args=(events,), daemon=True)
        self.thread.start()

    def say(self, **members):
        self.said.put(Stub.message("kinesis_sidecar.v1.StreamRequest", **members))

    def hear(self, events):
        for event in events:
            kind = event.WhichOneof("event")
            with self.lock:
                check(self.ended is None, "the end comes last", event)
                if kind == "batch":
                    self.records += event.batch.records
                elif kind == "answer":
                    self.answers[event.answer.id] = event.answer
                elif kind == "ended":
                    self.ended = event.ended.reason

    def answer(self, number):
        wait_until(lambda: number in self.answers, 20, f"answer {number}")
        return self.answers[number]


@test(90)
def grpcio_grants_updates_and_closes(folder):
    sidecar = Sidecar.local(folder)
    sidecar.start()
    sidecar.put(numbered(RECORDS))
    talk = Talk(sidecar, client_id="python", explicit_credit=True, max_message_bytes=4096, heartbeat_ms=200)
    granted = 0
    for number, records in enumerate((1, 30, 7), 1):
        talk.say(id=number, credit=records)
        granted += records
        check_equal(talk.answer(number).granted.session, "python")
        wait_until(lambda: len(talk.records) >= granted, 20, "what was granted comes")
        session, = sidecar.get("/v1/sessions")["sessions"]
        check_equal((session["in_flight"], session["credit"]), (granted, 0))
        check_equal(len(talk.records), granted, "no more than was granted")
    check_equal(consumer(sidecar).Grant(session="python", records=5000).granted, 5000)
    wait_until(lambda: len(talk.records) == RECORDS, 20, "the rest")

    events = Stub(grpc.insecure_channel(sidecar.options["listen"]),
                  "kinesis_sidecar.v1.Admin").WatchEvents(timeout=60)
    sidecar.put([("key", b"x" * 5000)])
    check(any(event.type == "record_too_large" for event in events), "it is told")
    check_equal(len(talk.records), RECORDS, "and waits")
    talk.say(id=10, update={"max_message_bytes": 100})
    check_equal(talk.answer(10).problem.status, 400)
    talk.say(id=11, update={"max_message_bytes": 10000})
    check_equal(talk.answer(11).updated.max_message_bytes, 10000)
    wait_until(lambda: len(talk.records) == RECORDS + 1, 20, "the large one")
    check_equal(len(talk.records[-1].data), 5000)

    # As many as a request may settle, and all fail: the answer is larger than all that waits otherwise.
    foreign = {"ack_id": "AQAAMDkAAAAAAAABAAAAAAAAAAABAAAAAAABAAAAAAAAmSYuovlbnWA", "outcome": 1}  # Of another run.
    talk.say(id=20, settle={"settlements": [foreign] * 10000})
    check_equal(len(talk.answer(20).settled.failed), 10000, "each is told")

    talk.say(id=12, close={})
    talk.thread.join(20)
    check_equal(talk.ended, 4, "closed")
    check_equal(sidecar.get("/v1/sessions")["sessions"], [], "it does not wait for its grace")
    again = sidecar.get("/v1/records?session=other&max_records=1000")
    check_equal({record["attempt"] for record in again["records"]}, {2}, "they come again")
    sidecar.call("POST", "/v1/records/ack", {"batch_id": again["batch_id"]})
    sidecar.stop()


@test(60)
def grpcio_names_shards_of_others_to_a_sidecar_that_does_not_lead(folder):
    """Nobody has looked at the table on its behalf yet: the first who asks waits for that."""
    leader = Sidecar.local(folder, name="a", worker_id="a").start()
    shards = wait_until(lambda: leader.get("/v1/shards")["shards"], 20, "it has made their rows")
    shard = shards[0]["shard_id"]

    def watch(calls):
        events = calls.Watch(client_id="app", shards=[shard])
        check_equal(next(events).session.session, "app")
        events.cancel()

    def stream(calls):
        said = [{"open": {"client_id": "app", "shards": [shard], "explicit_credit": True}}, {"id": 1, "credit": 7},
                {"close": {}}]
        events = calls.Stream((Stub.message("kinesis_sidecar.v1.StreamRequest", **each) for each in said), timeout=20)
        heard = {event.WhichOneof("event"): event for event in events}
        check_equal(heard["session"].session.session, "app")
        check_equal(heard["answer"].answer.granted.granted, 7, "what is said meanwhile waits")
        check_equal(heard["ended"].ended.reason, 4, "closed")

    asks = [watch, stream, lambda calls: check_equal(calls.OpenSession(client_id="app", shards=[shard]).session, "app"),
            lambda calls: fails(grpc.StatusCode.NOT_FOUND, calls.OpenSession, shards=["shardId-000000000999"])]
    for name, ask in zip("bcde", asks):
        pod = Sidecar.local(folder, name=name, worker_id=name).start()
        ask(consumer(pod))
        pod.stop()
    leader.stop()


@test()
def grpcio_is_told_why_a_call_fails(folder):
    sidecar = Sidecar.local(folder)
    sidecar.start()
    calls = consumer(sidecar)
    error = fails(grpc.StatusCode.NOT_FOUND, calls.CloseSession, session="nobody")
    check_equal(error.details(), "no such session")
    check("grpc-status-details-bin" in dict(error.trailing_metadata()), error.trailing_metadata())
    fails(grpc.StatusCode.INVALID_ARGUMENT, calls.Settle, settlements=[{"ack_id": "x"}])
    fails(grpc.StatusCode.RESOURCE_EXHAUSTED, calls.CloseSession, session="x" * 2000000)
    fails(grpc.StatusCode.DEADLINE_EXCEEDED, calls.Pull, timeout=0.3, wait_ms=60000)
    rest = sidecar.call("POST", "/v1/records/settle", {"settlements": [{"ack_id": "x"}]})
    check_equal(fails(grpc.StatusCode.INVALID_ARGUMENT, calls.Settle, settlements=[{"ack_id": "x"}]).details(),
                rest.json["detail"], "the same reason by both ways")
    sidecar.stop()


@test()
def grpcio_asks_for_health_on_both_ports(folder):
    sidecar = Sidecar.local(folder)
    sidecar.start()
    for port in sidecar.options["listen"], sidecar.options["ops_listen"]:
        health = Stub(grpc.insecure_channel(port), "grpc.health.v1.Health")
        check_equal(health.Check().status, 1)
        fails(grpc.StatusCode.NOT_FOUND, health.Check, service="no.Such")
    told = health.Watch(timeout=25)
    check_equal(next(told).status, 1)
    sidecar.call("POST", "/v1/drain", {})
    check_equal(next(told).status, 2)
    told.cancel()
    sidecar.stop()


@test()
def an_operator_calls(folder):
    sidecar = Sidecar.local(folder)
    sidecar.start()
    sidecar.put(numbered(20))
    check(sidecar.get("/v1/records?wait_ms=5000")["records"], "it holds its leases")
    admin = Stub(grpc.insecure_channel(sidecar.options["listen"]), "kinesis_sidecar.v1.Admin")
    shards = sorted(shard["shard_id"] for shard in sidecar.get("/v1/shards")["shards"])
    check_equal(sorted(admin.Pause(shards=shards).shards), shards)
    told = admin.Seek(to="trim_horizon", dry_run=True)
    check_equal(sorted(shard.shard_id for shard in told.shards), shards)
    moved = admin.Seek(to="trim_horizon", shards=[shards[0]])
    check_equal([shard.shard_id for shard in moved.shards], [shards[0]])
    fails(grpc.StatusCode.INVALID_ARGUMENT, admin.Seek, to="nowhere")
    fails(grpc.StatusCode.NOT_FOUND, admin.ReleaseLease, shard_id="shardId-000000000999")
    admin.Resume()
    sidecar.stop()


def by_node(kind):
    def run(folder):
        sidecar = Sidecar.local(folder)
        sidecar.start()
        sidecar.put(numbered(RECORDS))
        script = os.path.join(ROOT, "tests", "e2e", "rpc_clients.mjs")
        done = subprocess.run(["node", script, kind, sidecar.options["listen"], str(RECORDS), DESCRIPTORS],
                              capture_output=True, text=True, timeout=50, check=False)
        check_equal(done.returncode, 0, kind, done.stderr)
        told = json.loads(done.stdout)
        check_equal(told["distinct"], RECORDS, kind)
        check_equal(told["retried"], RECORDS // 20, kind)
        wait_until(lambda: all(lease["unsettled"] == 0 for lease in sidecar.get("/v1/shards")["shards"]), 10,
                   "everything is settled")
        sidecar.stop()
    run.__name__ = f"{kind.replace('-', '_')}_consumes_settles_and_retries"
    test(60)(run)


for KIND in "grpc-js", "connect-1", "connect-2", "connect-grpc":
    by_node(KIND)

if __name__ == "__main__":
    main()
