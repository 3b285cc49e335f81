"""`rebuild`: the state of a service at a position, from a snapshot and the rating log, without a service.

It does what a start does: the history is read up to the position, the model is mapped to its rows and learns what came
after its training, until no refit is due. That state is a function of snapshot and log alone. A service that has
learned the same entry, and whose refits are done, has the same bits on the same kind of processor and backend.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from gpu.base.backend import Backend
from gpu.online import prepare_online
from service.base.errors import InvalidRequest
from service.engine.lists.ranking import Ranking
from service.engine.models.live_model import LiveModel, rows_of
from service.engine.queries import Repeat
from service.engine.state.history import History
from service.settings.event_types import EventTypes
from service.settings.half_lives import DEFAULT_HALF_LIVES
from service.storage.events import StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots.snapshot import Snapshot

SETTLE_S = 60.0  # seconds of one call; it is repeated until all is done
_Value = TypeVar("_Value")


class Rebuilt(NamedTuple):
    """A rebuilt state.

    Attributes:
        history: of all entries up to the position.
        live_model: has learned all of them.
        ranking: answers queries with it.
        as_of: the position.
    """

    history: History
    live_model: LiveModel
    ranking: Ranking
    as_of: StreamId


def history_at(log: RatingLog, position: StreamId, types: EventTypes) -> History:
    """The history of all entries up to `position`; `types` as the setting `events`.

    Raises:
        InvalidRequest: the position is beyond the log.
        CorruptLog: a segment is torn or altered.
    """
    if position > (last := log.last_id()):
        raise InvalidRequest(f"Invalid position: expected one in the rating log, at most {last}, got {position}")
    history = History(types)
    history.load(log, upto=position)
    return history


def rebuild(
    loaded: Snapshot,
    history: History,
    position: StreamId,
    backend: Backend,
    half_lives: Mapping[str, float] = DEFAULT_HALF_LIVES,
    repeat: Repeat = "auto",
    seen_types: Sequence[str] = (),
) -> Rebuilt:
    """The state at `position`.

    Args:
        loaded: must not have been trained on later entries.
        history: that of `history_at` for this position.
        position: the last entry that is applied.
        backend: where the model lives.
        half_lives, repeat, seen_types: as the settings of the service.

    Raises:
        InvalidRequest: the position is before the training.
    """
    if (watermark := StreamId.parse(loaded.manifest.watermark)) > position:
        raise InvalidRequest(
            f"Invalid position: expected one from {watermark} on, where {loaded.manifest.version} was trained,"
            f" got {position}"
        )
    table = history.table_of(has_strengths=loaded.model.is_implicit)
    users, items = _done(rows_of(loaded, history))
    model = loaded.model.mapped(users, items, table.n_users, table.n_items)
    ready = prepare_online(model, table, history.users.keys, history.items.keys, backend)
    live_model = LiveModel(loaded.manifest, ready, history, loaded.content)
    while not (live_model.settle(SETTLE_S) and live_model.catch_up(SETTLE_S)):
        pass
    ranking = Ranking(history, [live_model.name], half_lives, repeat, seen_types)
    ranking.recount()
    ranking.install(live_model)
    return Rebuilt(history, live_model, ranking, position)


def _done(steps: Generator[None, None, _Value]) -> _Value:
    """The value of a generator after all of its steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: _Value = end.value
            return value


def known_users(history: History) -> Sequence[str]:
    """The ids of all users who are not forgotten, in the order of their rows."""
    return [user for user in history.users.ids(range(len(history.users))) if user]
