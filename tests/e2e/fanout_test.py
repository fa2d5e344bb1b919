#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Enhanced fan-out, end to end: the real sidecar on our own Kinesis, over TLS and HTTP/2. The clocks of Kinesis can be made
faster, those of the sidecar are real: two feeds of a shard are 5 s apart.
"""

import base64
import os
import threading
import time

from lib import Double, Failure, Sidecar, check, check_equal, check_shard_order, data_of, main, pull_all, test, wait_until
from kinesis_client import ACCESS_KEY, REGION, SECRET_KEY

STREAM = "orders"
SHARD = "shardId-000000000000"


class World:
    """A double with a stream, and sidecars on it."""

    def __init__(self, folder, shards=1, tls=True, **control):
        self.folder, self.tls = folder, tls
        self.double = Double(folder, tls=tls)
        self.client = self.double.client()
        self.client.must("CreateStream", StreamName=STREAM, ShardCount=shards)
        self.wait_active()
        if control:
            self.double.control(**control)

    def wait_active(self):
        wait_until(lambda: self.client.must("DescribeStreamSummary", StreamName=STREAM)["StreamDescriptionSummary"]
                   ["StreamStatus"] == "ACTIVE", 10, "the stream is active")

    def put(self, *names, data=b""):
        for at in range(0, len(names), 100):
            answer = self.double.client().must("PutRecords", StreamName=STREAM, Records=[
                {"Data": base64.b64encode(name.encode() + data).decode(), "PartitionKey": name}
                for name in names[at:at + 100]])
            check_equal(answer["FailedRecordCount"], 0, "put")

    def sidecar(self, name="sidecar", **options):
        env = {"AWS_ENDPOINT_URL_KINESIS": self.double.tls_url if self.tls else self.double.url, "AWS_REGION": REGION,
               "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
               "AWS_EC2_METADATA_DISABLED": "true"}
        if self.tls:
            env["AWS_CA_BUNDLE"] = self.double.ca
        settings = {"stream": STREAM, "application": "orders-app", "retrieval": "fanout",
                    "leases": "sqlite:" + os.path.join(self.folder, "leases.db"), "initial_position": "trim_horizon",
                    "lease_duration_ms": 2000, "checkpoint_interval_ms": 500}
        settings.update(options)
        return Sidecar(self.folder, name=name, env=env, **settings).start()

    def errors(self, code):
        return self.double.control()["errors"].get(code, 0)

    def requests(self, operation):
        return self.double.control()["requests"].get(operation, 0)


class App:
    """Pulls and acknowledges until it is told to stop; never gives up on a sidecar that is away."""

    def __init__(self, sidecar, records=None):
        self.sidecar, self.records, self.over = sidecar, [] if records is None else records, False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over:
            try:
                batch = self.sidecar.get("/v1/records?max_records=200&wait_ms=200")
                self.records.extend(batch["records"])
                if batch["records"]:
                    self.sidecar.call("POST", f"/v1/records/ack?batch_id={batch['batch_id']}")
            except (OSError, Failure, ValueError, KeyError):
                time.sleep(0.05)

    def stop(self):
        self.over = True
        self.thread.join()

    def names(self):
        return [data_of(record).decode().rstrip("x") for record in list(self.records)]


def names_of(records):
    return [data_of(record).decode().rstrip("x") for record in records]


def feeds_begun(sidecar):
    return sidecar.metric("feeds_begun_total")


@test(120)
def the_main_job_survives_a_kill(folder):
    """4 shards over TLS; the sidecar is killed in the middle. What was persisted does not come again."""
    world = World(folder, shards=4)
    sidecar = world.sidecar()
    first, second = [f"a-{at}" for at in range(1000)], [f"b-{at}" for at in range(1000)]
    world.put(*first)
    persisted = names_of(pull_all(sidecar, 400, 60))
    sidecar.process.kill()
    sidecar.process.wait()
    world.put(*second)
    sidecar = world.sidecar(name="next")
    records = pull_all(sidecar, 2000 - len(persisted), 60)
    check_equal(sorted(persisted + names_of(records)), sorted(first + second), "each comes, and once")
    check_shard_order(records)
    told = world.double.control()
    check_equal((told["requests"].get("GetRecords", 0), told["requests"]["RegisterStreamConsumer"]), (0, 1))
    check(told["h2"] >= 8, "a connection for each feed:", told["h2"])
    sidecar.stop()


@test(120)
def feeds_are_renewed_without_a_gap_and_without_a_repetition(folder):
    """Kinesis ends each after 6 s, while records are put all the time."""
    world = World(folder, shards=2, subscription_span=6000)
    sidecar = world.sidecar(shard_metrics="on")
    app = App(sidecar)
    names = []

    def put_on():
        part = [f"{len(names) + at}" for at in range(5)]
        world.put(*part)
        names.extend(part)
        return feeds_begun(sidecar) >= 8
    wait_until(put_on, 60, "each feed is renewed three times", every=0.05)
    wait_until(lambda: len(app.records) >= len(names), 30, "all come")
    check_equal(sorted(app.names()), sorted(names))
    check_shard_order(app.records)
    told = sidecar.ops("/metrics").body.decode()
    check('shard_feeds_begun_total{subscription="orders-app",shard="shardId-000000000001"} ' in told, told)
    wait_until(lambda: sidecar.metric("feeds") == 2, 10, "two feeds, none of them a moment between two")
    check_equal(world.errors("ResourceInUseException"), 0, "never too early")
    check("SubscribeToShard\"" not in "".join(line for line in told.split("\n") if "duration_seconds" in line),
          "the length of a stream is no latency")
    app.stop()
    sidecar.stop()


@test(120)
def two_applications_with_one_consumer_take_the_shard_from_each_other(folder):
    """A mistake, and yet nothing is lost; nobody storms."""
    world = World(folder, tls=False)
    sidecars = [world.sidecar(name=name, application=name, consumer="shared",
                              leases="sqlite:" + os.path.join(folder, name + ".db")) for name in ("one", "two")]
    apps = [App(sidecar) for sidecar in sidecars]
    names = []

    def put_on():
        names.append(f"{len(names)}")
        world.put(names[-1])
        return min(sidecar.metric("feeds_in_use_total") for sidecar in sidecars) >= 1
    wait_until(put_on, 60, "both were refused", every=0.2)
    for app in apps:
        wait_until(lambda app=app: len(app.records) >= len(names), 60, "all come")
        check_equal(app.names(), names)
        app.stop()
    check(world.requests("SubscribeToShard") < 100, "nobody storms:", world.requests("SubscribeToShard"))
    for sidecar in sidecars:
        check(sidecar.said().count("Another active subscription") < 20, "it is not said all the time")
        sidecar.stop()


@test(120)
def an_app_that_stalls_costs_lag_and_no_memory(folder):
    world = World(folder)
    names = [f"{at}-" for at in range(800)]
    world.put(*names, data=b"x" * 40000)
    sidecar = world.sidecar(memory_budget_bytes=16 << 20)
    batch = wait_until(lambda: [one for one in [sidecar.get("/v1/records?max_records=50&wait_ms=1000")]
                                if one["records"]], 30, "a batch comes")[0]
    wait_until(lambda: sidecar.metric("feeds") == 0, 40, "the feed is given up")
    check(sidecar.metric("memory_budget_used_bytes") <= 16 << 20, "within the budget")
    sidecar.call("POST", f"/v1/records/ack?batch_id={batch['batch_id']}")
    records = batch["records"] + pull_all(sidecar, len(names) - len(batch["records"]), 60)
    check_equal(names_of(records), names, "in order, each once")
    check(feeds_begun(sidecar) >= 2, "it was begun again")
    sidecar.stop()


@test(90)
def the_end_of_a_shard_is_followed_by_its_children(folder):
    world = World(folder)
    sidecar = world.sidecar()
    world.put(*[f"before-{at}" for at in range(20)])
    sidecar.get("/v1/records?wait_ms=10")
    world.client.must("SplitShard", StreamName=STREAM, ShardToSplit=SHARD, NewStartingHashKey=str(2**127))
    world.wait_active()
    world.put(*[f"behind-{at}" for at in range(20)])
    records = pull_all(sidecar, 40, 40)
    check_equal(sorted(names_of(records)), sorted(f"{part}-{at}" for part in ("before", "behind") for at in range(20)))
    check_equal(names_of(records)[:20], [f"before-{at}" for at in range(20)], "the parent comes first")
    world.client.must("MergeShards", StreamName=STREAM, ShardToMerge="shardId-000000000001",
                      AdjacentShardToMerge="shardId-000000000002")
    world.wait_active()
    world.put(*[f"merged-{at}" for at in range(20)])
    check_equal(names_of(pull_all(sidecar, 20, 40)), [f"merged-{at}" for at in range(20)])
    sidecar.stop()


@test(90)
def permissions_and_places_that_are_missing_are_named(folder):
    for operation, code, words in (("RegisterStreamConsumer", "AccessDeniedException", "RegisterStreamConsumer"),
                                   ("SubscribeToShard", "AccessDeniedException", "SubscribeToShard"),
                                   ("RegisterStreamConsumer", "LimitExceededException", "may have no more consumers")):
        here = os.path.join(folder, operation + code)
        os.mkdir(here)
        world = World(here, tls=False)
        world.put("a", "b")
        world.double.control(faults=[{"kind": "error", "operation": operation, "code": code,
                                      "message": "User is not authorized to perform: kinesis:" + operation,
                                      "count": 1000000}])
        sidecar = world.sidecar()
        sidecar.get("/v1/records?wait_ms=10")
        wait_until(lambda: sidecar.get("/v1/records?wait_ms=50") and sidecar.ops("/readyz").status == 503, 20,
                   "it is not ready")
        check(words in sidecar.ops("/readyz").body.decode(), "it says why:", sidecar.ops("/readyz").body)
        world.double.control(heal=True)
        check_equal(sorted(names_of(pull_all(sidecar, 2, 60))), ["a", "b"])
        wait_until(lambda: sidecar.ops("/readyz").status == 200, 20, "it is ready again")
        sidecar.stop()


@test(90)
def peek_and_replay_leave_the_feeds_alone(folder):
    """A second SubscribeToShard of the consumer would take the shard from the group for 5 s."""
    world = World(folder)
    sidecar = world.sidecar()
    app = App(sidecar)
    world.put("a", "b", "c")
    wait_until(lambda: len(app.records) == 3, 30, "the feed is there")
    begun = world.requests("SubscribeToShard")
    seen = sidecar.get(f"/v1/peek?shard={SHARD}")
    check_equal(names_of(seen["records"]), ["a", "b", "c"], "a peek")
    replay = sidecar.call("POST", "/v1/replays", {}).json
    told = sidecar.call("GET", f"/v1/replays/{replay['id']}/stream").body.decode()
    check_equal(told.count('"type":"record"'), 3, told)
    world.put("d")
    wait_until(lambda: len(app.records) == 4, 4, "the feed goes on")
    check_equal((world.requests("SubscribeToShard"), world.errors("ResourceInUseException")), (begun, 0))
    app.stop()
    sidecar.stop()


@test(60)
def a_consumer_that_is_not_there_is_told(folder):
    world = World(folder, tls=False)
    arn = f"arn:aws:kinesis:{REGION}:123456789012:stream/{STREAM}/consumer/gone:1"
    sidecar = world.sidecar(consumer=arn)
    sidecar.get("/v1/records?wait_ms=10")
    wait_until(lambda: sidecar.get("/v1/records?wait_ms=50") and
               "is not there; name one that is with --consumer" in sidecar.ops("/readyz").body.decode(), 30, "it says why")
    check_equal(world.requests("RegisterStreamConsumer"), 0)
    sidecar.stop()


@test(60)
def a_consumer_that_somebody_deletes_is_registered_again(folder):
    world = World(folder, tls=False)
    sidecar = world.sidecar()
    world.put("a")
    check_equal(names_of(pull_all(sidecar, 1, 30)), ["a"])
    world.client.must("DeregisterStreamConsumer", ConsumerName="orders-app",
                      StreamARN=f"arn:aws:kinesis:{REGION}:123456789012:stream/{STREAM}")
    world.put("b")
    check_equal(names_of(pull_all(sidecar, 1, 40)), ["b"])
    check_equal(world.requests("RegisterStreamConsumer"), 2)
    sidecar.stop()


@test(180)
def every_way_to_fail_within_a_feed_loses_nothing(folder):
    """8 shards; what Kinesis and the network can do to an event stream, while records are put."""
    codes = ["ResourceNotFoundException", "ResourceInUseException", "InternalFailureException",
             "KMSThrottlingException", "KMSDisabledException", "KMSAccessDeniedException", "KMSNotFoundException",
             "KMSInvalidStateException", "KMSOptInRequired"]
    world = World(folder, shards=8)
    faults = [{"kind": "exception", "operation": "SubscribeToShard", "code": code, "skip": 5} for code in codes]
    faults += [{"kind": kind, "operation": "SubscribeToShard", "skip": 5, **more} for kind, more in
               (("bad-crc", {}), ("cut-event", {}), ("garbage-event", {}), ("silence", {}), ("end", {}),
                ("no-initial", {"skip": 3}), ("stream-error", {"code": "InternalError"}), ("refuse", {"skip": 9}),
                ("lose", {"skip": 10}))]
    world.double.control(faults=faults)
    sidecar = world.sidecar()
    app = App(sidecar)
    names = []
    for part in range(40):
        more = [f"{part}-{at}" for at in range(20)]
        world.put(*more)
        names.extend(more)
        time.sleep(0.1)
    wait_until(lambda: len(app.records) >= len(names), 120, "all come")
    check_equal(sorted(app.names()), sorted(names), "each once")
    check_shard_order(app.records)
    check(feeds_begun(sidecar) > 8, "feeds were begun again")
    app.stop()
    sidecar.stop()


if __name__ == "__main__":
    main()
