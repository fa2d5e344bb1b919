#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fleets of other people's libraries on one stream and one table: alone, and with sidecars in them; and their judge.

    judge.py [LIBRARY..]     builds these, or all, and tells their stories; STORIES='mixed' judge.py go-kcl tells some; with
                             BASELINE=go-kcl-v2 that library plays the part of the sidecar, for comparison

What is alone proves the members, the emulators and the judge; the others are told of libraries that the sidecar has a
dialect for.

Each story ends with one judgement of all diaries: every record was seen, none was passed over, and within a span the order
is that of the shard; records that came twice are counted; nobody's process ended by itself; no shard was left unread for
longer than the library's own bound.
"""

import os
import re
import signal
import sys
import threading
import time

import fleet
from lib import PATIENCE, Failure, check, check_equal, crowd, dynamodb, main, need_emulators, test, wait_until

SHARDS = 8
WORK_US = 500
USERS = 20  # Of an aggregate.


class ReadsWhole:
    """What dialects have in common whose members know no place inside an aggregate."""
    @classmethod
    def done(cls, world, reader=None):
        """The last record that is done with, of each shard: of an aggregate the last one in it, but for readers of ours."""
        last, checkpoints = {}, cls.checkpoints(world)
        inside = {}
        if isinstance(reader, fleet.Ours):
            inside = {row["SidecarPosition"]["S"].split(":")[0]: row["SidecarPosition"]["S"].split(":")[1:]
                      for row in world.rows(cls.table) if "SidecarPosition" in row}
        for data, (shard, sequence) in world.placed.items():  # In this order they were packed.
            before = checkpoints.get(shard)
            at, sub = inside.get(before, (before, None)) if before else (None, None)
            if at == sequence and (sub is None or world.inside[data] <= int(sub)):
                last[shard] = data
        return last

    @classmethod
    def is_inside(cls, world, member):
        """Of members we cannot know."""
        return not isinstance(member, fleet.Ours) or any("SidecarPosition" in row for row in world.rows(cls.table))


class GoKcl(ReadsWhole):
    """The dialect go-kcl as the judge needs it."""
    name = "go-kcl"
    table = ""
    stories = ("takeover", "mixed", "stealing", "reshard", "frozen", "fanout", "aggregates")
    sleeps = fleet.LEASE_MS / 1000  # For longer than a lease lives.
    bears_sleep = True  # A member that wakes without its leases goes on.
    waits_for = 1  # Parents: of a merge a member waits for the one that its row names (C17).
    libraries = ("go-kcl", "go-kcl-v2")
    more = ()  # What is told only if it is asked for: minutes each.
    others = ()  # That its stories need, too.
    room = 4  # Of each in `reshard`.
    led = False  # Somebody of theirs assigns the leases.
    # A lease each that nobody may exceed: without stealing, whoever comes first would keep all.
    half = ({"max_leases": 3}, {"max_leases": 3})
    often = {"max_records": 10}
    stealing = ({"stealing": 1}, {"lease_stealing": "on"})

    @staticmethod
    def at_most(leases):
        """Of a member of theirs, of ours."""
        return {"max_leases": leases}, {"max_leases": leases}

    @staticmethod
    def wrong(row):
        """What members of v1 or v2 would stumble over, or never take."""
        texts = {name: value.get("S") for name, value in row.items()}
        if None in texts.values():
            return "an attribute that is no string"
        if "AssignedTo" in texts and "LeaseTimeout" not in texts:
            return "an owner without a time"
        if texts.get("ClaimRequest") == "":
            return "a claim of nobody"
        if not re.fullmatch(r"([1-9][0-9]*|SHARD_END|)", texts.get("Checkpoint", "")):
            return "a checkpoint that is no position of theirs"
        ours = texts.get("AssignedTo", "").startswith("ours")
        whole = r"" if ours else r"(\.[0-9]{0,8}[1-9])?"
        if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d" + whole + "Z", texts.get("LeaseTimeout", "")):
            return "a time in another spelling"
        return None

    @staticmethod
    def checkpoints(world):
        return {row["ShardID"]["S"]: row.get("Checkpoint", {"S": ""})["S"] for row in world.rows()}

    @staticmethod
    def owned(world):
        return [row["ShardID"]["S"] for row in world.rows() if "AssignedTo" in row and row.get("Checkpoint") != {"S": "SHARD_END"}]


class Kinsumer(ReadsWhole):
    """The dialect kinsumer, likewise. Its clients have equal parts, end when a write is refused, and wait for no parents."""
    name = "kinsumer"
    table = "_checkpoints"
    stories = ("takeover", "mixed", "reshard", "frozen", "aggregates")
    sleeps = 5 * fleet.KINSUMER["check_ms"] / 1000 + 1
    bears_sleep = False
    waits_for = 0
    libraries = ("kinsumer", "kinsumer-snowplow")
    more = ()
    others = ()
    room = 4
    led = False
    half = ({}, {})
    often = {"work_us": 100000}  # They are handed an aggregate whole.
    types = {"Shard": "S", "OwnerID": "S", "OwnerName": "S", "SequenceNumber": "S", "LastUpdate": "N", "LastUpdateRFC": "S",
             "Finished": "N", "FinishedRFC": "S", "SidecarPosition": "S"}

    @staticmethod
    def at_most(leases):
        return {}, {}

    @classmethod
    def wrong(cls, row):
        """What clients could not decode, or would begin at the wrong place."""
        for name, value in row.items():
            if "NULL" not in value and list(value) != [cls.types.get(name)]:
                return f"{name} of another type"
        if not re.fullmatch(r"([1-9][0-9]*|LATEST|)", row.get("SequenceNumber", {}).get("S", "")):
            return "a checkpoint that is no position of theirs"
        if not re.fullmatch(r"[0-9]{19}", row.get("LastUpdate", {}).get("N", "")):
            return "a time that is not in ns"
        return None

    @staticmethod
    def checkpoints(world):
        return {row["Shard"]["S"]: "SHARD_END" if "N" in row.get("Finished", {}) else row.get("SequenceNumber", {}).get("S", "")
                for row in world.rows("_checkpoints")}

    @staticmethod
    def owned(world):
        return [row["Shard"]["S"] for row in world.rows("_checkpoints") if "S" in row.get("OwnerID", {})]


class Kcl:
    """The dialect kcl as the judge needs it."""
    name = "kcl"
    table = ""
    stories = ("takeover", "mixed", "stealing", "reshard", "frozen", "streams", "fanout", "aggregates")
    sleeps = fleet.LEASE_MS / 1000
    bears_sleep = True
    waits_for = 2
    libraries = ("kcl2",)
    more = ()
    others = ()
    room = 4
    led = False
    often = {"maxRecords": 10, "save_every": 7}
    # Everybody steals, always.
    half = stealing = ({}, {})
    TYPES = {"leaseKey": "S", "leaseCounter": "N", "ownerSwitchesSinceCheckpoint": "N", "checkpoint": "S",
             "checkpointSubSequenceNumber": "N"}

    @staticmethod
    def at_most(leases):
        return {"maxLeasesForWorker": leases}, {"max_leases": leases}

    @classmethod
    def wrong(cls, row):
        """What a scan of the library fails of, and with it the whole fleet."""
        types = {name: next(iter(value)) for name, value in row.items()}
        if any(types.get(name) != kind for name, kind in cls.TYPES.items()):
            return "an attribute that is not there, or of another type"
        if "leaseOwner" in row and not row["leaseOwner"].get("S"):
            return "an owner that is none"
        if not re.fullmatch(r"[1-9][0-9]*|SHARD_END|TRIM_HORIZON", row["checkpoint"]["S"]):
            return "a checkpoint that is no position of theirs"
        if any(types.get(name, "SS") != "SS" for name in ("parentShardId", "childShardIds")):
            return "relatives that are no set"
        return None

    @staticmethod
    def checkpoints(world):
        return {row["leaseKey"]["S"]: row["checkpoint"]["S"].replace("TRIM_HORIZON", "") for row in world.rows()}

    @classmethod
    def done(cls, world, _=None):
        """The place of a record that is no aggregate is its 0."""
        by_place = {(*place, world.inside.get(data, 0)): data for data, place in world.placed.items()}
        subs = {row["leaseKey"]["S"]: int(row["checkpointSubSequenceNumber"]["N"]) for row in world.rows()
                if "checkpointSubSequenceNumber" in row}
        return {shard: by_place[shard, checkpoint, subs[shard]] for shard, checkpoint in cls.checkpoints(world).items()
                if checkpoint}

    @classmethod
    def is_inside(cls, world, member):
        return any(world.inside[data] < USERS - 1 for data in cls.done(world).values())

    @staticmethod
    def owned(world):
        """By us: members of theirs give nothing back."""
        return [row["leaseKey"]["S"] for row in world.rows() if row.get("leaseOwner", {"S": ""})["S"].startswith("ours")]


class Kcl3(Kcl):
    """The dialect kcl in fleets of 3.x: a leader assigns, to whoever reports."""
    stories = ("takeover", "mixed", "reshard", "frozen", "fanout", "aggregates")
    more = ("flip", "tables")
    libraries = ("kcl35",)
    others = ("kcl2", "kcl34")
    half = ({}, {})
    room = 100  # What is finished counts, too, to the leader.
    led = True
    # From 2.x: what is deployed one after the other, each when the one before works.
    steps = ("COMPATIBLE_WITH_2X_PHASE1", "COMPATIBLE_WITH_2X", "3X")

    @staticmethod
    def is_lease(row):
        return row.get("entityType", {"S": "LEASE"})["S"] == "LEASE"

    @classmethod
    def wrong(cls, row):
        return super().wrong(row) if cls.is_lease(row) else None

    @classmethod
    def checkpoints(cls, world):
        return {row["leaseKey"]["S"]: row["checkpoint"]["S"].replace("TRIM_HORIZON", "")
                for row in world.rows() if cls.is_lease(row)}

    @staticmethod
    def owned(world):
        """What ours did not give back, by their logs: rows may name one of them that the leader has not seen leave."""
        kept = set()
        for name in os.listdir(world.folder):
            if not name.startswith("ours-") or not name.endswith("-sidecar.log"):
                continue
            with open(os.path.join(world.folder, name), encoding="utf-8") as log:
                text = log.read()
            if "drained: " in text:  # It was not killed.
                ended = set(re.findall(r"(\S+): read to its end", text))
                over = set(re.findall(r"(\S+): \w+, epoch (\d+) is over", text))
                kept |= {one for one in re.findall(r"(\S+): acquired, epoch (\d+)", text) if one[0] not in ended} - over
        return sorted(kept)


class Kcl34(Kcl3):
    """3.0 to 3.4: what is no lease stands elsewhere, or its scan of the table fails."""
    stories = ("takeover", "mixed", "reshard", "frozen")
    more = ("flip",)
    libraries = ("kcl34",)
    others = ("kcl2",)
    steps = ("COMPATIBLE_WITH_2X", "3X")
    wrong = Kcl.wrong


class MultiLang(Kcl34):
    """The daemon is a KCL 3.1. It cannot be told how long its leader's lock lives: for two minutes."""
    stories = ("takeover",)
    more = ("mixed",)
    libraries = ("multilang",)
    others = ()


