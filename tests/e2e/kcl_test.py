#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dialect kcl: a table that the KCL 2.x wrote is taken over at its checkpoints, and served as its members do."""

import os
import threading
import time

from kpl import pack
from lib import (Sidecar, check, check_equal, data_of, dynamodb, kinesis, main, make_stream, need_emulators,
                 numbered, pull_all, put_kinesis, records_of, settle, shard_ids, shards_of, test, wait_until)

SHARDS = 4
LEASE_MS = 2000
TYPES = {"leaseCounter": "N", "ownerSwitchesSinceCheckpoint": "N", "checkpointSubSequenceNumber": "N",
         "pendingCheckpointSubSequenceNumber": "N", "throughputKBps": "N", "SidecarSince": "N", "parentShardId": "SS",
         "childShardIds": "SS"}
FRESH = {"leaseCounter": "0", "ownerSwitchesSinceCheckpoint": "0", "checkpoint": "TRIM_HORIZON",
         "checkpointSubSequenceNumber": "0"}


def scan(table):
    """lease key -> the item, plain."""
    rows = {}
    for item in dynamodb("Scan", TableName=table, ConsistentRead=True)["Items"]:
        row = {}
        for name, value in item.items():
            check_equal(list(value), [TYPES.get(name, "S")], "the type of", name)
            row[name], = value.values()
        rows[row["leaseKey"]] = row
    return rows


def make_table(table, rows):
    """As the KCL makes it, with rows as its members write them."""
    dynamodb("CreateTable", TableName=table,
             AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
             KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}], BillingMode="PAY_PER_REQUEST")
    for row in rows:
        put_row(table, row)


def put_row(table, row):
    dynamodb("PutItem", TableName=table,
             Item={name: {TYPES.get(name, "S"): value} for name, value in {**FRESH, **row}.items()})


def name_of(folder):
    return "kcl-" + os.path.basename(folder).replace("_", "-")


def sidecar(folder, name, worker, **options):
    return Sidecar.on_emulators(folder, worker, stream=name, application=name, dialect="kcl",
                                lease_duration_ms=LEASE_MS, **options)


@test(seconds=60)
def a_new_table_is_as_members_would_make_it(folder):
    name = name_of(folder)
    make_stream(name, SHARDS)
    put_kinesis(name, numbered(40))
    one = sidecar(folder, name, "one").start()
    got = pull_all(one, 40)
    check_equal(len({data_of(record) for record in got}), 40)
    rows = wait_until(lambda: all(row["checkpoint"].isdigit() for row in scan(name).values()) and scan(name), 20,
                      "checkpoints")
    check_equal(sorted(rows), sorted(shard_ids(name)))
    for shard in shards_of(name):
        row = rows[shard["ShardId"]]
        check_equal(sorted(row), ["checkpoint", "checkpointSubSequenceNumber", "endingHashKey", "leaseCounter",
                                  "leaseKey", "leaseOwner", "ownerSwitchesSinceCheckpoint", "startingHashKey",
                                  "throughputKBps"])
        check_equal((row["leaseOwner"], row["ownerSwitchesSinceCheckpoint"]), ("one", "0"))
        check_equal((row["startingHashKey"], row["endingHashKey"]),
                    (shard["HashKeyRange"]["StartingHashKey"], shard["HashKeyRange"]["EndingHashKey"]))
        check_equal(row["checkpoint"], records_of(name, row["leaseKey"])[-1]["SequenceNumber"])
    counters = {shard: int(row["leaseCounter"]) for shard, row in rows.items()}
    wait_until(lambda: all(int(row["leaseCounter"]) > counters[shard] + 1 for shard, row in scan(name).items()), 20,
               "leases are renewed")
    one.stop()
    for row in scan(name).values():
        check("leaseOwner" not in row, "stopped, and yet it owns", row)


@test(seconds=90)
def a_table_of_dead_members_is_taken_over_at_its_checkpoints(folder):
    name = name_of(folder)
    make_stream(name, SHARDS)
    put_kinesis(name, numbered(80))
    expected, rows = set(), []
    for shard in shard_ids(name):
        records = records_of(name, shard)
        half = len(records) // 2
        rows.append({"leaseKey": shard, "leaseOwner": "worker-a", "leaseCounter": "48211",
                     "checkpoint": records[half]["SequenceNumber"]})
        expected |= {record["Data"] for record in records[half + 1:]}
    # Prepared, and not committed; and handed over by a member of 3.x.
    rows[0] |= {"pendingCheckpoint": records_of(name, rows[0]["leaseKey"])[-1]["SequenceNumber"],
                "pendingCheckpointSubSequenceNumber": "0"}
    rows[1] |= {"checkpointOwner": "worker-b", "entityType": "LEASE"}
    make_table(name, rows)
    dynamodb("PutItem", TableName=name, Item={"leaseKey": {"S": "worker-a"}, "lut": {"N": "1784600000"},
                                              "entityType": {"S": "WORKER_METRIC_STATS"}})
    one = sidecar(folder, name, "one").start()
    got = pull_all(one, len(expected))
    check_equal({record["data"] for record in got}, expected)
    check_equal(len(got), len(expected), "records came twice")
    check("prepared" in one.said(), "nobody was told of the prepared checkpoint")
    dynamodb("DeleteItem", TableName=name, Key={"leaseKey": {"S": "worker-a"}})

    def all_saved():
        rows = scan(name).values()
        return all(row["checkpoint"] == records_of(name, row["leaseKey"])[-1]["SequenceNumber"] for row in rows) and rows
    for row in wait_until(all_saved, 20, "checkpoints"):
        check("pendingCheckpoint" not in row and "checkpointOwner" not in row, row)
        check_equal(row["ownerSwitchesSinceCheckpoint"], "0")


