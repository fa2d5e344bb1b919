#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dialect kinsumer: tables that its clients wrote are taken over at their checkpoints, and divided as they do."""

import os
import time

from kinsumer_hand import checkpoint, checkpoints, make_tables, owners, put_row, rfc, scan
from kpl import pack
from lib import (Sidecar, check, check_equal, data_of, dynamodb, main, make_stream, need_emulators,
                 numbered, pull_all, put_kinesis, records_of, settle, shard_ids, test, wait_until)

SHARDS = 4
CHECK_MS = 500


def name_of(folder):
    return "kinsumer-" + os.path.basename(folder).replace("_", "-")


def sidecar(folder, name, worker, **options):
    return Sidecar.on_emulators(folder, worker, stream=name, application=name, dialect="kinsumer",
                                shard_check_ms=CHECK_MS, checkpoint_interval_ms=500, **options)


@test(seconds=90)
def new_tables_are_as_clients_would_make_them(folder):
    name = name_of(folder)
    make_stream(name, SHARDS)
    put_kinesis(name, numbered(40))
    one = sidecar(folder, name, "one").start()
    got = pull_all(one, 40)
    check_equal(len({data_of(record) for record in got}), 40, "from the start, as kinsumer begins")
    rows = wait_until(lambda: all("SequenceNumber" in row for row in checkpoints(name).values()) and checkpoints(name),
                      20, "checkpoints")
    check_equal(sorted(rows), shard_ids(name))
    for shard, row in rows.items():
        check_equal(sorted(row), ["LastUpdate", "LastUpdateRFC", "OwnerID", "OwnerName", "SequenceNumber", "Shard"], shard)
        check_equal(row["SequenceNumber"], records_of(name, shard)[-1]["SequenceNumber"])
        check_equal(row["LastUpdateRFC"], rfc(int(row["LastUpdate"])))
        check(len(row["LastUpdate"]) == 19, "not in ns", row["LastUpdate"])
    client = scan(name, "_clients")["one"]
    check_equal(sorted(client), ["ID", "LastUpdate", "LastUpdateRFC", "Name"])
    meta = scan(name, "_metadata")
    check_equal(meta["ShardCache"]["ShardIDs"], {"L": [{"S": shard} for shard in shard_ids(name)]})
    check_equal(meta["Leader"]["ID"], {"S": "one"})
    one.stop()
    for row in checkpoints(name).values():
        check("OwnerID" not in row and "OwnerName" not in row, "stopped, and yet it owns", row)
    check_equal(scan(name, "_clients"), {}, "stopped, and yet a client")
    check("ID" not in scan(name, "_metadata")["Leader"], "stopped, and yet it leads")


@test(seconds=90)
def tables_of_dead_clients_are_taken_over_at_their_checkpoints(folder):
    name = name_of(folder)
    make_stream(name, SHARDS)
    put_kinesis(name, numbered(80))
    make_tables(name)
    shards, expected = shard_ids(name), set()
    hour_ago = time.time_ns() - 3600 * 10 ** 9
    for place, shard in enumerate(shards):
        records = records_of(name, shard)
        half = len(records) // 2
        sequence = [records[half]["SequenceNumber"], None, records[half]["SequenceNumber"], "LATEST"][place]
        put_row(name, "_checkpoints", checkpoint(shard, sequence, [None, "dead", "dead", None][place]), hour_ago)
        expected |= {record["Data"] for record in records[[half + 1, 0, half + 1, len(records)][place]:]}
    put_row(name, "_clients", {"ID": "dead", "Name": "dead"}, hour_ago)
    put_row(name, "_metadata", {"Key": "Leader", "ID": "dead", "Name": "dead"}, hour_ago)
    time.sleep(2.5)  # LATEST is the stream's clock as far as it is known: more than a second may come again.
    one = sidecar(folder, name, "one").start()
    got = pull_all(one, len(expected), seconds=40)
    check_equal({record["data"] for record in got}, expected)
    check_equal(len(got), len(expected), "records came twice")
    check_equal(scan(name, "_metadata")["Leader"]["ID"], {"S": "one"})


