"""Threads import nothing of what takes long and is shared: modules are imported before threads start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import results
from tests.service.planted import events
from tests.service.process import Service
from tests.service.waiting import eventually

N_STARTS, N_AT_ONCE = 50 if results.IS_LONG else 8, 4  # one shows an import; many show that none waits for another
SHARED = "scipy", "numba", "gpu", "pyarrow", "safetensors", "pandas", "cupy"

# A process that writes down each import of a thread other than the first, and in a service of the first, too, while
# there are others.
HOOK = """
import os, sys, threading

def note(event, arguments):
    if event == "import" and threading.active_count() > 1:
        thread = threading.current_thread().name
        if thread != "MainThread" or "serve" in sys.orig_argv:
            os.write(file, f"{arguments[0]} in {thread} of {' '.join(sys.orig_argv[1:4])}\\n".encode())

file = os.open(os.environ["TEST_IMPORTS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
sys.addaudithook(note)
"""

# What threads of a service do at its start, all at once, in forks of a process that has imported what `serve` imports.
STARTS = """
import faulthandler, importlib, os, sys, threading
import service.processes.process
from service.base import imports

N_STARTS, N_AT_ONCE, SHARED = {n_starts}, {n_at_once}, {shared}
seen = []

def note(event, arguments):
    if event == "import" and arguments[0].partition(".")[0] in SHARED:
        seen.append((threading.current_thread().name, arguments[0]))

def kernel():
    import numpy as np
    from gpu.data.host_rating_table import find
    assert find(np.arange(3), 0, 3, 1) == 1

def all_kernels():
    from gpu.base.host import compilation
    assert compilation.kernels()

def linear_algebra():
    importlib.import_module("scipy.linalg.cython_blas")

def files():
    import pyarrow as pa, pyarrow.parquet as pq
    pq.write_table(pa.table({{"id": pa.array(["a"])}}), buffer := pa.BufferOutputStream())
    assert pq.read_table(pa.BufferReader(buffer.getvalue()))["id"].to_pylist() == ["a"]
    importlib.import_module("safetensors.numpy")

def start():
    faulthandler.dump_traceback_later(60, exit=True)
    imports.for_models()
    sys.addaudithook(note)
    failures, barrier = [], threading.Barrier(4)
    def run(work):
        barrier.wait()
        try:
            work()
        except BaseException as error:
            failures.append(repr(error))
    threads = [threading.Thread(target=run, args=[work]) for work in (kernel, all_kernels, linear_algebra, files)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures or seen:
        print(failures, seen[:5], flush=True)
    os._exit(bool(failures or seen))

n_failed, running = 0, 0
for n in range(N_STARTS):
    if running == N_AT_ONCE:
        n_failed += os.wait()[1] != 0
        running -= 1
    if os.fork() == 0:
        start()
    running += 1
while running:
    n_failed += os.wait()[1] != 0
    running -= 1
sys.exit(n_failed)
"""


def test_starts_at_once_import_nothing_in_threads() -> None:
    code = STARTS.format(n_starts=N_STARTS, n_at_once=N_AT_ONCE, shared=SHARED)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=800, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_no_thread_of_a_service_imports_what_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at the start, also with a model, nor in a training, a swap, lists, an export and a report."""
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    seen = tmp_path / "imports"
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("TEST_IMPORTS", str(seen))
    service = Service(tmp_path / "data", backend="host", retrain_share=0)
    try:
        rated = [(one.user, one.item, one.rating) for one in events()[:900] if one.rating is not None]
        service.rate(*rated)
        assert service.retrain("als", n_factors=4, n_epochs=2)["promoted"]
        job = service.api.post("/admin/retrain", {"algorithm": "sgd", "params": {"n_factors": 4, "n_epochs": 2}})
        service.api.ended_job(job["id"])
        service.api.ended_job(service.api.post("/admin/lists", {"model": "als"})["id"])
        assert service.get("/admin/export", format="parquet").content
        arms = [{"model": name, "share": 50} for name in ("als", "sgd")]
        assert service.client.put("/admin/experiments/home", json={"arms": arms}).status_code == 202
        shown = eventually(lambda: service.get("/recommend/u1", experiment="home").json().get("recommendation_id"))
        viewed = {"user": "u1", "item": "i2", "type": "view", "recommendation_id": shown}
        service.api.wait_for(service.api.send_events(viewed)["stream_id"])
        assert service.get("/admin/experiments/home").json()["arms"]
        assert service.stop() == 0
        service.start()
        assert service.get("/recommend/u1").json()["personalized"]
    finally:
        service.kill()
    lines = seen.read_text().splitlines() if seen.exists() else []
    assert [line for line in lines if line.partition(" ")[0].partition(".")[0] in SHARED] == []
