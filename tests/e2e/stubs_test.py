#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shell stub and tests/lib/sidecar_client.py with apps that are slow or raise, several threads, connections that are
cut or half-open, and texts of any characters. embedded_test.py has the usual case."""

import json
import os
import queue
import subprocess
import sys
import threading
import time

from lib import (PATIENCE, ROOT, FaultProxy, Sidecar, check, check_equal, main, numbered, read_lines, test, wait_until)
from sidecar_client import Sidecar as Client, SidecarError

BASH = os.path.join(ROOT, "client-stubs", "bash", "kinesis-sidecar.sh")
NEVER_MS = 60000  # Heartbeats so rare that nothing may wait for one.


def in_flight(sidecar):
    return sidecar.get("/v1/status")["subscriptions"][0]["in_flight"]


# --- The client of the tests ---

@test(seconds=15)
def acks_of_other_threads_do_not_wait_for_the_iterator(folder):
    sidecar = Sidecar.local(folder).start()
    sidecar.put(numbered(100))
    work = queue.SimpleQueue()
    with Client(sidecar.url).stream(max_in_flight=10, heartbeat_ms=NEVER_MS) as stream:
        threading.Thread(target=lambda: [stream.ack(work.get()) for _ in range(100)], daemon=True).start()
        for count, record in enumerate(stream, 1):
            work.put(record)
            if count == 100:
                break
        wait_until(lambda: in_flight(sidecar) == 0, 10, "the last ones are acknowledged")
    sidecar.stop()


def settlements_of(client):
    """What it sends from now on."""
    sent, settle = [], client.settle

    def settled(settlements, **more):
        sent.extend(settlements)
        return settle(settlements, **more)
    client.settle = settled
    return sent


@test(seconds=20)
def batches_are_acknowledged_as_one(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    sidecar.put(numbered(3000))
    client = Client(sidecar.url)
    sent = settlements_of(client)
    with client.stream(heartbeat_ms=NEVER_MS) as stream:
        for count, record in enumerate(stream, 1):
            stream.ack(record)
            if count == 3000:
                break
        wait_until(lambda: in_flight(sidecar) == 0, 10, "all are acknowledged")
    check(sum("batch_id" in one for one in sent) > 0 and len(sent) < 2500, len(sent), "settlements of 3000 records")
    check_equal((stream.failed, stream.stale), (0, 0), "failures")
    sidecar.stop()


@test(seconds=20)
def what_is_not_acknowledged_is_not_acknowledged_with_its_batch(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    sidecar.put(numbered(20))
    client = Client(sidecar.url)
    sent = settlements_of(client)
    with client.stream(ordering="none", heartbeat_ms=NEVER_MS) as stream:
        records = [next(stream) for _ in range(20)]
        for record in records[:18]:
            stream.ack(record)
            stream.ack(record)  # Twice is once.
        stream.nack(records[18])
        sidecar.put(numbered(1))  # Another batch begins: nothing more of the first one comes.
        again = {record.ack_id: record for record in (next(stream), next(stream))}
        check_equal(sorted(record.attempt for record in again.values()), [1, 2], "attempts")
        for record in again.values():
            stream.ack(record)
        wait_until(lambda: in_flight(sidecar) == 1, 10, "only the last one of the batch is in flight")
        check(records[0].batch_id not in [one.get("batch_id") for one in sent], "the batch was acknowledged as a whole")
    check_equal((stream.failed, stream.stale), (0, 0), "failures")
    sidecar.stop()


@test(seconds=20)
def a_slow_handler_has_its_acks_and_extends_sent(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    sidecar.put(numbered(2))
    with Client(sidecar.url).stream(ack_deadline_ms=3000, heartbeat_ms=NEVER_MS) as stream:
        stream.ack(next(stream))
        slow = next(stream)
        stream.extend(slow, 600000)
        # It works on the second one, and asks for no more records meanwhile.
        wait_until(lambda: in_flight(sidecar) == 1, 10, "the first one is acknowledged")
        time.sleep(3.2)
        check_equal(in_flight(sidecar), 1, "what is extended stays")
        # Nor does it stop when the app is told to.
        stream.stop()
        stream.ack(slow)
        wait_until(lambda: in_flight(sidecar) == 0, 10, "the second one is acknowledged")
    check_equal((stream.failed, stream.stale), (0, 0), "failures")
    sidecar.stop()


@test()
def a_reason_of_any_text_takes_no_other_settlement_along(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    sidecar.put(numbered(8))
    with Client(sidecar.url).stream() as stream:
        for reason in "x" * (2 << 20), "\udcff", "nul \0", "\u00e9" * 1000:
            stream.ack(next(stream))
            stream.nack(next(stream), reason=reason)
            stream.flush()
    check_equal((stream.failed, stream.stale), (0, 0), "failures")
    sidecar.stop()


@test()
def persisted_is_not_said_of_an_ack_that_was_refused(folder):
    sidecar = Sidecar.local(folder, local_shards=2).start()
    sidecar.put(numbered(20))
    with Client(sidecar.url).stream() as stream:
        records = [next(stream) for _ in range(20)]
        lost, kept = sorted({record.shard_id for record in records})
        answer = sidecar.call("POST", "/v1/seek", {"to": "trim_horizon", "shards": [lost], "force": True})
        check_equal(answer.status, 200, answer)
        for record in records:
            stream.ack(record)
        check(not stream.flush(wait="persisted"), "the acks of", lost, "are in the table?")
        check_equal(stream.failed >= 1, True, "refused")
        stream.ack([record for record in records if record.shard_id == kept][-1])
        check(stream.flush(wait="persisted"), "what was refused is waited for no more")
    sidecar.stop()


@test(seconds=40)
def a_connection_that_is_cut_or_half_open_is_made_anew(folder):
    sidecar = Sidecar.local(folder).start()
    proxy = FaultProxy(folder, sidecar.port)
    kinds = []

    def tell(event):
        kinds.append(event["type"])
        if event["type"] == "disconnected":
            proxy.do("heal")

    with Client(proxy.url).stream(heartbeat_ms=200, on_event=tell) as stream:
        for number, fault in enumerate(("cut", "hang")):
            missing = {data for _, data in numbered(200, 1000 * number)}
            sidecar.put(numbered(100, 1000 * number))
            while missing:
                record = next(stream)
                stream.ack(record)
                missing.discard(record.data)
                if len(missing) == 150 and fault:
                    proxy.do(fault)
                    sidecar.put(numbered(100, 1000 * number + 100))
                    fault = None
            check_equal(kinds.count("session"), number + 2, "sessions", kinds)
        check(stream.flush(wait="persisted"), "durable")
    sidecar.stop()


@test()
def a_checkpoint_acknowledges_what_came_before_it(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    sidecar.put(numbered(10))
    with Client(sidecar.url).stream() as stream:
        records = [next(stream) for _ in range(10)]
        answer = stream.sidecar.checkpoint(records[6], wait="persisted")
        check_equal(answer["persisted"], True, answer)
        shard = stream.sidecar.shards()[0]
        check_equal((shard["checkpoint"], shard["in_flight"]), (records[6].sequence_number, 3), shard)
        check_equal(stream.sidecar.checkpoint(records[2])["positions"][0]["watermark"], records[6].sequence_number, "twice")
        answer = sidecar.call("POST", "/v1/seek", {"to": "trim_horizon", "force": True})
        check_equal(answer.status, 200, answer)
        try:
            stream.sidecar.checkpoint(records[9])
            check(False, "an epoch that is over was checkpointed")
        except SidecarError as err:
            check_equal((err.status, err.code), (409, "aborted"), err)
    sidecar.stop()


class InPieces:
    """A response of one line of 32 MiB, as small chunks bring it."""

    def __init__(self):
        self.left = [b"x" * 16384] * 2048 + [b"\n"]
        self.left.reverse()

    def read1(self, _):
        return self.left.pop()


@test()
def a_large_record_costs_as_much_as_it_is_long(_):
    stream = Client().stream()
    stream.response = pieces = InPieces()
    before = time.process_time()
    while pieces.left:
        stream.receive()
    took = time.process_time() - before
    check_equal([len(line) for line in stream.lines], [32 << 20], "the line")
    check(took < 2, f"{took:.1f} s of CPU")


@test()
def the_client_of_the_tests_finds_its_way(folder):
    """To one subscription of several, over IPv6, beside proxies that are meant for others, with a token that changes."""
    config, token = os.path.join(folder, "config.json"), os.path.join(folder, "token")
    with open(config, "w", encoding="utf-8") as file:
        json.dump({"subscriptions": [{"stream": name, "application": name, "source": f"local:{folder}/{name}.db"}
                                     for name in ("orders", "clicks")]}, file)
    with open(token, "w", encoding="utf-8") as file:
        file.write("first")
    os.chmod(token, 0o600)
    sidecar = Sidecar.local(folder, source=None, stream=None, application=None, config=config, token_file=token)
    sidecar.options["listen"] = f"[::1]:{sidecar.port}"
    sidecar.start()
    os.environ["http_proxy"] = os.environ["HTTP_PROXY"] = "http://127.0.0.1:1"
    tokens = iter(["first\n"] * 1000)
    with Client(f"http://[::1]:{sidecar.port}/", token=lambda: next(tokens), subscription="clicks") as client:
        client.put(numbered(10))
        with client.stream(client_id="a", ordering="key", lanes=4) as stream:
            for record in [next(stream) for _ in range(10)]:
                check_equal(record.redriven, False, record)
                stream.ack(record)
            check(stream.flush(wait="persisted"), "durable")
        client.put(numbered(1))
        batch = client.pull(session="b")
        check_equal(batch.ack()["ok"], len(batch), "pulled")
        check_equal({shard["in_flight"] for shard in client.shards()}, {0}, "in flight")
        check_equal(len(client.pull(wait_ms=100, session="b").nack()["failed"]), 0, "a nack of nothing")
    sidecar.stop()


@test()
def a_handler_that_raises_and_a_signal_give_the_rest_back_at_once(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    sidecar.put(numbered(100))
    script = """
