# versions.sh - what tests/deploy uses of others; `tools` and `run` read it.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034
HELM=v3.22.0
KUBECONFORM=v0.8.0
KUSTOMIZE=v5.7.1
# The last without native sidecars, the first with them, and the first and the last with MutatingAdmissionPolicy (v1beta1, v1).
KUBERNETES='1.27.16 1.29.14 1.34.1 1.37.2'
KEDA=v2.21.0
PROMETHEUS_OPERATOR=v0.85.0
KYVERNO=v1.13.4
