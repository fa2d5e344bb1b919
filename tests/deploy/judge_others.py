# SPDX-License-Identifier: Apache-2.0
"""The image's Dockerfile, the unit of systemd, and the versions."""

import os
import re

import world
from world import DEPLOY, ROOT, read, run

HADOLINT = os.path.join(os.environ["PYTHON_TOOLS"], "bin", "hadolint")
# Of 10; below 2.0 systemd calls it OK.
EXPOSURE_MAX = 2.0


def judge_unit():
    path = os.path.join(world.WORK, "kinesis-sidecar@x.service")
    with open(path, "w", encoding="utf-8") as file:
        file.write(read("deploy/systemd/kinesis-sidecar@.service").replace("@BINDIR@", os.path.dirname(world.SIDECAR)))
    said = run("systemd-analyze", "security", "--offline=true", f"--threshold={int(EXPOSURE_MAX * 10)}", path)
    match = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert match and float(match[1]) <= EXPOSURE_MAX, said
    run("systemd-analyze", "verify", "--man=no", path)


def judge(cases):
    cases.case("hadolint", run, HADOLINT, "--failure-threshold", "style", os.path.join(DEPLOY, "docker", "Dockerfile"))
    cases.case("systemd-analyze security", judge_unit)
    cases.case("all packages, charts and manifests have one version", run, os.path.join(ROOT, "deploy/release/versions"))
