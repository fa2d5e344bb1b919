# SPDX-License-Identifier: Apache-2.0
"""A destination of dead letters that is away for KS_AWAY seconds (default 8; 3600 for an hour) while records come.

The app gives up each third record and acknowledges the others. What is checked: the checkpoints wait before the first
letter that is not durable, the sidecar reports its lag and why, its memory stays bounded, and nothing is lost."""

import os
import threading
import time

from lib import SLOW, check, check_equal, data_of, wait_until

AWAY_S = int(os.environ.get("KS_AWAY", "8"))
BUDGET = 4 << 20         # Of the sidecar's memory; the first records fill it.
OPTIONS = {"memory_budget_bytes": BUDGET, "local_shards": 2, "lease_duration_ms": 10000}
RECORD_BYTES = 8 << 10
WARM, FULL = 30, 1000    # Records before the destination goes, and at once after it.
EVERY_S = 1.0            # Then a record so often.
GROWTH_BYTES = (16 << 20) * SLOW  # Beyond the memory that the sidecar has once it is full.
FAULTS = ("refuse 503 ServiceUnavailable 1000000", "cut", "hang")  # Each a third of the time, without a gap.


class App(threading.Thread):
    """Gives up each third record, and acknowledges the others, until it is told to end."""

    def __init__(self, sidecar):
        super().__init__(daemon=True)
        self.sidecar, self.over, self.problem, self.idle = sidecar, threading.Event(), None, ""

    def run(self):
        try:
            while not self.over.is_set():
                answer = self.sidecar.get("/v1/records?max_records=500&wait_ms=500")
                self.idle = answer["idle_reason"]
                if answer["records"]:
                    self.settle(answer["records"])
        except Exception as err:  # pylint: disable=broad-except
            self.problem = err

    def settle(self, records):
        items = [{"ack_id": record["ack_id"], "outcome": "dead_letter" if is_bad(number_of(record)) else "ack"}
                 for record in records]
        answer = self.sidecar.call("POST", "/v1/records/settle", {"settlements": items})
        check_equal(answer.status, 200, answer)


def is_bad(number):
    return number % 3 == 0


def number_of(record):
    return int(data_of(record).split(b" ", 1)[0])


class Records:
    """What is put into the stream: (shard id, sequence number) of each by its number."""

    def __init__(self, put):
        self.put, self.placed = put, []

    def add(self, count):
        first = len(self.placed)
        self.placed += self.put([(f"key-{number}", b"%d " % number + b"x" * RECORD_BYTES)
                                 for number in range(first, first + count)])

    def ids(self):
        """Of those that the app gives up."""
        return sorted(f"{shard}.{sequence}.0" for number, (shard, sequence) in enumerate(self.placed) if is_bad(number))

    def ends(self):
        """The last sequence number of each shard."""
        return dict(self.placed)

    def first_bad(self, since):
        """Of each shard, the first one from `since` on that the app gives up."""
        bad = [place for number, place in enumerate(self.placed) if number >= since and is_bad(number)]
        return {shard: int(sequence) for shard, sequence in reversed(bad)}


def checkpoints(sidecar):
    return {row["shard_id"]: row["checkpoint"] for row in sidecar.get("/v1/leases")["leases"]}


def wait(sidecar, app, records, bounds, end):
    """Until `end` records come, and at each look no checkpoint has passed a letter; the most memory that it had."""
    most = 0
    while time.monotonic() < end:
        records.add(1)
        check(app.problem is None, "the app:", app.problem)
        for shard, checkpoint in checkpoints(sidecar).items():
            check(int(checkpoint) < bounds[shard], f"{shard}: the checkpoint {checkpoint} passed the letter {bounds[shard]}")
        check(sidecar.metric("memory_budget_used_bytes") <= BUDGET, "the budget")
        most = max(most, sidecar.rss())
        time.sleep(EVERY_S)
    return most


def live_through(sidecar, proxy, put, faults=FAULTS):
    """Returns the ids that the destination has to have once it is back. Nothing else is given up."""
    records, app = Records(put), App(sidecar)
    app.start()
    records.add(WARM)
    wait_until(lambda: checkpoints(sidecar) == records.ends(), 30, "the first ones are written")
    proxy.do(faults[0])
    begun = time.monotonic()
    records.add(FULL)
    bounds = records.first_bad(WARM)
    wait_until(lambda: app.idle == "lane_blocked", 60, "the gap is full, and a pull says so")
    full, since, most = sidecar.rss(), time.monotonic(), 0
    for at, fault in enumerate(faults, 1):
        proxy.do(fault)
        most = max(most, wait(sidecar, app, records, bounds, since + AWAY_S * at / len(faults)))
    check(0 < most <= full + GROWTH_BYTES, f"{most} bytes of memory, {full} when it was full")
    check_report(sidecar, time.monotonic() - begun)
    proxy.do("heal")
    proxy.do("lose 3")
    wait_until(lambda: checkpoints(sidecar) == records.ends(), 60 + len(records.placed) / 20, "the checkpoints pass all")
    wait_until(lambda: sidecar.metric("millis_behind_latest") == sidecar.metric("blocked_leases") == 0, 30, "nothing waits")
    check("dead letters are written again" in sidecar.said(), sidecar.said())
    app.over.set()
    app.join()
    print(f"  {len(records.placed)} records; {full >> 20} MiB when full, {most >> 20} MiB at most", flush=True)
    return records.ids()


def check_report(sidecar, seconds):
    """The sidecar is behind by nearly `seconds`, and says that dead letters are not written, and which record waits."""
    subscription, = sidecar.get("/v1/status")["subscriptions"]
    check_equal((subscription["idle_reason"], subscription["in_flight"]), ("lane_blocked", 0), subscription)
    at_least = 1000 * (seconds - 5 * SLOW)
    check(subscription["millis_behind_latest"] >= at_least, f"{seconds} s:", subscription)
    check(sidecar.metric("millis_behind_latest") >= at_least, "the metric")
    check(sidecar.metric("blocked_leases") > 0 and sidecar.metric("dead_letter_failures_total") > 0, "the metrics")
    for lease in sidecar.get("/v1/leases")["leases"]:
        check("dead letters cannot be written" in lease["reason"], lease)
    check("dead letters cannot be written (" in sidecar.said(), sidecar.said())
