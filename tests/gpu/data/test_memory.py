"""Estimates of memory: every algorithm has one, it grows with the problem, and too large a training never begins."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

import gpu
from gpu.base.backend import Backend
from gpu.data.param_kinds import FactorParams, Params
from gpu.descent import host, host_esgd
from gpu.descent.params import CulshParams, EsgdParams, SgdParams
from gpu.hashing import host_similarity
from gpu.hashing.params import Similarity
from tests.data import planted, times_of

SMALL = {"n_factors": 4, "n_epochs": 1, "n_neighbors": 2, "n_bits": 64}
ALL = sorted(gpu.ALGORITHMS)


def params_of(algorithm: str) -> Params:
    names = gpu.ALGORITHMS[algorithm].params.__dataclass_fields__
    return gpu.params_for(algorithm, {name: value for name, value in SMALL.items() if name in names})


@pytest.mark.parametrize("algorithm", ALL)
def test_too_large_a_training_is_refused_before_it_begins(
    algorithm: str, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backend, "free_bytes", lambda _: 1234)
    with pytest.raises(gpu.NotEnoughMemory, match=f"Training on the {backend.name} .* 1,234 are free$") as caught:
        gpu.fit(
            planted(),
            params_of(algorithm),
            backend=backend,
            on_epoch=lambda report: pytest.fail("it began"),
            times=times_of(planted()),
        )
    assert caught.value.needed_bytes > 1234 == caught.value.free_bytes


@pytest.mark.parametrize("algorithm", ALL)
def test_what_is_kept_for_others_must_be_left(
    algorithm: str, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    careful = replace(backend, kept_bytes=10**15)
    with pytest.raises(gpu.NotEnoughMemory, match=r" bytes, 1,000,000,000,000,000 more are kept .* are free"):
        gpu.fit(planted(), params_of(algorithm), backend=careful, times=times_of(planted()))
    gpu.fit(planted(), params_of(algorithm), backend=replace(backend, kept_bytes=1), times=times_of(planted()))


@pytest.mark.parametrize(
    "algorithm", [one for one in ALL if not one.startswith("als") and one not in ("ease", "neighbors", "next", "nmf")]
)
def test_estimates_grow_with_the_problem(algorithm: str, backend: Backend) -> None:
    def needed(n_users: int, n_items: int, per_user: int, params: Params) -> int:
        users = np.repeat(np.arange(n_users), per_user)
        items = np.arange(n_users * per_user) % n_items
        ratings = gpu.Ratings.from_coo(users, items, np.ones(len(users)), (n_users, n_items))
        if isinstance(params, EsgdParams):
            return backend.twin(host_esgd.bytes_needed)(ratings, params)
        assert isinstance(params, SgdParams)
        return backend.twin(host.bytes_needed)(ratings, params)

    params = params_of(algorithm)
    assert isinstance(params, FactorParams)
    base = needed(100, 100, 3, params)
    larger = needed(200, 100, 3, params), needed(100, 200, 3, params), needed(100, 100, 6, params)
    assert all(size > base for size in (*larger, needed(100, 100, 3, replace(params, n_factors=64))))


@pytest.mark.parametrize("name", get_args(Similarity))
def test_finding_neighbors_is_estimated_too(name: Similarity, backend: Backend) -> None:
    estimate = backend.twin(host_similarity.bytes_needed)
    few, many = (gpu.Ratings.from_coo(np.arange(n), np.arange(n), np.ones(n), (n, n)) for n in (1000, 3000))
    small, large = CulshParams(similarity=name, n_neighbors=2, n_bits=64), CulshParams(similarity=name, n_bits=640)
    assert estimate(few, small) < estimate(many, small) < estimate(many, large)
