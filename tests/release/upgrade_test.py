#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An older version and the present one share a fleet, its table and its files, and take turns: upgrades and rollbacks, one
sidecar after the other. `make upgrade-check` runs it; tests/release/build-old builds the older program, KS_OLD names it.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading

import released  # noqa: F401 - it makes the modules of tests/e2e visible
from fleet import TAKE_OVER, Cloud, Fleet, OneFile, a_fleet
from letters import SHARDS, application, begin_with_letters, letters, put, redrive, redrive_all
from letters import settle as settle_as
from lib import (BINARY, PATIENCE, ROOT, RawStream, Sidecar, check, check_equal, data_of, dynamodb, main,
                 need_emulators, numbered, settle, test, wait_until)

OLD = os.environ.get("KS_OLD", "")
OLD_TREE = os.path.dirname(os.path.dirname(OLD))
VERSIONS = {OLD: "old", BINARY: "present"}


# --- Fleets ---

class Checkpoints(threading.Thread):
    """Reads the lease rows all the time, and notes each checkpoint and epoch that goes back."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.world, self.over = world, threading.Event()
        self.latest, self.wrong, self.reads, self.moves = {}, [], 0, 0
        self.start()

    @staticmethod
    def place(row):
        """(epoch, checkpoint) of a row; a checkpoint that is not a sequence number is the start of the shard."""
        checkpoint = row.get("checkpoint", "")
        if checkpoint == "SHARD_END":
            return int(row["epoch"]), float("inf")
        return int(row["epoch"]), int(checkpoint) if checkpoint.isdigit() else -1

    def run(self):
        while not self.over.wait(0.1):
            for shard, row in self.world.rows().items():
                now, before = self.place(row), self.latest.get(shard, (0, -1))
                if now[0] < before[0] or now[1] < before[1]:
                    self.wrong.append(f"{shard}: (epoch, checkpoint) {now} after {before}")
                self.moves += now[1] > before[1]
                self.latest[shard] = now
            self.reads += 1

    def stop(self):
        self.over.set()
        self.join(30 * PATIENCE)
        check(not self.is_alive() and self.reads > 0, "the reader of the checkpoints ended early, or is stuck")
        check_equal(self.wrong, [], "went back")
        check(self.moves > 0, "no checkpoint was seen to move")
        print(f"    {self.moves} checkpoints seen in {self.reads} reads of the table; none went back")


def upgrade_and_roll_back(world):
    """Each sidecar is drained and started as the present version, then as the old one again."""
    names = ("w1", "w2", "w3")
    fleet = a_fleet(world, *names)
    checkpoints = Checkpoints(world)
    for program in (BINARY, OLD):
        for name in names:
            fleet.stop(name)
            fleet.sidecars[name].binary = program
            fleet.start(name)
            print(f"    {name} is the {VERSIONS[program]} version, balanced after {fleet.wait_balanced(*names):.1f} s")
    fleet.finish(*names)
    checkpoints.stop()


@test(seconds=120)
def fleet_on_dynamodb_is_upgraded_and_rolled_back_without_loss_or_duplicates(folder):
    upgrade_and_roll_back(Cloud(folder, 6, OLD))


@test(seconds=120)
def fleet_on_one_file_is_upgraded_and_rolled_back_without_loss_or_duplicates(folder):
    upgrade_and_roll_back(OneFile(folder, 6, OLD))


@test(seconds=90)
def killed_sidecars_of_one_version_are_taken_over_by_the_other(folder):
    fleet = Fleet(Cloud(folder, 6, OLD))
    fleet.sidecars["w2"] = fleet.world.sidecar("w2")
    fleet.sidecars["w2"].binary = BINARY
    names = ("w1", "w2", "w3")
    fleet.start(*names)
    fleet.wait_balanced(*names)
    checkpoints = Checkpoints(fleet.world)
    for victims in (("w2",), ("w1", "w3")):
        epochs = fleet.fault(*victims)
        for victim in victims:
            fleet.sidecars[victim].kill()
        took = fleet.wait_taken_over(epochs)
        print(f"    {VERSIONS[fleet.sidecars[victims[0]].binary]} version killed: taken over within {took:.2f} s (at most "
              f"{TAKE_OVER:.2f} s)")
        fleet.start(*victims)
        fleet.wait_balanced(*names)
    fleet.finish(*names)
    checkpoints.stop()


# --- Dead letters in the table ---

def worker_of(program):
    def worker(folder, name, **options):
        sidecar = Sidecar.on_emulators(folder, name, stream=application(folder), application=application(folder), **options)
        sidecar.binary = program
        return sidecar
    return worker


def common(rows, like):
    """The rows with those members that the rows of `like` have: the present version may have more."""
    return [{name: value for name, value in row.items() if name in like[index]} for index, row in enumerate(rows[:len(like)])]


@test(seconds=90)
def letters_of_the_old_version_are_redriven_by_the_new_one_and_back(folder):
    old, stream, records = begin_with_letters(folder, worker_of(OLD), SHARDS, 40, reason="bad")
    as_old = letters(old)
    stream.close()
    old.stop()

    new = worker_of(BINARY)(folder, "second").start()
    found = letters(new)
    check_equal(common(found, as_old), as_old, "the letters, as the present version lists them")
    check_equal(sorted(letter["sequence_number"] for letter in found),
                sorted(record["sequence_number"] for record in records), "which records they are")
    redrive_all(new, found, records)
    left = letters(new)
    new.stop()

    old.start()
    listed = letters(old)
    check_equal(listed, common(left, listed), "the letters, as the old version lists them")
    for letter in left:
        check_equal(redrive(old, letter).status, 200, letter)
    again = RawStream(old, "client_id=app").records(len(left))
    check_equal({record["attempt"] for record in again}, {3}, "attempts")
    settle_as(old, again, "ack")
    check_equal(letters(old), [], "gone")


@test(seconds=60)
def letter_is_redriven_by_one_of_two_versions_at_a_time(folder):
    one, one_stream, _ = begin_with_letters(folder, worker_of(OLD), 1, 1)
    two = worker_of(BINARY)(folder, "second").start()
    two_stream = RawStream(two, "client_id=app")
    letter, = letters(two)
    for claimer, other, stream in ((one, two, one_stream), (two, one, two_stream)):
        name = claimer.options["worker_id"]
        check_equal(redrive(claimer, letter).status, 200, "by", name)
        check_equal([letter["redriven_by"] for letter in letters(other)], [name], "who redrives it")
        refused = redrive(other, letter)
        check_equal((refused.status, refused.json["title"]), (409, "Being delivered again"), refused)
        settle_as(claimer, stream.records(1), "dead_letter", reason="again")
    check_equal([letter["attempts"] for letter in letters(one)], [3], "attempts")


def rows_of(table):
    return dynamodb("Scan", TableName=table, ConsistentRead=True)["Items"]


@test(seconds=90)
def attributes_that_a_later_version_may_add_are_ignored_and_kept(folder):
    for program, name in VERSIONS.items():
        home = os.path.join(folder, name)
        os.mkdir(home)
        first, stream, _ = begin_with_letters(home, worker_of(program), 2, 4)
        table, rows = application(home), rows_of(application(home))
        for row in rows:
            dynamodb("UpdateItem", TableName=table, Key={"p": row["p"], "k": row["k"]}, UpdateExpression="SET later = :l",
                     ExpressionAttributeValues={":l": {"M": {"more": {"S": "x"}}}})
        put(home, 20)
        settle_as(first, stream.records(20), "ack")
        stream.close()
        first.stop()
        second = worker_of(program)(home, "second").start()
        found = letters(second)
        check_equal((len(found), redrive(second, found[0]).status), (4, 200), "letters")
        settle_as(second, RawStream(second, "client_id=app").records(1), "ack")
        check_equal(len(letters(second)), 3, "letters that are left")
        left = rows_of(table)
        lost = [(row["p"]["S"], row["k"]["S"]) for row in left if "later" not in row and row["p"]["S"] != "w"]
        check_equal(lost, [], "rows without the attribute")
        second.stop()
        print(f"    {name}: {len(rows)} rows got it, {sum('later' in row for row in left)} of them are there and have it")


# --- Files ---

def take_turns(folder, end):
    """The versions open the local stream, the leases and the dead letters of each other; `end` ends a sidecar. Nothing that
    was settled is delivered again, and all is delivered. Each turn puts 60 records, settles 40 and gives up 5."""
    sidecar = Sidecar.local(folder, dead_letters=f"sqlite:{folder}/letters.db", drain_timeout_ms=1000)
    settled, given_up, redriven = [], set(), set()
    turns = (OLD, BINARY, OLD, BINARY)
    for turn, program in enumerate(turns):
        sidecar.binary = program
        sidecar.start()
        sidecar.put(numbered(60, 60 * turn))
        found = letters(sidecar)
        check_equal({data_of(letter).decode() for letter in found}, given_up - redriven, f"letters of turn {turn}")
        if found:
            check_equal(redrive(sidecar, found[0]).status, 200, "redrive")
            again, = settle(sidecar, 1)
            check_equal(again, data_of(found[0]).decode(), "the redriven record")
            redriven.add(again)
        settled += settle(sidecar, 40)
        bad = sidecar.get("/v1/records?max_records=5&wait_ms=10000")["records"]
        settle_as(sidecar, bad, "dead_letter", reason="bad")
        given_up |= {data_of(record).decode() for record in bad}
        check(sidecar.get("/v1/records?max_records=7&wait_ms=10000")["records"], "nothing is in flight at the end")
        end(sidecar)
    sidecar.start()
    settled += settle(sidecar, 60 * len(turns) - len(settled) - len(given_up))
    check_equal(len(set(settled)), len(settled), "settled twice")
    check_equal(set(settled) & given_up, set(), "settled and given up")
    check_equal(set(settled) | given_up, {data.decode() for _, data in numbered(60 * len(turns))}, "all records")
    check_equal(len(letters(sidecar)), len(given_up) - len(turns) + 1, "letters at the end")
    check_equal(sidecar.get("/v1/records?wait_ms=1000")["records"], [], "nothing is left")
    sidecar.stop()


@test(seconds=90)
def files_of_a_version_that_was_drained_are_used_by_the_other(folder):
    take_turns(folder, lambda sidecar: sidecar.signal(15) or sidecar.wait())


@test(seconds=90)
def files_of_a_version_that_was_killed_are_used_by_the_other(folder):
    take_turns(folder, lambda sidecar: sidecar.kill())


# --- What apps, people and monitoring rely on ---

def started(folder, program):
    sidecar = Sidecar.local(os.path.join(folder, VERSIONS[program]), shard_metrics="on")
    os.mkdir(os.path.dirname(sidecar.log))
    sidecar.binary = program
    return sidecar.start()


def options_of(sidecar):
    return {(option["name"], option["flag"], option["environment"]) for option in sidecar.get("/v1/config")["options"]}


def metrics_of(sidecar):
    lines = sidecar.ops("/metrics").body.decode().split("\n")
    return {tuple(line.split()[2:]) for line in lines if line.startswith("# TYPE ")}


def commands_of(sidecar):
    said = subprocess.run([sidecar.binary, "help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  ([a-z][a-z-]*) ", said.partition("Subcommands:")[2].partition("\n\n")[0], re.MULTILINE))


def schema_facts(schema, where):
    """The members, types and words of a JSON schema, each as one fact."""
    if isinstance(schema, list):
        for at, one in enumerate(schema):
            yield from schema_facts(one, f"{where}[{at}]")
        return
    for kind in schema.get("type", []) if isinstance(schema.get("type"), list) else [schema.get("type")]:
        yield f"{where}: type {kind}"
    for word in schema.get("enum", ()):
        yield f"{where}: word {word}"
    if "$ref" in schema:
        yield f"{where}: {schema['$ref']}"
    for name, member in schema.get("properties", {}).items():
        yield from schema_facts(member, f"{where}.{name}")
    for name in ("items", "anyOf", "oneOf", "allOf"):
        if name in schema:
            yield from schema_facts(schema[name], f"{where} {name}")


def routes_of(sidecar):
    """What the API takes and answers, by its own description: what an old client may rely on."""
    said = sidecar.get("/v1/openapi.json")
    facts = set()
    for name, schema in said["components"]["schemas"].items():
        facts.update(schema_facts(schema, name))
    for path, methods in said["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            facts.add(where)
            facts.update(f"{where}: status {status}" for status in operation["responses"])
            for parameter in operation.get("parameters", ()):
                facts.update(schema_facts(parameter["schema"], f"{where} {parameter['name']}"))
    return facts


def required_of(sidecar):
    """What a request must have: a new one of these would refuse old clients."""
    said = sidecar.get("/v1/openapi.json")
    found = {f"{method} {path}: {parameter['name']}" for path, methods in said["paths"].items()
             for method, operation in methods.items() for parameter in operation.get("parameters", ())
             if parameter.get("required")}
    return found | {f"{name}: {member}" for name, schema in said["components"]["schemas"].items()
                    if name.endswith("Request") for member in schema.get("required", ())}


@test(seconds=60)
def nothing_that_the_old_version_offers_is_missing(folder):
    old, new = started(folder, OLD), started(folder, BINARY)
    for what, read in (("options", options_of), ("metrics", metrics_of), ("commands", commands_of), ("routes", routes_of)):
        there = read(old)
        check(len(there) > 10, what, "of the old version:", there)
        check_equal(sorted(there - read(new)), [], f"{what} of the old version that are missing")
        print(f"    {what}: {len(there)} facts of the old version, none is missing")
    # What a new path requires nobody leaves out.
    paths = set(old.get("/v1/openapi.json")["paths"])
    required = {what for what in required_of(new) - required_of(old)
                if "/" not in what or what.split(" ", 1)[1].split(": ")[0] in paths}
    check_equal(sorted(required), [], "required of a request by the present version alone")
    golden = os.path.join("proto", "golden", "fields")
    with open(os.path.join(OLD_TREE, golden), encoding="utf-8") as ours, open(os.path.join(ROOT, golden), encoding="utf-8") as now:
        check_equal(sorted(set(ours.read().splitlines()) - set(now.read().splitlines())), [], "fields of the protos")
    for sidecar in (old, new):
        sidecar.stop()


@test(seconds=30)
def config_file_with_every_option_of_the_old_version_is_valid(folder):
    old = started(folder, OLD)
    values = {option["name"]: option["value"] for option in old.get("/v1/config")["options"]
              if option["name"] != "config" and option["value"] != ""}
    old.stop()
    check(len(values) > 30, values)
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(values, file)
    done = subprocess.run([BINARY, "config", "validate", "--config", path], capture_output=True, text=True, check=False)
    check_equal((done.returncode, done.stderr), (0, ""), done)


# --- Client packages ---

APP = """
from kinesis_sidecar import Consumer
with Consumer("app") as consumer:
    for count, record in enumerate(consumer, 1):
        record.ack(persisted=True)
        print(record.data.decode(), flush=True)
        if count == 100:
            break
