"""A kernel declares all that Python calls it for: what a model does in serving calls these kernels, and no others."""

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
import json, os, sys
import gpu
import numpy as np
from gpu.base.backend import HOST
from gpu.base.host import compilation
from gpu.data.views import extremes_of, longest_first, taken, within_columns
from service.base import tuning
from service.cli import synthetic
from tests.service import rehearsal
from tests.service.stand_in import STAND_IN

def rehearse(what, backend):
    if what == "history":
        rehearsal.rehearse_history()
    elif what == "training":
        catalog = synthetic.planted(0, 60, 40)
        ratings = gpu.Ratings.from_coo(catalog.viewers, catalog.items, catalog.ratings, (60, 40))
        wide = [("als", {"n_factors": 260}), ("als-implicit", {"n_factors": 260})]
        for name, options in [*((name, {}) for name in gpu.ALGORITHMS), *wide]:
            short = {"n_epochs": 1} if "n_epochs" in gpu.ALGORITHMS[name].params.__dataclass_fields__ else {}
            times = gpu.Times(np.arange(len(ratings), dtype=np.float64), float(len(ratings)))
            params = gpu.params_for(name, short | options)
            gpu.fit(ratings, params, test=ratings, on_epoch=lambda _: None, times=times)
        part = within_columns(ratings.by_user, slice(0, 20))  # as ranks do
        extremes_of(part)  # as plans for devices do
        taken(np.zeros(len(part.lengths), "V32"), longest_first(part.lengths))
    else:
        rehearsal.rehearse_model(what, HOST if backend == "host" else STAND_IN)

tuning.configure()
compilation.load()
called = {name: [] for name in compilation.kernels()}
for name, kernel in compilation.kernels().items():
    def first_call(*arguments, note=called[name], kernel=kernel, compiled=kernel._compile_for_args):
        note.append(str(tuple(map(kernel.typeof_pyval, arguments))))
        return compiled(*arguments)
    kernel._compile_for_args = first_call
for what, backend in json.loads(sys.argv[1]):
    if (child := os.fork()) == 0:
        rehearse(what, backend)
        print(json.dumps([what, backend, {name: sorted(forms) for name, forms in called.items() if forms}]), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, (what, backend)
"""
ON_DEVICE = "als", "culsh", "culsh-implicit", "ease"
ORDERS = [*((what, "host") for what in ("history", "training", *ALGORITHMS)), *((one, "device") for one in ON_DEVICE)]
READING = set(compilation.called_for({Use.READING}))
SMALL = {"n_factors": 8, "n_epochs": 2}
AGED: dict[str, dict[str, int]] = {"culsh": SMALL, "culsh-implicit": SMALL, "ease": {}}  # the kinds of weights by age
HOST_ONLY = ("ranking.host_topn.", "ranking.host_item_index.")


Called = dict[str, list[str]]  # the types with which Python calls a kernel, by its name
Rehearsals = dict[tuple[str, str], Called]  # by what is rehearsed, and the backend


@pytest.fixture(scope="module")
def rehearsals() -> Rehearsals:
    """The kernels that Python calls in each rehearsal, in a process where nothing else has called any.

    All declared ones are in the cache: else compiling a kernel also compiles those that it calls.
    """
    output([sys.executable, "-m", "service.cli.warm"])
    lines = output([sys.executable, "-c", REHEARSED, json.dumps(ORDERS)]).splitlines()
    return {(what, backend): called for what, backend, called in map(json.loads, lines)}


def output(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def forms(names: set[str]) -> Called:
    """The types that kernels declare."""
    kernels = compilation.kernels()
    return {name: sorted(map(str, declared.signatures(kernels[name]))) for name in names}


def assert_declared(called: Called, names: set[str]) -> None:
    """`names` and kernels that read ratings are called, no others, and only with the types that they declare."""
    reading = READING & called.keys()
    assert called == forms(names | reading)


def test_what_reads_ratings_declares_it(rehearsals: Rehearsals) -> None:
    assert_declared(rehearsals["history", "host"], READING)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_model_needs_the_kernels_that_it_calls_and_no_others(algorithm: str, rehearsals: Rehearsals) -> None:
    assert_declared(rehearsals[algorithm, "host"], set(needed(algorithm)))


def test_trainings_call_what_declares_it_also_with_many_factors(rehearsals: Rehearsals) -> None:
    assert rehearsals["training", "host"] == forms(set(compilation.called_for({Use.TRAINING})))


@pytest.mark.parametrize("algorithm", ON_DEVICE)
def test_a_service_on_a_device_compiles_only_what_the_host_does_there(algorithm: str, rehearsals: Rehearsals) -> None:
    """Without a device: the stand-in takes its place, which needs no driver."""
    needed_there, of_driver = set(needed(algorithm, STAND_IN)), set(compilation.called_for({Use.RANKING_ON_DEVICE}))
    assert (of_driver & needed_there) == (set() if algorithm == "ease" else of_driver)
    assert_declared(rehearsals[algorithm, "device"], needed_there - of_driver)
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
