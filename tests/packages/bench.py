#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench.py [LANGUAGE..] - the CPU time that a record costs: sidecar and app together, beside the SDK's own loop.

For each size of record the double of Kinesis (tests/doubles/kinesis.c) holds one stream. Each language reads it twice: by
`run race` of its folder with a sidecar, and by `sdk COUNT`, a loop over GetRecords with the AWS SDK of the language or, where
none can be had, with plain HTTP. CPU seconds are those of all processes of the app and of the sidecar, from the first fifth of
the records to the last record, so that neither starting nor compiling counts. The double's own time does not count.
Prints a table; with RESULTS=FILE appends JSON lines to it. SIZES='100 1024' measures some.
"""

import contextlib
import json
import os
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
COUNTS = {100: 300000, 1024: 150000, 51200: 6000}
WARM = 0.2       # Of the records.
SECONDS = 900    # The longest that one reader may take; some build their SDK first.
TICKS = os.sysconf("SC_CLK_TCK")


def fill(double, size, count):
    client = double.client(cbor=True, indefinite=False)
    client.must("CreateStream", StreamName="demo", ShardCount=SHARDS)
    while client.must("DescribeStreamSummary", StreamName="demo")["StreamDescriptionSummary"]["StreamStatus"] != "ACTIVE":
        time.sleep(0.05)
    batch = max(1, min(500, (4 << 20) // size))
    data = os.urandom(size)
    for at in range(0, count, batch):
        client.must("PutRecords", StreamName="demo", Records=[
            {"Data": data, "PartitionKey": f"key-{number % 1000}"} for number in range(at, min(count, at + batch))])


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


def measure(app, others, count):
    """CPU microseconds of a record: of the app, and of the others."""
    marks, until, buffer, read = [], time.monotonic() + SECONDS, b"", 0
    while len(marks) < 2:
        ready, _, _ = select.select([app.stdout], [], [], max(0.0, until - time.monotonic()))
        check(ready, "the reader takes too long")
        said = os.read(app.stdout.fileno(), 65536)
        check(said, "the reader has ended")
        *lines, buffer = (buffer + said).split(b"\n")
        read = max([read] + [int(line) for line in lines])  # Threads may write out of order.
        if read >= (count if marks else count * WARM):
            marks.append((read, cpu_of([app.pid]), cpu_of(others)))
    records = marks[1][0] - marks[0][0]
    return [(marks[1][column] - marks[0][column]) / records * 1e6 for column in (1, 2)]


def by_sidecar(folder, language, double, count):
    sidecar = Sidecar(folder, env=environment(double), leases=f"sqlite:{folder}/{language}.db", initial_position="trim_horizon",
                      application=language).start()
    env = dict(os.environ, KINESIS_SIDECAR_URL=sidecar.url)
    app = spawn([os.path.join(HERE, language, "run"), "race", "bench", "1"], env=env, stdout=subprocess.PIPE)
    app_us, sidecar_us = measure(app, [sidecar.process.pid], count)
    app.send_signal(signal.SIGTERM)
    app.wait()
    sidecar.kill()
    return app_us, sidecar_us


def by_sdk(language, double, count):
    app = spawn([os.path.join(HERE, language, "sdk"), str(count)], env=dict(os.environ, **environment(double)),
                stdout=subprocess.PIPE)
    app_us, _ = measure(app, [], count)
    app.kill()
    app.wait()
    return app_us


def environment(double):
    return {"AWS_ENDPOINT_URL_KINESIS": double.url, "AWS_REGION": kinesis_client.REGION,
            "AWS_DEFAULT_REGION": kinesis_client.REGION, "AWS_ACCESS_KEY_ID": kinesis_client.ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": kinesis_client.SECRET_KEY}


def report(row):
    print("{language:<12} {size:>6} B   sidecar {sidecar_us:7.2f} us   app {app_us:7.2f} us   together {both_us:7.2f} us   "
          "SDK loop {sdk_us:7.2f} us   {ratio:5.2f} times as much".format(**row), flush=True)
    if os.environ.get("RESULTS"):
        with open(os.environ["RESULTS"], "a", encoding="utf-8") as file:
            file.write(json.dumps({"bench": "packages", **row}) + "\n")


def main():
    languages = sys.argv[1:] or LANGUAGES
    for language in languages:
        check(language in LANGUAGES, f"{language} is none of {', '.join(LANGUAGES)}")
        subprocess.run([os.path.join(HERE, language, "build")], check=True, stdin=subprocess.DEVNULL)
    failed = 0
    for size in [int(word) for word in os.environ.get("SIZES", "").split()] or COUNTS:
        with tempfile.TemporaryDirectory(prefix="ks-bench-") as folder:
            double = Double(folder)
            fill(double, size, COUNTS[size])
            for language in languages:
                try:
                    app_us, sidecar_us = by_sidecar(folder, language, double, COUNTS[size])
                    sdk_us = by_sdk(language, double, COUNTS[size])
                except Failure as err:
                    failed += 1
                    print(f"{language:<12} {size:>6} B   failed: {err}", flush=True)
                    continue
                report({"language": language, "size": size, "sidecar_us": sidecar_us, "app_us": app_us,
                        "both_us": app_us + sidecar_us, "sdk_us": sdk_us, "ratio": sdk_us / (app_us + sidecar_us)})
            kill_all()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
