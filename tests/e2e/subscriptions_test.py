#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several subscriptions in one sidecar: on local streams, and on Kinesis and DynamoDB (emulated)."""

import base64
import json
import os
import signal
import threading

from lib import (Sidecar, check, check_equal, check_shard_order, data_of, dynamodb, kinesis, lease_rows, main,
                 make_stream, need_emulators, numbered, put_kinesis, test, wait_until)


def configured(folder, subscriptions, make, **options):
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"subscriptions": subscriptions}, file)
    return make(folder, config=path, stream=None, application=None, **options)


def put(sidecar, subscription, records):
    entries = [{"PartitionKey": key, "Data": base64.b64encode(data).decode()} for key, data in records]
    answer = sidecar.call("POST", f"/v1/local/records?subscription={subscription}", {"Records": entries})
    check_equal((answer.status, answer.json.get("FailedRecordCount")), (200, 0), "put")


def pull(sidecar, subscription, count, ack=True, seconds=25):
    """Pulls `count` records of a subscription. Their batches are settled without saying whose they are."""
    records = []

    def more():
        batch = sidecar.get(f"/v1/records?subscription={subscription}&max_records=500&wait_ms=1000")
        records.extend(batch["records"])
        if batch["records"] and ack:
            answer = sidecar.call("POST", f"/v1/records/ack?batch_id={batch['batch_id']}&wait=persisted").json
            check_equal((answer["ok"], answer["persisted"]), (len(batch["records"]), True), "ack")
        return len(records) >= count
    wait_until(more, seconds, f"{count} records of {subscription} come")
    return records


def two_local(folder):
    """Two streams in two files; the second one's leases are beside the first one's."""
    return configured(folder, [
        {"name": "orders", "stream": "orders", "application": "app-orders",
         "source": "local:" + os.path.join(folder, "orders.db")},
        {"stream": "clicks", "application": "clicks", "source": "local:" + os.path.join(folder, "clicks.db"),
         "local_shards": 2},
    ], Sidecar.local, source=None, worker_id="pod")


# --- Local ---

@test(seconds=60)
def each_has_its_own_records_positions_and_place_after_a_kill(folder):
    sidecar = two_local(folder).start()
    put(sidecar, "orders", numbered(300, prefix="order"))
    put(sidecar, "clicks", numbered(200, prefix="click"))
    orders = pull(sidecar, "orders", 300)
    clicks = pull(sidecar, "clicks", 100, ack=False)
    check_equal({record["stream"] for record in orders}, {"orders"}, "stream")
    check_equal({record["stream"] for record in clicks}, {"clicks"}, "stream")
    check_equal({data_of(record) for record in orders}, {data for _, data in numbered(300, prefix="order")}, "orders")
    check_shard_order(orders)
    check_equal(len(sidecar.get("/v1/shards?subscription=clicks")["shards"]), 2, "shards of clicks")
    check_equal(len(sidecar.get("/v1/shards?subscription=orders")["shards"]), 4, "shards of orders")
    boots = {sidecar.get(f"/v1/workers?subscription={name}")["workers"][0]["boot_id"] for name in ("orders", "clicks")}
    check_equal(boots, {sidecar.get("/v1/status")["boot_id"]}, "one process")

    sidecar.kill()
    sidecar.start()
    clicks = pull(sidecar, "clicks", 200)
    check_equal({data_of(record) for record in clicks}, {data for _, data in numbered(200, prefix="click")}, "clicks")
    check_equal(len(clicks), 200, "nothing twice")
    metrics = sidecar.ops("/metrics").body.decode()
    check('records_acked_total{subscription="clicks"} 200\n' in metrics, metrics)
    check('records_acked_total{subscription="orders"} 0\n' in metrics, metrics)
    batch = sidecar.get("/v1/records?subscription=orders&wait_ms=1000")
    check_equal(batch["records"], [], "what was persisted does not come back")
    sidecar.stop()
    said = sidecar.said()
    check("orders: drained" in said and "clicks: drained" in said, said[-2000:])


