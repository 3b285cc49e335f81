"""Experiments over HTTP through a front: arms, signatures, attribution, and what a restart leaves."""

import asyncio
import collections
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from scipy.stats import binomtest

from service.storage.snapshots import live_versions
from tests.service.api.test_named_models import SETTINGS, end, written
from tests.service.local import Local, serving
from tests.service.planted import events

TYPES = "view=1,purchase=10,impression=seen"
ARMS = [{"model": "home-a", "share": 70}, {"model": "home-b", "share": 30.0}]
ALL = {**SETTINGS, "events": TYPES}
USERS = [f"u{n}" for n in range(60)]


class Shop:
    """A service with two models, which a test may start again."""

    def __init__(self, data: Path) -> None:
        self.data, self._stack = data, ExitStack()
        self.app: Local = self._stack.enter_context(serving(data, **ALL))

    def restart(self) -> None:
        self._stack.close()
        self.app = self._stack.enter_context(serving(self.data, **ALL))

    def close(self) -> None:
        self._stack.close()

    def put(self, name: str, body: dict[str, Any]) -> str:
        answer = self.app.request("PUT", f"/admin/experiments/{name}", json=body)
        assert answer.status_code == 202, answer.text
        return answer.json()["stream_id"]

    def shown(self, user: str, experiment: str = "home") -> dict[str, Any]:
        return self.app.get(f"/recommend/{user}", experiment=experiment, n=2).json()

    def send(self, *sent: tuple[str, str, str | None, str | None]) -> dict[str, Any]:
        """Post (user, type, recommendation id, event id) of one item."""
        names = "user", "type", "recommendation_id", "event_id"
        bodies = [{"item": "i3"} | {k: v for k, v in zip(names, one, strict=True) if v is not None} for one in sent]
        answer = self.app.post("/events", bodies).json()
        if answer["stream_id"]:
            self.app.get("/popular", wait_for=answer["stream_id"])
        return answer

    def report(self, name: str = "home") -> dict[str, Any]:
        return self.app.get(f"/admin/experiments/{name}").json()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    shop = Shop(tmp_path_factory.mktemp("shop") / "data")
    ratings = [{"user": one.user, "item": one.item, "rating": one.rating} for one in events()]
    for start in range(0, len(ratings), 1000):
        shop.app.post("/ratings", ratings[start : start + 1000])
    for name in ("home-a", "home-b"):
        written(shop.app, name)
    written(shop.app, "dark", shadow=True)
    shop.app.get("/popular", wait_for=shop.put("home", {"arms": ARMS, "salt": "s1"}))
    yield shop
    shop.close()


def test_only_users_who_pass_the_filter_take_part(shop: Shop) -> None:
    halves = [{"user": user, "tags": {"half": ["odd" if n % 2 else "even"]}} for n, user in enumerate(USERS)]
    shop.app.get("/popular", wait_for=shop.app.post("/users", halves).json()["stream_id"])
    odd = {"tag": "half", "in": ["odd"]}
    for name, filter_ in (("narrow", odd), ("wide", {"not": odd})):
        shop.app.get("/popular", wait_for=shop.put(name, {"arms": ARMS, "salt": "s1", "filter": filter_}))
        assert shop.report(name)["filter"] == filter_
    plain = shop.app.get("/recommend/u2", n=2).json()
    for n, user in enumerate(USERS[:20]):
        narrow, wide = shop.shown(user, "narrow"), shop.shown(user, "wide")
        taking_part, other = (narrow, wide) if n % 2 else (wide, narrow)
        assert taking_part["arm"] == shop.shown(user)["arm"] == taking_part["model"]
        assert not other.keys() & {"experiment", "arm", "recommendation_id"}
        assert other["model"] == plain["model"]
    pages = [shop.app.get("/recommend/u2", experiment="narrow", n=2, cursor="").json()]
    pages.append(shop.app.get("/recommend/u2", experiment="narrow", n=2, cursor=pages[0]["next"]).json())
    assert [len(page["items"]) for page in pages] == [2, 2]
    refused = shop.app.request(
        "PUT", "/admin/experiments/x", json={"arms": ARMS, "filter": {"tag": "typo", "in": ["a"]}}
    )
    assert refused.status_code == 422
    assert "expected a tag of users (half), got 'typo'" in refused.json()["detail"]
    # A user who leaves takes the last name along; the experiment goes on.
    shop.app.get(
        "/popular", wait_for=shop.app.request("PUT", "/users/lone", json={"tags": {"lone": ["x"]}}).json()["stream_id"]
    )
    shop.app.get("/popular", wait_for=shop.put("lone", {"arms": ARMS, "filter": {"not": {"tag": "lone", "in": ["x"]}}}))
    gone = shop.app.request("DELETE", "/admin/users/lone").json()["stream_id"]
    assert "arm" in shop.app.get("/recommend/u2", experiment="lone", wait_for=gone).json()


