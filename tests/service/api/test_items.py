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


def test_elements_of_an_array_are_checked_one_by_one(app):
    answer = app.post("/items", [{"item": "new"}, {"item": ""}, {"item": "b", "numbers": {"price": "5"}}])
    document = answer.json()
    assert (answer.status_code, document["accepted"]) == (202, 1)
    assert document["rejected"] == [
        {"index": 1, "error": "Invalid item: expected 1 to 256 bytes, got 0"},
        {"index": 2, "error": "Invalid numbers.price: expected a number, got text"},
    ]
    assert details(app, "new", document["stream_id"])["n_ratings"] == 0
    assert app.post("/items", [{"item": ""}]).json()["stream_id"] is None


def test_many_items_go_in_several_entries(app):
    items = [{"item": f"many-{n}"} for n in range(250)]
    answer = app.post("/items", items)
    assert details(app, "many-249", written(answer))["n_ratings"] == 0
    assert answer.json()["accepted"] == 250


def test_a_name_keeps_its_kind_and_embeddings_their_length(app):
    app.get("/items/b", wait_for=written(app.post("/items", {"item": "b", "tags": {"year": ["x"]}, "embedding": [1]})))
    refused = app.post("/items", {"item": "c", "numbers": {"year": 1999}})
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith("Invalid numbers.year: expected a name of numbers, got one of tags")
    refused = app.request("PATCH", "/items/c", json={"embedding": [1, 2]})
    assert refused.json()["detail"] == "Invalid embedding: expected 1 numbers as of the other items, got 2"


def test_patches_together_have_a_bound(app):
    halves = [{"tags": {name: [str(n) for n in range(600)]}} for name in ("genre", "year")]
    details(app, "patched", written(app.request("PATCH", "/items/patched", json=halves[0])))
    refused = app.request("PATCH", "/items/patched", json=halves[1])
    assert refused.status_code == 422
    assert refused.json()["detail"] == "Invalid tags: expected at most 1,000 values of an item, got 1,200"
    instead = {"tags": {"genre": None, **halves[1]["tags"]}}
    found = details(app, "patched", written(app.request("PATCH", "/items/patched", json=instead)))
    assert found["tags"] == halves[1]["tags"]
    app.get("/popular", wait_for=written(app.request("DELETE", "/items/patched")))


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


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/items/nothing", None, 404),
        ("GET", "/items/a?n=3", None, 422),
        ("POST", "/items", 5, 400),
        ("POST", "/items?n=3", {"item": "a"}, 422),
        ("PATCH", "/items/a", [], 400),
        ("PATCH", "/items/a", {"nothing": 1}, 422),
        ("PATCH", f"/items/{'x' * 257}", {}, 422),
        ("PUT", "/items/a", {}, 405),
    ],
)
def test_what_cannot_be_used_is_refused(app, method, path, body, status):
    assert app.request(method, path, json=body).status_code == status


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


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("tag.hue=x", "Invalid filter: expected a tag of the catalog (genre, kind, mood, year), got 'hue'"),
        ("max.kind=1", "Invalid filter: expected a number of the catalog (price, weight), got 'kind'"),
        ("max.weight=x", "Invalid query.max.weight: expected a number, got 'x'"),
        ("max.weight=nan", "Invalid query.max.weight: expected a number, got 'nan'"),
    ],
)
def test_unknown_names_and_bad_bounds_are_refused(shop, query, detail):
    for path in ("/popular", "/recommend/stranger"):
        answer = shop.request("GET", f"{path}?{query}")
        assert (answer.status_code, answer.json()["detail"]) == (422, detail)


def test_a_bad_tree_is_refused_with_its_place(shop):
    answer = shop.post("/recommend/u", {"filter": {"all": []}})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("Invalid body.filter: expected a list of conditions as all, got")
    answer = shop.post("/recommend", {"users": ["u"], "filter": {"number": "weight", "min": "x"}})
    assert answer.json()["detail"].startswith("Invalid body.filter: expected a finite number as bound, got 'x'")


def test_deleted_candidates_are_named(shop):
    shop.get("/popular", wait_for=written(shop.request("DELETE", "/items/gone")))
    answer = shop.post("/recommend/stranger", {"candidates": ["gone", "x"]})
    assert "deleted items in candidates: 'gone'" in answer.json()["warnings"]


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
