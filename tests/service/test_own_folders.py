"""Replicas with folders of their own, which follow the store that a worker fills, as real processes."""

import os
import signal
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from service.cli import synthetic
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import snapshot
from tests.service import fork_server
from tests.service.process import Service
from tests.service.waiting import eventually

pytest.importorskip("obstore", reason="needs the extra registry: pip install obstore")

FORGOTTEN = "nobody"


class Worker:
    """`nearfield worker` over a folder that outlives it."""

    def __init__(self, data: Path, redis_url: str, store: str, *options: str) -> None:
        variables = {"NEARFIELD_STORE": store, "NEARFIELD_REDIS": redis_url, "NEARFIELD_LOG_FORMAT": "json"}
        with data.with_suffix(".stderr").open("wb") as errors:
            command = ["worker", "--data", str(data), *options]
            self._process = fork_server.server().start(command, os.environ | variables, errors, errors)

    def end(self, number: int = signal.SIGTERM) -> int:
        self._process.send_signal(number)
        return self._process.wait(60)


class Served:
    """The folder of a store, read by HTTP."""

    def __init__(self, folder: Path) -> None:
        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder))
        Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def ratings_of(data: Path) -> set[tuple[str, str]]:
    batches = RatingLog(data / "ratings").read(columns=["kind", "user", "item"])
    rows = (row for batch in batches for row in batch.to_pylist())
    return {(row["user"], row["item"]) for row in rows if row["kind"] == "rating"}


def has_all(data: Path, ratings: set[tuple[str, str]]) -> bool:
    return ratings_of(data) >= ratings


def is_revised(service: Service) -> bool:
    return [model["revision"] for model in service.get("/admin/stats").json()["models"]] == [1]


def has_forgotten(data: Path) -> bool:
    return FORGOTTEN not in names_of(data)


def names_of(data: Path) -> set[str]:
    """The users whom the log and the snapshots of a folder name."""
    folder = data / "snapshots"
    held = {version for version in snapshot.versions(folder) if snapshot.holds_user(folder, version, FORGOTTEN)}
    return {user for user, _ in ratings_of(data)} | ({FORGOTTEN} if held else set())


def test_replicas_without_a_common_folder(redis_url: str, tmp_path: Path):
    """Equal lists after a training; who was away catches up; a lost folder comes back; nothing acknowledged is lost."""
    drawn = synthetic.planted(0, 60, 40)
    rows = zip(drawn.viewers.tolist(), drawn.items.tolist(), drawn.ratings.tolist(), strict=True)
    ratings = [(drawn.viewer_id(user), drawn.item_id(item), rating) for user, item, rating in rows][:1000]
    acknowledged = {(user, item) for user, item, _ in ratings}
    store = tmp_path / "store"
    store.mkdir()
    files, url = Served(store), f"file://{store}"
    settings = {"redis": redis_url, "worker": False, "log_level": "warning", "retrain_share": 0}
    worker = Worker(tmp_path / "w1", redis_url, url)
    first = second = None
    try:
        first = Service(tmp_path / "a", store=url, fronts=1, **settings)
        second = Service(tmp_path / "b", store=files.url, fronts=2, **settings)
        first.rate((FORGOTTEN, drawn.item_id(1), 5.0), (FORGOTTEN, drawn.item_id(2), 4.0))
        first.rate(*ratings)
        job = first.retrain("ease")
        assert job["state"] == "succeeded", job
        users = [drawn.viewer_id(n) for n in range(5)]

        def lists(service: Service, **parameters: object) -> list[tuple[str, object]]:
            answers = [service.get(f"/recommend/{user}", **parameters).json() for user in users]
            return [(one["model_version"], one["items"]) for one in answers]

        eventually(lambda: {version for one in (first, second) for version, _ in lists(one)} == {job["version"]}, 60)
        seen = second.rate((users[0], "new", 5.0))
        assert lists(first, wait_for=seen) == lists(second, wait_for=seen)
        assert second.client.post("/admin/webhooks", json={"url": "https://example.com"}).status_code == 409
        assert second.client.delete("/admin/models/ease").status_code == 202
        eventually(lambda: {version for one in (first, second) for version, _ in lists(one)} == {None}, 60)
        assert first.client.post(f"/admin/models/{job['version']}/activate").status_code == 202
        eventually(lambda: {version for one in (first, second) for version, _ in lists(one)} == {job["version"]}, 60)

        second.crash()
        assert FORGOTTEN in names_of(tmp_path / "b")
        done = first.client.delete(f"/admin/users/{FORGOTTEN}").json()
        assert first.api.ended_job(done["job"])["state"] == "succeeded"
        seen = first.rate((users[1], "later", 5.0))
        second.start()
        for service in (first, second):  # each has the model without the user a moment after its store
            eventually(partial(is_revised, service), 60)
        assert lists(first, wait_for=seen) == lists(second, wait_for=seen)
        for folder in ("a", "b"):
            eventually(partial(has_forgotten, tmp_path / folder), 60)

        worker.end(signal.SIGKILL)
        worker = Worker(tmp_path / "w2", redis_url, url, "--take-over")
        seen = first.rate((users[3], "after", 5.0))
        acknowledged |= {(users[0], "new"), (users[1], "later"), (users[3], "after")}
        for folder in ("w2", "a", "b"):
            eventually(partial(has_all, tmp_path / folder, acknowledged), 60)
        assert worker.end() == 0
        assert first.stop() == second.stop() == 0
    finally:
        worker.end(signal.SIGKILL)
        for service in filter(None, (first, second)):
            service.kill()
        files.close()
