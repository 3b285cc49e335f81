"""Stochastic gradient descent: CUSGD++ and CULSH-MF ([004]), and ESGD ([003])."""

from __future__ import annotations

from typing import Any

from gpu.data.model import Model
from gpu.descent.params import CulshImplicitParams, CulshParams, EsgdParams, SgdParams
from gpu.training.algorithm import Algorithm, register
from gpu.training.loop import Trainer


def make_culsh(*given: Any) -> Trainer[Model]:
    """The trainer of CULSH-MF."""
    from gpu.descent.culsh import trainer  # noqa: PLC0415 - see `Algorithm.trainer`

    return trainer(*given)


def make_esgd(*given: Any) -> Trainer[Model]:
    """The trainer of ESGD."""
    from gpu.descent.esgd import EsgdTrainer  # noqa: PLC0415 - see `Algorithm.trainer`

    return EsgdTrainer(*given)


def make_sgd(*given: Any) -> Trainer[Model]:
    """The trainer of CUSGD++."""
    from gpu.descent.trainer import trainer  # noqa: PLC0415 - see `Algorithm.trainer`

    return trainer(*given)


register(Algorithm(CulshParams, make_culsh))
register(Algorithm(CulshImplicitParams, make_culsh))
register(Algorithm(EsgdParams, make_esgd, needs_calibration=False))
register(Algorithm(SgdParams, make_sgd, needs_calibration=False))
