#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each library writes into its tables, at each stage of a life: tests/vectors/dialects/LIBRARY.json.

    capture.py [LIBRARY..]     builds these, or all, and writes their files anew

A file has `library`, `settings`, `stages`, each with the tables as DynamoDB had them right then (items with types, sorted
by key; the name of a table is what comes after that of the application), `tables` (DescribeTable), and `requests`: each form
of a request to DynamoDB once, with the first of its values. Nothing is made up or smoothed: ids and instants are those of
the day on which it ran.
"""

import base64
import json
import os
import sys
import threading
import time

import fleet
from lib import ROOT, check, dynamodb, kinesis, main, make_stream, need_emulators, test, wait_until
from recorder import Recorder

sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import kpl  # noqa: E402

VECTORS = os.path.join(ROOT, "tests", "vectors", "dialects")
SHARDS = 4


class Life:
    """A library's tables, watched while something happens to its members."""

    def __init__(self, name, folder):
        self.name = name
        self.member_of, self.names = OF.get(name) or (name, fleet.LIBRARIES[name].tables)
        self.library = fleet.LIBRARIES[self.member_of]
        self.world = fleet.World(folder, SHARDS, "captured-" + name)
        self.recorder = Recorder(os.environ["KS_DYNAMODB_URL"])
        self.world.dynamodb_url = self.recorder.url
        self.stages = []

    def member(self, worker, **settings):
        return self.world.member(self.member_of, worker, **settings)

    def tables(self):
        return {table: sorted(self.world.rows(table), key=lambda item: json.dumps(item, sort_keys=True))
                for table in self.names}

    def stage(self, stage, fact, seconds=60, every=0.002):
        """Waits until `fact` is true of the tables, a dictionary of lists of items, and keeps them as they are then."""
        def there():
            tables = self.tables()
            return tables if fact(tables) else None
        tables = wait_until(there, seconds, f"{self.name}: {stage}", every=every)
        self.stages.append({"stage": stage, "tables": tables})
        print(f"       {self.name}: {stage}", flush=True)
        return tables

    def put_everywhere(self, aggregate=False):
        """A record for each open shard; one that has three in it, if so wanted."""
        for shard in self.open_shards():
            number = len(self.world.placed)
            data = b"%d" % number
            if aggregate:
                data = kpl.pack([(f"key-{at}", data, shard["HashKeyRange"]["StartingHashKey"]) for at in range(3)])
            answer = kinesis("PutRecord", StreamName=self.world.name, Data=base64.b64encode(data).decode(),
                             PartitionKey=f"key-{number}", ExplicitHashKey=shard["HashKeyRange"]["StartingHashKey"])
            self.world.placed[str(number)] = (answer["ShardId"], answer["SequenceNumber"])
            self.world.put_at[str(number)] = time.time()

    def traffic(self):
        """Records for all shards until what it returns is called: KCL 3 moves leases by what they bring."""
        over = threading.Event()

        def put():
            while not over.wait(0.1):
                self.put_everywhere()
        thread = threading.Thread(target=put, daemon=True)
        thread.start()
        return lambda: (over.set(), thread.join())

    def open_shards(self):
        return [shard for shard in self.world.shards() if not shard["SequenceNumberRange"].get("EndingSequenceNumber")]

    def split_first(self):
        shard = self.open_shards()[0]["ShardId"]
        self.world.split(shard)
        return shard

    def merge_last(self):
        self.world.merge(*(shard["ShardId"] for shard in self.open_shards()[-2:]))

    def write(self):
        tables = {}
        for table in self.names:
            if self.world.name + table in dynamodb("ListTables")["TableNames"]:
                told = dynamodb("DescribeTable", TableName=self.world.name + table)["Table"]
                tables[table] = {name: told[name] for name in ("KeySchema", "AttributeDefinitions", "BillingModeSummary",
                                                               "ProvisionedThroughput", "GlobalSecondaryIndexes") if name in told}
        os.makedirs(VECTORS, exist_ok=True)
        with open(os.path.join(VECTORS, self.name + ".json"), "w", encoding="utf-8") as file:
            json.dump({"library": self.name, "settings": self.library.settings, "stages": self.stages, "tables": tables,
                       "requests": list(self.recorder.forms.values())}, file, indent=1)
            file.write("\n")


def has(item, **members):
    """True if it has these members, with these values; None is a member of any value, and False one that is not there."""
    return all((name in item) if value is None else (name not in item) if value is False
               else next(iter(item.get(name, {"": ""}).values())) == value for name, value in members.items())


