# SPDX-License-Identifier: Apache-2.0
"""IAM between a sidecar and the emulators: a proxy that lets through what a policy allows, and denies the rest as AWS does.

    door = Door("http://127.0.0.1:8000", policy, stream="orders")
    door.url          where clients go instead
    door.asked        {(action, resource)} of all requests
    door.forget(a)    denies the action a from now on
    door.recall()     allows what the policy says again

It knows the JSON protocols of DynamoDB, Kinesis and SQS, the query protocol of SNS, and S3 with a bucket in the path. A policy
is that of `kinesis-sidecar iam-policy`: statements that allow, whole actions, resources with `*`. Error texts: as AWS
documents them in "Troubleshoot access denied error messages" of the IAM user guide.
"""

import fnmatch
import http.client
import http.server
import json
import threading
import urllib.parse

REGION, ACCOUNT = "us-east-1", "123456789012"
USER = f"arn:aws:sts::{ACCOUNT}:assumed-role/orders/i-0abc"
HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


def arn(service, resource):
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"


def tables_of(body):
    """The tables, or the index, that a request to DynamoDB names."""
    names = list(body.get("RequestItems", {})) or [body["TableName"]]
    end = f"/index/{body['IndexName']}" if "IndexName" in body else ""
    return [arn("dynamodb", f"table/{name}{end}") for name in names]


def consumer_of(body, stream):
    return body.get("ConsumerARN") or arn("kinesis", f"stream/{stream}/consumer/{body['ConsumerName']}:1")


class Door:
    """See above. `stream` is the one whose shard iterators are asked with: these name no stream."""

    def __init__(self, target, policy, stream):
        host = urllib.parse.urlsplit(target)
        self.host, self.port, self.stream = host.hostname, host.port, stream
        self.allowed = [(action, resource) for statement in policy["Statement"] for action in statement["Action"]
                        for resource in statement["Resource"]]
        self.forgotten, self.asked, self.denied = set(), set(), set()
        door = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def serve(self):
                door.serve(self)

            def handle(self):
                try:
                    super().handle()
                except ConnectionError:
                    pass  # What a client does to its connection is not a failure here.

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = serve

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def forget(self, action):
        self.forgotten.add(action)

    def recall(self):
        self.forgotten.clear()

    def needs(self, handler, body):
        """The action of a request and the resources that it is on."""
        target = handler.headers.get("X-Amz-Target", "")
        service, _, operation = target.partition(".")
        if service.startswith("DynamoDB"):
            return "dynamodb:" + operation, tables_of(json.loads(body))
        if service.startswith("Kinesis"):
            told = json.loads(body)
            name = told.get("StreamName") or told.get("StreamARN", "/" + self.stream).rpartition("/")[2]
            if operation in ("DescribeStreamConsumer", "SubscribeToShard"):
                return "kinesis:" + operation, [consumer_of(told, name)]
            return "kinesis:" + operation, [arn("kinesis", f"stream/{name}")]
        if service.startswith("AmazonSQS"):
            return "sqs:" + operation.removesuffix("Batch"), [arn("sqs", json.loads(body)["QueueUrl"].rpartition("/")[2])]
        if handler.command == "POST":
            fields = dict(urllib.parse.parse_qsl(body.decode()))
            return "sns:" + fields["Action"].removesuffix("Batch"), [fields["TopicArn"]]
        path = urllib.parse.unquote(urllib.parse.urlsplit(handler.path).path).strip("/")
        bucket, _, key = path.partition("/")
        if key == "":
            return "s3:ListBucket", [f"arn:aws:s3:::{bucket}"]
        words = {"GET": "Get", "HEAD": "Get", "PUT": "Put", "DELETE": "Delete"}
        return f"s3:{words[handler.command]}Object", [f"arn:aws:s3:::{bucket}/{key}"]

    def is_allowed(self, action, resource):
        return action not in self.forgotten and any(
            action == one and fnmatch.fnmatchcase(resource, pattern.replace('[', '[[]')) for one, pattern in self.allowed)

    def serve(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        action, resources = self.needs(handler, body)
        for resource in resources:
            self.asked.add((action, resource))
            if not self.is_allowed(action, resource):
                self.denied.add((action, resource))
                deny(handler, action, resource)
                return
        self.hand_on(handler, body)

    def hand_on(self, handler, body):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            headers = {name: value for name, value in handler.headers.items() if name.lower() not in HOP_BY_HOP}
            connection.request(handler.command, handler.path, body, headers)
            answer = connection.getresponse()
            said = answer.read()
            answer_with(handler, answer.status, answer.getheaders(), said)
        finally:
            connection.close()


def answer_with(handler, status, headers, body):
    handler.send_response_only(status)
    for name, value in headers:
        if name.lower() not in HOP_BY_HOP:
            handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)


def deny(handler, action, resource):
    text = (f"User: {USER} is not authorized to perform: {action} on resource: {resource} because no identity-based policy "
            f"allows the {action} action")
    service = action.partition(":")[0]
    if service in ("s3", "sns"):
        code = "AccessDenied" if service == "s3" else "AuthorizationError"
        error = f"<Error><Code>{code}</Code><Message>{text}</Message></Error>"
        body = (error if service == "s3" else f"<ErrorResponse>{error}</ErrorResponse>").encode()
        answer_with(handler, 403, [("Content-Type", "application/xml"), ("x-amz-request-id", "denied-1")], body)
        return
    key = "message" if service == "kinesis" else "Message"
    body = json.dumps({"__type": "com.amazon.coral.service#AccessDeniedException", key: text}).encode()
    answer_with(handler, 400, [("Content-Type", "application/x-amz-json-1.0"), ("x-amzn-RequestId", "denied-1")], body)