@test(seconds=60)
def a_live_member_keeps_its_lease_and_a_damaged_row_is_left_alone(folder):
    name = name_of(folder)
    make_stream(name, 3)
    live, damaged, free = shard_ids(name)
    make_table(name, [{"leaseKey": live, "leaseOwner": "worker-a"}, {"leaseKey": free}])
    dynamodb("PutItem", TableName=name, Item={"leaseKey": {"S": damaged}, "leaseOwner": {"NULL": True}})
    put_kinesis(name, numbered(30))
    beats = []

    def beat():
        """The live member renews its lease while the sidecar starts, and for some of its leases after that."""
        while len(beats) < 60:
            dynamodb("UpdateItem", TableName=name, Key={"leaseKey": {"S": live}}, UpdateExpression="SET leaseCounter = :n",
                     ConditionExpression="leaseOwner = :me",
                     ExpressionAttributeValues={":n": {"N": str(len(beats) + 1)}, ":me": {"S": "worker-a"}})
            beats.append(time.monotonic())
            time.sleep(0.2)

    member = threading.Thread(target=beat, daemon=True)
    member.start()
    one = sidecar(folder, name, "one").start()
    pull_all(one, len(records_of(name, free)))
    member.join()
    check_equal(len(beats), 60, "the live member has its lease")
    item = dynamodb("GetItem", TableName=name, Key={"leaseKey": {"S": damaged}}, ConsistentRead=True)["Item"]
    check_equal(item, {"leaseKey": {"S": damaged}, "leaseOwner": {"NULL": True}})
    check("damaged" in one.said(), "nobody was told of the damaged row")


@test(seconds=120)
def two_share_and_one_takes_over_when_the_other_dies(folder):
    name = name_of(folder)
    make_stream(name, SHARDS)
    one = sidecar(folder, name, "one").start()
    put_kinesis(name, numbered(20))
    pull_all(one, 20)
    two = sidecar(folder, name, "two").start()

    def owners():
        for each in (one, two):  # Or they would be idle, and want none.
            each.get("/v1/records?max_records=1&wait_ms=1")
        return sorted(row.get("leaseOwner", "") for row in scan(name).values())
    wait_until(lambda: owners() == ["one", "one", "two", "two"], 60, "they share", every=0.5)
    one.kill()
    put_kinesis(name, numbered(20, start=20))
    got = pull_all(two, 20, seconds=30)
    check({data for _, data in numbered(20, start=20)} <= {data_of(record) for record in got}, got)


@test(seconds=120)
def a_split_is_read_on_in_its_children_whose_rows_stand_before_its_end(folder):
    name = name_of(folder)
    make_stream(name, 1)
    one = sidecar(folder, name, "one").start()
    put_kinesis(name, numbered(10))
    check_equal(len(settle(one, 10)), 10)
    parent, = shard_ids(name)
    kinesis("SplitShard", StreamName=name, ShardToSplit=parent, NewStartingHashKey=str(1 << 127))
    wait_until(lambda: kinesis("DescribeStreamSummary", StreamName=name)["StreamDescriptionSummary"]["StreamStatus"]
               == "ACTIVE", 30, "the split")
    put_kinesis(name, numbered(10, start=10))
    check_equal(sorted(settle(one, 10)), [data.decode() for _, data in numbered(10, start=10)])
    rows = wait_until(lambda: scan(name)[parent]["checkpoint"] == "SHARD_END" and scan(name), 20, "the end")
    children = sorted(set(rows) - {parent})
    check_equal(sorted(rows[parent]["childShardIds"]), children)
    check("leaseOwner" not in rows[parent], rows[parent])
    for child in children:
        check_equal(rows[child]["parentShardId"], [parent])


def reshard(name, call, **options):
    kinesis(call, StreamName=name, **options)
    wait_until(lambda: kinesis("DescribeStreamSummary", StreamName=name)["StreamDescriptionSummary"]["StreamStatus"]
               == "ACTIVE", 30, call)


