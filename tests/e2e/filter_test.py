#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Filters on the real binary: what the patterns do not match is never delivered, counts as settled, and is counted. The
filter of a subscription (--filter), and the filter of its sessions."""

import json
import os
import urllib.parse

from lib import RawStream, Sidecar, check, check_equal, data_of, main, test, wait_until

BUYS = json.dumps({"data": {"order": {"type": ["buy"], "quantity": [{"numeric": [">=", 10]}]}}})


def checkpoint(sidecar):
    """Of the one shard, "" while it is not known."""
    return next((shard["checkpoint"] for shard in sidecar.get("/v1/shards")["shards"]), "")


def order(number, kind, quantity):
    return f"key-{number}", json.dumps({"order": {"type": kind, "quantity": quantity}}).encode()


@test(60)
def only_what_matches_is_delivered_and_the_checkpoint_passes_the_rest(folder):
    sidecar = Sidecar.local(folder, local_shards=1, filter=BUYS).start()
    placed = sidecar.put([order(0, "sell", 50), order(1, "buy", 9), order(2, "buy", 10), ("key-3", b"no JSON"),
                          order(4, "buy", 11), order(5, "sell", 1)])
    stream = RawStream(sidecar, "client_id=app")
    records = stream.records(2)
    check_equal([json.loads(data_of(record))["order"]["quantity"] for record in records], [10, 11], "delivered")
    for record in records:
        answer = sidecar.call("POST", "/v1/records/ack", {"ack_ids": [record["ack_id"]], "wait": "persisted"})
        check_equal((answer.status, answer.json["persisted"]), (200, True), answer)
    wait_until(lambda: checkpoint(sidecar) == placed[-1][1], 20, "all is settled")
    check_equal(sidecar.metric("records_filtered_total"), 4, "counted")


@test(60)
def a_stream_of_nothing_that_matches_moves_its_checkpoint(folder):
    path = os.path.join(folder, "filter.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"Filters": [{"Pattern": json.dumps({"partitionKey": [{"prefix": "eu-"}]})}]}, file)
    sidecar = Sidecar.local(folder, local_shards=1, filter=path).start()
    stream = RawStream(sidecar, "client_id=app")
    stream.until("session")
    placed = sidecar.put([(f"us-{number}", b"x") for number in range(300)])
    wait_until(lambda: checkpoint(sidecar) == placed[-1][1], 20, "all is settled")
    sidecar.put([("eu-1", b"wanted")])
    check_equal([data_of(record) for record in stream.records(1)], [b"wanted"], "delivered")


@test(30)
def a_filter_that_is_none_is_told_at_the_start(folder):
    for value, why in ((json.dumps({"data": {"a": "b"}}), "--filter: "), ("/no/such/file", "--filter: /no/such/file cannot be read")):
        sidecar = Sidecar.local(folder, local_shards=1, filter=value)
        sidecar.start(ready=False)
        check_equal(sidecar.process.wait(20), 2, "it ends")
        check(why in sidecar.said(), sidecar.said())


# The filter of the sessions.

OPEN = "/kinesis_sidecar.v1.Consumer/OpenSession"
PULL = "/kinesis_sidecar.v1.Consumer/Pull"
EU = json.dumps({"partitionKey": [{"prefix": "eu-"}]})
US = json.dumps({"partitionKey": [{"prefix": "us-"}]})


def query(client_id, pattern, **more):
    return urllib.parse.urlencode({"client_id": client_id, "filter": pattern, **more})


def acknowledge(sidecar, records):
    answer = sidecar.call("POST", "/v1/records/ack", {"ack_ids": [one["ack_id"] for one in records], "wait": "persisted"})
    check_equal((answer.status, answer.json["persisted"]), (200, True), answer)


def keys(records):
    return [record["partition_key"] for record in records]


def put_mixed(sidecar, first, count):
    """eu-N and us-N by turns; returns the sequence number of the last one."""
    return sidecar.put([(f"{'eu' if number % 2 == 0 else 'us'}-{number}", b"{}") for number in range(first, first + count)])[-1][1]


@test(60)
def a_stream_with_a_filter_gets_what_matches_and_the_checkpoint_passes_the_rest(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    put_mixed(sidecar, 0, 4)  # They wait when the session opens.
    stream = RawStream(sidecar, query("app", EU, heartbeat_ms=100))
    records = stream.records(2)
    last = put_mixed(sidecar, 4, 6)  # They come while it is open.
    records += stream.records(3)
    check_equal(keys(records), ["eu-0", "eu-2", "eu-4", "eu-6", "eu-8"], "delivered")
    acknowledge(sidecar, records)
    wait_until(lambda: checkpoint(sidecar) == last, 20, "all is settled")
    wait_until(lambda: sidecar.metric("records_filtered_total") == 5, 10, "counted")
    check_equal(sidecar.metric("records_delivered_total"), 5, "excluded records cost no delivery")
    check_equal([one["filter"] for one in sidecar.get("/v1/sessions")["sessions"]], [EU], "shown")
    stream.until("heartbeat")
    check_equal([line["type"] for line in stream.until("heartbeat")], ["heartbeat"], "nothing else")
    stream.close()


@test(60)
def a_session_that_a_call_opened_with_a_filter_pulls_what_matches(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    last = put_mixed(sidecar, 0, 5)
    check_equal(sidecar.call("POST", OPEN, {"clientId": "app", "filter": US}).status, 200, "opened")
    got = []
    while len(got) < 2:
        answer = sidecar.call("POST", PULL, {"session": "app", "waitMs": "5000"})
        check_equal(answer.status, 200, answer)
        got += answer.json.get("records", [])
    check_equal([one["partitionKey"] for one in got], ["us-1", "us-3"], "delivered")
    answer = sidecar.call("POST", "/v1/records/ack", {"ack_ids": [one["ackId"] for one in got], "wait": "persisted"})
    check_equal((answer.status, answer.json["persisted"]), (200, True), answer)
    wait_until(lambda: checkpoint(sidecar) == last, 20, "all is settled")


@test(60)
def a_poll_with_a_filter_makes_a_session_that_keeps_it(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    put_mixed(sidecar, 0, 4)
    poll = "/v1/records?" + urllib.parse.urlencode({"session": "app", "filter": EU, "wait_ms": 5000})
    got = []
    while len(got) < 2:
        got += sidecar.get(poll)["records"]
    check_equal(keys(got), ["eu-0", "eu-2"], "delivered")
    answer = sidecar.call("GET", "/v1/records?" + urllib.parse.urlencode({"session": "app", "filter": US}))
    check_equal((answer.status, "with another filter" in answer.json["detail"]), (409, True), answer)
    answer = sidecar.call("GET", "/v1/records?" + urllib.parse.urlencode({"filter": US}))
    check_equal((answer.status, answer.json["detail"]), (400, "filter goes with session=NAME"), answer)
    check_equal(sidecar.call("GET", "/v1/records?session=app&wait_ms=0").status, 200, "it goes on without saying it again")


@test(60)
def a_take_over_with_another_filter_judges_what_waits_and_loses_nothing(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    put_mixed(sidecar, 0, 4)
    first = RawStream(sidecar, query("app", EU))
    records = first.records(2)
    check_equal(keys(records), ["eu-0", "eu-2"], "the first filter")
    acknowledge(sidecar, records[:1])
    # us-1 was excluded when eu-0 was judged. eu-2 is in flight: the new filter excludes it. What comes now it judges.
    second = RawStream(sidecar, query("app", US))
    last = put_mixed(sidecar, 4, 4)
    records = second.records(2)
    check_equal(keys(records), ["us-5", "us-7"], "the second filter")
    acknowledge(sidecar, records)
    wait_until(lambda: checkpoint(sidecar) == last, 20, "all is settled")
    # Without a filter all is delivered again.
    third = RawStream(sidecar, "client_id=app")
    put_mixed(sidecar, 8, 2)
    check_equal(keys(third.records(2)), ["eu-8", "us-9"], "no filter")
    for stream in (first, second, third):
        stream.close()


@test(60)
def what_no_filter_can_be_is_refused_with_the_place_and_another_filter_with_a_conflict(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    stream = "/v1/records/stream?"
    for pattern, status, says in (
            ("{", 400, "filter: "), ('{"data":{"a":"b"}}', 400, "data.a"), ('{"data":{"a":[{"cidr":"10.0.0.0/8"}]}}', 400, "data.a"),
            ("x" * 1000, 400, "filter: "), ("", 400, "filter has no value")):
        answer = sidecar.call("GET", stream + query("a", pattern))
        check_equal((answer.status, says in answer.json["detail"]), (status, True), answer)
    check_equal(sidecar.call("GET", stream + query("a", "{" * 6000)).status, 431, "the head has at most 16 KiB")
    answer = sidecar.call("POST", OPEN, {"clientId": "a", "filter": json.dumps({"data": {"a": ["x" * (64 << 10)]}})})
    check_equal((answer.status, answer.json["message"].startswith("filter: ")), (400, True), answer)
    check_equal(sidecar.get("/v1/sessions")["sessions"], [], "none was opened")

    opened = RawStream(sidecar, query("one", EU))
    opened.until("session")
    for other in (query("two", US), "client_id=two"):
        answer = sidecar.call("GET", stream + other)
        check_equal((answer.status, answer.json["type"].endswith("ordering-conflict")), (409, True), answer)
        check("use a subscription of its own" in answer.json["detail"], answer)
    answer = sidecar.call("POST", OPEN, {"clientId": "two"})
    check_equal((answer.status, answer.json["code"]), (409, "aborted"), answer)
    check_equal(sidecar.call("POST", OPEN, {"clientId": "two", "filter": EU}).status, 200, "the same filter")
    answer = sidecar.call("GET", stream + query("one", US))
    check_equal(answer.status, 409, "a take-over beside another session")
    opened.close()


main()
