# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: running tests, the real binary as a process, its API, the real emulators.

A test program is a file of functions marked with @test and `main()` at its end. Each test has its own folder and its own
limit of time; what it started is killed when it ends. The last line is `N passed, M failed`.
"""

import base64
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BINARY = os.environ.get("KS_BIN") or os.path.join(ROOT, "build", "kinesis-sidecar")
# A sanitized binary is slower.
SLOW = 3 if os.environ.get("KS_SANITIZED") else 1
# Limits are for what hangs, not for what is slow: two of these programs may share two cores with others.
PATIENCE = 3 * SLOW
sys.path.insert(0, os.path.join(ROOT, "tests", "lib"))
import kinesis_client  # noqa: E402 - it is found there


# --- Tests ---

TESTS = []


class Failure(Exception):
    """What a test found wrong."""


class OutOfTime(BaseException):
    """Not an Exception: nobody on the way may take it for his own."""


def test(seconds=30):
    """Marks a test: a function of a folder of its own. `seconds` is the longest that it may take, with PATIENCE."""
    def mark(function):
        TESTS.append((function, seconds * PATIENCE))
        return function
    return mark


def check(fact, *said):
    if not fact:
        raise Failure(" ".join(str(word) for word in said) or "a check failed")


def check_equal(found, expected, *said):
    check(found == expected, *said, f"\n  found    {found!r}\n  expected {expected!r}")


def out_of_time(*_):
    raise OutOfTime()


def run_one(function, seconds):
    global WATCH
    folder = tempfile.mkdtemp(prefix="ks-e2e-")
    watched = tempfile.mkdtemp(prefix="ks-e2e-")
    WATCH = Watch(watched)
    WATCH.start()
    started = time.monotonic()
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(seconds)
    problem = None
    try:
        function(folder)
    except OutOfTime:
        problem = f"not done after {seconds} s\n" + traceback.format_exc(limit=-6)
    except Failure as err:
        lines = [str(frame.lineno) for frame in traceback.extract_tb(err.__traceback__) if frame.filename != __file__]
        problem = f"line {', '.join(lines)}: {err}"
    except Exception:
        problem = traceback.format_exc()
    finally:
        signal.alarm(0)
        WATCH.over.set()
        kill_all()
    problem = look_through_logs(folder, problem)
    for place in folder, watched:
        shutil.rmtree(place, ignore_errors=True)
    word = "ok    " if problem is None else "FAILED"
    print(f"{word} {function.__name__} ({time.monotonic() - started:.1f} s)", flush=True)
    if problem is not None:
        print(problem, flush=True)
    return problem is None


def look_through_logs(folder, problem):
    """Finds what no log may hold, and puts the ends of the logs behind a problem."""
    logs = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".log"):
            with open(os.path.join(folder, name), "rb") as log:
                logs[name] = log.read().decode(errors="replace")
    for name, said in logs.items():
        for word in ("Sanitizer", "runtime error:", "Assertion"):
            if problem is None and word in said:
                problem = f"{name} holds {word}"
    if problem is not None:
        for name, said in logs.items():
            problem += f"\n--- {name}\n{said[-6000:]}"
    return problem


def main():
    """Runs the tests, or those whose names are on the command line."""
    wanted = sys.argv[1:]
    results = [run_one(function, seconds) for function, seconds in TESTS if not wanted or function.__name__ in wanted]
    failed = results.count(False)
    print(f"{len(results) - failed} passed, {failed} failed")
    sys.exit(1 if failed or not results else 0)


def need_emulators(*names):
    """Starts this program again beside fresh emulators, unless they are there."""
    there = {"dynoxide": "KS_DYNAMODB_URL", "kinesis-local": "KS_KINESIS_URL", "kinesalite": "KS_KINESALITE_URL",
             "moto": "KS_MOTO_URL", "double": "KS_DOUBLE_URL"}
    if all(os.environ.get(there[name]) for name in names):
        return
    starter = os.path.join(ROOT, "tests", "emulators", "with")
    os.execv(starter, [starter, *names, "--", sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]])


def wait_until(fact, seconds, what, every=0.05):
    """Waits until fact() is true, and returns what it is; fails after `seconds`, with PATIENCE."""
    until = time.monotonic() + seconds * PATIENCE
    while True:
        value = fact()
        if value:
            return value
        check(time.monotonic() < until, f"not within {seconds * PATIENCE} s: {what}")
        time.sleep(every)


# --- The machine ---

class Watch(threading.Thread):
    """How late the machine is: the longest that a moment's sleep and a write that is on the disk took during a test."""
    MOMENT, STEPS = 0.05, 5

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.path, self.latest, self.over = os.path.join(folder, "watch"), 0.0, threading.Event()

    def run(self):
        while not self.over.is_set():
            begun = time.monotonic()
            with contextlib.suppress(OSError), open(self.path, "wb") as file:
                file.write(b".")
                os.fsync(file.fileno())
            time.sleep(self.MOMENT)
            self.latest = max(self.latest, time.monotonic() - begun - self.MOMENT)
            time.sleep(4 * self.MOMENT)


