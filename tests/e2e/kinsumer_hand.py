# SPDX-License-Identifier: Apache-2.0
"""The hand of a client of kinsumer: its tables, and each of its rows as it writes them. No library is needed for it."""

import time

from lib import check, dynamodb

KEYS = {"_checkpoints": "Shard", "_clients": "ID", "_metadata": "Key"}
CHECKPOINT = {"Shard": "S", "OwnerID": "S", "OwnerName": "S", "LastUpdate": "N", "LastUpdateRFC": "S",
              "SequenceNumber": "S", "Finished": "N", "FinishedRFC": "S", "SidecarPosition": "S"}


def scan(name, suffix):
    """key -> the item."""
    return {item[KEYS[suffix]]["S"]: item
            for item in dynamodb("Scan", TableName=name + suffix, ConsistentRead=True)["Items"]}


def checkpoints(name):
    """shard id -> the row, plain; each value must be of its type."""
    rows = {}
    for shard, item in scan(name, "_checkpoints").items():
        for attribute, value in item.items():
            check(list(value) == [CHECKPOINT[attribute]] or "NULL" in value, "the type of", attribute, value)
        rows[shard] = {attribute: value.get("S", value.get("N")) for attribute, value in item.items()
                       if "NULL" not in value}
    return rows


def owners(name):
    return sorted(row.get("OwnerID", "") for row in checkpoints(name).values())


def rfc(ns):
    return time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(ns // 10 ** 9))


def make_tables(name):
    """As CreateRequiredTables() makes them."""
    for suffix, key in KEYS.items():
        dynamodb("CreateTable", TableName=name + suffix,
                 AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
                 KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
                 ProvisionedThroughput={"ReadCapacityUnits": 10, "WriteCapacityUnits": 10})


def put_row(name, suffix, row, at=None, **condition):
    """As a client writes it: what is None is NULL."""
    at = time.time_ns() if at is None else at
    item = {attribute: {"NULL": True} if value is None else {"N": str(value)} if isinstance(value, int) else
            {"L": [{"S": each} for each in value]} if isinstance(value, list) else {"S": value}
            for attribute, value in {**row, "LastUpdate": at, "LastUpdateRFC": rfc(at)}.items()}
    dynamodb("PutItem", TableName=name + suffix, Item=item, **condition)


def checkpoint(shard, sequence, owner=None):
    return {"Shard": shard, "SequenceNumber": sequence, "OwnerID": owner, "OwnerName": owner, "Finished": None,
            "FinishedRFC": None}


def commit(name, client, shard, sequence, at=None):
    """As an owner writes it, who ends when it is refused."""
    put_row(name, "_checkpoints", checkpoint(shard, sequence, client), at, ConditionExpression="OwnerID = :ownerID",
            ExpressionAttributeValues={":ownerID": {"S": client}})


def capture(name, client, shard, sequence):
    """Of a row that is free."""
    put_row(name, "_checkpoints", checkpoint(shard, sequence, client),
            ConditionExpression="attribute_not_exists(OwnerID) OR attribute_type(OwnerID, :nullType)",
            ExpressionAttributeValues={":nullType": {"S": "NULL"}})


def release(name, client, shard, sequence):
    now = time.time_ns()
    dynamodb("UpdateItem", TableName=name + "_checkpoints", Key={"Shard": {"S": shard}},
             UpdateExpression="REMOVE OwnerID, OwnerName SET LastUpdate = :lastUpdate, LastUpdateRFC = :lastUpdateRFC, "
                              "SequenceNumber = :sequenceNumber", ConditionExpression="OwnerID = :ownerID",
             ExpressionAttributeValues={":ownerID": {"S": client}, ":lastUpdate": {"N": str(now)},
                                        ":lastUpdateRFC": {"S": rfc(now)},
                                        ":sequenceNumber": {"NULL": True} if sequence is None else {"S": sequence}})