def every(count, **members):
    """A fact: the first table has so many items, all of them like this."""
    return lambda tables: (rows := first(tables)) and len(rows) >= count and all(has(row, **members) for row in rows)


def some(**members):
    return lambda tables: any(has(row, **members) for rows in tables.values() for row in rows)


def first(tables):
    return next(iter(tables.values()))


# --- The lives ---

def go_kcl(life):
    a = life.member("worker-a", stealing=1, lease_ms=6000, claim_ms=10000).start()
    leased = life.stage("leased", every(SHARDS, AssignedTo="worker-a", Checkpoint=False))
    before = {row["ShardID"]["S"]: row["LeaseTimeout"] for row in first(leased)}
    life.stage("renewed", lambda tables: all(row["LeaseTimeout"] != before[row["ShardID"]["S"]] for row in first(tables)))
    life.put_everywhere()
    life.stage("checkpointed", every(SHARDS, AssignedTo="worker-a", Checkpoint=None))
    b = life.member("worker-b", stealing=1, lease_ms=6000, claim_ms=10000).start()
    life.stage("claimed", some(ClaimRequest="worker-b", AssignedTo="worker-a"))
    life.stage("given up to a claim", some(ClaimRequest="worker-b", AssignedTo=False))
    life.stage("stolen", some(AssignedTo="worker-b", ClaimRequest=False))
    b.stop()
    life.stage("released", some(AssignedTo=False))
    life.stage("taken again", every(SHARDS, AssignedTo="worker-a"))
    parent = life.split_first()
    life.stage("children wait for their parent or read", some(ParentShardId=parent))
    life.stage("parent at its end", some(ShardID=parent, Checkpoint="SHARD_END"))
    life.stage("parent at its end, released", some(ShardID=parent, Checkpoint="SHARD_END", AssignedTo=False))
    life.stage("children", lambda tables: sum(has(row, ParentShardId=parent, AssignedTo="worker-a") for row in first(tables)) == 2)
    life.merge_last()
    life.stage("merged", lambda tables: len(first(tables)) == SHARDS + 3 and all(
        has(row, AssignedTo="worker-a") or has(row, Checkpoint="SHARD_END") for row in first(tables)))
    a.kill()
    life.stage("dead", lambda _: True)


def kinsumer(life):
    a = life.member("worker-a").start().awake()
    life.stage("leader without shards", some(Key="Leader", ID=None))
    life.stage("captured", lambda tables: len(first(tables)) == SHARDS and all(row.get("OwnerID", {}).get("S") for row in first(tables)))
    life.put_everywhere()
    life.stage("checkpointed", lambda tables: all("S" in row["SequenceNumber"] for row in first(tables)))
    b = life.member("worker-b").start().awake()
    life.stage("two clients", lambda tables: len({row["OwnerID"]["S"] for row in first(tables) if "OwnerID" in row}) == 2
               and all("OwnerID" in row for row in first(tables)))
    b.stop()
    life.stage("released", lambda tables: any("OwnerID" not in row for row in first(tables)))
    life.stage("one client", lambda tables: all("OwnerID" in row for row in first(tables)))
    parent = life.split_first()
    life.stage("parent finished", lambda tables: any(has(row, Shard=parent) and "N" in row["Finished"] for row in first(tables)))
    life.stage("children", lambda tables: sum("OwnerID" in row for row in first(tables)) == SHARDS + 1)
    a.stop()
    life.stage("all stopped", lambda tables: not any("OwnerID" in row for row in first(tables)))


def leases(tables):
    return [row for row in first(tables) if has(row, checkpoint=None)]


def of_all_leases(count, **members):
    return lambda tables: len(leases(tables)) >= count and all(has(row, **members) for row in leases(tables))