WATCH = None


def crowd():
    """Where a promise is in seconds: what this machine may add to it, by how late it was itself. What is promised takes
    several steps of several processes, and each of them may have had to wait as long; and a quarter of a second of work
    takes as many times longer as there are more who want a core."""
    return 1.0 + Watch.STEPS * WATCH.latest + max(0.0, os.getloadavg()[0] / os.cpu_count() - 1) / 4


# --- Processes ---

PROCESSES = []


def spawn(args, log=None, **more):
    """Starts a process that does not outlive this one. Its output goes to the file `log`, if there is one."""
    args = ["setpriv", "--pdeathsig", "KILL", *args]
    if log is not None:
        with open(log, "ab") as file:
            process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=file, stderr=file, **more)
    else:
        process = subprocess.Popen(args, stdin=subprocess.DEVNULL, **more)
    PROCESSES.append(process)
    return process


def kill_all():
    for process in PROCESSES:
        if process.poll() is None:
            process.kill()
            process.wait()
    PROCESSES.clear()


OWNED_PORTS = []


def own_port(port):
    """False when a test that runs beside this one was given it. It is this one's to the end: also while a sidecar that
    was killed does not listen there, until it is started again."""
    owner = socket.socket(socket.AF_UNIX)
    try:
        owner.bind(f"\0kinesis-sidecar-test-port-{port}")
    except OSError:
        owner.close()
        return False
    OWNED_PORTS.append(owner)
    return True


def free_port():
    """A port that nobody listens on, and that no test was given before."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        # Below what the system gives to clients, a port cannot be taken by a connection in between.
        port = 10000 + port % 20000
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if own_port(port):
            return port


class Answer:
    """Status, headers and body of an HTTP answer; `json` is the body read as such."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:600]!r}>"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def call(address, method, path, body=None, headers=None, timeout=30):
    """One request to (host, port) or to the path of a Unix socket. A body that is not bytes is sent as JSON."""
    headers = dict(headers or {})
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        headers.setdefault("Content-Type", "application/json")
    timeout *= PATIENCE
    if isinstance(address, str):
        connection = UnixConnection(address, timeout)
    else:
        connection = http.client.HTTPConnection(*address, timeout=timeout)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())


