"""What the ranks of a training share: the store, checkpoints and the model."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import gpu
from gpu.base.backend import HOST
from gpu.data.calibration import calibrate
from gpu.data.ratings import Ratings
from gpu.ranks.exchange import ALONE
from service.extras.ranks import array_folder, checkpoints, partition_store, rank
from service.extras.ranks.checkpoints import CheckpointWriter
from service.extras.ranks.errors import CorruptWorkFile, ForeignCheckpoint, WorkFolderUnavailable
from tests.data import planted, split
from tests.faults.small_disk import small_disk
from tests.service.waiting import eventually

__all__ = ["small_disk"]

PARAMS = gpu.params_for("als-implicit", {"n_factors": 4, "n_epochs": 2})
STATE = {"users": np.arange(6, dtype=np.float32).reshape(3, 2), "items": np.zeros((0, 2), dtype=np.float32)}


def assert_equal(found: Ratings, expected: Ratings) -> None:
    for side in ("by_user", "by_item"):
        for name, array in getattr(expected, side)._asdict().items():
            actual = getattr(getattr(found, side), name)
            assert actual.dtype == array.dtype
            np.testing.assert_array_equal(actual, array)
    np.testing.assert_array_equal(found.user_keys, expected.user_keys)
    np.testing.assert_array_equal(found.item_keys, expected.item_keys)


def write(work: Path) -> tuple[Ratings, Ratings, gpu.Calibration, str]:
    train, test = split(planted())
    calibration = calibrate(train, PARAMS)
    return train, test, calibration, partition_store.write(work, train, test, PARAMS, calibration)


def test_everything_is_read_as_it_was_written(tmp_path: Path) -> None:
    train, test, calibration, digest = write(tmp_path)
    found = partition_store.read(tmp_path)
    assert_equal(found.ratings, train)
    assert found.ratings.weights is None
    assert found.test is not None
    assert_equal(found.test, test)
    assert (found.params, found.calibration, found.digest) == (PARAMS, calibration, digest)
    assert calibration.middle > 1


def test_weights_are_kept(tmp_path: Path) -> None:
    weights = np.linspace(0.1, 4, len(planted()), dtype=np.float32)
    partition_store.write(tmp_path, planted().weighted(weights), None, PARAMS, gpu.Calibration())
    np.testing.assert_array_equal(partition_store.read(tmp_path).ratings.weights, weights)


def test_there_need_be_no_test_ratings_and_no_ratings_of_a_row(tmp_path: Path) -> None:
    empty = Ratings.from_coo(np.array([2]), np.array([1]), np.array([3.0]), (4, 3))
    partition_store.write(tmp_path, empty, None, PARAMS, gpu.Calibration())
    found = partition_store.read(tmp_path)
    assert_equal(found.ratings, empty)
    assert found.test is None


def test_arrays_are_mapped_and_changes_stay_private(tmp_path: Path) -> None:
    write(tmp_path)
    values = partition_store.read(tmp_path).ratings.by_user.values
    assert isinstance(values.base, np.memmap)
    values[:] = 0
    assert partition_store.read(tmp_path).ratings.by_user.values.all()


@pytest.mark.parametrize("name", ["train.by_item.values.bin", "manifest.json", "manifest.sha256"])
@pytest.mark.parametrize("damage", ["missing", "torn", "altered"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, damage: str) -> None:
    write(tmp_path)
    path = tmp_path / "ratings" / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[:-1] if damage == "torn" else bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(CorruptWorkFile, match=name if name.startswith("train") else "manifest"):
        partition_store.read(tmp_path)
    if name.startswith("train"):
        partition_store.compile_once(tmp_path, HOST)  # it reads no ratings
    else:
        with pytest.raises(CorruptWorkFile, match="manifest"):
            partition_store.compile_once(tmp_path, HOST)


@pytest.mark.parametrize("place", [0, 99, 100, 12_345, -1])
def test_each_piece_of_a_file_is_checked(tmp_path: Path, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_folder, "PIECE_BYTES", 100)
    write(tmp_path)
    path = tmp_path / "ratings" / "train.by_user.values.bin"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptWorkFile, match="does not have the SHA-256"):
        partition_store.read(tmp_path)


def test_a_large_array_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_folder, "PIECE_BYTES", 1000)
    array = np.random.default_rng(0).random((1234, 3))
    array_folder.write(tmp_path / "one", {"a": array, "none": array[:0]}, {})
    arrays, _ = array_folder.read(tmp_path / "one")
    np.testing.assert_array_equal(arrays["a"], array)
    assert arrays["none"].shape == (0, 3)


def test_a_full_disk_is_one_clear_error(small_disk: Path) -> None:
    work = small_disk / "work"
    large = Ratings.from_coo(np.arange(500_000), np.zeros(500_000, dtype=np.int32), np.ones(500_000))
    with pytest.raises(WorkFolderUnavailable, match=f"{work} cannot be written: No space left on device; make room"):
        partition_store.write(work, large, None, PARAMS, gpu.Calibration())
    assert list(work.iterdir()) == []


def test_a_rename_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """The same by a fault point, without a small file system."""
    code = (
        "import numpy, pathlib, sys; from service.extras.ranks import array_folder;"
        "array_folder.write(pathlib.Path(sys.argv[1]) / 'one', {'a': numpy.ones(3)}, {})"
    )
    environment = os.environ | {"NEARFIELD_FAULT_AT": "rename:1:ENOSPC"}
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], env=environment, capture_output=True, text=True, check=False
    )
    assert "WorkFolderUnavailable: The work folder" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_model_comes_back(tmp_path: Path) -> None:
    model = gpu.fit(planted(), PARAMS)
    for _ in range(2):  # a rank may be lost after writing it
        partition_store.write_model(tmp_path, model)
    found = partition_store.read_model(tmp_path, PARAMS)
    for name, array in model.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array)
    assert (found.mean, found.scale, found.calibration) == (model.mean, model.scale, model.calibration)
    found.grow(found.n_users + 5, found.n_items)


def test_the_two_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, "d")
    state = {name: array.copy() for name, array in STATE.items()}
    for n_parts in (1, 2, 10):
        writer.save(n_parts, state)
        state["users"] += 1  # the writer has its own copy
    writer.finish()
    assert checkpoints.numbers(tmp_path) == [10, 2]
    assert checkpoints.newest(tmp_path, "d") == 10
    np.testing.assert_array_equal(checkpoints.read(tmp_path, "d", 10)["users"], STATE["users"] + 2)
    assert checkpoints.read(tmp_path, "d", 10)["items"].shape == (0, 2)


def test_large_checkpoints_are_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def wait(folder: Path) -> None:
        eventually(go_on.is_set, 60)

    writer = CheckpointWriter(tmp_path, "d", wait)
    assert writer.begin(), "the first one"
    writer.save(1, STATE)
    assert writer.begin(), "it is small"
    monkeypatch.setattr(checkpoints, "SMALL_BYTES", 0)
    monkeypatch.setattr(checkpoints, "PAUSE", 0.0)
    assert not writer.begin(), "one is being written"
    go_on.set()
    writer.finish()
    assert writer.begin(), "it took no time"
    writer.save(2, STATE)
    writer.finish()
    monkeypatch.setattr(checkpoints, "PAUSE", 1e9)
    assert not writer.begin(), "it took long"


def test_a_torn_checkpoint_is_skipped_and_written_again(tmp_path: Path) -> None:
    for n_parts in (1, 2):
        checkpoints.write(tmp_path, "d", n_parts, STATE)
    (tmp_path / "checkpoint-2" / "users.bin").write_bytes(b"torn")
    (tmp_path / ".checkpoint-3.1.tmp").mkdir()
    assert checkpoints.newest(tmp_path, "d") == 1
    assert not (tmp_path / ".checkpoint-3.1.tmp").exists()
    (tmp_path / "checkpoint-1" / "manifest.json").unlink()
    assert checkpoints.newest(tmp_path, "d") == 0
    checkpoints.write(tmp_path, "d", 2, STATE)
    assert checkpoints.newest(tmp_path, "d") == 2


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    _, _, _, digest = write(tmp_path / "one")
    ratings, other = planted(), gpu.params_for("als-implicit", {"n_factors": 4, "n_epochs": 3})
    assert digest != partition_store.write(tmp_path / "two", ratings, None, other, calibrate(ratings, other))
    checkpoints.write(tmp_path, digest, 1, STATE)
    with pytest.raises(ForeignCheckpoint, match="checkpoint-1 belongs to a training with other ratings or parameters"):
        checkpoints.newest(tmp_path, "other")


def test_a_full_disk_under_a_checkpoint_is_reported_by_the_next_call(small_disk: Path) -> None:
    writer = CheckpointWriter(small_disk, "d")
    writer.save(1, {"users": np.zeros(2_000_000, dtype=np.float32)})
    with pytest.raises(WorkFolderUnavailable, match="No space left on device"):
        writer.finish()
    with pytest.raises(WorkFolderUnavailable, match="No space left on device"):
        writer.save(2, STATE)


def test_big_endian_arrays_and_strides_are_stored_as_all_others(tmp_path: Path) -> None:
    array = np.arange(12, dtype=">i4").reshape(3, 4).T
    array_folder.write(tmp_path / "one", {"a": array}, {"of": "a test"})
    arrays, record = array_folder.read(tmp_path / "one")
    assert arrays["a"].dtype == np.dtype("<i4")
    np.testing.assert_array_equal(arrays["a"], array)
    assert record == {"of": "a test"}


@pytest.mark.parametrize(("small_bytes", "most"), [(0, 40), (1000, 1000)])
def test_ranks_speak_of_large_checkpoints_now_and_then(
    tmp_path: Path, small_bytes: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand parts that take no time: all have small checkpoints, and few have a look at large ones."""
    monkeypatch.setattr(checkpoints, "SMALL_BYTES", small_bytes)
    sent, trainer = list[Any](), cast("Any", SimpleNamespace(n_epochs=500, n_parts=2, seconds=1.0))
    writer = CheckpointWriter(tmp_path, "d")
    monkeypatch.setattr(writer, "save", lambda n_parts, state: setattr(writer, "_n_bytes", 72))
    connection: Any = SimpleNamespace(send=sent.append)
    kept = rank._Checkpoints(connection, 0, trainer, tmp_path, "d", writer, ALONE)
    for part in range(1, 1001):
        kept.part_done(part, lambda: STATE)
    assert sent[-1].n_parts == 1000
    assert 10 <= len(sent) <= most
