#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""consumer.py URL CLIENT_ID DIARY [WORK_US [PERSIST_EVERY]] - an app for the tests: the client of the tests, with a diary.

It works WORK_US on a record (0), and every PERSIST_EVERY records (100; 0 = never) it waits until they are in the table.

Each line of the diary is a JSON list that begins with a word and the instant (seconds of CLOCK_MONOTONIC, which all
processes share):
    ["record", t, shard, sequence, attempt, epoch, data]   handed to us
    ["acked", t, data]                                     we told the client
    ["persisted", t]                                       every ack of this session so far is in the lease table
    ["failed", t, data, reason]                            an ack was refused
    ["session", t], ["ended", t, reason] ..                control lines of the stream but for heartbeats
The diary is written without a buffer: what happened before a kill -9 is in it. SIGTERM ends it cleanly.
"""

import json
import os
import signal
import sys
import time

import lib  # noqa: F401 - its import makes the client visible
from sidecar_client import Sidecar


def main():
    url, client_id, path = sys.argv[1:4]
    work = int(sys.argv[4]) / 1e6 if len(sys.argv) > 4 else 0
    persist_every = int(sys.argv[5]) if len(sys.argv) > 5 else 100
    diary = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    data_of = {}

    def note(*words):
        os.write(diary, json.dumps([words[0], time.monotonic(), *words[1:]]).encode() + b"\n")

    def tell(event):
        if event["type"] != "heartbeat":
            note(event["type"], event.get("reason"))

    def failed(failure):
        note("failed", data_of.get(failure["ack_id"], "?"), failure["reason"])

    stream = Sidecar(url).stream(client_id=client_id, max_in_flight=200, heartbeat_ms=500, on_event=tell, on_failed=failed)
    signal.signal(signal.SIGTERM, lambda *_: stream.stop())
    since = 0
    with stream:
        for record in stream:
            data = record.data.decode()
            data_of[record.ack_id] = data
            note("record", record.shard_id, record.sequence_number, record.attempt, record.epoch, data)
            if work:
                time.sleep(work)
            stream.ack(record)
            note("acked", data)
            since += 1
            if since == persist_every:
                since = 0
                persist(stream, note)
        persist(stream, note)


def persist(stream, note):
    try:
        if stream.flush(wait="persisted", quiet=True):
            note("persisted")
    except Exception as err:  # The sidecar refused: the diary says so, and nothing counts as persisted.
        note("flush", str(err))


if __name__ == "__main__":
    main()
