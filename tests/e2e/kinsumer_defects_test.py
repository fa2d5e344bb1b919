#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clients of kinsumer are known to do to the rows of a fleet, done by hand beside a sidecar. c18 and so on are their
numbers, docs/DIALECTS.md. Nothing may be lost, no write of an owner who lives may be refused, and we do not do as they do.
"""

import contextlib
import os
import sys
import threading
import time

from kinsumer_hand import capture, checkpoint, checkpoints, commit, make_tables, put_row, release, scan
from lib import Sidecar, check, check_equal, data_of, dynamodb, main, need_emulators, pull_all, test, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "interop"))
import fleet  # noqa: E402 - it is found there

PERIOD = 1.0
LIFE = 5 * PERIOD
OLD_NS = int(3 * LIFE * 10 ** 9)


class Table:
    """A stream, the tables as a fleet left them, and a sidecar."""

    def __init__(self, folder, shards=2):
        self.world = fleet.World(folder, shards)
        self.name = self.world.name
        self.ours = self.world.ours("kinsumer", "kinsumer", "ours-0", shard_check_ms=int(PERIOD * 1000))
        make_tables(self.name)
        self.shards = self.list_shards()

    def list_shards(self):
        """As the leader does."""
        shards = sorted(shard["ShardId"] for shard in self.world.shards())
        put_row(self.name, "_metadata", {"Key": "ShardCache", "ShardIDs": shards})
        return shards

    def put_checkpoint(self, shard, sequence=None, owner=None, ago_ns=OLD_NS):
        put_row(self.name, "_checkpoints", checkpoint(shard, sequence, owner), time.time_ns() - ago_ns)

    def rows(self, *shards):
        rows = checkpoints(self.name)
        return [rows[shard] for shard in shards]

    def owner(self, shard):
        return checkpoints(self.name).get(shard, {}).get("OwnerID")

    def wait_owner(self, shard, owner, seconds=30):
        wait_until(lambda: self.owner(shard) == owner, seconds, f"{shard} is owned by {owner}")

    def records(self, shard):
        """Its records in order: (data, sequence number)."""
        return sorted(((data, sequence) for data, (at, sequence) in self.world.placed.items() if at == shard),
                      key=lambda record: int(record[1]))

    def beats(self, client):
        return keeps(lambda: put_row(self.name, "_clients", {"ID": client, "Name": client}))

    def over(self):
        self.ours.stop()
        return fleet.Verdict(self.world).read().nothing_lost().nothing_passed()


@contextlib.contextmanager
def keeps(act):
    """A client does it all the time, and is never refused."""
    over, wrong = threading.Event(), []

    def run():
        while not over.wait(PERIOD / 4):
            try:
                act()
            except Exception as err:
                wrong.append(err)
                return
    act()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    check(not wrong, "a client that lives was refused:", wrong)


@test(seconds=120)
def an_idle_owner_has_time_to_let_go_c18(folder):
    """Without records a client does not write the row of a shard: it looks abandoned while its owner lives, who ends when
    somebody has captured it before he saw that it falls to another."""
    table = Table(folder, shards=3)
    for shard in table.shards:
        table.put_checkpoint(shard, owner="a-client")
    with table.beats("a-client"):
        table.ours.start()
        table.wait_owner(table.shards[1], "ours-0")
        # Ours is as idle, and never looks so.
        until = time.time() + LIFE + PERIOD
        while time.time() < until:
            age = time.time() - int(table.rows(table.shards[1])[0]["LastUpdate"]) / 1e9
            check(age < LIFE, f"our idle row is {age:.1f} s old")
            time.sleep(PERIOD / 10)
        came_ns = time.time_ns()
        with table.beats("0-client"):
            table.wait_owner(table.shards[2], "ours-0")
            captured_ns = int(table.rows(table.shards[2])[0]["LastUpdate"])
            check(captured_ns - came_ns >= 2 * PERIOD * 10 ** 9, f"captured after {(captured_ns - came_ns) / 1e9:.3f} s")
            check_equal(table.owner(table.shards[0]), "a-client", "what falls to 0-client")
            check_equal(table.owner(table.shards[1]), None, "what falls to a-client")
    table.world.put(60)
    table.world.wait_seen(60, 60, table.ours)
    table.over()


@test(seconds=120)
def what_a_living_client_does_not_read_stays_its_own_c20_c24(folder):
    """After an error a client reads a shard no more, and goes on to beat: its row is free, or stands still."""
    table = Table(folder, shards=4)
    unread = table.shards[0::2]
    table.put_checkpoint(unread[0])
    table.put_checkpoint(unread[1], owner="a-client")
    before = table.rows(*unread)
    table.world.put(80)
    with table.beats("a-client"):
        table.ours.start()
        table.world.wait_seen(sum(len(table.records(shard)) for shard in table.shards[1::2]), 60, table.ours)
        time.sleep(LIFE + PERIOD)
        check_equal(table.rows(*unread), before, "what is not ours")
        # Of the one that is free it can be seen; the other one could be idle.
        ours = table.ours.sidecar
        wait_until(lambda: f"{unread[0]}: free for" in ours.said(), 30, "it is told")
        check("falls to a-client, who lives" in ours.said(), "whose it is")
        wait_until(lambda: ours.metric("unread_shards") == 1, 10, "it is counted")
        check(f"{unread[1]}: free for" not in ours.said(), "an idle client was blamed")
    # Silent now, it is a ghost for so long, and then its part is ours.
    table.world.wait_seen(80, 60, table.ours)
    table.over()


@test(seconds=90)
def what_was_handed_out_is_no_checkpoint_c21(folder):
    """Clients checkpoint a record when they hand it out, and lose it when they end then."""
    table = Table(folder, shards=1)
    table.world.put(10)
    options = dict(stream=table.name, application=table.name, dialect="kinsumer", shard_check_ms=int(PERIOD * 1000))
    one = Sidecar.on_emulators(folder, "one", **options).start()
    check_equal(len(pull_all(one, 10, ack=False)), 10)
    only, = table.shards
    later = int(table.rows(only)[0]["LastUpdate"]) + 2 * PERIOD * 10 ** 9
    wait_until(lambda: int(table.rows(only)[0]["LastUpdate"]) > later, 30, "the row is written again")
    check("SequenceNumber" not in table.rows(only)[0], "a checkpoint of what nobody settled")
    one.kill()
    again = Sidecar.on_emulators(folder, "one", **options).start()
    check_equal([data_of(record).decode() for record in pull_all(again, 10)], [data for data, _ in table.records(only)])


@test(seconds=150)
def what_stays_ours_goes_on_while_others_restart_c22(folder):
    """When anybody comes or goes, or a shard ends, clients stop all and begin again."""
    table = Table(folder)
    stays, moves = table.shards
    table.ours.start()
    table.world.put(20)
    table.world.wait_seen(20, 60, table.ours)
    for shard in table.shards:
        table.wait_owner(shard, "ours-0")
    watch = fleet.Watch(table.world, lambda row: "not ours any more" if row["Shard"]["S"] == stays and
                        row.get("OwnerID") != {"S": "ours-0"} else None, "_checkpoints")
    for _ in range(2):
        with table.beats("z-client"):
            table.wait_owner(moves, None)
            sequence = table.rows(moves)[0].get("SequenceNumber")
            capture(table.name, "z-client", moves, sequence)
            table.world.put(20)
            release(table.name, "z-client", moves, sequence)
            capture(table.name, "z-client", moves, sequence)
        release(table.name, "z-client", moves, sequence)
        dynamodb("DeleteItem", TableName=table.name + "_clients", Key={"ID": {"S": "z-client"}})
        table.world.wait_seen(len(table.world.placed), 60, table.ours)
    table.world.split(moves)
    table.world.put(40)
    table.world.wait_seen(len(table.world.placed), 60, table.ours)
    watch.stop()
    check_equal(sum(entry["event"] == "began" and entry["shard"] == stays for entry in table.ours.entries()), 1, "beginnings")
    check_equal(table.over().duplicates(), 0, "records that came twice")


@test(seconds=120)
def an_owner_that_counts_no_more_but_commits_is_waited_for_c23_c24(folder):
    """One whose main loop hangs beats no more; one whose clock is far behind seems to. What they read is theirs."""
    table = Table(folder)
    table.world.put(40)
    hung, behind = table.shards
    half = {shard: table.records(shard)[len(table.records(shard)) // 2][1] for shard in table.shards}
    table.put_checkpoint(hung, half[hung], "hung", 0)
    table.put_checkpoint(behind, half[behind], "behind")

    def live():
        commit(table.name, "hung", hung, half[hung])
        put_row(table.name, "_clients", {"ID": "behind", "Name": "behind"}, time.time_ns() - OLD_NS)
        commit(table.name, "behind", behind, half[behind], time.time_ns() - OLD_NS)
    with keeps(live):
        table.ours.start()
        wait_until(lambda: "ours-0" in scan(table.name, "_clients"), 30, "ours is a client")
        time.sleep(2 * LIFE)
        check_equal(table.world.seen(), {}, "what owners that live have")
    ended = int(table.rows(hung)[0]["LastUpdate"])
    table.wait_owner(hung, "ours-0")
    check(int(table.rows(hung)[0]["LastUpdate"]) >= ended + LIFE * 10 ** 9, "captured before its time")
    rest = {data for shard in table.shards for data, sequence in table.records(shard) if int(sequence) > int(half[shard])}
    table.world.wait_seen(len(rest), 60, table.ours)
    table.ours.stop()
    check_equal(table.world.seen(), dict.fromkeys(rest, 1), "what was left")


@test(seconds=120)
def a_child_that_was_begun_before_its_parent_waits_c24(folder):
    """Clients read both at the same time; from here on the child waits, and goes on where they left it."""
    table = Table(folder, shards=1)
    parent, = table.shards
    table.world.put(40)
    children = table.world.split(parent)
    table.world.put(40)
    table.list_shards()
    begun = table.records(children[0])
    half = len(begun) // 2
    table.put_checkpoint(children[0], begun[half][1])
    table.ours.start()
    expected = set(table.world.placed) - {data for data, _ in begun[:half + 1]}
    table.world.wait_seen(len(expected), 60, table.ours)
    table.ours.stop()
    check_equal(table.world.seen(), dict.fromkeys(expected, 1), "what was left")
    shards = [entry["shard"] for entry in table.ours.entries() if entry["event"] == "record"]
    check_equal(shards[:40], [parent] * 40, "the parent's come first")
    ended = int(table.rows(parent)[0]["Finished"])
    check(all(int(row["LastUpdate"]) > ended for row in table.rows(*children)), "a child before its parent")


need_emulators("dynoxide", "double")
fleet.read_from("double")
main()
