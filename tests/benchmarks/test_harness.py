"""A peer runs in another interpreter, gets the data and nothing else, and cannot hold up the others."""

import json
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import datasets, harness
from benchmarks.harness import Harness, PeerMissing
from benchmarks.peers import child, peers
from benchmarks.peers.contract import ESTIMATES, LISTS, Fitted, Peer, Problem

PEER = Peer("a peer", "a-package", ESTIMATES, lambda facts: [], lambda problem, settings: Fitted(0.0, {}))
MEAN = """
import json, os, pathlib, sys
import numpy as np
folder = pathlib.Path(sys.argv[3])
asked = json.loads((folder / "request.json").read_text())
with np.load(folder / "problem.npz") as problem:
    estimates = np.full(len(problem["test_users"]), problem["values"].mean() + asked["settings"]["shift"])
    assert sys.argv[1:3] == ["-m", "benchmarks.peers.child"] and asked["name"] == "a peer"
np.savez(folder / "answer.npz", estimates=estimates)
answer = {"seconds": float(os.environ["OMP_NUM_THREADS"]), "version": "1.2"}
(folder / "answer.json").write_text(json.dumps(answer))
"""


@pytest.fixture
def interpreter(tmp_path):
    """Makes a fake interpreter that always runs `code`."""

    def make(code):
        path = tmp_path / "python"
        path.write_text(f"#!{sys.executable}\n{code}", "utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


@pytest.fixture(scope="module")
def fold(data):
    return datasets.load(data, "ml-100k").whole


def test_data_go_there_and_estimates_come_back(interpreter, fold):
    answer = Harness(interpreter(MEAN), n_threads=3).run(PEER, fold, {"shift": 1})
    assert answer.note == ""
    assert (answer.seconds, answer.version) == (3, "1.2")
    assert answer.arrays["estimates"] == pytest.approx(
        np.full(len(fold.test), fold.train.coo()[2].mean() + 1), rel=1e-6
    )


def test_a_fit_that_takes_too_long_is_ended(interpreter, fold):
    answer = Harness(interpreter("import time; time.sleep(60)"), n_threads=1, limit_s=0.5).run(PEER, fold, {})
    assert answer.note == "over 0.5 s"
    assert not answer.arrays


def test_a_fit_that_fails_says_how(interpreter, fold):
    answer = Harness(interpreter("import sys; sys.exit('no memory')"), n_threads=1).run(PEER, fold, {})
    assert answer.note == "exit status 1: no memory"


def test_a_missing_library_is_named_with_the_cure(fold):
    """The project's own interpreter, which lacks scikit-surprise, runs the real child."""
    with pytest.raises(PeerMissing, match=r"scikit-surprise is not installed .*benchmarks/peers/requirements.txt"):
        Harness(Path(sys.executable), n_threads=1).run(peers()["Surprise SVD"], fold, {})


def test_test_values_never_leave(fold):
    problem = harness.problem_of(ESTIMATES, fold)
    assert len(problem.values) == len(fold.train)
    assert [column.tolist() for column in problem[4:]] == [column.tolist() for column in fold.test.coo()[:2]]
    assert len(harness.problem_of(LISTS, fold).test_users) == 0


def test_the_child_writes_what_the_peer_found(tmp_path, fold, monkeypatch):
    found = Fitted(0.25, {"estimates": np.arange(3.0)})
    asked = []

    def fit(*given):
        asked.append(given)
        return found

    monkeypatch.setattr(child, "peers", lambda: {"a peer": PEER._replace(package="numpy", fit=fit)})
    problem = harness.problem_of(ESTIMATES, fold)
    child.write_problem(tmp_path / "problem.npz", problem)
    (tmp_path / "request.json").write_text(json.dumps({"name": "a peer", "settings": {"k": 1}}))
    assert child.main(tmp_path) == 0
    assert json.loads((tmp_path / "answer.json").read_text()) == {"seconds": 0.25, "version": np.__version__}
    with np.load(tmp_path / "answer.npz") as file:
        assert file["estimates"].tolist() == [0, 1, 2]
    (there, settings), *_ = asked
    assert settings == {"k": 1}
    assert isinstance(there, Problem)
    assert there.shape == problem.shape
    assert there.values.tolist() == problem.values.tolist()
