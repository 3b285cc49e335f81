"""`small_disk`: a file system that is soon full."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

TMPFS_BYTES = 4 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "none", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only who may mount can make a small file system; see the test with a fault point")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)
