#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The main job, end to end: a Kinesis stream and a DynamoDB table (both emulated), two apps, and two murders.

4 shards, 4,000 records. In the middle one consumer and then the sidecar are killed with -9 and started again. At the end
every record was delivered, in the order of its shard; what was acknowledged and persisted before the sidecar died did
not come back; and the table's checkpoints are the last contiguous acks.
"""

import collections
import json
import os
import signal
import sys
import time

from lib import (HERE, Sidecar, check, check_equal, kinesis, lease_rows, main, make_stream, need_emulators, put_kinesis,
                 read_lines, spawn, test, wait_until)

SHARDS = 4
RECORDS = 4000


class Consumer:
    def __init__(self, folder, name, sidecar):
        self.name, self.sidecar = name, sidecar
        self.diary, self.log = os.path.join(folder, name + ".diary"), os.path.join(folder, name + ".log")
        self.process = None

    def start(self):
        self.process = spawn([sys.executable, os.path.join(HERE, "consumer.py"), self.sidecar.url, self.name, self.diary,
                              "1500"], self.log)
        return self

    def entries(self):
        return [json.loads(line) for line in read_lines(self.diary)]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        check_equal(self.process.wait(30), 0, f"status of {self.name}")


def handled(consumers):
    """How many different records were acknowledged."""
    return len({entry[2] for consumer in consumers for entry in consumer.entries() if entry[0] == "acked"})


def persisted_before(consumers, instant):
    """The records whose acknowledgement was durable before `instant`: an ack counts if the table covered it later in the
    same session; a session that ended before that proves nothing about its last acks."""
    proven = set()
    for consumer in consumers:
        acked = set()
        for entry in consumer.entries():
            if entry[1] >= instant:
                break
            if entry[0] == "session":
                acked = set()
            elif entry[0] == "acked":
                acked.add(entry[2])
            elif entry[0] == "failed":
                acked.discard(entry[2])
            elif entry[0] == "persisted":
                proven |= acked
    return proven


def check_order(consumers, placed):
    """First deliveries of each shard come in its order, over all consumers; and within each consumer nothing new comes
    behind something later."""
    everything = sorted((entry for consumer in consumers for entry in consumer.entries() if entry[0] == "record"),
                        key=lambda entry: entry[1])
    for entries in [everything] + [[entry for entry in consumer.entries() if entry[0] == "record"]
                                   for consumer in consumers]:
        furthest = collections.defaultdict(int)
        seen = set()
        for _, _, shard, sequence, _, _, data in entries:
            check_equal((shard, sequence), placed[data], f"where {data} is")
            if data not in seen:
                check(int(sequence) > furthest[shard], f"{data} came out of the order of {shard}")
                furthest[shard] = int(sequence)
                seen.add(data)


@test(seconds=150)
def nothing_is_lost_when_consumer_and_sidecar_are_killed(folder):
    names = [f"record-{number:05d}" for number in range(RECORDS)]
    half = RECORDS // 2
    make_stream("orders", SHARDS)
    placed = dict(zip(names[:half], put_kinesis("orders", [(name, name.encode()) for name in names[:half]])))

    sidecar = Sidecar.on_emulators(folder, stream="orders", application="orders-app", worker_id=None).start()
    consumers = [Consumer(folder, name, sidecar).start() for name in ("anna", "bert")]
    wait_until(lambda: handled(consumers) >= 500, 40, "500 records are handled", every=0.2)
    check(all(any(entry[0] == "record" for entry in consumer.entries()) for consumer in consumers),
          "both consumers get records")

    # The first murder: a consumer. The other one goes on; the same name comes back.
    consumers[0].process.kill()
    consumers[0].process.wait()
    consumers[0].start()
    placed.update(zip(names[half:], put_kinesis("orders", [(name, name.encode()) for name in names[half:]])))
    wait_until(lambda: handled(consumers) >= 1600, 40, "1600 records are handled", every=0.2)

    # The second: the sidecar. Its successor has another identity and waits until its leases may be taken.
    killed_at = time.monotonic()
    sidecar.kill()
    proven = persisted_before(consumers, killed_at)
    check(len(proven) >= 300, f"only {len(proven)} records were persisted before the kill")
    check(handled(consumers) < RECORDS, "the kill came too late")
    sidecar.start()
    wait_until(lambda: handled(consumers) == RECORDS, 60, "every record is handled", every=0.2)

    for consumer in consumers:
        consumer.stop()
    delivered = {entry[6] for consumer in consumers for entry in consumer.entries() if entry[0] == "record"}
    check_equal(len(delivered), RECORDS, "records delivered")
    check_order(consumers, placed)
    back = {entry[6] for consumer in consumers for entry in consumer.entries()
            if entry[0] == "record" and entry[1] > killed_at and entry[6] in proven}
    check_equal(back, set(), "acknowledged, persisted, and came back")

    entries = [entry for consumer in consumers for entry in consumer.entries() if entry[0] == "record"]
    print(f"    {len(entries)} deliveries of {RECORDS} records; {len(proven)} were persisted before the sidecar was killed, "
          f"{sum(entry[1] > killed_at for entry in entries)} deliveries came after that")
    # Everything was acknowledged, so the last contiguous ack is the last record of each shard.
    last = {}
    for shard, sequence in placed.values():
        last[shard] = max(last.get(shard, 0), int(sequence))
    check_equal(len(last), SHARDS, "shards with records")
    rows = lease_rows("orders-app")
    check_equal({shard: int(row["checkpoint"]) for shard, row in rows.items()}, last, "checkpoints in the table")
    sidecar.stop()


@test(seconds=60)
def the_checkpoint_stops_before_a_gap_in_the_acks(folder):
    make_stream("gaps", SHARDS)
    sidecar = Sidecar.on_emulators(folder, stream="gaps", application="gaps-app", drain_timeout_ms=500).start()
    # One partition key: one shard.
    placed = put_kinesis("gaps", [("same", f"record-{number}".encode()) for number in range(8)])
    shard = placed[0][0]
    records = []

    def pull():
        records.extend(sidecar.get("/v1/records?max_records=100&wait_ms=2000")["records"])
        return len(records) == len(placed)
    wait_until(pull, 20, "all records are delivered")
    check_equal([record["sequence_number"] for record in records], [sequence for _, sequence in placed], "order")

    # All but the fourth, in no order. The fifth and later ones are settled, but not contiguous.
    acks = [{"ack_id": records[number]["ack_id"], "outcome": "ack"} for number in (7, 1, 5, 0, 2, 6, 4)]
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": acks, "wait": "persisted", "wait_ms": 1500})
    check_equal(answer.status, 200, answer)
    check_equal((answer.json["ok"], answer.json["failed"], answer.json["persisted"]), (7, [], False), "with a gap")
    check_equal(lease_rows("gaps-app")[shard]["checkpoint"], placed[2][1], "the checkpoint before the gap")

    # The drain writes a last checkpoint, and that does not pass the gap either.
    sidecar.stop()
    row = lease_rows("gaps-app")[shard]
    check_equal(row["checkpoint"], placed[2][1], "the checkpoint after the drain")
    check("owner" not in row, "the lease is free", row)

    # What comes again is the fourth and all behind it, which were settled but not contiguous.
    sidecar.start()
    records.clear()

    def pull_rest():
        records.extend(sidecar.get("/v1/records?max_records=100&wait_ms=2000")["records"])
        return len(records) >= 5
    wait_until(pull_rest, 20, "the rest comes again")
    check_equal([record["sequence_number"] for record in records], [sequence for _, sequence in placed[3:]], "the rest")
    acks = [{"ack_id": record["ack_id"], "outcome": "ack"} for record in records]
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": acks, "wait": "persisted"})
    check_equal((answer.status, answer.json["persisted"]), (200, True), answer)
    check_equal(lease_rows("gaps-app")[shard]["checkpoint"], placed[7][1], "the checkpoint without a gap")
    sidecar.stop()


@test(seconds=60)
def a_split_is_followed_children_after_parents(folder):
    make_stream("splits", 1)
    before = [f"before-{number}" for number in range(50)]
    after = [f"after-{number}" for number in range(50)]
    put_kinesis("splits", [(name, name.encode()) for name in before])
    sidecar = Sidecar.on_emulators(folder, stream="splits", application="splits-app").start()
    kinesis("SplitShard", StreamName="splits", ShardToSplit="shardId-000000000000",
            NewStartingHashKey=str(2 ** 127))
    wait_until(lambda: kinesis("DescribeStreamSummary", StreamName="splits")["StreamDescriptionSummary"]
               ["StreamStatus"] == "ACTIVE", 10, "the split is done")
    put_kinesis("splits", [(name, name.encode()) for name in after])
    seen = []

    def pull():
        batch = sidecar.get("/v1/records?max_records=100&wait_ms=1000")
        seen.extend(batch["records"])
        if batch["batch_id"]:
            answer = sidecar.call("POST", f"/v1/records/ack?batch_id={batch['batch_id']}")
            check_equal(answer.json["failed"], [], "ack")
        return len({record["data"] for record in seen}) == 100
    wait_until(pull, 40, "the records of parent and children")
    shards = [record["shard_id"] for record in seen]
    check_equal(set(shards[:50]), {"shardId-000000000000"}, "the parent comes first")
    check_equal(set(shards[50:]), {"shardId-000000000001", "shardId-000000000002"}, "then its children")
    rows = lease_rows("splits-app")
    check_equal(rows["shardId-000000000000"]["checkpoint"], "SHARD_END", "the parent's row")
    sidecar.stop()


need_emulators("dynoxide", "kinesis-local")
if __name__ == "__main__":
    main()
