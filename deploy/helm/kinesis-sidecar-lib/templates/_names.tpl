{{- /* SPDX-License-Identifier: Apache-2.0

Each template takes the root context. Its values are those of the dependency with the alias kinesisSidecar, or without an
alias. With another alias it takes (dict "root" $ "values" .Values.ALIAS).
*/ -}}

{{- /* The values, as JSON: a template gives text only. */ -}}
{{- define "kinesis-sidecar.values" -}}
{{- $root := .root | default . -}}
{{- $values := .values | default $root.Values.kinesisSidecar | default (index $root.Values "kinesis-sidecar-lib") -}}
{{- if not $values -}}
{{- fail "kinesis-sidecar: no values found; depend on kinesis-sidecar-lib with the alias kinesisSidecar, or pass (dict \"root\" $ \"values\" .Values.ALIAS)" -}}
{{- end -}}
{{- toJson $values -}}
{{- end -}}

{{- define "kinesis-sidecar.version" -}}
0.1.0
{{- end -}}

{{- /* "native" or "container". */ -}}
{{- define "kinesis-sidecar.mode" -}}
{{- $root := .root | default . -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
{{- if ne $v.mode "auto" -}}
{{- $v.mode -}}
{{- else if semverCompare ">=1.29.0-0" $root.Capabilities.KubeVersion.Version -}}
native
{{- else -}}
container
{{- end -}}
{{- end -}}

{{- /* Takes (dict "image" IMAGE "global" .Values.global "tag" DEFAULT). */ -}}
{{- define "kinesis-sidecar.image" -}}
{{- $global := .global | default dict -}}
{{- with $global.imageRegistry | default .image.registry -}}{{ . }}/{{- end -}}
{{- .image.repository -}}
{{- if .image.digest -}}@{{ .image.digest }}{{- else -}}:{{ .image.tag | default .tag }}{{- end -}}
{{- end -}}

{{- define "kinesis-sidecar.fullname" -}}
{{- $root := .root | default . -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
{{- if $v.fullnameOverride -}}
{{- $v.fullnameOverride -}}
{{- else if contains $root.Chart.Name $root.Release.Name -}}
{{- $root.Release.Name | trunc 54 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" $root.Release.Name $root.Chart.Name | trunc 54 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kinesis-sidecar.selector" -}}
{{- $root := .root | default . -}}
{{- $v := include "kinesis-sidecar.values" . | fromJson -}}
{{- if $v.podSelector -}}
{{- toYaml $v.podSelector -}}
{{- else -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- end -}}
{{- end -}}

{{- /* Takes (dict "context" CONTEXT "labels" MORE). */ -}}
{{- define "kinesis-sidecar.labels" -}}
{{- $root := .context.root | default .context -}}
{{ include "kinesis-sidecar.selector" .context }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with .labels }}
{{ toYaml . }}
{{- end -}}
{{- end -}}
