# SPDX-License-Identifier: Apache-2.0
"""What the judges of deploy/ share: the tools, rendered documents, and the count of cases."""

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import traceback

import yaml

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
DEPLOY = os.path.join(ROOT, "deploy")
HELM = os.path.join(os.environ["HELM_BIN"], "helm")
KUBECONFORM = os.path.join(os.environ["KUBECONFORM_BIN"], "kubeconform")
KUSTOMIZE = os.path.join(os.environ["KUSTOMIZE_BIN"], "kustomize")
ADMIT = os.path.join(os.environ["ADMIT_BIN"], "admit")
PROMLINT = os.path.join(os.environ["PROMLINT_BIN"], "promlint")
PROMTOOL = os.path.join(os.environ["DEBIAN_TOOLS"], "promtool")
BUSYBOX = os.environ["DEBIAN_TOOLS"]
SCHEMAS = os.environ["SCHEMAS"]
SIDECAR = os.environ["KS_BIN"]
# Versions of Kubernetes whose schemas there are, the oldest first.
KUBERNETES = os.environ["KUBERNETES"].split()
OLD, NEW = KUBERNETES[0], KUBERNETES[-1]

WORK = tempfile.mkdtemp(prefix="ks-deploy.")
HELM_WORK = os.path.join(WORK, "helm")
CHART = os.path.join(HELM_WORK, "kinesis-sidecar")
LIBRARY = os.path.join(HELM_WORK, "kinesis-sidecar-lib")
# A chart of an app that depends on the library, as docs/KUBERNETES.md shows it.
APP = os.path.join(HELM_WORK, "app")


class Cases:
    """Counts, and shows what failed."""

    def __init__(self):
        self.passed = self.failed = 0

    def case(self, name, function, *arguments):
        try:
            function(*arguments)
        except Exception as error:  # pylint: disable=broad-except
            self.failed += 1
            where = "" if isinstance(error, AssertionError) and str(error) else traceback.format_exc()
            print(f"FAILED {name}\n    {error}\n{where}", flush=True)
        else:
            self.passed += 1


def run(*command, ok=True, **options):
    """Standard output of a command that must succeed; both outputs of one that must not."""
    done = subprocess.run(command, text=True, capture_output=True, check=False, **options)
    both = done.stdout + done.stderr
    assert (done.returncode == 0) == ok, f"{' '.join(command)}: exit status {done.returncode}\n{both}"
    return done.stdout if ok else both


def prepare_charts():
    """Copies the charts, because `helm dependency` writes into them."""
    shutil.copytree(os.path.join(DEPLOY, "helm"), HELM_WORK)
    shutil.copytree(os.path.join(ROOT, "tests/deploy/app"), APP)
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        os.environ["HELM_" + name[4:]] = os.path.join(WORK, name.lower())
    run(HELM, "dependency", "update", CHART)
    run(HELM, "dependency", "update", APP)


def values_file(values):
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
    path = os.path.join(WORK, f"values-{digest}.yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(values, file)
    return path


def helm_command(chart, values, version):
    """With the version in any case: helm's own is what it was built with."""
    return [HELM, "template", "orders", chart, "--namespace", "shop", "--kube-version", version, "--values", values_file(values)]


def render_text(chart, values, version=NEW):
    return run(*helm_command(chart, values, version))


def refused(chart, values, version=NEW):
    """What helm says of values that it must refuse."""
    return run(*helm_command(chart, values, version), ok=False)


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


@functools.lru_cache(maxsize=None)
def _render(chart, values, version):
    return render_text(chart, json.loads(values), version)


def render(chart, values, version=NEW):
    return documents(_render(chart, json.dumps(values, sort_keys=True), version))


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def load(*path):
    return documents(read(*path))


def of_kind(found, kind):
    matching = [document for document in found if document["kind"] == kind]
    assert matching, f"no {kind} among {[document['kind'] for document in found]}"
    return matching[0]


def pod_of(document):
    """The pod, or the template of one, in an object that has one; None in others."""
    spec = document.get("spec", {})
    if document["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    if document["kind"] == "Pod":
        return document
    return spec.get("template") if isinstance(spec, dict) else None


def named(entries, name):
    matching = [entry for entry in entries or [] if entry["name"] == name]
    assert len(matching) <= 1, f"{name} is there {len(matching)} times"
    return matching[0] if matching else None


def environment(container):
    """Values of the variables; those that come from elsewhere are None."""
    pairs = [(entry["name"], entry.get("value")) for entry in container.get("env", [])]
    assert len(dict(pairs)) == len(pairs), f"a variable is there twice: {[name for name, _ in pairs]}"
    return dict(pairs)


def equal(found, wanted, what=""):
    assert found == wanted, f"{what}: found {found!r}, wanted {wanted!r}"


def metric_names():
    """Of docs/METRICS.md; a histogram has three series."""
    names = set()
    for name, kind in re.findall(r"^\| `(\w+)` \| (\w+) \|", read("docs/METRICS.md"), re.MULTILINE):
        names.update([name + end for end in ("_bucket", "_sum", "_count")] if kind == "histogram" else [name])
    return names


def conform(text, version, name):
    """kubeconform with the schemas of one version of Kubernetes; nothing is skipped."""
    path = os.path.join(WORK, "conform-" + re.sub(r"\W+", "-", f"{name}-{version}") + ".yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    said = run(KUBECONFORM, "-strict", "-summary", "-output", "json", "-schema-location",
               os.path.join(SCHEMAS, version, "{{.ResourceKind}}{{.KindSuffix}}.json"), "-schema-location",
               os.path.join(SCHEMAS, "crds", "{{.ResourceKind}}{{.KindSuffix}}.json"), path)
    summary = json.loads(said)["summary"]
    equal((summary["valid"], summary["skipped"]), (len(documents(text)), 0), "valid and skipped")


def copy_app(name, alias, new_alias, values, template):
    """A chart that depends on the library by another alias, or by none, and has one template."""
    chart = os.path.join(HELM_WORK, name)
    shutil.copytree(APP, chart, ignore=shutil.ignore_patterns("templates"))
    os.mkdir(os.path.join(chart, "templates"))
    with open(os.path.join(APP, "Chart.yaml"), encoding="utf-8") as file:
        text = file.read()
    wanted = f"alias: {new_alias}" if new_alias else ""
    for path, content in (("Chart.yaml", text.replace(f"alias: {alias}", wanted)), ("values.yaml", json.dumps(values)),
                          ("templates/sidecar.yaml", template)):
        with open(os.path.join(chart, path), "w", encoding="utf-8") as file:
            file.write(content)
    run(HELM, "dependency", "update", chart)
    return chart
