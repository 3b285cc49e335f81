"""`python -m benchmarks sgd` tells what trainings of `gpu.fit` take and reach, and counts their work as it says."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import gpu
from benchmarks import leave_one_out, sgd, sgd_cost, sgd_peer
from benchmarks.als_cost import H100
from gpu.params import params_for
from tests.benchmarks.test_als import UNWANTED


def tuned(algorithm, **given):
    sizes = {"n_neighbors": 4, "n_bits": 128} if algorithm.startswith("culsh") else {}
    return params_for(algorithm, {"n_factors": 4, "n_epochs": 3, **sizes, **given})


@pytest.mark.parametrize("algorithm", ["sgd", "culsh", "esgd"])
def test_a_run_is_that_of_a_training(algorithm, train, held_out):
    params = tuned(algorithm)
    reports: list[gpu.EpochReport] = []
    gpu.fit(train, params, test=held_out, on_epoch=reports.append)
    errors = [report.metrics["test_rmse"] for report in reports]
    row = sgd.measure(sgd.Estimates(train, held_out), params, gpu.HOST, errors[1])
    assert row.at_stops == pytest.approx(errors[:2])  # after epochs 1 and 2; there is no fifth
    assert (row.algorithm, row.n_users, row.n_ratings) == (algorithm, train.n_users, len(train))
    assert row.epochs_to_target == 1 + next(n for n, error in enumerate(errors) if error <= errors[1])
    assert row.seconds_to_target > row.neighbors_s >= 0
    assert (row.neighbors_s > 0) == (row.n_neighbors > 0)
    assert np.isnan(row.floor_ms)  # the ceilings are those of a card


def test_a_target_that_is_not_reached(train, held_out):
    row = sgd.measure(sgd.Estimates(train, held_out), tuned("sgd"), gpu.HOST, 0.0)
    assert np.isnan(row.epochs_to_target)
    assert np.isnan(row.seconds_to_target)


def test_lists_are_judged_by_the_item_left_out(train, monkeypatch):
    monkeypatch.setattr(leave_one_out, "N_NEGATIVES", 3)
    monkeypatch.setattr(leave_one_out, "MOST_USERS", 30)
    data = sgd.Lists(train)
    assert len(data.train) == len(train) - train.n_users
    row = sgd.measure(data, tuned("culsh-implicit"), gpu.HOST, 0.9)
    assert row.at_stops == (1.0, 1.0)  # four items compete for ten places
    assert row.epochs_to_target == 1


def test_of_many_users_the_first_are_ranked(train, monkeypatch):
    monkeypatch.setattr(leave_one_out, "N_NEGATIVES", 3)
    _, positives, negatives = leave_one_out.leave_one_out(train, 0)
    monkeypatch.setattr(leave_one_out, "MOST_USERS", 7)
    rest, fewer, of_fewer = leave_one_out.leave_one_out(train, 0)
    assert np.array_equal(fewer, positives[:7])
    assert np.array_equal(of_fewer, negatives[:7])
    assert len(rest) == len(train) - train.n_users


class Machine:
    """Stands in for LIBMF: its epochs take a hundredth of a second by its own clock."""

    now = 5.0

    def __init__(self, **options):
        self.options = options

    def fit(self, triples):
        assert triples.dtype == np.float32
        Machine.now += 3 + 0.01 * self.options["nr_iters"]


def test_an_epoch_of_the_peer_is_the_difference_of_two_fits(train, held_out, monkeypatch):
    monkeypatch.setattr(sgd_peer, "time", SimpleNamespace(perf_counter=lambda: Machine.now))
    monkeypatch.setattr(sgd_peer, "installed", lambda: SimpleNamespace(MF=Machine))
    data = sgd.Estimates(train, held_out)
    rows = list(sgd.run(lambda: data, pytest.fail, ["sgd"], [4], {"n_epochs": 2}, "host", 0.0))
    assert [row.code for row in rows] == ["nearfield, host", "LIBMF"]
    assert rows[1].epoch_ms == pytest.approx(10)


def test_work_is_counted_as_the_module_says(train):
    n, tables = len(train), train.n_users + train.n_items
    work = sgd_cost.work_of(train, tuned("sgd", precision="float16"))
    assert (work.bytes, work.row_bytes) == (8 * n + 8 * tables * 5, n * 2 * (2 * 4 + 4))
    assert work.flop == n * 32
    work = sgd_cost.work_of(train, tuned("culsh"))
    assert work.bytes == n * (8 + 8) + 8 * tables * 5 + 16 * train.n_items * 4
    assert work.flop == n * (32 + 24)
    work = sgd_cost.work_of(train, tuned("culsh-implicit", n_negatives=2))
    assert work.bytes == 3 * n * 2 * (8 + 1) + 8 * tables * 5 + 16 * train.n_items * 4
    work = sgd_cost.work_of(train, tuned("esgd"))
    assert work.row_bytes == n * 16 * 4


def test_the_floor_is_the_slowest_of_three():
    assert sgd_cost.Work(int(sgd_cost.COPY), 0, 1.0, 0).floor_ms() == (1000.0, "memory")
    assert sgd_cost.Work(0, 2, 1.0, 0).floor_ms() == (2000.0, "rows")
    assert sgd_cost.Work(0, 0, 1.0, int(H100.float32 * 3)).floor_ms() == (3000.0, "arithmetic")


def test_the_command_needs_nothing_of_the_service(folder):
    """Where kernels are measured there may be no Redis, Parquet or web server to import."""
    arguments = ["sgd", "--ratings", str(folder), "--algorithms", "sgd,culsh,esgd", "--factors", "4,8"]
    arguments += ["--epochs", "2", "--backend", "host", "--json"]
    code = f"import sys; sys.modules.update(dict.fromkeys({UNWANTED})); from benchmarks.__main__ import run; "
    code += f"sys.argv[1:] = {arguments}; sys.exit(run(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()][1:]
    found = [(record["algorithm"], record["n_factors"]) for record in records if record["code"] != "LIBMF"]
    assert found == [(algorithm, n) for algorithm in ("sgd", "culsh", "esgd") for n in (4, 8)]
