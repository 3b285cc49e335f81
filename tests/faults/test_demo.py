"""The demo is killed with everything that it started, at each of its steps, and started again: it ends well."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from service.cli import synthetic
from tests.faults import results

ROOT = Path(__file__).parents[2]
STEPS = {
    1: "Starting the service",
    2: "Importing",
    3: "Training a model",
    4: "Recommendations for",
    5: "A new user",
}
LAST = "The service runs on"
N_ROUNDS = 4 if results.IS_LONG else 1
LONGEST_STEP_S = 3.0  # kills come within this time of a step's line


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where demos run, one after the other; what one that was killed has left is there for the next."""
    folder = tmp_path_factory.mktemp("demo")
    size = () if results.IS_LONG else (0, 150, 60)
    synthetic.write(folder / "ratings.csv", synthetic.planted(*size))
    return folder


@contextlib.contextmanager
def demo(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A demo as `make demo` starts it; at the end nothing of it is left."""
    command = [sys.executable, "-u", "-m", "service.cli.demo", "--ratings", "ratings.csv"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            kill_tree(process.pid)


def kill_tree(pid: int) -> int:
    """SIGKILL for a process and all that it started, whatever they start meanwhile; how many they were."""
    with contextlib.suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        for act in (psutil.Process.suspend, psutil.Process.kill):  # who is suspended starts nobody
            family = [first, *first.children(recursive=True)]
            for one in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    act(one)
        return len(family)
    return 0


def reached(process: subprocess.Popen[str], text: str) -> None:
    """Read what the demo prints up to a line with `text`."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if text in line:
            return
    raise AssertionError(f"the demo ended with {process.wait()}: {''.join(said)}")


def ends_well(folder: Path) -> None:
    with demo(folder) as process:
        reached(process, LAST)
        process.send_signal(signal.SIGTERM)
        assert process.wait(180) == 0


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("step", STEPS if results.IS_LONG else [1, 3], ids=lambda step: f"step{step}")
def test_a_demo_that_was_killed_ends_well_when_it_is_started_again(folder: Path, step: int) -> None:
    draw = random.Random(step)
    row = results.row("SIGKILL of the demo and all that it started")
    for _ in range(N_ROUNDS):
        with demo(folder) as process:
            reached(process, STEPS[step])
            time.sleep(draw.uniform(0, LONGEST_STEP_S) if results.IS_LONG else draw.uniform(0, 0.5))
            assert kill_tree(process.pid) >= (1 if step == 1 else 3)  # the demo, its service, its Redis
        row.n_trials += 1
    begun_s = time.monotonic()
    ends_well(folder)
    row.ready_s.append(time.monotonic() - begun_s)