class Sidecar:
    """The real binary, on free ports. `options` are flags without the leading dashes: lease_duration_ms=2000."""

    def __init__(self, folder, name="sidecar", env=None, **options):
        self.port, self.ops_port = free_port(), free_port()
        self.log = os.path.join(folder, name + ".log")
        self.env = dict(os.environ, **(env or {}))
        self.options = {"stream": "demo", "application": "demo", "worker_id": name,
                        "listen": f"127.0.0.1:{self.port}", "ops_listen": f"127.0.0.1:{self.ops_port}"}
        self.options.update(options)
        self.wrapper = []  # A program that starts it, and its words.
        self.binary = None  # Its program; None: BINARY.
        self.process = None

    @staticmethod
    def local(folder, name="sidecar", **options):
        """On a local stream and SQLite in `folder`, with a short lease."""
        settings = {"source": "local:" + os.path.join(folder, "stream.db"),
                    "leases": "sqlite:" + os.path.join(folder, "leases.db"),
                    "initial_position": "trim_horizon", "lease_duration_ms": 2000, "checkpoint_interval_ms": 500}
        settings.update(options)
        return Sidecar(folder, name, **settings)

    @staticmethod
    def on_emulators(folder, name="sidecar", **options):
        settings = {"initial_position": "trim_horizon", "lease_duration_ms": 2000, "checkpoint_interval_ms": 500}
        settings.update(options)
        env = {"AWS_ENDPOINT_URL_DYNAMODB": os.environ.get("KS_DYNAMODB_URL", ""),
               "AWS_ENDPOINT_URL_KINESIS": os.environ.get("KS_KINESIS_URL", "")}
        return Sidecar(folder, name, env=env, **settings)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def args(self):
        args = []
        for name, value in self.options.items():
            if value is not None:
                args += ["--" + name.replace("_", "-"), str(value)]
        return args

    def start(self, ready=True):
        self.process = spawn([*self.wrapper, self.binary or BINARY, "run", *self.args], self.log, env=self.env)
        if ready:
            self.wait_ready()
        return self

    def wait_ready(self, seconds=15):
        wait_until(self.is_ready, seconds, "the sidecar is ready")

    def is_ready(self):
        check(self.process.poll() is None, f"the sidecar ended with {self.process.poll()}:\n{self.said()[-3000:]}")
        try:
            return self.ops("/readyz").status == 200
        except OSError:
            return False

    def call(self, method, path, body=None, headers=None, timeout=30):
        return call(("127.0.0.1", self.port), method, path, body, headers, timeout)

    def get(self, path, timeout=30):
        answer = self.call("GET", path, timeout=timeout)
        check(answer.status == 200, f"GET {path}:", answer)
        return answer.json

    def ops(self, path):
        return call(("127.0.0.1", self.ops_port), "GET", path)

    def metric(self, name):
        for line in self.ops("/metrics").body.decode().split("\n"):
            if line.split("{")[0].split(" ")[0] == "kinesis_sidecar_" + name:
                return float(line.rsplit(" ", 1)[1])
        raise Failure(f"there is no metric {name}")

    def rss(self):
        """Its resident memory, bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

    def put(self, records):
        """Puts (key, bytes) pairs into the local stream; returns [(shard id, sequence number)]."""
        placed = []
        for at in range(0, len(records), 500):
            entries = [{"PartitionKey": key, "Data": base64.b64encode(data).decode()}
                       for key, data in records[at:at + 500]]
            answer = self.call("POST", "/v1/local/records", {"Records": entries})
            check(answer.status == 200, "put:", answer)
            check_equal(answer.json["FailedRecordCount"], 0, "put")
            placed += [(record["ShardId"], record["SequenceNumber"]) for record in answer.json["Records"]]
        return placed

    def command(self, *args, stdin=None, seconds=30):
        """A subcommand of the binary, told where this sidecar is."""
        where = ["--listen", self.options["listen"], "--ops-listen", self.options["ops_listen"]]
        return subprocess.run([self.binary or BINARY, *args, *where], input=stdin, capture_output=True, timeout=seconds * PATIENCE,
                              env=self.env, check=False)

    def said(self):
        with open(self.log, "rb") as log:
            return log.read().decode(errors="replace")

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def wait(self, seconds=40):
        """Waits for its end and returns its status."""
        try:
            return self.process.wait(seconds * PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure(f"the sidecar has not ended after {seconds * PATIENCE} s") from None

    def stop(self, seconds=40):
        self.signal(signal.SIGTERM)
        check_equal(self.wait(seconds), 0, "status after SIGTERM")


class Double:
    """Our own Kinesis: see tests/doubles/kinesis.c. With its defaults it knows the credentials of the emulators."""

    PROGRAM = os.path.join(os.environ.get("KS_BUILD") or os.path.join(ROOT, "build"), "doubles", "kinesis")

    def __init__(self, folder, name="double", tls=False, signed=True):
        ports = os.path.join(folder, name + ".ports")
        env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        env.update(KS_PORTS=ports, AWS_REGION=kinesis_client.REGION)
        if signed:
            env.update(AWS_ACCESS_KEY_ID=kinesis_client.ACCESS_KEY, AWS_SECRET_ACCESS_KEY=kinesis_client.SECRET_KEY)
        args = []
        if tls:
            subprocess.run([os.path.join(ROOT, "tests", "doubles", "make_ca"), folder], check=True)
            args = ["0", os.path.join(folder, "server.pem"), os.path.join(folder, "server.key")]
        self.process = spawn([self.PROGRAM, "0", *args], os.path.join(folder, name + ".log"), env=env)
        wait_until(lambda: len(read_lines(ports)) == 1 + tls, 10, "the double listens")
        self.ca = os.path.join(folder, "ca.pem")
        self.url, *tls_url = [f"http{'s' * at}://127.0.0.1:{port}" for at, port in enumerate(read_lines(ports))]
        self.tls_url = tls_url[0] if tls else None

    def client(self, **more):
        return kinesis_client.Kinesis(self.url, **more)

    def tls_client(self, **more):
        return kinesis_client.Kinesis(self.tls_url, ca=self.ca, **more)

    def control(self, **members):
        return self.client().control(**members)


class FaultProxy:
    """A network between somebody and a real server, that fails on command: see tests/doubles/fault_proxy.c."""

    PROGRAM = os.path.join(os.environ.get("KS_BUILD") or os.path.join(ROOT, "build"), "doubles", "fault_proxy")

    def __init__(self, folder, target, name="proxy"):
        """`target` is http://HOST:PORT or a port of this machine; `url` or `port` is where clients go instead."""
        target_port = target if isinstance(target, int) else int(target.rsplit(":", 1)[1])
        self.port, self.control_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = spawn([self.PROGRAM, str(self.port), str(target_port), str(self.control_port)],
                             os.path.join(folder, name + ".log"))
        wait_until(self.answers, 5, "the fault proxy listens")

    def answers(self):
        check(self.process.poll() is None, "the fault proxy ended")
        try:
            return self.say("status")
        except ConnectionRefusedError:
            return None

    def say(self, line):
        """Gives a command and returns its answer; when that is there, the command has happened."""
        with socket.create_connection(("127.0.0.1", self.control_port), timeout=5 * PATIENCE) as control:
            control.sendall(line.encode() + b"\n")
            with control.makefile("r") as answers:
                return answers.readline().rstrip("\n")

    def do(self, line):
        check_equal(self.say(line), "ok", line)


