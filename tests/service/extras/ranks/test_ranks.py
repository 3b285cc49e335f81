"""Trainings on several processes: the bits of one, whatever happens to a rank."""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import gpu
from gpu.als.halves import Modes
from gpu.als.trainer import AlsTrainer
from gpu.base.backend import HOST
from gpu.base.errors import BackendUnavailable, NotEnoughMemory
from gpu.data.ratings import Ratings
from gpu.ranks.exchange import Exchange
from gpu.ranks.threads import run_threads
from service.extras.ranks import attempt, checkpoints, rank_process
from service.extras.ranks.errors import RankRefused, RanksFailed, WorkFolderUnavailable
from service.extras.ranks.launcher import Launcher, Rank
from service.extras.ranks.rank_messages import RankFailed
from service.extras.ranks.rank_process import SHARED_WEIGHT, Here, RankProcess, environment, trusts_links
from service.extras.ranks.ranks import Ranks
from tests.data import planted, split
from tests.faults.small_disk import small_disk
from tests.service.extras.ranks.one_gpu import launcher_for
from tests.service.process import descendants
from tests.service.waiting import eventually

__all__ = ["small_disk"]

ALS = gpu.params_for("als", {"n_factors": 4, "n_epochs": 3})
N_LONG = 30  # epochs
LONG = gpu.params_for("als", {"n_factors": 4, "n_epochs": N_LONG})
GATHERED = "items half in mode gather, users half in mode gather"
REDUCED = "items half in mode reduce, users half in mode gather"


class Watched(Ranks):
    """Ranks with the sentences about lost attempts."""

    def __init__(self, work: Path, n_ranks: int = 2, launcher: Launcher | None = None) -> None:
        self.losses: list[str] = []
        super().__init__(n_ranks, work, self.losses.append, launcher=launcher)


class Shared(Here):
    """A machine whose last rank has other work too."""

    def weights(self, n_ranks: int, backend: gpu.Backend) -> tuple[float, ...]:
        return (*super().weights(n_ranks - 1, backend), SHARED_WEIGHT)


@pytest.fixture
def ranks(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "work")


def assert_equal(model: gpu.Model, expected: gpu.Model) -> None:
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(model.arrays[name], array, err_msg=name)
    assert (model.mean, model.scale, model.calibration) == (expected.mean, expected.scale, expected.calibration)


def assert_nothing_is_left(work: Path) -> None:
    assert not work.exists()
    assert descendants("service.extras.ranks.rank") == []


def at_epoch(epoch: int, do: Callable[[], None]) -> tuple[list[int], Callable[[gpu.EpochReport], None]]:
    """The epochs that are reported, and what to call after each; `do` is called after one of them."""
    epochs: list[int] = []

    def on_epoch(report: gpu.EpochReport) -> None:
        epochs.append(report.epoch)
        if report.epoch == epoch:
            do()

    return epochs, on_epoch


def send(ranks: Watched, number: signal.Signals, rank: int = 1) -> None:
    assert ranks.attempt is not None
    os.kill(pid_of(ranks.attempt.processes[rank]), number)


def pid_of(rank: Rank) -> int:
    assert isinstance(rank, RankProcess)
    return rank.pid


@pytest.mark.parametrize("algorithm", ["als", "nmf"])
def test_two_ranks_give_the_model_and_the_reports_of_one(algorithm: str, tmp_path: Path) -> None:
    is_shared = algorithm != "als"
    ranks = Watched(tmp_path / "work", launcher=Shared() if is_shared else None)
    train, test = split(planted(600, 400))  # sparse, and with more than a block of rows for each rank of NMF
    params = gpu.params_for(algorithm, {"n_factors": 4, "n_epochs": 3})
    reports, expected = list[gpu.EpochReport](), list[gpu.EpochReport]()
    model = gpu.fit(train, params, test=test, on_epoch=reports.append, run=ranks.run)
    assert_equal(model, gpu.fit(train, params, test=test, on_epoch=expected.append))
    assert [report.epoch for report in reports] == [1, 2, 3]
    for report, wanted in zip(reports, expected, strict=True):
        assert report.metrics == pytest.approx(wanted.metrics, rel=1e-6)
    assert [report.seconds for report in reports] == sorted(report.seconds for report in reports)
    division = f", {GATHERED}{', ranks have 67%, 33% of the ratings' * is_shared}"
    assert (ranks.n_restarts, ranks.remark) == (0, "" if algorithm == "nmf" else division)
    assert_nothing_is_left(tmp_path / "work")


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["als", "als-implicit", "culsh", "culsh-implicit", "esgd", "nmf", "sgd"])
def test_two_ranks_on_a_gpu_train_every_algorithm(algorithm: str, tmp_path: Path) -> None:
    train, test = split(planted(600, 400))
    params, backend = gpu.params_for(algorithm, {"n_factors": 8, "n_epochs": 4}), gpu.choose("device")
    reports, expected = list[gpu.EpochReport](), list[gpu.EpochReport]()
    ranks = Watched(tmp_path / "work", launcher=launcher_for(2))
    model = gpu.fit(train, params, backend=backend, test=test, on_epoch=reports.append, run=ranks.run)
    alone = gpu.fit(train, params, backend=backend, test=test, on_epoch=expected.append)
    if algorithm in ("als", "als-implicit", "nmf"):
        assert_equal(model, alone)
    for name, value in expected[-1].metrics.items():
        assert reports[-1].metrics[name] == pytest.approx(value, rel=0.2 if "@" in name else 0.05), name
    assert ranks.losses == []
    assert sum(ranks.moved().sent.values()) > 0
    assert_nothing_is_left(tmp_path / "work")


