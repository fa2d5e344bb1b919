{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}

{{- /* An entry of initContainers, or nothing: with native sidecars. */ -}}
{{- define "kinesis-sidecar.initContainers" -}}
{{- if eq (include "kinesis-sidecar.mode" .) "native" -}}
{{- include "kinesis-sidecar.container" . -}}
{{- end -}}
{{- end -}}

{{- /* An entry of containers, or nothing: without native sidecars. It must be the first one: the kubelet starts the next
container when postStart of this one has succeeded. */ -}}
{{- define "kinesis-sidecar.containers" -}}
{{- if eq (include "kinesis-sidecar.mode" .) "container" -}}
{{- include "kinesis-sidecar.container" . -}}
{{- end -}}
{{- end -}}

{{- define "kinesis-sidecar.container" -}}
{{- $root := .root | default . -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
{{- $native := eq (include "kinesis-sidecar.mode" .) "native" -}}
- name: kinesis-sidecar
  image: {{ include "kinesis-sidecar.image" (dict "image" $v.image "global" $root.Values.global "tag" (include "kinesis-sidecar.version" .)) }}
  {{- with $v.image.pullPolicy }}
  imagePullPolicy: {{ . }}
  {{- end }}
  {{- if $native }}
  # A sidecar: it starts before the app, runs beside it, and ends after it. A Job completes.
  restartPolicy: Always
  {{- end }}
  env:
    {{- include "kinesis-sidecar.env" . | trim | nindent 4 }}
  {{- with $v.extraEnvFrom }}
  envFrom:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - name: ops
      containerPort: {{ $v.ports.ops }}
      protocol: TCP
  # Succeeds when lease table and stream have been reached once. It never waits for the app.
  startupProbe:
    httpGet:
      path: /startupz
      port: ops
    periodSeconds: 1
    failureThreshold: {{ $v.startupSeconds }}
  # The event loop turns. A restart of the sidecar does not bring AWS back, so AWS is not part of it.
  livenessProbe:
    httpGet:
      path: /livez
      port: ops
    periodSeconds: 10
    timeoutSeconds: 3
    failureThreshold: 6
  {{- if $v.readinessProbe }}
  readinessProbe:
    httpGet:
      path: /readyz
      port: ops
    periodSeconds: 5
    failureThreshold: 3
  {{- end }}
  lifecycle:
    {{- if not $native }}
    # Holds the app back: the kubelet starts the next container when this has succeeded.
    postStart:
      exec:
        command: ["/kinesis-sidecar", "wait", "--timeout-ms", {{ mul 1000 $v.startupSeconds | quote }}]
    {{- end }}
    # Drains when the pod begins to end, while the app still runs: no new records, acknowledgements of those in flight are
    # taken, checkpoints are written, leases released. The process stays up until its SIGTERM.
    preStop:
      exec:
        command: ["/kinesis-sidecar", "drain"]
  resources:
    {{- toYaml $v.resources | nindent 4 }}
  securityContext:
    {{- toYaml $v.securityContext | nindent 4 }}
  volumeMounts:
    {{- include "kinesis-sidecar.volumeMount" . | nindent 4 }}
    {{- if or $v.state.volume $v.state.volumeName }}
    - name: {{ $v.state.volumeName | default "kinesis-sidecar-state" }}
      mountPath: /data
    {{- end }}
    {{- if $v.config }}
    - name: kinesis-sidecar-config
      mountPath: /etc/kinesis-sidecar
      readOnly: true
    {{- end }}
    {{- with $v.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- /* Variables, not flags: `drain`, `wait` and `health` run in the same environment and find the sidecar by it. */ -}}
{{- define "kinesis-sidecar.env" -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
{{- $named := and $v.stream $v.application -}}
{{- if not (or $named $v.config.subscriptions) -}}
{{- fail "kinesis-sidecar: `stream` and `application` must be set (the stream's name or ARN, and the name of the lease table), or `config.subscriptions`" -}}
{{- end -}}
{{- with $v.stream }}
- name: KINESIS_SIDECAR_STREAM
  value: {{ . | quote }}
{{- end }}
{{- with $v.application }}
- name: KINESIS_SIDECAR_APPLICATION
  value: {{ . | quote }}
{{- end }}
# The owner of a lease is then visible as a pod.
- name: KINESIS_SIDECAR_WORKER_ID
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
# For the containers of the pod, which share the loopback, and by the socket.
- name: KINESIS_SIDECAR_LISTEN
  value: {{ printf "%s:%v,unix:/run/kinesis-sidecar/api.sock" (ternary "[::1]" "127.0.0.1" $v.ipv6) $v.ports.api | quote }}
# Probes come to the address of the pod. No data is served here, and no orders are taken.
- name: KINESIS_SIDECAR_OPS_LISTEN
  value: {{ printf "%s:%v" (ternary "[::]" "0.0.0.0" $v.ipv6) $v.ports.ops | quote }}
{{- if or $v.state.volume $v.state.volumeName }}
- name: KINESIS_SIDECAR_STATE_DIR
  value: /data
{{- end }}
{{- if $v.config }}
- name: KINESIS_SIDECAR_CONFIG
  value: /etc/kinesis-sidecar/config.json
{{- end }}
{{- if not (hasKey $v.options "log_format") }}
- name: KINESIS_SIDECAR_LOG_FORMAT
  value: json
{{- end }}
{{- range $key, $value := $v.options }}
- name: KINESIS_SIDECAR_{{ upper $key }}
  value: {{ include "kinesis-sidecar.text" $value | quote }}
{{- end }}
{{- with $v.region }}
- name: AWS_REGION
  value: {{ . | quote }}
{{- end }}
{{- if not $v.instanceMetadata }}
# A pod that was made before its service account has no role. Without this it would use the role of its node.
- name: AWS_EC2_METADATA_DISABLED
  value: "true"
{{- end }}
{{- with $v.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* A value of YAML as an option spells it: `on` and `off` are booleans of YAML, numbers of values are floating point. */ -}}
{{- define "kinesis-sidecar.text" -}}
{{- if kindIs "bool" . -}}
{{- ternary "on" "off" . -}}
{{- else if kindIs "float64" . -}}
{{- printf "%.0f" . -}}
{{- else if kindIs "string" . -}}
{{- . -}}
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{- /* For the app: where the sidecar is. */ -}}
{{- define "kinesis-sidecar.appEnv" -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
- name: KINESIS_SIDECAR_URL
  value: {{ printf "http://%s:%v" (ternary "[::1]" "127.0.0.1" $v.ipv6) $v.ports.api | quote }}
{{- end -}}

{{- /* For the app, too: the folder with the Unix socket. */ -}}
{{- define "kinesis-sidecar.volumeMount" -}}
- name: kinesis-sidecar
  mountPath: /run/kinesis-sidecar
{{- end -}}

{{- define "kinesis-sidecar.volumes" -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
- name: kinesis-sidecar
  emptyDir:
    sizeLimit: 1Mi
{{- if $v.state.volume }}
- name: kinesis-sidecar-state
  {{- toYaml $v.state.volume | nindent 2 }}
{{- end }}
{{- if $v.config }}
- name: kinesis-sidecar-config
  configMap:
    name: {{ include "kinesis-sidecar.fullname" . }}-sidecar
{{- end }}
{{- end -}}

{{- define "kinesis-sidecar.podAnnotations" -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
# Only the sidecar gets AWS credentials, by IRSA or by EKS Pod Identity.
eks.amazonaws.com/skip-containers: {{ $v.appContainers | quote }}
# `kubectl logs` and `kubectl exec` without -c mean the app.
kubectl.kubernetes.io/default-container: {{ splitList "," $v.appContainers | first | trim | quote }}
{{- with $v.config }}
# A change of the file restarts the pods, because few options change while the sidecar runs.
checksum/kinesis-sidecar: {{ toJson . | sha256sum }}
{{- end }}
{{- end -}}
