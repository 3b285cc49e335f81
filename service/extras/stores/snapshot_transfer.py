"""Copies snapshots to and from stores (`object_store`): `<version>/` has the files of the folder.

The manifest is written last and read first, so that what was cut off is never taken for a snapshot. It has the SHA-256
of every file, so its signature, which lies beside it, covers the model: HMAC-SHA256 (RFC 2104) under the setting
`model_key`. It is checked before anything of the model is used, so that a service takes no model of somebody else.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import msgspec

from service.base.errors import Conflict
from service.extras.stores.object_store import OnBytes, Store
from service.storage import files
from service.storage.backups.backup_files import new_folder
from service.storage.errors import CorruptSnapshot, UnknownVersion
from service.storage.snapshots import manifest as manifests
from service.storage.snapshots import manifest_check, snapshot
from service.storage.snapshots.snapshot import DIGEST_FILE, MANIFEST_FILE
from service.storage.snapshots.version_names import is_version, revision_of

SIGNATURE_FILE = "manifest.hmac"
MAX_SIGNATURE_BYTES = 256
_PURPOSE = b"nearfield manifest 1\n"


def push(folder: Path, version: str, store: Store, on_total: OnBytes, on_bytes: OnBytes) -> bool:
    """Send a snapshot; return whether it was missing there.

    Args:
        folder: the folder of `version`'s folder.
        version: the version.
        store: where its folder is made.
        on_total, on_bytes: called with the bytes of all files, and of each part that was sent.

    Raises:
        CorruptSnapshot: a file is torn or altered; what is sent has no manifest.
        Conflict: the store has another snapshot of this version.
        StoreRefused, StoreUnavailable, InvalidRequest: see `ObjectStore`.
    """
    manifest = snapshot.verify(folder, version)
    path = folder / version
    content = files.read_regular(path / MANIFEST_FILE)
    there = store.read(f"{version}/{MANIFEST_FILE}", manifest_check.MAX_BYTES)
    if there is not None:
        check_same(there, content, f"{store.url}/{version}")
        sign(store, version, content)
        return False
    on_total(sum((path / name).stat().st_size for name in manifest.files))
    for name, expected in manifest.files.items():
        check_sum(f"snapshot {version}", name, store.send(f"{version}/{name}", path / name, on_bytes), expected)
    store.write(f"{version}/{DIGEST_FILE}", files.read_regular(path / DIGEST_FILE))
    sign(store, version, content)
    store.write(f"{version}/{MANIFEST_FILE}", content)
    return True


def pull(store: Store, version: str, folder: Path, on_bytes: OnBytes) -> str:
    """Fetch a snapshot below `folder`; return its version there. It appears once it is complete and verified.

    A later revision that is there already is left as it is: a user was forgotten in it.

    Args:
        store: holds the folder of `version`.
        version: the version.
        folder: the folder of all snapshots, whose lock the caller holds (`service.storage.exclusion`).
        on_bytes: called with the bytes of each part that has arrived.

    Raises:
        UnknownVersion: the store has no snapshot of this version, or the last one to push it was cut off.
        CorruptSnapshot: a file is missing, torn or altered, or no key of the store has signed; the message says which.
        NewerSnapshot: a newer version wrote it.
        Conflict: `folder` has another snapshot of this version.
        OSError: the disk is full or broken.
        StoreRefused, StoreUnavailable, InvalidRequest: see `ObjectStore`.
    """
    place = f"{store.url}/{version}"
    if not is_version(version):
        raise UnknownVersion(
            f"Invalid source {place}: expected a URL that ends with a version, such as"
            f" {store.url}/als-20260131T120000-1a2b, got {version!r}"
        )
    content = store.read(f"{version}/{MANIFEST_FILE}", manifest_check.MAX_BYTES)
    if content is None:
        raise UnknownVersion(f"there is no snapshot at {place}: expected a {MANIFEST_FILE} in it")
    digest = store.read(f"{version}/{DIGEST_FILE}", manifest_check.MAX_BYTES)
    if digest is None or hashlib.sha256(content).hexdigest().encode() != digest.strip():
        raise CorruptSnapshot(f"{place}: {MANIFEST_FILE} does not match {DIGEST_FILE}")
    if store.keys and not is_signed(store, version, content):
        raise CorruptSnapshot(
            f"{place}: expected a {SIGNATURE_FILE} of its manifest under NEARFIELD_MODEL_KEY, got none or another; push"
            " it again with this key if the model is yours"
        )
    try:
        manifest = manifests.read(content)
        manifest_check.check(manifest)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise CorruptSnapshot(f"{place}: unreadable manifest: {error}") from error
    if manifest.version != version:
        raise CorruptSnapshot(f"{place}: expected a manifest of {version}, got one of {manifest.version[:80]!r}")
    manifests.check_known(manifest)  # that this process can use it
    try:  # the version, or a later revision of it, may be there
        last = snapshot.latest_revision(folder, version)
    except UnknownVersion:
        last = ""
    if last and revision_of(last) >= revision_of(version):
        snapshot.verify(folder, last)
        if last == version:
            check_same(files.read_regular(folder / version / MANIFEST_FILE), content, str(folder / version))
        return last
    with new_folder(folder / version) as temporary:
        for name, expected in manifest.files.items():
            fetch_file(store, f"{version}/{name}", temporary / name, expected, on_bytes)
        (temporary / MANIFEST_FILE).write_bytes(content)
        (temporary / DIGEST_FILE).write_text(hashlib.sha256(content).hexdigest() + "\n", "ascii")
        for name in (MANIFEST_FILE, DIGEST_FILE):
            files.sync(temporary / name)
    return version


def fetch_file(store: Store, source: str, path: Path, expected: str, on_bytes: OnBytes) -> None:
    """Fetch a file of a snapshot, and check its SHA-256; raises `CorruptSnapshot` or an `OSError` with its path."""
    try:
        with path.open("wb") as file:
            actual = store.fetch(source, file, on_bytes)
            file.flush()
            files.fsync(file.fileno())
    except OSError as error:  # says which file: a full disk names none
        raise OSError(error.errno, error.strerror, str(path)) from error
    place = f"{store.url}/{source.rpartition('/')[0]}"
    if actual is None:
        raise CorruptSnapshot(f"{place}: {path.name} is missing")
    check_sum(place, path.name, actual, expected)


def check_same(there: bytes, content: bytes, place: str) -> None:
    """Raise `Conflict` if two manifests of one version differ."""
    if there != content:
        raise Conflict(f"{place} is another snapshot of this version: expected the same content; remove one of them")


def check_sum(place: str, name: str, actual: str, expected: str) -> None:
    """Raise `CorruptSnapshot` if a file has another SHA-256 than its manifest says."""
    if actual != expected:
        raise CorruptSnapshot(f"{place}: {name} has SHA-256 {actual[:12]}…, expected {expected[:12]}…")


def sign(store: Store, version: str, manifest: bytes) -> None:
    """Put the signature of a manifest into the store, if a key is set and there is none of it."""
    if store.keys and not is_signed(store, version, manifest):
        store.write(f"{version}/{SIGNATURE_FILE}", signature_of(store.keys[0], manifest))


def is_signed(store: Store, version: str, manifest: bytes) -> bool:
    """Whether the store has the signature of a manifest by one of its keys."""
    signature = store.read(f"{version}/{SIGNATURE_FILE}", MAX_SIGNATURE_BYTES)
    return signature is not None and any(
        hmac.compare_digest(signature_of(key, manifest), signature.strip()) for key in store.keys
    )


def signature_of(key: str, manifest: bytes) -> bytes:
    """HMAC-SHA256 of a manifest, as `SIGNATURE_FILE` has it."""
    return hmac.new(key.encode(), _PURPOSE + manifest, hashlib.sha256).hexdigest().encode()
