"""The series of `/metrics` that name the live models."""

from __future__ import annotations

import functools
import time
from collections.abc import Collection, Mapping

from service.storage.snapshots import version_names
from service.telemetry.metrics import Metrics


def show(metrics: Metrics, served: Mapping[str, str], shadows: Collection[str]) -> None:
    """Replace the series by those of the models that are `served`, name to version; `shadows` are names among them."""
    metrics.model_info.clear()
    metrics.model_age_seconds.clear()
    metrics.model_shadow.clear()
    for name, version in served.items():
        metrics.model_info.labels(name, version_names.shown(version)).set(1)
        metrics.model_age_seconds.labels(name).set_function(functools.partial(_age_s, version))
        metrics.model_shadow.labels(name).set(name in shadows)


def _age_s(version: str) -> float:
    """Age of a version in seconds."""
    return time.time() - version_names.time_of(version)
