"""ALS ([000] Alg. 1; [001]): the two half-iterations, in cuMF's order (items first), explicit or implicit.

With one side fixed, each row of the other minimizes its own part of the objective. It solves (A + ρ I) x = b with
A = Σ w z zᵀ and b = Σ y z over the row's ratings.

* Explicit: z = v, or [v; 1] with biases; w = 1, y = r − μ − b̂ of the other side's row; ρ = λ n.
* Implicit: z = v, w = α |r|, y = 1 + α r where r > 0 and 0 below (a dislike), and VᵀV of the whole other side is added
  to A; ρ = λ (n + N/α)^ν, where N counts the rows of the other side that have ratings. A pair whose rating and events
  disagree has two entries, of either sign (`gpu.data.signals.entries_of`).

λ0 (`AlsObjective.prior`) is added to every ρ. With `calibration=none` it is 0, N is 0, and values are those of the
ratings: then this is [000] eq. 1, and its §5.6.

In explicit problems all epochs but the last take `STRONG` times λ, unless `calibration=none`. A strong ridge ends
noise: directions of factors that ratings support too little shrink to zero. But it also shortens all other directions.
In the last epoch these grow to the length that λ gives them, and one epoch is too short for noise to come back
(docs/decisions/0027).

A row without ratings gets zeros.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from gpu.als import host as als
from gpu.als.batches import Batches, batches_of
from gpu.als.division import division_of, obstacle
from gpu.als.halves import Division, Modes, Side, halves_of
from gpu.als.objective import AlsObjective, problem_of, strong, width
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.als.planner_layout import modes_in_waves
from gpu.base.backend import HOST, Backend
from gpu.base.errors import NotEnoughMemory, TrainingDiverged
from gpu.data import draws
from gpu.data.calibration import calibrate
from gpu.data.model import Model
from gpu.data.ratings import Ratings, Rows
from gpu.data.signals import Calibration, signals_of
from gpu.data.views import part_of
from gpu.ranks.exchange import ALONE, Exchange
from gpu.training import evaluate
from gpu.training.loop import State, Trainer

START = 0.2  # size of the random start, as in cuMF: uniform from 0 to it, or normal with half of it as deviation


class AlsTrainer(Trainer[Model]):
    """Solves both sides in turn on the backend; see `gpu.training.loop.Trainer`."""

    n_parts = 2

    def __init__(
        self,
        ratings: Ratings,
        params: AlsParams | AlsImplicitParams,
        backend: Backend = HOST,
        test: Ratings | None = None,
        calibration: Calibration | None = None,
        exchange: Exchange = ALONE,
        modes: Modes | None = None,
        batches: Batches | None = None,
    ) -> None:
        """Load this rank's rows of both sides onto the backend.

        Args:
            calibration: of these ratings. Default: computed here.
            exchange: the ranks that train together.
            modes: how they share each half; see `gpu.als.halves`. Default: those of the plan for these ranks.
                "gather" for both gives the bits of one rank.
            batches: how ratings are loaded in batches. Default: the fewest with which the training fits, or none; see
                `gpu.als.batches`.

        Raises:
            NotEnoughMemory: the training would need more than is free; the message has both numbers.
        """
        calibration = calibration or calibrate(ratings, params)
        self.params, self.calibration, self.test, self._rated = params, calibration, test, ratings.by_user
        self.problem, self.exchange = problem_of(ratings, params, calibration), exchange
        given = None if modes is None else Division(modes, exchange.weights)
        self._division = given or division_of(ratings, params, backend, exchange)
        self.ratings = ratings = signals_of(ratings, calibration) if params.is_implicit else ratings
        self._twin, self.batches = backend.twin, batches
        if batches is None:
            try:
                self.batches = batches_of(ratings, self.problem, backend, exchange, self._division)
            except NotEnoughMemory as error:
                if exchange.size > 1 or given or not backend.memory_bytes() or obstacle(params):
                    raise
                in_waves = Modes(*modes_in_waves(ratings.n_users, ratings.n_items))
                self._division = Division(in_waves, exchange.weights)
                try:
                    self.batches = batches_of(ratings, self.problem, backend, exchange, self._division)
                except NotEnoughMemory as other:
                    raise min(error, other, key=lambda one: one.needed_bytes) from None
        self.modes = self._division.modes
        n_users, n_items = (
            int(np.count_nonzero(side.lengths)) * params.is_calibrated for side in (ratings.by_user, ratings.by_item)
        )
        of_users, of_items, on_host, waves = self.batches or (None, None, False, (None, None))
        drawn = functools.partial(start_users, ratings, self.problem, params.seed)
        users = Side(ratings.by_user, drawn, n_items, of_users, on_host, waves[0])
        items = Side(ratings.by_item, functools.partial(_zeros, self.problem), n_users, of_items, on_host, waves[1])
        self._users, self._items = halves_of(users, items, self.problem, backend, exchange, self._division)
        self._held_out = None
        if test is not None and not params.is_implicit:
            own_test, _ = part_of(test.by_user, self._users.own)
            self._held_out = self._twin(als.prepare)(own_test, ratings.n_items, self.problem)
        self.seconds = 0.0

    @property
    def n_epochs(self) -> int:
        """Epochs at most."""
        return self.params.n_epochs

    @property
    def division(self) -> str:
        """The mode of each half, if there are several ranks, and unequal shares."""
        if self.exchange.size == 1:
            return ""
        shares = self._division.shares
        parts = ", ".join(f"{share / sum(shares):.0%}" for share in shares)
        text = "items half in mode {}, users half in mode {}".format(*self.modes)
        return text if min(shares) == max(shares) else f"{text}, ranks have {parts} of the ratings"

    def learn(self, epoch: int) -> None:
        """Solve all items, then all users."""
        for part in range(self.n_parts):
            self.learn_part(epoch, part)

    def learn_part(self, epoch: int, part: int) -> None:
        """Solve all items (part 0) or all users (part 1)."""
        solved, fixed = (self._items, self._users) if part == 0 else (self._users, self._items)
        is_last = epoch == self.n_epochs - 1
        solved.solve(fixed, strong(self.problem) if self.params.is_calibrated and not is_last else self.problem)
        if part == self.n_parts - 1:
            self._twin(als.finish)()

    def state(self) -> State:
        """Both tables; on other ranks than 0 without rows."""
        return {"users": self._users.rows(), "items": self._items.rows()}

    def restore(self, state: State) -> None:
        """See `gpu.training.loop.Trainer`."""
        for half, name in ((self._users, "users"), (self._items, "items")):
            half.load(np.array(state[name][half.own]))

    def diverged(self, epoch: int) -> TrainingDiverged:
        """The error for ratings whose squares overflow, or for a singular row."""
        return TrainingDiverged(
            f"Training of {self.params.algorithm} diverged in epoch {epoch + 1}: expected finite parameters; "
            f"raise regularization ({self.problem.regularization:g})"
        )

    def model(self) -> Model:
        """The present parameters, on the host; with several ranks all must call it, and rank 0 gets them."""
        users, items = self._users.rows(), self._items.rows()
        if self.exchange.rank:
            return Model.zeros(self.params, self.problem.mean, (0.0, 1.0), 0, 0)
        model = model_of(self.ratings, self.params, self.problem, users, items)
        model.calibration = self.calibration
        return model

    def compile(self) -> None:
        """Compile the kernels of a half-iteration, by solving a matrix without rows."""
        starts, lengths, items, values = self.ratings.by_user
        rows = Rows(starts[:0], lengths[:0], items[:0], values[:0])
        nothing = self._twin(als.prepare)(rows, 1, self.problem)
        table = self._twin(als.load)(np.zeros((0, width(self.problem)), dtype=np.float32), self.problem)
        self._twin(als.solve)(nothing, table, table, self.problem)
        self._twin(als.finish)()

    def metrics(self) -> Mapping[str, float]:
        """See `gpu.training.loop.EpochReport`; metrics of the test set only on rank 0."""
        problem, n = self.problem, len(self.ratings)
        scale = self.ratings.scale if self.params.is_calibrated else (-math.inf, math.inf)  # see `Model.error_scale`
        # Either half has this rank's ratings: the one whose errors read items of other ranks, not users.
        half, other = self._users, self._items
        if self.modes.users == "reduce":
            half, other = other, half
        squares, loss = half.errors(other, scale)
        loss += self._users.penalty() + self._items.penalty()
        squares, loss = self.exchange.totals(squares, loss)
        metrics = {"train_loss": loss / n}
        if not problem.is_implicit:
            metrics["train_rmse"] = float(np.sqrt(squares / n))
        if self.test is None:
            return metrics
        if self._held_out is None:  # of lists
            model = self.model()
            if self.exchange.rank:
                return metrics
            ranks = evaluate.ranking(model, self._rated, self.test)
            return metrics | {f"test_{name}": value for name, value in ranks.items()}
        table, squares = self._users.table, 0.0
        for first, piece in self._twin(als.pieces)(self.exchange, self._items.table, self._items.bounds):
            squares += float(self._twin(als.errors)(self._held_out, table, piece, problem, scale, first)[0])
        (squares,) = self.exchange.totals(squares)
        return metrics if self.exchange.rank else metrics | {"test_rmse": float(np.sqrt(squares / len(self.test)))}


def start_users(ratings: Ratings, problem: AlsObjective, seed: int, own: slice) -> NDArray[np.float32]:
    """Parameters of consecutive users before the first half-iteration: random, zeros for users without ratings.

    Without biases all targets are positive, so the start is positive too. Items start with zeros.
    """
    users = _zeros(problem, own)
    draws.fill(users, (seed,), START / 2 if problem.biases else START, is_normal=problem.biases, first=own.start)
    if problem.biases:
        users[:, -1] = 0
    users[ratings.by_user.lengths[own] == 0] = 0
    return users


def _zeros(problem: AlsObjective, rows: slice) -> NDArray[np.float32]:
    return np.zeros((rows.stop - rows.start, width(problem)), dtype=np.float32)


def model_of(
    ratings: Ratings,
    params: AlsParams | AlsImplicitParams,
    problem: AlsObjective,
    users: NDArray[np.float32],
    items: NDArray[np.float32],
) -> Model:
    """The model with these tables of users and items; estimates of implicit models lie between 0 and 1."""
    scale = (0.0, 1.0) if problem.is_implicit else ratings.scale
    model = Model.zeros(params, problem.mean, scale, ratings.n_users, ratings.n_items)
    model.mark_trained(ratings.by_user.lengths, ratings.n_pairs_of_items)
    model.user_factors[:], model.item_factors[:] = users[:, : params.width], items[:, : params.width]
    if problem.biases:
        model.user_bias[:], model.item_bias[:] = users[:, -1], items[:, -1]
    return model
