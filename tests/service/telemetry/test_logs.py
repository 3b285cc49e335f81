"""Log lines that clients can cause are limited, and the number of dropped lines is logged."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from service.telemetry.logs import BURST_LINES, LineBudget


def test_a_burst_is_written_then_a_fixed_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("service.telemetry.logs.time.monotonic", lambda: now)
    budget = LineBudget(per_s=2, burst=5)
    assert [budget.take() for _ in range(8)] == [0, 0, 0, 0, 0, None, None, None]
    now += 1
    assert [budget.take() for _ in range(3)] == [3, 0, None]
    now += 1000
    assert [budget.take() for _ in range(6)] == [1, 0, 0, 0, 0, None]


PROGRAM = f"""
import logging
from service.telemetry import logs

logs.configure("info", "json")
for _ in range({3 * BURST_LINES}):
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
"""


def test_lines_of_the_web_server_are_bounded_too() -> None:
    """In a separate process, because the configuration of logs is global."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert BURST_LINES <= len(lines) < 1.5 * BURST_LINES
    assert json.loads(lines[0])["event"] == "Invalid HTTP request received."
