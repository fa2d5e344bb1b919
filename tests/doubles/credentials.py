# SPDX-License-Identifier: Apache-2.0
"""Everybody who gives out AWS credentials, and the door that checks them, on free ports of this machine.

    world = World(life=6)
    world.sts.url, world.container.url, world.imds.url      what AWS_ENDPOINT_URL_STS and so on are set to
    world.gate("dynamodb", target_url).url                  a real service behind a door

Keys are made by `issue`, belong to a principal, and die after `life` seconds. Whoever is asked with a signature (STS, a
gate) makes it himself, by the rules of AWS and with nothing of ours, and refuses what differs, is unknown, has expired or was
made by a clock that is more than five minutes off, with the codes of AWS. Everything that was refused is in `refused`, but
for requests that were signed before their keys ended and came after that.

Faults: `server.broken = 500` answers so from then on (None: no more); `world.skew` shifts the clock of all; `world.revoke()`
makes every key one whose token has expired; `world.stretches = True` lets keys of instances live on, as EC2 does.
"""

import datetime
import hashlib
import hmac
import http.client
import http.server
import json
import re
import secrets
import sys
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape

MINUTES_OFF_MAX = 5
UNRESERVED = "-._~"


class Refusal(Exception):
    """Why a request is not served. `late`: its client could not know it, the request was long on its way."""

    def __init__(self, status, code, message, late=False):
        super().__init__(f"{code}: {message}")
        self.status, self.code, self.message, self.late = status, code, message, late


class Keys:
    """A key pair, and whose it is. One that never expires has no token."""

    def __init__(self, principal, expires_at):
        self.principal, self.expires_at = principal, expires_at
        self.access = "ASIA" + secrets.token_hex(8).upper()
        self.secret = secrets.token_urlsafe(30) + "/+"
        self.token = "" if expires_at is None else secrets.token_urlsafe(300) + "/+=="
        self.revoked = False


