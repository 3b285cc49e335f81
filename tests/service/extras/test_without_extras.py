"""A service without any extra is whole: it lacks what extras add, and nothing else."""

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from service import extras
from service.cli.client import Client
from service.processes import parts
from tests.service import fork_server
from tests.service.process import ForkedService
from tests.service.waiting import eventually

RATINGS = [
    {"user": f"u{user}", "item": f"i{(user + step) % 12}", "rating": 1 + step % 5}
    for user in range(30)
    for step in range(8)
]
TRAINING: dict[str, Any] = {"algorithm": "als", "params": {"n_factors": 4, "n_epochs": 2}}
OF_EXTRAS = [
    ("GET", "/console/"),
    ("GET", "/admin/experiments"),
    ("PUT", "/admin/experiments/one"),
    ("GET", "/admin/experiments/one"),
    ("DELETE", "/admin/experiments/one"),
    ("GET", "/admin/export"),
    ("GET", "/admin/exports"),
    ("POST", "/admin/lists"),
    ("GET", "/admin/schedules"),
    ("GET", "/admin/webhooks"),
    ("DELETE", "/admin/webhooks/one"),
]


def without_extras(*arguments, **settings):
    """Run `nearfield` with an empty list of extras: its status, what it prints, and its errors."""
    return fork_server.ran(arguments, extras=(), **settings)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("without") / "data") as client:
        yield client


@contextlib.contextmanager
def serving(data, *names, **settings):
    """A client of a service that has these extras alone."""
    with data.with_suffix(".stderr").open("ab") as errors:
        service = ForkedService(data, os.environ | settings, errors, extras=names)
    try:
        with Client(service.address()) as client:
            yield client
    finally:
        assert service.stop() == 0


def test_ratings_trainings_lists_and_forgetting_work(client):
    stream_id = client.rate(RATINGS)["stream_id"]
    job = client.ended_job(client.start_training("als-implicit", {"n_factors": 8, "n_epochs": 2})["id"])
    assert (job["state"], job["promoted"]) == ("succeeded", True)
    answer = client.http.get("/recommend/u1", params={"wait_for": stream_id}).json()
    assert (answer["personalized"], answer["model"]) == (True, "als-implicit")
    refused = client.http.get("/recommend/u1", params={"experiment": "home"})
    assert refused.status_code == httpx.codes.UNPROCESSABLE_ENTITY
    assert refused.json()["detail"] == (
        "Invalid experiment: expected none, because this service has no extra for experiments, got 'home'"
    )
    client.rate([{"user": "u1", "item": answer["items"][0]["item"], "rating": 5}])
    forgotten = client.http.delete("/admin/users/u1").json()
    eventually(lambda: client.http.get(f"/admin/jobs/{forgotten['job']}").json()["state"] == "succeeded")
    client.wait_for(forgotten["stream_id"])
    assert client.http.get("/users/u1/ratings").status_code == httpx.codes.NOT_FOUND


def test_what_experiments_have_written_outlives_a_service_without_them(tmp_path):
    """Documents and events are read and kept; events with an id count although nobody counted when they came."""
    options = {"NEARFIELD_EVENTS": "view=1", "NEARFIELD_RETRAIN_SHARE": "0"}
    users, arms = [f"u{user}" for user in range(30)], ("als", "home-b")
    with serving(tmp_path / "data", "experiments", **options) as client:
        client.rate(RATINGS)
        for name in arms:
            assert client.ended_job(client.post("/admin/retrain", TRAINING | {"name": name})["id"])["promoted"]
        body = {"arms": [{"model": name, "share": 50} for name in arms]}
        put = client.http.put("/admin/experiments/home", json=body).json()["stream_id"]
        client.http.put("/admin/scenarios/front", json={"experiment": "home"})
        assert client.http.get("/console/experiments").status_code == httpx.codes.NOT_FOUND
        client.wait_for(put)
        shown = [client.recommend(user, experiment="home") for user in users]
        client.send_events([_view(one) for one in shown[:20]])
    with serving(tmp_path / "data", **options) as client:
        assert client.recommend("u1", model="home-b")["personalized"]
        refused = client.http.get("/recommend/u1", params={"scenario": "front"})
        assert "no extra for experiments, got 'home' (with the scenario 'front')" in refused.json()["detail"]
        sent = client.send_events([_view(one) for one in shown[20:]] + [_view(shown[0], user="u1")])
        assert (sent["accepted"], [one["index"] for one in sent["rejected"]]) == (10, [10])
        client.wait_for(client.http.delete("/admin/users/u25").json()["stream_id"])
        client.http.post("/admin/users/u3/merge", json={"from": "u4"})
        eventually(lambda: {one["state"] for one in client.get("/admin/jobs")["jobs"]} == {"succeeded"})
        again = client.post("/admin/retrain", TRAINING | {"name": "home-b", "force": True})
        assert client.ended_job(again["id"])["state"] == "succeeded"
    with serving(tmp_path / "data", "experiments", **options) as client:
        report = client.get("/admin/experiments/home")
        assert report["stream_id"] == put
        gone = {"u25", "u4"}
        for arm in report["arms"]:
            of_arm = {one["user"] for one in shown if one["arm"] == arm["model"]}
            into = 1 if "u4" in of_arm and "u3" not in of_arm else 0
            assert (arm["users"], arm["types"]["view"]["events"]) == (len(of_arm - gone) + into, len(of_arm - {"u25"}))
        assert [client.recommend(user, experiment="home")["arm"] for user in users] == [one["arm"] for one in shown]


