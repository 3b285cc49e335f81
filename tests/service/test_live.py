from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from service import live

NAMES = "abcdefghijklmnopqrst"
SUFFIX, OTHER = "-20260101T000000-beef", "-20260101T000001-beef"


def test_nothing_is_live_at_first(tmp_path: Path) -> None:
    assert live.read(tmp_path) == {}


def test_names_do_not_disturb_each_other(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: live.set_version(tmp_path, NAMES[n], f"{NAMES[n]}{SUFFIX}"), range(20)))
    assert live.read(tmp_path) == {name: f"{name}{SUFFIX}" for name in NAMES}
    live.set_version(tmp_path, "d", f"d{OTHER}")
    assert live.read(tmp_path)["d"] == f"d{OTHER}"
