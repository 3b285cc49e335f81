"""Several models of one algorithm by name, and shadows, over HTTP through a front."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.storage.snapshots import live_versions
from tests.service.local import Local, serving
from tests.service.planted import events
from tests.service.trained import train
from tests.service.waiting import eventually, learned

SMALL = {"n_factors": 4, "n_epochs": 2}
SETTINGS: dict[str, Any] = {"backend": "host", "default_models": ["culsh", "als-implicit"]}


def trained(app: Local, **body: Any) -> dict[str, Any]:
    return app.retrain("als-implicit", **{"params": SMALL, "force": True} | body)


def written(app: Local, name: str, *, shadow: bool = False, **params: int) -> str:
    """The version of a model that this process has trained, which is faster than a job; it is live on return."""
    data = app.runtime.settings.data
    runtime = app.runtime
    last_id = runtime._stream.last_id()
    runtime._stream.request_commit(last_id)
    eventually(lambda: runtime._rating_log.last_id() >= last_id)
    last = train(data, "als-implicit", SMALL | params, last_id, name=name)
    assert last.version is not None
    live_versions.activate(data, name, last.version, shadow=shadow)
    app.runtime.hotswap.poke()
    eventually(lambda: app.runtime.hotswap.served().get(name) == last.version)
    return last.version


def info(app: Local, version: str) -> dict[str, Any]:
    (found,) = [one for one in app.get("/admin/models").json()["models"] if one["version"] == version]
    return found


def model_of(app: Local, **parameters: Any) -> str:
    return app.get("/recommend/u1", **parameters).json()["model"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("named") / "data"


@pytest.fixture(scope="module")
def running(data: Path) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def app(data: Path, running: ExitStack) -> Local:
    local = running.enter_context(serving(data, **SETTINGS))
    ratings = [{"user": one.user, "item": one.item, "rating": one.rating} for one in events()]
    for start in range(0, len(ratings), 1000):
        local.post("/ratings", ratings[start : start + 1000])
    return local


def test_two_models_of_one_algorithm_answer_by_name(app: Local) -> None:
    job = trained(app, name="home-a")
    assert (job["state"], job["name"], job["algorithm"], job["shadow"]) == (
        "succeeded",
        "home-a",
        "als-implicit",
        False,
    )
    versions = {"home-a": job["version"], "home-b2": written(app, "home-b2", n_factors=6)}
    assert model_of(app) == "home-a"  # none has a name of the setting
    for name, version in versions.items():
        assert model_of(app, model=name) == name
        assert info(app, version)["name"] == name
        assert info(app, version)["algorithm"] == "als-implicit"
        assert app.get("/items/i1/neighbors", model=name).json()["model_version"] == version
        assert app.get("/estimate/u1/i1", model=name).json()["model"] == name
    written(app, "als-implicit")
    assert model_of(app) == "als-implicit"  # of the setting, and so first
    shown = f'nearfield_model_info{{algorithm="home-a",version="{versions["home-a"]}"}} 1.0'
    eventually(lambda: shown in app.get("/metrics").text)


def test_a_name_is_rolled_back_alone(app: Local) -> None:
    first, second = (written(app, "rolled") for _ in range(2))
    assert (info(app, first)["live"], info(app, second)["live"]) == (False, True)
    assert app.request("POST", f"/admin/models/{first}/activate").status_code == 202
    eventually(lambda: info(app, first)["live"])
    assert app.get("/recommend/u1", model="rolled").json()["model_version"] == first


def test_a_shadow_learns_and_is_tested_and_never_answers(app: Local) -> None:
    job = trained(app, name="dark", shadow=True, force=False)
    version = job["version"]
    assert (job["shadow"], job["promoted"]) == (True, True)
    assert (info(app, version)["live"], info(app, version)["shadow"]) == (False, True)
    assert "dark" not in {model_of(app), model_of(app, model="als-implicit")}
    for path in ("/recommend/u1", "/items/i1/neighbors", "/estimate/u1/i1"):
        refused = app.get(path, model="dark")
        assert (refused.status_code, refused.json()["type"]) == (404, "urn:nearfield:problem:unknown-model")
        assert refused.json()["detail"] == (
            "Invalid model: 'dark' is a shadow, which learns and is tested but never answers:"
            f" POST /admin/models/{version}/activate makes it answer"
        )
    news = [(f"u{n}", f"i{item}", 5.0) for n in range(60) for item in range(40) if not (7 * n + 3 * item) % 5]
    liked = [(user, item, value) for user, item, value in news if (int(user[1:]) + int(item[1:])) % 2 == 0]
    last = app.rate(*liked[:30])
    reports = [app.get(f"/admin/models/{name}/quality", wait_for=last).json() for name in ("dark", "home-a")]
    assert [report["all"]["n"] for report in reports] == [30, 30]
    assert reports[0]["all"]["baseline"] == reports[1]["all"]["baseline"]
    eventually(lambda: 'nearfield_model_shadow{model="dark"} 1.0' in app.get("/metrics").text)
    assert 'nearfield_model_quality{measure="hit_rate",model="dark"}' in app.get("/metrics").text
    again = written(app, "dark", shadow=True)
    assert info(app, again)["shadow"]
    assert app.request("POST", f"/admin/models/{again}/activate").status_code == 202
    eventually(lambda: info(app, again)["live"])
    assert app.get("/recommend/u1", model="dark").json()["model_version"] == again
    assert live_versions.read_all(app.runtime.settings.data).shadows == frozenset()


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        ({"name": "Home"}, 422, "Invalid name: expected a letter, then"),
        (
            {"name": "sgd"},
            422,
            "expected another one for a model of als-implicit, got 'sgd', an algorithm",
        ),
        ({"name": "sha256"}, 422, "Invalid name: expected none of"),
        ({"name": ""}, 422, "Invalid body.name: expected"),
        ({"name": "home-a", "shadow": True}, 409, "expected one that does not answer, got 'home-a'"),
    ],
)
def test_bad_names_are_refused(app: Local, body: dict[str, Any], status: int, detail: str) -> None:
    refused = app.post("/admin/retrain", {"algorithm": "als-implicit", **body})
    assert refused.status_code == status, refused.text
    assert detail in refused.json()["detail"]


def end(app: Local, name: str, **parameters: Any) -> httpx.Response:
    return learned(lambda: app.request("DELETE", f"/admin/models/{name}", params=parameters))


def test_a_name_ends_and_can_come_back(app: Local) -> None:
    version = written(app, "brief")
    news = [("u59", f"i{item}", 5.0) for item in range(1, 40, 2) if not (7 * 59 + 3 * item) % 5][-2:]
    last = app.rate(*news)
    quality = "/admin/models/brief/quality"
    assert app.get(quality, wait_for=last).json()["all"]["n"] == 2
    eventually(lambda: 'nearfield_model_shadow{model="brief"}' in app.get("/metrics").text)
    ended = end(app, "brief")
    assert (ended.status_code, ended.json()) == (202, {"name": "brief", "cancelled": []})
    for path in ("/recommend/u1", "/items/i1/neighbors", "/estimate/u1/i1"):
        gone, unknown = app.get(path, model="brief"), app.get(path, model="never")
        assert gone.status_code == unknown.status_code == 404
        assert gone.json()["type"] == "urn:nearfield:problem:unknown-model"
        assert gone.json()["detail"] == unknown.json()["detail"].replace("never", "brief")
    assert app.get(quality).status_code == 404
    assert not info(app, version)["live"]
    series = r'nearfield_(model_\w+|refits_waiting)\{.*="brief"'  # counters of its swaps stay
    eventually(lambda: not re.search(series, app.get("/metrics").text), 60)
    again = end(app, "brief")
    assert (again.status_code, "got 'brief'" in again.json()["detail"]) == (404, True)
    assert app.request("POST", f"/admin/models/{version}/activate").status_code == 202
    eventually(lambda: info(app, version)["live"])
    assert app.get(quality).json()["all"]["n"] == 0
    assert end(app, "brief").status_code == 202


def test_a_shadow_ends_and_never_answers(app: Local) -> None:
    written(app, "dim", shadow=True)
    assert end(app, "dim").status_code == 202
    assert app.get("/recommend/u1", model="dim").json()["detail"].endswith("got 'dim'")
    assert "dim" not in app.runtime.hotswap.served()
    assert "dim" not in live_versions.read_all(app.runtime.settings.data).shadows


def test_the_trainings_of_a_name_end_with_it(app: Local) -> None:
    written(app, "busy")
    endless = {"algorithm": "als-implicit", "name": "busy", "params": {**SMALL, "n_epochs": 10_000}, "force": True}
    job = app.post("/admin/retrain", endless).json()["id"]
    assert end(app, "busy").json() == {"name": "busy", "cancelled": [job]}
    assert app.ended_job(job)["state"] == "cancelled"
    assert "busy" not in live_versions.read(app.runtime.settings.data)
    assert app.get("/recommend/u1", model="busy").status_code == 404


def test_a_file_that_is_torn_or_gone_ends_nothing(app: Local, data: Path) -> None:
    path, served = data / live_versions.LIVE_FILE, app.runtime.hotswap.served()
    intact = path.read_bytes()
    path.write_bytes(intact[:-9])
    refused = end(app, "home-a")
    assert (refused.status_code, refused.json()["type"]) == (503, "urn:nearfield:problem:corrupt-live-file")
    app.runtime.hotswap.poke()
    eventually(lambda: app.get("/health/ready").status_code == 503)
    for content in (None, intact):
        path.unlink() if content is None else path.write_bytes(content)
        app.runtime.hotswap.poke()
        eventually(lambda: app.get("/health/ready").status_code == 200)
        assert app.runtime.hotswap.served() == served


def test_what_another_replica_ends_ends_here(app: Local, data: Path) -> None:
    written(app, "shared")
    live_versions.end(data, "shared")
    eventually(lambda: app.get("/recommend/u1", model="shared").status_code == 404)
    assert app.get("/recommend/u1", model="home-a").status_code == 200


def test_named_models_and_shadows_come_back_after_a_restart(app: Local, data: Path, running: ExitStack) -> None:
    version = written(app, "dusk", shadow=True)
    running.close()
    again = running.enter_context(serving(data, **{**SETTINGS, "default_models": ["dusk", "home-b2", "als-implicit"]}))
    assert again.runtime.hotswap.served() == live_versions.read(data)
    assert info(again, version)["shadow"]
    assert again.get("/recommend/u1", model="home-b2").json()["model"] == "home-b2"
    assert again.get("/recommend/u1", model="dusk").status_code == 404
    assert model_of(again) == "home-b2"  # the first of the setting that answers


def test_without_the_last_name_popular_items_answer(data: Path, running: ExitStack) -> None:
    """And no restart and no schedule brings it back."""
    running.close()
    settings: dict[str, Any] = {**SETTINGS, "retrain_every_ratings": 1, "retrain_share": 0.01}
    for _ in range(2):
        again = running.enter_context(serving(data, **settings))
        for name in again.runtime.hotswap.served():
            assert end(again, name).status_code == 202
        assert again.runtime.hotswap.served() == {}
        answer = again.get("/recommend/u1").json()
        assert (answer["personalized"], answer["model"]) == (False, None)
        assert any("no model is live" in warning for warning in answer["warnings"]), answer["warnings"]
        assert again.get("/recommend/u1", model="home-a").status_code == 404
        assert again.get("/health/ready").status_code == 200
        running.close()
    assert live_versions.read_all(data) == ({}, frozenset(), True)