import os, signal, sys
from sidecar_client import Sidecar
with Sidecar(sys.argv[1]).stream() as stream:
    signal.signal(signal.SIGTERM, lambda *_: stream.stop())
    for count, record in enumerate(stream, 1):
        stream.ack(record)
        if count == 10:
            if sys.argv[2] == "raise":
                raise ValueError("what is this?")
            os.kill(os.getpid(), signal.SIGTERM)
"""
    env = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "tests", "lib"), PYTHONDEVMODE="1")
    for how, status in ("raise", 1), ("signal", 0):
        done = subprocess.run([sys.executable, "-c", script, sidecar.url, how], env=env, capture_output=True, text=True,
                              timeout=20 * PATIENCE, check=False)
        check_equal(done.returncode, status, done.stderr)
        check("ResourceWarning" not in done.stderr, done.stderr)
        check_equal(sidecar.get("/v1/sessions")["sessions"], [], "sessions")
    batch = Client(sidecar.url).pull(max_records=1000)
    check_equal((len(batch), batch.records[0].data), (80, b"record-0020"), "what was not handled")
    batch.ack()
    sidecar.stop()


@test(seconds=30)
def the_environment_says_where_the_sidecar_is(folder):
    """A Unix socket and a token, of which the app's code knows nothing."""
    token = os.path.join(folder, "token")
    with open(token, "w", encoding="utf-8") as file:
        file.write("a secret\n")
    os.chmod(token, 0o600)
    sidecar = Sidecar.local(folder, local_shards=1, token_file=token)
    path = os.path.join(folder, "api.sock")
    sidecar.options["listen"] = "unix:" + path
    sidecar.start()
    env = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "tests", "lib"), KINESIS_SIDECAR_URL="unix:" + path,
               KINESIS_SIDECAR_TOKEN_FILE=token)
    for program in ([sys.executable, "-c", "from sidecar_client import Sidecar; print(Sidecar().status()['worker_id'])"],
                    ["dash", "-c", f". '{BASH}'; ks_text worker_id \"$(ks_request GET /v1/status)\""]):
        done = subprocess.run(program, env=env, capture_output=True, text=True, timeout=10 * PATIENCE, check=False)
        check_equal((done.returncode, done.stdout.strip() != ""), (0, True), program, done)
    sidecar.stop()


