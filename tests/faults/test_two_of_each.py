"""Two services with a worker each over one folder and one Redis: one archives, one trains, and the other takes over."""

import time
from pathlib import Path

from service.storage.events import ZERO, StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.streams.redis_server import RedisServer
from tests.faults import results
from tests.service.process import Service
from tests.service.waiting import eventually

N_RATINGS = 480


def test_two_archivers_and_two_workers_lose_and_repeat_nothing(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "elsewhere")
    server.start()
    data = tmp_path / "data"
    services = [Service(data, redis=server.url, backend="host", retrain_share=0, log_level="warning")]
    services.append(Service(data, redis=server.url, backend="host", retrain_share=0, log_level="warning"))
    row = results.row("SIGKILL of one of two services (archivers, workers)")
    try:
        acknowledged = [
            services[number % 2].rate((f"u{number % 30}", f"i{number % 11}", float(number % 5)))
            for number in range(N_RATINGS)
        ]
        body = {"algorithm": "als", "params": {"n_factors": 4, "n_epochs": 2}, "force": True}
        job = services[0].client.post("/admin/retrain", json=body).json()
        services[0].crash()
        killed_s = time.monotonic()
        acknowledged += [services[1].rate(("late", f"i{number}", 1.0)) for number in range(20)]
        row.ready_s.append(time.monotonic() - killed_s)
        assert services[1].api.ended_job(job["id"])["state"] in ("succeeded", "failed")  # of which worker it was
        again = services[1].retrain("als", n_factors=4, n_epochs=2)
        assert again["state"] == "succeeded", again
        last = max(map(StreamId.parse, acknowledged))
        eventually(lambda: RatingLog(data / "ratings").last_id() >= last, 60)
        ids = [
            f"{ms}-{seq}"
            for batch in RatingLog(data / "ratings").read(ZERO, ["index"])
            for ms, seq in zip(batch.column("ms").to_pylist(), batch.column("seq").to_pylist(), strict=True)
        ]
        assert sorted(ids) == sorted(acknowledged)
        row.n_trials, row.n_acknowledged = row.n_trials + 1, row.n_acknowledged + len(acknowledged)
    finally:
        for service in services:
            service.kill()
        server.stop()
