#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes sigv4.json: requests of ours, signed by botocore.

    pip install 'botocore==1.43.11'
    tests/vectors/make_sigv4.py > tests/vectors/sigv4.json

The expected texts are botocore's; nothing here computes a signature itself. The key pair is the one of the AWS
documentation and opens nothing.
"""
import datetime
import json
import sys

import botocore.auth
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ACCESS = "AKIDEXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
TOKEN = "IQoJb3JpZ2luX2VjEXAMPLE" + "/+A9" * 300 + "=="
JSON_1_0 = "application/x-amz-json-1.0"
JSON_1_1 = "application/x-amz-json-1.1"
CBOR = "application/x-amz-cbor-1.1"


def case(name, service="kinesis", region="us-east-1", method="POST", path="/", query="", headers=(), body=b"",
         token=None, at="2026-01-02T03:04:05Z", host=None, access=ACCESS, secret=SECRET):
    host = host or f"{service}.{region}.amazonaws.com"
    headers = [["Host", host], *[list(header) for header in headers]]
    when = datetime.datetime.strptime(at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    botocore.auth.get_current_datetime = lambda *_, **__: when

    url = f"https://{host}{path}" + (f"?{query}" if query else "")
    request = AWSRequest(method=method, url=url, data=body)
    for key, value in headers:
        request.headers.add_header(key, value)
    signer = SigV4Auth(Credentials(access, secret, token), service, region)
    signer.add_auth(request)
    authorization = request.headers["Authorization"]
    del request.headers["Authorization"]
    canonical = signer.canonical_request(request)
    return {
        "name": name, "service": service, "region": region, "method": method, "path": path, "query": query,
        "headers": headers, "body_hex": body[:4096].hex(),
        "body_repeats": max(1, len(body) // 4096), "access_key": access, "secret_key": secret, "token": token,
        "unix_ms": int(when.timestamp()) * 1000, "canonical": canonical,
        "string_to_sign": signer.string_to_sign(request, canonical), "authorization": authorization,
    }


def call(operation, content_type):
    prefix = "DynamoDB_20120810" if content_type == JSON_1_0 else "Kinesis_20131202"
    return [("Content-Type", content_type), ("X-Amz-Target", f"{prefix}.{operation}")]


CASES = [
    case("get_records_json", headers=call("GetRecords", JSON_1_1), body=b'{"ShardIterator":"AAAA"}'),
    case("get_records_cbor_with_token", headers=call("GetRecords", CBOR), body=bytes(range(256)), token=TOKEN),
    case("update_item", service="dynamodb", region="eu-central-1", headers=call("UpdateItem", JSON_1_0),
         body='{"TableName":"t","Key":{"k":{"S":"ключ 🔑"}}}'.encode()),
    case("same_day_other_second", service="dynamodb", region="eu-central-1", headers=call("GetItem", JSON_1_0),
         body=b"{}", at="2026-01-02T23:59:59Z"),
    case("next_day", service="dynamodb", region="eu-central-1", headers=call("GetItem", JSON_1_0), body=b"{}",
         at="2026-01-03T00:00:00Z"),
    case("leap_day", headers=call("ListShards", JSON_1_1), body=b"{}", at="2028-02-29T12:00:00Z"),
    case("first_second", headers=call("ListShards", JSON_1_1), body=b"{}", at="1970-01-01T00:00:00Z"),
    case("other_secret", headers=call("ListShards", JSON_1_1), body=b"{}", access="ASIAOTHER", secret="s" * 40),
    case("china", region="cn-north-1", host="kinesis.cn-north-1.amazonaws.com.cn",
         headers=call("ListShards", JSON_1_1), body=b"{}"),
    case("port_in_host", host="127.0.0.1:4567", headers=call("ListStreams", JSON_1_1), body=b"{}"),
    case("empty_body", headers=call("ListStreams", JSON_1_1)),
    case("a_mebibyte", headers=call("PutRecord", JSON_1_1), body=b"x" * (1 << 20)),
    case("white_space_in_values", headers=[("My-Header1", "  a   b\tc  "), ("My-Header2", ' "a   b   c" ')]),
    case("header_twice", headers=[("My-Header", "zoo"), ("Other", "1"), ("my-header", "ant"), ("My-Header", "")]),
    case("never_signed", headers=[("User-Agent", "x/1"), ("Connection", "keep-alive"), ("Expect", "100-continue"),
                                  ("X-Amzn-Trace-Id", "Root=1"), ("Transfer-Encoding", "chunked"),
                                  ("X-Amz-Meta-A", "a")]),
    case("prefix_names", headers=[("X-Amz-Date-Foo", "1"), ("X-Amz", "2"), ("X-Amz-Datf", "3")]),
    case("query_sorted", method="GET",
         query="b=2&a=2&a=1&B=0&empty=&name-only=&%C3%A4=%20&~tilde=._-&Param=a%2Fb%3Dc", host="example.com"),
    case("path", method="GET", path="/a/../b//c/./d/", host="example.com"),
    case("path_above_root", method="GET", path="/../../x/..", host="example.com"),
    case("path_encoded_again", method="GET", path="/a%20b/~x/%E1%88%B4", host="example.com"),
    case("path_dot_within", method="GET", path="/x/./y", host="example.com"),
    case("path_odd_bytes", method="GET", path="/a:b@c!$&'()*+,;=d", host="example.com"),
    case("put_method", method="PUT", service="sts", path="/latest/api/token", host="example.com"),
]

if __name__ == "__main__":
    json.dump({"origin": "make_sigv4.py with botocore " + botocore.__version__, "cases": CASES}, sys.stdout,
              indent=1, ensure_ascii=True)
    sys.stdout.write("\n")
