"""Which process goes when there is no more memory; cores of a container."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.base import tuning
from service.jobs import trainer_process
from service.storage.files import FileLock
from tests.service.waiting import eventually


def score_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text("ascii"))


def test_a_trainer_goes_before_the_service(tmp_path: Path) -> None:
    lock = FileLock.try_take(tmp_path / "lock")
    assert lock is not None
    process = trainer_process.TrainerProcess(["/bin/sleep", "60"], lock)
    try:
        eventually(lambda: score_of(process._process.pid) == tuning.TRAINER_OOM_SCORE, 60)
    finally:
        process.end()


def test_a_trainer_has_its_score_before_its_first_line() -> None:
    """Whatever its parent, which may itself wait for memory, does after the start."""
    code = "print(open('/proc/self/oom_score_adj').read().strip(), *__import__('sys').argv[1:])"
    command = [sys.executable, "-c", code, "with spaces", "$HOME '"]
    ran = subprocess.run(tuning.as_victim(command, 800), capture_output=True, text=True, check=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("800 with spaces $HOME '\n", "")


def test_a_worker_goes_before_the_service_and_after_a_trainer(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from service.processes import process;"
        "from service.settings.settings import Settings;"
        "process.event_loop.run = lambda main: main.close() or int(Path('/proc/self/oom_score_adj').read_text());"
        "sys.exit(process.run_worker(Settings(data=Path(sys.argv[1]))) // 10)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=60)
    assert ended.returncode == tuning.WORKER_OOM_SCORE // 10
    assert 0 < tuning.WORKER_OOM_SCORE < tuning.TRAINER_OOM_SCORE


def test_a_process_that_is_gone_is_no_error() -> None:
    tuning.prefer_as_victim(1, 2**22 + 1)


@pytest.mark.parametrize(
    ("content", "n_cores"),
    [("150000 100000", 2), ("max 100000", 64), ("6400000 100000", 64), ("100000 100000", 1), ("", 64)],
)
def test_a_share_of_a_container_counts_as_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str, n_cores: int
) -> None:
    monkeypatch.setattr("service.base.tuning.os.sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr("service.base.tuning.CPU_MAX", tmp_path / "cpu.max")
    assert tuning.n_cores() == 64
    (tmp_path / "cpu.max").write_text(content, "ascii")
    assert tuning.n_cores() == n_cores


@pytest.mark.parametrize("alone", [True, False])
def test_a_process_goes_after_others_with_its_session_if_that_is_its_own(alone: bool) -> None:
    code = "import os; from service.base import tuning; tuning.go_after_others(3); print(os.nice(0)); input()"
    own = tuning.AUTOGROUP.read_text("ascii") if tuning.AUTOGROUP.exists() else None
    command = [sys.executable, "-c", code]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=alone) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == min(os.nice(0) + 3, 19)
        if own is not None:
            group = Path(f"/proc/{process.pid}/autogroup").read_text("ascii")
            assert group.endswith("nice 3\n") if alone else group == own
        process.communicate("\n")
