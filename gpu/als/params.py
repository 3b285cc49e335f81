"""Hyperparameters of ALS, explicit and implicit, with every default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from gpu.data.param_kinds import (
    Confidence,
    FactorParams,
    Precision,
    RefitKind,
    RegularizedParams,
    Values,
)
from gpu.data.param_ranges import DEFAULT, GIVEN, Together

Solver = Literal["cg", "cholesky"]
LARGE_TOLERANCE = 0.1  # of conjugate gradients; with more, rows may stop before their first step


@dataclass(frozen=True)
class AlsParams(RegularizedParams):
    """ALS ([000]; [001]): solves the factors and bias of each row, one side of the matrix at a time.

    The objective is Σ (r − r̂)² + λ Σ n (|x|² + b²), where n is the number of ratings of the row. So `regularization` is
    weighted by counts. All epochs but the last take twice the λ.

    Attributes (beyond `RegularizedParams`):
        n_cg_steps: f_s of [000] Alg. 1, steps of conjugate gradients from the row's last solution. More steps solve
            each half-iteration more exactly, and take more time.
        cg_tolerance: ε; a row stops early when its residual is below this share of its right-hand side.
        solver: `cg`, or `cholesky` for the exact solution, which takes several times as long.
        precision: number format of A on a device. `float16` uses tensor cores with sums in float32; solutions are
            within about 1 % of exact, and test errors agree to four digits. The host always uses float32.
        biases: whether rows have biases and ratings are centered. False leaves both out, as [000] does. The objective
            of [000] eq. 1 needs calibration=none too.
    """

    algorithm: ClassVar[str] = "als"
    refits: ClassVar[RefitKind] = "exact"
    is_predictable: ClassVar[bool] = True
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"n_factors": (4, 1024)}
    together: ClassVar[Together] = {("solver", "cholesky"): {"n_cg_steps": DEFAULT, "cg_tolerance": DEFAULT}}
    dies_beyond: ClassVar[Mapping[str, float]] = {"cg_tolerance": LARGE_TOLERANCE}

    n_factors: int = 128
    n_epochs: int = 8
    regularization: float = 0.027
    n_cg_steps: int = 6
    cg_tolerance: float = 1e-4
    solver: Solver = "cg"
    precision: Precision = "float16"
    biases: bool = True


@dataclass(frozen=True)
class AlsImplicitParams(FactorParams):
    """Implicit ALS ([000] §5.6): learns from all pairs; a rated pair has the confidence c = 1 + α·|x|.

    x is the value of the pair in units of the typical value (`gpu.data.calibration`). The preference p is 1 for a rated
    pair, and 0 for a dislike or an unrated pair. The objective is Σ_all c (p − u·v)² + λ Σ (n + N/α)^ν |u|², plus the
    same penalty for every v. n is the number of ratings of a row, and N the number of rows of the other side that have
    ratings. With ν = 0 all rows have the same ridge. With ν = 1 the ridge is proportional to the total confidence of
    the row (iALS revisited, where an unrated pair has 1/α of the weight of a rated pair). With calibration=none x is
    the value itself, every value above 0 has the preference 1, and the ridge is λ n^ν: λ n, or λ with ν = 0.

    Attributes (beyond `FactorParams`):
        n_factors: F, latent size. More fits finer taste and costs time and memory in proportion, beyond 256 up to its
            square. None: 128, doubled while the lists of held-out pairs of the training ratings improve
            (`gpu.training.selection`).
        regularization: λ of both factor matrices. None: computed from the number of rows, so that factors no stronger
            than those of random data stay zero.
        alpha: α, the average weight of a rated pair. A larger α gives rated pairs more weight against unrated ones.
            None: computed from the density of the data.
        regularization_exponent: ν; 0 gives all rows the same ridge, 1 one in proportion to the confidence of the row.
        values: `ratings` on a scale, where those below the middle are dislikes, or `counts`, where a click is a count
            of 1. `auto` decides by the values.
        confidence: how it grows with a count: `linear`, `log` for 1 + ln(count / lowest count), or `ones`, where a
            count says only that there is one. `auto` tries them on held-out pairs of the training ratings
            (`gpu.training.selection`). With few pairs it takes `log` if the counts have a long tail. Sums of events
            beside ratings are counts too.
        event_weight: α_e, the confidence of a usual event beside ratings on a scale, in units of that of a usual liked
            rating. None: 1, or in a service chosen on held-out pairs.
        half_life_days: h; the confidence of a pair halves with each h of its age (`gpu.data.decay`). None: age does not
            matter. It needs the times of ratings.
        n_cg_steps, cg_tolerance, solver, precision: as in `AlsParams`.
    """

    algorithm: ClassVar[str] = "als-implicit"
    has_values: ClassVar[bool] = True
    refits: ClassVar[RefitKind] = "exact"
    is_predictable: ClassVar[bool] = True
    is_implicit: ClassVar[bool] = True
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = AlsParams.ranges
    together: ClassVar[Together] = {
        **AlsParams.together,
        ("calibration", "none"): {
            "alpha": GIVEN,
            "regularization": GIVEN,
            "values": ("auto", "counts"),
            "confidence": ("auto", "linear"),
            "event_weight": (None,),
            "half_life_days": (None,),
        },
    }
    dies_beyond: ClassVar[Mapping[str, float]] = {**AlsParams.dies_beyond, "regularization_exponent": 1.0}

    n_factors: int | None = None
    n_epochs: int = 12
    regularization: float | None = None
    alpha: float | None = None
    regularization_exponent: float = 1.0
    values: Values = "auto"
    confidence: Confidence = "auto"
    event_weight: float | None = None
    half_life_days: float | None = None
    n_cg_steps: int = 3
    cg_tolerance: float = 1e-4
    solver: Solver = "cg"
    precision: Precision = "float16"
