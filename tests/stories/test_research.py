"""A researcher with files: train, evaluate, read the figures, and take all ratings out of a service again."""

import csv
import json
from pathlib import Path

import pytest
from nearfield_client import Nearfield

from service.__main__ import run
from service.cli import synthetic


def test_files_in_and_figures_out(tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str) -> None:
    ratings, model = tmp_path / "ratings.csv", tmp_path / "model"
    synthetic.write(ratings, synthetic.planted(0, 150, 60))

    # Train on nine tenths, and measure on the rest.
    train = ["train", "--ratings", str(ratings), "--algorithm", "ease", "--test-fraction", "0.1", "--out", str(model)]
    assert run(train) == 0
    capsys.readouterr()
    assert run(["evaluate", "--model", str(model), "--k", "10", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["ndcg@10"] > figures["popular_ndcg@10"]  # better than the same list for all

    # Post the file to a service, and export it: the same ratings come out.
    assert run(["import", str(ratings), "--url", address]) == 0
    out = tmp_path / "out.ndjson"
    assert run(["export", "--out", str(out), "--url", address]) == 0
    with ratings.open(encoding="utf-8") as file:
        posted = {(one["user"], one["item"], float(one["rating"])) for one in csv.DictReader(file)}
    exported = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert {(one["user"], one["item"], one["rating"]) for one in exported} == posted
    with Nearfield(address) as client:
        assert len(client.popular(n=10).items) == 10
