{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}

{{- /* All objects that the values enable, each with its separator. */ -}}
{{- define "kinesis-sidecar.objects" -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
{{- if $v.config }}
---
{{ include "kinesis-sidecar.configMap" . }}
{{- end }}
{{- if $v.opsService.enabled }}
---
{{ include "kinesis-sidecar.opsService" . }}
{{- end }}
{{- if $v.podMonitor.enabled }}
---
{{ include "kinesis-sidecar.podMonitor" . }}
{{- end }}
{{- if $v.rules.enabled }}
---
{{ include "kinesis-sidecar.rules" . }}
{{- end }}
{{- if $v.scaledObject.enabled }}
---
{{ include "kinesis-sidecar.scaledObject" . }}
{{- end }}
{{- if $v.networkPolicy.enabled }}
---
{{ include "kinesis-sidecar.networkPolicy" . }}
{{- end }}
{{- if $v.pdb.enabled }}
---
{{ include "kinesis-sidecar.pdb" . }}
{{- end }}
{{- end -}}

{{- /* Takes (dict "context" CONTEXT "suffix" SUFFIX "labels" MORE). */ -}}
{{- define "kinesis-sidecar.metadata" -}}
{{- $root := .context.root | default .context -}}
name: {{ include "kinesis-sidecar.fullname" .context }}{{ .suffix }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "kinesis-sidecar.labels" (dict "context" .context "labels" .labels) | nindent 2 }}
{{- end -}}

{{- define "kinesis-sidecar.configMap" -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "kinesis-sidecar.metadata" (dict "context" . "suffix" "-sidecar") | nindent 2 }}
data:
  config.json: {{ toJson $v.config | quote }}
{{- end -}}

{{- define "kinesis-sidecar.opsService" -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "kinesis-sidecar.metadata" (dict "context" . "suffix" "-ops") | nindent 2 }}
spec:
  selector:
    {{- include "kinesis-sidecar.selector" . | nindent 4 }}
  ports:
    - name: ops
      port: {{ $v.ports.ops }}
      # The number: by its name a port of an init container is not found everywhere.
      targetPort: {{ $v.ports.ops }}
      protocol: TCP
{{- end -}}

{{- define "kinesis-sidecar.podMonitor" -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  {{- include "kinesis-sidecar.metadata" (dict "context" . "suffix" "" "labels" $v.podMonitor.labels) | nindent 2 }}
spec:
  selector:
    matchLabels:
      {{- include "kinesis-sidecar.selector" . | nindent 6 }}
  podMetricsEndpoints:
    - port: ops
      path: /metrics
      interval: {{ $v.podMonitor.interval }}
{{- end -}}

{{- /* For the whole pod: the app's peers are in extraIngress and extraEgress. */ -}}
{{- define "kinesis-sidecar.networkPolicy" -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "kinesis-sidecar.metadata" (dict "context" . "suffix" "") | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "kinesis-sidecar.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    # Metrics. Probes of the kubelet come from the node and pass in any case.
    - ports:
        - port: {{ $v.ports.ops }}
          protocol: TCP
      {{- with $v.networkPolicy.opsFrom }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- with $v.networkPolicy.extraIngress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  egress:
    - ports:
        - port: 53
          protocol: UDP
        - port: 53
          protocol: TCP
    # AWS: Kinesis, DynamoDB, STS, and where dead letters go.
    - ports:
        - port: 443
          protocol: TCP
    # The agent of EKS Pod Identity, on the node.
    - to:
        - ipBlock:
            cidr: 169.254.170.23/32
        - ipBlock:
            cidr: fd00:ec2::23/128
      ports:
        - port: 80
          protocol: TCP
    {{- if $v.instanceMetadata }}
    # The metadata service of EC2.
    - to:
        - ipBlock:
            cidr: 169.254.169.254/32
        - ipBlock:
            cidr: fd00:ec2::254/128
      ports:
        - port: 80
          protocol: TCP
    {{- end }}
    {{- with $v.networkPolicy.extraEgress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- /* maxUnavailable, because minAvailable of all pods would block the drain of a node for ever. */ -}}
{{- define "kinesis-sidecar.pdb" -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "kinesis-sidecar.metadata" (dict "context" . "suffix" "") | nindent 2 }}
spec:
  maxUnavailable: {{ $v.pdb.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "kinesis-sidecar.selector" . | nindent 6 }}
{{- end -}}
