"""`nearfield train --ranks`."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from service.__main__ import run
from service.extras.ranks.commands import ranks_of
from tests.data import planted
from tests.service.waiting import eventually


@pytest.fixture
def file(tmp_path: Path) -> Path:
    triples = zip(*(column.tolist() for column in planted().coo()), strict=True)
    lines = [f"u{user},i{item},{rating}" for user, item, rating in triples]
    (tmp_path / "ratings.csv").write_text("\n".join(["user,item,rating", *lines]))
    return tmp_path / "ratings.csv"


def arguments(file: Path, *more: str) -> list[str]:
    return ["train", "--ratings", str(file), "--algorithm", "als", "--set", "n_factors=4", "--json", *more]


def lines_of(output: str) -> list[dict[str, object]]:
    """The printed lines, without times and memory."""
    found = [json.loads(line) for line in output.splitlines()]
    return [{name: line[name] for name in line.keys() - {"seconds", "peak_memory_bytes"}} for line in found]


def test_two_ranks_print_what_one_process_prints(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = arguments(file, "--set", "n_epochs=3", "--test-fraction", "0.1")
    before = signal.getsignal(signal.SIGTERM)
    assert run([*options, "--ranks", "2"]) == 0
    assert signal.getsignal(signal.SIGTERM) is before
    found = lines_of(capsys.readouterr().out)
    assert run(options) == 0
    expected = lines_of(capsys.readouterr().out)
    assert len(found) == len(expected) == 4
    assert {name: found[-1].pop(name) for name in ("ranks", "restarts")} == {"ranks": 2, "restarts": 0}
    for line, wanted in zip(found, expected, strict=True):
        assert line.keys() == wanted.keys()
        for name, value in wanted.items():
            assert line[name] == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value), name


def test_algorithms_that_cannot_use_ranks_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--ratings", "missing.csv", "--algorithm", "ease", "--ranks", "2"]) == 2
    assert "Invalid ranks: expected 1 for ease, got 2; only als, als-implicit" in capsys.readouterr().err


def test_the_end_of_the_terminal_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as ended, ranks_of(2):
            assert list(tmp_path.iterdir())
            signal.raise_signal(signal.SIGHUP)
        assert (ended.value.code, list(tmp_path.iterdir())) == (129, [])
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with ranks_of(2):
            signal.raise_signal(signal.SIGHUP)  # ignored, as after nohup
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_rank_outlives_the_command(file: Path, number: signal.Signals) -> None:
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip(f"{number.name} is ignored here, as by commands that a shell runs in the background")
    folder = file.parent / "temporary"
    folder.mkdir()
    command = [sys.executable, "-m", "service", *arguments(file, "--set", "n_epochs=10000", "--ranks", "2")]
    environment = os.environ | {"TMPDIR": str(folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        ranks = eventually(lambda: psutil.Process(process.pid).children(), 120)
        process.send_signal(number)
        process.communicate(timeout=120)
    assert process.returncode == {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGKILL: -9}[number]
    psutil.wait_procs(ranks, timeout=60)
    assert [rank for rank in ranks if rank.is_running()] == []
    assert number == signal.SIGKILL or list(folder.iterdir()) == []
