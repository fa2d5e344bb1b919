#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The released program resolves names in an empty root: no NSS, no library, /etc/resolv.conf and /etc/hosts alone.

Each test has DNS servers of ours (dns.py) and an HTTP server in the place of AWS, in a network namespace without any
other network. A test passes when the request of the sidecar arrives at the HTTP server, or its log names the problem.
"""

import http.server
import json
import os
import socket
import sys
import threading
import time

import released
from lib import Sidecar, call, check, check_equal, main, test, wait_until
from dns import Server

# As a cluster of Kubernetes has it: the address of its DNS, and the search list of a pod in the namespace shop.
CLUSTER_DNS, OTHER_DNS = "10.96.0.10", "10.96.0.11"
SEARCH = ("shop.svc.cluster.local", "svc.cluster.local", "cluster.local")
CLUSTER = f"nameserver {CLUSTER_DNS}\nsearch {' '.join(SEARCH)}\noptions ndots:5\n"
HOSTS = "127.0.0.1 localhost\n::1 localhost\n"


class Aws(http.server.ThreadingHTTPServer):
    """Knows no table and no stream, and keeps what it was asked for: (Host, X-Amz-Target)."""
    daemon_threads = True

    def __init__(self, address):
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.asked = []
        super().__init__((address, 0), AwsHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]

    def handle_error(self, *_):
        """Connections break when a sidecar ends."""


class AwsHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.headers["Host"], self.headers["X-Amz-Target"]))
        body = json.dumps({"__type": "InternalServerError", "message": "a test"}).encode()
        self.send_response(500)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class House:
    """An empty root with its two files, one DNS server, one AWS, and a sidecar that looks for AWS at `name`."""

    def __init__(self, folder, name, zone=None, resolv=CLUSTER, hosts=HOSTS, aws="127.0.0.1", silent=False):
        root = released.unpack_root(folder)
        for path, text in ("etc/resolv.conf", resolv), ("etc/hosts", hosts):
            with open(os.path.join(root, path), "w", encoding="ascii") as file:
                file.write(text)
        released.contain(folder, root)
        self.name, self.aws = name, Aws(aws)
        self.dns = Server(CLUSTER_DNS, zone or {}, silent)
        url = f"http://{name}:{self.aws.port}"
        env = {"AWS_ENDPOINT_URL_DYNAMODB": url, "AWS_ENDPOINT_URL_KINESIS": url, "AWS_REGION": "us-east-1",
               "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "for-tests-only"}
        self.sidecar = Sidecar(folder, env=env, stream="orders", application="orders").start(ready=False)

    def arrives(self):
        """Waits for a request, and looks at its Host."""
        wait_until(lambda: self.aws.asked, 20, f"a request to {self.name} arrives; the log says\n{self.sidecar.said()}")
        check_equal(self.aws.asked[0][0], f"{self.name}:{self.aws.port}", "Host of the request")

    def __enter__(self):
        return self

    def __exit__(self, problem, *_):
        self.dns.close()
        self.aws.shutdown()
        self.aws.server_close()
        if problem is None:
            self.sidecar.stop()

    def names(self):
        """The names that the DNS server was asked for, each once, in order."""
        return list(dict.fromkeys(name for _, name, _ in self.dns.asked))

    def failure(self, words, seconds=20):
        """The first line of the log with `words`, and how long it took."""
        begun = time.monotonic()

        def line():
            return next((line for line in self.sidecar.said().splitlines() if words in line), None)
        return wait_until(line, seconds, f"a line with {words} in the log"), time.monotonic() - begun


@test()
def service_of_another_namespace_is_found_by_the_search_list(folder):
    with House(folder, "kinesis.aws", {"kinesis.aws.svc.cluster.local": {"A": ["127.0.0.1"]}}) as house:
        house.arrives()
        check_equal(house.names()[:2], [f"kinesis.aws.{domain}" for domain in SEARCH[:2]], "names asked for")


@test()
def public_name_with_fewer_than_five_dots_is_found_after_the_search_list(folder):
    name = "kinesis.us-east-1.amazonaws.test"
    with House(folder, name, {name: {"A": ["127.0.0.1"]}}) as house:
        house.arrives()
        check_equal(house.names()[:4], [f"{name}.{domain}" for domain in SEARCH] + [name], "names asked for")


@test()
def name_in_etc_hosts_is_not_asked_for(folder):
    with House(folder, "kinesis.hosts.test", hosts=HOSTS + "127.0.0.1 kinesis.hosts.test\n") as house:
        house.arrives()
        check_equal(house.names(), [], "names asked for")


@test()
def truncated_answer_comes_again_by_tcp(folder):
    name = "many.test"
    addresses = [f"127.0.0.{last}" for last in range(1, 81)]
    with House(folder, name, {name: {"A": addresses}}, resolv=f"nameserver {CLUSTER_DNS}\n", aws="0.0.0.0") as house:
        house.arrives()
        roads = [road for road, asked, kind in house.dns.asked if (asked, kind) == (name, "A")]
        # The clients of Kinesis and DynamoDB may ask at the same time.
        check_equal((roads[0], set(roads)), ("udp", {"udp", "tcp"}), "roads of the question")


@test()
def name_with_ipv6_alone_is_reached(folder):
    with House(folder, "six.test", {"six.test": {"AAAA": ["::1"]}}, aws="::1") as house:
        house.arrives()


@test()
def ipv6_address_that_nobody_answers_at_does_not_hide_the_ipv4_one(folder):
    with House(folder, "both.test", {"both.test": {"AAAA": ["::1"], "A": ["127.0.0.1"]}}) as house:
        house.arrives()


@test()
def name_that_does_not_exist_is_named_and_found_when_it_exists(folder):
    with House(folder, "late.test", {}) as house:
        line, _ = house.failure("Could not resolve host: late.test")
        print("    " + line)
        check_equal(call(("127.0.0.1", house.sidecar.ops_port), "GET", "/livez").status, 200, "livez meanwhile")
        check_equal(house.aws.asked, [], "requests")
        house.dns.zone["late.test"] = {"A": ["127.0.0.1"]}
        house.arrives()


@test(seconds=60)
def silent_dns_server_is_an_error_in_bounded_time(folder):
    with House(folder, "nowhere.test", silent=True) as house:
        line, seconds = house.failure("Resolving timed out after 3")
        print(f"    {seconds:.1f} s: {line}")
        check_equal(call(("127.0.0.1", house.sidecar.ops_port), "GET", "/livez").status, 200, "livez meanwhile")
        house.dns.silent = False
        house.dns.zone["nowhere.test"] = {"A": ["127.0.0.1"]}
        house.arrives()


@test(seconds=60)
def second_dns_server_answers_for_a_silent_one(folder):
    with Server(OTHER_DNS, {"second.test": {"A": ["127.0.0.1"]}}), \
            House(folder, "second.test", silent=True,
                  resolv=f"nameserver {CLUSTER_DNS}\nnameserver {OTHER_DNS}\n") as house:
        house.arrives()
        check(house.dns.asked, "the silent one is asked, too")


@test()
def host_without_resolv_conf_asks_the_one_on_loopback(folder):
    with Server("127.0.0.1", {"local.test": {"A": ["127.0.0.1"]}}), \
            House(folder, "local.test", resolv="") as house:
        house.arrives()


def network_of_its_own():
    """Starts this program again in a network namespace that has loopback and the addresses of the DNS servers."""
    if os.environ.get("KS_OWN_NETWORK"):
        return
    released.must_be_root()
    addresses = "".join(f" && ip addr add {address}/32 dev lo" for address in (CLUSTER_DNS, OTHER_DNS))
    inside = f"ip link set lo up{addresses} && exec \"$@\""
    program = [sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
    os.execvpe("unshare", ["unshare", "--net", "sh", "-c", inside, "sh", *program], dict(os.environ, KS_OWN_NETWORK="1"))


if __name__ == "__main__":
    network_of_its_own()
    main()
