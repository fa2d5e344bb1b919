# SPDX-License-Identifier: Apache-2.0
"""A model of a process of kcl-rb 1.0.0: what it asks of the table and of the stream, and what ends it.

Once a second it lists the first page of shards and goes through all of them: one whose row says SHARD_END is passed over, any
other is leased, read until an answer brings nothing, and released. It asks for nothing when it writes a checkpoint or
releases, and compares times the wrong way round: a lease whose time is over ends it. So do a shard with a parent, a row that
it did not expect, and a lease that somebody else took in between.
"""

import base64
import os
import threading
import time

from lib import aws, dynamodb, kinesis


class End(Exception):
    """What nobody catches in it."""


def utc(seconds):
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time.time() + seconds))


def make_table(table):
    dynamodb("CreateTable", TableName=table, KeySchema=[{"AttributeName": "shard_id", "KeyType": "HASH"}],
             AttributeDefinitions=[{"AttributeName": "shard_id", "AttributeType": "S"}],
             ProvisionedThroughput={"ReadCapacityUnits": 10, "WriteCapacityUnits": 10})


class Ruby:
    """One process. `tick` is what its timer does; `start` has it do that once a second, and again after its end if it is
    `supervised`."""

    def __init__(self, name, worker="ruby", failover=10, supervised=False, work=0.0):
        self.name, self.worker, self.failover, self.supervised, self.work = name, worker, failover, supervised, work
        self.seen = []   # (shard id, data), as they come.
        self.ends = []   # Why it ended, each time.
        self.begin()
        self.thread = None

    def begin(self):
        self.known, self.gone = {}, set()  # shard id -> checkpoint as it remembers it, or None.
        self.stopped = threading.Event()

    # --- The table ---

    def item(self, shard):
        return dynamodb("GetItem", TableName=self.name, Key={"shard_id": {"S": shard}}).get("Item", {})

    @staticmethod
    def value(text):
        return {"NULL": True} if text is None else {"S": text}

    def fetch(self, shard):
        checkpoint = self.item(shard).get("checkpoint", {}).get("S")
        if checkpoint is not None:
            self.known[shard] = checkpoint

    def lease(self, shard):
        row = self.item(shard)
        owner, until = row.get("assigned_to", {}).get("S"), row.get("lease_timeout", {}).get("S")
        condition = {"ConditionExpression": "attribute_not_exists(assigned_to)"}
        if owner is not None and until is not None:
            try:
                over = time.time() > time.mktime(time.strptime(until, "%Y-%m-%d %H:%M:%S UTC")) - time.timezone
            except ValueError:
                raise End(f"{shard}: no time in {until!r}") from None
            if over and owner != self.worker:
                raise End(f"{shard}: the lease of {owner} is over")
            condition = {"ConditionExpression": "assigned_to = :o AND lease_timeout = :t",
                         "ExpressionAttributeValues": {":o": {"S": owner}, ":t": {"S": until}}}
        self.until = utc(self.failover)
        item = {"shard_id": {"S": shard}, "assigned_to": {"S": self.worker}, "lease_timeout": {"S": self.until},
                "checkpoint": self.value(self.known[shard])}
        answer = aws(os.environ["KS_DYNAMODB_URL"], "DynamoDB_20120810.PutItem",
                     {"TableName": self.name, "Item": item, **condition}, "1.0")
        if answer.status != 200:
            raise End(f"{shard}: {answer.json.get('__type', '').split('#')[-1]} in place of a lease")

    def checkpoint(self, shard, sequence, late=False):
        """Asks for nothing; a late one, after the release, names nobody, and no time."""
        self.known[shard] = sequence
        item = {"shard_id": {"S": shard}, "checkpoint": {"S": sequence},
                "assigned_to": {"NULL": True} if late else {"S": self.worker}, "lease_timeout": {"S": "" if late else self.until}}
        dynamodb("PutItem", TableName=self.name, Item=item)

    def release(self, shard):
        dynamodb("UpdateItem", TableName=self.name, Key={"shard_id": {"S": shard}}, UpdateExpression="remove assigned_to")

    # --- The stream ---

    def list(self):
        answer = kinesis("DescribeStream", StreamName=self.name)["StreamDescription"]["Shards"]
        there = {shard["ShardId"] for shard in answer}
        for shard in sorted(set(self.known) | self.gone):
            if shard in there:
                continue
            if shard in self.gone:
                raise End(f"{shard}: forgotten, and yet it looks for it")
            dynamodb("DeleteItem", TableName=self.name, Key={"shard_id": {"S": shard}})
            del self.known[shard]
            self.gone.add(shard)
        for shard in there:
            self.known.setdefault(shard, None)
        return answer

    def read(self, shard):
        self.fetch(shard)
        start = {"ShardIteratorType": "TRIM_HORIZON"}
        if self.known[shard] is not None:
            start = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": self.known[shard]}
        at = kinesis("GetShardIterator", StreamName=self.name, ShardId=shard, **start)["ShardIterator"]
        while at is not None:
            answer = kinesis("GetRecords", ShardIterator=at)
            for record in answer["Records"]:
                time.sleep(self.work)
                self.seen.append((shard, base64.b64decode(record["Data"]).decode()))
            if answer["Records"]:
                self.checkpoint(shard, answer["Records"][-1]["SequenceNumber"])
            at = answer.get("NextShardIterator")
            if not answer["Records"]:
                return

    # --- Its timer ---

    def tick(self):
        leased = []
        for shard in self.list():
            name = shard["ShardId"]
            self.fetch(name)
            if self.known[name] == "SHARD_END":
                continue
            if shard.get("ParentShardId"):
                raise End(f"{name}: comparison of String with 0 failed")
            self.lease(name)
            leased.append(name)
        for name in leased:
            try:
                self.read(name)
            finally:
                self.release(name)

    def run(self):
        while not self.stopped.is_set():
            began = time.monotonic()
            try:
                self.tick()
            except End as end:
                self.ends.append(str(end))
                if not self.supervised:
                    return
                self.known, self.gone = {}, set()
            self.stopped.wait(max(0.05, 1 - (time.monotonic() - began)))

    def start(self):
        self.begin()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        return self

    def stop(self):
        """SIGTERM: its timer ends, and what it has begun is ended."""
        self.stopped.set()
        self.thread.join()
