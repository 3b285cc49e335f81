"""A model that learns on a device and is mirrored on the host, without a device: another model stands in for it."""

import copy
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.data.model import ARRAYS, Model
from gpu.data.param_kinds import Params
from gpu.data.rating_table import RatingTable
from gpu.descent.params import CulshImplicitParams, CulshParams
from gpu.online import drift, sampled
from gpu.online import mirror as device_model
from gpu.online.drift import AsTrained
from gpu.online.mirror import DeviceModel
from gpu.online.model import HostModel
from gpu.online.prolific import Prolific
from gpu.online.protocols import Keys, Part
from gpu.online.sampled import SampledRefits
from gpu.ranking import topn
from gpu.ranking.item_index import ItemIndex
from tests.gpu.models import SAMPLED_KINDS
from tests.gpu.online_models import (
    ITEM_KEYS,
    N_ITEMS,
    N_USERS,
    RATING,
    TRAINED_ITEMS,
    TRAINED_USERS,
    USER_KEYS,
    Event,
    Events,
    OnlineModel,
    assert_same_state,
    catch_up_in_slices,
    learn_in_turns,
    online_model_of,
    watched_refits,
)  # fmt: skip

LEARNING = [kind for kind in SAMPLED_KINDS if kind is not CulshImplicitParams]
BEFORE = [Event(user, item, 1.0 + (user + 2 * item) % 5) for user in range(3) for item in range(TRAINED_ITEMS)]
OF_USERS = "user_factors", "user_bias", "user_baseline"
OF_ITEMS = "item_factors", "item_bias", "neighbors", "explicit_weights", "implicit_weights"
OF_TRAINED_ITEMS = "item_factors", "item_bias", "explicit_weights", "implicit_weights"


