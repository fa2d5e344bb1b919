# SPDX-License-Identifier: Apache-2.0
"""What the client of each language does, told in Python: what is held, what is settled when and how, and the diary.

The sidecar is asked for WINDOW * 2 records in flight, and for a heartbeat after 100 ms of silence. When WINDOW records are
held, half of them, by chance, are settled in one request; on a heartbeat all of them are. A retry takes the later records
of its shard back: they come again, and are not held any more.
"""

import json
import random
import sys

WINDOW = 200
MAX_IN_FLIGHT = 2 * WINDOW
HEARTBEAT_MS = 100
CLIENT_ID = "scenario"
RETRY_MOST_MS = 30

# With a COUNT of 0 there is no story but a race, without an end: so many batches are acknowledged at a time.
RACE_BATCHES = 16
RACE_IN_FLIGHT = 100000


class Story:
    def __init__(self, seed, count, retries, letters):
        self.chance = random.Random(int(seed))
        self.count = int(count)
        self.retries, self.letters = int(retries), int(letters)  # In a thousand.
        self.held = {}       # (shard, sequence) -> ack_id
        self.pending = {}    # request -> the keys that it settles for good
        self.done = set()
        self.unsure = set()  # Settled for good in a stream that ended before the answer.
        self.request = 0
        self.hung_up = False

    @staticmethod
    def tell(event, **more):
        sys.stdout.write(json.dumps({"event": event, **more}) + "\n")

    def opened(self):
        self.tell("opened")

    def record(self, shard, sequence, data, attempt, ack_id):
        """`data` in base64."""
        self.tell("record", shard=shard, sequence=sequence, data=data, attempt=attempt)
        key = shard, sequence
        self.unsure.discard(key)
        if key not in self.done and not any(key in keys for keys in self.pending.values()):
            self.held[key] = ack_id

    def due(self, silence):
        """What is to be settled now: (request, [(ack_id, outcome, delay_ms)]), or None."""
        if not self.held or (not silence and len(self.held) < WINDOW):
            return None
        keys = self.chance.sample(list(self.held), len(self.held) if silence else len(self.held) // 2)
        self.request += 1
        items, final, retried = [], set(), {}
        for key in keys:
            shard, sequence = key
            outcome = self.outcome()
            items.append((self.held.pop(key), outcome, self.chance.randint(1, RETRY_MOST_MS) if outcome == "retry" else 0))
            self.tell("settle", request=self.request, shard=shard, sequence=sequence, outcome=outcome)
            if outcome == "retry":
                retried[shard] = min(int(sequence), retried.get(shard, int(sequence)))
            else:
                final.add(key)
        self.held = {key: ack_id for key, ack_id in self.held.items() if int(key[1]) < retried.get(key[0], int(key[1]) + 1)}
        self.pending[self.request] = final
        return self.request, items

    def outcome(self):
        drawn = self.chance.randrange(1000)
        if drawn < self.retries:
            return "retry"
        return "dead_letter" if drawn < self.retries + self.letters else "ack"

    def settled(self, request, accepted, failed, positions):
        """`failed`: the reasons; `positions`: (shard, watermark, checkpoint) each."""
        self.tell("settled", request=request, ok=accepted, failed=failed, positions=[
            {"shard_id": shard, "watermark": watermark, "checkpoint": checkpoint} for shard, watermark, checkpoint in positions])
        self.done |= self.pending.pop(request)

    def hangs_up(self):
        """Whether it is time to: call it behind a settle."""
        if self.hung_up or len(self.done) < self.count // 2 or not self.held:
            return False
        self.hung_up = True
        self.tell("disconnected")
        self.held.clear()
        for keys in self.pending.values():
            self.unsure |= keys
        self.pending.clear()
        return True

    def is_over(self, silence):
        """Whether all is settled. What was settled by a request without an answer has not come again: then it was heard."""
        if self.held or self.pending or len(self.done | self.unsure) < self.count or (self.unsure and not silence):
            return False
        self.tell("finished")
        sys.stdout.flush()
        return True
