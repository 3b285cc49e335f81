"""Two services over one Redis and one folder, as real processes."""

from __future__ import annotations

from pathlib import Path

from service.cli import synthetic
from tests.service.process import Service
from tests.service.waiting import eventually


def test_replicas_share_ratings_models_and_the_log(redis_url: str, tmp_path: Path):
    """Equal answers at equal positions; a model trained through one is live in both; the log outlives its archiver."""
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
        lists = [service.get("/recommend/newcomer", wait_for=seen).json()["items"] for service in (first, second)]
        assert lists[0] == lists[1]
        assert first.stop() == 0
        second.rate(("newcomer", drawn.item_id(4), 1.0))
        assert second.stop() == 0
        third = Service(tmp_path / "data", redis=redis_url)
        assert len(third.get("/users/newcomer/ratings").json()["ratings"]) == 2
        assert third.stop() == 0
    finally:
        for service in (first, second):
            service.kill()
