#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dead letters on the real binary: delivered again, settled, kept over kills; and what a stream says beside its records:
server-sent events, and which record is too large."""

import http.client
import json
import os
import threading

from lib import RawStream, Sidecar, check, check_equal, data_of, main, numbered, pull_all, spawn, test, wait_until


COUNT = int(os.environ.get("KS_LETTERS", "200"))  # Of the long story; at most 1,000.


def settle(sidecar, record, outcome, **more):
    item = {"ack_id": record["ack_id"], "outcome": outcome, **more}
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": [item], "wait": "persisted"})
    check_equal((answer.status, answer.json["failed"]), (200, []), answer)
    return answer.json


def letters(sidecar):
    return sidecar.get("/v1/dead-letters?page_size=1000")["dead_letters"]


def redrive(sidecar, letter):
    return sidecar.call("POST", f"/v1/dead-letters/{letter['id']}/redrive").status


def bury(sidecar, stream, count):
    """Dead letters of so many records; what the stream gave of them."""
    sidecar.put([("k", f"letter-{i}".encode()) for i in range(count)])
    records = stream.records(count)
    for record in records:
        check(settle(sidecar, record, "dead_letter", reason="bad")["persisted"], record)
    return records


@test(60)
def a_redriven_letter_is_a_letter_until_its_ack_and_gone_for_good_after_it(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    stream = RawStream(sidecar, "client_id=app")
    first = bury(sidecar, stream, 2)
    one, two = letters(sidecar)
    check_equal([redrive(sidecar, one), redrive(sidecar, one), redrive(sidecar, two)], [200, 409, 200], one)
    again = stream.records(2)
    for before, after in zip(first, again):
        for same in ("stream", "shard_id", "sequence_number", "partition_key", "approximate_arrival_timestamp", "data"):
            check_equal(after[same], before[same], same)
        check_equal((after["attempt"], after["epoch"], after["redriven"]), (2, 0, True), after)
        check(after["ack_id"] != before["ack_id"] and "redriven" not in before, "a fresh ack_id")
    check_equal(sidecar.get("/v1/sessions")["sessions"][0]["in_flight"], 2, "they count")
    check(settle(sidecar, again[0], "ack")["persisted"], "removed")
    sidecar.kill()

    # The one that was acknowledged is gone; the other one is a letter as before, and nothing else.
    sidecar = Sidecar.local(folder, "again", local_shards=1).start()
    left = letters(sidecar)
    check_equal([(letter["id"], letter["attempts"], letter["redriven"]) for letter in left], [(two["id"], 1, False)], left)
    check_equal(redrive(sidecar, one), 404, "gone")
    check_equal(redrive(sidecar, two), 200, "without a session it waits for one")
    stream = RawStream(sidecar, "client_id=app")
    record = stream.records(1)[0]
    check_equal(record["attempt"], 2, "that of the process before is not counted")
    settle(sidecar, record, "dead_letter", reason="still bad")
    left = letters(sidecar)[0]
    check_equal((left["attempts"], left["reason"], left["cause"]), (2, "still bad", "asked"), left)
    stream.close()


@test(60)
def a_drain_is_over_when_a_redriven_letter_in_flight_has_its_ack_or_no_more_time(folder):
    sidecar = Sidecar.local(folder, local_shards=1, drain_timeout_ms=2000).start()
    stream = RawStream(sidecar, "client_id=app")
    bury(sidecar, stream, 1)
    check_equal(redrive(sidecar, letters(sidecar)[0]), 200, "redrive")
    stream.records(1)
    answer = sidecar.call("POST", "/v1/drain")
    check_equal(json.loads(answer.body.splitlines()[-1])["type"], "drained", answer)
    row = sidecar.get("/v1/status")["subscriptions"][0]
    check_equal((row["leases_held"], row["sessions"], row["in_flight"]), (0, 0, 0), "after the drain:", row)
    stream.close()


@test(60)
def a_redriven_letter_comes_again_after_a_nack_a_deadline_and_a_stream_that_broke(folder):
    sidecar = Sidecar.local(folder, local_shards=1, retry_backoff_ms="1").start()
    stream = RawStream(sidecar, "client_id=app&ack_deadline_ms=1000")
    bury(sidecar, stream, 1)
    letter = letters(sidecar)[0]
    check_equal(redrive(sidecar, letter), 200, letter)
    settle(sidecar, stream.records(1)[0], "retry")
    check_equal(stream.records(1)[0]["attempt"], 3, "after the nack")
    expired = stream.records(1)[0]
    check_equal(expired["attempt"], 4, "after its deadline")
    stream.close()
    stream = RawStream(sidecar, "client_id=app")
    record = stream.records(1)[0]
    check(record["attempt"] >= 5, record)
    # What was put meanwhile is not held up by it, and the watermark not by either.
    sidecar.put([("k", b"fine")])
    check(settle(sidecar, stream.records(1)[0], "ack")["persisted"], "beside the lanes")
    settle(sidecar, record, "ack")
    check_equal(letters(sidecar), [], "gone")
    check_equal(sidecar.get("/v1/sessions")["sessions"][0]["in_flight"], 0, "no credit is lost")
    stream.close()


@test(60)
def each_letter_of_a_large_request_has_its_reason(folder):
    sidecar = Sidecar.local(folder).start()
    sidecar.put(numbered(300))
    records = pull_all(sidecar, 300, ack=False)
    settlements = [{"ack_id": record["ack_id"], "outcome": "dead_letter",
                    "reason": record["sequence_number"] + "\u00e9" * 490} for record in records]
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": settlements, "wait": "persisted"}).json
    check_equal((answer["ok"], answer["failed"], answer["persisted"]), (300, [], True))
    for letter in sidecar.get("/v1/dead-letters?page_size=1000")["dead_letters"]:
        number = letter["sequence_number"]
        check_equal(letter["reason"], number + "\u00e9" * ((1000 - len(number)) // 2), "as much as is kept")
    sidecar.stop()


@test(60)
def the_poison_policy_gives_a_redriven_letter_up_again_and_a_discard_ends_it(folder):
    sidecar = Sidecar.local(folder, local_shards=1, max_attempts=2, retry_backoff_ms="1").start()
    stream = RawStream(sidecar, "client_id=app")
    bury(sidecar, stream, 1)
    letter = letters(sidecar)[0]
    check_equal(redrive(sidecar, letter), 200, letter)
    for _ in range(2):
        settle(sidecar, stream.records(1)[0], "retry", delay_ms=1)
    wait_until(lambda: not letters(sidecar)[0]["redriven"], 20, "it was given up again")
    kept = letters(sidecar)[0]
    check_equal((kept["attempts"], kept["cause"], kept["reason"]), (3, "attempts", "bad"), kept)
    check_equal(redrive(sidecar, letter), 200, letter)
    record = stream.records(1)[0]
    check_equal(sidecar.call("POST", f"/v1/dead-letters/{letter['id']}/discard").status, 200, letter)
    wait_until(lambda: sidecar.get("/v1/sessions")["sessions"][0]["in_flight"] == 0, 20, "its credit is back")
    item = {"ack_id": record["ack_id"], "outcome": "retry"}
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": [item]}).json
    check_equal([one["reason"] for one in answer["failed"]], ["SETTLED"], answer)
    check_equal((letters(sidecar), redrive(sidecar, letter)), ([], 404), "for good")
    stream.close()


@test(90)
def every_letter_of_many_is_delivered_again_though_all_do_not_fit_at_once(folder):
    sidecar = Sidecar.local(folder, local_shards=2).start()
    stream = RawStream(sidecar, "client_id=app&max_in_flight=50")
    sidecar.put([(str(i), str(i).encode()) for i in range(300)])
    seen = 0
    while seen < 300:
        record = stream.records(1)[0]
        seen += 1
        item = {"ack_id": record["ack_id"], "outcome": "dead_letter"}
        check_equal(sidecar.call("POST", "/v1/records/settle", {"settlements": [item]}).status, 200, record)
    wait_until(lambda: len(letters(sidecar)) == 300, 30, "all are letters")
    answers = [redrive(sidecar, letter) for letter in letters(sidecar)]
    check_equal(set(answers), {200, 429}, answers)
    check_equal(answers.count(200), 256, answers)
    found = set()
    while len(found) < 300:
        if answers.count(429) and len(found) == 256:
            answers = []
            check_equal({redrive(sidecar, letter) for letter in letters(sidecar)}, {200}, "the rest")
        record = stream.records(1)[0]
        found.add(data_of(record))
        settle(sidecar, record, "ack")
    check_equal(letters(sidecar), [], "all are gone")
    stream.close()


# ---- Server-sent events ----


@test(60 + COUNT // 10)
def letters_in_a_file_are_each_there_once_after_a_kill_in_the_middle(folder):
    sidecar = Sidecar.local(folder, local_shards=2, lease_duration_ms=1000).start()
    placed = sidecar.put(numbered(COUNT))
    records = RawStream(sidecar, "client_id=app&max_in_flight=2000").records(COUNT)
    killer = threading.Thread(target=sidecar.kill)
    done = 0
    try:
        for part in range(0, COUNT, 10):
            if done == COUNT // 2:
                killer.start()  # While the requests go on.
            items = [{"ack_id": record["ack_id"], "outcome": "dead_letter"} for record in records[part:part + 10]]
            sidecar.call("POST", "/v1/records/settle", {"settlements": items, "wait": "persisted", "wait_ms": 10000})
            done += len(items)
    except (OSError, http.client.HTTPException):
        pass  # The kill.
    killer.join()
    check(COUNT // 2 <= done < COUNT, "the kill came in the middle")

    again = Sidecar.local(folder, "again", local_shards=2, lease_duration_ms=1000).start()
    stream = RawStream(again, "client_id=app&max_in_flight=2000")

    def all_are_there():
        ids = [letter["id"] for letter in letters(again)]
        if len(ids) < COUNT:
            record = stream.records(1)[0]
            settle(again, record, "dead_letter")
        return len(ids) >= COUNT and ids
    ids = wait_until(all_are_there, 30 + COUNT / 20, "all are given up")
    check_equal(ids, sorted(f"{shard}.{sequence}.0" for shard, sequence in placed), "each once")
    print(f"  {COUNT} letters, the kill came after {done}", flush=True)
    stream.close()


def sse(text):
    """Events as (type, data), by the rules of their format."""
    for block in text.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        yield fields["event"], json.loads(fields["data"])


@test(60)
def records_come_as_server_sent_events_with_the_json_of_ndjson(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    sidecar.put([("k", b"one"), ("k", b'{"a":\n1}')])
    log = f"{folder}/sse"
    curl = spawn(["curl", "-sN", "-i", "-H", "Accept: text/event-stream",
                  f"{sidecar.url}/v1/records/stream?client_id=curl&encoding=json&heartbeat_ms=100"], log)

    def heard():
        head, _, body = open(log).read().replace("\r\n", "\n").partition("\n\n")
        return head, list(sse(body[:body.rfind("\n\n") + 2]))

    def heard_all():
        kinds = [kind for kind, _ in heard()[1]]
        return kinds.count("record") == 2 and "heartbeat" in kinds

    wait_until(heard_all, 20, "two records and a heartbeat")
    curl.terminate()
    head, events = heard()
    check("content-type: text/event-stream" in head.lower(), head)
    check_equal(events[0][0], "session", events)
    for kind, data in events:
        check_equal(data["type"], kind, "the same JSON as in NDJSON")
    records = [data for kind, data in events if kind == "record"]
    check_equal([records[0]["encoding"], records[1]["data"]], ["base64", {"a": 1}], events)
    for data in records:
        settle(sidecar, data, "ack")
    refused = sidecar.call("GET", "/v1/records/stream?encoding=text", headers={"Accept": "text/event-stream"})
    check_equal(refused.status, 400, refused)
    document = sidecar.get("/v1/openapi.json")
    types = document["paths"]["/v1/records/stream"]["get"]["responses"]["200"]["content"]
    check_equal(set(types), {"application/x-ndjson", "text/event-stream", "application/x-protobuf"}, types)


# ---- Too large ----


@test(60)
def a_stream_is_told_once_which_record_is_too_large_and_goes_on_with_a_larger_limit(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    sidecar.put([("k", b"small"), ("big", b"x" * 5000), ("k", b"behind")])
    stream = RawStream(sidecar, "client_id=app&max_message_bytes=4096&heartbeat_ms=100")
    small = stream.records(1)[0]
    told = stream.until("record_too_large")[-1]
    check_equal((told["bytes"], told["max_message_bytes"], told["partition_key"]), (5003, 4096, "big"), told)
    for _ in range(3):
        check_equal(stream.line()["type"], "heartbeat", "said once")
    check_equal(stream.until("heartbeat")[-1]["idle_reason"], "lane_blocked", "and a heartbeat says that it waits")
    stream.close()

    stream = RawStream(sidecar, f"client_id=app&max_message_bytes={told['max_message_bytes_wanted'] - 1}")
    small = stream.records(1)[0]
    check_equal(stream.until("record_too_large")[-1]["sequence_number"], told["sequence_number"], "told to a new stream, too")
    stream.close()

    stream = RawStream(sidecar, f"client_id=app&max_message_bytes={told['max_message_bytes_wanted']}")
    records = stream.records(3)
    check_equal([data_of(record)[:6] for record in records], [b"small", b"xxxxxx", b"behind"], records)
    check_equal(records[1]["sequence_number"], told["sequence_number"], told)
    check(small["ack_id"] != records[0]["ack_id"], small)
    stream.close()


if __name__ == "__main__":
    main()