def read_lines(path):
    """The whole lines of a file that somebody may be writing to."""
    if not os.path.exists(path):
        return []
    with open(path, "rb") as file:
        return file.read().decode(errors="replace").split("\n")[:-1]


# --- Records ---

def numbered(count, start=0, prefix="record"):
    return [(f"key-{number}", f"{prefix}-{number:04d}".encode()) for number in range(start, start + count)]


def data_of(record):
    return base64.b64decode(record["data"])


def pull_all(sidecar, count, seconds=20, ack=True):
    """Pulls until `count` records came; acknowledges each batch, durably."""
    records = []

    def pull():
        batch = sidecar.get("/v1/records?max_records=1000&wait_ms=1000")
        records.extend(batch["records"])
        if batch["records"] and ack:
            answer = sidecar.call("POST", f"/v1/records/ack?batch_id={batch['batch_id']}&wait=persisted")
            check_equal((answer.json["ok"], answer.json["failed"], answer.json["persisted"]),
                        (len(batch["records"]), [], True), "ack")
        return len(records) >= count
    wait_until(pull, seconds, f"{count} records come")
    return records


def settle(sidecar, count):
    """The next records, so many and no more, acknowledged and in the table when this returns: their data, as text."""
    got = []
    while len(got) < count:
        batch = sidecar.get(f"/v1/records?max_records={count - len(got)}&wait_ms=1000")
        if not batch["records"]:
            continue
        answer = sidecar.call("POST", f"/v1/records/ack?batch_id={batch['batch_id']}&wait=persisted")
        check_equal((answer.status, answer.json["persisted"]), (200, True), answer)
        got += [data_of(record).decode() for record in batch["records"]]
    return got


