"""The two half-iterations of ALS on one or several ranks: cuMF's SU-ALS ([001] Alg. 3).

With one side fixed, the ranks share the solved rows in one of two modes:

* gather: a rank solves a block of rows against the whole fixed table (model parallelism). The tables have the bits of
  a single rank, for any number of ranks.
* reduce: a rank adds up A and b of all rows over the part of the fixed side that it owns; sums of all ranks are added
  up where a row is solved (data parallelism). The fixed table need not leave the ranks that have solved it. Equal
  numbers of ranks give equal bits.

Gathering moves the fixed table, reducing moves D² floats for each solved row: see `gpu.als.planner`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gpu.als import host as als
from gpu.als import host_stream as stream
from gpu.als import host_sums as sums
from gpu.als.objective import ROW_COST, AlsObjective
from gpu.base.backend import Backend
from gpu.data.ratings import Rows
from gpu.data.views import part_of, weighted_bounds
from gpu.ranks.exchange import Exchange

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
        start: float32 (rows, D), parameters before the first half.
        n_rated: number of rows of the other side that have ratings.
        batches: int64 (q + 1,), bounds of the batches in which this rank's rows are loaded again in each half, from its
            first row; None: all ratings stay in memory.
    """

    rows: Rows
    start: NDArray[np.float32]
    n_rated: int
    batches: NDArray[np.int64] | None = None


class Half(Protocol):
    """One side with its table, and how the ranks solve it.

    Attributes:
        table: parameters of all rows, on the backend.
        own: the rows that this rank solves.
    """

    table: als.Table
    own: slice

    def load(self, table: NDArray[np.float32]) -> None:
        """Replace the parameters of all rows."""

    def solve(self, fixed: Half, problem: AlsObjective) -> None:
        """Solve the rows of all ranks against the table of `fixed`.

        Args:
            problem: the objective of this half-iteration; it differs from that of `halves_of` at most in λ.
        """

    def complete(self) -> None:
        """Fetch what solving did not need: afterwards the table has all parameters of all rows."""

    def errors(self, fixed: Half, scale: tuple[float, float]) -> tuple[float, float]:
        """See the primitive `errors`; over this rank's part of the ratings."""

    def penalty(self) -> float:
        """See the primitive `penalty`; of this rank's rows."""


def halves_of(
    users: Side, items: Side, problem: AlsObjective, backend: Backend, exchange: Exchange, division: Division
) -> tuple[Half, Half]:
    """(users, items), loaded onto the backend."""
    common, feed = (problem, backend, exchange), backend.twin(stream.Feed)()
    modes, shares = division
    bounds = _bounds(users.rows, shares), _bounds(items.rows, shares)
    found: list[Half] = []
    for side, (own, other), mode, other_mode in (
        (users, bounds, modes.users, modes.items),
        (items, bounds[::-1], modes.items, modes.users),
    ):
        if mode == "gather":
            found.append(GatherHalf(side, own, int(other[-1]), *common, feed, is_shared=other_mode == "gather"))
        else:
            found.append(ReduceHalf(side, own, other, *common, is_shared=other_mode == "gather"))
    return found[0], found[1]


def _bounds(rows: Rows, shares: Sequence[float]) -> NDArray[np.int64]:
    """Bounds (P + 1,) of blocks of rows whose times to solve are about in proportion to `shares` (P,)."""
    return weighted_bounds(np.where(rows.lengths > 0, rows.lengths + ROW_COST, 0), shares)


def own_rows(rows: Rows, exchange: Exchange, shares: Sequence[float]) -> slice:
    """The rows that this rank solves in mode "gather"."""
    return _own(_bounds(rows, shares), exchange)


def own_lengths(rows: Rows, exchange: Exchange, shares: Sequence[float]) -> NDArray[np.int64]:
    """Numbers of ratings of all rows, with 0 for those of other ranks: int64 (rows,)."""
    lengths, own = np.zeros_like(rows.lengths), own_rows(rows, exchange, shares)
    lengths[own] = rows.lengths[own]
    return lengths


