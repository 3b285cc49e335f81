"""An item that nobody has rated, over HTTP, in one process and through a front."""

from collections.abc import Iterator
from typing import Any

import pytest

from service.storage.events import Entry, StreamId
from service.storage.item_changes import ItemChange
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions
from tests.service.local import Local, serving
from tests.service.logs import commit
from tests.service.planted import N_ITEMS, entries
from tests.service.trained import train


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    data, watermark = tmp_path_factory.mktemp("new") / "data", StreamId(9000, 0)
    genres = [ItemChange(f"i{n}", tags={"genre": [("war", "love")[n % 2]]}) for n in range(N_ITEMS)]
    commit(RatingLog(data / "ratings"), [*entries(), Entry(watermark, "item", items=genres)])
    last = train(data, "als-implicit", {"n_factors": 8, "n_epochs": 5}, watermark)
    live_versions.set_version(data, "als-implicit", str(last.version))
    with serving(data, backend="host", worker=False) as local:
        yield local


def test_an_unrated_item_is_recommended_to_the_fans_of_its_tags(app: Local) -> None:
    new = [{"item": "new-war", "tags": {"genre": ["war"]}}, {"item": "new-love", "tags": {"genre": ["love"]}}]
    written = app.post("/items", new).json()["stream_id"]
    for user, own, other in (("u2", "new-war", "new-love"), ("u3", "new-love", "new-war")):
        answer = app.get(f"/recommend/{user}", n=40, explain=True, wait_for=written).json()
        shown = [line["item"] for line in answer["items"]]
        assert answer["personalized"]
        assert own in shown[:3]
        assert shown.index(own) < shown.index(other)
        assert len(answer["items"][shown.index(own)]["reasons"]) == 3
    neighbors = app.get("/items/new-war/neighbors", n=3).json()["neighbors"]
    assert all(int(line["item"][1:]) % 2 == 0 for line in neighbors)
    gone = app.request("PATCH", "/items/new-war", json={"tags": None}).json()["stream_id"]
    answer = app.get("/recommend/u2", n=100, wait_for=gone).json()
    assert "new-war" not in [line["item"] for line in answer["items"]]


def explored(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    lines = answer.json()["items"]
    assert {line["source"] for line in lines if "source" in line} <= {"explore"}
    return [line["item"] for line in lines if "source" in line]


def test_a_share_of_the_places_goes_to_new_items(app: Local) -> None:
    tastes = "war", "love"
    new = [{"item": f"unrated-{n}", "tags": {"genre": [tastes[n % 2]], "shelf": ["new"]}} for n in range(6)]
    written = app.post("/items", new).json()["stream_id"]
    plain = app.get("/recommend/u2", n=12, wait_for=written).json()["items"]
    answer = app.get("/recommend/u2", n=12, explore=0.25)
    chosen = explored(answer)
    assert len(chosen) == 3
    assert {*chosen} <= {"new-love", *(one["item"] for one in new)}
    shown = [line["item"] for line in answer.json()["items"]]
    assert len({*shown}) == 12
    others = [line["item"] for line in plain if line["item"] not in chosen]
    assert [item for item in shown if item not in chosen] == others[:9]
    pages = [app.get("/recommend/u2", n=4, offset=first, explore=0.25).json()["items"] for first in (0, 4, 8)]
    assert [line for page in pages for line in page] == answer.json()["items"]
    assert explored(app.post("/recommend/u2", {"n": 12, "explore": 0.25, "explore_below": 20})) == chosen
    filtered = app.post("/recommend/u2", {"explore": 1, "filter": {"tag": "shelf", "in": ["new"]}})
    assert len(explored(filtered)) == 6


def test_several_and_anonymous_users_explore_and_fallbacks_do_not(app: Local) -> None:
    written = app.post("/items", [{"item": "several", "tags": {"genre": ["war"]}}]).json()["stream_id"]
    users = ["u2", "nobody", "u5"]
    lists = app.post("/recommend", {"users": users, "n": 8, "explore": 0.5, "wait_for": written}).json()
    counts = [len([line for line in one["items"] if "source" in line]) for one in lists]
    assert (counts[1], counts[0] > 0, counts[2] > 0) == (0, True, True)
    rated = [{"item": "i0", "rating": 5}]
    assert explored(app.post("/recommend", {"ratings": rated, "explore": 1}))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("explore", 1.5, "at most 1.0"),
        ("explore", -0.1, "0.0 or more"),
        ("explore", "nan", "finite"),
        ("explore_below", 0, "1 or more"),
        ("explore_below", 21, "at most 20"),
    ],
)
def test_a_share_and_a_number_have_bounds(app: Local, name: str, value: object, expected: str) -> None:
    for answer in (app.get("/recommend/u2", **{name: value}), app.post("/recommend", {"users": ["u2"], name: value})):
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["place"].endswith(name)
        assert expected in answer.json()["errors"][0]["error"]
