# SPDX-License-Identifier: Apache-2.0
"""Fleets of other people's libraries: their members as processes, the stream and the tables that they share, their diaries.

A member is a program of a folder here, made with one library and nothing of ours. It is called with
    WORKER STREAM APPLICATION [NAME=VALUE..]
and finds AWS_ENDPOINT_URL_KINESIS, AWS_ENDPOINT_URL_DYNAMODB and credentials. SIGTERM stops it as its library would have
it. It reads from TRIM_HORIZON, checkpoints after each batch or as its library does, and works work_us on a record; other
settings are those of its library. It writes a diary, a JSON object a line, which all have at (seconds since 1970), worker
and event:
    started, stopped                        the member runs; it has ended cleanly
    began     shard, sequence               it has a shard, and what it begins with
    record    data, and shard, sequence, key if the library tells them; data of an aggregate that is told whole is md5:..
    saved, unsaved   shard, sequence        a checkpoint and what became of it; SHARD_END is one
    ended     shard, reason                 it has the shard no more, and was told so
    failed    reason                        its library has given up
"""

import collections
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from lib import (PATIENCE, PROCESSES, ROOT, Failure, Sidecar, check, check_equal, dynamodb, kinesis, make_stream, put_kinesis,  # noqa: E402
                 read_lines, wait_until)
from kinesis_client import Kinesis  # noqa: E402

BUILT = os.path.join(ROOT, "build", "interop")  # The diaries stay there.
LEASE_MS = 5000


# kinesis-local is slow with many records.
EMULATORS = {"kinesis-local": os.environ.get("KS_KINESIS_URL"), "double": os.environ.get("KS_DOUBLE_URL")}


def told_by_double(before=None):
    """What it has counted so far, or since it told `before`: requests by their operation, errors by their type."""
    told = Kinesis(os.environ["KS_DOUBLE_URL"]).control()
    return {what: collections.Counter(told[what]) - collections.Counter(before[what] if before else {})
            for what in ("requests", "errors")}


class Library:
    """How a member is started, which tables its library has, and how long it leaves a shard unread.

    `unread` is in seconds, from its code and these settings: what a death costs at most, when all goes well."""

    def __init__(self, program, settings, unread, tables=("",), spans=True, on="kinesis-local"):
        self.program, self.settings, self.unread, self.tables, self.spans = program, settings, unread, tables, spans
        self.on = on  # The Kinesis that it reads.


def in_go(name):
    return [os.path.join(BUILT, name, "member")]


def in_java(name):
    return [os.path.join(HERE, "kcl", "run"), name]


# A death costs a lease, and a cycle of 0.5 to 1.5 sync_ms for each of the shards that were lost, one after the other.
GO_KCL = {"lease_ms": LEASE_MS, "sync_ms": 500, "idle_ms": 500}
# A client counts for 5 checks, and so does a checkpoint: one that did not move for so long is taken from a live owner, who
# gives up then. Short ones make that a habit.
KINSUMER = {"check_ms": 3000, "leader_ms": 3000, "commit_ms": 500}
KCL2 = {"failoverTimeMillis": LEASE_MS, "shardSyncIntervalMillis": 2000, "parentShardPollIntervalMillis": 1000,
        "idleTimeBetweenReadsInMillis": 500, "maxRecords": 100}
KCL3 = dict(KCL2, leaseAssignmentIntervalMillis=2000, workerMetricsReporterFreqInMillis=2000,
            dynamoDbLockBasedLeaderLeaseDurationInMillis=6000, dynamoDbLockBasedLeaderHeartbeatPeriodInMillis=1000)
# What the daemon cannot be told: how long its leader's lock lives (120 s), and what the leader's round waits for.
MULTILANG = {name: KCL3[name] for name in KCL3 if not name.startswith("dynamoDbLock")}
SEPARATE = ("", "-CoordinatorState", "-WorkerMetricStats")

