"""Hyperparameters of stochastic gradient descent, with every default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gpu.data.param_kinds import (
    GradientParams,
    Precision,
    Values,
)
from gpu.data.param_ranges import DEFAULT, Together
from gpu.hashing.params import Psi, Similarity


@dataclass(frozen=True)
class EsgdParams(GradientParams):
    """ESGD ([003]): factorizes the residuals of fixed biases, in the memory order of the ratings, with a fixed step.

    The training neither shuffles nor schedules. `Ratings` has sorted them by user before, as for every algorithm.

    `learning_rate` is γ of every epoch, and `regularization` is λ_p.

    Attributes (beyond `GradientParams`):
        item_regularization: λ_q of the factors of items. None: as `regularization`.
    """

    algorithm: ClassVar[str] = "esgd"
    rates: ClassVar[Mapping[str, str]] = {**GradientParams.rates, "item_regularization": "learning_rate"}
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
    rates: ClassVar[Mapping[str, str]] = {**GradientParams.rates, "bias_regularization": "learning_rate"}
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
    rates: ClassVar[Mapping[str, str]] = {**SgdParams.rates, "weight_regularization": "weight_learning_rate"}
    has_signatures: ClassVar[bool] = True
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
