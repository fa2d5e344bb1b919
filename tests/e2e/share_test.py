#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A canary by key: an app with a share gets its keys and no others, in order, and another app gets the rest."""

from lib import RawStream, Sidecar, check, check_equal, data_of, main, test, wait_until

KEYS = [f"key-{i}" for i in range(2000)]
LANES, SHARE, SALT = 64, 0.1, "v2"
ORDER = f"ordering=key&lanes={LANES}&max_in_flight=10000"
CANARY = f"share={SHARE}&salt={SALT}"
WORD = (1 << 64) - 1


def fnv(text):
    """FNV-1a, 64 bits."""
    value = 0xcbf29ce484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001b3 & WORD
    return value


def lane_of(key):
    """docs/API.md: the hash of a partition key, folded to 8 bits, times lanes / 256."""
    value = fnv(key)
    value ^= value >> 32
    value ^= value >> 16
    return ((value ^ value >> 8) & 0xff) * LANES >> 8


def lanes_of_share():
    """docs/API.md: the first lanes of a shuffle by splitmix64, whose seed is the salt."""
    lanes, state = list(range(LANES)), fnv(SALT)
    for i in range(round(SHARE * LANES)):
        state = state + 0x9e3779b97f4a7c15 & WORD
        value = (state ^ state >> 30) * 0xbf58476d1ce4e5b9 & WORD
        value = (value ^ value >> 27) * 0x94d049bb133111eb & WORD
        other = i + (value ^ value >> 31) % (LANES - i)
        lanes[i], lanes[other] = lanes[other], lanes[i]
    return set(lanes[:round(SHARE * LANES)])


CHOSEN = [key for key in KEYS if lane_of(key) in lanes_of_share()]
OTHERS = [key for key in KEYS if lane_of(key) not in lanes_of_share()]


def put_round(sidecar, number):
    """One record of each key."""
    for i in range(0, len(KEYS), 500):
        sidecar.put([(key, f"{number}".encode()) for key in KEYS[i:i + 500]])


def take(sidecar, stream, keys, rounds):
    """Takes the records of these rounds of these keys, each key's in order and no others, and acknowledges them."""
    records = stream.records(len(keys) * len(rounds))
    seen = {key: [] for key in keys}
    for record in records:
        check(record["partition_key"] in seen, f"a record of another app's key: {record}")
        seen[record["partition_key"]].append(int(data_of(record)))
    check_equal([numbers for numbers in seen.values() if numbers != rounds], [], "each key has its records in order")
    for i in range(0, len(records), 500):
        items = [{"ack_id": record["ack_id"], "outcome": "ack"} for record in records[i:i + 500]]
        answer = sidecar.call("POST", "/v1/records/settle", {"settlements": items})
        check_equal((answer.status, answer.json["failed"]), (200, []), "acks")


def end(sidecar, client_id):
    check_equal(sidecar.call("DELETE", f"/v1/sessions/{client_id}").status, 200, client_id)


def counted(sidecar, what, group):
    lines = sidecar.ops("/metrics").body.decode().split("\n")
    found = [line for line in lines if f"group_records_{what}_total{{" in line and f'group="{group}"' in line]
    check_equal(len(found), 1, found)
    return int(found[0].rsplit(" ", 1)[1])