def test_each_user_has_one_arm_whose_model_answers(shop: Shop) -> None:
    answers = [shop.shown(user) for user in USERS]
    assert [answer["experiment"] for answer in answers] == ["home"] * len(USERS)
    assert all(answer["arm"] == answer["model"] for answer in answers)
    counts = collections.Counter(answer["arm"] for answer in answers)
    assert set(counts) == {"home-a", "home-b"}
    assert 30 < counts["home-a"] < 54  # of 60, about 42
    several = shop.app.post("/recommend", {"users": USERS, "n": 2, "experiment": "home"}).json()
    assert [one["arm"] for one in several] == [one["arm"] for one in answers]
    assert [one["items"] for one in several] == [one["items"] for one in answers]
    same = shop.app.post("/recommend/u1", {"n": 2, "experiment": "home"}).json()
    assert same["recommendation_id"] == answers[1]["recommendation_id"]  # a function of the stream
    shop.app.get("/popular", wait_for=shop.put("other", {"arms": ARMS}))
    assert [shop.shown(user, "other")["arm"] for user in USERS] != [one["arm"] for one in answers]
    assert "experiment" not in shop.app.get("/recommend/u1").json()


def test_events_are_attributed_and_survive_a_restart(shop: Shop) -> None:
    shop.app.get("/popular", wait_for=shop.put("home", {"arms": ARMS, "salt": "s2"}))  # counts begin at 0
    ids = {user: (shop.shown(user)["arm"], shop.shown(user)["recommendation_id"]) for user in USERS}
    sent: list[tuple[str, str, str | None, str | None]] = []
    expected: dict[str, dict[str, set[str]]] = {"home-a": {}, "home-b": {}}
    for n, user in enumerate(USERS[:50]):
        for kind in ["impression"] + ["view"] * (n % 3 == 0) + ["purchase"] * (n % 7 == 0):
            sent.append((user, kind, ids[user][1], f"{kind}-{n}"))
            expected[ids[user][0]].setdefault(kind, set()).add(user)
    sent.append(sent[0])  # delivered twice
    sent.append(("u1", "view", None, None))  # of no list
    assert shop.send(*sent)["rejected"] == []
    report = shop.report()
    for arm in report["arms"]:
        types = expected[arm["model"]]
        n_users = len(types["impression"])
        assert arm["users"] == n_users
        for kind in ("impression", "view", "purchase"):
            users = types.get(kind, set())
            interval = binomtest(len(users), n_users).proportion_ci(0.95, method="wilson")
            rate = arm["types"][kind]
            assert (rate["events"], rate["users"]) == (len(users), len(users))
            assert rate["rate"] == pytest.approx(len(users) / n_users)
            assert [rate["low"], rate["high"]] == pytest.approx([interval.low, interval.high])
    assert [one["type"] for one in report["differences"]] == ["impression", "purchase", "view"]
    for one in report["differences"]:
        first, other = (arm["types"][one["type"]]["rate"] for arm in report["arms"])
        assert one["model"] == "home-b"
        assert one["difference"] == pytest.approx(other - first)
        assert one["low"] <= one["difference"] <= one["high"]
    metrics = shop.app.get("/metrics").text
    assert 'nearfield_attributed_total{arm="home-a",experiment="home",type="view"}' in metrics
    shop.restart()
    again = shop.report()
    assert [arm | {"answered": 0} for arm in report["arms"]] == again["arms"]
    assert again["differences"] == report["differences"]
    assert shop.shown("u1")["arm"] == ids["u1"][0]
    user = next(user for user in USERS[:50] if ids[user][0] == "home-a")
    forgotten = shop.app.request("DELETE", f"/admin/users/{user}").json()["stream_id"]
    shop.app.get("/popular", wait_for=forgotten)
    assert shop.report()["arms"][0]["users"] == again["arms"][0]["users"] - 1


