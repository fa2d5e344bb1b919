#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The embedded default: a local stream and SQLite leases, no AWS; subcommands, stubs, drains, restarts, bad input."""

import base64
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from lib import (BINARY, ROOT, SLOW, Sidecar, call, check, check_equal, free_port, main, read_lines, spawn, test,
                 wait_until)
from kinesis_sidecar import SessionTakenOver, Sidecar as Client, order_of

STUBS = os.path.join(ROOT, "client-stubs")


def numbered(count, start=0, prefix="record"):
    return [(f"key-{number}", f"{prefix}-{number:04d}".encode()) for number in range(start, start + count)]


def data_of(record):
    return base64.b64decode(record["data"])


def pull_all(sidecar, count, seconds=20, ack=True):
    """Pulls until `count` records came; acknowledges each batch, durably."""
    records = []

    def pull():
        batch = sidecar.get("/v1/records?max_records=1000&wait_ms=1000")
        records.extend(batch["records"])
        if batch["records"] and ack:
            answer = sidecar.call("POST", f"/v1/records/ack?batch_id={batch['batch_id']}&wait=persisted")
            check_equal((answer.json["ok"], answer.json["failed"], answer.json["persisted"]),
                        (len(batch["records"]), [], True), "ack")
        return len(records) >= count
    wait_until(pull, seconds, f"{count} records come")
    return records


def check_shard_order(records):
    last = {}
    for record in records:
        check(int(record["sequence_number"]) > last.get(record["shard_id"], 0), "out of order:", record)
        last[record["shard_id"]] = int(record["sequence_number"])


