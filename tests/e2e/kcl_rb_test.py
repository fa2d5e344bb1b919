#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dialect kcl-rb: its table is taken over at its checkpoints and given back so that it can go on; beside a process of it
nothing is taken, or rows are masked. kcl-rb is a model here, kcl_rb_model.py. c25 and so on are the numbers of its defects
(docs/DIALECTS.md)."""

import os
import threading
import time

from kcl_rb_model import Ruby, make_table, utc
from lib import (Sidecar, check, check_equal, data_of, dynamodb, kinesis, main, make_stream, need_emulators,
                 numbered, pull_all, put_kinesis, records_of, shard_ids, test, wait_until)

SHARDS = 4
LEASE_MS = 2000


def name_of(folder):
    return "kcl-rb-" + os.path.basename(folder).replace("_", "-")


def scan(table):
    """shard id -> the item, plain; NULL is None."""
    rows = {}
    for item in dynamodb("Scan", TableName=table, ConsistentRead=True)["Items"]:
        row = {name: value.get("S") for name, value in item.items()}
        check("parent_shard_id" not in row, "a parent in", row)
        rows[row["shard_id"]] = row
    return rows


def owners(table):
    return sorted(row.get("assigned_to") or "" for row in scan(table).values())


def put_row(table, shard, **attributes):
    dynamodb("PutItem", TableName=table,
             Item={"shard_id": {"S": shard}, **{name: {"NULL": True} if value is None else {"S": value}
                                                for name, value in attributes.items()}})


def sidecar(folder, name, worker="one", **options):
    return Sidecar.on_emulators(folder, worker, stream=name, application=name, dialect="kcl-rb",
                                lease_duration_ms=LEASE_MS, **options)


class App:
    """Takes the records of a sidecar, and acknowledges them, until the sidecar is gone."""

    def __init__(self, one):
        self.one, self.seen = one, []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            while True:
                batch = self.one.get("/v1/records?max_records=100&wait_ms=200")
                if batch["records"]:
                    self.one.call("POST", f"/v1/records/ack?batch_id={batch['batch_id']}")
                    self.seen += [(record["shard_id"], data_of(record).decode()) for record in batch["records"]]
        except Exception:  # Whatever its end looks like from here.
            pass


def names(*seen):
    return sorted(data for _, data in sum(seen, []))


def texts(records):
    return sorted(data.decode() for _, data in records)


@test(seconds=90)
def a_table_is_taken_over_and_given_back(folder):
    name = name_of(folder)
    make_stream(name, SHARDS)
    make_table(name)
    ruby = Ruby(name)
    first, second, third = [numbered(40, start=at) for at in (0, 40, 80)]
    put_kinesis(name, first)
    ruby.tick()
    check_equal(names(ruby.seen), texts(first))

    one, two = [sidecar(folder, name, worker) for worker in ("one", "two")]
    apps = [App(each.start()) for each in (one, two)]
    put_kinesis(name, second)
    wait_until(lambda: len(apps[0].seen + apps[1].seen) >= 40, 30, "the sidecars have it")
    check_equal(names(*(app.seen for app in apps)), texts(second))
    rows = wait_until(lambda: set(owners(name)) <= {"one", "two"} and scan(name), 20, "all rows are ours")
    for row in rows.values():
        time.strptime(row["lease_timeout"], "%Y-%m-%d %H:%M:%S UTC")
    for each in (one, two):
        each.stop()

    for shard, row in scan(name).items():
        check("assigned_to" not in row, "stopped, and yet it owns", row)
        check_equal(row["checkpoint"], records_of(name, shard)[-1]["SequenceNumber"])
    put_kinesis(name, third)
    ruby = Ruby(name, "ruby-2")
    ruby.tick()
    check_equal(names(ruby.seen), texts(third))


@test(seconds=90)
def what_dead_processes_leave_behind_is_taken_c28(folder):
    """A row without a checkpoint, one of a process that was killed, what a late checkpoint makes of one, and none."""
    name = name_of(folder)
    make_stream(name, SHARDS)
    make_table(name)
    put_kinesis(name, numbered(80))
    shards = shard_ids(name)
    halves = [records_of(name, shard)[len(records_of(name, shard)) // 2]["SequenceNumber"] for shard in shards]
    put_row(name, shards[0], assigned_to="ruby", lease_timeout=utc(2), checkpoint=None)
    put_row(name, shards[1], assigned_to="ruby", lease_timeout=utc(-60), checkpoint=halves[1])
    Ruby(name).checkpoint(shards[2], halves[2], late=True)
    expected = [record["Data"] for at, shard in enumerate(shards) for record in records_of(name, shard)
                if at in (0, 3) or int(record["SequenceNumber"]) > int(halves[at])]
    one = sidecar(folder, name).start()
    got = pull_all(one, len(expected), seconds=40)
    check_equal(sorted(record["data"] for record in got), sorted(expected))
    one.stop()
    ruby = Ruby(name)
    ruby.tick()
    check_equal(ruby.seen, [], "records that came twice")


@test(seconds=120)
def beside_a_process_nothing_is_taken_until_it_is_stopped(folder):
    name = name_of(folder)
    make_stream(name, SHARDS)
    make_table(name)
    ruby = Ruby(name).start()
    wait_until(lambda: len(scan(name)) == SHARDS, 20, "kcl-rb has leased them")
    one = sidecar(folder, name).start()
    app = App(one)
    for at in range(0, 80, 10):
        put_kinesis(name, numbered(10, start=at))
        time.sleep(1)
        check("one" not in owners(name), "taken beside kcl-rb", scan(name))
    wait_until(lambda: len(ruby.seen) >= 80, 30, "kcl-rb has read them")
    check_equal((ruby.ends, app.seen), ([], []))
    check_equal(one.said().count("kcl-rb is at work"), 1)
    ruby.stop()
    put_kinesis(name, numbered(20, start=80))
    wait_until(lambda: len(app.seen) >= 20, 40, "the sidecar has them")
    check_equal(names(app.seen), texts(numbered(20, start=80)))
    check_equal(one.said().count("no kcl-rb is at work any more"), 1)
    one.stop()


@test(seconds=120)
def when_a_process_starts_beside_us_we_let_go_c25_c28(folder):
    """It takes our live leases, at most within a second, reads and frees them; a lease of ours that is over ends it."""
    name = name_of(folder)
    make_stream(name, SHARDS)
    make_table(name)
    one = sidecar(folder, name).start()
    app = App(one)
    put_kinesis(name, numbered(40))
    wait_until(lambda: owners(name) == ["one"] * SHARDS and len(app.seen) >= 40, 20, "the sidecar has them")
    ruby = Ruby(name, supervised=True).start()
    wait_until(lambda: "kcl-rb is at work" in one.said(), 20, "the sidecar sees it")
    wait_until(lambda: "one" not in owners(name), 10, "the sidecar lets go")
    put_kinesis(name, numbered(40, start=40))
    wait_until(lambda: len(set(ruby.seen)) >= 40, 30, "kcl-rb reads")
    ends = len(ruby.ends)
    check(all("ConditionalCheck" in end for end in ruby.ends), "it ended by more than a lost race:", ruby.ends)
    time.sleep(5)
    check_equal((len(ruby.ends), "one" in owners(name)), (ends, False), ruby.ends)
    ruby.stop()
    one.stop()
    check(set(texts(numbered(80))) <= set(names(ruby.seen, app.seen)), "records are missing")


@test(seconds=120)
def a_sidecar_that_dies_ends_kcl_rb_until_one_comes_back_c25(folder):
    name = name_of(folder)
    make_stream(name, 1)
    make_table(name)
    one = sidecar(folder, name).start()
    put_kinesis(name, numbered(10))
    pull_all(one, 10)
    one.kill()
    time.sleep(LEASE_MS / 1000 + 2)
    ruby = Ruby(name, supervised=True).start()
    wait_until(lambda: len(ruby.ends) >= 2, 20, "kcl-rb ends at what is over")
    check(all("the lease of one is over" in end for end in ruby.ends), ruby.ends)
    ruby.stop()
    two = sidecar(folder, name, "two").start()
    put_kinesis(name, numbered(10, start=10))
    check_equal(texts_of(pull_all(two, 10)), texts(numbered(10, start=10)))
    two.stop()
    ruby = Ruby(name)
    ruby.tick()
    check_equal((ruby.seen, ruby.ends), ([], []))


def texts_of(records):
    return sorted(data_of(record).decode() for record in records)


@test(seconds=150)
def masked_rows_are_ours_while_a_process_serves_the_others(folder):
    name = name_of(folder)
    make_stream(name, SHARDS)
    make_table(name)
    ruby = Ruby(name, supervised=True).start()
    put_kinesis(name, numbered(40))
    wait_until(lambda: len(set(ruby.seen)) >= 40, 20, "kcl-rb has read them")
    one = sidecar(folder, name, lease_masking="on", max_leases=2).start()
    app = App(one)

    def masked():
        return {shard for shard, row in scan(name).items() if "sidecar_checkpoint" in row}
    ours = wait_until(lambda: len(masked()) == 2 and masked(), 40, "two are masked")
    # A checkpoint of kcl-rb that was under way may come after the mask, which is put on again then.
    wait_until(lambda: all(scan(name)[shard]["checkpoint"] == "SHARD_END" for shard in ours), 20, "the masks are on")
    for at in range(40, 120, 10):
        put_kinesis(name, numbered(10, start=at))
        time.sleep(0.5)
    wait_until(lambda: len(set(ruby.seen + app.seen)) >= 120, 40, "all are read")
    check_equal({shard for shard, _ in app.seen}, ours)
    check_equal([seen for seen in ruby.seen if seen in set(app.seen)], [], "read by both")
    check(all("ConditionalCheck" in end for end in ruby.ends), "it ended by more than a lost race:", ruby.ends)
    check_equal(masked(), ours)

    one.stop()
    before = len(ruby.seen)
    for shard, row in scan(name).items():
        check("sidecar_checkpoint" not in row, row)
        if shard in ours:
            check_equal(row["checkpoint"], records_of(name, shard)[-1]["SequenceNumber"])
    put_kinesis(name, numbered(40, start=120))
    wait_until(lambda: len(ruby.seen) - before >= 40, 20, "kcl-rb reads all again")
    check_equal(names(ruby.seen[before:]), texts(numbered(40, start=120)))
    ruby.stop()


@test(seconds=150)
def who_dies_leaves_a_mask_and_the_next_one_takes_it_off(folder):
    name = name_of(folder)
    make_stream(name, 1)
    make_table(name)
    one = sidecar(folder, name, lease_masking="on").start()
    put_kinesis(name, numbered(20))
    pull_all(one, 20)
    one.kill()
    put_kinesis(name, numbered(20, start=20))
    ruby = Ruby(name).start()
    time.sleep(LEASE_MS / 1000 + 3)
    check_equal((ruby.seen, ruby.ends), ([], []), "what is masked")
    two = sidecar(folder, name, "two", lease_masking="on").start()
    app = App(two)
    wait_until(lambda: len(app.seen) >= 20, 40, "two has it")
    check_equal(names(app.seen), texts(numbered(20, start=20)))
    wait_until(lambda: scan(name)[shard_ids(name)[0]]["sidecar_checkpoint"] ==
               records_of(name, shard_ids(name)[0])[-1]["SequenceNumber"], 20, "the checkpoint beside the mask")
    two.kill()
    ruby.stop()
    # Without masks it takes the mask off, at once.
    three = sidecar(folder, name, "three").start()
    put_kinesis(name, numbered(20, start=40))
    check_equal(texts_of(pull_all(three, 20, seconds=40)), texts(numbered(20, start=40)))
    row = scan(name)[shard_ids(name)[0]]
    check_equal((row["checkpoint"], row.get("sidecar_checkpoint")), (records_of(name, row["shard_id"])[-1]["SequenceNumber"], None))
    three.stop()


@test(seconds=90)
def the_leases_of_a_dead_sidecar_are_freed_by_hand(folder):
    name = name_of(folder)
    make_stream(name, 1)
    make_table(name)
    one = sidecar(folder, name, lease_masking="on").start()
    put_kinesis(name, numbered(20))
    pull_all(one, 20)
    one.kill()
    time.sleep(LEASE_MS / 1000 + 4)  # Its time must be over.
    done = one.command("leases", "seize", "one", "--table", f"kcl-rb:{name}", "--lease-duration-ms", str(LEASE_MS))
    check_equal(done.returncode, 0, done.stdout, done.stderr)
    row, = scan(name).values()
    check_equal((row.get("assigned_to"), row["checkpoint"], row.get("sidecar_checkpoint")),
                (None, records_of(name, row["shard_id"])[-1]["SequenceNumber"], None))
    put_kinesis(name, numbered(20, start=20))
    ruby = Ruby(name)
    ruby.tick()
    check_equal(names(ruby.seen), texts(numbered(20, start=20)))


@test(seconds=90)
def a_masked_row_without_an_owner_is_freed_by_hand_c28(folder):
    """A late release of kcl-rb removed assigned_to; then the sidecar died. Its id is in sidecar_worker alone."""
    name = name_of(folder)
    make_stream(name, 1)
    make_table(name)
    shard, = shard_ids(name)
    one = sidecar(folder, name, lease_masking="on").start()
    put_kinesis(name, numbered(20))
    pull_all(one, 20)
    one.kill()
    Ruby(name).release(shard)
    row = scan(name)[shard]
    check_equal((row.get("assigned_to"), row["checkpoint"], row["sidecar_worker"]), (None, "SHARD_END", "one"))
    time.sleep(LEASE_MS / 1000 + 4)
    done = one.command("leases", "seize", "one", "--table", f"kcl-rb:{name}", "--lease-duration-ms", str(LEASE_MS))
    check_equal(done.returncode, 0, done.stdout, done.stderr)
    row = scan(name)[shard]
    check_equal((row["checkpoint"], row.get("sidecar_checkpoint")), (records_of(name, shard)[-1]["SequenceNumber"], None))
    put_kinesis(name, numbered(20, start=20))
    ruby = Ruby(name)
    ruby.tick()
    check_equal(names(ruby.seen), texts(numbered(20, start=20)))


@test(seconds=120)
def a_mask_without_an_owner_is_read_on_beyond_the_limit_c28(folder):
    """kcl-rb releases a row late that is masked by then: no process of kcl-rb reads it, so that the sidecar must."""
    name = name_of(folder)
    make_stream(name, 2)
    make_table(name)
    one = sidecar(folder, name, lease_masking="on", max_leases=1).start()
    one.get("/v1/records?max_records=1&wait_ms=1")
    wait_until(lambda: owners(name).count("one") == 1, 30, "one is taken")
    first, = [shard for shard, row in scan(name).items() if row.get("assigned_to") == "one"]
    other, = set(shard_ids(name)) - {first}
    # The rows that a dead sidecar and a late release leave, by hand.
    one.stop()
    dynamodb("UpdateItem", TableName=name, Key={"shard_id": {"S": first}},
             UpdateExpression="SET checkpoint = :e, sidecar_checkpoint = :none, sidecar_worker = :who REMOVE assigned_to",
             ExpressionAttributeValues={":e": {"S": "SHARD_END"}, ":none": {"S": ""}, ":who": {"S": "dead"}})
    two = sidecar(folder, name, "two", lease_masking="on", max_leases=1).start()
    app = App(two)
    put_kinesis(name, numbered(40))
    wait_until(lambda: scan(name)[first].get("assigned_to") == "two", 40, "the mask is taken first")
    dynamodb("UpdateItem", TableName=name, Key={"shard_id": {"S": other}},
             UpdateExpression="SET checkpoint = :e, sidecar_checkpoint = :none, sidecar_worker = :who",
             ExpressionAttributeValues={":e": {"S": "SHARD_END"}, ":none": {"S": ""}, ":who": {"S": "dead"}})
    wait_until(lambda: scan(name)[other].get("assigned_to") == "two", 40, "and beyond the limit")
    wait_until(lambda: len(set(names(app.seen))) == 40, 40, "all are read")
    two.stop()
    check(all("sidecar_checkpoint" not in row and "assigned_to" not in row for row in scan(name).values()), scan(name))


@test(seconds=90)
def a_mask_over_no_checkpoint_is_taken_off_to_none(folder):
    name = name_of(folder)
    make_stream(name, 1)
    make_table(name)
    one = sidecar(folder, name, lease_masking="on").start()
    one.get("/v1/records?max_records=1&wait_ms=1")
    row = wait_until(lambda: next(iter(scan(name).values()), None), 20, "a row")
    check_equal((row["checkpoint"], row["sidecar_checkpoint"]), ("SHARD_END", ""))
    one.stop()
    row, = scan(name).values()
    check_equal(sorted(row), ["lease_timeout", "shard_id", "sidecar_worker"])
    put_kinesis(name, numbered(10))
    ruby = Ruby(name)
    ruby.tick()
    check_equal(names(ruby.seen), texts(numbered(10)))


@test(seconds=120)
def a_row_that_is_deleted_or_freed_under_us_is_taken_again_c27_c28(folder):
    name = name_of(folder)
    make_stream(name, 1)
    make_table(name)
    shard, = shard_ids(name)
    one = sidecar(folder, name).start()
    app = App(one)
    put_kinesis(name, numbered(20))
    wait_until(lambda: len(app.seen) >= 20, 20, "the sidecar has them")
    wait_until(lambda: "checkpoint" in scan(name)[shard], 20, "a checkpoint")
    dynamodb("DeleteItem", TableName=name, Key={"shard_id": {"S": shard}})
    wait_until(lambda: owners(name) == ["one"], 30, "taken again")
    Ruby(name).release(shard)
    wait_until(lambda: owners(name) == ["one"], 30, "taken again")
    # A late checkpoint, of long ago: ours is written again.
    Ruby(name).checkpoint(shard, records_of(name, shard)[0]["SequenceNumber"], late=True)
    put_kinesis(name, numbered(20, start=20))
    wait_until(lambda: scan(name)[shard]["checkpoint"] == records_of(name, shard)[-1]["SequenceNumber"], 60, "it goes on")
    check_equal(sorted(set(names(app.seen))), texts(numbered(40)))
    one.stop()
    check("assigned_to" not in scan(name)[shard], "stopped, and yet it owns")


@test(seconds=90)
def whoever_would_go_back_is_told_of_children_c26(folder):
    name = name_of(folder)
    make_stream(name, 1)
    make_table(name)
    parent, = shard_ids(name)
    kinesis("SplitShard", StreamName=name, ShardToSplit=parent, NewStartingHashKey=str(2 ** 127))
    wait_until(lambda: len(shard_ids(name)) == 3, 20, "the split")
    put_kinesis(name, numbered(20))
    one = sidecar(folder, name).start()
    check_equal(texts_of(pull_all(one, 20)), texts(numbered(20)))
    check_equal(one.said().count("there is no way back"), 1)
    one.stop()
    ruby = Ruby(name, supervised=True).start()
    wait_until(lambda: ruby.ends, 10, "it ends")
    check("comparison of String" in ruby.ends[0], ruby.ends)
    ruby.stop()


need_emulators("dynoxide", "kinesis-local")
main()
