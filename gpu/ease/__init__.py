"""EASE (Steck 2019): item weights in closed form."""

from gpu.ease.params import EaseParams
from gpu.ease.trainer import EaseTrainer
from gpu.training.algorithm import Algorithm, Register


def register(add: Register) -> None:
    """Add what this folder trains."""
    add(Algorithm(EaseParams, EaseTrainer, has_ranks=False))
