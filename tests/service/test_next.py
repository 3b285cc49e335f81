"""`next` served: the order of a user's items decides the list, at once, and a restart or a forgetting keeps to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gpu.next.walks import histories_of, walks
from tests.service.local import Local, serving

START_S = 1_000_000_000
CHOSEN = {"decay_items": 1.5, "old_weight": 0.0, "regularization": 0.5}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("next") / "data"


@pytest.fixture(scope="module")
def app(data: Path) -> Iterator[Local]:
    """Users mostly go from i0 to i1 to i2 and so on; their ratings arrive in any order, with times."""
    with serving(data, backend="host") as local:
        ratings = [
            {"user": f"u{user}", "item": f"i{item}", "rating": 1 + (user + place) % 5, "timestamp": START_S + place}
            for user, history in enumerate(histories_of(*walks()))
            for place, item in enumerate(history)
        ]
        for start in range(0, len(ratings), 1000):
            local.post("/ratings", ratings[::-1][start : start + 1000])
        job = local.retrain("next", params=CHOSEN)
        assert (job["state"], job["promoted"]) == ("succeeded", True), job
        yield local


def shown(app: Local, user: str, **options: object) -> list[str]:
    answer = app.get(f"/recommend/{user}", model="next", **options)
    assert answer.status_code == 200, answer.text
    return [one["item"] for one in answer.json()["items"]]


def test_the_item_rated_last_decides_what_comes_next(app: Local) -> None:
    for last in (4, 20, 11):
        stream_id = app.rate(("fresh", f"i{last}", 1.0))
        assert shown(app, "fresh", n=1, wait_for=stream_id) == [f"i{last + 1}"]


def test_a_rating_with_an_older_time_comes_before_newer_ones(app: Local) -> None:
    app.rate(("late", "i4", 5.0))
    old = {"user": "late", "item": "i20", "rating": 5, "timestamp": START_S}
    stream_id = app.post("/ratings", old).json()["stream_id"]
    assert shown(app, "late", n=2, wait_for=stream_id) == ["i5", "i21"]


def test_the_order_of_posted_ratings_counts(app: Local) -> None:
    def posted(*items: str) -> list[str]:
        body = {"model": "next", "n": 2, "ratings": [{"item": item, "rating": 3} for item in items]}
        return [one["item"] for one in app.post("/recommend", body).json()["items"]]

    assert posted("i20", "i4") == ["i5", "i21"]
    assert posted("i4", "i20") == ["i21", "i5"]


def test_reasons_add_up_and_name_the_last_item_first(app: Local) -> None:
    stream_id = app.rate(("why", "i20", 5.0), ("why", "i4", 5.0))
    first = app.get("/recommend/why", model="next", n=1, explain=True, wait_for=stream_id).json()["items"][0]
    assert first["reasons"][0]["item"] == "i4"
    assert sum(one["contribution"] for one in first["reasons"]) >= first["score"] - 1e-6


def test_neighbors_of_an_item_are_what_comes_next(app: Local) -> None:
    there = app.get("/items/i4/neighbors", model="next", n=1).json()["neighbors"]
    back = app.get("/items/i5/neighbors", model="next", n=1).json()["neighbors"]
    assert [one["item"] for one in (*there, *back)] == ["i5", "i6"]


def test_a_list_is_whole_without_what_a_filter_leaves_out(app: Local) -> None:
    stream_id = app.rate(("filtered", "i4", 5.0))
    whole = shown(app, "filtered", n=29, wait_for=stream_id)
    assert len(whole) == 29
    assert shown(app, "filtered", n=29, exclude=["i5"]) == [item for item in whole if item != "i5"]


def test_the_last_rating_of_each_user_judges_the_model(app: Local) -> None:
    job = app.retrain("next", params=CHOSEN)
    assert job["metrics"]["ndcg@10"] > 2 * job["metrics"]["baseline_ndcg@10"]


def test_a_forgotten_user_is_new_and_others_keep_their_lists(app: Local) -> None:
    stream_id = app.rate(("stays", "i20", 5.0), ("stays", "i4", 5.0), ("goes", "i4", 5.0))
    before = shown(app, "stays", n=29, wait_for=stream_id)
    answer = app.request("DELETE", "/admin/users/goes")
    assert answer.status_code == 202, answer.text
    stream_id = app.rate(("goes", "i20", 5.0))
    assert shown(app, "goes", n=1, wait_for=stream_id) == ["i21"]
    assert shown(app, "stays", n=29) == before
