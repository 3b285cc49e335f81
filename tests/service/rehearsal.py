"""Rehearsals: run every operation of the engine once, on a small history and model, so that its kernels compile.

A kernel compiles for the types and layouts of its arguments at its first call, which takes seconds. The rehearsal uses
the same `History`, `LiveModel` and `Ranking` as serving, so that it compiles exactly what serving calls. It must not
run on the engine thread. It makes its own models, because a real one must not learn invented ratings.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gpu.algorithms import ALGORITHMS, params_for
from gpu.base.backend import HOST, Backend
from gpu.data.model import Model
from gpu.online import prepare_online
from gpu.online.events import N_KEPT
from service.base.errors import ServiceError
from service.engine.lists.page import PlainLists
from service.engine.lists.ranking import Ranking
from service.engine.models.live_model import LiveModel
from service.engine.models.prequential import Prequential
from service.engine.queries import Estimate, Neighbors, Popular, Query, Recommend, SetNeighbors, UserRatings
from service.engine.queries.columns import Ids
from service.engine.queries.filter_tree import HasTag, text_of
from service.engine.state.history import History
from service.engine.state.id_table import column_of_log
from service.engine.state.rating_runs import runs_of
from service.storage.events import (
    LONG,
    Entry,
    Merge,
    RatingEvent,
    StreamId,
    TypedEvent,
    encode_ratings,
    parse_entry,
)
from service.storage.item_changes import ItemChange
from service.storage.snapshots.manifest import FORMAT, Manifest
from service.telemetry.metrics import Metrics
from tests.service import stand_in

SMALL = {"n_factors": 4, "n_neighbors": 2, "n_bits": 64}  # hyperparameters of the models of a rehearsal
N_USERS, N_ITEMS = 8, 6  # of the model's training; requests of several users are scored four at a time
MANY = LONG // 50  # ratings of an entry that a kernel reads
USER, NEW_USER, STRANGER = "u0", "new", "stranger"
ITEM, NEW_ITEM = "i0", "new"
UNRATED_ITEM = "i3"  # by `USER`, so that a rating of it tests a model
FILTER = text_of(HasTag("tag", ("value",)))
BEFORE_ALL, AFTER_ALL = "0-0", "9-0"  # watermarks of a model trained on no rating, and on all


def rehearse_history() -> None:
    """Apply ratings and events, merge and forget a user, pack the tables and count, as reading the log does."""
    history = _history()
    history.apply([_entry(2, (USER, ITEM, None)), _events(2)])
    history.apply([Entry(StreamId(3, 0), "merge", merge=Merge(USER, "u1"))])
    history.apply([Entry(StreamId(4, 0), "forget", subject="u1")])
    history.table.pack()
    history.apply([parse_entry(StreamId(5, 0), encode_ratings([RatingEvent(USER, ITEM, 2.0, 0.0)] * MANY))])
    history.users.rows_or_new_of(column_of_log(pa.array(["new"]).dictionary_encode()))
    Ranking(history, []).recount()


def rehearse_model(algorithm: str, backend: Backend = HOST) -> None:
    """Answer and learn with a model of `algorithm`, to compile what a service on that backend calls on the host.

    No device is used (`service.engine.stand_in`): the kernels of a device depend on the size of a model.
    """
    rehearse_answers(algorithm, backend)
    rehearse_learning(algorithm, backend)


def rehearse_answers(algorithm: str, backend: Backend = HOST) -> None:
    """The part of `rehearse_model` that answers, with a model that has nothing to learn."""
    stage = _Stage(algorithm, backend)
    stage.settle()
    stage.answer()


def rehearse_learning(algorithm: str, backend: Backend = HOST) -> None:
    """The part of `rehearse_model` that learns. It answers last, because another process compiles the answers first."""
    stage = _Stage(algorithm, backend, (NEW_USER, ITEM, 2.0), (NEW_USER, NEW_ITEM, 1.0))
    stage.learn()
    stage.answer()


class _Stage:
    """A history, a model that follows it, and a ranking with that model."""

    def __init__(self, algorithm: str, backend: Backend, *later: tuple[str, str, float]) -> None:
        """`later`: ratings that came after the snapshot, as after a restart."""
        self._history, self._ms = _history(), 2
        self._history.apply([_entry(2, *later)])
        model = _model(algorithm)
        watermark = BEFORE_ALL if later else AFTER_ALL  # trained items learn too if the model is behind
        manifest = Manifest("", algorithm, {}, model.mean, model.scale, {}, watermark, N_USERS, N_ITEMS, {}, FORMAT)
        rows = np.arange(N_USERS), np.arange(N_ITEMS)
        table = self._history.table_of(has_strengths=model.is_implicit)
        moved = model.mapped(*rows, table.n_users, table.n_items)
        keys = self._history.users.keys, self._history.items.keys
        prepare = prepare_online if backend.name == HOST.name else stand_in.prepare_online
        self._live_model = LiveModel(manifest, prepare(moved, table, *keys), self._history)
        self._ranking = Ranking(self._history, [algorithm])
        self._ranking.install(self._live_model)
        self._prequential = Prequential(self._history, self._ranking.live.tested, Metrics())

    def answer(self) -> None:
        """Answer every kind of query."""
        for answer in self._ranking.answer(_queries(), StreamId(self._ms, 0)):
            if isinstance(answer, Exception) and not isinstance(answer, ServiceError):
                raise answer
            if isinstance(answer, PlainLists):
                answer.columns()  # as the event loop does

    def learn(self) -> None:
        """Learn the ratings after the snapshot, then every kind of change."""
        self.settle()
        self._apply((USER, ITEM, 3.0), (USER, UNRATED_ITEM, 5.0), ("newer", NEW_ITEM, 2.0), (NEW_USER, "newest", 1.0))
        self._apply((NEW_USER, ITEM, None), ("u1", NEW_ITEM, -1.0))
        self.settle()
        self._apply(kind="hide", subject="i1")
        self._apply(kind="forget", subject=NEW_USER)
        self._apply(kind="forget", subject="u2")  # a user of the snapshot
        self.settle()

    def settle(self) -> None:
        """Do pending refits with a budget, as the engine does: without one, other kernels would run."""
        for work in (self._live_model.settle, self._live_model.catch_up):
            while not work(0.0):
                pass

    def _apply(self, *ratings: tuple[str, str, float | None], kind: str = "rating", subject: str | None = None) -> None:
        self._ms += 1
        entry = Entry(StreamId(self._ms, 0), kind, subject=subject) if subject else _entry(self._ms, *ratings)  # type: ignore[arg-type]
        self._prequential.test(self._ranking.models(), runs_of([entry]))
        applied = self._history.apply([entry])
        self._ranking.note(applied)
        self._live_model.learn(applied)


def _history() -> History:
    """Users who have rated two thirds of the items."""
    pairs = [(user, item) for user in range(N_USERS) for item in range(N_ITEMS) if (user + item) % 3]
    history = History()
    history.apply([_entry(1, *((f"u{user}", f"i{item}", float(1 + (user * item) % 5)) for user, item in pairs))])
    history.apply([Entry(StreamId(1, 1), "item", items=[ItemChange(ITEM, tags={"tag": ["value"]})])])
    return history


def _events(ms: int) -> Entry:
    ids = map(str, range(N_KEPT + 1))  # one more than are remembered
    events = [TypedEvent(USER, f"i{int(one) % N_ITEMS}", "view", 1.0, 0.0, one) for one in ids]
    events.append(TypedEvent(USER, ITEM, "impression", 1.0, 0.0))
    return Entry(StreamId(ms, 1), "event", events=events)


def _entry(ms: int, *ratings: tuple[str, str, float | None]) -> Entry:
    return Entry(StreamId(ms, 0), "rating", [RatingEvent(*rating, 0.0) for rating in ratings])


def _model(algorithm: str) -> Model:
    """A model of all of `_history`, with factors above 0, as NMF needs them, and with neighbor lists if it has any."""
    names = {field.name for field in dataclasses.fields(ALGORITHMS[algorithm].params)}
    params = params_for(algorithm, {name: value for name, value in SMALL.items() if name in names})
    model = Model.zeros(params, 1.0, (0.0, 5.0), N_USERS, N_ITEMS, n_bits=params.n_bits)
    for factors in (model.user_factors, model.item_factors):
        factors[:] = 0.1 + np.arange(factors.size, dtype=np.float32).reshape(factors.shape) % 7 / 10
    if model.neighbors.shape[1]:
        model.neighbors[:] = (np.arange(N_ITEMS)[:, None] + [1, 2]) % N_ITEMS
        model.explicit_weights[:] = model.implicit_weights[:] = 0.1
    if params.has_item_weights:
        slots, weights = np.arange(N_ITEMS, dtype=np.int32), np.full((N_ITEMS, N_ITEMS), 0.1, dtype=np.float32)
        arrays = {**model.arrays, "item_slots": slots, "item_weights": weights}
        model = Model(params, model.mean, model.scale, arrays)
    model.mark_trained(*(np.ones(n, dtype=np.int64) for n in (N_USERS, N_ITEMS)))
    return model


def _queries() -> Sequence[Query]:
    """One query of each kind, and of each combination of filters and ways to ask a model."""
    filters = {"exclude": ["i1"], "candidates": [ITEM, "i2", NEW_ITEM], "min_ratings": 1, "offset": 1}
    users = tuple(f"u{user}" for user in range(N_USERS))
    return [
        Popular(),
        UserRatings(user=USER),
        Recommend(user=STRANGER),
        Recommend(user=USER, explain=True),
        Recommend(user=NEW_USER, include_seen=True),
        Recommend(users=users),
        Recommend(users=Ids.of([user.encode() for user in users])),
        Recommend(users=users, exclude=["i1"]),
        Recommend(users=users, filter=FILTER),
        Recommend(users=users, explore=0.5),
        Recommend(ratings=[(ITEM, 4.0)], filter=FILTER, available=False),
        Recommend(users=users, **filters),  # type: ignore[arg-type]
        Recommend(ratings=[(ITEM, 4.0), ("i3", 1.0)], explain=True),
        Recommend(ratings=[(ITEM, -1.0), ("unknown", 1.0)], **filters),  # type: ignore[arg-type]
        *(Neighbors(kind="item", id=item) for item in (ITEM, NEW_ITEM)),
        SetNeighbors(items=[ITEM, NEW_ITEM, "i2"]),
        *(Neighbors(kind="user", id=user) for user in (USER, NEW_USER)),
        *(Estimate(user=user, item=item) for user in (USER, STRANGER) for item in (ITEM, NEW_ITEM, "unknown")),
    ]
