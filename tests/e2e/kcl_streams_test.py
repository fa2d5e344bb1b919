#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dialect kcl on a table of several streams: its own shards are served, all others' rows stay as they are, and the
tool lists, mends and converts them."""

import json
import os
import subprocess

from lib import (BINARY, PATIENCE, Sidecar, check, check_equal, data_of, dynamodb, kinesis, main, make_stream,
                 need_emulators, numbered, put_kinesis, test, wait_until)

LEASE_MS = 2000
FRESH = {"leaseCounter": "0", "ownerSwitchesSinceCheckpoint": "0", "checkpoint": "TRIM_HORIZON",
         "checkpointSubSequenceNumber": "0"}
NUMBERS = ("leaseCounter", "ownerSwitchesSinceCheckpoint", "checkpointSubSequenceNumber")


# --- Streams and tables ---

def name_of(folder, word=""):
    return "several-" + os.path.basename(folder).replace("_", "-")[:60] + word


def id_of(stream):
    """As an application says it that asks Kinesis."""
    told = kinesis("DescribeStreamSummary", StreamName=stream)["StreamDescriptionSummary"]
    account = told["StreamARN"].split(":")[4]
    return f"{account}:{stream}:{int(told['StreamCreationTimestamp'])}"


def shard_ids(stream):
    return [shard["ShardId"] for shard in kinesis("ListShards", StreamName=stream)["Shards"]]


def row_of(stream_id, shard, **more):
    row = {"leaseKey": f"{stream_id}:{shard}", "streamName": stream_id, "shardId": shard, **FRESH, **more}
    return {name: {"N" if name in NUMBERS else "S": value} for name, value in row.items() if value is not None}


def make_table(table, rows):
    dynamodb("CreateTable", TableName=table, BillingMode="PAY_PER_REQUEST",
             AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
             KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}])
    for row in rows:
        dynamodb("PutItem", TableName=table, Item=row)


def scan(table):
    """lease key -> the item."""
    return {item["leaseKey"]["S"]: item for item in dynamodb("Scan", TableName=table, ConsistentRead=True)["Items"]}


def of_stream(table, stream_id):
    return {key: row for key, row in scan(table).items() if key.startswith(stream_id + ":")}


def touch(table, key):
    """What its live owner does."""
    dynamodb("UpdateItem", TableName=table, Key={"leaseKey": {"S": key}}, UpdateExpression="ADD leaseCounter :one",
             ExpressionAttributeValues={":one": {"N": "1"}})


# --- Ours ---

def sidecar(folder, table, stream, worker, **options):
    return Sidecar.on_emulators(folder, worker, stream=stream, application=table, dialect="kcl",
                                **{"lease_duration_ms": LEASE_MS, **options})


def of_both(folder, table, streams, worker, more=None, **options):
    """One process with a subscription for each stream, all of one application."""
    path = os.path.join(folder, worker + ".json")
    more = more or {}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"subscriptions": [{"name": word, "stream": stream, "application": table, "dialect": "kcl",
                                      "initial_position": "trim_horizon", "lease_duration_ms": LEASE_MS,
                                      "checkpoint_interval_ms": 500, **more} for word, stream in streams.items()]}, file)
    return Sidecar.on_emulators(folder, worker, config=path, stream=None, application=None, initial_position=None,
                                lease_duration_ms=None, checkpoint_interval_ms=None, **options)


def take(one, count, subscription=None, seconds=30):
    """The data of so many records, acknowledged and in the table."""
    got = []

    def more():
        batch = one.get("/v1/records?max_records=500&wait_ms=500" + (f"&subscription={subscription}" if subscription else ""))
        if batch["records"]:
            answer = one.call("POST", f"/v1/records/ack?batch_id={batch['batch_id']}&wait=persisted")
            check_equal((answer.status, answer.json["persisted"]), (200, True), answer)
            got.extend(data_of(record).decode() for record in batch["records"])
        return len(got) >= count
    wait_until(more, seconds, f"{count} records come")
    return sorted(got)


def words(count, prefix):
    return sorted(data.decode() for _, data in numbered(count, prefix=prefix))


def leases(*said, status=0):
    env = dict(os.environ, AWS_ENDPOINT_URL_DYNAMODB=os.environ["KS_DYNAMODB_URL"])
    run = subprocess.run([BINARY, "leases", *said, "--lease-duration-ms", "1000"], capture_output=True, env=env,
                         stdin=subprocess.DEVNULL, timeout=60 * PATIENCE, check=False)
    check_equal(run.returncode, status, said, run)
    return run.stdout.decode() + run.stderr.decode()


def made(folder, shards=2):
    """Two streams, and what a table of both is called."""
    table, orders, clicks = name_of(folder), name_of(folder, "-o"), name_of(folder, "-c")
    make_stream(orders, shards)
    make_stream(clicks, shards)
    return table, orders, clicks


# --- Serving ---

@test(seconds=90)
def two_subscriptions_of_one_application_make_a_table_of_several_streams(folder):
    table, orders, clicks = made(folder)
    put_kinesis(orders, numbered(20, prefix="order"))
    put_kinesis(clicks, numbered(20, prefix="click"))
    one = of_both(folder, table, {"orders": orders, "clicks": clicks}, "one").start()
    check_equal(take(one, 20, "orders"), words(20, "order"))
    check_equal(take(one, 20, "clicks"), words(20, "click"))
    rows = scan(table)
    check_equal(sorted(rows), sorted(f"{id_of(stream)}:{shard}" for stream in (orders, clicks)
                                     for shard in shard_ids(stream)))
    for key, row in rows.items():
        check_equal(row["streamName"]["S"] + ":" + row["shardId"]["S"], key)
        check(row["checkpoint"]["S"].isdigit() and row["leaseOwner"]["S"] == "one", row)
    for word in ("orders", "clicks"):
        shards = one.get(f"/v1/shards?subscription={word}")["shards"]
        check_equal(sorted(shard["shard_id"] for shard in shards), shard_ids(orders), "others are not shown")
    # Begun again by another process, under another name.
    one.stop()
    check_equal([key for key, row in scan(table).items() if "leaseOwner" in row], [])
    put_kinesis(clicks, numbered(10, prefix="later"))
    two = of_both(folder, table, {"orders": orders, "clicks": clicks}, "two").start()
    check_equal(take(two, 10, "clicks"), words(10, "later"))


@test(seconds=90)
def the_rows_of_other_streams_stay_as_they_are(folder):
    table, orders, clicks = made(folder)
    rows = [row_of(id_of(orders), shard, leaseOwner="dead", leaseCounter="7") for shard in shard_ids(orders)]
    rows += [row_of(id_of(clicks), shard, leaseOwner="dead", leaseCounter="9") for shard in shard_ids(clicks)]
    rows += [row_of(id_of(clicks), "shardId-000000000099", checkpoint="SHARD_END"),
             row_of("999999999999:" + orders + ":1", "shardId-000000000000"),
             row_of(id_of(orders), "shardId-000000000077", shardId="shardId-000000000078")]
    make_table(table, rows)
    before = {key: row for key, row in scan(table).items() if key not in of_stream(table, id_of(orders))}
    put_kinesis(orders, numbered(20, prefix="order"))
    one = sidecar(folder, table, orders, "one").start()
    check_equal(take(one, 20), words(20, "order"))
    wait_until(lambda: all(int(row["leaseCounter"]["N"]) > 12 for key, row in of_stream(table, id_of(orders)).items()
                           if "77" not in key), 20, "ours are renewed")
    one.stop()
    after = scan(table)
    check_equal({key: after.get(key) for key in before}, before)
    damaged = f"{id_of(orders)}:shardId-000000000077"
    check_equal(after[damaged], row_of(id_of(orders), "shardId-000000000077", shardId="shardId-000000000078"))
    check("shardId-000000000077: its lease row cannot be read: the attribute shardId" in one.said(), one.said()[-2000:])


@test(seconds=90)
def what_a_worker_has_of_other_streams_counts(folder):
    """Four leases, two workers: who has both of one stream leaves the other stream's alone, while they live."""
    table, orders, clicks = made(folder)
    mine = [f"{id_of(clicks)}:{shard}" for shard in shard_ids(clicks)]
    theirs = [f"{id_of(orders)}:{shard}" for shard in shard_ids(orders)]
    make_table(table, [row_of(id_of(clicks), shard, leaseOwner="one") for shard in shard_ids(clicks)] +
               [row_of(id_of(orders), shard, leaseOwner="two") for shard in shard_ids(orders)])
    one = sidecar(folder, table, orders, "one").start()
    for _ in range(40):
        for key in mine + theirs:
            touch(table, key)
        one.get("/v1/records?max_records=1&wait_ms=200")
    check_equal({scan(table)[key]["leaseOwner"]["S"] for key in theirs}, {"two"}, "it has its share")
    # Now the share is more than it has.
    for key in mine:
        dynamodb("UpdateItem", TableName=table, Key={"leaseKey": {"S": key}}, UpdateExpression="SET leaseOwner = :two",
                 ExpressionAttributeValues={":two": {"S": "two"}})

    def stolen():
        for key in mine + theirs:
            if scan(table)[key]["leaseOwner"]["S"] == "two":
                touch(table, key)
        one.get("/v1/records?max_records=1&wait_ms=1")
        return sorted(scan(table)[key]["leaseOwner"]["S"] for key in theirs) != ["two", "two"]
    wait_until(stolen, 40, "it takes of its own stream")
    check_equal({scan(table)[key]["leaseOwner"]["S"] for key in mine}, {"two"})


