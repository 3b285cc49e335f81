from __future__ import annotations

import pytest

from benchmarks import events


def test_bodies_of_every_kind_are_parsed_and_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "N_ALTERNATIONS", 2)
    monkeypatch.setattr(events, "N_WARMING", 0)
    monkeypatch.setattr(events, "BATCH", 20)
    rows = list(events.run(30, 10, 200))
    assert [row.elements for row in rows] == list(events.KINDS)
    assert all(row.parse_ms > 0 and row.learn_ms > 0 for row in rows)
    assert (rows[0].times_parse, rows[0].times_learn) == (1, 1)
