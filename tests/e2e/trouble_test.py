#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The edges of the embedded default: where it listens, what it refuses, and what it does while its store is away."""

import base64
import glob
import json
import os
import re
import shutil
import subprocess
import time

from lib import (BINARY, PATIENCE, ROOT, RawStream, Sidecar, call, check, check_equal, data_of, free_port, main, numbered,
                 pull_all, spawn, test, wait_until)

# --- Doors ---

@test(seconds=30)
def it_listens_where_it_is_told(folder):
    port, other, ops = free_port(), free_port(), free_port()
    path = os.path.join(folder, "api.sock")
    sidecar = Sidecar.local(folder, listen=f"127.0.0.1:{port},[::1]:{other},unix:{path}",
                            ops_listen=f"127.0.0.1:{ops}")
    sidecar.port, sidecar.ops_port = port, ops
    sidecar.start()
    for address in (("127.0.0.1", port), ("::1", other), path):
        answer = call(address, "GET", "/v1/status")
        check_equal((answer.status, answer.json["worker_id"]), (200, "sidecar"), address)
    check_equal(call(path, "POST", "/v1/local/records",
                     {"Records": [{"Data": "aGk=", "PartitionKey": "k"}]}).status, 200, "put by the socket")
    stream = RawStream(sidecar, "client_id=six", address=("::1", other))
    record = stream.records(1)[0]
    check_equal(data_of(record), b"hi", "record by IPv6")
    check_equal(call(path, "POST", f"/v1/records/ack?ack_id={record['ack_id']}").json["ok"], 1, "ack by the socket")
    stream.close()
    # A foreign name is refused, wherever it comes in.
    refused = call(("::1", other), "GET", "/v1/status", headers={"Host": "evil.example"})
    check_equal(refused.status, 403, refused)
    # Nobody can walk into the ops port for data.
    check_equal(call(("127.0.0.1", ops), "GET", "/v1/status").status, 404, "data on the ops port")
    sidecar.stop()
    check(not os.path.exists(path), "the socket is gone with it")
    # A socket left behind by a kill -9 is no obstacle.
    sidecar.start()
    sidecar.kill()
    check(os.path.exists(path), "the socket is left behind")
    sidecar.options["worker_id"] = "second"
    sidecar.start()
    check_equal(call(path, "GET", "/v1/status").status, 200, "after a kill")
    sidecar.stop()


@test(seconds=30)
def a_port_in_use_is_named(folder):
    first = Sidecar.local(folder, "first").start()
    second = Sidecar.local(folder, "second", listen=first.options["listen"])
    second.start(ready=False)
    check_equal(second.wait(10), 1, "status")
    check(f"127.0.0.1:{first.port}" in second.said() and "in use" in second.said(), second.said())
    check(first.is_ready(), "the first one goes on")
    # Nothing of the second one is in the table.
    check_equal([worker["worker_id"] for worker in first.get("/v1/workers")["workers"]], ["first"], "workers")
    first.stop()


@test(seconds=30)
def the_docs_name_every_option_and_metric(folder):
    def rows(page):
        with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as file:
            lines = [line for line in file.read().split("\n") if line.startswith("| `")]
        return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]

    def differences(documented, real):
        return {name: (documented.get(name), real.get(name)) for name in documented.keys() | real.keys()
                if documented.get(name) != real.get(name)}

    sidecar = Sidecar.local(folder, shard_metrics="on").start()
    options = {f"`{option['flag']}`<br>`{option['environment']}`": option["sentence"]
               for option in sidecar.get("/v1/config")["options"]}
    check_equal(differences({row[0]: row[-1] for row in rows("OPTIONS.md")}, options), {}, "docs/OPTIONS.md, the binary")
    said = sidecar.ops("/metrics").body.decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", said, re.MULTILINE))
    metrics = {f"`{name}`": (kinds[name], sentence)
               for name, sentence in re.findall(r"^# HELP (\S+) (.*)$", said, re.MULTILINE)}
    check(len(metrics) > 20, said)
    documented = {row[0]: (row[1], row[-1]) for row in rows("METRICS.md")}
    check_equal(differences(documented, metrics), {}, "docs/METRICS.md, the binary")
    sidecar.stop()


