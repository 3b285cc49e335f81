"""Several data sets behind one address, with real processes: each has its own content, limits, jobs and faults."""

import asyncio
import concurrent.futures
import json
import signal
import threading
import time

import pytest

import loadtest.client
from service.__main__ import run
from service.cli.client import Client
from service.jobs.turns import WAITS
from service.processes.engine_process import FURTHER_READY_S
from service.settings import data_sets
from service.storage.files import FileLock
from service.storage.log.rating_log import RatingLog
from tests.service.process import Service
from tests.service.processes.service import FrontService
from tests.service.waiting import eventually

WAITS_S = 2.0  # seconds until a request is told that its entry is not seen yet
PATHS = {"": "", "shop": "/d/shop", "music": "/d/music"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    of_shop = {"shop__max_n": 150, "shop__max_waiting": 2, "shop__max_ratings": 3}
    of_music = {"music__rate_limit_per_s": 40, "music__max_body_bytes": 2000}
    began_s = time.monotonic()
    service = Service(tmp_path_factory.mktemp("sets") / "data", data_sets="shop,music", **of_shop, **of_music)
    assert time.monotonic() - began_s < FURTHER_READY_S  # else it did not hear that the others are ready
    yield service
    service.kill()


def rate(service, path: str, ratings: list[tuple[str, str, float]]) -> str:
    elements = [{"user": user, "item": item, "rating": rating} for user, item, rating in ratings]
    answer = service.client.post(f"{path}/ratings", json=elements)
    assert answer.status_code == 202, answer.text
    return answer.json()["stream_id"]


def seen(service, path: str, stream_id: str) -> list[tuple[str, float]]:
    answer = service.get(f"{path}/users/ann/ratings", wait_for=stream_id).json()
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
    assert service.get("/d/music/users/ann/ratings", wait_for=forgotten["stream_id"]).status_code == 404
    assert seen(service, "", last[""]) == [("common", 3.0), ("of-", 5.0)]


def test_every_route_is_behind_the_prefix(service):
    default, shop = (service.client.get(f"{path}/openapi.json").json() for path in ("", "/d/shop"))
    assert shop.pop("servers") == [{"url": "/d/shop"}]
    of_each = {path for path in default["paths"] if not path.startswith("/admin/keys")}  # keys are of the whole service
    assert set(shop["paths"]) == of_each
    for path in sorted(of_each):
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
    service.get("/d/shop/popular", wait_for=position)
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


def test_a_flood_on_one_data_set_leaves_the_others_in_time(service):
    """The flood waits for an entry that never comes, two seconds each, and so fills the queue of its data set."""
    is_over, problems, begun_s = threading.Event(), list[str](), time.monotonic()

    def flood() -> None:
        while not is_over.is_set():
            answer = service.client.get("/d/shop/popular?wait_for=99999999999999-0")
            problems.append(answer.json()["type"].rpartition(":")[2])

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        flooding = [pool.submit(flood) for _ in range(8)]
        try:
            eventually(lambda: problems.count("overloaded") >= 6)
            position = rate(service, "", [("eve", "one", 4)])
            others = [service.get(path, wait_for=position) for path in ("/popular", "/users/eve/ratings")]
            eventually(lambda: "not-seen-yet" in problems)
        finally:
            is_over.set()
    for one in flooding:
        one.result()
    assert [answer.status_code for answer in others] == [200, 200]
    assert set(problems) == {"not-seen-yet", "overloaded"}
    n_rounds = 1 + (time.monotonic() - begun_s) / WAITS_S
    assert problems.count("not-seen-yet") <= 2 * n_rounds, "more than two waited at a time"
    assert "nearfield_queue_length" in service.client.get("/d/shop/metrics").text


def test_one_data_set_trains_at_a_time_and_the_model_is_its_own(service):
    rate(service, "/d/shop", [("bob", "one", 4), ("bea", "one", 5), ("bea", "two", 2)])
    with FileLock.take(service.data / data_sets.TURN):  # as if another data set trained
        job = service.client.post("/d/shop/admin/retrain", json={"algorithm": "ease"}).json()
        cancelled = service.client.post("/d/music/admin/retrain", json={"algorithm": "ease"}).json()
        waiting = [f"/d/shop/admin/jobs/{job['id']}", f"/d/music/admin/jobs/{cancelled['id']}"]
        eventually(lambda: [service.client.get(path).json()["reason"] for path in waiting] == [WAITS, WAITS])
        assert {service.client.get(path).json()["state"] for path in waiting} == {"running"}
        assert service.client.delete(waiting[1]).status_code == 202
        eventually(lambda: service.client.get(waiting[1]).json()["state"] == "cancelled")
    with Client(f"{service.client.base_url}/d/shop") as shop:
        ended = shop.ended_job(job["id"])
    assert (ended["state"], ended["promoted"], ended["reason"]) == ("succeeded", True, None)
    models = {name: service.client.get(f"{path}/admin/models").json()["models"] for name, path in PATHS.items()}
    assert [len(of_one) for of_one in models.values()] == [0, 1, 0]
    assert service.client.get("/d/shop/recommend/bob?n=5").json()["model_version"] == ended["version"]
    assert (service.data / "sets" / "shop" / "live.json").exists()


def test_a_damaged_or_removed_data_set_leaves_the_others_serving(tmp_path):
    service = FrontService(tmp_path / "data", data_sets="old,music")
    try:
        paths = {"": "", "old": "/d/old", "music": "/d/music"}
        last = {name: rate(service, path, [("ann", f"of-{name}", 5)]) for name, path in paths.items()}
        assert service.stop() == 0
        folders = {"": tmp_path / "data", "music": tmp_path / "data/sets/music"}
        segments = {name: next((folder / "ratings").glob("*.parquet")) for name, folder in folders.items()}
        whole = {name: segment.read_bytes() for name, segment in segments.items()}
        for name, segment in segments.items():
            segment.write_bytes(whole[name][: len(whole[name]) // 2])
        service.set(data_sets="music,shop")
        service.start()
        assert seen(service, "/d/shop", rate(service, "/d/shop", [("ann", "of-shop", 5)])) == [("of-shop", 5.0)]
        assert service.client.get("/d/old/popular").status_code == 404
        assert str(RatingLog(tmp_path / "data/sets/old/ratings").last_id()) == last["old"]
        refused = {name: service.client.get(f"{PATHS[name]}/health/ready") for name in segments}
        assert [answer.status_code for answer in refused.values()] == [503, 503]
        assert all(segment.name in refused[name].json()["detail"] for name, segment in segments.items())
        assert service.client.get("/health/live").status_code == 200
        assert service.client.post("/ratings", json={"user": "a", "item": "b", "rating": 1}).status_code == 503
        segments[""].write_bytes(whole[""])
        service.signal("engine", signal.SIGKILL)  # they would start again by themselves after a while
        eventually(lambda: "data set music: " in service.client.get("/health/ready").json()["detail"])
        assert seen(service, "", last[""]) == [("of-", 5.0)]
        segments["music"].write_bytes(whole["music"])
        service.signal("engine-music", signal.SIGKILL)
        eventually(lambda: service.client.get("/health/ready").status_code == 200)
        assert seen(service, "/d/music", last["music"]) == [("of-music", 5.0)]
    finally:
        service.kill()


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
