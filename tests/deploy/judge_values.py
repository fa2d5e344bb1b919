# SPDX-License-Identifier: Apache-2.0
"""Values that the schemas refuse: each names its place and what is allowed."""

from judge_charts import APP_IMAGE, ORDERS
from world import CHART, ROOT, refused, run

# Values, and what helm must say of them: the place, and the reason.
BAD = (
    ({"kinesisSidecar": {"steam": "orders"}}, ("kinesisSidecar", "additional properties 'steam' not allowed")),
    ({"kinesisSidecar": {"stream": "my orders"}}, ("/stream", "does not match pattern")),
    ({"kinesisSidecar": {"application": "orders/app"}}, ("/application", "does not match pattern")),
    ({"kinesisSidecar": {"region": "Frankfurt"}}, ("/region", "does not match pattern")),
    ({"kinesisSidecar": {"options": {"max_attemps": 10}}}, ("/options", "additional properties 'max_attemps' not allowed")),
    ({"kinesisSidecar": {"options": {"max_attempts": 255}}}, ("/options/max_attempts", "maximum: got 255, want 254")),
    ({"kinesisSidecar": {"options": {"max_attempts": "ten"}}}, ("/options/max_attempts", "got string, want integer")),
    ({"kinesisSidecar": {"options": {"lease_duration_ms": 10}}}, ("/options/lease_duration_ms", "minimum: got 10, want 1,000")),
    ({"kinesisSidecar": {"options": {"initial_position": "newest"}}}, ("/options/initial_position", "does not match pattern")),
    ({"kinesisSidecar": {"options": {"dead_letters": "s3:bucket"}}}, ("/options/dead_letters", "does not match pattern")),
    ({"kinesisSidecar": {"options": {"retry_backoff_ms": "1s"}}}, ("/options/retry_backoff_ms", "does not match pattern")),
    ({"kinesisSidecar": {"options": {"on_exhausted": "ignore"}}}, ("/options/on_exhausted", "value must be one of")),
    ({"kinesisSidecar": {"options": {"shard_metrics": "yes"}}}, ("/options/shard_metrics", "value must be one of")),
    ({"kinesisSidecar": {"options": {"worker_id": "me"}}}, ("/options", "additional properties 'worker_id' not allowed")),
    ({"kinesisSidecar": {"mode": "sidecar"}}, ("/mode", "value must be one of 'auto', 'native', 'container'")),
    ({"kinesisSidecar": {"image": {"digest": "0123"}}}, ("/image/digest", "does not match pattern")),
    ({"kinesisSidecar": {"image": {"tag": "a:b"}}}, ("/image/tag", "does not match pattern")),
    ({"kinesisSidecar": {"image": {"repository": "Kinesis Sidecar"}}}, ("/image/repository", "does not match pattern")),
    ({"kinesisSidecar": {"image": {"pullPolicy": "always"}}}, ("/image/pullPolicy", "value must be one of")),
    ({"kinesisSidecar": {"ports": {"ops": 70000}}}, ("/ports/ops", "maximum: got 70,000, want 65,535")),
    ({"kinesisSidecar": {"extraEnv": {"A": "b"}}}, ("/extraEnv", "got object, want array")),
    ({"kinesisSidecar": {"extraEnv": [{"value": "b"}]}}, ("/extraEnv/0", "missing property 'name'")),
    ({"kinesisSidecar": {"startupSeconds": 0}}, ("/startupSeconds", "minimum: got 0, want 1")),
    ({"kinesisSidecar": {"podMonitor": {"enabled": "true"}}}, ("/podMonitor/enabled", "got string, want boolean")),
    ({"kinesisSidecar": {"podMonitor": {"interval": "30"}}}, ("/podMonitor/interval", "does not match pattern")),
    ({"kinesisSidecar": {"scaledObject": {"trigger": "kinesis"}}}, ("/scaledObject/trigger", "value must be one of")),
    ({"kinesisSidecar": {"scaledObject": {"minReplicas": 0}}}, ("/scaledObject/minReplicas", "minimum: got 0, want 1")),
    ({"kinesisSidecar": {"rules": {"runbookUrl": "wiki"}}}, ("/rules/runbookUrl", "does not match pattern")),
    ({"kinesisSidecar": {"pdb": {"maxUnavailable": 0}}}, ("/pdb/maxUnavailable", "minimum: got 0, want 1")),
    ({"kinesisSidecar": {"pdb": {"maxUnavailable": "100%"}}}, ("/pdb/maxUnavailable", "does not match pattern")),
    ({"sidecar": {}}, ("additional properties 'sidecar' not allowed",)),
    ({"replicaCount": -1}, ("/replicaCount", "minimum: got -1, want 0")),
    ({"replicaCount": "2"}, ("/replicaCount", "got string, want integer")),
    ({"app": {"args": "--all"}}, ("/app/args", "got string, want array")),
    ({"imagePullSecrets": ["registry"]}, ("/imagePullSecrets/0", "got string, want object")),
    ({"podLabels": {"a": 1}}, ("/podLabels/a", "got number, want string")),
    ({"serviceAccount": {"annotations": {"a": True}}}, ("/serviceAccount/annotations/a", "got boolean, want string")),
)


def merge(values, more):
    merged = {**values}
    for key, value in more.items():
        merged[key] = merge(values[key], value) if isinstance(values.get(key), dict) and isinstance(value, dict) else value
    return merged


def judge_bad(values, texts):
    said = refused(CHART, merge({"kinesisSidecar": ORDERS, "app": APP_IMAGE}, values))
    assert "values don't meet the specifications of the schema" in said, said
    for text in texts:
        assert text in said, f"{text} is not in {said}"


def judge(cases):
    for values, texts in BAD:
        cases.case(f"refused: {values}", judge_bad, values, texts)
    cases.case("options of the schema are those of docs/OPTIONS.md", run, ROOT + "/tests/deploy/options_schema.py")
    for name in ("kinesis-sidecar", "kinesis-sidecar-lib"):
        cases.case(f"{name}: the schema is one", run, "python3", "-m", "check_jsonschema", "--check-metaschema",
                   f"{ROOT}/deploy/helm/{name}/values.schema.json")
        cases.case(f"{name}: its values fit its schema", run, "python3", "-m", "check_jsonschema", "--schemafile",
                   f"{ROOT}/deploy/helm/{name}/values.schema.json", f"{ROOT}/deploy/helm/{name}/values.yaml")
