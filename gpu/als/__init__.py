"""ALS ([000]; [001]), explicit and implicit, on one or several ranks, with ratings in memory or in batches."""

from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.als.trainer import AlsTrainer
from gpu.training.algorithm import Algorithm, Register


def register(add: Register) -> None:
    """Add what this folder trains."""
    add(Algorithm(AlsParams, AlsTrainer))
    add(Algorithm(AlsImplicitParams, AlsTrainer))