LIBRARIES = {
    "go-kcl": Library(in_go("go-kcl"), GO_KCL, 15, on="double"),
    "go-kcl-v2": Library(in_go("go-kcl-v2"), GO_KCL, 15, on="double"),
    "kinsumer": Library(in_go("kinsumer"), KINSUMER, 30, ("_checkpoints", "_clients", "_metadata"), spans=False),
    "kinsumer-snowplow": Library(in_go("kinsumer-snowplow"), KINSUMER, 30, ("_checkpoints", "_clients", "_metadata"),
                                 spans=False),
    "kcl2": Library(in_java("kcl2"), KCL2, 50),
    "kcl34": Library(in_java("kcl34"), KCL3, 60, SEPARATE),
    "kcl35": Library(in_java("kcl35"), KCL3, 60),
    "multilang": Library([os.path.join(HERE, "multilang", "run")], MULTILANG, 180, SEPARATE),
}


def read_from(name):
    """Everything from here on happens at this Kinesis."""
    os.environ["KS_KINESIS_URL"] = EMULATORS[name]


def build(*names):
    subprocess.run([os.path.join(HERE, "build"), *names], check=True, stdin=subprocess.DEVNULL)


class Member:
    """One process of a library, under a worker id that outlives it."""

    def __init__(self, world, library, worker, **settings):
        self.world, self.library, self.worker = world, LIBRARIES[library], worker
        self.settings = dict(self.library.settings, **settings)
        self.process, self.runs = None, 0
        self.diaries = []

    def start(self):
        self.runs += 1
        path = os.path.join(self.world.folder, f"{self.worker}.{self.runs}")
        diary = path + ".diary"
        self.diaries.append(diary)
        env = dict(os.environ, KS_DIARY=diary, AWS_ENDPOINT_URL_KINESIS=self.world.kinesis_url,
                   AWS_ENDPOINT_URL_DYNAMODB=self.world.dynamodb_url)
        if self.world.ca is not None:
            env["SSL_CERT_FILE"] = self.world.ca
            env.pop("AWS_CA_BUNDLE", None)
        args = ["setpriv", "--pdeathsig", "KILL", "nice", *self.library.program, self.worker, self.world.name, self.world.name,
                *(f"{name}={value}" for name, value in self.settings.items())]
        apart = "multilang" in self.library.program[0]  # Its stdout is a log; it says nothing in a diary before it has a shard.
        self.first_words = path + ".log" if apart else diary
        with open(path + ".log", "ab") as log, open(diary, "ab") as out:
            self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log if apart else out, stderr=log, env=env)
        PROCESSES.append(self.process)
        return self

    def stop(self, seconds=40):
        """As an operator does; returns how long it took."""
        self.lives()
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(seconds * PATIENCE)
        except subprocess.TimeoutExpired:
            check(False, f"{self.worker} has not ended {seconds * PATIENCE} s after SIGTERM")
        # A JVM that was asked to end says 143.
        check(status in (0, 143), f"{self.worker} ended with {status} after SIGTERM")
        return time.monotonic() - began

    def kill(self):
        self.lives()
        self.process.kill()
        self.process.wait()

    def lives(self):
        check(self.process.poll() is None, f"{self.worker} ended by itself with {self.process.poll()}")

    def awake(self):
        """Waits for its first line: kinsumer cannot bear that two make its tables at the same time."""
        def told():
            self.lives()
            return read_lines(self.first_words)
        wait_until(told, 60, f"{self.worker} says something")
        return self

    def entries(self, run=None):
        """Its diary, or that of one run: 0 is the first."""
        for path in self.diaries if run is None else self.diaries[run:run + 1]:
            for entry in map(json.loads, read_lines(path)):
                users = self.world.packed.get(entry.get("data"), ())
                yield from (dict(entry, data=user) for user in users) if users else (entry,)


# What the sidecar is told of a fleet besides.
AS_THEY = {"kinsumer": {"shard_check_ms": KINSUMER["check_ms"]},
           "kcl": {"worker_metrics_ms": KCL3["workerMetricsReporterFreqInMillis"]}}