@pytest.fixture(scope="module", autouse=True)
def small_slices() -> Iterator[None]:
    """Few items, users and changes make a batch."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CHANGES_AT_ONCE", "USERS_AT_ONCE", "ITEMS_AT_ONCE"):
            patch.setattr(device_model, name, 3)
        patch.setattr(device_model, "SAMPLES_AT_ONCE", 8)
        patch.setattr(sampled, "ITEMS_AT_ONCE", 2)
        patch.setattr(drift, "USERS_PER_SLICE", 3)
        yield


class OtherModel:
    """Stands in for `gpu.online.device.learner.DeviceLearner`: a model and ratings whose trained items stay.

    Attributes:
        written: trained items, a call of `write_items` each.
    """

    most_changes = None

    def __init__(self, model: Model, table: RatingTable, keys: Keys) -> None:
        self._keys, self._table, self.written = keys, table, list[list[int]]()
        self._online = HostModel(model, table, *keys)
        self._settle(np.flatnonzero(~model.user_trained & (table.rows.lengths > 0)))

    @property
    def model(self) -> Model:
        return self._online.model

    @property
    def shape(self) -> tuple[int, int]:
        return self._table.n_users, self._table.n_items

    def grow(self, user_keys: np.ndarray, item_keys: np.ndarray) -> None:
        self._keys = np.append(self._keys[0], user_keys), np.append(self._keys[1], item_keys)
        self._table.grow(len(self._keys[0]), len(self._keys[1]))
        self._online.grow(*self._keys)

    def apply(self, users: np.ndarray, items: np.ndarray, values: np.ndarray, positions: np.ndarray) -> None:
        self._online.note(self._table.apply(users, items, values, np.zeros(len(users)), positions))
        self._settle(np.unique(users))

    def touch(self, users: np.ndarray) -> None:
        self._online.touch(users)
        self._settle(users)

    def forget(self, user: int) -> None:
        self._online.forget(user, *self._table.drop_user(user))
        self._settle(np.zeros(0, dtype=np.int64))

    def fetch_refitted(self) -> tuple[Part, Part]:
        items = np.flatnonzero(~self.model.item_trained)
        return self._part(self._refitted, OF_USERS), self._part(items, OF_ITEMS)

    def write_items(self, items: np.ndarray, model: Model) -> None:
        assert self.model.item_trained[items].all()
        self.written.append(items.tolist())
        for name in OF_TRAINED_ITEMS:
            getattr(self.model, name)[items] = getattr(model, name)[items]

    def agreement(self, item: int, others: np.ndarray) -> np.ndarray:
        return self._online.agreement(item, others)

    def _settle(self, users: np.ndarray) -> None:
        self._refitted = users
        assert self._online.settle()

    def _part(self, rows: np.ndarray, names: tuple[str, ...]) -> Part:
        return rows, {name: getattr(self.model, name)[rows] for name in names}


class ReadyDeviceModel:
    """Stands in for `gpu.online.device.ready_model.ReadyDeviceModel`."""

    live: OtherModel

    def __init__(self, model: Model, table: RatingTable) -> None:
        params: Any = model.params
        self.model, self.table, self.index, self.as_trained = model, table, ItemIndex(model), AsTrained(model)
        given = self.as_trained, Prolific(model, table), USER_KEYS, ITEM_KEYS
        self.refits, self._snapshot = SampledRefits(model, params, table, *given), copy_of_model(model)
        assert all(step is None for step in self.refits.prepare())

    def load(self, keys: Callable[[], Keys]) -> Generator[None, None, OtherModel]:
        yield
        table = copy_of_table(self.table)
        yield
        user_keys, item_keys = keys()
        self.live = OtherModel(self._snapshot, table, (user_keys[: table.n_users], item_keys[: table.n_items]))
        return self.live

    def finish(self) -> None:
        """There is nothing to wait for."""


def copy_of_model(model: Model) -> Model:
    """A copy that may grow; one by `deepcopy` would lose what was written before it did."""
    arrays = {name: array.copy() for name, array in model.arrays.items()}
    return Model(model.params, model.mean, model.scale, arrays, model.calibration)


def copy_of_table(table: RatingTable) -> RatingTable:
    """The same of a table."""
    copied = RatingTable(table.n_users, table.n_items)
    for user in range(table.n_users):
        items, values, timestamps, positions = table.row(user)
        copied.apply(np.full(len(items), user), items, values, timestamps, positions)
    return copied


class Mirrored(OnlineModel):
    """A `DeviceModel` in place of the `HostModel`."""

    def _follow(self, model: Model, since: int | None) -> DeviceModel:
        self.placed = ReadyDeviceModel(model, self.table)
        return DeviceModel(self.placed, USER_KEYS, ITEM_KEYS, since)


def mirrored(kind: type[Params], events: Events, since: int | None) -> Mirrored:
    online_model = online_model_of(kind, events, since, model_class=Mirrored)
    assert isinstance(online_model, Mirrored)
    return online_model


def assert_mirrored(online_model: Mirrored) -> None:
    """What answers is what learns, bit for bit; a trained item's count and the sums of hashes are the host's alone."""
    model, live = online_model.online.model, online_model.placed.live.model
    for name in set(ARRAYS) - {"item_counts", "projections"}:
        assert getattr(model, name).tobytes() == getattr(live, name).tobytes(), name


@given(
    kind=st.sampled_from(SAMPLED_KINDS), before=st.lists(RATING, max_size=40), later=st.lists(RATING, max_size=60),
    gone=st.none() | st.integers(0, N_USERS - 1), data=st.data(),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_every_way_to_a_history_ends_in_the_state_of_the_host(
    kind: type[Params], before: Events, later: Events, gone: int | None, data: st.DataObject
) -> None:
    """Batches, turns of work, overwritten and deleted ratings, forgetting, and a start from the snapshot."""
    n_heard = data.draw(st.integers(0, len(later)))  # before a user is forgotten
    heard, rest = later[:n_heard], [event for event in later[n_heard:] if event.user != gone]
    since, events = len(before), [*before, *heard, *rest]
    on_host, restarted = online_model_of(kind, events, since, gone), mirrored(kind, events, since)
    winding = mirrored(kind, before, since)
    learn_in_turns(winding, heard, data)
    if gone is not None:
        for online_model in (on_host, restarted, winding):
            online_model.forget(gone)  # the snapshot knows them still
    on_host.online.settle(None)
    learn_in_turns(winding, rest, data)
    for online_model in (restarted, winding):
        catch_up_in_slices(online_model)
        assert_same_state(on_host, online_model)
        assert_mirrored(online_model)
        assert online_model.online.n_waiting == 0


@pytest.mark.parametrize("kind", LEARNING)
def test_what_is_being_refitted_counts_as_waiting(kind: type[Params], monkeypatch: pytest.MonkeyPatch) -> None:
    online_model = mirrored(kind, BEFORE, len(BEFORE))
    catch_up_in_slices(online_model)
    online_model.learn([Event(user, item, 1.0) for user in range(3, TRAINED_USERS) for item in range(3)])
    online_model.settle_in_slices()
    seen = watched_refits(online_model.online, monkeypatch)
    catch_up_in_slices(online_model)
    assert seen.keys() == {"items", "users"}
    assert min(seen.values()) > 0
    assert online_model.online.n_waiting == 0


@pytest.mark.parametrize("kind", SAMPLED_KINDS)
def test_items_learn_after_events_and_are_given_back_what_they_had(kind: type[Params]) -> None:
    online_model = mirrored(kind, BEFORE, len(BEFORE))
    catch_up_in_slices(online_model)
    fresh = copy.deepcopy(online_model.placed.live.model)
    rated = [Event(user, item, 1.0) for user in range(3, TRAINED_USERS) for item in range(3)]
    online_model.learn(rated)
    online_model.settle_in_slices()
    assert learned_items(online_model, fresh) == []
    assert (online_model.online.n_waiting > 0) == (kind in LEARNING)
    catch_up_in_slices(online_model)
    assert learned_items(online_model, fresh) == ([0, 1, 2] if kind in LEARNING else [])
    assert_mirrored(online_model)
    online_model.learn([event._replace(value=None) for event in rated])
    catch_up_in_slices(online_model)
    assert learned_items(online_model, fresh) == []
    assert_mirrored(online_model)


def learned_items(online_model: Mirrored, fresh: Model) -> list[int]:
    """Trained items that are on the device not as they were trained."""
    live = online_model.placed.live.model
    has_changed = [
        any((getattr(live, name)[item] != getattr(fresh, name)[item]).any() for name in OF_TRAINED_ITEMS)
        for item in range(TRAINED_ITEMS)
    ]
    return np.flatnonzero(has_changed).tolist()


@pytest.mark.parametrize("kind", LEARNING)
def test_without_a_position_trained_items_stay(kind: type[Params]) -> None:
    online_model = mirrored(kind, BEFORE, None)
    online_model.learn([Event(user, item, 1.0) for user in range(TRAINED_USERS) for item in range(TRAINED_ITEMS)])
    online_model.online.settle()
    assert online_model.placed.live.written == []


@pytest.mark.parametrize("kind", LEARNING)
def test_a_user_without_changes_reads_the_current_items(kind: type[Params]) -> None:
    online_model = mirrored(kind, [*BEFORE, Event(0, 5, 2.0)], len(BEFORE))
    catch_up_in_slices(online_model)
    online_model.learn([Event(user, 1, 5.0) for user in range(3, TRAINED_USERS)])
    catch_up_in_slices(online_model)
    found = online_model.online.fold_in(*online_model.table.row(0)[:2])
    np.testing.assert_allclose(online_model.online.model.user_factors[0], found.factors[0], rtol=1e-6, atol=1e-7)


def test_a_model_that_is_being_loaded_has_not_caught_up() -> None:
    """Else the service would let it answer before it has the history."""
    online_model = mirrored(CulshParams, [*BEFORE, Event(TRAINED_USERS, 0, 5.0)], len(BEFORE))
    assert not online_model.online.catch_up(0.0)
    for _ in range(10_000):
        if online_model.online.catch_up(0.0):
            break
    assert online_model.online.model.user_factors[TRAINED_USERS].any()
    assert online_model.online.settle(0.0)


def test_short_items_are_solved_together_and_long_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_model, "ITEMS_AT_ONCE", 4)
    for n_raters, sizes in ((1024, [4, 4, 1]), (2 * (64 + 6), [2, 2, 2, 2, 1]), (1, [1] * 9)):
        monkeypatch.setattr(device_model, "RATERS_AT_ONCE", n_raters)
        online_model = mirrored(CulshParams, BEFORE, len(BEFORE))
        online_model.learn(
            [Event(user, item, 1.0) for user in range(3, TRAINED_USERS) for item in range(TRAINED_ITEMS)]
        )
        catch_up_in_slices(online_model)
        assert [len(items) for items in online_model.placed.live.written] == sizes


def test_lists_are_those_of_the_items_that_have_learned() -> None:
    history = {(event.user, event.item): event.value for event in BEFORE if event.value is not None}
    online_model = Mirrored(CulshParams, history, since=len(BEFORE), n_trained=40)  # most are gone: every item learns
    online_model.learn([Event(user, item, 4.0) for user in range(3, TRAINED_USERS) for item in range(4)])
    catch_up_in_slices(online_model)
    model, users = online_model.online.model, np.arange(N_USERS)
    kept, fresh = (
        topn.recommend(index, topn.users_of(model, users), online_model.table.rows, 5, include_seen=True)
        for index in (online_model.online.index, ItemIndex(model))
    )
    assert kept[0].tolist() == fresh[0].tolist()


@pytest.mark.parametrize("kind", LEARNING)
def test_readers_of_an_item_follow_in_batches(kind: type[Params]) -> None:
    """A full batch leaves no reader out, with rows of any length."""
    news = [Event(user, item, 2.0) for user in range(TRAINED_USERS) for item in range(4, TRAINED_ITEMS)]
    last = [Event(user, 0, 5.0) for user in range(3, TRAINED_USERS)]
    on_host, online_model = online_model_of(kind, BEFORE, len(BEFORE)), mirrored(kind, BEFORE, len(BEFORE))
    for each in (on_host, online_model):
        each.learn(news)
        catch_up_in_slices(each)
        each.learn(last)
        each.settle_in_slices()
    online_model.online.catch_up(0.0)
    n_late = online_model.online.n_waiting
    online_model.online.catch_up(0.0)
    assert n_late == TRAINED_USERS
    assert n_late - 3 <= online_model.online.n_waiting < n_late
    for each in (on_host, online_model):
        catch_up_in_slices(each)
    assert_same_state(on_host, online_model)


@pytest.mark.parametrize("kind", LEARNING)
def test_rows_that_come_while_items_learn(kind: type[Params]) -> None:
    n_users, n_items = N_USERS + 3, N_ITEMS + 2
    keys = np.append(USER_KEYS, np.arange(3, dtype=np.uint64)), np.append(ITEM_KEYS, np.arange(2, dtype=np.uint64))
    news = [Event(user, item, 4.0) for user in range(3, n_users) for item in (0, 1, n_items - 1)]
    on_host, online_model = online_model_of(kind, BEFORE, len(BEFORE)), mirrored(kind, BEFORE, len(BEFORE))
    for each in (on_host, online_model):
        catch_up_in_slices(each)
        each.table.grow(n_users, n_items)
        each.online.grow(*keys)
        each.learn(news)
        catch_up_in_slices(each)
    assert online_model.placed.live.shape == (n_users, n_items)
    assert_same_state(on_host, online_model)
    assert_mirrored(online_model)
