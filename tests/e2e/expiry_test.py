#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records that expire before they were read: told by an event, a warning and metrics, on our own Kinesis and on the local
stream; and an idle shard, of which nothing is told.
"""

import base64
import http.client
import json
import os
import sqlite3
import time

from lib import Double, Sidecar, check, check_equal, data_of, main, pull_all, test, wait_until
from kinesis_client import REGION

STREAM = "orders"


def put(client, *names):
    answer = client.must("PutRecords", StreamName=STREAM, Records=[
        {"Data": base64.b64encode(name.encode()).decode(), "PartitionKey": name} for name in names])
    check_equal(answer["FailedRecordCount"], 0, "put")


def stream_of(folder):
    double = Double(folder, signed=False)
    client = double.client()
    client.must("CreateStream", StreamName=STREAM, ShardCount=1)
    wait_until(lambda: client.must("DescribeStreamSummary", StreamName=STREAM)["StreamDescriptionSummary"]
               ["StreamStatus"] == "ACTIVE", 5, "the stream is active")
    return double, client


def on_double(folder, double):
    env = {"AWS_ENDPOINT_URL_KINESIS": double.url, "AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": "any",
           "AWS_SECRET_ACCESS_KEY": "any", "AWS_EC2_METADATA_DISABLED": "true"}
    return Sidecar(folder, env=env, stream=STREAM, application="orders-app", initial_position="trim_horizon",
                   leases="sqlite:" + os.path.join(folder, "leases.db"), lease_duration_ms=2000,
                   checkpoint_interval_ms=200).start()


def events_of(sidecar):
    """The kept events of the kind; they come at once, before a heartbeat."""
    connection = http.client.HTTPConnection("127.0.0.1", sidecar.port, timeout=10)
    connection.request("GET", "/v1/events?heartbeat_ms=200")
    answer = connection.getresponse()
    found = []
    while True:
        event = json.loads(answer.readline())
        if event["type"] == "heartbeat":
            connection.close()
            return [event for event in found if event["type"] == "records_expired"]
        found.append(event)


def settle_first(sidecar, count):
    batch = sidecar.get(f"/v1/records?max_records={count}&wait_ms=8000")
    check_equal(len(batch["records"]), count)
    settled = sidecar.call("POST", "/v1/records/settle", {"settlements": [{"batch_id": batch["batch_id"], "outcome": "ack"}],
                                                          "wait": "persisted"})
    check_equal(settled.json["persisted"], True)


@test(60)
def a_checkpoint_younger_than_the_retention_period_on_kinesis_is_not_told_of(folder):
    double, client = stream_of(folder)
    sidecar = on_double(folder, double)
    put(client, *[f"lost-{at}" for at in range(100)])
    settle_first(sidecar, 10)
    check_equal(events_of(sidecar), [], "nothing expired yet")
    sidecar.stop()
    double.control(retention_span=1000)
    wait_until(lambda: client.must("GetRecords", ShardIterator=client.must(
        "GetShardIterator", StreamName=STREAM, ShardId="shardId-000000000000",
        ShardIteratorType="TRIM_HORIZON")["ShardIterator"])["Records"] == [], 10, "they are trimmed")
    double.control(retention_span=86400000)
    put(client, "new")
    sidecar = on_double(folder, double)
    check_equal([data_of(record) for record in pull_all(sidecar, 1)], [b"new"])
    said = [line for line in sidecar.said().splitlines() if "expired unread" in line]
    # By the period that the stream has by now the checkpoint is young: it is not known to be of this stream.
    check_equal(said, [], "a checkpoint younger than the retention period")
    sidecar.stop()


@test(60)
def records_that_expire_on_kinesis_without_a_known_period_are_told(folder):
    double, client = stream_of(folder)
    sidecar = on_double(folder, double)
    put(client, *[f"lost-{at}" for at in range(100)])
    settle_first(sidecar, 10)
    sidecar.stop()
    double.control(retention_span=1500)  # In hours: 0, which is no period.
    time.sleep(2.5)
    put(client, "new")
    sidecar = on_double(folder, double)
    check_equal([data_of(record) for record in pull_all(sidecar, 1)], [b"new"])
    check("records may have expired unread" in sidecar.said(), sidecar.said())
    event, = events_of(sidecar)
    check_equal(event["shard_id"], "shardId-000000000000")
    check(event["from"] < event["to"], event)
    check(sidecar.metric("expired_gap_seconds") > 1, "the span")
    check_equal(sidecar.metric("records_expired_total"), 0, "their number is not known")
    sidecar.stop()


@test(60)
def an_idle_shard_on_kinesis_is_never_told_of(folder):
    double, client = stream_of(folder)
    double.control(retention_span=1500)
    sidecar = on_double(folder, double)
    put(client, "one", "two")
    check_equal(len(pull_all(sidecar, 2)), 2)
    sidecar.stop()
    time.sleep(2.5)  # The record of the checkpoint is gone.
    sidecar = on_double(folder, double)
    check_equal(sidecar.get("/v1/records?wait_ms=2000")["records"], [])
    put(client, "three")
    check_equal([data_of(record) for record in pull_all(sidecar, 1)], [b"three"])
    check_equal(events_of(sidecar), [])
    check("expired unread" not in sidecar.said(), sidecar.said())
    sidecar.stop()


def on_file(folder, **more):
    return Sidecar(folder, stream=STREAM, application="orders-app", source="local:" + os.path.join(folder, "stream.db"),
                   local_shards=1, initial_position="trim_horizon", checkpoint_interval_ms=200, **more).start()


@test(60)
def records_that_expire_on_the_local_stream_are_counted(folder):
    sidecar = on_file(folder)
    sidecar.put([("k", b"lost-%d" % at) for at in range(100)])
    settle_first(sidecar, 10)
    sidecar.stop()
    file = sqlite3.connect(os.path.join(folder, "stream.db"))
    file.execute("UPDATE records SET arrival_ms = arrival_ms - ?", (25 * 3600 * 1000,))
    file.commit()
    file.close()
    sidecar = on_file(folder)
    check_equal(sidecar.get("/v1/records?wait_ms=1000")["records"], [])
    wait_until(lambda: sidecar.metric("records_expired_total") == 90, 20, "90 records are counted")
    event, = events_of(sidecar)
    check_equal(event["shard_id"], "shardId-000000000000")
    check("90 records expired unread" in event["message"], event)
    sidecar.put([("k", b"new")])
    check_equal([data_of(record) for record in pull_all(sidecar, 1)], [b"new"])
    check_equal(len(events_of(sidecar)), 1, "told once")
    check_equal(sidecar.metric("records_expired_total"), 90)
    sidecar.stop()


if __name__ == "__main__":
    main()
