"""Whatever serving can call is compiled by a rehearsal: no kernel is forgotten, and none compiles for a request."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpu.algorithms import ALGORITHMS
from gpu.host.hamming import QUERY_BLOCK
from gpu.host.jit import compilation
from gpu.online.signatures import LISTED_PER_SLICE
from service.engine.compilation import OFFLINE, needed
from service.engine.stand_in import STAND_IN
from tests.service.planted import events
from tests.service.whole import Whole

ROOT = Path(__file__).parents[3]
SMALL = {"n_factors": 8, "n_epochs": 2}
AGED: dict[str, dict[str, int]] = {"culsh": SMALL, "culsh-implicit": SMALL, "ease": {}}  # the kinds of weights by age
REHEARSED = """
import json, sys
from gpu.backend import HOST
from gpu.host.jit import compilation
from service.base import tuning
from service.engine import rehearsal
from service.engine.stand_in import STAND_IN
tuning.configure()
algorithm, backend = sys.argv[1:]
if algorithm == "history":
    rehearsal.rehearse_history()
else:
    rehearsal.rehearse_model(algorithm, HOST if backend == "host" else STAND_IN)
called = {name for name, n in compilation.n_signatures().items() if n}
print(json.dumps(sorted(called.union(*map(compilation.callees, called)))))
"""


def rehearsed(what: str, backend: str = "host") -> set[str]:
    """The kernels that a rehearsal calls, in a process where nothing else has called any."""
    return set(json.loads(output([sys.executable, "-c", REHEARSED, what, backend])))


def output(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def by_algorithm() -> dict[str, set[str]]:
    return {algorithm: rehearsed(algorithm) for algorithm in ALGORITHMS}


def test_every_kernel_is_rehearsed_or_has_a_reason_why_not(by_algorithm: dict[str, set[str]]) -> None:
    every = set(compilation.kernels())
    called = rehearsed("history").union(*by_algorithm.values())
    offline = {name for name in every if name in OFFLINE or name.split(".")[0] in OFFLINE}
    assert every - called - offline == set(), "rehearse these kernels, or say in OFFLINE why nobody calls them"
    assert called & offline == set(), "these are called while serving"
    stale = {name for name in OFFLINE if name not in every and name not in {one.split(".")[0] for one in every}}
    assert stale == set(), "OFFLINE names what is not there"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_counted_kernels_are_the_rehearsed_ones(algorithm: str, by_algorithm: dict[str, set[str]]) -> None:
    assert needed(algorithm) == by_algorithm[algorithm]


@pytest.mark.parametrize("algorithm", ["als", "culsh", "culsh-implicit", "ease"])
def test_a_service_on_a_device_compiles_only_what_the_host_does_there(algorithm: str) -> None:
    """Without a device: the stand-in takes its place."""
    needed_there = needed(algorithm, STAND_IN)
    assert rehearsed(algorithm, "device") == needed_there
    ranking = {name for name in needed(algorithm) if name.startswith(("topn.", "item_index.", "neighbor_blocks."))}
    assert ranking <= needed_there if algorithm == "ease" else not ranking & needed_there
    assert {"estimate.score_pairs", "rating_table.apply"} <= needed_there


def test_every_declared_kernel_is_found() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "gpu" / "host").rglob("*.py"))
    declared = [part.split(")\n")[0] for part in sources.split("\n@njit(")[1:]]
    n_single = len([options for options in declared if 'inline="always"' not in options])
    assert len(compilation.kernels()) == n_single + 2 * sources.count(" = serial_and_parallel(") > 100


def test_the_engine_makes_no_more_lists_at_a_time_than_one_thread_takes() -> None:
    assert (
        LISTED_PER_SLICE <= QUERY_BLOCK
    )  # else `hamming.rank_blocks_parallel` is called by a request for the first time


def test_no_request_compiles_anything(redis_url: str, tmp_path: Path) -> None:
    with Whole(redis_url, tmp_path / "data") as whole:
        whole.send(events())
        for algorithm in ALGORITHMS:
            known = {field.name for field in dataclasses.fields(ALGORITHMS[algorithm].params)}
            whole.train(algorithm, **{name: value for name, value in SMALL.items() if name in known})
        for algorithm, small in AGED.items():
            whole.train(algorithm, f"aged-{algorithm}", half_life_days=1e6, **small)
    found: dict[str, Any] = json.loads(
        output([sys.executable, "-m", "tests.service.driven", str(tmp_path / "data"), redis_url])
    )
    names = [*ALGORITHMS, *(f"aged-{algorithm}" for algorithm in AGED)]
    assert found == {"gained": [], "wrong": [], "live": sorted(names)}
