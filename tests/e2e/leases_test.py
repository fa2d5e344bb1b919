#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The subcommand leases on tables themselves: what libraries wrote is listed, converted to each dialect and back without
loss, and mended; a live fleet is left alone, and so is everything in a dry run."""

import json
import os
import re
import subprocess
import time

from lib import (BINARY, FaultProxy, HERE, PATIENCE, Sidecar, check, check_equal, data_of, dynamodb, main, make_stream, need_emulators,
                 numbered, pull_all, put_kinesis, test, wait_until)

LEASE_MS = 1000
VECTORS = os.path.join(HERE, "..", "vectors", "dialects")

# What each dialect's tables are: suffix -> key; the lease table comes first.
TABLES = {
    "native": {"": ("p", "k")},
    "kcl": {"": ("leaseKey",)},
    "go-kcl": {"": ("ShardID",)},
    "kinsumer": {"_checkpoints": ("Shard",), "_clients": ("ID",), "_metadata": ("Key",)},
    "kcl-rb": {"": ("shard_id",)},
}
# Which library's tables are of which dialect.
LIBRARIES = {"kcl2": "kcl", "kcl34": "kcl", "kcl35": "kcl", "kcl35-migration": "kcl", "go-kcl": "go-kcl",
             "go-kcl-v2": "go-kcl", "kinsumer": "kinsumer", "kinsumer-snowplow": "kinsumer", "kcl-rb": "kcl-rb"}


# --- Tables ---

def name_of(folder, *words):
    return "-".join([os.path.basename(folder).replace("_", "-"), *words])


def make_tables(dialect, name, rows=None):
    """The tables of a dialect, with `rows`: suffix -> items."""
    for suffix, keys in TABLES[dialect].items():
        dynamodb("CreateTable", TableName=name + suffix, BillingMode="PAY_PER_REQUEST",
                 AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
                 KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"))])
        for item in (rows or {}).get(suffix, []):
            dynamodb("PutItem", TableName=name + suffix, Item=item)


def items_of(name):
    """All that stands in a table, in an order that does not change."""
    return sorted(dynamodb("Scan", TableName=name, ConsistentRead=True)["Items"], key=lambda item: json.dumps(item, sort_keys=True))


def names():
    return dynamodb("ListTables")["TableNames"]


def stages_of(library):
    """(stage, suffix -> items) of a library, as it was seen to write them."""
    with open(os.path.join(VECTORS, library + ".json"), encoding="utf-8") as file:
        return [(stage["stage"], stage["tables"]) for stage in json.load(file)["stages"]]


# --- The tool ---

class Said:
    def __init__(self, run):
        self.status, self.out, self.err = run.returncode, run.stdout.decode(), run.stderr.decode()

    def __repr__(self):
        return f"<{self.status}\n{self.out}\n{self.err}>"

    @property
    def rows(self):
        """The cells of each line behind the heads, up to the first empty one."""
        lines = self.out.split("\n\n")[0].rstrip("\n").split("\n")
        return [re.split("  +", line.strip()) for line in lines[1:]]


def leases(*words, status=0, lease_ms=LEASE_MS):
    env = dict(os.environ, AWS_ENDPOINT_URL_DYNAMODB=os.environ["KS_DYNAMODB_URL"])
    run = subprocess.run([BINARY, "leases", *words, "--lease-duration-ms", str(lease_ms)], capture_output=True, env=env,
                         stdin=subprocess.DEVNULL, timeout=60 * PATIENCE, check=False)
    said = Said(run)
    check_equal(said.status, status, words, said)
    return said


def convert(source, target, *more, status=0):
    return leases("convert", "--from", source, "--to", target, *more, status=status)


def convert_while(folder, source, target, meanwhile, *more):
    """Converts; once the first write is on its way, and is not let through, calls `meanwhile`. The run."""
    proxy = FaultProxy(folder, os.environ["KS_DYNAMODB_URL"])
    proxy.do("only UpdateItem")
    proxy.do("refuse 400 ThrottlingException 1000000")
    tool = subprocess.Popen([BINARY, "leases", "convert", "--from", source, "--to", target, "--lease-duration-ms", str(LEASE_MS), *more],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                            env=dict(os.environ, AWS_ENDPOINT_URL_DYNAMODB=proxy.url))
    wait_until(lambda: proxy.say("spoiled") != "0", 20, "it writes")
    meanwhile()
    proxy.do("heal")
    out, err = tool.communicate(timeout=60 * PATIENCE)
    return Said(subprocess.CompletedProcess([], tool.returncode, out, err))


def positions(table):
    """shard -> what `leases list` says of its checkpoint; those that have not begun, and have nothing to lose, aside."""
    said = leases("list", "--table", table)
    # KCL writes 0 for what is behind a record, too.
    return {row[0]: " ".join(row[4:]).removesuffix(" + 0") for row in said.rows if row[4:] != ["-"]}


# What a quick fleet is told besides; and so is the tool.
QUICK = {"kinsumer": {"shard_check_ms": 500, "client_max_age_ms": 2000}}


def sidecar(folder, dialect, worker, name, **options):
    options = {"lease_duration_ms": 2000, **QUICK.get(dialect, {}), **options}
    return Sidecar.on_emulators(folder, worker, stream=name, application=name, dialect=dialect, **options)


def quick(dialect):
    return [word for name, value in QUICK.get(dialect, {}).items() for word in ("--" + name.replace("_", "-"), str(value))]


# --- Tests ---

@test(seconds=240)
def what_each_library_wrote_goes_to_each_dialect_and_back(folder):
    for library, dialect in LIBRARIES.items():
        # Each stage as rows alone: tests/vectors/dialects_test.c. The fleets are long gone: --force saves the watch.
        for at, (stage, tables) in list(enumerate(stages_of(library)))[-4:]:
            source = name_of(folder, library, str(at))
            make_tables(dialect, source, tables)
            before = {suffix: items_of(source + suffix) for suffix in TABLES[dialect]}
            expected = positions(f"{dialect}:{source}")
            for other in TABLES:
                if other == dialect:
                    continue
                there, back = f"{other}:{source}-{other}", f"{dialect}:{source}-{other}-back"
                said = convert(f"{dialect}:{source}", there, "--force")
                check("read again and compared" in said.out, library, stage, other, said)
                check_equal(positions(there), expected, library, stage, "as", other)
                convert(there, back, "--force")
                check_equal(positions(back), expected, library, stage, "as", other, "and back")
            check_equal({suffix: items_of(source + suffix) for suffix in TABLES[dialect]}, before,
                        "the source was written", library, stage)


def go_kcl_row(shard, owner=None, until=-60, checkpoint=None, **more):
    row = {"ShardID": shard, "AssignedTo": owner, "Checkpoint": checkpoint, **more,
           "LeaseTimeout": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + until))}
    return {name: {"S": value} for name, value in row.items() if value is not None}


@test(seconds=120)
def masks_of_kcl_rb_come_off_when_converted(folder):
    """To each dialect, to kcl-rb itself, and back: the place behind a mask is what stands there, and no mask is left."""
    over = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time.time() - 60))

    def row(shard, **more):
        return {name: {"S": value} for name, value in
                {"shard_id": shard, "sidecar_worker": "one", "lease_timeout": over, **more}.items()}
    source = name_of(folder, "masked")
    make_tables("kcl-rb", source, {"": [
        row("shardId-0", checkpoint="SHARD_END", sidecar_checkpoint="4959", assigned_to="one"),
        row("shardId-1", checkpoint="SHARD_END", sidecar_checkpoint="", assigned_to="one"),
        row("shardId-2", checkpoint="SHARD_END", sidecar_checkpoint="4960", SidecarPosition="4960:4961:3"),
        row("shardId-3", checkpoint="SHARD_END"),
        row("shardId-4", checkpoint="4962")]})
    before = items_of(source)
    expected = positions(f"kcl-rb:{source}")
    check_equal(expected, {"shardId-0": "4959", "shardId-2": "4961 + 3", "shardId-3": "SHARD_END", "shardId-4": "4962"})
    for other in TABLES:
        there, back = [f"{source}-{other}{word}" for word in ("", "-back")]
        said = convert(f"kcl-rb:{source}", f"{other}:{there}", "--force")
        check("read again and compared" in said.out, other, said)
        check_equal(positions(f"{other}:{there}"), expected, "as", other)
        convert(f"{other}:{there}", f"kcl-rb:{back}", "--force")
        check_equal(positions(f"kcl-rb:{back}"), expected, "as", other, "and back")
        rows = {item["shard_id"]["S"]: {name: value.get("S") for name, value in item.items()} for item in items_of(back)}
        check_equal([name for name, each in rows.items() if "sidecar_checkpoint" in each or "assigned_to" in each], [], rows)
        check_equal({name: each.get("checkpoint") for name, each in rows.items() if name != "shardId-1"},
                    {"shardId-0": "4959", "shardId-2": "4960" if other in ("go-kcl", "kinsumer", "kcl-rb") else None,
                     "shardId-3": "SHARD_END", "shardId-4": "4962"}, other)
        check("checkpoint" not in rows.get("shardId-1", {}), other, rows)
    check_equal(items_of(source), before, "the source was written")


@test(seconds=60)
def a_dry_run_writes_nothing_and_a_second_run_finds_all_there(folder):
    source, target = name_of(folder, "a"), name_of(folder, "b")
    make_tables("go-kcl", source, {"": [go_kcl_row("shardId-0", "worker-a", checkpoint="4959"),
                                        go_kcl_row("shardId-1", "worker-a", checkpoint="SHARD_END"),
                                        go_kcl_row("shardId-2", "worker-b")]})
    said = convert(f"go-kcl:{source}", f"native:{target}", "--dry-run")
    check("dry run: 2 rows to write; nothing was written" in said.out, said)
    check("1 rows have no position" in said.err, said)
    check(target not in names(), "a dry run made the table")
    convert(f"go-kcl:{source}", f"native:{target}")
    rows = {item["k"]["S"]: item for item in items_of(target)}
    check_equal(sorted(rows), ["shardId-0", "shardId-1"])
    check_equal(rows["shardId-0"], {"p": {"S": "s"}, "k": {"S": "shardId-0"}, "epoch": {"N": "0"}, "rev": {"N": "0"},
                                    "checkpoint": {"S": "4959"}})
    check_equal((rows["shardId-1"]["checkpoint"], rows["shardId-1"]["finished"]), ({"S": "SHARD_END"}, {"BOOL": True}))
    said = convert(f"go-kcl:{source}", f"native:{target}")
    check("0 rows written, read again and compared; 2 were there" in said.out, said)


@test(seconds=60)
def a_target_with_other_rows_is_refused(folder):
    source, target = name_of(folder, "a"), name_of(folder, "b")
    make_tables("go-kcl", source, {"": [go_kcl_row("shardId-0", checkpoint="4959")]})
    make_tables("go-kcl", target, {"": [go_kcl_row("shardId-0", checkpoint="4950"), go_kcl_row("shardId-9")]})
    before = items_of(target)
    said = convert(f"go-kcl:{source}", f"go-kcl:{target}", status=1)
    check("other rows of 1 of these shards" in said.err and "rows of 1 other shards" in said.err, said)
    check_equal(items_of(target), before)
    convert(f"go-kcl:{source}", f"go-kcl:{target}", "--force")
    check_equal(positions(f"go-kcl:{target}"), {"shardId-0": "4959"})
    check_equal(len(items_of(target)), 2)


@test(seconds=60)
def a_fleet_that_begins_while_rows_are_written_keeps_its_rows(folder):
    """A member that holds nothing shows nothing: it may take a row, or make one, as soon as the target is there."""
    for at, begins in enumerate((go_kcl_row("shardId-0", "worker-b", until=100), go_kcl_row("shardId-9"))):
        source, target = name_of(folder, f"a{at}"), name_of(folder, f"b{at}")
        make_tables("go-kcl", source, {"": [go_kcl_row("shardId-0", checkpoint="4959"), go_kcl_row("shardId-1", checkpoint="4960")]})
        said = convert_while(folder, f"go-kcl:{source}", f"go-kcl:{target}",
                             lambda target=target, row=begins: dynamodb("PutItem", TableName=target, Item=row))
        check_equal(said.status, 1, said)
        check(f"{begins['ShardID']['S']}: somebody wrote its row meanwhile" in said.err, said)
        check(begins in items_of(target), "its row was overwritten", items_of(target))
        # The others are there: who begins does not begin them anew.
        check_equal(positions(f"go-kcl:{target}")["shardId-1"], "4960")


@test(seconds=60)
def a_source_that_is_written_meanwhile_is_told(folder):
    source, target = name_of(folder, "a"), name_of(folder, "b")
    make_tables("go-kcl", source, {"": [go_kcl_row("shardId-0", checkpoint="4959")]})
    said = convert_while(folder, f"go-kcl:{source}", f"go-kcl:{target}",
                         lambda: dynamodb("PutItem", TableName=source, Item=go_kcl_row("shardId-0", "worker-b", checkpoint="4960")))
    check_equal(said.status, 1, said)
    check("was written meanwhile: the row of shardId-0" in said.err, said)


@test(seconds=60)
def a_table_is_not_converted_into_itself(folder):
    name = name_of(folder)
    make_tables("go-kcl", name, {"": [go_kcl_row("shardId-0", "worker-a", checkpoint="4959")]})
    before = items_of(name)
    said = leases("convert", "--from", f"go-kcl:{name}", "--to", "go-kcl", "--application", name, "--force", status=2)
    check("name the same table" in said.err, said)
    check_equal(items_of(name), before)


@test(seconds=60)
def a_damaged_row_of_the_target_is_left_alone(folder):
    source, target = name_of(folder, "a"), name_of(folder, "b")
    make_tables("go-kcl", source, {"": [go_kcl_row("shardId-0", checkpoint="4959"), go_kcl_row("shardId-1", checkpoint="4960")]})
    damaged = {"Shard": {"S": "shardId-0"}, "SequenceNumber": {"N": "4950"}}
    make_tables("kinsumer", target, {"_checkpoints": [damaged]})
    said = convert(f"go-kcl:{source}", f"kinsumer:{target}", status=1)
    check("the attribute SequenceNumber of the target's row cannot be read" in said.out, said)
    convert(f"go-kcl:{source}", f"kinsumer:{target}", "--force")
    check(damaged in items_of(target + "_checkpoints"), "the damaged row was written", items_of(target + "_checkpoints"))
    check_equal(len(items_of(target + "_checkpoints")), 2)


@test(seconds=60)
def what_members_read_is_compared_too(folder):
    """The place of sidecars is right, that of members is not; a claim, a mask: such rows are not there yet."""
    whole, inside = {"checkpoint": "4958"}, {"checkpoint": "4958", "SidecarPosition": "4958:4959:3"}
    for at, (dialect, row, stands) in enumerate((
            ("go-kcl", inside, go_kcl_row("shardId-0", checkpoint="4900", SidecarPosition="4900:4959:3")),
            ("go-kcl", whole, go_kcl_row("shardId-0", checkpoint="4958", ClaimRequest="worker-b")),
            ("kcl-rb", whole, {"shard_id": {"S": "shardId-0"}, "checkpoint": {"S": "SHARD_END"},
                               "sidecar_checkpoint": {"S": "4958"}}))):
        source, target = name_of(folder, f"a{at}"), name_of(folder, f"b{at}")
        make_tables("go-kcl", source, {"": [go_kcl_row("shardId-0", **row)]})
        make_tables(dialect, target, {"": [stands]})
        said = convert(f"go-kcl:{source}", f"{dialect}:{target}", status=1)
        check("the target has another row" in said.out, said)
        convert(f"go-kcl:{source}", f"{dialect}:{target}", "--force")
        item, = items_of(target)
        check_equal(item["Checkpoint" if dialect == "go-kcl" else "checkpoint"], {"S": "4958"}, item)
        check_equal(item.keys() & {"ClaimRequest", "sidecar_checkpoint"}, set(), item)


@test(seconds=90)
def a_live_fleet_is_left_alone(folder):
    source, target = name_of(folder, "a"), name_of(folder, "b")
    make_tables("go-kcl", source, {"": [go_kcl_row("shardId-0", "worker-a", until=100, checkpoint="4959")]})
    before = items_of(source)
    for words in (["convert", "--from", f"go-kcl:{source}", "--to", f"native:{target}"],
                  ["seize", "worker-a", "--table", f"go-kcl:{source}"],
                  ["release", "shardId-0", "--table", f"go-kcl:{source}"],
                  ["reset", "--all", "--at", "after:1", "--table", f"go-kcl:{source}"]):
        said = leases(*words, status=1)
        check("a fleet lives: worker-a has shardId-0" in said.err, said)
    check_equal(items_of(source), before)
    check(target not in names(), "the target was made")
    leases("seize", "worker-a", "--table", f"go-kcl:{source}", "--force")
    row, = items_of(source)
    check_equal(row, {name: value for name, value in before[0].items() if name != "AssignedTo"})


@test(seconds=120)
def a_running_sidecar_is_seen_whatever_its_dialect(folder):
    for dialect in TABLES:
        name = name_of(folder, dialect)
        make_stream(name, 2)
        one = sidecar(folder, dialect, dialect, name)
        one.start()
        put_kinesis(name, numbered(10))
        pull_all(one, 10)
        said = leases("release", "--all", "--table", f"{dialect}:{name}", *quick(dialect), status=1, lease_ms=2000)
        check("a fleet lives" in said.err, dialect, said)
        one.stop()


@test(seconds=120)
def the_dead_are_seized_and_their_leases_served_by_others(folder):
    for dialect in TABLES:
        name = name_of(folder, dialect)
        make_stream(name, 2)
        one = sidecar(folder, dialect, dialect + "-one", name)
        one.start()
        put_kinesis(name, numbered(10))
        pull_all(one, 10)
        wait_until(lambda: len(positions(f"{dialect}:{name}")) == 2, 20, "checkpoints")
        one.kill()
        before = positions(f"{dialect}:{name}")
        table = f"{dialect}:{name}"
        if dialect == "native":
            shard = sorted(before)[0]
            wait_until(lambda: "may come back" in leases("release", shard, "--table", table, status=1, lease_ms=2000).err, 20,
                       "a worker that was not fenced may come back")
        said = wait_until(lambda: leases_of_the_dead(table, dialect), 30, "it is dead")
        check_equal(len([line for line in said.out.split("\n") if "taken from" in line]), 2, said)
        check_equal({row[1] for row in leases("list", "--table", table).rows}, {"-"})
        check_equal(positions(table), before)
        two = sidecar(folder, dialect, dialect + "-two", name).start()
        put_kinesis(name, numbered(10, start=10))
        got = pull_all(two, 10)
        check_equal(len({data_of(record) for record in got}), 10)
        two.stop()


@test(seconds=60)
def a_native_worker_whose_row_is_damaged_is_told_of_and_its_leases_are_released_when_that_is_deleted(folder):
    name = name_of(folder)
    table = f"native:{name}"
    make_stream(name, 1)
    one = sidecar(folder, "native", "one", name).start()
    put_kinesis(name, numbered(10))
    pull_all(one, 10)
    one.kill()
    row, = [item for item in items_of(name) if item["k"]["S"] == "one"]
    dynamodb("PutItem", TableName=name, Item={**row, "beat": {"S": "often"}})
    two = sidecar(folder, "native", "two", name).start()
    wait_until(lambda: "one: its worker row cannot be read" in two.said(), 20, "it is told")
    two.stop()
    check_equal(two.said().count("its worker row cannot be read"), 1)
    said = leases("seize", "one", "--table", table, status=1)
    check("its row is damaged; end its process, delete that row, do it again" in said.err, said)
    said = leases("release", "--all", "--table", table, status=1)
    check("seize one first" in said.err, said)
    dynamodb("DeleteItem", TableName=name, Key={"p": {"S": "w"}, "k": {"S": "one"}})
    leases("release", "--all", "--table", table)
    check_equal({row[1] for row in leases("list", "--table", table).rows}, {"-"})


@test(seconds=60)
def a_lease_of_the_kcl_that_is_freed_keeps_since_when_it_is_latest_and_what_was_prepared(folder):
    name = name_of(folder)
    since = {"SidecarSince": number(1714564810000), "checkpoint": text("LATEST")}
    prepared = {"pendingCheckpoint": text("4960"), "pendingCheckpointSubSequenceNumber": number(0),
                "pendingCheckpointState": {"B": "AQI="}, "checkpoint": text("4959")}
    rows = [{"leaseKey": text(f"shardId-{at}"), "leaseOwner": text("dead"), "leaseCounter": number(4), "mine": text("42"),
             "ownerSwitchesSinceCheckpoint": number(0), "checkpointSubSequenceNumber": number(0), **more}
            for at, more in enumerate((since, prepared))]
    make_tables("kcl", name, {"": rows})
    leases("seize", "dead", "--table", f"kcl:{name}")
    free = [{**{key: value for key, value in row.items() if key != "leaseOwner"}, "leaseCounter": number(5)} for row in rows]
    check_equal(items_of(name), sorted(free, key=lambda item: json.dumps(item, sort_keys=True)))
    check_equal(positions(f"kcl:{name}")["shardId-0"], "LATEST since 2024-05-01T12:00:10.000Z")
    convert(f"kcl:{name}", f"native:{name}-native")
    check_equal(positions(f"native:{name}-native"), {"shardId-0": "AT_TIMESTAMP 2024-05-01T12:00:10.000Z", "shardId-1": "4959"})
    leases("reset", "--all", "--at", "latest", "--table", f"kcl:{name}")
    for item in items_of(name):
        check_equal(item.keys() & {"SidecarSince", *list(prepared)[:3]}, set(), item)


@test(seconds=60)
def a_seizure_says_what_becomes_of_the_worker(folder):
    name = name_of(folder)
    make_tables("kinsumer", name, {"_clients": [{"ID": text("ghost"), "LastUpdate": number(time.time_ns() + 3600 * 10 ** 9)}]})
    said = leases("seize", "ghost", "--table", f"kinsumer:{name}", status=1)
    check("client ghost is good for another" in said.err, said)
    for words in (["--dry-run"], []):
        said = leases("seize", "ghost", "--table", f"kinsumer:{name}", "--force", *words)
        check("ghost: a client no more, its row is deleted" in said.out, said)
        check_equal(len(items_of(name + "_clients")), len(words), said)


def leases_of_the_dead(table, dialect):
    env = dict(os.environ, AWS_ENDPOINT_URL_DYNAMODB=os.environ["KS_DYNAMODB_URL"])
    run = subprocess.run([BINARY, "leases", "seize", dialect + "-one", "--table", table, "--lease-duration-ms", "2000",
                          *quick(dialect)], env=env, capture_output=True,
                         stdin=subprocess.DEVNULL, timeout=60 * PATIENCE, check=False)
    return Said(run) if run.returncode == 0 else None


@test(seconds=60)
def damaged_rows_are_named_with_their_attribute_and_left_alone(folder):
    source, target = name_of(folder, "a"), name_of(folder, "b")
    damaged = dict(go_kcl_row("shardId-1"), LeaseTimeout={"S": "yesterday"})
    null = dict(go_kcl_row("shardId-2"), AssignedTo={"NULL": True})
    make_tables("go-kcl", source, {"": [go_kcl_row("shardId-0", checkpoint="4959"), damaged, null]})
    before = items_of(source)
    table = f"go-kcl:{source}"
    said = leases("list", "--table", table)
    check("the attribute LeaseTimeout cannot be read" in said.out, said)
    check("the attribute AssignedTo cannot be read" in said.out, said)
    said = leases("show", "shardId-2", "--table", table)
    check("damaged" in said.out and "AssignedTo               ?" in said.out, said)
    said = convert(table, f"native:{target}", status=1)
    check("2 rows cannot be converted: mend them" in said.err, said)
    leases("reset", "shardId-1", "--at", "latest", "--table", table, status=1)
    convert(table, f"native:{target}", "--force")
    check_equal(positions(f"native:{target}"), {"shardId-0": "4959"})
    check_equal(items_of(source), before)


@test(seconds=60)
def a_lease_is_reset_to_each_place_and_a_sidecar_begins_there(folder):
    for dialect in TABLES:
        name = name_of(folder, dialect)
        table = f"{dialect}:{name}"
        make_stream(name, 1)
        placed = put_kinesis(name, numbered(10))
        one = sidecar(folder, dialect, dialect + "-one", name)
        one.start()
        pull_all(one, 10)
        one.stop()
        (shard, third), fourth, last = placed[2], placed[3][1], placed[9][1]
        check_equal(positions(table), {shard: last}, dialect)
        for at, is_at in (("trim_horizon", "TRIM_HORIZON"), (f"after:{fourth}", fourth),
                          ("2026-11-22T12:00:00Z", "AT_TIMESTAMP 2026-11-22T12:00:00.000Z")):
            if dialect == "kcl" and is_at.startswith("AT_"):
                said = leases("reset", shard, "--at", at, "--table", table, status=1)
                check("kcl cannot hold this position" in said.err, said)
                continue
            said = leases("reset", shard, "--at", at, "--table", table, "--dry-run", *quick(dialect))
            check("nothing was written" in said.out, said)
            leases("reset", shard, "--at", at, "--table", table, *quick(dialect))
            check_equal(positions(table), {shard: is_at}, dialect)
        leases("reset", shard, "--at", f"after:{third}" if dialect == "kcl" else fourth, "--table", table, *quick(dialect))
        two = sidecar(folder, dialect, dialect + "-two", name).start()
        got = pull_all(two, 7)
        check_equal(sorted(data_of(record).decode() for record in got), [f"record-{at:04d}" for at in range(3, 10)], dialect)
        two.stop()


@test(seconds=60)
def a_file_is_converted_to_a_table_and_back(folder):
    one = Sidecar.local(folder, local_shards=3).start()
    one.put(numbered(30))
    pull_all(one, 30)
    one.stop()
    file, other = ["native:sqlite:" + os.path.join(folder, name) for name in ("leases.db", "back.db")]
    app = ["--application", "demo"]
    target = name_of(folder)
    before = leases("list", "--table", file, *app).out
    convert(file, f"go-kcl:{target}", *app)
    convert(f"go-kcl:{target}", other, *app)
    check_equal([(row[0], row[4]) for row in leases("list", "--table", other, *app).rows],
                [(row[0], row[4]) for row in Said.rows.fget(type("", (), {"out": before}))])
    leases("list", "--table", "native:sqlite:" + os.path.join(folder, "none.db"), *app, status=1)
    check(not os.path.exists(os.path.join(folder, "none.db")), "looking made a file")


@test(seconds=60)
def a_sidecar_does_not_start_on_a_table_of_another_dialect(folder):
    for dialect in TABLES:
        name = name_of(folder, dialect)
        make_stream(name, 1)
        # kinsumer's tables have names of their own: what stands under the first of them is another dialect's.
        other = "go-kcl" if dialect != "go-kcl" else "kcl"
        dynamodb("CreateTable", TableName=name + next(iter(TABLES[dialect])), BillingMode="PAY_PER_REQUEST",
                 AttributeDefinitions=[{"AttributeName": TABLES[other][""][0], "AttributeType": "S"}],
                 KeySchema=[{"AttributeName": TABLES[other][""][0], "KeyType": "HASH"}])
        one = sidecar(folder, dialect, "one-" + dialect, name).start(ready=False)
        check_equal(one.wait(), 1, dialect)
        check(f"like a table of --dialect {other}" in one.said(), one.said())
        check("cannot run: the lease table is" in one.said(), one.said())


@test(seconds=60)
def a_damaged_row_is_named_with_its_attribute_and_the_others_are_served(folder):
    name = name_of(folder)
    make_stream(name, 2)
    damaged = {"leaseKey": {"S": "shardId-000000000000"}, "leaseCounter": {"N": "4"}, "checkpoint": {"S": "TRIM_HORIZON"},
               "ownerSwitchesSinceCheckpoint": {"N": "0"}, "checkpointSubSequenceNumber": {"N": "0"},
               "entityType": {"S": "OF_A_LATER_VERSION"}}
    make_tables("kcl", name, {"": [damaged]})
    one = sidecar(folder, "kcl", "one", name).start()
    wait_until(lambda: "shardId-000000000000: its lease row cannot be read: the attribute entityType" in one.said(), 20,
               "it is named")
    time.sleep(2)
    check_equal(one.said().count("its lease row cannot be read"), 1)
    wait_until(lambda: len(items_of(name)) == 2, 20, "the other shard has a row")
    check(damaged in items_of(name), "the damaged row was written")
    one.stop()


# A row of each dialect that says all that it can; at their ends rows are read in another way.
def text(value):
    return {"S": value}


def number(value):
    return {"N": str(value)}


WHOLE_ROWS = {
    "native": [{"epoch": number(3), "rev": number(4), "owner": text("worker-a#00000000000000ab"),
                "next_owner": text("worker-b#00000000000000cd"), "checkpoint": text("4959"), "sub": number(2),
                "parents": {"SS": ["shardId-p"]}, "children": {"SS": ["shardId-c"]}, "hash_start": text("0"), "hash_end": text("9"),
                "load": number(7), "finished": {"BOOL": False}},
               {"epoch": number(3), "rev": number(4), "checkpoint": text("AT_TIMESTAMP"), "checkpoint_ms": number(5)}],
    "kcl": [{"leaseCounter": number(4), "leaseOwner": text("worker-a"), "checkpointOwner": text("worker-b"),
             "ownerSwitchesSinceCheckpoint": number(0), "checkpoint": text("4959"), "checkpointSubSequenceNumber": number(2),
             "parentShardId": {"SS": ["shardId-p"]}, "childShardIds": {"SS": ["shardId-c"]}, "startingHashKey": text("0"),
             "endingHashKey": text("9"), "pendingCheckpoint": text("4960"), "pendingCheckpointSubSequenceNumber": number(0),
             "entityType": text("LEASE")}],
    "go-kcl": [{"AssignedTo": text("worker-a"), "LeaseTimeout": text("2026-01-01T00:00:00Z"), "Checkpoint": text("4959"),
                "ParentShardId": text("shardId-p"), "ClaimRequest": text("worker-b"), "SidecarPosition": text("4959:4960:2")}],
    "kinsumer": [{"OwnerID": text("worker-a"), "OwnerName": text("worker-a"), "SequenceNumber": text("4959"),
                  "LastUpdate": number(1700000000000000000), "LastUpdateRFC": text("Tue, 14 Nov 2023 22:13:20 +0000"),
                  "SidecarPosition": text("4959:4960:2")},
                 {"Finished": number(1700000000000000000), "FinishedRFC": text("Tue, 14 Nov 2023 22:13:20 +0000")}],
    "kcl-rb": [{"assigned_to": text("worker-a"), "lease_timeout": text("2026-01-01 00:00:00 UTC"), "checkpoint": text("4959"),
                "sidecar_worker": text("worker-a"), "SidecarPosition": text("4959:4960:2")},
               {"checkpoint": text("SHARD_END"), "sidecar_checkpoint": text("4959")}],
}
# What their libraries write as NULL for what is not there; a text that they never read; a checkpoint that we do not.
NULL_IS_NONE = {"kinsumer", "kcl-rb"}
ANY_TEXT = {"OwnerID", "OwnerName", "LastUpdateRFC", "FinishedRFC", "AssignedTo", "ClaimRequest", "leaseOwner", "checkpointOwner",
            "assigned_to", "sidecar_worker", "pendingCheckpoint", "pendingCheckpointSubSequenceNumber"}
NEEDED = {"epoch", "rev", "checkpoint", "leaseCounter", "ownerSwitchesSinceCheckpoint"}


def damages(dialect):
    """shard -> (the attribute that is damaged, the row)."""
    rows = {}
    for at, whole in enumerate(WHOLE_ROWS[dialect]):
        for name, value in whole.items():
            kind, = value
            wrong = {"list": {"L": []}, "type": number(4) if kind != "N" else text("4")}
            if dialect not in NULL_IS_NONE:
                wrong["null"] = {"NULL": True}
            if kind in "SN" and name not in ANY_TEXT:
                wrong["garbage"] = text("gar bage") if kind == "S" else number("1.5")
            if dialect == "native" and name in NEEDED or dialect == "kcl" and name in NEEDED - {"rev"}:
                wrong["absent"] = None
            for how, damage in wrong.items():
                row = {key: item for key, item in whole.items() if key != name}
                rows[f"shardId-{at}-{name}-{how}"] = (name, {**row, **({} if damage is None else {name: damage})})
    return rows


@test(seconds=120)
def each_damage_is_named_before_the_first_write_and_left_alone(folder):
    for dialect, tables in TABLES.items():
        name = name_of(folder, dialect)
        make_stream(name, 1)
        suffix, keys = next(iter(tables.items()))
        wrong = damages(dialect)

        def item(shard, row, keys=keys):
            return {**dict(zip(keys[::-1], (text(shard), text("s")))), **row}
        rows = [item(shard, row) for shard, (_, row) in wrong.items()]
        make_tables(dialect, name, {suffix: rows})
        said = leases("list", "--table", f"{dialect}:{name}")
        named = {row[0]: row[-1] for row in said.rows}
        for shard, (attribute, _) in wrong.items():
            check_equal(named[shard], f"the attribute {attribute} cannot be read", dialect, shard)
        one = sidecar(folder, dialect, "one-" + dialect, name).start()
        put_kinesis(name, numbered(1))
        pull_all(one, 1)
        log = one.said()
        first = log.index(": acquired")
        for shard, (attribute, _) in wrong.items():
            at = log.find(f"{shard}: its lease row cannot be read: the attribute {attribute}")
            check(0 <= at < first, dialect, shard, "is not named before the first write:", log[-3000:])
        for row in rows:
            check(row in items_of(name + suffix), dialect, "was written:", row)
        one.kill()


@test(seconds=120)
def two_dialects_on_one_table_stop_it_and_nothing_is_written(folder):
    for dialect, tables in TABLES.items():
        suffix, keys = next(iter(tables.items()))
        for other in TABLES.keys() - {dialect}:
            name = name_of(folder, dialect, other)
            stray = {**dict(zip(keys[::-1], (text("shardId-0"), text("s")))), **WHOLE_ROWS[other][0]}
            make_tables(dialect, name, {suffix: [stray]})
            said = leases("list", "--table", f"{dialect}:{name}", status=1)
            check(f"two dialects on one table: the row shardId-0 is of --dialect {other}" in said.err, said)
        make_stream(name, 1)
        one = sidecar(folder, dialect, "one-" + dialect, name).start(ready=False)
        check_equal(one.wait(), 1)
        check("two dialects on one table" in one.said(), one.said())
        check_equal(items_of(name + suffix), [stray])


@test(seconds=60)
def members_with_another_time_and_claims_are_told_of(folder):
    name = name_of(folder)
    make_stream(name, 2)
    shards = ["shardId-000000000000", "shardId-000000000001"]
    make_tables("go-kcl", name, {"": [go_kcl_row(shard, "worker-a", until=60) for shard in shards]})
    one = sidecar(folder, "go-kcl", "one", name).start()

    def told():
        for at, shard in enumerate(shards):  # As a member renews.
            row = go_kcl_row(shard, "worker-a", until=60 + time.monotonic() % 10, **({"ClaimRequest": "worker-b"} if at else {}))
            dynamodb("PutItem", TableName=name, Item=row)
        return "as if they lasted much longer" in one.said() and "give it --lease-stealing on" in one.said()
    wait_until(told, 20, "both are told", every=0.3)
    check_equal(one.said().count("mixed configuration"), 2)
    one.stop()


@test(seconds=30)
def wrong_words_and_tables_are_refused(folder):
    name = name_of(folder)
    make_tables("go-kcl", name)
    for words in (["list", "--table", "go-kcl"], ["list", "--table", "kcl9:x"], ["list", "--table", "go-kcl:sqlite:x"],
                  ["show", "--table", "go-kcl:abc"], ["reset", "shardId-0", "--table", "go-kcl:abc"],
                  ["convert", "--from", "go-kcl:abc"], ["reset", "shardId-0", "--at", "soon", "--table", "go-kcl:abc"],
                  ["seize", "--table", "go-kcl:abc"], ["seize", "", "--table", "go-kcl:abc"], ["show", "", "--table", "go-kcl:abc"], ["convert", "--from", "go-kcl:abc", "--to", "go-kcl:abc"]):
        check(leases(*words, status=2).out == "", words)
    said = leases("list", "--table", f"native:{name}", status=1)
    check("its key is (ShardID)" in said.err, said)
    said = leases("list", "--table", f"go-kcl:{name}-not", status=1)
    check("there is no such table" in said.err, said)
    check_equal(leases("list", "--table", f"go-kcl:{name}").rows, [])
    check("convert --from TABLE --to TABLE" in leases("--help").out)


need_emulators("dynoxide", "kinesis-local")
main()
