#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What members of vmware-go-kcl are known to do to a row, done to the rows of a sidecar by hand.

Their numbers are those of the defects as docs/DIALECTS.md lists them. The hand writes as they do: PutItem of a whole item
that asks for nothing, UpdateItem `remove AssignedTo`, DeleteItem. Nothing may be lost, nothing passed over, and nobody
delivers what somebody else has.
"""

import time

import fleet
from judge import GoKcl
from lib import check, check_equal, dynamodb, main, need_emulators, test, wait_until

LEASE = fleet.LEASE_MS / 1000
ONLY = "shardId-000000000000"


def instant(seconds):
    """A LeaseTimeout so many seconds from now, and the instant that it says."""
    at = int(time.time() + seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)), at


class Table:
    """A stream of a shard, or more, a sidecar and the hand."""

    def __init__(self, folder, shards=1, **options):
        self.world = fleet.World(folder, shards)
        self.ours = self.world.ours("go-kcl", "go-kcl", "ours-0", **options)

    def row(self, shard=ONLY):
        return {name: value.get("S") for row in self.world.rows() if row["ShardID"]["S"] == shard
                for name, value in row.items()}

    def wait_row(self, what, fact, shard=ONLY, seconds=30):
        def there():
            self.ours.lives() if self.ours.process else None
            row = self.row(shard)
            return row if row and fact(row) else None
        return wait_until(there, seconds, what)

    def put_row(self, shard=ONLY, **attributes):
        """As CheckpointSequence: the whole item, whatever there is."""
        item = {"ShardID": {"S": shard}, **{name: value if isinstance(value, dict) else {"S": value}
                                             for name, value in attributes.items()}}
        dynamodb("PutItem", TableName=self.world.name, Item=item)

    def make_table(self):
        dynamodb("CreateTable", TableName=self.world.name, KeySchema=[{"AttributeName": "ShardID", "KeyType": "HASH"}],
                 AttributeDefinitions=[{"AttributeName": "ShardID", "AttributeType": "S"}],
                 ProvisionedThroughput={"ReadCapacityUnits": 10, "WriteCapacityUnits": 10})

    def read(self, count):
        """Puts so many records and waits until they were seen and their last one is the checkpoint."""
        self.world.put(count)
        self.world.wait_seen(len(self.world.placed), 60, self.ours)
        last = self.last()
        return self.wait_row(f"the checkpoint is {last}", lambda row: row.get("Checkpoint") == last)

    def last(self):
        return max((sequence for _, sequence in self.world.placed.values()), key=int)

    def sequence(self, number):
        return self.world.placed[str(number)][1]

    def is_ours(self, **more):
        return lambda row: row.get("AssignedTo") == "ours-0" and all(row.get(name) == value for name, value in more.items())

    def over(self):
        self.ours.stop()
        return fleet.Verdict(self.world).read().nothing_lost().nothing_passed()

    def silent(self, since, until):
        """Nothing was delivered between these instants."""
        said = [entry for entry in self.ours.entries() if entry["event"] == "record" and since < entry["at"] < until]
        check(not said, f"delivered {len(said)} records while somebody else had the lease:", said[:1])


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
        dynamodb("UpdateItem", TableName=table.world.name, Key={"ShardID": {"S": ONLY}}, UpdateExpression="remove AssignedTo")
        table.wait_row("ours has it again", table.is_ours())
        table.read(100)
    table.over()


@test(seconds=90)
def somebody_takes_what_was_freed_under_us_c36(folder):
    table = Table(folder)
    table.ours.start()
    table.read(100)
    written = time.time()
    dynamodb("UpdateItem", TableName=table.world.name, Key={"ShardID": {"S": ONLY}}, UpdateExpression="remove AssignedTo")
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
    dynamodb("UpdateItem", TableName=table.world.name, Key={"ShardID": {"S": shard}}, UpdateExpression="remove AssignedTo, Checkpoint")
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
        dynamodb("UpdateItem", TableName=table.world.name, Key={"ShardID": {"S": shard}}, UpdateExpression="remove AssignedTo")
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


@test(seconds=150)
def a_fresh_lease_is_not_stolen_alive_c6(folder):
    """A member takes a live lease that it once had, if the row has no Checkpoint, when its claim timeout is over."""
    table = Table(folder, shards=4, lease_stealing="on")
    theirs = table.world.member("go-kcl", "theirs-0", stealing=1, claim_ms=2000).start()
    wait_until(lambda: len(GoKcl.owned(table.world)) == 4, 40, "theirs has all")
    table.ours.start()

    def of_ours():
        return {row["ShardID"]["S"] for row in table.world.rows() if row.get("AssignedTo") == {"S": "ours-0"}}
    wait_until(lambda: len(of_ours()) == 2, 60, "ours has claimed two")
    until = time.monotonic() + 4 * LEASE
    had = of_ours()
    while time.monotonic() < until:
        theirs.lives()
        check_equal(of_ours(), had, "what ours has and nobody asked for")
        time.sleep(0.05)
    table.world.put(400)
    table.world.wait_seen(400, 60, table.ours, theirs)
    theirs.stop()
    table.over()


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
    dynamodb("UpdateItem", TableName=table.world.name, Key={"ShardID": {"S": parents[1]}}, UpdateExpression="remove AssignedTo")
    table.world.wait_seen(100 + sum(shard == parents[1] for shard, _ in list(table.world.placed.values())[:100]), 60, table.ours)
    row = table.row(child)
    check_equal(row["ParentShardId"], next(shard["ParentShardId"] for shard in table.world.shards() if shard["ShardId"] == child),
                "the parent in the row, which claims of members compare")


if __name__ == "__main__":
    need_emulators("dynoxide", "kinesis-local", "double")
    fleet.build("go-kcl")
    main()
