"""Processes of a service with fronts are killed under load: nothing acknowledged is lost, and it goes on soon."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from service.storage.events import ZERO
from service.storage.log.rating_log import RatingLog
from service.storage.streams.redis_server import RedisServer
from tests.faults import results
from tests.service.processes.load import N_CLIENTS, SOON_S, Load
from tests.service.processes.service import FRONTS, FrontService
from tests.service.waiting import eventually

NAMES = {victim: f"SIGKILL of {victim}, with fronts" for victim in ("front-1", "engine", "redis", "archiver")}
N_SHORT = 6
LATEST_KILL_S = 0.3


@pytest.fixture
def service(tmp_path: Path) -> Iterator[FrontService]:
    running = FrontService(tmp_path / "data", log_level="warning")
    yield running
    running.kill()


def kill(service: FrontService, victim: str) -> None:
    """Return when it is gone: only then does what its successor does count."""
    process = psutil.Process(RedisServer(service.data).pid if victim == "redis" else service.pid(victim))
    process.kill()
    process.wait(SOON_S)


def trial(service: FrontService, load: Load, victim: str) -> float:
    """Kill one process; the seconds until the service is ready and each client has written again."""
    n_refused = load.statuses[503]
    kill(service, victim)
    begun_s = time.monotonic()
    if victim in ("engine", "redis"):
        eventually(lambda: load.statuses[503] > n_refused, SOON_S)
    eventually(service.is_ready, SOON_S)
    load.more(202)
    return time.monotonic() - begun_s


@pytest.mark.timeout(7200 if results.IS_LONG else 1200)
def test_nothing_acknowledged_is_lost_whichever_process_is_killed(service: FrontService) -> None:
    chance = random.Random(results.TRIALS)
    with Load(service) as load:
        load.more(202)
        for number in range(results.TRIALS or N_SHORT):
            victim = list(NAMES)[number % len(NAMES)]
            time.sleep(chance.uniform(0.0, LATEST_KILL_S))
            n_acknowledged, n_lost = len(load.acknowledged), load.n_lost_connections
            row = results.row(NAMES[victim])
            row.ready_s.append(trial(service, load, victim))
            row.n_trials += 1
            row.n_acknowledged += len(load.acknowledged) - n_acknowledged
            n_connections = N_CLIENTS if victim in FRONTS else 0
            assert load.n_lost_connections - n_lost <= n_connections, victim
    load.check()
    service.reconnect()
    assert service.stop() == 0
    ids = [
        f"{ms}-{seq}"
        for batch in RatingLog(service.data / "ratings").read(ZERO, ["index"])
        for ms, seq in zip(batch.column("ms").to_pylist(), batch.column("seq").to_pylist(), strict=True)
    ]
    assert len(ids) == len(set(ids))
    assert load.acknowledged.keys() <= set(ids)
