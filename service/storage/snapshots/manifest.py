"""`Manifest`: the description of a snapshot, `manifest.json` in its folder.

JSON has no infinity, so a calibration is stored with null for a missing middle or a missing upper end of the scale.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from gpu.algorithms import ALGORITHMS
from gpu.data.param_ranges import RENAMED
from gpu.data.ratings import NO_MIDDLE
from gpu.data.signals import EVENT_WEIGHT, Calibration, Kind, Repeat, Trend, before_calibration
from service.base.errors import InvalidRequest
from service.storage.errors import NewerSnapshot

FORMAT = 3
# Defaults in the time of format 1 that have changed since. All other defaults are the same today.
_DEFAULTS_OF_FORMAT_1: dict[str, dict[str, float]] = {
    "als": {"regularization": 0.07},
    "als-implicit": {"regularization": 0.015, "alpha": 1.0},
    "culsh": {"regularization": 0.05},
    "culsh-implicit": {"learning_rate": 0.08},
    "sgd": {"regularization": 0.05},
}

_SCALES = ("scale", "event_scale")  # figures that may have no upper bound


class StoredCalibration(msgspec.Struct, frozen=True):
    """The values that a training derived from its data; docs/models.md explains them.

    Attributes:
        middle: ratings below it are dislikes; null: no rating is a dislike.
        scale, event_scale: lowest and highest value; others are clipped. null: no upper bound.
        n_factors: F, if held-out pairs chose it; 0 if it was given.
        chosen: what held-out pairs of the training ratings decided, and why: a sentence each.
    """

    values: Kind
    middle: float | None
    scale: tuple[float, float | None]
    is_damped: bool
    typical: float
    alpha: float
    regularization: float
    density: float
    unit: float
    origin: float
    prior: float
    as_of_s: float = 0.0
    usual_weight: float = 1.0
    event_weight: float = EVENT_WEIGHT
    event_scale: tuple[float, float | None] = (1.0, None)
    event_damped: bool = True
    event_typical: float = 1.0
    n_factors: int = 0
    chosen: tuple[str, ...] = ()
    trend: Trend | None = None
    repeat: Repeat | None = None

    @classmethod
    def of(cls, calibration: Calibration) -> StoredCalibration:
        """`calibration` in its stored form."""
        fields = dict(vars(calibration))
        for name in _SCALES:
            low, high = fields[name]
            fields[name] = low, None if high == math.inf else high
        fields["middle"] = None if calibration.middle == NO_MIDDLE else calibration.middle
        return cls(**fields)

    def restored(self) -> Calibration:
        """The stored calibration, bit for bit."""
        fields = msgspec.structs.asdict(self)
        for name in _SCALES:
            low, high = fields[name]
            fields[name] = low, math.inf if high is None else high
        fields["middle"] = NO_MIDDLE if self.middle is None else self.middle
        return Calibration(**fields)


class Manifest(msgspec.Struct, frozen=True):
    """Description of a snapshot.

    Attributes:
        version: `<name>-<UTC yyyymmddThhmmss>-<4 hex>`, the name of its folder; it can be live under the name.
        algorithm: also the name, if the training was given none.
        parameters: the hyperparameters of its training.
        mean, scale: see `gpu.data.model.Model`.
        metrics: measured on held-out pairs after training.
        watermark: stream id of the last entry of its training.
        n_users, n_items: rows of its id tables.
        files: file name to SHA-256.
        format: layout of the folder. Format 1 lacks the following fields; format 2 spells "neighbours".
        calibration: the values that training derived from the data.
        given: the hyperparameters that were requested; all others were defaults or settings of a service.
        n_ratings: number of training ratings; None if unknown.
    """

    version: str
    algorithm: str
    parameters: dict[str, Any]
    mean: float
    scale: tuple[float, float]
    metrics: dict[str, float]
    watermark: str
    n_users: int
    n_items: int
    files: dict[str, str]
    format: int = 1
    calibration: StoredCalibration = StoredCalibration.of(Calibration())
    given: dict[str, Any] = {}
    n_ratings: int | None = None


class _Head(msgspec.Struct):
    """The part that every version writes."""

    version: str
    format: int = 1


def read(content: bytes) -> Manifest:
    """Decode a manifest. Fills in the present names of parameters, and the defaults of format 1, for older formats.

    Raises:
        NewerSnapshot: a newer version wrote it.
        MsgspecError: `content` is not a manifest.
    """
    head = msgspec.json.decode(content, type=_Head)
    if head.format > FORMAT:
        raise NewerSnapshot(
            f"snapshot {head.version} was written by a newer version (format {head.format}); "
            f"this one reads up to {FORMAT}: upgrade"
        )
    manifest = msgspec.json.decode(content, type=Manifest)
    if manifest.format == FORMAT:
        return manifest
    parameters, given = (
        {RENAMED.get(name, name): value for name, value in values.items()}
        for values in (manifest.parameters, manifest.given)
    )
    calibration = manifest.calibration
    if manifest.format == 1:
        calibration = StoredCalibration.of(before_calibration(parameters))
        given = changed(manifest.algorithm, parameters, _DEFAULTS_OF_FORMAT_1.get(manifest.algorithm, {}))
    return msgspec.structs.replace(manifest, parameters=parameters, given=given, calibration=calibration)


def check_known(manifest: Manifest) -> None:
    """Check that this version knows the algorithm; raises `InvalidRequest`."""
    if manifest.algorithm not in ALGORITHMS:
        names = ", ".join(ALGORITHMS)
        raise InvalidRequest(
            f"Invalid {manifest.version}: expected one of {names}, got {manifest.algorithm!r}: upgrade"
        )


def changed(
    algorithm: str, parameters: dict[str, Any], other_defaults: Mapping[str, float] = MappingProxyType({})
) -> dict[str, Any]:
    """The hyperparameters that differ from the defaults of the algorithm, of which some may have been others."""
    if algorithm not in ALGORITHMS:  # loading the model reports it
        return {}
    fields = dataclasses.fields(ALGORITHMS[algorithm].params)
    defaults = {field.name: field.default for field in fields} | dict(other_defaults)
    return {name: value for name, value in parameters.items() if value != defaults.get(name)}
