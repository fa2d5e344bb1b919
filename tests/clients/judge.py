#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One scenario, told by clients of other people: each program of this folder plays it, and one judge reads its diary.

    judge.py [CLIENT..]     builds and judges these, or all of CLIENTS; `SEED=7 judge.py curl` tells one story again

The scenario: 10,000 records on 4 shards; open a stream, settle what comes in random order, in parts, 5 % of it as `retry`
and 1 % as `dead_letter`; hang up when half is done, without a word; open again with the same client_id; go on to the end.

A client is called with HOST:PORT SEED COUNT RETRIES LETTERS WAY CLIENT (retries and dead letters in a thousand) and writes its diary to stdout, one JSON object a line, in the order in
which things happen to it:
    {"event":"opened"}                                                      a stream is open
    {"event":"record","shard","sequence","data","attempt"}                  data in base64
    {"event":"settle","request":1,"shard","sequence","outcome"}             before it is sent; a request has many of these
    {"event":"settled","request":1,"ok":100,"failed":[reason..],"positions":[{"shard_id","watermark","checkpoint"}..]}
    {"event":"disconnected"}                                                it has hung up
    {"event":"finished"}                                                    it has settled everything
What is held unsettled and what is settled when is in story.py; every language tells the same.
"""

import base64
import collections
import fcntl
import glob
import hashlib
import json
import os
import random
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from lib import PATIENCE, ROOT, Failure, Sidecar, check, check_equal, main, read_lines, test, wait_until  # noqa: E402

BUILT = os.path.join(ROOT, "build", "clients")  # The diaries stay there.
COUNT = 10000
SHARDS = 4
SECONDS = 80  # The longest that a client may take, with PATIENCE.
SEED = int(os.environ.get("SEED", "1"))
RETRIES = 50  # Of a thousand settles.
DEAD_LETTERS = 10

# name: the folder of its `build` and `run`, and the ways in which it consumes.
#   rest    a stream of NDJSON, and POST /v1/records/settle
#   watch   the call Watch, and the unary call Settle
#   stream  the call Stream: settles go up where records come down
CLIENTS = {
    "http": ("http", ["rest"]),
    "curl": ("curl", ["rest"]),
    "grpcio": ("grpcio", ["watch", "stream"]),
    "grpc-js": ("node", ["watch", "stream"]),
    "connect-es": ("node", ["watch", "stream"]),
    "connect-go": ("go", ["watch", "stream"]),
    "grpc-go": ("go", ["watch", "stream"]),
    "grpc-java": ("java", ["watch", "stream"]),
}


class Shard:
    """What the diary may say about one shard: its records in order, and where its delivery stands."""

    def __init__(self):
        self.records = []
        self.indexes = {}
        self.watermark = self.checkpoint = -1
        self.begin()

    def begin(self):
        self.cursor = -1     # The last delivery.
        self.failed = set()  # What was retried.
        self.retries = self.backs = 0

    def stands(self, position):
        """The watermark passes nothing that is unsettled, the checkpoint no watermark, and neither goes back."""
        watermark, checkpoint = (self.index_of(position[name]) for name in ("watermark", "checkpoint"))
        for passed in self.records[self.watermark + 1:watermark + 1]:
            check(passed.outcome, "the watermark passed", passed)
        check(self.watermark <= watermark, "the watermark went back from", self.watermark, position)
        check(self.checkpoint <= checkpoint <= watermark, "the checkpoint moved from", self.checkpoint, position)
        self.watermark, self.checkpoint = watermark, checkpoint

    def index_of(self, sequence):
        return -1 if sequence == "TRIM_HORIZON" else self.indexes[sequence]

    def can_begin_again_with(self, index):
        for before in range(index, -1, -1):
            if before in self.failed:
                return True
            if before > 0 and not self.records[before - 1].outcome:
                return False
        return False


class Record:
    def __init__(self, shard, index, sequence, data):
        self.shard, self.index, self.sequence, self.data = shard, index, sequence, data
        self.attempt = 0      # The last one delivered; 0: none.
        self.outcome = None   # The last one sent, if it is final.
        self.confirmed = False
        self.connection = 0   # In which the outcome was sent.

    def __repr__(self):
        return f"record {self.index} of its shard ({self.sequence}, attempt {self.attempt}, {self.outcome})"


class Judge:
    def __init__(self, records, placed):
        """`records` as they were put; `placed` is where: (shard, sequence number) each."""
        self.shards = collections.defaultdict(Shard)
        self.records = {}
        for (shard, sequence), (_, data) in sorted(zip(placed, records), key=lambda both: int(both[0][1])):
            record = Record(shard, len(self.shards[shard].records), sequence, data)
            self.shards[shard].indexes[sequence] = record.index
            self.shards[shard].records.append(record)
            self.records[shard, sequence] = record
        self.connection = 0
        self.asked = collections.defaultdict(list)  # request -> its records and their outcomes
        self.told = collections.Counter()
        self.backwards = 0
        self.newest_settled = {}

    def read(self, path):
        for number, line in enumerate(read_lines(path), 1):
            entry = json.loads(line)
            try:
                getattr(self, entry["event"])(entry)
            except Failure as err:
                raise Failure(f"line {number} of the diary, {line}: {err}") from err
            self.told[entry["event"]] += 1

    def opened(self, _):
        """A new stream begins each shard with the first record that is not settled."""
        self.connection += 1
        for shard in self.shards.values():
            shard.begin()

    def disconnected(self, _):
        check_equal(self.connection, 1, "connections before it hung up")
        check(self.held() > 0, "it hung up with nothing unsettled")

    def finished(self, _):
        check_equal(self.held(), 0, "records unsettled at the end")

    def held(self):
        return sum(record.attempt > 0 and record.outcome is None for record in self.records.values())

    def record(self, entry):
        record = self.records.get((entry["shard"], entry["sequence"]))
        check(record, "nobody put this record")
        check_equal(base64.b64decode(entry["data"], validate=True), record.data, "data of", record)
        check(entry["attempt"] > record.attempt, "an attempt comes twice:", record)
        record.attempt = entry["attempt"]
        if record.outcome:
            self.again(record)
        self.in_order(self.shards[record.shard], record)

    def again(self, record):
        """A settled record may come from what was under way when it was settled; not from a stream that began later."""
        if record.connection != self.connection:
            check(not record.confirmed, "it was settled before this stream began:", record)
            record.outcome = None

    @staticmethod
    def in_order(shard, record):
        """Forward over nothing but settled records; back to a record that was retried, or behind it over settled ones.

        Which retry it goes back for cannot be seen: deliveries were under way when it was sent. None goes back twice."""
        if record.index > shard.cursor:
            for passed in shard.records[shard.cursor + 1:record.index]:
                check(passed.outcome, "passed over", passed, "to", record)
        else:
            shard.backs += 1
            check(shard.backs <= shard.retries and shard.can_begin_again_with(record.index), "back without a reason, from",
                  shard.records[shard.cursor], "to", record)
        shard.cursor = record.index

    def settle(self, entry):
        record = self.records[entry["shard"], entry["sequence"]]
        check(record.attempt > 0, "settled before it was seen:", record)
        check(record.outcome is None, "settled twice:", record)
        self.backwards += record.index < self.newest_settled.get(record.shard, 0)
        self.newest_settled[record.shard] = max(record.index, self.newest_settled.get(record.shard, 0))
        if entry["outcome"] == "retry":
            self.shards[record.shard].failed.add(record.index)
            self.shards[record.shard].retries += 1
        else:
            record.outcome, record.confirmed, record.connection = entry["outcome"], False, self.connection
        self.asked[entry["request"]].append((record, entry["outcome"]))
        self.told[entry["outcome"]] += 1

    def settled(self, entry):
        asked = self.asked.pop(entry["request"])
        retries = sum(outcome == "retry" for _, outcome in asked)
        check_equal(entry["ok"] + len(entry["failed"]), len(asked), "settles that were judged")
        # A retry is about its own delivery: it is too late if the record was delivered again meanwhile.
        check(set(entry["failed"]) <= {"EXPIRED"} and len(entry["failed"]) <= retries, "refused:", entry["failed"])
        for record, outcome in asked:
            if outcome != "retry":
                record.confirmed = True
        shards = {position["shard_id"] for position in entry["positions"]}
        check(shards <= {record.shard for record, _ in asked}, "positions of shards that nobody asked about:", shards)
        check(shards >= {record.shard for record, outcome in asked if outcome != "retry"}, "shards of the positions:", shards)
        for position in entry["positions"]:
            self.shards[position["shard_id"]].stands(position)

    def verdict(self):
        """That the diary tells the scenario, and that each record was seen and settled."""
        check_equal((self.told["opened"], self.told["disconnected"], self.told["finished"]), (2, 1, 1), self.told)
        settles = sum(self.told[outcome] for outcome in ("ack", "retry", "dead_letter"))
        for outcome, share in ("retry", RETRIES), ("dead_letter", DEAD_LETTERS):
            check(share * 0.6 <= self.told[outcome] * 1000 / settles <= share * 1.4, outcome, self.told)
        check(self.backwards > settles / 10, "settled in order, not at random:", self.backwards)
        for record in self.records.values():
            check(record.attempt > 0, "never seen:", record)
            check(record.outcome, "never settled:", record)
            check(record.confirmed or record.connection == 1, "never confirmed:", record)

    def dead_letters(self):
        return sorted((record.shard, record.sequence, record.data) for record in self.records.values()
                      if record.outcome == "dead_letter")


# --- What the sidecar says at the end ---

def check_positions(sidecar, judge):
    last = {name: shard.records[-1].sequence for name, shard in judge.shards.items()}
    check_equal(len(last), SHARDS, "shards with records")

    def positions():
        shards = sidecar.get("/v1/shards")["shards"]
        return shards if all(shard["checkpoint"] == last[shard["shard_id"]] for shard in shards) else None
    for shard in wait_until(positions, 20, f"the checkpoints are {last}"):
        check_equal((shard["watermark"], shard["epoch"]), (last[shard["shard_id"]], 1), "watermark and epoch of", shard)
        check_equal((shard["in_flight"], shard["watermark_gap"], shard["buffered"], shard["blocked"]), (0, 0, 0, False),
                    "what is left of", shard)
    for subscription in sidecar.get("/v1/status")["subscriptions"]:
        check_equal((subscription["in_flight"], subscription["in_flight_bytes"]), (0, 0), "in flight in", subscription)


def check_dead_letters(sidecar, judge):
    letters, token = [], ""
    while True:
        page = sidecar.get(f"/v1/dead-letters?page_size=50&page_token={token}")
        letters += page["dead_letters"]
        token = page["next_page_token"]
        if not token:
            break
    check({letter["cause"] for letter in letters} <= {"asked"}, "causes", letters)
    check_equal(sorted((letter["shard_id"], letter["sequence_number"], base64.b64decode(letter["data"]))
                       for letter in letters), judge.dead_letters(), "dead letters")


# --- Playing it ---

def some_records():
    chance = random.Random(SEED)
    return [(f"key-{number}", b"%d " % number + chance.randbytes(chance.randrange(200))) for number in range(COUNT)]


def play(folder, name, way):
    """The scenario, by one client in one way."""
    # No lease may end in the story, however slow the machine is: an epoch is one order.
    sidecar = Sidecar.local(folder, lease_duration_ms=30000, idle_release_ms=600000, local_shards=SHARDS,
                            dead_letters="sqlite:" + os.path.join(folder, "dead_letters.db")).start()
    records = some_records()
    judge = Judge(records, sidecar.put(records))
    os.makedirs(BUILT, exist_ok=True)
    diary = os.path.join(BUILT, f"{name}-{way}.diary")
    with open(diary, "wb") as out, open(os.path.join(folder, "client.log"), "wb") as log:
        client = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", os.path.join(HERE, CLIENTS[name][0], "run"),
                                   f"127.0.0.1:{sidecar.port}", str(SEED), str(COUNT),
                                   str(RETRIES), str(DEAD_LETTERS), way, name],
                                  stdin=subprocess.DEVNULL, stdout=out, stderr=log)
    in_time = watch(client, sidecar)
    judge.read(diary)
    check(in_time, f"the client has not ended, after {dict(judge.told)}")
    check_equal(client.wait(), 0, f"the client's status, after {dict(judge.told)}")
    judge.verdict()
    check_positions(sidecar, judge)
    check_dead_letters(sidecar, judge)
    sidecar.stop()
    print(f"       {name} by {way}: {dict(judge.told)}", flush=True)


def content(*folders):
    """A hash of all files in these folders."""
    found = hashlib.sha256()
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, "**"), recursive=True)):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    found.update(path.encode() + b"\0" + file.read())
    return found.hexdigest()


def build(name):
    """Two clients may share a folder, and judges may run beside each other: one of them builds, if anything has changed."""
    folder = CLIENTS[name][0]
    script = os.path.join(HERE, folder, "build")
    if not os.path.exists(script):
        return
    os.makedirs(BUILT, exist_ok=True)
    made_of = content(os.path.join(ROOT, "proto"), os.path.join(HERE, folder))
    with open(os.path.join(BUILT, folder + ".built"), "a+", encoding="ascii") as built:
        fcntl.flock(built, fcntl.LOCK_EX)
        built.seek(0)
        if built.read() == made_of:
            return
        built.truncate(0)
        subprocess.run([script], check=True, stdin=subprocess.DEVNULL)
        built.write(made_of)


def watch(client, sidecar):
    """Waits for its end, as long as the sidecar lives; false if that takes too long."""
    until = time.monotonic() + SECONDS * PATIENCE
    try:
        while client.poll() is None and time.monotonic() < until:
            check(sidecar.process.poll() is None, "the sidecar ended with", sidecar.process.poll())
            time.sleep(0.1)
        return client.poll() is not None
    finally:
        client.kill()


def tell(name, way):
    def story(folder):
        play(folder, name, way)
    story.__name__ = f"{name}_by_{way}"
    test(seconds=SECONDS + 30)(story)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or CLIENTS:
        check(wanted in CLIENTS, f"{wanted} is none of {', '.join(CLIENTS)}")
        build(wanted)
        for road in CLIENTS[wanted][1]:
            tell(wanted, road)
    del sys.argv[1:]
    main()
