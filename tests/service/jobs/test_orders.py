"""Orders of replicas, as the worker carries them out."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gpu
from service.jobs.orders import Orders
from service.jobs.table import JobTable
from service.storage.snapshots import live_versions, snapshot

OLD, NEW = "als-20260131T120000-1a2b", "als-20260201T120000-3c4d"


@pytest.fixture
def table(redis_url: str) -> Iterator[JobTable]:
    table = JobTable(redis_url)
    yield table
    table.close()


def test_orders_are_carried_out_in_turn_and_bad_ones_hold_nothing_up(
    table: JobTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = gpu.fit(
        gpu.Ratings.from_coo(np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.float32), (1, 1)),
        gpu.params_for("als", {"n_factors": 4, "n_epochs": 1}),
    )
    for version in (OLD, NEW):
        snapshot.write(tmp_path / "snapshots", model, ["u"], ["i"], metrics={}, watermark="0-0", version=version)
    live_versions.set_version(tmp_path, "als", NEW)
    (tmp_path / "snapshots" / NEW / "users.parquet").write_bytes(b"torn")
    orders = Orders(table, tmp_path)
    for text in (f"activate {OLD}", f"activate {NEW}", "activate ../../x", "dance", "end nothing"):
        table.order(text)
    while orders.step():
        pass
    assert live_versions.read(tmp_path) == {"als": OLD}
    said = capsys.readouterr().out
    assert [one in said for one in ("has SHA-256", "there is no snapshot", "expected activate or end")] == [True] * 3
    table.order("end als")
    assert orders.step()
    assert live_versions.read(tmp_path) == {}
    assert json.loads((tmp_path / live_versions.LIVE_FILE).read_text()).keys() == {"sha256"}
