#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What members of vmware-go-kcl are known to do to a row, done to the rows of a sidecar by hand, at moments that chance would
seldom choose. c3 and so on are their numbers, docs/DIALECTS.md. Nothing may be lost, nothing passed over, and nobody delivers
what somebody else has.
"""

import time

from go_kcl_hand import LEASE, ONLY, Table, fleet, instant
from lib import check, check_equal, dynamodb, main, need_emulators, test, wait_until


@test(seconds=90)
def a_zombie_rewinds_the_checkpoint_c3(folder):
    """A checkpoint of a member that lost the lease names itself as the owner, at an older place, and its old time."""
    table = Table(folder)
    table.ours.start()
    table.read(200)
    table.put_row(AssignedTo="zombie", LeaseTimeout=instant(-1)[0], Checkpoint=table.sequence(50))
    table.wait_row("ours has it again", table.is_ours())
    table.read(200)
    table.over()


@test(seconds=120)
def a_zombie_with_time_left_is_let_be_c3(folder):
    table = Table(folder)
    table.ours.start()
    table.read(100)
    text, until = instant(LEASE + 6)
    written = time.time()
    table.put_row(AssignedTo="zombie", LeaseTimeout=text, Checkpoint=table.sequence(99))
    time.sleep(LEASE)  # Until then a lease that it believed in may go on.
    table.world.put(100)
    table.wait_row("ours has it again", table.is_ours(), seconds=60)
    table.world.wait_seen(200, 60, table.ours)
    table.silent(written + LEASE, until)
    table.over()


@test(seconds=120)
def an_owner_without_a_name_c4(folder):
    """A checkpoint after the release writes AssignedTo "" and the old time, which may be in the future."""
    table = Table(folder)
    table.ours.start()
    table.read(100)
    for ahead in (-1, 7):
        text, until = instant(ahead)
        table.put_row(AssignedTo="", LeaseTimeout=text, Checkpoint=table.sequence(20))
        table.wait_row("ours has it again", table.is_ours(), seconds=60)
        check(time.time() >= until, "taken from \"\" before its time")
    table.read(100)
    table.over()


@test(seconds=120)
def a_lease_is_freed_under_us_c36_c38(folder):
    """`remove AssignedTo` of v1.0 to v1.2 asks for nothing, and later ones may send it late."""
    table = Table(folder)
    table.ours.start()
    table.read(100)
    for _ in range(3):
        table.free_row()
        table.wait_row("ours has it again", table.is_ours())
        table.read(100)
    table.over()


@test(seconds=90)
def somebody_takes_what_was_freed_under_us_c36(folder):
    table = Table(folder)
    table.ours.start()
    table.read(100)
    written = time.time()
    table.free_row()
    text, until = instant(LEASE + 6)
    table.put_row(AssignedTo="other", LeaseTimeout=text, Checkpoint=table.sequence(99))
    time.sleep(LEASE)
    table.world.put(100)
    table.wait_row("ours has it again", table.is_ours(), seconds=60)
    table.world.wait_seen(200, 60, table.ours)
    table.silent(written + LEASE, until)
    table.over()


@test(seconds=90)
def a_row_is_deleted_under_us_c37(folder):
    """A member that does not see a shard in its list deletes the row, whoever has it."""
    table = Table(folder)
    table.ours.start()
    table.read(100)
    dynamodb("DeleteItem", TableName=table.world.name, Key={"ShardID": {"S": ONLY}})
    table.wait_row("ours has it again", table.is_ours())
    table.read(100)
    table.over()


@test(seconds=120)
def a_claim_that_is_stomped_is_made_again_c9(folder):
    """Any checkpoint of the owner wipes the claim."""
    table = Table(folder, shards=2, lease_stealing="on")
    shards = [ONLY, "shardId-000000000001"]
    table.world.put(100)
    table.make_table()

    def renew(**more):
        for shard in shards:
            table.put_row(shard, AssignedTo="other", LeaseTimeout=instant(60)[0], Checkpoint="1", **more)
    renew()
    table.ours.start()

    def claimed():
        return [row["ShardID"]["S"] for row in table.world.rows() if row.get("ClaimRequest") == {"S": "ours-0"}]
    wait_until(claimed, 40, "ours claims one of two")
    renew()
    shard = wait_until(claimed, 40, "ours claims again")[0]
    table.free_row(shard, "AssignedTo, Checkpoint")
    row = table.wait_row("ours has what it claimed", table.is_ours(), shard)
    check_equal(row.get("ClaimRequest"), None, "the claim of a lease that came")


def claimed_of_two(folder, **checkpoint):
    """The other has both; one is claimed and given back to that, then the other one to nobody in particular."""
    table = Table(folder, shards=2, lease_stealing="on")
    table.world.put(100)
    table.make_table()
    shards = {ONLY, "shardId-000000000001"}
    for shard in shards:
        table.put_row(shard, AssignedTo="other", LeaseTimeout=instant(120)[0], **checkpoint)
    table.ours.start()
    claimed = wait_until(lambda: next((row["ShardID"]["S"] for row in table.world.rows()
                                       if row.get("ClaimRequest") == {"S": "ours-0"}), None), 40, "ours claims")
    for shard in claimed, *(shards - {claimed}):
        table.free_row(shard)
        row = table.wait_row("ours has it", table.is_ours(), shard)
        check_equal(row.get("ClaimRequest"), None, "the claim of a lease that came")
    table.world.wait_seen(100, 60, table.ours)
    table.over()


@test(seconds=120)
def a_shard_without_a_checkpoint_is_claimed_c10(folder):
    """Members cannot claim these; a sidecar can."""
    claimed_of_two(folder)


@test(seconds=120)
def a_shard_with_an_empty_checkpoint_is_claimed_c11(folder):
    """What the claim of a member leaves behind; it means none."""
    claimed_of_two(folder, Checkpoint="")


@test(seconds=90)
def rows_in_no_known_form_are_left_alone(folder):
    """A type that is not S, a time that is none: the others are served, and the row stays as it is."""
    table = Table(folder, shards=4)
    table.world.put(200)
    table.make_table()
    odd = [dict(AssignedTo={"NULL": True}, LeaseTimeout="2024-05-01T12:00:10Z"), dict(AssignedTo="x", LeaseTimeout={"N": "5"}),
           dict(AssignedTo="x", LeaseTimeout="2024-05-01 12:00:10 UTC")]
    for number, attributes in enumerate(odd):
        table.put_row(f"shardId-00000000000{number}", **attributes)
    before = [table.row(f"shardId-00000000000{number}") for number in range(3)]
    table.ours.start()
    good = [data for data, (shard, _) in table.world.placed.items() if shard == "shardId-000000000003"]
    table.world.wait_seen(len(good), 60, table.ours)
    time.sleep(LEASE)
    check_equal([table.row(f"shardId-00000000000{number}") for number in range(3)], before, "rows that are left alone")
    check_equal(set(table.world.seen()), set(good), "records that were delivered")


@test(seconds=150)
def a_child_waits_for_both_parents_c17(folder):
    """Also for the one that no row names, and for one whose row says nothing yet."""
    table = Table(folder, shards=2)
    table.world.put(100)
    table.make_table()
    parents = [ONLY, "shardId-000000000001"]
    for shard in parents:
        table.put_row(shard, AssignedTo="other", LeaseTimeout=instant(120)[0])
    child = table.world.merge(*parents)[0]
    table.world.put(100)
    table.ours.start()
    time.sleep(LEASE)
    table.put_row(parents[0], LeaseTimeout=instant(0)[0], Checkpoint="SHARD_END")
    time.sleep(LEASE)
    check_equal(sum(table.world.seen().values()), 0, "records delivered before both parents were at their end")
    table.free_row(parents[1])
    table.world.wait_seen(100 + sum(shard == parents[1] for shard, _ in list(table.world.placed.values())[:100]), 60, table.ours)
    row = table.row(child)
    check_equal(row["ParentShardId"], next(shard["ParentShardId"] for shard in table.world.shards() if shard["ShardId"] == child),
                "the parent in the row, which claims of members compare")


@test(seconds=150)
def an_end_that_is_undone_is_written_again_c5(folder):
    """A renewal on its way writes the checkpoint that it remembers, also over SHARD_END."""
    table = Table(folder)
    table.ours.start()
    table.read(100)
    table.world.split(ONLY)
    table.wait_row("the end", lambda row: row.get("Checkpoint") == "SHARD_END", seconds=60)
    table.put_row(AssignedTo="zombie", LeaseTimeout=instant(1)[0], Checkpoint=table.sequence(50))
    table.wait_row("the end again", lambda row: row.get("Checkpoint") == "SHARD_END" and "AssignedTo" not in row, seconds=60)
    table.world.put(100)
    table.world.wait_seen(200, 60, table.ours)
    table.over()


@test(seconds=120)
def what_nobody_serves_is_taken_when_its_time_is_over_c7_c8_c35(folder):
    """A member that believes the row its own, and has no consumer for it: it may even renew it once more."""
    table = Table(folder, shards=2)
    table.world.put(100)
    table.make_table()
    other = "shardId-000000000001"
    for shard in (ONLY, other):
        table.put_row(shard, AssignedTo="orphan", LeaseTimeout=instant(2)[0])
    table.ours.start()
    text, until = instant(LEASE)
    table.put_row(other, AssignedTo="orphan", LeaseTimeout=text)
    table.wait_row("ours has the one", table.is_ours(), seconds=60)
    table.wait_row("ours has the other", table.is_ours(), other, seconds=60)
    check(time.time() >= until, "taken before its time")
    table.world.wait_seen(100, 60, table.ours)
    table.over()


@test(seconds=120)
def many_claims_at_once_are_all_honoured_c13(folder):
    """Nothing holds members to one claim at a time."""
    table = Table(folder, shards=4, lease_stealing="on")
    table.ours.start()
    table.world.put(200)
    table.world.wait_seen(200, 60, table.ours)
    shards = [f"shardId-00000000000{number}" for number in range(4)]
    for shard in shards:
        table.wait_row("ours has it", table.is_ours(), shard)
        dynamodb("UpdateItem", TableName=table.world.name, Key={"ShardID": {"S": shard}},
                 UpdateExpression="SET ClaimRequest = :c", ExpressionAttributeValues={":c": {"S": "other"}})
    for shard in shards:
        row = table.wait_row("it is given back", lambda row: "AssignedTo" not in row, shard)
        last = max((int(sequence) for at, sequence in table.world.placed.values() if at == shard), default=0)
        check_equal((row["ClaimRequest"], int(row["Checkpoint"])), ("other", last), shard)
    table.over()


need_emulators("dynoxide", "double")
fleet.read_from("double")
main()