class RawStream:
    """The record stream over a plain socket: lines as they come, read by the test itself."""

    def __init__(self, sidecar, query, address=None):
        self.socket = socket.create_connection(address or ("127.0.0.1", sidecar.port), timeout=20 * SLOW)
        self.socket.sendall(f"GET /v1/records/stream?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        for line in iter(self.file.readline, b"\r\n"):
            name, value = line.decode().strip().split(": ", 1)
            self.headers[name.lower()] = value
        self.rest = b""

    def line(self):
        """The next line, or None at the end of the stream."""
        while b"\n" not in self.rest:
            size = int(self.file.readline().strip() or b"0", 16)
            if size == 0:
                return None
            self.rest += self.file.read(size)
            self.file.readline()
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def until(self, kind):
        """Lines up to and with the first of a kind."""
        lines = []
        while True:
            line = self.line()
            check(line is not None, f"the stream ended before a line of type {kind}: {lines}")
            lines.append(line)
            if line["type"] == kind:
                return lines

    def records(self, count):
        records = []
        while len(records) < count:
            records.append(self.until("record")[-1])
        return records

    def close(self):
        self.file.close()
        self.socket.close()


# --- The path of a record ---

@test()
def subcommands_put_pull_ack(folder):
    sidecar = Sidecar.local(folder).start()
    done = sidecar.command("put", stdin=b"one\ntwo\nthree\n")
    check_equal((done.returncode, done.stdout), (0, b"3 records put\n"), done)
    done = sidecar.command("put", "--data", "four", "--partition-key", "k\"\\\u00e9")
    check_equal(done.returncode, 0, done)

    records, batches = [], []

    def pull():
        done = sidecar.command("pull", "--max-records", "10", "--wait-ms", "1000")
        check_equal(done.returncode, 0, done)
        batch = json.loads(done.stdout)
        if batch["records"]:
            records.extend(batch["records"])
            batches.append(batch)
        return len(records) == 4
    wait_until(pull, 15, "all records come")
    check_equal({data_of(record) for record in records}, {b"one", b"two", b"three", b"four"}, "data")
    check_equal([record["partition_key"] for record in records if data_of(record) == b"four"], ["k\"\\\u00e9"], "key")

    # One by its ack_id, the rest by the ids of the batches.
    done = sidecar.command("ack", records[0]["ack_id"])
    check_equal((done.returncode, json.loads(done.stdout)["ok"]), (0, 1), done)
    for batch in batches:
        done = sidecar.command("ack", "--batch-id", batch["batch_id"], "--wait", "persisted")
        check_equal((done.returncode, json.loads(done.stdout)["persisted"]), (0, True), done)
    done = sidecar.command("ack", "AAAAforged")
    check_equal(done.returncode, 1, done)
    check(b"MALFORMED" in done.stdout or b"UNKNOWN" in done.stdout, done)

    for probe in ("livez", "readyz", "startupz"):
        check_equal(sidecar.command("health", probe).returncode, 0, probe)
    check_equal(sidecar.command("health").returncode, 0, "health")
    check_equal(sidecar.command("wait", "--timeout-ms", "1000").returncode, 0, "wait")

    # The drain holds nothing any more, and stays up.
    done = sidecar.command("drain")
    check_equal(done.returncode, 0, done)
    progress = [json.loads(line) for line in done.stdout.splitlines()]
    check_equal((progress[-1]["drained"], progress[-1]["leases_held"]), (True, 0), progress)
    check_equal(sidecar.get("/v1/status")["state"], "draining", "state")
    check_equal(sidecar.command("health").returncode, 1, "readyz while draining")
    check_equal(sidecar.command("health", "livez").returncode, 0, "livez while draining")
    check_equal(sidecar.call("GET", "/v1/records/stream").status, 503, "a new session")
    sidecar.signal(signal.SIGTERM)
    check_equal(sidecar.wait(3), 0, "status")
    check_equal(sidecar.command("health", "livez").returncode, 1, "health of a sidecar that is not there")
    check_equal(sidecar.command("wait", "--timeout-ms", "300").returncode, 1, "wait for it")


@test(seconds=40)
def a_restart_goes_on_exactly_where_the_acks_ended(folder):
    sidecar = Sidecar.local(folder).start()
    placed = sidecar.put(numbered(200))
    records = pull_all(sidecar, 200, ack=False)
    check_equal(sorted((record["shard_id"], record["sequence_number"]) for record in records), sorted(placed), "places")
    check_equal({data_of(record) for record in records}, {data for _, data in numbered(200)}, "data")
    check_shard_order(records)
    check_equal(len({record["shard_id"] for record in records}), 4, "shards")

    # The first ten of each shard are acknowledged; the drain may take a moment and no more.
    mine = [record for shard in sorted({record["shard_id"] for record in records})
            for record in [record for record in records if record["shard_id"] == shard][:10]]
    answer = sidecar.call("POST", "/v1/records/settle",
                          {"settlements": [{"ack_id": record["ack_id"], "outcome": "ack"} for record in mine]})
    check_equal((answer.json["ok"], answer.json["failed"]), (40, []), answer)
    sidecar.signal(signal.SIGTERM)
    time.sleep(0.5)
    check(sidecar.process.poll() is None, "it waits for the acks of what is in flight")
    sidecar.signal(signal.SIGTERM)
    check_equal(sidecar.wait(5), 0, "status after the second SIGTERM")

    sidecar.start()
    again = pull_all(sidecar, 160)
    key = "sequence_number"
    check_equal(sorted(record[key] for record in again),
                sorted({record[key] for record in records} - {record[key] for record in mine}), "what came again")
    check_shard_order(again)
    sidecar.stop()

    # And when everything was acknowledged, nothing comes.
    sidecar.start()
    sidecar.put(numbered(1, 500))
    check_equal([data_of(record) for record in pull_all(sidecar, 1)], [b"record-0500"], "only what is new")
    sidecar.stop()


@test(seconds=40)
def nothing_is_lost_or_comes_back_after_a_kill(folder):
    sidecar = Sidecar.local(folder).start()
    sidecar.put(numbered(100))
    first = pull_all(sidecar, 100)
    sidecar.put(numbered(100, 100))
    in_flight = pull_all(sidecar, 100, ack=False)
    check_equal(len(in_flight), 100, "in flight")
    sidecar.kill()
    # A new identity by default; here the same name, which waits for its dead self as well.
    sidecar.options["worker_id"] = "another"
    sidecar.start()
    batch = sidecar.get("/v1/records?wait_ms=0")
    check_equal((batch["batch_id"], batch["records"], batch["idle_reason"]), ("", [], "no_leases"), batch)
    again = pull_all(sidecar, 100)
    check_equal(sorted(data_of(record) for record in again), sorted(data for _, data in numbered(100, 100)), "again")
    check(not {record["sequence_number"] for record in first} & {record["sequence_number"] for record in again}, "back")
    check_equal(sidecar.said().count("waiting until it may be taken as dead"), 1, "its log says once that it waits")
    sidecar.stop()


@test(seconds=40)
def a_pinned_name_takes_over_from_its_dead_self(folder):
    sidecar = Sidecar.local(folder, "pinned").start()
    sidecar.put(numbered(20))
    pull_all(sidecar, 20)
    sidecar.kill()
    sidecar.start()
    sidecar.put(numbered(20, 20))
    check_equal(sorted(data_of(record) for record in pull_all(sidecar, 20)),
                sorted(data for _, data in numbered(20, 20)), "only the new ones")
    # While it lives, nobody else may have its name.
    twin = Sidecar.local(folder, "twin", worker_id="pinned")
    twin.start(ready=False)
    check_equal(twin.wait(15), 1, "status of the twin")
    check("pinned" in twin.said() and "cannot run" in twin.said(), twin.said())
    check(sidecar.is_ready(), "the first one goes on")
    sidecar.stop()


# --- Draining ---

@test(seconds=40)
def sigterm_takes_acks_until_nothing_is_in_flight(folder):
    sidecar = Sidecar.local(folder, drain_timeout_ms=20000).start()
    sidecar.put(numbered(30))
    stream = RawStream(sidecar, "client_id=app&heartbeat_ms=200")
    check_equal((stream.status, stream.headers["content-type"]), (200, "application/x-ndjson"), stream.headers)
    opened = stream.line()
    check_equal((opened["type"], opened["client_id"], opened["heartbeat_ms"]), ("session", "app", 200), opened)
    records = stream.records(30)

    sidecar.signal(signal.SIGTERM)
    draining = stream.until("draining")[-1]
    check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", draining["deadline"]), draining)
    refused = sidecar.call("GET", "/v1/records/stream?client_id=late")
    check_equal(refused.status, 503, refused)
    check(int(refused.headers["Retry-After"]) >= 1, dict(refused.headers))
    check_equal(refused.json["code"], "unavailable", refused)
    check_equal(sidecar.ops("/readyz").status, 503, "readyz")
    check_equal(sidecar.ops("/livez").status, 200, "livez")
    sidecar.put(numbered(1, 100))  # Goes into the stream, but to nobody here.

    # It waits: heartbeats go on, and say what for. Half of the acks change nothing about that.
    heartbeat = stream.until("heartbeat")[-1]
    check_equal((heartbeat["in_flight"], heartbeat["idle_reason"]), (30, "draining"), heartbeat)

    def ack(part):
        answer = sidecar.call("POST", "/v1/records/settle",
                              {"settlements": [{"ack_id": record["ack_id"], "outcome": "ack"} for record in part]})
        check_equal((answer.json["ok"], answer.json["failed"]), (len(part), []), answer)
    ack(records[:15])
    while stream.until("heartbeat")[-1]["in_flight"] != 15:
        pass
    check(sidecar.process.poll() is None, "it still waits")
    ack(records[15:])
    last = stream.until("ended")
    check_equal([line for line in last if line["type"] == "record"], [], "records while draining")
    check_equal(last[-1]["reason"], "drained", last[-1])
    check_equal(stream.line(), None, "the end of the stream")
    check_equal(sidecar.wait(5), 0, "status")

    sidecar.start()
    check_equal([data_of(record) for record in pull_all(sidecar, 1)], [b"record-0100"], "after the restart")
    sidecar.stop()


@test(seconds=30)
def the_grace_of_a_drain_ends(folder):
    sidecar = Sidecar.local(folder, drain_timeout_ms=1000).start()
    sidecar.put(numbered(10))
    stream = RawStream(sidecar, "client_id=app")
    records = stream.records(10)
    by_shard = [record for record in records if record["shard_id"] == records[0]["shard_id"]]
    sidecar.call("POST", f"/v1/records/ack?ack_id={by_shard[0]['ack_id']}")
    started = time.monotonic()
    sidecar.signal(signal.SIGTERM)
    check_equal(sidecar.wait(10), 0, "status")
    took = time.monotonic() - started
    check(0.9 < took < 4 * SLOW, f"it took {took:.1f} s")
    sidecar.start()
    again = pull_all(sidecar, 9)
    check_equal(sorted(record["sequence_number"] for record in again),
                sorted(record["sequence_number"] for record in records if record is not by_shard[0]), "unsettled")
    sidecar.stop()


# --- Stubs ---

@test(seconds=60)
def the_python_stub_streams_settles_and_comes_back(folder):
    sidecar = Sidecar.local(folder).start()
    sidecar.put(numbered(50))
    events, handled = [], []
    with Client(sidecar.url) as client:
        stream = client.stream(client_id="py", heartbeat_ms=300, on_event=events.append)
        with stream:
            for record in stream:
                handled.append(record)
                if record.data == b"record-0007" and record.attempt == 1:
                    stream.nack(record, delay_ms=100, reason="not today")
                    continue
                stream.ack(record)
                if {record.data for record in handled if record.data != b"record-0007" or record.attempt > 1} == \
                        {data for _, data in numbered(50)}:
                    break
            check(stream.flush(wait="persisted"), "the acks are durable")
            check_equal((stream.failed, stream.stale), (0, 0), "failures")
            check_equal(client.status()["subscriptions"][0]["in_flight"], 0, "in flight")

            # The sidecar dies: the stub comes back by itself, and what it holds no more is void.
            sidecar.put(numbered(20, 50))
            fresh = [next(stream) for _ in range(20)]
            sidecar.kill()
            sidecar.options["worker_id"] = "second"
            starter = threading.Timer(0.5, lambda: sidecar.start(ready=False))
            starter.start()
            again = [next(stream) for _ in range(20)]
            starter.join()
            check_equal(sorted(record.data for record in again), sorted(record.data for record in fresh), "again")
            check(all(old.ack_id != new.ack_id for old in fresh for new in again), "other ack_ids")
            stream.ack(fresh[0])
            check(stream.stale >= 1, "an ack of a session that is over is counted")
            for record in again:
                stream.ack(record)
            check(stream.flush(wait="persisted"), "durable under the second one")
    kinds = [event["type"] for event in events]
    check("disconnected" in kinds and kinds.count("session") == 2, kinds)
    wait_until(lambda: not sidecar.get("/v1/sessions")["sessions"], 5, "its session is gone at once")
    by_shard = {}
    for record in again:
        check(by_shard.get(record.shard_id, (0, 0)) < order_of(record), "order", record)
        by_shard[record.shard_id] = order_of(record)

    # The same client_id twice: the second one takes it over, and the first one does not fight.
    with Client(sidecar.url).stream(client_id="one") as old, Client(sidecar.url).stream(client_id="one") as new:
        sidecar.put(numbered(1, 90))
        ended = []

        def read_old():
            try:
                for record in old:
                    ended.append(record)
            except SessionTakenOver as err:
                ended.append(err)
        reader = threading.Thread(target=read_old, daemon=True)
        reader.start()
        wait_until(lambda: ended, 10, "the first one reads")
        check_equal(next(new).data, b"record-0090", "what the first one had")
        reader.join(10 * SLOW)
        check(isinstance(ended[-1], SessionTakenOver), ended)
    sidecar.stop()


@test(seconds=40)
def the_python_stub_pulls(folder):
    sidecar = Sidecar.local(folder, listen=f"unix:{folder}/api.sock").start()
    client = Client(f"unix:{folder}/api.sock")
    client.put(numbered(30))
    seen = []

    def pull():
        batch = client.pull(max_records=10, wait_ms=1000, session="mine")
        check_equal(batch.session, "mine", "session")
        check(len(batch) <= 10, "size")
        failed = [record for record in batch if record.data == b"record-0003" and record.attempt == 1]
        if failed:
            batch.extend(30000)
        answer = batch.ack(failed=failed)
        check_equal(answer["failed"], [], "ack")
        seen.extend(record.data for record in batch)
        return len(set(seen)) == 30 and seen.count(b"record-0003") == 2
    wait_until(pull, 20, "all records, and the failed one again")
    batch = client.pull(max_records=10, wait_ms=100, session="mine")
    check_equal((len(batch), batch.idle_reason), (0, "no_data"), "nothing left")
    check_equal([shard["in_flight"] for shard in client.shards()], [0] * 4, "in flight")
    client.close()
    sidecar.stop()


@test(seconds=40)
def the_bash_stub_consumes(folder):
    sidecar = Sidecar.local(folder).start()
    stub = os.path.join(STUBS, "bash", "kinesis-sidecar.sh")
    # The second attempt of line 5 is the good one. Stops when the last one has come.
    script = f"""
        . '{stub}'
        handle() {{
            text=$(cat)
            echo "$KS_SHARD_ID $KS_SEQUENCE_NUMBER $KS_ATTEMPT $text" >>'{folder}/seen'
            [ "$text $KS_ATTEMPT" != "line 5 1" ] || return 1
            echo "$text" >>'{folder}/done'
            [ "$(sort -u '{folder}/done' | wc -l)" -lt 20 ] || return 99
        }}
        seq -f 'line %g' 1 20 | ks_put a b c d
        KS_SESSION=$1 ks_consume handle 6
        batch=$(ks_pull 5 100)
        echo "[$(ks_text batch_id "$batch")] $(ks_text idle_reason "$batch")"
        ks_ack nonsense && echo taken
        :
    """
    for shell in ("bash", "dash"):
        for name in ("seen", "done"):
            if os.path.exists(f"{folder}/{name}"):
                os.remove(f"{folder}/{name}")
        done = subprocess.run([shell, "-c", script, "stub", shell], env=dict(os.environ, KS_URL=sidecar.url),
                              capture_output=True, text=True, timeout=30 * SLOW, check=False)
        check_equal(done.returncode, 0, shell, done.stderr)
        check_equal(done.stdout, "[] no_data\n", shell, done.stderr)
        check("kinesis-sidecar: " in done.stderr, "a bad batch_id is refused in a sentence", done.stderr)
        lines = read_lines(f"{folder}/seen")
        check_equal({line.split(" ", 3)[3] for line in lines}, {f"line {number}" for number in range(1, 21)}, shell)
        check(any(line.endswith(" 2 line 5") for line in lines), shell, "line 5 came again:", lines)
        check_equal(sidecar.get("/v1/status")["subscriptions"][0]["in_flight"], 0, "in flight after", shell)
    sidecar.stop()


@test(seconds=30)
def the_examples_of_the_stubs_run(folder):
    sidecar = Sidecar.local(folder).start()
    sidecar.put(numbered(3))
    log = os.path.join(folder, "example.log")
    process = spawn([os.path.join(STUBS, "python", "example.py"), sidecar.url], log)
    wait_until(lambda: sum("record-" in line for line in read_lines(log)) == 3, 15, "the Python example prints records")
    process.terminate()
    check_equal(process.wait(10), 0, "status of the Python example")

    sidecar.put(numbered(3, 10))
    log = os.path.join(folder, "example-sh.log")
    process = spawn([os.path.join(STUBS, "bash", "example.sh")], log, env=dict(os.environ, KS_URL=sidecar.url))
    wait_until(lambda: sum("record-001" in line for line in read_lines(log)) == 3, 15, "the shell example prints records")
    wait_until(lambda: sidecar.get("/v1/status")["subscriptions"][0]["in_flight"] == 0, 10, "and acknowledges them")
    process.terminate()
    process.wait(10)
    check(not any("record-000" in line for line in read_lines(log)), "what the first one acknowledged came again")
    sidecar.stop()


# --- Doors ---

@test(seconds=30)
def it_listens_where_it_is_told(folder):
    port, other, ops = free_port(), free_port(), free_port()
    path = os.path.join(folder, "api.sock")
    sidecar = Sidecar.local(folder, listen=f"127.0.0.1:{port},[::1]:{other},unix:{path}",
                            ops_listen=f"127.0.0.1:{ops}")
    sidecar.port, sidecar.ops_port = port, ops
    sidecar.start()
    for address in (("127.0.0.1", port), ("::1", other), path):
        answer = call(address, "GET", "/v1/status")
        check_equal((answer.status, answer.json["worker_id"]), (200, "sidecar"), address)
    check_equal(call(path, "POST", "/v1/local/records",
                     {"Records": [{"Data": "aGk=", "PartitionKey": "k"}]}).status, 200, "put by the socket")
    stream = RawStream(sidecar, "client_id=six", address=("::1", other))
    check_equal(data_of(stream.records(1)[0]), b"hi", "record by IPv6")
    stream.close()
    # A foreign name is refused, wherever it comes in.
    refused = call(("::1", other), "GET", "/v1/status", headers={"Host": "evil.example"})
    check_equal(refused.status, 403, refused)
    # Nobody can walk into the ops port for data.
    check_equal(call(("127.0.0.1", ops), "GET", "/v1/status").status, 404, "data on the ops port")
    sidecar.stop()
    check(not os.path.exists(path), "the socket is gone with it")
    # A socket left behind by a kill -9 is no obstacle.
    sidecar.start()
    sidecar.kill()
    check(os.path.exists(path), "the socket is left behind")
    sidecar.options["worker_id"] = "second"
    sidecar.start()
    check_equal(call(path, "GET", "/v1/status").status, 200, "after a kill")
    sidecar.stop()


@test(seconds=30)
def a_port_in_use_is_named(folder):
    first = Sidecar.local(folder, "first").start()
    second = Sidecar.local(folder, "second", listen=first.options["listen"])
    second.start(ready=False)
    check_equal(second.wait(10), 1, "status")
    check(f"127.0.0.1:{first.port}" in second.said() and "in use" in second.said(), second.said())
    check(first.is_ready(), "the first one goes on")
    # Nothing of the second one is in the table.
    check_equal([worker["worker_id"] for worker in first.get("/v1/workers")["workers"]], ["first"], "workers")
    first.stop()


# --- Bad input ---

@test(seconds=60)
def bad_options_are_named_in_one_line(folder):
    fine = ["--stream", "demo", "--application", "demo", "--source", f"local:{folder}/s.db"]
    cases = [
        (["--no-such-thing", "1"], "--no-such-thing"),
        (["--stream", "again"], "--stream"),
        (["--lease-duration-ms", "soon"], "--lease-duration-ms"),
        (["--lease-duration-ms", "1"], "--lease-duration-ms"),
        (["--lease-duration-ms"], "--lease-duration-ms"),
        (["--initial-position", "yesterday"], "--initial-position"),
        (["--initial-position", "at_timestamp:2026-13-01T00:00:00Z"], "--initial-position"),
        (["--listen", "8990"], "--listen"),
        (["--listen", "127.0.0.1:99999"], "--listen"),
        (["--listen", "127.0.0.1:8990,127.0.0.1:8990"], "--listen"),
        (["--dialect", "kcl"], "--dialect"),
        (["--dialect", "other"], "--dialect"),
        (["--retrieval", "fanout"], "--retrieval"),
        (["--leases", "postgres:x"], "--leases"),
        (["--worker-id", "#leader"], "--worker-id"),
        (["--log-level", "loud"], "--log-level"),
        (["--config", f"{folder}/not-there.json"], "--config"),
        (["--token-file", f"{folder}/not-there"], "token"),
        (["surplus"], "surplus"),
    ]
    for more, named in cases:
        for command in (["run"], ["config", "validate"]):
            if named == "token" and command[0] == "config":
                continue  # Files are opened by who runs.
            done = subprocess.run([BINARY, *command, *fine, *more], capture_output=True, text=True, timeout=20 * SLOW,
                                  check=False)
            check(done.returncode in ((1, 2) if named == "token" else (2,)), command, more, done)
            lines = done.stderr.strip().split("\n")
            check(named in lines[-1], command, more, "is not named:", done.stderr)
            if named != "token":
                check_equal(len(lines), 1, command, more, done.stderr)

    # Without anything it says what is missing, and how it would run without AWS.
    done = subprocess.run([BINARY], capture_output=True, text=True, timeout=20, check=False, env={"PATH": "/bin"})
    check_equal(done.returncode, 2, done)
    for word in ("--stream", "--application", "--source local:"):
        check(word in done.stderr, word, done.stderr)
    done = subprocess.run([BINARY, "config", "validate", *fine], capture_output=True, text=True, timeout=20, check=False)
    check_equal((done.returncode, done.stderr), (0, ""), done)

    # A flag comes before the environment, the environment before the file; each value remembers where it is from.
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump({"lease_duration_ms": 3000, "checkpoint_interval_ms": 700, "log_level": "warn"}, file)
    sidecar = Sidecar.local(folder, config=f"{folder}/config.json", lease_duration_ms=2000, checkpoint_interval_ms=None)
    sidecar.env.update(KINESIS_SIDECAR_LEASE_DURATION_MS="4000", KINESIS_SIDECAR_LOG_LEVEL="info",
                       KINESIS_SIDECAR_SERVICE_HOST="10.0.0.1")
    sidecar.start()
    config = json.dumps(sidecar.get("/v1/config"))
    for name, value, source in (("lease_duration_ms", "2000", "flag"), ("log_level", "info", "environment"),
                                ("checkpoint_interval_ms", "700", "file"), ("max_leases", "0", "default")):
        check(re.search(rf'"{name}"[^}}]*{value}[^}}]*"{source}"', config), name, config)
    sidecar.stop()


def as_nobody(args):
    """As root, file modes stop nobody: then the binary runs as a user for whom they count."""
    if os.getuid() != 0:
        return args
    return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *args]


