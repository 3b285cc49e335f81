import hashlib
import math
import os
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from gpu.algorithms import params_for
from gpu.data.model import Model
from gpu.data.signals import Calibration, before_calibration
from gpu.ranking.item_terms import ItemTerms
from service.storage import exclusion, files
from service.storage.errors import CorruptSnapshot, NewerSnapshot, UnknownVersion
from service.storage.snapshots import array_file, live_versions, snapshot, snapshot_files, version_names
from service.storage.snapshots.array_values import ArrayValues
from service.storage.snapshots.content_map import ContentMap, ContentMaps, Features
from service.storage.snapshots.forgetting import forget_in_snapshot, forget_in_snapshots
from service.storage.snapshots.manifest import StoredCalibration
from tests.service.storage.snapshots import forged

USERS, ITEMS = ["ann", "b/ö"], ["x", "y", "z"]


def a_model(algorithm: str = "culsh") -> Model:
    params = params_for(algorithm, {"n_factors": 3} | ({} if algorithm == "sgd" else {"n_neighbors": 2}))
    model = Model.zeros(params, 3.5, (1.0, 5.0), len(USERS), len(ITEMS), n_bits=64)
    generator = np.random.default_rng(0)
    model.user_factors[:] = generator.normal(size=model.user_factors.shape)
    model.mark_trained(np.array([4, 0]), np.array([0, 2, 1]))
    model.projections[:] = generator.integers(-9, 9, model.projections.shape)
    return model


def written(folder: Path, version: str | None = None) -> str:
    return snapshot.write(
        folder, a_model(), USERS, ITEMS, metrics={"rmse": 0.9}, watermark="5-1", version=version
    ).version


def test_what_is_written_is_loaded_in_however_many_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_file, "PART_BYTES", 24)
    monkeypatch.setattr(snapshot_files, "PART_IDS", 2)
    loaded = snapshot.load(tmp_path, written(tmp_path))
    assert (list(loaded.user_ids), list(loaded.item_ids)) == (USERS, ITEMS)
    for name, array in a_model().arrays.items():
        np.testing.assert_array_equal(loaded.model.arrays[name], array)


def test_lists_of_items_are_in_the_files_of_models_that_have_them(tmp_path: Path) -> None:
    of_lists = Model.zeros(params_for("neighbors", {"n_neighbors": 2}), 3.5, (1.0, 5.0), len(USERS), len(ITEMS))
    of_lists.listed[:, 0], of_lists.listed_weights[:, 0] = [1, 0, 1], 0.5
    for model in (of_lists, a_model()):
        version = snapshot.write(tmp_path, model, USERS, ITEMS, metrics={}, watermark="5-1").version
        stored = forged.arrays_of(tmp_path / version).keys()
        assert {"listed", "listed_weights"} & stored == ({"listed", "listed_weights"} if model is of_lists else set())
        loaded = snapshot.load(tmp_path, version).model
        np.testing.assert_array_equal(loaded.listed, model.listed)
        np.testing.assert_array_equal(loaded.listed_weights, model.listed_weights)


def test_a_model_of_which_every_user_was_forgotten_is_loaded(tmp_path: Path) -> None:
    version = written(tmp_path)
    for user in USERS:
        version = snapshot.rewrite_without(tmp_path, version, user).version
    loaded = snapshot.load(tmp_path, version)
    assert (list(loaded.user_ids), list(loaded.item_ids)) == ([], ITEMS)
    assert loaded.model.user_factors.shape == (0, a_model().user_factors.shape[1])
    np.testing.assert_array_equal(loaded.model.item_factors, a_model().item_factors)


