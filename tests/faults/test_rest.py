"""A service that nobody asks: it writes nothing, and hardly takes a processor."""

import time
from functools import partial
from pathlib import Path

import psutil
import redis

from service.storage.streams.redis_server import RedisServer
from tests.faults import results
from tests.faults.test_disks_and_clocks import is_archived
from tests.service.keys import COMMIT
from tests.service.process import Service
from tests.service.waiting import eventually

SETTLE_S, REST_S = (15.0, 20.0) if results.IS_LONG else (3.0, 5.0)  # after the archiver's commit
N_RESTS, MOST_RESTS = 3, 12  # what runs beside the services costs them time, too: the quietest rest counts
MOST_PERCENT = 1.0  # of a core, of a shared machine; alone it is a third of this. It was 2 %


def test_idle_services_write_nothing_and_rest(tmp_path: Path) -> None:
    """One without a model and one with a model, at the same time."""
    services, last = dict[str, Service](), dict[str, str]()
    try:
        for name in ("without a model", "with a model"):
            service = services[name] = Service(tmp_path / name, backend="host", retrain_share=0)
            last[name] = service.rate(*((f"u{n % 30}", f"i{n % 11}", float(n % 5)) for n in range(200)))
        service.train("als", n_factors=8, n_epochs=2)
        for name, service in services.items():
            with redis.Redis.from_url(RedisServer(service.data).url) as client:
                client.set(COMMIT, last[name])  # else it comes within ten seconds
            eventually(partial(is_archived, service.data, last[name]))
        time.sleep(SETTLE_S)
        files = {name: written(service.data) for name, service in services.items()}
        percents: dict[str, list[float]] = {name: [] for name in services}
        while not is_measured(percents):
            before = {name: (time.monotonic(), processor_s(service)) for name, service in services.items()}
            time.sleep(REST_S)
            for name, service in services.items():
                begun_s, used_s = before[name]
                percents[name].append(100 * (processor_s(service) - used_s) / (time.monotonic() - begun_s))
        for name, service in services.items():
            results.MEASURED.append(f"idle {name}: {min(percents[name]):.2f} % of a core")
            assert written(service.data) == files[name]
            assert min(percents[name]) <= MOST_PERCENT, (name, percents)
    finally:
        for service in services.values():
            service.kill()


def is_measured(percents: dict[str, list[float]]) -> bool:
    """Whether each service has rested often enough; again, up to a bound, if no rest was a quiet one."""
    n_rests = min(map(len, percents.values()))
    is_quiet = n_rests >= N_RESTS and max(map(min, percents.values())) <= MOST_PERCENT
    return is_quiet or n_rests >= MOST_RESTS


def written(data: Path) -> dict[str, tuple[int, int]]:
    """Size and time of each file, but of locks."""
    files = [path for path in data.rglob("*") if path.is_file() and not path.name.endswith(".lock")]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def processor_s(service: Service) -> float:
    """Seconds of a core that the service and its Redis have taken."""
    parent = psutil.Process(service.process.pid)
    family = {parent, *parent.children(recursive=True), psutil.Process(RedisServer(service.data).pid)}
    return sum(sum(process.cpu_times()[:2]) for process in family)
