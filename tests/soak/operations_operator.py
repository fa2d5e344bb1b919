# SPDX-License-Identifier: Apache-2.0
"""The operators of random operations."""

import http.client
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from lib import SLOW, check, check_equal  # noqa: E402
from ledger import behind  # noqa: E402
from operations_client import NAMES  # noqa: E402
from sources import refused  # noqa: E402


NONSENSE = (
    ("POST", "/v1/records/settle", {}, 400), ("POST", "/v1/records/ack", {}, 400), ("POST", "/v1/checkpoint", {}, 400),
    ("POST", "/v1/records/settle", {"settlements": [{"ack_id": "x", "batch_id": "y", "outcome": "ack"}]}, 400),
    ("GET", "/v1/records?max_record=1", None, 400), ("GET", "/v1/records/stream?heartbeat_ms=1", None, 400),
    ("GET", "/v1/records/stream?ordering=key&lanes=65", None, 400), ("POST", "/v1/seek", {"to": "yesterday"}, 400),
    ("POST", "/v1/seek", {"to": "latest", "wait_ms": 60001}, 400), ("POST", "/v1/pause", {"until": "2020-01-01T00:00:00Z"}, 400),
    ("GET", "/v1/shards/shardId-none", None, 404), ("POST", "/v1/dead-letters/nobody.1.0/redrive", None, 404),
    ("DELETE", "/v1/sessions/nobody", None, 404), ("POST", "/v1/shards", {}, 405),
    ("POST", "/kinesis_sidecar.v1.Consumer/None", {}, 501))


