# SPDX-License-Identifier: Apache-2.0
"""Plain manifests, the Kustomize component, and injection."""

import json
import os
import re
import subprocess

import world
from world import (ADMIT, DEPLOY, KUBERNETES, KUSTOMIZE, NEW, SCHEMAS, SIDECAR, conform, documents, environment, equal, load,
                   named, of_kind, pod_of, read, run)
from judge_charts import WAYS
from world import render

PLAIN = sorted(name for name in os.listdir(os.path.join(DEPLOY, "kubernetes")) if name.endswith(".yaml"))
POLICY = "deploy/kubernetes/injection/mutatingadmissionpolicy.yaml"
KYVERNO = "deploy/kubernetes/injection/kyverno.yaml"
EXAMPLE = os.path.join(DEPLOY, "kustomize", "example")
# Versions with native sidecars.
WITH_NATIVE = [version for version in KUBERNETES if int(version.split(".")[1]) >= 29]


def kustomized():
    return run(KUSTOMIZE, "build", EXAMPLE)


def injected(labels, annotations, more=None):
    """A pod as the API server makes it of a plain one."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels},
           "spec": {"containers": [{"name": "app", "image": "a", "env": [{"name": "A", "value": "b"}]},
                                   {"name": "log", "image": "b"}], **(more or {})}}
    if annotations is not None:
        pod["metadata"]["annotations"] = annotations
    path = os.path.join(world.WORK, "policy.yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(of_kind(load(POLICY), "MutatingAdmissionPolicy"), file)
    done = subprocess.run([ADMIT, path, os.path.join(SCHEMAS, NEW, "openapi")], input=json.dumps(pod), text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def pods():
    """Name -> pod of each manifest with a sidecar."""
    found = {}
    for name in PLAIN:
        for document in load("deploy/kubernetes", name):
            if pod_of(document):
                found[f"{name} {document['kind']}"] = pod_of(document)
    found["kustomize"] = of_kind(documents(kustomized()), "Deployment")["spec"]["template"]
    found["MutatingAdmissionPolicy"] = injected({"kinesis-sidecar/inject": "orders-app"}, {
        "kinesis-sidecar/stream": "orders", "kinesis-sidecar/region": "eu-central-1", "kinesis-sidecar/max-attempts": "10"})
    return found


# Values that differ from those of sidecar.yaml on purpose.
DIFFERENT = {
    "job.yaml Job": {"KINESIS_SIDECAR_APPLICATION": "orders-backfill"},
    "job.yaml CronJob": {"KINESIS_SIDECAR_APPLICATION": "orders-nightly"},
}


def judge_pod(name, pod):
    """Each has what sidecar.yaml has."""
    model = named(of_kind(load("deploy/kubernetes/sidecar.yaml"), "Deployment")["spec"]["template"]["spec"]["initContainers"],
                  "kinesis-sidecar")
    container = named(pod["spec"]["initContainers"], "kinesis-sidecar")
    for field in ("restartPolicy", "startupProbe", "livenessProbe", "lifecycle", "ports", "resources"):
        equal(container[field], model[field], field)
    equal(container["image"].rpartition("/")[2], model["image"].rpartition("/")[2])
    assert model["securityContext"].items() <= container["securityContext"].items(), container["securityContext"]
    variables, wanted = environment(container), environment(model)
    if "envFrom" not in container:
        for variable, value in {**wanted, **DIFFERENT.get(name, {})}.items():
            equal(variables.get(variable), value, variable)
    for variable in ("KINESIS_SIDECAR_LISTEN", "KINESIS_SIDECAR_OPS_LISTEN", "AWS_EC2_METADATA_DISABLED"):
        equal(variables[variable], wanted[variable], variable)
    app = named(pod["spec"]["containers"], "app")
    equal(environment(app)["KINESIS_SIDECAR_URL"], "http://127.0.0.1:8990")
    equal(pod["metadata"]["annotations"]["eks.amazonaws.com/skip-containers"], "app")
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]} | {"state"}
    assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def validate(variables):
    """`config validate` of the sidecar itself; folders of the pod are put below a folder of ours."""
    folder = os.path.join(world.WORK, "pod")
    os.makedirs(os.path.join(folder, "run"), exist_ok=True)
    os.makedirs(os.path.join(folder, "data"), exist_ok=True)
    place = {"/run/kinesis-sidecar": folder + "/run", "/data": folder + "/data", "/etc/kinesis-sidecar": folder}
    found = {"PATH": os.environ["PATH"]}
    for name, value in variables.items():
        for old, new in place.items():
            value = re.sub(rf"(?<![\w/]){re.escape(old)}(?=/|$)", new, value if value is not None else "pod-0")
        found[name] = value
    # The webhook of EKS, which gives a service account its role, adds the region where the pod names none.
    found.setdefault("AWS_REGION", "eu-west-1")
    done = subprocess.run([SIDECAR, "config", "validate"], env=found, text=True, capture_output=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "ignored" not in said, f"exit status {done.returncode}: {said}"


def judge_validate_chart(way):
    chart, values = WAYS[way]
    found = render(chart, values)
    for document in found:
        if document["kind"] == "ConfigMap":
            os.makedirs(os.path.join(world.WORK, "pod"), exist_ok=True)
            with open(os.path.join(world.WORK, "pod", "config.json"), "w", encoding="utf-8") as file:
                file.write(document["data"]["config.json"])
    validate(environment(named(of_kind(found, "Deployment")["spec"]["template"]["spec"]["initContainers"], "kinesis-sidecar")))


def judge_validate_pod(pod):
    container = named(pod["spec"]["initContainers"], "kinesis-sidecar")
    variables = environment(container)
    if "envFrom" in container:
        config = of_kind(documents(kustomized()), "ConfigMap")
        equal(container["envFrom"][0]["configMapRef"]["name"], config["metadata"]["name"])
        variables.update(config["data"])
    validate(variables)


def judge_kustomize():
    deployment = of_kind(documents(kustomized()), "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    equal(deployment["metadata"]["name"], "orders")
    equal([container["name"] for container in spec["containers"]], ["app"])
    equal(spec["terminationGracePeriodSeconds"], 60)
    equal(named(spec["initContainers"], "kinesis-sidecar")["image"].partition("/")[0], "registry.example.com")


def judge_injection():
    pod = injected({"kinesis-sidecar/inject": "orders-app"},
                   {"kinesis-sidecar/stream": "orders", "kinesis-sidecar/region": "eu-west-1", "kinesis-sidecar/skip": "app,log",
                    "note": "x"},
                   {"initContainers": [{"name": "migrate", "image": "m"}], "volumes": [{"name": "v", "emptyDir": {}}]})
    equal({container["name"] for container in pod["spec"]["initContainers"]}, {"migrate", "kinesis-sidecar"})
    equal({volume["name"] for volume in pod["spec"]["volumes"]}, {"v", "kinesis-sidecar"})
    for name in ("app", "log"):
        equal(environment(named(pod["spec"]["containers"], name))["KINESIS_SIDECAR_URL"], "http://127.0.0.1:8990")
    equal(environment(named(pod["spec"]["containers"], "app"))["A"], "b")
    equal(pod["metadata"]["annotations"]["eks.amazonaws.com/skip-containers"], "app,log")
    equal(pod["metadata"]["annotations"]["note"], "x")
    found = environment(named(pod["spec"]["initContainers"], "kinesis-sidecar"))
    equal(found["KINESIS_SIDECAR_APPLICATION"], "orders-app")
    equal(found["AWS_REGION"], "eu-west-1")
    equal(found["KINESIS_SIDECAR_INITIAL_POSITION"], "latest")
    conform(json.dumps(pod), NEW, "injected")


def judge_injection_once():
    """A pod that has the sidecar already stays as it is."""
    for field in ("initContainers", "containers"):
        sidecar = {"name": "kinesis-sidecar", "image": "mine"}
        more = {field: [sidecar, {"name": "app", "image": "a"}]}
        pod = injected({"kinesis-sidecar/inject": "a"}, None, more)
        equal(pod["spec"][field], more[field])
        assert "volumes" not in pod["spec"]


def judge_injection_refusal():
    for annotations in (None, {}, {"kinesis-sidecar/stream": "orders"}):
        try:
            injected({"kinesis-sidecar/inject": "a"}, annotations)
        except AssertionError as error:
            assert "no such key: kinesis-sidecar/" in str(error), error
        else:
            raise AssertionError(f"a pod with {annotations} is admitted")


def judge_kyverno():
    """Kyverno's rule makes of a pod what the policy of the API server makes of it, but for its variables."""
    policy = load(KYVERNO)[0]
    mutation = [rule for rule in policy["spec"]["rules"] if rule["name"] == "inject"][0]["mutate"]["patchStrategicMerge"]
    kyverno = named(mutation["spec"]["initContainers"], "kinesis-sidecar")
    admitted = named(pods()["MutatingAdmissionPolicy"]["spec"]["initContainers"], "kinesis-sidecar")
    values = {"stream": "orders", "region": "eu-central-1", "initial-position": "latest", "max-attempts": "10",
              "inject": "orders-app"}
    for entry in kyverno["env"]:
        match = re.fullmatch(r'\{\{ request\.object\.metadata\.(annotations|labels)\."kinesis-sidecar/([a-z-]+)"( \|\| \'[a-z0-9]*\')? \}\}',
                             entry.get("value", ""))
        if match:
            assert match[1] == "labels" or match[3], f"{entry['name']}: an annotation may be missing"
            entry["value"] = values[match[2]]
        assert "{{" not in entry.get("value", ""), entry
    equal(kyverno, admitted)
    equal(mutation["spec"]["volumes"], [{"name": "kinesis-sidecar", "emptyDir": {"sizeLimit": "1Mi"}}])


