"""Backups of a running service and of a killed one: a restored service has every acknowledged rating, and its lists."""

from pathlib import Path
from typing import Any

import pytest

from service.__main__ import run
from service.storage.log.rating_log import RatingLog
from tests.service.planted import events
from tests.service.process import Service

PARAMS = {"n_factors": 8, "n_epochs": 3}


def answers(service: Service) -> list[Any]:
    """Lists, ratings and items, without what differs from request to request."""
    found = []
    for user in ("u0", "u1", "late"):
        found += [service.get(f"/recommend/{user}", n=20).json(), service.get(f"/users/{user}/ratings").json()]
    found.append(service.get("/items", n=1000).json())
    for one in found:
        for name in ("took_ms", "request_id", "as_of"):
            one.pop(name, None)
    return found


def test_a_restored_service_answers_as_the_one_that_was_backed_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = Service(tmp_path / "data")
    restored = None
    try:
        service.rate(*((one.user, one.item, one.rating or 1.0) for one in events()[:1000]))
        assert service.retrain("als", **PARAMS)["promoted"]
        running = service.rate(("late", "i1", 5.0), ("late", "i3", 5.0))
        assert run(["backup", "--data", str(service.data), "--out", str(tmp_path / "running.tar")]) == 0
        assert "without" not in capsys.readouterr().out
        service.client.put("/admin/items/i5/hidden")
        last = service.rate(("u1", "i2", 1.0), ("late", "i2", 1.5))
        service.api.wait_for(last)
        expected = answers(service)
        begun = service.get("/recommend/u0", n=4, cursor="").json()["next"]
        second = service.get("/recommend/u0", n=4, cursor=begun).json()["items"]
        assert second
        service.kill()
        assert str(RatingLog(service.data / "ratings").last_id()) < last  # Redis alone has the newest ones
        (service.data / "sets" / "shop").mkdir(parents=True)
        assert run(["backup", "--data", str(service.data), "--out", str(tmp_path / "stopped")]) == 0
        assert "without the data sets shop: back up each with --data-set\n" in capsys.readouterr().out

        for name, position in (("running.tar", running), ("stopped", last)):
            assert run(["restore", str(tmp_path / name), "--data", str(tmp_path / f"from-{name}")]) == 0
            assert str(RatingLog(tmp_path / f"from-{name}" / "ratings").last_id()) == position
        restored = Service(tmp_path / "from-stopped")
        assert answers(restored) == expected
        assert restored.get("/recommend/u0", n=4, cursor=begun).json()["items"] == second  # signed with the same key
        again = ["restore", str(tmp_path / "stopped"), "--data", str(restored.data)]
        assert run(again) == 1  # it is in use
        assert restored.rate(("u0", "i0", 2.0)) > last
    finally:
        service.kill()
        if restored is not None:
            restored.kill()
