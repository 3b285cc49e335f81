"""What can be checked of the container files without an engine: schema, promises, and names that must agree."""

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
import redis
import yaml

from deploy import chart
from service.processes.http_server import SPARE_FILES
from service.settings.settings import Settings
from service.storage.streams.redis_server import RedisServer, find_binary
from tests.service.extras.webhooks.receiver import receiving
from tests.service.waiting import eventually

ROOT = Path(__file__).parents[1]
COMPOSE, GPU = ROOT / "docker-compose.yml", ROOT / "docker-compose.gpu.yml"
PASSWORD = "password0of1redis"
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


@pytest.fixture(scope="module")
def services() -> dict:
    return yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]


@pytest.fixture(scope="module")
def redis_of_compose(services: dict, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that was started by the command of the compose file; only its socket is another."""
    folder = tmp_path_factory.mktemp("valkey")
    server = folder / "valkey-server"
    server.write_text(f'#!/bin/sh\nexec {find_binary()} "$@" --port 0 --unixsocket {folder}/socket\n', "ascii")
    server.chmod(0o755)
    command = [part.replace("$$", "$") for part in services["redis"]["command"]]
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "REDISCLI_AUTH": PASSWORD}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            eventually((folder / "socket").exists)
            assert PASSWORD not in Path(f"/proc/{process.pid}/cmdline").read_text()
            yield f"unix://:{PASSWORD}@{folder}/socket?decode_responses=true"
        finally:
            process.terminate()


def limits_of(service: dict) -> dict:
    return service["deploy"]["resources"]["limits"]


def default_of(value: str) -> str:
    """What compose puts in for `${NAME:-default}`."""
    found = re.fullmatch(r"\$\{\w+:-(.*)\}", value)
    return found[1] if found else value


def bytes_of(memory: str) -> int:
    found = re.fullmatch(r"(\d+)([mg])", default_of(memory))
    assert found, memory
    return int(found[1]) << {"m": 20, "g": 30}[found[2]]


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


def test_redis_keeps_what_was_acknowledged(services, redis_of_compose):
    with redis.Redis.from_url(redis_of_compose) as client:
        found = {name: client.config_get(name)[name] for name in ("appendonly", "appendfsync", "maxmemory-policy")}
        assert found == {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}
        # A copy of itself, made to rewrite its file, fits beside it.
        assert 2 * int(client.config_get("maxmemory")["maxmemory"]) < bytes_of(limits_of(services["redis"])["memory"])
    assert services["redis"]["volumes"] == ["redis:/data"]
    assert "ports" not in services["redis"]


def test_redis_asks_for_the_password_that_the_services_give(services, redis_of_compose):
    with (
        redis.Redis.from_url(redis_of_compose.replace(f":{PASSWORD}@", "")) as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.ping()
    for name in ("api", "trainer"):
        url = services[name]["environment"]["NEARFIELD_REDIS"]
        assert url.startswith("redis://:${REDIS_PASSWORD:?")
        assert url.endswith("}@redis:6379/0")


def test_the_health_check_of_redis_knows_the_password_and_errors(services):
    assert services["redis"]["environment"]["REDISCLI_AUTH"].startswith("${REDIS_PASSWORD:?")
    assert services["redis"]["healthcheck"]["test"] == ["CMD", "valkey-cli", "-e", "ping"]


@pytest.mark.parametrize("name", ["redis", "api", "trainer"])
def test_a_process_that_was_taken_over_cannot_do_much(services, name):
    service = services[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged")
    assert [path.partition(":")[0] for path in service["tmpfs"]] == ["/tmp"]
    assert all("size=" in path for path in service["tmpfs"])
    assert all(volume.count(":") == 1 and volume[0] not in "./~" for volume in service["volumes"])  # none of the host


@pytest.mark.parametrize("name", ["redis", "api", "trainer"])
def test_every_service_is_bounded(services, name):
    limits = limits_of(services[name])
    assert bytes_of(limits["memory"]) >= 1 << 30
    assert float(default_of(limits["cpus"])) >= 1
    assert limits["pids"] >= 64


def test_as_many_threads_compute_as_there_are_processors(services):
    for name in ("api", "trainer"):
        assert services[name]["environment"]["NUMBA_NUM_THREADS"] == limits_of(services[name])["cpus"]


def test_the_api_may_open_the_files_that_it_needs(services):
    assert services["api"]["ulimits"]["nofile"] >= Settings().max_connections + SPARE_FILES


def test_redis_runs_as_the_user_of_its_image(services):
    assert services["redis"]["user"] == "999:1000"


def test_images_can_be_named_by_digest(services):
    assert re.search(r"^ARG PYTHON_IMAGE=\S+$", DOCKERFILE, re.MULTILINE)
    assert re.findall(r"^FROM (\S+) AS base$", DOCKERFILE, re.MULTILINE) == ["${PYTHON_IMAGE}"]
    stages = re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) <= {"${PYTHON_IMAGE}", *stages}
    (default,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    for name in ("api", "trainer"):
        assert services[name]["build"]["args"]["PYTHON_IMAGE"] == f"${{PYTHON_IMAGE:-{default}}}"
    assert services["redis"]["image"].startswith("${VALKEY_IMAGE:-valkey/valkey:")


def test_the_gpu_file_takes_nothing_away():
    """What compose merges into a service: it must not replace a limit or a part of what closes the container."""
    for service in yaml.safe_load(GPU.read_text("utf-8"))["services"].values():
        assert service.keys() == {"image", "build", "deploy"}
        assert service["build"].keys() == {"context", "target"}
        assert service["deploy"]["resources"].keys() == {"reservations"}


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
    used -= {"NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "REDISCLI_AUTH"}  # of others
    used = {name for name in used if not name.startswith("OTEL_")}
    used |= set(re.findall(r"^(?:ENV| +)\s*(NEARFIELD_\w+)=", DOCKERFILE, re.MULTILINE))
    assert used
    assert used <= known


@pytest.mark.parametrize("name", ["api", "trainer"])
def test_no_setting_is_lost_on_its_way_into_a_container(services, name):
    """A variable in `.env` that compose does not name would have no effect, and nobody would be told."""
    traces = (ROOT / "docs" / "monitoring.md").read_text("utf-8").split("\n## Traces\n")[1].split("\n## ")[0]
    expected = {f"NEARFIELD_{one.upper()}" for one in Settings.model_fields if one not in chart.OF_TEMPLATES}
    expected |= set(re.findall(r"`(OTEL_\w+)`", traces))
    environment = services[name]["environment"]
    assert expected <= environment.keys()
    assert {one for one in expected if environment[one] is not None} == {"NEARFIELD_BACKEND"}


def test_the_default_target_is_for_cpus_and_both_run_as_nobody_special():
    targets = re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE)
    assert targets[-1] == "cpu"
    for target in ("cpu", "gpu"):
        stage = DOCKERFILE.split(f" AS {target}\n")[1].split("\nFROM ")[0]
        user = re.findall(r"^USER (.*)$", stage, re.MULTILINE)
        assert len(user) == 1
        assert user[0] in re.findall(r"useradd --uid (\d+)", DOCKERFILE)  # by number, for Kubernetes
        assert "RUN python -m nearfield.service.cli.warm" in stage.split(f"USER {user[0]}")[1]


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
        "NEARFIELD_WEBHOOK_NETWORKS": "127.0.0.0/8",
    }
    with (
        receiving() as receiver,
        started(services["api"], environment) as api,
        started(services["trainer"], environment),
    ):
        headers = {"X-API-Key": "key-of-the-admins"}
        with httpx.Client(base_url=api, headers=headers, timeout=60) as client:
            ratings = [{"user": f"u{n}", "item": f"i{n * m % 7}", "rating": m} for n in range(20) for m in range(1, 5)]
            assert (
                client.post("/ratings", json=ratings, headers={"X-API-Key": "key-of-every-client"}).status_code == 202
            )
            webhook = client.post("/admin/webhooks", json={"url": receiver.answer("/jobs")}).json()
            job = client.post("/admin/retrain", json={"algorithm": "sgd", "params": {"n_epochs": 1}}).json()
            while job["state"] in ("queued", "running", "activating"):
                time.sleep(0.1)
                job = client.get(f"/admin/jobs/{job['id']}").json()
            assert (job["state"], job["promoted"]) == ("succeeded", True)
            assert client.get("/recommend/u1", params={"n": 1}).json()["model"] == "sgd"
            (told,) = eventually(lambda: receiver.at["/jobs"], 60)  # by the trainer: api supervises no jobs
            assert told.is_signed_by(webhook["secret"])
            assert (told.message["type"], told.message["job"]["id"]) == ("train.succeeded", job["id"])
            eventually(lambda: client.get("/admin/webhooks").json()["webhooks"][0]["delivered"] == 1)


@contextmanager
def started(service: dict, environment: dict[str, str]) -> Iterator[str]:
    """Run a service's command until the block ends; gives the last word of its ready line that is an address."""
    command = [sys.executable, "-m", "service", *service["command"].split()[1:]]
    with subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "is ready" in line
        try:
            yield next((word for word in line.split() if word.startswith("http://")), "")
        finally:
            process.terminate()
            assert process.wait(60) == 0
