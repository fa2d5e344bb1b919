{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}

{{- /* The context of the library's templates; the demo has its own stream. As JSON. */ -}}
{{- define "app.sidecarValues" -}}
{{- $v := deepCopy .Values.kinesisSidecar -}}
{{- if .Values.demo.enabled -}}
{{- $options := dict "source" "local:/data/stream.db" "initial_position" "trim_horizon" "local_shards" 2 -}}
{{- $state := dict "volume" (dict "emptyDir" (dict "sizeLimit" "256Mi")) "volumeName" "" -}}
{{- $v = merge (dict "stream" "demo" "application" "demo" "options" $options "config" dict "state" $state) (omit $v "options" "config" "state") -}}
{{- else if not .Values.app.image.repository -}}
{{- fail "kinesis-sidecar: `app.image.repository` must be set to the image of your app; or set `demo.enabled=true` for a demonstration without AWS" -}}
{{- end -}}
{{- toJson $v -}}
{{- end -}}

{{- define "app.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "kinesis-sidecar.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "app.container" -}}
{{- with .Values.app -}}
- name: app
  image: {{ include "kinesis-sidecar.image" (dict "image" .image "global" $.Values.global "tag" "latest") }}
  {{- with .image.pullPolicy }}
  imagePullPolicy: {{ . }}
  {{- end }}
  {{- range $field := list "command" "args" "envFrom" "ports" }}
  {{- with index $.Values.app $field }}
  {{ $field }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  env:
    {{- include "kinesis-sidecar.appEnv" $ | nindent 4 }}
    {{- with .env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  resources:
    {{- toYaml .resources | nindent 4 }}
  securityContext:
    {{- toYaml .securityContext | nindent 4 }}
  volumeMounts:
    {{- include "kinesis-sidecar.volumeMount" $ | nindent 4 }}
    {{- with .volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .extra }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
{{- end -}}

{{- /* Puts a record each second; reads a batch, prints it and acknowledges it. */ -}}
{{- define "app.demo" -}}
{{- $image := .Values.demo.image -}}
- name: app
  image: {{ include "kinesis-sidecar.image" (dict "image" $image "global" .Values.global "tag" "latest") }}
  {{- with $image.pullPolicy }}
  imagePullPolicy: {{ . }}
  {{- end }}
  env:
    {{- include "kinesis-sidecar.appEnv" . | nindent 4 }}
  command: [sh, -c]
  args:
    - |
      until wget -qO- "$KINESIS_SIDECAR_URL/v1/status" >/dev/null; do sleep 1; done
      number=0
      while number=$((number + 1)); do
        data=$(echo -n "order $number" | base64)
        wget -qO- --header 'Content-Type: application/json' \
          --post-data '{"Records":[{"Data":"'"$data"'","PartitionKey":"'$number'"}]}' \
          "$KINESIS_SIDECAR_URL/v1/local/records" >/dev/null
        records=$(wget -qO- "$KINESIS_SIDECAR_URL/v1/records?max_records=10&wait_ms=1000&encoding=utf8")
        echo "$records"
        batch=$(echo "$records" | sed -n 's/.*"batch_id":"\([^"]*\)".*/\1/p')
        [ -z "$batch" ] || wget -qO- --post-data '' "$KINESIS_SIDECAR_URL/v1/records/ack?batch_id=$batch"
        sleep 1
      done
  resources:
    {{- toYaml .Values.app.resources | nindent 4 }}
  securityContext:
    {{- toYaml .Values.app.securityContext | nindent 4 }}
  volumeMounts:
    {{- include "kinesis-sidecar.volumeMount" . | nindent 4 }}
{{- end -}}
