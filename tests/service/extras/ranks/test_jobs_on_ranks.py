"""Jobs whose trainings are on several ranks."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from service.extras.ranks import trainer_module
from service.jobs.jobs import Jobs
from service.jobs.supervisor import Supervisor
from service.jobs.training import Training
from service.settings.settings import Settings
from service.storage import exclusion
from service.storage.events import StreamId
from tests.service.extras.ranks.test_ranks import GATHERED
from tests.service.jobs.test_supervisor import archiver, ended, jobs, rate, running, settings, supervise, trainer_of
from tests.service.process import descendants

__all__ = ["archiver", "jobs", "rate", "settings", "supervise"]


def ranks_of_any_trainer() -> list[psutil.Process]:
    return descendants("service.extras.ranks.rank")


@pytest.mark.slow
def test_several_ranks_train_and_a_lost_one_costs_nothing(
    settings: Settings, jobs: Jobs, supervise: Callable[..., Supervisor], rate: Callable[[], StreamId]
) -> None:
    rate()
    supervisor = supervise(settings.model_copy(update={"trainer_ranks": 2}), trainer=trainer_module)
    job = running(jobs, jobs.submit_training(Training.of("als", {"n_factors": 4, "n_epochs": 400})))
    assert [child.nice() for child in ranks_of_any_trainer()] == [19, 19]
    ranks_of_any_trainer()[1].kill()
    job = ended(jobs, job)
    assert (job.state, job.error) == ("succeeded", None)
    assert str(job.backend).endswith(f"; 2 ranks, {GATHERED}, 1 lost attempt, 2 ranks in the last one")
    text = supervisor._metrics.text().decode()
    assert "nearfield_training_restarts_total 1.0" in text
    assert "nearfield_training_ranks 0.0" in text
    assert re.search(r'nearfield_training_bytes_moved_total\{kind="gather"\} [1-9]', text)
    assert re.search(r"nearfield_training_wait_seconds_total [\d.e-]*[1-9]", text)
    assert ranks_of_any_trainer() == []
    assert list((settings.data / "work").iterdir()) == []


def test_a_cancelled_training_on_several_ranks_leaves_no_process_and_no_file(
    settings: Settings, jobs: Jobs, supervise: Callable[..., Supervisor], rate: Callable[[], StreamId]
) -> None:
    rate()
    supervise(settings.model_copy(update={"trainer_ranks": 2}), trainer=trainer_module)
    shared = set(Path("/dev/shm").iterdir())
    job = running(jobs, jobs.submit_training(Training.of("als", {"n_factors": 4, "n_epochs": 10_000})))
    assert len(ranks_of_any_trainer()) == 2
    jobs.cancel(job.id)
    assert ended(jobs, job).state == "cancelled"
    assert ranks_of_any_trainer() == []
    assert list((settings.data / "work").iterdir()) == []
    assert set(Path("/dev/shm").iterdir()) <= shared


def test_a_trainer_that_is_killed_leaves_no_ranks_and_no_files(
    settings: Settings, jobs: Jobs, supervise: Callable[..., Supervisor], rate: Callable[[], StreamId]
) -> None:
    rate()
    supervise(settings.model_copy(update={"trainer_ranks": 2}), trainer=trainer_module)
    job = running(jobs, jobs.submit_training(Training.of("als", {"n_factors": 4, "n_epochs": 10_000})))
    ranks = ranks_of_any_trainer()
    assert list((settings.data / "work" / job.id).iterdir())
    os.kill(trainer_of(job).pid, signal.SIGKILL)
    assert ended(jobs, job).state == "failed"
    psutil.wait_procs(ranks, timeout=60)
    assert not any(rank.is_running() for rank in ranks)
    assert list((settings.data / "work").iterdir()) == []
    exclusion.clean(settings.data)  # what is left if the supervisor was killed too goes at the next start
    assert not (settings.data / "work").exists()
