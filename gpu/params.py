"""Hyperparameters: one frozen object per algorithm, each default written here and nowhere else.

The names are shared by every algorithm that has them. Defaults of `culsh`, `sgd` and `culsh-implicit` were chosen on a
held-out tenth of a training part of MovieLens-1M, never on a test set (docs/performance.md).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Literal, TypeVar, get_type_hints

from gpu.errors import InvalidParams

Similarity = Literal["simlsh", "gsm", "minhash", "rp_cos", "random"]
Psi = Literal["residual", "power"]


@dataclass(frozen=True)
class SgdParams:
    """CUSGD++ ([004] Alg. 2): factors and biases by stochastic gradient descent, eq. 5 without neighbours.

    Attributes:
        n_factors: F, latent size. More fits finer taste and costs time and memory in proportion.
        n_epochs: passes over the ratings.
        learning_rate, learning_rate_decay: α and β of γ_t = α / (1 + β·t^1.5) (eq. 7), t = epoch from 0.
        regularization: λ of both factor matrices, applied once per rating (eq. 5), so weighted by counts.
        bias_regularization: λ of the biases.
        seed: start of every random stream; equal seeds give equal models on equal ratings.
    """

    algorithm: ClassVar[str] = "sgd"
    n_factors: int = 128
    n_epochs: int = 40
    learning_rate: float = 0.02
    learning_rate_decay: float = 0.02
    regularization: float = 0.05
    bias_regularization: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        _check_ranges(self)


@dataclass(frozen=True)
class CulshParams(SgdParams):
    """CULSH-MF ([004] eq. 1, 5, 7): factors, biases and the weights W, C of K neighbours found by hashing.

    Attributes (beyond `SgdParams`):
        n_neighbours: K, neighbours per item. 0 turns the model into CUSGD++.
        weight_learning_rate, weight_regularization: α and λ of W and C.
        similarity: how neighbours are chosen; all but `simlsh` are comparators for measuring.
        n_bits: length of the simLSH signature; more ranks neighbours better and costs time and memory.
        psi: weight of a rating in the hash: `power` (r², the paper) finds items that the same users rate, `residual`
            (r − b_ij) items that they rate alike; implicit models ignore it (1 for every rating).
    """

    algorithm: ClassVar[str] = "culsh"
    n_neighbours: int = 32
    weight_learning_rate: float = 0.001
    weight_regularization: float = 0.02
    similarity: Similarity = "simlsh"
    n_bits: int = 2432
    psi: Psi = "power"


@dataclass(frozen=True)
class CulshImplicitParams(CulshParams):
    """CULSH-MF for implicit feedback ([004] §5.4): cross-entropy against sampled negatives; every rating counts as 1.

    So does every rating in the hash: `psi` makes no difference.

    Attributes (beyond `CulshParams`):
        n_negatives: s, items drawn per rating and epoch from those the user has not rated. More rank the top of long
            lists better and cost time in proportion.
    """

    algorithm: ClassVar[str] = "culsh-implicit"
    n_factors: int = 64
    n_neighbours: int = 16
    learning_rate: float = 0.08
    learning_rate_decay: float = 0.05
    regularization: float = 0.01
    weight_learning_rate: float = 0.005
    n_negatives: int = 8


Params = SgdParams
P = TypeVar("P", bound=SgdParams)
ALGORITHMS: dict[str, type[Params]] = {p.algorithm: p for p in (CulshParams, CulshImplicitParams, SgdParams)}

_RANGES: dict[str, tuple[float, float]] = {
    "n_factors": (1, 1024),
    "n_neighbours": (0, 1024),
    "n_epochs": (1, 10_000),
    "n_negatives": (1, 100),
    "n_bits": (64, 16_384),
    "learning_rate": (0, 10),
    "learning_rate_decay": (0, 10),
    "weight_learning_rate": (0, 10),
    "regularization": (0, 1e6),
    "bias_regularization": (0, 1e6),
    "weight_regularization": (0, 1e6),
    "seed": (0, 2**63 - 1),
}


def params_for(algorithm: str, given: Mapping[str, Any]) -> Params:
    """The parameters of `algorithm` with `given` over the defaults; text values ("32") are converted.

    Raises:
        InvalidParams: unknown algorithm or parameter name, a value of the wrong type or out of range.
    """
    if algorithm not in ALGORITHMS:
        raise InvalidParams(f"Invalid algorithm: expected one of {', '.join(sorted(ALGORITHMS))}, got {algorithm!r}")
    kind = ALGORITHMS[algorithm]
    known = {field.name for field in dataclasses.fields(kind)}
    for name in given:
        if name not in known:
            raise InvalidParams(f"Invalid parameter of {algorithm}: expected one of {sorted(known)}, got {name!r}")
    types = get_type_hints(kind)
    return kind(**{name: _converted(name, value, types[name]) for name, value in given.items()})


def _converted(name: str, value: Any, wanted: Any) -> Any:
    if wanted not in (int, float):
        return value
    try:
        number = Decimal(str(value))  # not float: it would lose the last bits of a large seed
    except InvalidOperation:
        raise InvalidParams(f"Invalid {name}: expected a number, got {value!r}") from None
    if wanted is float:
        return float(number)
    if not number.is_finite() or number != number.to_integral_value():
        raise InvalidParams(f"Invalid {name}: expected a whole number, got {value!r}")
    return int(number)


def _check_ranges(params: SgdParams) -> None:
    for field in dataclasses.fields(params):
        value = getattr(params, field.name)
        if field.name in _RANGES:
            low, high = _RANGES[field.name]
            if not (math.isfinite(value) and low <= value <= high):
                raise InvalidParams(f"Invalid {field.name}: expected {low:g} to {high:g}, got {value}")
        elif value not in _CHOICES[field.name]:
            raise InvalidParams(f"Invalid {field.name}: expected one of {_CHOICES[field.name]}, got {value!r}")


_CHOICES: dict[str, tuple[str, ...]] = {
    "similarity": ("simlsh", "gsm", "minhash", "rp_cos", "random"),
    "psi": ("residual", "power"),
}
