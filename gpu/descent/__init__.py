"""Stochastic gradient descent: CUSGD++ and CULSH-MF ([004]), and ESGD ([003])."""

from gpu.descent import culsh, trainer
from gpu.descent.esgd import EsgdTrainer
from gpu.descent.params import CulshImplicitParams, CulshParams, EsgdParams, SgdParams
from gpu.training.algorithm import Algorithm, Register


def register(add: Register) -> None:
    """Add what this folder trains."""
    add(Algorithm(CulshParams, culsh.trainer))
    add(Algorithm(CulshImplicitParams, culsh.trainer))
    add(Algorithm(EsgdParams, EsgdTrainer, needs_calibration=False))
    add(Algorithm(SgdParams, trainer.trainer, needs_calibration=False))
