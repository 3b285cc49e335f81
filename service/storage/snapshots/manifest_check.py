"""What a manifest of a snapshot may say: files of a snapshot alone, and numbers that a training can have."""

from __future__ import annotations

import math

from gpu.algorithms import ALGORITHMS
from service.storage.events import StreamId
from service.storage.snapshots.array_values import MAX_PARAMETER
from service.storage.snapshots.manifest import Manifest
from service.storage.snapshots.snapshot_files import ARRAYS_FILE, CONTENT_FILE, ITEMS_FILE, USERS_FILE

MAX_BYTES = 1 << 20  # of a manifest
MAX_ROWS = 2**31 - 1  # rows are int32
LEAST_DIVISOR, LARGEST = 1e-12, 1e12
LEAST_DAYS, MOST_DAYS = 1 / 1440, 9999.0  # of a half-life, as the setting has them
NEEDED = {ARRAYS_FILE, USERS_FILE, ITEMS_FILE}


def check(manifest: Manifest) -> None:
    """Check all but the version and the hyperparameters.

    Raises:
        ValueError: something is none of a training; the message says what.
    """
    names = manifest.files.keys()
    if wrong := (names - NEEDED - {CONTENT_FILE}) or (NEEDED - names):
        raise ValueError(
            f"expected the files {', '.join(sorted(NEEDED))} and perhaps {CONTENT_FILE} in its manifest,"
            f" got {'one more' if wrong - NEEDED else 'none'} called {min(wrong)[:80]!r}"
        )
    StreamId.parse(manifest.watermark)
    _check("format", manifest.format, 1)
    _check("n_users", manifest.n_users, 0, MAX_ROWS)
    _check("n_items", manifest.n_items, 0, MAX_ROWS)
    _check("n_ratings", manifest.n_ratings or 0, 0)
    _check("mean", manifest.mean, -MAX_PARAMETER, MAX_PARAMETER)
    _check_scale("scale", manifest.scale)
    stored = manifest.calibration
    for name in ("unit", "typical", "usual_weight", "alpha", "event_typical"):  # divisors
        _check(f"calibration.{name}", getattr(stored, name), LEAST_DIVISOR, LARGEST)
    for name in ("regularization", "prior"):
        _check(f"calibration.{name}", getattr(stored, name), 0, LARGEST)
    for name, value in (("origin", stored.origin), ("middle", stored.middle or 0.0), ("as_of_s", stored.as_of_s)):
        _check(f"calibration.{name}", value, -LARGEST, LARGEST)
    _check("calibration.density", stored.density, 0, 1)
    _check_scale("calibration.scale", stored.scale)
    low, high = stored.scale
    has_values = manifest.algorithm in ALGORITHMS and ALGORITHMS[manifest.algorithm].params.has_values
    has_width = stored.middle is not None and high is not None and high - low >= LEAST_DIVISOR
    if has_values and stored.values == "ratings" and not has_width:
        raise ValueError(
            f"expected a calibration of ratings with a middle and a width, got {stored.middle}, {low} to {high}"
        )
    if stored.is_damped:
        _check("calibration.scale[0]", low, LEAST_DIVISOR)
    _check_scale("calibration.event_scale", stored.event_scale)
    if stored.event_damped:
        _check("calibration.event_scale[0]", stored.event_scale[0], LEAST_DIVISOR)
    _check("calibration.event_weight", stored.event_weight, -LARGEST, LARGEST)
    if stored.trend is not None:
        _check("calibration.trend.weight", stored.trend.weight, 0, LARGEST)
        if stored.trend.weight:
            _check("calibration.trend.half_life_days", stored.trend.half_life_days, LEAST_DAYS, MOST_DAYS)
    if stored.repeat is not None:
        _check("calibration.repeat.weight", stored.repeat.weight, 0, LARGEST)
        _check("calibration.repeat.half_life_days", stored.repeat.half_life_days, 0, MOST_DAYS)


def _check_scale(name: str, scale: tuple[float, float | None]) -> None:
    low, high = scale
    _check(f"{name}[0]", low, -LARGEST, LARGEST)
    if high is not None:
        _check(f"{name}[1]", high, low, LARGEST)


def _check(name: str, value: float | None, low: float, high: float = math.inf) -> None:
    if value is None or not low <= value <= high:  # as NaN is not
        raise ValueError(f"expected {name} from {low:g} to {high:g}, got {value}")
