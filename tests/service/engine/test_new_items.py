"""Items that nobody has rated: they have factors by their tags, and what is learned of them depends only on history."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from gpu.base.backend import HOST
from gpu.base.host import compilation
from gpu.data.model import Model
from gpu.online import prepare_online
from service.engine.compilation import compile_model, compile_reading
from service.engine.models.live_model import LiveModel
from service.engine.queries import ItemNeighbors, Neighbors
from service.engine.state.history import History
from service.jobs.content import content_map_of
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.item_changes import ItemChange
from service.storage.snapshots.content_map import ContentMap, ContentMaps
from service.storage.snapshots.manifest import FORMAT, Manifest
from tests.service.engine.test_learned_events import copy_of, history_of, items, ranking_of, trained
from tests.service.planted import N_ITEMS, entries

TASTES = "even", "odd"


def item_entry(ms: int, *changes: ItemChange) -> Entry:
    return Entry(StreamId(ms, 0), "item", items=list(changes))


def tagged(item: str, taste: str, **more: str) -> ItemChange:
    return ItemChange(item, tags={"taste": [taste], **{name: [value] for name, value in more.items()}})


def rating(ms: int, user: str, item: str, value: float) -> Entry:
    return Entry(StreamId(ms, 0), "rating", [RatingEvent(user, item, value, ms / 1000)])


CATALOG = item_entry(2000, *(tagged(f"i{n}", TASTES[n % 2], shelf=str(n % 5)) for n in range(N_ITEMS)))
BEFORE = [*entries(), CATALOG]
LATER = [
    item_entry(3000, tagged("new-even", "even"), tagged("new-odd", "odd"), tagged("unheard", "of")),
    rating(3001, "u0", "new-odd", 5.0),
    rating(3002, "u2", "late", 5.0),
    item_entry(3003, ItemChange("new-even", op="patch", tags={"taste": ["odd"]})),
    item_entry(3004, tagged("late", "even"), tagged("gone", "even"), tagged("back", "even"), tagged("i0", "odd")),
    item_entry(3005, ItemChange("gone", op="delete"), ItemChange("back", op="delete")),
    item_entry(3006, tagged("new-even", "even"), ItemChange("back", op="put", tags={"taste": ["odd"]})),
    rating(3007, "u4", "new-odd", 1.0),
    Entry(StreamId(3008, 0), "forget", subject="u2"),
]


@pytest.fixture(scope="module", params=["als", "als-implicit"])
def snapshot(request: pytest.FixtureRequest) -> tuple[Model, ContentMap]:
    history = history_of(BEFORE)
    model = trained(history, request.param)
    content = content_map_of(model, history.catalog)
    assert content is not None
    return model, content


def live(history: History, snapshot: tuple[Model, ContentMap], *, has_content: bool = True) -> LiveModel:
    model, content = snapshot
    name, table = model.params.algorithm, history.table_of(has_strengths=model.is_implicit)
    counts = model.n_users, model.n_items
    manifest = Manifest(f"{name}-1", name, {}, model.mean, model.scale, {}, "2500-0", *counts, {}, FORMAT)
    rows = [row if history.users.id(row) else -1 for row in range(model.n_users)]  # without forgotten ones
    moved = copy_of(model).mapped(np.array(rows), np.arange(model.n_items), table.n_users, table.n_items)
    ready = prepare_online(moved, table, history.users.keys, history.items.keys)
    return LiveModel(manifest, ready, history, ContentMaps(content if has_content else None))


def told(history: History, live_model: LiveModel, given: Sequence[Entry], budget_s: float | None) -> None:
    for entry in given:
        live_model.learn(history.apply([entry]))
        while not live_model.settle(budget_s):
            pass


def rows_of(history: History) -> NDArray[np.int32]:
    return history.items.rows_or_new(["new-even", "new-odd", "unheard", "late", "gone", "back", "i0"])


def test_an_unrated_item_is_listed_among_its_like(snapshot: tuple[Model, ContentMap]) -> None:
    history = history_of(BEFORE)
    live_model = live(history, snapshot)
    assert live_model.settle(None)
    ranking = ranking_of(history, live_model)
    told(history, live_model, LATER[:1], 0.0)
    for user, own, other in (("u2", "new-even", "new-odd"), ("u3", "new-odd", "new-even")):
        shown = items(ranking, user)
        assert own in shown
        assert shown.index(own) < shown.index(other)
        assert "unheard" not in shown
    (answer,) = ranking.answer([Neighbors(kind="item", id="new-even", n=5)], StreamId(9, 0))
    assert isinstance(answer, ItemNeighbors)
    assert {int(one.item[1:]) % 2 for one in answer.neighbors if one.item.startswith("i")} == {0}
    assert "new-even" not in items(ranking, "u2", min_ratings=1)


def test_without_a_map_unrated_items_are_not_listed(snapshot: tuple[Model, ContentMap]) -> None:
    history = history_of(BEFORE)
    live_model = live(history, snapshot, has_content=False)
    assert live_model.settle(None)
    told(history, live_model, LATER[:1], None)
    assert not {"new-even", "new-odd", "unheard"} & {*items(ranking_of(history, live_model), "u2")}


def test_attributes_that_go_take_the_item_with_them(snapshot: tuple[Model, ContentMap]) -> None:
    history = history_of([*BEFORE, LATER[0]])
    live_model = live(history, snapshot)
    assert live_model.settle(None)
    ranking = ranking_of(history, live_model)
    assert "new-even" in items(ranking, "u2")
    told(history, live_model, [item_entry(4000, ItemChange("new-even", op="patch", tags=None))], 0.0)
    assert "new-even" not in items(ranking, "u2")
    assert not live_model.model.item_factors[history.items.row("new-even")].any()


@pytest.mark.parametrize("n_before", [0, 4, len(LATER)])
def test_what_is_learned_depends_only_on_snapshot_and_history(
    snapshot: tuple[Model, ContentMap], n_before: int
) -> None:
    """A restart after `n_before` entries, entries one by one in small slices, or all in one batch."""
    found = []
    for budget_s, at_once in ((0.0, 1), (None, len(LATER))):
        history = history_of([*BEFORE, *LATER[:n_before]])
        live_model = live(history, snapshot)
        for first in range(n_before, len(LATER), at_once):
            live_model.learn(history.apply(LATER[first : first + at_once]))
            while not live_model.settle(budget_s):
                pass
        assert live_model.settle(None)
        rows = rows_of(history)
        arrays = [live_model.model.item_factors[rows], live_model.model.item_bias[rows]]
        found.append((arrays, items(ranking_of(history, live_model), "u6")))
    history = history_of([*BEFORE, *LATER])
    restarted = live(history, snapshot)
    assert restarted.settle(None)
    rows = rows_of(history)
    shown = items(ranking_of(history, restarted), "u6")
    assert {"new-even", "new-odd", "late", "back"} <= {*shown}
    assert not {"unheard", "gone"} & {*shown}
    for (factors, biases), listed in found:
        np.testing.assert_array_equal(factors, restarted.model.item_factors[rows])
        np.testing.assert_array_equal(biases, restarted.model.item_bias[rows])
        assert listed == shown


def test_priors_need_no_further_kernels(snapshot: tuple[Model, ContentMap]) -> None:
    compile_reading()
    compile_model(snapshot[0].params.algorithm, HOST)
    before = compilation.n_signatures()
    history = history_of(BEFORE)
    told(history, live(history, snapshot), LATER, 0.0)
    assert compilation.n_signatures() == before


def test_only_als_has_a_map() -> None:
    history = history_of(BEFORE)
    assert content_map_of(trained(history, "nmf"), history.catalog) is None
    assert content_map_of(trained(history_of(entries()), "als"), history_of(entries()).catalog) is None


def test_many_unrated_items_take_few_slices_and_get_their_priors(snapshot: tuple[Model, ContentMap]) -> None:
    history = history_of(BEFORE)
    live_model = live(history, snapshot)
    assert live_model.settle(None)
    added = [tagged(f"many{n}", TASTES[n % 2], shelf=str(n % 7)) for n in range(500)]
    rated = [rating(4001 + n, f"u{n}", f"many{7 * n}", 5.0) for n in range(40)]
    live_model.learn(history.apply([item_entry(4000, *added), *rated]))
    n_slices = 1
    while not live_model.settle(0.0):
        n_slices += 1
    assert n_slices < 40 + 40 + 12  # refits of users, rated items and a hundred unrated items at a time
    again = live(history, snapshot)
    assert again.settle(None)
    for name in ("item_factors", "item_bias"):
        np.testing.assert_array_equal(getattr(live_model.model, name), getattr(again.model, name))
    row = history.items.row("many499")
    content = snapshot[1]
    assert row is not None
    (expected,), _ = content.priors([history.catalog.features(row)])
    np.testing.assert_array_equal(live_model.model.item_factors[row], expected[:-1].astype(np.float32))
