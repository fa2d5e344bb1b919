# SPDX-License-Identifier: Apache-2.0
"""The charts: rendered for several versions of Kubernetes, judged by their schemas, and what no schema can say."""

import hashlib
import os
import re
import shutil

import world
from world import (APP, CHART, KUBERNETES, LIBRARY, NEW, OLD, conform, documents, environment, equal, named, of_kind, read,
                   refused, render, render_text, run)

APP_IMAGE = {"image": {"registry": "example.com", "repository": "orders", "tag": "1.0.0"}}
ORDERS = {"stream": "orders", "application": "orders-app", "region": "eu-central-1"}
EVERYTHING = {
    "kinesisSidecar": {
        **ORDERS,
        "options": {"initial_position": "trim_horizon", "max_attempts": 10, "memory_budget_bytes": 104857600,
                    "shard_metrics": True, "landlock": False, "retry_backoff_ms": "100,200", "max_record_age_ms": 4000000000,
                    "filter": {"Filters": [{"Pattern": "{\"partitionKey\":[\"a\"]}"}]}},
        "config": {"log_level": "debug"},
        "image": {"digest": "sha256:" + "0" * 64, "pullPolicy": "IfNotPresent"},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "extraEnvFrom": [{"configMapRef": {"name": "more"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
        "state": {"volume": {"persistentVolumeClaim": {"claimName": "orders"}}},
        "readinessProbe": True,
        "opsService": {"enabled": True},
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "rules": {"enabled": True, "labels": {"release": "prometheus"}},
        "scaledObject": {"enabled": True},
        "networkPolicy": {"enabled": True, "opsFrom": [{"podSelector": {}}],
                          "extraIngress": [{"ports": [{"port": 8080}]}], "extraEgress": [{"ports": [{"port": 5432}]}]},
        "pdb": {"enabled": True},
    },
    "app": {**APP_IMAGE, "env": [{"name": "LEVEL", "value": "info"}], "ports": [{"name": "http", "containerPort": 8080}],
            "extra": {"livenessProbe": {"httpGet": {"path": "/", "port": "http"}}}},
    "imagePullSecrets": [{"name": "registry"}],
    "podLabels": {"team": "shop"},
    "podAnnotations": {"note": "x"},
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/orders"}},
    "extraInitContainers": [{"name": "migrate", "image": "example.com/{{ .Release.Name }}:1"}],
    "extraContainers": [{"name": "more", "image": "example.com/more:1"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "nodeSelector": {"kubernetes.io/arch": "arm64"},
    "tolerations": [{"operator": "Exists"}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                                   "whenUnsatisfiable": "ScheduleAnyway"}],
    "priorityClassName": "high",
}
SEVERAL = {"config": {"subscriptions": [{"stream": "a", "application": "a-app"}, {"stream": "b", "application": "b-app"}]}}
# Name -> (chart, values): what is rendered for each version.
WAYS = {
    "app of the library": (APP, {}),
    "least": (CHART, {"kinesisSidecar": ORDERS, "app": APP_IMAGE}),
    "everything": (CHART, EVERYTHING),
    "demo": (CHART, {"demo": {"enabled": True}}),
    "ipv6": (CHART, {"kinesisSidecar": {**ORDERS, "ipv6": True}, "app": APP_IMAGE}),
    "several streams": (CHART, {"kinesisSidecar": SEVERAL, "app": APP_IMAGE}),
    "metrics-api": (CHART, {"kinesisSidecar": {**ORDERS, "instanceMetadata": True, "networkPolicy": {"enabled": True},
                                               "scaledObject": {"enabled": True, "trigger": "metrics-api"}},
                            "app": APP_IMAGE}),
    "objects of the library": (APP, {"kinesisSidecar": {
        name: {"enabled": True} for name in ("opsService", "podMonitor", "rules", "scaledObject", "networkPolicy", "pdb")}}),
}


def sidecar_and_spec(way, version):
    chart, values = WAYS[way]
    spec = of_kind(render(chart, values, version), "Deployment")["spec"]["template"]["spec"]
    return (named(spec.get("initContainers"), "kinesis-sidecar"), named(spec["containers"], "kinesis-sidecar"), spec)


def judge_mode(way, version):
    """Native from 1.29 on, the first ordinary container before; the app waits for it in both."""
    native, ordinary, spec = sidecar_and_spec(way, version)
    has_native = tuple(int(part) for part in version.split(".")[:2]) >= (1, 29)
    container = native if has_native else ordinary
    assert container and (native is None) != (ordinary is None), "one sidecar, at one place"
    if has_native:
        equal(container["restartPolicy"], "Always")
        assert "postStart" not in container["lifecycle"]
        assert spec["initContainers"][0] is container, "before the app's own init containers"
    else:
        assert "restartPolicy" not in container, "it would be ignored, or refused"
        assert spec["containers"][0] is container, "the kubelet starts the next container after postStart of the first"
        equal(container["lifecycle"]["postStart"]["exec"]["command"],
              ["/kinesis-sidecar", "wait", "--timeout-ms", "60000"])
    equal(container["lifecycle"]["preStop"]["exec"]["command"], ["/kinesis-sidecar", "drain"])
    equal(container["startupProbe"]["httpGet"], {"path": "/startupz", "port": "ops"})
    equal(container["startupProbe"]["failureThreshold"] * container["startupProbe"]["periodSeconds"], 60)
    equal(container["livenessProbe"]["httpGet"], {"path": "/livez", "port": "ops"})
    equal("readinessProbe" in container, way == "everything")
    equal(container["ports"], [{"name": "ops", "containerPort": 8991, "protocol": "TCP"}])
    assert "cpu" not in container["resources"].get("limits", {}), "a throttled sidecar misses heartbeats"
    equal(container["securityContext"]["readOnlyRootFilesystem"], True)
    equal(container["securityContext"]["runAsUser"], 65532)
    assert spec["terminationGracePeriodSeconds"] >= 60


def judge_environment(way):
    container = sidecar_and_spec(way, NEW)[0]
    found = environment(container)
    equal(found["KINESIS_SIDECAR_WORKER_ID"], None)
    worker = named(container["env"], "KINESIS_SIDECAR_WORKER_ID")
    equal(worker["valueFrom"]["fieldRef"]["fieldPath"], "metadata.name")
    loopback, everywhere = ("[::1]", "[::]") if way == "ipv6" else ("127.0.0.1", "0.0.0.0")
    equal(found["KINESIS_SIDECAR_LISTEN"], f"{loopback}:8990,unix:/run/kinesis-sidecar/api.sock")
    equal(found["KINESIS_SIDECAR_OPS_LISTEN"], f"{everywhere}:8991")
    equal(found["KINESIS_SIDECAR_LOG_FORMAT"], "json")
    equal(found.get("AWS_EC2_METADATA_DISABLED"), None if way == "metrics-api" else "true")
    app = named(sidecar_and_spec(way, NEW)[2]["containers"], "app")
    equal(environment(app)["KINESIS_SIDECAR_URL"], f"http://{loopback}:8990")
    assert not [name for name in environment(app) if name.startswith("AWS_")], "the app has no AWS"
    mounts = {mount["name"] for mount in container["volumeMounts"] + app["volumeMounts"]}
    volumes = {volume["name"] for volume in sidecar_and_spec(way, NEW)[2]["volumes"]}
    assert mounts <= volumes, f"mounted and not there: {mounts - volumes}"


def judge_options():
    """Numbers and booleans of YAML arrive as the options spell them."""
    container = sidecar_and_spec("everything", NEW)[0]
    found = environment(container)
    for name, wanted in (("MAX_ATTEMPTS", "10"), ("MEMORY_BUDGET_BYTES", "104857600"), ("MAX_RECORD_AGE_MS", "4000000000"),
                         ("SHARD_METRICS", "on"), ("LANDLOCK", "off"), ("RETRY_BACKOFF_MS", "100,200"),
                         ("FILTER", '{"Filters":[{"Pattern":"{\\"partitionKey\\":[\\"a\\"]}"}]}'),
                         ("STREAM", "orders"), ("APPLICATION", "orders-app"), ("STATE_DIR", "/data"),
                         ("CONFIG", "/etc/kinesis-sidecar/config.json")):
        equal(found["KINESIS_SIDECAR_" + name], wanted, name)
    equal(found["AWS_REGION"], "eu-central-1")
    equal(found["HTTPS_PROXY"], "http://proxy:3128")
    equal(container["envFrom"], [{"configMapRef": {"name": "more"}}])
    equal(container["image"], "example.com/kinesis-sidecar@sha256:" + "0" * 64)
    equal(container["imagePullPolicy"], "IfNotPresent")


def judge_everything():
    found = render(CHART, EVERYTHING)
    equal(sorted(document["kind"] for document in found),
          ["ConfigMap", "Deployment", "NetworkPolicy", "Pod", "PodDisruptionBudget", "PodMonitor", "PrometheusRule",
           "ScaledObject", "Service", "ServiceAccount"])
    deployment = of_kind(found, "Deployment")
    assert "replicas" not in deployment["spec"], "KEDA sets them"
    pod = deployment["spec"]["template"]
    labels = pod["metadata"]["labels"]
    equal(labels["team"], "shop")
    equal(pod["metadata"]["annotations"]["eks.amazonaws.com/skip-containers"], "app")
    equal(pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"], "app")
    config = of_kind(found, "ConfigMap")["data"]["config.json"]
    equal(pod["metadata"]["annotations"]["checksum/kinesis-sidecar"], hashlib.sha256(config.encode()).hexdigest())
    equal(pod["spec"]["imagePullSecrets"], [{"name": "registry"}])
    equal(pod["spec"]["automountServiceAccountToken"], False)
    equal([container["name"] for container in pod["spec"]["initContainers"]], ["kinesis-sidecar", "migrate"])
    equal(named(pod["spec"]["initContainers"], "migrate")["image"], "example.com/orders:1")
    for document in found:
        equal(document["metadata"].get("namespace"), "shop", document["kind"])
    for kind, path in (("Service", ("selector",)), ("PodMonitor", ("selector", "matchLabels")),
                       ("NetworkPolicy", ("podSelector", "matchLabels")),
                       ("PodDisruptionBudget", ("selector", "matchLabels")), ("Deployment", ("selector", "matchLabels"))):
        selector = of_kind(found, kind)["spec"]
        for step in path:
            selector = selector[step]
        assert selector and selector.items() <= labels.items(), f"{kind} selects {selector}, the pods have {labels}"
        assert not selector.items() <= of_kind(found, "Pod")["metadata"]["labels"].items(), f"{kind} selects the test pod"
    account = of_kind(found, "ServiceAccount")
    equal(pod["spec"]["serviceAccountName"], account["metadata"]["name"])
    equal(account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"], "arn:aws:iam::111122223333:role/orders")
    equal(of_kind(found, "ScaledObject")["spec"]["scaleTargetRef"],
          {"kind": "Deployment", "name": deployment["metadata"]["name"]})


def judge_test_pod(way, wanted):
    """`helm test` has an address and no name, and its variable is that of the Service."""
    chart, values = WAYS[way]
    found = render(chart, values)
    pod = of_kind(found, "Pod")
    equal(pod["metadata"]["annotations"]["helm.sh/hook"], "test")
    service = of_kind(found, "Service")["metadata"]["name"]
    variable = "$(" + service.upper().replace("-", "_") + "_SERVICE_HOST)"
    equal(pod["spec"]["containers"][0]["args"], ["wait", "--timeout-ms=60000", "--ops-listen=" + wanted % variable + ":8991"])
    assert "clusterIP" not in of_kind(found, "Service")["spec"], "a headless Service has no such variable"


def judge_global_registry():
    values = {**EVERYTHING, "global": {"imageRegistry": "mirror.example.net"}}
    for document in render(CHART, values) + render(CHART, {"demo": {"enabled": True}, **{"global": values["global"]}}):
        pod = world.pod_of(document)
        for container in (pod["spec"].get("initContainers", []) + pod["spec"]["containers"]) if pod else []:
            if container["name"] in ("kinesis-sidecar", "app", "ready"):
                assert container["image"].startswith("mirror.example.net/"), container["image"]


def judge_network_policy():
    policy = of_kind(render(*WAYS["everything"]), "NetworkPolicy")["spec"]
    equal(policy["ingress"][0], {"ports": [{"port": 8991, "protocol": "TCP"}], "from": [{"podSelector": {}}]})
    equal(policy["ingress"][1], {"ports": [{"port": 8080}]})
    equal(policy["egress"][-1], {"ports": [{"port": 5432}]})
    blocks = [peer["ipBlock"]["cidr"] for rule in policy["egress"] for peer in rule.get("to", [])]
    equal(blocks, ["169.254.170.23/32", "fd00:ec2::23/128"])
    ports = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    equal(ports, {53, 80, 443, 5432})
    open_one = of_kind(render(*WAYS["metrics-api"]), "NetworkPolicy")["spec"]
    assert "169.254.169.254/32" in str(open_one), "instanceMetadata needs the metadata service"
    assert "from" not in open_one["ingress"][0]


def judge_two_sidecars():
    """Two Deployments of one chart, each with values of its own."""
    chart = world.copy_app("two", "kinesisSidecar", "billingSidecar", {"billingSidecar": {"stream": "b", "application": "b1"}},
                           template='sidecar:\n{{ include "kinesis-sidecar.container" (dict "root" $ "values" .Values.billingSidecar) }}')
    container = documents(render_text(chart, {}))[0]["sidecar"][0]
    equal(environment(container)["KINESIS_SIDECAR_STREAM"], "b")
    equal(container["image"], "example.com/kinesis-sidecar:" + run(world.DEPLOY + "/release/version").strip())


def judge_no_alias():
    chart = world.copy_app("plain", "kinesisSidecar", None, {"kinesis-sidecar-lib": {"stream": "c", "application": "c1"}},
                           template='sidecar:\n{{ include "kinesis-sidecar.container" . }}')
    equal(environment(documents(render_text(chart, {}))[0]["sidecar"][0])["KINESIS_SIDECAR_STREAM"], "c")


def judge_mode_forced():
    for mode, version, key in (("container", NEW, "containers"), ("native", "1.28.0", "initContainers")):
        found = render(APP, {"kinesisSidecar": {"mode": mode}}, version)
        assert named(of_kind(found, "Deployment")["spec"]["template"]["spec"][key], "kinesis-sidecar"), mode


def judge_versions():
    version = run(world.DEPLOY + "/release/version").strip()
    for name in ("kinesis-sidecar", "kinesis-sidecar-lib"):
        chart = world.load("deploy/helm", name, "Chart.yaml")[0]
        equal((chart["version"], chart["appVersion"]), (version, version), name)
        for dependency in chart.get("dependencies", []):
            equal(dependency["version"], version, f"{name} depends on")
    equal(sidecar_and_spec("least", NEW)[0]["image"], f"example.com/kinesis-sidecar:{version}")


def judge_notes():
    """`helm template` renders no notes, and `helm install` asks a cluster: here they are a template like others."""
    chart = os.path.join(world.HELM_WORK, "notes")
    shutil.copytree(CHART, chart)
    with open(os.path.join(chart, "templates", "NOTES.txt"), encoding="utf-8") as file:
        text = file.read()
    with open(os.path.join(chart, "templates", "notes.yaml"), "w", encoding="utf-8") as file:
        file.write('{{- define "notes" }}' + text + '{{ end }}\nkind: Notes\ntext: {{ include "notes" . | toJson }}\n')
    for way, texts in (("least", ("reads orders at $KINESIS_SIDECAR_URL", "names no IAM role", "has no native sidecars",
                                  "helm test --namespace shop orders", "exec deployment/orders-kinesis-sidecar")),
                       ("demo", ("puts a record each second",))):
        notes = of_kind(documents(render_text(chart, WAYS[way][1], OLD)), "Notes")["text"]
        for text in texts:
            assert text in notes, f"{text} is not in\n{notes}"


def judge_lint(chart, values):
    said = run(world.HELM, "lint", "--strict", chart, "--kube-version", NEW, "--values", world.values_file(values))
    assert "0 chart(s) failed" in said, said
    assert not re.search(r"\[(ERROR|WARNING)\]", said), said


def judge_documented():
    """Each value of both charts is told in its values.yaml, and its schema knows it."""
    for name in ("kinesis-sidecar", "kinesis-sidecar-lib"):
        values = set(world.load("deploy/helm", name, "values.yaml")[0])
        properties = set(world.json.loads(read("deploy/helm", name, "values.schema.json"))["properties"])
        equal(values - properties, set(), f"{name}: not in the schema")
        equal(properties - values, {"global"} - values, f"{name}: not in values.yaml")


def judge_page():
    """docs/KUBERNETES.md shows lines of tests/deploy/app, and commands whose values render."""
    page = read("docs/KUBERNETES.md")
    lines = {line.partition("#")[0].strip() for name in ("Chart.yaml", "values.yaml", "templates/deployment.yaml")
             for line in read("tests/deploy/app", name).split("\n")}
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3, "dependency, values, Deployment"
    for line in "".join(blocks).split("\n"):
        line = line.partition("#")[0].strip()
        assert line in lines or line.startswith("repository: file://"), f"tests/deploy/app has no line {line}"
    commands = re.findall(r"^helm install (\w+) deploy/helm/kinesis-sidecar(?: \\\n)? +--set (\S+)", page, re.MULTILINE)
    equal([name for name, _ in commands], ["demo", "orders"])
    for name, values in commands:
        of_kind(documents(run(world.HELM, "template", name, CHART, "--kube-version", NEW, "--set", values)), "Deployment")
    assert '{{ include "kinesis-sidecar.objects" . }}' in page
    for name in re.findall(r"`(\w+)`", re.search(r"Each has a template of its own.*?\.", page, re.DOTALL)[0]):
        assert f'define "kinesis-sidecar.{name}"' in read("deploy/helm/kinesis-sidecar-lib/templates/_objects.tpl") + read(
            "deploy/helm/kinesis-sidecar-lib/templates/_rules.tpl") + read(
            "deploy/helm/kinesis-sidecar-lib/templates/_scaling.tpl"), name


def judge_missing():
    for values, text in (({}, "`app.image.repository` must be set"),
                         ({"app": APP_IMAGE}, "`stream` and `application` must be set"),
                         ({"app": APP_IMAGE, "kinesisSidecar": {"stream": "orders"}}, "`stream` and `application` must be set")):
        said = refused(CHART, values)
        assert text in said, f"{text} is not in {said}"


def judge(cases):
    for way, (chart, values) in WAYS.items():
        for version in KUBERNETES:
            cases.case(f"{way} on {version}: schemas", lambda: conform(render_text(chart, values, version), version, way))
            cases.case(f"{way} on {version}: native or ordinary, probes", judge_mode, way, version)
        cases.case(f"{way}: environment", judge_environment, way)
        cases.case(f"{way}: helm lint", judge_lint, chart, values)
    # Native sidecars are there, behind a feature gate that is off.
    cases.case("least on 1.28.15: native or ordinary, probes", judge_mode, "least", "1.28.15")
    cases.case("library: helm lint", judge_lint, LIBRARY, {})
    cases.case("options are spelled as the sidecar reads them", judge_options)
    cases.case("everything that can be enabled fits together", judge_everything)
    cases.case("helm test asks by an address", judge_test_pod, "least", "%s")
    cases.case("helm test asks by an address of IPv6", judge_test_pod, "ipv6", "[%s]")
    cases.case("global.imageRegistry comes before each registry", judge_global_registry)
    cases.case("the network policy lets AWS, names and credentials through", judge_network_policy)
    cases.case("two sidecars of one chart", judge_two_sidecars)
    cases.case("the library without an alias", judge_no_alias)
    cases.case("mode comes before the version", judge_mode_forced)
    cases.case("versions are those of the release", judge_versions)
    cases.case("NOTES.txt", judge_notes)
    cases.case("values.yaml and schema have the same values", judge_documented)
    cases.case("docs/KUBERNETES.md shows what works", judge_page)
    cases.case("missing values are refused with what to set", judge_missing)
