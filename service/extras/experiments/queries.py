"""What is asked about experiments."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from service.base.errors import Conflict
from service.engine.errors import UnknownDocument
from service.storage.documents import Experiment

KIND: Literal["experiment"] = "experiment"


class UnknownExperiment(UnknownDocument):
    """No experiment has that id."""

    slug, title = "unknown-experiment", "Unknown experiment"


class ModelInUse(Conflict):
    """An experiment has an arm with this model."""

    slug, title = "model-in-use", "Model in use"


# --- what routes ask of the engine's process


class PutExperiment(Struct, frozen=True, tag=True):
    """Asks for `Written`, see `Changes.put`, which has the errors."""

    name: str
    experiment: Experiment


class GetExperiment(Struct, frozen=True, tag=True):
    """Asks for an `ExperimentReport`. Raises `UnknownExperiment`."""

    experiment: str


# --- what this process asks of the engine


class CheckArms(Struct, frozen=True):
    """Checks that all `models` are live and answer, and users have the names in `filter`. Raises `InvalidRequest`."""

    models: list[str]
    filter: str | None = None


class CheckUnused(Struct, frozen=True):
    """Checks that no experiment has an arm with this model. Raises `ModelInUse`."""

    model: str
