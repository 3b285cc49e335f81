"""The catalog over HTTP, in one process and through a front."""

import pytest

from tests.service.local import Local, serving


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("items") / "data") as local:
        local.rate(("u", "a", 5.0), ("u", "b", 3.0), ("v", "a", 4.0))
        yield local


def written(answer) -> str:
    assert answer.status_code == 202, answer.text
    return answer.json()["stream_id"]


def details(app: Local, item: str, stream_id: str) -> dict[str, object]:
    document = app.get(f"/items/{item}", wait_for=stream_id).json()
    document.pop("as_of")
    return document


NOTHING = {
    "tags": {}, "numbers": {}, "available": True, "published": None, "until": None, "embedding": None, "hidden": False,
    "title": None, "url": None, "image": None,
}  # fmt: skip


def test_an_item_is_put_patched_deleted_and_back(app):
    item = {"item": "a", "tags": {"genre": ["x", "y"]}, "numbers": {"price": 9.99}, "embedding": [0.1, 2]}
    stream_id = written(app.post("/items", item))
    assert details(app, "a", stream_id) == NOTHING | item | {"n_ratings": 2}
    patch = {"tags": {"mood": ["dark"]}, "numbers": {"price": None}, "available": False, "embedding": None}
    stream_id = written(app.request("PATCH", "/items/a", json=patch))
    assert details(app, "a", stream_id) == NOTHING | {
        "item": "a", "tags": {"genre": ["x", "y"], "mood": ["dark"]}, "available": False, "n_ratings": 2,
    }  # fmt: skip
    stream_id = written(app.request("DELETE", "/items/a"))
    gone = app.get("/items/a", wait_for=stream_id)
    assert (gone.status_code, gone.json()["detail"]) == (404, "item 'a' was deleted; POST /items brings it back")
    assert [line["item"] for line in app.get("/popular").json()["items"]] == ["b"]
    patched = app.request("PATCH", "/items/a", json={"available": True})
    assert (patched.status_code, patched.json()["detail"]) == (404, "item 'a' was deleted; POST /items brings it back")
    written(app.post("/items", {"item": "a", "available": False}))
    stream_id = written(app.request("PATCH", "/items/a", json={"available": True}))  # whether the put was seen or not
    assert details(app, "a", stream_id) == NOTHING | {"item": "a", "n_ratings": 2}
    assert [line["item"] for line in app.get("/popular").json()["items"]] == ["a", "b"]


def test_many_items_go_in_several_entries(app):
    items = [{"item": f"many-{n}"} for n in range(250)]
    answer = app.post("/items", items)
    assert details(app, "many-249", written(answer))["n_ratings"] == 0
    assert answer.json()["accepted"] == 250


def test_items_are_counted(app):
    past = {"item": "past", "until": 1600000000}
    stream_id = written(app.post("/items", [past, {"item": "later", "published": 4e9}, {"item": ""}]))
    app.get("/items/past", wait_for=written(app.request("PUT", "/admin/items/b/hidden")))
    found = app.get("/items", n=1000, wait_for=stream_id).json()["items"]
    lines = (line.rpartition(" ") for line in app.get("/metrics").text.splitlines())
    values = {name: float(value) for name, _, value in lines if name.startswith("nearfield_items")}
    shown = [one for one in found if one["available"] and not one["hidden"] and one["item"] not in ("past", "later")]
    assert values["nearfield_items_available"] == len(shown) == len(found) - 3
    assert values["nearfield_items_accepted_total"] >= 2
    assert values["nearfield_items_rejected_total"] >= 1
    app.get("/popular", wait_for=written(app.request("DELETE", "/admin/items/b/hidden")))


def test_new_items_count_against_the_limit(tmp_path):
    with serving(tmp_path / "data", max_new_ids_per_hour=2) as local:
        assert local.post("/items", [{"item": "a"}, {"item": "b"}]).status_code == 202
        refused = local.request("PATCH", "/items/c", json={})
        assert (refused.status_code, refused.json()["type"]) == (429, "urn:nearfield:problem:too-many-new-ids")


@pytest.fixture(scope="module")
def shop(app):
    app.rate(("w", "x", 5.0), ("w", "y", 4.0), ("w", "z", 3.0), ("v", "x", 3.0))
    items = [
        {"item": "x", "tags": {"kind": ["red"]}, "numbers": {"weight": 1.5}},
        {"item": "y", "tags": {"kind": ["blue", "round"]}, "numbers": {"weight": 9.99}},
        {"item": "z", "tags": {"kind": ["red"]}, "available": False},
    ]
    app.get("/popular", wait_for=written(app.post("/items", items)))
    return app


def listed(answer) -> tuple[int | None, list[str]]:
    assert answer.status_code == 200, answer.text
    document = answer.json()
    return document.get("eligible"), [line["item"] for line in document["items"]]