DIALECTS = {library: dialect for dialect in (GoKcl, Kinsumer, Kcl, Kcl3, Kcl34, MultiLang) for library in dialect.libraries}


class Producer:
    """Puts records at a pace, until it has put `count`, or is to end."""

    def __init__(self, world, count, per_second):
        self.world, self.count, self.per_second, self.problem = world, count, per_second, None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            while len(self.world.placed) < self.count:
                began = time.monotonic()
                self.world.put(min(self.per_second // 4, self.count - len(self.world.placed)))
                time.sleep(max(0.0, 0.25 - (time.monotonic() - began)))
        except (OSError, Failure) as err:
            self.problem = err

    def stop(self):
        self.count = 0
        self.done()

    def done(self):
        self.thread.join(120 * PATIENCE)
        check(self.problem is None and not self.thread.is_alive(), "the producer:", self.problem)


def judge(world, library, *but):
    """`but` is what this story does not promise."""
    verdict = fleet.Verdict(world).read().nothing_lost()
    seconds, shard, since = verdict.unread()
    print(f"       {dict(verdict.told)}, {verdict.duplicates()} duplicates {verdict.twice()}, unread for {seconds:.1f} s at most"
          f" ({shard}, from {time.strftime('%H:%M:%S', time.gmtime(since or 0))} on)", flush=True)
    if "order" not in but:
        verdict.nothing_passed()
    check(seconds < library.unread * PATIENCE + crowd(), f"{shard} was unread for {seconds:.1f} s")
    return verdict


# --- The stories ---

def owned_by_all(world):
    """Before the first record: an empty table is waited at by KCL for up to half a minute, which is no shard left unread."""
    def all_are():
        rows = world.rows()
        return rows and all("leaseOwner" in row for row in rows if Kcl3.is_lease(row))
    wait_until(all_are, 90, "all leases have an owner", every=0.5)


def handed_over(world):
    """No lease of KCL is being handed over: up to 3.5 the leader assigns one to nobody whose worker is killed meanwhile and
    comes back alone, and that worker does not take it either (VarianceBasedLeaseAssignmentDecider.assignLease)."""
    wait_until(lambda: not any("checkpointOwner" in row for row in world.rows()), 90, "no lease is being handed over", every=0.5)


def alone(name, folder):
    """Two members, and nothing of ours; one is stopped, one is killed and started again under its name."""
    library = fleet.LIBRARIES[name]
    world = fleet.World(folder, SHARDS)
    world.put(1500)
    a = world.member(name, "worker-a", work_us=WORK_US).start().awake()
    b = world.member(name, "worker-b", work_us=WORK_US).start()
    world.wait_seen(1500, 90, a, b)
    world.put(1000)
    a.stop()
    world.put(500)
    world.wait_seen(3000, library.unread, b)
    handed_over(world)
    b.kill()
    world.put(1000)
    b.start()
    world.put(1000)
    world.wait_seen(5000, library.unread + 30, b)
    b.stop()
    judge(world, library)


def mixed(name, folder, theirs=None, of_ours=None):
    """Two of theirs and two of ours; while 20,000 records flow, each of them starts, stops and is killed."""
    dialect, library = DIALECTS[name], fleet.LIBRARIES[name]
    theirs, of_ours = (theirs, of_ours) if theirs else dialect.half
    world = fleet.World(folder, SHARDS)
    watch = fleet.Watch(world, dialect.wrong, dialect.table)
    them = [world.member(name, f"theirs-{at}", work_us=WORK_US, **theirs) for at in range(2)]
    us = [world.ours(dialect.name, name, f"ours-{at}", work_us=WORK_US, **of_ours) for at in range(2)]
    living = set()

    def start(member):
        member.start().awake()
        living.add(member)

    def stop(member):
        member.stop()
        living.discard(member)

    def kill(member):
        member.kill()
        living.discard(member)

    start(them[0])
    if dialect.led:
        owned_by_all(world)
    producer = Producer(world, 20000, 400)
    for act, member in ((start, us[0]), (start, them[1]), (start, us[1]), (stop, us[0]), (kill, them[0]), (start, us[0]),
                        (start, them[0]), (kill, us[1]), (stop, them[1]), (start, them[1]), (start, us[1])):
        put = len(world.placed)
        act(member)
        world.wait_seen(put, library.unread, *living)
    producer.done()
    world.wait_seen(20000, library.unread + 60, *living)
    for member in living:
        member.stop()
    watch.stop()
    judge(world, library)
    check_equal(dialect.owned(world), [], "leases that nobody gave back")


def stealing(name, folder):
    mixed(name, folder, *DIALECTS[name].stealing)


def takeover(name, folder):
    """A fleet of theirs stops; ours goes on exactly at its checkpoints; stops; theirs goes on exactly at ours."""
    dialect, library = DIALECTS[name], fleet.LIBRARIES[name]
    world = fleet.World(folder, SHARDS)
    watch = fleet.Watch(world, dialect.wrong, dialect.table)
    them = [world.member(name, f"theirs-{at}", work_us=WORK_US) for at in range(2)]
    us = [world.ours(dialect.name, name, f"ours-{at}", work_us=WORK_US) for at in range(2)]
    hand_over(world, name, them, us, them, us)
    watch.stop()
    judge(world, library)


def hand_over(world, name, *turns):
    """Each turn is a fleet that goes on exactly at the checkpoints of the one before, and stops."""
    dialect, library = DIALECTS[name], fleet.LIBRARIES[name]
    for turn, members in enumerate(turns):
        left = dialect.done(world) if turn else {}
        world.put(1000)
        put = len(world.placed)
        for member in members:
            member.start()
            member.awake()
        world.wait_seen(put, library.unread, *members)
        if turn < len(turns) - 1:  # What is put now is on its way when they stop.
            world.put(500)
        for member in members:
            member.stop()
        begins_at(world, members, left)
        check_equal(dialect.owned(world), [], "leases that nobody gave back")
    # Their own members may lose a lease to each other, and ours to anybody on a machine that stood still meanwhile.
    twice = {pair: count for pair, count in fleet.Verdict(world).read().twice().items() if pair.startswith("ours")}
    check(not twice or crowd() > fleet.LEASE_MS / 1000 / 2, "records came twice, though everybody stopped cleanly:", twice)


def begins_at(world, members, left):
    """What the members saw first in each shard in their last run is what follows the checkpoint that was left."""
    index = fleet.Verdict(world).index
    after = {}
    for member in members:
        for entry in member.entries(member.runs - 1):
            if entry["event"] == "record":
                after.setdefault(index[entry["data"]][0], []).append(index[entry["data"]][1])
    for shard, done in left.items():
        if shard in after:
            check_equal(min(after[shard]), index[done][1] + 1, "the first record of", shard, "after", done)


def reshard(name, folder):
    """One of theirs and one of ours; shards are split and merged while records flow."""
    dialect, library = DIALECTS[name], fleet.LIBRARIES[name]
    theirs, of_ours = dialect.half
    world = fleet.World(folder, 4)
    watch = fleet.Watch(world, dialect.wrong, dialect.table)
    them = world.member(name, "theirs-0", work_us=WORK_US, **{**theirs, **dialect.at_most(dialect.room)[0]}).start().awake()
    us = world.ours(dialect.name, name, "ours-0", work_us=WORK_US, **{**of_ours, **dialect.at_most(dialect.room)[1]})
    if dialect.led:
        owned_by_all(world)
    us.start()
    producer = Producer(world, 8000, 200)
    if dialect.led:
        wait_until(lambda: any(entry["event"] == "began" for entry in us.entries()), library.unread, "ours has a shard", every=0.5)
    world.wait_seen(800, library.unread, them, us)
    shards = world.split("shardId-000000000000") + world.split("shardId-000000000001")
    world.wait_seen(3000, library.unread, them, us)
    world.merge("shardId-000000000002", "shardId-000000000003")
    world.wait_seen(5000, library.unread, them, us)
    world.merge(*shards[:2])
    producer.done()
    world.wait_seen(8000, library.unread + 30, them, us)
    ended = [shard["ShardId"] for shard in world.shards() if shard["SequenceNumberRange"].get("EndingSequenceNumber")]
    wait_until(lambda: {dialect.checkpoints(world).get(shard) for shard in ended} == {"SHARD_END"}, library.unread,
               f"{len(ended)} shards are read to their ends", every=0.5)
    them.stop()
    us.stop()
    watch.stop()
    judge(world, library).parents_first(dialect.waits_for)
    check_equal(dialect.owned(world), [], "leases that nobody gave back")
    checkpoints = dialect.checkpoints(world)
    check_equal({shard: checkpoints.get(shard) for shard in ended}, dict.fromkeys(ended, "SHARD_END"), "ends")


def frozen(name, folder):
    """One of theirs, then ours, then theirs again sleeps for longer than a lease in the middle of a batch, and wakes."""
    dialect, library = DIALECTS[name], fleet.LIBRARIES[name]
    world = fleet.World(folder, 4)
    watch = fleet.Watch(world, dialect.wrong, dialect.table)
    them = world.member(name, "theirs-0", work_us=5000, **dialect.at_most(2)[0]).start().awake()
    us = world.ours(dialect.name, name, "ours-0", work_us=2000, **dialect.at_most(2)[1]).start()
    producer = Producer(world, 5000, 100)
    world.wait_seen(500, library.unread, them, us)
    third = world.ours(dialect.name, name, "ours-1", work_us=2000).start()
    for sleeper in (them, us, them) if dialect.bears_sleep else (us, us):
        sleeper.process.send_signal(signal.SIGSTOP)
        time.sleep(dialect.sleeps)
        put = len(world.placed)
        world.wait_seen(put, library.unread, us, them, third)
        sleeper.process.send_signal(signal.SIGCONT)
        put = len(world.placed)
        world.wait_seen(put, library.unread, us, them, third)
    producer.done()
    world.wait_seen(5000, library.unread + 30, us, them, third)
    for member in (them, us, third):
        member.stop()
    watch.stop()
    judge(world, library)
    check_equal(dialect.owned(world), [], "leases that nobody gave back")


def streams(name, folder):
    """Theirs read two streams out of one table; ours, with a subscription for each, come beside them, take over, give back."""
    dialect, library = DIALECTS[name], fleet.LIBRARIES[name]
    world = fleet.Streams(folder, 4)

    def wrong(row):
        named = [row.get(part, {}).get("S", "") for part in ("streamName", "shardId")]
        return dialect.wrong(row) or ("a row of no stream" if ":".join(named) != row["leaseKey"]["S"] else None)
    watch = fleet.Watch(world, wrong)
    them = [world.member(name, f"theirs-{at}", work_us=WORK_US) for at in range(2)]
    us = [world.ours(dialect.name, name, f"ours-{at}", work_us=WORK_US) for at in range(2)]
    producer = Producer(world, 12000, 100)

    def seen(*living):
        world.wait_seen(len(world.placed), library.unread, *living)
    for member in them:
        member.start().awake()
    seen(*them)
    for member in us:
        member.start()
    seen(*them, *us)
    for served in (lambda owner: owner.startswith("ours"), lambda owner: owner.startswith("theirs")):
        fleet.wait_until(lambda: any(served(row.get("leaseOwner", {"S": ""})["S"]) for row in world.rows()), 60, "both serve")
    for member in them:
        member.stop()
    seen(*us)
    fleet.wait_until(lambda: len(dialect.owned(world)) == 8, 60, "ours serve all of both streams", every=0.2)
    them[0].start().awake()
    seen(them[0], *us)
    for member in us:
        member.stop()
    check_equal(dialect.owned(world), [], "leases that nobody gave back")
    producer.done()
    world.wait_seen(12000, library.unread + 30, them[0])
    them[0].stop()
    watch.stop()
    check_equal(sorted({row["streamName"]["S"].split(":")[1] for row in world.rows()}), world.names)
    judge(world, library)


def fanout(name, folder):
    """Both read by enhanced fan-out, as one consumer: taken over there and back; then both at once, and each sleeps with its
    subscriptions open, and is killed, while others of ours come as another consumer, and by polling."""
    dialect, library = DIALECTS[name], fleet.LIBRARIES[name]
    fleet.read_from("double")
    world = fleet.World(folder, 4, tls=True)
    watch = fleet.Watch(world, dialect.wrong, dialect.table)
    them = world.member(name, "theirs", work_us=WORK_US, consumer=world.name)
    us, other, polls = [world.ours(dialect.name, name, worker, work_us=WORK_US, **options) for worker, options in (
        ("ours-0", {"retrieval": "fanout"}), ("ours-another", {"retrieval": "fanout", "consumer": "another"}), ("ours-polls", {}))]
    before = fleet.told_by_double()
    hand_over(world, name, [them], [us], [them])
    told = fleet.told_by_double(before)
    check_equal((told["requests"]["RegisterStreamConsumer"], told["requests"]["GetRecords"]), (1, 0), "fan-out alone")

    living, producer = set(), Producer(world, 30000, 100)
    # Everything of who sleeps or is gone goes to those who are left; before, these had nothing where nobody steals.
    for act, member in (("start", them), ("start", us), ("sleep", them), ("sleep", us), ("start", other), ("kill", us),
                        ("kill", them), ("start", polls), ("stop", other), ("start", them), ("start", us)):
        if act == "sleep":
            member.process.send_signal(signal.SIGSTOP)
            time.sleep(dialect.sleeps)
        else:
            getattr(member, act)()
            (living.add if act == "start" else living.discard)(member)
        world.wait_all_seen(len(world.placed) + 100, library.unread, *living)
        if act == "sleep":
            member.process.send_signal(signal.SIGCONT)
    producer.stop()
    world.wait_seen(len(world.placed), library.unread, *living)
    for member in living:
        member.stop()
    watch.stop()
    judge(world, library)
    check_equal(dialect.owned(world), [], "leases that nobody gave back")
    told = fleet.told_by_double(before)
    check(told["errors"].get("ResourceInUseException"), "nobody took a shard from the other of his consumer", told)
    for member in (other, polls):
        check(any(entry["event"] == "record" for entry in member.entries()), f"{member.worker} had no part")


def aggregates(name, folder):
    """Records come in aggregates. Whoever reads is killed inside one, or stops; the other side goes on exactly where it is
    written down: in a table of the KCL inside, in one of go-kcl at the aggregate's begin."""
    dialect, library = DIALECTS[name], fleet.LIBRARIES[name]
    fleet.read_from("double")
    world = fleet.World(folder, 2)
    watch = fleet.Watch(world, dialect.wrong, dialect.table)
    world.put_packed(200, USERS)
    them = world.member(name, "theirs", **{"work_us": 5000, **dialect.often})
    us = world.ours(dialect.name, name, "ours-0", work_us=5000)
    left = {}
    for member, end in ((them, "kill"), (us, "kill"), (them, "stop"), (us, "stop")):
        member.start().awake()
        sleep_inside(world, dialect, member, left)
        if end == "stop":
            member.process.send_signal(signal.SIGCONT)
        getattr(member, end)()
        begins_at(world, [member], left)
        left = dialect.done(world, them if member is us else us)
    them.start()
    world.wait_seen(200 * USERS, library.unread + 30, them)
    them.stop()
    begins_at(world, [them], left)
    watch.stop()
    judge(world, library)


def sleep_inside(world, dialect, member, left):
    """Sends it to sleep when it has gone on, and stands inside an aggregate, if its rows can say that."""
    def is_there():
        member.lives()
        member.process.send_signal(signal.SIGSTOP)
        if dialect.done(world, member) != left and dialect.is_inside(world, member):
            return True
        member.process.send_signal(signal.SIGCONT)
        return False
    fleet.wait_until(is_there, member.library.unread, f"{member.worker} is inside an aggregate", every=0.3)


def deploy(world, library, them, others, **settings):
    """Starts them, or starts them again with other settings, one after the other, while the others go on."""
    for at, member in enumerate(them):
        if member.process:
            member.stop()
        member.settings.update(settings)
        member.start().awake()
        world.wait_seen(len(world.placed), library.unread, *them[:at + 1], *others)


def follow(us, manners):
    for member in us:
        wait_until(lambda: member.manners() == manners, 60, f"{member.worker} knows that the fleet is of {manners}", every=0.5)


def flip(name, folder):
    """A fleet of 2.x becomes one of 3.x, goes back by its operator's tool, and becomes one of 3.x again; sidecars follow."""
    dialect, library = DIALECTS[name], fleet.LIBRARIES[name]
    world = fleet.World(folder, SHARDS)
    watch = fleet.Watch(world, Kcl.wrong)  # As long as members of 2.x live.
    old = world.member("kcl2", "theirs-2", work_us=WORK_US)
    them = [world.member(name, f"theirs-{at}", work_us=WORK_US, hurry=60) for at in range(2)]
    us = [world.ours(dialect.name, name, f"ours-{at}", work_us=WORK_US) for at in range(2)]
    tool = fleet.MigrationTool(world, library.tables == fleet.SEPARATE)

    def followed(version, manners, *living):
        """The fleet's row says so, and then each sidecar."""
        wait_until(lambda: tool.version() == "CLIENT_VERSION_" + version, 120, f"the fleet is {version}", every=0.5)
        follow(us, manners)
        world.wait_seen(len(world.placed), library.unread, *living, *us)

    old.start()
    owned_by_all(world)
    producer = Producer(world, 100000, 60)
    for member in us:
        member.start().awake()
    world.wait_seen(500, library.unread, old, *us)
    for step in dialect.steps[:-1]:
        if step == dialect.steps[-2]:
            old.stop()
            watch.stop()
            watch = fleet.Watch(world, dialect.wrong)
        deploy(world, library, them, us, clientVersionConfig="CLIENT_VERSION_CONFIG_" + step)
    followed("3X_WITH_ROLLBACK", "3.x", *them)
    tool.roll_back()
    followed("2X", "2.x", *them)
    them[1].stop()  # Of two that make the table of the reports anew at the same moment one stays behind for good.
    tool.clean_up()
    world.wait_seen(len(world.placed), library.unread, them[0], *us)
    tool.roll_forward()
    followed("3X_WITH_ROLLBACK", "3.x", them[0])
    them[1].start().awake()
    deploy(world, library, them, us, clientVersionConfig="CLIENT_VERSION_CONFIG_" + dialect.steps[-1])
    followed("3X", "3.x", *them)
    producer.stop()
    world.wait_seen(len(world.placed), library.unread, *them, *us)
    for member in (*them, *us):
        member.stop()
    watch.stop()
    judge(world, library)
    check_equal(dialect.owned(world), [], "leases that nobody gave back")


def tables(name, folder):
    """3.4 becomes 3.5, which moves all its rows into the table of the leases; then the other tables are deleted."""
    dialect, library = DIALECTS[name], fleet.LIBRARIES[name]
    world = fleet.World(folder, SHARDS)
    watch = fleet.Watch(world, Kcl34.wrong)
    them = [world.member("kcl34", f"theirs-{at}", work_us=WORK_US, hurry=360) for at in range(2)]  # An hour is ten seconds.
    us = [world.ours(dialect.name, name, f"ours-{at}", work_us=WORK_US) for at in range(2)]
    rows = fleet.MigrationTool(world, True)

    def moved(status):
        wait_until(lambda: rows.moved() == "TABLE_MIGRATION_STATUS_" + status, 120, f"the rows are {status}", every=0.5)
        world.wait_seen(len(world.placed), library.unread, *them, *us)

    deploy(world, library, them, ())
    owned_by_all(world)
    producer = Producer(world, 100000, 60)
    for member in us:
        member.start().awake()
    world.wait_seen(500, library.unread, *them, *us)
    watch.stop()
    watch = fleet.Watch(world, dialect.wrong)
    for member in them:
        member.library = library
    deploy(world, library, them, us)
    moved("DEPLOYED")
    deploy(world, library, them, us, migrateAllEntitiesToLeaseTable="true", tableMigrationCompleteBakeTimeSeconds=3600)
    moved("COMPLETE")
    for table in fleet.SEPARATE[1:]:
        dynamodb("DeleteTable", TableName=world.name + table)
    world.wait_seen(len(world.placed), library.unread, *them, *us)
    us[0].stop()
    us[0].start()
    producer.stop()
    world.wait_seen(len(world.placed), library.unread, *them, *us)
    follow(us, "3.x")
    for member in (*them, *us):
        member.stop()
    watch.stop()
    judge(world, library)
    check_equal(dialect.owned(world), [], "leases that nobody gave back")


STORIES = {"alone": (alone, 400), "takeover": (takeover, 300), "mixed": (mixed, 500), "stealing": (stealing, 500), "reshard": (reshard, 300),
           "frozen": (frozen, 300), "flip": (flip, 500), "tables": (tables, 500),
           "fanout": (fanout, 400), "aggregates": (aggregates, 300), "streams": (streams, 600)}


def tell(name, story):
    function, seconds = STORIES[story]

    def told(folder):
        fleet.read_from(fleet.LIBRARIES[name].on)
        function(name, folder)
    told.__name__ = f"{story}_of_{name.replace('-', '_')}"
    test(seconds=seconds)(told)


if __name__ == "__main__":
    if sys.argv[1:] == ["kcl-rb"]:
        os.execv(sys.executable, [sys.executable, os.path.join(fleet.HERE, "kcl_rb.py")])
    names = sys.argv[1:] or list(fleet.LIBRARIES)
    for wanted in names:
        check(wanted in fleet.LIBRARIES, f"{wanted} is none of {', '.join(fleet.LIBRARIES)}")
    need_emulators("dynoxide", "kinesis-local", "double")
    others = {other for one in names if one in DIALECTS for other in DIALECTS[one].others}
    fleet.build(*names, *others, *os.environ.get("BASELINE", "").split())
    for wanted in names:
        there = ["alone", *DIALECTS[wanted].stories] if wanted in DIALECTS else ["alone"]
        known = [*there, *DIALECTS[wanted].more] if wanted in DIALECTS else there
        for one in os.environ.get("STORIES", " ".join(there)).split():
            check(one in known, f"{one} is none of the stories of {wanted}: {', '.join(known)}")
            tell(wanted, one)
    del sys.argv[1:]
    main()
