"""Rules of lists over HTTP: a real service with two front processes and a trained model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from service.cli import synthetic
from tests.service.process import Service

USER = "synthetic-viewer-0000"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    drawn = synthetic.planted(0, 60, 150)
    rows = zip(drawn.viewers.tolist(), drawn.items.tolist(), drawn.ratings.tolist(), strict=True)
    ratings = [(drawn.viewer_id(user), drawn.item_id(item), rating) for user, item, rating in rows]
    made = Service(tmp_path_factory.mktemp("rules") / "data", fronts=2)
    try:
        for first in range(0, len(ratings), 1000):
            made.rate(*ratings[first : first + 1000])
        items = [drawn.item_id(item) for item in range(150)] + ["unrated"]
        tags = [{"item": item, "tags": {"genre": [item.split("-")[1]] if "-" in item else []}} for item in items]
        written = made.client.post("/items", json=tags).json()["stream_id"]
        assert made.retrain("als-implicit", n_epochs=3, n_factors=8)["state"] == "succeeded"
        made.get("/popular", wait_for=written)
        yield made
    finally:
        made.kill()


def lines(service: Service, body: dict[str, Any], user: str = USER) -> list[dict[str, Any]]:
    answer = service.client.post(f"/recommend/{user}", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["personalized"]
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def genre(line: dict[str, Any]) -> str:
    name: str = line["item"].split("-")[1]
    return name


def test_boosts_change_scores_and_order(service: Service) -> None:
    plain = lines(service, {"n": 150})
    boosts = [{"filter": {"tag": "genre", "in": [genre(plain[-1])]}, "add": 5}]
    boosted = lines(service, {"n": 150, "boosts": boosts})
    scores = {line["item"]: line["score"] for line in plain}
    wanted = sorted(scores, key=lambda item: -(scores[item] + 5 * (genre({"item": item}) == genre(plain[-1]))))
    assert [line["item"] for line in boosted] == wanted
    for line in boosted:
        assert line["boost"] == (5 if genre(line) == genre(plain[-1]) else 0)
        assert line["score"] == pytest.approx(scores[line["item"]] + line["boost"])
    assert lines(service, {"n": 5, "offset": 3, "boosts": boosts}) == boosted[3:8]


def test_pins_are_where_they_should_be_on_every_page(service: Service) -> None:
    plain = [line["item"] for line in lines(service, {"n": 10})]
    pins = [{"item": "unrated", "at": 2}, {"item": plain[5], "at": 7}, {"item": "nowhere", "at": 1}]
    pages = lines(service, {"n": 4, "pins": pins}) + lines(service, {"n": 4, "offset": 4, "pins": pins})
    rest = [item for item in plain if item != plain[5]]
    assert [line["item"] for line in pages] == [rest[0], "unrated", *rest[1:5], plain[5], rest[5]]
    assert pages[1] == {"item": "unrated", "score": None, "source": "pin"}
    assert "source" not in pages[0]


def test_no_more_of_a_genre_than_allowed(service: Service) -> None:
    plain = lines(service, {"n": 150})
    wanted: list[str] = []
    for line in plain:
        if sum(genre({"item": item}) == genre(line) for item in wanted) < 2:
            wanted.append(line["item"])
    found = lines(service, {"n": 150, "max_per": {"tag": "genre", "n": 2}})
    assert [line["item"] for line in found] == wanted
    assert len(wanted) < len(plain)


def test_a_diverse_list_has_more_genres(service: Service) -> None:
    plain, diverse = lines(service, {"n": 8}), lines(service, {"n": 8, "diversity": 0.7})
    assert diverse[0] == plain[0]
    assert len(set(map(genre, diverse))) > len(set(map(genre, plain)))
    by_query = service.get(f"/recommend/{USER}", n=8, diversity=0.7).json()["items"]
    assert by_query == diverse


def test_places_for_exploration_go_with_rules(service: Service) -> None:
    boost = {"filter": {"tag": "genre", "in": ["western"]}, "add": 0.5}
    body = {"n": 6, "explore": 0.5, "explore_below": 20, "boosts": [boost], "max_per": {"tag": "genre", "n": 3}}
    found = lines(service, {**body, "pins": [{"item": "unrated", "at": 1}]})
    assert [line.get("source") for line in found].count("explore") in (2, 3)
    assert found[0]["source"] == "pin"
    assert all(line["boost"] == 0.5 * (genre(line) == "western") for line in found[1:])
    refused = service.client.post(f"/recommend/{USER}", json={**body, "boosts": [boost] * 2})
    assert refused.status_code == 422
    assert "Invalid explore_below: expected at most 10 with 2 boosts, got 20" in refused.json()["detail"]


def test_a_scenario_holds_rules_for_every_user(service: Service) -> None:
    rules = {"n": 5, "pins": [{"item": "unrated", "at": 1}], "max_per": {"tag": "genre", "n": 1}, "diversity": 0.2}
    written = service.client.put("/admin/scenarios/home", json=rules).json()["stream_id"]
    found = service.get(f"/recommend/{USER}", scenario="home", wait_for=written).json()["items"]
    assert found == lines(service, rules)
    assert found[0]["item"] == "unrated"
    stranger = service.get("/recommend/stranger", scenario="home").json()
    assert (stranger["fallback"], stranger["items"][0]["source"]) == ("popular", "pin")


def test_what_was_shown_comes_back_lower(service: Service) -> None:
    user, other = "synthetic-viewer-0001", "synthetic-viewer-0002"
    plain = lines(service, {"n": 150}, user)
    shown = [line["item"] for line in plain[:3]]
    given = [*shown, shown[0]]
    seen = service.api.send_events([{"user": user, "item": item, "type": "impression"} for item in given])["stream_id"]
    rest = lines(service, {"n": 150, "wait_for": seen}, user)
    assert [line["item"] for line in rest] == [line["item"] for line in plain[3:]]
    scores = {line["item"]: line["score"] for line in plain}
    for body, by in (({"rotate": "1d"}, 1.0), ({"rotate": {"half_life": "1d", "by": 0.25}}, 0.25)):
        rotated = lines(service, {"n": 150, **body}, user)
        assert {line["item"] for line in rotated} == set(scores)
        assert [line["score"] for line in rotated] == sorted((line["score"] for line in rotated), reverse=True)
        for line in rotated:
            amount = by * given.count(line["item"])
            assert line["boost"] == pytest.approx(-amount, rel=0.02)
            assert line["score"] == pytest.approx(scores[line["item"]] - amount, rel=0.02, abs=0.02)
    assert service.get(f"/recommend/{user}", n=150, rotate="1d").json()["items"] == lines(
        service, {"n": 150, "rotate": "1d"}, user
    )
    assert all(line["boost"] == 0 for line in lines(service, {"rotate": "1d"}, other))
    for bad in ("1w", "6", "0h", 6, {"by": 1}, {"half_life": "6h", "by": -1}):
        answer = service.client.post(f"/recommend/{user}", json={"rotate": bad})
        assert (answer.status_code, "rotate" in answer.text) == (422, True), bad
    assert service.client.get(f"/recommend/{user}?rotate=6x").status_code == 422


def test_a_cursor_goes_on_in_a_boosted_list(service: Service) -> None:
    boosts = {"boosts": [{"filter": {"tag": "genre", "in": ["western"]}, "add": 5}]}
    whole = lines(service, {"n": 8, **boosts})
    first = service.client.post(f"/recommend/{USER}", json={"n": 4, "cursor": "", **boosts}).json()
    then = service.client.post(f"/recommend/{USER}", json={"n": 4, "cursor": first["next"], **boosts}).json()
    assert first["items"] + then["items"] == whole
