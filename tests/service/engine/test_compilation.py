"""A start with a live model on a machine that has never compiled anything."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from numba.core.caching import _CacheLocator

from gpu.base.host.compilation import called_for, kernels
from gpu.base.host.declared import Use
from service.cli.client import Client
from service.cli.service_process import ServiceProcess
from service.engine import compilation
from tests.service.planted import events
from tests.service.waiting import eventually
from tests.service.whole import Whole

# A process that can write to no cache folder.
READ_ONLY = """
from numba.core import caching
def refuse(self):
    raise OSError(30, "Read-only file system", self.get_cache_path())
for locator in list(vars(caching).values()):
    if isinstance(locator, type) and hasattr(locator, "ensure_cache_path"):
        locator.ensure_cache_path = refuse
caching.IndexDataCacheFile.load = lambda self, key: None
caching.IndexDataCacheFile._load_index = lambda self: {}
import numpy as np
from gpu.data.host_rating_table import find
from service.engine import compilation
compilation.check_cache()
assert find(np.arange(3), 0, 3, 1) == 1  # compiled, and not kept
"""


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


MISSING = "exact", "host_item_index", "host_lists"  # modules: enough kernels to watch, and few to wait for
LONGEST = "online.host.exact.newest_of_users", "online.host.exact.solve_rows"  # kernels, as long as all others there


def copy_cache(folder: Path, missing: Sequence[str]) -> int:
    """Copy the cached kernels to `folder`, a `NUMBA_CACHE_DIR`, but those of the modules `missing`: their number.

    Those that take longest to compile are copied in any case.
    """
    n_missing = 0
    for name in [*compilation.needed("als"), *called_for({Use.READING})]:
        cache = kernels()[name]._cache
        if name.split(".")[-2] in missing and name not in LONGEST:
            n_missing += 1
            continue
        source = kernels()[name].py_func.__code__.co_filename
        to = folder / _CacheLocator.get_suitable_cache_subpath(source)
        to.mkdir(parents=True, exist_ok=True)
        for file in Path(cache.cache_path).glob(f"{cache._impl.filename_base}.*"):
            shutil.copy(file, to)
    return n_missing


@pytest.mark.timeout(900)  # the processes that compile have the lowest priority
def test_lists_are_popular_while_kernels_compile(redis_url: str, tmp_path: Path, port: int) -> None:
    data, errors = tmp_path / "data", tmp_path / "stderr"
    n_missing = copy_cache(tmp_path / "cache", MISSING)
    with Whole(redis_url, data) as whole:
        whole.send(events())
        whole.train("als", n_factors=8, n_epochs=2)
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NEARFIELD_LOG_FORMAT": "json"}
    environment |= {"NEARFIELD_WORKER": "false", "NEARFIELD_REDIS": redis_url}
    with (
        errors.open("wb") as log,
        ServiceProcess(data, port, environment=environment, log=log) as process,
        Client(f"http://127.0.0.1:{port}") as client,
    ):
        seen = watched(client)
        assert client.recommend("u1")["personalized"]
        assert process.stop() == 0
    assert_progress(seen)
    lines = [json.loads(line) for line in errors.read_text().splitlines() if line.startswith("{")]
    (line,) = [line for line in lines if line["event"].startswith("compiling kernels for als")]
    assert 8 < n_missing <= line["kernels"] <= len(compilation.needed("als"))
    assert line["about_seconds"] > 0
    warnings = {line["event"] for line in lines if line["level"] != "info"}
    assert {one for one in warnings if "signing key" not in one} <= {"request"}  # those that came too early


def watched(client: Client) -> list[tuple[str, dict]]:
    """(why it is not ready, list of a user) again and again until it is."""
    seen = []

    def is_ready() -> bool:
        try:
            ready = client.http.get("/health/ready")
        except httpx.TransportError:
            return False
        if ready.status_code == 503:
            asked = client.http.get("/recommend/u1")
            seen.append((ready.json()["reason"], asked.json() | {"status": asked.status_code}))
        return ready.status_code == 200

    eventually(is_ready, 800)
    return seen


def assert_progress(seen: list[tuple[str, dict]]) -> None:
    reasons = [reason for reason, _ in seen if reason.startswith("compiling kernels for als: ")]
    assert len(set(reasons)) > 5  # by kernel
    during = [answer for reason, answer in seen if reason in reasons]
    first = next(n for n, answer in enumerate(during) if answer["status"] == 200)
    assert all(answer["status"] == 200 for answer in during[first:])
    assert len(during[first:]) > len(during) / 2
    for answer in during[first:-1]:
        assert not answer["personalized"]
        assert answer["items"]
        assert "the model als is being prepared" in answer["warnings"][0]


def test_without_a_cache_folder_one_line_is_logged() -> None:
    done = subprocess.run([sys.executable, "-c", READ_ONLY], capture_output=True, text=True, timeout=200, check=True)
    assert "Traceback" not in done.stderr
    (line,) = done.stdout.splitlines()
    assert "compiled kernels cannot be kept" in line
    assert "set NUMBA_CACHE_DIR" in line