@test(seconds=60)
def an_epoch_that_an_application_made_up_is_gone_on_with(folder):
    table, orders, _ = made(folder)
    account = id_of(orders).split(":")[0]
    make_table(table, [row_of(f"{account}:{orders}:12345", shard) for shard in shard_ids(orders)])
    put_kinesis(orders, numbered(10))
    one = sidecar(folder, table, orders, "one").start()
    take(one, 10)
    check_equal(sorted(scan(table)), [f"{account}:{orders}:12345:{shard}" for shard in shard_ids(orders)])


@test(seconds=60)
def tables_that_nobody_could_share_are_refused(folder):
    table, orders, _ = made(folder, 1)
    shard, = shard_ids(orders)
    account = id_of(orders).split(":")[0]
    one_stream = row_of("x", shard, leaseKey=shard, streamName=None, shardId=None)
    cases = {"a": ([row_of(id_of(orders), shard), dict(one_stream, leaseKey={"S": "shardId-000000000005"})], {},
                   "of one that reads several"),
             "b": ([row_of(f"{account}:{orders}:{epoch}", shard) for epoch in (1, 2)], {}, "which of them are stream"),
             "c": ([one_stream], {"kcl_multi_stream": "on"}, "reads one stream")}
    for word, (rows, options, sentence) in cases.items():
        make_table(table + word, rows)
        before = scan(table + word)
        one = sidecar(folder, table + word, orders, "one-" + word, **options).start(ready=False)
        wait_until(lambda: one.process.poll() is not None, 20, "it ends")
        check_equal(one.process.poll(), 1)
        check("cannot run" in one.said() and sentence in one.said(), one.said())
        check_equal(scan(table + word), before)


