"""The Helm chart: what can be checked without Helm, and what Helm makes of it where it is installed."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import redis
import yaml

import service
from deploy import chart
from service.processes.event_loop import STOP_S
from service.settings.settings import Settings
from service.storage.streams.redis_server import find_binary
from tests.service.process import Service
from tests.service.waiting import eventually

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "nearfield"
TEMPLATES = sorted(path for path in (CHART / "templates").rglob("*") if path.is_file())
TEXTS = {path: path.read_text("utf-8") for path in TEMPLATES}
EVERY_TEXT = "\n".join(TEXTS.values())
ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
VALUES = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
SCHEMA = json.loads((CHART / "values.schema.json").read_text("utf-8"))
COMPOSE = (ROOT / "docker-compose.yml").read_text("utf-8")
KEYS = {"keys": {"api": "a-key-of-all-clients", "admin": "a-key-of-the-admins"}, "redis": {"password": "letters0"}}
OWN_REDIS = {"redis": {"enabled": False, "url": "rediss://redis.example:6379/0"}}
MONITORED = {"serviceMonitor": True, "prometheusRule": True, "dashboards": True, "labels": {"release": "p"}}
# Values with which the chart is rendered.
CASES: dict[str, dict[str, Any]] = {
    "default": KEYS,
    "gpu": {**KEYS, "image": {"tag": "gpu"}, "api": {"gpus": 1, "replicas": 1}, "trainer": {"gpus": 2}},
    "own redis": KEYS | OWN_REDIS,
    "replicas": {**KEYS, "api": {"replicas": 5, "preStopSeconds": 30}, "data": {"accessMode": "ReadWriteMany"}},
    "store": {**KEYS, "store": {"url": "s3://bucket/prefix", "existingSecret": "aws"}},
    "secret": {"existingSecret": "mine", "data": {"existingClaim": "mine"}},
    "numbers": {"existingSecret": "007", "data": {"storageClassName": "1"}, "store": {"existingSecret": "8"}},
    "all": {
        **KEYS,
        "settings": {"max_body_bytes": 4 << 20, "data_sets": ["shop", "my-music"], "retrain_share": 0.5},
        "otel": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_SAMPLER_ARG": 0.1},
        "dataSetSettings": {"my-music": {"max_n": 50, "rating_scale": "1,5"}},
        "ingress": {"enabled": True, "host": "near.example", "tlsSecret": "tls"},
        "networkPolicy": {"enabled": True},
        "monitoring": MONITORED,
    },
}


def leaves(values: dict[str, Any], above: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict) and value and not name.endswith("esources"):
            yield from leaves(value, f"{above}{name}.")
        else:
            yield above + name


def refused(values: dict[str, Any]) -> bool:
    return not jsonschema.Draft7Validator(SCHEMA).is_valid(values)


def test_values_obey_the_schema_and_the_schema_is_one():
    schema = CHART / "values.schema.json"
    command = [sys.executable, "-m", "check_jsonschema"]
    for files in (["--check-metaschema", str(schema)], ["--schemafile", str(schema), str(CHART / "values.yaml")]):
        done = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
    for values in CASES.values():
        assert not refused(values)


@pytest.mark.parametrize(
    "values",
    [
        {"settings": {"max_m": 5}},
        {"settings": {"max_n": 0}},
        {"settings": {"max_n": "many"}},
        {"settings": {"host": "0.0.0.0"}},
        {"settings": {"backend": "tpu"}},
        {"dataSetSettings": {"My_Music": {}}},
        {"dataSetSettings": {"shop": {"max_m": 5}}},
        {"api": {"replicas": 0}},
        {"redis": {"password": "with/slash"}},
        {"replicas": 3},
        {"store": {"url": "file:///a/folder/of/one/pod"}},
        {"otel": {"TRACES_SAMPLER": "always_on"}},
    ],
    ids=json.dumps,
)
def test_the_schema_refuses_what_the_service_would_refuse(values: dict[str, Any]):
    assert refused(values)


def test_every_setting_is_one_of_the_chart_or_set_by_it():
    settings = set(SCHEMA["properties"]["settings"]["properties"])
    assert settings | chart.OF_TEMPLATES == set(Settings.model_fields)
    assert not settings & chart.OF_TEMPLATES
    for name in chart.OF_TEMPLATES - {"worker"}:  # an option of the command
        assert (f"NEARFIELD_{name.upper()}\n" in EVERY_TEXT) is not name.startswith(("cluster", "tls")), name


def test_templates_name_the_values_that_exist_and_all_of_them():
    used = set(re.findall(r"\.Values((?:\.\w+)+)", " ".join(ACTION.findall(EVERY_TEXT))))
    used = {name.removeprefix(".") for name in used}
    own = {name for name in used if name.startswith("settings.")}
    assert {name.partition(".")[2] for name in own} <= set(Settings.model_fields)
    assert used - own == set(leaves(VALUES)) == {value.path for value in chart.VALUES}


def test_variables_in_templates_are_settings():
    named = set(re.findall(r"name: NEARFIELD_(\w+)$", EVERY_TEXT, re.MULTILINE))
    assert named
    assert {name.lower() for name in named} <= set(Settings.model_fields)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_actions_of_templates_are_closed_and_include_what_is_defined(path: Path):
    text = TEXTS[path]
    assert text.count("{{") == text.count("}}") == len(ACTION.findall(text))
    depth = 0
    for action in ACTION.findall(text):
        if re.match(r"(if|with|range|define)\b", action):
            depth += 1
        elif re.match(r"else\b", action):
            assert depth, action
        elif re.fullmatch("end", action):
            depth -= 1
        assert depth >= 0, action
        assert action.count("(") == action.count(")") and action.count('"') % 2 == 0, action
    assert depth == 0
    defined = set(re.findall(r'define "([\w.]+)"', EVERY_TEXT))
    assert set(re.findall(r'include "([\w.]+)"', text)) <= defined
    for name in re.findall(r'\.Files\.Get "([^"]+)"', text):
        assert (CHART / name).is_file(), name


def test_the_chart_agrees_with_compose_and_the_service():
    versions = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert versions["version"] == versions["appVersion"] == service.__version__
    assert f"VALKEY_IMAGE:-{VALUES['redis']['image']}}}" in COMPOSE
    (user,) = re.findall(r"useradd --uid (\d+)", (ROOT / "Dockerfile").read_text("utf-8"))
    assert set(re.findall(r"runAsUser: (\d+)", EVERY_TEXT)) == {user, "999"}
    (more,) = re.findall(r"add \.Values\.api\.preStopSeconds (\d+)", EVERY_TEXT)
    assert int(more) >= STOP_S + 5


def test_the_script_of_helm_test_passes_on_a_running_service_and_fails_without(tmp_path: Path):
    keys = {"api_key": "a-key-of-all-clients", "admin_key": "a-key-of-the-admins"}
    running = Service(tmp_path / "data", worker=False, **keys)
    command = [sys.executable, "-c", (CHART / "files" / "try.py").read_text("utf-8")]
    environment = os.environ | {"SERVICE_URL": str(running.client.base_url), "API_KEY": keys["api_key"]}
    try:
        for _ in range(2):  # it leaves nothing behind
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        path, key = "/users/helm-test-user/ratings", {"X-API-Key": keys["api_key"]}
        eventually(lambda: running.client.get(path, headers=key).json()["ratings"] == [])
    finally:
        running.stop()
    assert subprocess.run(command, env=environment, capture_output=True, check=False).returncode


def test_redis_keeps_what_was_acknowledged_and_asks_for_its_password(tmp_path: Path):
    server = tmp_path / "valkey-server"
    server.write_text(f'#!/bin/sh\nexec {find_binary()} "$@" --port 0 --unixsocket {tmp_path}/socket\n', "ascii")
    server.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "REDISCLI_AUTH": "letters0", "APPENDFSYNC": "always"}
    environment["MAXMEMORY"] = VALUES["redis"]["maxmemory"]
    command = ["sh", "-ec", (CHART / "files" / "redis.sh").read_text("utf-8")]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            eventually((tmp_path / "socket").exists, 60)
            with redis.Redis.from_url(f"unix://{tmp_path}/socket") as client, pytest.raises(redis.AuthenticationError):
                client.ping()
            with redis.Redis.from_url(f"unix://:letters0@{tmp_path}/socket?decode_responses=true") as client:
                found = {name: client.config_get(name)[name] for name in ("appendonly", "appendfsync")}
                assert found == {"appendonly": "yes", "appendfsync": "always"}
                assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
                assert client.config_get("maxmemory") == {"maxmemory": str(512 << 20)}
        finally:
            process.terminate()


@pytest.mark.parametrize("case", CASES)
def test_helm_renders_what_kubernetes_takes(case: str, tmp_path: Path):
    documents = rendered(CASES[case], tmp_path)
    check_schemas(documents, tmp_path)
    pods = [pod for one in documents if (pod := pod_of(one)) is not None]
    assert len(pods) == (3 if case == "own redis" else 4)  # of the test, too
    for pod in pods:
        assert pod["automountServiceAccountToken"] is pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
    api = next(pod for pod in pods if pod["containers"][0]["name"] == "api")
    delay = int(api["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
    assert api["terminationGracePeriodSeconds"] >= delay + STOP_S + 5
    if case == "gpu":
        assert api["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    volumes = {pod["containers"][0]["name"]: pod["volumes"][0] for pod in pods if "volumes" in pod}
    assert ("emptyDir" in volumes["api"]) is (case == "store")
    assert "persistentVolumeClaim" in volumes["trainer"]
    if case == "store":
        assert api["containers"][0]["envFrom"] == [{"secretRef": {"name": "aws"}}]
        assert "affinity" not in api
    if case == "all":
        variables = {one["name"]: one.get("value") for one in api["containers"][0]["env"]}
        assert variables["NEARFIELD_MAX_BODY_BYTES"] == str(4 << 20)
        assert variables["NEARFIELD_DATA_SETS"] == "shop,my-music"
        assert variables["NEARFIELD_MY_MUSIC__MAX_N"] == "50"
        assert variables["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
        assert variables["OTEL_TRACES_SAMPLER_ARG"] == "0.1"


def rendered(values: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """The documents that Helm makes of the chart."""
    helm = shutil.which("helm")
    text = rendered_by_package(values) if helm is None else rendered_by_program(helm, values, folder)
    (folder / "rendered.yaml").write_text(text, "utf-8")
    return [one for one in yaml.safe_load_all(text) if one]


def rendered_by_program(helm: str, values: dict[str, Any], folder: Path) -> str:
    (folder / "values.yaml").write_text(yaml.safe_dump(values), "utf-8")
    command = [helm, "template", "nearfield", str(CHART), "--values", str(folder / "values.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered_by_package(values: dict[str, Any]) -> str:
    """By Helm as a library, in the package helm-python-sdk (75 MB, so that nothing installs it by itself)."""
    library = pytest.importorskip("helm_python.chart", reason="needs helm or helm-python-sdk")
    made = library.Chart.load(str(CHART)).render(values, name="nearfield", namespace="default")
    return "\n---\n".join(text for name, text in made.items() if not name.endswith("NOTES.txt"))


def check_schemas(documents: list[dict[str, Any]], folder: Path) -> None:
    """Compare with the schemas of Kubernetes, by kubeconform or kubernetes-validate, if one of them is installed."""
    if kubeconform := shutil.which("kubeconform"):
        command = [kubeconform, "-strict", "-ignore-missing-schemas", str(folder / "rendered.yaml")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        return
    try:
        validate = importlib.import_module("kubernetes_validate")
    except ImportError:
        return
    for one in documents:
        if "monitoring.coreos.com" not in one["apiVersion"]:
            validate.validate(one, "1.30", strict=True)


def pod_of(document: dict[str, Any]) -> dict[str, Any] | None:
    if document["kind"] == "Pod":
        return dict(document["spec"])
    return document["spec"]["template"]["spec"] if document["kind"] in ("Deployment", "StatefulSet") else None
