from __future__ import annotations

import pytest

from benchmarks import rules
from gpu.backend import HOST


def test_every_rule_is_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rules, "N_TIMES", 2)
    rows = list(rules.run(300, 8, HOST))
    assert [row.rules for row in rows] == list(rules.RULES)
    assert all(row.ms > 0 for row in rows)
