# SPDX-License-Identifier: Apache-2.0
"""The end of random operations: all is healed, and what is left is judged."""

import base64
import http.client
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from lib import SLOW, Failure, check, check_equal, wait_until  # noqa: E402
from ledger import number_of  # noqa: E402
from sources import Poll, Refused, name_of  # noqa: E402

SETTLED_SECONDS = 60


def heal(world):
    """Everybody leaves; one app at each takes and acknowledges all that is left."""
    for client in world.clients:
        if client.source:
            world.ledger.broke(client.source)
    for member in world.members:
        leave(member)
        member.ask("POST", "/v1/resume", {})
    left = {}

    def take():
        left.clear()
        for member in world.members:
            take_all(world, member)
            for shard in member.shards():
                last = world.ledger.last(shard["shard_id"])
                if shard["owner"] == member.name:
                    left.pop(shard["shard_id"], None)
                waits = shard["owner"] == member.name and shard["buffered"]
                if waits or number_of(shard["checkpoint"]) < last and shard["owner"] in (member.name, ""):
                    left[shard["shard_id"]] = (last, shard)
        return not left
    try:
        wait_until(take, SETTLED_SECONDS, "all is settled")
    except Failure as err:
        raise Failure(f"{err}: {left}") from err


def leave(member):
    """Ends all sessions; returns how many there were."""
    sessions = member.ask("GET", "/v1/sessions")["sessions"]
    for session in sessions:
        try:
            member.ask("DELETE", "/v1/sessions/" + session["session"])
        except Refused:
            pass  # It was over by then.
    return len(sessions)


def take_all(world, member):
    ledger = world.ledger
    poll = Poll(member, {"client_id": "healer", "max_records": 1000})
    items = []
    for line in poll.read(0.5):
        ledger.came(member.boot, poll, line)
        items.append((line["ack_id"], "ack"))
    if items:
        seeks = ledger.begin(items)
        answer = member.ask("POST", "/v1/records/settle", {
            "settlements": [{"ack_id": ack_id, "outcome": "ack"} for ack_id, _ in items], "wait": "persisted"})
        ledger.end(items, seeks, {one["ack_id"] for one in answer["failed"]}, answer["persisted"])


def judge(world):
    ledger, one = world.ledger, world.members[0]
    for shard, place in ledger.places.items():
        with ledger.lock:
            ledger.check_settled(shard, place.sequences[-1] if place.sequences else -1)
    letters = {(letter["shard_id"], int(letter["sequence_number"])) for letter in letters_of(one)}
    ledger.letters_are(letters, ledger.letters_that_stay())
    ledger.letters_at_the_end(letters)
    ledger.all_came()
    replayed(world)
    for member in world.members:
        check(member.sidecar.process.poll() is None, "it is there")
        status = member.ask("GET", "/v1/status")["subscriptions"][0]
        check_equal((status["in_flight"], status["in_flight_bytes"]), (0, 0), "in flight at the end")
        counted(member, ledger)
        leave(member)
        wait_until(lambda member=member: memory_is_back(member), 20, "memory comes back")
        wait_until(lambda member=member: member.descriptors() <= member.before + 8, 20, "descriptors come back")
    for member in world.members:
        member.sidecar.stop()


def letters_of(member):
    letters, token = [], ""
    while True:
        page = member.ask("GET", "/v1/dead-letters?page_size=1000" + (f"&page_token={token}" if token else ""))
        letters += page["dead_letters"]
        token = page["next_page_token"]
        if not token:
            return letters


def memory_is_back(member):
    """But for letters that were ordered again, and wait for an app."""
    used = member.sidecar.metric("memory_budget_used_bytes")
    if used >= 1 << 20:
        used -= sum(len(letter["data"]) * 3 // 4 for letter in letters_of(member) if letter["redriven"])
    if used >= 1 << 20:
        print(f"    {used:.0f} bytes of memory are held by {member.name}, {member.descriptors()} descriptors; "
              f"{[row for row in member.shards() if row['buffered'] or row['in_flight'] or row['assigned']]}", flush=True)
        time.sleep(2)
    return used < 1 << 20


def counted(member, ledger):
    """The metrics of the last life agree with what clients saw; there is more that nobody saw."""
    delivered, again, acked, dropped, buried = (member.sidecar.metric(name + "_total") for name in (
        "records_delivered", "records_redelivered", "records_acked", "records_dropped", "dead_letters"))
    seen = sum(boot == member.boot for known in ledger.records.values() for boot, _, _ in known.attempts)
    settled = sum(boot == member.boot for known in ledger.records.values() for boot, _ in known.done)
    said = (f"delivered {delivered}, again {again}, acked {acked}, dropped {dropped}, buried {buried}; "
            f"seen {seen}, settled {settled}")
    check(delivered >= seen and delivered >= again, "deliveries:", said)
    check(settled <= acked + dropped + buried <= delivered, "settlements:", said)


def replayed(world):
    """What the stream holds is what was put."""
    replay = world.members[0].ask("POST", "/v1/replays", {"from": "trim_horizon", "to": "latest", "shards": []})["id"]
    connection = http.client.HTTPConnection("127.0.0.1", world.members[0].sidecar.port, timeout=60 * SLOW)
    connection.request("GET", f"/v1/replays/{replay}/stream")
    found = {}
    for line in connection.getresponse():
        line = json.loads(line)
        if line["type"] == "record":
            found[line["shard_id"], int(line["sequence_number"])] = name_of(base64.b64decode(line["data"]))
    connection.close()
    missing = set(world.ledger.records) - set(found)
    check(not missing, "a replay has not", list(missing)[:5])
    unknown = {place for place in set(found) - set(world.ledger.records) if place[1] <= world.ledger.places[place[0]].checkpoint}
    lost = [place for place in unknown if not world.ledger.places[place[0]].excused]
    check(not lost, "never came, and nobody knew of them:", lost[:5])
