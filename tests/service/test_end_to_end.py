"""The whole service as a process: real HTTP, real Redis, real trainer."""

import concurrent.futures
import itertools
import os
import re
import signal
import subprocess
import time
from urllib.parse import quote

import numpy as np
import pytest
import redis
from pyarrow import parquet

from gpu.base.backend import choose
from service.settings.settings import Settings
from service.storage.streams.redis_server import RedisServer, find_binary
from tests.service import fork_server
from tests.service.process import Service
from tests.service.waiting import eventually

FAST = {"n_factors": 8, "n_epochs": 20}
N_USERS, N_ITEMS = 60, 40


def planted(seed=0):
    """Ratings of two tastes: even users like even items, odd users odd ones."""
    rng = np.random.default_rng(seed)
    for user in range(N_USERS):
        for item in rng.permutation(N_ITEMS)[:16]:
            yield f"u{user}", f"i{item}", 5.0 if user % 2 == item % 2 else 1.0


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    running = Service(tmp_path_factory.mktemp("service") / "data")
    running.rate(*planted())
    yield running
    running.kill()


@pytest.fixture(scope="module")
def trained(service):
    """The service with a model for estimates and lists."""
    job = service.retrain("culsh", **FAST, n_neighbors=8)
    assert (job["state"], job["promoted"]) == ("succeeded", True), job
    return service


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    running = Service(tmp_path_factory.mktemp("fresh") / "data")
    yield running
    running.kill()


def test_a_rating_is_seen_by_the_next_read_that_waits_for_it(service):
    position = service.rate(("reader", "i1", 4.0))
    answer = service.get("/users/reader/ratings", wait_for=position).json()
    assert [(r["item"], r["rating"]) for r in answer["ratings"]] == [("i1", 4.0)]
    assert answer["as_of"] >= position


def test_a_deletion_is_seen_too(service):
    service.rate(("fickle", "i1", 4.0), ("fickle", "i2", 2.0))
    position = service.client.delete("/ratings/fickle/i1").json()["stream_id"]
    answer = service.get("/users/fickle/ratings", wait_for=position).json()
    assert [r["item"] for r in answer["ratings"]] == ["i2"]


@pytest.mark.parametrize("name", ["a/b", "ü", "%2F", "..", ".", "a b", "x?y=1&z", "#", "名前", "+", "\x00\n"])
def test_any_id_is_legal_in_a_path(service, name):
    position = service.rate((name, "i1", 3.0), ("u0", name, 2.0))
    path = quote(name, safe="").replace(".", "%2E")  # clients resolve "..", but not if it is encoded
    assert service.get(f"/users/{path}/ratings", wait_for=position).json()["user"] == name
    assert service.get(f"/recommend/{path}").json()["user"] == name
    assert service.client.delete(f"/ratings/u0/{path}").status_code == 202


def test_without_a_model_popular_items_are_recommended(fresh):
    assert fresh.get("/recommend/somebody").json()["items"] == []
    position = fresh.rate(("a", "x", 5.0), ("b", "x", 5.0), ("b", "y", 5.0))
    answer = fresh.get("/recommend/somebody", wait_for=position).json()
    assert [line["item"] for line in answer["items"]] == ["x", "y"]
    assert (answer["personalized"], answer["model"], answer["fallback"]) == (False, None, "popular")
    assert fresh.get("/recommend/somebody", fallback="none").status_code == 404


PAGES = ["", "?n=1", "?n=5&offset=3", "?model=culsh", "?n=100&offset=900", "?offset=1001", "?model=als", "?n=3&n=7"]