@test(seconds=120)
def at_the_latest_nothing_is_passed_over_that_came_since_its_row_was_made(folder):
    name = name_of(folder)
    make_stream(name, 2)
    put_kinesis(name, numbered(20))
    time.sleep(2.5)  # LATEST is the stream's clock as far as it is known: more than a second may come again.
    one = sidecar(folder, name, "one", initial_position="latest").start()
    rows = wait_until(lambda: len(scan(name)) == 2 and scan(name), 20, "rows")
    for row in rows.values():
        check_equal(row["checkpoint"], "LATEST")
        check(int(row["SidecarSince"]) <= time.time() * 1000, row)
    # It has begun, and settles nothing.
    one.kill()
    put_kinesis(name, numbered(20, start=20))
    parents = shard_ids(name)
    reshard(name, "SplitShard", ShardToSplit=parents[0], NewStartingHashKey=str(1 << 126))
    put_kinesis(name, numbered(20, start=40))
    upper = [shard["ShardId"] for shard in shards_of(name)
             if shard.get("ParentShardId") == parents[0]
             and shard["HashKeyRange"]["StartingHashKey"] == str(1 << 126)]
    reshard(name, "MergeShards", ShardToMerge=upper[0], AdjacentShardToMerge=parents[1])
    put_kinesis(name, numbered(20, start=60))
    two = sidecar(folder, name, "two", initial_position="latest").start()
    seen = settle(two, 60)
    check_equal(sorted(seen), sorted(data.decode() for _, data in numbered(60, start=20)))

    def ended():
        rows = scan(name)
        return len(rows) == 5 and {rows[each]["checkpoint"] for each in parents + upper} == {"SHARD_END"} and rows
    rows = wait_until(ended, 30, "the ends")
    for row in rows.values():
        check("SidecarSince" not in row, row)
    merged, = (row for row in rows.values() if len(row.get("parentShardId", [])) == 2)
    check_equal(sorted(merged["parentShardId"]), sorted([upper[0], parents[1]]))


@test(seconds=60)
def hash_keys_that_members_of_old_did_not_write_are_filled_in(folder):
    name = name_of(folder)
    make_stream(name, 2)
    mine, other = shard_ids(name)
    make_table(name, [{"leaseKey": mine, "leaseOwner": "worker-a", "leaseCounter": "7"}, {"leaseKey": other}])
    put_kinesis(name, numbered(20))
    one = sidecar(folder, name, "one").start()
    check_equal(len(settle(one, 20)), 20)
    rows = wait_until(lambda: all("endingHashKey" in row for row in scan(name).values()) and scan(name), 20, "keys")
    for shard in shards_of(name):
        row = rows[shard["ShardId"]]
        check_equal((row["startingHashKey"], row["endingHashKey"]),
                    (shard["HashKeyRange"]["StartingHashKey"], shard["HashKeyRange"]["EndingHashKey"]))


@test(seconds=60)
def a_row_that_becomes_unreadable_is_not_written_any_more(folder):
    name = name_of(folder)
    make_stream(name, 1)
    put_kinesis(name, numbered(10))
    one = sidecar(folder, name, "one").start()
    check_equal(len(settle(one, 10)), 10)
    shard, = shard_ids(name)
    # As a version that nobody knows yet: its counter stays.
    dynamodb("UpdateItem", TableName=name, Key={"leaseKey": {"S": shard}}, UpdateExpression="SET entityType = :t",
             ExpressionAttributeValues={":t": {"S": "LEASE_V9"}})
    before = scan(name)[shard]
    wait_until(lambda: "entityType" in one.said(), 20, "it is told")
    time.sleep(2 * LEASE_MS / 1000)
    check_equal(scan(name)[shard], before)
    dynamodb("UpdateItem", TableName=name, Key={"leaseKey": {"S": shard}}, UpdateExpression="REMOVE entityType")
    put_kinesis(name, numbered(10, start=10))
    check_equal(settle(one, 10), [data.decode() for _, data in numbered(10, start=10)])


@test(seconds=90)
def an_aggregate_is_gone_on_from_inside(folder):
    name = name_of(folder)
    make_stream(name, 1)
    users = [(f"key-{at % 7}", f"user-{at}".encode()) for at in range(30)]
    (_, packed), = put_kinesis(name, [("k", pack(users))])
    one = sidecar(folder, name, "one").start()
    check_equal(settle(one, 10), [f"user-{at}" for at in range(10)])
    row, = scan(name).values()
    check_equal((row["checkpoint"], row["checkpointSubSequenceNumber"]), (packed, "9"))
    one.kill()
    two = sidecar(folder, name, "two").start()
    check_equal(settle(two, 20), [f"user-{at}" for at in range(10, 30)])


need_emulators("dynoxide", "kinesis-local")
main()
