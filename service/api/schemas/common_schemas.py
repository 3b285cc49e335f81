"""Schemas of requests, which pydantic checks, and of answers that only HTTP has; `list_schemas` has those of lists."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from msgspec import UNSET, Struct, UnsetType
from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
)

from gpu.algorithms import ALGORITHMS
from service.api.parsers.elements import Rejection
from service.api.requests import Wait
from service.base.ids import MAX_ID_BYTES
from service.engine.queries.document_queries import ListedDocument
from service.engine.queries.few_faults import Strict, few_faults
from service.engine.queries.forms import Id
from service.jobs.training import Training
from service.settings.model_names import MAX_NAME_LENGTH
from service.storage.documents import WHOLE

MAX_ARMS = 10  # of an experiment
SHARES_TOLERANCE = 1e-6  # three times 33.3333333 is enough
MAX_PARAMS = 64  # hyperparameters in one request; no algorithm has half as many


class Retrain(Strict):
    """Body of `POST /admin/retrain`."""

    algorithm: Literal[tuple(sorted(ALGORITHMS))]  # type: ignore[valid-type]  # the names are known only at run time
    params: dict[str, JsonValue] = Field(
        {}, max_length=MAX_PARAMS, description="Hyperparameters over the defaults, such as n_factors."
    )
    name: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        description="Its name, of lower-case letters, digits and hyphens; default: that of the algorithm.",
    )
    shadow: bool = Field(False, description="Whether it learns and is tested beside the others, but never answers.")
    activate: bool = Field(True, description="Whether the new model goes live if it is good enough.")
    tune: bool = Field(False, description="Whether to search for better params first, judged by held-out pairs.")
    force: bool = Field(False, description="Whether it goes live even if it is worse than the live one or a baseline.")

    def judged(self) -> Training:
        """The training that is asked for. Raises what `Training.of` raises."""
        return Training.of(
            self.algorithm,
            self.params,
            self.name,
            activate=self.activate,
            force=self.force,
            tune=self.tune,
            shadow=self.shadow,
        )


class MergeBody(Wait):
    """Body of `POST /admin/users/{user}/merge`."""

    user: Id = Field(alias="from", description="The user who becomes part of the other one.")


class Accepted(Struct):
    """The answer to `POST /ratings` and `POST /events`; `stream_id` is null if nothing was accepted.

    Attributes:
        skipped: how many of the accepted elements do not count, because their source had come further before; only
            with `X-Source`. Null: they are durable, but so many entries wait that this is not known yet.
    """

    accepted: int
    rejected: list[Rejection]
    stream_id: str | None
    took_ms: float
    skipped: int | UnsetType | None = UNSET


class Written(Struct):
    """The answer to any other write. A read with `wait_for` = `stream_id` sees it."""

    stream_id: str


def _whole(arms: list[ArmBody]) -> list[ArmBody]:
    total = math.fsum(arm.share for arm in arms)
    if abs(total - WHOLE) > SHARES_TOLERANCE:
        raise ValueError(f"expected shares that add up to {WHOLE}, got {total:.12g}")
    models = [arm.model for arm in arms]
    if len(set(models)) < len(models):
        raise ValueError(f"expected each model once, got {', '.join(models)}")
    return arms


class ArmBody(Strict):
    """An arm of an experiment."""

    model: str = Field(min_length=1, max_length=MAX_ID_BYTES, description="Name of a model that answers.")
    share: float = Field(gt=0, le=WHOLE, description="Percentage of users who get it.")


class ExperimentBody(Strict):
    """Body of an experiment."""

    arms: Annotated[
        list[ArmBody],
        AfterValidator(_whole),
        Field(min_length=2, max_length=MAX_ARMS),
        few_faults(ArmBody, MAX_ARMS),
    ]
    salt: str | None = Field(
        None,
        max_length=MAX_ID_BYTES,
        description="Decides with the user's id which arm it is; default: the id of the experiment.",
    )


class ExperimentList(Struct):
    """The ids of all experiments, each with the position of the entry that has put it."""

    experiments: list[ListedDocument]
    as_of: str


class ScenarioList(Struct):
    """All scenarios in order of names."""

    scenarios: list[ListedDocument]
    as_of: str


class Alive(Struct):
    """The answer of a running process."""

    status: str


class Fault(Struct):
    """One refused value: its path in the request, and the reason."""

    place: str
    error: str


class ProblemDocument(Struct):
    """An error, as application/problem+json (RFC 9457).

    Attributes:
        errors: the first ten refused values, if the problem is about values.
        errors_left_out: number of further refused values.
        reason, fraction: why the service is not ready, and how much of its start is done (0 to 1).
        job: id of the conflicting job.
    """

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[Fault] | UnsetType = UNSET
    errors_left_out: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    fraction: float | UnsetType = UNSET
    job: str | UnsetType = UNSET
