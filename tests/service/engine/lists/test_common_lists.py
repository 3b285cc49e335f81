from collections.abc import Callable
from typing import Any

import pytest

from service.engine.lists import common_lists
from service.engine.lists.common_lists import Popularity
from service.engine.lists.ranking import Ranking
from service.engine.queries import Popular, PopularItems
from service.engine.state.history import History
from service.storage.events import ZERO, Entry, StreamId


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of changes of each count."""
    numbers: list[int] = []
    note = Popularity.note

    def spy(popularity: Popularity, items: Any, *columns: Any) -> None:
        numbers.append(len(items))
        note(popularity, items, *columns)

    monkeypatch.setattr(Popularity, "note", spy)
    monkeypatch.setattr(common_lists, "COUNTED_AT_ONCE", 6)
    return numbers


def test_changes_are_counted_together_before_a_list_is_shown(
    rating_entry: Callable[..., Entry], counted: list[int]
) -> None:
    history = History()
    ranking = Ranking(history, [])

    def apply(*entries: Entry) -> None:
        ranking.note(history.apply(entries))

    def popular() -> list[str]:
        (answer,) = ranking.answer([Popular()], ZERO)
        assert isinstance(answer, PopularItems)
        return [item.item for item in answer.items]

    apply(rating_entry(1, ("u", "a", 1.0)))
    apply(rating_entry(2, ("v", "b", 1.0), ("w", "b", 1.0)))
    assert counted == []
    assert popular() == ["b", "a"]
    assert counted == [3]
    for ms in (3, 4, 5):
        apply(rating_entry(ms, (f"x{ms}", "a", 1.0)))
    assert counted == [3, 3]  # as many as are counted at once
    apply(Entry(StreamId(6, 0), "forget", subject="x5"))
    assert counted == [3, 3, 0, 1]  # what is forgotten does not wait
    assert popular() == ["a", "b"]
