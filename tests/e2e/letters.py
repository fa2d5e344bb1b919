# SPDX-License-Identifier: Apache-2.0
"""What the tests of the stores of dead letters share: giving records up, lists, redrives, and the long story of both."""

import os
import time

from lib import RawStream, check, check_equal, data_of, make_stream, put_kinesis, wait_until

SHARDS = 2
AT_A_TIME = 50  # Letters whose changes are awaited: a server in Python takes its time beside others.


def application(folder):
    return "letters-" + os.path.basename(folder).replace("_", "-")


def settle(sidecar, records, outcome, **more):
    items = [{"ack_id": record["ack_id"], "outcome": outcome, **more} for record in records]
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": items, "wait": "persisted", "wait_ms": 60000},
                          timeout=90)
    check_equal((answer.status, answer.json["failed"]), (200, []), answer)
    check(answer.json["persisted"], answer.json)


def letters(sidecar):
    found, token = [], ""
    while token is not None:
        page = sidecar.get("/v1/dead-letters?scope=fleet&page_size=100" + (f"&page_token={token}" if token else ""))
        found += page["dead_letters"]
        token = page.get("next_page_token") or None
    return found


def redrive(sidecar, letter):
    return sidecar.call("POST", f"/v1/dead-letters/{letter['id']}/redrive")


def discard(sidecar, letter):
    return sidecar.call("POST", f"/v1/dead-letters/{letter['id']}/discard")


def put(folder, count):
    put_kinesis(application(folder), [(f"key-{number}", b"letter-%d" % number) for number in range(count)])


def begin_with_letters(folder, worker, shards, count, **more):
    """A worker that has given up `count` records of a new stream; with its stream of records."""
    make_stream(application(folder), shards)
    first = worker(folder, "first").start()
    put(folder, count)
    stream = RawStream(first, "client_id=app")
    records = stream.records(count)
    settle(first, records, "dead_letter", **more)
    return first, stream, records


def redrive_all(sidecar, found, records):
    """Redrives the letters, acknowledges all of them but ten, and gives these up again."""
    for letter in found:
        answer = redrive(sidecar, letter)
        check_equal(answer.status, 200, answer)
    again = RawStream(sidecar, "client_id=app").records(len(records))
    check_equal(sorted(data_of(record) for record in again), sorted(data_of(record) for record in records), "the records")
    check(all(record["redriven"] and record["attempt"] == 2 for record in again), again[0])
    settle(sidecar, again[10:], "ack")
    settle(sidecar, again[:10], "dead_letter", reason="bad again")
    left = wait_until(lambda: len(letters(sidecar)) == 10 and letters(sidecar), 20, "the others are gone")
    check_equal({(letter["reason"], letter["attempts"]) for letter in left}, {("bad again", 2)}, "given up again")


def bury_what_comes(sidecar):
    """Gives up what a pull brings; the letters that there are then."""
    records = sidecar.get("/v1/records?max_records=200&wait_ms=500")["records"]
    if records:
        settle(sidecar, records, "dead_letter")
    return letters(sidecar)


def survive(folder, worker, proxy, throttle, count):
    """Gives up `count` records under faults of `proxy`, and a kill; another worker finds each letter once, and redrives
    and acknowledges all of them. Returns that worker. What the proxy does is about the operation that it was told."""
    make_stream(application(folder), SHARDS)
    first = worker(folder, "first", url=proxy.url, lease_duration_ms=6000).start()
    put(folder, count)
    records = RawStream(first, "client_id=app&max_in_flight=2000").records(count)
    for fault, part in zip(("heal", f"refuse {throttle} 20", "lose 20", "cut"), range(0, count, count // 4)):
        proxy.do(fault)
        outcomes = [{"ack_id": record["ack_id"], "outcome": "dead_letter"} for record in records[part:part + count // 4]]
        check_equal(first.call("POST", "/v1/records/settle", {"settlements": outcomes}).json["failed"], [], fault)
        time.sleep(1)
    first.kill()
    proxy.do("heal")

    second = worker(folder, "second").start()
    there = len(letters(second))
    check(0 < there < count, f"the kill came in the middle: {there} letters")
    wait_until(lambda: len(bury_what_comes(second)) >= count, 60 + count / 5, "what the first one did not save was given up")
    ids = [letter["id"] for letter in bury_what_comes(second)]
    check_equal((len(ids), len(set(ids))), (count, count), "each once")

    stream = RawStream(second, "client_id=app&max_in_flight=2000")
    again = []
    for at in range(0, count, AT_A_TIME):
        for letter in ids[at:at + AT_A_TIME]:
            answer = second.call("POST", f"/v1/dead-letters/{letter}/redrive")
            check_equal(answer.status, 200, answer)
        again += stream.records(len(ids[at:at + AT_A_TIME]))
        settle(second, again[at:], "ack")
    check_equal(sorted(data_of(record) for record in again), sorted(b"letter-%d" % number for number in range(count)), "redriven")
    wait_until(lambda: letters(second) == [], 20, "all are gone")
    return second
