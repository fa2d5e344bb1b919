#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""app.py URL WORKER WORK_US [STREAM] - the app of a member of ours, by the client of the tests. Its diary is that of all: see
fleet.py. STREAM is the subscription that it reads, where there are several."""

import json
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from sidecar_client import Sidecar  # noqa: E402


def main():
    url, worker, work_us, *several = sys.argv[1:]
    epochs = {}

    def tell(event, **members):
        os.write(1, json.dumps({"at": time.time(), "worker": worker, "event": event, **members}).encode() + b"\n")

    def noticed(event):
        if event["type"] == "session":
            epochs.clear()  # What was not settled in the last session comes again.

    def failed(failure):
        tell("unsaved", reason=failure["reason"])

    sidecar = Sidecar(url, subscription=several[0] if several else None)
    stream = sidecar.stream(client_id=worker, max_in_flight=100, heartbeat_ms=500, on_event=noticed, on_failed=failed)
    signal.signal(signal.SIGTERM, lambda *_: stream.stop())
    tell("started")
    with stream:
        for record in stream:
            shard = "/".join([*several, record.shard_id])
            if epochs.get(shard) != record.epoch or record.attempt > 1:
                epochs[shard] = record.epoch
                tell("began", shard=shard, epoch=record.epoch)
            tell("record", shard=shard, sequence=record.sequence_number, key=record.partition_key, data=record.data.decode())
            time.sleep(int(work_us) / 1e6)
            stream.ack(record)
    tell("stopped")


if __name__ == "__main__":
    main()
