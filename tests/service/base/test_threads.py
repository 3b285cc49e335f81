import subprocess
import sys

import pytest

from service.base import threads

PROGRAM = """
from service.base import tuning
tuning.configure()
import numpy
from threadpoolctl import threadpool_info
tuning.limit_blas()
print([one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"])
from tests.service.rehearsal import rehearse_model
rehearse_model("sgd")
import numba
print(numba.config.THREADING_LAYER)
"""


def test_linear_algebra_has_one_thread_and_kernels_use_openmp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_THREADING_LAYER")  # which the tests set too
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split("\n")[:2] == ["[1]", "omp"]


def test_a_part_whose_end_cannot_be_logged_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Log:
        def critical(self, *_: object, **__: object) -> None:
            raise OSError("no space")

    def run() -> None:
        raise ValueError("ended")

    reported: list[BaseException] = []
    monkeypatch.setattr(threads, "_log", Log())
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    part = threads.PartThread("part", run, reported.append)
    part.start()
    part.join()
    assert [str(error) for error in reported] == ["ended"]
