#!/usr/bin/env python3
"""make_corpus.py - writes the first inputs of some fuzz programs into tests/fuzz/corpus/, with nothing of ours.

base64, hex and instants come from Python's own modules, heads of answers as email.utils writes dates, lease rows are
those of tests/vectors/rows/native/rows.json in pages as DynamoDB answers them, files of SQLite are made by SQLite's
own module from the statements that docs and code have. Run it in the root of the project; it writes the same each time.
SPDX-License-Identifier: Apache-2.0
"""

import base64
import datetime
import email.utils
import hashlib
import json
import os
import re
import sqlite3
import tempfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
SECONDS = 1795219200  # 2026-11-21T00:00:00Z


def write(program, name, content):
    os.makedirs(os.path.join(HERE, program), exist_ok=True)
    with open(os.path.join(HERE, program, name), "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def codec():
    data = bytes(range(256))
    write("codec", "base64", base64.b64encode(data))
    write("codec", "base64_of_one", base64.b64encode(b"a"))
    write("codec", "base64url", base64.urlsafe_b64encode(data[:-2]).rstrip(b"="))
    write("codec", "hex", data.hex())
    instant = datetime.datetime.fromtimestamp(SECONDS, datetime.timezone.utc)
    write("codec", "instant", instant.isoformat(timespec="milliseconds"))
    write("codec", "instant_of_east", instant.astimezone(datetime.timezone(datetime.timedelta(hours=13, minutes=45))).isoformat())
    write("codec", "hash_key", str(2 ** 128 - 1))
    # Kinesis' own layout, as adapters/local/sequence.h has it.
    write("codec", "sequence", str(int("2" + f"{SECONDS:09x}" + "3" + f"{77:016x}" + "00" + f"{SECONDS + 5:09x}" + f"{3:08x}" + "2", 16)))


def response_head():
    date = email.utils.formatdate(SECONDS, usegmt=True)
    write("response_head", "success", f"Content-Type: application/x-amz-json-1.1\r\nDate: {date}\r\n"
          "x-amzn-RequestId: d6f2b8a2-9f1d-4c3e-8a55-0b8e1d2c3f4a\r\n\r\n")
    write("response_head", "throttle", f"Date:{date}\nRetry-After: 120\nx-amzn-ErrorType: ThrottlingException:http://amazon\n")
    write("response_head", "cached", f"date: {date}\r\nAge: 7\r\nx-amz-retry-after: 1500\r\n\r\n")


def lease_rows():
    with open(os.path.join(HERE, "../../vectors/rows/native/rows.json"), encoding="utf-8") as file:
        items = [case["item"] for case in json.load(file)]
    write("lease_rows", "all", json.dumps({"Count": len(items), "Items": items}))
    for at, item in enumerate(items):
        write("lease_rows", f"row_{at}", json.dumps({"Items": [item]}, separators=(",", ":")))
    key = {"p": {"S": "w"}, "k": {"S": "pod-a"}}
    write("lease_rows", "left_out", json.dumps({"Responses": {"app": []}, "UnprocessedKeys": {"app": {"Keys": [key]}}}))


def letter_items():
    def item(shard, k, **others):
        key = {"p": {"S": f"letters#{shard}"}, "k": {"S": k}}
        return key | {name: {kind: str(value) if kind == "N" else value} for name, (kind, value) in others.items()}

    times = {"arrived": ("N", SECONDS * 1000), "first_died": ("N", SECONDS * 1000 + 1), "died": ("N", SECONDS * 1000 + 2),
             "expires": ("N", SECONDS + 86400)}
    pointer = dict(times, stream=("S", "demo"), key=("S", "k"), attempts=("N", 3), cause=("S", "attempts"), reason=("S", "why"))
    kept = dict(pointer, data=("B", "aGVsbG8="), reason=("B", "/w=="), key=("B", "/w=="))
    damaged = dict(pointer, data=("S", "aGk="), died=("N", 2 ** 70), reason=("S", "w" * 2000))
    sub = dict(pointer, sub=("N", 4))
    shard = "shardId-000000000000"
    for name, items in (("pointers", [item(shard, "40", **pointer), item(shard, "41.4", **sub)]), ("kept", [item(shard, "42", **kept)]),
                        ("damaged", [item(shard, "043", **damaged), item("", "", **pointer), {"p": {"S": "letters"}}]),
                        ("directory", [{"p": {"S": "letters"}, "k": {"S": shard}, "expires": {"N": str(SECONDS)}}])):
        write("letter_items", name, json.dumps({"Items": items}))
    write("letter_items", "several", " " + json.dumps({"Items": [item(f"demo/{shard}", "40", **pointer)]}))


def rpc_head():
    """The first byte: 1 = GET, 2 = HTTP/2, then the kind of the method in fours."""
    write("rpc_head", "connect", b"\x00application/json\nconnect-protocol-version: 1\nconnect-timeout-ms: 5000\naccept-encoding: gzip")
    write("rpc_head", "stream", b"\x04application/connect+proto; x=y\nconnect-content-encoding: gzip\n")
    write("rpc_head", "grpc", b"\x0aapplication/grpc+proto\ngrpc-timeout: 99999999u\ngrpc-accept-encoding: br, gzip;q=0")
    message = base64.urlsafe_b64encode(b"\x0a\x03abc").decode().rstrip("=")
    write("rpc_head", "get", f"\x01\n/a.B/C?encoding=proto&connect=v1&base64=1&message={message}")


def sqlite_file(program, name, statements):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("PRAGMA page_size = 512")  # The smaller the file, the more of it is a row.
        for statement, values in statements:
            db.execute(statement, values)
        db.close()
        with open(path, "rb") as file:
            write(program, name, file.read())


def code(path):
    with open(os.path.join(HERE, "../../..", path), encoding="utf-8") as file:
        return file.read()


def lease_file():
    """The columns are those of native_words.h, the rows those of the vectors."""
    columns = re.findall(r'X\(\w+, "(\w+)", (\w+)\)', code("server/adapters/dialects/native_words.h"))
    made = "CREATE TABLE lease_table (application TEXT NOT NULL, p TEXT NOT NULL, k TEXT NOT NULL, " + ", ".join(
        f"{name} {'INTEGER' if kind in ('NUMBER', 'BOOL') else 'TEXT'}" for name, kind in columns)
    head = code("server/adapters/sqlite/table.h")
    identity = [(f"PRAGMA application_id = {int(re.search(r'APPLICATION_ID = (0x[0-9A-F]+)', head)[1], 16)}", ()),
                (f"PRAGMA user_version = {re.search(r'SQLITE_VERSION = ([0-9]+)', head)[1]}", ())]
    rows = []
    for case in json.loads(code("tests/vectors/rows/native/rows.json")):
        cells = {name: next(iter(value.items())) for name, value in case["item"].items()
                 if name in dict(columns) or name in ("p", "k")}
        values = ["\n".join(value) if kind == "SS" else int(value) if kind == "N" and value.isdigit() else value
                  for kind, value in cells.values()]
        rows.append((f"INSERT OR REPLACE INTO lease_table (application, {', '.join(cells)}) VALUES ('app'{', ?' * len(cells)})", values))
    key = ", PRIMARY KEY (application, p, k)) WITHOUT ROWID"
    sqlite_file("lease_file", "rows", [(made + key, ())] + identity + rows)
    sqlite_file("lease_file", "rows_twice", [(made + ")", ())] + identity + rows + rows)
    sqlite_file("lease_file", "nothing", [(made + key, ())] + identity)


def local_file():
    source = code("server/adapters/local/db.c")
    schema = "".join(re.findall(r'"([^"]*)"', re.search(r"SCHEMA\[\] =(.*?;\")\;\n", source, re.DOTALL)[1]))
    made = [(statement, ()) for statement in schema.split(";") if statement.strip()]
    half = (2 ** 127).to_bytes(16, "big")
    last = (2 ** 128 - 1).to_bytes(16, "big")
    below = (2 ** 127 - 1).to_bytes(16, "big")
    identity = [(f"PRAGMA application_id = {int(re.search(r'APPLICATION_ID = (0x[0-9A-F]+)', source)[1], 16)}", ()),
                (f"PRAGMA user_version = {re.search(r'VERSION = ([0-9]+)', source)[1]}", ())]
    rows = [("INSERT INTO streams VALUES (1, 'demo', ?, 86400000, 2, 3)", (SECONDS * 1000,))]
    add = "INSERT INTO shards VALUES (?, 1, ?, ?, NULL, ?, ?, ?, ?, ?, ?)"
    rows += [(add, (1, 0, None, bytes(16), below, SECONDS, None, 3, SECONDS * 1000 + 2)),
             (add, (2, 1, None, half, last, SECONDS, SECONDS * 1000 + 9, 2, SECONDS * 1000 + 1)),
             (add, (3, 2, 1, half, last, SECONDS + 1, None, 1, 0))]
    for shard, number in ((1, 1), (1, 2), (2, 1)):
        rows.append(("INSERT INTO records VALUES (?, ?, ?, ?)",
                     (shard * 2 ** 40 + number, SECONDS * 1000 + number, f"käse-{number}".encode(), b"data")))
    for name, change in (("records", "UPDATE streams SET id = 1"), ("negative_index", "UPDATE shards SET ix = -2 WHERE id = 3"),
                         ("negative_time", "UPDATE records SET arrival_ms = -1000"),
                         ("retention", "UPDATE streams SET retention_ms = -9223372036854775808")):
        sqlite_file("local_file", name, made + identity + rows + [(change, ())])
    more = re.search(r'SLICE_SCHEMA\[\] = "([^"]*)"', source)[1]
    version = re.search(r"SLICE_VERSION = ([0-9]+)", source)[1]
    numbers = [(more, ()), (f"PRAGMA user_version = {version}", ()),
               ("UPDATE records SET sequence = 10 + id % 1099511627776", ())]
    for name, change in (("slice", "UPDATE streams SET id = 1"), ("slice_hole", "DELETE FROM records WHERE id % 1099511627776 = 1"),
                         ("slice_no_number", "UPDATE records SET sequence = 'käse'")):
        sqlite_file("local_file", name, made + identity + rows + numbers + [(change, ())])


def convert():
    """The first row of each form in tables that libraries wrote; the first byte says whose: 2 is native."""
    rows = {"2native": [row["item"] for row in json.loads(code("tests/vectors/rows/native/rows.json"))]}
    for library in ("3kcl2", "3kcl2-streams", "3kcl35", "4go-kcl", "5kinsumer", "6kcl-rb"):
        stages = json.loads(code(f"tests/vectors/dialects/{library[1:]}.json"))["stages"]
        rows[library] = [item for stage in stages for suffix in ("", "_checkpoints") for item in stage["tables"].get(suffix, [])]
    for library, items in rows.items():
        forms = {tuple(sorted(item)): item for item in reversed(items)}
        for at, form in enumerate(sorted(forms)):
            write("convert", f"{library[1:]}_{at}", library[0] + json.dumps(forms[form]))


def fleet():
    """Four stages of each library's life: the first byte says the dialect, as above; a row begins with the number of its table."""
    numbers = {"": 0, "_checkpoints": 0, "_clients": 1, "_metadata": 2, "-CoordinatorState": 1, "-WorkerMetricStats": 2}
    rows = [row["item"] for row in json.loads(code("tests/vectors/rows/native/rows.json"))]
    write("fleet", "native", "21" + "\n".join("0" + json.dumps(row, separators=(",", ":")) for row in rows))
    for library in ("3kcl2", "3kcl2-streams", "3kcl35", "3kcl35-migration", "4go-kcl", "5kinsumer", "6kcl-rb"):
        stages = json.loads(code(f"tests/vectors/dialects/{library[1:]}.json"))["stages"]
        looks = ["\n".join(f"{numbers[suffix]}{json.dumps(row, separators=(',', ':'))}"
                           for suffix, rows in stage["tables"].items() for row in rows[:3]) for stage in stages]
        for at in range(0, len(looks), 4):
            write("fleet", f"{library[1:]}_{at}", library[0].encode() + b"1" + b"\xff".join(look.encode() for look in looks[at:at + 4]))


def letters_file():
    source = code("server/adapters/sqlite/dead_letters.c")
    made = "".join(re.findall(r'"([^"]*)"', re.search(r'("CREATE TABLE IF NOT EXISTS dead_letter.*?); COMMIT"', source, re.DOTALL)[1] + '"'))
    identity = [(f"PRAGMA application_id = {re.search(r'application_id = (0x[0-9A-F]+)', source)[1]}", ()), ("PRAGMA user_version = 1", ())]
    add = "INSERT INTO dead_letter VALUES ('app'" + ", ?" * 12 + ")"
    rows = [(add, (f"shardId-000000000000.{40 + at}", "demo", "shardId-000000000000", str(40 + at), -1, b"key", b"data", b"why",
                   SECONDS * 1000, SECONDS * 1000 + at, 3, 1)) for at in range(5)]
    sqlite_file("letters_file", "rows", [(made, ())] + identity + rows)
    for name, values in (("strange_values", (7, 1.5, b"\xff", "x\0y", "z", 5, 6, None or "", "t", 2 ** 62, -1, 9)),
                         ("no_unicode", (b"\xed\xa0\x80".decode("latin-1"), "demo", "s", "1", 0, b"", b"", b"\xff", 0, 0, 0, 0)),
                         ("long_id", ("s" * 500, "demo", "s", "1", 0, b"", b"", b"", 0, 0, 0, 0)),
                         ("id_with_nul", ("a\0b", "demo", "s", "1", 0, b"", b"", b"", 0, 0, 0, 0))):
        sqlite_file("letters_file", name, [(made, ())] + identity + [(add, values)] + rows)


def aws_answers():
    """As the API references have them; the first byte says who asks, 0xFF is where an answer ends, and an error begins with '!'."""
    arn = "arn:aws:kinesis:us-east-1:123456789012:stream/demo"

    def say(who, name, *answers):
        write("aws_answers", name, bytes([who]) + b"\xff".join(
            b"!" * isinstance(answer, str) + json.dumps({"__type": answer, "message": "no"} if isinstance(answer, str) else answer).encode()
            for answer in answers))

    def table(status, *keys):
        return {"Table": {"TableStatus": status, "KeySchema": [{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"))],
                          "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"} for key in keys]}}

    def consumer(status):
        return {"ConsumerName": "app", "ConsumerARN": arn + "/consumer/app:1", "ConsumerStatus": status}

    summary = {"StreamDescriptionSummary": {"StreamARN": arn, "StreamName": "demo", "StreamStatus": "ACTIVE", "StreamCreationTimestamp": SECONDS + 0.5}}
    say(0, "table", table("ACTIVE", "p", "k"))
    say(1, "table_of_others", table("UPDATING", "ShardID"))
    say(0, "table_is_made", "com.amazonaws.dynamodb#ResourceNotFoundException", {}, table("CREATING", "p", "k"))
    say(2, "summary", summary)
    say(4, "consumer", {"ConsumerDescription": consumer("ACTIVE")})
    say(4, "consumer_without_arn", {"ConsumerDescription": {**consumer("ACTIVE"), "ConsumerARN": ""}})
    say(2, "consumer_by_name", summary, summary, {"ConsumerDescription": consumer("ACTIVE")})
    say(2, "consumer_is_registered", summary, summary, "ResourceNotFoundException", {"Consumer": consumer("CREATING")})
    say(2, "too_many", summary, summary, "ResourceNotFoundException", "LimitExceededException")
    say(6, "iterator", {"ShardIterator": "AAAAAAAAAAG+1/=="}, "ExpiredIteratorException", {"ShardIterator": "AAAAAAAAAAG+2/=="})
    say(5, "tip", {"ShardIterator": "AAAAAAAAAAG+1/=="}, "ExpiredIteratorException", {"ShardIterator": "AAAAAAAAAAG+2/=="})
    say(6, "no_such_place", "InvalidArgumentException", {"ShardIterator": "AAAAAAAAAAG+1/=="}, "KMSThrottlingException")


def imds():
    keys = json.dumps({"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": "ASIAEXAMPLE", "SecretAccessKey": "secret", "Token": "token",
                       "Expiration": "2026-11-21T06:00:00Z"})
    write("imds", "keys", b"\xff".join([b"AQAEA-token==", b"instance-role", keys.encode()]))
    write("imds", "version_1", b"\xff".join([b"?", b"instance-role\nanother", keys.encode()]))
    write("imds", "region", b"AQAEA-token==\xffeu-central-1")
    write("imds", "no_role", b"AQAEA-token==\xff!")


def protobuf(*fields):
    """Numbers and values: whole numbers are varints, the rest is length-delimited."""
    def varint(number):
        number &= 2 ** 64 - 1
        return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)

    message = b""
    for number, value in zip(fields[::2], fields[1::2]):
        if isinstance(value, int):
            message += varint(number << 3) + varint(value)
        else:
            value = value if isinstance(value, bytes) else value.encode()
            message += varint(number << 3 | 2) + varint(len(value)) + value
    return message


