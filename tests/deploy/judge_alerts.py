# SPDX-License-Identifier: Apache-2.0
"""Alerts and queries: their metrics exist, their syntax is right, and each alert fires when it should, and only then."""

import json
import os
import re

import world
from judge_charts import ORDERS, APP_IMAGE, WAYS
from world import CHART, PROMTOOL, equal, load, metric_names, of_kind, read, render, run

RULES = {"kinesisSidecar": {**ORDERS, "fullnameOverride": "orders", "rules": {"enabled": True}}, "app": APP_IMAGE}
FLAT = "x60"
# A sidecar that is well, for an hour: series -> values, one a minute.
WELL = {
    "ready": "1" + FLAT, "draining": "0" + FLAT, "start_time_seconds": "1000" + FLAT, "millis_behind_latest": "200" + FLAT,
    "expired_gap_seconds": "0" + FLAT, "blocked_leases": "0" + FLAT, "sessions": "1" + FLAT, "checkpoint_age_seconds": "1" + FLAT,
    "store_up": "1" + FLAT, "source_up": "1" + FLAT, "lease_deadline_seconds": "9" + FLAT, "leases_held": "2" + FLAT,
    "leases_lost_total": "0" + FLAT, "names_full": "0" + FLAT, "dead_letters_total": "3" + FLAT,
    "dead_letter_failures_total": "0" + FLAT, "records_dropped_total": "0" + FLAT,
    "aws_throttles_total": "0" + FLAT, "aws_requests_total": "0+600" + FLAT,
    "aws_credentials_expiry_timestamp_seconds": "7200" + FLAT,
}
# What happens -> (series that differ, or are gone; alerts that fire after the hour).
STORIES = {
    "all is well": ({}, ()),
    "no metrics": ({"ready": None}, ("Absent",)),
    "not ready": ({"ready": "0" + FLAT}, ("NotReady",)),
    "not ready for three minutes": ({"ready": "1x57 0x2"}, ()),
    "draining": ({"ready": "0" + FLAT, "draining": "1" + FLAT}, ()),
    "restarts": ({"start_time_seconds": "1000x20 2000x10 3000x10 4000x10 5000x10"}, ("Restarts",)),
    "three restarts": ({"start_time_seconds": "1000x20 2000x10 3000x10 4000x20"}, ()),
    "behind": ({"millis_behind_latest": "400000" + FLAT}, ("Behind",)),
    "behind for five minutes": ({"millis_behind_latest": "200x54 400000x5"}, ()),
    "falling behind": ({"millis_behind_latest": "61000+12000" + FLAT}, ("Behind", "FallingBehind")),
    "catching up": ({"millis_behind_latest": "290000-4000" + FLAT}, ()),
    "behind by half of the retention": ({"millis_behind_latest": "43300000" + FLAT}, ("Behind", "Retention")),
    "records expired": ({"expired_gap_seconds": "0x50 5x10"}, ("RecordsExpired",)),
    "blocked": ({"blocked_leases": "1" + FLAT}, ("Blocked",)),
    "no session": ({"sessions": "0" + FLAT}, ("NoSession",)),
    "checkpoints are late": ({"checkpoint_age_seconds": "150" + FLAT}, ("CheckpointStale",)),
    "the lease table is down": ({"store_up": "1x50 0x10"}, ("LeaseTableDown",)),
    "the lease table was down": ({"store_up": "0x50 1x10"}, ()),
    "the stream is down": ({"source_up": "1x50 0x10"}, ("StreamDown",)),
    "heartbeats are late now and then": ({"lease_deadline_seconds": "9 9 9 9 1" + " 9 9 9 9 1" * 12}, ("HeartbeatLate",)),
    "no leases": ({"lease_deadline_seconds": "0" + FLAT, "leases_held": "0" + FLAT}, ()),
    "the first leases": ({"lease_deadline_seconds": "0x50 9x10", "leases_held": "0x50 2x10"}, ()),
    "leases are lost": ({"leases_lost_total": "0x50 5x10"}, ("LeasesLost",)),
    "a lease is lost": ({"leases_lost_total": "0x50 1x10"}, ()),
    "names are full": ({"names_full": "1" + FLAT}, ("NamesFull",)),
    "a dead letter": ({"dead_letters_total": "3x50 4x10"}, ("DeadLetters",)),
    "dead letters fail": ({"dead_letter_failures_total": "0+1" + FLAT}, ("DeadLettersFail",)),
    "a dead letter failed once": ({"dead_letter_failures_total": "0x50 1x10"}, ()),
    "records are dropped": ({"records_dropped_total": "0x50 1x10"}, ("RecordsDropped",)),
    "throttled": ({"aws_throttles_total": "0+60" + FLAT}, ("Throttled",)),
    "throttled a little": ({"aws_throttles_total": "0+12" + FLAT}, ()),
    "credentials expire": ({"aws_credentials_expiry_timestamp_seconds": "3800" + FLAT}, ("Credentials",)),
}


def series(name, job, pod):
    labels = f'job="{job}",namespace="shop",pod="{pod}",instance="{pod}:8991"'
    if name.startswith("aws_"):
        labels += ',service="dynamodb",operation="UpdateItem"' if "credentials" not in name else ',service="",role=""'
    elif name != "start_time_seconds":
        labels += ',subscription="orders-app"'
    return f"kinesis_sidecar_{name}{{{labels}}}"


def input_of(values, job="shop/orders", pod="orders-0"):
    return [{"series": series(name, job, pod), "values": text} for name, text in values.items() if text is not None]