class Ours(Member):
    """A sidecar that speaks the dialect of a library, and its app."""

    def __init__(self, world, dialect, library, worker, work_us=0, **options):
        super().__init__(world, library, worker)
        self.dialect, self.work_us, self.options, self.apps = dialect, work_us, options, []

    def start(self):
        self.runs += 1
        path = os.path.join(self.world.folder, f"{self.worker}.{self.runs}")
        self.diaries.append(path + ".diary")
        self.first_words = self.diaries[-1]
        options = {"dialect": self.dialect, **self.world.subscriptions(path + ".json"),
                   "initial_position": "trim_horizon", "lease_duration_ms": LEASE_MS, "checkpoint_interval_ms": 500,
                   "drain_timeout_ms": 30000, **AS_THEY.get(self.dialect, {}), **self.options}
        where = {"AWS_ENDPOINT_URL_KINESIS": self.world.kinesis_url, "AWS_ENDPOINT_URL_DYNAMODB": self.world.dynamodb_url}
        if self.world.ca is not None:
            where["AWS_CA_BUNDLE"] = self.world.ca
        self.sidecar = Sidecar(self.world.folder, f"{self.worker}.{self.runs}-sidecar", env=where,
                               **dict(options, worker_id=self.worker))
        self.sidecar.start()
        self.process = self.sidecar.process
        with open(path + ".log", "ab") as log, open(self.diaries[-1], "ab") as out:
            self.apps = [subprocess.Popen(["setpriv", "--pdeathsig", "KILL", os.path.join(HERE, "app.py"), self.sidecar.url,
                                           self.worker, str(self.work_us), *stream], stdin=subprocess.DEVNULL, stdout=out,
                                          stderr=log) for stream in self.world.apart()]
        PROCESSES.extend(self.apps)
        return self

    def stop(self, seconds=40):
        took = super().stop(seconds)
        self.end_app(signal.SIGTERM)
        return took

    def kill(self):
        """Both at once: what its app has not said is not settled."""
        super().kill()
        self.end_app(signal.SIGKILL)

    def end_app(self, number):
        for app in self.apps:
            app.send_signal(number)
        try:
            for app in self.apps:
                app.wait(20 * PATIENCE)
        except subprocess.TimeoutExpired:
            check(False, f"an app of {self.worker} has not ended")

    def lives(self):
        super().lives()
        for app in self.apps:
            check(app.poll() is None, f"an app of {self.worker} ended by itself with {app.poll()}")

    def manners(self):
        """Of which it says that the fleet of KCL is: 2.x or 3.x; unled, if nobody leads one of 3.x; None before it knows."""
        said = re.findall(r"the manners of KCL (\d\.x)|nobody has (led)", self.sidecar.said())
        return (said[-1][0] or "unled") if said else None


