#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""options_schema.py [--write] - holds `options` of the library chart's values.schema.json against docs/OPTIONS.md, and exits
1 where they differ; with --write it writes them."""

import json
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCHEMA = os.path.join(ROOT, "deploy/helm/kinesis-sidecar-lib/values.schema.json")
# The chart sets these itself.
SET_BY_CHART = {"config", "stream", "application", "worker_id", "listen", "ops_listen", "state_dir"}
ROW = re.compile(r"^\| `--([a-z0-9-]+)`<br>`[A-Z0-9_]+` \|(?P<rest>.*)\|$", re.MULTILINE)


def table():
    """Key of each option -> (what is allowed, what it is for), of docs/OPTIONS.md."""
    with open(os.path.join(ROOT, "docs/OPTIONS.md"), encoding="utf-8") as page:
        text = page.read()
    options = {}
    for match in ROW.finditer(text):
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", match["rest"])]
        options[match[1].replace("-", "_")] = (cells[1], cells[4])
    return options


def pattern_of(alternative):
    """Capitals stand for a value: local:PATH."""
    return "".join(".+" if piece[:1].isupper() else re.escape(piece).replace("/", "\\/").replace("\\/", "/")
                   for piece in re.findall(r"[A-Z][A-Z0-9_]*|[^A-Z]+", alternative))


def schema_of(key, allowed):
    match = re.fullmatch(r"(\d+) to (\d+)", allowed)
    if match:
        return {"type": "integer", "minimum": int(match[1]), "maximum": int(match[2])}
    match = re.fullmatch(r"up to (\d+) bytes", allowed)
    if match:
        return {"type": "string", "maxLength": int(match[1])}
    if key == "filter":
        return {"type": ["string", "object"]}
    if key == "retry_backoff_ms":
        return {"type": ["string", "integer"], "pattern": "^([0-9]+(,[0-9]+)*)?$", "minimum": 0}
    alternatives = [one.strip() for one in allowed.split("|")]
    if "NUMBER" in alternatives:
        return {"type": ["string", "integer"]}
    if set(alternatives) == {"on", "off"}:
        # YAML reads a bare `on` as true.
        return {"enum": ["on", "off", True, False]}
    if all(one.islower() for one in alternatives):
        return {"enum": alternatives}
    return {"type": "string", "pattern": "^(" + "|".join(pattern_of(one) for one in alternatives) + ")$"}


def wanted():
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {key: {"description": what, **schema_of(key, allowed)}
                       for key, (allowed, what) in table().items() if key not in SET_BY_CHART},
    }


def main():
    with open(SCHEMA, encoding="utf-8") as file:
        schema = json.load(file)
    if sys.argv[1:] == ["--write"]:
        schema["properties"]["options"] = wanted()
        with open(SCHEMA, "w", encoding="utf-8") as file:
            json.dump(schema, file, indent=2)
            file.write("\n")
        return 0
    found = schema["properties"]["options"]
    if found == wanted():
        return 0
    print(f"{os.path.relpath(SCHEMA)}: options differ from docs/OPTIONS.md; run tests/deploy/options_schema.py --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
