#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dead letters that are sent to a queue, a topic or a stream, on the real binary: what the messages hold, what FIFO
queues need of them, destinations that fail, and that no letter is missing after faults and a kill."""

import base64
import collections
import hashlib
import json
import os
import urllib.parse
import uuid

import away
from lib import (Double, FaultProxy, RawStream, Sidecar, call, check, check_equal, data_of, kinesis_client, main,
                 need_emulators, numbered, test, wait_until)

COUNT = int(os.environ.get("KS_LETTERS", "120"))  # Of the long story.


# ---- SQS and SNS of moto ----

def ask(service, headers, body):
    host, port = os.environ["KS_MOTO_URL"][len("http://"):].split(":")
    headers = kinesis_client.sign({"Host": f"{host}:{port}", **headers}, body, kinesis_client.ACCESS_KEY,
                                  kinesis_client.SECRET_KEY, service=service)
    answer = call((host, int(port)), "POST", "/", body, headers, timeout=60)
    check(answer.status == 200, answer)
    return answer


def sqs(operation, **members):
    answer = ask("sqs", {"X-Amz-Target": "AmazonSQS." + operation, "Content-Type": "application/x-amz-json-1.0"},
                 json.dumps(members).encode())
    return answer.json if answer.body else {}


def sns(operation, **fields):
    body = urllib.parse.urlencode({"Action": operation, "Version": "2010-03-31", **fields}).encode()
    return ask("sns", {"Content-Type": "application/x-www-form-urlencoded"}, body).body.decode()


def name_of(fifo=False):
    return "letters-" + uuid.uuid4().hex[:12] + (".fifo" if fifo else "")


def make_queue(fifo=False, **attributes):
    if fifo:
        attributes["FifoQueue"] = "true"
    made = sqs("CreateQueue", QueueName=name_of(fifo), Attributes=attributes)["QueueUrl"]
    return os.environ["KS_MOTO_URL"] + urllib.parse.urlsplit(made).path


def make_topic(queue, fifo=False, raw="true"):
    """A topic with the queue as its subscriber."""
    fields = {"Name": name_of(fifo)}
    if fifo:
        fields.update({"Attributes.entry.1.key": "FifoTopic", "Attributes.entry.1.value": "true"})
    topic = sns("CreateTopic", **fields).split("<TopicArn>")[1].split("<")[0]
    arn = sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns("Subscribe", TopicArn=topic, Protocol="sqs", Endpoint=arn,
        **{"Attributes.entry.1.key": "RawMessageDelivery", "Attributes.entry.1.value": raw})
    return topic


def receive(queue):
    """The messages that are there now, taken off the queue."""
    found = []
    while True:
        messages = sqs("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"],
                       AttributeNames=["All"]).get("Messages", [])
        if not messages:
            return found
        found += messages
        entries = [{"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]} for at, message in enumerate(messages)]
        sqs("DeleteMessageBatch", QueueUrl=queue, Entries=entries)


def count_in(queue):
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    return sum(int(value) for value in sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=names)["Attributes"].values())


def letter_of(message):
    return json.loads(message["Body"])["deadLetter"]


# ---- The sidecar ----

def worker(folder, destination, name="one", env=None, **options):
    settings = {"dead_letters": destination, "local_shards": 2, **options}
    sidecar = Sidecar.local(folder, name, **settings)
    sidecar.env.update({"AWS_ENDPOINT_URL_SNS": os.environ["KS_MOTO_URL"], **(env or {})})
    return sidecar


def settle(sidecar, records, outcome="dead_letter", wait_ms=20000, **more):
    items = [{"ack_id": record["ack_id"], "outcome": outcome, **more} for record in records]
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": items, "wait": "persisted", "wait_ms": wait_ms})
    check_equal((answer.status, answer.json["failed"]), (200, []), answer)
    return answer.json["persisted"]


def give_up(sidecar, records, **more):
    """Puts the (key, data) pairs into the stream and gives them up; returns the records as they were delivered."""
    sidecar.put(records)
    stream = RawStream(sidecar, "client_id=app&max_in_flight=2000")
    found = stream.records(len(records))
    check(settle(sidecar, found, **more), "persisted")
    stream.close()
    return found


def id_of(record):
    return f"{record['shard_id']}.{record['sequence_number']}.0"


def check_letters(messages, records):
    """Each record has one message, and the message has the record."""
    found = {letter["id"]: letter for letter in map(letter_of, messages)}
    check_equal(sorted(found), sorted(id_of(record) for record in records), "ids")
    check_equal(len(messages), len(records), "once each")
    for record in records:
        letter = found[id_of(record)]
        for same in ("shard_id", "sequence_number", "partition_key", "approximate_arrival_timestamp", "data"):
            check_equal(letter[same], record[same], same)


# ---- SQS ----

@test(60)
def a_queue_gets_each_letter_with_its_record_and_no_route_lists_it(folder):
    queue = make_queue()
    sidecar = worker(folder, "sqs:" + queue).start()
    records = give_up(sidecar, numbered(25), reason="bad \u0001 \ufffe record")
    messages = receive(queue)
    check_letters(messages, records)
    document = json.loads(messages[0]["Body"])
    letter = document["deadLetter"]
    check_equal(document["KinesisBatchInfo"],
                {"shardId": letter["shard_id"], "startSequenceNumber": letter["sequence_number"],
                 "endSequenceNumber": letter["sequence_number"], "batchSize": 1,
                 "approximateArrivalOfFirstRecord": letter["approximate_arrival_timestamp"],
                 "approximateArrivalOfLastRecord": letter["approximate_arrival_timestamp"]}, "as Lambda has it")
    check_equal((document["version"], document["timestamp"]), ("1.0", letter["died_at"]), document)
    check_equal(document["requestContext"],
                {"requestId": letter["id"], "condition": "DeadLetterAsked", "approximateInvokeCount": 1}, document)
    check_equal((letter["reason"], letter["cause"], letter["in_stream"], letter["data_bytes"], letter["application"]),
                ("bad \u0001 \ufffe record", "asked", False, 11, "demo"), letter)
    attributes = {name: value["StringValue"] for name, value in messages[0]["MessageAttributes"].items()}
    check_equal(attributes, {"dead_letter_id": letter["id"], "application": "demo", "shard_id": letter["shard_id"],
                             "attempts": "1", "cause": "asked", "reason": "bad ? ? record"}, "attributes")

    for method, path in (("GET", ""), ("POST", "/x/redrive"), ("POST", "/x/discard")):
        answer = sidecar.call(method, "/v1/dead-letters" + path)
        check_equal((answer.status, answer.json["type"].rsplit("/", 1)[-1].split(":")[-1]), (400, "failed-precondition"), answer)
        check("sqs:" + queue in answer.json["detail"], answer)
    check_equal(sidecar.metric("dead_letters_total"), 25.0, "metric")


@test(60)
def a_fifo_queue_gets_the_letters_of_a_key_in_their_order_and_one_of_each(folder):
    queue = make_queue(fifo=True)
    sidecar = worker(folder, "sqs:" + queue, local_shards=1).start()
    odd = "key with spaces, \u00fcmlauts"
    keys = ["plain", odd, "k" * 129]
    records = give_up(sidecar, [(keys[at % 3], b"%d" % at) for at in range(30)])
    messages = []
    wait_until(lambda: messages.extend(receive(queue)) or len(messages) >= 30, 20, "all come")
    check_letters(messages, records)
    for key in keys:
        data = [int(data_of(letter_of(message))) for message in messages if letter_of(message)["partition_key"] == key]
        check_equal(data, sorted(data), "in order")
    groups = {letter_of(message)["partition_key"]: message["Attributes"]["MessageGroupId"] for message in messages}
    check_equal(groups, {"plain": "plain", odd: hashlib.sha256(odd.encode()).hexdigest(),
                         keys[2]: hashlib.sha256(keys[2].encode()).hexdigest()}, "groups")
    one = messages[0]
    text = f"demo\ndemo\n{letter_of(one)['id']}"
    check_equal(one["Attributes"]["MessageDeduplicationId"], hashlib.sha256(text.encode()).hexdigest(), "deduplication")


@test(60)
def a_record_that_no_message_holds_is_sent_as_a_pointer_and_counted(folder):
    queue = make_queue()
    sidecar = worker(folder, "sqs:" + queue).start()
    records = give_up(sidecar, [("large", b"x" * 800000), ("small", b"y" * 700000), ("tiny", b"z")])
    letters = {letter_of(message)["partition_key"]: letter_of(message) for message in receive(queue)}
    check_equal(sorted(letters), ["large", "small", "tiny"], "keys")
    large = letters["large"]
    check_equal((large["in_stream"], large["data_bytes"], "data" in large), (True, 800000, False), large["id"])
    check_equal((letters["small"]["in_stream"], len(data_of(letters["small"]))), (False, 700000), "fits")
    check_equal(large["id"], next(id_of(record) for record in records if record["partition_key"] == "large"), "id")
    check_equal(sidecar.metric("dead_letters_without_data_total"), 1.0, "metric")
    wait_until(lambda: "1 sent to sqs:" in sidecar.said(), 10, "logged")


# ---- SNS ----

@test(60)
def a_topic_gets_each_letter_and_passes_it_on_with_its_attributes(folder):
    queue = make_queue()
    topic = make_topic(queue)
    sidecar = worker(folder, "sns:" + topic).start()
    records = give_up(sidecar, numbered(23), reason="a&b=<c>")
    messages = receive(queue)
    check_letters(messages, records)
    check_equal(messages[0]["MessageAttributes"]["dead_letter_id"]["StringValue"], letter_of(messages[0])["id"], "attribute")
    check_equal(messages[0]["MessageAttributes"]["reason"]["StringValue"], "a&b=<c>", "reason")
    answer = sidecar.call("GET", "/v1/dead-letters")
    check(answer.status == 400 and "sns:" + topic in answer.json["detail"], answer)


@test(60)
def a_fifo_topic_gets_groups_and_deduplication_ids(folder):
    queue = make_queue(fifo=True)
    sidecar = worker(folder, "sns:" + make_topic(queue, fifo=True), local_shards=1).start()
    records = give_up(sidecar, [(f"key-{at % 2}", b"%d" % at) for at in range(12)])
    messages = []
    wait_until(lambda: messages.extend(receive(queue)) or len(messages) >= 12, 20, "all come")
    check_letters(messages, records)
    check_equal({message["Attributes"]["MessageGroupId"] for message in messages}, {"key-0", "key-1"}, "groups")


# ---- Kinesis ----

def records_in(client, stream):
    found = []
    for shard in client.must("ListShards", StreamName=stream)["Shards"]:
        at = client.must("GetShardIterator", StreamName=stream, ShardId=shard["ShardId"],
                       ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
        while at:
            answer = client.must("GetRecords", ShardIterator=at)
            found += answer["Records"]
            at = answer.get("NextShardIterator") if answer["Records"] else None
    return found


def make_dead_stream(double):
    """The stream `dead` of the double, by a client that is returned."""
    client = double.client()
    client.must("CreateStream", StreamName="dead", ShardCount=2)
    wait_until(lambda: client.must("DescribeStreamSummary", StreamName="dead")["StreamDescriptionSummary"]["StreamStatus"]
               == "ACTIVE", 20, "active")
    return client


def as_message(record):
    return {"Body": base64.b64decode(record["Data"]).decode()}


@test(60)
def a_stream_gets_each_letter_under_the_key_of_its_record(folder):
    double = Double(folder)
    client = make_dead_stream(double)
    sidecar = worker(folder, "kinesis:dead", env={"AWS_ENDPOINT_URL_KINESIS": double.url}).start()
    records = give_up(sidecar, numbered(150))
    put = records_in(client, "dead")
    check_letters([as_message(record) for record in put], records)
    check(all(letter_of(as_message(record))["partition_key"] == record["PartitionKey"] for record in put), "keys")

    # Throttled as a whole, an answer that is lost, and an error of the server: each letter comes, with the same id.
    double.control(faults=[{"kind": "error", "operation": "PutRecords", "code": "ProvisionedThroughputExceededException",
                            "count": 4},
                           {"kind": "error", "operation": "PutRecords", "code": "InternalFailure", "status": 500, "count": 4}])
    more = give_up(sidecar, numbered(40, 1000), wait_ms=60000)
    ids = collections.Counter(letter_of(as_message(record))["id"] for record in records_in(client, "dead"))
    check_equal(sorted(ids), sorted(id_of(record) for record in records + more), "none is missing")


# ---- Destinations that fail ----

@test(60)
def a_queue_out_of_reach_holds_the_checkpoint_and_loses_no_letter(folder):
    queue = make_queue()
    proxy = FaultProxy(folder, os.environ["KS_MOTO_URL"])
    sidecar = worker(folder, "sqs:" + queue, env={"AWS_ENDPOINT_URL_SQS": proxy.url}).start()
    sidecar.put(numbered(20))
    records = RawStream(sidecar, "client_id=app").records(20)
    proxy.do("cut")
    check(not settle(sidecar, records, wait_ms=1000), "not persisted")
    wait_until(lambda: "dead letters cannot be written" in sidecar.said(), 20, "logged")
    check(sidecar.metric("dead_letter_failures_total") >= 1, "metric")
    check_equal(sidecar.get("/v1/status")["subscriptions"][0]["in_flight"], 0, "given up")
    proxy.do("heal")
    found = []
    wait_until(lambda: found.extend(receive(queue)) or len(found) >= 20, 20, "they come")
    check_letters(found, records)
    sidecar.kill()
    again = worker(folder, "sqs:" + queue, "again").start()
    check_equal(again.get("/v1/records?wait_ms=1500")["records"], [], "the checkpoint passed them")


@test(300 + 2 * away.AWAY_S)
def a_queue_that_is_away_for_long_holds_the_checkpoints_and_loses_no_letter(folder):
    queue = make_queue()
    proxy = FaultProxy(folder, os.environ["KS_MOTO_URL"])
    sidecar = worker(folder, "sqs:" + queue, env={"AWS_ENDPOINT_URL_SQS": proxy.url}, **away.OPTIONS).start()
    expected = away.live_through(sidecar, proxy, sidecar.put)
    ids = collections.Counter(letter_of(message)["id"] for message in receive(queue))
    check_equal(sorted(ids), expected, "none is missing, and each has the id of its record")
    check(max(ids.values()) > 1, "answers were lost, and the letters were sent again")


@test(60)
def a_queue_that_is_gone_or_denied_is_said_with_what_to_do(folder):
    queue = make_queue()
    proxy = FaultProxy(folder, os.environ["KS_MOTO_URL"])
    sidecar = worker(folder, "sqs:" + queue, env={"AWS_ENDPOINT_URL_SQS": proxy.url}).start()
    sidecar.put(numbered(1))
    records = RawStream(sidecar, "client_id=app").records(1)
    proxy.do("refuse 403 AccessDeniedException 3")
    check(settle(sidecar, records), "persisted in the end")
    check("access denied: allow sqs:SendMessage to this role (kinesis-sidecar iam-policy; of an encrypted queue with" in
          sidecar.said(), sidecar.said())
    check_letters(receive(queue), records)
    sqs("DeleteQueue", QueueUrl=queue)
    sidecar.put(numbered(1, 5))
    records = RawStream(sidecar, "client_id=app").records(1)
    check(not settle(sidecar, records, wait_ms=500), "not persisted")
    wait_until(lambda: "no such queue in region us-east-1: create it, or change --dead-letters" in sidecar.said(), 20, "logged")


@test(60)
def a_destination_that_cannot_be_ends_the_start(folder):
    for destination, why in (("sqs:orders", "must be like sqs:https://sqs."), ("sns:arn:aws:sqs:us-east-1:1:x", "sns:arn:aws:sns:"),
                             ("kinesis:", "wants table"), ("kinesis:a b", "kinesis:STREAM"), ("mail:me", "kinesis:STREAM")):
        sidecar = worker(folder, destination).start(ready=False)
        check_equal(sidecar.wait(), 2, destination)
        check(why in sidecar.said(), sidecar.said())
    sidecar = worker(folder, "kinesis:demo", source="kinesis", local_shards=None, env={"AWS_REGION": "us-east-1"}).start(ready=False)
    check_equal(sidecar.wait(), 2, "the own stream")
    check("is the stream that is read" in sidecar.said(), sidecar.said())


# ---- All of it ----

def bury_what_comes(sidecar):
    """Gives up what a pull brings, and returns how many; the letters are sent in their own time."""
    records = sidecar.get("/v1/records?max_records=1000&wait_ms=500")["records"]
    if records:
        settle(sidecar, records, wait_ms=100)
    return len(records)


def collect(queue):
    """The messages of the queue, once it is empty."""
    messages = []
    wait_until(lambda: messages.extend(receive(queue)) or count_in(queue) == 0, 20 + COUNT / 5, "all are received")
    return messages


def survive(folder, destination, variable, server, collected, last_fault="cut"):
    """Gives up COUNT records under faults and a kill; each has a message in the end. Returns how often each id came."""
    proxy = FaultProxy(folder, server)
    first = worker(folder, destination, "first", env={variable: proxy.url}, lease_duration_ms=6000).start()
    placed = first.put(numbered(COUNT))
    expected = sorted(f"{shard}.{sequence}.0" for shard, sequence in placed)
    records = RawStream(first, "client_id=app&max_in_flight=2000").records(COUNT)
    for fault, part in zip(("heal", "refuse 400 ThrottlingException 6", "lose 6", last_fault), range(0, COUNT, COUNT // 4)):
        proxy.do(fault)
        settle(first, records[part:part + COUNT // 4], wait_ms=1500)
    before = first.metric("dead_letters_total")
    first.kill()
    proxy.do("heal")

    check(0 < before < COUNT, f"the kill came in the middle: {before} letters were confirmed")
    second = worker(folder, destination, "second", env={variable: server}).start()
    last = {shard: sequence for shard, sequence in placed}

    again = []

    def checkpoints_are_at_the_end():
        again.append(bury_what_comes(second))
        return {row["shard_id"]: row["checkpoint"] for row in second.get("/v1/leases")["leases"]} == last
    wait_until(checkpoints_are_at_the_end, 20 + COUNT / 5, "all are given up")
    check(sum(again) >= COUNT // 4, "what could not be sent before the kill came again:", again)
    ids = collections.Counter(letter_of(message)["id"] for message in collected())
    check_equal(sorted(ids), expected, "none is missing, and each has the id of its record")
    print(f"  {COUNT} letters, {sum(ids.values()) - COUNT} of them twice", flush=True)
    return ids


@test(100 + COUNT // 3)
def no_letter_of_a_queue_is_missing_after_faults_and_a_kill(folder):
    queue = make_queue()
    survive(folder, "sqs:" + queue, "AWS_ENDPOINT_URL_SQS", os.environ["KS_MOTO_URL"], lambda: collect(queue))


@test(100 + COUNT // 3)
def no_letter_of_a_fifo_queue_is_missing_or_there_twice_after_faults_and_a_kill(folder):
    queue = make_queue(fifo=True)
    ids = survive(folder, "sqs:" + queue, "AWS_ENDPOINT_URL_SQS", os.environ["KS_MOTO_URL"], lambda: collect(queue))
    check_equal(max(ids.values()), 1, "a FIFO queue drops what it has")


@test(100 + COUNT // 3)
def no_letter_of_a_topic_is_missing_after_faults_and_a_kill(folder):
    queue = make_queue()
    survive(folder, "sns:" + make_topic(queue), "AWS_ENDPOINT_URL_SNS", os.environ["KS_MOTO_URL"], lambda: collect(queue))


@test(100 + COUNT // 3)
def no_letter_of_a_stream_is_missing_after_faults_and_a_kill(folder):
    double = Double(folder)
    client = make_dead_stream(double)
    ids = survive(folder, "kinesis:dead", "AWS_ENDPOINT_URL_KINESIS", double.url,
                  lambda: [as_message(record) for record in records_in(client, "dead")], last_fault="drop-answers")
    check(max(ids.values()) > 1, "PutRecords was done, its answer was lost, and the letters were put again")


if __name__ == "__main__":
    need_emulators("moto")
    main()