def _view(shown, **fields):
    view = {"user": shown["user"], "item": "i1", "type": "view", "recommendation_id": shown["recommendation_id"]}
    return view | fields


@pytest.mark.parametrize("names", [("console",), ("console", "experiments")])
def test_the_console_has_a_page_of_each_extra_that_is_there(tmp_path, names):
    with serving(tmp_path / "data", *names) as client:
        overview, page = (client.http.get(f"/console/{name}") for name in ("overview", "experiments"))
    assert overview.status_code == httpx.codes.OK
    links = re.findall(r'<a href="(\w+)"', overview.text.partition("<nav>")[2].partition("</nav>")[0])
    has_page = "experiments" in names
    assert links == ["overview", "models", "jobs", "imports", "users", "items", *["experiments"] * has_page, "access"]
    assert page.status_code == (httpx.codes.OK if has_page else httpx.codes.NOT_FOUND)
    assert ("begins one" in page.text, "expected a page of the console" in page.text) == (has_page, not has_page)


def test_routes_of_extras_are_absent(client):
    for method, path in OF_EXTRAS:
        answer = client.http.request(method, path, json={} if method == "POST" else None)
        assert answer.status_code == httpx.codes.NOT_FOUND, (method, path, answer.text)
    documented = client.http.get("/openapi.json").json()["paths"]
    paths = "/admin/experiments", "/admin/webhooks", "/admin/export", "/admin/lists"
    assert not {path for path in documented if path.startswith(paths)}
    assert "409" not in documented["/admin/models/{name}"]["delete"]["responses"]


def test_commands_of_extras_are_absent():
    _, text, _ = without_extras("--help")
    assert "serve" in text
    assert not {"bridge", "cluster", "push", "pull", "export"} & {
        line.split()[0] for line in text.splitlines() if line.strip()
    }


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("NEARFIELD_STORE", "file:///nowhere", "Invalid store: expected none, because this service has no extra"),
        ("NEARFIELD_TRACES", "true", "Invalid traces: expected false, because this service has no extra"),
        ("NEARFIELD_TRAINER_RANKS", "2", "Invalid trainer_ranks: expected 1, because this service has no extra"),
        ("NEARFIELD_SCHEDULES", "0 3 * * * train als", "Invalid schedules: expected none, because this service has no"),
        ("NEARFIELD_CLUSTER", "tcp://127.0.0.1:1", "Invalid cluster: expected none, because this service has no extra"),
    ],
)
def test_a_setting_that_needs_an_extra_is_refused(tmp_path, variable, value, reason):
    status, _, errors = without_extras("serve", "--data", str(tmp_path / "data"), **{variable: value})
    assert status == 2
    assert reason in errors


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_both_commands_refuse_such_a_setting(tmp_path, command):
    settings = {"NEARFIELD_TRAINER_RANKS": "2", "NEARFIELD_DATA": str(tmp_path / "data")}
    status, _, errors = without_extras(command, **settings)
    assert (status, "Invalid trainer_ranks: expected 1" in errors) == (2, True)


def test_a_training_on_a_file_is_one_process(tmp_path):
    file = tmp_path / "ratings.csv"
    file.write_text(
        "".join(f"u{user},i{(user + step) % 12},{1 + step % 5}\n" for user in range(30) for step in range(8))
    )
    options = ["train", "--ratings", str(file), "--algorithm", "als", "--set", "n_epochs=2"]
    assert without_extras(*options)[0] == 0
    status, _, errors = without_extras(*options, "--ranks", "2")
    assert status == 2
    assert "expected --ranks 1, because this service has no extra for ranks, got 2" in errors


def test_each_extra_registers_itself():
    folders = {path.name for path in Path(extras.__file__).parent.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert {register.__module__.rpartition(".")[2] for register in parts.EXTRAS} == folders
