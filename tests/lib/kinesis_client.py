# SPDX-License-Identifier: Apache-2.0
"""A Kinesis client of the tests' own, for what stands in for Kinesis: it signs, speaks JSON and CBOR, reads event streams.

Nothing in here is shared with the sidecar: what the two do alike, they do for independent reasons. HTTP/1.1 only.
"""

import datetime
import hashlib
import hmac
import http.client
import json
import os
import ssl
import struct
import urllib.parse
import zlib

JSON, CBOR = "application/x-amz-json-1.1", "application/x-amz-cbor-1.1"
ACCESS_KEY, SECRET_KEY, REGION = "AKIDEXAMPLE", "for-emulators-only", "us-east-1"


# --- CBOR, as much as Kinesis needs ---

class Time(int):
    """A timestamp of CBOR: tag 1 and integer milliseconds."""


def cbor_head(major, value):
    for info, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if value < 24:
            return bytes([major << 5 | value])
        if value < 1 << 8 * size:
            return bytes([major << 5 | info]) + value.to_bytes(size, "big")
    raise ValueError(value)


def cbor_encode(item, indefinite=True):
    """Maps and lists of indefinite length, and strings in two chunks, if so wanted."""
    if item is None or isinstance(item, bool):
        return {None: b"\xf6", False: b"\xf4", True: b"\xf5"}[item]
    if isinstance(item, Time):
        return b"\xc1" + cbor_head(0, item)
    if isinstance(item, int):
        return cbor_head(0, item) if item >= 0 else cbor_head(1, -1 - item)
    if isinstance(item, float):
        return b"\xfb" + struct.pack(">d", item)
    if isinstance(item, (bytes, str)):
        major, raw = (2, item) if isinstance(item, bytes) else (3, item.encode())
        if indefinite and len(raw) > 8 and raw.isascii():
            chunks = (raw[:3], raw[3:])
            return bytes([major << 5 | 31]) + b"".join(cbor_head(major, len(c)) + c for c in chunks) + b"\xff"
        return cbor_head(major, len(raw)) + raw
    if isinstance(item, dict):
        inner = b"".join(cbor_encode(part, indefinite) for pair in item.items() for part in pair)
    else:
        inner = b"".join(cbor_encode(part, indefinite) for part in item)
    major = 5 if isinstance(item, dict) else 4
    return bytes([major << 5 | 31]) + inner + b"\xff" if indefinite else cbor_head(major, len(item)) + inner


BREAK = object()


def cbor_take(data, at):
    """The item at `at`, and where the next one begins."""
    major, info = data[at] >> 5, data[at] & 31
    at += 1
    if info in (24, 25, 26, 27):
        size = 1 << info - 24
        value, at = int.from_bytes(data[at:at + size], "big"), at + size
    else:
        value = None if info == 31 else info
    if major == 7:
        simple = {20: False, 21: True, 22: None, 23: None, 31: BREAK}
        if info in simple:
            return simple[info], at
        form = {25: ">e", 26: ">f", 27: ">d"}[info]
        return struct.unpack(form, value.to_bytes(1 << info - 24, "big"))[0], at
    if major == 6:
        item, at = cbor_take(data, at)
        return Time(item) if value == 1 and isinstance(item, int) else item, at
    if major in (0, 1):
        return (value if major == 0 else -1 - value), at
    if major in (2, 3) and value is not None:
        assert at + value <= len(data), "a string that ends early"
        raw = data[at:at + value]
        return (raw if major == 2 else raw.decode()), at + value
    items = []
    while value is None or len(items) < value * (2 if major == 5 else 1):
        item, at = cbor_take(data, at)
        if item is BREAK:
            break
        items.append(item)
    if major in (2, 3):
        return (b"" if major == 2 else "").join(items), at
    return (dict(zip(items[::2], items[1::2])) if major == 5 else items), at


def cbor_decode(data):
    item, at = cbor_take(data, 0)
    assert at == len(data), "more than one item"
    return item


# --- SigV4 ---

def utc_now(skew_s=0):
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=skew_s)


def sign(headers, body, access_key, secret_key, region=REGION, service="kinesis", date=None, path="/"):
    """Adds X-Amz-Date and Authorization; every header given is signed."""
    date = date or utc_now().strftime("%Y%m%dT%H%M%SZ")
    headers = dict(headers, **{"X-Amz-Date": date})
    lower = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    names = ";".join(sorted(lower))
    canonical = "\n".join(["POST", path, "", *(f"{name}:{lower[name]}" for name in sorted(lower)), "", names,
                           hashlib.sha256(body).hexdigest()])
    scope = f"{date[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = ("AWS4" + secret_key).encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    headers["Authorization"] = (f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={names}, "
                                f"Signature={key.hex()}")
    return headers


# --- Event streams ---

def read_headers(data):
    headers, at = {}, 0
    while at < len(data):
        name_end = at + 1 + data[at]
        assert data[name_end] == 7, "a header that is no string"
        size = int.from_bytes(data[name_end + 1:name_end + 3], "big")
        headers[data[at + 1:name_end].decode()] = data[name_end + 3:name_end + 3 + size].decode()
        at = name_end + 3 + size
    return headers