def test_of(name, inputs, alerts):
    samples = [{"labels": f'{{alertname="KinesisSidecar{alert}"}}', "value": 1} for alert in alerts]
    return {"name": name, "interval": "1m", "input_series": inputs, "promql_expr_test": [
        {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": "1h", "exp_samples": samples}]}


def tests():
    found = [test_of(name, input_of({**WELL, **values}), alerts) for name, (values, alerts) in STORIES.items()]
    two = input_of({**WELL, "sessions": "0" + FLAT}) + input_of(WELL, pod="orders-1")
    found.append(test_of("one of two pods has a session", two, ()))
    ill = {name: "0" + FLAT for name in ("ready", "store_up", "source_up")}
    found.append(test_of("another app is ill", input_of(WELL) + input_of(ill, job="shop/billing"), ()))
    return found


def of_chart():
    return of_kind(render(CHART, RULES), "PrometheusRule")["spec"]["groups"]


def of_manifest():
    return load("deploy/kubernetes/prometheusrule.yaml")[0]["spec"]["groups"]


def judge_stories(name, groups):
    """promtool evaluates the rules minute by minute."""
    folder = os.path.join(world.WORK, name)
    os.makedirs(folder)
    for path, content in (("rules.yaml", {"groups": groups}),
                          ("tests.yaml", {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests()})):
        with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
            json.dump(content, file)
    said = run(PROMTOOL, "check", "rules", "--lint-fatal", "rules.yaml", cwd=folder)
    assert f"SUCCESS: {len(groups[0]['rules'])} rules found" in said, said
    run(PROMTOOL, "test", "rules", "tests.yaml", cwd=folder)


def judge_every_alert_fires():
    fired = {"KinesisSidecar" + alert for _, alerts in STORIES.values() for alert in alerts}
    equal(fired, {rule["alert"] for rule in of_chart()[0]["rules"]})


def judge_annotations(groups):
    headings = {heading.lower() for heading in re.findall(r"^#+ (\w+)$", read("docs/KUBERNETES.md"), re.MULTILINE)}
    for rule in groups[0]["rules"]:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"].endswith(".") and rule["annotations"]["description"].endswith(".")
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page.endswith("/docs/KUBERNETES.md"), page
        assert anchor in headings, f"docs/KUBERNETES.md has no heading {rule['alert']}"


def judge_metrics(query):
    """Each metric is in docs/METRICS.md: both what has its prefix, and what has a selector."""
    used = set(re.findall(r"\bkinesis_sidecar_\w+", query)) | set(re.findall(r"(\w+)\{", query))
    assert used, f"no metric in {query}"
    equal(used - metric_names(), set(), "not in docs/METRICS.md")


def judge_same():
    """The manifest has the rules of the chart, but for what selects the series."""
    text = json.dumps(of_chart()).replace('job=\\"shop/orders\\"', 'job=~\\".+/orders\\"')
    equal(of_manifest(), json.loads(text))


def judge_values():
    values = world.json.loads(json.dumps(RULES))
    values["kinesisSidecar"]["options"] = {"lease_duration_ms": 30000}
    values["kinesisSidecar"]["rules"] = {"enabled": True, "behindSeconds": 60, "retentionHours": 168, "selector": 'app="x"',
                                         "disabled": ["KinesisSidecarBlocked"], "runbookUrl": "https://wiki.example.com/x"}
    rules = {rule["alert"]: rule for rule in of_kind(render(CHART, values), "PrometheusRule")["spec"]["groups"][0]["rules"]}
    equal(rules["KinesisSidecarBehind"]["expr"], 'kinesis_sidecar_millis_behind_latest{app="x"} > 60000')
    equal(rules["KinesisSidecarRetention"]["expr"], 'kinesis_sidecar_millis_behind_latest{app="x"} > 302400000')
    assert rules["KinesisSidecarHeartbeatLate"]["expr"].endswith("[10m:30s]) < 6")
    assert "KinesisSidecarBlocked" not in rules
    equal(rules["KinesisSidecarBehind"]["annotations"]["runbook_url"],
          "https://wiki.example.com/x#kinesissidecarbehind")


def queries():
    found = {f"{rule['alert']} of the {name}": rule["expr"] for name, groups in (("chart", of_chart()), ("manifest", of_manifest()))
             for rule in groups[0]["rules"]}
    scaled = [of_kind(render(*WAYS[way]), "ScaledObject") for way in ("everything", "metrics-api")]
    scaled += [of_kind(load(f"deploy/kubernetes/scaledobject-{name}.yaml"), "ScaledObject") for name in ("prometheus", "metrics-api")]
    for number, document in enumerate(scaled):
        metadata = document["spec"]["triggers"][0]["metadata"]
        found[f"trigger {number}"] = metadata.get("query") or metadata["valueLocation"]
    return found


def judge(cases):
    cases.case("chart: promtool check rules, test rules", lambda: judge_stories("rules-chart", of_chart()))
    cases.case("manifest: promtool check rules, test rules", lambda: judge_stories("rules-manifest", of_manifest()))
    cases.case("each alert fires in a story", judge_every_alert_fires)
    cases.case("chart: annotations and runbooks", lambda: judge_annotations(of_chart()))
    cases.case("manifest: annotations and runbooks", lambda: judge_annotations(of_manifest()))
    for name, query in queries().items():
        cases.case(f"{name}: its metrics exist", judge_metrics, query)
    cases.case("the manifest has the rules of the chart", judge_same)
    cases.case("the values of the rules", judge_values)
