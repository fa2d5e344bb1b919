#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an operator does: pause and resume, seek, release, look and replay beside the group, the log level, the config
read again. On local streams, with leases in SQLite; where it takes a fleet, two sidecars share both files."""

import http.client
import json
import os
import re
import signal
import time
from urllib.parse import quote

from lib import (SLOW, RawStream, Sidecar, check, check_equal, check_shard_order, data_of, main, numbered, pull_all, test,
                 wait_until)

LEASE_MS = 2000


def order(sidecar, path, status=200, **body):
    answer = sidecar.call("POST", path, body)
    check_equal(answer.status, status, answer)
    return answer.json


def shards(sidecar):
    return {shard["shard_id"]: shard for shard in sidecar.get("/v1/shards")["shards"]}


def poll(sidecar, wait_ms=300):
    return sidecar.get(f"/v1/records?max_records=1000&wait_ms={wait_ms}")


def events(sidecar, *types):
    """Those that are kept, up to the first heartbeat."""
    connection = http.client.HTTPConnection("127.0.0.1", sidecar.port, timeout=30 * SLOW)
    connection.request("GET", "/v1/events?heartbeat_ms=100")
    found = []
    with connection.getresponse() as response:
        for line in iter(response.readline, b""):
            event = json.loads(line)
            if event["type"] == "heartbeat":
                break
            if not types or event["type"] in types:
                found.append(event)
    connection.close()
    return found


def settle_all(sidecar, records):
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": [
        {"ack_id": record["ack_id"], "outcome": "ack"} for record in records], "wait": "persisted"})
    check_equal(answer.status, 200, answer)
    return answer.json


# --- Pause ---

@test(seconds=40)
def a_pause_delivers_nothing_lets_settle_and_ends_when_it_should(folder):
    sidecar = Sidecar.local(folder).start()
    sidecar.put(numbered(40))
    first = pull_all(sidecar, 40, ack=False)

    check_equal(order(sidecar, "/v1/pause"), {"shards": [], "until": None, "keep_leases": True}, "pause")
    check_equal({shard["state"] for shard in shards(sidecar).values()}, {"paused"}, "states")
    sidecar.put(numbered(40, 40))
    batch = poll(sidecar)
    check_equal((batch["records"], batch["idle_reason"]), ([], "paused"), batch)
    check_equal(sidecar.get("/v1/status")["subscriptions"][0]["idle_reason"], "paused", "status")
    answer = settle_all(sidecar, first)
    check_equal((answer["ok"], answer["persisted"]), (40, True), "what is in flight is settled, and saved")

    one = first[0]["shard_id"]
    order(sidecar, "/v1/resume", shards=[one])
    got = pull_all(sidecar, 1, ack=False)
    check_equal({record["shard_id"] for record in got}, {one}, "only the one that was resumed")
    order(sidecar, "/v1/resume")
    check_equal({shard["state"] for shard in shards(sidecar).values()}, {"held"}, "states")
    wait_until(lambda: got.extend(poll(sidecar)["records"]) or len(got) >= 40, 15, "the others come")
    check_equal({data_of(record) for record in got}, {data for _, data in numbered(40, 40)}, "each once")
    check_equal(len(got), 40, "each once")
    settle_all(sidecar, got)

    # And one that ends by itself; nobody asks before.
    until = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + 3))
    check_equal(order(sidecar, "/v1/pause", until=until)["until"], until, "until")
    sidecar.put(numbered(4, 80))
    check_equal(poll(sidecar)["records"], [], "paused")
    check(all(shard["paused_until"] for shard in shards(sidecar).values()), "paused_until")
    pull_all(sidecar, 4)
    check_equal([event["type"] for event in events(sidecar, "paused", "resumed")],
                ["paused", "resumed", "resumed", "paused", "resumed"], "events")
    sidecar.stop()


@test()
def orders_that_cannot_be_are_refused_with_their_reason(folder):
    sidecar = Sidecar.local(folder).start()
    pull_all(sidecar, 0)
    poll(sidecar)
    wait_until(lambda: len(shards(sidecar)) == 4, 15, "the leases are there")
    for path, body, status, word in (
            ("/v1/pause", {"until": "2020-01-01T00:00:00Z"}, 400, "to come"),
            ("/v1/pause", {"until": "soon"}, 400, "RFC 3339"),
            ("/v1/pause", {"shards": ["shardId-9"]}, 404, "shardId-9"),
            ("/v1/pause", {"shard": "x"}, 400, "unknown member"),
            ("/v1/seek", {}, 400, "to must be"),
            ("/v1/seek", {"to": "yesterday"}, 400, "to must be"),
            ("/v1/seek", {"to": "00012"}, 400, "to must be"),
            ("/v1/seek", {"to": "12345"}, 400, "exactly one"),
            ("/v1/seek", {"to": "latest", "wait_ms": 60001}, 400, "wait_ms"),
            ("/v1/leases/shardId-9/release", {}, 404, "shardId-9")):
        answer = sidecar.call("POST", path, body)
        check_equal(answer.status, status, path, body, answer)
        check(word in answer.json["detail"], answer)
    check_equal(sidecar.call("GET", "/v1/pause").status, 405, "GET")
    check_equal(sidecar.call("PUT", "/v1/loglevel", {"level": "loud"}).status, 400, "level")
    sidecar.stop()


# --- Seek ---

@test(seconds=60)
def a_seek_moves_the_checkpoints_back_and_fences_old_acks(folder):
    sidecar = Sidecar.local(folder).start()
    placed = sidecar.put(numbered(40))
    settle_all(sidecar, pull_all(sidecar, 40, ack=False))
    sidecar.put(numbered(8, 40))
    flying = pull_all(sidecar, 8, ack=False)
    before = shards(sidecar)

    answer = sidecar.call("POST", "/v1/seek", {"to": "trim_horizon"})
    check_equal((answer.status, answer.json["code"]), (400, "failed_precondition"), "not paused")
    order(sidecar, "/v1/pause")
    dry = order(sidecar, "/v1/seek", to="trim_horizon", dry_run=True)
    check_equal(({row["outcome"] for row in dry["shards"]}, len(dry["shards"])), ({"dry_run"}, 4), dry)
    check_equal({row["shard_id"]: row["before"]["checkpoint"] for row in dry["shards"]},
                {name: shard["checkpoint"] for name, shard in before.items()}, "before")
    check_equal({name: shard["epoch"] for name, shard in shards(sidecar).items()},
                {name: shard["epoch"] for name, shard in before.items()}, "a dry run changes nothing")

    done = order(sidecar, "/v1/seek", to="trim_horizon")
    check_equal({row["outcome"] for row in done["shards"]}, {"done"}, done)
    check_equal({row["after"]["checkpoint"] for row in done["shards"]}, {"TRIM_HORIZON"}, done)
    wait_until(lambda: all(shard["epoch"] == before[name]["epoch"] + 1 and shard["state"] == "paused"
                           for name, shard in shards(sidecar).items()), 15, "the next epochs begin, and are paused")
    late = settle_all(sidecar, flying)
    check_equal((late["ok"], {item["reason"] for item in late["failed"]}), (0, {"FENCED"}), late)
    check_equal(poll(sidecar)["records"], [], "still paused")

    order(sidecar, "/v1/resume")
    again = pull_all(sidecar, 48, ack=False)
    check_equal(sorted(data_of(record) for record in again), sorted(data for _, data in numbered(48)), "all again, once")
    check_shard_order(again)
    settle_all(sidecar, again)

    # To one record of one shard, by force; to an instant; to the tip.
    shard, sequence = placed[7]
    forced = order(sidecar, "/v1/seek", to=sequence, shards=[shard], force=True)["shards"]
    check_equal([(row["shard_id"], row["outcome"], row["after"]["inclusive"]) for row in forced],
                [(shard, "done", True)], forced)
    some = pull_all(sidecar, 1)
    check_equal((some[0]["shard_id"], some[0]["sequence_number"]), (shard, sequence), "it begins right there")
    order(sidecar, "/v1/seek", to="latest", force=True)
    sidecar.put(numbered(1, 48))
    check_equal([data_of(record) for record in pull_all(sidecar, 1)], [b"record-0048"], "only what came since")
    check_equal(len(events(sidecar, "seek")), 4 + 1 + 4, "events")

    # What was ordered outlives the process.
    order(sidecar, "/v1/pause")
    order(sidecar, "/v1/seek", to="trim_horizon")
    sidecar.kill()
    sidecar.start()
    check_equal(len(pull_all(sidecar, 49)), 49, "all again")
    sidecar.stop()


@test()
def a_stream_is_told_that_its_epoch_is_over_when_somebody_seeks(folder):
    sidecar = Sidecar.local(folder).start()
    stream = RawStream(sidecar, "heartbeat_ms=200")
    sidecar.put(numbered(8))
    first = stream.records(8)
    order(sidecar, "/v1/seek", to="trim_horizon", force=True)
    check(stream.until("lease_lost")[-1]["shard_id"] in {record["shard_id"] for record in first} | set(shards(sidecar)),
          "lease_lost")
    again = stream.records(8)
    check_equal(sorted(data_of(record) for record in again), sorted(data_of(record) for record in first), "again")
    check(all(record["epoch"] == 2 for record in again), again)
    stream.close()
    sidecar.stop()


# --- Release ---

def fleet(folder):
    """Two sidecars with a consumer each, that have divided four shards."""
    pods = [Sidecar.local(folder, name=name, worker_id=name, lease_duration_ms=LEASE_MS).start() for name in ("a", "b")]
    streams = [RawStream(pod, "heartbeat_ms=200") for pod in pods]
    wait_until(lambda: [held(pod) for pod in pods] == [2, 2], 30, "two each")
    return pods, streams


def held(pod):
    return pod.get("/v1/status")["subscriptions"][0]["leases_held"]


def owner(pod, shard):
    return next(lease["owner"] for lease in pod.get("/v1/leases")["leases"] if lease["shard_id"] == shard)


@test(seconds=90)
def a_released_lease_goes_to_another_worker_and_does_not_come_back_at_once(folder):
    (one, two), streams = fleet(folder)
    mine = next(name for name, shard in shards(one).items() if shard["owner"] == "a")
    other = next(name for name, shard in shards(one).items() if shard["owner"] == "b")
    answer = order(one, f"/v1/leases/{mine}/release")
    check_equal(answer["shard_id"], mine, answer)
    check_equal(one.call("POST", f"/v1/leases/{other}/release", {}).status, 409, "another's")
    check_equal(streams[0].until("lease_returning")[-1]["shard_id"], mine, "the session is told")
    wait_until(lambda: owner(two, mine) == "b" and held(two) == 3, 15, "the other one has it")
    came = time.monotonic()
    while time.monotonic() < came + 1.5 * LEASE_MS / 1000:
        check_equal(owner(two, mine), "b", "it stays there")
        time.sleep(0.2)
    # The rest is over after three lease durations: the counts are made even again.
    wait_until(lambda: [held(one), held(two)] == [2, 2], 40, "even again")
    for stream in streams:
        stream.close()
    for pod in (one, two):
        pod.stop()


@test(seconds=90)
def a_pause_that_keeps_no_lease_gives_them_to_the_others(folder):
    (one, two), streams = fleet(folder)
    order(one, "/v1/pause", keep_leases=False)
    wait_until(lambda: [held(one), held(two)] == [0, 4], 30, "the other one has all")
    one.put(numbered(20))
    check_equal(len(streams[1].records(20)), 20, "and delivers them")
    order(one, "/v1/resume")
    wait_until(lambda: [held(one), held(two)] == [2, 2], 40, "they come back")
    for stream in streams:
        stream.close()
    for pod in (one, two):
        pod.stop()


# --- Beside the group ---

def place_of_all(sidecar):
    return {name: (shard["epoch"], shard["checkpoint"], shard["delivered"]) for name, shard in shards(sidecar).items()}


@test(seconds=40)
def a_peek_looks_and_touches_nothing(folder):
    sidecar = Sidecar.local(folder).start()
    placed = sidecar.put(numbered(20))
    settle_all(sidecar, pull_all(sidecar, 20, ack=False))
    before = place_of_all(sidecar)
    shard = placed[0][0]
    mine = [(sequence, data) for (at, sequence), (_, data) in zip(placed, numbered(20)) if at == shard]

    seen = sidecar.get(f"/v1/peek?shard={shard}")
    check_equal([(record["sequence_number"], data_of(record)) for record in seen["records"]], mine, "all of it")
    check_equal((seen["millis_behind_latest"], seen["at_end"]), (0, False), seen)
    seen = sidecar.get(f"/v1/peek?shard={shard}&from={mine[1][0]}&max_records=1")
    check_equal([data_of(record) for record in seen["records"]], [mine[1][1]], "one of it")
    check_equal(sidecar.get(f"/v1/peek?shard={shard}&from=latest")["records"], [], "the tip")
    instant = seen["records"][0]["approximate_arrival_timestamp"]
    check(sidecar.get(f"/v1/peek?shard={shard}&from={quote(instant)}")["records"], "from an instant")
    for query, status in (("", 400), ("shard=shardId-9", 404), (f"shard={shard}&from=now", 400),
                          (f"shard={shard}&max_records=0", 400)):
        check_equal(sidecar.call("GET", "/v1/peek?" + query).status, status, query)
    check_equal(place_of_all(sidecar), before, "leases and checkpoints")
    check_equal(poll(sidecar)["records"], [], "nothing comes again")
    sidecar.stop()


def replay_lines(sidecar, replay, stop_after=None):
    connection = http.client.HTTPConnection("127.0.0.1", sidecar.port, timeout=30 * SLOW)
    connection.request("GET", f"/v1/replays/{replay['id']}/stream")
    lines = []
    with connection.getresponse() as response:
        check_equal(response.status, 200, "stream of a replay")
        for line in iter(response.readline, b""):
            lines.append(json.loads(line))
            if stop_after is not None and len(lines) >= stop_after:
                break
    connection.close()
    return lines


@test(seconds=60)
def a_replay_reads_from_one_place_to_another_beside_the_group(folder):
    sidecar = Sidecar.local(folder).start()
    placed = sidecar.put(numbered(200))
    large = os.urandom(700_000)
    placed += sidecar.put([("large", large)])
    settle_all(sidecar, pull_all(sidecar, 201, ack=False))
    before = place_of_all(sidecar)

    replay = order(sidecar, "/v1/replays")
    check_equal(sorted(replay["shards"]), sorted(before), replay)
    lines = replay_lines(sidecar, replay)
    records = [line for line in lines if line["type"] == "record"]
    check_equal(sorted((record["shard_id"], record["sequence_number"]) for record in records), sorted(placed), "all")
    check_shard_order(records)
    check(large in {data_of(record) for record in records}, "the large one")
    check_equal(lines[-1], {"type": "end", "records": 201}, "the last line")
    check_equal(sidecar.call("GET", f"/v1/replays/{replay['id']}/stream").status, 404, "it is over")

    # From one record to another; and one that is left goes on.
    shard = placed[0][0]
    mine = [sequence for at, sequence in placed if at == shard]
    replay = order(sidecar, "/v1/replays", **{"from": mine[3], "to": mine[7], "shards": [shard]})
    lines = replay_lines(sidecar, replay)
    check_equal([line.get("sequence_number") for line in lines], mine[3:8] + [None], "the range")
    replay = order(sidecar, "/v1/replays", shards=[shard])
    check_equal(sidecar.call("DELETE", f"/v1/replays/{replay['id']}").status, 200, "delete")
    check_equal(sidecar.call("DELETE", f"/v1/replays/{replay['id']}").status, 404, "delete again")

    # They are bounded in number, and what cannot be is refused.
    made = [order(sidecar, "/v1/replays")["id"] for _ in range(16)]
    check_equal(sidecar.call("POST", "/v1/replays", {}).status, 429, "one too many")
    for each in made:
        check_equal(sidecar.call("DELETE", f"/v1/replays/{each}").status, 200, "delete")
    for body, status in (({"from": "1"}, 400), ({"to": "trim_horizon"}, 400), ({"shards": ["x"]}, 404),
                         ({"from": "then"}, 400)):
        check_equal(sidecar.call("POST", "/v1/replays", body).status, status, body)

    check_equal(place_of_all(sidecar), before, "leases and checkpoints")
    check_equal(poll(sidecar)["records"], [], "nothing comes again")
    sidecar.stop()


@test(seconds=60)
def a_sidecar_that_does_not_lead_knows_the_shards_of_others_when_it_is_asked(folder):
    leader = Sidecar.local(folder, name="a", worker_id="a").start()
    placed = leader.put(numbered(20))
    pull_all(leader, 20)
    shard = placed[0][0]
    asks = [lambda pod: check(pod.get(f"/v1/peek?shard={shard}")["records"], "a peek"),
            lambda pod: check_equal(len(replay_lines(pod, order(pod, "/v1/replays"))), 21, "a replay of all"),
            lambda pod: RawStream(pod, f"shards={shard}").close()]
    for name, ask in zip("bcd", asks):
        pod = Sidecar.local(folder, name=name, worker_id=name).start()
        ask(pod)
        pod.stop()
    leader.stop()


@test(seconds=60)
def a_replay_that_waits_for_its_end_beats(folder):
    """At the tip it reads again and again, which is no sign to its client."""
    sidecar = Sidecar.local(folder).start()
    [(shard, _)] = sidecar.put(numbered(1))
    pull_all(sidecar, 1)
    replay = order(sidecar, "/v1/replays", to="2099-01-01T00:00:00Z", shards=[shard])
    lines = replay_lines(sidecar, replay, stop_after=2)
    check_equal(lines[1], {"type": "heartbeat", "records": 1}, "after ten seconds")
    sidecar.stop()


@test(seconds=60)
def a_replay_that_nobody_reads_holds_one_batch_and_waits(folder):
    sidecar = Sidecar.local(folder, memory_budget_bytes=16 << 20).start()
    for begin in range(0, 60, 20):
        sidecar.put([(f"k{number}", os.urandom(200_000)) for number in range(begin, begin + 20)])
    replay = order(sidecar, "/v1/replays")
    stalled = RawReplay(sidecar, replay)
    check_equal(sidecar.call("GET", f"/v1/replays/{replay['id']}/stream").status, 409, "a second stream of it")
    wait_until(lambda: sidecar.metric("memory_budget_used_bytes") is not None, 10, "the metric")
    check(sidecar.metric("memory_budget_used_bytes") < 2 << 20, "it holds little")
    check_equal(len(pull_all(sidecar, 60)), 60, "the group is served all the same")
    stalled.close()
    sidecar.stop()


class RawReplay(RawStream):
    """The stream of a replay, read by the test itself, or not."""

    def __init__(self, sidecar, replay):
        self.path = f"/v1/replays/{replay['id']}/stream"
        super().__init__(sidecar, "", path=self.path)


# --- The log ---

@test()
def the_log_level_changes_while_it_runs(folder):
    sidecar = Sidecar.local(folder).start()
    answer = sidecar.call("PUT", "/v1/loglevel", {"level": "error"})
    check_equal((answer.status, answer.json), (200, {"level": "error", "before": "info"}), answer)
    sidecar.get("/v1/status")
    answer = sidecar.call("PUT", "/v1/loglevel", {"level": "info"})
    check_equal(answer.json["before"], "error", answer)
    wait_until(lambda: "the level is info now" in sidecar.said(), 10, "the log says so")
    sidecar.stop()


def write_config(path, **members):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(members, file)
    os.replace(path + ".new", path)


@test(seconds=60)
def a_config_that_changes_takes_effect_as_far_as_it_can(folder):
    path = os.path.join(folder, "config.json")
    write_config(path, log_level="info", max_request_bytes=2000)
    sidecar = Sidecar.local(folder, config=path, log_level=None).start()
    large = {"settlements": [], "wait_ms": 1, "wait": "recorded", "x": "y" * 4000}
    check_equal(sidecar.call("POST", "/v1/records/settle", large).status, 413, "beyond the limit")

    write_config(path, log_level="info", max_request_bytes=20000, idle_release_ms=1234)
    wait_until(lambda: "idle_release_ms is 1234 in the file now; it needs a restart" in sidecar.said(), 20, "told")
    check("max_request_bytes is 20000 now" in sidecar.said(), "told")
    check_equal(sidecar.call("POST", "/v1/records/settle", large).status, 400, "within the limit, and wrong otherwise")
    shown = {option["name"]: option for option in sidecar.get("/v1/config")["options"]}
    check_equal((shown["max_request_bytes"]["value"], shown["idle_release_ms"]["value"]), (20000, 30000), "config")

    write_config(path, log_level="loud")
    wait_until(lambda: "all stays as it was" in sidecar.said(), 20, "what is wrong is told")
    check_equal(sidecar.get("/v1/status")["state"], "idle", "and it goes on")
    write_config(path, log_level="error", max_request_bytes=20000)
    sidecar.signal(signal.SIGHUP)
    wait_until(lambda: sidecar.call("PUT", "/v1/loglevel", {"level": "info"}).json["before"] == "error", 20, "SIGHUP")
    sidecar.stop()


@test(60)
def an_app_that_never_settles_is_seen_though_nothing_is_behind(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    stream = RawStream(sidecar, "client_id=app")
    sidecar.put(numbered(10))
    stream.records(10)
    wait_until(lambda: sidecar.metric("oldest_unsettled_age_seconds") >= 2, 20, "the metric")
    check(sidecar.metric("millis_behind_latest") < 2000, "all was delivered")
    status = sidecar.get("/v1/status")["subscriptions"][0]
    check(status["oldest_unsettled_age_ms"] >= 2000, status)
    for command in (["leases"], ["leases", "show", "shardId-000000000000"], ["top", "--once"]):
        said = sidecar.command(*command).stdout.decode().lower()
        check(re.search(r"oldest unsettled|unsettled age", said) and re.search(r"\b([2-9]|1\d) s\b", said), command, said)
    stream.close()


if __name__ == "__main__":
    main()
