#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The charts of the release, as helm takes them: they render what the charts of deploy/helm render."""

import os
import shutil

import released
from lib import check, check_equal, main, test

CHARTS = os.path.join(released.ROOT, "deploy", "helm")
KUBERNETES = ("--kube-version", "1.29.14")


def helm(folder, *args):
    """Output of the helm that packed the charts; what it keeps is in `folder`."""
    program = released.run(os.path.join(released.ROOT, "deploy/release/helm")).strip()
    env = {name: value for name, value in os.environ.items() if not name.startswith("HELM_")}
    return released.run(program, *args, env=dict(env, HOME=folder, KUBECONFIG=os.path.join(folder, "none")))


def packed(name):
    version = released.run(os.path.join(released.ROOT, "deploy/release/version")).strip()
    return released.file_of(f"{name}-{version}.tgz")


@test()
def chart_renders_what_its_folder_renders(folder):
    shutil.copytree(CHARTS, os.path.join(folder, "helm"))
    source = os.path.join(folder, "helm", "kinesis-sidecar")
    helm(folder, "dependency", "build", source)
    for values in ("--set", "demo.enabled=true"), \
            ("--set", "app.image.repository=shop,kinesisSidecar.stream=orders,kinesisSidecar.application=orders"):
        wanted = helm(folder, "template", "shop", source, *KUBERNETES, *values)
        check("kind: Deployment" in wanted, wanted[:500])
        check_equal(helm(folder, "template", "shop", packed("kinesis-sidecar"), *KUBERNETES, *values), wanted, "rendered")


@test()
def charts_have_the_version_of_the_release(folder):
    version = released.run(os.path.join(released.ROOT, "deploy/release/version")).strip()
    for name, kind in ("kinesis-sidecar", "application"), ("kinesis-sidecar-lib", "library"):
        shown = helm(folder, "show", "chart", packed(name)).splitlines()
        for line in f"name: {name}", f"type: {kind}", f"version: {version}", f"appVersion: {version}":
            check(line in shown, f"{line} in", shown)
        helm(folder, "lint", "--strict", packed(name), *KUBERNETES)


if __name__ == "__main__":
    main()
