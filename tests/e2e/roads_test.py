#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ways to AWS: profile files, proxies, TLS with a bundle, and networks that forget their connections."""

import os
import re
import sys

from lib import (HERE, SLOW, FaultProxy, Sidecar, check, check_equal, kinesis, main, make_stream, need_emulators, numbered,
                 pull_all, put_kinesis, test, wait_until)

sys.path.insert(0, os.path.join(os.path.dirname(HERE), "doubles"))
import roads  # noqa: E402

# What this machine may have set for itself.
FORGOTTEN = ("AWS_ENDPOINT_URL_KINESIS", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE",
             "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "AWS_CA_BUNDLE")


def port_of(variable):
    return int(os.environ[variable].rsplit(":", 1)[1])


def sidecar_with(folder, name, env, **options):
    """Like on the emulators, but told where they are by nobody."""
    sidecar = Sidecar.on_emulators(folder, name, **options)
    for variable in FORGOTTEN:
        sidecar.env.pop(variable, None)
    sidecar.env.update(env)
    return sidecar


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def numbers(sidecar, name):
    """The series of a metric: labels as they are written -> number."""
    page = sidecar.ops("/metrics").body.decode()
    found = re.findall(rf"^kinesis_sidecar_{name}{{(.*)}} (.*)$", page, re.MULTILINE)
    return {labels: float(number) for labels, number in found}


def reasons(sidecar):
    return sidecar.ops("/readyz").body.decode()


@test(seconds=60)
def a_profile_and_a_proxy_lead_to_the_services(folder):
    make_stream("roads", 1)
    arn = kinesis("DescribeStreamSummary", StreamName="roads")["StreamDescriptionSummary"]["StreamARN"]
    proxy = roads.Proxy({"kinesis.test": port_of("KS_KINESIS_URL"), "dynamodb.test": port_of("KS_DYNAMODB_URL")})
    config = write(folder, "config", "[profile roads]\nregion = eu-west-3\nservices = emulated\nmax_attempts = 5\n"
                   "[services emulated]\nkinesis =\n  endpoint_url = http://kinesis.test\n"
                   "dynamodb =\n  endpoint_url = http://dynamodb.test:80\n")
    env = {"AWS_CONFIG_FILE": config, "AWS_PROFILE": "roads", "HTTP_PROXY": proxy.url, "NO_PROXY": "other.test"}
    sidecar = sidecar_with(folder, "pod-a", env, stream=arn, application="roads-app").start()

    put_kinesis("roads", numbered(20))
    check_equal(len(pull_all(sidecar, 20)), 20, "records")
    check_equal(set(proxy.hosts), {"kinesis.test", "dynamodb.test"}, "hosts that the proxy saw")
    # The ARN says where the stream is, the profile where the table is.
    scopes = {host: set(re.findall(r"Credential=[^/]+/\d+/([a-z0-9-]+)/", "".join(
        head for head in proxy.heads if head.startswith(f"POST http://{host}"))))
        for host in set(proxy.hosts)}
    check_equal(scopes, {"kinesis.test": {"us-east-1"}, "dynamodb.test": {"eu-west-3"}}, "regions of the signatures")

    requests = numbers(sidecar, "aws_requests_total")
    check(requests['service="kinesis",operation="GetRecords"'] > 0, requests)
    check(requests['service="dynamodb",operation="UpdateItem"'] > 0, requests)
    seconds = numbers(sidecar, "aws_request_duration_seconds_bucket")
    label = 'service="kinesis",operation="GetRecords",le="+Inf"'
    check(0 < seconds[label] <= numbers(sidecar, "aws_requests_total")[label.rsplit(",", 1)[0]], seconds)
    check(numbers(sidecar, "aws_received_bytes_total")['service="kinesis",operation="GetRecords"'] > 0, "bytes")
    check(numbers(sidecar, "aws_credentials_fetched_timestamp_seconds")['service="all",role="none"'] > 1.7e9, "credentials")
    sidecar.stop()


@test(seconds=60)
def a_service_with_tls_is_verified_with_the_bundle_and_through_a_tunnel(folder):
    authority = roads.Authority(folder)
    door = roads.Door(port_of("KS_DYNAMODB_URL"), authority.certificate("DNS:dynamodb.test"))
    proxy = roads.Proxy({"dynamodb.test": door.port})
    env = {"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_DYNAMODB": "https://dynamodb.test",
           "https_proxy": proxy.url.replace("//", "//me:secret@")}
    options = {"source": "local:" + os.path.join(folder, "stream.db"), "leases": "dynamodb", "application": "roads-tls"}

    stranger = sidecar_with(folder, "stranger", env, **options).start(ready=False)
    wait_until(lambda: "certificate" in stranger.said(), 10, "the certificate is refused")
    check(not stranger.is_ready(), reasons(stranger))
    stranger.kill()
    friend = sidecar_with(folder, "friend", {**env, "AWS_CA_BUNDLE": authority.bundle}, **options).start()
    friend.put(numbered(5))
    check_equal(len(pull_all(friend, 5)), 5, "records")
    friend.stop()

    check_equal(set(proxy.hosts), {"dynamodb.test"}, "hosts")
    for head in proxy.heads:
        check(head.startswith("CONNECT dynamodb.test:443 "), head)
        check("Proxy-Authorization: Basic bWU6c2VjcmV0" in head, head)
        check("AWS4" not in head and "X-Amz" not in head, "the proxy saw what is not for it:", head)
    check("secret" not in stranger.said() + friend.said(), "a log shows the password")


@test(seconds=60)
def a_setting_that_cannot_be_ends_the_start_with_a_word(folder):
    torn = write(folder, "torn", "[default]\nregion = us-east-1\nno key, secret\n")
    for variable, value, words in (("AWS_USE_FIPS_ENDPOINT", "yes", "AWS_USE_FIPS_ENDPOINT is not true or false: 'yes'"),
                                   ("HTTPS_PROXY", "socks5://me:secret@host:1", "HTTPS_PROXY is no proxy"),
                                   ("AWS_CONFIG_FILE", torn, "torn: line 3 is neither a section nor a key"),
                                   ("AWS_CA_BUNDLE", "/nowhere/ca.pem", "/nowhere/ca.pem cannot be read"),
                                   ("AWS_ENDPOINT_URL_KINESIS", "localhost:1", "AWS_ENDPOINT_URL_KINESIS is no URL")):
        env = {"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_KINESIS": "http://localhost:1",
               "AWS_ENDPOINT_URL_DYNAMODB": "http://localhost:1", variable: value}
        sidecar = sidecar_with(folder, variable, env).start(ready=False)
        check_equal(sidecar.wait(20), 2, variable)
        check(words in sidecar.said() and "secret" not in sidecar.said(), sidecar.said())


@test(seconds=90)
def a_network_that_forgets_its_connections_costs_no_lease(folder):
    network = FaultProxy(folder, os.environ["KS_DYNAMODB_URL"])
    sidecar = sidecar_with(folder, "pod-a", {"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_DYNAMODB": network.url},
                           source="local:" + os.path.join(folder, "stream.db"), leases="dynamodb", application="roads-half",
                           lease_duration_ms=10000 * SLOW).start()
    sidecar.put(numbered(5))
    pull_all(sidecar, 5)
    wait_until(lambda: sidecar.metric("leases_held") == 4, 10, "all leases are held")

    # Whatever is under way stays mute for ever; what is new flows.
    network.do("drop-answers")
    wait_until(lambda: not network.say("status").endswith("swallowed 0"), 20, "an answer is lost")
    network.do("heal")
    wait_until(lambda: numbers(sidecar, "aws_failures_total").get('service="dynamodb",error="timeout"', 0) > 0, 20,
               "somebody waited in vain")
    asked = sum(numbers(sidecar, "store_requests_total").values())
    wait_until(lambda: sum(numbers(sidecar, "store_requests_total").values()) > asked + 10, 30, "the table is asked again")
    check(sidecar.is_ready(), reasons(sidecar))
    check_equal((sidecar.metric("leases_held"), sidecar.metric("leases_lost_total")), (4, 0), "leases")
    sidecar.put(numbered(5, 5))
    pull_all(sidecar, 5)
    sidecar.stop()


if __name__ == "__main__":
    need_emulators("dynoxide", "kinesis-local")
    main()
