#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""judge.py [LANGUAGE..] - one scenario for the packages of client-stubs/, and the tests of each package.

Each language has a folder here. `build` builds the package and the app of the scenario; `run WAY CLIENT_ID CONCURRENCY` runs
the app; `test` runs the package's own suite against KINESIS_SIDECAR_BIN. `SEED=7 WAYS='run8 each' judge.py go` runs some.

The scenario: 10,000 records on 4 shards, on a Unix socket with a token. The sidecar is killed and started again, the app gets
SIGTERM and is started again, the app is killed and started again, each after a quarter of the records. The data of a
record says what its handler does: {"n":17,"do":"ack","times":0,"ms":0}. The app reports by JSON lines:
    {"n":17,"attempt":1,"at":"begin"}
    {"n":17,"attempt":1,"at":"end","outcome":"ack"}      or retry, dead_letter, drop
    {"n":17,"attempt":1,"at":"break"}                    the app left its loop; it closes the consumer and exits with 0
    {"n":17,"attempt":1,"at":"raise"}                    the same by an error
    {"at":"stopped"}                                     after SIGTERM; it exits with 0
The judge demands the same of every language: each record ends with its outcome, none begins before the earlier ones of its
scope (partition key, or shard without concurrency) have ended, no record is handled twice at the same time, records are
repeated after disturbances alone, and the sidecar holds the same dead letters and no record in flight at the end.

