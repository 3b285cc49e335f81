"""Hyperparameters: one frozen object per algorithm, with every default.

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
from typing import Any, ClassVar, Literal, get_type_hints

from gpu.base.errors import InvalidParams
from gpu.data.param_kinds import FactorParams, GradientParams, Params, RefitKind, RegularizedParams
from gpu.data.param_ranges import DEFAULT, GIVEN, Together, check_names, converted

Similarity = Literal["simlsh", "keys", "gsm", "minhash", "rp_cos", "random"]
Psi = Literal["residual", "linear", "power", "fourth"]
Solver = Literal["cg", "cholesky"]
Precision = Literal["float16", "float32"]
NmfSolver = Literal["extrapolated", "tiled", "plain"]
NmfPrecision = Literal["float32", "float64"]
Start = Literal["random", "nndsvd"]
Values = Literal["auto", "ratings", "counts"]
Confidence = Literal["auto", "linear", "log"]


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
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"n_factors": (4, 1024)}
    together: ClassVar[Together] = {("solver", "cholesky"): {"n_cg_steps": DEFAULT, "cg_tolerance": DEFAULT}}

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
        regularization: λ of both factor matrices. None: computed from the number of rows, so that factors no stronger
            than those of random data stay zero.
        alpha: α, the average weight of a rated pair. A larger α gives rated pairs more weight against unrated ones.
            None: computed from the density of the data.
        regularization_exponent: ν; 0 gives all rows the same ridge, 1 one in proportion to the confidence of the row.
        values: `ratings` on a scale, where those below the middle are dislikes, or `counts`, where a click is a count
            of 1. `auto` decides by the values.
        confidence: how it grows with a count: `linear`, or `log` for 1 + ln(count / lowest count). `auto` takes `log`
            if the counts have a long tail. Sums of events beside ratings are counts too.
        event_weight: α_e, the confidence of a usual event beside ratings on a scale, in units of that of a usual liked
            rating. None: 1, or in a service chosen on held-out pairs.
        half_life_days: h; the confidence of a pair halves with each h of its age (`gpu.data.decay`). None: age does not
            matter. It needs the times of ratings.
        n_cg_steps, cg_tolerance, solver, precision: as in `AlsParams`.
    """

    algorithm: ClassVar[str] = "als-implicit"
    has_values: ClassVar[bool] = True
    refits: ClassVar[RefitKind] = "exact"
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

    n_factors: int = 128
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


@dataclass(frozen=True)
class EsgdParams(GradientParams):
    """ESGD ([003]): factorizes the residuals of fixed biases, in the memory order of the ratings, with a fixed step.

    The training neither shuffles nor schedules. `Ratings` has sorted them by user before, as for every algorithm.

    `learning_rate` is γ of every epoch, and `regularization` is λ_p.

    Attributes (beyond `GradientParams`):
        item_regularization: λ_q of the factors of items. None: as `regularization`.
    """

    algorithm: ClassVar[str] = "esgd"
    n_factors: int = 64
    n_epochs: int = 15
    regularization: float = 0.04
    item_regularization: float | None = None

    @property
    def ridge_of_items(self) -> float:
        """See `GradientParams.ridge_of_items`."""
        return self.regularization if self.item_regularization is None else self.item_regularization


@dataclass(frozen=True)
class SgdParams(GradientParams):
    """CUSGD++ ([004] Alg. 2): learns factors and biases by stochastic gradient descent, eq. 5 without neighbors.

    Attributes (beyond `GradientParams`):
        learning_rate: α, the step of the first epoch; in epoch t, from 0, it is γ_t = α / (1 + β·t^1.5) (eq. 7).
        learning_rate_decay: β; a larger one shortens the steps of later epochs more.
        bias_regularization: λ of the biases.
        precision: number format of the users' factors while a device trains. The host always uses float32.
        deterministic: whether a device visits ratings in a fixed order. Then equal seeds give equal models, but
            training takes several times as long. The host always uses a fixed order.
        half_life_days: h; the weight of a rating in every step halves with each h of its age (`gpu.data.decay`). The
            regularization does not. None: age does not matter. It needs the times of ratings, and such a model is
            trained and learns on the host, since the kernels of a device have no weights.
        biases: whether rows have biases and ratings are centered. False trains U and V alone, as [004] Alg. 2 prints
            it. It needs calibration=none.
    """

    algorithm: ClassVar[str] = "sgd"
    together: ClassVar[Together] = {
        ("calibration", "none"): {"half_life_days": (None,)},
        ("biases", False): {"calibration": ("none",), "bias_regularization": DEFAULT},
    }
    n_factors: int = 128
    n_epochs: int = 40
    learning_rate_decay: float = 0.02
    bias_regularization: float = 0.02
    precision: Precision = "float16"
    deterministic: bool = False
    half_life_days: float | None = None
    biases: bool = True

    @property
    def ridge_of_biases(self) -> float:
        """See `GradientParams.ridge_of_biases`."""
        return self.bias_regularization


