"""The two half-iterations of ALS on one or several ranks: cuMF's SU-ALS ([001] Alg. 3).

With one side fixed, the ranks share the solved rows in one of two modes:

* gather: a rank solves a block of rows against the whole fixed table (model parallelism). The tables have the bits of
  a single rank, for any number of ranks.
* reduce: a rank adds up A and b of all rows over the part of the fixed side that it owns; sums of all ranks are added
  up where a row is solved (data parallelism). Equal numbers of ranks give equal bits.

Gathering moves the fixed table, reducing moves D² floats for each solved row: see `gpu.als.planner`.

A rank owns the rows of each side that it solves. It has no others, but for a side that the other half gathers: there it
has what solving reads of all rows. Errors need all pairs of rows: rows of other ranks pass by in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu.als import host as als
from gpu.als import host_stream as stream
from gpu.als import host_sums as sums
from gpu.als.objective import ROW_COST, AlsObjective
from gpu.als.sum_batches import fewest, sum_batches
from gpu.base.backend import Backend
from gpu.data.ratings import Rows
from gpu.data.views import part_of, weighted_bounds
from gpu.ranks.exchange import Exchange, in_turn, most

Mode = Literal["gather", "reduce"]


class Modes(NamedTuple):
    """The mode of each half."""

    items: Mode
    users: Mode


GATHER = Modes("gather", "gather")


class Division(NamedTuple):
    """How ranks divide a training.

    Attributes:
        modes: of the halves.
        shares: (P,), how many of the ratings each rank gets, in any unit.
    """

    modes: Modes
    shares: tuple[float, ...]


class Side(NamedTuple):
    """One side of a training.

    Attributes:
        rows: its ratings; entries are rows of the other side.
        start: the parameters of consecutive rows before the first half, float32 (n, D).
        n_rated: number of rows of the other side that have ratings.
        batches: if ratings are loaded again in each half: int64 (q + 1,), bounds of the batches of this rank's rows,
            from its first; in mode reduce only q counts, as a batch has an equal share of the rows of every rank.
            None: all ratings stay in memory.
        on_host: whether float32 parameters stay in host memory too; only with batches.
        waves: if not all rows of the other side that this rank owns fit into memory, and this half has the mode
            "reduce": int64 (w + 1,), bounds of the rows that are there together, from the first that it owns.
    """

    rows: Rows
    start: Callable[[slice], NDArray[np.float32]]
    n_rated: int
    batches: NDArray[np.int64] | None = None
    on_host: bool = False
    waves: NDArray[np.int64] | None = None


class Half:
    """One side with its parameters, and how the ranks solve it.

    Attributes:
        bounds: int64 (P + 1,), first row of each rank.
        own: the rows that this rank solves.
        table: their parameters, on the backend.
        whole: what the other half reads of all rows; None if that half has the mode "reduce".
    """

    def __init__(
        self,
        side: Side,
        bounds: NDArray[np.int64],
        problem: AlsObjective,
        backend: Backend,
        exchange: Exchange,
        feed: stream.Feed,
        *,
        is_shared: bool,
        in_waves: bool,
    ) -> None:
        """Place the rows.

        Args:
            feed: loads batches, if there are any; shared with the other half.
            is_shared: whether the other half reads the rows of all ranks.
            in_waves: whether it loads them in waves.
        """
        self._problem, self._exchange, self._twin, self._feed = problem, exchange, backend.twin, feed
        self.bounds, self.own, self._side = bounds, own_of(bounds, exchange), side
        kept = {"is_shared": is_shared, "on_host": side.on_host, "in_waves": in_waves}
        self.table, self.whole = self._twin(als.place)(exchange, bounds, problem, **kept)
        self.load(side.start(self.own))

    def prepare(self, fixed: Half) -> None:
        """Place the ratings; both halves have their rows."""
        raise NotImplementedError

    def load(self, own: NDArray[np.float32]) -> None:
        """Replace the parameters of this rank's rows; all ranks must call it."""
        self._feed.forget()
        self._twin(als.fill)(self.table, own, self._problem)
        if self.whole is not None:
            self._twin(als.gather)(self._exchange, self.whole, self.bounds)

    def rows(self) -> NDArray[np.float32]:
        """The parameters of all rows, float32 (rows, D), on the host; on other ranks than 0 none, (0, D).

        All ranks must call it. Rows of other ranks pass by in pieces, and rank 0 keeps them.
        """
        self._feed.wait()
        own, is_first = self._twin(als.fetch)(self.table), self._exchange.rank == 0
        if self._exchange.size == 1:
            return own
        found = np.empty((int(self.bounds[-1]) * is_first, own.shape[1]), dtype=np.float32)
        for first, piece in in_turn(self._exchange.on_host, own, self.bounds):
            if is_first:
                found[first : first + len(piece)] = piece
        return found

    def solve(self, fixed: Half, problem: AlsObjective) -> None:
        """Solve the rows of all ranks against those of `fixed`.

        Args:
            problem: the objective of this half-iteration; it differs from that of `halves_of` at most in λ.
        """
        raise NotImplementedError

    def errors(self, fixed: Half, scale: tuple[float, float]) -> tuple[float, float]:
        """See the primitive `errors`; over this rank's part of the ratings. All ranks must call it."""
        raise NotImplementedError

    def penalty(self) -> float:
        """See the primitive `penalty`; of this rank's rows."""
        raise NotImplementedError


