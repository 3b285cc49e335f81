"""Deploying models, and replays on the command line, on a folder without a service."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import gpu
from service.__main__ import run
from service.storage.events import Entry, StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.log.segment import table_of
from service.storage.snapshots import live_versions, snapshot
from tests.service.planted import entries


@pytest.fixture
def data(tmp_path: Path) -> Path:
    log, made = RatingLog(tmp_path / "data" / "ratings"), entries()
    made = [*made, Entry(StreamId(made[-1].id.ms + 1, 0), "forget", subject="u1")]
    log.files.write(made[0].id, made[-1].id, [table_of(made)])
    return tmp_path / "data"


def model(folder: Path, items: list[str], watermark: str = "0-0") -> Path:
    ratings = gpu.Ratings.from_coo(np.array([0, 1]), np.array([0, 2]), np.array([5.0, 1.0], np.float32), (2, 3))
    fitted = gpu.fit(ratings, gpu.params_for("als", {"n_factors": 4, "n_epochs": 1}))
    return folder / snapshot.write(folder, fitted, ["u0", "u1"], items, metrics={}, watermark=watermark).version


def test_a_model_goes_live_without_forgotten_users(data: Path, tmp_path: Path) -> None:
    made = model(tmp_path / "out", ["i0", "i1", "i2"])
    assert run(["deploy", str(tmp_path / "out"), "--data", str(data)]) == 0
    assert live_versions.read(data) == {"als": f"{made.name}.1"}
    assert list(snapshot.load(data / "snapshots", f"{made.name}.1").user_ids) == ["u0"]
    assert run(["deploy", str(made), "--data", str(data)]) == 0  # again


@pytest.mark.parametrize(
    ("items", "watermark", "reason"),
    [
        (["a", "b", "c"], "0-0", "3 unknown ones; what was just posted is in the log after 10 seconds"),
        (["i0", "i1", "i2"], "99999-0", "trained up to 99999-0"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(data: Path, tmp_path: Path, items, watermark, reason, capsys) -> None:
    made = model(tmp_path / "out", items, watermark)
    assert run(["deploy", str(made), "--data", str(data)]) == 2
    assert reason in capsys.readouterr().err
    assert live_versions.read(data) == {}
    assert not (data / "snapshots" / made.name).exists()


def test_a_damaged_model_and_none_are_refused(data: Path, tmp_path: Path, capsys) -> None:
    made = model(tmp_path / "out", ["i0", "i1", "i2"])
    content = (made / "arrays.safetensors").read_bytes()
    (made / "arrays.safetensors").write_bytes(content[:-1] + b"x")
    assert run(["deploy", str(made), "--data", str(data)]) == 1
    assert "arrays.safetensors has SHA-256" in capsys.readouterr().err
    assert run(["deploy", str(tmp_path), "--data", str(data)]) == 2
    assert live_versions.read(data) == {}


def test_two_replays_are_equal_and_a_later_one_is_not(data: Path, tmp_path: Path) -> None:
    made = model(data / "snapshots", ["i0", "i1", "i2"])
    shutil.copytree(made, tmp_path / made.name)
    first, last = str(entries()[4].id), str(RatingLog(data / "ratings").last_id())
    found: list[dict[str, str]] = []
    for source, to in ((made.name, first), (str(tmp_path / made.name), first), (made.name, last)):
        out = tmp_path / f"out-{len(found)}"
        options = ["--from", source, "--to", to, "--user", "u0", "--backend", "host"]
        assert run(["replay", "--data", str(data), "--out", str(out), *options]) == 0
        lists = [json.loads(line) for line in (out / "lists.ndjson").read_text().splitlines()]
        assert [one["as_of"] for one in lists] == [to]
        found.append(json.loads((out / "report.json").read_text())["sha256"])
    assert found[0] == found[1]
    assert found[0]["all"] != found[2]["all"]
    assert "model.user_factors" in found[0]
    for to in ("999999-0", "yesterday"):
        assert run(["replay", "--data", str(data), "--out", str(tmp_path), "--from", made.name, "--to", to]) == 2
