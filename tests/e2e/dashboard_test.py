#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard as a page: its headers, which orders it gives, and that all it asks for is there. What it looks
like in a browser is tests/e2e/browser."""

import base64
import hashlib
import html.parser
import os
import re

from lib import ROOT, Sidecar, call, check, check_equal, main, test


class Page(html.parser.HTMLParser):
    """The scripts and styles of a page, and everything that an attribute says."""

    def __init__(self, text):
        super().__init__()
        self.inside, self.texts, self.attributes = "", {"script": [], "style": []}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.inside = tag
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside in self.texts:
            self.texts[self.inside].append(data)


def policy_of(answer):
    return {words[0]: words[1:] for words in (part.split() for part in answer.headers["Content-Security-Policy"].split(";"))}


def hash_of(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


@test()
def it_is_one_page_that_can_load_nothing_else(folder):
    sidecar = Sidecar.local(folder).start()
    answer = sidecar.call("GET", "/")
    check_equal((answer.status, answer.headers["Content-Type"]), (200, "text/html; charset=utf-8"), answer)
    check_equal(answer.headers["X-Content-Type-Options"], "nosniff", "type")
    check_equal(answer.headers["Cache-Control"], "no-store", "cache")
    check_equal(answer.headers["Referrer-Policy"], "no-referrer", "referrer")
    page = Page(answer.body.decode())
    policy = policy_of(answer)
    check_equal(policy["default-src"], ["'none'"], "what is not named")
    for kind in ("script", "style"):
        check_equal([hash_of(text) for text in page.texts[kind]], policy[kind + "-src"], kind)
    check_equal((policy["connect-src"], policy["frame-ancestors"], policy["form-action"], policy["base-uri"]),
                (["'self'"], ["'none'"], ["'none'"], ["'none'"]), "policy")
    # No address of anybody, no handler or style in an attribute: the policy would refuse them.
    check("//" not in re.sub(r"^\s*//.*|\s// .*", "", answer.body.decode(), flags=re.MULTILINE), "an address in the page")
    for tag, name, value in page.attributes:
        check(not name.startswith("on") and name not in ("style", "action"), tag, name)
        check(name not in ("src", "href") or value == "data:,", tag, name, value)
    sidecar.stop()


@test()
def what_it_shows_is_text_and_what_it_asks_for_is_there(folder):
    sidecar = Sidecar.local(folder).start()
    script = "".join(Page(sidecar.call("GET", "/").body.decode()).texts["script"])
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval", "Function(", "srcdoc"):
        check(way not in script, way)
    check_equal(re.findall(r"method: .*?[,}]", script), ['method: "POST",'], "one place gives orders")
    orders = sorted(set(re.findall(r'path: (?:\(of\) => )?["`](/v1/[^"`]+)', script)))
    check_equal(orders, ["/v1/dead-letters/${encodeURIComponent(of)}/discard", "/v1/dead-letters/${encodeURIComponent(of)}/redrive",
                         "/v1/dead-letters/redrive", "/v1/drain", "/v1/leases/${encodeURIComponent(of)}/release", "/v1/pause",
                         "/v1/resume", "/v1/seek"], "orders")
    for path in orders:
        path = path.replace("${encodeURIComponent(of)}", "x")
        check("POST" in sidecar.call("OPTIONS", path).headers["Allow"], path)
    paths = sorted(set(re.findall(r'"(/v1/[a-z-]+)"', script)) - set(orders))
    check_equal(paths, ["/v1/dead-letters", "/v1/events", "/v1/sessions", "/v1/shards", "/v1/status", "/v1/workers"], "paths")
    for path in paths:
        check_equal(sidecar.call("OPTIONS", path).headers["Allow"], "GET", path)
    # Each name of a trouble has its section in the documents.
    with open(os.path.join(ROOT, "docs", "TROUBLE.md"), encoding="utf-8") as file:
        sections = set(re.findall(r"^## ([a-z-]+)$", file.read(), flags=re.MULTILINE))
    kinds = re.search(r"const KINDS = \[(.*?)\]", script, flags=re.DOTALL).group(1).replace('"', "").replace("_", "-").split(", ")
    named = set(kinds) | set(re.findall(r'section: "([a-z-]+)"', script))
    check_equal(named, sections, "sections of docs/TROUBLE.md")
    told = sidecar.get("/v1/openapi.json")["components"]["schemas"]["Shard"]["properties"]["trouble"]["enum"]
    check_equal(set(told) - {"none", None}, {kind.replace("-", "_") for kind in kinds}, "kinds of trouble")
    told = sidecar.get("/v1/openapi.json")
    for path in ("/v1/shards", "/v1/workers", "/v1/sessions", "/v1/dead-letters"):
        names = [param["name"] for param in told["paths"][path]["get"]["parameters"]]
        check({"page_size", "page_token", "subscription"} <= set(names), path, names)
    # What it takes of the answers is there, by the document.
    for name, schema in (("shard", "Shard"), ("worker", "Worker"), ("status", "Status"), ("letter", "DeadLetter")):
        members = set(re.findall(rf"\b{name}\.([a-z]+(?:_[a-z]+)*)\b", script)) - {"entries"}
        unknown = members - set(told["components"]["schemas"][schema]["properties"])
        check_equal(unknown, set(), name)
    one = set(re.findall(r"\bone\.([a-z]+(?:_[a-z]+)*)\b", script))
    known = {member for schema in ("Session", "SubscriptionStatus") for member in told["components"]["schemas"][schema]["properties"]}
    check_equal(one - known, set(), "session, subscription")
    check({"share", "salt", "filter"} <= one, "what a session is for", one)
    sidecar.stop()


@test()
def strangers_do_not_get_it(folder):
    sidecar = Sidecar.local(folder).start()
    check_equal(sidecar.call("GET", "/", headers={"Host": "evil.example"}).status, 403, "a name that was bound anew")
    check_equal(sidecar.call("GET", "/", headers={"Sec-Fetch-Site": "cross-site"}).status, 403, "a link of another site")
    check_equal(sidecar.call("GET", "/", headers={"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}).status, 200, "a person")
    check_equal(sidecar.call("POST", "/").status, 405, "it is read")
    check_equal(sidecar.ops("/").status, 404, "the ops port shows no data")
    sidecar.stop()


@test()
def with_a_token_the_page_comes_and_the_data_does_not(folder):
    token = os.path.join(folder, "token")
    with open(token, "w", encoding="ascii") as file:
        file.write("secret\n")
    sidecar = Sidecar.local(folder, token_file=token).start()
    address = ("127.0.0.1", sidecar.port)
    check_equal(call(address, "GET", "/").status, 200, "the page, which asks for it")
    for path in ("/v1/status", "//", "/?subscription=app", "/v1/../"):
        check_equal(call(address, "GET", path).status, 401, path)
    check_equal(call(address, "POST", "/").status, 401, "anything but the page")
    sidecar.kill()


if __name__ == "__main__":
    main()