# --- Bad input ---

@test(seconds=60)
def bad_options_are_named_in_one_line(folder):
    fine = ["--stream", "demo", "--application", "demo", "--source", f"local:{folder}/s.db"]
    cases = [
        (["--no-such-thing", "1"], "no-such-thing"),
        (["--stream", "again"], "--stream"),
        (["--lease-duration-ms", "soon"], "--lease-duration-ms"),
        (["--lease-duration-ms", "1"], "--lease-duration-ms"),
        (["--lease-duration-ms"], "--lease-duration-ms"),
        (["--initial-position", "yesterday"], "--initial-position"),
        (["--initial-position", "at_timestamp:2026-13-01T00:00:00Z"], "--initial-position"),
        (["--listen", "8990"], "--listen"),
        (["--listen", "127.0.0.1:99999"], "--listen"),
        (["--listen", "127.0.0.1:8990,127.0.0.1:8990"], "--listen"),
        (["--dialect", "kcl"], "--dialect"),
        (["--dialect", "other"], "--dialect"),
        (["--retrieval", "fanout"], "--retrieval"),
        (["--leases", "postgres:x"], "--leases"),
        (["--worker-id", "#leader"], "--worker-id"),
        (["--log-level", "loud"], "--log-level"),
        (["--config", f"{folder}/not-there.json"], "--config"),
        (["--token-file", f"{folder}/not-there"], "token"),
        (["surplus"], "surplus"),
    ]
    for more, named in cases:
        for command in (["run"], ["config", "validate"]):
            # What runs has told of its start before it opens that file.
            started = named == "token" and command[0] == "run"
            done = subprocess.run([BINARY, *command, *fine, *more], capture_output=True, text=True, timeout=20 * PATIENCE,
                                  check=False)
            check(done.returncode in ((1, 2) if started else (2,)), command, more, done)
            lines = done.stderr.strip().split("\n")
            check(named in lines[-1], command, more, "is not named:", done.stderr)
            if not started:
                check_equal(len(lines), 1, command, more, done.stderr)

    # Without anything it says what is missing, and how it would run without AWS.
    done = subprocess.run([BINARY], capture_output=True, text=True, timeout=20, check=False, env={"PATH": "/bin"})
    check_equal(done.returncode, 2, done)
    for word in ("--stream", "--application", "--source local:"):
        check(word in done.stderr, word, done.stderr)
    done = subprocess.run([BINARY, "config", "validate", *fine], capture_output=True, text=True, timeout=20, check=False)
    check_equal((done.returncode, done.stderr), (0, ""), done)
    done = subprocess.run([BINARY, "config", "validate", *fine], capture_output=True, text=True, timeout=20, check=False,
                          env={**os.environ, "KINESIS_SIDECAR_LEASE_DURATION": "5000", "KINESIS_SIDECAR_SERVICE_HOST": "h"})
    check_equal((done.returncode, done.stderr), (0, "kinesis-sidecar: KINESIS_SIDECAR_LEASE_DURATION names no option, "
                                                    "and is ignored\n"), done)

    # A variable that is no option is told also where the start fails of it.
    for command in (["run"], ["config", "validate"]):
        done = subprocess.run([BINARY, *command], capture_output=True, text=True, timeout=20, check=False,
                              env={"PATH": "/bin", "KINESIS_SIDECAR_STREM": "demo"})
        check_equal(done.returncode, 2, done)
        check("KINESIS_SIDECAR_STREM names no option" in done.stderr and "missing --stream" in done.stderr, done)
    # A region that nobody can give is found before the start.
    for metadata, status, said in (("true", 2, "no region: set AWS_REGION"), ("false", 0, "no region is set: a start asks")):
        done = subprocess.run([BINARY, "config", "validate", "--stream", "demo", "--application", "demo"],
                              capture_output=True, text=True, timeout=20, check=False,
                              env={"PATH": "/bin", "HOME": folder, "AWS_EC2_METADATA_DISABLED": metadata})
        check_equal(done.returncode, status, done)
        check(said in done.stderr, done)

    # A flag comes before the environment, the environment before the file; each value remembers where it is from.
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump({"lease_duration_ms": 3000, "checkpoint_interval_ms": 700, "log_level": "warn"}, file)
    sidecar = Sidecar.local(folder, config=f"{folder}/config.json", lease_duration_ms=2000, checkpoint_interval_ms=None)
    sidecar.env.update(KINESIS_SIDECAR_LEASE_DURATION_MS="4000", KINESIS_SIDECAR_LOG_LEVEL="info",
                       KINESIS_SIDECAR_SERVICE_HOST="10.0.0.1")
    sidecar.start()
    config = json.dumps(sidecar.get("/v1/config"))
    for name, value, source in (("lease_duration_ms", "2000", "flag"), ("log_level", "info", "environment"),
                                ("checkpoint_interval_ms", "700", "file"), ("max_leases", "0", "default")):
        check(re.search(rf'"{name}"[^}}]*{value}[^}}]*"{source}"', config), name, config)
    sidecar.stop()


