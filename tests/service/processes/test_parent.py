"""How many fronts there are, and the life of one child: its status, its pauses, its end with the parent."""

import os
import signal
import subprocess
import sys
import time
from typing import Any

import msgspec
import psutil
import pytest

from service.processes import child, parent
from service.processes.child import FIRST_WAIT_S, LONGEST_WAIT_S, Child
from service.settings.settings import Settings


@pytest.mark.parametrize(("n_cores", "n_fronts"), [(1, 1), (2, 1), (7, 1), (8, 2), (16, 4), (64, 4)])
def test_one_front_for_four_cores(n_cores: int, n_fronts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(n_cores)))
    assert parent.n_fronts(Settings()) == n_fronts
    assert parent.n_fronts(Settings(fronts=5)) == 5
    assert parent.n_fronts(Settings(fronts=0)) == 1, "as older versions took it"


@pytest.mark.parametrize(
    ("n_cores", "given", "is_local"),
    [(1, {}, True), (2, {}, True), (2, {"fronts": 2}, False), (2, {"data_sets": "shop"}, False), (3, {}, False)],
)
def test_on_few_cores_the_only_front_is_beside_its_engine(
    n_cores: int, given: dict[str, Any], is_local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(n_cores)))
    assert parent.has_local_front(Settings(**given)) == is_local


BEGIN = """
import os, signal, sys, time
from service.processes.child import Child
from service.settings.settings import Settings
"""
LIVES = """
def ended(number, role):
    one = Child(f"front-{number}", Settings(), role)
    print(f"{number}:", end="")  # is flushed once, by the parent
    one.start()
    one.ended(os.waitpid(one.pid, 0)[1])
    print(f"{one.status},{one.n_starts}", end=" ")

def prints():
    print("in the child, ", end="")
    return 3

def exits():
    raise SystemExit(5)

def fails():
    raise ValueError("broken")

def has_no_output():
    sys.stdout.close()
    return 0

def is_killed():
    os.kill(os.getpid(), signal.SIGKILL)

def is_interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    return 0

for number, role in enumerate((prints, exits, fails, has_no_output, is_killed, is_interrupted)):
    ended(number, role)
"""


def test_a_child_never_returns_to_the_code_of_its_parent() -> None:
    command = [sys.executable, "-c", BEGIN + LIVES]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "0:in the child, 3,1 1:1,1 2:1,1 3:0,1 4:-9,1 5:0,1 "
    lines = [msgspec.json.decode(line) for line in ended.stderr.splitlines()]
    assert [line["process"] for line in lines] == ["front-1", "front-2"]
    assert "SystemExit: 5" in lines[0]["exception"]
    assert "ValueError: broken" in lines[1]["exception"]


def test_a_child_that_dies_again_and_again_waits_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(os, "fork", lambda: 4242)
    one = Child("engine", Settings(), lambda: 0)
    waits = []
    for _ in range(9):
        one.start_if_due()
        assert one.pid == 4242
        one.ended(1 << 8)
        assert (one.pid, one.status) == (0, 1)
        begun = now[0]
        while not one.pid:
            now[0] += 0.05
            one.start_if_due()
        waits.append(now[0] - begun)
        one.ended(signal.SIGKILL)
        assert one.status == -signal.SIGKILL
        now[0] += LONGEST_WAIT_S
    assert waits[0] == pytest.approx(FIRST_WAIT_S, abs=0.1)
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(LONGEST_WAIT_S, abs=0.1)
    one.start_if_due()
    now[0] += child.STEADY_S
    one.ended(signal.SIGKILL)
    now[0] += 2 * FIRST_WAIT_S
    one.start_if_due()
    assert one.pid, "it had run well for a while"


def test_a_system_without_a_free_process_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    one = Child("front-1", Settings(), lambda: 0)
    monkeypatch.setattr(os, "fork", fail)
    one.start()
    assert (one.pid, one.n_starts) == (0, 0)
    monkeypatch.setattr(os, "fork", lambda: 4242)
    time.sleep(2 * FIRST_WAIT_S)
    one.start_if_due()
    assert one.n_starts == 1


SLEEPING = """
Child("front-1", Settings(), lambda: print(os.getpid(), flush=True) or time.sleep(600)).start()
time.sleep(600)
"""


def test_a_child_ends_with_its_parent() -> None:
    code = BEGIN + SLEEPING
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        born = psutil.Process(int(process.stdout.readline()))
        assert born.name() == "nf-front-1"
        process.kill()
        process.wait(60)
        born.wait(60)
