#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench.py [LANGUAGE..] - the CPU time that a record costs: sidecar and app together, beside the SDK's own loop.

For each size of record the double of Kinesis (tests/doubles/kinesis.c) holds one stream. Each language reads it twice: by
`run race` of its folder with a sidecar, and by `sdk COUNT`, a loop over GetRecords with the AWS SDK of the language or, where
none can be had, with plain HTTP. CPU seconds are those of all processes of the app and of the sidecar, from the first fifth of
the records to the last record: starting does not count, a JIT compiler does. The double's own time does not count.
Then both read what is put while they run, 500 records by a PutRecords: the milliseconds from its answer until the last of them
was handled. Both wait 200 ms after a read that brought nothing, as AWS asks for.
Prints a table of each; with RESULTS=FILE appends JSON lines to it. SIZES='100 1024' measures some, SIZES=wait the second.
"""

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from lib import Double, Failure, Sidecar, check, kill_all, spawn  # noqa: E402
import kinesis_client  # noqa: E402 - lib makes it visible
from judge import LANGUAGES  # noqa: E402

SHARDS = 4
COUNTS = {100: 300000, 1024: 150000, 51200: 15000}
WARM = 0.2       # Of the records.
ROUNDS = 100
SECONDS = 900    # The longest that one reader may take; some build their SDK first.
TICKS = os.sysconf("SC_CLK_TCK")


def create(double):
    client = double.client()
    client.must("CreateStream", StreamName="demo", ShardCount=SHARDS)
    while client.must("DescribeStreamSummary", StreamName="demo")["StreamDescriptionSummary"]["StreamStatus"] != "ACTIVE":
        time.sleep(0.05)


def put(client, data, count):
    batch = max(1, min(500, (4 << 20) // len(data)))
    for at in range(0, count, batch):
        client.must("PutRecords", StreamName="demo", Records=[
            {"Data": data, "PartitionKey": f"key-{number % 1000}"} for number in range(at, min(count, at + batch))])


def fill(double, size):
    put(double.client(cbor=True, indefinite=False), os.urandom(size), COUNTS[size])


def tree_of(pid):
    """The process and all below it."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(FileNotFoundError):  # A thread has ended meanwhile.
            for task in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{task}/children", encoding="ascii") as file:
                    found += [int(word) for word in file.read().split()]
    return found


def cpu_of(pids):
    total = 0
    for root in pids:
        for pid in tree_of(root):
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                words = file.read().rsplit(")", 1)[1].split()
            total += sum(int(words[index]) for index in (11, 12, 13, 14))  # With the children that it has waited for.
    return total / TICKS


class Reader:
    """An app that writes the number of records that it has handled, after each 1,000."""

    def __init__(self, command, env):
        self.app = spawn(command, env=env, stdout=subprocess.PIPE)
        self.buffer, self.read = b"", 0

    def wait(self, records):
        """Returns how many it has handled, at least so many."""
        until = time.monotonic() + SECONDS
        while self.read < records:
            ready, _, _ = select.select([self.app.stdout], [], [], max(0.0, until - time.monotonic()))
            check(ready, "the reader takes too long")
            said = os.read(self.app.stdout.fileno(), 65536)
            check(said, "the reader has ended")
            *lines, self.buffer = (self.buffer + said).split(b"\n")
            self.read = max([self.read] + [int(line) for line in lines])  # Threads may write out of order.
        return self.read

    def end(self):
        self.app.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.app.wait(10)
        self.app.kill()
        self.app.wait()


def cost(reader, others, count):
    """CPU microseconds of a record: of the app, and of the others."""
    marks = [(reader.wait(records), cpu_of([reader.app.pid]), cpu_of(others)) for records in (count * WARM, count)]
    records = marks[1][0] - marks[0][0]
    return [(marks[1][column] - marks[0][column]) / records * 1e6 for column in (1, 2)]


