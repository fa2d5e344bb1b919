#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dialect go-kcl: a table that vmware-go-kcl wrote is taken over at its checkpoints, and served as its members do."""

import os
import time

from kpl import pack
from lib import (Sidecar, check, check_equal, data_of, dynamodb, main, make_stream, need_emulators,
                 numbered, pull_all, put_kinesis, records_of, settle, shard_ids, test, wait_until)

SHARDS = 4
LEASE_MS = 2000


def scan(table):
    """shard id -> the item, plain; every value must be S."""
    rows = {}
    for item in dynamodb("Scan", TableName=table, ConsistentRead=True)["Items"]:
        for name, value in item.items():
            check_equal(list(value), ["S"], "the type of", name)
        row = {name: value["S"] for name, value in item.items()}
        rows[row["ShardID"]] = row
    return rows


def make_table(table, rows):
    """As vmware-go-kcl makes it, with rows as its members write them."""
    dynamodb("CreateTable", TableName=table,
             AttributeDefinitions=[{"AttributeName": "ShardID", "AttributeType": "S"}],
             KeySchema=[{"AttributeName": "ShardID", "KeyType": "HASH"}],
             ProvisionedThroughput={"ReadCapacityUnits": 10, "WriteCapacityUnits": 10})
    for row in rows:
        put_row(table, row)


def put_row(table, row):
    dynamodb("PutItem", TableName=table, Item={name: {"S": value} for name, value in row.items()})


def name_of(folder):
    return "go-kcl-" + os.path.basename(folder).replace("_", "-")


def sidecar(folder, name, worker, **options):
    return Sidecar.on_emulators(folder, worker, stream=name, application=name, dialect="go-kcl",
                                lease_duration_ms=LEASE_MS, **options)


def utc(seconds, fraction=""):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + seconds)) + fraction + "Z"


@test(seconds=60)
def a_new_table_is_as_members_would_make_it(folder):
    name = name_of(folder)
    make_stream(name, SHARDS)
    put_kinesis(name, numbered(40))
    one = sidecar(folder, name, "one").start()
    got = pull_all(one, 40)
    check_equal(len({data_of(record) for record in got}), 40)
    rows = wait_until(lambda: all("Checkpoint" in row for row in scan(name).values()) and scan(name), 20, "checkpoints")
    check_equal(len(rows), SHARDS)
    for shard, row in rows.items():
        check_equal(sorted(row), ["AssignedTo", "Checkpoint", "LeaseTimeout", "ShardID"], shard)
        check_equal(row["AssignedTo"], "one")
        time.strptime(row["LeaseTimeout"], "%Y-%m-%dT%H:%M:%SZ")
        check_equal(row["Checkpoint"], records_of(name, shard)[-1]["SequenceNumber"])
    one.stop()
    for row in scan(name).values():
        check("AssignedTo" not in row, "stopped, and yet it owns", row)


@test(seconds=90)
def a_table_of_dead_members_is_taken_over_at_its_checkpoints(folder):
    name = name_of(folder)
    make_stream(name, SHARDS)
    put_kinesis(name, numbered(80))
    shards = shard_ids(name)
    expected, rows = set(), []
    for place, shard in enumerate(shards):
        records = records_of(name, shard)
        half = len(records) // 2
        rows.append({"ShardID": shard, "AssignedTo": "worker-a", "Checkpoint": records[half]["SequenceNumber"],
                     "LeaseTimeout": [utc(-60), utc(-60, ".123456789"), utc(1), "0001-01-01T00:00:00Z"][place]})
        expected |= {record["Data"] for record in records[half + 1:]}
    rows[3]["AssignedTo"] = ""  # A late checkpoint of a member that had given it back.
    make_table(name, rows)
    one = sidecar(folder, name, "one").start()
    got = pull_all(one, len(expected))
    check_equal({record["data"] for record in got}, expected)
    check_equal(len(got), len(expected), "records came twice")


