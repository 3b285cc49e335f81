"""Hyperparameters: one frozen object per algorithm, each default written here and nowhere else.

The names are shared by every algorithm that has them. Defaults were chosen on held-out parts of training parts of
several data sets, never on a test set (docs/algorithms.md). None is taken from the data: see
`gpu.calibration`.

Explicit models learn ratings in units of what shrunk biases leave unexplained (`Calibration.unit`), so step lengths and
ridges mean the same on every scale.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_type_hints

from gpu.errors import InvalidParams
from gpu.param_kinds import FactorParams, GradientParams, Params, RefitKind, RegularizedParams
from gpu.param_ranges import check_names, converted

Similarity = Literal["simlsh", "gsm", "minhash", "rp_cos", "random"]
Psi = Literal["residual", "power"]
Solver = Literal["cg", "cholesky"]
Precision = Literal["float16", "float32"]
NmfSolver = Literal["tiled", "plain"]
NmfPrecision = Literal["float32", "float64"]
Start = Literal["random", "nndsvd"]
Values = Literal["auto", "ratings", "counts"]
Confidence = Literal["auto", "linear", "log"]


@dataclass(frozen=True)
class AlsParams(RegularizedParams):
    """ALS ([000]; [001]): each row's factors and bias solved exactly, one side of the matrix at a time.

    The objective is Σ (r − r̂)² + λ Σ n (|x|² + b²), n the ratings of the row: `regularization` is weighted by counts.

    Attributes (beyond `RegularizedParams`):
        n_cg_steps: f_s of [000] Alg. 1, steps of conjugate gradients from the row's last solution. More solve each
            half exactly and cost time.
        cg_tolerance: ε, a row stops early once its residual is below this share of its right-hand side.
        solver: `cg`, or `cholesky` for the exact solution (several times slower).
        precision: what a device computes A in: `float16` on tensor cores with sums in float32 (solutions within about
            1 % of exact, test errors the same to four digits), or `float32`. The host always uses float32.
        biases: whether rows have a bias and ratings are centered; without, it is the objective of cuMF.
    """

    algorithm: ClassVar[str] = "als"
    refits: ClassVar[RefitKind] = "exact"
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"n_factors": (4, 1024)}

    n_factors: int = 128
    n_epochs: int = 8
    regularization: float = 0.036
    n_cg_steps: int = 6
    cg_tolerance: float = 1e-4
    solver: Solver = "cg"
    precision: Precision = "float16"
    biases: bool = True


@dataclass(frozen=True)
class AlsImplicitParams(FactorParams):
    """Implicit ALS ([000] §5.6): every pair counts, those with a value x with confidence c = 1 + α·|x|.

    The preference p is 1, or 0 where x is a dislike; x is a value in units of the typical one
    (`gpu.calibration`). The objective is Σ_all c (p − u·v)² + λ Σ (n + N/α)^ν |x|², n the ratings of a row
    and N the rows of the other side that have some: with ν = 0 every row is held back alike, with ν = 1 by its share
    of the confidence (iALS revisited, whose weight of an unrated pair is 1/α of a rated one's).

    Attributes (beyond `FactorParams`):
        regularization: λ of both factor matrices. None: from the number of rows, so that factors that chance alone
            would give stay zero.
        alpha: α, the average weight of a rated pair. More trusts what was rated over what was not. None: from the
            density of the data.
        regularization_exponent: ν.
        values: `ratings` on a scale, of which those below its middle are dislikes, or `counts` (clicks are counts of
            1). `auto` tells from the values.
        confidence: `linear` in a count, or `log`: 1 + ln. `auto` takes `log` where counts have a long tail.
        n_cg_steps, cg_tolerance, solver, precision: as in `AlsParams`.
    """

    algorithm: ClassVar[str] = "als-implicit"
    has_values: ClassVar[bool] = True
    refits: ClassVar[RefitKind] = "exact"
    is_implicit: ClassVar[bool] = True
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = AlsParams.ranges

    n_factors: int = 128
    n_epochs: int = 12
    regularization: float | None = None
    alpha: float | None = None
    regularization_exponent: float = 1.0
    values: Values = "auto"
    confidence: Confidence = "auto"
    n_cg_steps: int = 3
    cg_tolerance: float = 1e-4
    solver: Solver = "cg"
    precision: Precision = "float16"


@dataclass(frozen=True)
class EsgdParams(GradientParams):
    """ESGD ([003]): factors of what fixed biases leave over, visited as the ratings lie in memory, with a fixed step.

    Attributes: as in `GradientParams`; `learning_rate` is γ of every epoch, `regularization` is λ_p and λ_q.
    """

    algorithm: ClassVar[str] = "esgd"
    n_factors: int = 64
    n_epochs: int = 15
    regularization: float = 0.04


@dataclass(frozen=True)
class SgdParams(GradientParams):
    """CUSGD++ ([004] Alg. 2): factors and biases by stochastic gradient descent, eq. 5 without neighbors.

    Attributes (beyond `GradientParams`):
        learning_rate, learning_rate_decay: α and β of γ_t = α / (1 + β·t^1.5) (eq. 7), t = epoch from 0.
        bias_regularization: λ of the biases.
        precision: of the users' factors while a device trains; the host always uses float32.
        deterministic: whether a device visits ratings in a fixed order, several times slower, so that equal seeds give
            equal models; the host always does.
    """

    algorithm: ClassVar[str] = "sgd"
    n_factors: int = 128
    n_epochs: int = 40
    learning_rate_decay: float = 0.02
    bias_regularization: float = 0.02
    precision: Precision = "float16"
    deterministic: bool = False

    @property
    def ridge_of_biases(self) -> float:
        """See `GradientParams.ridge_of_biases`."""
        return self.bias_regularization


@dataclass(frozen=True)
class CulshParams(SgdParams):
    """CULSH-MF ([004] eq. 1, 5, 7): factors, biases and the weights W, C of K neighbors found by hashing.

    Attributes (beyond `SgdParams`):
        n_neighbors: K, neighbors per item. 0 turns the model into CUSGD++.
        weight_learning_rate, weight_regularization: α and λ of W and C.
        similarity: how neighbors are chosen; all but `simlsh` are comparators for measuring.
        n_bits: length of the simLSH signature; more ranks neighbors better and costs time and memory.
        psi: weight of a rating in the hash: `power` (r², the paper) finds items that the same users rate, `residual`
            (r − b_ij) items that they rate alike; implicit models ignore it (1 for a like, −1 for a dislike).
    """

    algorithm: ClassVar[str] = "culsh"
    n_neighbors: int = 32
    weight_learning_rate: float = 0.001
    weight_regularization: float = 0.02
    similarity: Similarity = "simlsh"
    n_bits: int = 2432
    psi: Psi = "power"

    @property
    def ridge_of_weights(self) -> float:
        """See `GradientParams.ridge_of_weights`."""
        return self.weight_regularization


@dataclass(frozen=True)
class CulshImplicitParams(CulshParams):
    """CULSH-MF for implicit feedback ([004] §5.4): cross-entropy of likes against dislikes and sampled negatives.

    A rating below the middle of the model is a dislike, every other one a like. In the hash a like weighs 1 and a
    dislike −1: `psi` makes no difference.

    Attributes (beyond `CulshParams`):
        values: as in `AlsImplicitParams`.
        n_negatives: s, items drawn per like and epoch from those the user has not rated. More rank the top of long
            lists better and cost time in proportion.
    """

    algorithm: ClassVar[str] = "culsh-implicit"
    has_values: ClassVar[bool] = True
    is_implicit: ClassVar[bool] = True
    is_logit: ClassVar[bool] = True
    n_factors: int = 64
    n_neighbors: int = 16
    learning_rate: float = 0.15
    learning_rate_decay: float = 0.05
    regularization: float = 0.01
    weight_learning_rate: float = 0.005
    n_negatives: int = 8
    values: Values = "auto"

    @property
    def n_absences(self) -> int:
        """See `Params.n_absences`."""
        return self.n_negatives


@dataclass(frozen=True)
class NmfParams(FactorParams):
    """Non-negative factorization by FAST-HALS ([002]): A ≈ W H, no entry below 0, where an unrated pair is a 0.

    Attributes (beyond `FactorParams`):
        tolerance: it stops before `n_epochs` once an epoch lowers the relative error by less than this share of it.
            0 never stops early: errors fall slowly for long, so a share that is small at last stops too soon at first.
        start: `random`, or `nndsvd`, which starts from the singular vectors: a lower error in the first epochs, but it
            takes the time of some of them.
        solver: `tiled` (PL-NMF, [002] Alg. 2), or `plain` ([002] Alg. 1), the same up to rounding and slower.
        tile: T, columns of a tile. 0 is the minimum of [002] eq. 9, √n_factors.
        precision: of all arrays while training; a model keeps float32.
    """

    algorithm: ClassVar[str] = "nmf"
    is_nonnegative: ClassVar[bool] = True
    refits: ClassVar[RefitKind] = "exact"
    is_implicit: ClassVar[bool] = True
    choices: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "solver": ("tiled", "plain"),
        "precision": ("float32", "float64"),
    }

    n_factors: int = 32
    n_epochs: int = 100
    tolerance: float = 0.0
    start: Start = "random"
    solver: NmfSolver = "tiled"
    tile: int = 0
    precision: NmfPrecision = "float32"


@dataclass(frozen=True)
class EaseParams(Params):
    """EASE (Steck 2019, arXiv:1905.03375): weights between items, in closed form; a user is what was rated.

    Attributes (beyond `Params`):
        regularization: λ on the diagonal of XᵀX. More trusts pairs of items with few common raters less. None: from
            the number of rows and the density, the strength of what chance alone would give.
        values, confidence: as in `AlsImplicitParams`.
    """

    algorithm: ClassVar[str] = "ease"
    has_values: ClassVar[bool] = True
    is_implicit: ClassVar[bool] = True
    has_item_weights: ClassVar[bool] = True

    regularization: float | None = None
    values: Values = "auto"
    confidence: Confidence = "auto"


PARAMETERS: dict[str, type[Params]] = {  # by algorithm; see `gpu.algorithms`
    kind.algorithm: kind
    for kind in (
        AlsParams, AlsImplicitParams, CulshParams, CulshImplicitParams, EaseParams, EsgdParams, NmfParams, SgdParams
    )
}  # fmt: skip


def params_for(algorithm: str, given: Mapping[str, Any]) -> Params:
    """The parameters of `algorithm` with `given` over the defaults; text values ("32") are converted.

    Raises:
        InvalidParams: unknown algorithm or parameter name, a value of the wrong type or out of range.
    """
    if algorithm not in PARAMETERS:
        raise InvalidParams(f"Invalid algorithm: expected one of {', '.join(sorted(PARAMETERS))}, got {algorithm!r}")
    kind = PARAMETERS[algorithm]
    check_names(algorithm, {field.name for field in dataclasses.fields(kind)}, given)
    types = get_type_hints(kind)
    return kind(**{name: converted(name, value, types[name]) for name, value in given.items()})


def with_changes(params: Params, **changes: Any) -> Params:
    """`params` with other values of some fields, which its algorithm must have."""
    return dataclasses.replace(params, **changes)