class World:
    """A stream and the tables of one application, the records that were put, and who reads them."""

    def __init__(self, folder, shards, name=None, tls=False):
        self.folder = folder
        self.name = name or "interop-" + os.path.basename(folder).replace("_", "-")
        self.members, self.placed, self.put_at = [], {}, {}
        self.inside = {}  # Of records that were packed: which of its aggregate.
        self.packed = {}  # Of aggregates, as a diary names them that tells of one whole: what is in them.
        # Of the members; over TLS it is the double's.
        self.dynamodb_url = os.environ["KS_DYNAMODB_URL"]
        self.kinesis_url = os.environ["KS_DOUBLE_TLS_URL" if tls else "KS_KINESIS_URL"]
        self.ca = os.environ["KS_DOUBLE_CA"] if tls else None
        make_stream(self.name, shards)

    def subscriptions(self, path):
        """What a sidecar is told to read; `path` is where it may be told in a file."""
        return {"stream": self.name, "application": self.name}

    def apart(self):
        """Of each app that a sidecar has, which stream it reads, if there are several."""
        return [[]]

    def member(self, library, worker, **settings):
        member = Member(self, library, worker, **settings)
        self.members.append(member)
        return member

    def ours(self, dialect, library, worker, work_us=0, **options):
        """A member of ours; or one of the library BASELINE, to see what it does in our place."""
        if os.environ.get("BASELINE"):
            stealing = {"stealing": 1} if options.pop("lease_stealing", "off") == "on" else {}
            return self.member(os.environ["BASELINE"], worker, work_us=work_us, **stealing, **options)
        member = Ours(self, dialect, library, worker, work_us, **options)
        self.members.append(member)
        return member

    def put(self, count):
        """Puts so many records more: their data is their number."""
        first = len(self.placed)
        for at in range(first, first + count, 500):
            records = [(f"key-{number}", b"%d" % number) for number in range(at, min(at + 500, first + count))]
            places = put_kinesis(self.name, records)
            for (_, data), place in zip(records, places):
                self.placed[data.decode()] = place
                self.put_at[data.decode()] = time.time()

    def put_packed(self, count, users):
        """Puts so many aggregates more, of so many records each; those of one have one key, so that they are in one shard."""
        sys.path.insert(0, os.path.join(ROOT, "build", "python"))
        import aws_kinesis_agg  # noqa: E402 - it is found there
        sys.path.append(os.path.dirname(aws_kinesis_agg.__file__))  # Its generated files look for each other there.
        from aws_kinesis_agg.aggregator import AggRecord  # noqa: E402

        first = len(self.placed)
        for at in range(first, first + count * users, users):
            packed = AggRecord()
            for number in range(at, at + users):
                check(packed.add_user_record(f"key-{at}", b"%d" % number), "an aggregate is full")
            data = packed.get_contents()[2]
            place, = put_kinesis(self.name, [(f"key-{at}", data)])
            self.packed["md5:" + data[-16:].hex()] = [str(number) for number in range(at, at + users)]
            for number in range(at, at + users):
                self.placed[str(number)], self.inside[str(number)] = place, number - at
                self.put_at[str(number)] = time.time()

    def seen(self):
        """How often each record was seen."""
        return collections.Counter(entry["data"] for member in self.members for entry in member.entries()
                                   if entry["event"] == "record")

    def wait_seen(self, count, seconds, *living):
        """Waits until so many different records were seen, while these members live; `seconds` is how long none may come,
        with PATIENCE: how many a second are read is the machine's."""
        best, until = -1, 0.0
        while best < count:
            for member in living:
                member.lives()
            seen = len(self.seen())
            if seen > best:
                best, until = seen, time.monotonic() + seconds * PATIENCE
            check(time.monotonic() < until, f"{best} of {count} records were seen, and none for {seconds * PATIENCE} s")
            if best < count:
                time.sleep(0.5)

    def wait_all_seen(self, count, seconds, *living):
        """Waits until the first so many records were put, and none of them is unseen."""
        def enough():
            for member in living:
                member.lives()
            seen = self.seen()
            return len(self.placed) >= count and all(str(number) in seen for number in range(count))
        wait_until(enough, seconds, f"the first {count} records were seen", every=0.5)

    def shards(self):
        return kinesis("ListShards", StreamName=self.name)["Shards"]

    def settled_shards(self):
        """The shards, when no reshard is under way."""
        wait_until(lambda: kinesis("DescribeStreamSummary", StreamName=self.name)["StreamDescriptionSummary"]["StreamStatus"]
                   == "ACTIVE", 30, "the stream is active")
        return {shard["ShardId"]: shard for shard in self.shards()}

    def split(self, shard):
        """Splits a shard in the middle; returns its children."""
        before = self.settled_shards()
        low, high = (int(before[shard]["HashKeyRange"][name]) for name in ("StartingHashKey", "EndingHashKey"))
        kinesis("SplitShard", StreamName=self.name, ShardToSplit=shard, NewStartingHashKey=str((low + high + 1) // 2))
        return sorted(self.settled_shards().keys() - before)

    def merge(self, one, other):
        before = self.settled_shards()
        kinesis("MergeShards", StreamName=self.name, ShardToMerge=one, AdjacentShardToMerge=other)
        return sorted(self.settled_shards().keys() - before)

    def rows(self, table=""):
        """The items of a table, as DynamoDB writes them; none if there is no table."""
        if self.name + table not in dynamodb("ListTables")["TableNames"]:
            return []
        return dynamodb("Scan", TableName=self.name + table, ConsistentRead=True)["Items"]


class Streams(World):
    """Two streams in one application: a shard is STREAM/SHARD, and every other record is for the second one."""

    def __init__(self, folder, shards):
        super().__init__(folder, shards)
        self.names = [self.name, self.name + "-b"]
        make_stream(self.names[1], shards)

    def subscriptions(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"subscriptions": [{"name": name, "stream": name, "application": self.name} for name in self.names]},
                      file)
        return {"stream": None, "application": None, "config": path}

    def apart(self):
        return [[name] for name in self.names]

    def member(self, library, worker, **settings):
        return super().member(library, worker, streams=",".join(self.names), **settings)

    def put(self, count):
        first = len(self.placed)
        for at, name in enumerate(self.names):
            numbers = range(first + (first + at) % 2, first + count, 2)
            places = put_kinesis(name, [(f"key-{number}", b"%d" % number) for number in numbers])
            for number, (shard, sequence) in zip(numbers, places):
                self.placed[str(number)] = (f"{name}/{shard}", sequence)
                self.put_at[str(number)] = time.time()


class MigrationTool:
    """The rows that say how a fleet of KCL agrees, and what KclMigrationTool.py of the library does to them: an operator
    goes back and forth between 2.x and 3.x with it. They are `apart` until 3.4."""

    def __init__(self, world, apart):
        self.world, self.apart = world, apart

    def place(self, key):
        return {"TableName": self.world.name + ("-CoordinatorState" if self.apart else ""),
                "Key": {"key" if self.apart else "leaseKey": {"S": key}}}

    def row(self, key):
        place = self.place(key)
        if place["TableName"] not in dynamodb("ListTables")["TableNames"]:
            return {}
        return dynamodb("GetItem", ConsistentRead=True, **place).get("Item", {})

    def version(self):
        return self.row("Migration3.0").get("cv", {}).get("S")

    def moved(self):
        """How far the rows have moved into the table of the leases."""
        return self.row("TableMigration3.5").get("tm", {}).get("S")

    def write(self, mode, version, *before):
        row = self.row("Migration3.0")
        history = [{"M": {name: row[name] for name in ("cv", "mb", "mts")}}, *row.get("h", {"L": []})["L"]][:10]
        values = {f":{at}": {"S": "CLIENT_VERSION_" + one} for at, one in enumerate(before)}
        dynamodb("UpdateItem", **self.place("Migration3.0"), UpdateExpression="SET cv = :cv, mts = :mts, mb = :mb, h = :h",
                 ConditionExpression=f"cv IN ({', '.join(values)})",
                 ExpressionAttributeValues={**values, ":cv": {"S": "CLIENT_VERSION_" + version}, ":mb": {"S": "KclMigrationTool-" + mode},
                                            ":mts": {"N": str(round(time.time() * 1000))}, ":h": {"L": history}})

    def roll_back(self):
        self.write("rollback", "2X", "UPGRADE_FROM_2X", "3X_WITH_ROLLBACK")

    def clean_up(self):
        """The end of a roll-back; it gives the fleet two minutes before."""
        dynamodb("UpdateTable", TableName=self.world.name,
                 GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "LeaseOwnerToLeaseKeyIndex"}}])
        if self.apart:
            dynamodb("DeleteTable", TableName=self.world.name + "-WorkerMetricStats")

    def roll_forward(self):
        self.write("rollforward", "UPGRADE_FROM_2X", "2X")


