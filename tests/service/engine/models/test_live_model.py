"""What a live model learns from the history, on every backend of this machine: against the host."""

import dataclasses

import numpy as np
import pytest

import gpu
from gpu.base.backend import HOST, Backend
from gpu.online import prepare_online
from gpu.ranking import topn
from service.engine.models.live_model import LiveModel
from service.engine.models.shelf import Shelf
from service.engine.state.history import History
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.snapshots.manifest import FORMAT, Manifest
from tests.service.planted import N_ITEMS, N_USERS, SMALL, entries

ALGORITHMS = "culsh", "culsh-implicit", "sgd", "esgd", "als"


class Twins:
    """A history with two residents of one model: on the host, and where the test wants it."""

    def __init__(self, algorithm: str, backend: Backend) -> None:
        self.history, self._ms = History(), 10_000
        self.history.apply(entries())
        params = gpu.params_for(algorithm, SMALL if algorithm.startswith("culsh") else {"n_factors": 8, "n_epochs": 4})
        trained = gpu.fit(self.history.table.ratings(*self._keys()), params)
        manifest = Manifest(
            "one",
            algorithm,
            dataclasses.asdict(params),
            trained.mean,
            trained.scale,
            {},
            "5000-0",
            N_USERS,
            N_ITEMS,
            {},
        )
        rows = np.arange(trained.n_users), np.arange(trained.n_items)
        self.residents = [
            LiveModel(manifest, self._placed(trained.mapped(*rows, *map(len, rows)), where), self.history)
            for where in (HOST, backend)
        ]

    def _keys(self) -> tuple[np.ndarray, np.ndarray]:
        return self.history.users.keys, self.history.items.keys

    def _placed(self, model: gpu.Model, backend: Backend):
        return prepare_online(model, self.history.table, *self._keys(), backend)

    def tell(self, *ratings: tuple[str, str, float | None], forget: str | None = None) -> None:
        events = [RatingEvent(user, item, value, 0.0) for user, item, value in ratings]
        told = [Entry(StreamId(self._ms, 0), "rating", events)] if events else []
        if forget is not None:
            told.append(Entry(StreamId(self._ms, 1), "forget", subject=forget))
        self._ms += 1
        applied = self.history.apply(told)
        for live_model in self.residents:
            live_model.learn(applied)

    def slice(self) -> None:
        for live_model in self.residents:
            live_model.settle(0.0)

    def assert_alike(self) -> None:
        for live_model in self.residents:
            assert live_model.settle(None)
        host, other = (live_model.model for live_model in self.residents)
        for name in ("user_factors", "user_bias", "user_baseline", "item_factors", "item_bias", "explicit_weights"):
            np.testing.assert_allclose(getattr(other, name), getattr(host, name), rtol=2e-3, atol=2e-4, err_msg=name)
        for name in ("neighbors", "user_trained", "item_trained"):
            np.testing.assert_array_equal(getattr(other, name), getattr(host, name), err_msg=name)
        users = np.arange(len(self.history.users))
        rows = topn.rows_of(self.history.table.rows, users)
        best = [
            live_model.recommend(topn.users_of(live_model.model, users), rows, 6, Shelf(self.history).hidden(True))[1]
            for live_model in self.residents
        ]
        np.testing.assert_allclose(best[0], best[1], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_backend_learns_the_same_as_the_host(algorithm: str, backend: Backend) -> None:
    twins = Twins(algorithm, backend)
    twins.tell(("u1", "i0", 2.0), ("early", "i3", 5.0))
    twins.slice()
    twins.tell(("u2", "i1", None), ("early", "fresh", 4.0), ("u3", "fresh", 1.0), forget="u4")
    twins.assert_alike()
    for n in range(30):
        twins.tell((f"w{n % 7}", f"i{n}", 1.0 + n % 5), (f"u{n}", "fresh", 5.0 - n % 5), (f"u{n}", f"new{n % 4}", 3.0))
        if n % 3 == 0:
            twins.slice()
    twins.tell(("w1", "i1", None), forget="w2")
    twins.tell(("w2", "i5", 5.0))
    twins.assert_alike()
    assert all(live_model.model.item_factors[N_ITEMS:].any() for live_model in twins.residents)


@pytest.mark.parametrize("algorithm", ["als", "als-implicit", "culsh"])
def test_a_model_that_was_trained_elsewhere_keeps_its_items(algorithm: str) -> None:
    """Its users are none of the log's, as those of a file, so none of its training ratings seem to be left."""
    history = History()
    history.apply(entries())
    keys = history.users.keys, history.items.keys
    params = gpu.params_for(algorithm, SMALL if algorithm == "culsh" else {"n_factors": 8, "n_epochs": 4})
    trained = gpu.fit(history.table.ratings(*keys), params)
    sizes = trained.n_users, trained.n_items
    manifest = Manifest(
        "one", algorithm, dataclasses.asdict(params), trained.mean, trained.scale, {}, "0-0", *sizes, {}, FORMAT
    )
    factors = trained.item_factors.copy()
    moved = trained.mapped(np.full(sizes[0], -1), np.arange(sizes[1]), *sizes)
    live_model = LiveModel(manifest, prepare_online(moved, history.table, *keys), history)
    assert live_model.settle(None)
    np.testing.assert_array_equal(live_model.model.item_factors, factors)
    assert live_model.model.user_factors.any(axis=1).all()
