#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Encodings on the real binary: data as base64, as text and as JSON, each record as well as it can be; nothing is left out."""

import base64
import json

from lib import RawStream, Sidecar, check, check_equal, main, test

DEEPEST = b"[" * 61 + b"]" * 61

# What was put, its `data` as it stands in an answer with utf8 and with json; None: base64.
RECORDS = [
    (b"plain", rb'"plain"', None),
    (b"", b'""', None),
    (b'{"n": 1.10,\r\n "big": 123456789012345678901234567890, "n": 1e400}\n',
     rb'"{\"n\": 1.10,\r\n \"big\": 123456789012345678901234567890, \"n\": 1e400}\n"',
     b'{"n": 1.10,   "big": 123456789012345678901234567890, "n": 1e400} '),
    ('"gr\u00fc\u00df \U0001F600"'.encode(), '"\\"gr\u00fc\u00df \U0001F600\\""'.encode(), '"gr\u00fc\u00df \U0001F600"'.encode()),
    (b"[1]\n[2]\n", rb'"[1]\n[2]\n"', None),
    (b'"\xc0\xaf"', None, None),
    (b'"\xed\xa0\x80"', None, None),
    (b'"\xf4\x90\x80\x80"', None, None),
    (rb'"\ud800"', rb'"\"\\ud800\""', None),
    (b"\0\x01\x1f\t", rb'"\u0000\u0001\u001f\t"', None),
    (b'{"line\nbreak": 1}', rb'"{\"line\nbreak\": 1}"', None),
    (bytes(range(256)), None, None),
    (b"null", b'"null"', b"null"),
    (DEEPEST, b'"' + DEEPEST + b'"', DEEPEST),
    (b"[" + DEEPEST + b"]", b'"[' + DEEPEST + b']"', None),
]


def ending(row, encoding):
    """How a record ends in an answer with this encoding."""
    data, utf8, value = row
    spelled = {"base64": None, "utf8": utf8, "json": value}[encoding]
    if spelled is not None:
        return b'"attempt":1,"data":' + spelled + b"}"
    said = b',"encoding":"base64"' if encoding != "base64" else b""
    return b'"attempt":1' + said + b',"data":"' + base64.b64encode(data) + b'"}'


def settle(sidecar, ack_ids):
    settlements = [{"ack_id": ack_id, "outcome": "ack"} for ack_id in ack_ids]
    answer = sidecar.call("POST", "/v1/records/settle", {"settlements": settlements})
    check_equal((answer.json["ok"], answer.json["failed"]), (len(ack_ids), []), answer)


class RawLines(RawStream):
    """The same stream, and its record lines as they came."""

    def raw_records(self, count):
        lines = []
        while len(lines) < count:
            while b"\n" not in self.rest:
                size = int(self.file.readline().strip() or b"0", 16)
                check(size > 0, "the stream ended:", lines)
                self.rest += self.file.read(size)
                self.file.readline()
            line, self.rest = self.rest.split(b"\n", 1)
            if json.loads(line)["type"] == "record":
                lines.append(line)
        return lines


@test(60)
def a_stream_writes_each_record_in_the_encoding_or_in_base64(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    for encoding in ("base64", "utf8", "json"):
        sidecar.put([("k", row[0]) for row in RECORDS])
        stream = RawLines(sidecar, f"client_id={encoding}&encoding={encoding}")
        lines = stream.raw_records(len(RECORDS))
        for line, row in zip(lines, RECORDS):
            check(line.endswith(ending(row, encoding)), encoding, "of", row, "is", line)
        settle(sidecar, [json.loads(line)["ack_id"] for line in lines])
        stream.close()
    sidecar.stop()


@test(60)
def a_poll_does_the_same_and_one_session_may_mix_them(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    sidecar.put([("k", row[0]) for row in RECORDS for _ in range(3)])
    for row in RECORDS:
        for encoding in ("base64", "utf8", "json"):
            answer = sidecar.call("GET", f"/v1/records?max_records=1&encoding={encoding}")
            check_equal(answer.status, 200, answer)
            check(ending(row, encoding) + b'],"batch_id":"' in answer.body, encoding, "of", row, "is", answer.body)
            settle(sidecar, [record["ack_id"] for record in answer.json["records"]])
    sidecar.stop()


@test(90)
def long_records_pass_at_six_times_their_size(folder):
    sidecar = Sidecar.local(folder, local_shards=1).start()
    bells, breaks = b"\a" * (1 << 20), b"\n" * (2 << 20) + b"7" + b"\r\n" * (1 << 20)
    sidecar.put([("k", bells)])
    text = RawStream(sidecar, "client_id=text&encoding=utf8&max_in_flight=1")
    record = text.records(1)[0]
    check(record["data"] == bells.decode() and "encoding" not in record, "the longest text comes whole")
    settle(sidecar, [record["ack_id"]])
    text.close()
    sidecar.put([("k", breaks)])
    value = RawStream(sidecar, "client_id=value&encoding=json")
    record = value.records(1)[0]
    check(record["data"] == 7 and "encoding" not in record, "the value comes on one line")
    settle(sidecar, [record["ack_id"]])
    value.close()
    sidecar.stop()


@test()
def what_cannot_be_said_in_an_encoding_is_refused(folder):
    sidecar = Sidecar.local(folder).start()
    for path in ("/v1/records", "/v1/records/stream"):
        for encoding in ("utf-8", "JSON", "", "base64,json"):
            answer = sidecar.call("GET", f"{path}?encoding={encoding}")
            check_equal((answer.status, answer.json["detail"]), (400, "encoding must be base64, utf8 or json"), answer)
    for encoding in ("utf8", "json"):
        answer = sidecar.call("GET", f"/v1/records/stream?encoding={encoding}", headers={"Accept": "application/x-protobuf"})
        check_equal(answer.status, 400, answer)
        check("application/x-ndjson" in answer.json["detail"], answer)
    check_equal(sidecar.get("/v1/sessions")["sessions"], [], "nothing was opened")
    sidecar.stop()


if __name__ == "__main__":
    main()
