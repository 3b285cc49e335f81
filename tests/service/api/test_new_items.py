"""An item that nobody has rated, over HTTP."""

from __future__ import annotations

from pathlib import Path

from service.jobs import trainer
from service.storage import live_versions
from service.storage.events import Entry, StreamId
from service.storage.item_changes import ItemChange
from service.storage.rating_log import RatingLog
from tests.service.local import serving
from tests.service.logs import commit
from tests.service.planted import N_ITEMS, entries


def test_an_unrated_item_is_recommended_to_the_fans_of_its_tags(tmp_path: Path) -> None:
    data, watermark = tmp_path / "data", StreamId(9000, 0)
    genres = [ItemChange(f"i{n}", tags={"genre": [("war", "love")[n % 2]]}) for n in range(N_ITEMS)]
    commit(RatingLog(data / "ratings"), [*entries(), Entry(watermark, "item", items=genres)])
    params = '{"n_factors": 8, "n_epochs": 5}'
    last = trainer.train(data, "als-implicit", params, str(watermark), "host", lambda message: None)
    live_versions.set_version(data, "als-implicit", str(last.version))
    with serving(data, backend="host", worker=False) as local:
        new = [{"item": "new-war", "tags": {"genre": ["war"]}}, {"item": "new-love", "tags": {"genre": ["love"]}}]
        written = local.post("/items", new).json()["stream_id"]
        for user, own, other in (("u2", "new-war", "new-love"), ("u3", "new-love", "new-war")):
            answer = local.get(f"/recommend/{user}", n=40, explain=True, wait_for=written).json()
            shown = [line["item"] for line in answer["items"]]
            assert answer["personalized"]
            assert own in shown[:3]
            assert shown.index(own) < shown.index(other)
            assert len(answer["items"][shown.index(own)]["reasons"]) == 3
        neighbors = local.get("/items/new-war/neighbors", n=3).json()["neighbors"]
        assert all(int(line["item"][1:]) % 2 == 0 for line in neighbors)
        gone = local.request("PATCH", "/items/new-war", json={"tags": None}).json()["stream_id"]
        answer = local.get("/recommend/u2", n=100, wait_for=gone).json()
        assert "new-war" not in [line["item"] for line in answer["items"]]
