from __future__ import annotations

import pytest

from benchmarks import rules


def test_every_rule_is_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rules, "N_TIMES", 2)
    rows = list(rules.run(300, 8))
    assert [row.rules for row in rows] == list(rules.RULES)
    assert all(row.ms > 0 for row in rows)