@test(seconds=60)
def an_empty_table_becomes_what_is_said(folder):
    table, orders, _ = made(folder, 1)
    put_kinesis(orders, numbered(5))
    one = sidecar(folder, table, orders, "one", kcl_multi_stream="on").start()
    take(one, 5)
    check_equal(list(scan(table)), [f"{id_of(orders)}:{shard_ids(orders)[0]}"])
    two = sidecar(folder, table + "-two", orders, "two").start()
    take(two, 5)
    check_equal(list(scan(table + "-two")), shard_ids(orders))


@test(seconds=60)
def a_leader_of_3x_is_told_of_us_only_if_all_streams_are_read(folder):
    table, orders, clicks = made(folder, 1)
    rows = [row_of(id_of(stream), shard) for stream in (orders, clicks) for shard in shard_ids(stream)]
    make_table(table, rows)
    for key, more in (("Migration3.0", {"cv": "CLIENT_VERSION_3X", "entityType": "CLIENT_VERSION_MIGRATION"}),
                      ("Leader", {"ownerName": "theirs", "recordVersionNumber": "1", "leaseDuration": "120000",
                                  "entityType": "LEADER"})):
        dynamodb("PutItem", TableName=table, Item={name: {"S": value} for name, value in {"leaseKey": key, **more}.items()})
    part = sidecar(folder, table, orders, "part", worker_metrics_ms=1000).start()
    wait_until(lambda: "has streams that this process does not read" in part.said(), 20, "it is told")
    whole = of_both(folder, table, {"orders": orders, "clicks": clicks}, "whole",
                    {"worker_metrics_ms": 1000, "idle_release_ms": 2000}).start()

    def pull(*subscriptions):
        part.get("/v1/records?max_records=1&wait_ms=1")  # Or it would be idle.
        for name in subscriptions:
            whole.get("/v1/records?max_records=1&wait_ms=1&subscription=" + name)
        return "whole" in scan(table)
    wait_until(lambda: pull("orders", "clicks"), 20, "its report")
    check("part" not in scan(table), "it reports, and would be assigned what it does not read")
    check("does not read" not in whole.said(), whole.said())
    # Of two subscriptions one has no app any more: it would be assigned the other's leases, too.
    check_equal(whole.call("DELETE", "/v1/sessions/default?subscription=clicks").status, 200)
    wait_until(lambda: not pull("orders"), 30, "the report is gone")
    wait_until(lambda: pull("orders", "clicks"), 20, "its report is back")


