"""One process per data folder."""

import os
import subprocess
import sys

import pytest

from service.storage.errors import DataInUse
from service.storage.files import DataLock
from tests.service.storage.test_files import n_open

HOLD = (
    "import sys; from pathlib import Path; from service.storage.files import DataLock; "
    "lock = DataLock(Path(sys.argv[1]))"
)


def test_a_second_holder_is_refused_with_the_pid_of_the_first(tmp_path):
    data = tmp_path / "new" / "data"
    DataLock(data).release()
    (data / ".lock").write_text("9" * 20)  # as a process with a longer number leaves it
    lock = DataLock(data)
    before = n_open()
    with pytest.raises(DataInUse, match=f"in use by process {os.getpid()}:"):
        DataLock(data)
    assert n_open() == before
    lock.release()
    DataLock(data).release()


def test_death_frees_the_lock(tmp_path):
    subprocess.run([sys.executable, "-c", HOLD + "; import os; os._exit(9)", str(tmp_path)], check=False)
    DataLock(tmp_path).release()
