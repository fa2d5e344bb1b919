#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""schemas.py - makes the JSON schemas that kubeconform judges manifests by, from the sources of the projects themselves.

  schemas.py kubernetes SWAGGER.json FOLDER     the kinds below, of the OpenAPI document of one version of Kubernetes
  schemas.py crds FOLDER CRD.yaml..             each version of each CustomResourceDefinition
  schemas.py triggers FILE SCALER.go..          the names of the metadata that triggers of KEDA take, which its CRD does not know

A field that a schema does not name is an error, as `kubectl apply --validate=strict` has it.
"""

import json
import os
import re
import sys

KINDS = {
    "ConfigMap", "CronJob", "Deployment", "Job", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
    "NetworkPolicy", "PersistentVolumeClaim", "Pod", "PodDisruptionBudget", "Service", "ServiceAccount", "StatefulSet",
}


def strict(node):
    """The node with no fields but those that it names."""
    if isinstance(node, list):
        return [strict(one) for one in node]
    if not isinstance(node, dict):
        return node
    node = {key: strict(value) for key, value in node.items()}
    if node.get("format") == "int-or-string" or node.get("x-kubernetes-int-or-string") is True:
        node.pop("type", None)
        node.pop("format", None)
        node.setdefault("anyOf", [{"type": "integer"}, {"type": "string"}])
    open_ended = node.get("x-kubernetes-preserve-unknown-fields") is True
    if isinstance(node.get("properties"), dict) and not open_ended and "additionalProperties" not in node:
        node["additionalProperties"] = False
    return node


def names_in(node):
    return {name for name in re.findall(r'"#/definitions/([^"]+)"', json.dumps(node))}


def closure(definitions, name):
    wanted, found = [name], set()
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.add(name)
            wanted += names_in(definitions[name])
    return found


def write(folder, kind, group, version, schema):
    """kubeconform's {{.ResourceKind}}{{.KindSuffix}}: only the first part of the group is in it."""
    parts = [kind.lower(), group.split(".")[0], version]
    with open(os.path.join(folder, "-".join(part for part in parts if part) + ".json"), "w", encoding="utf-8") as file:
        json.dump(schema, file)


def of_kubernetes(swagger, folder):
    with open(swagger, encoding="utf-8") as file:
        definitions = json.load(file)["definitions"]
    os.makedirs(folder)
    strict_ones = {name: strict(node) for name, node in definitions.items()}
    for name, node in strict_ones.items():
        # A quantity is a string in the document, though 1 and 0.5 are quantities.
        if name.endswith("api.resource.Quantity"):
            node["type"] = ["string", "number"]
    for name, node in definitions.items():
        for which in node.get("x-kubernetes-group-version-kind", []):
            if which["kind"] not in KINDS:
                continue
            used = closure(definitions, name)
            schema = {**strict_ones[name], "definitions": {one: strict_ones[one] for one in used}}
            write(folder, which["kind"], which["group"], which["version"], schema)


def of_crds(folder, paths):
    import yaml

    os.makedirs(folder)
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for crd in yaml.safe_load_all(file):
                spec = crd["spec"]
                for version in spec["versions"]:
                    schema = strict(version["schema"]["openAPIV3Schema"])
                    schema["properties"]["metadata"] = {"type": "object"}
                    write(folder, spec["names"]["kind"], spec["group"], version["name"], schema)


def of_triggers(target, paths):
    triggers = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            tags = re.findall(r'`keda:"([^`]*)"`', file.read())
        names = {}
        for tag in tags:
            fields = dict(part.strip().partition("=")[::2] for part in tag.split(","))
            if "name" in fields and "triggerMetadata" in tag:
                names[fields["name"].strip()] = {"optional": "optional" in fields or "default" in fields,
                                                 "enum": fields.get("enum", "").split(";") if "enum" in fields else []}
        kind = os.path.basename(path).replace("_scaler.go", "").replace("_", "-")
        assert names, f"{path}: no metadata found"
        triggers[kind] = names
    with open(target, "w", encoding="utf-8") as file:
        json.dump(triggers, file, indent=1)


def main():
    what, *rest = sys.argv[1:]
    if what == "kubernetes":
        of_kubernetes(*rest)
    elif what == "crds":
        of_crds(rest[0], rest[1:])
    elif what == "triggers":
        of_triggers(rest[0], rest[1:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
