"""A service without any extra is whole: it lacks what extras add, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from service import extras
from service.cli.client import Client
from service.processes import parts
from tests.service.waiting import eventually

PROGRAM = """
from service.processes import parts
parts.EXTRAS.clear()
from service.__main__ import run
import sys
sys.exit(run(sys.argv[1:]))
"""
OF_EXTRAS = [
    ("GET", "/console/"),
    ("GET", "/admin/experiments"),
    ("PUT", "/admin/experiments/one"),
    ("GET", "/admin/experiments/one"),
    ("DELETE", "/admin/experiments/one"),
    ("GET", "/admin/export"),
    ("GET", "/admin/exports"),
    ("POST", "/admin/lists"),
    ("GET", "/admin/webhooks"),
    ("DELETE", "/admin/webhooks/one"),
]


def without_extras(*arguments, **options):
    """Start `nearfield` with an empty list of extras."""
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, text=True, **options)


@pytest.fixture
def client(tmp_path):
    process = without_extras("serve", "--port", "0", "--data", str(tmp_path / "data"))
    try:
        line = process.stdout.readline()
        with Client(line.partition(" on ")[2].split()[0]) as client:
            yield client
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        process.stdout.close()


def test_ratings_trainings_lists_and_forgetting_work(client):
    ratings = [
        {"user": f"u{user}", "item": f"i{(user + step) % 12}", "rating": 1 + step % 5}
        for user in range(30)
        for step in range(8)
    ]
    stream_id = client.rate(ratings)["stream_id"]
    job = client.ended_job(client.start_training("als-implicit", {"n_factors": 8, "n_epochs": 2})["id"])
    assert (job["state"], job["promoted"]) == ("succeeded", True)
    answer = client.http.get("/recommend/u1", params={"wait_for": stream_id}).json()
    assert (answer["personalized"], answer["model"]) == (True, "als-implicit")
    refused = client.http.get("/recommend/u1", params={"experiment": "home"})
    assert refused.status_code == httpx.codes.UNPROCESSABLE_ENTITY
    assert refused.json()["detail"] == (
        "Invalid experiment: expected none, because this service has no extra for experiments, got 'home'"
    )
    client.rate([{"user": "u1", "item": answer["items"][0]["item"], "rating": 5}])
    forgotten = client.http.delete("/admin/users/u1").json()
    eventually(lambda: client.http.get(f"/admin/jobs/{forgotten['job']}").json()["state"] == "succeeded")
    assert client.http.get("/users/u1/ratings").status_code == httpx.codes.NOT_FOUND


def test_routes_of_extras_are_absent(client):
    for method, path in OF_EXTRAS:
        answer = client.http.request(method, path, json={} if method == "POST" else None)
        assert answer.status_code == httpx.codes.NOT_FOUND, (method, path, answer.text)
    documented = client.http.get("/openapi.json").json()["paths"]
    paths = "/admin/experiments", "/admin/webhooks", "/admin/export", "/admin/lists"
    assert not {path for path in documented if path.startswith(paths)}
    assert "409" not in documented["/admin/models/{name}"]["delete"]["responses"]


def test_commands_of_extras_are_absent():
    with without_extras("--help") as process:
        text = process.stdout.read()
    assert "serve" in text
    assert not {"bridge", "cluster", "push", "pull", "export"} & {
        line.split()[0] for line in text.splitlines() if line.strip()
    }


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("NEARFIELD_STORE", "file:///nowhere", "Invalid store: expected none, because this service has no extra"),
        ("NEARFIELD_TRACES", "true", "Invalid traces: expected false, because this service has no extra"),
        ("NEARFIELD_TRAINER_RANKS", "2", "Invalid trainer_ranks: expected 1, because this service has no extra"),
        ("NEARFIELD_CLUSTER", "tcp://127.0.0.1:1", "Invalid cluster: expected none, because this service has no extra"),
    ],
)
def test_a_setting_that_needs_an_extra_is_refused(tmp_path, variable, value, reason):
    environment = os.environ | {variable: value}
    with without_extras("serve", "--data", str(tmp_path / "data"), env=environment, stderr=subprocess.PIPE) as process:
        _, errors = process.communicate()
    assert process.returncode == 2
    assert reason in errors


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_both_commands_refuse_such_a_setting(tmp_path, command):
    environment = os.environ | {"NEARFIELD_TRAINER_RANKS": "2", "NEARFIELD_DATA": str(tmp_path / "data")}
    with without_extras(command, env=environment, stderr=subprocess.PIPE) as process:
        _, errors = process.communicate()
    assert (process.returncode, "Invalid trainer_ranks: expected 1" in errors) == (2, True)


def test_a_training_on_a_file_is_one_process(tmp_path):
    file = tmp_path / "ratings.csv"
    file.write_text(
        "".join(f"u{user},i{(user + step) % 12},{1 + step % 5}\n" for user in range(30) for step in range(8))
    )
    options = ["train", "--ratings", str(file), "--algorithm", "als", "--set", "n_epochs=2"]
    with without_extras(*options) as process:
        assert process.wait() == 0
    with without_extras(*options, "--ranks", "2", stderr=subprocess.PIPE) as process:
        _, errors = process.communicate()
    assert process.returncode == 2
    assert "expected --ranks 1, because this service has no extra for ranks, got 2" in errors


def test_each_extra_registers_itself():
    folders = {path.name for path in Path(extras.__file__).parent.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert {register.__module__.rpartition(".")[2] for register in parts.EXTRAS} == folders
