#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dialect kcl in a fleet of KCL 3.x: what it reports, how it follows the fleet's rows, and what a leader assigns,
played by the test: it writes the rows that the leader of the library writes."""

import os
import threading
import time
import uuid

from lib import (Sidecar, check, check_equal, data_of, dynamodb, kinesis, main, make_stream, need_emulators, numbered,
                 pull_all, put_kinesis, test, wait_until)

LEASE_MS = 2000
METRICS_MS = 1000
LEADER_MS = 6000
INDEX = "LeaseOwnerToLeaseKeyIndex"
FRESH = {"leaseCounter": {"N": "0"}, "ownerSwitchesSinceCheckpoint": {"N": "0"}, "checkpoint": {"S": "TRIM_HORIZON"},
         "checkpointSubSequenceNumber": {"N": "0"}, "entityType": {"S": "LEASE"}}


def make_table(table, key, index=False):
    attributes = [key, "leaseOwner"] if index else [key]
    indexes = [{"IndexName": INDEX, "Projection": {"ProjectionType": "KEYS_ONLY"},
                "KeySchema": [{"AttributeName": "leaseOwner", "KeyType": "HASH"},
                              {"AttributeName": "leaseKey", "KeyType": "RANGE"}]}]
    dynamodb("CreateTable", TableName=table, BillingMode="PAY_PER_REQUEST",
             AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in attributes],
             KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
             **({"GlobalSecondaryIndexes": indexes} if index else {}))


class Fleet:
    """The tables of a fleet, in the layout of 3.5 (together) or of 3.0 to 3.4, and whoever leads it."""

    def __init__(self, folder, shards, version, together=True, leads=True, index=True):
        self.name = "kcl3-" + os.path.basename(folder).replace("_", "-")
        self.together = together
        self.key = "leaseKey" if together else "key"
        self.state = self.name + ("" if together else "-CoordinatorState")
        self.metrics = self.name + ("" if together else "-WorkerMetricStats")
        self.beats = leads
        make_stream(self.name, shards)
        make_table(self.name, "leaseKey", index)
        if not together:
            make_table(self.state, "key")
            make_table(self.metrics, "wid")
        self.shards = [shard["ShardId"] for shard in kinesis("ListShards", StreamName=self.name)["Shards"]]
        for shard in self.shards:
            dynamodb("PutItem", TableName=self.name, Item={"leaseKey": {"S": shard}, **FRESH})
        self.say(version)
        threading.Thread(target=self.lead, daemon=True).start()

    def say(self, version):
        self.put("Migration3.0", "CLIENT_VERSION_MIGRATION", cv={"S": "CLIENT_VERSION_" + version},
                 mb={"S": "w1"}, mts={"N": "1795372099859"}, h={"L": []})

    def put(self, name, entity, **attributes):
        item = {self.key: {"S": name}, **attributes}
        if self.together:
            item["entityType"] = {"S": entity}
        dynamodb("PutItem", TableName=self.state, Item=item)

    def lead(self):
        while True:
            if self.beats:
                self.put("Leader", "LEADER", ownerName={"S": "w1"}, leaseDuration={"S": str(LEADER_MS)},
                         recordVersionNumber={"S": str(uuid.uuid4())})
            time.sleep(LEADER_MS / 6000)

    def row(self, shard):
        return dynamodb("GetItem", TableName=self.name, Key={"leaseKey": {"S": shard}}, ConsistentRead=True)["Item"]

    def owner(self, shard):
        return self.row(shard).get("leaseOwner", {}).get("S")

    def assign(self, shard, worker):
        """assignLease of the library."""
        dynamodb("UpdateItem", TableName=self.name, Key={"leaseKey": {"S": shard}},
                 UpdateExpression="SET leaseOwner = :w REMOVE checkpointOwner ADD leaseCounter :one",
                 ConditionExpression="attribute_exists(leaseKey)",
                 ExpressionAttributeValues={":w": {"S": worker}, ":one": {"N": "1"}})

    def hand_on(self, shard, old, new):
        """initiateGracefulLeaseHandoff: the counter stays."""
        dynamodb("UpdateItem", TableName=self.name, Key={"leaseKey": {"S": shard}},
                 UpdateExpression="SET leaseOwner = :new, checkpointOwner = :old",
                 ConditionExpression="leaseOwner = :old AND attribute_not_exists(checkpointOwner)",
                 ExpressionAttributeValues={":new": {"S": new}, ":old": {"S": old}})

    def report(self, worker):
        key = "leaseKey" if self.together else "wid"
        return dynamodb("GetItem", TableName=self.metrics, Key={key: {"S": worker}}, ConsistentRead=True).get("Item")

    def sidecar(self, folder, worker, **options):
        return Sidecar.on_emulators(folder, worker, stream=self.name, application=self.name, dialect="kcl",
                                    lease_duration_ms=LEASE_MS, worker_metrics_ms=METRICS_MS, **options)


def ask(one):
    """A worker without consumers wants no leases, and reports nothing."""
    return one.get("/v1/records?max_records=1&wait_ms=1")["records"]


def reported(fleet, one, name, **conditions):
    def is_there():
        ask(one)
        report = fleet.report(name)
        return report and all(check(report) for check in conditions.values()) and report
    return wait_until(is_there, 20, "a report", every=0.2)


@test(seconds=60)
def reports_are_those_of_a_worker_of_3_5(folder):
    fleet = Fleet(folder, 1, "3X")
    one = fleet.sidecar(folder, "one").start()
    report = reported(fleet, one, "one", cpu=lambda row: row["sts"]["M"])
    check_equal(sorted(report), ["entityType", "leaseKey", "lut", "opr", "slu", "sts", "sup"])
    check_equal((report["entityType"], report["sup"]), ({"S": "WORKER_METRIC_STATS"}, {"N": "1"}))
    check_equal(report["opr"], {"M": {"C": {"L": [{"N": "100"}]}}})
    check(all(-1 <= float(sample["N"]) <= 100 for sample in report["sts"]["M"]["C"]["L"]), report)
    check(abs(int(report["lut"]["N"]) - time.time()) < 5, report)
    before = int(report["lut"]["N"])
    reported(fleet, one, "one", later=lambda row: int(row["lut"]["N"]) > before)
    # Others say nothing of theirs: with it, ours would be compared with nobody.
    fleet.put("w1", "WORKER_METRIC_STATS", lut={"N": str(int(time.time()) + 60)}, sts={"M": {}}, opr={"M": {}})
    reported(fleet, one, "one", bare=lambda row: row["sts"] == {"M": {}} and row["opr"] == {"M": {}})
    one.stop()
    check(fleet.report("one") is None, "a report of a worker that is gone")


@test(seconds=60)
def reports_have_a_table_of_their_own_in_3_4(folder):
    fleet = Fleet(folder, 1, "3X", together=False)
    one = fleet.sidecar(folder, "one").start()
    check_equal(reported(fleet, one, "one")["wid"], {"S": "one"})
    rows = dynamodb("Scan", TableName=fleet.name, ConsistentRead=True)["Items"]
    check_equal([row["leaseKey"]["S"] for row in rows], fleet.shards, "a row that would break members of 3.4")


@test(seconds=120)
def a_leader_assigns_and_takes_back(folder):
    fleet = Fleet(folder, 2, "3X")
    put_kinesis(fleet.name, numbered(40))
    one = fleet.sidecar(folder, "one").start()
    reported(fleet, one, "one")
    time.sleep(3 * LEASE_MS / 1000)
    check_equal([fleet.owner(shard) for shard in fleet.shards], [None, None], "it takes what a leader assigns")
    for shard in fleet.shards:
        fleet.assign(shard, "one")
    got = pull_all(one, 40)
    check_equal(len({data_of(record) for record in got}), 40)
    shard = fleet.shards[0]
    row = wait_until(lambda: fleet.row(shard)["checkpoint"]["S"].isdigit() and fleet.row(shard), 20, "a checkpoint")
    check("throughputKBps" in row, row)
    fleet.hand_on(shard, "one", "w2")
    row = wait_until(lambda: "checkpointOwner" not in fleet.row(shard) and fleet.row(shard), 25, "it is handed on")
    check_equal((row["leaseOwner"]["S"], row["ownerSwitchesSinceCheckpoint"]["N"]), ("w2", "0"))
    counter = row["leaseCounter"]
    time.sleep(2 * LEASE_MS / 1000)
    check_equal((fleet.row(shard)["leaseCounter"], fleet.owner(fleet.shards[1])), (counter, "one"))


@test(seconds=120)
def what_is_in_flight_is_settled_before_a_lease_is_handed_on(folder):
    fleet = Fleet(folder, 1, "3X")
    shard, = fleet.shards
    put_kinesis(fleet.name, numbered(10))
    one = fleet.sidecar(folder, "one").start()
    reported(fleet, one, "one")
    fleet.assign(shard, "one")
    batch = {}

    def pulled():
        batch.update(one.get("/v1/records?max_records=10&wait_ms=1000"))
        return batch["records"]
    wait_until(pulled, 20, "records")
    fleet.hand_on(shard, "one", "w2")
    time.sleep(2 * LEASE_MS / 1000)
    row = fleet.row(shard)
    check_equal(row.get("checkpointOwner"), {"S": "one"}, "given away with records in flight")
    one.call("POST", f"/v1/records/ack?batch_id={batch['batch_id']}")
    row = wait_until(lambda: "checkpointOwner" not in fleet.row(shard) and fleet.row(shard), 20, "it is handed on")
    check_equal((row["leaseOwner"], row["checkpoint"]["S"]),
                ({"S": "w2"}, batch["records"][-1]["sequence_number"]))


@test(seconds=120)
def where_nobody_leads_free_leases_are_taken_until_somebody_does(folder):
    fleet = Fleet(folder, 2, "3X_WITH_ROLLBACK", leads=False)
    one = fleet.sidecar(folder, "one").start()
    wait_until(lambda: ask(one) or [fleet.owner(shard) for shard in fleet.shards] == ["one", "one"], 30, "it takes",
               every=0.2)
    check("nobody has led" in one.said(), one.said())
    fleet.beats = True
    wait_until(lambda: "its leader assigns" in one.said(), 30, "it notices the leader")
    time.sleep(2 * LEASE_MS / 1000)
    check_equal([fleet.owner(shard) for shard in fleet.shards], ["one", "one"], "leases stay")
    fleet.beats = False
    wait_until(lambda: one.said().count("nobody has led") == 2, 40, "it notices that he is gone")


@test(seconds=120)
def a_fleet_flips_and_goes_back(folder):
    fleet = Fleet(folder, 2, "UPGRADE_FROM_2X", together=False)
    one = fleet.sidecar(folder, "one").start()
    wait_until(lambda: ask(one) or [fleet.owner(shard) for shard in fleet.shards] == ["one", "one"], 30, "it takes",
               every=0.2)
    reported(fleet, one, "one")
    fleet.say("3X_WITH_ROLLBACK")
    wait_until(lambda: ask(one) or "its leader assigns" in one.said(), 30, "it follows", every=0.2)
    check_equal([fleet.owner(shard) for shard in fleet.shards], ["one", "one"], "leases stay")
    fleet.say("2X")
    wait_until(lambda: ask(one) or one.said().count("leases are taken") == 2, 30, "it goes back", every=0.2)
    check_equal([fleet.owner(shard) for shard in fleet.shards], ["one", "one"], "leases stay")


@test(seconds=60)
def a_state_that_nobody_knows_is_left_alone(folder):
    fleet = Fleet(folder, 1, "4X")
    one = fleet.sidecar(folder, "one").start()
    wait_until(lambda: ask(one) or "does not know" in one.said(), 20, "it is told", every=0.2)
    time.sleep(2 * LEASE_MS / 1000)
    check_equal((fleet.owner(fleet.shards[0]), fleet.report("one")), (None, None))
    fleet.say("3X")
    reported(fleet, one, "one")


@test(seconds=90)
def without_an_index_all_rows_are_looked_at(folder):
    fleet = Fleet(folder, 1, "3X", index=False)
    put_kinesis(fleet.name, numbered(5))
    one = fleet.sidecar(folder, "one").start()
    reported(fleet, one, "one")
    fleet.assign(fleet.shards[0], "one")
    check_equal(len(pull_all(one, 5)), 5)


need_emulators("dynoxide", "kinesis-local")
main()