def test_a_signature_that_is_not_ours_is_refused_alone(shop: Shop) -> None:
    mine = shop.shown("u5")["recommendation_id"]
    content, signature = mine.split(".")
    bad = [f"{content}.{signature[:-4]}AAAA", f"{content[:-4]}AAAA.{signature}", content, "ä.ö", "x", "." * 9]
    sent = [("u5", "view", text, None) for text in bad]
    answer = shop.send(*sent, ("u6", "view", mine, None), ("u5", "view", mine, "once"))
    assert answer["accepted"] == 1
    assert [one["index"] for one in answer["rejected"]] == list(range(len(bad) + 1))
    reason = "Invalid recommendation_id: expected one that this service has given in an answer for this user"
    assert all(one["error"].startswith(reason) for one in answer["rejected"])
    alone = shop.app.post("/events", {"user": "u5", "item": "i3", "type": "view", "recommendation_id": "x"})
    assert (alone.status_code, alone.json()["detail"][:40]) == (422, reason[:40])


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"arms": [ARMS[0] | {"share": 100}]}, "Invalid body.arms: expected"),
        ({"arms": [ARMS[0], {"model": "home-b", "share": 20}]}, "expected shares that add up to 100, got 90"),
        ({"arms": [ARMS[0], {"model": "home-b", "share": 30.0001}]}, "add up to 100, got 100.0001"),
        ({"arms": [ARMS[0], ARMS[0] | {"share": 30}]}, "expected each model once, got home-a, home-a"),
        ({"arms": [ARMS[0], {"model": "nobody", "share": 30}]}, "expected a live one (home-a, home-b), got 'nobody'"),
        ({"arms": [ARMS[0], {"model": "dark", "share": 30}]}, "'dark' is a shadow"),
        ({"arms": [ARMS[0], {"model": "home-b", "share": -30}]}, "Invalid body.arms.1.share: expected"),
        ({"arms": ARMS, "weights": 1}, "Invalid body.weights: expected no such name"),
    ],
)
def test_bad_experiments_are_refused(shop: Shop, body: dict[str, Any], detail: str) -> None:
    refused = shop.app.request("PUT", "/admin/experiments/bad", json=body)
    assert refused.status_code == 422, refused.text
    assert detail in refused.json()["detail"]


def test_unknown_experiments_and_odd_requests_are_refused(shop: Shop) -> None:
    for answer in (shop.app.get("/admin/experiments/none"), shop.app.get("/recommend/u1", experiment="none")):
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:nearfield:problem:unknown-experiment")
        assert answer.json()["detail"].startswith("Invalid experiment: expected one of home")
    for model in ("home-a", "home-b"):  # the arm of the user as well
        both = shop.app.get("/recommend/u1", experiment="home", model=model)
        assert (both.status_code, "expected none with an experiment" in both.json()["detail"]) == (422, True)
    body = {"ratings": [{"item": "i1", "rating": 5}], "experiment": "home"}
    nobody = shop.app.post("/recommend", body)
    assert (nobody.status_code, "expected a user, whose id decides" in nobody.json()["detail"]) == (422, True)


