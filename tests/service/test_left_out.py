"""A model that ends the process while it is loaded is left out at the third start."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from service.cli.client import Client
from service.engine.load_failures import FOLDER
from tests.service.planted import events
from tests.service.process import started
from tests.service.waiting import eventually
from tests.service.whole import Whole

# A service whose engine dies as from a fault in a kernel while it prepares a model of `als`.
DYING = """
import os, signal, sys
from service.__main__ import run
from service.engine.model_swap import HotSwap

swap = HotSwap.swap

def dying(self, loaded):
    if loaded.manifest.algorithm == "als":
        os.kill(os.getpid(), signal.SIGSEGV)
    swap(self, loaded)

HotSwap.swap = dying
sys.exit(run(["serve", "--port", "0", "--data", sys.argv[1]]))
"""


def test_a_model_that_ends_two_starts_is_left_out_at_the_third(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    with Whole(redis_url, data) as whole:
        whole.send(events())
        bad = whole.train("als", n_factors=4, n_epochs=2)
        good = whole.train("nmf", n_factors=4, n_epochs=2)
    assert list((data / FOLDER).iterdir()) == []
    for name, value in {"REDIS": redis_url, "WORKER": "false", "FRONTS": "1", "BACKEND": "host"}.items():
        monkeypatch.setenv(f"NEARFIELD_{name}", value)
    dying_log = tmp_path / "dying.log"
    with dying_log.open("wb") as file:
        dying = subprocess.Popen([sys.executable, "-c", DYING, str(data)], stdout=file, stderr=file)
        try:
            eventually(lambda: b"nearfield is ready on" in dying_log.read_bytes(), 120)
        finally:
            dying.send_signal(signal.SIGTERM)
            assert dying.wait(60) == 0, dying_log.read_text()
    assert dying_log.read_text().count("signal SIGSEGV") == 2, dying_log.read_text()
    log = tmp_path / "log"
    with log.open("wb") as file, started(data, {}, file) as process, Client(process.address()) as client:
        assert client.get("/health/ready")["left_out"] == [bad]
        models = {one["version"]: one for one in client.get("/admin/models")["models"]}
        assert "2 processes ended while they loaded it" in models[bad]["error"]
        assert (models[bad]["live"], models[good]["live"]) == (False, True)
        assert client.recommend("u1")["model"] == "nmf"
        assert "it is left out" in log.read_text()
        client.post(f"/admin/models/{bad}/activate", None)
        eventually(lambda: client.get("/health/ready")["left_out"] == [], 60)
        eventually(lambda: {one["live"] for one in client.get("/admin/models")["models"]} == {True}, 60)
    assert list((data / FOLDER).iterdir()) == []


def test_processes_that_load_and_that_ended_in_order_do_not_count(redis_url: str, tmp_path: Path) -> None:
    """Replicas load a version at the same time; a service may be stopped again and again while it starts."""
    with Whole(redis_url, tmp_path) as whole:
        whole.send(events())
        version = whole.train("als", n_factors=4, n_epochs=2)
        failures = whole.hotswap.failures
        # The version answers a moment before its own load has ended.
        eventually(lambda: list((tmp_path / FOLDER).iterdir()) == [])
        with failures.attempt(version), failures.attempt(version), failures.attempt(version):
            assert len(list((tmp_path / FOLDER).iterdir())) == 3
            failures.end()
            assert list((tmp_path / FOLDER).iterdir()) == []
        with failures.attempt(version):
            assert len(list((tmp_path / FOLDER).iterdir())) == 1
    assert list((tmp_path / FOLDER).iterdir()) == []
