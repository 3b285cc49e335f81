"""Traces: spans of requests, learning and jobs for a collector of OpenTelemetry. Needs the extra `traces`."""

# ruff: noqa: PLC0415 (only a service that records needs OpenTelemetry)
from __future__ import annotations

import contextlib
from collections.abc import Mapping
from importlib import util
from typing import TYPE_CHECKING

from service.settings.errors import InvalidSetting
from service.telemetry.trace_context import Sampling

if TYPE_CHECKING:
    from service.extras import Parts
    from service.extras.traces.trace_export import SpanExport
    from service.settings.settings import Settings

PACKAGES = "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"  # of the extra `traces`


def register(parts: Parts) -> None:
    """Add what sends spans."""
    parts.check_serve.append(check)
    parts.check_worker.append(check)
    parts.span_export = _export


def check(settings: Settings) -> None:
    """Check before the start what traces need, and load it once for all processes.

    Raises:
        InvalidSetting: the extra is not installed, or a variable of OpenTelemetry cannot be used.
    """
    if (variables := settings.trace_variables()) is None:
        return
    for package in PACKAGES:
        is_there = False
        with contextlib.suppress(ModuleNotFoundError):  # a package around it is missing
            is_there = util.find_spec(package) is not None
        if not is_there:
            raise InvalidSetting(
                f"Invalid traces: expected the package {package}, got none; install nearfield with the extra traces"
                " (pip install '.[traces]' in a checkout)"
            )
    try:
        Sampling.of(variables)
    except ValueError as error:
        raise InvalidSetting(str(error)) from None
    from service.extras.traces import trace_export

    trace_export.check(variables)


def _export(variables: Mapping[str, str], process: str) -> SpanExport:
    from service.extras.traces.trace_export import SpanExport

    return SpanExport(variables, process)
