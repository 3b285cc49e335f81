"""Snapshots: a trained model with its id tables in a folder, written completely or not at all.

`<version>/` holds `arrays.safetensors`, `users.parquet`, `items.parquet` (column `id`, in row order), `manifest.json`
(with the SHA-256 of each of these) and `manifest.sha256`; with content maps also `content.safetensors`. It is written
under a temporary name, synced and renamed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gpu.algorithms import ALGORITHMS, params_for
from gpu.base.errors import EngineError
from gpu.data.model import Model
from gpu.data.param_kinds import Params
from service.storage import files
from service.storage.errors import CorruptSnapshot, UnknownVersion
from service.storage.snapshots import manifest as manifests
from service.storage.snapshots import manifest_check, snapshot_files
from service.storage.snapshots.array_values import ArrayValues
from service.storage.snapshots.content_map import NO_CONTENT, ContentMaps
from service.storage.snapshots.manifest import FORMAT, Manifest, StoredCalibration
from service.storage.snapshots.snapshot_files import ARRAYS_FILE, CONTENT_FILE, ITEMS_FILE, USERS_FILE
from service.storage.snapshots.version_names import is_version, new_version, revision_of, shown, time_text_of

N_KEPT = 3  # versions of each name: the live one and the two newest others
MANIFEST_FILE, DIGEST_FILE = "manifest.json", "manifest.sha256"


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A loaded snapshot: manifest, model in the rows of the snapshot, ids of these rows, and content maps."""

    manifest: Manifest
    model: Model
    user_ids: Sequence[str]
    item_ids: Sequence[str]
    content: ContentMaps = NO_CONTENT


def latest_revision(folder: Path, version: str) -> str:
    """The version on disk with the last revision of `version`.

    Raises:
        UnknownVersion: there is none.
    """
    revisions = [revision for revision in versions(folder) if shown(revision) == shown(version)]
    if not revisions:
        raise UnknownVersion(f"there is no snapshot {version!r}")
    return max(revisions, key=revision_of)


