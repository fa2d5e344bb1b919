#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records that the Kinesis Producer Library has packed: taken apart, settled one by one, gone on from in their middle.

On DynamoDB and Kinesis (emulated), and on a local stream and SQLite.
"""

import base64
import os
import sqlite3

from kpl import framed, pack
from lib import (Sidecar, check, check_equal, data_of, kinesis, lease_rows, main, make_stream, need_emulators, pull_all,
                 put_kinesis, test, wait_until)

SHARD = "shardId-000000000000"
MIDDLE, LAST = str(2**127), str(2**128 - 1)


class Cloud:
    """A stream and a table in the emulators, of this test's own."""

    def __init__(self, folder):
        self.folder = folder
        self.name = "kpl-" + os.path.basename(folder).replace("_", "-")
        make_stream(self.name, 1)

    def sidecar(self, name):
        return Sidecar.on_emulators(self.folder, name, stream=self.name, application=self.name).start()

    def put(self, _, records):
        return put_kinesis(self.name, records)

    def checkpoint(self):
        row = lease_rows(self.name)[SHARD]
        return row["checkpoint"], row.get("sub")


class Embedded:
    """The same in two SQLite files."""

    def __init__(self, folder):
        self.folder = folder

    def sidecar(self, name):
        return Sidecar.local(self.folder, name, local_shards=1).start()

    def put(self, sidecar, records):
        return sidecar.put(records)

    def checkpoint(self):
        with sqlite3.connect(os.path.join(self.folder, "leases.db"), timeout=10) as db:
            checkpoint, sub = db.execute("SELECT checkpoint, sub FROM lease_table WHERE p = 's'").fetchone()
        return checkpoint, None if sub is None else str(sub)


def users(prefix, count):
    return [(f"key-{number % 7}", f"{prefix}-{number:05d}".encode()) for number in range(count)]


def places(records):
    return [(record["sequence_number"], record["sub_sequence_number"]) for record in records]


def pull(sidecar, count):
    """One batch of exactly so many records."""
    return wait_until(lambda: [batch for batch in [sidecar.get(f"/v1/records?max_records={count}&wait_ms=1000")]
                               if batch["records"]], 15, "records come")[0]


def ack(sidecar, records):
    answer = sidecar.call("POST", "/v1/records/settle", {
        "settlements": [{"ack_id": record["ack_id"], "outcome": "ack"} for record in records], "wait": "persisted"})
    check_equal((answer.status, answer.json["ok"], answer.json["persisted"]), (200, len(records), True), answer)


def a_killed_sidecar_is_gone_on_from_inside_an_aggregate(world):
    first = world.sidecar("first")
    one, two = users("one", 50), users("two", 50)
    placed = [sequence for _, sequence in world.put(first, [("k", b"before"), ("k", pack(one)), ("k", pack(two)),
                                                            ("k", b"behind")])]
    expected = ([(b"before", "k", placed[0], 0)] +
                [(data, key, placed[1], at) for at, (key, data) in enumerate(one)] +
                [(data, key, placed[2], at) for at, (key, data) in enumerate(two)] + [(b"behind", "k", placed[3], 0)])

    def come(records):
        return [(data_of(record), record["partition_key"], *place) for record, place in zip(records, places(records))]

    batch = pull(first, 30)["records"]
    check_equal(come(batch), expected[:30], "the first batch")
    ack(first, batch)
    check_equal(world.checkpoint(), (placed[1], "28"), "the checkpoint inside the first aggregate")
    # More is delivered, and some of it acknowledged, but not the next one: that is no progress.
    batch = pull(first, 30)["records"]
    check_equal(come(batch), expected[30:60], "the second batch")
    first.call("POST", f"/v1/records/ack?ack_id={batch[5]['ack_id']}&ack_id={batch[29]['ack_id']}")
    first.kill()
    check_equal(world.checkpoint(), (placed[1], "28"), "the checkpoint of the dead")

    second = world.sidecar("second")
    records = pull_all(second, len(expected) - 30)
    check_equal(come(records), expected[30:], "what the second one delivers")
    check(not any(record.get("aggregated") for record in records), "user records are no aggregates")
    check_equal(world.checkpoint(), (placed[3], None), "the checkpoint behind everything")
    check_equal(second.metric("user_records_total"), 71, "user records, without those that were settled before")
    second.stop()


def cumulative_checkpoints_count_in_sub_sequence_numbers(world):
    first = world.sidecar("first")
    (_, sequence), = world.put(first, [("k", pack(users("one", 10)))])
    batch = pull(first, 8)["records"]
    check_equal(places(batch), [(sequence, at) for at in range(8)], "delivered")

    def checkpoint(**more):
        return first.call("POST", "/v1/checkpoint",
                          {"shard_id": SHARD, "sequence_number": sequence, "wait": "persisted", **more})
    check_equal(checkpoint(sub_sequence_number=8).status, 400, "a user record that was not delivered")
    check_equal(checkpoint(sub_sequence_number=-1).status, 400, "a negative number")
    check_equal(world.checkpoint(), ("TRIM_HORIZON", None), "nothing is settled")
    for sub in (0, 4, 2):
        answer = checkpoint(sub_sequence_number=sub)
        check_equal((answer.status, answer.json["persisted"]), (200, True), answer)
    check_equal(world.checkpoint(), (sequence, "4"), "the checkpoint never goes back")
    lease = first.get("/v1/leases")["leases"][0]
    check_equal((lease["checkpoint"], lease["sub_sequence_number"]), (sequence, 4), "GET /v1/leases")
    # A drain leaves it to the next one where it is.
    answer = first.call("POST", "/v1/checkpoint",
                        {"shard_id": SHARD, "sequence_number": sequence, "sub_sequence_number": 7})
    check_equal(answer.status, 200, answer)
    first.stop()
    check_equal(world.checkpoint(), (sequence, "7"), "the checkpoint of the drain")
    second = world.sidecar("second")
    check_equal(places(pull_all(second, 2)), [(sequence, 8), (sequence, 9)], "what comes next")
    second.stop()


