#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dead letters in a bucket of S3 with a key of KMS (moto): each version of an object names the key, and the checkpoints
wait where KMS refuses. moto encrypts nothing and takes any key: the refusals are made by the fault proxy."""

import os
import sys

from letters import application, begin_with_letters, letters, put, redrive, settle
from lib import (ROOT, FaultProxy, RawStream, Sidecar, check, check_equal, lease_rows, main, make_stream, need_emulators, test,
                 wait_until)

need_emulators("dynoxide", "kinesis-local", "moto")

sys.path.insert(0, os.path.join(ROOT, "build", "python"))
import boto3  # noqa: E402

KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def client():
    return boto3.client("s3", endpoint_url=os.environ["KS_MOTO_URL"], region_name="us-east-1",
                        aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
                        aws_secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"])


def bucket(folder):
    return application(folder).lower()[:63].rstrip("-")


def worker(folder, name, url=None, key=KEY):
    sidecar = Sidecar.on_emulators(folder, name, stream=application(folder), application=application(folder),
                                   dead_letters=f"s3://{bucket(folder)}/team?kms-key={key}")
    sidecar.env["AWS_ENDPOINT_URL_S3"] = url or os.environ["KS_MOTO_URL"]
    return sidecar


def encryption(folder):
    """How each object of the bucket is encrypted, as HeadObject shows it."""
    keys = [one["Key"] for one in client().list_objects_v2(Bucket=bucket(folder))["Contents"]]
    heads = [client().head_object(Bucket=bucket(folder), Key=key) for key in keys]
    return [(head.get("ServerSideEncryption"), head.get("SSEKMSKeyId")) for head in heads]


@test(60)
def each_version_of_an_object_names_the_key(folder):
    client().create_bucket(Bucket=bucket(folder))
    first, stream, _ = begin_with_letters(folder, worker, 1, 2)
    check_equal(encryption(folder), 2 * [("aws:kms", KEY)], "written")
    check_equal(redrive(first, letters(first)[0]).status, 200, "claimed")
    check_equal(encryption(folder), 2 * [("aws:kms", KEY)], "claimed")
    settle(first, stream.records(1), "dead_letter", reason="again")
    wait_until(lambda: [letter["attempts"] for letter in letters(first)] == [2, 1], 20, "given up again")
    check_equal(encryption(folder), 2 * [("aws:kms", KEY)], "given up again")
    first.stop()
    other = KEY[:-2] + "00"
    second = worker(folder, "second", key=other).start()
    check_equal(redrive(second, letters(second)[0]).status, 200, "a letter under another key")
    check_equal(sorted(encryption(folder)), sorted([("aws:kms", other), ("aws:kms", KEY)]), "it is written with the new key")


@test(60)
def a_key_that_kms_refuses_holds_the_checkpoint_and_is_named(folder):
    client().create_bucket(Bucket=bucket(folder))
    make_stream(application(folder), 1)
    proxy = FaultProxy(folder, os.environ["KS_MOTO_URL"])
    proxy.do("only PUT")
    sidecar = worker(folder, "one", url=proxy.url).start()
    put(folder, 3)
    records = RawStream(sidecar, "client_id=app").records(3)
    outcomes = [{"ack_id": record["ack_id"], "outcome": "dead_letter"} for record in records]
    proxy.do("refuse 400 KMS.DisabledException 1000")
    check_equal(sidecar.call("POST", "/v1/records/settle", {"settlements": outcomes}).json["failed"], [], "given up")
    wait_until(lambda: sidecar.metric("dead_letter_failures_total") > 2, 30, "the write is made again and again")
    check("dead letters cannot be written (KMS.DisabledException on s3 PutObject" in sidecar.said(), sidecar.said())
    row = lease_rows(application(folder))["shardId-000000000000"]
    check(row["checkpoint"] != records[-1]["sequence_number"], row)
    proxy.do("heal")
    wait_until(lambda: len(letters(sidecar)) == 3, 30, "they are written")
    check_equal(encryption(folder), 3 * [("aws:kms", KEY)], "with the key")
    wait_until(lambda: lease_rows(application(folder))["shardId-000000000000"]["checkpoint"] == records[-1]["sequence_number"],
               20, "the checkpoint passes them")


main()
