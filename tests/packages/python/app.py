# SPDX-License-Identifier: Apache-2.0
"""app.py WAY CLIENT_ID CONCURRENCY - the app of the scenario: see ../judge.py. WAY is run, each, batches, async or race."""

import asyncio
import json
import os
import signal
import sys
import time

from kinesis_sidecar import Consumer, Record, SessionTakenOver, aio

ACK_DEADLINE = 2.0


def report(**members):
    os.write(1, json.dumps(members).encode() + b"\n")


def begin(record: Record) -> dict:
    what = record.json()
    report(n=what["n"], attempt=record.attempt, at="begin")
    return what


def end(record: Record, what: dict, outcome: str):
    report(n=what["n"], attempt=record.attempt, at="end", outcome=outcome)


def settle(record: Record, what: dict):
    """What a handler does, but for its work and its failures."""
    if what["do"] == "dead_letter":
        record.dead_letter(f"asked {what['n']}")
    elif what["do"] == "drop":
        record.drop()
    end(record, what, what["do"] if what["do"] in ("dead_letter", "drop") else "ack")


def fails(record: Record, what: dict) -> bool:
    return what["do"] == "fail" and record.attempt <= what["times"] or what["do"] == "raise" and record.attempt == 1


def handle(record: Record):
    what = begin(record)
    time.sleep(what["ms"] / 1000)
    if fails(record, what):
        end(record, what, "retry")
        raise RuntimeError(f"fail {what['n']}")
    settle(record, what)


async def handle_async(record: Record):
    what = begin(record)
    await asyncio.sleep(what["ms"] / 1000)
    if fails(record, what):
        end(record, what, "retry")
        raise RuntimeError(f"fail {what['n']}")
    settle(record, what)


def take(record: Record) -> bool:
    """Handles a record of a loop. False: leave the loop."""
    what = begin(record)
    time.sleep(what["ms"] / 1000)
    if what["do"] in ("break", "raise") and record.attempt == 1:
        report(n=what["n"], attempt=record.attempt, at=what["do"])
        if what["do"] == "raise":
            raise RuntimeError(f"raise {what['n']}")
        return False
    if fails(record, what):
        end(record, what, "retry")
        record.retry(reason=f"fail {what['n']}")
    else:
        settle(record, what)
    return True


def loop(consumer: Consumer):
    for record in consumer:
        if not take(record):
            break


def loop_of_batches(consumer: Consumer):
    for batch in consumer.batches(max_records=100, max_wait=0.2):
        for record in batch:
            if not take(record):
                return


def race(consumer: Consumer):
    for count, _ in enumerate(consumer, 1):
        if count % 1000 == 0:
            os.write(1, b"%d\n" % count)


def main():
    way, client_id, concurrency = sys.argv[1:]
    if way == "async":
        asyncio.run(aio.Consumer(client_id, ack_deadline=ACK_DEADLINE).run(handle_async, int(concurrency)))
        report(at="stopped")
        return 0
    stopped = []
    with Consumer(client_id, ack_deadline=60.0 if way == "race" else ACK_DEADLINE) as consumer:
        if way == "run":
            consumer.run(handle, int(concurrency))
            report(at="stopped")
            return 0
        signal.signal(signal.SIGTERM, lambda *_: (stopped.append(True), consumer.stop()))
        try:
            {"each": loop, "batches": loop_of_batches, "race": race}[way](consumer)
        except RuntimeError:
            pass  # The record that raised is given back when the consumer is closed.
    if stopped:
        report(at="stopped")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SessionTakenOver:
        report(at="taken_over")
        sys.exit(3)
