"""Log lines that clients can cause are limited, and lines that cannot be written fail nobody."""

import json
import os
import subprocess
import sys
from pathlib import Path

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


LOGS = """
import logging
import structlog
from service.telemetry import logs

logs.configure("info", "json")
for log in (structlog.get_logger(), logging.getLogger("uvicorn.error")):
    log.warning("w" * 10_000)
    log.error("e")
print("went on")
"""


@pytest.mark.parametrize("kind", ["full disk", "pipe that nobody reads", "closed"])
def test_lines_that_cannot_be_written_fail_nobody(kind: str) -> None:
    if kind == "pipe that nobody reads":
        unread, stderr = os.pipe()
        os.close(unread)
    else:
        stderr = os.open("/dev/full", os.O_WRONLY)
    closed = "import os\nos.close(2)\n" if kind == "closed" else ""
    command = [sys.executable, "-c", closed + LOGS]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, check=True)
    os.close(stderr)
    assert done.stdout == "went on\n"


CUT = """
import resource
import structlog
from service.telemetry import logs

logs.configure("info", "json")
log = structlog.get_logger()
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (20, most))
log.info("a line of which 20 bytes have room")
log.info("a line without room")
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
log.info("a whole line")
log.info("another")
"""


def test_a_line_that_was_cut_spoils_no_later_one(tmp_path: Path) -> None:
    file = tmp_path / "stderr"
    with file.open("wb") as stderr:
        subprocess.run([sys.executable, "-c", CUT], stderr=stderr, check=True)
    cut, *whole = file.read_text().splitlines()
    assert len(cut) == 20
    assert [json.loads(line)["event"] for line in whole] == ["a whole line", "another"]