class Broken(Exception):
    """What should be an event stream is none."""


class Event:
    def __init__(self, headers, payload):
        self.headers = headers
        self.type = headers.get(":event-type") or headers.get(":exception-type") or headers.get(":error-code")
        self.message_type = headers.get(":message-type")
        cbor = "cbor" in headers.get(":content-type", "")
        self.payload = payload and (cbor_decode(payload) if cbor else json.loads(payload))

    def __repr__(self):
        return f"<{self.message_type} {self.type} {self.payload!r}>"


class Subscription:
    """What SubscribeToShard answers: events, until it ends."""

    def __init__(self, connection, response):
        self.connection, self.response = connection, response
        self.status, self.headers = response.status, response.headers

    def event(self):
        """The next frame; None at the end of the stream; Broken if that comes within a frame, or a checksum is wrong."""
        try:
            prelude = self.response.read(12)
            if not prelude:
                return None
            total, headers_size, crc = struct.unpack(">III", prelude)
            if zlib.crc32(prelude[:8]) != crc:
                raise Broken("prelude")
            rest = self.response.read(total - 12)
        except (http.client.IncompleteRead, ConnectionResetError, struct.error) as err:
            raise Broken(repr(err)) from None
        if len(rest) != total - 12:
            raise Broken("cut")
        if zlib.crc32(prelude + rest[:-4]) != int.from_bytes(rest[-4:], "big"):
            raise Broken("message")
        return Event(read_headers(rest[:headers_size]), rest[headers_size:-4])

    def events(self):
        while True:
            event = self.event()
            if event is None:
                return
            yield event

    def close(self):
        self.response.close()
        self.connection.close()


# --- The client ---

class Answer:
    def __init__(self, response):
        self.status, self.headers, self.raw = response.status, response.headers, response.read()
        self.type = self.headers.get("Content-Type", "")
        self.body = {}
        if self.raw:
            self.body = cbor_decode(self.raw) if self.type == CBOR else json.loads(self.raw)

    @property
    def code(self):
        return self.body.get("__type", "")

    @property
    def message(self):
        return self.body.get("message", self.body.get("Message", ""))

    def __repr__(self):
        return f"<{self.status} {self.raw[:600]!r}>"


class Kinesis:
    """One stand-in. Each call has a connection of its own, so that what breaks one breaks no other."""

    def __init__(self, url, cbor=False, indefinite=True, access_key=ACCESS_KEY, secret_key=SECRET_KEY, token=None,
                 ca=None, timeout=60, region=REGION, skew_s=0):
        self.url = urllib.parse.urlparse(url)
        self.cbor, self.indefinite, self.ca, self.timeout = cbor, indefinite, ca, timeout
        self.access_key, self.secret_key, self.token, self.region = access_key, secret_key, token, region
        self.skew_s = skew_s

    def connect(self):
        where = self.url.hostname, self.url.port
        if self.url.scheme == "http":
            return http.client.HTTPConnection(*where, timeout=self.timeout)
        return http.client.HTTPSConnection(*where, timeout=self.timeout,
                                           context=ssl.create_default_context(cafile=self.ca))

    def body_of(self, members):
        return cbor_encode(members, self.indefinite) if self.cbor else json.dumps(members).encode()

    def headers_for(self, operation, body):
        headers = {"Host": self.url.netloc, "Content-Type": CBOR if self.cbor else JSON,
                   "X-Amz-Target": "Kinesis_20131202." + operation}
        if self.token:
            headers["X-Amz-Security-Token"] = self.token
        return sign(headers, body, self.access_key, self.secret_key, self.region,
                    date=utc_now(self.skew_s).strftime("%Y%m%dT%H%M%SZ"))

    def send(self, operation, body, headers=None):
        """Sends a body as it is; returns the connection and the response."""
        connection = self.connect()
        connection.request("POST", "/", body, headers or self.headers_for(operation, body))
        return connection, connection.getresponse()

    def ask(self, operation, **members):
        connection, response = self.send(operation, self.body_of(members))
        with response:
            answer = Answer(response)
        connection.close()
        return answer

    def must(self, operation, **members):
        answer = self.ask(operation, **members)
        assert answer.status == 200, f"{operation} {members}: {answer}"
        return answer.body

    def subscribe(self, **members):
        """The subscription, or the Answer that refuses it."""
        connection, response = self.send("SubscribeToShard", self.body_of(members))
        if response.status == 200:
            return Subscription(connection, response)
        return Answer(response)

    def control(self, **members):
        """Tells the double what to do, and returns what it counts."""
        connection = self.connect()
        connection.request("POST" if members else "GET", "/_control", json.dumps(members) if members else None)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        assert answer.status == 200, text
        return json.loads(text)

    @staticmethod
    def of_environment(**more):
        """The double that tests/emulators/with has started."""
        return Kinesis(os.environ["KS_DOUBLE_URL"], **more)