def test_a_plain_list_is_that_of_the_usual_way_byte_for_byte(trained):
    """Plain lists are gathered; one parameter more, with its default, takes the usual way."""
    of_request = re.compile(rb'"took_ms":[^,]+,"request_id":"[^"]+"}$')

    def told(path):
        answer = trained.client.get(path)
        headers = {name: value for name, value in answer.headers.items() if name not in ("x-request-id", "date")}
        headers.pop("content-length")
        if answer.status_code != 200:
            return answer.status_code, headers, answer.json()["detail"]
        body = answer.content
        assert answer.json()["request_id"] == answer.headers["x-request-id"]
        assert of_request.search(body)
        return 200, headers, of_request.sub(b"", body)

    users = [*(f"u{n}" for n in range(N_USERS)), "nobody", "a.b", "a~b", "it's", "a,b;c"]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for page in PAGES:
            plain = list(pool.map(told, [f"/recommend/{user}{page}" for user in users]))
            more = "&explore=0" if page else "?explore=0"
            assert plain == list(pool.map(told, [f"/recommend/{user}{page}{more}" for user in users]))


def test_recommendations_follow_taste_and_ratings(trained):
    answer = trained.get("/recommend/u0", n=5).json()
    assert answer["personalized"]
    assert all(int(line["item"][1:]) % 2 == 0 for line in answer["items"])
    best = answer["items"][0]["item"]
    position = trained.rate(("u0", best, 5.0))
    after = trained.get("/recommend/u0", n=5, wait_for=position).json()
    assert best not in [line["item"] for line in after["items"]]
    assert (
        trained.get("/recommend/u0", n=40, include_seen=True).json()["items"][0]["score"] >= after["items"][0]["score"]
    )


def test_a_new_user_is_personal_after_one_rating(trained):
    position = trained.rate(("newcomer", "i4", 5.0))
    assert trained.get("/recommend/newcomer", wait_for=position).json()["personalized"]


def test_a_forgotten_user_is_gone_everywhere(trained):
    position = trained.rate(("secretive-person", "i1", 5.0), ("secretive-person", "i2", 1.0))
    trained.get("/recommend/secretive-person", wait_for=position)
    answer = trained.client.delete("/admin/users/secretive-person")
    assert answer.status_code == 202
    forgotten = answer.json()
    assert trained.get("/users/secretive-person/ratings", wait_for=forgotten["stream_id"]).status_code == 404
    job = trained.api.ended_job(forgotten["job"])
    assert job["state"] == "succeeded", job
    holders = [path for path in trained.data.rglob("*") if path.is_file() and b"secretive-person" in path.read_bytes()]
    rows = [row for path in holders for row in parquet.read_table(path).to_pylist()]
    # Only the order to forget stays in the log: a reader that is behind still has to obey it.
    assert {row["kind"] for row in rows if row["user"] == "secretive-person"} <= {"forget"}
    with redis.Redis.from_url(RedisServer(trained.data).url) as client:
        assert b"secretive-person" not in client.hvals(f"nearfield:job:{forgotten['job']}")


def test_another_model_is_served_like_any_other(trained):
    """`tests.service.engine.lists.test_ranking` asks those of the other algorithms."""
    name = "nmf"
    job = trained.retrain(name, n_factors=8, n_epochs=5, start="nndsvd")
    assert (job["state"], job["promoted"]) == ("succeeded", True), job
    assert job["backend"].startswith(f"{choose().name}: ")
    user, new = f"user-of-{name}", f"new-to-{name}"
    seen = trained.rate((user, "i2", 5.0), (user, "i4", 5.0), (user, new, 5.0), ("u0", new, 5.0))
    answer = trained.get(f"/recommend/{user}", model=name, n=3, explain=True, wait_for=seen).json()
    assert (answer["personalized"], answer["model"], answer["model_version"]) == (True, name, job["version"])
    assert {reason["item"] for line in answer["items"] for reason in line["reasons"]} <= {"i2", "i4"}
    ratings = [{"item": item, "rating": 5} for item in ("i2", "i4", new)]
    anonymous = trained.client.post("/recommend", json={"ratings": ratings, "n": 3, "model": name}).json()
    assert [line["score"] for line in anonymous["items"]] == [line["score"] for line in answer["items"]]
    for path in ("/items/i0/neighbors", f"/items/{new}/neighbors", f"/users/{user}/neighbors"):
        assert trained.get(path, model=name, n=4).json()["neighbors"], path
    estimate = trained.get(f"/estimate/{user}/{new}", model=name).json()["estimate"]
    assert 0 <= estimate <= 5
    live = {model["algorithm"] for model in trained.get("/admin/models").json()["models"] if model["live"]}
    first = next(model for model in Settings().default_models if model in live)
    assert trained.get(f"/recommend/{user}").json()["model"] == first


