#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes endpoints.json: where the services are, by the endpoint rules that botocore carries.

    pip install 'botocore==1.44.5'
    tests/vectors/make_endpoints.py > tests/vectors/endpoints.json

Every combination of the parameters below goes through botocore's own rule engine; nothing here knows a host. Each case
has the parameters and either `url` and, where it is not the region, `signing_region`, or `refused`: true. Regions are one
or two of each partition; botocore's partitions that are missing here fail this script.
"""
import itertools
import json
import sys

import botocore
import botocore.session
from botocore.endpoint_provider import EndpointProvider
from botocore.exceptions import EndpointProviderError

REGIONS = ["us-east-1", "eu-central-2", "mx-central-1", "cn-north-1", "us-gov-east-1", "us-gov-west-1", "us-iso-east-1",
           "us-isob-east-1", "us-isof-south-1", "eu-isoe-west-1", "eusc-de-east-1"]
ACCOUNT = "123456789012"
MODES = ["preferred", "disabled", "required"]

loader = botocore.session.get_session().get_component("data_loader")
partitions = loader.load_data("partitions")


def partition_of(region):
    for partition in partitions["partitions"]:
        if region in partition["regions"]:
            return partition["id"]
    raise SystemExit(f"botocore knows no partition of {region}")


def provider_of(service):
    return EndpointProvider(ruleset_data=loader.load_service_model(service, "endpoint-rule-set-1"),
                            partition_data=partitions)


def answer(provider, parameters):
    try:
        endpoint = provider.resolve_endpoint(**parameters)
    except EndpointProviderError:
        return {"refused": True}
    result = {"url": endpoint.url}
    for scheme in endpoint.properties.get("authSchemes", []):
        if scheme["signingRegion"] != parameters["Region"]:
            result["signing_region"] = scheme["signingRegion"]
    return result


def case(provider, service, region, fips, dualstack, url=None, account=None, mode=None, arn=None, use=None):
    parameters = {"Region": region, "UseFIPS": fips, "UseDualStack": dualstack}
    own = {"Endpoint": url, "AccountId": account, "AccountIdEndpointMode": mode, "StreamARN": arn, "OperationType": use}
    parameters.update({name: value for name, value in own.items() if value is not None})
    told = {"service": service, "region": region, "fips": fips, "dualstack": dualstack, "url_set": url,
            "account": account, "mode": mode, "stream_arn": arn, "use": use}
    return {**{name: value for name, value in told.items() if value}, **answer(provider, parameters)}


def cases():
    kinesis, dynamodb, sts = provider_of("kinesis"), provider_of("dynamodb"), provider_of("sts")
    sqs, sns = provider_of("sqs"), provider_of("sns")
    switches = [False, True]
    for region, fips, dualstack in itertools.product(REGIONS, switches, switches):
        yield case(sts, "sts", region, fips, dualstack)
        yield case(sqs, "sqs", region, fips, dualstack)
        yield case(sns, "sns", region, fips, dualstack)
        yield case(kinesis, "kinesis", region, fips, dualstack)
        arn = f"arn:{partition_of(region)}:kinesis:{region}:{ACCOUNT}:stream/name"
        for use in ("control", "data"):
            yield case(kinesis, "kinesis", region, fips, dualstack, arn=arn, use=use)
        for mode, account in itertools.product(MODES, [None, ACCOUNT]):
            yield case(dynamodb, "dynamodb", region, fips, dualstack, account=account, mode=mode)
    for fips, dualstack in itertools.product(switches, switches):
        yield case(dynamodb, "dynamodb", "local", fips, dualstack, mode="preferred")
        for service, provider in (("kinesis", kinesis), ("dynamodb", dynamodb), ("sts", sts)):
            yield case(provider, service, "us-east-1", fips, dualstack, url="https://vpce-1.example.com")
    for arn in ("arn:aws:kinesis:us-east-1:123456789012:", "arn:aws:dynamodb:us-east-1:123456789012:table/t",
                "arn:aws-cn:kinesis:us-east-1:123456789012:stream/s", "arn:aws:kinesis:us-east-1::stream/s",
                "arn:aws:kinesis:us-east-1:123456789012:table/s", "arn:aws:kinesis"):
        yield case(kinesis, "kinesis", "us-east-1", False, False, arn=arn, use="data")
    yield case(kinesis, "kinesis", "us-east-1", False, False, url="http://localhost:4567", use="data",
               arn="arn:aws:kinesis:us-east-1:123456789012:stream/s")


missing = {p["id"] for p in partitions["partitions"]} - {partition_of(region) for region in REGIONS}
if missing:
    raise SystemExit(f"no region of {', '.join(sorted(missing))} is asked for")
found = list(cases())
lines = ",\n".join("  " + json.dumps(one) for one in found)
sys.stdout.write('{"origin": "make_endpoints.py with botocore %s", "cases": [\n%s\n]}\n' % (botocore.__version__, lines))