def many_users(n_users: int, n_items: int = 10) -> Ratings:
    """Ratings with far more users than items: sums of items are then smaller than the table of users."""
    users = np.arange(4 * n_users) % n_users
    return Ratings.from_coo(users, (7 * users + users // 3) % n_items, 1.0 + np.arange(4 * n_users) % 5)


class ShrinkingMachine(Here):
    """Has one place fewer after the first attempt."""

    n_asked = 0

    def available(self, n_ranks: int, backend: gpu.Backend) -> int:
        self.n_asked += 1
        return n_ranks if self.n_asked == 1 else n_ranks - 1


def test_another_number_of_ranks_plans_anew(tmp_path: Path) -> None:
    """With this shape three ranks add up items, and two gather users."""
    ranks, divisions = Watched(tmp_path / "work", 3, launcher=ShrinkingMachine()), list[str]()

    def on_epoch(report: gpu.EpochReport) -> None:
        divisions.append(ranks.division)
        if report.epoch == 3:
            send(ranks, signal.SIGKILL)

    gpu.fit(many_users(1080), LONG, on_epoch=on_epoch, run=ranks.run)
    assert (len(divisions), divisions[0], divisions[-1]) == (N_LONG, REDUCED, GATHERED)
    assert ranks.remark == f", {GATHERED}, 1 lost attempt, 2 ranks in the last one"


def test_a_killed_rank_that_adds_up_costs_an_attempt_and_no_bit(ranks: Watched, tmp_path: Path) -> None:
    """Each rank has a part of each table; in the next attempt the same one."""
    ratings, undisturbed = many_users(2000), Watched(tmp_path / "undisturbed")
    expected = gpu.fit(ratings, LONG, run=undisturbed.run)
    _, on_epoch = at_epoch(5, lambda: send(ranks, signal.SIGKILL))
    assert_equal(gpu.fit(ratings, LONG, on_epoch=on_epoch, run=ranks.run), expected)
    assert undisturbed.remark == f", {REDUCED}"
    assert ranks.remark == f", {REDUCED}, 1 lost attempt, 2 ranks in the last one"


class WithoutReserve(Here):
    """Ranks whose plan reserves no memory for CUDA, so that some kilobytes are planned like gigabytes of a GPU."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        folder.mkdir()
        names = "CUDA_BYTES = layout.COMMUNICATOR_BYTES = layout.WORKSPACE"
        (folder / "sitecustomize.py").write_text(
            f"import gpu.als.planner_layout as layout\nlayout.{names} = 0\n", "utf-8"
        )
        self._path = os.pathsep.join([str(folder), str(Path.cwd()), os.environ.get("PYTHONPATH", "")])

    def start(
        self, rank: int, n_ranks: int, coordinator: tuple[str, int], key: bytes, backend: gpu.Backend
    ) -> RankProcess:
        own = environment(dict(os.environ), rank, n_ranks, backend) | {"PYTHONPATH": self._path}
        return RankProcess(rank, coordinator, key, own)


def for_batches(ratings: Ratings, params: Any) -> gpu.Backend:
    """With little more memory than a rank of two needs at least, in mode reduce with ratings in batches of a row."""

    def trainer(ring: Exchange, most: int) -> AlsTrainer:
        return AlsTrainer(ratings, params, HOST.within(most), None, None, ring, Modes("reduce", "gather"))

    def needed(ring: Exchange) -> int:
        with pytest.raises(NotEnoughMemory) as refused:
            trainer(ring, 1)
        return refused.value.needed_bytes

    most = max(run_threads(2, needed)) + 4000
    assert all(run_threads(2, lambda ring: trainer(ring, most).batches is not None))
    return HOST.within(most)


def test_a_killed_rank_that_adds_up_ratings_in_batches_costs_an_attempt_and_no_bit(tmp_path: Path) -> None:
    ratings, launcher = many_users(2000), WithoutReserve(tmp_path / "site")
    backend = for_batches(ratings, LONG)
    undisturbed, ranks = (Watched(tmp_path / name, launcher=launcher) for name in ("undisturbed", "work"))
    expected = gpu.fit(ratings, LONG, backend=backend, run=undisturbed.run)
    assert undisturbed.remark == f", {REDUCED}"
    _, on_epoch = at_epoch(5, lambda: send(ranks, signal.SIGKILL))
    assert_equal(gpu.fit(ratings, LONG, backend=backend, on_epoch=on_epoch, run=ranks.run), expected)
    assert ranks.remark == f", {REDUCED}, 1 lost attempt, 2 ranks in the last one"


def test_a_killed_rank_costs_an_attempt_and_no_bit(ranks: Watched, tmp_path: Path) -> None:
    """NMF goes on with the error that decides when to stop; `tests.faults.test_ranks` kills ranks of ALS."""
    ratings = planted(600, 400)
    params = gpu.params_for("nmf", {"n_factors": 4, "n_epochs": 200, "tolerance": 0.0001})
    expected, on_epoch_of_one = at_epoch(0, lambda: None)
    epochs, on_epoch = at_epoch(5, lambda: send(ranks, signal.SIGKILL))
    model = gpu.fit(ratings, params, on_epoch=on_epoch, run=ranks.run)
    assert_equal(model, gpu.fit(ratings, params, on_epoch=on_epoch_of_one))
    assert epochs == expected
    assert 10 < len(epochs) < 200
    (loss,) = ranks.losses
    assert loss.startswith("attempt 1 lost: rank 1 ended by signal 9; the next one continues after part ")
    assert_nothing_is_left(tmp_path / "work")


def test_a_rank_that_finishes_first_is_not_lost(ranks: Watched) -> None:
    """The coordinator reads its last message after it has seen that the process is gone."""

    def hold_rank_0() -> None:
        assert ranks.attempt is not None
        first, second = ranks.attempt.processes
        with contextlib.suppress(psutil.Error):  # it was quicker
            process = psutil.Process(pid_of(first))
            process.suspend()
            threading.Timer(1.5, process.resume).start()
        eventually(lambda: second.ended() is not None, 60)

    _, on_epoch = at_epoch(3, hold_rank_0)
    gpu.fit(planted(), ALS, on_epoch=on_epoch, run=ranks.run)
    assert ranks.losses == []


@pytest.mark.slow
def test_a_rank_that_is_stopped_is_noticed(ranks: Watched, tmp_path: Path) -> None:
    ratings = planted()
    _, on_epoch = at_epoch(2, lambda: send(ranks, signal.SIGSTOP))
    assert_equal(gpu.fit(ratings, LONG, on_epoch=on_epoch, run=ranks.run), gpu.fit(ratings, LONG))
    (loss,) = ranks.losses
    assert "rank 1 was stopped by a signal for 2 s" in loss
    assert_nothing_is_left(tmp_path / "work")


@pytest.mark.slow
def test_a_torn_checkpoint_costs_one_more_part(ranks: Watched, tmp_path: Path) -> None:
    work, newest = tmp_path / "work", list[int]()

    def tear() -> None:
        assert ranks.attempt is not None
        for process in ranks.attempt.processes:
            process.end()
        newest[:] = checkpoints.numbers(work)
        (work / f"checkpoint-{newest[0]}" / "users.bin").write_bytes(b"torn")

    ratings = planted()
    epochs, on_epoch = at_epoch(5, tear)
    assert_equal(gpu.fit(ratings, LONG, on_epoch=on_epoch, run=ranks.run), gpu.fit(ratings, LONG))
    assert epochs == list(range(1, N_LONG + 1))
    assert f"continues after part {newest[1]} with 2 ranks" in ranks.losses[0]


def test_ranks_that_are_lost_again_and_again_fail_the_training(ranks: Watched, tmp_path: Path) -> None:
    with killed(lambda: True), pytest.raises(RanksFailed, match=r"3 attempts in a row made no progress; .* signal 9"):
        gpu.fit(planted(), ALS, run=ranks.run)
    assert ranks.n_restarts == 3
    assert_nothing_is_left(tmp_path / "work")


def test_memory_that_runs_out_twice_means_one_rank_fewer(
    ranks: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_process, "n_oom_kills", itertools.count().__next__)
    with killed(lambda: ranks.n_restarts < 2):
        gpu.fit(planted(), ALS, run=ranks.run)
    assert (ranks.n_restarts, ranks.n_ranks) == (2, 1)
    assert [loss.split("with ")[-1] for loss in ranks.losses] == ["2 ranks", "1 ranks"]


class FullMachine(Here):
    """Cannot start the second of two ranks."""

    def start(self, rank: int, n_ranks: int, *others: Any) -> RankProcess:
        if n_ranks == 2 and rank == 1:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return super().start(rank, n_ranks, *others)


def test_a_rank_that_cannot_be_started_means_one_rank_fewer(tmp_path: Path) -> None:
    ranks = Watched(tmp_path / "work", launcher=FullMachine())
    gpu.fit(planted(), ALS, run=ranks.run)
    assert (ranks.n_restarts, ranks.n_ranks) == (1, 1)
    assert "rank 1 cannot be started: " in ranks.losses[0]
    assert_nothing_is_left(tmp_path / "work")


class killed:  # noqa: N801 (a context manager)
    """Kills each rank of this process as soon as it is there, while `condition()`."""

    def __init__(self, condition: Callable[[], bool]) -> None:
        self._condition, self._stop = condition, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            for child in psutil.Process().children():
                try:
                    if self._condition() and "service.extras.ranks.rank" in child.cmdline():
                        child.kill()
                except psutil.Error:
                    pass


def test_an_error_of_the_training_is_raised_as_it_is(ranks: Watched, tmp_path: Path) -> None:
    with pytest.raises(NotEnoughMemory, match="more are kept for the service") as raised:
        gpu.fit(planted(), ALS, backend=replace(gpu.HOST, kept_bytes=1 << 60), run=ranks.run)
    assert (raised.value.kept_bytes, ranks.n_restarts) == (1 << 60, 0)
    assert_nothing_is_left(tmp_path / "work")
    with pytest.raises(NotEnoughMemory, match="with ratings in batches of a row each, needs about") as raised:
        gpu.fit(planted(), ALS, backend=gpu.HOST.within(1000), run=ranks.run)
    assert raised.value.free_bytes == 1000


def test_errors_keep_their_type_message_and_attributes() -> None:
    error = RankFailed.of(gpu.InvalidRatings("Invalid rating", 3, 4)).error()
    assert isinstance(error, gpu.InvalidRatings)
    assert str(error.named(["", "", "", "ann"], ["", "", "", "", "i4"])) == "Invalid rating (user 'ann', item 'i4')"
    assert isinstance(RankFailed.of(gpu.TrainingDiverged("it did")).error(), gpu.TrainingDiverged)
    for kind in ("RankLost", "MemoryError", "TypeError", "annotations"):
        assert RankFailed(kind, "of one rank").error() is None


def test_other_versions_are_refused(ranks: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "versions", lambda: {"nearfield": "0.0.1", "numpy": "2", "python": "3"})
    with pytest.raises(RankRefused, match=r"rank \d: expected nearfield 0\.0\.1, numpy 2, python 3, got .*nearfield"):
        gpu.fit(planted(), ALS, run=ranks.run)
    assert ranks.n_restarts == 0
    assert_nothing_is_left(tmp_path / "work")


def test_a_stranger_is_refused_and_disturbs_nothing(ranks: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows the port, but not the key."""
    monkeypatch.setattr(rank_process, "STOPPED_S", 60.0)  # a rank waits for the stranger
    found: list[subprocess.CompletedProcess[str]] = []

    def intrude() -> None:
        process = eventually(lambda: ranks.attempt.processes[0] if ranks.attempt and ranks.attempt.processes else None)
        rank = psutil.Process(pid_of(process))
        arguments = eventually(lambda: rank.cmdline()[1:])  # none while the system replaces the program
        rank.suspend()
        command = [sys.executable, *arguments]
        found.append(subprocess.run(command, input="00" * 32, capture_output=True, text=True, check=False))
        rank.resume()

    ratings, thread = planted(), threading.Thread(target=intrude)
    thread.start()
    assert_equal(gpu.fit(ratings, ALS, run=ranks.run), gpu.fit(ratings, ALS))
    thread.join()
    assert found[0].returncode == 1
    assert found[0].stderr == "refused: expected a rank with the key of this training, got another process\n"
    assert ranks.n_restarts == 0


def test_a_full_disk_under_checkpoints_is_one_clear_error(small_disk: Path) -> None:
    ratings = Ratings.from_coo(np.arange(30_000), np.arange(30_000) % 50, np.ones(30_000) + np.arange(30_000) % 5)
    params, ranks = gpu.params_for("als", {"n_factors": 64, "n_epochs": 3}), Watched(small_disk / "work")
    with pytest.raises(WorkFolderUnavailable, match="work cannot be written: No space left on device; make room"):
        gpu.fit(ratings, params, run=ranks.run)
    assert ranks.n_restarts == 0
    assert_nothing_is_left(small_disk / "work")


@pytest.mark.slow
def test_ranks_that_die_while_they_write_cost_no_bit(ranks: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 dies at the rename of a checkpoint, then at that of the model: the fifth in each attempt."""
    monkeypatch.setenv("NEARFIELD_FAULT_AT", "rename:5")
    ratings, params = planted(), gpu.params_for("als", {"n_factors": 4, "n_epochs": 4})
    assert_equal(gpu.fit(ratings, params, run=ranks.run), gpu.fit(ratings, params))
    assert [loss.split("after ")[-1] for loss in ranks.losses] == ["part 4 with 2 ranks", "part 8 with 2 ranks"]


def test_a_write_of_a_rank_that_fails_is_one_clear_error(ranks: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a full disk, without a small file system."""
    monkeypatch.setenv("NEARFIELD_FAULT_AT", "rename:2:ENOSPC")
    with pytest.raises(WorkFolderUnavailable, match="No space left on device"):
        gpu.fit(planted(), ALS, run=ranks.run)
    assert ranks.n_restarts == 0


def test_a_work_folder_that_exists_is_not_touched(ranks: Watched, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mine").touch()
    with pytest.raises(WorkFolderUnavailable, match="File exists"):
        gpu.fit(planted(), ALS, run=ranks.run)
    assert (tmp_path / "work" / "mine").exists()


def test_ranks_share_the_cores_and_each_gets_one_gpu() -> None:
    n_cores = len(os.sched_getaffinity(0))
    assert environment({"A": "b"}, 0, 1, gpu.HOST) == {"A": "b", "NUMBA_NUM_THREADS": str(n_cores)}
    assert environment({}, 0, 1000, gpu.HOST)["NUMBA_NUM_THREADS"] == "1"
    assert environment({"NUMBA_NUM_THREADS": "1"}, 0, 1, gpu.HOST)["NUMBA_NUM_THREADS"] == "1"
    device = replace(gpu.HOST, name="device")
    assert environment({}, 1, 2, device).items() >= {"CUDA_VISIBLE_DEVICES": "1", "NCCL_NVLS_ENABLE": "0"}.items()
    visible = [
        environment({"CUDA_VISIBLE_DEVICES": "4,2"}, rank, 3, device)["CUDA_VISIBLE_DEVICES"] for rank in range(3)
    ]
    assert visible == ["4", "2", ""]


def test_who_keeps_nccl_from_links_means_kernels_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NCCL_P2P_DISABLE", raising=False)
    assert trusts_links()
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    assert not trusts_links()


def test_more_ranks_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    device = replace(gpu.HOST, name="device")
    monkeypatch.setattr(rank_process, "memory_of_devices", lambda: [80, 80])
    assert Here().available(2, device) == 2
    with pytest.raises(
        BackendUnavailable, match="Invalid ranks: expected at most 2, the GPUs that CUDA finds here, got 3"
    ):
        Here().available(3, device)


def test_a_rank_on_the_gpu_that_answers_gets_less_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2,0")
    device, shared = replace(gpu.HOST, name="device"), Here(shares_gpu=True)
    assert shared.weights(3, device) == (1.0, 1.0, 0.5)
    assert shared.weights(2, device) == (1.0, 1.0), "no rank has that GPU"
    assert shared.weights(3, gpu.HOST) == Here().weights(3, device) == (1.0, 1.0, 1.0)