def test_a_retrain_that_waits_is_found_again_and_each_can_be_cancelled(trained):
    body = {"algorithm": "sgd", "params": {"n_factors": 64, "n_epochs": 10_000}}
    job = trained.client.post("/admin/retrain", json=body).json()
    eventually(lambda: trained.get(f"/admin/jobs/{job['id']}").json()["state"] == "running")
    waiting = trained.client.post("/admin/retrain", json=body).json()
    again = trained.client.post("/admin/retrain", json=body)
    assert (again.status_code, again.json()["id"]) == (202, waiting["id"])
    for one in (waiting, job):
        assert trained.client.delete(f"/admin/jobs/{one['id']}").status_code == 202
        assert trained.api.ended_job(one["id"])["state"] == "cancelled"


def test_everything_survives_a_restart(tmp_path):
    service = Service(tmp_path / "data")
    try:
        service.rate(*planted())
        job = service.retrain("sgd", **FAST)
        position = service.rate(("late", "i2", 5.0))
        before = service.get("/recommend/late", wait_for=position, explain=True).json()
        assert service.stop() == 0
        service.start()
        after = service.get("/recommend/late", wait_for=position, explain=True).json()
        assert after["model_version"] == job["version"]
        assert after["items"] == before["items"]
    finally:
        service.kill()


def test_a_second_serve_on_the_same_folder_is_refused(service):
    status, _, errors = fork_server.ran(["serve", "--port", "0", "--data", str(service.data)])
    assert status == 1
    assert f"process {service.pid('engine')}:" in errors.replace("\n", " ")


def test_nothing_acknowledged_is_lost_when_redis_is_killed(fresh):
    """Ratings are posted all the while; the server dies twice and comes back by itself."""
    server = RedisServer(fresh.data)
    acknowledged, refused, kill_at = list[str](), 0, [100, 200]  # numbers of acknowledged ratings
    for index in itertools.count():
        if len(acknowledged) >= 300:
            break
        if kill_at and len(acknowledged) >= kill_at[0]:
            os.kill(server.pid, signal.SIGKILL)
            del kill_at[0]
        answer = fresh.client.post("/ratings", json={"user": "steady", "item": f"i{index}", "rating": 3})
        if answer.status_code == 202:
            acknowledged.append(f"i{index}")
        else:
            refused += 1
            assert answer.status_code == 503, answer.text
            assert int(answer.headers["retry-after"]) >= 1
            time.sleep(0.02)
    assert refused
    position = eventually(lambda: fresh.client.post("/ratings", json=[]).status_code == 202) and fresh.rate(
        ("x", "y", 1.0)
    )
    found = fresh.get("/users/steady/ratings", n=1000, wait_for=position).json()["ratings"]
    assert set(acknowledged) <= {rating["item"] for rating in found}


def test_requests_in_flight_are_finished_at_sigterm(fresh):
    """The last test of this service."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fresh.client.get, f"/popular?wait_for={int(time.time() * 1000) + 10_000}-0")
        time.sleep(1)
        fresh.process.send_signal(signal.SIGTERM)
        assert waiting.result().status_code == 503  # an answer (not seen within two seconds), not a broken connection
    assert fresh.process.wait(60) == 0


def test_a_redis_that_could_lose_ratings_is_refused(tmp_path):
    with subprocess.Popen(
        [find_binary(), "--port", "0", "--unixsocket", str(tmp_path / "s"), "--save", ""], stdout=subprocess.DEVNULL
    ) as server:
        try:
            eventually((tmp_path / "s").exists)
            url = f"unix://{tmp_path / 's'}"
            arguments = ["serve", "--port", "0", "--redis", url, "--data", str(tmp_path / "data")]
            status, _, errors = fork_server.ran(arguments)
        finally:
            server.kill()
    assert status == 1
    assert "Invalid appendonly" in errors
