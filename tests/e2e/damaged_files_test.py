#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SQLite files that are removed, locked by others, or damaged, while the real binary works with them."""

import glob
import json
import os
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time

from lib import RawStream, Sidecar, check, check_equal, main, numbered, pull_all, test, wait_until


def path(folder, name):
    return os.path.join(folder, name)


def start(folder, name="sidecar", **more):
    return Sidecar.local(folder, name, local_shards=1, state_dir=folder, **more).start()


def settle(sidecar, record, outcome, wait="persisted"):
    item = {"ack_id": record["ack_id"], "outcome": outcome}
    return sidecar.call("POST", "/v1/records/settle", {"settlements": [item], "wait": wait, "wait_ms": 5000})


def letters(sidecar):
    return sidecar.get("/v1/dead-letters?page_size=1000")["dead_letters"]


def remove(folder, name):
    for found in glob.glob(path(folder, name) + "*"):
        os.remove(found)


@test(60)
def a_letter_that_was_persisted_after_its_file_was_removed_is_there_after_a_restart(folder):
    sidecar = start(folder)
    sidecar.put(numbered(2))
    records = sidecar.get("/v1/records?max_records=2&wait_ms=5000")["records"]
    check(settle(sidecar, records[0], "dead_letter").json["persisted"], "the first letter")
    remove(folder, "dead_letters.db")
    answer = settle(sidecar, records[1], "dead_letter")
    check(answer.json["persisted"], answer)
    check("dead_letters.db: the file was moved or removed while it was open" in sidecar.said(), sidecar.said())
    sidecar.kill()
    sidecar = start(folder, "again")
    check_equal([letter["sequence_number"] for letter in letters(sidecar)], [records[1]["sequence_number"]], "letters")
    sidecar.stop()


@test(60)
def a_put_into_a_removed_stream_file_is_refused_and_the_sidecar_not_ready(folder):
    sidecar = start(folder)
    remove(folder, "stream.db")
    answer = sidecar.call("POST", "/v1/local/records", {"Records": [{"PartitionKey": "k", "Data": "eA=="}]})
    check_equal(answer.status, 503, answer)
    check("stream.db: the file" in answer.json["detail"] and "put it back, or start again" in answer.json["detail"], answer)
    wait_until(lambda: sidecar.ops("/readyz").status == 503, 10, "it is not ready")
    sidecar.kill()


def beats(folder):
    """How often the worker's row was written."""
    with sqlite3.connect(path(folder, "leases.db"), timeout=20) as db:
        db.row_factory = sqlite3.Row
        rows = db.execute("SELECT * FROM lease_table WHERE p != 's'").fetchall()
        return [tuple(row) for row in rows]


