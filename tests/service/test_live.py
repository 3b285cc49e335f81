from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from service import live


def test_nothing_is_live_at_first(tmp_path: Path) -> None:
    assert live.read(tmp_path) == {}


def test_names_do_not_disturb_each_other(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: live.set_version(tmp_path, f"name{n}", f"v{n}"), range(20)))
    assert live.read(tmp_path) == {f"name{n}": f"v{n}" for n in range(20)}
    live.set_version(tmp_path, "name3", "other")
    assert live.read(tmp_path)["name3"] == "other"
