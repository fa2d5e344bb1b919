#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fleet whose members are configured otherwise than the sidecar: what its rows show of that is told, once, and nothing is told
of one that is as we are (docs/DIALECTS.md). The members are played by hand."""

import os
import threading
import time

from kcl_rb_model import utc
from kinsumer_hand import checkpoint, make_tables as make_kinsumer, put_row as put_kinsumer
from lib import Sidecar, check_equal, dynamodb, main, make_stream, need_emulators, test, wait_until

SHARDS = 3
LEASE_MS = 2000
FIRST = "shardId-000000000000"


def make(folder, dialect, key=None):
    """A stream, and an empty lease table."""
    name = f"mixed-{dialect}-" + os.path.basename(folder).replace("_", "-")
    make_stream(name, SHARDS)
    if key:
        dynamodb("CreateTable", TableName=name, KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
                 AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}], BillingMode="PAY_PER_REQUEST")
    return name


def put(name, **row):
    dynamodb("PutItem", TableName=name, Item={key: {"N" if isinstance(value, int) else "S": str(value)}
                                              for key, value in row.items()})


def sidecar(folder, dialect, name, worker, **options):
    return Sidecar.on_emulators(folder, worker, stream=name, application=name, dialect=dialect,
                                **{"lease_duration_ms": LEASE_MS, **options}).start()


class Member:
    """Somebody who does something again and again, until the test is over."""

    def __init__(self, does, every):
        self.does, self.every, self.times, self.over = does, every, 0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.wait(self.every):
            self.does()
            self.times += 1

    def stop(self):
        self.over.set()
        self.thread.join()


def told(one):
    return [line for line in one.said().split("\n") if "mixed configuration" in line]


def wait_told(one, word, seconds=60):
    wait_until(lambda: word in one.said(), seconds, word)


def stop(member, *sidecars, tellings=1):
    member.stop()
    for each in sidecars:
        check_equal(len(told(each)), tellings, told(each))
        each.stop()


def kcl_row(name, counter, shard=FIRST, checkpoint="4959", **more):
    put(name, leaseKey=shard, leaseOwner="worker-a", leaseCounter=counter, checkpoint=checkpoint,
        checkpointSubSequenceNumber=0, ownerSwitchesSinceCheckpoint=0, **more)


class Counter:
    def __init__(self):
        self.value = 0

    def next(self):
        self.value += 1
        return self.value


@test(seconds=120)
def members_of_the_kcl_with_a_shorter_time_are_told_of_and_equal_ones_are_not(folder):
    """Renewals each 150 ms, where ours come each 667 ms; beside us one whose lease is like theirs. Nobody wants leases here."""
    name, counter = make(folder, "kcl", "leaseKey"), Counter()
    kcl_row(name, 0)
    one, same = [sidecar(folder, "kcl", name, worker, initial_position="trim_horizon", lease_duration_ms=lease)
                 for worker, lease in (("one", LEASE_MS), ("same", 1000))]
    member = Member(lambda: kcl_row(name, counter.next()), 0.15)
    wait_told(one, "much shorter than --lease-duration-ms")
    # Of 1 s, with a third for each: twice as often as it would itself is no sign.
    stop(member, same, tellings=0)
    stop(member, one)


@test(seconds=120)
def members_of_the_kcl_whose_checkpoints_move_are_not_taken_for_quick_ones(folder):
    name, counter = make(folder, "kcl", "leaseKey"), Counter()
    kcl_row(name, 0)
    one = sidecar(folder, "kcl", name, "one", initial_position="trim_horizon")
    member = Member(lambda: kcl_row(name, counter.next(), checkpoint=str(4959 + counter.value)), 0.15)
    wait_until(lambda: member.times > 20 * 1000 / 150, 60, "twenty seconds of it")
    stop(member, one, tellings=0)


@test(seconds=120)
def members_of_the_kcl_with_a_longer_time_are_told_of(folder):
    name, counter = make(folder, "kcl", "leaseKey"), Counter()
    kcl_row(name, 0)
    one = sidecar(folder, "kcl", name, "one", initial_position="trim_horizon")
    member = Member(lambda: kcl_row(name, counter.next()), 2 * LEASE_MS / 1000)
    wait_told(one, "much longer than --lease-duration-ms")
    stop(member, one)


@test(seconds=60)
def members_of_the_kcl_that_begin_elsewhere_are_told_of(folder):
    name = make(folder, "kcl", "leaseKey")
    for shard in range(SHARDS):
        kcl_row(name, 1, f"shardId-{shard:012d}", checkpoint="LATEST")
    one = sidecar(folder, "kcl", name, "one", initial_position="trim_horizon")
    two = sidecar(folder, "kcl", name, "two", initial_position="latest")
    counter = Counter()
    member = Member(lambda: kcl_row(name, counter.next(), checkpoint="LATEST"), 0.6)
    wait_told(one, "names another start than --initial-position")
    wait_until(lambda: member.times >= 10, 30, "some looks more")
    stop(member, one)
    stop(member, two, tellings=0)


@test(seconds=120)
def members_of_go_kcl_that_heed_no_claims_are_told_of(folder):
    """Their renewals are PutItems without the claim; and those of others are heeded, where they are released."""
    name = make(folder, "go-kcl", "ShardID")

    def renew():
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + LEASE_MS / 1000))
        for shard in range(SHARDS):
            put(name, ShardID=f"shardId-{shard:012d}", AssignedTo="worker-a", LeaseTimeout=until, Checkpoint="4959")
    renew()
    member = Member(renew, 1.0)
    one = sidecar(folder, "go-kcl", name, "one", lease_stealing="on")

    def app():
        one.get("/v1/records?max_records=1&wait_ms=1")
        return "this sidecar claims leases" in one.said()
    wait_until(app, 90, "it is told", every=0.2)
    stop(member, one)


@test(seconds=120)
def clients_of_kinsumer_with_another_period_are_told_of_and_equal_ones_are_not(folder):
    """A client that beats each second, in two fleets."""
    fleets = [make(folder, worker) for worker in ("quick", "same")]

    def beat():
        for name in fleets:
            put_kinsumer(name, "_clients", {"ID": "client-a", "Name": "client-a"})
    for name in fleets:
        make_kinsumer(name)
    beat()
    member = Member(beat, 1.0)
    quick, same = [sidecar(folder, "kinsumer", name, worker, shard_check_ms=check, client_max_age_ms=60000)
                   for name, worker, check in zip(fleets, ("quick", "same"), (300, 1000))]

    def is_told():
        for one in (quick, same):  # Who wants nothing is no client, and looks at none.
            one.get("/v1/records?max_records=1&wait_ms=1")
        return "clients beat much seldomer" in quick.said() and member.times >= 15
    wait_until(is_told, 60, "it is told", every=0.3)
    stop(member, same, tellings=0)
    stop(member, quick)


@test(seconds=120)
def what_clients_of_kinsumer_write_ahead_of_our_clock_is_told_of(folder):
    """One beats; of the other there is a row alone: it died with a clock that was an hour ahead."""
    fleets = [make(folder, word) for word in ("beats", "dead")]
    for name in fleets:
        make_kinsumer(name)
    put_kinsumer(fleets[1], "_checkpoints", checkpoint(FIRST, None, "client-a"), time.time_ns() + 3600 * 10 ** 9)
    member = Member(lambda: put_kinsumer(fleets[0], "_clients", {"ID": "client-a", "Name": "client-a"}, time.time_ns() + 3600 * 10 ** 9),
                    0.3)
    ones = [sidecar(folder, "kinsumer", name, name, shard_check_ms=300, client_max_age_ms=10000) for name in fleets]

    def is_told():
        for one in ones:
            one.get("/v1/records?max_records=1&wait_ms=1")
        return all("is ahead of our clock" in one.said() for one in ones)
    wait_until(is_told, 60, "both are told", every=0.3)
    check_equal([told(one)[0].split()[2] for one in ones], ["client-a:", FIRST + ":"])
    stop(member, *ones)


@test(seconds=60)
def a_lease_of_go_kcl_that_is_good_for_long_is_told_of(folder):
    name = make(folder, "go-kcl", "ShardID")
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    put(name, ShardID=FIRST, AssignedTo="worker-a", LeaseTimeout=until, Checkpoint="4959")
    one = sidecar(folder, "go-kcl", name, "one")
    wait_told(one, "much later than --lease-duration-ms from now")
    stop(Member(lambda: None, 1), one)


@test(seconds=120)
def sidecars_at_a_table_of_kcl_rb_with_another_time_are_told_of_and_its_processes_are_not(folder):
    name = make(folder, "kcl-rb", "shard_id")

    def renew(**more):
        put(name, shard_id=FIRST, assigned_to="two", lease_timeout=utc(60 + time.monotonic() % 10), checkpoint="4959", **more)
    renew()
    one = sidecar(folder, "kcl-rb", name, "one")
    member = Member(renew, 0.5)
    wait_told(one, "kcl-rb is at work")
    wait_until(lambda: member.times >= 20, 60, "some renewals")
    stop(member, tellings=0)
    check_equal(told(one), [])
    member = Member(lambda: renew(sidecar_worker="two"), 0.5)
    wait_told(one, "much longer than --lease-duration-ms")
    stop(member, one)


need_emulators("dynoxide", "kinesis-local")
main()
