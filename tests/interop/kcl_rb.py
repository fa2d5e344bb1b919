#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes of kcl-rb 1.0.0 itself and sidecars on one stream and one table.

    KCL_RB=CHECKOUT kcl_rb.py [TEST..]      CHECKOUT: the tag v1.0.0 of github.com/waka/kcl-rb

Needs ruby and the gem eventmachine (Debian: ruby, ruby-eventmachine). The gems of the AWS SDK are replaced by
kcl-rb/shim, which sends their requests to the emulators and signs nothing.
"""

import base64
import os
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from lib import (PROCESSES, Sidecar, check, check_equal, dynamodb, main, make_stream, need_emulators, numbered,  # noqa: E402
                 put_kinesis, read_lines, records_of, shard_ids, test, wait_until)

LEASE_MS = 4000


class Ruby:
    """A process of kcl-rb; one that is supervised is started again 1 s after its end."""

    def __init__(self, folder, name, worker="ruby", supervised=False, **settings):
        self.diary = os.path.join(folder, f"{worker}.diary")
        self.command = ["ruby", os.path.join(HERE, "kcl-rb", "member.rb"), worker, name, name, self.diary,
                        *(f"{key}={value}" for key, value in settings.items())]
        self.env = dict(os.environ, AWS_ENDPOINT_URL_DYNAMODB=os.environ["KS_DYNAMODB_URL"],
                        AWS_ENDPOINT_URL_KINESIS=os.environ["KS_KINESIS_URL"])
        self.log, self.over = open(self.diary + ".out", "wb"), not supervised
        open(self.diary, "w").close()
        self.spawn()
        if supervised:
            threading.Thread(target=self.supervise, daemon=True).start()

    def spawn(self):
        self.process = subprocess.Popen(self.command, env=self.env, stdout=self.log, stderr=subprocess.STDOUT)
        PROCESSES.append(self.process)

    def supervise(self):
        while not self.over:
            self.process.wait()
            time.sleep(1)
            if not self.over:
                self.spawn()

    def events(self, what):
        return [line.split(" ", 2)[2] for line in read_lines(self.diary) if line.split(" ", 2)[1] == what]

    def records(self):
        return [event.split(" ", 2)[2] for event in self.events("record")]

    def ends(self):
        return self.events("end")

    def stop(self, number=signal.SIGTERM):
        self.over = True
        self.process.send_signal(number)
        self.process.wait(60)


class App:
    """Takes the records of a sidecar and acknowledges them."""

    def __init__(self, one):
        self.one, self.seen = one, []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            while True:
                batch = self.one.get("/v1/records?max_records=100&wait_ms=200")
                if batch["records"]:
                    self.seen += [(record["shard_id"], text_of(record)) for record in batch["records"]]
                    self.one.call("POST", f"/v1/records/ack?batch_id={batch['batch_id']}")
        except Exception:  # pylint: disable=broad-except
            return  # The sidecar is gone.

    def records(self):
        return [data for _, data in self.seen]


def text_of(record):
    return base64.b64decode(record["data"]).decode()


def texts(count, start=0):
    return [data.decode() if isinstance(data, bytes) else data for _, data in numbered(count, start=start)]


def name_of(folder):
    return "real-kcl-rb-" + os.path.basename(folder).replace("_", "-")


def rows(name):
    """The rows by their shard ids; NULL is None."""
    return {item["shard_id"]["S"]: {key: value.get("S") for key, value in item.items()}
            for item in dynamodb("Scan", TableName=name, ConsistentRead=True).get("Items", [])}


def sidecar(folder, name, worker="side", **options):
    return Sidecar.on_emulators(folder, worker, stream=name, application=name, dialect="kcl-rb",
                                lease_duration_ms=LEASE_MS, **options)


def is_seen(count, *readers):
    return len({data for reader in readers for data in reader.records()} & set(texts(count))) == count


def behind_checkpoints(name):
    """What a reader of the rows as they stand must read."""
    found = rows(name)
    return sorted(text_of({"data": record["Data"]}) for shard in shard_ids(name) for record in records_of(name, shard)
                  if "checkpoint" not in found[shard] or int(record["SequenceNumber"]) > int(found[shard]["checkpoint"]))


def check_given_back(name):
    for row in rows(name).values():
        check("assigned_to" not in row and "sidecar_checkpoint" not in row, row)


@test(seconds=300)
def a_stopped_one_is_taken_over_and_all_is_given_back(folder):
    name = name_of(folder)
    make_stream(name, 4)
    put_kinesis(name, numbered(400))
    ruby = Ruby(folder, name, max_leases=4)
    wait_until(lambda: is_seen(400, ruby), 60, "kcl-rb reads")
    ruby.stop()
    put_kinesis(name, numbered(400, start=400))
    one = sidecar(folder, name).start()
    app = App(one)
    wait_until(lambda: is_seen(800, ruby, app), 60, "the sidecar reads on")
    check_equal(sorted(app.records()), sorted(texts(400, start=400)))
    one.stop()
    check_given_back(name)
    put_kinesis(name, numbered(400, start=800))
    again = Ruby(folder, name, "ruby2", max_leases=4)
    wait_until(lambda: is_seen(1200, ruby, app, again), 60, "kcl-rb reads on")
    check_equal(sorted(again.records()), sorted(texts(400, start=800)))
    check_equal(again.ends(), [])
    again.stop()


@test(seconds=300)
def a_killed_one_is_taken_over_at_its_checkpoints(folder):
    name = name_of(folder)
    make_stream(name, 4)
    put_kinesis(name, numbered(1000))
    ruby = Ruby(folder, name, work_ms=10, every=20)
    wait_until(lambda: len(ruby.records()) >= 300, 60, "kcl-rb reads")
    ruby.stop(signal.SIGKILL)
    expected = behind_checkpoints(name)
    one = sidecar(folder, name).start()
    app = App(one)
    wait_until(lambda: len(app.records()) >= len(expected), 90, "the sidecar reads on")
    check_equal(sorted(app.records()), expected)
    one.stop()
    check_given_back(name)


@test(seconds=300)
def shared_by_masks_while_a_sidecar_dies_and_another_comes_with_a_limit(folder):
    """The masks of the dead one are taken by another id whose limit is two of them, whatever it has already."""
    name = name_of(folder)
    make_stream(name, 4)
    put_kinesis(name, numbered(100))
    ruby = Ruby(folder, name, max_leases=4, supervised=True)
    wait_until(lambda: is_seen(100, ruby), 60, "kcl-rb reads")
    one = sidecar(folder, name, "side1", lease_masking="on", max_leases=2).start()
    first = App(one)
    wait_until(lambda: sum(row.get("assigned_to") == "side1" for row in rows(name).values()) == 2, 60, "two are masked")
    for start in range(100, 500, 50):
        put_kinesis(name, numbered(50, start=start))
        time.sleep(0.3)
    one.kill()
    two = sidecar(folder, name, "side2", lease_masking="on", max_leases=2).start()
    second = App(two)
    for start in range(500, 1000, 50):
        put_kinesis(name, numbered(50, start=start))
        time.sleep(0.3)
    wait_until(lambda: is_seen(1000, ruby, first, second), 90, "all are read")
    wait_until(lambda: not any(row.get("assigned_to") == "side1" for row in rows(name).values()), 30, "no mask is left")
    two.stop()
    check_given_back(name)
    put_kinesis(name, numbered(100, start=1000))
    wait_until(lambda: is_seen(1100, ruby, first, second), 60, "kcl-rb reads on")
    ruby.stop()


@test(seconds=300)
def a_late_release_on_a_masked_row_leaves_nothing_unread(folder):
    """A process that is held up for longer than its lease releases a row that a sidecar has masked by then."""
    name = name_of(folder)
    make_stream(name, 2)
    put_kinesis(name, numbered(100))
    slow = Ruby(folder, name, "slow", max_leases=9, work_ms=200, checkpoint="no")
    wait_until(lambda: len(slow.records()) >= 4, 60, "the slow one reads")
    slow.process.terminate()  # It ends when its tick does.
    ruby = Ruby(folder, name, max_leases=9, supervised=True)
    wait_until(lambda: is_seen(100, ruby), 90, "the other one reads")
    one = sidecar(folder, name, lease_masking="on", max_leases=1).start()
    app = App(one)
    wait_until(lambda: any("sidecar_checkpoint" in row for row in rows(name).values()), 60, "one is masked")
    slow.process.wait(90)
    put_kinesis(name, numbered(200, start=100))
    wait_until(lambda: is_seen(300, ruby, app), 60, "all are read")
    one.stop()
    check_given_back(name)
    put_kinesis(name, numbered(100, start=300))
    wait_until(lambda: is_seen(400, ruby, app), 60, "kcl-rb reads on")
    ruby.stop()


@test(seconds=300)
def a_masked_row_without_an_owner_is_read_on_and_seized(folder):
    name = name_of(folder)
    make_stream(name, 2)
    put_kinesis(name, numbered(40))
    ruby = Ruby(folder, name, max_leases=9, supervised=True)
    wait_until(lambda: is_seen(40, ruby), 60, "kcl-rb reads")
    one = sidecar(folder, name, lease_masking="on", max_leases=1).start()
    app = App(one)
    masked = wait_until(lambda: [shard for shard, row in rows(name).items() if "sidecar_checkpoint" in row], 60, "a mask")
    dynamodb("UpdateItem", TableName=name, Key={"shard_id": {"S": masked[0]}}, UpdateExpression="REMOVE assigned_to")
    put_kinesis(name, numbered(100, start=40))
    wait_until(lambda: is_seen(140, ruby, app), 60, "all are read")
    one.kill()
    for shard, row in rows(name).items():
        if "sidecar_checkpoint" in row:
            dynamodb("UpdateItem", TableName=name, Key={"shard_id": {"S": shard}}, UpdateExpression="REMOVE assigned_to")
    put_kinesis(name, numbered(60, start=140))
    time.sleep(LEASE_MS / 1000 + 8)
    done = one.command("leases", "seize", "side", "--table", f"kcl-rb:{name}", "--lease-duration-ms", str(LEASE_MS), "--force")
    check_equal(done.returncode, 0, done.stdout, done.stderr)
    check_equal([row for row in rows(name).values() if "sidecar_checkpoint" in row], [])
    wait_until(lambda: is_seen(200, ruby, app), 60, "kcl-rb reads on")
    ruby.stop()


if __name__ == "__main__":
    lib_of_kcl_rb = os.path.join(os.environ.get("KCL_RB", ""), "lib", "kcl", "worker.rb")
    check(os.path.exists(lib_of_kcl_rb), "KCL_RB must name a checkout of the tag v1.0.0 of kcl-rb")
    os.environ["KCL_RB"] = os.path.abspath(os.environ["KCL_RB"])
    need_emulators("dynoxide", "kinesis-local")
    main()
