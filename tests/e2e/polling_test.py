#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Polling, end to end: the real sidecar on our own Kinesis, which keeps to the limits and clocks of AWS where a test says
so: five reads and 2 MiB a second of a shard, iterators that expire, keys that may not be used, streams that go.
"""

import base64
import os
import sqlite3
import threading
import time

from lib import Double, FaultProxy, Sidecar, check, check_equal, check_shard_order, data_of, main, pull_all, test, wait_until
from kinesis_client import ACCESS_KEY, REGION, SECRET_KEY

STREAM = "orders"
SHARD = "shardId-000000000000"
RATE = "ProvisionedThroughputExceededException"


class World:
    """A double with a stream, and a sidecar on it."""

    def __init__(self, folder, shards=1, **control):
        self.folder = folder
        self.double = Double(folder)
        if control:
            self.double.control(**control)
        self.client = self.double.client()
        self.client.must("CreateStream", StreamName=STREAM, ShardCount=shards)
        self.wait_active()

    def wait_active(self):
        wait_until(lambda: self.client.must("DescribeStreamSummary", StreamName=STREAM)["StreamDescriptionSummary"]
                   ["StreamStatus"] == "ACTIVE", 5, "the stream is active")

    def put(self, *names):
        answer = self.client.must("PutRecords", StreamName=STREAM, Records=[
            {"Data": base64.b64encode(name.encode()).decode(), "PartitionKey": name} for name in names])
        check_equal(answer["FailedRecordCount"], 0, "put")

    def sidecar(self, url=None, **options):
        """`url`: where it asks, if it is not the double itself."""
        env = {"AWS_ENDPOINT_URL_KINESIS": url or self.double.url, "AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": ACCESS_KEY,
               "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_EC2_METADATA_DISABLED": "true"}
        settings = {"stream": STREAM, "application": "orders-app",
                    "leases": "sqlite:" + os.path.join(self.folder, "leases.db"), "initial_position": "trim_horizon",
                    "lease_duration_ms": 2000, "checkpoint_interval_ms": 500}
        settings.update(options)
        return Sidecar(self.folder, env=env, **settings).start()

    def errors(self, code):
        return self.double.control()["errors"].get(code, 0)

    def requests(self, operation):
        return self.double.control()["requests"].get(operation, 0)


def names_of(records):
    return [data_of(record).decode() for record in records]


def expect(sidecar, names, seconds=30):
    """All of them come, each once, in the order of their shards."""
    records = pull_all(sidecar, len(names), seconds)
    check_equal(sorted(names_of(records)), sorted(names))
    check_shard_order(records)


@test(300)
def a_shard_is_shared_with_a_consumer_that_never_backs_off(folder):
    """It asks more often than the shard allows, whatever it is told. How much it leaves to others is up to its timing: we
    go on, and each record comes once."""
    world = World(folder, limits=1)
    sidecar = world.sidecar(shard_metrics="on")
    started = time.monotonic()
    over = threading.Event()

    def hurry():
        iterator = None
        while not over.wait(0.15):
            answer = world.double.client().ask("GetRecords", ShardIterator=iterator) if iterator else \
                world.double.client().ask("GetShardIterator", StreamName=STREAM, ShardId=SHARD,
                                          ShardIteratorType="TRIM_HORIZON")
            if answer.status == 200:
                iterator = answer.body.get("NextShardIterator") or answer.body["ShardIterator"]
    other = threading.Thread(target=hurry)
    other.start()
    try:
        for part in range(4):
            names = [f"{part}-{at}" for at in range(100)]
            world.put(*names)
            expect(sidecar, names, 60)
        wait_until(lambda: sidecar.metric("shard_throttles_total") > 0 or pull_all(sidecar, 0), 60, "it is throttled")
    finally:
        over.set()
        other.join()
    check_equal(sidecar.get("/v1/records?wait_ms=100")["records"], [], "nothing comes twice")
    told = sidecar.ops("/metrics").body.decode()
    for metric in ("reads_total", "read_failures_total", "throttles_total", "millis_behind_latest"):
        check(f'kinesis_sidecar_shard_{metric}{{subscription="orders-app",shard="{SHARD}"}} ' in told, metric, told)
    told = sidecar.said().count("reads are throttled")
    check(1 <= told <= 1 + (time.monotonic() - started) / 60, "it is said once a minute at most:", told)
    sidecar.stop()


@test(60)
def iterators_that_expire_all_the_time_lose_nothing(folder):
    """An iterator lives shorter than the sidecar rests between two reads of an idle shard."""
    world = World(folder, iterator_span=150)
    sidecar = world.sidecar()
    check_equal(sidecar.get("/v1/records?wait_ms=100")["records"], [], "nothing is there yet")
    for part in range(5):
        before = world.errors("ExpiredIteratorException")
        wait_until(lambda before=before: sidecar.get("/v1/records?wait_ms=100") and
                   world.errors("ExpiredIteratorException") > before, 10, "an iterator expires")
        names = [f"{part}-{at}" for at in range(3)]
        world.put(*names)
        expect(sidecar, names)
    sidecar.stop()


@test(60)
def a_connection_that_the_network_forgot_is_given_up_in_seconds(folder):
    """Its request would have had 20 s."""
    world = World(folder)
    network = FaultProxy(folder, world.double.url)
    sidecar = world.sidecar(url=network.url)
    world.put("before")
    expect(sidecar, ["before"])
    network.do("drop-answers")
    wait_until(lambda: not network.say("status").endswith("swallowed 0"), 10, "an answer was lost")
    lost = time.monotonic()
    network.do("heal")
    world.put("after")
    expect(sidecar, ["after"])
    check(time.monotonic() - lost < 15, "the next record came after", time.monotonic() - lost, "s")


@test(60)
def a_key_that_is_off_is_said_once_with_what_to_do(folder):
    world = World(folder)
    world.put("a", "b")
    world.double.control(faults=[{"kind": "error", "operation": "GetRecords", "code": "KMSDisabledException",
                                  "count": 1000000}])
    sidecar = world.sidecar()
    sidecar.get("/v1/records?wait_ms=10")
    wait_until(lambda: "enable the stream's KMS key" in sidecar.said(), 15, "what to do is said")
    asked = world.requests("GetRecords")
    wait_until(lambda: sidecar.get("/v1/records?wait_ms=100") and world.requests("GetRecords") > asked + 3, 30,
               "it asks again")
    check_equal(sidecar.said().count("cannot be read"), 1, sidecar.said())
    answer = sidecar.ops("/readyz")
    check(answer.status == 503 and b"KMSDisabledException" in answer.body, "it is not ready:", answer.body)
    check(b"(request " in answer.body, "the request is told:", answer.body)
    # What cannot be read falls behind.
    wait_until(lambda: sidecar.metric("millis_behind_latest") > 1000, 15, "it is behind")
    world.double.control(heal=True)
    expect(sidecar, ["a", "b"])
    wait_until(lambda: sidecar.metric("millis_behind_latest") == 0, 15, "it is not behind any more")
    check_equal(sidecar.said().count("answers again"), 1, sidecar.said())
    sidecar.stop()


@test(90)
def records_of_ten_mebibytes_come_at_the_pace_that_aws_allows(folder):
    world = World(folder, record_bytes=10 << 20, write_bytes=0, limits=1)
    world.double.control(limits=0)
    large = [os.urandom(1 << 20) * 9 + name.encode() for name in ("one", "two", "three")]
    for data in large:
        world.client.must("PutRecord", StreamName=STREAM, Data=base64.b64encode(data).decode(), PartitionKey="k")
    world.double.control(limits=1)
    sidecar = world.sidecar(memory_budget_bytes=32 << 20)  # The least that there is by default.
    records = pull_all(sidecar, 3, 60)
    check([data_of(record) for record in records] == large, "they come whole, in order")
    check_equal(world.errors(RATE), 0, "nothing was asked for too early")
    sidecar.stop()


@test(60)
def a_stream_that_is_deleted_ends_no_shard(folder):
    world = World(folder, change_span=1500)
    world.put("a")
    sidecar = world.sidecar()
    expect(sidecar, ["a"])
    world.client.must("DeleteStream", StreamName=STREAM)
    wait_until(lambda: sidecar.get("/v1/records?wait_ms=100") and sidecar.ops("/readyz").status == 503, 30,
               "it is not ready")
    wait_until(lambda: "not found" in sidecar.ops("/readyz").body.decode(), 15, "it says why")
    with sqlite3.connect(os.path.join(folder, "leases.db"), timeout=10) as rows:
        checkpoint, = rows.execute("SELECT checkpoint FROM lease_table WHERE p = 's'").fetchone()
    check(checkpoint.isdigit(), "the checkpoint is where it was:", checkpoint)
    sidecar.stop()


@test(60)
def the_end_of_a_shard_is_followed_by_its_children(folder):
    for end_apart in (0, 1):
        here = os.path.join(folder, str(end_apart))
        os.mkdir(here)
        world = World(here, end_apart=end_apart)
        sidecar = world.sidecar()
        world.put(*[f"before-{at}" for at in range(20)])
        world.client.must("SplitShard", StreamName=STREAM, ShardToSplit=SHARD, NewStartingHashKey=str(2**127))
        world.wait_active()
        world.put(*[f"behind-{at}" for at in range(20)])
        records = pull_all(sidecar, 40, 30)
        check_equal(sorted(names_of(records)), sorted(f"{part}-{at}" for part in ("before", "behind") for at in range(20)))
        check_equal(names_of(records)[:20], [f"before-{at}" for at in range(20)], "the parent comes first")
        sidecar.stop()


if __name__ == "__main__":
    main()
