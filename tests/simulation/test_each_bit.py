"""Each bit of each kind of file flips once: who reads the file refuses it by its name, or reads what was written."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.base.errors import ServiceError
from service.extras.stores.store_head import CorruptStore, Head
from service.extras.webhooks import webhook_file
from service.storage import key_file
from service.storage.backups.backup import back_up, restore
from service.storage.backups.backup_manifest import InvalidBackup
from service.storage.errors import CorruptLiveFile, CorruptLog, CorruptSnapshot
from service.storage.log.rating_log import RatingLog
from service.storage.sealed_file import CorruptFile
from service.storage.snapshots import live_versions, snapshot
from tests.faults import results
from tests.service.logs import contents
from tests.simulation.test_each_call import OLD, a_folder

SAMPLE = 40  # bits of each file in the short run


def log_of(data: Path) -> Any:
    log = RatingLog(data / "ratings")
    log.clean()
    log.files.check()
    return contents(log)


def snapshot_of(data: Path) -> Any:
    loaded = snapshot.load(data / "snapshots", OLD)
    arrays = {name: array.tobytes() for name, array in loaded.model.arrays.items()}
    return loaded.manifest, arrays, list(loaded.user_ids), list(loaded.item_ids)


def head_of(data: Path) -> Any:
    return Head.of((data / "store" / "head.json").read_bytes(), str(data))


def backup_of(data: Path) -> Any:
    restored = data / "restored"
    restore(data / "backup.tar", restored)
    try:
        return log_of(restored), snapshot_of(restored), live_versions.read_all(restored), key_file.read(restored)
    finally:
        shutil.rmtree(restored)


# By file: who reads it, and with which error it is refused.
KINDS: dict[str, tuple[Callable[[Path], Any], type[ServiceError]]] = {
    "ratings/*.parquet": (log_of, CorruptLog),
    "ratings/manifest.json": (log_of, CorruptLog),
    f"snapshots/{OLD}/arrays.safetensors": (snapshot_of, CorruptSnapshot),
    f"snapshots/{OLD}/users.parquet": (snapshot_of, CorruptSnapshot),
    f"snapshots/{OLD}/items.parquet": (snapshot_of, CorruptSnapshot),
    f"snapshots/{OLD}/manifest.json": (snapshot_of, CorruptSnapshot),
    f"snapshots/{OLD}/manifest.sha256": (snapshot_of, CorruptSnapshot),
    "live.json": (live_versions.read_all, CorruptLiveFile),
    "keys.json": (key_file.read, CorruptFile),
    "webhooks.json": (webhook_file.read, CorruptFile),
    "store/head.json": (head_of, CorruptStore),
    "backup.tar": (backup_of, InvalidBackup),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of each kind."""
    data = tmp_path_factory.mktemp("bits") / "data"
    a_folder(data)
    log = RatingLog(data / "ratings")
    log.compact()
    webhook_file.add(data, "https://example.com/jobs", ["train.failed"])
    back_up(data, data / "backup.tar")
    return data


@pytest.mark.parametrize("kind", KINDS)
def test_each_flipped_bit_is_refused_or_changes_nothing(kind: str, data: Path) -> None:
    read, error = KINDS[kind]
    path = next(iter(sorted(data.glob(kind))))
    whole = path.read_bytes()
    expected = read(data)
    n_bits = 8 * len(whole)
    bits = range(n_bits) if results.IS_LONG else random.Random(kind).sample(range(n_bits), min(SAMPLE, n_bits))
    row = results.row(f"one bit of {path.suffix[1:] if '*' in kind else path.name} flips")
    for bit in bits:
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        row.n_trials += 1
        try:
            found = read(data)
        except error as refusal:
            assert path.name.split(".")[0] in str(refusal) or kind.startswith(("snapshots", "backup")), str(refusal)
            assert not kind.startswith("snapshots") or OLD in str(refusal), str(refusal)
        else:
            assert found == expected, f"bit {bit} of {path}"
        finally:
            path.write_bytes(whole)
