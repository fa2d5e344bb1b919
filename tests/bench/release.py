#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sizes, start and memory of the released programs, of the dynamic one, and of the MultiLangDaemon: `make bench-release`.

All read a stream of SHARDS shards of kinesis-local, with leases in dynoxide. Each start has an application of its own, so that
the lease table is made, too. One record is in the stream before. Measured are, from the start of the process:
    ready          the first 200 of /readyz; of the daemon its first shard, initialized in a child process
    first_record   the record is in the app: a reader that asks for the NDJSON stream as soon as it is ready, or the child
Idle memory is that of the process IDLE_SECONDS after the record, without apps or children. With qemu-user it has the emulator,
and what that translated. Prints one JSON object a line, then the table of docs/BENCH.md.
"""

import glob
import http.client
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "release")]
import lib  # noqa: E402 - it is found there
import released  # noqa: E402
from lib import PROCESSES, ROOT, Sidecar, make_stream, put_kinesis, read_lines, wait_until  # noqa: E402

SHARDS = 4
STARTS, DAEMON_STARTS = 5, 3
IDLE_SECONDS = 10
STREAM = "bench"
NUMBERS = itertools.count()
DAEMON = "MultiLangDaemon"
MULTILANG = os.path.join(ROOT, "tests", "interop", "multilang", "run")
JARS = os.path.join(ROOT, "build", "interop", "multilang", "dependency")


def emit(name, value, unit, **parameters):
    print(json.dumps({"name": "release_" + name, "value": value, "unit": unit, "parameters": parameters,
                      "processors": os.cpu_count()}), flush=True)


def memory(pid):
    """(resident, resident and anonymous) bytes of a process."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        found = dict(line.split(":\t", 1) for line in file if ":\t" in line)
    return tuple(int(found[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon"))


def first_line(sidecar, at):
    """Reads the NDJSON stream until a record came, and keeps the connection."""
    connection = http.client.HTTPConnection("127.0.0.1", sidecar.port, timeout=60)
    connection.request("GET", "/v1/records/stream", headers={"Accept": "application/x-ndjson"})
    answer = connection.getresponse()
    while line := answer.readline():
        if b'"data"' in line:
            at.append(time.monotonic())
            break
    return connection


def application(folder):
    """A name that no start had before."""
    return f"bench-{os.path.basename(folder).replace('_', '-')}-{next(NUMBERS)}"


def start_sidecar(folder, binary):
    """(ready, first_record) in seconds, and the memory when idle."""
    name = application(folder)
    sidecar = Sidecar.on_emulators(folder, name, stream=STREAM, application=name, lease_duration_ms=None, checkpoint_interval_ms=None)
    sidecar.binary = binary
    began = time.monotonic()
    sidecar.start(ready=False)
    wait_until(sidecar.is_ready, 60, "it is ready", every=0.002)
    ready = time.monotonic()
    at = []
    reader = first_line(sidecar, at)
    time.sleep(IDLE_SECONDS)
    idle = memory(sidecar.process.pid)
    reader.close()
    sidecar.stop()
    return ready - began, at[0] - began, idle


def start_daemon(folder):
    name = application(folder)
    diary, log = os.path.join(folder, name + ".diary"), os.path.join(folder, name + ".log")
    env = dict(os.environ, KS_DIARY=diary, AWS_ENDPOINT_URL_KINESIS=os.environ["KS_KINESIS_URL"],
               AWS_ENDPOINT_URL_DYNAMODB=os.environ["KS_DYNAMODB_URL"])
    began, wall = time.monotonic(), time.time()
    process = lib.spawn([MULTILANG, "bench", STREAM, name], log, env=env)

    def at(event):
        for line in read_lines(diary):
            entry = json.loads(line)
            if entry["event"] == event:
                return entry["at"] - wall
        lib.check(process.poll() is None, f"the daemon ended after {time.monotonic() - began:.0f} s; {log}")
        return None
    first_record = wait_until(lambda: at("record"), 300, "the daemon gives its record to a child", every=0.2)
    ready = at("began")
    time.sleep(IDLE_SECONDS)
    idle = memory(process.pid)
    process.kill()
    process.wait()
    return ready, first_record, idle


def measure(name, starts, start):
    """Medians of `starts` starts, each as a line of JSON, too."""
    rows = []
    for _ in range(starts):
        row = start()
        rows.append(row)
        for what, value, unit in ("ready", row[0], "s"), ("first_record", row[1], "s"), ("rss", row[2][0], "B"), ("anonymous", row[2][1], "B"):
            emit(what, value, unit, of=name)
        lib.kill_all()
    found = [(ready, first, *idle) for ready, first, idle in rows]
    return [statistics.median(column) for column in zip(*found)] + [max(row[0] for row in found)]


def unpacked_bytes(archive):
    with tarfile.open(archive) as file:
        return sum(member.size for member in file)


def sizes(arch, binary):
    """(program, image's root file system, that as .tar.gz, .deb) in bytes; without an architecture only the program."""
    if arch is None:
        return os.path.getsize(binary), None, None, None
    image = released.file_of(f"kinesis-sidecar-*-rootfs-{arch}.tar.gz")
    return (os.path.getsize(binary), unpacked_bytes(image), os.path.getsize(image),
            os.path.getsize(released.file_of(f"kinesis-sidecar_*_{arch}.deb")))


def mega(value):
    return "" if value is None else f"{value / 1e6:.1f} MB"


def seconds(value):
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def table_row(name, size, start):
    return f"| {name} | " + " | ".join([*map(mega, size), seconds(start[0]), seconds(start[4]), seconds(start[1]), mega(start[2]),
                                        mega(start[3])]) + " |"


def main():
    folder = tempfile.mkdtemp(prefix="ks-bench-")
    lib.WATCH = lib.Watch(folder)
    make_stream(STREAM, SHARDS)
    put_kinesis(STREAM, [("key", b"record")])
    dynamic = os.path.join(folder, "kinesis-sidecar")
    subprocess.run(["strip", "-o", dynamic, lib.BINARY], check=True)
    arm64 = released.use_wrapper(os.path.join(folder, "arm64"), '#!/bin/sh\nexec qemu-aarch64-static '
                                 f'{released.file_of("arm64/kinesis-sidecar")} "$@"\n')
    static = released.file_of("amd64/kinesis-sidecar")
    rows = []
    for name, binary, arch in (("static, amd64", static, "amd64"), ("dynamic, amd64", dynamic, None),
                               ("static, arm64, by qemu-user", arm64, "arm64")):
        size = sizes(arch, released.file_of("arm64/kinesis-sidecar") if arch == "arm64" else binary)
        for what, value in zip(("program", "rootfs", "rootfs_tar_gz", "deb"), size):
            if value is not None:
                emit("size", value, "B", of=name, what=what)
        rows.append(table_row(name, size, measure(name, STARTS, lambda it=binary: start_sidecar(folder, it))))
    jars = sum(map(os.path.getsize, glob.glob(os.path.join(JARS, "*.jar"))))
    emit("size", jars, "B", of=DAEMON, what="jars")
    rows.append(table_row(DAEMON + " 3.1.3", (jars, None, None, None),
                          measure(DAEMON, DAEMON_STARTS, lambda: start_daemon(folder))))
    print("\n| program | size | image | image, .tar.gz | .deb | start to ready | worst | start to first record | RSS, idle | anonymous |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))
    for process in PROCESSES:
        process.kill()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if not os.environ.get("KS_KINESIS_URL"):
        emulators = os.path.join(ROOT, "tests", "emulators", "with")
        os.execv(emulators, [emulators, "dynoxide", "kinesis-local", "--", os.path.abspath(__file__), *sys.argv[1:]])
    main()
