"""`Manifest`: what a snapshot says of itself, `manifest.json` in its folder.

JSON has no infinity. A calibration is stored with null where there is no bound: no middle, no upper end of its scale.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import msgspec

from gpu.algorithms import ALGORITHMS
from gpu.calibration import Calibration, Kind, before_calibration
from gpu.param_kinds import Params
from gpu.param_ranges import RENAMED
from gpu.ratings import NO_MIDDLE
from service.errors import NewerSnapshot

FORMAT = 3
# Defaults that snapshots of format 1 were trained with and that have changed since. All others are today's.
_DEFAULTS_OF_FORMAT_1: dict[str, dict[str, float]] = {
    "als": {"regularization": 0.07},
    "als-implicit": {"regularization": 0.015, "alpha": 1.0},
    "culsh": {"regularization": 0.05},
    "culsh-implicit": {"learning_rate": 0.08},
    "sgd": {"regularization": 0.05},
}


class StoredCalibration(msgspec.Struct, frozen=True):
    """What a training took from its data: see `gpu.calibration.Calibration`.

    Attributes:
        middle: ratings below it are dislikes; null where none is.
        scale: lowest and highest value that count; null where nothing is too high.
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

    @classmethod
    def of(cls, calibration: Calibration) -> StoredCalibration:
        """`calibration` as it is stored and shown."""
        fields = dataclasses.asdict(calibration)
        low, high = calibration.scale
        fields["scale"] = low, None if high == math.inf else high
        fields["middle"] = None if calibration.middle == NO_MIDDLE else calibration.middle
        return cls(**fields)

    def restored(self) -> Calibration:
        """The calibration that was stored, equal in every bit."""
        fields = msgspec.structs.asdict(self)
        low, high = self.scale
        fields["scale"] = low, math.inf if high is None else high
        fields["middle"] = NO_MIDDLE if self.middle is None else self.middle
        return Calibration(**fields)


class Manifest(msgspec.Struct, frozen=True):
    """What a snapshot says of itself.

    Attributes:
        version: `<algorithm>-<UTC yyyymmddThhmmss>-<4 hex>`, the name of its folder.
        algorithm: also the name under which it can be live.
        parameters: the hyperparameters it was trained with.
        mean, scale: see `gpu.model.Model`.
        metrics: measured on held-out pairs after training.
        watermark: stream id of the last entry that it was trained on.
        n_users, n_items: rows of its id tables.
        files: file name to SHA-256.
        format: layout of the folder. Format 1 has none of what follows; format 2 spells "neighbours".
        calibration: what training took from the data.
        given: the hyperparameters that were asked for; all others were defaults or the settings of a service.
        n_ratings: ratings it was trained on; None where nobody counted.
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


class _Stated(msgspec.Struct):
    version: str
    format: int = 1


def read(content: bytes) -> Manifest:
    """The manifest that `content` is; of an older format with the names of today, and what such a model was trained on.

    Raises:
        NewerSnapshot: it was written by a newer version.
        MsgspecError: it is none.
    """
    stated = msgspec.json.decode(content, type=_Stated)
    if stated.format > FORMAT:
        raise NewerSnapshot(
            f"snapshot {stated.version} was written by a newer version (format {stated.format}); "
            f"this one reads up to {FORMAT}: upgrade"
        )
    manifest = msgspec.json.decode(content, type=Manifest)
    if manifest.format < FORMAT:
        manifest = _with_names_of_today(manifest)
    return _of_format_1(manifest) if manifest.format == 1 else manifest


def changed(params: Params) -> dict[str, Any]:
    """The hyperparameters that are not the defaults."""
    return _changed(params.algorithm, dataclasses.asdict(params), {})


def _with_names_of_today(manifest: Manifest) -> Manifest:
    def renamed(parameters: dict[str, Any]) -> dict[str, Any]:
        return {RENAMED.get(name, name): value for name, value in parameters.items()}

    return msgspec.structs.replace(manifest, parameters=renamed(manifest.parameters), given=renamed(manifest.given))


def _of_format_1(manifest: Manifest) -> Manifest:
    parameters = manifest.parameters
    return msgspec.structs.replace(
        manifest,
        calibration=StoredCalibration.of(before_calibration(parameters)),
        given=_changed(manifest.algorithm, parameters, _DEFAULTS_OF_FORMAT_1.get(manifest.algorithm, {})),
    )


def _changed(algorithm: str, parameters: dict[str, Any], other_defaults: dict[str, float]) -> dict[str, Any]:
    if algorithm not in ALGORITHMS:  # said when the model is loaded
        return {}
    fields = dataclasses.fields(ALGORITHMS[algorithm].params)
    defaults = {field.name: field.default for field in fields} | other_defaults
    return {name: value for name, value in parameters.items() if value != defaults.get(name)}