@test(seconds=30)
def config_file_of_another_version_is_refused_with_the_option_and_what_is_allowed(folder):
    # Keys that look like older or newer ones, and values of other forms than this version takes.
    cases = [
        ({"lease_duration": 5000}, 'unknown option "lease_duration" in the config file; the nearest is "lease_duration_ms"'),
        ({"lease-duration-ms": 5000}, 'unknown option "lease-duration-ms" in the config file; the nearest is "lease_duration_ms"'),
        ({"lease_duration_ms": "5s"}, '--config: "lease_duration_ms" wants a number'),
        ({"lease_duration_ms": 900}, '--lease-duration-ms (file): "900" is not a number from 1000 to 600000'),
        ({"lease_stealing": True}, '--config: "lease_stealing" wants a text in quotation marks'),
        ({"retrieval": "enhanced"}, '--retrieval (file): "enhanced" is not one of polling | fanout'),
        ({"dead_letters": "file:x"}, "--dead-letters: wants table, s3://BUCKET/PREFIX, sqlite:PATH, sqs:QUEUE_URL, sns:TOPIC_ARN "
                                     "or kinesis:STREAM"),
        ({"subscriptions": [{"stream": "s", "application": "a", "checkpoint_interval": 5}]},
         'subscription 1: unknown option "checkpoint_interval" in the config file; the nearest is "checkpoint_interval_ms"'),
        ({"subscriptions": [{"stream": "s", "application": "a", "listen": "127.0.0.1:9"}]},
         'subscription 1: --config: "listen" is an option of the process, not of a subscription'),
    ]
    path = os.path.join(folder, "config.json")
    for content, said in cases:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)
        done = subprocess.run([BINARY, "config", "validate", "--stream", "demo", "--application", "demo", "--config", path],
                              env=dict(os.environ, AWS_REGION="us-east-1"), capture_output=True, text=True,
                              timeout=20 * PATIENCE, check=False)
        check_equal((done.returncode, done.stderr), (2, f"kinesis-sidecar: {said}\n"), content)


@test(seconds=40)
def openssl_without_digests_is_refused_in_a_sentence(folder):
    conf, log = os.path.join(folder, "openssl.cnf"), os.path.join(folder, "refused.log")
    with open(conf, "w", encoding="utf-8") as file:
        file.write("openssl_conf = init\n[init]\nproviders = some\n[some]\nbase = base\n[base]\nactivate = 1\n")
    process = spawn(["env", f"OPENSSL_CONF={conf}", BINARY, "run", *Sidecar.local(folder).args], log)
    check_equal(process.wait(10 * PATIENCE), 1, "status")
    with open(log, encoding="utf-8", errors="replace") as file:
        said = file.read()
    check("OpenSSL offers no SHA-256 or no MD5" in said, said)


def as_nobody(args):
    """As root, file modes stop nobody: then the binary runs as a user for whom they count."""
    if os.getuid() != 0:
        return args
    return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *args]


