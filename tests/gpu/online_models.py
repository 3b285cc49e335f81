"""Online models with their rating tables, for tests of online learning."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

from gpu.als.params import AlsImplicitParams
from gpu.data.changes import Changes
from gpu.data.model import Model
from gpu.data.param_kinds import Params
from gpu.data.rating_table import RatingTable
from gpu.descent.params import CulshImplicitParams
from gpu.nmf.params import NmfParams
from gpu.online.mirror import DeviceModel
from gpu.online.model import HostModel
from tests.gpu.models import KINDS, random_matrix, random_model, random_params

N_USERS, N_ITEMS = 8, 12
TRAINED_USERS, TRAINED_ITEMS = 6, 9
MEANS = dict.fromkeys(KINDS, 3.5) | {CulshImplicitParams: -1.4, AlsImplicitParams: 0.0, NmfParams: 0.0}
USER_KEYS = np.random.default_rng(0).integers(0, 2**63, N_USERS).astype(np.uint64)
ITEM_KEYS = np.random.default_rng(1).integers(0, 2**63, N_ITEMS).astype(np.uint64)

N_TRAINED = 2

Pair = tuple[int, int]
History = dict[Pair, float]
histories = st.dictionaries(
    st.tuples(st.integers(0, N_USERS - 1), st.integers(0, N_ITEMS - 1)), st.integers(1, 5).map(float), max_size=40
)


class Event(NamedTuple):
    user: int
    item: int
    value: float | None


Events = list[Event]
RATING = st.builds(
    Event, st.integers(0, N_USERS - 1), st.integers(0, N_ITEMS - 1), st.none() | st.integers(1, 5).map(float)
)


class OnlineModel:
    """A table and a model that follows it, side by side as in the service."""

    def __init__(
        self,
        kind: type[Params],
        history: History,
        positions: list[int] | None = None,
        since: int | None = None,
        n_trained: int | None = None,
    ) -> None:
        """A snapshot with `n_trained` ratings of each item (random numbers), and ratings at `positions` (0, 1 …)."""
        model = random_model(random_params(kind), TRAINED_USERS, TRAINED_ITEMS)
        model.mean = MEANS[kind]
        if n_trained is not None:
            model.item_counts[:] = n_trained
        self.table, self.position = RatingTable(N_USERS, N_ITEMS), 0
        self._apply([Event(*pair, value) for pair, value in history.items()], positions)
        self.online = self._follow(model, since)

    def _follow(self, model: Model, since: int | None) -> HostModel | DeviceModel:
        return HostModel(model, self.table, USER_KEYS, ITEM_KEYS, since=since)

    def learn(self, events: list[Event]) -> None:
        self.online.note(self._apply(events))

    def _apply(self, events: list[Event], given: list[int] | None = None) -> Changes:
        users = np.array([event.user for event in events], dtype=np.int64)
        items = np.array([event.item for event in events], dtype=np.int64)
        new = np.array([np.nan if event.value is None else event.value for event in events], dtype=np.float32)
        positions = np.arange(len(events)) + self.position if given is None else np.array(given, dtype=np.int64)
        self.position = int(positions[-1]) + 1 if len(events) else self.position
        return self.table.apply(users, items, new, positions.astype(np.float64), positions)

    def forget(self, user: int) -> None:
        self.online.forget(user, *self.table.drop_user(user))

    def settle_in_slices(self) -> None:
        for _ in range(10_000):
            if self.online.settle(0.0):
                return
        pytest.fail("never settled")


def online_model_of(
    kind: type[Params],
    events: Events,
    since: int | None,
    gone: int | None = None,
    model_class: type[OnlineModel] = OnlineModel,
) -> OnlineModel:
    """An online model with the last ratings of `events`, without those of the user `gone`.

    Ratings from position `since` on are newer than the snapshot.
    """
    last = {(event.user, event.item): (position, event.value) for position, event in enumerate(events)}
    kept = sorted(
        (position, pair, value) for pair, (position, value) in last.items() if value is not None and pair[0] != gone
    )
    history = {pair: value for _, pair, value in kept}
    online_model = model_class(kind, history, [position for position, _, _ in kept], since, N_TRAINED)
    online_model.position = len(events)
    online_model.online.touch(np.array(sorted({event.user for event in events[since:]} - {gone}), dtype=np.int64))
    return online_model


def catch_up_in_slices(online_model: OnlineModel) -> None:
    for _ in range(10_000):
        if online_model.online.settle(0.0) and online_model.online.catch_up(0.0):
            return
    pytest.fail("never caught up")


def learn_in_turns(online_model: OnlineModel, events: Events, data: st.DataObject) -> None:
    """Take in events in batches, with some work of any kind after each."""
    while events:
        n = data.draw(st.integers(1, len(events)))
        online_model.learn(events[:n])
        events = events[n:]
        for _ in range(data.draw(st.integers(0, 4))):
            work = data.draw(st.sampled_from([online_model.online.settle, online_model.online.catch_up]))
            work(data.draw(st.sampled_from([0.0, 0.0, None])))


def watched_refits(online: HostModel | DeviceModel, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Gets the least `n_waiting` within refits of trained items, and within those of users."""
    seen: dict[str, int] = {}

    def watch(name: str, of: object, method: str) -> None:
        real = getattr(of, method)

        def watched(*arguments: object) -> object:
            seen[name] = min(online.n_waiting, seen.get(name, online.n_waiting))
            return real(*arguments)

        monkeypatch.setattr(of, method, watched)

    watch("items", online._refits, "refit_trained")
    watch("users", online._late, "keep")
    return seen


def assert_same_state(one: OnlineModel, other: OnlineModel) -> None:
    for name, array in one.online.model.arrays.items():
        if name != "projections":  # hashed only where a list is wanted
            assert array.tobytes() == getattr(other.online.model, name).tobytes(), name


def history_of(matrix: np.ndarray) -> History:
    return {(int(user), int(item)): float(matrix[user, item]) for user, item in np.argwhere(~np.isnan(matrix))}


def settled(kind: type[Params], seed: int = 0, density: float = 0.5) -> OnlineModel:
    online_model = OnlineModel(kind, history_of(random_matrix(N_USERS, N_ITEMS, density, seed)))
    online_model.online.touch(np.arange(N_USERS))
    online_model.online.settle()
    return online_model