@test()
def a_request_must_say_which_it_means(folder):
    sidecar = two_local(folder).start()
    for path in ("/v1/records", "/v1/records/stream", "/v1/shards", "/v1/leases", "/v1/events"):
        answer = sidecar.call("GET", path)
        check_equal((answer.status, answer.json["code"]), (400, "invalid_argument"), path)
        check("orders, clicks" in answer.json["detail"], answer)
        check_equal(sidecar.call("GET", path + "?subscription=nobody").status, 404, path)
    answer = sidecar.call("POST", "/v1/checkpoint", {"shard_id": "s", "sequence_number": "1"})
    check_equal(answer.status, 400, answer)
    answer = sidecar.call("POST", "/v1/checkpoint", {"shard_id": "s", "sequence_number": "1", "subscription": "nobody"})
    check_equal(answer.status, 404, answer)
    answer = sidecar.call("POST", "/v1/checkpoint?subscription=orders",
                          {"shard_id": "s", "sequence_number": "1", "subscription": "clicks"})
    check_equal(answer.status, 400, answer)

    status = sidecar.get("/v1/status")
    check_equal([(row["subscription"], row["stream"], row["application"]) for row in status["subscriptions"]],
                [("orders", "orders", "app-orders"), ("clicks", "clicks", "clicks")], "status")
    check_equal((status["ready"], status["reasons"]), (True, []), "status")
    one = sidecar.get("/v1/status?subscription=clicks")
    check_equal([row["subscription"] for row in one["subscriptions"]], ["clicks"], "status of one")
    options = {row["name"]: row for row in sidecar.get("/v1/config?subscription=clicks")["options"]}
    check_equal((options["local_shards"]["value"], options["local_shards"]["source"]), (2, "subscription"), "config")
    check_equal(options["lease_duration_ms"]["source"], "flag", "config")

    # A producer says which stream, as it does to Kinesis.
    entries = [{"PartitionKey": "k", "Data": "aGk="}]
    check_equal(sidecar.call("POST", "/v1/local/records", {"Records": entries}).status, 400, "put without a name")
    answer = sidecar.call("POST", "/v1/local/records", {"Records": entries, "StreamName": "clicks"})
    check_equal(answer.status, 200, answer)
    answer = sidecar.call("POST", "/v1/local/records", {"Records": entries, "StreamName": "nobody"})
    check_equal(answer.status, 404, answer)
    check_equal(len(pull(sidecar, "clicks", 1)), 1, "clicks")
    sidecar.stop()


@test()
def ids_carry_their_subscription(folder):
    sidecar = two_local(folder).start()
    put(sidecar, "orders", numbered(1))
    put(sidecar, "clicks", numbered(1))
    order = pull(sidecar, "orders", 1, ack=False)[0]["ack_id"]
    click = pull(sidecar, "clicks", 1, ack=False)[0]["ack_id"]

    answer = sidecar.call("POST", f"/v1/records/ack?subscription=orders&ack_id={click}")
    check_equal((answer.json["ok"], answer.json["failed"][0]["reason"]), (0, "UNKNOWN"), answer)
    answer = sidecar.call("POST", f"/v1/records/ack?ack_id={click}&ack_id={order}")
    check_equal((answer.json["ok"], answer.json["failed"][0]["ack_id"]), (1, order), answer)
    answer = sidecar.call("POST", f"/v1/records/ack?ack_id={order}&wait=persisted")
    check_equal((answer.json["ok"], answer.json["persisted"]), (1, True), answer)
    answer = sidecar.call("POST", "/v1/records/ack?ack_id=forged")
    check_equal((answer.status, answer.json["code"]), (400, "invalid_argument"), answer)
    sidecar.stop()


@test()
def one_may_be_drained_while_the_other_goes_on(folder):
    sidecar = two_local(folder).start()
    put(sidecar, "clicks", numbered(1))
    answer = sidecar.call("POST", "/v1/drain?subscription=orders")
    check(b'"type":"drained"' in answer.body, answer)
    check_equal(sidecar.ops("/readyz").status, 503, "ready")
    check(sidecar.ops("/readyz").body.startswith(b"orders: draining"), sidecar.ops("/readyz"))
    check_equal(sidecar.call("GET", "/v1/records?subscription=orders&session=new").status, 503, "a new session")
    check_equal(len(pull(sidecar, "clicks", 1)), 1, "clicks")
    sidecar.stop()


@test()
def sigterm_waits_for_what_is_in_flight_of_each(folder):
    sidecar = two_local(folder).start()
    put(sidecar, "orders", numbered(1))
    order = pull(sidecar, "orders", 1, ack=False)[0]["ack_id"]
    sidecar.signal(signal.SIGTERM)
    wait_until(lambda: "clicks: drained" in sidecar.said(), 10, "clicks are drained")
    check(sidecar.process.poll() is None, "it waits for the order")
    check_equal(sidecar.call("POST", f"/v1/records/ack?ack_id={order}").json["ok"], 1, "ack")
    check_equal(sidecar.wait(10), 0, "status")
    check("orders: drained: nothing is held any more\n" in sidecar.said(), sidecar.said()[-2000:])


@test(seconds=60)
def a_stalled_subscription_leaves_the_other_its_share(folder):
    sidecar = two_local(folder)
    sidecar.options["memory_budget_bytes"] = 4 << 20
    sidecar.start()
    large = [(f"key-{i}", b"x" * 60000) for i in range(100)]
    for _ in range(3):
        put(sidecar, "orders", large)
        put(sidecar, "clicks", large)
    # Nobody acknowledges the orders: what may be in flight of them is.
    held = pull(sidecar, "orders", 20, ack=False)
    check(len(held) >= 20, len(held))
    check_equal(len(pull(sidecar, "clicks", 300, seconds=30)), 300, "clicks")
    check(sidecar.metric("memory_budget_limit_bytes") == 4 << 20, "limit")
    sidecar.kill()