@dataclass(frozen=True)
class CulshParams(SgdParams):
    """CULSH-MF ([004] eq. 1, 5, 7): learns factors, biases, and the weights W and C of K neighbors found by hashing.

    Attributes (beyond `SgdParams`):
        n_neighbors: K, neighbors of each item. 0 gives the model of CUSGD++.
        weight_learning_rate: α of W and C, the weights of neighbors.
        weight_regularization: λ of W and C.
        similarity: how neighbors are chosen. All values but `simlsh` exist for comparison.
        n_bits: H, length of the simLSH signature. A longer one ranks neighbors better, and takes more time and memory.
        key_bits: bits of a key of `similarity=keys`, p·G of [004]: neighbors share most of the n_bits / key_bits keys.
        psi: weight of a rating in the hash. `power` (r², as [004] for stars) finds items that the same users rate.
            `residual` (r − b_ij) finds items that users rate alike. `linear` (r) and `fourth` (r⁴) are the paper's
            others, for comparison. Implicit models ignore it.
        biases: always true, since [004] eq. 1 has them.
    """

    algorithm: ClassVar[str] = "culsh"
    choices: ClassVar[Mapping[str, tuple[Any, ...]]] = {"biases": (True,)}
    together: ClassVar[Together] = {
        **SgdParams.together,
        ("similarity", "simlsh"): {"key_bits": DEFAULT},
        ("similarity", "gsm"): {"n_bits": DEFAULT, "key_bits": DEFAULT, "psi": DEFAULT},
        ("similarity", "random"): {"n_bits": DEFAULT, "key_bits": DEFAULT, "psi": DEFAULT},
        ("similarity", "minhash"): {"key_bits": DEFAULT, "psi": DEFAULT},
        ("similarity", "rp_cos"): {"key_bits": DEFAULT, "psi": DEFAULT},
        ("n_neighbors", 0): {"similarity": DEFAULT, "weight_learning_rate": DEFAULT, "weight_regularization": DEFAULT},
    }
    n_neighbors: int = 32
    weight_learning_rate: float = 0.001
    weight_regularization: float = 0.02
    similarity: Similarity = "simlsh"
    n_bits: int = 2432
    key_bits: int = 24
    psi: Psi = "power"

    @property
    def ridge_of_weights(self) -> float:
        """See `GradientParams.ridge_of_weights`."""
        return self.weight_regularization


@dataclass(frozen=True)
class CulshImplicitParams(CulshParams):
    """CULSH-MF for implicit feedback ([004] §5.4): cross-entropy of likes against dislikes and sampled negatives.

    A rating below the middle of the model is a dislike; every other rating is a like. In the hash, a like has weight 1
    and a dislike −1, so `psi` has no effect. With calibration=none every rating is a like.

    Attributes (beyond `CulshParams`):
        values, event_weight: as in `AlsImplicitParams`.
        n_negatives: s, items that each epoch draws for each like from the items that the user has not rated. A larger s
            ranks the top of long lists better, and takes time in proportion.
    """

    algorithm: ClassVar[str] = "culsh-implicit"
    has_values: ClassVar[bool] = True
    is_implicit: ClassVar[bool] = True
    is_logit: ClassVar[bool] = True
    together: ClassVar[Together] = {
        **CulshParams.together,
        ("calibration", "none"): {"half_life_days": (None,), "values": ("auto", "counts"), "event_weight": (None,)},
        ("algorithm", "culsh-implicit"): {"psi": DEFAULT},
    }

    n_factors: int = 64
    n_neighbors: int = 16
    learning_rate: float = 0.15
    learning_rate_decay: float = 0.05
    regularization: float = 0.01
    weight_learning_rate: float = 0.005
    n_negatives: int = 8
    values: Values = "auto"
    event_weight: float | None = None

    @property
    def n_absences(self) -> int:
        """See `Params.n_absences`."""
        return self.n_negatives


