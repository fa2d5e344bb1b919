#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our own Kinesis, tests/doubles/kinesis.c, keeps what it promises, where no emulator can be compared with it.

What emulators do as well is compared with them in tests/contract/kinesis_double_test.py.
"""

import base64
import contextlib
import hashlib
import os
import re
import socket
import ssl
import subprocess
import time

import http2
from lib import Double, check, check_equal, main, spawn, test, wait_until
from kinesis_client import (ACCESS_KEY, CBOR, JSON, REGION, SECRET_KEY, Answer, Broken, Kinesis, Time, cbor_encode, sign,
                            utc_now)

FIRST, SECOND, THIRD = (f"shardId-{number:012}" for number in range(3))
RATE = "ProvisionedThroughputExceededException"


# --- Words of these tests ---

def begin(folder, shards=1, client=None, **settings):
    """A double with a stream `s` that is ready, and a client of it."""
    double = Double(folder)
    if settings:
        double.control(**settings)
    return double, make_stream(client or double.client(), shards)


def make_stream(client, shards=1, name="s"):
    client.must("CreateStream", StreamName=name, ShardCount=shards)
    wait_active(client, name)
    return client


def wait_active(client, name="s"):
    wait_until(lambda: client.must("DescribeStreamSummary", StreamName=name)["StreamDescriptionSummary"]["StreamStatus"]
               == "ACTIVE", 5, f"{name} is active", every=0.01)


def put(client, *texts, stream="s"):
    """Puts texts; returns their sequence numbers."""
    data = [text.encode() if client.cbor else base64.b64encode(text.encode()).decode() for text in texts]
    answer = client.must("PutRecords", StreamName=stream, Records=[{"Data": one, "PartitionKey": "k"} for one in data])
    check_equal(answer["FailedRecordCount"], 0, "put")
    return [record["SequenceNumber"] for record in answer["Records"]]


def iterator(client, kind="TRIM_HORIZON", shard=FIRST, stream="s", **more):
    return client.must("GetShardIterator", StreamName=stream, ShardId=shard, ShardIteratorType=kind,
                       **more)["ShardIterator"]


def texts_of(records):
    return [(data if isinstance(data, bytes) else base64.b64decode(data)).decode()
            for data in (record["Data"] for record in records)]


def read(client, kind="TRIM_HORIZON", shard=FIRST, **more):
    return texts_of(client.must("GetRecords", ShardIterator=iterator(client, kind, shard, **more))["Records"])


def split(client, shard=FIRST, at="1000"):
    client.must("SplitShard", StreamName="s", ShardToSplit=shard, NewStartingHashKey=at)
    wait_active(client)


def consumer(client, name="c"):
    arn = client.must("DescribeStreamSummary", StreamName="s")["StreamDescriptionSummary"]["StreamARN"]
    made = client.must("RegisterStreamConsumer", StreamARN=arn, ConsumerName=name)["Consumer"]
    check_equal(made["ConsumerStatus"], "CREATING", "at first")
    wait_until(lambda: client.must("DescribeStreamConsumer", ConsumerARN=made["ConsumerARN"])["ConsumerDescription"]
               ["ConsumerStatus"] == "ACTIVE", 5, "the consumer is active", every=0.01)
    return made["ConsumerARN"]


def subscribe(client, arn, shard=FIRST, kind="TRIM_HORIZON", **more):
    """A subscription whose initial response has been read."""
    subscription = client.subscribe(ConsumerARN=arn, ShardId=shard, StartingPosition=dict({"Type": kind}, **more))
    check(not isinstance(subscription, Answer), "refused:", subscription)
    check_equal(subscription.event().type, "initial-response", "first")
    return subscription


def refusal(answer):
    return answer.status, answer.code


def how_it_breaks(client, operation="ListShards", **members):
    """What becomes of a request: its status, or the name of what is wrong with the connection."""
    try:
        return client.ask(operation, **(members or {"StreamName": "s"})).status
    except Exception as err:
        return type(err).__name__


# --- Formats and protocols ---

@test(seconds=20)
def json_and_cbor_say_the_same(folder):
    _, json_client = begin(folder)
    clients = [json_client, Kinesis(json_client.url.geturl(), cbor=True),
               Kinesis(json_client.url.geturl(), cbor=True, indefinite=False)]
    for client in clients:
        put(client, "one", "")
    want = ["one", ""] * 3
    for client in clients:
        check_equal(read(client), want, "read")
    before = time.time() - 3600
    check_equal(read(json_client, "AT_TIMESTAMP", Timestamp=before), want, "seconds in JSON")
    check_equal(read(clients[1], "AT_TIMESTAMP", Timestamp=Time(int(before * 1000))), want, "ms in CBOR")
    check_equal(refusal(clients[1].ask("GetRecords", ShardIterator="x")), (400, "InvalidArgumentException"), "an error")
    record = clients[1].must("GetRecords", ShardIterator=iterator(clients[1]))["Records"][0]
    check_equal([type(record["ApproximateArrivalTimestamp"]), type(record["Data"])], [Time, bytes], "types of CBOR")
    check(abs(record["ApproximateArrivalTimestamp"] / 1000 - time.time()) < 60, "arrival", record)


@test(seconds=20)
def cbor_is_written_as_aws_writes_it(folder):
    _, client = begin(folder, client=None)
    put(client, "x")
    client.cbor = True
    answer = client.ask("GetRecords", ShardIterator=iterator(client))
    check_equal((answer.type, answer.raw[:1], answer.raw[-1:]), (CBOR, b"\xbf", b"\xff"), "an indefinite map")
    check(b"gRecords\x9f\xbf" in answer.raw, "an indefinite list", answer)
    check(re.search(rb"\x78\x1bApproximateArrivalTimestamp\xc1\x1b\x00\x00\x01", answer.raw), "tag 1, and ms", answer)
    check(b"dData\x41x" in answer.raw, "a byte string", answer)
    json_answer = Kinesis(client.url.geturl()).ask("GetRecords", ShardIterator=iterator(client))
    check(re.search(rb'"ApproximateArrivalTimestamp":1\.\d{12}E9,"Data":"eA=="', json_answer.raw), "JSON", json_answer)


@test(seconds=20)
def bodies_that_are_none_are_refused(folder):
    _, client = begin(folder)
    client.cbor = True
    for body in (b"\xbf", b"\xa1\x01\x02", b"\x5f\x41a", b"\xbf" * 60, b"\xa0\xa0", b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
                 b"\x7a\xff\xff\xff\xff", b"\x1c", b"\xa1aa\x61\xff", b"\xff", b""):
        connection, response = client.send("ListShards", body)
        check_equal(refusal(Answer(response)), (400, "SerializationException"), "taken:", body)
        connection.close()
    client.cbor = False
    for body in (b"", b"{", b"[]", b"null", b'{"StreamName":"s"}}'):
        connection, response = client.send("ListShards", body)
        check_equal(refusal(Answer(response)), (400, "SerializationException"), "taken:", body)
        connection.close()
    for request in (b"GET / HTTP/1.1\r\n\r\n", b"POST / HTTP/1.1\r\nno header\r\n\r\n", b"nonsense\r\n\r\n",
                    b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + b"x" * 100, b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n"):
        with socket.create_connection((client.url.hostname, client.url.port), timeout=10) as raw:
            raw.sendall(request)
            raw.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while raw.recv(65536):
                    pass
    check_equal(read(client), [], "and it lives")


def curl(double, *args, operation="ListShards", members=None, body=None, url=None):
    """The code, the protocol and the body that curl gets. It signs by itself: a third opinion."""
    body = body or (b'{"StreamName":"s"}' if members is None else members)
    done = subprocess.run(["curl", "-s", "-S", "--max-time", "20", "--aws-sigv4", f"aws:amz:{REGION}:kinesis", "--user",
                           f"{ACCESS_KEY}:{SECRET_KEY}", "-H", f"X-Amz-Target: Kinesis_20131202.{operation}", "-H",
                           f"Content-Type: {JSON}", "--data-binary", "@-", "-w", "\n%{http_code} %{http_version}", *args,
                           (url or double.url) + "/"], input=body, capture_output=True, check=False)
    out, _, last = done.stdout.rpartition(b"\n")
    return (*last.decode().split(), out) if done.returncode == 0 else (done.returncode, done.stderr, out)


@test(seconds=30)
def http_1_and_2_with_and_without_tls(folder):
    double = Double(folder, tls=True)
    make_stream(double.client())
    put(double.client(), "x" * 1000)
    want = double.client().ask("ListShards", StreamName="s").raw
    ca = ("--cacert", double.ca)
    for version, args in (("1.1", ("--http1.1",)), ("2", ("--http2-prior-knowledge",))):
        check_equal(curl(double, *args), ("200", version, want), "plain", args)
    for version, args in (("1.1", ("--http1.1", *ca)), ("2", ("--http2", *ca)), ("2", ("--tls-max", "1.2", *ca))):
        check_equal(curl(double, *args, url=double.tls_url), ("200", version, want), "TLS", args)
    check_equal(curl(double, url=double.tls_url)[0], 60, "curl, without our CA")
    check_equal(curl(double, "--tlsv1.0", "--tls-max", "1.1", *ca, url=double.tls_url)[0], 35, "TLS 1.1")
    check_equal(read(double.tls_client()), ["x" * 1000], "another client")
    check_equal(silent_http2(double), http2.SETTINGS, "HTTP/2 without ALPN, as the Java SDK speaks it")
    told = double.control()
    check_equal((told["h2"], told["signatures_refused"]), (4, 0), "counts")


def silent_http2(double):
    """Which frame comes first where TLS was not asked for a protocol."""
    port = int(double.tls_url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain, \
            ssl.create_default_context(cafile=double.ca).wrap_socket(plain, server_hostname="localhost") as tls:
        tls.sendall(http2.PREFACE + http2.frame(http2.SETTINGS))
        return tls.recv(9)[3]


@test(seconds=40)
def large_requests_and_answers_come_whole(folder):
    double = Double(folder, tls=True)
    client = make_stream(double.client())
    double.control(record_bytes=10 << 20)
    data = os.urandom(10 << 20)
    body = b'{"StreamName":"s","PartitionKey":"k","Data":"%s"}' % base64.b64encode(data)
    ca = ("--cacert", double.ca)
    for args, url in ((("--http1.1",), double.url), (("--http2-prior-knowledge",), double.url),
                      (("--http1.1", *ca), double.tls_url), (("--http2", *ca), double.tls_url)):
        check_equal(curl(double, *args, operation="PutRecord", body=body, url=url)[0], "200", "put", args)
    want = hashlib.sha256(data).digest()
    at = iterator(client)
    for args, url in ((("--http1.1",), double.url), (("--http2-prior-knowledge",), double.url),
                      (("--http1.1", *ca), double.tls_url), (("--http2", *ca), double.tls_url)):
        status, _, out = curl(double, *args, operation="GetRecords", body=b'{"ShardIterator":"%s"}' % at.encode(), url=url)
        found = re.search(rb'"Data":"([^"]*)"', out).group(1)
        check_equal((status, hashlib.sha256(base64.b64decode(found)).digest()), ("200", want), "get", args)
        check_equal(out.count(b'"Data"'), 1, "10 MiB are all of an answer")
        at = re.search(rb'"NextShardIterator":"([^"]*)"', out).group(1).decode()


@test(seconds=20)
def many_requests_share_a_connection(folder):
    double = Double(folder, tls=True)
    make_stream(double.client())
    pages = [part for _ in range(200) for part in ("-o", os.path.join(folder, "page"), double.tls_url + "/")]
    # On the plain port curl 7.88 gives up HTTP/2 connections that it takes up again.
    for version in ("--http1.1", "--http2"):
        before = double.control()
        done = curl(double, version, "--cacert", double.ca, *pages, url=double.tls_url)
        after = double.control()
        check_equal(done[0], "200", "curl", done)
        check_equal(after["requests"]["ListShards"] - before["requests"].get("ListShards", 0), 201, "requests")
        check(after["connections"] - before["connections"] < 4, "they were not kept")


# --- Who may ask ---

@test(seconds=20)
def a_signature_is_checked_to_the_byte(folder):
    double = Double(folder)
    good = make_stream(double.client())
    url = double.url
    body = b'{"StreamName":"s"}'
    target = {"Host": good.url.netloc, "Content-Type": JSON, "X-Amz-Target": "Kinesis_20131202.ListShards"}

    def ask(headers, sent=body):
        connection, response = good.send("ListShards", sent, headers)
        answer = Answer(response)
        connection.close()
        return answer
    signed = sign(target, body, ACCESS_KEY, SECRET_KEY)
    check_equal(ask(signed).status, 200, "signed")
    # Odd spacing is signed as if it were even.
    check_equal(ask(sign(dict(target, **{"X-Odd": "a   b  c"}), body, ACCESS_KEY, SECRET_KEY)).status, 200, "spaces")

    def without(name):
        return {key: value for key, value in signed.items() if key != name}
    bad = "InvalidSignatureException"
    for want, headers, sent in (
            (bad, signed, body + b" "),
            (bad, dict(signed, **{"Content-Type": CBOR}), cbor_encode({"StreamName": "s"})),
            (bad, dict(signed, **{"X-Amz-Target": "Kinesis_20131202.DescribeStreamSummary"}), body),
            (bad, dict(signed, Host="somewhere.else"), body),
            (bad, sign(target, body, ACCESS_KEY, SECRET_KEY + "x"), body),
            (bad, sign(target, body, ACCESS_KEY, SECRET_KEY, service="dynamodb"), body),
            (bad, sign(target, body, ACCESS_KEY, SECRET_KEY, region="eu-west-1"), body),
            (bad, dict(sign({"Host": target["Host"], "Content-Type": JSON}, body, ACCESS_KEY, SECRET_KEY),
                       **{"X-Amz-Target": target["X-Amz-Target"]}), body),
            ("UnrecognizedClientException", sign(target, body, "AKIDNOBODY", SECRET_KEY), body),
            ("UnrecognizedClientException", dict(signed, **{"X-Amz-Security-Token": "unasked"}), body),
            ("IncompleteSignatureException", without("X-Amz-Date"), body),
            ("IncompleteSignatureException", dict(signed, Authorization="AWS4-HMAC-SHA256 nonsense"), body),
            ("MissingAuthenticationTokenException", without("Authorization"), body)):
        check_equal(refusal(ask(headers, sent)), (400, want), "headers", headers)
    told = ask(sign(target, body, ACCESS_KEY, "wrong")).message
    check("The request signature we calculated does not match the signature you provided." in told, told)
    check("The Canonical String for this request should have been\n'POST\n/\n\ncontent-type:" in told, told)
    check_equal(curl(double, "--http1.1")[0], "200", "curl signs, too")
    check_equal(Kinesis(url, access_key="x").ask("ListShards", StreamName="s").message,
                "The security token included in the request is invalid.", "text")


@test(seconds=20)
def clocks_that_differ_are_told(folder):
    double, client = begin(folder)
    late, early = double.client(skew_s=-301), double.client(skew_s=301)
    for close in (-295, 295):
        check_equal(double.client(skew_s=close).ask("ListShards", StreamName="s").status, 200, close)
    told = late.ask("ListShards", StreamName="s")
    check_equal(refusal(told), (400, "InvalidSignatureException"), "late")
    check(re.fullmatch(r"Signature expired: \d{8}T\d{6}Z is now earlier than \d{8}T\d{6}Z \(\d{8}T\d{6}Z - 5 min\.\)",
                       told.message), told)
    told = early.ask("ListShards", StreamName="s")
    check(re.fullmatch(r"Signature not yet current: \d{8}T\d{6}Z is still later than \d{8}T\d{6}Z "
                       r"\(\d{8}T\d{6}Z \+ 5 min\.\)", told.message), told)
    # The server's clock is wrong: who goes by its Date gets through.
    double.control(clock_ms=3600 * 1000)
    told = client.ask("ListShards", StreamName="s")
    check_equal(refusal(told), (400, "InvalidSignatureException"), "ours is an hour behind")
    check_equal(told.headers["date"][:14], utc_now(3600).strftime("%a, %d %b %Y %H:%M:%S GMT")[:14], "Date")
    check_equal(double.client(skew_s=3600).ask("ListShards", StreamName="s").status, 200, "corrected")


@test(seconds=20)
def tokens_expire_and_rights_end(folder):
    double, client = begin(folder)
    far, past = int(time.time() * 1000) + 3600000, int(time.time() * 1000) - 1
    double.control(credentials=[
        {"access_key": "ASIAGOOD", "secret_key": "g", "token": "t" * 1000, "expires_ms": far},
        {"access_key": "ASIAOLD", "secret_key": "o", "token": "t", "expires_ms": past},
        {"access_key": "AKIDNARROW", "secret_key": "n", "denied": "GetRecords"}])
    check_equal(refusal(client.ask("ListShards", StreamName="s")), (400, "UnrecognizedClientException"), "the old ones")
    good = double.client(access_key="ASIAGOOD", secret_key="g", token="t" * 1000)
    at = iterator(good)
    good.token = "u"
    check_equal(refusal(good.ask("ListShards", StreamName="s")), (400, "UnrecognizedClientException"), "another token")
    old = double.client(access_key="ASIAOLD", secret_key="o", token="t")
    check_equal(refusal(old.ask("ListShards", StreamName="s")), (400, "ExpiredTokenException"), "expired")
    narrow = double.client(access_key="AKIDNARROW", secret_key="n")
    narrow.must("ListShards", StreamName="s")
    told = narrow.ask("GetRecords", ShardIterator=at)
    check_equal(refusal(told), (400, "AccessDeniedException"), "denied")
    check("is not authorized to perform: kinesis:GetRecords on resource: arn:aws:kinesis:" in told.message, told)
    double.control(credentials=[])
    check_equal(double.client(access_key="x", secret_key="y").ask("ListShards", StreamName="s").status, 200, "anybody")


# --- Time ---

@test(seconds=20)
def iterators_and_tokens_expire_by_scaled_clocks(folder):
    double, client = begin(folder, shards=3)
    put(client, "x")
    at, page = iterator(client, shard=SECOND), client.must("ListShards", StreamName="s", MaxResults=1)["NextToken"]
    double.control(scale=1000)
    time.sleep(0.4)
    told = client.ask("GetRecords", ShardIterator=at)
    check_equal(refusal(told), (400, "ExpiredIteratorException"), "after 400 s")
    check(re.fullmatch(r"Iterator expired\. The iterator was created at time \w{3} \w{3} \d\d \d\d:\d\d:\d\d UTC \d{4} "
                       r"while right now it is \w{3} \w{3} \d\d \d\d:\d\d:\d\d UTC \d{4} which is further in the future "
                       r"than the tolerated delay of 300000 milliseconds\.", told.message), told)
    check_equal(refusal(client.ask("ListShards", NextToken=page)), (400, "ExpiredNextTokenException"), "after 400 s")
    double.control(scale=1)
    check_equal(texts_of(client.must("GetRecords", ShardIterator=at)["Records"]), ["x"], "of this minute again")


@test(seconds=20)
def records_are_trimmed_and_closed_shards_go(folder):
    double, client = begin(folder)
    old = put(client, "old")[0]
    split(client)
    shards = client.must("ListShards", StreamName="s")["Shards"]
    check_equal([shard["ShardId"] for shard in shards], [FIRST, SECOND, THIRD], "listed")
    put(client, "child")
    double.control(retention_span=300)
    wait_until(lambda: len(client.must("ListShards", StreamName="s")["Shards"]) == 2, 5, "the parent is gone")
    for shard in client.must("ListShards", StreamName="s")["Shards"]:
        check("ParentShardId" not in shard, "a parent that is gone:", shard)
    told = client.ask("GetShardIterator", StreamName="s", ShardId=FIRST, ShardIteratorType="TRIM_HORIZON")
    check_equal(refusal(told), (400, "ResourceNotFoundException"), "a shard that is gone")
    wait_until(lambda: read(client, shard=THIRD) == [], 5, "the child's record is trimmed")
    kept = put(client, "kept")[0]
    check_equal(read(client, shard=THIRD), ["kept"], "from the horizon")
    check_equal(read(client, "AT_SEQUENCE_NUMBER", THIRD, StartingSequenceNumber=kept), ["kept"], "from its number")
    check(int(old) < int(kept), "numbers grow over a split")


@test(seconds=20)
def changes_of_a_stream_take_their_time(folder):
    double = Double(folder)
    double.control(change_span=400)
    client = double.client()
    client.must("CreateStream", StreamName="s", ShardCount=1)

    def status():
        answer = client.ask("DescribeStreamSummary", StreamName="s")
        return answer.body["StreamDescriptionSummary"]["StreamStatus"] if answer.status == 200 else answer.code
    check_equal(status(), "CREATING", "at first")
    record = {"Data": "eA==", "PartitionKey": "k"}
    check_equal(refusal(client.ask("PutRecord", StreamName="s", **record)), (400, "ResourceNotFoundException"), "early")
    wait_active(client)
    client.must("SplitShard", StreamName="s", ShardToSplit=FIRST, NewStartingHashKey="1000")
    check_equal((status(), len(client.must("ListShards", StreamName="s")["Shards"])), ("UPDATING", 1), "split")
    check_equal(client.must("PutRecord", StreamName="s", **record)["ShardId"], FIRST, "meanwhile")
    told = client.ask("MergeShards", StreamName="s", ShardToMerge=FIRST, AdjacentShardToMerge=SECOND)
    check_equal((refusal(told), told.message), ((400, "ResourceInUseException"),
                "Stream s under account 123456789012 not ACTIVE, instead in state UPDATING"), "one at a time")
    wait_active(client)
    check_equal(len(client.must("ListShards", StreamName="s")["Shards"]), 3, "then")
    client.must("DeleteStream", StreamName="s")
    check_equal((status(), read(client)), ("DELETING", ["x"]), "still there")
    wait_until(lambda: status() == "ResourceNotFoundException", 5, "it is gone")


# --- Rates and faults ---

@test(seconds=30)
def rates_are_those_of_aws(folder):
    double, client = begin(folder)
    double.control(limits=1, second_span=60000, pause_span=600000)
    at = iterator(client)
    answers = [client.ask("GetRecords", ShardIterator=at) for _ in range(7)]
    check_equal([answer.status for answer in answers], [200] * 5 + [400] * 2, "5 reads a second")
    check_equal((answers[5].code, answers[5].message),
                (RATE, f"Rate exceeded for shard {FIRST} in stream s under account 123456789012."), "its text")
    told = [client.ask("GetShardIterator", StreamName="s", ShardId=FIRST, ShardIteratorType="LATEST") for _ in range(5)]
    check_equal([refusal(answer) for answer in told[-2:]], [(200, ""), (400, RATE)], "5 iterators a second")
    entries = [{"Data": base64.b64encode(bytes(300000)).decode(), "PartitionKey": "k"} for _ in range(6)]
    answer = client.must("PutRecords", StreamName="s", Records=entries)
    check_equal((answer["FailedRecordCount"], [record.get("ErrorCode") for record in answer["Records"]]),
                (2, [None] * 4 + [RATE] * 2), "1 MiB a second")
    check_equal(answer["Records"][-1]["ErrorMessage"], answers[5].message, "its text")
    told = [client.ask("DescribeStreamSummary", StreamName="s") for _ in range(22)]
    check_equal((refusal(told[-1]), told[-1].message), ((400, "LimitExceededException"),
                "Rate exceeded for stream s under account 123456789012."), "20 descriptions a second")
    # 10 MiB of a shard, and it is not read for 5 s.
    double.control(limits=0)
    for _ in range(11):
        client.must("PutRecords", StreamName="s", Records=[
            {"Data": base64.b64encode(bytes(1000000)).decode(), "PartitionKey": "k"}])
    double.control(limits=1, second_span=1)
    first = client.must("GetRecords", ShardIterator=iterator(client))
    time.sleep(0.01)
    told = client.ask("GetRecords", ShardIterator=first["NextShardIterator"])
    check_equal(refusal(told), (400, RATE), "after 10 MiB")
    double.control(limits=0)
    rest = client.must("GetRecords", ShardIterator=first["NextShardIterator"])
    check_equal(len(first["Records"]) + len(rest["Records"]), 15, "and nothing is lost")


@test(seconds=30)
def faults_of_a_call_are_what_they_say(folder):
    double, client = begin(folder)
    client.timeout = 1

    def fault(kind, **more):
        double.control(faults=[dict({"kind": kind, "operation": "PutRecord"}, **more)])

    def try_put(text):
        return how_it_breaks(client, "PutRecord", StreamName="s", PartitionKey="k",
                             Data=base64.b64encode(text.encode()).decode())
    for kind, want in (("refuse", "ConnectionResetError"), ("lose", "ConnectionResetError"), ("hang", "TimeoutError"),
                       ("cut", "IncompleteRead"), ("garbage", "UnicodeDecodeError"), ("late", 200)):
        fault(kind, delay_ms=300)
        started = time.monotonic()
        check_equal(try_put(kind), want, kind)
        check(kind != "late" or time.monotonic() - started >= 0.3, "late is late")
        check_equal(try_put("after " + kind), 200, "the next one")
    done = [kind for kind in ("lose", "hang", "cut", "garbage", "late")]
    check_equal([text for text in read(client) if not text.startswith("after")], done, "what was done all the same")

    for code, status in ((RATE, 400), ("LimitExceededException", 400), ("KMSThrottlingException", 400),
                         ("KMSDisabledException", 400), ("InternalFailure", 500), ("ServiceUnavailable", 503)):
        fault("error", code=code)
        answer = client.ask("PutRecord", StreamName="s", PartitionKey="k", Data="")
        check_equal(refusal(answer), (status, code), "an error")
    fault("error", code="ThrottlingException", status=429, message="Slow down.", header="x-amz-retry-after: 1500")
    answer = client.ask("PutRecord", StreamName="s", PartitionKey="k", Data="")
    check_equal((answer.status, answer.message, answer.headers["x-amz-retry-after"]), (429, "Slow down.", "1500"), "mine")


@test(seconds=20)
def faults_hit_whom_and_when_they_are_told(folder):
    double, client = begin(folder, shards=2)
    ats = {shard: iterator(client, shard=shard) for shard in (FIRST, SECOND)}

    def statuses(count, shard=FIRST):
        return [client.ask("GetRecords", ShardIterator=ats[shard]).status for _ in range(count)]
    double.control(faults=[{"kind": "error", "code": RATE, "operation": "GetRecords", "skip": 2, "count": 3}])
    check_equal(statuses(7), [200, 200, 400, 400, 400, 200, 200], "skip and count")
    double.control(faults=[{"kind": "error", "code": RATE, "shard": SECOND, "count": 1000}])
    check_equal((statuses(3), statuses(3, SECOND)), ([200] * 3, [400] * 3), "shard")
    double.control(heal=True)
    check_equal(statuses(3, SECOND), [200] * 3, "healed")
    double.control(faults=[{"kind": "error", "code": RATE, "count": 1000, "percent": 30}])
    hit = statuses(200).count(400)
    check(30 <= hit <= 90, f"30 percent were {hit} of 200")
    for wrong in ({"faults": [{"kind": "x"}]}, {"faults": [{"kind": "error"}]}, {"knob": 1}, {"limits": "y"}, {"scale": 0},
                  {"volume": {"stream": "nobody"}}, {"credentials": [{}]}):
        try:
            double.control(**wrong)
        except AssertionError:
            continue
        check(False, "taken:", wrong)


# --- Fan-out ---

@test(seconds=20)
def a_subscription_tells_everything_and_ends_with_its_shard(folder):
    double, client = begin(folder, heartbeat_span=50)
    arn = consumer(client)
    for cbor in (False, True):
        client.cbor = cbor
        put(client, "one", "two")
    client.cbor = False
    binary = subscribe(double.client(cbor=True), arn)
    event = binary.event()
    check_equal((texts_of(event.payload["Records"]), event.headers[":content-type"]), (["one", "two"] * 2, CBOR), "CBOR")
    binary.close()
    double.control(takeover_span=0)
    subscription = subscribe(client, arn)
    check_equal(subscription.headers["content-type"], "application/vnd.amazon.eventstream", "type")
    first, empty = subscription.event(), subscription.event()
    check_equal((texts_of(first.payload["Records"]), first.headers[":content-type"]), (["one", "two"] * 2, JSON), "JSON")
    check_equal(first.payload["ContinuationSequenceNumber"], first.payload["Records"][-1]["SequenceNumber"], "go on at")
    check_equal((empty.payload["Records"], empty.payload["MillisBehindLatest"]), ([], 0), "a heartbeat")
    later = put(client, "later")[0]
    event = next(event for event in subscription.events() if event.payload["Records"])
    check_equal(texts_of(event.payload["Records"]), ["later"], "as it comes")
    split(client)
    *_, last = subscription.events()
    check("ContinuationSequenceNumber" not in last.payload, "the end goes on:", last)
    check_equal([(child["ShardId"], child["ParentShards"]) for child in last.payload["ChildShards"]],
                [(SECOND, [FIRST]), (THIRD, [FIRST])], "children")
    again = subscribe(client, arn, kind="AFTER_SEQUENCE_NUMBER", SequenceNumber=later)
    check_equal([len(event.payload["ChildShards"]) for event in again.events()], [2], "after the last one")


@test(seconds=20)
def a_consumer_has_one_subscription_to_a_shard(folder):
    double, client = begin(folder, takeover_span=4000)
    arn, other = consumer(client), consumer(client, "d")
    first = subscribe(client, arn)
    told = client.subscribe(ConsumerARN=arn, ShardId=FIRST, StartingPosition={"Type": "LATEST"})
    check_equal((refusal(told), told.message), ((400, "ResourceInUseException"), "Another active subscription exists for "
                f"this consumer: 123456789012:s:{FIRST}:c"), "within 5 s")
    subscribe(client, other).close()
    time.sleep(4.1)
    second = subscribe(client, arn)
    *_, last = first.events()
    check_equal((last.message_type, last.type), ("exception", "ResourceInUseException"), "the first one, after 5 s")
    second.close()
    told = client.subscribe(ConsumerARN=arn, ShardId=FIRST, StartingPosition={"Type": "LATEST"})
    check_equal(refusal(told), (400, "ResourceInUseException"), "even when the other one is gone")
    double.control(scale=1000)
    time.sleep(0.1)  # A hundred seconds there, more than the take-over span.
    third = subscribe(client, arn, kind="LATEST")
    events = list(third.events())
    check(len(events) > 3 and events[-1].type == "SubscribeToShardEvent", "five minutes, then an end without a word", events)
    double.control(change_span=5000)
    made = client.must("RegisterStreamConsumer", StreamARN=arn.split("/consumer/")[0], ConsumerName="new")["Consumer"]
    told = client.subscribe(ConsumerARN=made["ConsumerARN"], ShardId=FIRST, StartingPosition={"Type": "LATEST"})
    check_equal(refusal(told), (400, "ResourceInUseException"), "not active yet")
    check(re.fullmatch(r"Consumer new with creation timestamp \d+ under stream: s , account 123456789012 is not in ACTIVE "
                       r"status\.", told.message), told)


@test(seconds=20)
def a_subscription_fails_in_every_way(folder):
    double, client = begin(folder, heartbeat_span=20, takeover_span=0)
    arn = consumer(client)
    client.timeout = 3
    put(client, "x")

    def how_it_ends(kind, **more):
        """The last event, or what came instead of it."""
        double.control(faults=[dict({"kind": kind, "skip": 1}, **more)])
        subscription = subscribe(client, arn)
        event = None
        try:
            for count, event in enumerate(subscription.events()):
                check(count < 100, "it never ends")
        except Exception as err:
            event = err
        finally:
            subscription.close()
        return event
    end = how_it_ends("exception", code="KMSThrottlingException")
    check_equal((end.message_type, end.type, end.payload), ("exception", "KMSThrottlingException",
                {"message": "The request was denied due to request throttling."}), "exception")
    end = how_it_ends("stream-error", code="InternalFailure", message="Ouch.")
    check_equal((end.message_type, end.type, end.headers[":error-message"]), ("error", "InternalFailure", "Ouch."), "error")
    for kind, want in (("bad-crc", "message"), ("cut-event", "cut"), ("garbage-event", "prelude")):
        end = how_it_ends(kind)
        check(isinstance(end, Broken), kind, end)
        check(want in str(end) or "IncompleteRead" in str(end), kind, end)
    check(isinstance(how_it_ends("silence"), TimeoutError), "silence")
    check_equal(how_it_ends("end").type, "SubscribeToShardEvent", "end")
    double.control(faults=[{"kind": "no-initial"}])
    bare = client.subscribe(ConsumerARN=arn, ShardId=FIRST, StartingPosition={"Type": "LATEST"})
    check_equal(bare.event().type, "SubscribeToShardEvent", "no initial response")
    client.must("DeleteStream", StreamName="s")
    *_, last = bare.events()
    check_equal((last.message_type, last.type), ("exception", "ResourceNotFoundException"), "the stream is deleted")
    wait_until(lambda: double.control()["subscriptions_open"] == 0, 5, "all are over")


@test(seconds=20)
def subscriptions_share_an_http_2_connection(folder):
    double, client = begin(folder, shards=2, heartbeat_span=50, subscription_span=1500)
    arn = consumer(client)
    put(client, "x" * 100000)
    bodies = [os.path.join(folder, shard) for shard in (FIRST, SECOND)]
    args = []
    for shard, body in zip((FIRST, SECOND), bodies):
        members = '{"ConsumerARN":"%s","ShardId":"%s","StartingPosition":{"Type":"TRIM_HORIZON"}}' % (arn, shard)
        args += ["--next"] if args else []
        args += ["-s", "--http2-prior-knowledge", "--aws-sigv4", f"aws:amz:{REGION}:kinesis", "--user",
                 f"{ACCESS_KEY}:{SECRET_KEY}", "-H", "X-Amz-Target: Kinesis_20131202.SubscribeToShard", "-H",
                 f"Content-Type: {JSON}", "-d", members, "-o", body, double.url + "/"]
    before = double.control()["connections"]
    curls = spawn(["curl", "--no-progress-meter", "--parallel", "--parallel-immediate", *args])
    check_equal(curls.wait(15), 0, "curl")
    told = double.control()
    check_equal((told["subscriptions"], told["subscriptions_open"]), (2, 0), "both, and both at an end")
    check(told["connections"] - before <= 4, "connections", told)
    sizes = []
    for body in bodies:
        with open(body, "rb") as file:
            whole = file.read()
        check(whole.count(b"initial-response") == 1 and whole.count(b"SubscribeToShardEvent") > 5, "events of", body)
        sizes.append(len(whole))
    check(max(sizes) > 100000, "the record came", sizes)


# --- Volume ---

def numbers_of(records):
    return [int(record["PartitionKey"][len("key-"):]) for record in records]


@test(seconds=40)
def a_volume_is_a_stream_like_any_other(folder):
    double, client = begin(folder, shards=2, heartbeat_span=50, takeover_span=0)
    double.control(volume={"stream": "s", "bytes": 700, "records": 25000})
    for cbor in (False, True):
        client.cbor = cbor
        at, seen, last = iterator(client), [], 0
        while True:
            answer = client.must("GetRecords", ShardIterator=at)
            seen += answer["Records"]
            at = answer["NextShardIterator"]
            if not answer["Records"]:
                break
        check_equal(numbers_of(seen), list(range(25000)), "each once and in order")
        for record in seen:
            check(int(record["SequenceNumber"]) > last, "numbers grow", record)
            last = int(record["SequenceNumber"])
        size = {len(record["Data"]) for record in seen}
        check_equal(size, {700} if cbor else {936}, "sizes")
        check(answer["MillisBehindLatest"] == 0, "at the tip", answer["MillisBehindLatest"])
        middle = seen[20000]["SequenceNumber"]
        for kind, begins in (("AT_SEQUENCE_NUMBER", 20000), ("AFTER_SEQUENCE_NUMBER", 20001)):
            answer = client.must("GetRecords", ShardIterator=iterator(client, kind, StartingSequenceNumber=middle), Limit=3)
            check_equal(numbers_of(answer["Records"]), list(range(begins, begins + 3)), kind)
    subscription = subscribe(double.client(), consumer(double.client()))
    seen = []
    for event in subscription.events():
        seen += event.payload["Records"]
        if len(seen) == 25000:
            break
    check_equal(numbers_of(seen), list(range(25000)), "by fan-out")
    subscription.close()
    told = client.ask("PutRecord", StreamName="s", PartitionKey="k", Data=b"")
    check_equal(refusal(told), (400, "InvalidArgumentException"), "it makes its own")


@test(seconds=20)
def a_volume_appears_by_and_by_and_is_resharded(folder):
    double, client = begin(folder)
    double.control(volume={"stream": "s", "bytes": 10, "per_second": 1000})
    at, count, last, started = iterator(client), 0, 0, None
    while count < 300:
        answer = client.must("GetRecords", ShardIterator=at)
        at = answer["NextShardIterator"]
        for record in answer["Records"]:
            check(record["ApproximateArrivalTimestamp"] >= last, "arrivals go back", record)
            last = record["ApproximateArrivalTimestamp"]
            started = started or last
        check_equal(numbers_of(answer["Records"]), list(range(count, count + len(answer["Records"]))), "in order")
        count += len(answer["Records"])
        check(last < time.time() + 0.01, "of the future")
    check(time.time() - started >= 0.29, "faster than said")
    middle = started + 0.15
    answer = client.must("GetRecords", ShardIterator=iterator(client, "AT_TIMESTAMP", Timestamp=middle), Limit=1)
    check(abs(answer["Records"][0]["ApproximateArrivalTimestamp"] - middle) < 0.003, "by time", answer)
    split(client)
    while at is not None:
        answer = client.must("GetRecords", ShardIterator=at)
        count += len(answer["Records"])
        at = answer.get("NextShardIterator")
    check_equal(len(answer["ChildShards"]), 2, "children")
    for child in (SECOND, THIRD):
        wait_until(lambda shard=child: client.must("GetRecords", ShardIterator=iterator(client, shard=shard))["Records"], 5,
                   "the children go on")
    answer = client.must("GetRecords", ShardIterator=iterator(client, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=(
        client.must("ListShards", StreamName="s")["Shards"][0]["SequenceNumberRange"]["EndingSequenceNumber"])))
    check_equal((answer["Records"], "NextShardIterator" in answer), ([], False), "after its end")


@test(seconds=20)
def it_dies_with_its_parent(folder):
    ports = os.path.join(folder, "ports")
    parent = spawn(["sh", "-c", f"KS_PORTS={ports} {Double.PROGRAM} 0 & wait"])
    wait_until(lambda: os.path.exists(ports) and open(ports, encoding="ascii").read().endswith("\n"), 5, "it listens")
    with open(ports, encoding="ascii") as file:
        where = ("127.0.0.1", int(file.read()))

    def listens():
        with socket.socket() as probe:
            return probe.connect_ex(where) == 0
    check(listens(), "nobody there")
    parent.kill()
    parent.wait()
    wait_until(lambda: not listens(), 5, "it is gone")


if __name__ == "__main__":
    main()
