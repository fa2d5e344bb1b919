#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--filter on the real binary: what the patterns do not match is never delivered, counts as settled, and is counted."""

import json
import os

from lib import RawStream, Sidecar, check, check_equal, data_of, main, test, wait_until

BUYS = json.dumps({"data": {"order": {"type": ["buy"], "quantity": [{"numeric": [">=", 10]}]}}})


def checkpoint(sidecar):
    """Of the one shard, "" while it is not known."""
    return next((shard["checkpoint"] for shard in sidecar.get("/v1/shards")["shards"]), "")


def order(number, kind, quantity):
    return f"key-{number}", json.dumps({"order": {"type": kind, "quantity": quantity}}).encode()


@test(60)
def only_what_matches_is_delivered_and_the_checkpoint_passes_the_rest(folder):
    sidecar = Sidecar.local(folder, local_shards=1, filter=BUYS).start()
    placed = sidecar.put([order(0, "sell", 50), order(1, "buy", 9), order(2, "buy", 10), ("key-3", b"no JSON"),
                          order(4, "buy", 11), order(5, "sell", 1)])
    stream = RawStream(sidecar, "client_id=app")
    records = stream.records(2)
    check_equal([json.loads(data_of(record))["order"]["quantity"] for record in records], [10, 11], "delivered")
    for record in records:
        answer = sidecar.call("POST", "/v1/records/ack", {"ack_ids": [record["ack_id"]], "wait": "persisted"})
        check_equal((answer.status, answer.json["persisted"]), (200, True), answer)
    wait_until(lambda: checkpoint(sidecar) == placed[-1][1], 20, "all is settled")
    check_equal(sidecar.metric("records_filtered_total"), 4, "counted")


@test(60)
def a_stream_of_nothing_that_matches_moves_its_checkpoint(folder):
    path = os.path.join(folder, "filter.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"Filters": [{"Pattern": json.dumps({"partitionKey": [{"prefix": "eu-"}]})}]}, file)
    sidecar = Sidecar.local(folder, local_shards=1, filter=path).start()
    stream = RawStream(sidecar, "client_id=app")
    stream.until("session")
    placed = sidecar.put([(f"us-{number}", b"x") for number in range(300)])
    wait_until(lambda: checkpoint(sidecar) == placed[-1][1], 20, "all is settled")
    sidecar.put([("eu-1", b"wanted")])
    check_equal([data_of(record) for record in stream.records(1)], [b"wanted"], "delivered")


@test(30)
def a_filter_that_is_none_is_told_at_the_start(folder):
    for value, why in ((json.dumps({"data": {"a": "b"}}), "--filter: "), ("/no/such/file", "--filter: /no/such/file cannot be read")):
        sidecar = Sidecar.local(folder, local_shards=1, filter=value)
        sidecar.start(ready=False)
        check_equal(sidecar.process.wait(20), 2, "it ends")
        check(why in sidecar.said(), sidecar.said())


main()