@test(seconds=40)
def bad_files_are_refused_in_a_sentence(folder):
    def refused(what, *words, args=None, status=1):
        log = os.path.join(folder, "refused.log")
        if os.path.exists(log):
            os.remove(log)
        process = spawn(args, log)
        check_equal(process.wait(10 * SLOW), status, what)
        with open(log, encoding="utf-8", errors="replace") as file:
            said = file.read()
        for word in words:
            check(word in said, what, f"does not say {word}:", said)
        return said

    def args(**options):
        return [BINARY, "run", *Sidecar.local(folder, **options).args]

    # Not a database; and it stays as it is.
    garbage = b"this is no database at all\n" * 100
    for option, name in (("leases", "leases.db"), ("source", "stream.db")):
        path = os.path.join(folder, "bad-" + name)
        with open(path, "wb") as file:
            file.write(garbage)
        kind = "sqlite:" if option == "leases" else "local:"
        refused(f"garbage as {option}", path, args=args(**{option: kind + path}))
        with open(path, "rb") as file:
            check_equal(file.read(), garbage, f"{path} was changed")

    # A database of ours, with a hole in it.
    sidecar = Sidecar.local(folder).start()
    sidecar.put(numbered(5))
    pull_all(sidecar, 5)
    sidecar.stop()
    good = os.path.join(folder, "leases.db")
    broken = os.path.join(folder, "broken.db")
    with open(good, "rb") as file:
        content = bytearray(file.read())
    for at in range(4096, len(content)):
        content[at] = 0xA5
    with open(broken, "wb") as file:
        file.write(content)
    check(len(content) > 4096, "the lease table is longer than a page")
    refused("a corrupted lease table", broken, args=args(leases="sqlite:" + broken))
    # The stream is no lease table, and the lease table no stream.
    refused("a stream as lease table", "stream.db", args=args(leases=f"sqlite:{folder}/stream.db"))
    refused("a lease table as stream", "leases.db", args=args(source=f"local:{folder}/leases.db", leases=None))

    # A directory that is not there, and one that may not be written.
    refused("no directory", "/no/such/directory", args=args(leases="sqlite:/no/such/directory/leases.db"))
    closed = os.path.join(folder, "closed")
    os.mkdir(closed)
    os.chmod(closed, 0o555)
    os.chmod(folder, 0o755)
    binary = BINARY
    if os.getuid() == 0:
        # Where it was built may be closed to others.
        binary = os.path.join(folder, "kinesis-sidecar")
        shutil.copy(BINARY, binary)
    options = Sidecar.local(folder, source=f"local:{closed}/stream.db", leases=f"sqlite:{closed}/leases.db").args
    refused("a read-only directory", closed, "writable", args=as_nobody([binary, "run", *options]))
    check_equal(os.listdir(closed), [], "nothing was made in it")


