{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}

{{- define "kinesis-sidecar.scaledObject" -}}
{{- $root := .root | default . -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
{{- $s := $v.scaledObject -}}
{{- $name := include "kinesis-sidecar.fullname" . -}}
{{- $millis := mul 1000 $s.behindSeconds -}}
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  {{- include "kinesis-sidecar.metadata" (dict "context" . "suffix" "") | nindent 2 }}
spec:
  scaleTargetRef:
    kind: {{ $s.targetKind }}
    name: {{ $s.targetName | default $name }}
  # Never zero: without a pod nobody knows the lag.
  minReplicaCount: {{ $s.minReplicas }}
  maxReplicaCount: {{ $s.maxReplicas }}
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleDown:
          # Each pod that leaves gives its leases to others, so replicas go down late and one by one.
          stabilizationWindowSeconds: 300
          policies:
            - type: Pods
              value: 1
              periodSeconds: 60
  triggers:
    {{- if eq $s.trigger "prometheus" }}
    - type: prometheus
      # Value: AverageValue would divide the lag by the number of replicas.
      metricType: Value
      metadata:
        serverAddress: {{ $s.serverAddress }}
        query: max(kinesis_sidecar_millis_behind_latest{ {{- include "kinesis-sidecar.series" . -}} })
        threshold: {{ $millis | quote }}
        # Without series (Prometheus is new, or no pod runs) the number of replicas stays as it is.
        ignoreNullValues: "false"
    {{- else }}
    - type: metrics-api
      metricType: Value
      metadata:
        # KEDA reads the Service and its namespace from this name, and asks each of its pods.
        url: http://{{ $name }}-ops.{{ $root.Release.Namespace }}:{{ $v.ports.ops }}/metrics
        format: prometheus
        {{- /* KEDA takes one series: that of the first subscription, unless `name` or `application` says which. */}}
        {{- $subscription := $v.options.name | default $v.application }}
        valueLocation: {{ printf "kinesis_sidecar_millis_behind_latest%s" (ternary (printf "{subscription=%q}" $subscription) "" (not (empty $subscription))) | squote }}
        aggregateFromKubeServiceEndpoints: "true"
        aggregationType: max
        targetValue: {{ $millis | quote }}
    {{- end }}
{{- end -}}
