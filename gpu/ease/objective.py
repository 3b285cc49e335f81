"""What host and device say when EASE has no solution."""

from __future__ import annotations

from gpu.base.errors import TrainingDiverged


def no_inverse() -> TrainingDiverged:
    """The error for a singular XᵀX + λ I: λ is too small for the backend's precision."""
    return TrainingDiverged("Training of ease diverged: expected XᵀX + λ to have an inverse; raise regularization")