def test_every_list_takes_a_filter(shop):
    for path in ("/popular", "/recommend/stranger"):
        assert listed(shop.request("GET", f"{path}?tag.kind=red&tag.kind=round")) == (2, ["x", "y"])
        assert listed(shop.request("GET", f"{path}?tag.kind=red&available=false")) == (2, ["x", "z"])
        assert listed(shop.get(path, **{"max.weight": 9.99, "min.weight": 1.6})) == (1, ["y"])
        assert listed(shop.get(path, **{"tag.kind": "none"})) == (0, [])
        assert listed(shop.get(path))[0] is None
    tree = {"all": [{"tag": "kind", "in": ["red", "blue"]}, {"not": {"number": "weight", "max": 2}}]}
    assert listed(shop.post("/recommend/stranger", {"filter": tree})) == (1, ["y"])
    several = shop.post("/recommend", {"users": ["stranger", "other"], "filter": tree}).json()
    assert [(one["eligible"], len(one["items"])) for one in several] == [(1, 1), (1, 1)]
    assert listed(shop.post("/recommend", {"ratings": [{"item": "x", "rating": 5}], "filter": tree})) == (1, ["y"])


def test_a_changed_attribute_shows_in_the_next_list(shop):
    for kind in ("green", "red"):
        patch = {"tags": {"kind": [kind]}}
        stream_id = written(shop.request("PATCH", "/items/x", json=patch))
        answer = shop.get("/recommend/stranger", **{"tag.kind": "red", "wait_for": stream_id})
        assert listed(answer) == ((1, ["x"]) if kind == "red" else (0, []))


def test_items_have_titles(shop):
    page, picture = "https://shop.example/x?a=1&b=%20", "http://img.example/x.png"
    shop.request("PATCH", "/items", json=[{"item": "x", "title": "The Lamp", "url": page, "image": picture}])
    answer = shop.request("PATCH", "/items", json=[{"item": "y", "title": "the Rug"}, {"item": "b", "title": "Éclair"}])
    found = shop.get("/items", search="THE", wait_for=written(answer)).json()
    assert ([one["item"] for one in found["items"]], found["next"]) == (["x", "y"], None)
    assert [found["items"][0][name] for name in ("title", "url", "image")] == ["The Lamp", page, picture]
    for query, items in (
        ({"search": "the r"}, ["y"]), ({"search": "é"}, ["b"]), ({"search": "lamp"}, []),
        ({"search": "the", "n": 1}, ["x"]), ({"search": "the", "tag.kind": "red"}, ["x"]),
    ):  # fmt: skip
        assert [one["item"] for one in shop.get("/items", **query).json()["items"]] == items
    for query in ({"search": ""}, {"search": "x" * 1001}, {"search": "t", "cursor": "0" * 16}):
        assert shop.get("/items", **query).status_code == 422
    titles = {"x": "The Lamp", "y": "the Rug", "b": "Éclair"}
    for path in ("/popular", "/latest", "/recommend/stranger", "/recommend/u"):
        lines = shop.get(path, **{"with": "title"}).json()["items"]
        assert [line.get("title") for line in lines] == [titles.get(line["item"]) for line in lines]
        assert any("title" in line for line in lines)
        assert not any("title" in line for line in shop.get(path).json()["items"])
    bodies: tuple[dict[str, object], ...] = ({"users": ["u", "stranger"]}, {"ratings": [{"item": "a", "rating": 5}]})
    for body, n in zip(bodies, (2, 1), strict=True):
        lists = shop.post("/recommend", body | {"with": "title"}).json()
        lists = lists if isinstance(lists, list) else [lists]
        assert len(lists) == n
        assert all(line.get("title") == titles.get(line["item"]) for one in lists for line in one["items"])
    assert shop.get("/popular", **{"with": "image"}).status_code == 422
    stream_id = written(shop.request("PATCH", "/items/x", json={"title": None, "url": None}))
    assert shop.get("/items", search="the", wait_for=stream_id).json()["items"][0]["item"] == "y"
    assert details(shop, "x", stream_id)["image"] == picture
    assert shop.request("DELETE", "/items/b").status_code == 202
    assert written(shop.post("/items", {"item": "b"}))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("title", "", "Invalid title: expected 1 to 1000 bytes, got 0"),
        ("title", "x" * 1001, "Invalid title: expected 1 to 1000 bytes, got 1,001"),
        ("title", 5, "Invalid title"),
        ("url", "javascript:alert(1)", "Invalid url: expected http://… or https://… without spaces, got 'javascript:"),
        ("url", "//shop.example", "Invalid url: expected http"),
        ("image", "https://shop.example/a b", "Invalid image: expected http"),
        ("image", 'https://shop.example/"onload=', "Invalid image: expected http"),
        ("image", "https://x/" + "y" * 2000, "Invalid image: expected 1 to 2000 bytes"),
    ],
)
def test_what_people_see_is_judged(app, name, value, message):
    refused = app.post("/items", {"item": "never", name: value})
    assert refused.status_code == 422
    assert message in refused.json()["detail"]


def test_items_and_users_are_listed_in_pages(shop):
    for path, name in (("/items", "item"), ("/users", "user")):
        seen, document = list[str](), shop.get(path, n=2).json()
        while document["next"] is not None:
            seen += [one[name] for one in document[f"{name}s"]]
            document = shop.get(path, n=2, cursor=document["next"]).json()
        seen += [one[name] for one in document[f"{name}s"]]
        assert len(seen) == len(set(seen))
        assert set(seen) >= ({"a", "b", "x", "y", "z"} if name == "item" else {"u", "v", "w"})
        assert shop.get(path, cursor="x").status_code == 422
        assert shop.get(path, n=1001).status_code == 422
    assert {one["item"] for one in shop.get("/items", **{"tag.kind": "red"}).json()["items"]} == {"x", "z"}
    assert shop.get("/items", available="true").status_code == 422
