#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where an application begins on a stream that was split before, on DynamoDB and Kinesis (emulated)."""

import datetime
import time

from lib import (Sidecar, check_equal, data_of, dynamodb, kinesis, lease_rows, main, make_stream, need_emulators, numbered,
                 pull_all, put_kinesis, test, wait_until)

HALF, QUARTER = 1 << 127, 1 << 126


def name(number):
    return f"shardId-{number:012d}"


def split(stream, shard, at):
    kinesis("SplitShard", StreamName=stream, ShardToSplit=name(shard), NewStartingHashKey=str(at))
    wait_until(lambda: kinesis("DescribeStreamSummary", StreamName=stream)["StreamDescriptionSummary"]["StreamStatus"] ==
               "ACTIVE", 20, f"{stream} is active")


def next_second():
    """The emulator knows only in which second a shard was closed."""
    time.sleep(2.1 - time.time() % 1)


def make_past(stream):
    """0 is split into 1 and 2; then, after the instant that is returned, 1 into 3 and 4. Records in all of them."""
    make_stream(stream, 1)
    put_kinesis(stream, numbered(20, 0))
    split(stream, 0, HALF)
    put_kinesis(stream, numbered(20, 20))
    next_second()
    between = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    next_second()
    put_kinesis(stream, numbered(20, 40))
    split(stream, 1, QUARTER)
    put_kinesis(stream, numbered(20, 60))
    next_second()
    return between


def begin(folder, stream, position, rows):
    """A sidecar from that position, when the table has the rows of these shards and of no other."""
    sidecar = Sidecar.on_emulators(folder, "pod-" + position[:6], stream=stream, application=f"{stream}-{position[:6]}",
                                   initial_position=position).start()
    table = sidecar.options["application"]
    wait_until(lambda: set(lease_rows(table)) == {name(number) for number in rows}, 20, f"rows of {rows}")
    return sidecar


def numbers(records):
    return sorted(int(data_of(record).rsplit(b"-", 1)[1]) for record in records)


@test(seconds=90)
def each_start_begins_with_the_shards_of_its_instant_and_brings_nothing_older(folder):
    between = make_past("past")
    latest = begin(folder, "past", "latest", [2, 3, 4])
    instant = begin(folder, "past", "at_timestamp:" + between, [1, 2])
    horizon = begin(folder, "past", "trim_horizon", [0])
    put_kinesis("past", numbered(20, 80))

    check_equal(numbers(pull_all(latest, 20)), list(range(80, 100)), "from the tip")
    check_equal(numbers(pull_all(instant, 60)), list(range(40, 100)), "from the instant")
    check_equal(numbers(pull_all(horizon, 100, seconds=40)), list(range(100)), "from the horizon")
    rows = lease_rows(instant.options["application"])
    check_equal(set(rows), {name(number) for number in (1, 2, 3, 4)}, "shards that the instant needs")
    for sidecar in (latest, instant, horizon):
        check_equal("have no open lease" in sidecar.said(), False, "a hole is told")
        sidecar.stop()


@test(seconds=60)
def a_stream_that_is_not_there_gets_no_lease_table_until_it_is(folder):
    sidecar = Sidecar.on_emulators(folder, stream="late", application="late-app").start(ready=False)
    wait_until(lambda: "stream late cannot be read: no such stream in" in sidecar.said(), 20, "the region is named")
    wait_until(lambda: "late-app is not there, and is made later: no such stream in" in sidecar.ops("/readyz").body.decode(), 20,
               "what is waited for")
    check_equal("late-app" in dynamodb("ListTables")["TableNames"], False, "a table for a stream that is not there")
    make_stream("late", 1)
    sidecar.wait_ready()
    put_kinesis("late", numbered(3, 0))
    check_equal(numbers(pull_all(sidecar, 3)), [0, 1, 2], "records")
    sidecar.stop()


if __name__ == "__main__":
    need_emulators("dynoxide", "kinesis-local")
    main()
