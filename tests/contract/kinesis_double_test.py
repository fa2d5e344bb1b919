#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What our double of Kinesis says, beside what others say: the same requests, in the same order, to all of them.

Every answer is compared as it is, but for what must differ (sequence numbers, times, iterators, accounts) and for members
that are null. Where another one says something else, KNOWN says so and why; what is known must still be true.

    tests/contract/kinesis_double_test.py                               kinesis-local and kinesalite
    tests/emulators/with double ferrokinesis -- tests/contract/kinesis_double_test.py     ferrokinesis, if it is there
"""

import base64
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
from lib import check, main, need_emulators, test, wait_until  # noqa: E402
from kinesis_client import Answer, Kinesis  # noqa: E402

FIRST, SECOND, THIRD, FOURTH = (f"shardId-{number:012}" for number in range(4))
LAST_HASH = str(2**128 - 1)
ONE = {"Data": "b25l", "PartitionKey": "a"}

# --- What is compared ---

VOLATILE = (
    (r"(?<!\d)4\d{55}(?!\d)", "SEQUENCE"),
    (r"^9223372036854775807$", "SEQUENCE"),  # The end of every shard of kinesis-local.
    (r"AAAAAAAAAA[A-Za-z0-9+/]{100,}=*", "ITERATOR"),
    (r"\w{3} \w{3} \d\d \d\d:\d\d:\d\d UTC \d{4}", "DATE"),
    (r"(?<!\d)1[6-9]\d{11}(?!\d)", "MS"),
    (r"(?<=/consumer/\w:)1[6-9]\d{8}", "S"),
    (r"(?<!shardId-)(?<!\d)(000000000000|123456789012)(?!\d)", "ACCOUNT"),
)


def plain(value, name=""):
    """The value without what must differ."""
    if isinstance(value, dict):
        return {key: plain(inner, key) for key, inner in sorted(value.items()) if inner is not None}
    if isinstance(value, list):
        return [plain(inner, name) for inner in value]
    if name.endswith("Timestamp"):
        check(1.6e9 < value < 2.5e9 or 1.6e12 < value < 2.5e12, name, value)  # Seconds; in CBOR ms, of some.
        return "TIME"
    if name == "MillisBehindLatest":
        check(0 <= value < 10000, name, value)
        return "BEHIND"
    if name == "NextToken":
        return "TOKEN"
    if isinstance(value, str):
        for pattern, word in VOLATILE:
            value = re.sub(pattern, word, value)
    return value


# --- The stories: what is asked. Each yields a name and an answer for each request. ---

def active(client, name):
    wait_until(lambda: client.must("DescribeStreamSummary", StreamName=name)["StreamDescriptionSummary"]["StreamStatus"]
               == "ACTIVE", 10, f"{name} is active")


def begin(client, name, shards=1):
    client.must("CreateStream", StreamName=name, ShardCount=shards)
    active(client, name)


def streams(client, s):
    yield "create", client.ask("CreateStream", StreamName=s, ShardCount=3)
    active(client, s)
    yield "create again", client.ask("CreateStream", StreamName=s, ShardCount=1)
    yield "describe", client.ask("DescribeStreamSummary", StreamName=s)
    yield "describe all", client.ask("DescribeStream", StreamName=s)
    yield "list", client.ask("ListShards", StreamName=s)
    yield "list after one", client.ask("ListShards", StreamName=s, ExclusiveStartShardId=FIRST)
    yield "list nothing", client.ask("ListShards")
    yield "list twice told", client.ask("ListShards", StreamName=s, NextToken="x")
    for operation, more in (("DescribeStreamSummary", {}), ("DescribeStream", {}), ("ListShards", {}), ("DeleteStream", {}),
                            ("PutRecord", ONE), ("PutRecords", {"Records": [ONE]}),
                            ("GetShardIterator", {"ShardId": FIRST, "ShardIteratorType": "LATEST"}),
                            ("SplitShard", {"ShardToSplit": FIRST, "NewStartingHashKey": "9"}),
                            ("MergeShards", {"ShardToMerge": FIRST, "AdjacentShardToMerge": SECOND})):
        yield "nobody: " + operation, client.ask(operation, StreamName="nobody", **more)
        yield "no name: " + operation, client.ask(operation, **more)
    yield "unknown operation", client.ask("DoNothing")
    yield "delete", client.ask("DeleteStream", StreamName=s)
    wait_until(lambda: client.ask("DescribeStreamSummary", StreamName=s).status == 400, 10, "it is gone")
    yield "deleted", client.ask("DescribeStreamSummary", StreamName=s)


def requests_out_of_bounds(client, s):
    begin(client, s)
    for name, operation, members in (
            ("name of nothing", "DescribeStreamSummary", {"StreamName": ""}),
            ("name too long", "DescribeStreamSummary", {"StreamName": "n" * 129}),
            ("name of signs", "DescribeStreamSummary", {"StreamName": "a/b"}),
            ("name that is a number", "DescribeStreamSummary", {"StreamName": 5}),
            ("name that is a list", "DescribeStreamSummary", {"StreamName": []}),
            ("describe none", "DescribeStream", {"StreamName": s, "Limit": 0, "ExclusiveStartShardId": ""}),
            ("no shards", "CreateStream", {"StreamName": "t", "ShardCount": 0}),
            ("shards in words", "CreateStream", {"StreamName": "t", "ShardCount": "1"}),
            ("page of none", "ListShards", {"StreamName": s, "MaxResults": 0}),
            ("page of too many", "ListShards", {"StreamName": s, "MaxResults": 10001}),
            ("no type", "GetShardIterator", {"StreamName": s, "ShardId": FIRST}),
            ("no such type", "GetShardIterator", {"StreamName": s, "ShardId": FIRST, "ShardIteratorType": "BEST"}),
            ("number of letters", "GetShardIterator", {"StreamName": s, "ShardId": FIRST, "StartingSequenceNumber": "x",
                                                       "ShardIteratorType": "AT_SEQUENCE_NUMBER"}),
            ("time in words", "GetShardIterator", {"StreamName": s, "ShardId": FIRST, "Timestamp": "now",
                                                   "ShardIteratorType": "AT_TIMESTAMP"}),
            ("read none", "GetRecords", {"ShardIterator": "x", "Limit": 0}),
            ("read too many", "GetRecords", {"ShardIterator": "x", "Limit": 10001}),
            ("no iterator", "GetRecords", {}),
            ("empty iterator", "GetRecords", {"ShardIterator": ""}),
            ("long iterator", "GetRecords", {"ShardIterator": "x" * 513}),
            ("two mistakes", "GetRecords", {"ShardIterator": "", "Limit": 0}),
            ("no key", "PutRecord", {"StreamName": s, "Data": ""}),
            ("empty key", "PutRecord", {"StreamName": s, "Data": "", "PartitionKey": ""}),
            ("long key", "PutRecord", {"StreamName": s, "Data": "", "PartitionKey": "k" * 257}),
            ("no data", "PutRecord", {"StreamName": s, "PartitionKey": "k"}),
            ("data that is a number", "PutRecord", {"StreamName": s, "PartitionKey": "k", "Data": 1}),
            ("data of half a group", "PutRecord", {"StreamName": s, "PartitionKey": "k", "Data": "YQ"}),
            ("large data", "PutRecord", {"StreamName": s, "PartitionKey": "k",
                                         "Data": base64.b64encode(bytes(1048577)).decode()}),
            ("hash of letters", "PutRecord", {"StreamName": s, **ONE, "ExplicitHashKey": "x"}),
            ("hash too large", "PutRecord", {"StreamName": s, **ONE, "ExplicitHashKey": str(2**128)}),
            ("records of none", "PutRecords", {"StreamName": s, "Records": []}),
            ("a record without a key", "PutRecords", {"StreamName": s, "Records": [ONE, {"Data": ""}]}),
            ("records that are none", "PutRecords", {"StreamName": s, "Records": [1]}),
            ("records in one", "PutRecords", {"StreamName": s, "Records": {}}),
            ("split at letters", "SplitShard", {"StreamName": s, "ShardToSplit": FIRST, "NewStartingHashKey": "x"})):
        yield name, client.ask(operation, **members)


def records(client, s):
    begin(client, s, shards=2)
    yield "put", client.ask("PutRecord", StreamName=s, **ONE)
    yield "put more", client.ask("PutRecords", StreamName=s, Records=[
        ONE, {"Data": "", "PartitionKey": "\u043a\u043b\u044e\u0447 \"\\\x01"}, dict(ONE, ExplicitHashKey=LAST_HASH)])
    first = client.must("PutRecord", StreamName=s, **ONE)["SequenceNumber"]
    last = client.must("PutRecord", StreamName=s, Data="bGFzdA==", PartitionKey="a")["SequenceNumber"]
    time.sleep(0.01)

    def iterator(name, kind, shard=FIRST, **more):
        answer = client.ask("GetShardIterator", StreamName=s, ShardId=shard, ShardIteratorType=kind, **more)
        yield name, answer
        if answer.status == 200:
            yield "read " + name, client.ask("GetRecords", ShardIterator=answer.body["ShardIterator"])
    yield from iterator("from the horizon", "TRIM_HORIZON")
    yield from iterator("of the other shard", "TRIM_HORIZON", SECOND)
    yield from iterator("at a number", "AT_SEQUENCE_NUMBER", StartingSequenceNumber=first)
    yield from iterator("after a number", "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=first)
    yield from iterator("after the last one", "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=last)
    yield from iterator("at the tip", "LATEST")
    yield from iterator("at a time", "AT_TIMESTAMP", Timestamp=int(time.time()) - 3600)
    yield from iterator("at a time to come", "AT_TIMESTAMP", Timestamp=int(time.time()) + 3600)
    yield from iterator("at no time", "AT_TIMESTAMP")
    yield from iterator("at no number", "AT_SEQUENCE_NUMBER")
    yield from iterator("from the horizon with a number", "TRIM_HORIZON", StartingSequenceNumber=first)
    yield from iterator("at the number of another shard", "AT_SEQUENCE_NUMBER", SECOND, StartingSequenceNumber=first)
    foreign = "49540000" + first[8:]
    yield from iterator("at the number of another stream", "AT_SEQUENCE_NUMBER", StartingSequenceNumber=foreign)
    yield from iterator("at no number of Kinesis", "AT_SEQUENCE_NUMBER", StartingSequenceNumber="12345" * 11)
    yield from iterator("of no shard", "LATEST", "shardId-000000000077")
    at = client.must("GetShardIterator", StreamName=s, ShardId=FIRST, ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
    step = client.ask("GetRecords", ShardIterator=at, Limit=1)
    yield "one", step
    yield "and the next", client.ask("GetRecords", ShardIterator=step.body["NextShardIterator"], Limit=1)
    yield "no iterator", client.ask("GetRecords", ShardIterator="nonsense")
    yield "an expired iterator", client.ask("GetRecords", ShardIterator=made_old(at))


# Sealed alike by all of them; openssl makes one of long ago.
KEY = "1133a5a833666b49abf28c8ba302930f0b2fb240dccd43cf4dfbc0ca91f17751"
IV = "7bf139dbabbea2d9995d6fcae1dff7da"


def made_old(iterator):
    def crypt(data, *args):
        return subprocess.run(["openssl", "enc", "-aes-256-cbc", "-K", KEY, "-iv", IV, *args], input=data, check=True,
                              capture_output=True).stdout
    raw = base64.b64decode(iterator)
    made, rest = crypt(raw[8:], "-d").split(b"/", 1)
    old = b"%0*d" % (len(made), int(made) - 301000)
    return base64.b64encode(raw[:8] + crypt(old + b"/" + rest)).decode()


def impossible_reshards(client, s):
    begin(client, s, shards=2)
    half = str(2**127)
    for name, shard, at in (("of no shard", "shardId-000000000077", "9"), ("of no name", "nonsense", "9"),
                            ("at its start", FIRST, "0"), ("beside its start", FIRST, "1"), ("behind its end", FIRST, half)):
        yield "split " + name, client.ask("SplitShard", StreamName=s, ShardToSplit=shard, NewStartingHashKey=at)
    for name, one, other in (("of no shard", FIRST, "shardId-000000000077"), ("of one", FIRST, FIRST),
                             ("the wrong way", SECOND, FIRST)):
        yield "merge " + name, client.ask("MergeShards", StreamName=s, ShardToMerge=one, AdjacentShardToMerge=other)


def reshards(client, s):
    begin(client, s, shards=3)
    put = client.must("PutRecord", StreamName=s, **ONE)
    early = client.must("GetShardIterator", StreamName=s, ShardId=FIRST, ShardIteratorType="TRIM_HORIZON")
    yield "merge", client.ask("MergeShards", StreamName=s, ShardToMerge=FIRST, AdjacentShardToMerge=SECOND)
    yield "at once again", client.ask("SplitShard", StreamName=s, ShardToSplit=SECOND, NewStartingHashKey="1000")
    active(client, s)
    yield "list", client.ask("ListShards", StreamName=s)
    end = client.ask("GetRecords", ShardIterator=early["ShardIterator"])
    yield "the end", end
    if end.body.get("NextShardIterator"):
        yield "the end itself", client.ask("GetRecords", ShardIterator=end.body["NextShardIterator"])
    yield "split", client.ask("SplitShard", StreamName=s, ShardToSplit=FOURTH, NewStartingHashKey="1000")
    active(client, s)
    yield "list again", client.ask("ListShards", StreamName=s)
    yield "describe", client.ask("DescribeStreamSummary", StreamName=s)
    child = client.must("PutRecord", StreamName=s, **ONE)
    check(int(child["SequenceNumber"]) > int(put["SequenceNumber"]), "a child's number is not larger")


def paging(client, s):
    """What kinesalite cannot do, and dies of."""
    begin(client, s, shards=3)
    page = client.ask("ListShards", StreamName=s, MaxResults=2)
    yield "a page", page
    yield "describe one", client.ask("DescribeStream", StreamName=s, Limit=1, ExclusiveStartShardId=FIRST)
    yield "describe the last", client.ask("DescribeStream", StreamName=s, Limit=1, ExclusiveStartShardId=SECOND)
    yield "the next one", client.ask("ListShards", NextToken=page.body["NextToken"], MaxResults=2)
    yield "no token", client.ask("ListShards", NextToken="nonsense")
    for kind in ("AT_LATEST", "FROM_TRIM_HORIZON", "AT_TRIM_HORIZON"):
        yield "filter " + kind, client.ask("ListShards", StreamName=s, ShardFilter={"Type": kind})
    yield "filter after", client.ask("ListShards", StreamName=s, ShardFilter={"Type": "AFTER_SHARD_ID", "ShardId": FIRST})
    arn = client.must("DescribeStreamSummary", StreamName=s)["StreamDescriptionSummary"]["StreamARN"]
    yield "by arn", client.ask("ListShards", StreamARN=arn)
    client.must("SplitShard", StreamName=s, ShardToSplit=FIRST, NewStartingHashKey="1000")
    active(client, s)
    yield "filter the open ones", client.ask("ListShards", StreamName=s, ShardFilter={"Type": "AT_LATEST"})
    yield "filter from a time", client.ask("ListShards", StreamName=s, ShardFilter={
        "Type": "FROM_TIMESTAMP", "Timestamp": int(time.time()) + 100})
    end = client.must("GetShardIterator", StreamName=s, ShardId=FIRST, ShardIteratorType="TRIM_HORIZON")
    yield "children", client.ask("GetRecords", ShardIterator=end["ShardIterator"])


def binary(client, s):
    """CBOR. Nobody but ours writes times as AWS does: see tests/e2e/kinesis_double_test.py."""
    begin(client, s)
    client.cbor = True
    yield "refused", client.ask("DescribeStreamSummary", StreamName="nobody")
    yield "out of bounds", client.ask("GetRecords", ShardIterator="")
    yield "list", client.ask("ListShards", StreamName=s)
    yield "put", client.ask("PutRecord", StreamName=s, PartitionKey="a", Data=b"\x00\xff one")
    at = client.must("GetShardIterator", StreamName=s, ShardId=FIRST, ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
    yield "read", client.ask("GetRecords", ShardIterator=at)


def fan_out(client, s):
    begin(client, s)
    arn = client.must("DescribeStreamSummary", StreamName=s)["StreamDescriptionSummary"]["StreamARN"]
    made = client.ask("RegisterStreamConsumer", StreamARN=arn, ConsumerName="c")
    yield "register", made
    yield "register again", client.ask("RegisterStreamConsumer", StreamARN=arn, ConsumerName="c")
    yield "register nowhere", client.ask("RegisterStreamConsumer", StreamARN=arn + "x", ConsumerName="c")
    yield "register nobody", client.ask("RegisterStreamConsumer", StreamARN=arn)
    consumer = made.body["Consumer"]["ConsumerARN"]
    wait_until(lambda: client.must("DescribeStreamConsumer", ConsumerARN=consumer)["ConsumerDescription"]["ConsumerStatus"]
               == "ACTIVE", 10, "the consumer is active")
    yield "describe by name", client.ask("DescribeStreamConsumer", StreamARN=arn, ConsumerName="c")
    yield "describe by arn", client.ask("DescribeStreamConsumer", ConsumerARN=consumer)
    yield "describe nobody", client.ask("DescribeStreamConsumer", StreamARN=arn, ConsumerName="d")
    yield "describe nothing", client.ask("DescribeStreamConsumer")
    yield "list", client.ask("ListStreamConsumers", StreamARN=arn)
    client.must("PutRecord", StreamName=s, **ONE)
    yield from events(client, consumer)
    yield "deregister", client.ask("DeregisterStreamConsumer", ConsumerARN=consumer)


class Told:
    """An event, as if it were an answer."""

    def __init__(self, event):
        self.status, self.body = event.message_type, event.payload or {}
        self.type = event.type, event.headers.get(":content-type")


def events(client, consumer):
    subscription = client.subscribe(ConsumerARN=consumer, ShardId=FIRST, StartingPosition={"Type": "TRIM_HORIZON"})
    check(not isinstance(subscription, Answer), "refused:", subscription)
    for event in subscription.events():
        yield f"event {event.type}", Told(event)
        if "Records" in (event.payload or {}):
            break
    refused = client.subscribe(ConsumerARN=consumer, ShardId=FIRST, StartingPosition={"Type": "LATEST"})
    yield "subscribe again", refused if isinstance(refused, Answer) else Told(refused.event())
    subscription.close()


# --- The comparison ---

def whole(answer):
    """An answer of those who say what AWS says, to the word."""
    return answer.status, answer.type, plain(answer.body)


def meant(answer):
    """An answer of one with words of its own: what is refused, and why; all of what is not."""
    if answer.status in (200, "event"):
        return answer.status, plain(answer.body)
    return answer.status, answer.body.get("__type")


class Other:
    """Somebody to compare with: whom, how, with which stories. `lacks` are members that only one of the two ever sends.
    `known` is where we do not agree, and why we are right."""

    def __init__(self, url, view, stories, lacks=(), known=None, settings=None):
        self.url, self.view, self.stories, self.lacks = os.environ.get(url), view, stories, lacks
        self.known, self.settings = known or {}, settings or {}


ALL = (streams, requests_out_of_bounds, records, impossible_reshards, reshards, binary, paging, fan_out)
OTHERS = {
    # No end of a shard has children there, and it is always told on its own. Its pages are not tried: it dies of them.
    "kinesalite": Other("KS_KINESALITE_URL", whole, ALL[:6], lacks=("StreamModeDetails", "ChildShards"),
                        settings={"end_apart": 1}, known={"binary: read": "it keeps byte strings as lists of numbers"}),
    # What is out of bounds is its own business; what it takes for a good split it does not survive.
    "kinesis-local": Other("KS_KINESIS_URL", meant, (streams, records, reshards, binary, paging, fan_out),
                           lacks=("EncryptionType", "Tags"), known={
        **{f"streams: no name: {operation}": "another code, of a later AWS perhaps" for operation in (
            "DescribeStreamSummary", "DescribeStream", "DeleteStream", "PutRecord", "PutRecords", "GetShardIterator",
            "SplitShard", "MergeShards")},
        "streams: unknown operation": "another code",
        "records: from the horizon with a number": "taken",
        "records: read from the horizon with a number": "taken",
        "records: at the number of another shard": "another code: it wants to find a record of that number",
        "records: at the number of another stream": "another code",
        "records: at no number of Kinesis": "another code",
        "records: no iterator": "it falls over it",
        "binary: out of bounds": "it falls over it",
        "binary: read": "byte strings as base64 text",
        "fan_out: register nobody": "another code",
        "fan_out: list": "a NextToken of the only page",
        "fan_out: event initial-response": "it has none: official SDKs cannot use it",
        "fan_out: subscribe again": "an exception in the stream, where AWS refuses the request"}),
    "ferrokinesis": Other("KS_FERROKINESIS_URL", meant, ALL, lacks=("ChildShards",), settings={"end_apart": 1}, known={
        "streams: no name: PutRecord": "another code",
        "streams: no name: PutRecords": "another code",
        "paging: the next one": "its tokens do not tell of which stream they are",
        "paging: no token": "another code",
        "paging: by arn": "not taken",
        "paging: describe one": "all of them, whatever the Limit",
        "paging: describe the last": "all of them, wherever to start",
        "paging: filter after": "not filtered",
        "paging: filter the open ones": "not filtered",
        "paging: filter from a time": "not filtered",
        "paging: children": "the end of an empty shard takes two reads",
        "fan_out: describe by name": "no StreamARN",
        "fan_out: describe by arn": "no StreamARN",
        "fan_out: subscribe again": "taken at once"}),
}


def without(value, members):
    if isinstance(value, dict):
        return {key: without(inner, members) for key, inner in value.items() if key not in members}
    return [without(inner, members) for inner in value] if isinstance(value, (list, tuple)) else value


def told(url, story, name, other):
    """What the story is told there, by name."""
    answers = {}
    for step, answer in story(Kinesis(url), name):
        check(step not in answers, "told twice:", step)
        answers[step] = without(other.view(answer), other.lacks)
    return answers


def compare(name, story):
    other = OTHERS[name]
    double = Kinesis(os.environ["KS_DOUBLE_URL"])
    # A change of a stream takes as long as in tests/emulators/with: a second request must come while it lasts.
    double.control(**{"end_apart": 0, "change_span": 500, **other.settings})
    stream = f"{story.__name__}-{name}"
    ours = told(os.environ["KS_DOUBLE_URL"], story, stream, other)
    theirs = told(other.url, story, stream, other)
    problems = []
    for step in dict.fromkeys([*ours, *theirs]):
        differ, known = ours.get(step) != theirs.get(step), f"{story.__name__}: {step}" in other.known
        if differ and not known:
            problems.append(f"{step}\n    the double  {ours.get(step)}\n    {name}  {theirs.get(step)}")
        if known and not differ:
            problems.append(f"{step}: known to differ, but it does not")
    check(not problems, "\n  " + "\n  ".join(problems))


def add_test(name, story):
    def comparison(_):
        compare(name, story)
    comparison.__name__ = f"{name.replace('-', '_')}_{story.__name__}"
    test(seconds=60)(comparison)


if __name__ == "__main__":
    if "KS_FERROKINESIS_URL" not in os.environ:
        need_emulators("kinesis-local", "kinesalite", "double")
    for one, its in OTHERS.items():
        if its.url is not None:
            for each in its.stories:
                add_test(one, each)
    main()
