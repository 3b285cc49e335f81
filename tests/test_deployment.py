"""What can be checked of the container files without an engine: schema, promises, and names that must agree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from service.redis_server import RedisServer
from service.settings import Settings

ROOT = Path(__file__).parents[1]
COMPOSE, GPU = ROOT / "docker-compose.yml", ROOT / "docker-compose.gpu.yml"
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


@pytest.fixture(scope="module")
def services() -> dict:
    return yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize("path", [COMPOSE, GPU], ids=lambda path: path.name)
def test_compose_files_obey_the_schema(path):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_redis_keeps_what_was_acknowledged(services):
    redis = services["redis"]
    for option in ("--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction"):
        assert option in redis["command"]
    assert redis["volumes"] == ["redis:/data"]
    assert "ports" not in redis  # without a password it must not be reached from outside


@pytest.mark.parametrize("name", ["api", "trainer"])
def test_service_and_trainer_share_state_and_need_both_keys(services, name):
    service = services[name]
    assert service["volumes"] == ["data:/data"]
    assert service["depends_on"] == {"redis": {"condition": "service_healthy"}}
    for key in ("NEARFIELD_API_KEY", "NEARFIELD_ADMIN_KEY"):
        assert service["environment"][key].startswith(f"${{{key}:?")
    for key in ("NEARFIELD_READ_KEY", "NEARFIELD_WRITE_KEY"):
        assert service["environment"][key] is None  # as it is set outside


def test_everything_restarts_and_is_watched(services):
    assert {service["restart"] for service in services.values()} == {"unless-stopped"}
    assert "healthcheck" in services["redis"]
    assert "/health/ready" in DOCKERFILE
    assert services["trainer"]["healthcheck"] == {"disable": True}


def test_trainings_run_in_the_trainer_and_by_themselves(services):
    assert services["api"]["command"] == "nearfield serve --no-worker"
    assert services["trainer"]["command"] == "nearfield worker"
    rules = ("NEARFIELD_RETRAIN_SHARE", "NEARFIELD_RETRAIN_EVERY_RATINGS", "NEARFIELD_RETRAIN_EVERY_HOURS")
    assert [services["trainer"]["environment"][name] for name in rules] == [None] * 3  # as they are set outside
    assert Settings().retrain_share > 0


def test_the_gpu_file_reserves_devices_for_the_gpu_image():
    for service in yaml.safe_load(GPU.read_text("utf-8"))["services"].values():
        (device,) = service["deploy"]["resources"]["reservations"]["devices"]
        assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])
        assert service["build"]["target"] == "gpu"


def test_every_variable_is_a_setting(services):
    known = {f"NEARFIELD_{name.upper()}" for name in Settings.model_fields}
    used = {name for service in services.values() for name in service.get("environment", {})}
    used |= set(re.findall(r"^(?:ENV| +)\s*(NEARFIELD_\w+)=", DOCKERFILE, re.MULTILINE))
    assert used
    assert used <= known


def test_the_default_target_is_for_cpus_and_both_run_as_nobody_special():
    targets = re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE)
    assert targets[-1] == "cpu"
    for target in ("cpu", "gpu"):
        stage = DOCKERFILE.split(f" AS {target}\n")[1].split("\nFROM ")[0]
        user = re.findall(r"^USER (.*)$", stage, re.MULTILINE)
        assert len(user) == 1
        assert user[0] in re.findall(r"useradd --uid (\d+)", DOCKERFILE)  # by number, for Kubernetes
        assert "RUN python -m service.warm" in stage.split(f"USER {user[0]}")[1]


def test_the_health_check_waits_for_a_start_that_compiles():
    (seconds,) = re.findall(r"^HEALTHCHECK .*--start-period=(\d+)s", DOCKERFILE, re.MULTILINE)
    assert int(seconds) >= 300  # 60 seconds of two cores, where they are several times as slow


def test_compiled_kernels_can_be_read_by_any_user():
    assert "NUMBA_CACHE_DIR=/var/cache/nearfield" in DOCKERFILE
    assert "--mode=0755 /var/cache/nearfield" in DOCKERFILE


def test_the_build_context_holds_what_is_copied_and_nothing_else():
    allowed = {line[1:].rstrip("/") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    copied = {name for line in re.findall(r"^COPY (?!--)(.*) \S+$", DOCKERFILE, re.MULTILINE) for name in line.split()}
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)


def test_api_and_trainer_work_together_as_compose_starts_them(services, redis_server, tmp_path):
    """Without containers: one Redis, `serve` and `worker` with the commands of the compose file, a shared folder."""
    environment = {
        "NEARFIELD_API_KEY": "key-of-every-client",
        "NEARFIELD_ADMIN_KEY": "key-of-the-admins",
        "NEARFIELD_REDIS": redis_server.url,
        "NEARFIELD_DATA": str(tmp_path / "data"),
        "NEARFIELD_PORT": "0",
    }
    with started(services["api"], environment) as api, started(services["trainer"], environment):
        headers = {"X-API-Key": "key-of-the-admins"}
        with httpx.Client(base_url=api, headers=headers, timeout=30) as client:
            ratings = [{"user": f"u{n}", "item": f"i{n * m % 7}", "rating": m} for n in range(20) for m in range(1, 5)]
            assert (
                client.post("/ratings", json=ratings, headers={"X-API-Key": "key-of-every-client"}).status_code == 202
            )
            job = client.post("/admin/retrain", json={"algorithm": "sgd", "params": {"n_epochs": 1}}).json()
            while job["state"] in ("queued", "running", "activating"):
                time.sleep(0.1)
                job = client.get(f"/admin/jobs/{job['id']}").json()
            assert (job["state"], job["promoted"]) == ("succeeded", True)
            assert client.get("/recommend/u1", params={"n": 1}).json()["model"] == "sgd"


@contextmanager
def started(service: dict, environment: dict[str, str]) -> Iterator[str]:
    """Run a service's command until the block ends; gives the last word of its ready line that is an address."""
    command = [sys.executable, "-m", "service.cli", *service["command"].split()[1:]]
    with subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        assert "is ready" in line
        try:
            yield next((word for word in line.split() if word.startswith("http://")), "")
        finally:
            process.terminate()
            assert process.wait(30) == 0
