"""Several models of one algorithm by name, and shadows, over HTTP through a front."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from service.jobs import trainer
from service.storage import live_versions
from tests.service.local import Local, serving
from tests.service.planted import events
from tests.service.waiting import eventually

SMALL = {"n_factors": 4, "n_epochs": 2}
SETTINGS: dict[str, Any] = {"front": True, "backend": "host", "default_models": ["culsh", "als-implicit"]}
ENDED = "succeeded", "failed", "cancelled"


def trained(app: Local, **body: Any) -> dict[str, Any]:
    answer = app.post("/admin/retrain", {"algorithm": "als-implicit", "params": SMALL, "force": True, **body})
    assert answer.status_code == 202, answer.text
    job = answer.json()["id"]
    eventually(lambda: app.get(f"/admin/jobs/{job}").json()["state"] in ENDED, 60)
    return app.get(f"/admin/jobs/{job}").json()


def written(app: Local, name: str, *, shadow: bool = False, **params: int) -> str:
    """The version of a model that this process has trained, which is faster than a job; it is live on return."""
    data = app.runtime.settings.data
    runtime = app.runtime
    last_id = runtime._stream.last_id()
    runtime._stream.request_commit(last_id)
    eventually(lambda: runtime._rating_log.last_id() >= last_id)
    text = msgspec.json.encode(SMALL | params).decode()
    last = trainer.train(data, "als-implicit", text, str(last_id), "host", lambda message: None, name=name)
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


def test_named_models_and_shadows_come_back_after_a_restart(app: Local, data: Path, running: ExitStack) -> None:
    version = written(app, "dusk", shadow=True)
    running.close()
    again = running.enter_context(serving(data, **SETTINGS))
    assert again.runtime.hotswap.served() == live_versions.read(data)
    assert info(again, version)["shadow"]
    assert again.get("/recommend/u1", model="home-b2").json()["model"] == "home-b2"
    assert again.get("/recommend/u1", model="dusk").status_code == 404
    assert model_of(again) == "als-implicit"