def judge_scaled(document):
    """The metadata of each trigger are those that KEDA's source names; its CRD does not know them."""
    with open(os.path.join(SCHEMAS, "triggers.json"), encoding="utf-8") as file:
        known = json.load(file)
    for trigger in document["spec"]["triggers"]:
        names = known[trigger["type"]]
        for name, value in trigger["metadata"].items():
            assert name in names, f"{trigger['type']} does not know {name}"
            assert not names[name]["enum"] or value in names[name]["enum"], f"{name}: {value}"
            assert isinstance(value, str), f"{name}: KEDA wants a string"
        missing = {name for name, what in names.items() if not what["optional"]} - set(trigger["metadata"])
        equal(missing, set(), "missing")
        equal(trigger["metricType"], "Value")
        if trigger["type"] == "metrics-api":
            assert re.fullmatch(r"http://[a-z-]+-ops\.[a-z]+:8991/metrics", trigger["metadata"]["url"]), "SERVICE.NAMESPACE"
            equal(trigger["metadata"]["valueLocation"], 'kinesis_sidecar_millis_behind_latest{subscription="orders-app"}')
    assert document["spec"]["minReplicaCount"] >= 1


def judge_beta():
    """The same policy as v1beta1, of Kubernetes 1.34 and 1.35."""
    conform(read(POLICY).replace("admissionregistration.k8s.io/v1\n", "admissionregistration.k8s.io/v1beta1\n"), "1.34.1",
            "policy v1beta1")


