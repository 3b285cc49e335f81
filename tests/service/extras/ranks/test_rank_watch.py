"""When a rank counts as lost; in virtual time."""

import pytest

from service.extras.ranks.rank_watch import RankLimits, Watch

LIMITS = RankLimits(start_s=10, silent_s=5, least_part_s=3, n_longest=20, first_epoch_s=100)


@pytest.fixture
def watch() -> Watch:
    """Two ranks that have joined at second 1."""
    found = Watch(2, LIMITS, 0.0)
    for rank in range(2):
        found.heard(rank, 1.0)
        found.joined(rank, 1.0)
    return found


def epochs(watch: Watch, n: int, part_s: float, start_s: float = 1.0, n_before: int = 0) -> float:
    """Both ranks complete `n` epochs of two parts, after `n_before` parts; the time after them."""
    now_s = start_s
    for part in range(n_before + 1, n_before + 2 * n + 1):
        now_s += part_s
        for rank in range(2):
            watch.heard(rank, now_s)
            watch.part_done(rank, part, 2, now_s)
    return now_s


def test_a_rank_that_does_not_join_is_lost() -> None:
    watch = Watch(2, LIMITS, 0.0)
    watch.heard(0, 9.0)
    watch.joined(0, 9.0)
    assert watch.complaint(10.0) is None
    watch.heard(0, 10.0)
    assert watch.complaint(10.1) == "rank 1 did not join within 10 s"


def test_a_silent_rank_is_lost_unless_it_has_finished(watch: Watch) -> None:
    watch.heard(0, 6.0)
    assert watch.complaint(6.0) is None
    assert watch.complaint(6.1) == "rank 1 was silent for 5 s"
    watch.finished(1)
    assert watch.complaint(6.1) is None


def test_a_part_may_take_twenty_times_the_longest_one(watch: Watch) -> None:
    now_s = epochs(watch, 3, 1.0)
    watch.part_done(0, 7, 2, now_s + 1.0)
    for second in (19.0, 21.0):
        for rank in range(2):
            watch.heard(rank, now_s + second)
    assert watch.complaint(now_s + 20.0) is None
    assert watch.complaint(now_s + 20.1) == "no part ended within 20 s; rank 1 was the last"


def test_short_parts_have_the_least_limit(watch: Watch) -> None:
    now_s = epochs(watch, 3, 0.01)
    assert watch.complaint(now_s + 2.9) is None
    assert "within 3 s" in str(watch.complaint(now_s + 3.1))


def test_the_first_epoch_may_compile_and_the_end_may_write(watch: Watch) -> None:
    now_s = epochs(watch, 1, 0.01)
    for rank in range(2):
        watch.heard(rank, now_s + 90)
    assert watch.complaint(now_s + 90) is None
    for rank in range(2):
        watch.heard(rank, now_s + 101)
    assert "within 100 s" in str(watch.complaint(now_s + 101))
    now_s = epochs(watch, 2, 0.01, now_s, 2)
    watch.finished(1)
    watch.heard(0, now_s + 90)
    assert watch.complaint(now_s + 90) is None


def test_a_long_first_part_does_not_count(watch: Watch) -> None:
    for rank in range(2):
        watch.part_done(rank, 1, 2, 61.0)
    now_s = epochs(watch, 2, 0.1, 61.0, 1)
    assert "within 3 s" in str(watch.complaint(now_s + 3.1))