def look():
    """Numbers of members as in proto/kinesis_sidecar/v1/state.proto; two bytes of 0xFF are where an answer ends."""
    shard = protobuf(1, "shardId-000000000000", 2, "shardId-000000000001", 5, str(2 ** 128 - 1), 6, 2, 7, "pod-\u202ea", 8, "pod\x1bb", 9, 7,
                     10, SECONDS * 1000, 11, "4965", 12, 5, 14, 1000, 16, 3, 18, 2, 19, 1, 20, "s-1", 21, 61000, 25, 1, 26, SECONDS * 1000)
    session = protobuf(1, "s-1", 2, "shop", 3, 1, 4, 1, 7, 2, 9, 100, 11, 5, 12, 4, 14, 3)
    for name, started_at in (("status", SECONDS * 1000), ("status_of_no_time", -2 ** 63)):
        status = protobuf(1, "pod-a", 2, "b00t", 3, "1.0.0", 4, 2, 5, 1, 6, "why", 7, started_at, 9, protobuf(1, "app", 2, "demo"))
        pages = [protobuf(1, shard, 1, shard, 2, "2"), protobuf(1, shard), protobuf(1, session)]
        write("look", name, b"\xff\xff".join(2 * [status] + pages + [status] + pages))
    write("look", "pages", b"\xff\xff".join([protobuf(1, shard, 2, "2"), protobuf(1, shard), b""]))
    write("look", "long_token", protobuf(2, "7" * 300))
    write("look", "shard", shard)


