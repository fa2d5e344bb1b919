#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`iam-policy` and `table-schema`: with what they print the sidecar works, with less it says what is missing."""

import json
import os
import subprocess
import sys

from lib import (BINARY, ROOT, Double, RawStream, Sidecar, call, check, check_equal, dynamodb, main, make_stream,
                 need_emulators, put_kinesis, test, wait_until)
from kinesis_client import ACCESS_KEY, REGION, SECRET_KEY

sys.path.insert(0, os.path.join(ROOT, "tests", "doubles"))
import iam  # noqa: E402 - it is found there

need_emulators("dynoxide", "kinesis-local", "moto")

DIALECTS = ("native", "kcl", "go-kcl", "kinsumer", "kcl-rb")
MAKES = {"dynamodb:CreateTable", "dynamodb:UpdateTimeToLive", "kinesis:RegisterStreamConsumer"}


def said(folder, command, *words, status=0):
    env = dict(os.environ, AWS_REGION=iam.REGION, AWS_ACCOUNT_ID=iam.ACCOUNT)
    run = subprocess.run([BINARY, command, *words], cwd=folder, env=env, capture_output=True, check=False, text=True)
    check_equal(run.returncode, status, command, words, run.stderr)
    return run.stdout if status == 0 else run.stderr


def policy_of(folder, *words):
    return json.loads(said(folder, "iam-policy", *words))


def actions_of(policy):
    return {action for statement in policy["Statement"] for action in statement["Action"]}


def tables_of(folder, *words):
    return [json.loads(line) for line in said(folder, "table-schema", *words).splitlines()]


def name_of(folder, word):
    return f"{word}-" + os.path.basename(folder).replace("_", "-")


class World:
    """A stream, and sidecars that are allowed what their policy says."""

    def __init__(self, folder, dialect, existing=False, letters=None):
        self.folder, self.dialect, self.name = folder, dialect, name_of(folder, dialect)
        self.options = ["--stream", self.name, "--application", self.name, "--dialect", dialect]
        if letters:
            self.options += ["--dead-letters", letters]
        self.policy = policy_of(folder, *self.options, *(["--existing"] if existing else []))
        self.letters = letters
        self.doors = {service: iam.Door(os.environ[f"KS_{service}_URL"], self.policy, self.name)
                      for service in ("DYNAMODB", "KINESIS", "MOTO") if f"KS_{service}_URL" in os.environ}
        make_stream(self.name, 1)

    def sidecar(self, name="sidecar"):
        env = {"AWS_REGION": iam.REGION, "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
               **{f"AWS_ENDPOINT_URL_{service}": self.doors["MOTO"].url for service in ("S3", "SQS", "SNS")},
               **{f"AWS_ENDPOINT_URL_{service}": self.doors[service].url for service in ("DYNAMODB", "KINESIS")}}
        more = {"dead_letters": self.letters} if self.letters else {}
        return Sidecar(self.folder, name, env=env, stream=self.name, application=self.name, dialect=self.dialect,
                       aws_protocol="json", initial_position="trim_horizon", lease_duration_ms=2000,
                       checkpoint_interval_ms=300, shard_check_ms=1000, **more)

    def denied(self):
        return set().union(*(door.denied for door in self.doors.values()))

    def asked(self):
        return set().union(*(door.asked for door in self.doors.values()))

    def forget(self, action):
        for door in self.doors.values():
            door.forget(action)

    def recall(self):
        for door in self.doors.values():
            door.recall()

    def live(self, name="sidecar"):
        """All that a sidecar does: it reads, checkpoints, keeps a dead letter, delivers it again and ends."""
        put_kinesis(self.name, [(f"key-{at}", b"record-%d" % at) for at in range(4)])
        sidecar = self.sidecar(name).start()
        stream = RawStream(sidecar, "client_id=app")
        first, *rest = stream.records(4)
        settle(sidecar, [first], "dead_letter", reason="bad")
        settle(sidecar, rest, "ack")
        if self.letters is None or self.letters.startswith("s3:"):
            letter, = wait_until(lambda: sidecar.get("/v1/dead-letters")["dead_letters"], 20, "the letter is listed")
            answer = sidecar.call("POST", f"/v1/dead-letters/{letter['id']}/redrive")
            check_equal(answer.status, 200, answer)
            settle(sidecar, stream.records(1), "ack")
            wait_until(lambda: not sidecar.get("/v1/dead-letters")["dead_letters"], 20, "the letter is gone")
        stream.close()
        answer = sidecar.call("GET", "/v1/peek?shard=shardId-000000000000&from=trim_horizon")
        check_equal(answer.status, 200, answer)
        sidecar.stop()
        return sidecar