@test(seconds=40)
def a_full_disk_is_an_error_and_no_partial_checkpoint(folder):
    sidecar = Sidecar.local(folder).start()
    sidecar.put(numbered(10))
    records = pull_all(sidecar, 10, ack=False)
    # From now on no file may grow beyond what the lease table has: what a full disk does, without one.
    size = max(os.path.getsize(path) for path in glob.glob(os.path.join(folder, "*.db*")))
    subprocess.run(["prlimit", "--pid", str(sidecar.process.pid), f"--fsize={size}"], check=True)
    big = [("k", b"x" * 900_000)]
    answer = sidecar.call("POST", "/v1/local/records", {"Records": [
        {"PartitionKey": key, "Data": base64.b64encode(data).decode()} for key, data in big]})
    check(answer.status >= 500 or answer.json.get("FailedRecordCount") == 1, "a put that found no room:", answer)
    check_equal(sidecar.get("/v1/status")["worker_id"], "sidecar", "the API answers")
    ids = [{"ack_id": record["ack_id"], "outcome": "ack"} for record in records]
    subprocess.run(["prlimit", "--pid", str(sidecar.process.pid), "--fsize=unlimited"], check=True)
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": ids, "wait": "persisted"})
    check_equal((answer.status, answer.json["ok"], answer.json["persisted"]), (200, 10, True), answer)
    sidecar.put(numbered(1, 50))
    check_equal([data_of(record) for record in pull_all(sidecar, 1)], [b"record-0050"], "it goes on")
    sidecar.stop()