def stamp(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


class World:
    def __init__(self, life=3600):
        self.lock = threading.Lock()
        self.life, self.skew, self.stretches = life, 0, False
        self.keys = {}
        self.refused = []
        self.used = {}            # (service, principal) -> access keys in the order of their first use
        self.trust = {}           # role arn -> (who may assume it, external id or None)
        self.web_tokens = {}      # token -> role arn
        self.container_tokens = {}  # token -> principal
        self.imds_tokens = set()
        self.sts = Server(self, StsDoor)
        self.container = Server(self, ContainerDoor)
        self.imds = Server(self, ImdsDoor)

    def now(self):
        return time.time() + self.skew

    def issue(self, principal, life=None, permanent=False):
        keys = Keys(principal, None if permanent else self.now() + (life or self.life))
        with self.lock:
            self.keys[keys.access] = keys
        return keys

    def revoke(self):
        with self.lock:
            for keys in self.keys.values():
                keys.revoked = True

    def gate(self, service, target):
        server = Server(self, GateDoor)
        server.service, server.target = service, urllib.parse.urlsplit(target).netloc
        return server

    def note_refusal(self, where, refusal):
        with self.lock:
            if not refusal.late:
                self.refused.append(f"{where}: {refusal}")

    def note_use(self, service, keys):
        with self.lock:
            used = self.used.setdefault((service, keys.principal), [])
            if keys.access not in used:
                used.append(keys.access)

    def users(self, service):
        with self.lock:
            return {principal: len(keys) for (of, principal), keys in self.used.items() if of == service}

    def all_secrets(self):
        """What nobody may be shown."""
        with self.lock:
            secret = [text for keys in self.keys.values() for text in (keys.secret, keys.token) if text]
            return secret + list(self.web_tokens) + list(self.container_tokens) + list(self.imds_tokens)


# --- Signatures ---

def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def canonical_query(query):
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    return "&".join(f"{name}={value}" for name, _, value in sorted(pairs))


def signature_of(request, keys, signed, scope, date):
    """What the signature must be (IAM user guide, "Signature Version 4 signing process")."""
    path, _, query = request.path.partition("?")
    headers = "".join(f"{name}:{' '.join(', '.join(request.headers.get_all(name)).split())}\n" for name in signed)
    canonical = "\n".join([request.command, urllib.parse.quote(path, safe="/" + UNRESERVED), canonical_query(query), headers,
                           ";".join(signed), hashlib.sha256(request.body).hexdigest()])
    to_sign = "\n".join(["AWS4-HMAC-SHA256", date, "/".join(scope), hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + keys.secret).encode()
    for part in scope:
        key = sign(key, part)
    return sign(key, to_sign).hex()


AUTHORIZATION = re.compile(r"AWS4-HMAC-SHA256 Credential=([A-Z0-9]+)/([^,]+), SignedHeaders=([a-z0-9;-]+), "
                           r"Signature=([0-9a-f]{64})")


def check_signature(world, request, service):
    """Whose keys signed the request. Refusal."""
    match = AUTHORIZATION.fullmatch(request.headers.get("Authorization", ""))
    if not match:
        raise Refusal(403, "MissingAuthenticationToken", "Request is missing Authentication Token")
    access, scope, signed, signature = match[1], match[2].split("/"), match[3].split(";"), match[4]
    keys = world.keys.get(access)
    date = request.headers.get("X-Amz-Date", "")
    if keys is None:
        raise Refusal(403, "InvalidClientTokenId" if service == "sts" else "UnrecognizedClientException",
                      "The security token included in the request is invalid.")
    if len(scope) != 4 or scope[0] != date[:8] or scope[2] != service or scope[3] != "aws4_request":
        raise Refusal(403, "SignatureDoesNotMatch", "Credential should be scoped to a valid region and service")
    if not {"host", "x-amz-date"} <= set(signed) or (keys.token and "x-amz-security-token" not in signed):
        raise Refusal(403, "SignatureDoesNotMatch", "'host', 'x-amz-date' and the token must be signed")
    at = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    if abs(at.timestamp() - world.now()) > MINUTES_OFF_MAX * 60:
        raise Refusal(403, "SignatureDoesNotMatch" if service == "sts" else "InvalidSignatureException",
                      f"Signature expired: {date} is not within {MINUTES_OFF_MAX} min.")
    if request.headers.get("X-Amz-Security-Token", "") != keys.token or signature != signature_of(
            request, keys, signed, scope, date):
        raise Refusal(403, "SignatureDoesNotMatch" if service == "sts" else "InvalidSignatureException",
                      "The request signature we calculated does not match the signature you provided.")
    stretched = world.stretches and keys.principal.startswith("instance ")
    if keys.revoked or (keys.expires_at is not None and world.now() > keys.expires_at and not stretched):
        raise Refusal(403, "ExpiredToken" if service == "sts" else "ExpiredTokenException",
                      "The security token included in the request is expired",
                      late=not keys.revoked and at.timestamp() < keys.expires_at)
    return keys


# --- Servers ---

class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client may leave when it likes."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Server:
    def __init__(self, world, door):
        self.world, self.broken = world, None
        self.requests = 0
        self.listener = Listener(("127.0.0.1", 0), door)
        self.listener.owner = self
        self.url = f"http://127.0.0.1:{self.listener.server_port}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()


class Door(http.server.BaseHTTPRequestHandler):
    """A request becomes serve(); what that returns is (status, headers, body). A Refusal becomes refuse()."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        return super().date_time_string(self.world.now())

    @property
    def world(self):
        return self.server.owner.world

    def do_GET(self):
        owner = self.server.owner
        owner.requests += 1
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if owner.broken is not None:
                status, headers, body = owner.broken, {}, b"broken"
            else:
                status, headers, body = self.serve()
        except Refusal as refusal:
            self.world.note_refusal(type(self).__name__, refusal)
            status, headers, body = self.refuse(refusal)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_GET

    def refuse(self, refusal):
        return refusal.status, {}, json.dumps({"Code": refusal.code, "Message": refusal.message}).encode()


class StsDoor(Door):
    def serve(self):
        form = {name: values[0] for name, values in urllib.parse.parse_qs(self.body.decode(), strict_parsing=True).items()}
        role = form["RoleArn"]
        if form["Version"] != "2011-06-15" or not re.fullmatch(r"[\w+=,.@-]{2,64}", form["RoleSessionName"]):
            raise Refusal(400, "ValidationError", "Version or RoleSessionName")
        if form["Action"] == "AssumeRoleWithWebIdentity":
            if self.world.web_tokens.get(form["WebIdentityToken"]) != role:
                raise Refusal(400, "InvalidIdentityToken", "Couldn't retrieve verification key")
        else:
            self.check_trust(check_signature(self.world, self, "sts").principal, role, form.get("ExternalId"))
        return self.answer(form["Action"], role, form.get("DurationSeconds"))

    def check_trust(self, who, role, external_id):
        if self.world.trust.get(role) != (who, external_id):
            raise Refusal(403, "AccessDenied", f"User: {who} is not authorized to perform: sts:AssumeRole on {role}")

    def answer(self, action, role, duration):
        keys = self.world.issue("role " + role, int(duration) if duration else None)
        members = {"AccessKeyId": keys.access, "SecretAccessKey": keys.secret, "SessionToken": keys.token,
                   "Expiration": stamp(keys.expires_at).strftime("%Y-%m-%dT%H:%M:%SZ")}
        inner = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in members.items())
        return 200, {"Content-Type": "text/xml"}, (
            f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result><AssumedRoleUser>'
            f"<Arn>{escape(role)}</Arn></AssumedRoleUser><Credentials>{inner}</Credentials></{action}Result>"
            f"<ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></{action}Response>").encode()

    def refuse(self, refusal):
        return refusal.status, {"Content-Type": "text/xml"}, (
            f"<ErrorResponse><Error><Type>Sender</Type><Code>{refusal.code}</Code><Message>{escape(refusal.message)}"
            f"</Message></Error><RequestId>1</RequestId></ErrorResponse>").encode()


def keys_json(keys, **more):
    return json.dumps({"AccessKeyId": keys.access, "SecretAccessKey": keys.secret, "Token": keys.token,
                       "Expiration": stamp(keys.expires_at).strftime("%Y-%m-%dT%H:%M:%SZ"), **more}).encode()


class ContainerDoor(Door):
    def serve(self):
        principal = self.world.container_tokens.get(self.headers.get("Authorization"))
        if principal is None or self.command != "GET" or self.headers.get("Accept") != "application/json":
            raise Refusal(401, "InvalidTokenException", "the token is not one of a pod")
        return 200, {"Content-Type": "application/json"}, keys_json(self.world.issue(principal))


class ImdsDoor(Door):
    """Below /v1 there is version 1 only, elsewhere version 2 only."""

    def serve(self):
        path = self.path.removeprefix("/v1")
        old = path != self.path
        if path == "/latest/api/token" and self.command == "PUT" and not old:
            if self.headers.get("X-aws-ec2-metadata-token-ttl-seconds") != "21600":
                raise Refusal(400, "BadRequest", "the life of the token")
            token = secrets.token_urlsafe(42) + "=="
            self.world.imds_tokens.add(token)
            return 200, {}, token.encode()
        if self.command != "GET":
            return 405, {}, b""
        if not old and self.headers.get("X-aws-ec2-metadata-token") not in self.world.imds_tokens:
            raise Refusal(401, "Unauthorized", "no token")
        if path == "/latest/meta-data/iam/security-credentials/":
            return 200, {}, b"the-role"
        if path == "/latest/meta-data/iam/security-credentials/the-role":
            return 200, {}, keys_json(self.world.issue("instance " + ("v1" if old else "v2")), Code="Success")
        return 404, {}, b""


class GateDoor(Door):
    def serve(self):
        owner = self.server.owner
        self.world.note_use(owner.service, check_signature(self.world, self, owner.service))
        inside = http.client.HTTPConnection(owner.target, timeout=30)
        try:
            inside.request(self.command, self.path, self.body,
                           {name: value for name, value in self.headers.items() if name.lower() != "host"})
            answer = inside.getresponse()
            body = answer.read()
            return answer.status, {name: value for name, value in answer.getheaders()
                                   if name.lower() in ("content-type", "x-amz-crc32", "x-amzn-requestid")}, body
        finally:
            inside.close()

    def refuse(self, refusal):
        return 400, {"Content-Type": "application/x-amz-json-1.0"}, json.dumps(
            {"__type": "com.amazon.coral.service#" + refusal.code, "message": refusal.message}).encode()
