#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""child.py - the app of the MultiLangDaemon for one shard: JSON lines on stdin and stdout, the diary in KS_DIARY."""

import base64
import json
import os
import sys
import time

DIARY = os.open(os.environ["KS_DIARY"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
WORK = int(os.environ.get("KS_WORK_US", "0")) / 1e6


def tell(event, **members):
    entry = {"at": time.time(), "worker": os.environ["KS_WORKER"], "event": event, **members}
    os.write(DIARY, json.dumps(entry).encode() + b"\n")


def say(message):
    sys.stdout.write("\n" + json.dumps(message) + "\n")
    sys.stdout.flush()


def hear():
    for line in sys.stdin:
        if line.strip():
            return json.loads(line)
    sys.exit(0)


def save(shard, sequence):
    """Checkpoints; None is all that came."""
    say({"action": "checkpoint", "sequenceNumber": sequence, "subSequenceNumber": None if sequence is None else 0})
    answer = hear()
    tell("unsaved" if answer.get("error") else "saved", shard=shard, sequence=sequence or "SHARD_END",
         reason=answer.get("error"))


def main():
    shard = None
    while True:
        message = hear()
        action = message["action"]
        if action == "initialize":
            shard = message["shardId"]
            tell("began", shard=shard, sequence=message["sequenceNumber"])
        elif action == "processRecords":
            for record in message["records"]:
                tell("record", shard=shard, sequence=record["sequenceNumber"], key=record["partitionKey"],
                     data=base64.b64decode(record["data"]).decode())
                time.sleep(WORK)
            if message["records"]:
                save(shard, message["records"][-1]["sequenceNumber"])
        elif action == "shardEnded":
            tell("ended", shard=shard, reason="SHARD_END")
            save(shard, None)
        else:
            tell("ended", shard=shard, reason={"leaseLost": "LEASE_LOST", "shutdownRequested": "REQUESTED"}.get(action, action))
        say({"action": "status", "responseFor": action})


if __name__ == "__main__":
    main()