def test_what_is_written_is_loaded(tmp_path: Path) -> None:
    version = written(tmp_path)
    loaded = snapshot.load(tmp_path, version)
    assert (list(loaded.user_ids), list(loaded.item_ids)) == (USERS, ITEMS)
    assert loaded.manifest.watermark == "5-1"
    assert loaded.manifest.metrics == {"rmse": 0.9}
    model = a_model()
    assert loaded.model.params == model.params
    assert (loaded.model.mean, loaded.model.scale) == (3.5, (1.0, 5.0))
    for name, array in model.arrays.items():
        np.testing.assert_array_equal(loaded.model.arrays[name], array)
    assert [path.name for path in tmp_path.iterdir()] == [version]


OF_PREFERENCES = Calibration(
    values="ratings", middle=3.0, scale=(1.0, 5.0), typical=0.1 + 0.2, alpha=4.7, density=0.045
)
OF_COUNTS = Calibration(is_damped=True, scale=(1.0, math.inf), regularization=0.1)
OF_RATINGS = Calibration(unit=0.9, origin=0.25, values="ratings", scale=(0.0, math.inf), prior=4.0)


@pytest.mark.parametrize("calibration", [OF_PREFERENCES, OF_COUNTS, OF_RATINGS, Calibration()])
def test_a_calibration_survives_a_copy_without_a_user(tmp_path: Path, calibration: Calibration) -> None:
    model = a_model()
    model.calibration = calibration
    given = {"n_factors": 3}
    first = snapshot.write(tmp_path, model, USERS, ITEMS, metrics={}, watermark="5-1", n_ratings=7, given=given).version
    for version in (first, snapshot.rewrite_without(tmp_path, first, "ann").version):
        loaded = snapshot.load(tmp_path, version)
        assert loaded.model.calibration == calibration
        assert (loaded.manifest.n_ratings, loaded.manifest.given) == (7, given)
        rows = np.arange(loaded.model.n_users)
        assert loaded.model.mapped(rows, np.arange(3), len(rows), 3).calibration == calibration


def stated(folder: Path, version: str, **fields: object) -> None:
    """Put `fields` into the manifest of `version`; None removes one."""
    path = folder / version / "manifest.json"
    known = msgspec.json.decode(path.read_bytes()) | fields
    content = msgspec.json.encode({name: value for name, value in known.items() if value is not None})
    path.write_bytes(content)
    path.with_name("manifest.sha256").write_text(hashlib.sha256(content).hexdigest())


def test_a_snapshot_of_format_1_counts_values_as_they_are(tmp_path: Path) -> None:
    version = written(tmp_path)
    parameters = {"n_factors": 3, "alpha": 2.5, "regularization": 0.015}
    old = dict.fromkeys(("calibration", "given", "n_ratings")) | {"format": 1, "parameters": parameters}
    stated(tmp_path, version, **old, algorithm="als-implicit")
    manifest = snapshot.read_manifest(tmp_path, version)
    assert (
        manifest.calibration.restored()
        == before_calibration(parameters)
        == Calibration(alpha=2.5, regularization=0.015)
    )
    assert manifest.given == {"n_factors": 3, "alpha": 2.5}  # its λ was the default
    assert manifest.n_ratings is None


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    version = written(tmp_path)
    stated(tmp_path, version, format=4, calibration="something else")
    message = f"snapshot {version} was written by a newer version .format 4.; this one reads up to 3: upgrade"
    for read in (snapshot.read_manifest, snapshot.verify, snapshot.load):
        with pytest.raises(NewerSnapshot, match=message):
            read(tmp_path, version)


