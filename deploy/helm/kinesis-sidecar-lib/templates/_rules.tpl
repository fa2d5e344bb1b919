{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}

{{- /* Labels of the series of these pods, as in PromQL: the PodMonitor's name is in `job`. */ -}}
{{- define "kinesis-sidecar.series" -}}
{{- $root := .root | default . -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
{{- $v.rules.selector | default (printf "job=\"%s/%s\"" $root.Release.Namespace (include "kinesis-sidecar.fullname" .)) -}}
{{- end -}}

{{- define "kinesis-sidecar.rules" -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  {{- include "kinesis-sidecar.metadata" (dict "context" . "suffix" "" "labels" $v.rules.labels) | nindent 2 }}
spec:
  groups:
    - name: kinesis-sidecar
      rules:
        {{- range include "kinesis-sidecar.alerts" . | fromYamlArray }}
        {{- if not (has .alert $v.rules.disabled) }}
        - {{ toYaml . | nindent 10 | trim }}
        {{- end }}
        {{- end }}
{{- end -}}

{{- /* The alerts: name, severity, for, expression, summary, description. */ -}}
{{- define "kinesis-sidecar.alerts" -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
{{- $s := include "kinesis-sidecar.series" . -}}
{{- $behind := mul 1000 $v.rules.behindSeconds -}}
{{- $late := divf ($v.options.lease_duration_ms | default 10000) 5000 | toString -}}
{{- $half := mul 1800000 $v.rules.retentionHours -}}
{{- range tuple
  (list "KinesisSidecarAbsent" "critical" "5m"
    (printf "absent(kinesis_sidecar_ready{%s})" $s)
    "No sidecar sends metrics."
    "No pod runs, or Prometheus cannot reach the ops port.")
  (list "KinesisSidecarNotReady" "critical" "5m"
    (printf "kinesis_sidecar_ready{%s} == 0 and kinesis_sidecar_draining{%s} == 0" $s $s)
    "The sidecar is not ready."
    "/readyz and the log of the sidecar give the reason.")
  (list "KinesisSidecarRestarts" "warning" "0m"
    (printf "changes(kinesis_sidecar_start_time_seconds{%s}[1h]) > 3" $s)
    "The sidecar was started more than three times within an hour."
    "The log of the container that ended (kubectl logs --previous) gives the reason.")
  (list "KinesisSidecarBehind" "warning" "10m"
    (printf "kinesis_sidecar_millis_behind_latest{%s} > %d" $s $behind)
    (printf "The app is more than %d s behind the stream." (int64 $v.rules.behindSeconds))
    "The app is too slow, too few pods run, or records are blocked.")
  (list "KinesisSidecarFallingBehind" "warning" "30m"
    (printf "deriv(kinesis_sidecar_millis_behind_latest{%s}[15m]) > 100 and kinesis_sidecar_millis_behind_latest{%s} > 60000" $s $s)
    "The lag grows by more than a tenth of the time."
    "The app handles fewer records than arrive: add pods, up to the number of shards, or make the app faster.")
  (list "KinesisSidecarRetention" "critical" "5m"
    (printf "kinesis_sidecar_millis_behind_latest{%s} > %d" $s $half)
    "The app is behind by half of the retention period."
    "Records that are not read within the retention period are lost. Make the retention period longer at once.")
  (list "KinesisSidecarRecordsExpired" "critical" "0m"
    (printf "kinesis_sidecar_expired_gap_seconds{%s} > 0" $s)
    "Records left the stream before they were read, or may have."
    "The log has the shard and the span. The metric stays until the sidecar is restarted.")
  (list "KinesisSidecarBlocked" "warning" "15m"
    (printf "kinesis_sidecar_blocked_leases{%s} > 0" $s)
    "Records of a lease wait and are not delivered."
    "A record fails again and again, is larger than clients take, or waits behind one that is not settled.")
  (list "KinesisSidecarNoSession" "warning" "15m"
    (printf "sum without (pod, instance, container, endpoint) (kinesis_sidecar_sessions{%s}) == 0" $s)
    "No app reads from any sidecar."
    "The app does not run, or does not reach KINESIS_SIDECAR_URL.")
  (list "KinesisSidecarCheckpointStale" "critical" "5m"
    (printf "kinesis_sidecar_checkpoint_age_seconds{%s} > 120" $s)
    "Settled records have had no checkpoint for two minutes."
    "The lease table is slow, throttles, or refuses. After a crash these records are delivered again.")
  (list "KinesisSidecarLeaseTableDown" "critical" "2m"
    (printf "kinesis_sidecar_store_up{%s} == 0" $s)
    "The lease table does not answer."
    "Without it leases run out within the lease duration, and nothing is delivered.")
  (list "KinesisSidecarStreamDown" "critical" "5m"
    (printf "kinesis_sidecar_source_up{%s} == 0" $s)
    "The stream does not answer."
    "No records are read. The log of the sidecar has the error of Kinesis.")
  (list "KinesisSidecarHeartbeatLate" "warning" "5m"
    (printf "min_over_time((kinesis_sidecar_lease_deadline_seconds{%s} and kinesis_sidecar_leases_held{%s} > 0)[10m:30s]) < %s" $s $s $late)
    "Heartbeats come in the last fifth of the lease duration."
    "The lease table throttles or is slow, or the sidecar has too little CPU.")
  (list "KinesisSidecarLeasesLost" "warning" "0m"
    (printf "increase(kinesis_sidecar_leases_lost_total{%s}[15m]) > 2" $s)
    "Leases were lost to other workers."
    "Heartbeats were late, or two pods have one worker id. Records are delivered again.")
  (list "KinesisSidecarNamesFull" "warning" "15m"
    (printf "kinesis_sidecar_names_full{%s} == 1" $s)
    "Shards or workers are left alone, because the sidecar knows as many as it can."
    "The stream has more shards than one process can know (10,000, closed ones included).")
  (list "KinesisSidecarDeadLetters" "warning" "0m"
    (printf "increase(kinesis_sidecar_dead_letters_total{%s}[15m]) > 0" $s)
    "Records were given up and became dead letters."
    "List them, mend the app, and have them delivered again (docs/DEAD_LETTERS.md).")
  (list "KinesisSidecarDeadLettersFail" "critical" "10m"
    (printf "increase(kinesis_sidecar_dead_letter_failures_total{%s}[5m]) > 0" $s)
    "Dead letters cannot be written."
    "Checkpoints wait until they are. The log of the sidecar has the error.")
  (list "KinesisSidecarRecordsDropped" "warning" "0m"
    (printf "increase(kinesis_sidecar_records_dropped_total{%s}[15m]) > 0" $s)
    "Records were given up without a dead letter."
    "The app dropped them, or on_exhausted=drop did.")
  (list "KinesisSidecarThrottled" "warning" "15m"
    (printf "sum without (instance, container, endpoint) (rate(kinesis_sidecar_aws_throttles_total{%s}[10m])) > 0.05 * sum without (instance, container, endpoint) (rate(kinesis_sidecar_aws_requests_total{%s}[10m]))" $s $s)
    "More than one in 20 requests to AWS is throttled."
    "Another application reads the same shards (use enhanced fan-out), or the lease table has too little capacity.")
  (list "KinesisSidecarCredentials" "critical" "0m"
    (printf "kinesis_sidecar_aws_credentials_expiry_timestamp_seconds{%s} - time() < 300" $s)
    "AWS credentials expire within five minutes and were not renewed."
    "They are renewed 15 minutes before they expire. The log has the error of STS or of the agent.")
}}
- alert: {{ index . 0 }}
  expr: {{ index . 3 | quote }}
  for: {{ index . 2 }}
  labels:
    severity: {{ index . 1 }}
  annotations:
    summary: {{ printf "%s" (index . 4) | quote }}
    description: {{ index . 5 | quote }}
    runbook_url: {{ printf "%s#%s" $v.rules.runbookUrl (index . 0 | lower) | quote }}
{{- end }}
{{- end -}}
