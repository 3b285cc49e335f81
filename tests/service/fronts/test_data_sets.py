"""Several data sets behind one address, with real processes: each has its own content, limits, jobs and faults."""

import asyncio
import json

import pytest

import loadtest.client
from service.cli.__main__ import run
from service.client import Client
from tests.service.process import Service
from tests.service.waiting import eventually

PATHS = {"": "", "shop": "/d/shop", "music": "/d/music"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    limits = {"shop__max_n": 150, "shop__max_ratings": 3, "music__rate_limit_per_s": 40, "music__max_body_bytes": 2000}
    service = Service(tmp_path_factory.mktemp("sets") / "data", data_sets="shop,music", **limits)
    yield service
    service.kill()


def rate(service, path: str, ratings: list[tuple[str, str, float]]) -> str:
    elements = [{"user": user, "item": item, "rating": rating} for user, item, rating in ratings]
    answer = service.client.post(f"{path}/ratings", json=elements)
    assert answer.status_code == 202, answer.text
    return answer.json()["stream_id"]


def seen(service, path: str, stream_id: str) -> list[tuple[str, float]]:
    answer = service.client.get(f"{path}/users/ann/ratings", params={"wait_for": stream_id}).json()
    return sorted((rating["item"], rating["rating"]) for rating in answer["ratings"])


def test_each_data_set_has_its_own_ratings_items_and_documents(service):
    last = {name: rate(service, path, [("ann", f"of-{name}", 5), ("ann", "common", 3)]) for name, path in PATHS.items()}
    last["shop"] = rate(service, "/d/shop", [("ann", "common", 1)])
    for name, path in PATHS.items():
        expected = sorted([("common", 1.0 if name == "shop" else 3.0), (f"of-{name}", 5.0)])
        assert seen(service, path, last[name]) == expected
        popular = service.client.get(f"{path}/popular", params={"n": 9}).json()
        assert {item["item"] for item in popular["items"]} == {"common", f"of-{name}"}
    assert service.client.put("/d/shop/admin/items/common/hidden").status_code == 202
    put = service.client.put("/d/shop/admin/scenarios/home", json={"n": 1})
    assert put.status_code == 202, put.text
    assert service.client.get("/admin/scenarios/home").status_code == 404
    stats = {name: service.client.get(f"{path}/admin/stats").json() for name, path in PATHS.items()}
    assert (stats[""]["hidden"], stats["music"]["hidden"], stats["music"]["ratings"]) == (0, 0, 2)
    forgotten = service.client.delete("/d/music/admin/users/ann").json()
    assert service.api.get(f"/d/music/admin/jobs/{forgotten['job']}")["kind"] == "forget"
    position = {"wait_for": forgotten["stream_id"]}
    assert service.client.get("/d/music/users/ann/ratings", params=position).status_code == 404
    assert seen(service, "", last[""]) == [("common", 3.0), ("of-", 5.0)]


def test_every_route_is_behind_the_prefix(service):
    default, shop = (service.client.get(f"{path}/openapi.json").json() for path in ("", "/d/shop"))
    assert shop.pop("servers") == [{"url": "/d/shop"}]
    assert shop == default
    for path in default["paths"]:
        url = path.replace("{", "x").replace("}", "")
        answers = [service.client.get(prefix + url) for prefix in ("", "/d/shop")]
        assert answers[0].status_code == answers[1].status_code, path
        kinds = [answer.headers["content-type"] for answer in answers]
        assert kinds[0] == kinds[1], path
    assert "docs/swagger-ui.css" in service.client.get("/d/shop/docs").text
    assert service.client.get("/d/shop/docs/swagger-ui.css").status_code == 200
    assert service.client.head("/d/shop/popular").status_code == 200


def test_a_plain_read_and_the_framework_give_the_same_list(service):
    position = rate(service, "/d/shop", [("bob", "one", 4), ("bob/é", "two", 2)])
    service.client.get("/d/shop/popular", params={"wait_for": position})
    for user in ("bob", "bob%2F%C3%A9", "nobody"):
        plain = service.client.get(f"/d/shop/recommend/{user}?n=5")
        # `Expect` or a body of no bytes takes the way through the framework.
        usual = service.client.get(f"/d/shop/recommend/{user}?n=5", headers={"Content-Length": "0"})
        parts = [(answer.status_code, without_time(answer.json())) for answer in (plain, usual)]
        assert parts[0] == parts[1]
        assert service.client.head(f"/d/shop/recommend/{user}?n=5").status_code == plain.status_code
    assert service.client.get("/d/shop/recommend/bob?n=5").json()["items"]
    assert service.client.get("/users/bob/ratings").status_code == 404


def without_time(answer: dict) -> dict:
    return {name: value for name, value in answer.items() if name not in ("took_ms", "request_id")}


@pytest.mark.parametrize("path", ["/d/nope/popular", "/d/nope/", "/d/nope", "/d/Shop/popular", "/d/nope/recommend/ann"])
def test_an_unknown_data_set_is_a_404_that_names_it(service, path):
    answer = service.client.get(path)
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:nearfield:problem:unknown-data-set")
    assert f"got '{path.split('/')[2]}'" in answer.json()["detail"]
    assert "(shop, music)" in answer.json()["detail"]
    assert service.client.post("/d/nope/ratings", json={"user": "a", "item": "b", "rating": 1}).status_code == 404


def test_each_data_set_has_its_own_limits(service):
    assert service.client.get("/popular?n=151").status_code == 200
    assert service.client.get("/d/shop/popular?n=150").status_code == 200
    assert "expected 1 to 150" in service.client.get("/d/shop/popular?n=151").json()["detail"]
    four = [{"user": "u", "item": f"i{number}", "rating": 1} for number in range(4)]
    codes = [service.client.post(f"{path}/ratings", json=four).status_code for path in PATHS.values()]
    assert codes == [202, 422, 202]
    long = four * 15
    codes = [service.client.post(f"{path}/ratings", json=long).status_code for path in ("", "/d/music")]
    assert codes == [202, 413]
    assert {service.client.get("/d/music/popular").status_code for _ in range(120)} == {200, 429}
    assert service.client.get("/popular").status_code == 200
    assert service.client.get("/d/shop/popular").status_code == 200


def test_metrics_and_readiness_are_of_one_data_set_and_the_whole(service):
    assert service.client.patch("/d/shop/items/none", json={"available": False}).status_code == 202
    patched = 'nearfield_requests_total{method="PATCH"'
    eventually(lambda: patched in service.client.get("/d/shop/metrics").text)
    assert patched not in service.client.get("/metrics").text
    answers = [service.client.get(f"{path}/health/ready").json() for path in PATHS.values()]
    assert [answer["status"] for answer in answers] == ["ready"] * 3


def test_a_url_and_an_option_name_a_data_set(service, tmp_path):
    base = str(service.client.base_url)
    for number, address in enumerate((["--url", f"{base}/d/shop"], ["--url", base, "--data-set", "shop"])):
        file = tmp_path / f"{number}.csv"
        file.write_text(f"user,item,rating\ndora,film-{number},4\n")
        assert run(["import", str(file), *address]) == 0
    assert run(["export", "--out", str(tmp_path / "out.ndjson"), "--url", base, "--data-set", "shop"]) == 0
    exported = [json.loads(line) for line in (tmp_path / "out.ndjson").read_text().splitlines()]
    assert sorted(row["item"] for row in exported if row["user"] == "dora") == ["film-0", "film-1"]
    assert run(["import", str(tmp_path / "0.csv"), "--data-set", "Shop"]) == 2
    with Client(f"{base}/d/shop") as shop:
        shop.wait_for(rate(service, "/d/shop", [("carl", "two", 4)]))
        assert {rated["item"] for rated in shop.get("/users/dora/ratings")["ratings"]} == {"film-0", "film-1"}
    assert service.client.get("/users/dora/ratings").status_code == 404

    async def fetched():
        client = loadtest.client.Client(f"{base}/d/shop")
        try:
            return await client.get("/users/dora/ratings")
        finally:
            await client.close()

    assert len(asyncio.run(fetched()).json()["ratings"]) == 2
