"""A kernel declares all that Python calls it for: what a model does in serving calls these kernels, and no others."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpu.algorithms import ALGORITHMS
from gpu.base.host import compilation, declared
from gpu.base.host.declared import Use
from gpu.hashing.host_hamming import QUERY_BLOCK
from gpu.online.signatures import LISTED_PER_SLICE
from service.engine.compilation import needed
from tests.service.api.openapi.test_openapi import OPERATIONS
from tests.service.planted import events
from tests.service.stand_in import STAND_IN
from tests.service.whole import Whole

ROOT = Path(__file__).parents[3]
REHEARSED = """
import json, sys
import gpu
from gpu.base.backend import HOST
from gpu.base.host import compilation
from service.base import tuning
from service.cli import synthetic
from tests.service import rehearsal
from tests.service.stand_in import STAND_IN
tuning.configure()
algorithm, backend = sys.argv[1:]
called = {name: [] for name in compilation.kernels()}
for name, kernel in compilation.kernels().items():
    def first_call(*arguments, note=called[name], kernel=kernel, compiled=kernel._compile_for_args):
        note.append(str(tuple(map(kernel.typeof_pyval, arguments))))
        return compiled(*arguments)
    kernel._compile_for_args = first_call
if algorithm == "history":
    rehearsal.rehearse_history()
elif algorithm == "training":
    catalog = synthetic.planted(0, 60, 40)
    ratings = gpu.Ratings.from_coo(catalog.viewers, catalog.items, catalog.ratings, (60, 40))
    wide = [("als", {"n_factors": 260}), ("als-implicit", {"n_factors": 260})]
    for name, options in [*((name, {}) for name in gpu.ALGORITHMS), *wide]:
        short = {"n_epochs": 1} if "n_epochs" in gpu.ALGORITHMS[name].params.__dataclass_fields__ else {}
        gpu.fit(ratings, gpu.params_for(name, short | options), test=ratings, on_epoch=lambda _: None)
else:
    rehearsal.rehearse_model(algorithm, HOST if backend == "host" else STAND_IN)
print(json.dumps({name: sorted(forms) for name, forms in called.items() if forms}))
"""
READING = set(compilation.called_for({Use.READING}))
SMALL = {"n_factors": 8, "n_epochs": 2}
AGED: dict[str, dict[str, int]] = {"culsh": SMALL, "culsh-implicit": SMALL, "ease": {}}  # the kinds of weights by age
HOST_ONLY = ("ranking.host_topn.", "ranking.host_item_index.")


@pytest.fixture(scope="module", autouse=True)
def _cached() -> None:
    """All declared kernels are in the cache: else compiling a kernel also compiles those that it calls."""
    output([sys.executable, "-m", "service.cli.warm"])


def rehearsed(what: str, backend: str = "host") -> dict[str, list[str]]:
    """The kernels that Python calls in a rehearsal, and the types, in a process where nothing else has called any."""
    called: dict[str, list[str]] = json.loads(output([sys.executable, "-c", REHEARSED, what, backend]).splitlines()[-1])
    return called


def output(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def forms(names: set[str]) -> dict[str, list[str]]:
    """The types that kernels declare."""
    kernels = compilation.kernels()
    return {name: sorted(map(str, declared.signatures(kernels[name]))) for name in names}


def assert_declared(called: dict[str, list[str]], names: set[str]) -> None:
    """`names` and kernels that read ratings are called, no others, and only with the types that they declare."""
    reading = READING & called.keys()
    assert called == forms(names | reading)


def test_what_reads_ratings_declares_it() -> None:
    assert_declared(rehearsed("history"), READING)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_model_needs_the_kernels_that_it_calls_and_no_others(algorithm: str) -> None:
    assert_declared(rehearsed(algorithm), set(needed(algorithm)))


def test_trainings_call_what_declares_it_also_with_many_factors() -> None:
    assert rehearsed("training") == forms(set(compilation.called_for({Use.TRAINING})))


@pytest.mark.parametrize("algorithm", ["als", "culsh", "culsh-implicit", "ease"])
def test_a_service_on_a_device_compiles_only_what_the_host_does_there(algorithm: str) -> None:
    """Without a device: the stand-in takes its place."""
    needed_there = set(needed(algorithm, STAND_IN))
    assert_declared(rehearsed(algorithm, "device"), needed_there)
    ranking = {name for name in needed(algorithm) if name.startswith(HOST_ONLY)}
    assert len(ranking) > 3
    assert ranking <= needed_there if algorithm == "ease" else not ranking & needed_there


def test_every_kernel_is_listed() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "gpu").rglob("*.py"))
    defined = [part.split(")\n")[0] for part in sources.split("\n@njit(")[1:]]
    n_single = len([options for options in defined if 'inline="always"' not in options])
    assert len(compilation.kernels()) == n_single + 2 * sources.count(" = serial_and_parallel(") > 100
    assert len(compilation.called_for(set(Use))) == sources.count("called_for(Use.")


def test_the_engine_makes_no_more_lists_at_a_time_than_one_thread_takes() -> None:
    """Otherwise a request would be the first to call `hamming.rank_blocks_parallel`."""
    assert LISTED_PER_SLICE <= QUERY_BLOCK


def test_no_request_compiles_anything(redis_url: str, tmp_path: Path) -> None:
    with Whole(redis_url, tmp_path / "data") as whole:
        whole.send(events())
        for algorithm in ALGORITHMS:
            known = {field.name for field in dataclasses.fields(ALGORITHMS[algorithm].params)}
            whole.train(algorithm, **{name: value for name, value in SMALL.items() if name in known})
        for algorithm, small in AGED.items():
            whole.train(algorithm, f"aged-{algorithm}", half_life_days=1e6, **small)
    found: dict[str, Any] = json.loads(
        output([sys.executable, "-m", "tests.service.driven", str(tmp_path / "data"), redis_url]).splitlines()[-1]
    )
    names = sorted([*ALGORITHMS, *(f"aged-{algorithm}" for algorithm in AGED)])
    asked = sorted(OPERATIONS.values())
    assert found == {"compiled": [], "gained": [], "wrong": [], "asked": asked, "live": names}