def judge_selectors():
    labels = of_kind(load("deploy/kubernetes/sidecar.yaml"), "Deployment")["spec"]["template"]["metadata"]["labels"]
    for name, path in (("networkpolicy", "podSelector"), ("pdb", "selector"), ("podmonitor", "selector")):
        equal(load(f"deploy/kubernetes/{name}.yaml")[0]["spec"][path]["matchLabels"], labels, name)
    equal(of_kind(load("deploy/kubernetes/scaledobject-metrics-api.yaml"), "Service")["spec"]["selector"], labels)


def judge(cases):
    for name in PLAIN:
        for version in WITH_NATIVE:
            cases.case(f"{name} on {version}: schemas", lambda: conform(read("deploy/kubernetes", name), version, name))
    cases.case("kyverno.yaml: schemas", lambda: conform(read(KYVERNO), NEW, "kyverno"))
    cases.case("mutatingadmissionpolicy.yaml: schemas", lambda: conform(read(POLICY), NEW, "policy"))
    cases.case("mutatingadmissionpolicy.yaml as v1beta1: schemas", judge_beta)
    for version in WITH_NATIVE:
        cases.case(f"kustomize on {version}: schemas", lambda: conform(kustomized(), version, "kustomize"))
    cases.case("kustomize adds to what is there", judge_kustomize)
    for name, pod in pods().items():
        cases.case(f"{name}: the sidecar of sidecar.yaml", judge_pod, name, pod)
        cases.case(f"{name}: config validate", judge_validate_pod, pod)
    for way in WAYS:
        cases.case(f"{way}: config validate", judge_validate_chart, way)
    cases.case("injection adds to what is there", judge_injection)
    cases.case("injection leaves a pod with a sidecar alone", judge_injection_once)
    cases.case("injection refuses a pod without a stream", judge_injection_refusal)
    cases.case("Kyverno injects the same", judge_kyverno)
    for name in ("scaledobject-prometheus", "scaledobject-metrics-api"):
        cases.case(f"{name}: what KEDA's trigger knows", judge_scaled,
                   of_kind(load(f"deploy/kubernetes/{name}.yaml"), "ScaledObject"))
    for way in ("everything", "metrics-api"):
        cases.case(f"{way}: what KEDA's trigger knows", judge_scaled, of_kind(render(*WAYS[way]), "ScaledObject"))
    cases.case("selectors are the labels of the pods", judge_selectors)