def kcl(life):
    a = life.member("worker-a", prepare_ms=300).start()
    life.stage("fresh", of_all_leases(SHARDS, leaseOwner=False, checkpoint="TRIM_HORIZON"), 120)
    leased = life.stage("leased", of_all_leases(SHARDS, leaseOwner="worker-a"), 120)
    before = {row["leaseKey"]["S"]: row["leaseCounter"] for row in leases(leased)}
    life.stage("renewed", lambda tables: all(row["leaseCounter"] != before[row["leaseKey"]["S"]] for row in leases(tables)))
    life.put_everywhere(aggregate=True)
    life.stage("prepared", some(pendingCheckpoint=None))
    life.stage("checkpointed", lambda tables: all(row["checkpoint"]["S"].isdigit() for row in leases(tables)))
    b = life.member("worker-b").start()
    if life.name != "kcl2":
        life.stage("metrics of two workers", lambda tables: sum("lut" in row for rows in tables.values() for row in rows) == 2)
        quiet = life.traffic()
        life.stage("handed over, not yet given", some(leaseOwner="worker-b", checkpointOwner="worker-a"), 120)
        quiet()
    life.stage("moved", some(leaseOwner="worker-b", checkpointOwner=False), 120)
    parent = life.split_first()
    life.stage("children made", lambda tables: len(leases(tables)) == SHARDS + 2, 120)
    life.stage("parent at its end", some(leaseKey=parent, checkpoint="SHARD_END"))
    life.merge_last()
    life.stage("merged", lambda tables: any(len(row.get("parentShardId", {}).get("SS", [])) == 2 for row in leases(tables)), 120)
    life.put_everywhere()
    life.stage("children read", lambda tables: sum(row["checkpoint"]["S"].isdigit() for row in leases(tables)) >= 4, 120)
    b.stop()
    life.stage("one stopped", lambda _: True)
    a.kill()
    life.stage("dead", lambda _: True)


def kcl_migration(life):
    """From 2.x to 3.x, as 3.5 has it: the leader waits for ten minutes before it lets the fleet change over."""
    a = life.member("worker-a", clientVersionConfig="CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X").start()
    life.stage("in the manner of 2.x", some(cv="CLIENT_VERSION_UPGRADE_FROM_2X"), 120)
    life.stage("leased", of_all_leases(SHARDS, leaseOwner="worker-a"), 120)
    life.stage("metrics", some(lut=None), 120)
    life.stage("in the manner of 3.x, and can go back", some(cv="CLIENT_VERSION_3X_WITH_ROLLBACK"), 900, every=1)
    life.stage("a leader", some(ownerName=None), 120)
    a.stop()
    life.member("worker-a").start()
    life.stage("3.x", some(cv="CLIENT_VERSION_3X"), 120)


def of_several(life):
    """An application that reads two streams: what is the same as with one is left out."""
    make_stream(life.world.name + "-b", 2)
    streams = f"{life.world.name},{life.world.name}-b"
    life.member("worker-a", streams=streams).start()
    life.stage("fresh", some(leaseOwner=False, streamName=None, shardId=None), 120)
    life.stage("leased", of_all_leases(SHARDS + 2, leaseOwner="worker-a"), 120)
    life.put_everywhere()
    life.stage("checkpointed", lambda tables: sum(row["checkpoint"]["S"].isdigit() for row in leases(tables)) == SHARDS)
    life.member("worker-b", streams=streams).start()
    quiet = life.traffic()
    life.stage("moved", some(leaseOwner="worker-b", checkpointOwner=False, streamName=None), 120)
    quiet()
    parent = life.split_first()
    life.stage("children made", lambda tables: len(leases(tables)) == SHARDS + 4, 120)
    life.stage("parent at its end", some(shardId=parent, checkpoint="SHARD_END"), 120)


LIVES = {"kcl2-streams": of_several, "kcl35-streams": of_several, "go-kcl": go_kcl, "go-kcl-v2": go_kcl, "kinsumer": kinsumer, "kinsumer-snowplow": kinsumer, "kcl2": kcl, "kcl34": kcl,
         "kcl35": kcl, "kcl35-migration": kcl_migration}
# What is no library alone: which one it is, and its tables.
OF = {"kcl35-migration": ("kcl35", fleet.SEPARATE), "kcl2-streams": ("kcl2", ("",)), "kcl35-streams": ("kcl35", ("",))}


def tell(name):
    def capture(folder):
        life = Life(name, folder)
        LIVES[name](life)
        life.write()
    capture.__name__ = name
    test(seconds=1500 if name == "kcl35-migration" else 400)(capture)


if __name__ == "__main__":
    names = sys.argv[1:] or list(LIVES)
    for wanted in names:
        check(wanted in LIVES, f"{wanted} is none of {', '.join(LIVES)}")
    need_emulators("dynoxide", "kinesis-local")
    fleet.build(*{OF.get(wanted, (wanted,))[0] for wanted in names})
    for wanted in names:
        tell(wanted)
    del sys.argv[1:]
    main()
