"""Sizes and listings over HTTP, through a front."""

from collections.abc import Iterator

import pytest

from tests.service.local import Local, serving


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with serving(tmp_path_factory.mktemp("listings") / "data") as local:
        local.rate(("u", "a", 5.0), ("u", "b", -3.5), ("v", "a", 4.1), ("w", "c", -1.0))
        local.post("/events", {"user": "v", "item": "b", "type": "view"})
        local.post("/items", [{"item": "d", "tags": {"kind": ["x"]}}, {"item": "e", "tags": {"kind": ["y"]}}])
        local.request("PUT", "/admin/items/d/hidden")
        written = local.request("PUT", "/admin/items/c/hidden").json()["stream_id"]
        local.get("/popular", wait_for=written)
        yield local


def test_stats_count_what_there_is(app: Local) -> None:
    stats = app.get("/admin/stats").json()
    counted = {name: stats[name] for name in ("users", "items", "ratings", "events", "hidden", "deleted")}
    assert counted == {"users": 3, "items": 5, "ratings": 4, "events": 1, "hidden": 2, "deleted": 0}
    assert stats["stream"]["entries"] == 5
    assert stats["stream"]["last_id"] == stats["as_of"]
    assert stats["stream"]["bytes"] > 100
    assert set(stats["log"]) == {"segments", "rows", "bytes", "last_id"}
    assert (stats["models"], stats["lag_s"]) == ([], 0.0)
    assert stats["uptime_s"] > 0


def test_ratings_of_an_item(app: Local) -> None:
    answer = app.get("/items/a/ratings", n=1).json()
    assert (answer["n_ratings"], [(one["user"], one["rating"]) for one in answer["ratings"]]) == (2, [("v", 4.1)])
    assert [one["user"] for one in app.get("/items/a/ratings", offset=1).json()["ratings"]] == ["u"]
    assert app.get("/items/d/ratings").json()["ratings"] == []
    assert app.get("/items/x/ratings").status_code == 404
    assert app.get("/items/a/ratings", n=1001).status_code == 422


def test_ratings_below_a_value_are_listed_page_by_page(app: Local) -> None:
    found, cursor = [], None
    while True:
        page = app.get("/admin/ratings", below=0, n=1, **({"cursor": cursor} if cursor else {})).json()
        found += [(one["user"], one["item"], one["rating"]) for one in page["ratings"]]
        if (cursor := page["next"]) is None:
            break
    assert sorted(found) == [("u", "b", -3.5), ("w", "c", -1.0)]
    assert app.get("/admin/ratings", above=5).json()["ratings"] == []
    assert len(app.get("/admin/ratings").json()["ratings"]) == 4
    assert app.get("/admin/ratings", cursor="x").status_code == 422
    assert app.get("/admin/ratings", below="nan").status_code == 422


def test_hidden_items_are_listed(app: Local) -> None:
    def listed(**query: object) -> list[str]:
        return sorted(one["item"] for one in app.get("/admin/items", **query).json()["items"])

    assert listed(hidden=True) == ["c", "d"]
    assert listed(hidden=False) == ["a", "b", "e"]
    assert listed(hidden=True, **{"tag.kind": "x"}) == ["d"]
    assert listed() == ["a", "b", "c", "d", "e"]