@test(seconds=90)
def shards_are_divided_by_the_order_of_ids(folder):
    name = name_of(folder)
    make_stream(name, SHARDS)
    shards = shard_ids(name)
    one = sidecar(folder, name, "one").start()
    one.get("/v1/records?max_records=1&wait_ms=1")
    wait_until(lambda: owners(name) == ["one"] * 4, 30, "all are ours")
    # A client whose id comes before ours; it captures nothing that is not let go.
    for _ in range(20):
        put_row(name, "_clients", {"ID": "39006b0f-8ae7-41ad-9d79-955f56cc3478", "Name": "host-a"})
        one.get("/v1/records?max_records=1&wait_ms=1")
        if owners(name) == ["", "", "one", "one"]:
            break
        time.sleep(0.5)
    rows = checkpoints(name)
    check_equal([rows[shard].get("OwnerID", "") for shard in shards], ["", "one", "", "one"])
    wait_until(lambda: one.get("/v1/records?max_records=1&wait_ms=1") and owners(name) == ["one"] * 4, 30,
               "a client that is silent has no part")


@test(seconds=90)
def two_share_and_one_takes_over_when_the_other_dies(folder):
    name = name_of(folder)
    make_stream(name, SHARDS)
    one = sidecar(folder, name, "one").start()
    put_kinesis(name, numbered(20))
    pull_all(one, 20)
    two = sidecar(folder, name, "two").start()

    def shared():
        for each in (one, two):  # Or they would be idle, and want none.
            each.get("/v1/records?max_records=1&wait_ms=1")
        return owners(name) == ["one", "one", "two", "two"]
    wait_until(shared, 40, "they share", every=0.5)
    one.kill()
    put_kinesis(name, numbered(20, start=20))
    got = pull_all(two, 20, seconds=40)
    check_equal(len({data_of(record) for record in got} - {f"record-{at}" for at in range(20)}), 20)


@test(seconds=90)
def a_damaged_row_is_left_alone(folder):
    name = name_of(folder)
    make_stream(name, 2)
    make_tables(name)
    whole, damaged = shard_ids(name)
    row = {"Shard": {"S": damaged}, "LastUpdate": {"S": "yesterday"}}
    dynamodb("PutItem", TableName=name + "_checkpoints", Item=row)
    one = sidecar(folder, name, "one").start()
    put_kinesis(name, numbered(20))
    pull_all(one, len(records_of(name, whole)))
    check_equal(scan(name, "_checkpoints")[damaged], row)
    check("damaged" in one.said(), "nobody was told of the damaged row")


@test(seconds=90)
def an_aggregate_is_gone_on_from_inside(folder):
    name = name_of(folder)
    make_stream(name, 1)
    users = [(f"key-{at % 7}", f"user-{at}".encode()) for at in range(30)]
    before, packed = [sequence for _, sequence in put_kinesis(name, [("k", b"before"), ("k", pack(users))])]
    one = sidecar(folder, name, "one").start()
    check_equal(settle(one, 11), ["before"] + [f"user-{at}" for at in range(10)])
    row, = checkpoints(name).values()
    check_equal((row["SequenceNumber"], row["SidecarPosition"]), (before, f"{before}:{packed}:9"))
    one.kill()

    # Under its name again: nothing is waited for.
    again = sidecar(folder, name, "one").start()
    check_equal(settle(again, 20), [f"user-{at}" for at in range(10, 30)])
    (_, after), = put_kinesis(name, [("k", b"after")])
    check_equal(settle(again, 1), ["after"])
    row, = checkpoints(name).values()
    check_equal(row["SequenceNumber"], after)
    check("SidecarPosition" not in row, "a place inside an aggregate that was read", row)


need_emulators("dynoxide", "kinesis-local")
main()
