"""Processes are killed while ratings come, users are forgotten and models are trained: nothing acknowledged is lost."""

import shutil
from pathlib import Path

import pytest

from service.storage.events import ZERO
from service.storage.log.rating_log import RatingLog
from tests.faults import results
from tests.faults.storm import Storm, answers_of, key_of, undisturbed

N_SHORT, LEAST_KILLS = 7, 10
VICTIMS = {
    "SIGKILL of the service": ("service",),
    "SIGKILL of Redis": ("redis",),
    "SIGKILL of the trainer": ("trainer",),
    "SIGKILL of service and Redis": ("service", "redis"),
    "SIGKILL of all three": ("service", "redis", "trainer"),
}
POINTS = ("rename:{}", "fsync:{}")


@pytest.mark.timeout(7200 if results.IS_LONG else 1200)
def test_nothing_acknowledged_is_lost_and_answers_are_those_of_an_undisturbed_run(tmp_path: Path) -> None:
    storm = Storm(tmp_path / "data", seed=results.TRIALS)
    try:
        storm.begin()
        for number in range(results.TRIALS or N_SHORT):
            if number % 3 == 2:
                storm.trial_at(POINTS[number // 3 % 2].format(storm.random.randint(1, 24)))
            else:
                storm.trial(*list(VICTIMS.items())[(number - (number + 1) // 3) % len(VICTIMS)])
        assert storm.n_kills >= LEAST_KILLS
        storm.settle()
        total = results.row("all of these, afterward")
        total.n_trials, total.n_acknowledged = results.TRIALS or N_SHORT, len(storm.acknowledged)
        total.n_lost, total.n_duplicated = storm.count_lost(), storm.count_duplicated()
        assert (total.n_lost, total.n_duplicated) == (0, 0)
        found = answers_of(storm.service)
        assert storm.service.stop() == 0
        check_log(storm)

        assert found == undisturbed(storm, tmp_path / "undisturbed")

        shutil.rmtree(storm.data / "redis")  # everything is in the log
        storm.service.start()
        storm.service.settle(max(storm.acknowledged, key=key_of))
        assert found == answers_of(storm.service)
    finally:
        storm.close()


def check_log(storm: Storm) -> None:
    """Every position is there once, and nothing else than what the stream had."""
    positions = [
        position
        for batch in RatingLog(storm.data / "ratings").read(ZERO, ["index"])
        for position in zip(*(batch.column(name).to_pylist() for name in ("ms", "seq", "index")), strict=True)
    ]
    assert len(positions) == len(set(positions))
    assert {f"{ms}-{seq}" for ms, seq, _ in positions} <= storm.entries.keys()