@test(seconds=40)
def bad_files_are_refused_in_a_sentence(folder):
    def refused(what, *words, args=None, status=1):
        log = os.path.join(folder, "refused.log")
        if os.path.exists(log):
            os.remove(log)
        process = spawn(args, log)
        check_equal(process.wait(10 * PATIENCE), status, what)
        with open(log, encoding="utf-8", errors="replace") as file:
            said = file.read()
        for word in words:
            check(word in said, what, f"does not say {word}:", said)
        return said

    def args(**options):
        return [BINARY, "run", *Sidecar.local(folder, **options).args]

    # Not a database; and it stays as it is.
    garbage = b"this is no database at all\n" * 100
    for option, name in (("leases", "leases.db"), ("source", "stream.db")):
        path = os.path.join(folder, "bad-" + name)
        with open(path, "wb") as file:
            file.write(garbage)
        kind = "sqlite:" if option == "leases" else "local:"
        refused(f"garbage as {option}", path, args=args(**{option: kind + path}))
        with open(path, "rb") as file:
            check_equal(file.read(), garbage, f"{path} was changed")

    # A database of ours, with a hole in it.
    sidecar = Sidecar.local(folder).start()
    sidecar.put(numbered(5))
    pull_all(sidecar, 5)
    sidecar.stop()
    good = os.path.join(folder, "leases.db")
    broken = os.path.join(folder, "broken.db")
    with open(good, "rb") as file:
        content = bytearray(file.read())
    for at in range(4096, len(content)):
        content[at] = 0xA5
    with open(broken, "wb") as file:
        file.write(content)
    check(len(content) > 4096, "the lease table is longer than a page")
    refused("a corrupted lease table", broken, args=args(leases="sqlite:" + broken))
    # The stream is no lease table, and the lease table no stream.
    other = os.path.join(folder, "other.db")
    refused("a stream as lease table", "stream.db",
            args=args(source=f"local:{other}", leases=f"sqlite:{folder}/stream.db"))
    refused("a lease table as stream", "leases.db", args=args(source=f"local:{good}", leases=f"sqlite:{other}"))

    # A directory that is not there, and one that may not be written.
    refused("no directory", "/no/such/directory", args=args(leases="sqlite:/no/such/directory/leases.db"))
    closed = os.path.join(folder, "closed")
    os.mkdir(closed)
    os.chmod(closed, 0o555)
    os.chmod(folder, 0o755)
    binary = BINARY
    if os.getuid() == 0:
        # Where it was built may be closed to others.
        binary = os.path.join(folder, "kinesis-sidecar")
        shutil.copy(BINARY, binary)
    options = Sidecar.local(folder, source=f"local:{closed}/stream.db", leases=f"sqlite:{closed}/leases.db").args
    refused("a read-only directory", closed, "writable", args=as_nobody([binary, "run", *options]))
    secret = os.path.join(folder, "secret")
    with open(secret, "w", encoding="utf-8") as file:
        file.write("token")
    os.chmod(secret, 0)
    denied = "Permission denied\n"
    said = refused("files that may not be used", f"--source: {closed}: {denied}", f"--leases: {closed}: {denied}",
                   f"--state-dir: {closed}: {denied}", f"--token-file {secret}: {denied}",
                   args=as_nobody([binary, "config", "validate", *options, "--state-dir", closed, "--token-file", secret]),
                   status=2)
    check_equal(said.count("\n"), 4, said)
    check_equal(os.listdir(closed), [], "nothing was made in it")


@test(seconds=40)
def a_full_disk_is_an_error_and_no_partial_checkpoint(folder):
    sidecar = Sidecar.local(folder).start()
    sidecar.put(numbered(10))
    records = pull_all(sidecar, 10, ack=False)
    # From now on no file may grow beyond what the lease table has: what a full disk does, without one.
    size = max(os.path.getsize(path) for path in glob.glob(os.path.join(folder, "*.db*")))
    subprocess.run(["prlimit", "--pid", str(sidecar.process.pid), f"--fsize={size}:"], check=True)
    big = [("k", b"x" * 900_000)]
    answer = sidecar.call("POST", "/v1/local/records", {"Records": [
        {"PartitionKey": key, "Data": base64.b64encode(data).decode()} for key, data in big]})
    check(answer.status >= 500 or answer.json.get("FailedRecordCount") == 1, "a put that found no room:", answer)
    check_equal(sidecar.get("/v1/status")["worker_id"], "sidecar", "the API answers")
    ids = [{"ack_id": record["ack_id"], "outcome": "ack"} for record in records]
    subprocess.run(["prlimit", "--pid", str(sidecar.process.pid), "--fsize=unlimited:"], check=True)
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": ids, "wait": "persisted"})
    check_equal((answer.status, answer.json["ok"], answer.json["persisted"]), (200, 10, True), answer)
    sidecar.put(numbered(1, 50))
    check_equal([data_of(record) for record in pull_all(sidecar, 1)], [b"record-0050"], "it goes on")
    sidecar.stop()