def write(
    folder: Path,
    model: Model,
    user_ids: Sequence[str],
    item_ids: Sequence[str],
    *,
    metrics: dict[str, float],
    watermark: str,
    n_ratings: int | None = None,
    given: dict[str, Any] | None = None,
    name: str | None = None,
    version: str | None = None,
    content: ContentMaps = NO_CONTENT,
) -> Manifest:
    """Write `model` below `folder`, and return its manifest; the snapshot is on disk under its final name on return.

    Args:
        folder: the folder of all snapshots.
        model, user_ids, item_ids, content: the model, the ids of its rows, and its content maps.
        metrics, watermark, n_ratings: see `Manifest`.
        given: the hyperparameters that were requested. Default: those that differ from the defaults.
        name: under which it can be live. Default: its algorithm.
        version: default: a new one of `name`.
    """
    version = version or new_version(name or model.params.algorithm)
    temporary = folder / f".{version}.{os.getpid()}.tmp"
    temporary.mkdir(parents=True)
    try:
        snapshot_files.write_arrays(temporary / ARRAYS_FILE, model)
        snapshot_files.write_ids(temporary / USERS_FILE, user_ids)
        snapshot_files.write_ids(temporary / ITEMS_FILE, item_ids)
        names = [ARRAYS_FILE, USERS_FILE, ITEMS_FILE]
        if any(content):
            content.write(temporary / CONTENT_FILE)
            names.append(CONTENT_FILE)
        algorithm, parameters = model.params.algorithm, dataclasses.asdict(model.params)
        manifest = Manifest(
            version=version,
            algorithm=algorithm,
            parameters=parameters,
            mean=model.mean,
            scale=model.scale,
            metrics=metrics,
            watermark=watermark,
            n_users=model.n_users,
            n_items=model.n_items,
            files={name: files.sha256_of(temporary / name) for name in names},
            format=FORMAT,
            calibration=StoredCalibration.of(model.calibration),
            given=manifests.changed(algorithm, parameters) if given is None else given,
            n_ratings=n_ratings,
        )
        text = msgspec.json.format(msgspec.json.encode(manifest))
        (temporary / MANIFEST_FILE).write_bytes(text)
        (temporary / DIGEST_FILE).write_text(hashlib.sha256(text).hexdigest() + "\n", "ascii")
        for path in (temporary / MANIFEST_FILE, temporary / DIGEST_FILE, temporary):
            files.sync(path)
        files.rename(temporary, folder / version)
        files.sync(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return manifest


def read_manifest(folder: Path, version: str) -> Manifest:
    """The manifest of `version`, after checking its digest, its format and its numbers.

    Raises:
        UnknownVersion: there is no such snapshot.
        CorruptSnapshot: the manifest is missing or altered, or says what no training does.
        NewerSnapshot: it has a format that this version does not know.
    """
    path = path_of(folder, version)
    with _corrupt(version, "unreadable manifest"):
        content = files.read_regular(path / MANIFEST_FILE, manifest_check.MAX_BYTES)
        digest = files.read_regular(path / DIGEST_FILE, manifest_check.MAX_BYTES).decode("ascii").strip()
        if hashlib.sha256(content).hexdigest() != digest:
            raise CorruptSnapshot(f"snapshot {version}: {MANIFEST_FILE} does not match {DIGEST_FILE}")
        manifest = manifests.read(content)
        manifest_check.check(manifest)
    if manifest.version != version:
        raise CorruptSnapshot(f"snapshot {version}: expected a manifest of {version}, got one of {manifest.version}")
    return manifest


def verify(folder: Path, version: str) -> Manifest:
    """The manifest of `version`, after checking the digest of every file, and every value in them.

    The arrays of an algorithm that this version does not know are not looked at.

    Raises:
        UnknownVersion: there is no such snapshot.
        CorruptSnapshot: a file is missing, truncated or altered, or has values that no model has; the message says
            which.
    """
    manifest, path = _with_digests(folder, version), path_of(folder, version)
    if manifest.algorithm in ALGORITHMS:
        with _corrupt(version):  # what `load` would notice, without the memory for the arrays
            params = params_for(manifest.algorithm, manifest.parameters)
            snapshot_files.check_arrays(path / ARRAYS_FILE, values_of(params, manifest), format_=manifest.format)
            read_ids_and_content(path, manifest, params)
    return manifest


def verify_latest(folder: Path, version: str) -> str:
    """The last revision of `version`, after `verify`, whose errors it raises.

    A forgetting may remove it at any time, after it has written the next one, which is taken then.
    """
    while True:
        last = latest_revision(folder, version)
        try:
            verify(folder, last)
        except (CorruptSnapshot, UnknownVersion):
            if latest_revision(folder, version) == last:
                raise
        else:
            return last


def _with_digests(folder: Path, version: str) -> Manifest:
    """The manifest of `version`, after checking the digest of every file. Raises what `verify` raises."""
    manifest = read_manifest(folder, version)
    path = path_of(folder, version)
    for name, expected in manifest.files.items():
        with _corrupt(version, f"{name} cannot be read"):
            actual = files.sha256_of(path / name)
        if actual != expected:
            raise CorruptSnapshot(f"snapshot {version}: {name} has SHA-256 {actual[:12]}…, expected {expected[:12]}…")
    return manifest


def load(folder: Path, version: str, verified: Manifest | None = None) -> Snapshot:
    """Load `version`, and verify it while it is read.

    Raises what `verify` raises; CorruptSnapshot also for an unknown algorithm.

    Args:
        verified: its manifest, if this process has verified its digests before. Default: verify them now.
    """
    manifest = verified or _with_digests(folder, version)
    with _corrupt(version):
        path, params = path_of(folder, version), params_for(manifest.algorithm, manifest.parameters)
        arrays = snapshot_files.read_arrays(path / ARRAYS_FILE, values_of(params, manifest), format_=manifest.format)
        model = Model(params, manifest.mean, manifest.scale, arrays, manifest.calibration.restored())
        user_ids, item_ids, content = read_ids_and_content(path, manifest, params)
        return Snapshot(manifest, model, user_ids, item_ids, content)


@contextlib.contextmanager
def _corrupt(version: str, what: str = "") -> Iterator[None]:
    """Turn what reading a bad file raises into CorruptSnapshot."""
    try:
        yield
    except (EngineError, OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise CorruptSnapshot(f"snapshot {version}: {what + ': ' if what else ''}{error}") from error


def versions(folder: Path, name: str | None = None) -> list[str]:
    """All versions below `folder`, of `name` if it is not None, newest first."""
    dated = []
    for version in filter(lambda entry: is_version(entry, name), _entries(folder)):
        written_ns = 0  # orders versions of the same second; 0: removed meanwhile
        with contextlib.suppress(FileNotFoundError):
            written_ns = (folder / version).stat().st_mtime_ns
        dated.append((time_text_of(version), written_ns, version))
    return [version for _, _, version in sorted(dated, reverse=True)]


def path_of(folder: Path, version: str) -> Path:
    """The folder of `version`.

    Raises:
        UnknownVersion: it does not exist, or `version` does not have the form of a version.
    """
    path = folder / version
    if not is_version(version) or not path.is_dir():
        raise UnknownVersion(f"there is no snapshot {version!r}")
    return path


def prune(folder: Path, name: str, live: str) -> list[str]:
    """Remove all versions of `name` but the live one and the two newest others; return the removed ones."""
    gone = [version for version in versions(folder, name) if version != live][N_KEPT - 1 :]
    for version in gone:
        remove(folder, version)
    return gone


def remove(folder: Path, version: str) -> None:
    """Remove one version. Renames it first, so that no reader sees half of it."""
    path = path_of(folder, version)
    doomed = path.with_name(f".{version}.gone")
    files.rename(path, doomed)
    shutil.rmtree(doomed)


def clean(folder: Path) -> None:
    """Remove leftovers of killed writers and removers. No process may write meanwhile (`service.storage.exclusion`).

    Raises:
        OSError: something cannot be removed.
    """
    for entry in _entries(folder):
        if entry.startswith(".") and entry.endswith((".tmp", ".gone")):
            shutil.rmtree(folder / entry)


def holds_user(folder: Path, version: str, user_id: str) -> bool:
    """Whether the id table of `version` names `user_id`.

    Raises:
        CorruptSnapshot: the table cannot be read.
    """
    with _corrupt(version, f"{USERS_FILE} cannot be read"):
        return user_id in snapshot_files.read_ids(path_of(folder, version) / USERS_FILE)


def rewrite_without(folder: Path, version: str, user_id: str) -> Manifest:
    """Write a copy of `version` without the row of `user_id`, under the same version and the next revision."""
    snapshot = load(folder, version)
    keep = np.array([user != user_id for user in snapshot.user_ids], dtype=np.bool_)
    rows = np.where(keep, np.cumsum(keep) - 1, -1)
    n_items = snapshot.model.n_items
    model = snapshot.model.mapped(rows, np.arange(n_items, dtype=np.int64), int(keep.sum()), n_items)
    return write(
        folder,
        model,
        [user for user in snapshot.user_ids if user != user_id],
        snapshot.item_ids,
        metrics=snapshot.manifest.metrics,
        watermark=snapshot.manifest.watermark,
        n_ratings=snapshot.manifest.n_ratings,
        given=snapshot.manifest.given,
        version=f"{shown(version)}.{revision_of(latest_revision(folder, version)) + 1}",
        content=snapshot.content,
    )


def _entries(folder: Path) -> Iterable[str]:
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []


def values_of(params: Params, manifest: Manifest) -> ArrayValues:
    """The values that the arrays of a snapshot may have."""
    n_forgotten, has_counts = revision_of(manifest.version), manifest.format > 1
    return ArrayValues(params, manifest.n_users, manifest.n_items, n_forgotten=n_forgotten, has_counts=has_counts)


def read_ids_and_content(
    path: Path, manifest: Manifest, params: Params
) -> tuple[Sequence[str], Sequence[str], ContentMaps]:
    """Ids of users and items, and the content maps."""
    users = snapshot_files.read_ids(path / USERS_FILE, manifest.n_users)
    items = snapshot_files.read_ids(path / ITEMS_FILE, manifest.n_items)
    has_content = CONTENT_FILE in manifest.files
    return users, items, ContentMaps.read(path / CONTENT_FILE, params.width) if has_content else NO_CONTENT
