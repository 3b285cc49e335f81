"""`Watch`: decides when a rank counts as lost, from the times of its messages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RankLimits:
    """Times after which a training on several ranks starts a new attempt, and the number of attempts.

    Attributes:
        start_s: seconds until all ranks have joined, after the last byte of what they fetch.
        silent_s: seconds without any sign of life from one rank.
        least_part_s, n_longest: no rank ends a part for `n_longest` times the longest part so far, or for
            `least_part_s` if that is more.
        first_epoch_s: the same before the first epoch of the attempt is complete, and while the model is written.
        n_fruitless: attempts in a row without a new checkpoint, after which the training fails.
    """

    start_s: float = 120.0
    silent_s: float = 30.0
    least_part_s: float = 30.0
    n_longest: float = 20.0
    first_epoch_s: float = 3600.0
    n_fruitless: int = 3


class Watch:
    """The times of one attempt. All times are seconds of one clock.

    The longest part decides, not the median: the last part of an epoch may include metrics that take longer than the
    part itself. The first part of an attempt does not count, because it may include compilation.
    """

    def __init__(self, n_ranks: int, limits: RankLimits, now_s: float) -> None:
        self._limits, self._n_ranks, self._started_s = limits, n_ranks, now_s
        self._heard_s: dict[int, float] = {}
        self._joined: set[int] = set()
        self._finished: set[int] = set()
        self._parts = dict.fromkeys(range(n_ranks), 0)
        self._ended_s: list[float] = []  # when all ranks had joined, then when all had completed each part
        self._n_of_epoch = 1

    def heard(self, rank: int, now_s: float) -> None:
        """Any message came."""
        self._heard_s[rank] = now_s

    def moved(self, now_s: float) -> None:
        """Ratings or a checkpoint are on the way to a rank, which joins only when it has them."""
        self._started_s = now_s

    def joined(self, rank: int, now_s: float) -> None:
        """A rank has reached its neighbors."""
        self._joined.add(rank)
        if len(self._joined) == self._n_ranks:
            self._ended_s.append(now_s)

    def part_done(self, rank: int, n_parts: int, n_of_epoch: int, now_s: float) -> None:
        """A rank has completed a part."""
        before = min(self._parts.values())
        self._parts[rank], self._n_of_epoch = n_parts, n_of_epoch
        if min(self._parts.values()) > before:
            self._ended_s.append(now_s)

    def finished(self, rank: int) -> None:
        """A rank has done everything; it may be silent from then on."""
        self._finished.add(rank)

    def complaint(self, now_s: float) -> str | None:
        """Which rank is lost and why; None if none is."""
        limits = self._limits
        missing = sorted(set(range(self._n_ranks)) - self._joined)
        if missing and now_s - self._started_s > limits.start_s:
            return f"rank {missing[0]} did not join within {limits.start_s:g} s"
        for rank, heard_s in self._heard_s.items():
            if rank not in self._finished and now_s - heard_s > limits.silent_s:
                return f"rank {rank} was silent for {limits.silent_s:g} s"
        limit_s = limits.first_epoch_s
        parts_s = [end - begin for begin, end in zip(self._ended_s, self._ended_s[1:], strict=False)]
        if len(parts_s) > self._n_of_epoch and not self._finished:
            limit_s = max(limits.least_part_s, limits.n_longest * max(parts_s[1:]))
        if self._ended_s and now_s - self._ended_s[-1] > limit_s:
            slowest = min(self._parts, key=self._parts.__getitem__)
            return f"no part ended within {limit_s:g} s; rank {slowest} was the last"
        return None
