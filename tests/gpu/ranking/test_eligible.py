import numpy as np
import pytest

from gpu.ranking.eligible import Eligible


@pytest.mark.parametrize("n_items", [0, 1, 31, 32, 33, 100])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_set_holds_what_it_was_made_of(n_items: int, share: float) -> None:
    mask = np.random.default_rng(n_items).random(n_items) < share
    eligible = Eligible.of(mask)
    assert eligible.bits.dtype == np.uint32
    assert len(eligible.bits) == -(-n_items // 32)
    assert eligible.count == mask.sum()
    assert eligible.rows.tolist() == np.flatnonzero(mask).tolist()
    for length in (0, n_items // 2, n_items, n_items + 70):
        assert eligible.mask(length).tolist() == np.resize(np.append(mask, np.zeros(99, bool)), length).tolist()
    items = np.arange(n_items + 70)[::-1]
    assert eligible.among(items).tolist() == np.flatnonzero(mask)[::-1].tolist()


def test_bits_are_in_the_order_of_the_items() -> None:
    mask = np.zeros(70, dtype=bool)
    mask[[0, 5, 33, 69]] = True
    assert Eligible.of(mask).bits.tolist() == [1 | 1 << 5, 1 << 1, 1 << 5]


def test_sets_are_told_apart_by_object() -> None:
    mask = np.ones(3, dtype=bool)
    one, other = Eligible.of(mask), Eligible.of(mask)
    assert len({one, other, one}) == 2
