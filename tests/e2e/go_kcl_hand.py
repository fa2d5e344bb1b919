# SPDX-License-Identifier: Apache-2.0
"""The hand of a member of vmware-go-kcl on the rows of a sidecar: PutItem of a whole item that asks for nothing, UpdateItem
`remove AssignedTo`, DeleteItem, as the library does. No library is needed for it."""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "interop"))
import fleet  # noqa: E402 - it is found there
from lib import check, dynamodb, wait_until  # noqa: E402

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

    def free_row(self, shard=ONLY, attributes="AssignedTo"):
        """As ReleaseLease of v1.0 to v1.2, which asks for nothing."""
        dynamodb("UpdateItem", TableName=self.world.name, Key={"ShardID": {"S": shard}},
                 UpdateExpression="remove " + attributes)

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
