#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A slice of a stream, captured beside a running sidecar and played without AWS: the same shards, sequence numbers,
keys, arrival times and aggregates, at the pace of the arrivals or as fast as they are read."""

import datetime
import os
import signal
import subprocess
import time

from kpl import pack
from lib import (BINARY, RawStream, Sidecar, check, check_equal, data_of, kinesis, main, make_stream, need_emulators,
                 pull_all, put_kinesis, test, wait_until)

FIRST = "shardId-000000000000"


def name_of(folder):
    return "capture-" + os.path.basename(folder).replace("_", "-")


def capture(sidecar, folder, *more, status=0):
    """The subcommand, with the stream of the sidecar and its environment."""
    out = os.path.join(folder, "out.db")
    source = ["--source", sidecar.options["source"]] if "source" in sidecar.options else []
    done = subprocess.run([BINARY, "capture", out, "--stream", sidecar.options["stream"], *source, *more], check=False,
                          capture_output=True, env=sidecar.env, timeout=60)
    check_equal(done.returncode, status, done.stderr, done.stdout)
    return out


def player(folder, out, name, stream, **options):
    return Sidecar.local(folder, name, source="local:" + out, leases="sqlite:" + os.path.join(folder, name + ".leases"),
                         stream=stream, **options)


def told(records):
    """What a record is, but for how it was delivered."""
    fields = ("shard_id", "sequence_number", "sub_sequence_number", "partition_key", "approximate_arrival_timestamp", "data")
    return sorted(tuple(record[field] for field in fields) for record in records)


@test(90)
def a_slice_of_kinesis_is_played_as_it_was(folder):
    stream = name_of(folder)
    make_stream(stream, 2)
    owner = Sidecar.on_emulators(folder, "owner", stream=stream, application=stream).start()
    put_kinesis(stream, [(f"key-{number}", b"record-%d" % number) for number in range(60)])
    put_kinesis(stream, [("packed", pack([("packed", data) for data in (b"one", b"two", b"three")]))])
    kinesis("SplitShard", StreamName=stream, ShardToSplit=FIRST, NewStartingHashKey=str(2 ** 126))
    put_kinesis(stream, [(f"later-{number}", b"later-%d" % number) for number in range(20)])
    expected = pull_all(owner, 83)
    out = capture(owner, folder)
    check(not [name for name in os.listdir(folder) if ".part-" in name], os.listdir(folder))
    owner.stop()

    app = player(folder, out, "app", stream).start()
    found = pull_all(app, 83)
    check_equal(told(found), told(expected), "the records")
    shards = {shard["shard_id"]: shard for shard in app.get("/v1/shards")["shards"]}
    check_equal(len(shards), 4, shards)
    check_equal(sorted(child for child, shard in shards.items() if FIRST in shard["parents"]),
                ["shardId-000000000002", "shardId-000000000003"], "children of the split shard")
    refused = app.call("POST", "/v1/local/records", {"Records": [{"Data": "AA==", "PartitionKey": "k"}]})
    check(refused.status >= 400 and b"captured slice" in refused.body, refused)


def paced_slice(folder, count, apart):
    """A slice of `count` records, about `apart` seconds after each other."""
    writer = Sidecar.local(folder, "writer", local_shards=2).start()
    for number in range(count):
        writer.put([(f"key-{number}", b"record-%d" % number)])
        time.sleep(apart)
    out = capture(writer, folder)
    writer.stop()
    return out


@test(60)
def a_played_record_comes_no_sooner_than_its_time(folder):
    out = paced_slice(folder, 6, 0.5)
    started = time.monotonic()
    app = player(folder, out, "app", "demo", speed=2).start()
    stream = RawStream(app, "client_id=app")
    seen = []
    for _ in range(6):
        record, = stream.records(1)
        seen.append((time.monotonic(), record))
    arrivals = [datetime.datetime.fromisoformat(record["approximate_arrival_timestamp"].replace("Z", "+00:00"))
                for _, record in seen]
    check_equal(arrivals, sorted(arrivals), "in the order of their arrivals, over both shards")
    # The clock began after the process did.
    for (at, record), arrival in zip(seen, arrivals):
        due = (arrival - arrivals[0]).total_seconds() / 2
        check(at - started >= due, f"{at - started} s after the start, due after {due} s", record)


@test(60)
def a_restart_goes_on_behind_the_checkpoints_and_its_clock_begins_there(folder):
    out = paced_slice(folder, 4, 0.4)
    app = player(folder, out, "app", "demo", speed=1, worker_id="app").start()
    first = RawStream(app, "client_id=app").records(2)
    answer = app.call("POST", "/v1/records/settle", {"settlements": [{"ack_id": record["ack_id"], "outcome": "ack"}
                                                                     for record in first], "wait": "persisted"})
    check(answer.json["persisted"], answer)
    app.stop()
    # However long it was down: the third record is the first one now.
    app = player(folder, out, "app", "demo", speed=1, worker_id="app").start()
    again = RawStream(app, "client_id=app").records(2)
    check_equal(sorted(data_of(record) for record in first + again), [b"record-%d" % number for number in range(4)],
                "each once")


@test(60)
def a_capture_that_is_ended_leaves_nothing(folder):
    writer = Sidecar.local(folder, "writer", local_shards=1).start()
    writer.put([("key", b"record")])
    out = os.path.join(folder, "out.db")
    tool = subprocess.Popen([BINARY, "capture", out, "--stream", "demo", "--source", writer.options["source"], "--to",
                             "2999-01-01T00:00:00Z"], env=writer.env, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: any(".part-" in name for name in os.listdir(folder)), 20, "it is written")
        tool.send_signal(signal.SIGINT)
        said = tool.communicate(timeout=20)[1]
    finally:
        tool.kill()
        tool.wait()
    check_equal(tool.returncode, 1, said)
    check(b"interrupted" in said, said)
    check_equal([name for name in os.listdir(folder) if name.startswith("out.db")], [], "files")


if __name__ == "__main__":
    need_emulators("dynoxide", "kinesis-local")
    main()