def many_user_records_of_one_record_come_in_order_and_once(world):
    count = 25000
    first = world.sidecar("first")
    packed = users("many", count)
    (_, sequence), = world.put(first, [("k", pack(packed))])
    seen = []
    while len(seen) < 10000:
        batch = pull(first, 1000)["records"]
        seen += batch
        ack(first, batch)
    done = len(seen)
    check_equal(world.checkpoint(), (sequence, str(done - 1)), "the checkpoint in the middle")
    check_equal(first.metric("aggregates_opened_total"), 1, "it was opened once")
    first.kill()
    second = world.sidecar("second")
    seen += pull_all(second, count - done, 60)
    check_equal(len(seen), count, "records")
    check_equal(places(seen), [(sequence, at) for at in range(count)], "places")
    check([data_of(record) for record in seen] == [data for _, data in packed], "data")
    second.stop()


def a_broken_aggregate_is_delivered_as_it_is(world):
    sidecar = world.sidecar("only")
    broken = framed(b"this is no protobuf")
    no_aggregate = pack(users("x", 3))[:-1] + b"?"
    world.put(sidecar, [("k", pack(users("one", 2))), ("its own key", broken), ("k", no_aggregate),
                        ("k", pack(users("two", 1)))])
    records = pull_all(sidecar, 5)
    check_equal([data_of(record) for record in records],
                [b"one-00000", b"one-00001", broken, no_aggregate, b"two-00000"], "data")
    check_equal([record.get("aggregated", False) for record in records], [False, False, True, False, False], "marked")
    check_equal((records[2]["partition_key"], records[2]["sub_sequence_number"]), ("its own key", 0), "the broken one")
    check_equal(sidecar.metric("aggregates_broken_total"), 1, "broken")
    check_equal(sidecar.metric("aggregates_opened_total"), 2, "opened")
    check("cannot be taken apart" in sidecar.said(), "it is told")
    sidecar.stop()


STORIES = [(a_killed_sidecar_is_gone_on_from_inside_an_aggregate, 60),
           (cumulative_checkpoints_count_in_sub_sequence_numbers, 60),
           (many_user_records_of_one_record_come_in_order_and_once, 90),
           (a_broken_aggregate_is_delivered_as_it_is, 30)]


def story_in(world, story, seconds):
    def run(folder):
        story(world(folder))
    run.__name__ = f"{story.__name__}__{world.__name__.lower()}"
    test(seconds=seconds)(run)


for told, most in STORIES:
    for place in (Cloud, Embedded):
        story_in(place, told, most)


@test(seconds=60)
def a_producer_that_missed_a_reshard_brings_every_record_once(folder):
    world = Cloud(folder)
    packed = [("k", f"record-{number}".encode(), MIDDLE if number % 3 == 1 else str(number)) for number in range(30)]
    missed = [record for record in packed if record[2] == MIDDLE]

    def put(records, hash_key):
        return kinesis("PutRecord", StreamName=world.name, PartitionKey="k", ExplicitHashKey=hash_key,
                       Data=base64.b64encode(pack(records)).decode())["ShardId"]

    check_equal(put(packed, "0"), SHARD, "all of it in the one shard")
    kinesis("SplitShard", StreamName=world.name, ShardToSplit=SHARD, NewStartingHashKey=MIDDLE)
    wait_until(lambda: kinesis("DescribeStreamSummary", StreamName=world.name)
               ["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE", 20, "it is split")
    # The producer still packs for the parent. What is not in its place, and nothing else, it puts again.
    low = put(packed, "0")
    high = put(missed, LAST)
    check(low != high, low)
    sidecar = world.sidecar("only")
    records = pull_all(sidecar, 2 * len(packed), 30)
    of = {shard: sorted(data_of(record) for record in records if record["shard_id"] == shard)
          for shard in (SHARD, low, high)}
    check_equal(of[SHARD], sorted(record[1] for record in packed), "before the split all were at home")
    check_equal(of[high], sorted(record[1] for record in missed), "the high half")
    check_equal(sorted(of[low] + of[high]), of[SHARD], "both halves")
    check_equal(sidecar.metric("user_records_foreign_total"), len(missed), "passed over")
    check("hash keys of other shards" in sidecar.said(), "it is told")
    sidecar.stop()


if __name__ == "__main__":
    need_emulators("dynoxide", "kinesis-local")
    main()
