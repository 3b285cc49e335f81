"""A planted folder is one that a service takes in: log, snapshot and the sample for the load test agree."""

import csv

import numpy as np
import pytest

from benchmarks import plant
from benchmarks.plant import SAMPLE
from gpu.errors import InvalidInput
from gpu.params import params_for
from service.engine.state.history import History
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions, snapshot

PARAMS = params_for("culsh", {"n_factors": 4, "n_neighbors": 3, "n_bits": 64})
USERS, ITEMS, RATINGS = 700, 900, 5000


@pytest.fixture
def planted(tmp_path, monkeypatch):
    monkeypatch.setattr(plant, "ENTRIES_PER_GROUP", 2)
    monkeypatch.setattr(plant, "GROUPS_PER_SEGMENT", 1)
    return plant.plant(tmp_path, PARAMS, USERS, ITEMS, RATINGS)


def test_the_history_names_everybody_and_its_busiest_first(planted, tmp_path):
    log, history = RatingLog(tmp_path / "ratings"), History()
    assert len(log.files.segments()) == 3
    history.load(log)
    assert (len(history.users), len(history.items)) == (USERS, ITEMS)
    assert 0.9 * RATINGS < history.table.n_ratings <= RATINGS
    lengths = history.table.rows.lengths
    rows = [history.users.row(f"user-{n}") for n in range(USERS)]
    assert None not in rows
    by_rank = lengths[np.array(rows)]
    assert by_rank[:70].sum() > 2 * by_rank[-70:].sum()
    assert by_rank.min() >= 1
    assert planted.most_of_a_user >= by_rank.max()
    assert history.table.item_counts.min() >= 1


def test_the_model_is_live_whole_and_as_new_as_the_log(planted, tmp_path):
    assert live_versions.read(tmp_path) == {"culsh": planted.version}
    loaded = snapshot.load(tmp_path / "snapshots", planted.version)
    model = loaded.model
    assert (model.n_users, model.n_items, model.projections.shape[1]) == (USERS, ITEMS, 64)
    assert loaded.user_ids[:2] == ["user-0", "user-1"]
    assert loaded.manifest.watermark == str(RatingLog(tmp_path / "ratings").last_id())
    history = History()
    history.load(RatingLog(tmp_path / "ratings"))
    rows = history.items.rows_or_new([f"item-{n}" for n in range(ITEMS)])
    assert model.item_counts.tolist() == history.table.item_counts[rows].tolist()
    assert model.user_factors.std() == pytest.approx(plant.DEVIATION, rel=0.1)
    empty = "ed", "line", "slots", "item_weights"
    assert all(np.unique(array).size > 1 for name, array in model.arrays.items() if not name.endswith(empty))


def test_the_sample_is_of_the_history(planted, tmp_path):
    with (tmp_path / SAMPLE).open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["user", "item", "rating"]
    assert len(rows) == 1 + RATINGS
    assert {row[2] for row in rows[1:]} == {"1", "2", "3", "4", "5"}


def test_what_does_not_fit_is_refused(planted, tmp_path):
    with pytest.raises(InvalidInput, match="expected a folder without ratings"):
        plant.plant(tmp_path, PARAMS, USERS, ITEMS, RATINGS)
    with pytest.raises(InvalidInput, match="expected one a user and item at least, got 10"):
        plant.plant(tmp_path / "new", PARAMS, 5, 20, 10)