@test(seconds=60)
def a_claim_is_honoured_and_a_damaged_row_left_alone(folder):
    name = name_of(folder)
    make_stream(name, 2)
    claimed, damaged = shard_ids(name)
    make_table(name, [])
    dynamodb("PutItem", TableName=name, Item={"ShardID": {"S": damaged}, "AssignedTo": {"NULL": True}})
    one = sidecar(folder, name, "one", lease_stealing="on").start()
    put_kinesis(name, numbered(20))
    pull_all(one, len(records_of(name, claimed)))
    dynamodb("UpdateItem", TableName=name, Key={"ShardID": {"S": claimed}},
             UpdateExpression="SET ClaimRequest = :me", ExpressionAttributeValues={":me": {"S": "worker-b"}})

    def given():
        item = dynamodb("GetItem", TableName=name, Key={"ShardID": {"S": claimed}}, ConsistentRead=True)["Item"]
        return "AssignedTo" not in item and item
    item = wait_until(given, 20, "the lease is given back")
    check_equal(item["ClaimRequest"], {"S": "worker-b"})
    check_equal(item["Checkpoint"], {"S": records_of(name, claimed)[-1]["SequenceNumber"]})
    time.sleep(3)
    check(given(), "a lease that was left to its claimant was taken again")
    item = dynamodb("GetItem", TableName=name, Key={"ShardID": {"S": damaged}}, ConsistentRead=True)["Item"]
    check_equal(item, {"ShardID": {"S": damaged}, "AssignedTo": {"NULL": True}})
    check("damaged" in one.said(), "nobody was told of the damaged row")


@test(seconds=90)
def two_share_and_one_takes_over_when_the_other_dies(folder):
    name = name_of(folder)
    make_stream(name, SHARDS)
    one = sidecar(folder, name, "one", lease_stealing="on").start()
    put_kinesis(name, numbered(20))
    pull_all(one, 20)
    two = sidecar(folder, name, "two", lease_stealing="on").start()

    def owners():
        for each in (one, two):  # Or they would be idle, and want none.
            each.get("/v1/records?max_records=1&wait_ms=1")
        return sorted(row.get("AssignedTo", "") for row in scan(name).values())
    wait_until(lambda: owners() == ["one", "one", "two", "two"], 40, "they share", every=0.5)
    one.kill()
    put_kinesis(name, numbered(20, start=20))
    got = pull_all(two, 20, seconds=30)
    check_equal(len({data_of(record) for record in got} - {f"record-{at}" for at in range(20)}), 20)


@test(seconds=90)
def an_aggregate_is_gone_on_from_inside_until_a_member_has_read_it(folder):
    name = name_of(folder)
    make_stream(name, 1)
    users = [(f"key-{at % 7}", f"user-{at}".encode()) for at in range(30)]
    before, packed = [sequence for _, sequence in put_kinesis(name, [("k", b"before"), ("k", pack(users))])]
    one = sidecar(folder, name, "one").start()
    check_equal(settle(one, 11), ["before"] + [f"user-{at}" for at in range(10)])
    row, = scan(name).values()
    check_equal((row["Checkpoint"], row["SidecarPosition"]), (before, f"{before}:{packed}:9"))
    one.kill()

    two = sidecar(folder, name, "two").start()
    check_equal(settle(two, 10), [f"user-{at}" for at in range(10, 20)])
    put_row(name, {"ShardID": row["ShardID"], "AssignedTo": "worker-a", "LeaseTimeout": utc(1), "Checkpoint": packed})
    wait_until(lambda: scan(name)[row["ShardID"]]["AssignedTo"] == "two", 30, "two has it again")
    put_kinesis(name, [("k", b"after")])
    check_equal(settle(two, 1), ["after"])
    row, = scan(name).values()
    check("SidecarPosition" not in row, "a place inside an aggregate that was read", row)


@test(seconds=90)
def what_was_delivered_and_not_acknowledged_comes_again_at_the_latest_too(folder):
    name = name_of(folder)
    make_stream(name, 1)
    one = sidecar(folder, name, "one", initial_position="latest").start()
    one.get("/v1/records?wait_ms=0")
    row = wait_until(lambda: list(scan(name).values()), 20, "the shard has an owner")[0]
    check("Checkpoint" not in row, "a checkpoint of nothing", row)
    time.sleep(2)  # Records of this instant could be before it, by another clock.
    put_kinesis(name, numbered(3))
    wait_until(lambda: one.get("/v1/records?max_records=3&wait_ms=1000")["records"], 20, "records")
    one.kill()
    two = sidecar(folder, name, "two", initial_position="latest").start()
    check_equal(settle(two, 3), [data.decode() for _, data in numbered(3)])


need_emulators("dynoxide", "kinesis-local")
main()
