from __future__ import annotations

import numpy as np
import pytest

import gpu
from benchmarks import explore


def test_the_orders_are_those_that_they_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    are_rated = rng.random((60, 50)) < 0.5
    users, items = (one.astype(np.int32) for one in np.nonzero(are_rated))
    values = np.where((users + items) % 2, 5, 1).astype(np.float32)
    keys = (np.arange(1, n + 1, dtype=np.uint64) for n in (60, 50))
    split = explore.Split.drawn(gpu.Ratings.from_coo(users, items, values, (60, 50), *keys), 4.0, 1)
    kept = split.train.by_item.lengths
    assert np.count_nonzero((kept > 0) & (kept < explore.BELOW)) == round(explore.SHARE * 50)
    assert (split.relevant.coo()[2] == 5).all()
    chosen = np.flatnonzero(split.relevant.by_user.lengths)[:20]
    monkeypatch.setattr(explore, "N_SHOWN", 2)
    found = explore.orders(split, "als-implicit", chosen)
    assert {name: rows.shape for name, rows in found.items()} == dict.fromkeys(("score", "bonus", "fewest"), (20, 2))
    assert (kept[found["fewest"][:, 0]] <= kept[found["score"][:, 0]]).all()
    for rows in found.values():
        hits, few = explore._figures(split, chosen, rows)
        assert 0 <= hits <= 1
        assert 0 <= few <= 1
    assert explore._figures(split, chosen, found["fewest"])[1] >= explore._figures(split, chosen, found["score"])[1]
