"""The queries about experiments, and the answers to them; see `service.engine.queries`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from service.base.errors import Conflict
from service.engine.queries.document_queries import UnknownDocument
from service.storage.documents import Arm as Arm  # noqa: PLC0414 (for those who ask)
from service.storage.documents import Experiment as Experiment  # noqa: PLC0414

KIND: Literal["experiment"] = "experiment"


class UnknownExperiment(UnknownDocument):
    """No experiment has that id."""

    slug, title = "unknown-experiment", "Unknown experiment"


class ModelInUse(Conflict):
    """An experiment has an arm with this model."""

    slug, title = "model-in-use", "Model in use"


class CheckArms(Struct, frozen=True, tag=True):
    """Checks that all `models` are live and answer; the answer is `ArmsChecked`."""

    models: list[str]


class CheckUnused(Struct, frozen=True, tag=True):
    """Checks that no experiment has an arm with this model; the answer is `ArmsChecked`. Raises `ModelInUse`."""

    model: str


class GetExperiment(Struct, frozen=True, tag=True):
    """Asks for an experiment, as `ExperimentCounts`."""

    experiment: str


class ArmsChecked(Struct):
    """The models can be used as asked."""

    as_of: str


class TypeCounts(Struct):
    """Events of a type in an arm: their number, and the number of users who have any."""

    events: int
    users: int


class ArmCounts(Struct):
    """What is known of an arm.

    Attributes:
        answered: lists that this process has answered since its start.
        users: users with events of any type that were attributed to the arm.
        types: the events by type.
    """

    model: str
    share: float
    answered: int
    users: int
    types: dict[str, TypeCounts]


class ExperimentCounts(Struct):
    """An experiment, and what its arms have led to since it was put at `stream_id`."""

    experiment: str
    salt: str
    stream_id: str
    arms: list[ArmCounts]
    as_of: str


ExperimentQuery = CheckArms | CheckUnused | GetExperiment
ExperimentAnswer = ArmsChecked | ExperimentCounts
