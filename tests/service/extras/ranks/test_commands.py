"""`nearfield cluster`, and `nearfield train --cluster`: what they refuse before anything starts."""

import pytest

from service.__main__ import run

TRAIN = ["train", "--ratings", "missing.csv", "--algorithm", "als"]
REMOTE = "tcp://10.0.0.1:8786"


@pytest.mark.parametrize(
    "arguments",
    [
        ["cluster", "worker", "--scheduler", REMOTE],
        ["cluster", "scheduler", "--host", "10.0.0.1"],
        [*TRAIN, "--ranks", "2", "--cluster", REMOTE],
    ],
)
def test_other_machines_are_not_reached_without_tls(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert f"expected tls:// for a host that other machines reach, got '{REMOTE}'" in error
    assert "execute code" in error


def test_one_rank_needs_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TRAIN, "--cluster", "tcp://127.0.0.1:8786"]) == 2
    assert "expected --ranks 2 or more with --cluster, got 1" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["cluster"], ["cluster", "--help"]])
def test_it_lists_its_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert "scheduler" in shown
    assert "worker" in shown
