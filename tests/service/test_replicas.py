"""Two services over one Redis and one folder, as real processes."""

from pathlib import Path

from service.cli import synthetic
from tests.service.process import Service
from tests.service.waiting import eventually


def test_replicas_share_ratings_models_and_the_log(redis_url: str, tmp_path: Path):
    """Equal answers at equal positions; models and scenarios of one are in both; the log outlives its archiver."""
    drawn = synthetic.planted(0, 60, 40)
    rows = zip(drawn.viewers.tolist(), drawn.items.tolist(), drawn.ratings.tolist(), strict=True)
    ratings = [(drawn.viewer_id(user), drawn.item_id(item), rating) for user, item, rating in rows][:1000]
    first = Service(tmp_path / "data", redis=redis_url)
    second = Service(tmp_path / "data", redis=redis_url, worker=False)
    try:
        seen = first.rate(*ratings)
        popular = [service.get("/popular", wait_for=seen).json()["items"] for service in (first, second)]
        assert popular[0] == popular[1] != []
        job = first.retrain("culsh-implicit", n_epochs=3, n_factors=8)
        assert job["state"] == "succeeded", job
        eventually(lambda: second.get(f"/recommend/{drawn.viewer_id(0)}").json()["model_version"] == job["version"])
        seen = second.rate(("newcomer", drawn.item_id(3), 5.0))
        for service in (first, second):
            service.settle(seen)
        lists = [service.get("/recommend/newcomer").json()["items"] for service in (first, second)]
        assert lists[0] == lists[1]
        rules = {"n": 3, "pins": [{"item": drawn.item_id(9), "at": 2}], "diversity": 0.3}
        seen = first.client.put("/admin/scenarios/home", json=rules).json()["stream_id"]
        lists = [
            service.get("/recommend/newcomer", scenario="home", wait_for=seen).json() for service in (first, second)
        ]
        assert lists[0]["items"] == lists[1]["items"]
        assert lists[0]["items"][1] == {"item": drawn.item_id(9), "score": None, "source": "pin"}
        assert first.stop() == 0
        second.rate(("newcomer", drawn.item_id(4), 1.0))
        assert second.stop() == 0
        third = Service(tmp_path / "data", redis=redis_url)
        assert len(third.get("/users/newcomer/ratings").json()["ratings"]) == 2
        assert third.get("/admin/scenarios/home").json()["body"] == rules
        assert third.stop() == 0
    finally:
        for service in (first, second):
            service.kill()