@test()
def subcommands_say_which_they_mean(folder):
    sidecar = two_local(folder).start()
    check_equal(sidecar.command("put", "--data", "hi").returncode, 1, "put without a name")
    done = sidecar.command("put", "--data", "hi", "--subscription", "clicks")
    check_equal((done.returncode, done.stdout), (0, b"1 records put\n"), done)

    def pull_one():
        done = sidecar.command("pull", "--subscription", "clicks", "--wait-ms", "1000")
        check_equal(done.returncode, 0, done)
        return json.loads(done.stdout)["records"]
    record = wait_until(pull_one, 15, "the record comes")[0]
    check_equal(data_of(record), b"hi", "data")
    check_equal(sidecar.command("ack", record["ack_id"]).returncode, 0, "ack")
    check_equal(sidecar.command("drain", "--subscription", "orders").returncode, 0, "drain of one")
    check_equal(sidecar.command("drain").returncode, 0, "drain of all")
    sidecar.stop()


# --- Kinesis and DynamoDB ---

@test(seconds=120)
def two_streams_of_kinesis_survive_a_kill_and_drain(folder):
    names = {"red": "subs-red", "blue": "subs-blue"}
    for name in names.values():
        make_stream(name, 2)
    arn = kinesis("DescribeStreamSummary", StreamName="subs-blue")["StreamDescriptionSummary"]["StreamARN"]
    sidecar = configured(folder, [
        {"name": "red", "stream": "subs-red", "application": "subs-app-red"},
        # By its ARN: the region and the account are that of the stream.
        {"name": "blue", "stream": arn, "application": "subs-app-blue"},
    ], Sidecar.on_emulators).start()
    seen = {name: set() for name in names}
    putters = [threading.Thread(target=put_kinesis, args=(stream, numbered(500, prefix=name)))
               for name, stream in names.items()]
    for putter in putters:
        putter.start()
    for name in names:
        seen[name] |= {data_of(record) for record in pull(sidecar, name, 100, seconds=40)}
    sidecar.kill()
    sidecar.start()
    for putter in putters:
        putter.join()
    for name in names:
        missing = 500 - len(seen[name])
        seen[name] |= {data_of(record) for record in pull(sidecar, name, missing, seconds=40)}
        check_equal(seen[name], {data for _, data in numbered(500, prefix=name)}, name)
    sidecar.stop()
    for name in names:
        check(lease_rows(f"subs-app-{name}"), "there are leases of", name)


@test(seconds=120)
def a_table_that_is_spoilt_stops_its_subscription_and_no_other(folder):
    """A row of another dialect comes into the table of one while all run."""
    names = [os.path.basename(folder).replace("_", "-") + "-" + name for name in ("red", "blue")]
    for name in names:
        make_stream(name, 1)
    where = [{"name": name.rsplit("-", 1)[1], "stream": name, "application": name, "dialect": "go-kcl",
              "initial_position": "trim_horizon"} for name in names]
    sidecar = configured(folder, where, Sidecar.on_emulators, lease_duration_ms=3000).start()
    put_kinesis(names[0], numbered(5, prefix="red"))
    check_equal(len(pull(sidecar, "red", 5, seconds=40)), 5)
    dynamodb("PutItem", TableName=names[0], Item={
        "ShardID": {"S": "shardId-000000000009"}, "leaseCounter": {"N": "4"}, "leaseOwner": {"S": "worker-a"},
        "checkpoint": {"S": "TRIM_HORIZON"}})
    wait_until(lambda: sidecar.ops("/readyz").status == 503, 30, "it is not ready")
    check(sidecar.ops("/readyz").body.startswith(b"red: the lease table is two dialects on one table"),
          sidecar.ops("/readyz"))
    put_kinesis(names[1], numbered(5, prefix="blue"))
    check_equal(len(pull(sidecar, "blue", 5, seconds=40)), 5)
    check_equal(sidecar.call("GET", "/v1/records?subscription=red&session=new").status, 503, "a new session")
    # It is drained: what it had is free, where it was.

    def row():
        return dynamodb("GetItem", TableName=names[0], Key={"ShardID": {"S": "shardId-000000000000"}},
                        ConsistentRead=True)["Item"]
    wait_until(lambda: "AssignedTo" not in row(), 40, "its lease is given back")
    check("Checkpoint" in row(), row())
    sidecar.stop()


if __name__ == "__main__":
    need_emulators("dynoxide", "kinesis-local")
    main()