def halves_of(
    users: Side, items: Side, problem: AlsObjective, backend: Backend, exchange: Exchange, division: Division
) -> tuple[Half, Half]:
    """(users, items), loaded onto the backend; `problem` is an `AlsObjective`."""
    common, feed = (problem, backend, exchange), backend.twin(stream.Feed)()
    modes, shares = division
    bounds = bounds_of(users.rows, shares), bounds_of(items.rows, shares)
    found: list[Half] = []
    for side, own, mode, other, other_mode in (
        (users, bounds[0], modes.users, items, modes.items),
        (items, bounds[1], modes.items, users, modes.users),
    ):
        kind = GatherHalf if mode == "gather" else ReduceHalf
        is_shared, in_waves = other_mode == "gather", other.waves is not None
        found.append(kind(side, own, *common, feed, is_shared=is_shared, in_waves=in_waves))
    for half, fixed in (found, found[::-1]):
        half.prepare(fixed)
    return found[0], found[1]


def bounds_of(rows: Rows, shares: Sequence[float]) -> NDArray[np.int64]:
    """Bounds (P + 1,) of blocks of rows whose times to solve are about in proportion to `shares` (P,)."""
    return weighted_bounds(rows.lengths, shares, ROW_COST)


def own_of(bounds: NDArray[np.int64], exchange: Exchange) -> slice:
    """The block of this rank."""
    return slice(*bounds[exchange.rank : exchange.rank + 2].tolist())


class GatherHalf(Half):
    """A half in mode "gather"."""

    def prepare(self, fixed: Half) -> None:
        """The ratings of this rank's rows."""
        side, twin = self._side, self._twin
        rows, _ = part_of(side.rows, self.own)
        given = rows, int(fixed.bounds[-1]), self._problem, side.n_rated
        if side.batches is None:
            whole = twin(als.prepare)(*given)
            self._solve, self._errors = partial(twin(als.solve), whole), partial(twin(als.errors), whole)
            self._penalty = partial(twin(als.penalty), whole)
        else:
            some = twin(stream.prepare)(*given, side.batches, self._feed, self.table)
            self._solve, self._errors = partial(twin(stream.solve), some), partial(twin(stream.errors), some)
            self._penalty = partial(twin(stream.penalty), some)

    def solve(self, fixed: Half, problem: AlsObjective) -> None:
        """Solve this rank's rows, and exchange."""
        assert fixed.whole is not None  # noqa: S101 - this half reads all rows
        self._solve(self.table, fixed.whole, problem)
        if self.whole is not None:
            self._twin(als.gather)(self._exchange, self.whole, self.bounds, is_stored=True)

    def errors(self, fixed: Half, scale: tuple[float, float]) -> tuple[float, float]:
        """Rows of the fixed side pass by."""
        squares, loss = 0.0, 0.0
        self._feed.wait()
        for first, piece in self._twin(als.pieces)(self._exchange, fixed.table, fixed.bounds):
            found = self._errors(self.table, piece, self._problem, scale, first)
            squares, loss = squares + float(found[0]), loss + float(found[1])
        return squares, loss

    def penalty(self) -> float:
        """See `Half`."""
        self._feed.wait()
        return float(self._penalty(self.table, self._problem))


class ReduceHalf(Half):
    """A half in mode "reduce".

    If sums of all rows do not fit into memory, or not the ratings, rows are solved in batches that follow each other.
    If the fixed rows do not fit, the sums of a batch are made in waves ([001] Alg. 3, line 9: more parts than GPUs).
    """

    def prepare(self, fixed: Half) -> None:
        """The ratings of all rows over the fixed rows that this rank owns."""
        side, exchange = self._side, self._exchange
        if side.batches is None:
            q = most(exchange, fewest(self.bounds, self._twin(sums.most_rows)(self._problem)))
        else:
            q = len(side.batches) - 1
        self.batches = sum_batches(self.bounds, q, exchange.rank)
        feed, tables = None if side.batches is None else self._feed, (self.table, fixed.table)
        given = side.rows, fixed.own, self.own, self.batches, self._problem, side.n_rated
        self.side = self._twin(sums.prepare)(*given, feed, tables, side.waves)

    def solve(self, fixed: Half, problem: AlsObjective) -> None:
        """Add up over the fixed rows of this rank, then over ranks; solve, and exchange."""
        gram = self._twin(sums.gram_to_add)(self.side, fixed.table, self._problem)
        if gram is not None:
            self._exchange.reduce(gram)
        for batch, loaded in self._twin(sums.loaded)(self.side, self.batches):
            totals = self._twin(sums.add_up)(loaded, fixed.table, self._problem)
            if not loaded.is_last:
                continue  # more waves of this batch
            self._exchange.reduce_scatter(totals, batch.bounds)
            mine = totals[batch.bounds[self._exchange.rank] :]
            self._twin(sums.solve)(loaded, mine, gram, self.table, problem)
        if self.whole is not None:
            self._twin(als.gather)(self._exchange, self.whole, self.bounds, is_stored=True)

    def errors(self, fixed: Half, scale: tuple[float, float]) -> tuple[float, float]:
        """Rows of the solved side pass by."""
        squares, loss = 0.0, 0.0
        self._feed.wait()
        for first, piece in self._twin(als.pieces)(self._exchange, self.table, self.bounds):
            found = self._twin(sums.errors)(self.side, piece, fixed.table, self._problem, scale, first)
            squares, loss = squares + float(found[0]), loss + float(found[1])
        return squares, loss

    def penalty(self) -> float:
        """See `Half`."""
        self._feed.wait()
        return float(self._twin(sums.penalty)(self.side, self.table, self._problem))