def check_shard_order(records):
    last = {}
    for record in records:
        check(int(record["sequence_number"]) > last.get(record["shard_id"], 0), "out of order:", record)
        last[record["shard_id"]] = int(record["sequence_number"])


class RawStream:
    """The record stream over a plain socket: lines as they come, read by the test itself."""

    def __init__(self, sidecar, query, address=None, path="/v1/records/stream"):
        self.socket = socket.create_connection(address or ("127.0.0.1", sidecar.port), timeout=20 * PATIENCE)
        self.socket.sendall(f"GET {path}?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        for line in iter(self.file.readline, b"\r\n"):
            name, value = line.decode().strip().split(": ", 1)
            self.headers[name.lower()] = value
        self.rest = b""

    def line(self):
        """The next line, or None at the end of the stream."""
        while b"\n" not in self.rest:
            size = int(self.file.readline().strip() or b"0", 16)
            if size == 0:
                return None
            self.rest += self.file.read(size)
            self.file.readline()
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def until(self, kind):
        """Lines up to and with the first of a kind."""
        lines = []
        while True:
            line = self.line()
            check(line is not None, f"the stream ended before a line of type {kind}: {lines}")
            lines.append(line)
            if line["type"] == kind:
                return lines

    def records(self, count):
        records = []
        while len(records) < count:
            records.append(self.until("record")[-1])
        return records

    def close(self):
        self.file.close()
        self.socket.close()


# --- The emulators ---

def aws(url, target, body, version):
    """A signed request: no emulator checks it, the double does."""
    host, port = url[len("http://"):].split(":")
    body = json.dumps(body).encode()
    headers = kinesis_client.sign({"Host": f"{host}:{port}", "X-Amz-Target": target,
                                   "Content-Type": "application/x-amz-json-" + version}, body, kinesis_client.ACCESS_KEY,
                                  kinesis_client.SECRET_KEY, service=target.split("_", maxsplit=1)[0].lower())
    return call((host, int(port)), "POST", "/", body, headers, timeout=60)


def kinesis(operation, **body):
    answer = aws(os.environ["KS_KINESIS_URL"], "Kinesis_20131202." + operation, body, "1.1")
    check(answer.status == 200, f"{operation}:", answer)
    return answer.json if answer.body else {}


def dynamodb(operation, **body):
    answer = aws(os.environ["KS_DYNAMODB_URL"], "DynamoDB_20120810." + operation, body, "1.0")
    check(answer.status == 200, f"{operation}:", answer)
    return answer.json


def make_stream(name, shards):
    kinesis("CreateStream", StreamName=name, ShardCount=shards)
    wait_until(lambda: kinesis("DescribeStreamSummary", StreamName=name)["StreamDescriptionSummary"]["StreamStatus"] ==
               "ACTIVE", 20, f"{name} is active")


def shards_of(stream):
    return kinesis("ListShards", StreamName=stream)["Shards"]


def shard_ids(stream):
    return sorted(shard["ShardId"] for shard in shards_of(stream))


def records_of(stream, shard):
    """All that stands in a shard, as GetRecords says it."""
    at = kinesis("GetShardIterator", StreamName=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
    return kinesis("GetRecords", ShardIterator=at["ShardIterator"])["Records"]


def put_kinesis(stream, records):
    """Puts (key, bytes) pairs; returns [(shard id, sequence number)] in the same order."""
    placed = []
    for at in range(0, len(records), 500):
        entries = [{"PartitionKey": key, "Data": base64.b64encode(data).decode()} for key, data in records[at:at + 500]]
        answer = kinesis("PutRecords", StreamName=stream, Records=entries)
        check_equal(answer["FailedRecordCount"], 0, "PutRecords")
        placed += [(record["ShardId"], record["SequenceNumber"]) for record in answer["Records"]]
    return placed


def lease_rows(table):
    """The lease rows of a DynamoDB table: shard id -> {"owner", "epoch", "checkpoint", ..}, read consistently."""
    answer = dynamodb("Query", TableName=table, ConsistentRead=True, KeyConditionExpression="p = :p",
                      ExpressionAttributeValues={":p": {"S": "s"}})
    return {item["k"]["S"]: {name: next(iter(value.values())) for name, value in item.items()}
            for item in answer["Items"]}
