"""`nearfield evaluate` on test files that share pairs with the training, or have unknown ids; and on forged models."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.__main__ import run
from service.storage.events import Entry, StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.log.segment import table_of
from service.storage.snapshots import live_versions, snapshot
from tests.gpu.trend.test_learn import drawn
from tests.service.planted import entries, events
from tests.service.storage.snapshots import forged

HEAD = "user,item,rating\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.csv, unseen.csv (the held-out seventh), and models of sgd and nmf."""
    folder = tmp_path_factory.mktemp("evaluate")
    lines = [f"{one.user},{one.item},{one.rating}\n" for one in events()]
    (folder / "train.csv").write_text(HEAD + "".join(line for n, line in enumerate(lines) if n % 7))
    (folder / "unseen.csv").write_text(HEAD + "".join(lines[::7]))
    for algorithm in ("sgd", "nmf", "als-implicit"):
        command = ["train", "--ratings", str(folder / "train.csv"), "--algorithm", algorithm]
        assert run([*command, "--set", "n_factors=4", "n_epochs=3", "--out", str(folder / algorithm)]) == 0
    return folder


def measured(folder: Path, text: str, capsys: Any, algorithm: str = "sgd", *options: str) -> tuple[dict[str, Any], str]:
    """The JSON of a measurement on a file with this text, and what stderr says."""
    (folder / "test.csv").write_text(text)
    files = ["--model", str(folder / algorithm), "--test", str(folder / "test.csv")]
    capsys.readouterr()
    assert run(["evaluate", *files, *options, "--json"]) == 0
    said = capsys.readouterr()
    return json.loads(said.out), said.err


def test_a_clean_test_file_has_no_remark(folder: Path, capsys) -> None:
    result, said = measured(folder, (folder / "unseen.csv").read_text(), capsys)
    names = "trained_on", "unknown_users", "unknown_items", "of_unknown"
    assert [result[name] for name in names] == [0, 0, 0, 0]
    assert "reason" not in result
    assert not [line for line in said.splitlines() if line.startswith("nearfield:")]


@pytest.mark.parametrize("algorithm", ["sgd", "als-implicit"])
def test_pairs_of_the_training_are_counted_and_said(folder: Path, algorithm: str, capsys) -> None:
    trained = (folder / "train.csv").read_text().splitlines(keepends=True)[1:]
    unseen = (folder / "unseen.csv").read_text().splitlines(keepends=True)[1:]
    result, said = measured(folder, HEAD + "".join(trained[:30] + unseen), capsys, algorithm)
    assert (result["trained_on"], result["n_test"]) == (30, 30 + len(unseen))
    assert f"was trained on 30 of {30 + len(unseen)} test pairs" in said
    assert ("their errors are too small" in said) == (algorithm == "sgd")
    assert "reason" not in result
    result, said = measured(folder, HEAD + "".join(trained[:30]), capsys, algorithm)
    assert (result["trained_on"], result["ndcg@10"], result["recall@20"]) == (30, None, None)
    assert result["reason"].startswith("no measures of lists: the model was trained on all test pairs")
    assert result["reason"] in said


def test_unknown_users_and_items_are_counted_and_said(folder: Path, capsys) -> None:
    unseen = (folder / "unseen.csv").read_text()
    result, said = measured(folder, unseen + "X1,i1,5\nX1,i2,5\nX2,new,1\nu1,new,1\nu2,newer,2\n", capsys)
    assert [result[name] for name in ("unknown_users", "unknown_items", "of_unknown")] == [2, 2, 5]
    assert f"5 of {result['n_test']:,} test pairs are of 2 users and 2 items that the model does not know" in said
    strangers = HEAD + "".join(f"X{line}\n" for line in unseen.splitlines()[1:])
    result, _ = measured(folder, strangers, capsys)
    assert result["of_unknown"] == result["n_test"] > 0


def test_a_null_has_its_reason(folder: Path, capsys) -> None:
    result, _ = measured(folder, HEAD, capsys)
    assert (result["rmse"], result["ndcg@10"]) == (None, None)
    assert result["reason"] == "no rmse, mae, measures of lists: the test file has no ratings"
    result, _ = measured(folder, (folder / "unseen.csv").read_text(), capsys, "sgd", "--relevant", "9")
    assert result["rmse"] > 0
    assert result["reason"] == "no measures of lists: no test pair is relevant and was not trained on"


def with_nan(path: Path) -> None:
    arrays = forged.arrays_of(path)
    arrays["item_factors"][1, 1] = np.nan
    forged.replace_arrays(path, arrays)


def with_a_foreign_file(path: Path) -> None:
    forged.state(path, lambda document: document["files"].update({"../../secret": "0" * 64}))


def with_many_rows(path: Path) -> None:
    forged.state(path, lambda document: document.update(n_users=2**31 - 1))


@pytest.mark.parametrize("forge", [with_nan, with_a_foreign_file, with_many_rows])
def test_commands_refuse_a_forged_model_with_a_sentence(folder: Path, tmp_path: Path, forge, capsys) -> None:
    models = Path(shutil.copytree(folder / "nmf", tmp_path / "nmf"))
    version = snapshot.versions(models)[0]
    forge(models / version)
    made = [*entries(), Entry(StreamId(5000, 0), "noop")]
    RatingLog(tmp_path / "data/ratings").files.write(made[0].id, made[-1].id, [table_of(made[:-1])])
    for command in (
        ["evaluate", "--model", str(models), "--test", str(folder / "unseen.csv")],
        ["topics", "--model", str(models)],
        ["deploy", str(models), "--data", str(tmp_path / "data")],
    ):
        assert run(command) == 1
        said = capsys.readouterr().err
        assert f"snapshot {version}: " in said
        assert "expected" in said
        assert "Traceback" not in said
    assert live_versions.read(tmp_path / "data") == {}
    assert not (tmp_path / "data/snapshots" / version).exists()


def test_lists_of_the_newest_ratings_alone_have_the_trend(tmp_path: Path, capsys: Any) -> None:
    """Half of the choices follow a fashion of a fortnight. The end of the last one is held out, or any part."""
    columns = zip(*(column.tolist() for column in drawn(0.5)), strict=True)
    lines = [f"u{user},i{item},1,{1e9 + seconds:.0f}\n" for user, item, seconds in columns]
    (tmp_path / "ratings.csv").write_text("user,item,rating,timestamp\n" + "".join(lines))
    (tmp_path / "timeless.csv").write_text(HEAD + "".join(line.rpartition(",")[0] + "\n" for line in lines))
    found = dict[str, dict[str, Any]]()
    for split, name in (("time", "ratings"), ("random", "ratings"), ("random", "timeless")):
        out = str(tmp_path / f"{split}-{name}")
        command = ["train", "--ratings", str(tmp_path / f"{name}.csv"), "--algorithm", "als-implicit", "--json"]
        of_split = ["--split", split, "--test-fraction", "0.05", "--out", out]
        capsys.readouterr()
        assert run([*command, *of_split, "--set", "n_factors=8", "n_epochs=3"]) == 0
        trained = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert run(["evaluate", "--model", out, "--json"]) == 0
        found[f"{split} {name}"] = json.loads(capsys.readouterr().out) | {"trend": trained.get("trend")}
    newest, drawn_part, timeless = found.values()
    assert newest["trend"]["weight"] > 0
    assert newest["ndcg@10"] > 1.5 * newest["popular_ndcg@10"]
    assert drawn_part["trend"]["weight"] > 0
    assert timeless["trend"] is None
    same = "ndcg@10", "recall@20", "map@10", "coverage@10"
    assert [drawn_part[name] for name in same] == [timeless[name] for name in same]