def settle(sidecar, records, outcome, **more):
    items = [{"ack_id": record["ack_id"], "outcome": outcome, **more} for record in records]
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": items, "wait": "persisted"})
    check_equal((answer.status, answer.json["failed"]), (200, []), answer)


def lives_with_its_policy(folder, dialect):
    world = World(folder, dialect)
    world.live()
    check_equal(world.denied(), set(), "denied")
    made = {description["TableName"] for description in tables_of(folder, *world.options)}
    check(made <= set(dynamodb("ListTables")["TableNames"]), made)


def lives_with_tables_that_exist(folder, dialect):
    """Tables made of `table-schema` are those that the sidecar would have made: it needs no right to make any."""
    world = World(folder, dialect, existing=True)
    check_equal(actions_of(world.policy) & MAKES, set(), "rights to make things")
    for description in tables_of(folder, *world.options):
        dynamodb("CreateTable", **description)
        if any(key["AttributeName"] == "p" for key in description["KeySchema"]):
            dynamodb("UpdateTimeToLive", TableName=description["TableName"],
                     TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"})
    world.live()
    check_equal(world.denied(), set(), "denied")


for one in DIALECTS:
    for story in (lives_with_its_policy, lives_with_tables_that_exist):
        def run(folder, story=story, one=one):
            story(folder, one)
        run.__name__ = f"{one.replace('-', '_')}_{story.__name__}"
        test(90)(run)


@test(60)
def a_table_with_another_key_is_refused_and_the_key_named(folder):
    for dialect, named in (("native", "(p, k)"), ("kcl", "(leaseKey)"), ("go-kcl", "(ShardID)"), ("kinsumer", "(Shard)"),
                           ("kcl-rb", "(shard_id)")):
        world = World(folder, dialect)
        first = tables_of(folder, *world.options)[0]
        dynamodb("CreateTable", TableName=first["TableName"], BillingMode="PAY_PER_REQUEST",
                 AttributeDefinitions=[{"AttributeName": "wrong", "AttributeType": "S"}],
                 KeySchema=[{"AttributeName": "wrong", "KeyType": "HASH"}])
        sidecar = world.sidecar(dialect).start(ready=False)
        wait_until(lambda s=sidecar, n=named: f"its key is (wrong), and not {n} of strings" in s.said(), 20, named)
        sidecar.kill()


# ---- One right is missing ----

# Actions that one sidecar of a quiet fleet does not need: of a large fleet (tests/unit/adapters/dynamodb/store_test.c has
# its words), of finished shards.
UNASKED = {"native": {"dynamodb:BatchGetItem"}, "kinsumer": set(), "go-kcl": {"dynamodb:DeleteItem"}, "kcl-rb": {"dynamodb:DeleteItem"}}
# What is there only before the first success comes first.
FANOUT = ["kinesis:RegisterStreamConsumer", "kinesis:DescribeStreamConsumer", "kinesis:SubscribeToShard"]
FIRST = ["dynamodb:CreateTable", "dynamodb:UpdateTimeToLive"]


def tell(sidecar):
    """Takes records, keeps one of them as a dead letter, lists letters and has one delivered again; whatever comes of it.
    Returns the answers and the log."""
    answers = []

    def ask(method, path, body=None):
        answer = sidecar.call(method, path, body, timeout=5)
        answers.append(answer.body.decode())
        return json.loads(answer.body) if answer.status == 200 else {}

    try:
        records = ask("GET", "/v1/records?max_records=2&wait_ms=100").get("records", [])
        ask("POST", "/v1/records/settle", {"settlements": [
            {"ack_id": record["ack_id"], "outcome": "dead_letter" if record["attempt"] == 1 else "ack"}
            for record in records]})
        for letter in ask("GET", "/v1/dead-letters").get("dead_letters", [])[:1]:
            ask("POST", f"/v1/dead-letters/{letter['id']}/redrive")
    except OSError:
        pass  # Not up yet.
    return "\n".join(answers) + sidecar.said()


def is_told(text, action):
    """One line has the action, the command that prints the policy, and who was denied."""
    return any("access" in line.lower() and f"allow {action} " in line and "kinesis-sidecar iam-policy" in line
               for line in text.split("\n"))


def says_what_is_missing(world, service=""):
    """Of each action, or of those of a service."""
    actions = {one for one in actions_of(world.policy) - UNASKED.get(world.dialect, set()) if one.startswith(service)}
    check(actions, service)
    for action in sorted(actions, key=lambda one: (one not in FIRST, FIRST.index(one) if one in FIRST else 0, one)):
        world.forget(action)
        put_kinesis(world.name, [(f"key-{at}", b"record") for at in range(2)])
        sidecar = world.sidecar(action.replace(":", "-")).start(ready=False)
        wait_until(lambda s=sidecar, a=action: is_told(tell(s), a), 30, f"{action} is told", every=0.3)
        sidecar.kill()
        world.recall()
    check_equal({action for action, _ in world.denied()}, actions, "each was denied")


@test(200)
def each_missing_right_is_named(folder):
    says_what_is_missing(World(folder, "native"))


@test(200)
def each_missing_right_of_a_fleet_with_three_tables_is_named(folder):
    says_what_is_missing(World(folder, "kinsumer"))


@test(200)
def each_missing_right_of_letters_elsewhere_is_named(folder):
    bucket = name_of(folder, "bucket")
    check_equal(moto("PUT", "/" + bucket).status, 200, "the bucket")
    says_what_is_missing(World(folder, "go-kcl", letters=f"s3://{bucket}/letters"), "s3:")
    queue = f"{os.environ['KS_MOTO_URL']}/{iam.ACCOUNT}/letters"
    says_what_is_missing(World(folder, "kcl-rb", letters="sqs:" + queue), "sqs:")
    says_what_is_missing(World(folder, "kcl", letters="sns:" + iam.arn("sns", "letters")), "sns:")


@test(120)
def each_missing_right_of_fan_out_is_named(folder):
    """Its feeds are HTTP/2, which the proxy does not know: the double denies."""
    policy = actions_of(policy_of(folder, "--stream", "orders", "--application", "orders-app", "--retrieval", "fanout"))
    check(policy >= set(FANOUT), policy)
    for action in FANOUT:
        operation = action.partition(":")[2]
        double = Double(folder, name=operation + "-double")
        double.client().must("CreateStream", StreamName="orders", ShardCount=1)
        double.control(faults=[{"kind": "error", "operation": operation, "code": "AccessDeniedException", "count": 1000,
                                "message": f"User: {iam.USER} is not authorized to perform: {action}"}])
        sidecar = Sidecar(folder, name=operation, env={
            "AWS_ENDPOINT_URL_KINESIS": double.url, "AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY}, stream="orders", application="orders-app", retrieval="fanout",
            leases=f"sqlite:{folder}/{operation}.db", lease_duration_ms=2000).start(ready=False)
        wait_until(lambda s=sidecar, a=action: is_told(tell(s), a), 30, f"{action} is told", every=0.3)
        sidecar.kill()


def moto(method, path):
    host, port = os.environ["KS_MOTO_URL"][len("http://"):].split(":")
    return call((host, int(port)), method, path)


# ---- Words ----

@test(20)
def nothing_is_printed_where_nothing_is_needed(folder):
    words = ["--stream", "orders", "--application", "orders-app", "--source", "local:s.db"]
    check("use nothing in AWS" in said(folder, "iam-policy", *words, status=1), "iam-policy")
    check("use no table in DynamoDB" in said(folder, "table-schema", *words, status=1), "table-schema")


@test(20)
def a_role_has_the_rights_of_its_calls_alone(folder):
    role = "arn:aws:iam::111122223333:role/reader"
    words = ["--stream", "orders", "--application", "orders-app", "--kinesis-role-arn", role]
    check_equal({action.split(":")[0] for action in actions_of(policy_of(folder, *words))}, {"dynamodb", "sts"}, "the process")
    check_equal({action.split(":")[0] for action in actions_of(policy_of(folder, *words, "--role", role))}, {"kinesis"}, "the role")
    check("--role must be" in said(folder, "iam-policy", *words, "--role", role + "2", status=2), "another role")


main()
