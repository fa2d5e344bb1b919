#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Kinesis that knows no CBOR, moto: --aws-protocol, and AWS_CBOR_DISABLE."""

import base64
import os

from lib import Sidecar, aws, check, check_equal, data_of, main, need_emulators, pull_all, test, wait_until

STREAM = "orders"
NAMES = sorted(f"order-{at}" for at in range(40))


def ask(operation, **body):
    answer = aws(os.environ["KS_MOTO_URL"], "Kinesis_20131202." + operation, body, "1.1")
    check(answer.status == 200, operation, answer)


def fill(stream):
    ask("CreateStream", StreamName=stream, ShardCount=2)
    ask("PutRecords", StreamName=stream, Records=[
        {"Data": base64.b64encode(name.encode()).decode(), "PartitionKey": name} for name in NAMES])


def sidecar_on(folder, stream, env=None, **options):
    settings = {"AWS_ENDPOINT_URL_KINESIS": os.environ["KS_MOTO_URL"]}
    settings.update(env or {})
    return Sidecar(folder, stream=stream, application="app", env=settings, leases="sqlite:" + os.path.join(folder, "l.db"),
                   initial_position="trim_horizon", **options).start()


def reads(folder, stream, logged="", **options):
    """Reads all of the stream, waits until the sidecar has logged `logged`, and returns its log."""
    sidecar = sidecar_on(folder, stream, **options)
    check_equal(sorted(data_of(record).decode() for record in pull_all(sidecar, len(NAMES))), NAMES)
    wait_until(lambda: logged in sidecar.said(), 10, logged)
    sidecar.stop()
    said = sidecar.said()
    return said


@test()
def auto_reads_in_json_and_says_so_once(folder):
    fill("auto")
    line = "the server does not understand CBOR; asking in JSON, and in CBOR again after 600 s"
    check_equal(reads(folder, "auto", logged=line).count(line), 1)


@test()
def json_by_option_or_variable_never_asks_in_cbor(folder):
    for name, options in (("option", {"aws_protocol": "json"}), ("variable", {"env": {"AWS_CBOR_DISABLE": "true"}})):
        fill(name)
        place = os.path.join(folder, name)
        os.mkdir(place)
        check("CBOR" not in reads(place, name, **options), name, "asks in JSON from the start")


@test()
def cbor_by_option_stays_cbor(folder):
    fill("cbor")
    sidecar = sidecar_on(folder, "cbor", env={"AWS_CBOR_DISABLE": "true"}, aws_protocol="cbor")
    batch = sidecar.get("/v1/records?max_records=10&wait_ms=3000")
    check_equal(batch["records"], [], "nothing can be read")
    check("asking in JSON" not in sidecar.said(), sidecar.said())
    sidecar.kill()


if __name__ == "__main__":
    need_emulators("moto")
    main()