def test_pages_of_an_experiment_go_on(shop: Shop) -> None:
    first = shop.app.get("/recommend/u3", experiment="home", n=2, cursor="").json()
    second = shop.app.get("/recommend/u3", experiment="home", n=2, cursor=first["next"]).json()
    assert (first["arm"], len(first["items"])) == (second["arm"], len(second["items"]))
    assert not {one["item"] for one in first["items"]} & {one["item"] for one in second["items"]}


def test_a_cursor_of_another_arm_is_gone(shop: Shop) -> None:
    most = [{"model": "home-a", "share": 99}, {"model": "home-b", "share": 1}]
    shop.app.get("/popular", wait_for=shop.put("flip", {"arms": most}))
    first = shop.app.get("/recommend/u3", experiment="flip", n=2, cursor="").json()
    assert (first["arm"], first["personalized"]) == ("home-a", True)
    turned = [{"model": "home-b", "share": 99.9}, {"model": "home-a", "share": 0.1}]
    shop.app.get("/popular", wait_for=shop.put("flip", {"arms": turned}))
    second = shop.app.get("/recommend/u3", experiment="flip", n=2, cursor=first["next"])
    assert (second.status_code, "another model than home-a: begin again" in second.json()["detail"]) == (410, True)


def test_an_experiment_ends(shop: Shop) -> None:
    shop.app.get("/popular", wait_for=shop.put("brief", {"arms": ARMS}))
    old = shop.shown("u7", "brief")["recommendation_id"]
    assert "brief" in {one["name"] for one in shop.app.get("/admin/experiments").json()["experiments"]}
    gone = shop.app.request("DELETE", "/admin/experiments/brief").json()["stream_id"]
    assert shop.app.get("/admin/experiments/brief", wait_for=gone).status_code == 404
    assert shop.send(("u7", "view", old, None))["accepted"] == 1  # learned, and attributed to nothing
    shop.app.get("/popular", wait_for=shop.put("brief", {"arms": ARMS}))
    assert {arm["users"] for arm in shop.report("brief")["arms"]} == {0}
    assert shop.report("brief")["differences"] == []


def test_arms_whose_model_is_away_sign_nothing(shop: Shop) -> None:
    assert "home-a" in live_versions.read(shop.data)
    unknown = shop.shown("nobody-yet")
    assert (unknown["personalized"], unknown["arm"]) == (False, unknown["model"])  # the arm has answered, by fallback


def test_an_arm_of_an_experiment_does_not_end(shop: Shop) -> None:
    written(shop.app, "arm")
    put = shop.put("running", {"arms": [{"model": "arm", "share": 50}, {"model": "home-a", "share": 50}]})
    refused = end(shop.app, "arm", wait_for=put)
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:nearfield:problem:model-in-use")
    assert "an arm of 'running'" in refused.json()["detail"]
    assert shop.app.get("/recommend/u1", model="arm").status_code == 200
    ended = shop.app.request("DELETE", "/admin/experiments/running").json()["stream_id"]
    assert end(shop.app, "arm", wait_for=ended).status_code == 202


def test_a_model_does_not_end_while_it_becomes_an_arm(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    written(shop.app, "late")
    append, checked = shop.app.runtime.writes.append, asyncio.Event()

    async def late(fields: Any) -> Any:
        checked.set()
        await asyncio.sleep(0.1)
        return await append(fields)

    async def both() -> tuple[httpx.Response, httpx.Response]:
        arms = {"arms": [{"model": "home-a", "share": 50}, {"model": "late", "share": 50}]}
        put = asyncio.ensure_future(shop.app._client.put("/admin/experiments/racing", json=arms))
        await checked.wait()
        return await shop.app._client.delete("/admin/models/late"), await put

    monkeypatch.setattr(shop.app.runtime.writes, "append", late)
    ended, put = shop.app._run(both())
    assert (ended.status_code, put.status_code) == (409, 202), (ended.text, put.text)
    shop.app.get("/popular", wait_for=shop.app.request("DELETE", "/admin/experiments/racing").json()["stream_id"])
