"""Neighbors of a set of items, beside the neighbors of each of them."""

from typing import Any

import numpy as np
import pytest

from service.engine.errors import UnknownItem
from service.engine.lists.ranking import Ranking
from service.engine.queries import Neighbors, NeighborsOfSet, Query, SetNeighbors
from service.engine.queries.filter_tree import HasTag, text_of
from service.storage.events import Entry, StreamId
from service.storage.item_changes import ItemChange
from tests.service.engine.test_learned_events import history_of, live, ranking_of, trained
from tests.service.planted import N_ITEMS, entries

ALGORITHMS = "als-implicit", "als", "ease", "culsh", "neighbors"


@pytest.fixture(scope="module")
def ranking() -> Ranking:
    tagged = [ItemChange(f"i{n}", tags={"kind": ["few" if n % 4 == 0 else "many"]}) for n in range(0, N_ITEMS, 2)]
    given = [*entries(), Entry(StreamId(2500, 0), "item", items=tagged), Entry(StreamId(2500, 1), "hide", subject="i9")]
    history = history_of(given)
    return ranking_of(history, *(live(history, trained(history, name)) for name in ALGORITHMS))


def asked(ranking: Ranking, query: Query) -> Any:
    (answer,) = ranking.answer([query], StreamId(9, 0))
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.mark.parametrize("model", ALGORITHMS)
def test_a_set_of_one_has_the_neighbors_of_its_item(ranking: Ranking, model: str) -> None:
    for item in ("i0", "i9", "i17"):
        one = asked(ranking, Neighbors(kind="item", id=item, n=7, model=model))
        found = asked(ranking, SetNeighbors(items=[item, item], n=7, model=model))
        assert (found.neighbors, found.model_version, found.warnings) == (one.neighbors, one.model_version, [])


@pytest.mark.parametrize("model", ALGORITHMS)
def test_scores_are_means_over_the_set(ranking: Ranking, model: str) -> None:
    rng = np.random.default_rng(7)
    every = {f"i{n}" for n in range(N_ITEMS)}
    of_one: dict[str, dict[str, float]] = {}
    for item in every:
        found = asked(ranking, Neighbors(kind="item", id=item, n=N_ITEMS, model=model)).neighbors
        of_one[item] = {one.item: one.score for one in found}
    for size in (2, 3, 10):
        chosen = rng.choice(sorted(every - {"i9"}), size, replace=False).tolist()
        found = asked(ranking, SetNeighbors(items=chosen, n=N_ITEMS, model=model))
        scores = {one.item: one.score for one in found.neighbors}
        if model == "culsh":  # which lists few neighbors of an item
            listed = set().union(*(of_one[item] for item in chosen)) - set(chosen)
            assert set(scores) == listed
        elif model == "neighbors":
            listed = set().union(*(of_one[item] for item in chosen)) - set(chosen)
            means = {item: np.mean([of_one[one].get(item, 0.0) for one in chosen]) for item in listed}
            assert scores == pytest.approx(means, abs=1e-7)
        else:
            means = {item: np.mean([of_one[one][item] for one in chosen]) for item in every - set(chosen) - {"i9"}}
            assert scores == pytest.approx(means, abs=1e-5)
        assert list(scores.values()) == sorted(scores.values(), reverse=True)
        few = asked(ranking, SetNeighbors(items=chosen, n=3, model=model)).neighbors
        assert few == found.neighbors[:3]


@pytest.mark.parametrize("model", ALGORITHMS)
def test_filters_narrow_the_neighbors(ranking: Ranking, model: str) -> None:
    text = text_of(HasTag("kind", ("few",)))
    whole = asked(ranking, SetNeighbors(items=["i0", "i3"], n=N_ITEMS, model=model)).neighbors
    some = asked(ranking, SetNeighbors(items=["i0", "i3"], n=N_ITEMS, model=model, filter=text))
    assert some.neighbors == [one for one in whole if int(one.item[1:]) % 4 == 0]
    assert some.eligible == 10


def test_unknown_items_are_named_and_left_out(ranking: Ranking) -> None:
    found: NeighborsOfSet = asked(ranking, SetNeighbors(items=["i0", "nowhere", "i3"]))
    assert found.neighbors == asked(ranking, SetNeighbors(items=["i3", "i0"])).neighbors
    assert found.warnings == ["unknown items in the set: 'nowhere'"]
    with pytest.raises(UnknownItem, match="'nowhere'"):
        asked(ranking, SetNeighbors(items=["nowhere"]))
