"""Non-negative factorization by FAST-HALS ([002])."""

from gpu.nmf.params import NmfParams
from gpu.nmf.trainer import NmfTrainer
from gpu.training.algorithm import Algorithm, Register


def register(add: Register) -> None:
    """Add what this folder trains."""
    add(Algorithm(NmfParams, NmfTrainer, needs_calibration=False))
