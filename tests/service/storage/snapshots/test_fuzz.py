"""Forged snapshots: each is refused with a sentence, or makes finite lists; none ends the process."""

import json
import subprocess
import sys
from pathlib import Path

from gpu.algorithms import ALGORITHMS

STEP = 8


def test_a_forged_snapshot_is_refused_or_makes_finite_lists(tmp_path: Path) -> None:
    program = ["tests.service.storage.snapshots.fuzz", str(tmp_path), str(STEP), *ALGORITHMS]
    ended = subprocess.run([sys.executable, "-m", *program], capture_output=True, text=True, timeout=800, check=False)
    assert ended.returncode == 0, f"{ended.stdout[-300:]}\n{ended.stderr[-3000:]}"
    results = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    assert len(results) == len(ALGORITHMS)
    for result in results:
        assert result["failed"] == []
        assert result["tried"] >= 100
        assert result["tried"] / 2 < result["refused"] < result["tried"]