@dataclass(frozen=True)
class NmfParams(FactorParams):
    """Non-negative factorization by FAST-HALS ([002]): A ≈ W H without negative numbers; an unrated pair is a 0 in A.

    Attributes (beyond `FactorParams`):
        tolerance: training stops before `n_epochs` when an epoch lowers the relative error by less than this share of
            it. 0 never stops early. Errors fall slowly for many epochs, so even a small share can stop too soon.
        start: `random`, or `nndsvd`, which starts from the singular vectors. It has a lower error in the first epochs,
            but takes as long as several of them.
        solver: `extrapolated` (exact steps from extrapolated factors, Ang & Gillis 2019) has the lowest error after the
            same epochs. `tiled` (PL-NMF, [002] Alg. 2) needs less memory. `plain` ([002] Alg. 1) is equal to `tiled`
            up to rounding, and slower.
        tile: T, columns of a tile. 0 takes √n_factors, the minimum of [002] eq. 9.
        precision: number format of all arrays during training. The model is stored in float32.
    """

    algorithm: ClassVar[str] = "nmf"
    is_nonnegative: ClassVar[bool] = True
    refits: ClassVar[RefitKind] = "exact"
    is_implicit: ClassVar[bool] = True
    choices: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "solver": ("extrapolated", "tiled", "plain"),
        "precision": ("float32", "float64"),
    }
    together: ClassVar[Together] = {("solver", "plain"): {"tile": DEFAULT}}

    n_factors: int = 32
    n_epochs: int = 100
    tolerance: float = 0.0
    start: Start = "random"
    solver: NmfSolver = "extrapolated"
    tile: int = 0
    precision: NmfPrecision = "float32"


@dataclass(frozen=True)
class EaseParams(Params):
    """EASE (Steck 2019, arXiv:1905.03375): weights between items in closed form; users have no factors, only ratings.

    Attributes (beyond `Params`):
        regularization: λ on the diagonal of XᵀX. A larger λ lowers the weights of items with few common raters. None:
            computed from the number of rows and the density, in proportion to the largest eigenvalue of XᵀX that random
            likes would give.
        values, confidence, event_weight: as in `AlsImplicitParams`.
        half_life_days: h; what a like weighs, in the training and in the list of its user, halves with each h of its
            age (`gpu.data.decay`). None: age does not matter. It needs the times of ratings.
    """

    algorithm: ClassVar[str] = "ease"
    has_values: ClassVar[bool] = True
    is_implicit: ClassVar[bool] = True
    has_item_weights: ClassVar[bool] = True

    regularization: float | None = None
    values: Values = "auto"
    confidence: Confidence = "auto"
    event_weight: float | None = None
    half_life_days: float | None = None


PARAMETERS: dict[str, type[Params]] = {  # by algorithm; see `gpu.algorithms`
    kind.algorithm: kind
    for kind in (
        AlsParams, AlsImplicitParams, CulshParams, CulshImplicitParams, EaseParams, EsgdParams, NmfParams, SgdParams
    )
}  # fmt: skip


def params_for(algorithm: str, values: Mapping[str, Any]) -> Params:
    """The parameters of `algorithm`: `values` by name, and the defaults of all others.

    Values may be text ("32").

    Raises:
        InvalidParams: unknown algorithm or parameter name, or a value of the wrong type or out of range.
    """
    if algorithm not in PARAMETERS:
        raise InvalidParams(f"Invalid algorithm: expected one of {', '.join(sorted(PARAMETERS))}, got {algorithm!r}")
    kind = PARAMETERS[algorithm]
    check_names(algorithm, {field.name for field in dataclasses.fields(kind)}, values)
    types = get_type_hints(kind)
    return kind(**{name: converted(name, value, types[name]) for name, value in values.items()})


def with_changes(params: Params, **changes: Any) -> Params:
    """A copy of `params` with `changes`, whose names must be parameters of its algorithm."""
    return dataclasses.replace(params, **changes)