# --- Bash ---

@test(seconds=40)
def the_bash_stub_takes_any_record_in_a_strict_shell(folder):
    """Data that nobody reads, with pipefail; keys that look like JSON; NULs; a token; what a user's curl does else."""
    with open(os.path.join(folder, ".curlrc"), "w", encoding="utf-8") as file:
        file.write("include\n")
    token = os.path.join(folder, "token")
    with open(token, "w", encoding="utf-8") as file:
        file.write("a secret\n")
    os.chmod(token, 0o600)
    sidecar = Sidecar.local(folder, local_shards=1, token_file=token, max_request_bytes=2 << 20).start()
    script = f"""
        . '{BASH}'
        handle() {{
            echo "$KS_SEQUENCE_NUMBER $KS_ATTEMPT" >>"$1"
            case $(wc -l <"$1") in
            1) [ -n "$KS_SHARD_ID" ] ;;
            2) cat >"$1.data" ;;
            *) return 99 ;;
            esac
        }}
        trap ks_close EXIT
        handle_it() {{ handle "$seen"; }}
        seen=$1
        ks_consume handle_it 10
    """
    key = "\"},{\"x\\,\"data\":\"x\"],\"session\":\"x\",\"attempt\":7,\"shard_id\":\"\n$(false)`"
    for shell, strict in ("bash", "set -euo pipefail"), ("dash", "set -eu"):
        Client(sidecar.url, token="a secret").put([(key, b"x" * 300000), (key, b"a\0'\n\"\n\n\xff"), ("k", b"")])
        seen = os.path.join(folder, shell)
        env = dict(os.environ, KS_URL=sidecar.url, KS_TOKEN_FILE=token, KS_SESSION=shell, CURL_HOME=folder)
        done = subprocess.run([shell, "-c", strict + script, "stub", seen], env=env, capture_output=True, text=True,
                              timeout=30 * PATIENCE, check=False)
        check_equal((done.returncode, done.stdout, done.stderr), (0, "", ""), shell)
        lines = read_lines(seen)
        check_equal([line.split()[1:] for line in lines], [["1"]] * 3, shell)
        check_equal(len({line.split()[0] for line in lines}), 3, lines)
        with open(seen + ".data", "rb") as file:
            check_equal(file.read(), b"a\0'\n\"\n\n\xff", shell)
        check_equal(Client(sidecar.url, token="a secret").request("GET", "/v1/sessions")["sessions"], [], "sessions")
    sidecar.stop()

if __name__ == "__main__":
    main()