# --- The tool ---

@test(seconds=120)
def rows_are_listed_mended_and_converted_by_their_streams(folder):
    table, orders, clicks = name_of(folder), name_of(folder, "-o"), name_of(folder, "-c")
    a, b = f"123456789012:{orders}:1672531200", f"123456789012:{clicks}:1672531200"
    shard = "shardId-000000000000"
    make_table(table, [row_of(a, shard, checkpoint="4959", leaseOwner="worker-a"),
                       row_of(a, "shardId-000000000001", checkpoint="4960"),
                       row_of(b, shard, checkpoint="5001", leaseOwner="worker-a"),
                       row_of(b, "shardId-000000000002", streamName=a)])
    named = f"kcl:{table}"
    said = leases("list", "--table", named)
    for key in scan(table):
        check(key in said, key, said)
    check("the attribute streamName cannot be read" in said, said)
    said = leases("show", f"{a}:{shard}", "--table", named)
    check("4959" in said and a in said, said)
    check("5001" in leases("show", shard, "--table", named, "--stream", clicks))
    check("there is no row" in leases("show", shard, "--table", named, status=1))

    # Mended: by the key, or the shard of a stream; of all, only if it is said of which.
    before = scan(table)
    check("which one, --stream says" in leases("release", "--all", "--table", named, status=1))
    check("left alone" in leases("release", f"{b}:shardId-000000000002", "--table", named, status=1))
    check("no such row" in leases("release", shard, "--table", named, status=1))
    check_equal(scan(table), before)
    leases("release", shard, "--table", named, "--stream", clicks)
    leases("reset", "--all", "--at", "trim_horizon", "--table", named, "--stream", orders)
    after = scan(table)
    check_equal({key: row["checkpoint"]["S"] for key, row in after.items()},
                {f"{a}:{shard}": "TRIM_HORIZON", f"{a}:shardId-000000000001": "TRIM_HORIZON", f"{b}:{shard}": "5001",
                 f"{b}:shardId-000000000002": "TRIM_HORIZON"})
    check_equal(after[f"{b}:shardId-000000000002"], before[f"{b}:shardId-000000000002"])
    check("leaseOwner" not in after[f"{b}:{shard}"] and "leaseOwner" not in after[f"{a}:{shard}"], after)
    check_equal((after[f"{b}:{shard}"]["streamName"]["S"], after[f"{b}:{shard}"]["shardId"]["S"]), (b, shard))
    leases("reset", f"{a}:{shard}", "--at", "after:4959", "--table", named)

    # One stream's rows to a native table, and back; those of the other stay.
    native = f"native:{table}-n"
    check("which one" in leases("convert", "--from", named, "--to", native, status=1))
    leases("convert", "--from", named, "--to", native, "--stream", orders)
    said = leases("list", "--table", native)
    check("4959" in said and "5001" not in said and "123456789012" not in said, said)
    leases("reset", shard, "--at", "after:4999", "--table", native)
    check("which one, --stream says" in leases("convert", "--from", native, "--to", named, status=1))
    leases("convert", "--from", native, "--to", named, "--stream", orders, "--force")
    back = scan(table)
    check_equal(back[f"{a}:{shard}"]["checkpoint"]["S"], "4999")
    check_equal({key: row for key, row in back.items() if key.startswith(b)},
                {key: row for key, row in after.items() if key.startswith(b)})
    # Into an empty one, and one of one stream.
    leases("convert", "--from", native, "--to", f"kcl:{table}-e", "--as", b)
    check_equal(sorted(scan(table + "-e")), [f"{b}:{shard}", f"{b}:shardId-000000000001"])
    leases("convert", "--from", native, "--to", f"kcl:{table}-s")
    check_equal(sorted(scan(table + "-s")), [shard, "shardId-000000000001"])
    check("of one stream" in leases("convert", "--from", native, "--to", f"kcl:{table}-s", "--as", b, status=1))
    check("only tables of kcl" in leases("convert", "--from", named, "--to", native, "--stream", orders, "--as", b, status=1))
    check("--as wants" in leases("convert", "--from", native, "--to", named, "--as", orders, status=1))


need_emulators("dynoxide", "kinesis-local")
main()