"""


@test(seconds=60)
def python_package_of_each_version_works_with_the_sidecar_of_the_other(folder):
    for program, tree in ((BINARY, OLD_TREE), (OLD, ROOT)):
        sidecar = started(folder, program)
        sidecar.put(numbered(100))
        env = dict(os.environ, KINESIS_SIDECAR_URL=sidecar.url,
                   PYTHONPATH=os.path.join(tree, "client-stubs", "python", "src"))
        done = subprocess.run([sys.executable, "-c", APP], env=env, capture_output=True, text=True, timeout=40 * PATIENCE,
                              check=False)
        check_equal(done.returncode, 0, done.stderr)
        check_equal(sorted(done.stdout.split()), [data.decode() for _, data in numbered(100)], "records of", tree)
        wait_until(lambda: sidecar.get("/v1/status")["subscriptions"][0]["in_flight"] == 0, 10, "all is settled")
        sidecar.stop()


need_emulators("dynoxide", "kinesis-local")
# A disk that stalls for seconds is not the subject.
if os.access("/dev/shm", os.W_OK):
    tempfile.tempdir = "/dev/shm"
if __name__ == "__main__":
    if not os.access(OLD, os.X_OK) or os.path.samefile(OLD, BINARY):
        print(f"KS_OLD must name the program of an older version, not {OLD!r}; `make upgrade-check` does")
        print("0 passed, 1 failed")
        sys.exit(1)
    main()