class GatherHalf:
    """A half in mode "gather"; see `Half`.

    Attributes:
        bounds: int64 (P + 1,), first row of the block of each rank.
    """

    def __init__(
        self, side: Side, bounds: NDArray[np.int64], n_columns: int, problem: AlsObjective, backend: Backend,
        exchange: Exchange, feed: stream.Feed, *, is_shared: bool,
    ) -> None:  # fmt: skip
        """Prepare.

        Args:
            feed: loads batches, if there are any; shared with the other half.
            is_shared: whether the other half needs the solved rows of all ranks.
        """
        self._problem, self._exchange, self._is_shared = problem, exchange, is_shared
        self._twin = twin = backend.twin
        self.bounds, self.own = bounds, _own(bounds, exchange)
        rows, _ = part_of(side.rows, self.own)
        given = rows, n_columns, problem, side.n_rated
        if side.batches is None:
            whole = twin(als.prepare)(*given)
            self._solve, self._errors = partial(twin(als.solve), whole), partial(twin(als.errors), whole)
            self._penalty = partial(twin(als.penalty), whole)
        else:
            some = twin(stream.prepare)(*given, side.batches, feed)
            self._solve, self._errors = partial(twin(stream.solve), some), partial(twin(stream.errors), some)
            self._penalty = partial(twin(stream.penalty), some)
        self.load(side.start)

    def load(self, table: NDArray[np.float32]) -> None:
        """See `Half`."""
        self.table = self._twin(als.load)(table, self._problem)
        if self._is_shared:
            self.table = self._twin(als.share)(self._exchange, self.table)
        self._is_complete = True

    def solve(self, fixed: Half, problem: AlsObjective) -> None:
        """Solve this rank's rows, and exchange."""
        self._solve(self._twin(als.part)(self.table, self.own), fixed.table, problem)
        self._is_complete = self._is_shared and self._twin(als.gather)(self._exchange, self.table, self.bounds)

    def complete(self) -> None:
        """See `Half`."""
        if not self._is_complete:
            self._twin(als.complete)(self._exchange, self.table, self.bounds)
            self._is_complete = True

    def errors(self, fixed: Half, scale: tuple[float, float]) -> tuple[float, float]:
        """See `Half`."""
        own = self._twin(als.part)(self.table, self.own)
        squares, loss = self._errors(own, fixed.table, self._problem, scale)
        return float(squares), float(loss)

    def penalty(self) -> float:
        """See `Half`."""
        return float(self._penalty(self._twin(als.part)(self.table, self.own), self._problem))


class ReduceHalf:
    """A half in mode "reduce"; see `Half`.

    If sums of all rows do not fit into memory, rows are solved in batches that follow each other. Each rank then solves
    some rows of every batch, and all ranks get all solved rows.

    Attributes:
        sums: the ratings of all rows whose entries this rank owns, on the backend, and the batches.
    """

    def __init__(
        self, side: Side, bounds: NDArray[np.int64], columns: NDArray[np.int64], problem: AlsObjective,
        backend: Backend, exchange: Exchange, *, is_shared: bool,
    ) -> None:  # fmt: skip
        """`columns`: int64 (P + 1,), bounds of the rows of the fixed side that each rank owns."""
        self._problem, self._exchange = problem, exchange
        self._twin = backend.twin
        self._columns, self.own = _own(columns, exchange), _own(bounds, exchange)
        self.sums = self._twin(sums.prepare)(side.rows, self._columns, problem, side.n_rated)
        batches = self.sums.batches
        self._is_shared = is_shared or len(batches) > 1
        self._bounds = [bounds] if len(batches) == 1 else [_even(batch, exchange.size) for batch in batches]
        self.load(side.start)

    def load(self, table: NDArray[np.float32]) -> None:
        """See `Half`."""
        self.table = self._twin(als.load)(table, self._problem)
        self._is_complete = True

    def solve(self, fixed: Half, problem: AlsObjective) -> None:
        """Add up over the fixed rows of this rank, then over ranks; solve, and exchange."""
        part = self._twin(als.part)(fixed.table, self._columns)
        gram = self._twin(sums.gram_to_add)(part, self._problem)
        if gram is not None:
            self._exchange.reduce(gram)
        self._is_complete = self._is_shared
        for batch, bounds in zip(self.sums.batches, self._bounds, strict=True):
            totals = self._twin(sums.add_up)(self.sums, batch, part, self._problem)
            self._exchange.reduce_scatter(totals, bounds - batch[0])
            own = _own(bounds, self._exchange)
            self._twin(sums.solve)(self.sums, batch, own, totals, gram, self.table, problem)
            if self._is_shared:
                solved = self._twin(als.part)(self.table, slice(*batch))
                self._is_complete &= self._twin(als.gather)(self._exchange, solved, bounds - batch[0])

    def complete(self) -> None:
        """See `Half`."""
        if self._is_complete:
            return
        for batch, bounds in zip(self.sums.batches, self._bounds, strict=True):
            self._twin(als.complete)(self._exchange, self._twin(als.part)(self.table, slice(*batch)), bounds - batch[0])
        self._is_complete = True

    def errors(self, fixed: Half, scale: tuple[float, float]) -> tuple[float, float]:
        """See `Half`."""
        part = self._twin(als.part)(fixed.table, self._columns)
        squares, loss = self._twin(als.errors)(self.sums.side, self.table, part, self._problem, scale)
        return float(squares), float(loss)

    def penalty(self) -> float:
        """See `Half`; of all rows on rank 0."""
        if self._exchange.rank:
            return 0.0
        return float(self._twin(als.penalty)(self.sums.side, self.table, self._problem))


def _own(bounds: NDArray[np.int64], exchange: Exchange) -> slice:
    return slice(int(bounds[exchange.rank]), int(bounds[exchange.rank + 1]))


def _even(batch: tuple[int, int], size: int) -> NDArray[np.int64]:
    """Bounds of `size` parts of a batch with about equally many rows."""
    first, last = batch
    return first + np.arange(size + 1, dtype=np.int64) * (last - first) // size
