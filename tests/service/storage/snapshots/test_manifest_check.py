"""Each number of a manifest is taken at its bounds, and refused by its name behind them."""

import math
import re
from typing import Any

import msgspec
import pytest

from gpu.data.signals import Calibration, Repeat, Trend
from service.storage.snapshots import manifest_check
from service.storage.snapshots.array_values import MAX_PARAMETER
from service.storage.snapshots.manifest import Manifest, StoredCalibration
from service.storage.snapshots.manifest_check import LARGEST, LEAST_DAYS, LEAST_DIVISOR, MAX_ROWS, MOST_DAYS, NEEDED

CALIBRATION = Calibration(
    values="ratings",
    middle=3.0,
    scale=(1.0, 5.0),
    trend=Trend(weight=1.0, half_life_days=30.0),
    repeat=Repeat(weight=1.0, half_life_days=30.0),
)
MANIFEST = Manifest(
    version="als-20260101T000000-beef",
    algorithm="als",
    parameters={},
    mean=3.5,
    scale=(1.0, 5.0),
    metrics={},
    watermark="5-1",
    n_users=2,
    n_items=3,
    files=dict.fromkeys(NEEDED, ""),
    format=3,
    calibration=StoredCalibration.of(CALIBRATION),
)
DIVISORS = ("unit", "typical", "usual_weight", "alpha", "event_typical")
BOUNDS: list[tuple[str, float, float]] = [
    ("format", 1, math.inf),
    ("n_users", 0, MAX_ROWS),
    ("n_items", 0, MAX_ROWS),
    ("n_ratings", 0, math.inf),
    ("mean", -MAX_PARAMETER, MAX_PARAMETER),
    ("scale.0", -LARGEST, 5.0),
    ("scale.1", 1.0, LARGEST),
    *((f"calibration.{name}", LEAST_DIVISOR, LARGEST) for name in DIVISORS),
    *((f"calibration.{name}", 0, LARGEST) for name in ("regularization", "prior", "trend.weight", "repeat.weight")),
    *((f"calibration.{name}", -LARGEST, LARGEST) for name in ("origin", "middle", "as_of_s", "event_weight")),
    ("calibration.density", 0, 1),
    ("calibration.event_scale.0", LEAST_DIVISOR, LARGEST),
    ("calibration.event_scale.1", 1.0, LARGEST),
    ("calibration.trend.half_life_days", LEAST_DAYS, MOST_DAYS),
    ("calibration.repeat.half_life_days", 0, MOST_DAYS),
]


def changed(place: str, value: float | None, **others: Any) -> Manifest:
    """The manifest with another value at a place, such as `calibration.scale.0`."""
    document = msgspec.to_builtins(MANIFEST) | others
    *names, last = place.split(".")
    inner = document
    for name in names:
        inner[name] = list(inner[name]) if isinstance(inner[name], tuple) else inner[name]
        inner = inner[name]
    inner[int(last) if last.isdecimal() else last] = value
    return msgspec.convert(document, Manifest)


def check_refused(manifest: Manifest, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        manifest_check.check(manifest)


@pytest.mark.parametrize(("place", "low", "high"), BOUNDS)
def test_a_number_has_bounds(place: str, low: float, high: float) -> None:
    is_whole = place in ("format", "n_users", "n_items", "n_ratings")
    for bound, way in ((low, -1), (high, 1)):
        if math.isfinite(bound):
            manifest_check.check(changed(place, bound))
            beyond = bound + way if is_whole else math.nextafter(bound, way * math.inf)
            check_refused(changed(place, beyond), "expected " + re.escape(place.rpartition(".")[0] or place))


def test_no_number_is_none() -> None:
    check_refused(msgspec.structs.replace(MANIFEST, mean=math.nan), "expected mean from .* got nan")


def test_a_manifest_names_the_files_of_a_snapshot_and_no_others() -> None:
    content = {**MANIFEST.files, "content.safetensors": ""}
    for files in (MANIFEST.files, content):
        manifest_check.check(msgspec.structs.replace(MANIFEST, files=files))
    for name in NEEDED:
        files = {other: "" for other in content if other != name}
        check_refused(msgspec.structs.replace(MANIFEST, files=files), f"got none called '{name}'")
    check_refused(msgspec.structs.replace(MANIFEST, files={**content, "../x": ""}), "got one more called '../x'")
    check_refused(msgspec.structs.replace(MANIFEST, watermark="now"), "Invalid stream id")


def test_ratings_have_a_middle_and_a_width_and_counts_need_neither() -> None:
    for place, value in (("middle", None), ("scale.1", None), ("scale.1", 1.0)):
        check_refused(changed(f"calibration.{place}", value, algorithm="als-implicit"), "a middle and a width")
        for algorithm in ("of a later version", "als"):
            manifest_check.check(changed(f"calibration.{place}", value, algorithm=algorithm))
        counts = changed(f"calibration.{place}", value, algorithm="als-implicit")
        calibration = msgspec.structs.replace(counts.calibration, values="counts")
        manifest_check.check(msgspec.structs.replace(counts, calibration=calibration))


def test_the_scale_of_a_calibration_has_bounds() -> None:
    manifest_check.check(changed("calibration.scale.1", LARGEST))
    check_refused(changed("calibration.scale.1", 2 * LARGEST), r"calibration\.scale\[1\]")


def test_a_damped_scale_begins_above_zero() -> None:
    for name, damped in (("scale", "is_damped"), ("event_scale", "event_damped")):
        for low, is_damped in ((0.0, False), (0.0, True), (LEAST_DIVISOR, True)):
            manifest = changed(f"calibration.{name}.0", low)
            calibration = msgspec.structs.replace(manifest.calibration, **{damped: is_damped})
            manifest = msgspec.structs.replace(manifest, calibration=calibration)
            if low or not is_damped:
                manifest_check.check(manifest)
            else:
                check_refused(manifest, rf"calibration\.{name}\[0\]")


def test_a_half_life_without_a_weight_does_not_matter() -> None:
    for half_life_days in (0.0, 1e9):
        trend = Trend(weight=0.0, half_life_days=half_life_days)
        calibration = msgspec.structs.replace(MANIFEST.calibration, trend=trend)
        manifest_check.check(msgspec.structs.replace(MANIFEST, calibration=calibration))
    for parts in ({"trend": None}, {"repeat": None}):
        calibration = msgspec.structs.replace(MANIFEST.calibration, **parts)
        manifest_check.check(msgspec.structs.replace(MANIFEST, calibration=calibration))
