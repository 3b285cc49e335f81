"""Redis comes back older or empty, its clock behind: every acknowledged rating stays, and no id comes twice."""

import time
from pathlib import Path

import pytest

from service.storage.events import ZERO
from service.storage.log.rating_log import RatingLog
from tests.faults import results
from tests.faults.failover import FAKE_CLOCK, FailingRedis, Poster, position_of
from tests.service.process import Service
from tests.service.waiting import eventually

CLOCKS_BEHIND_S = (1, 5, 30, 3600)  # all of them one after the other in the long run, else two for each kind
# Number of the first clock; in the short run each state, clock and number of services once.
CASES = [("older", 0, 1, 2), ("empty", 1, 1, 2), ("older", 0, 2, 1), ("empty", 1, 2, 1)]
OLDER_BY_S, OUTAGE_S = (5.0, 4.0) if results.IS_LONG else (1.0, 0.3)
N_AFTER = 150 if results.IS_LONG else 40  # ratings to acknowledge after each failover


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("state", "first", "n_services", "n_fronts"), CASES if results.IS_LONG else CASES[::3])
def test_a_failover_to_a_server_whose_clock_is_behind_loses_nothing(
    tmp_path: Path, state: str, first: int, n_services: int, n_fronts: int
) -> None:
    server = FailingRedis(tmp_path / "redis")
    settings = {"redis": server.url, "backend": "host", "worker": False, "log_level": "warning", "fronts": n_fronts}
    services = [Service(tmp_path / "data", **settings) for _ in range(n_services)]
    row = results.row(f"Redis comes back {state}, clock behind, {n_fronts} fronts, {n_services} replicas")
    try:
        with Poster(lambda: [str(service.client.base_url) for service in services]) as poster:
            for behind_s in CLOCKS_BEHIND_S if results.IS_LONG else CLOCKS_BEHIND_S[first::2]:
                failover(server, poster, behind_s, state)
                failed_s = time.monotonic()
                poster.more(N_AFTER)
                row.ready_s.append(time.monotonic() - failed_s)
                row.n_trials += 1
        last = max(poster.acknowledged, key=position_of)
        # Each looks at Redis once a second.
        eventually(lambda: all(service.get("/health/ready").status_code == 200 for service in services), 60)
        for service in services:
            learned = items_of(service, last)
            assert set(poster.acknowledged.values()) <= learned
        for service in services:
            assert service.stop() == 0
        archived = ids_of(tmp_path / "data")
        lost = poster.acknowledged.keys() - archived
        row.n_acknowledged += len(poster.acknowledged)
        row.n_lost += len(lost)
        assert not lost, f"{len(lost)} of {len(poster.acknowledged)}"
        assert poster.repeated == []
        services[0].start()  # what was learned is what a restart learns
        assert items_of(services[0], last) == learned
    finally:
        for service in services:
            service.kill()
        server.kill()


def failover(server: FailingRedis, poster: Poster, behind_s: int, state: str) -> None:
    if not FAKE_CLOCK:
        server.run_ahead(behind_s)
    poster.more(20)
    server.remember()
    time.sleep(OLDER_BY_S)
    server.lose(all_of_it=state == "empty")
    time.sleep(OUTAGE_S)
    server.start(behind_s)


def items_of(service: Service, position: str) -> set[str]:
    """The items of all ratings that the service has learned."""

    def of_user(number: int) -> set[str]:
        answer = service.get(f"/users/u{number}/ratings", wait_for=position, n=1000)
        return {one["item"] for one in answer.json()["ratings"]}

    return set().union(*map(of_user, range(50)))


def ids_of(data: Path) -> set[str]:
    return {
        f"{ms}-{seq}"
        for batch in RatingLog(data / "ratings").read(ZERO, ["index"])
        for ms, seq in zip(batch.column("ms").to_pylist(), batch.column("seq").to_pylist(), strict=True)
    }