def client():
    body = b"0123456789"
    write("client", "length", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + body)
    write("client", "chunks", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na;x=y\r\n"
          + body + b"\r\n1\r\nx\r\n0\r\nTrailer: t\r\n\r\n")
    write("client", "until_the_end", b"HTTP/1.1 503 Service Unavailable\r\nDate: now\r\n\r\n" + body)


def http1():
    """0xFF is where a piece ends."""
    head = b"Host: localhost\r\nUser-Agent: corpus\r\n"
    write("http1", "body", b"POST / HTTP/1.1\r\n" + head + b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhe\xffllo")
    write("http1", "chunks", b"POST /s HTTP/1.1\r\n" + head + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n\xff2;x=y\r\nde\r\n"
          b"0\r\nTrailer: t\r\n\r\n")
    write("http1", "kept", b"POST / HTTP/1.1\r\n" + head + b"\r\n\xffPOST / HTTP/1.1\r\n" + head + b"Connection: close\r\n\r\n")
    write("http1", "expect", b"POST /s HTTP/1.1\r\n" + head + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n\xffabc")
    write("http1", "disguised", b"POST / HTTP/1.1\r\n" + head + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    write("http1", "too_large", b"POST / HTTP/1.1\r\n" + head + b"Content-Length: 2000\r\n\r\n" + b"x" * 2000)
    write("http1", "half", b"GET /a?b=%41&c HTTP/1.0\r\nAccept: */*\r\n")


def rows():
    """Which dialect, a seed, and choices of two bytes each."""
    for dialect in range(5):
        choices = b"".join(hashlib.sha256(bytes([dialect, at])).digest() for at in range(8))
        write("rows", f"dialect_{dialect}", bytes([dialect, 7]) + choices)


def cbor(value):
    """RFC 8949, section 3; as AWS writes it, instants are numbers of milliseconds behind tag 1."""
    def head(major, number):
        for info, size in ((24, 1), (25, 2), (26, 4)):
            if number < 24:
                return bytes([major << 5 | number])
            if number < 1 << 8 * size:
                return bytes([major << 5 | info]) + number.to_bytes(size, "big")
        return bytes([major << 5 | 27]) + number.to_bytes(8, "big")
    if isinstance(value, dict):
        return head(5, len(value)) + b"".join(cbor(name) + cbor(member) for name, member in value.items())
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(cbor, value))
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    return head(3, len(value.encode())) + value.encode() if isinstance(value, str) else head(0, value)


def aggregate(*records):
    """AGGREGATION_FORMAT.md of the Kinesis Producer Library."""
    message = protobuf(1, "one key", *[part for data in records for part in (3, protobuf(1, 0, 3, data))])
    return b"\xf3\x89\x9a\xc2" + message + hashlib.md5(message).digest()


def records_api():
    """Two bytes of choices, then answers behind their lengths; see the head of the program."""
    contents = {"words": [b"one", b"two", b'{"a": [1, null]}'], "bytes": [bytes(range(256)), b"\xff\xfe", b""],
                "aggregate": [aggregate(b"one", b"two", b"three"), b"alone"], "broken_aggregate": [aggregate(b"one")[:-1] + b"x"],
                "text": ["d\u00fcr\u0000 \u2028\U0001f600".encode(), b"\"quoted\\\" \n\t", b"[" * 40 + b"]" * 40]}
    for at, (name, records) in enumerate(contents.items()):
        for fanout in (False, True):
            rest = ({"ContinuationSequenceNumber": "300"} if fanout else {"NextShardIterator": "next"}) | {"MillisBehindLatest": 7}
            spoken = [{"SequenceNumber": str(200 + number), "PartitionKey": f"key-{number}", "Data": data}
                      for number, data in enumerate(records)]
            in_cbor = cbor({"Records": spoken, **rest})
            in_json = json.dumps({"Records": [{**record, "Data": base64.b64encode(record["Data"]).decode(),
                                               "ApproximateArrivalTimestamp": SECONDS + 0.25} for record in spoken], **rest}).encode()
            for choice, text in ((0, in_json), (2, in_cbor)):
                answer = len(text).to_bytes(2, "big") + text
                write("records_api", f"{name}_{choice + fanout}", bytes([choice + fanout, 3 * at]) + answer)
    end = b'{"Records":[],"MillisBehindLatest":0,"ChildShards":[]}'
    write("records_api", "end", b"\0\0" + len(end).to_bytes(2, "big") + end)
    expired = b'!{"__type":"ExpiredIteratorException","message":"late"}'
    write("records_api", "expired", b"\0\5" + len(expired).to_bytes(2, "big") + expired + answer)


def letters_s3():
    """What S3 answers, with 0x1e between the answers; '!' begins a failure. The first one is to the look at the start."""
    def key(number):
        return f"p/app/demo/s/{number:056}.0000000000.json"

    def page(truncated, *keys):
        contents = "".join(f"<Contents><Key>{one}</Key><Size>300</Size><ETag>&#34;e&quot;</ETag></Contents>" for one in keys)
        return (f'<?xml version="1.0"?><ListBucketResult><IsTruncated>{truncated}</IsTruncated>{contents}'
                "</ListBucketResult>").encode()

    def letter(number, **given):
        text = {"id": f"s.{number}.0", "stream": "demo", "shard_id": "s", "sequence_number": str(number), "partition_key": "k",
                "approximate_arrival_timestamp": None, "first_died_at": "2026-11-20T00:00:00.000Z",
                "died_at": "2026-11-20T00:00:00.000Z", "attempts": 1, "cause": "asked", "reason": "bad", **given, "data": "ZGF0YQ=="}
        return json.dumps(text).encode() + b"\n"

    def failure(code):
        return f"!<Error><Code>{code}</Code><Message>m</Message></Error>".encode()

    def story(name, *answers):
        write("letters_s3", name, b"\x1e".join(answers))
    gone, changed, empty = failure("NoSuchKey"), failure("PreconditionFailed"), page("false")
    story("lists", empty, page("true", key(1)), page("false", key(2), key(3)), letter(1), letter(2), page("false", key(3)), letter(3))
    story("removed", empty, page("false", key(1), key(2), key(3)), gone, gone, page("false", key(3)), letter(3))
    story("changes", b"?", letter(1), letter(1), b"", page("false", key(1)), b"", changed, letter(1, reason="\u00fc"), b"", empty)
    story("races", b"?", gone, letter(1), changed, gone, page("false", key(1)), changed, page("false", key(1) + ".bak"), changed, gone,
          changed, letter(1, died_at="2027-01-01T00:00:00Z"))
    claimed = letter(1, attempts=2, claim="w#1.0", claimed_until="2999-01-01T00:00:00Z")
    story("claims", b"#", claimed, letter(1, attempts=2), changed, claimed, b"", claimed, changed, claimed, b"", claimed, changed, claimed,
          b"", changed, claimed, b"")
    story("claims_lost", b"#", letter(1, claim=7), letter(1, attempts=2, claim="x#1.0", claimed_until="2999-01-01T00:00:00Z"), letter(1),
          letter(1, claim="x#1.0"), changed, gone)
    story("damage", empty, page("false", key(1), key(2)), letter(1, partition_key_base64="//8=", sub_sequence_number=1),
          letter(2, attempts="x"))
    story("strange_keys", empty, page("false", "p/app/demo/%2E%2e/x", "p/app/demo/s/~7.json", key(9)), letter(9))


def letters_api():
    """Two bytes of choices, then rows: the columns that are given, in the order of the table."""
    def row(**given):
        columns = ["id", "stream", "shard", "sequence", "sub", "key", "data", "reason", "arrival_ms", "died_ms", "attempts", "cause"]
        cells = b"".join(bytes([kind]) + len(value).to_bytes(2, "big") + value
                         for kind, value in (given[name] for name in columns if name in given))
        return sum(1 << at for at, name in enumerate(columns) if name in given).to_bytes(2, "big") + cells
    text, blob, number, real = range(4)
    write("letters_api", "sound", b"\0\0" + 3 * row())
    write("letters_api", "discarded", b"\1\2" + 3 * row())
    write("letters_api", "contents", b"\3\0" + row(data=(blob, bytes(range(256)))) + row(data=(blob, b""))
          + row(data=(blob, b'{"a":1}'), reason=(blob, "\u00fc\n".encode())))
    write("letters_api", "id_of_bytes", b"\0\1" + row(id=(blob, b"999"), sequence=(text, b"x")) + row(sequence=(text, b"x")))
    write("letters_api", "keys", b"\4\0" + row(key=(blob, b"\xff\xfe")) + row(key=(blob, b"k" * 2000)) + row(key=(blob, b"")))
    write("letters_api", "places", b"\5\0" + row(sequence=(text, b"9" * 60)) + row(sequence=(text, b"x"), sub=(number, b"\x7f" + b"\xff" * 7))
          + row(shard=(text, b"")) + row(id=(text, b"a/b?c%d"), stream=(text, b"other")))
    write("letters_api", "numbers", b"\6\0" + row(arrival_ms=(number, b"\xff" * 8)) + row(died_ms=(number, b"\x7f" + b"\xff" * 7))
          + row(attempts=(number, b"\1\0\0\0\0")) + row(cause=(number, b"\x09")) + row(sub=(real, b"\7")))


def pattern():
    """A document, a partition key and data, with a NUL after each of the first two."""
    def both(name, pattern, data, key="key"):
        written = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        write("pattern", name, "\0".join((json.dumps(pattern, separators=(",", ":")), key, written)))
    entries = {"texts": ["a", "", True, None, {"exactly": "b"}], "numbers": [1, 2.50, 9007199254740993, {"numeric": ["=", 3]}],
               "prefix": [{"prefix": "a"}, {"prefix": {"equals-ignore-case": "\u00e4"}}],
               "suffix": [{"suffix": "z"}, {"suffix": {"equals-ignore-case": ".PNG"}}], "nocase": [{"equals-ignore-case": "\u0416x"}],
               "wildcard": [{"wildcard": "a*b\\*\\\\*"}, {"wildcard": "*"}], "exists": [{"exists": True}],
               "absent": [{"exists": False}, "x"], "range": [{"numeric": [">", 0, "<=", 5.5e3]}, {"numeric": ["<", -1e-7]}],
               "but": [{"anything-but": ["a", "b"]}, {"anything-but": 7}], "but_list": [{"anything-but": [1, 2]}],
               "but_prefix": [{"anything-but": {"prefix": ["a", "b"]}}], "but_suffix": [{"anything-but": {"suffix": "z"}}],
               "but_nocase": [{"anything-but": {"equals-ignore-case": ["A"]}}], "but_wildcard": [{"anything-but": {"wildcard": "*a*"}}]}
    values = ["a", "\u00c4rger.png", "ab*\\", "", None, True, 1, -0.5, 3e3, 0.1, [], ["z", ["a"]], {}]
    for at, (name, tests) in enumerate(entries.items()):
        both(name, {"data": {"f": tests}}, {"f": values[at % len(values)], "g": values})
    both("lists", {"data": {"a": {"b": [1], "c": [{"exists": False}], "d": {"e": ["x"]}}}},
         {"a": [{"b": 0, "c": 1}, [{"b": 1, "d": [{"e": "y"}, {"e": ["x"]}]}]]})
    both("or", {"partitionKey": ["key"], "data": {"$or": [{"a": [1]}, {"b": [2], "$or": [{"c": [3]}, {"d": [4]}]}]}}, {"b": 2, "d": 4})
    both("metadata", {"partitionKey": [{"prefix": "k"}], "sequenceNumber": ["49"], "kinesisSchemaVersion": ["1.0"],
                      "approximateArrivalTimestamp": [{"numeric": [">", 1545084650]}]}, "not read")
    both("filters", {"Filters": [{"Pattern": json.dumps({"data": {"a": [number]}})} for number in range(5)]}, {"a": 3})
    both("refused", {"data": {"a": [{"prefix": "a", "suffix": "b"}]}}, {})


if __name__ == "__main__":
    codec()
    response_head()
    lease_rows()
    letter_items()
    convert()
    fleet()
    rpc_head()
    lease_file()
    local_file()
    letters_file()
    aws_answers()
    imds()
    look()
    client()
    http1()
    rows()
    records_api()
    letters_s3()
    letters_api()
    pattern()
