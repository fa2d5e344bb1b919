#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clocks that differ: this machine's and the stream's, by minutes or hours. Our own Kinesis plays a stream whose clock is
right while ours is wrong: nothing that is put after readiness is passed over, and nothing much older comes.
"""

import base64
import os
import time

from lib import Double, Sidecar, check_equal, data_of, main, pull_all, test, wait_until
from kinesis_client import REGION

STREAM = "orders"


class World:
    """A double that checks no signature, so that nothing tells the sidecar of the difference but the answers' Date."""

    def __init__(self, folder, clock_ms):
        self.folder = folder
        self.double = Double(folder, signed=False)
        self.double.control(clock_ms=clock_ms)
        self.client = self.double.client()
        self.client.must("CreateStream", StreamName=STREAM, ShardCount=1)
        wait_until(lambda: self.client.must("DescribeStreamSummary", StreamName=STREAM)["StreamDescriptionSummary"]
                   ["StreamStatus"] == "ACTIVE", 5, "the stream is active")

    def put(self, *names):
        answer = self.client.must("PutRecords", StreamName=STREAM, Records=[
            {"Data": base64.b64encode(name.encode()).decode(), "PartitionKey": name} for name in names])
        check_equal(answer["FailedRecordCount"], 0, "put")

    def sidecar(self, **options):
        env = {"AWS_ENDPOINT_URL_KINESIS": self.double.url, "AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": "any",
               "AWS_SECRET_ACCESS_KEY": "any", "AWS_EC2_METADATA_DISABLED": "true"}
        settings = {"stream": STREAM, "application": "orders-app",
                    "leases": "sqlite:" + os.path.join(self.folder, "leases.db"),
                    "lease_duration_ms": 2000, "checkpoint_interval_ms": 200}
        settings.update(options)
        return Sidecar(self.folder, env=env, **settings).start()


def names_of(records):
    return sorted(data_of(record).decode() for record in records)


def begins_at_the_tip(folder, clock_ms):
    world = World(folder, clock_ms)
    world.put("old")
    time.sleep(2.5)  # A Date has whole seconds.
    sidecar = world.sidecar()
    names = sorted(f"new-{at}" for at in range(20))
    world.put(*names)
    check_equal(names_of(pull_all(sidecar, 20)), names, "what was put after readiness")
    check_equal(sidecar.get("/v1/records?wait_ms=500")["records"], [], "nothing else comes")
    sidecar.stop()


@test(60)
def latest_on_a_machine_an_hour_ahead_delivers_what_comes_after_readiness(folder):
    begins_at_the_tip(folder, -3600 * 1000)


@test(60)
def latest_on_a_machine_two_minutes_ahead_delivers_what_comes_after_readiness(folder):
    begins_at_the_tip(folder, -120 * 1000)


@test(60)
def latest_on_a_machine_an_hour_behind_delivers_nothing_older(folder):
    begins_at_the_tip(folder, 3600 * 1000)


@test(60)
def seek_to_latest_on_a_machine_an_hour_ahead_passes_over_nothing_that_comes(folder):
    world = World(folder, -3600 * 1000)
    sidecar = world.sidecar(initial_position="trim_horizon")
    world.put("first")
    check_equal(names_of(pull_all(sidecar, 1)), ["first"])
    sidecar.call("POST", "/v1/pause", {"keep_leases": True})
    world.put("skipped")
    time.sleep(2.5)
    sidecar.call("POST", "/v1/seek", {"to": "latest"})
    world.put("second", "third")
    sidecar.call("POST", "/v1/resume", {})
    check_equal(names_of(pull_all(sidecar, 2)), ["second", "third"])
    answer = sidecar.call("POST", "/v1/seek", {"to": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "force": True})
    check_equal((answer.status, "instant to come" in answer.body.decode()), (400, True), "ours is theirs to come")
    sidecar.stop()


if __name__ == "__main__":
    main()
