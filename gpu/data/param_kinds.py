"""Hyperparameters: a frozen class for each algorithm, on top of these, with every default and facts about it.

A parameter has the same name in all algorithms. The defaults were chosen on held-out parts of the training parts of
several data sets, never on a test set (docs/algorithms.md). If a default is None, `gpu.data.calibration` computes the
value from the training data.

Explicit models divide ratings by the spread that shrunk biases leave unexplained (`Calibration.unit`). So step lengths
and ridges mean the same on every rating scale.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from gpu.data.param_ranges import Together, check_ranges, check_together

RefitKind = Literal["sampled", "exact", "lists", "none"]
Precision = Literal["float16", "float32"]
Values = Literal["auto", "ratings", "counts"]
Confidence = Literal["auto", "linear", "log", "ones"]

START_FACTORS = 128  # F where the data decides, before it has
Calibrated = Literal["data", "none"]


@dataclass(frozen=True)
class Params:
    """What every algorithm has.

    Attributes:
        algorithm: its name on the command line and in the API.
        is_implicit: whether it learns who rated what, not how high, and is judged by its ranking.
        is_logit: whether its scores are log-odds of a rating.
        is_nonnegative: whether no factor is below 0.
        has_values: whether it has `values`, the choice between ratings and counts.
        refits: how its rows learn online: from a sample of their ratings, exactly from all of them, as lists of items
            (`gpu.online.list_refits`), or not at all.
        has_item_weights: whether its users are their ratings, which item weights turn into scores
            (`gpu.ranking.weighted`).
        has_item_lists: whether an item has weights for the items of its list alone, instead of for all.
        is_ordered: whether the order of a user's ratings counts, in models with item weights (`gpu.data.recency`).
        has_signatures: whether its items have neighbors and signatures by which new ones find theirs (`gpu.hashing`).
        is_predictable: whether attributes predict factors of items that nobody has rated (`gpu.training.content`).
        dies_beyond: parameters by which factors shrink to zero, with the largest value by which they do not.
        grid: settings that `gpu.training.tune` tries first; none where it makes them from the data.
        open_settings: what `gpu.training.selection` tries for parameters that the data is to decide; the first is what
            `sized` gives.

    Others are parameters of some algorithms; here they have the values of those without them.
    """

    algorithm: ClassVar[str]
    is_implicit: ClassVar[bool] = False
    is_logit: ClassVar[bool] = False
    is_nonnegative: ClassVar[bool] = False
    has_values: ClassVar[bool] = False
    has_item_weights: ClassVar[bool] = False
    has_item_lists: ClassVar[bool] = False
    is_ordered: ClassVar[bool] = False
    has_signatures: ClassVar[bool] = False
    is_predictable: ClassVar[bool] = False
    refits: ClassVar[RefitKind] = "none"
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}  # where narrower than those of all algorithms
    choices: ClassVar[Mapping[str, tuple[Any, ...]]] = {}  # where other than those of all algorithms
    together: ClassVar[Together] = {}
    dies_beyond: ClassVar[Mapping[str, float]] = {}
    grid: ClassVar[tuple[Mapping[str, float], ...]] = ()
    open_settings: ClassVar[tuple[Mapping[str, float], ...]] = ()

    n_epochs = 1
    n_neighbors = 0
    n_bits = 0
    max_likes = 0
    window = 0  # K of `gpu.data.recency`
    biases = True
    regularization_exponent = 1.0

    def __post_init__(self) -> None:
        check_ranges(self)
        check_together(self)

    @property
    def is_calibrated(self) -> bool:
        """Whether a training takes its scale from the data (`gpu.data.calibration`)."""
        return True

    @property
    def width(self) -> int:
        """F of the models it makes."""
        return 1

    @property
    def has_width(self) -> bool:
        """Whether F is given, or there is none; else the data decides (`gpu.training.selection`)."""
        return True

    @property
    def regularization(self) -> float | None:
        """λ; None if it is computed from the data, or there is none."""
        return None

    @property
    def popularity_exponent(self) -> float | None:
        """α of lists of items; None if the data is to decide it, or there is none."""
        return None

    @property
    def popularity_prior(self) -> float | None:
        """Their h."""
        return None

    @property
    def activity_exponent(self) -> float | None:
        """Their β."""
        return None

    @property
    def alpha(self) -> float | None:
        """α; None if it is computed from the data, or there is none."""
        return None

    @property
    def values(self) -> Values:
        """What values are, see `gpu.als.params.AlsImplicitParams`."""
        return "ratings"

    @property
    def confidence(self) -> Confidence:
        """How it grows with a count."""
        return "linear"

    @property
    def event_weight(self) -> float | None:
        """α_e; None if it is chosen, or there is none."""
        return None

    @property
    def half_life_days(self) -> float | None:
        """H of `gpu.data.decay`; None if age does not matter."""
        return None

    @property
    def decay_items(self) -> float | None:
        """τ of `gpu.data.recency`; None if it is chosen, or order does not count."""
        return None

    @property
    def old_weight(self) -> float | None:
        """C of `gpu.data.recency`; None if it is chosen, or order does not count."""
        return None

    @property
    def n_absences(self) -> int:
        """Pairs without a rating that are drawn for each like; 0 where none are."""
        return 0

    def sized(self) -> Self:
        """These with what holds until the data has decided: `width` as F, and the first of `open_settings`."""
        return self

    def with_epochs(self, share: float) -> Self:
        """These with a share of the epochs, at least one; the same where there are none."""
        del share
        return self


@dataclass(frozen=True)
class FactorParams(Params):
    """What every algorithm has that learns factors, in epochs.

    Attributes (beyond `Params`):
        n_factors: F, latent size. More fits finer taste and costs time and memory in proportion.
        n_epochs: passes over the ratings; one solves or visits both sides.
        seed: start of every random stream; equal seeds give equal models on equal ratings.
        calibration: `data` computes units, priors and confidences from the ratings, so that the defaults fit any data.
            `none` trains the objective of the paper as printed: ratings as they are, means that are not shrunk, no λ0,
            one λ in all epochs, and no clipping of outliers or of estimates in errors. Then values that would come
            from the data must be given.
    """

    n_factors: int | None = 64
    n_epochs: int = 15
    seed: int = 0
    calibration: Calibrated = "data"

    @property
    def is_calibrated(self) -> bool:
        """See `Params.is_calibrated`."""
        return self.calibration == "data"

    @property
    def width(self) -> int:
        """F; `START_FACTORS` until the data has decided."""
        return self.n_factors or START_FACTORS

    @property
    def has_width(self) -> bool:
        """See `Params.has_width`."""
        return self.n_factors is not None

    def sized(self) -> Self:
        """See `Params.sized`."""
        return dataclasses.replace(self, n_factors=self.width)

    def with_epochs(self, share: float) -> Self:
        """See `Params.with_epochs`."""
        return dataclasses.replace(self, n_epochs=max(1, round(self.n_epochs * share)))


@dataclass(frozen=True)
class RegularizedParams(FactorParams):
    """What every algorithm has whose factors are held back by a ridge.

    Attributes (beyond `FactorParams`):
        regularization: λ of both factor matrices; more pulls rows with few ratings harder toward zero.
    """

    n_factors: int = 64
    regularization: float = 0.055


@dataclass(frozen=True)
class GradientParams(RegularizedParams):
    """What every algorithm has that learns by stochastic gradient descent.

    λ of the factors is applied once per rating, so weighted by counts.

    Attributes (beyond `RegularizedParams`):
        learning_rate: the step of the first epoch. Longer ones learn in fewer epochs, and diverge beyond some length.
    """

    refits: ClassVar[RefitKind] = "sampled"
    rates: ClassVar[Mapping[str, str]] = {"regularization": "learning_rate"}  # of each λ the step it is multiplied by

    learning_rate: float = 0.02

    @property
    def ridge_of_items(self) -> float:
        """λ of the factors of items."""
        return self.regularization

    @property
    def ridge_of_biases(self) -> float:
        """λ of the biases; 0 where they are fixed."""
        return 0.0

    @property
    def ridge_of_weights(self) -> float:
        """λ of W and C; 0 where there are none."""
        return 0.0


def descending(params: Params) -> GradientParams:
    """`params` of an algorithm of stochastic gradient descent, by their type.

    Raises:
        TypeError: they are of another one.
    """
    if not isinstance(params, GradientParams):
        raise TypeError(f"expected an algorithm of gradient descent, got {params.algorithm}")
    return params


def with_changes(params: Params, **changes: Any) -> Params:
    """A copy of `params` with `changes`, whose names must be parameters of its algorithm."""
    return dataclasses.replace(params, **changes)