# --- A store that is away ---

@test(seconds=60)
def a_store_that_is_away_is_waited_for(folder):
    found = glob.glob(os.path.join(ROOT, "tests", "node_modules", "@dynoxide", "*", "dynoxide"))
    check(found, "dynoxide is not there: make deps")
    port = free_port()

    def start_store():
        return spawn([found[0], "serve", "--host", "127.0.0.1", "--port", str(port), "--db-path",
                      os.path.join(folder, "dynamodb.db")], os.path.join(folder, "dynoxide.log"))
    sidecar = Sidecar.local(folder, leases="dynamodb", application="away-app")
    sidecar.env.update(AWS_ENDPOINT_URL_DYNAMODB=f"http://127.0.0.1:{port}", AWS_REGION="us-east-1",
                       AWS_ACCESS_KEY_ID="AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY="for-emulators-only",
                       AWS_CONFIG_FILE="/dev/null", AWS_SHARED_CREDENTIALS_FILE="/dev/null")
    sidecar.start(ready=False)

    # Nobody listens: not ready, and it says why; but it lives, and answers.
    answer = wait_until(lambda: reason(sidecar), 10, "readyz says why")
    check("dynamodb" in answer.lower() or "lease table" in answer.lower() or str(port) in answer, answer)
    check_equal(sidecar.ops("/startupz").status, 503, "startupz")
    check_equal(sidecar.ops("/livez").status, 200, "livez")
    status = sidecar.get("/v1/status")
    check_equal((status["ready"], status["state"]), (False, "starting"), status)
    check(status["reasons"], status)
    sidecar.put(numbered(10))
    batch = sidecar.get("/v1/records?wait_ms=300")
    check_equal((batch["records"], batch["idle_reason"]), ([], "no_leases"), batch)

    store = start_store()
    sidecar.wait_ready(20)
    check_equal(sidecar.ops("/startupz").status, 200, "startupz")
    records = pull_all(sidecar, 10, ack=False)

    # It goes away again, for longer than a lease: deliveries rest, nothing else does.
    store.kill()
    store.wait()
    answer = wait_until(lambda: reason(sidecar), 10, "readyz says why")
    check_equal(sidecar.ops("/startupz").status, 200, "startupz, once it was ready")
    time.sleep(2.5)
    sidecar.put(numbered(5, 10))
    ids = [{"ack_id": record["ack_id"], "outcome": "ack"} for record in records]
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": ids, "wait": "persisted", "wait_ms": 300})
    check_equal((answer.status, answer.json["ok"], answer.json["persisted"]), (200, 10, False), answer)
    check_equal(sidecar.get("/v1/records?wait_ms=300")["records"], [], "delivered past the lease deadline")

    # And comes back with its rows: the same epoch goes on, and the acks become durable.
    start_store()
    wait_until(lambda: sidecar.ops("/readyz").status == 200, 20, "ready again")
    check_equal(sorted(data_of(record) for record in pull_all(sidecar, 5)),
                sorted(data for _, data in numbered(5, 10)), "only what is new")
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": ids, "wait": "persisted"})
    check_equal((answer.json["ok"], answer.json["persisted"]), (10, True), answer)
    check_equal({lease["epoch"] for lease in sidecar.get("/v1/leases")["leases"]}, {1}, "epochs")
    sidecar.stop()


def reason(sidecar):
    """What /readyz says while it is not ready, None when it is, or while nobody listens yet."""
    try:
        answer = sidecar.ops("/readyz?verbose=1")
    except OSError:
        return None
    return answer.body.decode() if answer.status == 503 else None


if __name__ == "__main__":
    sys.exit(main())
