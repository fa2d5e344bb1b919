#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes sigv4.json: requests of ours, and sigv4_random.json: requests that a generator made up, signed by botocore.

    pip install 'botocore==1.43.11'
    tests/vectors/make_sigv4.py

The expected texts are botocore's; nothing here computes a signature itself. The key pair is the one of the AWS
documentation and opens nothing. The generator has a fixed seed, so that both files come out the same again.
"""
import datetime
import json
import os
import random
import urllib.parse

import botocore.auth
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ACCESS = "AKIDEXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
TOKEN = "IQoJb3JpZ2luX2VjEXAMPLE" + "/+A9" * 300 + "=="
FORM = "application/x-www-form-urlencoded; charset=utf-8"
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
    case("assume_role", service="sts", region="eu-west-1", headers=[("Content-Type", FORM)], token=TOKEN,
         body=b"Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fr"
              b"&RoleSessionName=kinesis-sidecar&ExternalId=x%20y"),
    case("put_method", method="PUT", service="sts", path="/latest/api/token", host="example.com"),
]

# --- Made up ---

RANDOM_CASES = 250
UNRESERVED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
TOKEN_CHARACTERS = UNRESERVED + "!#$%&'*+^`|"
VALUE_CHARACTERS = UNRESERVED + "!#$%&'*+^`|()<>@,;:\\\"/[]?={} \t"
PATH_CHARACTERS = UNRESERVED + "!$&'()*+,;=:@%"
TEXT = UNRESERVED + " /?&=%+#\u00e4\u4e2d\U0001f511"


def text_of(dice, characters, least, most):
    return "".join(dice.choice(characters) for _ in range(dice.randint(least, most)))


def some_path(dice):
    """Its end is a name or a slash: behind a dot segment botocore leaves out the slash that RFC 3986 keeps."""
    segments = [dice.choice([text_of(dice, PATH_CHARACTERS, 1, 12), text_of(dice, UNRESERVED, 1, 5), "", ".", ".."])
                for _ in range(dice.randint(0, 6))]
    return "/" + "/".join([*segments, text_of(dice, PATH_CHARACTERS, 0, 3).strip(".")])


def some_query(dice):
    """Encoded, as botocore wants it."""
    pairs = [(text_of(dice, TEXT, 1, 8), text_of(dice, TEXT, 0, 12)) for _ in range(dice.randint(0, 6))]
    if pairs and dice.random() < 0.3:
        pairs.append((pairs[0][0], text_of(dice, TEXT, 0, 3)))
    dice.shuffle(pairs)
    return "&".join(f"{urllib.parse.quote(name, safe='-._~')}={urllib.parse.quote(value, safe='-._~')}"
                    for name, value in pairs)


def some_headers(dice):
    """Names of one spelling or two; values begin and end with anything but a line end."""
    names = ["X-" + text_of(dice, TOKEN_CHARACTERS, 1, 12) for _ in range(dice.randint(0, 5))]
    names += [dice.choice([str.upper, str.lower])(name) for name in names if dice.random() < 0.3]
    names += dice.sample(["User-Agent", "Expect", "Accept", "Connection", "TE", "Proxy-Authorization"], dice.randint(0, 2))
    return [(name, text_of(dice, VALUE_CHARACTERS, 0, 40)) for name in names]


def some_instant(dice):
    """Within a few days, so that kept keys are right for some requests and wrong for others; or any."""
    second = dice.choice([dice.randint(1767225600, 1767225600 + 3 * 86400), 1767312000 - 1, 1767312000,
                          dice.randint(0, 4102444800)])
    return datetime.datetime.fromtimestamp(second, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def made_up(number, dice):
    service = dice.choice(["kinesis", "dynamodb", "sts"])
    bare = dice.random() < 0.5
    made = case(f"random_{number}", service=service,
                region=dice.choice(["us-east-1", "eu-central-1", "cn-north-1", "us-gov-west-1"]),
                method="POST" if bare else dice.choice(["GET", "PUT", "POST", "DELETE"]),
                path="/" if bare else some_path(dice), query="" if bare else some_query(dice),
                headers=[("Content-Type", dice.choice([JSON_1_0, JSON_1_1, CBOR, FORM])), *some_headers(dice)],
                body=dice.randbytes(dice.choice([0, 1, 55, 56, 64, dice.randint(2, 300)])),
                token=dice.choice([None, text_of(dice, UNRESERVED + "/+=", 1, 200)]), at=some_instant(dice),
                host=dice.choice([None, "127.0.0.1:4567", "[::1]:8000", "vpce-1.kinesis.eu-west-1.vpce.amazonaws.com"]),
                access=dice.choice([ACCESS, "ASIA" + text_of(dice, UNRESERVED[:36], 16, 16)]),
                secret=dice.choice([SECRET, SECRET[::-1], text_of(dice, UNRESERVED + "/+", 40, 40)]))
    # The signature covers both.
    del made["canonical"], made["string_to_sign"]
    return made


def write(name, cases):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, "w", encoding="ascii") as file:
        file.write('{"origin": "make_sigv4.py with botocore %s", "cases": [\n' % botocore.__version__)
        file.write(",\n".join(json.dumps(one) for one in cases))
        file.write("\n]}\n")


if __name__ == "__main__":
    DICE = random.Random(4)
    write("sigv4.json", CASES)
    write("sigv4_random.json", [made_up(number, DICE) for number in range(RANDOM_CASES)])
