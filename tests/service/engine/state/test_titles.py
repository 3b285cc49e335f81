"""Titles in their order, beside a sorted list."""

import random

import pytest

from service.engine.state import attribute_index
from service.engine.state.attribute_index import Titles


def test_rows_come_in_the_order_of_titles_while_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribute_index, "LONGEST", 4)
    draws, index, present = random.Random(0), Titles(), dict[int, str]()
    assert list(index.starting_with("a")) == []
    for _ in range(2000):
        row = draws.randrange(40)
        new = None if draws.random() < 0.4 else "".join(draws.choice("aAbé") for _ in range(draws.randrange(1, 4)))
        index.change(row, present.get(row), new)
        if new is None:
            present.pop(row, None)
        else:
            present[row] = new
        for text in ("a", "B", "ab", "É", "bb", "c"):
            ordered = sorted((title.casefold(), row) for row, title in present.items())
            assert list(index.starting_with(text)) == [
                row for title, row in ordered if title.startswith(text.casefold())
            ]
