"""The values of the Helm chart: `values.yaml`, its JSON schema and the table of the documentation come from one list.

Those under `settings` come from the settings of the service, without the ones that the templates set.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from service.settings.settings import Settings

# Settings that the templates set, or that need files which the chart does not mount.
OF_TEMPLATES = frozenset(
    [
        "host",
        "port",
        "data",
        "redis",
        "store",
        "worker",
        "api_key",
        "admin_key",
        "read_key",
        "write_key",
        "cluster",
        "cluster_tls_ca",
        "tls_certificate",
        "tls_key",
        "cluster_tls_cert",
        "cluster_tls_key",
    ]
)
SETTING_KEYS = ("type", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
NAME_OF_DATA_SET = "^[a-z][a-z0-9-]{0,31}$"
NOTE = "# Made from deploy/chart.py by `make docs`.\n"


class Value(NamedTuple):
    """One value: its path, default and meaning, and what the schema demands beyond the type of the default."""

    path: str
    default: Any
    meaning: str
    rules: Mapping[str, Any] = MappingProxyType({})


COUNT, POSITIVE = {"minimum": 0}, {"minimum": 1}
LETTERS = {"pattern": "^[A-Za-z0-9]*$"}
FREE = {"additionalProperties": True}
PLAIN = ["string", "number", "boolean"]


def _bounds(cpu: str, memory: str, least_cpu: str) -> dict[str, Any]:
    return {"requests": {"cpu": least_cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


VALUES = (
    Value("image.repository", "nearfield", "Image of the service; build it from the Dockerfile."),
    Value("image.tag", "cpu", "Its tag; one of the target gpu for nodes with GPUs."),
    Value("image.digest", "", "Its digest (sha256:…), which wins over the tag."),
    Value("image.pullPolicy", "IfNotPresent", "When it is pulled.", {"enum": ["Always", "IfNotPresent", "Never"]}),
    Value("image.pullSecrets", [], "Names of secrets for its registry, as objects with `name`."),
    Value(
        "existingSecret",
        "",
        "Secret with api-key, admin-key, perhaps read-key and write-key, and redis-password or redis-url.",
    ),
    Value("keys.api", "", "NEARFIELD_API_KEY, needed without existingSecret; 16 characters or more."),
    Value("keys.admin", "", "NEARFIELD_ADMIN_KEY, needed without existingSecret."),
    Value("keys.read", "", "NEARFIELD_READ_KEY."),
    Value("keys.write", "", "NEARFIELD_WRITE_KEY."),
    Value("settings", {}, "Settings of the service by their names (docs/operations.md), for example `max_n: 50`."),
    Value("dataSetSettings", {}, "Own settings of further data sets, by name of the data set, then of the setting."),
    Value(
        "otel",
        {},
        "Variables of OpenTelemetry for settings.traces, such as OTEL_EXPORTER_OTLP_ENDPOINT.",
        {"propertyNames": {"pattern": "^OTEL_[A-Z_]+$"}, "additionalProperties": {"type": PLAIN}},
    ),
    Value(
        "api.replicas",
        2,
        "Processes that answer. Several nodes need a store, or a volume with ReadWriteMany.",
        POSITIVE,
    ),
    Value("api.gpus", 0, "GPUs of each replica.", COUNT),
    Value(
        "api.preStopSeconds", 10, "Seconds for balancers to send elsewhere before the service is told to stop.", COUNT
    ),
    Value(
        "api.startupSeconds",
        300,
        "Seconds until HTTP must be answered after a start; models may take longer.",
        POSITIVE,
    ),
    Value(
        "api.resources",
        _bounds("2", "4Gi", "500m"),
        "Whole processors as limit: the service computes with as many threads.",
        FREE,
    ),
    Value("api.nodeSelector", {}, "Labels of its nodes.", FREE),
    Value("api.tolerations", [], "Taints of nodes that it tolerates."),
    Value("trainer.gpus", 0, "GPUs of the trainer.", COUNT),
    Value("trainer.resources", _bounds("2", "4Gi", "500m"), "See api.resources.", FREE),
    Value("trainer.nodeSelector", {}, "Labels of its nodes.", FREE),
    Value("trainer.tolerations", [], "Taints of nodes that it tolerates."),
    Value("gpuResource", "nvidia.com/gpu", "Name of GPUs in the cluster."),
    Value("sharedMemory", "1Gi", "Most of /dev/shm of api and trainer; what is used counts toward their memory."),
    Value("data.existingClaim", "", "Volume claim to use for DATA instead of a new one."),
    Value("data.size", "20Gi", "Size of the new one."),
    Value("data.storageClassName", "", "Its class; empty: that of the cluster."),
    Value(
        "data.accessMode",
        "ReadWriteOnce",
        "ReadWriteOnce keeps api and trainer on one node. ReadWriteMany needs working flock and rename.",
        {"enum": ["ReadWriteOnce", "ReadWriteMany"]},
    ),
    Value(
        "store.url",
        "",
        "NEARFIELD_STORE, such as s3://BUCKET/PREFIX: each replica then has a folder of its own, on any node.",
        {"pattern": "^((s3|gs|az)://.+)?$"},
    ),
    Value(
        "store.existingSecret",
        "",
        "Secret whose entries become variables of api and trainer, such as AWS_REGION, or OTEL_EXPORTER_OTLP_HEADERS.",
    ),
    Value(
        "redis.enabled", True, "Whether the chart runs a Redis; else give redis.url, or redis-url in existingSecret."
    ),
    Value("redis.url", "", "URL of your Redis; docs/deployment.md says what it must promise."),
    Value(
        "redis.password",
        "",
        "Password of the chart's Redis, letters and digits, needed without existingSecret.",
        LETTERS,
    ),
    Value(
        "redis.image",
        "valkey/valkey:8.1-alpine",
        "Any server compatible with Redis 6.2 that brings valkey-server and valkey-cli.",
    ),
    Value("redis.maxmemory", "512mb", "From here on it refuses ratings; less than half of its memory limit."),
    Value("redis.size", "10Gi", "Size of its volume."),
    Value("redis.storageClassName", "", "Class of its volume; empty: that of the cluster."),
    Value("redis.resources", _bounds("1", "1280Mi", "250m"), "Of Redis.", FREE),
    Value("service.type", "ClusterIP", "Kind of the service.", {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]}),
    Value("service.port", 8000, "Its port.", {"minimum": 1, "maximum": 65535}),
    Value("service.annotations", {}, "Its annotations.", FREE),
    Value("ingress.enabled", False, "Whether there is an ingress. Name its networks in settings.trusted_proxies."),
    Value("ingress.className", "", "Its class."),
    Value("ingress.host", "", "Its host, needed if it is enabled."),
    Value("ingress.tlsSecret", "", "Secret with its certificate; empty: no TLS."),
    Value("ingress.annotations", {}, "Its annotations.", FREE),
    Value("networkPolicy.enabled", False, "Whether only api and trainer reach the chart's Redis."),
    Value("monitoring.serviceMonitor", False, "Whether to make a ServiceMonitor of the Prometheus operator."),
    Value("monitoring.prometheusRule", False, "Whether to make the alerts, as a PrometheusRule."),
    Value("monitoring.dashboards", False, "Whether to make a ConfigMap with the dashboard for Grafana's sidecar."),
    Value("monitoring.labels", {}, "Labels of these three, by which the operator and the sidecar find them.", FREE),
)


def values_file() -> str:
    """The file values.yaml."""
    lines, done = [NOTE], set[str]()
    for value in VALUES:
        *above, name = value.path.split(".")
        if above and above[0] not in done:
            done.add(above[0])
            lines.append(f"\n{above[0]}:\n")
        indent = "  " * len(above)
        lines.append(f"{indent}# {value.meaning}\n{indent}{name}: {json.dumps(value.default)}\n")
    return "".join(lines)


def schema() -> dict[str, Any]:
    """The JSON schema of the values, in the draft that Helm knows."""
    root = _object({})
    for value in VALUES:
        *above, name = value.path.split(".")
        place = root
        for part in above:
            place = place["properties"].setdefault(part, _object({}))
        place["properties"][name] = {"description": value.meaning, **_shape(value)}
    root["properties"]["global"] = {"type": "object"}  # Helm adds it
    settings = settings_schema()
    root["properties"]["settings"] |= settings
    own = {"additionalProperties": False, "patternProperties": {NAME_OF_DATA_SET: settings}}
    root["properties"]["dataSetSettings"] |= own
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Nearfield", **root}


def settings_schema() -> dict[str, Any]:
    """The schema of the settings that can be chosen; a list may be text with commas, as in the environment."""
    fields = Settings.model_json_schema()["properties"]
    return _object({name: _of_setting(field) for name, field in fields.items() if name not in OF_TEMPLATES})


def as_table() -> str:
    """The values as a table of the documentation."""
    rows = [f"| `{one.path}` | `{json.dumps(one.default)}` | {one.meaning} |" for one in VALUES]
    return "\n".join(["| Value | Default | Meaning |", "| --- | --- | --- |", *rows])


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _shape(value: Value) -> dict[str, Any]:
    kinds = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    return {"type": kinds[type(value.default)], **value.rules}


def _of_setting(field: dict[str, Any]) -> dict[str, Any]:
    """The schema of a setting, from pydantic's."""
    kind = next(one for one in field.get("anyOf", [field]) if one.get("type") != "null")
    found = {name: kind[name] for name in SETTING_KEYS if name in kind}
    if found["type"] == "array":
        found = (
            {"type": "string"} if "prefixItems" in kind else {"type": ["string", "array"], "items": {"type": "string"}}
        )
    return {"description": field["description"], **found}
