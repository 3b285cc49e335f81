"""Hyperparameters of NMF, with every default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from gpu.data.param_kinds import (
    FactorParams,
    RefitKind,
)
from gpu.data.param_ranges import DEFAULT, Together

NmfSolver = Literal["extrapolated", "tiled", "plain"]
NmfPrecision = Literal["float32", "float64"]
Start = Literal["random", "nndsvd"]

# ε of [002]: no column can vanish. It also bounds W after the division by the norms. Squares of smaller numbers would
# be denormal in float32, and arithmetic with denormal numbers is a hundred times slower.
EPSILON = 1e-16


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
