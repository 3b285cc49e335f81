"""`ModelInfo`: a snapshot as clients see it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from gpu.algorithms import ALGORITHMS, params_for
from gpu.base.backend import Backend
from gpu.base.errors import InvalidParams
from gpu.data.decay import weighing
from service.base.errors import ServiceError
from service.storage.snapshots import snapshot, version_names
from service.storage.snapshots.manifest import StoredCalibration


class ModelInfo(msgspec.Struct):
    """One snapshot.

    Attributes:
        version: its name.
        algorithm: how it was trained.
        name: the name under which it can be live.
        shadow: whether it learns and is tested in this process without answering; `live` is then false.
        revision: how many times a user was forgotten in it.
        live: whether it answers in this process.
        metrics: on the pairs held out of its training.
        watermark: the last entry it was trained on.
        parameters: its hyperparameters; null for those that training derived from the data.
        calibration: the values that training derived from the data.
        rating_scale: lowest and highest rating. Estimates stay within; for a model that makes only lists it is the
            scale of `calibration`. Null: no upper bound.
        error: why it cannot be used, or null.
    """

    version: str
    algorithm: str
    live: bool
    metrics: dict[str, float] = {}
    watermark: str | None = None
    parameters: dict[str, object] = {}
    calibration: StoredCalibration | None = None
    rating_scale: tuple[float, float | None] | None = None
    revision: int = 0
    error: str | None = None
    name: str = ""
    shadow: bool = False


def describe(
    folder: Path, version: str, served: Mapping[str, str], shadows: Collection[str], failure: str | None
) -> ModelInfo:
    """The snapshot `version` below `folder`.

    Args:
        folder, version: name it.
        served: name to version of the models that learn in this process.
        shadows: names of those that do not answer.
        failure: why it could not be loaded.
    """
    shown, revision = version_names.shown(version), version_names.revision_of(version)
    name = version_names.name_of(version)
    is_served = shown in map(version_names.shown, served.values())  # also while a new revision replaces the old one
    is_live, is_shadow = is_served and name not in shadows, is_served and name in shadows
    try:
        manifest = snapshot.read_manifest(folder, version)
    except ServiceError as error:
        algorithm = name if name in ALGORITHMS else ""
        return ModelInfo(shown, algorithm, is_live, error=str(error), revision=revision, name=name, shadow=is_shadow)
    of_lists = manifest.algorithm in ALGORITHMS and ALGORITHMS[manifest.algorithm].params.is_implicit
    return ModelInfo(
        version=shown,
        algorithm=manifest.algorithm,
        live=is_live,
        metrics=manifest.metrics,
        watermark=manifest.watermark,
        parameters=manifest.parameters,
        calibration=manifest.calibration,
        rating_scale=manifest.calibration.scale if of_lists else manifest.scale,
        revision=revision,
        error=failure,
        name=name,
        shadow=is_shadow,
    )


def place_of(folder: Path, name: str, version: str, backend: Backend) -> tuple[str, Backend]:
    """(algorithm of `version`, which is live as `name`; where it learns in a service on `backend`).

    If its manifest cannot be read: the name itself, and `backend`.
    """
    try:
        manifest = snapshot.read_manifest(folder, version)
        return manifest.algorithm, weighing(params_for(manifest.algorithm, manifest.parameters), backend)
    except (ServiceError, InvalidParams):
        return name, backend
