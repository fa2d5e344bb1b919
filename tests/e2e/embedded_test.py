#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The embedded default: a local stream and SQLite leases, no AWS; subcommands, stubs, drains, restarts."""

import concurrent.futures
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time

from lib import (BINARY, PATIENCE, ROOT, SLOW, RawStream, Sidecar, check, check_equal, check_shard_order, data_of, main, numbered, pull_all,
                 read_lines, spawn, test, wait_until)
from sidecar_client import SessionTakenOver, Sidecar as Client, order_of

STUBS = os.path.join(ROOT, "client-stubs")


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
    check(b"not an id that was given out" in done.stdout + done.stderr, done)

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
    waited = sidecar.command("wait", "--timeout-ms", "300")
    check(waited.returncode == 1 and b"answers 503: draining" in waited.stderr, "wait says why it was in vain:", waited)
    check_equal(sidecar.call("GET", "/v1/records/stream").status, 503, "a new session")
    sidecar.signal(signal.SIGTERM)
    check_equal(sidecar.wait(3), 0, "status")
    check_equal(sidecar.command("health", "livez").returncode, 1, "health of a sidecar that is not there")
    check_equal(sidecar.command("wait", "--timeout-ms", "300").returncode, 1, "wait for it")


@test()
def to_quit_ends_the_process_when_all_is_given_back(folder):
    sidecar = Sidecar.local(folder, drain_timeout_ms=20000).start()
    sidecar.put(numbered(20))
    stream = RawStream(sidecar, "client_id=app")
    records = stream.records(20)
    done = []
    asked = threading.Thread(target=lambda: done.append(sidecar.command("quit", seconds=60)))
    asked.start()
    stream.until("draining")
    # What SIGTERM does: what is in flight may be settled, and is checkpointed.
    check_equal(sidecar.get("/v1/status")["state"], "draining", "state")
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": [
        {"ack_id": record["ack_id"], "outcome": "ack"} for record in records]})
    check_equal(answer.json["ok"], 20, answer)
    asked.join(60 * PATIENCE)
    check_equal(sidecar.wait(10), 0, "status of the sidecar")
    check_equal(done[0].returncode, 0, done[0])
    last = json.loads(done[0].stdout.splitlines()[-1])
    check_equal((last["type"], last["leases_held"]), ("drained", 0), last)
    check_equal(sidecar.command("quit").returncode, 1, "nobody is there any more")

    again = Sidecar.local(folder).start()
    check_equal(again.call("POST", "/v1/quit?subscription=demo").status, 400, "the process ends as a whole")
    check_equal(again.get("/v1/records?wait_ms=1500")["records"], [], "everything was checkpointed")
    check_equal(again.call("POST", "/v1/quit").status, 200, "by hand")
    check_equal(again.wait(10), 0, "status of the sidecar")


@test()
def leases_and_top_are_for_people(folder):
    sidecar = Sidecar.local(folder, local_shards=3).start()
    sidecar.put(numbered(300))
    stream = RawStream(sidecar, "client_id=shop&max_in_flight=100")
    stream.records(100)
    wait_until(lambda: sidecar.get("/v1/status")["subscriptions"][0]["leases_held"] == 3, 20, "all are held")
    lines = sidecar.command("leases").stdout.decode().splitlines()
    check_equal(lines[0].split(), ["SHARD", "OWNER", "EPOCH", "STATE", "SINCE", "BEHIND", "UNSETTLED", "AGE", "TROUBLE",
                                   "CHECKPOINT"], lines)
    check_equal([line.split()[:4] for line in lines[1:4]],
                [[f"shardId-00000000000{index}", "sidecar", "1", "held"] for index in range(3)], lines)
    one = sidecar.command("leases", "show", "shardId-000000000001")
    told = dict(re.split(r"  +", line, maxsplit=1) for line in one.stdout.decode().splitlines() if "  " in line)
    check_equal((told["shard"], told["owner"], told["session"]), ("shardId-000000000001", "sidecar", "shop"), told)
    check_equal(sidecar.command("leases", "show", "shardId-9").returncode, 1, "no such shard")

    picture = sidecar.command("top", "--once").stdout.decode()
    check("worker sidecar: active, ready" in picture and "100 in flight" in picture, picture)
    check(re.search(r"^shop +stream +yes +100 / 100 +0 +0 +\d +flow_controlled *$", picture, re.MULTILINE), picture)
    check("\x1b" not in picture, "a terminal's words in a file")
    stream.close()

    # On a terminal it is written over, in what room there is.
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 60, 0, 0))
    watch = spawn([BINARY, "top", "--listen", sidecar.options["listen"]], stdout=slave)
    os.close(slave)
    shown = b""
    while shown.count(b"\x1b[H") < 3:
        shown += os.read(master, 65536)
    pictures = shown.split(b"\x1b[H")
    check("shardId-000000000000" in pictures[1].decode() and pictures[1].count(b"\n") <= 11, pictures)
    watch.terminate()
    os.close(master)
    sidecar.stop()


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
    time.sleep(1)  # A heartbeat tells the others how many leases it holds.
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
    check("worker id pinned is alive" in twin.said(), twin.said())
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
    check(0.9 < took < 15 * SLOW, f"it took {took:.1f} s")
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
            # Started by this thread: a process does not outlive the thread that made it. The stub waits in another.
            taker = concurrent.futures.ThreadPoolExecutor(1).submit(lambda: [next(stream) for _ in range(20)])
            time.sleep(0.5)
            sidecar.start(ready=False)
            again = taker.result(30 * PATIENCE)
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
        reader.join(10 * PATIENCE)
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
                              capture_output=True, text=True, timeout=30 * PATIENCE, check=False)
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
    process = spawn([os.path.join(STUBS, "python", "example.py")], log,
                    env=dict(os.environ, PYTHONPATH=os.path.join(STUBS, "python", "src"), KINESIS_SIDECAR_URL=sidecar.url))
    wait_until(lambda: sum("record-" in line for line in read_lines(log)) == 3, 15, "the Python example prints records")
    process.terminate()
    check_equal(process.wait(10), 0, "status of the Python example")

    sidecar.put(numbered(3, 10))
    log = os.path.join(folder, "example-sh.log")
    process = spawn([os.path.join(STUBS, "bash", "example.sh")], log, env=dict(os.environ, KS_URL=sidecar.url))
    wait_until(lambda: sum("record-001" in line for line in read_lines(log)) == 3, 15, "the shell example prints records")
    wait_until(lambda: sidecar.get("/v1/status")["subscriptions"][0]["in_flight"] == 0, 10, "and acknowledges them")
    process.terminate()
    sidecar.put(numbered(1, 20))  # The poll waits for it.
    check_equal(process.wait(10 * PATIENCE), 143, "status of the shell example")
    check_equal(sidecar.get("/v1/sessions")["sessions"], [], "sessions")
    check(not any("record-000" in line for line in read_lines(log)), "what the first one acknowledged came again")
    sidecar.stop()


if __name__ == "__main__":
    main()