@test(120)
def an_app_with_a_share_gets_its_keys_and_takes_no_others_when_the_rest_leaves(folder):
    sidecar = Sidecar.local(folder, local_shards=2).start()
    rest = RawStream(sidecar, f"client_id=rest&{ORDER}")
    canary = RawStream(sidecar, f"client_id=canary&{ORDER}&{CANARY}&heartbeat_ms=100")
    sessions = {one["client_id"]: one for one in sidecar.get("/v1/sessions")["sessions"]}
    check_equal([(sessions[name]["share"], sessions[name]["salt"]) for name in ("canary", "rest")],
                [("0.1", "v2"), ("", "")], sessions)
    check_equal(len(CHOSEN), 217, "keys of the share")
    put_round(sidecar, 0)
    put_round(sidecar, 1)
    take(sidecar, canary, CHOSEN, [0, 1])
    take(sidecar, rest, OTHERS, [0, 1])
    for what in ("delivered", "acked", "failed"):
        expected = (0, 0) if what == "failed" else (2 * len(CHOSEN), 2 * len(OTHERS))
        wait_until(lambda what=what, expected=expected: (counted(sidecar, what, "canary"),
                                                         counted(sidecar, what, "rest")) == expected, 10, what)

    # The rest leaves: its keys wait, and that shows.
    end(sidecar, "rest")
    rest.close()
    put_round(sidecar, 2)
    take(sidecar, canary, CHOSEN, [2])
    canary.until("heartbeat")
    lines = canary.until("heartbeat")
    check_equal([line["type"] for line in lines], ["heartbeat"], "nothing of another key")
    check("only sessions with a share are open" in sidecar.said(), "the log tells of it")
    wait_until(lambda: sidecar.get("/v1/status")["subscriptions"][0]["millis_behind_latest"] > 0, 10, "so does the lag")
    rest = RawStream(sidecar, f"client_id=rest&{ORDER}")
    take(sidecar, rest, OTHERS, [2])

    # Without the canary the rest gets all.
    end(sidecar, "canary")
    canary.close()
    put_round(sidecar, 3)
    take(sidecar, rest, KEYS, [3])
    rest.close()
    sidecar.stop()


@test()
def what_a_share_cannot_be_is_refused_with_a_reason(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    stream = "/v1/records/stream?client_id=a&"
    for query, status, says in (
            ("share=0.1", 400, "ordering=key"), ("ordering=none&share=0.1", 400, "ordering=key"),
            ("ordering=key&share=1", 400, "a decimal above 0 and below 1"), ("ordering=key&share=", 400, "share has no value"),
            ("ordering=key&share=0.01", 400, "rounds to 0 lanes"), ("ordering=key&lanes=1&share=0.5", 400, "take more lanes"),
            ("ordering=key&salt=v2", 400, "salt goes with share"), ("ordering=key&share=0.5&salt=a%20b", 400, "salt has at most")):
        answer = sidecar.call("GET", stream + query)
        check_equal(answer.status, status, answer)
        check(says in answer.json["detail"], answer)
    canary = RawStream(sidecar, f"client_id=canary&{ORDER}&{CANARY}")
    for query, says in ((f"{ORDER}&share=0.2&salt=v2", "share=0.1 and salt=v2 are open"), (f"{ORDER}&share=0.1", "share=0.1 and salt=v2 are open"),
                        ("ordering=key&lanes=16&share=0.1&salt=v2", "number of lanes")):
        answer = sidecar.call("GET", stream + query)
        check_equal(answer.status, 409, answer)
        check(says in answer.json["detail"], answer)
    # A poll may have the share, too, under a name.
    poll = f"/v1/records?wait_ms=0&ordering=key&lanes={LANES}&{CANARY}"
    check_equal(sidecar.call("GET", poll).status, 400, "one without a name")
    check_equal(sidecar.call("GET", poll + "&session=b").status, 200, "one with a name")
    answer = sidecar.call("GET", f"/v1/records?wait_ms=0&session=b&ordering=key&lanes={LANES}&share=0.2")
    check_equal((answer.status, "another share or salt" in answer.json["detail"]), (409, True), answer)
    # So may a session that a call opens.
    opened = {"clientId": "c", "ordering": "ORDERING_KEY", "lanes": LANES, "share": str(SHARE), "salt": SALT}
    method = "/kinesis_sidecar.v1.Consumer/OpenSession"
    check_equal(sidecar.call("POST", method, opened).status, 200, "a call")
    answer = sidecar.call("POST", method, {**opened, "salt": "v3"})
    check_equal((answer.status, answer.json["code"]), (409, "aborted"), answer)
    shown = {one["client_id"]: (one["share"], one["salt"]) for one in sidecar.get("/v1/sessions")["sessions"]}
    check_equal(shown, {name: ("0.1", "v2") for name in ("canary", "b", "c")}, "sessions")
    canary.close()


if __name__ == "__main__":
    main()