The way `pauses` is `run8` with fewer records and more retries, while the judge stops the app or the sidecar by SIGSTOP for
up to 3 s, as a loaded machine does: ack deadlines pass while records, barriers and answers are in sockets and buffers. Its
seed is another one each time, unless SEED is given. It is printed.
"""

import base64
import collections
import json
import os
import random
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from lib import BINARY, PATIENCE, Failure, Sidecar, call, check, check_equal, main, spawn, test, wait_until  # noqa: E402

LANGUAGES = ["python", "typescript", "go", "java", "ruby", "php", "rust", "c", "csharp"]
# name: the app's way and its concurrency
WAYS = {"run8": ("run", 8), "run1": ("run", 1), "each": ("each", 1), "batches": ("batches", 1), "pauses": ("run", 8)}
COUNT = int(os.environ.get("COUNT", "10000"))
KEYS = 100
SHARDS = 4
SEED = int(os.environ.get("SEED", "1"))
SECONDS = 120
SLOW_MS = 5000            # Beyond ACK_DEADLINE_MS, which the apps of the scenario use.
MAX_IN_FLIGHT = 1000      # The default: so many records may be repeated after a disturbance.
DISTURBANCES = 3
FINAL = ("ack", "dead_letter", "drop")


class Record:
    def __init__(self, number, key, what):
        self.number, self.key, self.what = number, key, what
        self.outcome = None     # The final one that was reported first.
        self.begins = self.repeats = 0
        self.running = False    # In the process of the app that lives now.

    @property
    def expected(self):
        return self.what["do"] if self.what["do"] in FINAL else "ack"

    def __repr__(self):
        return f"record {self.what} of {self.key} ({self.begins} begins, {self.outcome})"


def some_records(chance, count, pauses):
    """The same for every language: numbers in the order of the puts."""
    wanted = ["fail"] * (count // (10 if pauses else 50)) + ["dead_letter"] * (count // 200) + ["drop"] * (count // 200)
    wanted += ["slow"] * 3
    # A record that is taken back has another attempt when it comes again: these act at the first, before any retry.
    first = ["ack"] * (count // 4)
    first[count // 200], first[count // 8] = "break", "raise"
    wanted += ["ack"] * (count - len(first) - len(wanted))
    chance.shuffle(wanted)
    wanted = first + wanted
    records = []
    for number, do in enumerate(wanted):
        what = {"n": number, "do": do, "times": chance.randint(1, 2) if do == "fail" else 0, "ms": SLOW_MS if do == "slow" else 0}
        if pauses and do != "slow":
            what["ms"] = chance.choice((0, 0, 1, 5, 20))
        records.append(Record(number, f"key-{chance.randrange(KEYS)}", what))
    return records


class Judge:
    def __init__(self, records, scope_of, in_batches):
        """`scope_of[number]`: records of one scope are handled in order. In a batch the app goes on after a retry."""
        self.records, self.in_batches = records, in_batches
        self.before = {}   # number -> the record before it in its scope
        self.ended = self.retries = 0
        self.may_repeat = DISTURBANCES * MAX_IN_FLIGHT
        self.lives = collections.Counter()
        last = {}
        for record in records:
            scope = scope_of[record.number]
            self.before[record.number] = last.get(scope)
            last[scope] = record

    def new_life(self):
        for record in self.records:
            record.running = False

    def hear(self, line):
        report = json.loads(line)
        at = report["at"]
        self.lives[at] += 1
        if "n" in report:
            getattr(self, at if at in ("begin", "end") else "left")(self.records[report["n"]], report)

    def begin(self, record, report):
        before = self.before[record.number]
        check(before is None or before.outcome or (self.in_batches and before.begins), record, "began before", before)
        check(not record.running, record, "is handled twice at the same time")
        record.running = True
        record.begins += 1
        record.repeats += record.outcome is not None
        check(report["attempt"] >= 1, report)

    def end(self, record, report):
        check(record.running, record, "ended and had not begun")
        record.running = False
        if report["outcome"] == "retry":
            check(record.what["do"] in ("fail", "raise"), "a retry of", record)
            self.retries += 1
            return
        check_equal(report["outcome"], record.expected, "the outcome of", record)
        if record.outcome is None:
            self.ended += 1
        record.outcome = report["outcome"]

    @staticmethod
    def left(record, report):
        check_equal(record.what["do"], report["at"], "left at", record)
        record.running = False

    def is_over(self):
        return self.ended == len(self.records)

    def verdict(self):
        for record in self.records:
            check(record.outcome, "never ended:", record)
        check(self.retries >= len(self.records) / 1000, self.retries, "retries")
        repeats = sum(record.repeats for record in self.records)
        check(repeats <= self.may_repeat, repeats, "records were repeated; at most", self.may_repeat)
        return repeats


class App:
    """The app of a language as a process, and what it reports."""

    def __init__(self, folder, language, way, url, token_file, ask):
        self.folder, self.language, self.way, self.ask = folder, language, way, ask
        self.env = dict(os.environ, KINESIS_SIDECAR_URL=url, KINESIS_SIDECAR_TOKEN_FILE=token_file)
        self.starts = 0

    def start(self):
        self.starts += 1
        self.before = self.sessions()
        self.path = os.path.join(self.folder, f"app-{self.starts}.out")
        way, concurrency = WAYS[self.way]
        with open(self.path, "wb") as out:
            self.process = spawn([os.path.join(HERE, self.language, "run"), way, "scenario", str(concurrency)], env=self.env,
                                 stdout=out, stderr=open(os.path.join(self.folder, f"app-{self.starts}.log"), "wb"),
                                 start_new_session=True)
        self.reports = open(self.path, "rb")
        self.rest = b""

    def sessions(self):
        """When the sessions began that have a stream."""
        return [session["since"] for session in self.ask("GET", "/v1/sessions")["sessions"] if session["attached"]]

    def wait_for_stream(self):
        """Every app opens its stream after it has a handler of SIGTERM."""
        wait_until(lambda: self.process.poll() is not None or set(self.sessions()) - set(self.before), 30, "the app has a stream")

    def hear(self, judge):
        *lines, self.rest = (self.rest + self.reports.read()).split(b"\n")
        for line in lines:
            judge.hear(line)

    def end(self, judge, status):
        try:
            check_equal(self.process.wait(30 * PATIENCE), status, "the app's exit status")
        except subprocess.TimeoutExpired:
            raise Failure("the app does not end") from None
        self.hear(judge)
        self.reports.close()
        judge.new_life()


def play(folder, language, way):
    pauses = way == "pauses"
    count = COUNT // 4 if pauses else COUNT
    seed = random.randrange(1 << 31) if pauses and "SEED" not in os.environ else SEED
    if pauses:
        print(f"       SEED={seed}", flush=True)
    chance = random.Random(seed)
    token_file, path = os.path.join(folder, "token"), os.path.join(folder, "api.sock")
    with open(token_file, "w", encoding="ascii") as file:
        os.chmod(token_file, 0o600)
        file.write("a-token-of-the-scenario\n")
    sidecar = Sidecar.local(folder, listen="unix:" + path, token_file=token_file, local_shards=SHARDS, lease_duration_ms=5000, checkpoint_interval_ms=100,
                            retry_backoff_ms="50", dead_letters="sqlite:" + os.path.join(folder, "dead_letters.db")).start()

    def ask(method, target, body=None):
        answer = call(path, method, target, body, {"Authorization": "Bearer a-token-of-the-scenario"})
        check_equal(answer.status, 200, method, target, answer)
        return answer.json

    records = some_records(chance, count, pauses)
    shards = []
    for at in range(0, count, 500):
        entries = [{"PartitionKey": record.key, "Data": base64.b64encode(json.dumps(record.what).encode()).decode()}
                   for record in records[at:at + 500]]
        shards += [put["ShardId"] for put in ask("POST", "/v1/local/records", {"Records": entries})["Records"]]
    scopes = [record.key for record in records] if WAYS[way][1] > 1 else shards
    judge = Judge(records, scopes, way == "batches")
    app = App(folder, language, way, "unix:" + path, token_file, ask)
    app.start()
    disturbances = [lambda: kill_sidecar(sidecar, judge, ask), lambda: stop_app(app, judge), lambda: kill_app(app, judge)]
    until = time.monotonic() + SECONDS * PATIENCE
    while not judge.is_over():
        app.hear(judge)
        check(time.monotonic() < until, f"not over, {judge.ended} of {count} ended:", dict(judge.lives),
              [record for record in records if record.outcome is None][:3])
        if disturbances and judge.ended >= count * (DISTURBANCES + 1 - len(disturbances)) // (DISTURBANCES + 1):
            disturbances.pop(0)()
        elif app.process.poll() is not None:  # It left its loop.
            app.end(judge, 0)
            check(judge.lives["break"] + judge.lives["raise"] + judge.lives["stopped"] >= app.starts - 1, "the app ended by itself")
            app.start()
        elif pauses:
            pause(chance, app, sidecar, judge)
        time.sleep(0.02)
    stop_app(app, judge, again=False)
    repeats = judge.verdict()
    if way in ("each", "batches"):
        check(judge.lives["break"] + judge.lives["raise"] >= 1, "no loop was left")
    wait_until(lambda: all(shard["in_flight"] == 0 and shard["watermark_gap"] == 0 for shard in ask("GET", "/v1/shards")["shards"]),
               20, "nothing is in flight, and dead letters are durable")
    check_equal(sorted(json.loads(base64.b64decode(letter["data"]))["n"] for letter in letters_of(ask)),
                [record.number for record in records if record.expected == "dead_letter"], "dead letters")
    sidecar.stop()
    print(f"       {language} by {way}: {repeats} repeated, {dict(judge.lives)}", flush=True)


def pause(chance, app, sidecar, judge):
    """Stops the app, with its children, or the sidecar for a while. Many pauses are about as long as the ack deadline."""
    seconds = chance.choice((0.05, 0.2, chance.uniform(1.9, 2.2), chance.uniform(0.05, 3)))
    if chance.random() < 0.7:
        os.killpg(app.process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.killpg(app.process.pid, signal.SIGCONT)
    else:
        sidecar.signal(signal.SIGSTOP)
        time.sleep(seconds)
        sidecar.signal(signal.SIGCONT)
    judge.may_repeat += MAX_IN_FLIGHT
    time.sleep(chance.uniform(0, 0.5))


def kill_sidecar(sidecar, judge, ask):
    """What is settled beyond a checkpoint is repeated: behind a record that waits for its retry, or takes long, this is much."""
    judge.may_repeat += sum(shard["watermark_gap"] for shard in ask("GET", "/v1/shards")["shards"])
    sidecar.kill()
    sidecar.start()


def stop_app(app, judge, again=True):
    stopped = judge.lives["stopped"]
    app.wait_for_stream()
    app.process.send_signal(signal.SIGTERM)
    app.end(judge, 0)
    check_equal(judge.lives["stopped"], stopped + 1, "reports that the app has stopped")
    if again:
        app.start()


def kill_app(app, judge):
    app.process.kill()
    app.end(judge, -signal.SIGKILL)
    app.start()


def letters_of(ask):
    found, token = [], ""
    while True:
        page = ask("GET", f"/v1/dead-letters?page_size=100&page_token={token}")
        found += page["dead_letters"]
        token = page["next_page_token"]
        if not token:
            return found


def add_tests(language):
    def own_tests(_):
        env = dict(os.environ, KINESIS_SIDECAR_BIN=BINARY)
        done = subprocess.run([os.path.join(HERE, language, "test")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=env, check=False)
        check_equal(done.returncode, 0, "the tests of the package:\n" + done.stdout.decode(errors="replace")[-6000:])
    own_tests.__name__ = f"{language}_tests_of_the_package"
    test(seconds=200)(own_tests)
    for way in os.environ.get("WAYS", " ".join(WAYS)).split():
        def story(folder, way=way):
            play(folder, language, way)
        story.__name__ = f"{language}_scenario_by_{way}"
        test(seconds=SECONDS + 30)(story)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or LANGUAGES:
        check(wanted in LANGUAGES, f"{wanted} is none of {', '.join(LANGUAGES)}")
        subprocess.run([os.path.join(HERE, wanted, "build")], check=True, stdin=subprocess.DEVNULL)
        add_tests(wanted)
    del sys.argv[1:]
    main()