@pytest.mark.parametrize("number", [1, 2])
def test_older_formats_are_read_with_the_names_of_today(tmp_path: Path, number: int) -> None:
    """They spell `neighbours`: an array, and a parameter."""
    model = a_model()
    version = snapshot.write(
        tmp_path, model, USERS, ITEMS, metrics={}, watermark="5-1", given={"n_neighbors": 2}
    ).version
    path = tmp_path / version / "arrays.safetensors"
    save_file({name.replace("neighbors", "neighbours"): array for name, array in model.arrays.items()}, path)
    manifest = snapshot.read_manifest(tmp_path, version)
    old: dict[str, object] = {"n_neighbours": 2}
    stated(
        tmp_path,
        version,
        format=number,
        files=manifest.files | {path.name: hashlib.sha256(path.read_bytes()).hexdigest()},
        parameters={name: value for name, value in manifest.parameters.items() if name != "n_neighbors"} | old,
        given=old,
    )
    loaded = snapshot.load(tmp_path, version)
    assert loaded.model.params == model.params
    assert loaded.manifest.given["n_neighbors"] == 2
    np.testing.assert_array_equal(loaded.model.neighbors, model.neighbors)
    with pytest.raises(ValueError, match="expected an array neighbors"):
        snapshot_files.check_arrays(path, ArrayValues(model.params, len(USERS), len(ITEMS)), format_=3)


def test_what_has_no_bound_is_null() -> None:
    stored = msgspec.json.decode(msgspec.json.encode(StoredCalibration.of(OF_COUNTS)))
    assert (stored["middle"], stored["scale"]) == (None, [1.0, None])


def test_a_calibration_from_before_half_lives_of_gradient_descent_weighs_by_1() -> None:
    stored = msgspec.to_builtins(StoredCalibration.of(OF_COUNTS))
    del stored["usual_weight"]
    assert msgspec.convert(stored, StoredCalibration).restored() == OF_COUNTS


def test_a_snapshot_from_before_items_were_counted_has_no_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = dict.copy(a_model().arrays)
    del arrays["item_counts"]
    monkeypatch.setattr(Model, "arrays", arrays)
    version = written(tmp_path)
    monkeypatch.undo()
    old = dict.fromkeys(("calibration", "given", "n_ratings")) | {"format": 1}
    stated(tmp_path, version, **old)
    loaded = snapshot.load(tmp_path, version).model
    assert loaded.item_counts.tolist() == [0, 0, 0]
    items = np.arange(len(ITEMS))
    np.testing.assert_array_equal(ItemTerms(loaded).biases(loaded, items), loaded.item_bias)


def test_counts_may_be_missing_in_the_first_format_alone(tmp_path: Path) -> None:
    path, model = tmp_path / "arrays", a_model()
    left_out = "item_counts", "item_slots", "item_weights"
    save_file({name: array for name, array in model.arrays.items() if name not in left_out}, path)
    size = model.params, model.n_users, model.n_items
    read = snapshot_files.read_arrays(path, ArrayValues(*size, has_counts=False), format_=1)
    assert read["item_counts"].tolist() == [0] * len(ITEMS)
    with pytest.raises(ValueError, match="expected an array item_counts"):
        snapshot_files.read_arrays(path, ArrayValues(*size, has_counts=True), format_=3)


def test_item_weights_are_stored_where_there_are_any(tmp_path: Path) -> None:
    path = tmp_path / "arrays"
    model = Model.zeros(params_for("ease", {}), 0.0, (0.0, 1.0), len(USERS), len(ITEMS))
    snapshot_files.write_arrays(path, model)
    with safe_open(path, framework="numpy") as file:
        assert not {"item_slots", "item_weights"} & set(file.keys())
    weights, slots = np.arange(4, dtype=np.float32).reshape(2, 2), np.array([1, -1, 0], dtype=np.int32)
    arrays = {**model.arrays, "item_weights": weights, "item_slots": slots}
    snapshot_files.write_arrays(path, Model(model.params, 0.0, (0.0, 1.0), arrays))
    values = ArrayValues(model.params, model.n_users, model.n_items, has_counts=True)
    loaded = snapshot_files.read_arrays(path, values, format_=3)
    np.testing.assert_array_equal(loaded["item_weights"], weights)
    np.testing.assert_array_equal(loaded["item_slots"], slots)


