#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dead letters in a bucket of S3, on the real binary: whole records that survive each of the processes, that every worker
lists and delivers again; what happens where the bucket fails. The server is that of KS_S3_URL (versitygw), else moto."""

import base64
import json
import os
import re
import sys

import away
from letters import (SHARDS, application, begin_with_letters, discard, letters, put, redrive, redrive_all, settle,
                     survive)
from lib import (ROOT, FaultProxy, RawStream, Sidecar, check, check_equal, data_of, lease_rows, main, make_stream,
                 need_emulators, test, wait_until)

need_emulators("dynoxide", "kinesis-local", *([] if os.environ.get("KS_S3_URL") else ["moto"]))

sys.path.insert(0, os.path.join(ROOT, "build", "python"))
import boto3  # noqa: E402

S3 = os.environ.get("KS_S3_URL") or os.environ["KS_MOTO_URL"]
COUNT = int(os.environ.get("KS_LETTERS", "60"))  # Of the long story.


def client():
    return boto3.client("s3", endpoint_url=S3, region_name="us-east-1",
                        aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
                        aws_secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"])


def bucket(folder):
    return application(folder).lower()[:63].rstrip("-")


def make_bucket(folder):
    client().create_bucket(Bucket=bucket(folder))


def worker(folder, name, url=S3, **options):
    settings = {"stream": application(folder), "application": application(folder),
                "dead_letters": f"s3://{bucket(folder)}/team/letters"}
    settings.update(options)
    sidecar = Sidecar.on_emulators(folder, name, **settings)
    sidecar.env["AWS_ENDPOINT_URL_S3"] = url
    return sidecar


def objects(folder):
    """Each object of the bucket by its key."""
    found, s3 = {}, client()
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket(folder)):
        for one in page.get("Contents", []):
            found[one["Key"]] = s3.get_object(Bucket=bucket(folder), Key=one["Key"])["Body"].read()
    return found


@test(90)
def letters_survive_their_worker_and_another_one_delivers_them_again(folder):
    make_bucket(folder)
    first, _, records = begin_with_letters(folder, worker, SHARDS, 40, reason="bad")
    first.kill()

    there = objects(folder)
    check_equal(len(there), 40, "objects")
    check(all(key.startswith(f"team/letters/{application(folder)}/{application(folder)}/shardId-") for key in there), list(there)[0])
    bodies = [json.loads(body) for body in there.values()]
    check_equal(sorted(base64.b64decode(body["data"]) for body in bodies), sorted(data_of(record) for record in records), "records")
    check_equal({(body["reason"], body["attempts"], body["cause"]) for body in bodies}, {("bad", 1, "asked")}, "objects")

    second = worker(folder, "second").start()
    found = letters(second)
    check_equal([letter["id"] for letter in found], [body["id"] for body in bodies], "in the order of the keys")
    check(not any(letter.get("in_stream") for letter in found), "the records are in the objects")
    redrive_all(second, found, records)
    check_equal(len(objects(folder)), 10, "objects that are left")


@test(60)
def one_worker_at_a_time_delivers_a_letter_again(folder):
    make_bucket(folder)
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
    check_equal(redrive(first, letters(first)[0]).status, 200, "by the first once more")
    stream.records(1)
    first.kill()

    check_equal(redrive(second, letter).status, 409, "the claim of the dead worker lasts")
    (key, body), = objects(folder).items()
    check(json.loads(body)["claim"].startswith("first#"), body)
    damage(folder, key, re.sub(rb'"claimed_until":"\d{4}', b'"claimed_until":"1970', body))
    check_equal(redrive(second, letter).status, 200, "the claim is over")
    check(json.loads(objects(folder)[key])["claim"].startswith("second#"), "the object")
    settle(second, RawStream(second, "client_id=app").records(1), "ack")
    check_equal(objects(folder), {}, "gone")


@test(60)
def a_letter_is_discarded_by_a_worker_that_holds_no_shard(folder):
    make_bucket(folder)
    first, stream, _ = begin_with_letters(folder, worker, 1, 2)
    second = worker(folder, "second").start()
    one, two = letters(second)
    check_equal(redrive(first, one).status, 200, "redriven where the records are")
    check_equal(discard(second, two).status, 200, "discarded elsewhere")
    check_equal(discard(first, two).status, 404, "it is gone")
    settle(first, stream.records(1), "ack")
    wait_until(lambda: letters(second) == [], 20, "both are gone")
    check_equal(objects(folder), {}, "objects")


@test(60)
def a_bucket_that_is_not_there_holds_the_checkpoint_and_says_what_to_do(folder):
    make_stream(application(folder), 1)
    sidecar = worker(folder, "one", lease_duration_ms=20000).start()
    sentence = f"there is no bucket {bucket(folder)}: create it, or correct --dead-letters"
    wait_until(lambda: sentence in sidecar.said(), 20, "the start reports it")
    put(folder, 20)
    records = RawStream(sidecar, "client_id=app").records(20)
    outcomes = [{"ack_id": record["ack_id"], "outcome": "dead_letter"} for record in records]
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": outcomes, "wait": "persisted", "wait_ms": 1000})
    check_equal((answer.json["failed"], answer.json["persisted"]), ([], False), answer)
    wait_until(lambda: "dead letters cannot be written (" + sentence in sidecar.said(), 20, "it cannot write them")
    answer = sidecar.call("GET", "/v1/dead-letters")
    check_equal(answer.status, 503, answer)
    check(sentence in answer.json["detail"], answer)
    make_bucket(folder)
    wait_until(lambda: len(letters(sidecar)) == 20, 30, "they are written")
    wait_until(lambda: lease_rows(application(folder))["shardId-000000000000"]["checkpoint"] == records[-1]["sequence_number"],
               20, "the checkpoint passes them")


@test(300 + 2 * away.AWAY_S)
def a_bucket_that_is_away_for_long_holds_the_checkpoints_and_loses_no_letter(folder):
    make_bucket(folder)
    proxy = FaultProxy(folder, S3)
    sidecar = Sidecar.local(folder, dead_letters=f"s3://{bucket(folder)}/team", **away.OPTIONS)
    sidecar.env["AWS_ENDPOINT_URL_S3"] = proxy.url
    expected = away.live_through(sidecar.start(), proxy, sidecar.put)
    check_equal(sorted(json.loads(body)["id"] for body in objects(folder).values()), expected, "none is missing")
    check_equal([letter["id"] for letter in letters(sidecar)], expected, "the list")


@test(60)
def a_denied_request_names_the_action_that_the_role_needs(folder):
    make_stream(application(folder), 1)
    make_bucket(folder)
    proxy = FaultProxy(folder, S3)
    sidecar = worker(folder, "one", url=proxy.url).start()
    wait_until(lambda: "dead letters are objects in s3://" in sidecar.said(), 20, "the bucket was listed")
    put(folder, 1)
    records = RawStream(sidecar, "client_id=app").records(1)
    for method, action in (("PUT", "s3:PutObject"), ("GET", "s3:ListBucket")):
        proxy.do("only " + method)
        proxy.do("refuse 403 AccessDenied 1000")
        if method == "PUT":
            outcomes = [{"ack_id": record["ack_id"], "outcome": "dead_letter"} for record in records]
            sidecar.call("POST", "/v1/records/settle", {"settlements": outcomes})
            wait_until(lambda: "allow s3:PutObject on " in sidecar.said(), 20, "the log names the action")
        else:
            answer = sidecar.call("GET", "/v1/dead-letters")
            check_equal(answer.status, 503, answer)
            check(f"allow {action} on the bucket" in answer.json["detail"], answer)
        proxy.do("heal")
    wait_until(lambda: len(letters(sidecar)) == 1, 20, "it is written")


def damage(folder, key, body):
    client().put_object(Bucket=bucket(folder), Key=key, Body=body)


@test(60)
def objects_that_others_damaged_are_listed_and_not_delivered_again(folder):
    make_bucket(folder)
    sidecar, _, _ = begin_with_letters(folder, worker, 1, 3)
    broken, emptied, sound = objects(folder)
    damage(folder, broken, b"{}")
    damage(folder, emptied, b"")
    damage(folder, os.path.dirname(sound) + "/README.txt", b"please leave these alone")
    found = letters(sidecar)
    check_equal([letter["reason"].partition(":")[0] for letter in found], ["damaged object", "damaged object", ""], found)
    for letter in found[:2]:
        answer = redrive(sidecar, letter)
        check_equal(answer.status, 503, answer)
        check("is damaged" in answer.json["detail"], answer)
        check_equal(discard(sidecar, letter).status, 200, "discard")
    check_equal(len(letters(sidecar)), 1, "the sound one")
    check("are not delivered again, repair or discard them" in sidecar.said(), "the log")


@test(150 + COUNT // 2)
def letters_are_each_there_once_after_faults_and_a_kill(folder):
    make_bucket(folder)
    proxy = FaultProxy(folder, S3)
    proxy.do("only PUT")
    survive(folder, worker, proxy, "503 SlowDown", COUNT)
    check_equal(objects(folder), {}, "objects")


main()