def waits(reader, double):
    """Milliseconds until the 500 records of one put are handled: of half of the times, and of 99 in 100. Readers tell each
    1,000 records: the first half is put long before."""
    client, data, times = double.client(cbor=True, indefinite=False), os.urandom(100), []
    put(client, data, 1000)
    reader.wait(1000)
    for number in range(2, 2 + ROUNDS):
        put(client, data, 500)
        time.sleep(random.uniform(0.6, 0.9))
        put(client, data, 500)
        since = time.monotonic()
        reader.wait(number * 1000)
        times.append((time.monotonic() - since) * 1000)
    times.sort()
    return times[ROUNDS // 2], times[ROUNDS * 99 // 100]


@contextlib.contextmanager
def by_sidecar(folder, language, double):
    sidecar = Sidecar(folder, env=environment(double), leases=f"sqlite:{folder}/{language}.db", initial_position="trim_horizon",
                      application=language, idle_time_between_reads_ms=200).start()
    reader = Reader([os.path.join(HERE, language, "run"), "race", "bench", "1"],
                    dict(os.environ, KINESIS_SIDECAR_URL=sidecar.url))
    yield reader, [sidecar.process.pid]
    reader.end()
    sidecar.kill()


@contextlib.contextmanager
def by_sdk(language, double, count):
    reader = Reader([os.path.join(HERE, language, "sdk"), str(count)], dict(os.environ, **environment(double)))
    yield reader, []
    reader.end()


def environment(double):
    return {"AWS_ENDPOINT_URL_KINESIS": double.url, "AWS_REGION": kinesis_client.REGION,
            "AWS_DEFAULT_REGION": kinesis_client.REGION, "AWS_ACCESS_KEY_ID": kinesis_client.ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": kinesis_client.SECRET_KEY}


def note(row):
    if os.environ.get("RESULTS"):
        with open(os.environ["RESULTS"], "a", encoding="utf-8") as file:
            file.write(json.dumps({"bench": "packages", **row}) + "\n")


def compare_costs(folder, language, double, size):
    count = COUNTS[size]
    with by_sidecar(folder, language, double) as (reader, others):
        app_us, sidecar_us = cost(reader, others, count)
    with by_sdk(language, double, count) as (reader, others):
        sdk_us, _ = cost(reader, others, count)
    ratio = sdk_us / (app_us + sidecar_us)
    print(f"{language:<12} {size:>6} B   sidecar {sidecar_us:7.2f} us   app {app_us:7.2f} us   together "
          f"{app_us + sidecar_us:7.2f} us   SDK loop {sdk_us:7.2f} us   {ratio:5.2f} times as much", flush=True)
    note({"language": language, "size": size, "sidecar_us": sidecar_us, "app_us": app_us,
          "both_us": app_us + sidecar_us, "sdk_us": sdk_us, "ratio": ratio})


def compare_waits(folder, language):
    found = []
    for side in ("sidecar", "SDK loop"):
        double = Double(folder, f"{language}-{side[:3]}")
        create(double)
        with by_sidecar(folder, language, double) if side == "sidecar" else \
                by_sdk(language, double, (ROUNDS + 2) * 1000) as (reader, _):
            found.append(waits(reader, double))
        double.process.kill()
    (half, most), (sdk_half, sdk_most) = found
    print(f"{language:<12} put to handled   sidecar: half {half:6.0f} ms, 99 in 100 {most:6.0f} ms   "
          f"SDK loop: {sdk_half:6.0f} ms, {sdk_most:6.0f} ms", flush=True)
    note({"language": language, "half_ms": half, "most_ms": most, "sdk_half_ms": sdk_half, "sdk_most_ms": sdk_most})


def main():
    languages = sys.argv[1:] or LANGUAGES
    sizes = os.environ.get("SIZES", "").split() or [*COUNTS, "wait"]
    failed = 0
    for language in languages:
        check(language in LANGUAGES, f"{language} is none of {', '.join(LANGUAGES)}")
        subprocess.run([os.path.join(HERE, language, "build")], check=True, stdin=subprocess.DEVNULL)
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="ks-bench-") as folder:
            if size != "wait":
                double = Double(folder)
                create(double)
                fill(double, int(size))
            for language in languages:
                try:
                    if size == "wait":
                        compare_waits(folder, language)
                    else:
                        compare_costs(folder, language, double, int(size))
                except Failure as err:
                    failed += 1
                    print(f"{language:<12} {size:>6}   failed: {err}", flush=True)
            kill_all()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