@pytest.mark.parametrize("name", ["arrays.safetensors", "users.parquet", "items.parquet", "manifest.json"])
@pytest.mark.parametrize("damage", ["truncated", "altered", "missing"])
def test_a_damaged_file_is_refused_and_named(tmp_path: Path, name: str, damage: str) -> None:
    version = written(tmp_path)
    path = tmp_path / version / name
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(content[:-7])
    elif damage == "altered":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    else:
        path.unlink()
    with pytest.raises(CorruptSnapshot, match=name):
        snapshot.load(tmp_path, version)


@pytest.mark.parametrize("version", ["culsh-20200101T000000-beef", "../etc", "", "."])
def test_an_unknown_version_is_said_to_be_unknown(tmp_path: Path, version: str) -> None:
    with pytest.raises(UnknownVersion):
        snapshot.load(tmp_path, version)


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "rename", full_disk)
    with pytest.raises(OSError, match="No space"):
        written(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_all_is_on_the_disk_before_a_snapshot_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, renamed, rename = list[Path](), list[list[Path]](), files.rename
    monkeypatch.setattr(files, "sync", synced.append)

    def noted(source: Path, target: Path) -> None:
        renamed.append(synced.copy())
        rename(source, target)

    monkeypatch.setattr(files, "rename", noted)
    features = Features([("genre", "war")])
    content = ContentMaps(ContentMap(features, np.zeros((2, 4), np.float32)))
    version = snapshot.write(tmp_path, a_model(), USERS, ITEMS, metrics={}, watermark="5-1", content=content).version
    ((*inner, folder),) = renamed
    assert sorted(path.name for path in inner) == sorted(path.name for path in (tmp_path / version).iterdir())
    assert {path.parent for path in inner} == {folder}
    assert synced == [*inner, folder, tmp_path]
    loaded = snapshot.load(tmp_path, version)
    assert loaded.content.items is not None
    assert loaded.content.items.features == features


def test_of_versions_of_one_second_the_last_one_written_is_the_newest(tmp_path: Path) -> None:
    versions = [f"als-20260101T000000-000{n}" for n in (2, 3, 1)] + ["als-20260101T000001-0000"]
    for n, version in enumerate(versions):
        (tmp_path / version).mkdir()
        os.utime(tmp_path / version, (0, 9 - n if n == 3 else n))
    assert snapshot.versions(tmp_path) == versions[::-1]
    assert snapshot.versions(tmp_path / "missing") == []


def test_the_live_and_the_two_newest_others_are_kept(tmp_path: Path) -> None:
    names = [f"culsh-2020010{day}T000000-000{day}" for day in range(1, 6)]
    for version in names:
        written(tmp_path, version)
    written(tmp_path, "culsh-implicit-20190101T000000-0001")
    assert snapshot.prune(tmp_path, "culsh", live=names[0]) == [names[2], names[1]]
    assert snapshot.versions(tmp_path, "culsh") == [names[4], names[3], names[0]]
    assert snapshot.versions(tmp_path, "culsh-implicit") == ["culsh-implicit-20190101T000000-0001"]


def test_what_killed_writers_left_is_cleaned_however_young_it_is(tmp_path: Path) -> None:
    version = written(tmp_path)
    for name in (".culsh-20200101T000000-0001.77.tmp", ".culsh-20200101T000000-0001.gone"):
        (tmp_path / name).mkdir()
    (tmp_path / ".lock").touch()
    snapshot.clean(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {version, ".lock"}


def test_leftovers_stay_while_a_process_trains(tmp_path: Path) -> None:
    version = written(tmp_path / "snapshots")
    left = tmp_path / "snapshots" / f".{version}.gone", tmp_path / exclusion.WORK / "job"
    exclusion.clean(tmp_path)
    for path in left:
        path.mkdir(parents=True)
    training = exclusion.try_take(tmp_path, shared=True)
    assert training is not None
    with training:
        exclusion.clean(tmp_path)
        assert all(path.exists() for path in left)
    exclusion.clean(tmp_path)
    assert not any(path.exists() for path in (*left, tmp_path / exclusion.WORK))
    assert snapshot.versions(tmp_path / "snapshots") == [version]


@pytest.mark.parametrize("name", ["arrays.safetensors", "users.parquet", "manifest.json", "manifest.sha256"])
@pytest.mark.parametrize("device", ["a pipe", "/dev/zero"])
def test_what_can_be_read_for_ever_is_refused_and_named(tmp_path: Path, name: str, device: str) -> None:
    version = written(tmp_path)
    path = tmp_path / version / name
    path.unlink()
    if device == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(device)
    with pytest.raises(CorruptSnapshot, match=f"{name}: expected a regular file"):
        snapshot.verify(tmp_path, version)


def test_a_copy_without_a_user_has_everything_else(tmp_path: Path) -> None:
    version = written(tmp_path)
    copy = snapshot.rewrite_without(tmp_path, version, "ann")
    loaded, before = snapshot.load(tmp_path, copy.version), a_model()
    assert list(loaded.user_ids) == ["b/ö"]
    assert copy.version == f"{version}.1"
    assert (version_names.shown(copy.version), version_names.revision_of(copy.version)) == (version, 1)
    assert version_names.time_of(copy.version) == version_names.time_of(version)
    assert version_names.name_of(copy.version) == version_names.name_of(version)
    np.testing.assert_array_equal(loaded.model.user_factors, before.user_factors[1:])
    np.testing.assert_array_equal(loaded.model.projections, before.projections)
    assert not snapshot.holds_user(tmp_path, copy.version, "ann")
    assert snapshot.holds_user(tmp_path, version, "ann")


def test_no_power_cut_brings_a_forgotten_user_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "snapshots"
    version, synced, sync = written(folder), list[tuple[Path, list[str]]](), files.sync

    def noted(path: Path) -> None:
        synced.append((path, snapshot.versions(folder)))
        sync(path)

    monkeypatch.setattr(files, "sync", noted)
    for _ in range(2):  # also when it is gone: an earlier call may have failed there
        synced.clear()
        forget_in_snapshots(tmp_path, "ann")
        assert synced[-1] == (folder, [f"{version}.1"])


def test_a_snapshot_that_cannot_be_read_is_forgotten_with_its_users_unless_it_is_live(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    versions = [written(folder) for _ in range(2)]
    for version in versions:
        (folder / version / "users.parquet").write_bytes(b"torn")
    live_versions.set_version(tmp_path, "culsh", versions[0])
    assert forget_in_snapshot(tmp_path, versions[1], "ann") == versions[1]
    with pytest.raises(CorruptSnapshot, match=versions[0]):
        forget_in_snapshot(tmp_path, versions[0], "ann")
    assert snapshot.versions(folder) == versions[:1]


def test_of_revisions_that_a_killed_forgetting_left_the_last_one_stays(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    version, other = written(folder), written(folder)
    live_versions.set_version(tmp_path, "culsh", version)
    snapshot.rewrite_without(folder, version, "ann")
    forget_in_snapshots(tmp_path, "nobody")
    assert set(snapshot.versions(folder)) == {f"{version}.1", other}
    assert live_versions.read(tmp_path) == {"culsh": f"{version}.1"}


def test_a_revision_that_is_there_already_is_never_written_again(tmp_path: Path) -> None:
    version = written(tmp_path)
    found = [snapshot.rewrite_without(tmp_path, version, user).version for user in ("ann", "b/ö")]
    found.append(snapshot.rewrite_without(tmp_path, found[0], "b/ö").version)
    assert found == [f"{version}.1", f"{version}.2", f"{version}.3"]
    assert snapshot.latest_revision(tmp_path, version) == snapshot.latest_revision(tmp_path, found[0]) == found[-1]
    for unknown in ("culsh-19700101T000102-beef", "../x", ""):
        with pytest.raises(UnknownVersion):
            snapshot.latest_revision(tmp_path, unknown)


def test_a_revision_that_is_removed_while_it_is_verified_gives_way_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, sha256_of = written(tmp_path), files.sha256_of
    revisions: list[str] = []

    def forgets_meanwhile(path: Path) -> str:
        monkeypatch.setattr(files, "sha256_of", sha256_of)
        revisions.append(snapshot.rewrite_without(tmp_path, version, "ann").version)
        snapshot.remove(tmp_path, version)
        return sha256_of(path)

    monkeypatch.setattr(files, "sha256_of", forgets_meanwhile)
    assert [snapshot.verify_latest(tmp_path, version)] == revisions == [f"{version}.1"]


def test_the_last_revision_is_refused_if_it_is_corrupt_or_gone(tmp_path: Path) -> None:
    version = written(tmp_path)
    copy = snapshot.rewrite_without(tmp_path, version, "ann").version
    (tmp_path / copy / "arrays.safetensors").unlink()
    with pytest.raises(CorruptSnapshot, match=copy):
        snapshot.verify_latest(tmp_path, version)
    for one in (version, copy):
        snapshot.remove(tmp_path, one)
    with pytest.raises(UnknownVersion):
        snapshot.verify_latest(tmp_path, version)


def test_the_time_and_name_of_a_version() -> None:
    assert version_names.time_of("culsh-implicit-19700101T000102-beef") == 62
    assert version_names.name_of("culsh-implicit-19700101T000102-beef") == "culsh-implicit"


def test_ids_are_strings_as_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_files, "PART_IDS", 2)
    names = ["a", "b/ö", "c", "", "e"]
    snapshot_files.write_ids(tmp_path / "ids", names)
    ids = snapshot_files.read_ids(tmp_path / "ids")
    assert (len(ids), ids[1], ids[-1], list(ids)) == (5, "b/ö", "e", names)
    assert ids[1:3] == ["b/ö", "c"] and ids[4:9] == ["e"] and ids[5:] == []
    assert "c" in ids and "d" not in ids
    with pytest.raises(IndexError):
        ids[5]
    snapshot_files.write_ids(tmp_path / "again", ids)
    assert list(snapshot_files.read_ids(tmp_path / "again")) == names


@pytest.mark.parametrize("column", [["a", "b", "a"], ["a", None], [1, 2]])
def test_what_is_no_column_of_distinct_ids_is_refused(tmp_path: Path, column: list[object]) -> None:
    pq.write_table(pa.table({"id": column}), tmp_path / "ids")
    with pytest.raises(ValueError, match="expected distinct strings"):
        snapshot_files.read_ids(tmp_path / "ids", len(column))


def test_a_snapshot_is_verified_without_being_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = written(tmp_path)
    manifest = snapshot.load(tmp_path, version).manifest
    monkeypatch.setattr(snapshot_files, "read_arrays", None)
    assert snapshot.verify(tmp_path, version) == manifest
    users = tmp_path / version / snapshot_files.USERS_FILE
    users.write_bytes(users.read_bytes()[:-1])
    with pytest.raises(CorruptSnapshot, match=snapshot_files.USERS_FILE):
        snapshot.verify(tmp_path, version)


def test_values_that_no_model_has_are_noticed_without_loading_them(tmp_path: Path) -> None:
    version = written(tmp_path)
    arrays = forged.arrays_of(tmp_path / version)
    arrays["item_factors"][1] = np.nan
    forged.replace_arrays(tmp_path / version, arrays)
    for read in (snapshot.verify, snapshot.load):
        with pytest.raises(CorruptSnapshot, match="expected item_factors from"):
            read(tmp_path, version)
    forged.state(tmp_path / version, lambda manifest: manifest.update({"algorithm": "of-a-later-version"}))
    assert snapshot.verify(tmp_path, version).algorithm == "of-a-later-version"  # its arrays are not looked at