# --- A store that is away ---

@test(seconds=60)
def a_store_that_is_away_is_waited_for(folder):
    found = glob.glob(os.path.join(ROOT, "tests", "node_modules", "@dynoxide", "*", "dynoxide"))
    check(found, "dynoxide is not there: make deps")
    port = free_port()

    def start_store():
        return spawn([found[0], "serve", "--host", "127.0.0.1", "--port", str(port), "--db-path",
                      os.path.join(folder, "dynamodb.db")], os.path.join(folder, "dynoxide.log"))
    sidecar = Sidecar.local(folder, leases="dynamodb", application="away-app")
    sidecar.env.update(AWS_ENDPOINT_URL_DYNAMODB=f"http://127.0.0.1:{port}", AWS_REGION="us-east-1",
                       AWS_ACCESS_KEY_ID="AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY="for-emulators-only",
                       AWS_CONFIG_FILE="/dev/null", AWS_SHARED_CREDENTIALS_FILE="/dev/null")
    sidecar.start(ready=False)

    # Nobody listens: not ready, and it says why; but it lives, and answers.
    answer = wait_until(lambda: reason(sidecar), 10, "readyz says why")
    check("dynamodb" in answer.lower() or "lease table" in answer.lower() or str(port) in answer, answer)
    check_equal(sidecar.ops("/startupz").status, 503, "startupz")
    check_equal(sidecar.ops("/livez").status, 200, "livez")
    status = sidecar.get("/v1/status")
    check_equal((status["ready"], status["state"]), (False, "starting"), status)
    check(status["reasons"], status)
    sidecar.put(numbered(10))
    batch = sidecar.get("/v1/records?wait_ms=300")
    check_equal((batch["records"], batch["idle_reason"]), ([], "no_leases"), batch)

    store = start_store()
    sidecar.wait_ready(20)
    check_equal(sidecar.ops("/startupz").status, 200, "startupz")
    records = pull_all(sidecar, 10, ack=False)

    # It goes away again, for longer than a lease: deliveries rest, nothing else does.
    store.kill()
    store.wait()
    answer = wait_until(lambda: reason(sidecar), 10, "readyz says why")
    check_equal(sidecar.ops("/startupz").status, 200, "startupz, once it was ready")
    time.sleep(2.5)
    sidecar.put(numbered(5, 10))
    ids = [{"ack_id": record["ack_id"], "outcome": "ack"} for record in records]
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": ids, "wait": "persisted", "wait_ms": 300})
    check_equal((answer.status, answer.json["ok"], answer.json["persisted"]), (200, 10, False), answer)
    check_equal(sidecar.get("/v1/records?wait_ms=300")["records"], [], "delivered past the lease deadline")

    # And comes back with its rows: the same epoch goes on, and the acks become durable.
    start_store()
    wait_until(lambda: sidecar.ops("/readyz").status == 200, 20, "ready again")
    check_equal(sorted(data_of(record) for record in pull_all(sidecar, 5)),
                sorted(data for _, data in numbered(5, 10)), "only what is new")
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": ids, "wait": "persisted"})
    check_equal((answer.json["ok"], answer.json["persisted"]), (10, True), answer)
    check_equal({lease["epoch"] for lease in sidecar.get("/v1/leases")["leases"]}, {1}, "epochs")
    sidecar.stop()


def reason(sidecar):
    """What /readyz says while it is not ready, None when it is, or while nobody listens yet."""
    try:
        answer = sidecar.ops("/readyz?verbose=1")
    except OSError:
        return None
    return answer.body.decode() if answer.status == 503 else None


if __name__ == "__main__":
    main()
