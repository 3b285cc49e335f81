{{- define "nearfield.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "nearfield.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "nearfield.labels" -}}
{{ include "nearfield.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "nearfield.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag }}{{ end }}
{{- end }}

{{- define "nearfield.secret" -}}
{{ .Values.existingSecret | default (include "nearfield.name" .) }}
{{- end }}

{{- define "nearfield.claim" -}}
{{ .Values.data.existingClaim | default (printf "%s-data" (include "nearfield.name" .)) }}
{{- end }}

{{/* A changed secret restarts the pods. */}}
{{- define "nearfield.annotations" -}}
checksum/secret: {{ include (print $.Template.BasePath "/secret.yaml") . | sha256sum }}
{{- end }}

{{/* Of the pods of the service: its user, no service account, and no variables for each service of the namespace. */}}
{{- define "nearfield.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
# The first process is then that of Kubernetes, which reaps what others leave behind.
shareProcessNamespace: true
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "nearfield.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* A volume that one node mounts: api and trainer must run there together. */}}
{{- define "nearfield.affinity" -}}
{{- if and (eq .Values.data.accessMode "ReadWriteOnce") (not .Values.store.url) }}
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "nearfield.selector" . | nindent 12 }}
            nearfield/data: shared
{{- end }}
{{- end }}

{{- define "nearfield.mounts" -}}
volumeMounts:
  - name: data
    mountPath: /data
  - name: tmp
    mountPath: /tmp
  - name: shm
    mountPath: /dev/shm
{{- end }}

{{/* Of the trainer, and of replicas that share its folder. */}}
{{- define "nearfield.volumes" -}}
volumes:
  - name: data
    persistentVolumeClaim:
      claimName: {{ include "nearfield.claim" . | quote }}
  {{- include "nearfield.memory" . | nindent 2 }}
{{- end }}

{{/* Of replicas that follow a store: what they have is a copy. */}}
{{- define "nearfield.copy" -}}
volumes:
  - name: data
    emptyDir: {}
  {{- include "nearfield.memory" . | nindent 2 }}
{{- end }}

{{- define "nearfield.memory" -}}
- name: tmp
  emptyDir:
    medium: Memory
    sizeLimit: 64Mi
- name: shm
  emptyDir:
    medium: Memory
    sizeLimit: {{ .Values.sharedMemory }}
{{- end }}

{{/* Resources with GPUs: (dict "resources" … "gpus" … "root" $) */}}
{{- define "nearfield.resources" -}}
{{- $resources := deepCopy .resources }}
{{- if .gpus }}
{{- $limits := merge (dict .root.Values.gpuResource (int .gpus)) (default dict $resources.limits) }}
{{- $_ := set $resources "limits" $limits }}
{{- end }}
resources:
  {{- toYaml $resources | nindent 2 }}
{{- end }}

{{/* The text of a setting. Helm reads numbers as floats, which `quote` would write with an exponent. */}}
{{- define "nearfield.text" -}}
{{- if kindIs "slice" . }}{{ join "," . }}{{ else if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end }}
{{- end }}

{{/* Credentials of the store. */}}
{{- define "nearfield.credentials" -}}
{{- with .Values.store.existingSecret }}
envFrom:
  - secretRef:
      name: {{ . | quote }}
{{- end }}
{{- end }}

{{/* Variables of api and trainer, without keys. */}}
{{- define "nearfield.environment" -}}
- name: NEARFIELD_DATA
  value: /data
- name: NUMBA_NUM_THREADS
  valueFrom:
    resourceFieldRef:
      resource: limits.cpu
{{- if .Values.redis.enabled }}
- name: REDIS_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ include "nearfield.secret" . | quote }}
      key: redis-password
- name: NEARFIELD_REDIS
  value: redis://:$(REDIS_PASSWORD)@{{ include "nearfield.name" . }}-redis:6379/0
{{- else }}
- name: NEARFIELD_REDIS
  valueFrom:
    secretKeyRef:
      name: {{ include "nearfield.secret" . | quote }}
      key: redis-url
{{- end }}
{{- with .Values.store.url }}
- name: NEARFIELD_STORE
  value: {{ . | quote }}
{{- end }}
{{- range $name, $value := .Values.settings }}
- name: NEARFIELD_{{ upper $name }}
  value: {{ include "nearfield.text" $value | quote }}
{{- end }}
{{- range $name, $value := .Values.otel }}
- name: {{ $name }}
  value: {{ include "nearfield.text" $value | quote }}
{{- end }}
{{- range $set, $settings := .Values.dataSetSettings }}
{{- range $name, $value := $settings }}
- name: NEARFIELD_{{ upper $set | replace "-" "_" }}__{{ upper $name }}
  value: {{ include "nearfield.text" $value | quote }}
{{- end }}
{{- end }}
{{- end }}
