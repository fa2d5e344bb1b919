#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""example.py [URL] - prints each record and acknowledges it; Ctrl-C ends it cleanly.

Beside `make run`:  client-stubs/python/example.py
"""

import signal
import sys

from kinesis_sidecar import DEFAULT_URL, Sidecar


def main():
    url = sys.argv[1] if len(sys.argv) > 1 else DEFAULT_URL
    with Sidecar(url) as sidecar, sidecar.stream(client_id="python-example", on_event=tell) as stream:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stream.stop())
        for record in stream:
            try:
                handle(record)
            except Exception as err:
                print(f"{record}: {err}, again in a second", file=sys.stderr)
                stream.nack(record, delay_ms=1000, reason=str(err))
            else:
                stream.ack(record)


def handle(record):
    """Where an app does its work. What it raises makes the record come again."""
    print(f"{record.shard_id} {record.sequence_number} {record.partition_key}: {record.data!r}", flush=True)


def tell(event):
    if event["type"] != "heartbeat":
        print(f"-- {event}", file=sys.stderr)


if __name__ == "__main__":
    main()
