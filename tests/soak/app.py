#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""app.py URL CLIENT_ID DIARY SEED - the app of the soak: the client of the tests, that settles when and how chance says.

Most records are acknowledged a moment later, in any order; some are given back, some get more time first, and some are
forgotten, so that their ack deadline passes. Each line of the diary: `t shard epoch sequence attempt KEY:NUMBER` when a
record came (t: seconds of CLOCK_MONOTONIC, which all processes share), and `ack t KEY:NUMBER` just before it is acknowledged.
SIGTERM ends it cleanly.
"""

import heapq
import os
import random
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
import lib  # noqa: E402, F401 - its import makes the client visible
from sidecar_client import Sidecar  # noqa: E402

ACK_DEADLINE_MS = 5000
MEAN_SECONDS = 0.05
RETRIED, EXTENDED, FORGOTTEN = 0.01, 0.005, 0.0005


class Settler:
    """Settles each record at its own time, on a thread of its own."""

    def __init__(self, stream, diary, chance):
        self.stream, self.diary, self.chance = stream, diary, chance
        self.lock, self.due, self.count = threading.Lock(), [], 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def add(self, record, seconds, first=True):
        with self.lock:
            self.count += 1
            heapq.heappush(self.due, (time.monotonic() + seconds, self.count, record, first))

    def take(self, record):
        self.add(record, min(self.chance.expovariate(1 / MEAN_SECONDS), 2.0))

    def settle(self, record, first):
        luck = self.chance.random() if first else 1.0
        if luck < FORGOTTEN:
            return
        if luck < FORGOTTEN + RETRIED:
            self.stream.nack(record, delay_ms=self.chance.randrange(300))
        elif luck < FORGOTTEN + RETRIED + EXTENDED:
            self.stream.extend(record, ACK_DEADLINE_MS * 2)
            self.add(record, self.chance.uniform(0, 2), first=False)
        else:
            # First: the other thread may send it at once, and a kill come before the line.
            self.diary.write(f"ack {time.monotonic():.6f} {name_of(record)}\n".encode())
            self.stream.ack(record)

    def run(self):
        while not self.over.wait(0.02):
            self.turn(time.monotonic())

    def turn(self, now):
        with self.lock:
            due = []
            while self.due and self.due[0][0] <= now:
                due.append(heapq.heappop(self.due))
        for _, _, record, first in due:
            self.settle(record, first)
        self.stream.flush(quiet=True)

    def stop(self):
        self.over.set()
        self.thread.join()


def name_of(record):
    """KEY:NUMBER; what follows is there for its size."""
    return record.data[:record.data.index(b" ")].decode()


def main():
    url, client_id, path, seed = sys.argv[1:5]
    with open(path, "ab", buffering=0) as diary:  # A line is a call: two threads write, and a kill cuts none.
        stream = Sidecar(url).stream(client_id=client_id, max_in_flight=2000, heartbeat_ms=500,
                                     ack_deadline_ms=ACK_DEADLINE_MS)
        signal.signal(signal.SIGTERM, lambda *_: stream.stop())
        settler = Settler(stream, diary, random.Random(seed))
        with stream:
            for record in stream:
                diary.write(f"{time.monotonic():.6f} {record.shard_id} {record.epoch} {record.sequence_number} "
                            f"{record.attempt} {name_of(record)}\n".encode())
                settler.take(record)
            settler.stop()


if __name__ == "__main__":
    main()
