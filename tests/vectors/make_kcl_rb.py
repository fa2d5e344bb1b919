#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What kcl-rb 1.0.0 writes into its table, at each stage of a life: tests/vectors/dialects/kcl-rb.json.

    tests/emulators/with dynoxide -- tests/vectors/make_kcl_rb.py

The library is not run: boto3 plays its requests to a DynamoDB, which answers how the table stands then. They are those of
lib/kcl/checkpointer.rb and proxies/dynamo_db_proxy.rb: PutItem of a whole item for a lease, on a condition, and for a checkpoint,
on none; UpdateItem `remove assigned_to` for a release; a nil is NULL. Times are whole seconds of UTC, as Time#to_s has them.
"""

import datetime
import json
import os

import boto3

TABLE = "captured-kcl-rb"
VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dialects", "kcl-rb.json")
FAILOVER = datetime.timedelta(seconds=10)
SHARDS = [f"shardId-{number:012d}" for number in range(4)]
NIL = {"NULL": True}


class Worker:
    """A process, as far as its table sees it."""

    def __init__(self, client, name, now):
        self.client, self.name, self.now = client, name, now

    def timeout(self):
        return (self.now + FAILOVER).strftime("%Y-%m-%d %H:%M:%S UTC")

    def put(self, shard, owner, timeout, checkpoint, **condition):
        item = {"shard_id": {"S": shard}, "assigned_to": {"S": owner} if owner else NIL, "lease_timeout": {"S": timeout},
                "checkpoint": {"S": checkpoint} if checkpoint else NIL}
        self.client.put_item(TableName=TABLE, Item=item, **condition)

    def lease(self, shard, checkpoint=None, before=None):
        """`before`: the row of somebody whose time is not over, which it takes."""
        condition = {"ConditionExpression": "attribute_not_exists(assigned_to)"}
        if before:
            condition = {"ConditionExpression": "shard_id = :shard_id AND assigned_to = :assigned_to AND lease_timeout = :lease_timeout",
                         "ExpressionAttributeValues": {":shard_id": {"S": shard}, ":assigned_to": before["assigned_to"],
                                                       ":lease_timeout": before["lease_timeout"]}}
        self.put(shard, self.name, self.timeout(), checkpoint, **condition)

    def checkpoint(self, shard, sequence, late=False):
        self.put(shard, None if late else self.name, "" if late else self.timeout(), sequence)

    def release(self, shard):
        self.client.update_item(TableName=TABLE, Key={"shard_id": {"S": shard}}, UpdateExpression="remove assigned_to")


def sequence(number):
    return str(49590338271490256608559692538361571095921575989136588898 + number)


def main():
    client = boto3.client("dynamodb", endpoint_url=os.environ["KS_DYNAMODB_URL"], region_name="us-east-1")
    client.create_table(TableName=TABLE, KeySchema=[{"AttributeName": "shard_id", "KeyType": "HASH"}],
                        AttributeDefinitions=[{"AttributeName": "shard_id", "AttributeType": "S"}],
                        ProvisionedThroughput={"ReadCapacityUnits": 10, "WriteCapacityUnits": 10})
    start = datetime.datetime(2024, 5, 1, 12, 0, 0)
    one, two = [Worker(client, name, start) for name in ("worker-a", "worker-b")]
    stages = []

    def stage(name):
        items = client.scan(TableName=TABLE, ConsistentRead=True)["Items"]
        stages.append({"stage": name, "tables": {"": sorted(items, key=lambda item: item["shard_id"]["S"])}})
        for worker in (one, two):
            worker.now += datetime.timedelta(seconds=1)
    for shard in SHARDS:
        one.lease(shard)
    stage("leased, nothing read")
    for number, shard in enumerate(SHARDS):
        one.checkpoint(shard, sequence(number))
    stage("read")
    for shard in SHARDS:
        one.release(shard)
    stage("released")
    for number, shard in enumerate(SHARDS[:2]):
        one.lease(shard, sequence(number))
    stage("leased again, and killed")
    row = client.get_item(TableName=TABLE, Key={"shard_id": {"S": SHARDS[0]}})["Item"]
    two.lease(SHARDS[0], sequence(0), before=row)
    stage("taken from one whose time is not over")
    two.checkpoint(SHARDS[2], sequence(12), late=True)
    stage("a late checkpoint, which names nobody")
    two.checkpoint(SHARDS[0], "SHARD_END")
    two.release(SHARDS[0])
    stage("the end of a shard")
    client.delete_item(TableName=TABLE, Key={"shard_id": {"S": SHARDS[0]}})
    client.update_item(TableName=TABLE, Key={"shard_id": {"S": SHARDS[0]}}, UpdateExpression="remove assigned_to")
    stage("a release of a row that was deleted")
    with open(VECTORS, "w", encoding="utf-8") as file:
        json.dump({"library": "kcl-rb", "settings": {"played": "by boto3, from its source", "dynamodb_failover_seconds": 10},
                   "stages": stages}, file, indent=1)
        file.write("\n")


main()
