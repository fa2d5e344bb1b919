#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dead letters in the lease table, on the real binary: pointers that survive each of the processes, that every worker
lists, and whose records any worker delivers again out of the stream; what happens where the table fails."""

import base64
import os

import away
from letters import (SHARDS, application, begin_with_letters, discard, letters, put, redrive, redrive_all, settle,
                     survive)
from lib import (FaultProxy, RawStream, Sidecar, check, check_equal, dynamodb, kinesis, lease_rows, main, make_stream,
                 need_emulators, test, wait_until)

COUNT = int(os.environ.get("KS_LETTERS", "200"))  # Of the long story.


def worker(folder, name, url=None, **options):
    settings = {"stream": application(folder), "application": application(folder)}
    settings.update(options)
    sidecar = Sidecar.on_emulators(folder, name, **settings)
    sidecar.env["AWS_ENDPOINT_URL_DYNAMODB"] = url or os.environ["KS_DYNAMODB_URL"]
    return sidecar


def items(folder):
    """What the table has of letters."""
    found = dynamodb("Scan", TableName=application(folder), ConsistentRead=True)["Items"]
    return [item for item in found if item["p"]["S"].startswith("letters")]


@test(90)
def letters_survive_their_worker_and_another_one_delivers_them_again(folder):
    first, _, records = begin_with_letters(folder, worker, SHARDS, 40, reason="bad")
    first.kill()

    second = worker(folder, "second").start()
    check_equal(len(items(folder)), 40 + len({record["shard_id"] for record in records}), "pointers, and the directory")
    check(not any("data" in item for item in items(folder)), "the records stay in the stream")
    found = letters(second)
    check_equal([letter["id"] for letter in found], sorted(letter["id"] for letter in found), "in order")
    check_equal(len(found), 40, "letters")
    check_equal({(letter["reason"], letter["attempts"], letter["cause"]) for letter in found}, {("bad", 1, "asked")}, "what they say")
    redrive_all(second, found, records)


@test(90)
def one_order_redrives_the_letters_that_match_and_no_other_worker_has(folder):
    first, stream, _ = begin_with_letters(folder, worker, SHARDS, 20, reason="bad")
    second = worker(folder, "second").start()
    taken = letters(second)[0]
    check_equal(redrive(second, taken).status, 200, "by the second")
    check_equal(first.call("POST", "/v1/dead-letters/redrive?rate=1000&cause=asked").status, 200, "the order")
    check_equal(first.call("POST", "/v1/dead-letters/redrive").status, 409, "one at a time")
    again = stream.records(19)
    settle(first, again[:15], "ack")
    settle(first, again[15:], "dead_letter", reason="bad again")
    job = wait_until(lambda: (job := first.get("/v1/dead-letters/redrive"))["state"] == "done" and job, 20, "done")
    counts = {name: job[name] for name in ("found", "redriven", "in_delivery", "acknowledged", "given_up_again",
                                           "refused_claimed")}
    check_equal(counts, {"found": 20, "redriven": 19, "in_delivery": 0, "acknowledged": 15, "given_up_again": 4,
                         "refused_claimed": 1}, job)
    check_equal(len(letters(first)), 5, "those that were given up again, and the one that the second has")


@test(60)
def one_worker_at_a_time_delivers_a_letter_again(folder):
    first, stream, _ = begin_with_letters(folder, worker, 1, 1)
    second = worker(folder, "second").start()
    letter, = letters(second)
    check_equal((letter["redriven"], letter.get("redriven_by", "")), (False, ""), letter)
    check_equal(redrive(first, letter).status, 200, "by the first")
    claimed, = letters(second)
    check_equal((claimed["redriven"], claimed["redriven_by"]), (True, "first"), claimed)
    refused = redrive(second, letter)
    check_equal((refused.status, refused.json["title"]), (409, "Being delivered again"), refused)
    check("first#" in refused.json["detail"], refused.json)
    settle(first, stream.records(1), "dead_letter", reason="again")
    check_equal(redrive(second, letter).status, 200, "now by the second")
    other = RawStream(second, "client_id=app")
    settle(second, other.records(1), "ack")
    check_equal(letters(first), [], "gone")


@test(60)
def a_letter_is_discarded_by_a_worker_that_holds_no_shard(folder):
    first, stream, _ = begin_with_letters(folder, worker, 1, 2)
    second = worker(folder, "second").start()
    one, two = letters(second)
    check_equal(redrive(first, one).status, 200, "redriven where the records are")
    check_equal(discard(second, two).status, 200, "discarded elsewhere")
    settle(first, stream.records(1), "ack")
    check_equal((letters(first), letters(second)), ([], []), "all are gone")
    check_equal([item["k"]["S"] for item in items(folder)], ["shardId-000000000000"], "the directory stays until it expires")


@test(60)
def a_table_out_of_reach_holds_the_checkpoint_and_loses_no_letter(folder):
    make_stream(application(folder), 1)
    proxy = FaultProxy(folder, os.environ["KS_DYNAMODB_URL"])
    sidecar = worker(folder, "one", url=proxy.url, lease_duration_ms=20000).start()
    put(folder, 20)
    records = RawStream(sidecar, "client_id=app").records(20)
    proxy.do("cut")
    outcomes = [{"ack_id": record["ack_id"], "outcome": "dead_letter"} for record in records]
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": outcomes, "wait": "persisted", "wait_ms": 1000})
    check_equal((answer.json["failed"], answer.json["persisted"]), ([], False), answer)
    wait_until(lambda: "dead letters cannot be written" in sidecar.said(), 20, "it says that it cannot write them")
    proxy.do("heal")
    wait_until(lambda: sidecar.call("GET", "/v1/dead-letters").status == 200, 20, "the table answers again")
    wait_until(lambda: len(letters(sidecar)) == 20, 20, "they are written")
    wait_until(lambda: lease_rows(application(folder))["shardId-000000000000"]["checkpoint"] == records[-1]["sequence_number"],
               20, "the checkpoint passes them")


def put_by_name(stream, pairs):
    """Puts (key, data) pairs into Kinesis; (shard id, sequence number) of each."""
    placed = []
    for first in range(0, len(pairs), 100):
        answer = kinesis("PutRecords", StreamName=stream, Records=[
            {"Data": base64.b64encode(data).decode(), "PartitionKey": key} for key, data in pairs[first:first + 100]])
        check_equal(answer["FailedRecordCount"], 0, "put")
        placed += [(record["ShardId"], record["SequenceNumber"]) for record in answer["Records"]]
    return placed


@test(300 + 2 * away.AWAY_S)
def letters_that_the_table_refuses_for_long_hold_the_checkpoints_and_none_is_lost(folder):
    """The lease writes go through, and the writes of letters do not: they are refused, reset, and not answered."""
    make_stream(application(folder), 2)
    proxy = FaultProxy(folder, os.environ["KS_DYNAMODB_URL"])
    options = {name: value for name, value in away.OPTIONS.items() if name != "local_shards"}
    sidecar = worker(folder, "one", url=proxy.url, **options).start()
    proxy.do("only UpdateItem")
    proxy.do("containing letters#")
    expected = away.live_through(sidecar, proxy, lambda pairs: put_by_name(application(folder), pairs),
                                 ("refuse 400 ProvisionedThroughputExceededException 4000000000", "reset 4000000000",
                                  "mute 4000000000"))
    check_equal([letter["id"] for letter in letters(sidecar)], expected, "none is missing")
    check_equal(sidecar.metric("leases_lost_total"), 0, "the leases were kept")


@test(90)
def a_redrive_of_many_waits_for_a_table_out_of_reach_and_continues(folder):
    make_stream(application(folder), 1)
    proxy = FaultProxy(folder, os.environ["KS_DYNAMODB_URL"])
    sidecar = worker(folder, "one", url=proxy.url, lease_duration_ms=60000).start()
    put(folder, 10)
    stream = RawStream(sidecar, "client_id=app")
    settle(sidecar, stream.records(10), "dead_letter")
    check_equal(sidecar.call("POST", "/v1/dead-letters/redrive?rate=2").status, 200, "the order")
    again = stream.records(2)
    proxy.do("cut")
    job = wait_until(lambda: (job := sidecar.get("/v1/dead-letters/redrive")).get("problem") and job, 40, "it waits")
    check_equal((job["state"], job["problem"]["status"]), ("running", 503), job)
    proxy.do("heal")
    again += stream.records(8)
    check_equal(len({record["sequence_number"] for record in again}), 10, "each once")
    settle(sidecar, again, "ack")
    job = wait_until(lambda: (job := sidecar.get("/v1/dead-letters/redrive"))["state"] == "done" and job, 40, "done")
    check_equal((job["redriven"], job["acknowledged"], job["refused_unreadable"]), (10, 10, 0), job)
    check_equal(letters(sidecar), [], "gone")


@test(60)
def the_foreign_table_of_a_fleet_gets_no_letters_but_one_beside_it(folder):
    make_stream(application(folder), 1)
    sidecar = worker(folder, "one", dialect="kcl").start()
    check_equal(letters(sidecar), [], "none")
    tables = dynamodb("ListTables")["TableNames"]
    check(application(folder) + "-letters" not in tables, "nothing is made before the first letter")
    put(folder, 1)
    stream = RawStream(sidecar, "client_id=app")
    settle(sidecar, stream.records(1), "dead_letter")
    letter = letters(sidecar)[0]
    beside = dynamodb("Scan", TableName=application(folder) + "-letters", ConsistentRead=True)["Items"]
    check_equal(sorted(item["p"]["S"] for item in beside), ["letters", f"letters#{application(folder)}/shardId-000000000000"], "rows")
    check_equal(redrive(sidecar, letter).status, 200, letter)
    settle(sidecar, stream.records(1), "ack")
    check_equal(letters(sidecar), [], "it is gone")


@test(60)
def a_pointer_whose_record_has_left_the_stream_says_so(folder):
    make_stream(application(folder), 1)
    sidecar = worker(folder, "one").start()
    put(folder, 1)
    stream = RawStream(sidecar, "client_id=app")
    settle(sidecar, stream.records(1), "dead_letter")
    letter = letters(sidecar)[0]
    check(letter["in_stream"] and letter["data"] == "", letter)
    check_equal(letter["expires_at"][:13] > letter["died_at"][:13], True, letter)
    row = next(item for item in items(folder) if item["p"]["S"] != "letters")
    row["k"]["S"] = "1.0"
    dynamodb("PutItem", TableName=application(folder), Item=row)
    gone = next(one for one in letters(sidecar) if one["id"] != letter["id"])
    answer = redrive(sidecar, gone)
    check_equal(answer.status, 400, answer)
    check("has left the stream" in answer.json["detail"], answer)
    check_equal(discard(sidecar, gone).status, 200, "discard")


@test(150 + COUNT // 2)
def letters_are_each_there_once_after_faults_and_a_kill(folder):
    proxy = FaultProxy(folder, os.environ["KS_DYNAMODB_URL"])
    proxy.do("only UpdateItem")
    survive(folder, worker, proxy, "400 ThrottlingException", COUNT)


need_emulators("dynoxide", "kinesis-local")
main()
