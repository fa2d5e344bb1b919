#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lanes and poison on the real binary: a failed key holds up its own lane, sessions share a shard, dead letters are durable."""

from lib import RawStream, Sidecar, check, check_equal, data_of, main, test, wait_until


def settle(sidecar, ack_id, outcome, **more):
    item = {"ack_id": ack_id, "outcome": outcome, **more}
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": [item]})
    check_equal(answer.status, 200, answer)
    return answer.json


def keyed(count, key):
    return [(key, f"{key}-{i}".encode()) for i in range(count)]


@test()
def a_failed_key_holds_up_its_own_lane_only(folder):
    sidecar = Sidecar.local(folder, local_shards=1, retry_backoff_ms="30000").start()
    stream = RawStream(sidecar, "client_id=app&ordering=key&lanes=64")
    # By their hashes all of these are in other lanes than "bad".
    sidecar.put(keyed(2, "bad") + [pair for i in range(8) for pair in keyed(1, f"good{i}")])
    records = stream.records(10)
    bad = [record for record in records if record["partition_key"] == "bad"]
    check_equal([data_of(record) for record in bad], [b"bad-0", b"bad-1"], "in order")
    settle(sidecar, bad[0]["ack_id"], "retry", delay_ms=1)
    again = stream.records(2)
    check_equal([(data_of(record), record["attempt"]) for record in again], [(b"bad-0", 2), (b"bad-1", 2)], "the lane")
    for record in records:
        check_equal(settle(sidecar, record["ack_id"], "ack")["failed"], [], "an ack of any attempt")
    wait_until(lambda: sidecar.get("/v1/sessions")["sessions"][0]["in_flight"] == 0, 10, "all are settled")
    stream.close()


@test()
def sessions_share_a_shard_without_order_and_agree_on_it(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    one = RawStream(sidecar, "client_id=one&ordering=none&max_in_flight=5")
    two = RawStream(sidecar, "client_id=two&ordering=none&max_in_flight=5")
    answer = sidecar.call("GET", "/v1/records/stream?client_id=three&ordering=shard")
    check_equal((answer.status, answer.json["type"]), (409, "urn:kinesis-sidecar:problem:ordering-conflict"), answer)
    sidecar.put(keyed(10, "k"))
    records = one.records(5) + two.records(5)
    check_equal({data_of(record) for record in records}, {f"k-{i}".encode() for i in range(10)}, "all, once")
    one.close()
    two.close()


@test(60)
def a_poisonous_record_becomes_a_dead_letter_that_outlives_a_kill(folder):
    sidecar = Sidecar.local(folder, local_shards=1, max_attempts=2, retry_backoff_ms="1").start()
    stream = RawStream(sidecar, "client_id=app")
    sidecar.put([("k", b"poison"), ("k", b"fine")])
    for attempt in (1, 2):
        record = [record for record in stream.records(2) if data_of(record) == b"poison"][0]
        check_equal(record["attempt"], attempt, record)
        body = {"ack_id": record["ack_id"], "delay_ms": 1, "reason": f"no {attempt}"}
        check_equal(sidecar.call("POST", "/v1/records/nack", body).json["ok"], 1, "nack")
    fine = stream.records(1)[0]
    check_equal(data_of(fine), b"fine", "its lane goes on")
    answer = sidecar.call("POST", f"/v1/records/ack?ack_id={fine['ack_id']}&wait=persisted")
    check(answer.json["persisted"], answer)
    sidecar.kill()

    sidecar = Sidecar.local(folder, "again", local_shards=1).start()
    letters = sidecar.get("/v1/dead-letters")["dead_letters"]
    check_equal(len(letters), 1, letters)
    letter = letters[0]
    check_equal((data_of(letter), letter["cause"], letter["attempts"], letter["reason"]),
                (b"poison", "attempts", 2, "no 2"), letters)
    check_equal(sidecar.call("POST", f"/v1/dead-letters/{letters[0]['id']}/discard").status, 200, letters)
    check_equal(sidecar.get("/v1/dead-letters")["dead_letters"], [], "discarded")


@test(40)
def what_stops_a_shard_is_named_by_its_sequence_number_until_somebody_lets_it_go_on(folder):
    sidecar = Sidecar.local(folder, local_shards=1, max_attempts=1, on_exhausted="stop_shard").start()
    stream = RawStream(sidecar, "client_id=app")
    (shard, sequence), _ = sidecar.put([("k", b"poison"), ("k", b"fine")])
    record = stream.records(2)[0]
    check_equal(sidecar.call("POST", "/v1/records/nack", {"ack_id": record["ack_id"]}).json["ok"], 1, "nack")
    said = f"{shard}: stopped by record {sequence}, which failed 1 times"
    wait_until(lambda: said in sidecar.said(), 10, "the log names it")
    check(sidecar.get(f"/v1/shards/{shard}")["reason"].startswith(said), "so does its reason")
    check_equal(sidecar.get("/v1/status")["subscriptions"][0]["idle_reason"], "lane_blocked", "status")
    check_equal(sidecar.call("POST", "/v1/resume").status, 200, "resume")
    wait_until(lambda: f"{shard}: goes on" in sidecar.said(), 10, "the log tells of it")
    check_equal([data_of(record) for record in stream.records(2)], [b"poison", b"fine"], "they come again")


@test(60)
def one_order_skips_the_record_that_stops_a_shard_and_keeps_it_as_a_dead_letter(folder):
    sidecar = Sidecar.local(folder, local_shards=1, max_attempts=1, on_exhausted="stop_shard").start()
    stream = RawStream(sidecar, "client_id=app")
    (shard, sequence), (_, fine) = sidecar.put([("k", b"poison"), ("k", b"fine")])
    record = stream.records(2)[0]
    body = {"ack_id": record["ack_id"], "reason": "cannot parse"}
    check_equal(sidecar.call("POST", "/v1/records/nack", body).json["ok"], 1, "nack")
    wait_until(lambda: sidecar.get(f"/v1/shards/{shard}")["trouble"] == "stopped", 10, "it is stopped")
    row = sidecar.get(f"/v1/shards/{shard}")
    check_equal((row["blocked_by"], row["failures"]), (sequence, 1), row)
    check("cannot parse" in row["reason"], "the app's own words", row)
    for command in ("leases", "top"):
        said = sidecar.command(command, *(["--once"] if command == "top" else [])).stdout.decode()
        check(f"stopped by record {sequence}" in said and f"kinesis-sidecar skip {shard}" in said, command, said)

    other = sidecar.call("POST", "/v1/seek", {"to": f"after:{fine}", "shards": [shard]})
    check_equal((other.status, other.json["code"]), (400, "failed_precondition"), "not the one that blocks", other)
    dry = sidecar.command("skip", shard, "--dry-run")
    check("would be given up, and becomes a dead letter" in dry.stdout.decode(), dry)
    check_equal(sidecar.get("/v1/dead-letters")["dead_letters"], [], "a dry run")
    done = sidecar.command("skip", shard)
    check_equal((done.returncode, done.stdout.decode()),
                (0, f"{shard}: record {sequence} is given up, and becomes a dead letter\n"), done)
    check_equal([data_of(record) for record in stream.records(1)], [b"fine"], "the shard goes on")
    letter = sidecar.get("/v1/dead-letters")["dead_letters"][0]
    check_equal((data_of(letter), letter["cause"], letter["reason"]),
                (b"poison", "asked", "skipped by an operator; it failed before: cannot parse"), letter)
    check_equal(sidecar.get(f"/v1/shards/{shard}")["trouble"], "none", "no trouble is left")


if __name__ == "__main__":
    main()
