"""Forged snapshots: each is refused with a sentence, or makes finite lists; none ends the process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpu.algorithms import ALGORITHMS

STEP = 8


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_forged_snapshot_is_refused_or_makes_finite_lists(tmp_path: Path, algorithm: str) -> None:
    command = [sys.executable, "-m", "tests.service.storage.snapshots.fuzz", algorithm, str(tmp_path), str(STEP)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    assert ended.returncode == 0, f"{ended.stdout[-300:]}\n{ended.stderr[-3000:]}"
    result = json.loads(ended.stdout.splitlines()[-1])
    assert result["failed"] == []
    assert result["tried"] >= 100
    assert result["tried"] / 2 < result["refused"] < result["tried"]