@test(90)
def a_locked_dead_letter_file_delays_no_heartbeat_and_no_record(folder):
    sidecar = start(folder)
    stream = RawStream(sidecar, "client_id=app")
    sidecar.put(numbered(3))
    records = stream.records(3)
    lock = sqlite3.connect(path(folder, "dead_letters.db"), isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    for record in records:
        check_equal(settle(sidecar, record, "dead_letter", "recorded").status, 200, "settled")
    wait_until(lambda: "dead letters cannot be written" in sidecar.said(), 20, "it says that it cannot write them")
    check(f"held by process {os.getpid()} (" in sidecar.said(), "who has it locked:", sidecar.said())
    # Several heartbeats and records, while each try to write letters waits for two seconds.
    for at in range(8):
        seen = beats(folder)
        wait_until(lambda before=seen: beats(folder) != before, 10, "a heartbeat")
        sidecar.put(numbered(1, 10 + at))
        check_equal(settle(sidecar, stream.records(1)[0], "ack", "recorded").status, 200, "an ack")
    check_equal({lease["epoch"] for lease in sidecar.get("/v1/leases")["leases"]}, {1}, "no lease was lost")
    lock.execute("ROLLBACK")
    wait_until(lambda: len(letters(sidecar)) == 3, 20, "the letters are written")
    stream.close()
    sidecar.stop()


HOLDER = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
os.kill(os.getpid(), signal.SIGSTOP)
db.execute("COMMIT")
sys.stdin.read()
"""


@test(60)
def a_process_that_is_stopped_inside_a_write_of_the_lease_table_is_named(folder):
    sidecar = start(folder)
    sidecar.put(numbered(1))
    record = sidecar.get("/v1/records?wait_ms=5000")["records"][0]
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, path(folder, "leases.db")], stdin=subprocess.PIPE)
    os.waitpid(holder.pid, os.WUNTRACED)
    named = re.compile(rf"leases\.db: locked, held by process {holder.pid} \([^)]*, stopped\)")
    wait_until(lambda: named.search(sidecar.said()), 20, "the log names the process")
    check(not settle(sidecar, record, "ack").json["persisted"], "no checkpoint gets into the table")
    holder.send_signal(signal.SIGCONT)
    wait_until(lambda: "no longer locked" in sidecar.said(), 20, "the lock is over")
    holder.stdin.close()
    holder.wait()
    pull_all(sidecar, 0)
    sidecar.put(numbered(1, 5))
    pull_all(sidecar, 1)
    sidecar.stop()


# --- Any value in any column ---

VALUES = [None, 0, 1, -1, 2**31, 2**32, 2**40 - 1, 2**40, 2**62, 2**63 - 1, -2**63, 0.5, -1e308, "", "a\",\"x\":\"b", "\0", "\x1b[2J",
          "s" * 4000, "9" * 200, "-1", "1e5", "shardId-000000000000", "\U0001F600", "TRIM_HORIZON", "a\nb", b"", b"\xff" * 16,
          b"k" * 20000, b"\0" * 16, b"\xf3\x89\x9a\xc2" + b"\xff" * 40]


def loosen(db):
    """Tables as others may make them: no column has a type or a rule."""
    for table, in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").fetchall():
        columns = ", ".join(f'"{row[1]}"' for row in db.execute(f"PRAGMA table_info({table})"))
        key = [row[1] for row in sorted(db.execute(f"PRAGMA table_info({table})").fetchall(), key=lambda row: row[5]) if row[5]]
        one = db.execute(f"PRAGMA table_info({table})").fetchone()
        if key == ["id"] and one[2] == "INTEGER":
            loose = columns.replace('"id"', '"id" INTEGER PRIMARY KEY')
        else:
            loose = columns + ", UNIQUE (" + ", ".join(key) + ")"
        db.execute(f"ALTER TABLE {table} RENAME TO strict_{table}")
        db.execute(f"CREATE TABLE {table} ({loose})")
        db.execute(f"INSERT INTO {table} SELECT * FROM strict_{table}")
        db.execute(f"DROP TABLE strict_{table}")


def damages(file, skipped=lambda table, column, value: False):
    """Each value in each column of each table, alone: put in, judged, taken out again."""
    with sqlite3.connect(file, isolation_level=None, timeout=30) as db:
        tables = {}
        for table, in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"):
            tables[table] = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        for table, columns in tables.items():
            for column in columns:
                for value in VALUES:
                    if skipped(table, column, value):
                        continue
                    pristine = db.execute(f"SELECT * FROM {table}").fetchall()
                    try:
                        db.execute(f'UPDATE {table} SET "{column}" = ?', (value,))
                    except sqlite3.Error:
                        continue
                    yield f"{table}.{column} = {str(value)[:40]!r} ({type(value).__name__})"
                    # In one transaction: the sidecar puts a row it misses back, and that row would collide.
                    db.execute("BEGIN IMMEDIATE")
                    db.execute(f"DELETE FROM {table}")
                    marks = ", ".join("?" * len(columns))
                    db.executemany(f"INSERT INTO {table} VALUES ({marks})", pristine)
                    db.execute("COMMIT")


def alive(sidecar, damage):
    code = sidecar.process.poll()
    check(code is None, f"{damage}: the process ended with {code}:\n{sidecar.said()[-1500:]}")


def answers(sidecar, damage, method, where):
    """Well-formed in JSON; an error is a problem with a sentence. Returns the status and the answer."""
    answer = sidecar.call(method, where, {} if method == "POST" else None)
    found = json.loads(answer.body, strict=True)
    check(answer.status < 400 or found["detail"], damage, method, where, answer)
    return answer.status, found


RECORD = {"ack_id", "stream", "shard_id", "epoch", "sequence_number", "sub_sequence_number", "partition_key",
          "approximate_arrival_timestamp", "attempt", "data", "aggregated", "redriven", "encoding"}


def check_records(sidecar, damage, wait_ms=0):
    status, found = answers(sidecar, damage, "GET", f"/v1/records?max_records=100&wait_ms={wait_ms}")
    for record in found.get("records", []) if status == 200 else []:
        check(set(record) <= RECORD, f"{damage}: members that no record has:", record)
    # So that they come again for the next one.
    for record in found.get("records", []) if status == 200 else []:
        settle(sidecar, record, "dead_letter" if record.get("redriven") else "retry", "recorded")


@test(240)
def no_value_in_a_row_of_dead_letters_ends_the_process_or_reaches_a_client_unescaped(folder):
    sidecar = start(folder)
    sidecar.put(numbered(1))
    record = sidecar.get("/v1/records?max_records=10&wait_ms=5000")["records"][0]
    check(settle(sidecar, record, "dead_letter").json["persisted"], "a letter")
    with sqlite3.connect(path(folder, "dead_letters.db"), isolation_level=None) as db:
        loosen(db)
    redriven = 0
    for damage in damages(path(folder, "dead_letters.db")):
        status, found = answers(sidecar, damage, "GET", "/v1/dead-letters")
        check_equal(status, 200, damage)
        for letter in found["dead_letters"]:
            status, _ = answers(sidecar, damage, "POST", f"/v1/dead-letters/{letter['id']}/redrive")
            check(status in (200, 409, 503), damage, status)
            if status == 200:
                redriven += 1
                check_records(sidecar, damage, 3000)
                wait_until(lambda: not any(one["redriven"] for one in letters(sidecar)), 10, f"{damage}: given up again")
        call = sidecar.call("GET", "/v1/dead-letters", headers={"Accept": "application/x-protobuf"})
        check_equal((call.status, call.headers["Content-Type"]), (200, "application/x-protobuf"), damage, call)
        alive(sidecar, damage)
    check(redriven > 50, f"only {redriven} letters were delivered again")
    sidecar.stop()


@test(240)
def no_value_in_a_row_of_a_local_stream_ends_the_process_or_reaches_a_client_unescaped(folder):
    sidecar = start(folder, max_attempts=0)
    sidecar.put(numbered(5))
    check_records(sidecar, "before", 5000)
    with sqlite3.connect(path(folder, "stream.db"), isolation_level=None) as db:
        loosen(db)
    for damage in damages(path(folder, "stream.db")):
        answers(sidecar, damage, "POST", "/v1/local/records")
        answers(sidecar, damage, "GET", "/v1/shards")
        answers(sidecar, damage, "GET", "/v1/peek?shard=shardId-000000000000&from=trim_horizon")
        put = sidecar.call("POST", "/v1/local/records", {"Records": [{"PartitionKey": "k", "Data": "eA=="}]})
        check(json.loads(put.body), damage, put)
        check_records(sidecar, damage)
        alive(sidecar, damage)
    sidecar.kill()


def look(sidecar, damage):
    for where in ("/v1/leases", "/v1/shards", "/v1/status", "/v1/workers"):
        answers(sidecar, damage, "GET", where)
    check_records(sidecar, damage)


@test(240)
def no_value_in_a_row_of_the_lease_table_aborts_the_process(folder):
    seed = int(os.environ.get("SEED") or random.randrange(1 << 32))
    print(f"    SEED={seed}")
    chance = random.Random(seed)
    sidecar = start(folder)
    sidecar.put(numbered(5))
    check_records(sidecar, "before", 5000)
    with sqlite3.connect(path(folder, "leases.db"), isolation_level=None) as db:
        loosen(db)
    for damage in damages(path(folder, "leases.db"), lambda table, column, value: chance.random() > 0.25):
        time.sleep(0.15)  # It looks at the file every 100 ms.
        try:
            look(sidecar, damage)
        except OSError:
            # It may refuse to go on, with a sentence, but not abort.
            code = sidecar.wait()
            check(code == 1 and "cannot run: " in sidecar.said(), f"{damage}: the process ended with {code}:\n{sidecar.said()[-1500:]}")
        if sidecar.process.poll() is not None:
            sidecar.start(ready=False)
            wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", sidecar.port)) == 0 or sidecar.process.poll() is not None,
                       15, "it listens")
    sidecar.kill()


if __name__ == "__main__":
    main()
