#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""example.py - prints each record and acknowledges it; Ctrl-C ends it cleanly.

Beside `make run`:  pip install ./client-stubs/python && client-stubs/python/example.py
"""

import sys

from kinesis_sidecar import Consumer, Record


def handle(record: Record):
    """Does the work of an app. An exception has the record delivered again."""
    print(f"{record.shard_id} {record.sequence_number} {record.partition_key}: {record.data!r}", flush=True)


def report(event: dict):
    if event["type"] != "heartbeat":
        print(f"-- {event}", file=sys.stderr)


if __name__ == "__main__":
    with Consumer("python-example", on_event=report) as consumer:
        consumer.run(handle)