class Operator:
    def __init__(self, world, member):
        self.world, self.member, self.ledger = world, member, world.ledger
        self.replays, self.made = [], []

    def turn(self, chance):
        act = chance.choices((self.pause, self.resume, self.release, self.seek, self.letters, self.peek, self.replay, self.kick,
                              self.read, self.nonsense),
                             (2, 6, 2, 2, 8, 3, 3, 2, 4, 3))[0]
        act(chance)
        time.sleep(chance.uniform(0, 0.4))

    def ask(self, what, *request):
        return self.world.may(self.member, what, lambda: self.member.ask(*request))

    def some(self, chance):
        with self.ledger.lock:
            known = sorted(self.ledger.places)
        return [] if chance.random() < 0.4 or not known else chance.sample(known, chance.randrange(1, len(known) + 1))

    def pause(self, chance):
        until = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + chance.randrange(5, 7)))
        self.ask("pause", "POST", "/v1/pause", {"shards": self.some(chance), "until": until, "keep_leases": chance.random() < 0.8})

    def resume(self, chance):
        self.ask("resume", "POST", "/v1/resume", {"shards": self.some(chance)})

    def release(self, chance):
        for shard in self.some(chance)[:2]:
            self.ask("release", "POST", f"/v1/leases/{shard}/release", {})
        self.ask("resume", "POST", "/v1/resume", {})

    def seek(self, chance):
        with self.world.seeking, self.ledger.lock:
            known = {shard: list(place.sequences) for shard, place in self.ledger.places.items() if place.sequences}
        shards = self.some(chance)
        if not known:
            return
        to = chance.choice(("trim_horizon", "latest", "sequence", "instant"))
        if to == "sequence":
            shards = [chance.choice(sorted(known))]
            to = str(chance.choice(known[shards[0]]))
        elif to == "instant":
            to = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - chance.randrange(2, 20)))
        body = {"to": to, "shards": shards, "force": chance.random() < 0.7, "dry_run": chance.random() < 0.4, "wait_ms": 20000}
        with self.world.seeking:
            touched = shards or sorted(self.ledger.places)
            began = self.ledger.seek_begins(touched)
            answer = self.ask("seek", "POST", "/v1/seek", body)
            moved = {}
            for row in (answer or {"shards": ()})["shards"]:
                check(row["outcome"] == "dry_run" if body["dry_run"] else row["outcome"] in ("done", "refused"), "seek:", row)
                if row["outcome"] == "done":
                    moved[row["shard_id"]] = (behind(row["before"]) or -1, behind(row["after"]))
            self.ledger.seek_ends(touched, moved, began)

    def letters(self, chance):
        stayed = self.ledger.letters_that_stay()
        answer = self.ask("letters", "GET", f"/v1/dead-letters?page_size={chance.choice((1, 10, 1000))}")
        if answer and not answer["next_page_token"]:
            self.ledger.letters_are({(letter["shard_id"], int(letter["sequence_number"])) for letter in answer["dead_letters"]},
                                    stayed)
        for letter in (answer or {"dead_letters": ()})["dead_letters"]:
            place = (letter["shard_id"], int(letter["sequence_number"]))
            self.ledger.letter(*place, letter["cause"])
            check_equal(letter["id"], f"{place[0]}.{place[1]}.0", "the id of a letter")
            if chance.random() < 0.3:
                verb = "redrive" if chance.random() < 0.7 else "discard"
                with self.ledger.lock:
                    (self.ledger.redriven if verb == "redrive" else self.ledger.removed).add(place)
                self.ask(verb, "POST", f"/v1/dead-letters/{letter['id']}/{verb}")

    def peek(self, chance):
        for shard in self.some(chance)[:1]:
            start, most = chance.choice(("trim_horizon", "latest")), chance.choice((1, 100))
            answer = self.ask("peek", "GET", f"/v1/peek?shard={shard}&from={start}&max_records={most}")
            sequences = [int(record["sequence_number"]) for record in (answer or {"records": ()})["records"]]
            check_equal(sequences, sorted(set(sequences)), "peek is in order")

    def replay(self, chance):
        if self.replays and chance.random() < 0.6:
            replay = self.replays.pop(chance.randrange(len(self.replays)))
            if chance.random() < 0.3:
                self.ask("replay", "DELETE", "/v1/replays/" + replay)
                return
            self.listen(chance, replay)
            return
        answer = self.ask("replays", "POST", "/v1/replays", {"from": "trim_horizon", "to": "latest", "shards": self.some(chance)})
        if answer is not None:
            self.replays.append(answer["id"])
            self.made.append(answer["id"])

    def forget_replays(self):
        """One that was read in part holds records until it has not been read for minutes."""
        for replay in self.made:
            self.ask("replay", "DELETE", "/v1/replays/" + replay)

    def listen(self, chance, replay):
        """Some of it, all of it, or twice at once."""
        connection = http.client.HTTPConnection("127.0.0.1", self.member.sidecar.port, timeout=60 * SLOW)
        furthest = {}
        try:
            connection.request("GET", f"/v1/replays/{replay}/stream")
            response = connection.getresponse()
            if response.status != 200:
                self.world.may(self.member, "replay", lambda: (_ for _ in ()).throw(refused(response.status, response.read())))
                return
            for _ in range(chance.choice((1, 30, 5000))):
                line = response.readline()
                if not line.endswith(b"\n"):
                    return
                line = json.loads(line)
                if line["type"] == "record":
                    check(int(line["sequence_number"]) > furthest.get(line["shard_id"], -1), "a replay out of order:", line)
                    furthest[line["shard_id"]] = int(line["sequence_number"])
                elif line["type"] == "end":
                    return
            self.replays.append(replay)
        except (OSError, http.client.HTTPException, ValueError):
            pass
        finally:
            connection.close()

    def kick(self, chance):
        self.ask("close", "DELETE", "/v1/sessions/" + chance.choice(NAMES))

    def read(self, chance):
        path = chance.choice(("/v1/status", "/v1/leases", "/v1/workers", "/v1/config", "/v1/shards?page_size=1",
                              "/v1/openapi.json"))
        self.ask("look", "GET", path)

    def nonsense(self, chance):
        """What API.md says is refused, as it says."""
        method, path, body, status = chance.choice(NONSENSE)
        try:
            answer = self.member.sidecar.call(method, path, body)
        except (OSError, http.client.HTTPException):
            return
        check(answer.status == status or answer.status == 503, method, path, body, "was answered", answer)