class Watch:
    """Looks at the rows of a table all the time, until it is stopped; `rule(row)` is what is wrong with one, or None."""

    def __init__(self, world, rule, table=""):
        self.world, self.rule, self.table, self.over, self.looks, self.wrong = world, rule, table, threading.Event(), 0, None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.wait(0.05) and not self.wrong:
            try:
                rows = self.world.rows(self.table)
            except (OSError, Failure):  # The table has just gone, or its emulator has no time: the next look tells.
                continue
            self.wrong = next((f"{wrong}: {row}" for row in rows for wrong in [self.rule(row)] if wrong), None)
            self.looks += 1

    def stop(self):
        self.over.set()
        self.thread.join(30 * PATIENCE)
        check(self.wrong is None, "a row that members cannot live with,", self.wrong)
        check(self.looks > 0 and not self.thread.is_alive(), "nobody looked at the rows")


class Verdict:
    """What the diaries of a world say. Nothing is lost, nothing is passed over, and a span of a shard is in its order."""

    def __init__(self, world):
        self.world = world
        self.shards = collections.defaultdict(list)  # Its records in order.
        for data, (shard, sequence) in world.placed.items():
            self.shards[shard].append(((int(sequence), world.inside.get(data, 0)), data))
        for records in self.shards.values():
            records.sort()
        self.index = {data: (shard, index) for shard, records in self.shards.items()
                      for index, (_, data) in enumerate(records)}
        self.first, self.reader = {}, {}
        self.told = collections.Counter()

    def read(self):
        for member in self.world.members:
            for run in range(member.runs):
                self.read_run(member, run)
        return self

    def read_run(self, member, run):
        """Within a span the sequence numbers rise; a library that tells no spans may begin again, and is asked less."""
        last = {}
        for entry in member.entries(run):
            self.told[entry["event"]] += 1
            if entry["event"] == "began":
                last.pop(entry["shard"], None)
            if entry["event"] != "record":
                continue
            check(entry["data"] in self.index, f"{member.worker} has a record that nobody put", entry)
            shard, index = self.index[entry["data"]]
            check_equal(entry.get("shard", shard), shard, "the shard of", entry)
            if member.library.spans:
                check(index > last.get(shard, -1), f"{member.worker} goes back in its span of {shard}", entry)
            last[shard] = index
            if entry["at"] <= self.first.get(entry["data"], entry["at"]):
                self.first[entry["data"]], self.reader[entry["data"]] = entry["at"], member.worker

    def nothing_lost(self):
        lost = {shard: [data for _, data in records if data not in self.first] for shard, records in self.shards.items()}
        lost = {shard: (len(records), records[:3]) for shard, records in lost.items() if records}
        check(not lost, "never seen:", lost)
        return self

    def nothing_passed(self):
        """Nobody sees a record before all earlier ones of its shard were seen by somebody."""
        for shard, records in self.shards.items():
            times = [self.first[data] for _, data in records]
            for index in range(1, len(times)):
                check(times[index] >= times[index - 1] - 0.001, f"{shard}: record {records[index][1]} came "
                      f"{times[index - 1] - times[index]:.3f} s before {records[index - 1][1]}, which is earlier")
        return self

    def parents_first(self, theirs):
        """Nobody sees a record of a child before the last one of its parents was seen; of theirs, of so many of them."""
        for shard in self.world.shards():
            child = [data for _, data in self.shards.get(shard["ShardId"], [])]
            ours = child and self.reader[child[0]].startswith("ours")
            parents = [shard.get("ParentShardId"), shard.get("AdjacentParentShardId")][:2 if ours else theirs]
            for parent in parents:
                if parent in self.shards and child:
                    last = max(self.first[data] for _, data in self.shards[parent])
                    began = min(self.first[data] for data in child)
                    check(began >= last, f"{shard['ShardId']} was read {last - began:.3f} s before the end of {parent}")
        return self

    def unread(self):
        """The longest that records of a shard were there and nobody came for them: seconds, the shard, since when."""
        worst = (0.0, None, None)
        for shard, records in self.shards.items():
            before = 0.0
            for _, data in records:
                since = max(before, self.world.put_at[data])
                worst = max(worst, (self.first[data] - since, shard, since), key=lambda one: one[0])
                before = self.first[data]
        return worst

    def duplicates(self):
        return sum(self.world.seen().values()) - len(self.first)

    def twice(self):
        """Of the records that came twice: how many the same run, or which one after which, had."""
        before, pairs = {}, collections.Counter()
        entries = sorted(((entry["at"], f"{member.worker}.{run + 1}", entry["data"]) for member in self.world.members
                          for run in range(member.runs) for entry in member.entries(run) if entry["event"] == "record"))
        for _, who, data in entries:
            if data in before:
                pairs[f"{before[data]} then {who}"] += 1
            before[data] = who
        return dict(pairs)
