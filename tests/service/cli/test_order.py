"""Order on the command line: `train` on files with times, `evaluate --shuffle`, and cuts that roll through time."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.__main__ import run
from tests.gpu.next.walks import histories_of, walks

CHOSEN = ["--set", "decay_items=1.5", "--set", "old_weight=0", "--set", "regularization=0.5"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users mostly go from each item to the one after it; all ratings of a user have one time, so their lines count."""
    path = tmp_path_factory.mktemp("order") / "walks.csv"
    users = np.random.default_rng(0).permutation(300)
    histories = histories_of(*walks())
    lines = [f"u{u},i{item},{1 + (n + u) % 5},{100 + u}" for u in users for n, item in enumerate(histories[u])]
    path.write_text("\n".join(["user,item,rating,timestamp", *lines]))
    return path


def result_of(command: list[str], capsys: Any) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*command, "--json"]) == 0
    last: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return last


@pytest.mark.parametrize(("algorithm", "given", "gain"), [("next", CHOSEN, 0.2), ("ease", [], 0.0)])
def test_shuffle_tells_whether_order_matters(
    algorithm: str, given: list[str], gain: float, file: Path, tmp_path: Path, capsys: Any
) -> None:
    train = ["train", "--ratings", str(file), "--algorithm", algorithm, "--split", "last", "--out", str(tmp_path)]
    closing = result_of([*train, *given], capsys)
    assert closing["n_test"] == 300
    evaluate = ["evaluate", "--model", str(tmp_path), "--relevant", "0", "--k", "10"]
    result = result_of([*evaluate, "--shuffle"], capsys)
    assert result["ndcg@10"] - result["shuffled_ndcg@10"] == pytest.approx(result["order_ndcg@10"])
    low, high = result["interval_order_ndcg@10"]
    assert low <= result["order_ndcg@10"] <= high
    assert (low > gain) if gain else (low == high == 0), (low, high)
    assert algorithm != "next" or result["ndcg@10"] == pytest.approx(closing["test_ndcg@10"])
    assert run([*evaluate, "--shuffle"]) == 0
    said = "order matters" if gain else "no difference"
    assert f"by the order of each user's ratings: {said}" in capsys.readouterr().out


def test_shuffle_needs_a_model_of_ratings_with_times(file: Path, tmp_path: Path, capsys: Any) -> None:
    timeless = tmp_path / "timeless.csv"
    timeless.write_text("\n".join(line.rpartition(",")[0] for line in file.read_text().splitlines()))
    train = ["train", "--ratings", str(timeless), "--test-fraction", "0.1", "--out", str(tmp_path / "models")]
    assert run([*train, "--algorithm", "ease"]) == 0
    capsys.readouterr()
    assert run(["evaluate", "--model", str(tmp_path / "models"), "--shuffle"]) == 2
    assert "Invalid shuffle: expected a model trained on ratings with times, got one without" in capsys.readouterr().err
    assert run([*train, "--algorithm", "next"]) == 2
    assert "Invalid ratings for next: expected ratings with times" in capsys.readouterr().err


def test_folds_train_on_all_before_each_cut(file: Path, tmp_path: Path, capsys: Any) -> None:
    split = ["--split", "time", "--test-fraction", "0.2", "--folds", "2"]
    train = ["train", "--ratings", str(file), "--algorithm", "next", *CHOSEN, *split, "--out", str(tmp_path)]
    capsys.readouterr()
    assert run([*train, "--json"]) == 0
    *folds, closing = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert [(one["fold"], one["n_train"], one["n_test"]) for one in folds] == [(1, 2880, 360), (2, 3240, 360)]
    assert closing["test_ndcg@10"] == pytest.approx(np.mean([one["test_ndcg@10"] for one in folds]))
    result = result_of(["evaluate", "--model", str(tmp_path), "--folds", "2"], capsys)
    assert (result["folds"], result["n_test"]) == (2, 720)
    assert result["ndcg@10"] == pytest.approx(closing["test_ndcg@10"])
    assert run(["evaluate", "--model", str(tmp_path), "--folds", "3"]) == 2
    assert "Invalid folds: expected at most 2, the versions in" in capsys.readouterr().err
    assert run(["train", "--ratings", str(file), "--algorithm", "ease", "--folds", "2"]) == 2
    assert "expected --folds with --split time, got --split random" in capsys.readouterr().err


def test_a_model_without_a_measure_is_readable(tmp_path: Path, capsys: Any) -> None:
    """No last rating is a like, so no list has a measure."""
    lines = [f"u{user},i{(user + place) % 9},{5 - place},{place}" for user in range(40) for place in range(5)]
    (tmp_path / "falling.csv").write_text("\n".join(["user,item,rating,timestamp", *lines]))
    train = ["train", "--ratings", str(tmp_path / "falling.csv"), "--algorithm", "ease", "--split", "last"]
    assert run([*train, "--out", str(tmp_path / "models")]) == 0
    result = result_of(["evaluate", "--model", str(tmp_path / "models")], capsys)
    assert "no test pair is relevant" in result["reason"]


def test_a_half_life_counts_from_the_times_of_the_file(file: Path, tmp_path: Path, capsys: Any) -> None:
    train = ["train", "--ratings", str(file), "--algorithm", "ease", "--split", "last", "--out", str(tmp_path)]
    assert result_of([*train, "--set", "half_life_days=0.001"], capsys)["done"]


def test_tune_tries_what_next_can_choose(file: Path, capsys: Any) -> None:
    tune = ["tune", "--ratings", str(file), "--algorithm", "next", "--split", "last", *CHOSEN[:2]]
    result = result_of(tune, capsys)
    assert result["best_ndcg@10"] > 0.5
