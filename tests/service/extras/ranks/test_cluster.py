"""Trainings on the workers of a Dask cluster."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from service.extras.ranks.cluster import dask, is_here, toward
from service.extras.ranks.errors import ClusterUnavailable
from service.jobs.gpu_order import inherited

needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="needs distributed, of the extra cluster")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What `on_cluster` prints."""
    folder = tmp_path_factory.mktemp("cluster")
    environment = os.environ | {"TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.service.extras.ranks.on_cluster"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) | {"folders": [str(path) for path in folder.glob("nearfield-*")]}


@needs_dask
@pytest.mark.slow
def test_two_workers_give_the_bits_of_one_process(found: Any) -> None:
    assert found["undisturbed"] == {
        "has_equal_bits": True,
        "losses": [],
        "n_ranks": 2,
        "has_threads_of_dask": False,
        "n_environments": 2,
        "left": [],
    }


@needs_dask
@pytest.mark.slow
def test_a_killed_worker_costs_an_attempt_and_no_bit(found: Any) -> None:
    killed = found["killed"]
    assert (killed["has_equal_bits"], killed["left"], found["folders"]) == (True, [], [])
    (loss,) = killed["losses"]
    assert "closed its connection; the next one continues" in loss
    assert "continues after part 0" not in loss


@needs_dask
@pytest.mark.slow
def test_a_cluster_that_is_no_use_is_one_clear_error(found: Any) -> None:
    assert "has 2 of 3 workers after 1 s; run `nearfield cluster worker --scheduler tcp://127.0.0.1:" in found["three"]
    assert ": expected numpy 1.0, got " in found["versions"]
    assert "does not answer: " in found["gone"]
    assert re.search(r"The scheduler tcp://127\.0\.0\.1:\d+ cannot start: .*in use", found["busy"][0])
    assert found["busy"][1] == []


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ClusterUnavailable, match=r"pip install '\.\[cluster\]' in a checkout"):
        dask()


def test_the_coordinator_listens_towards_its_workers() -> None:
    assert toward("127.0.0.1") == "127.0.0.1"
    assert is_here("127.0.0.1")
    assert not is_here("203.0.113.7"), "an address for documents"


def test_ranks_do_not_inherit_the_threads_of_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert inherited() == dict(os.environ)
    assert inherited().keys() - inherited(without=["OMP_NUM_THREADS"]).keys() == {"OMP_NUM_THREADS"}
