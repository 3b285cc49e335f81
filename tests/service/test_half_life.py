"""`half_life_days` over HTTP; and of a service on a device, where the host serves such models of gradient descent."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu.base.backend import Backend
from service.engine.models.model_info import place_of
from tests.service.local import Local, serving
from tests.service.planted import events
from tests.service.whole import Whole

YEAR_S, MOST_DAYS = 365 * 86_400, 1e6
SHORT = {"n_factors": 4, "n_epochs": 1}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """Everybody's likes are new; `mover` liked even items a year ago, and likes odd ones now."""
    with serving(tmp_path_factory.mktemp("aged") / "data", backend="host") as local:
        now = time.time()
        ratings = [{"user": one.user, "item": one.item, "rating": one.rating} for one in events()]
        ratings += [{"user": "mover", "item": f"i{n}", "rating": 5, "timestamp": now - YEAR_S} for n in (2, 4, 6, 8)]
        ratings += [{"user": "mover", "item": f"i{n}", "rating": 5} for n in (3, 5)]
        for start in range(0, len(ratings), 1000):
            local.post("/ratings", ratings[start : start + 1000])
        yield local


def test_the_likes_of_a_year_ago_decide_nothing(app: Local) -> None:
    job = app.retrain("ease", name="aged", params={"half_life_days": 30}, force=True)
    assert job["state"] == "succeeded", job
    assert job["calibration"]["as_of_s"] > time.time() - 600
    assert 0.5 < job["calibration"]["usual_weight"] < 1
    answer = app.get("/recommend/mover", n=5, model="aged").json()
    assert answer["model_version"] == job["version"]
    assert [int(one["item"][1:]) % 2 for one in answer["items"]] == [1] * 5


@pytest.mark.parametrize("algorithm", ["als", "nmf", "esgd"])
def test_other_algorithms_refuse_it_by_name(app: Local, algorithm: str) -> None:
    answer = app.post("/admin/retrain", {"algorithm": algorithm, "params": {"half_life_days": 30}})
    assert answer.status_code == 422
    assert f"Invalid parameter of {algorithm}: " in answer.json()["detail"]
    assert "got 'half_life_days'" in answer.json()["detail"]


class Unused(Backend):
    """A device that no model may use: there is no CuPy to use it with."""

    def release(self) -> None:
        """Do nothing: no memory is taken."""


def test_a_service_on_a_device_serves_such_a_model_on_the_host(redis_url: str, tmp_path: Path) -> None:
    with Whole(redis_url, tmp_path, backend=Unused("device", "under test")) as whole:
        whole.send(events())
        whole.train("sgd", n_factors=8, n_epochs=20, half_life_days=MOST_DAYS)
        assert all(int(item[1:]) % 2 == 0 for item in whole.shown("u0", n=3))
        whole.rate(("new", "i0", 5.0), ("new", "i2", 5.0), ("new", "i1", 1.0))
        assert all(int(item[1:]) % 2 == 0 for item in whole.shown("new", n=3))


def test_the_kernels_of_such_a_model_are_those_of_the_host(redis_url: str, tmp_path: Path) -> None:
    device = Backend("device", "under test")
    with Whole(redis_url, tmp_path) as whole:
        whole.send(events())
        versions = {days: whole.trained("sgd", **SHORT, half_life_days=days) for days in (None, MOST_DAYS)}
        implicit = whole.trained("als-implicit", **SHORT, half_life_days=MOST_DAYS)
    places = {days: place_of(tmp_path / "snapshots", "home", version, device) for days, version in versions.items()}
    assert places[None] == ("sgd", device)
    assert (places[MOST_DAYS][0], places[MOST_DAYS][1].name) == ("sgd", "host")
    assert place_of(tmp_path / "snapshots", "home", implicit, device) == ("als-implicit", device)
    assert place_of(tmp_path / "snapshots", "home", "sgd-20260101T000000-0000", device) == ("home", device)
