"""`back_up` and `restore`: the durable state of a data folder at one position, in a folder or a tar file.

A backup has the rating log, the live snapshots, `live.json`, the files of `sealed_file.NAMES` and the signing key. The
log has all that was acknowledged up to its last position: ratings, events, items, what is hidden. So nothing of Redis
is needed (`complete_log`).
"""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import IO

from service.base.errors import NotReady, ServiceError
from service.settings.settings import Settings
from service.storage import data_format, files, sealed_file, signing_key
from service.storage.archive_lock import ArchiveLock
from service.storage.archiver import Archiver
from service.storage.backups import backup_files
from service.storage.backups.backup_files import BackupTarget, FolderTarget, OnBytes, Opener
from service.storage.backups.backup_manifest import FORMAT, MANIFEST_FILE, BackupManifest, InvalidBackup, decoded
from service.storage.errors import CorruptLog, CorruptSnapshot, UnknownVersion
from service.storage.events import ZERO
from service.storage.files import DataLock
from service.storage.log import log_manifest
from service.storage.log.log_manifest import Sum
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import live_versions, snapshot
from service.storage.snapshots.live_versions import Live
from service.storage.streams.catching_up import archive_up_to
from service.storage.streams.redis_server import RedisServer, url_of
from service.storage.streams.stream import Stream

ATTEMPTS = 10  # to open all segments of one state of the log, while others merge and forget
OnTotal = Callable[[int], None]
Opened = dict[str, IO[bytes]]


class InvalidFolder(ServiceError):
    """A data folder cannot be used for a backup or a restore; the message says why."""

    status, slug, title = 422, "invalid-folder", "Invalid data folder"


def complete_log(settings: Settings) -> None:
    """Bring everything that is acknowledged by now into the rating log.

    A running service is asked to do it. Of a stopped one with an embedded Redis the server is started for that time.

    Args:
        settings: of a data set: its folder, its keys, and the Redis of the service.

    Raises:
        InvalidFolder: not a data folder.
        StreamUnavailable, LogUnavailable, ServerFailed: Redis cannot be used, or nobody archives.
        NewerData: a newer version wrote the folder.
    """
    data, root, owned = settings.data, settings.root, None
    if not (data / "ratings").is_dir():
        raise InvalidFolder(f"Invalid --data: expected the data folder of a service, got {data} without ratings in it")
    data_format.check(data)
    with contextlib.ExitStack() as stack:
        if settings.redis is None:
            with contextlib.suppress(ServiceError):  # while a service runs, it has the lock
                owned = DataLock(root)
        if owned is not None:
            stack.callback(owned.release)
            if not (root / "redis").is_dir():  # it never had one, or was restored
                return
            server = RedisServer(root, outlives=False)
            stack.callback(server.stop)
            server.start()
        log = RatingLog(data / "ratings")
        stream = Stream(url_of(settings), log.last_id, keys=settings.keyspace)
        stack.callback(stream.close)
        if (lock := ArchiveLock.try_take(log.folder)) is None:
            archive_up_to(stream, log, stream.last_id())
        else:
            with lock:
                Archiver(stream, log).flush()


def back_up(
    data: Path, out: Path, on_total: OnTotal = lambda n: None, on_bytes: OnBytes = lambda n: None
) -> BackupManifest:
    """Write a backup of `data` to `out`, and return its manifest. A service may run meanwhile.

    All files are opened first: what is merged, rewritten or removed later is copied as it was. Each copy is compared
    with the checksum that the service has for it.

    Args:
        data: the data folder.
        out: a name that is free; a tar file if it ends with .tar, else a folder.
        on_total: called with the bytes of all files.
        on_bytes: called with the bytes of each piece that is copied.

    Raises:
        CorruptLog, CorruptSnapshot, CorruptLiveFile, CorruptFile: a file is torn or altered; nothing is written.
        OSError: the disk is full, or `out` exists; nothing is left behind.
    """
    with contextlib.ExitStack() as stack:
        live, opened, sums = _open_snapshots(data, stack)  # first, so that the log has all that they were trained on
        position = _open_log(data, stack, opened, sums)
        sizes = {name: os.fstat(file.fileno()).st_size for name, file in opened.items()}
        on_total(sum(sizes.values()))
        target = stack.enter_context(backup_files.target(out))
        copied = {name: target.add(name, file, sizes[name], on_bytes) for name, file in opened.items()}
        for name, expected in sums.items():
            if copied[name] not in expected:
                kind = CorruptLog if name.startswith("ratings/") else CorruptSnapshot
                raise kind(f"Invalid {data / name}: expected {expected[0]}, got {copied[name]}: it is torn or altered")
        segments = {name.removeprefix("ratings/"): [s] for name, s in copied.items() if name.startswith("ratings/")}
        contents = {"ratings/manifest.json": log_manifest.encoded(segments)}
        if live.is_written:
            contents[live_versions.LIVE_FILE] = live_versions.encoded(live)
        contents |= sealed_file.all_of(data)
        with contextlib.suppress(NotReady):  # the service never ran since there are keys
            contents[signing_key.KEY_FILE] = signing_key.read(data)
        for name, content in contents.items():
            copied[name] = target.add(name, io.BytesIO(content), len(content), lambda n: None)
        manifest = BackupManifest(
            format=FORMAT,
            nearfield=metadata.version("nearfield"),
            position=position,
            created_ms=int(time.time() * 1000),
            live=live.versions,
            files=copied,
            data_format=data_format.FORMAT,
        )
        content = manifest.encoded()
        target.add(MANIFEST_FILE, io.BytesIO(content), len(content), lambda n: None)
    return manifest


def _open_snapshots(data: Path, stack: contextlib.ExitStack) -> tuple[Live, Opened, dict[str, list[Sum]]]:
    """The live models, their open files, and the sums of these; another may go live while they are opened."""
    folder = data / "snapshots"
    while True:
        live, opened, sums = live_versions.read_all(data), Opened(), dict[str, list[Sum]]()
        try:
            for version in live.versions.values():
                digests = snapshot.read_manifest(folder, version).files
                for name in (*digests, snapshot.MANIFEST_FILE, snapshot.DIGEST_FILE):
                    path = snapshot.path_of(folder, version) / name
                    file = opened[f"snapshots/{version}/{name}"] = stack.enter_context(files.open_regular(path))
                    if name in digests:
                        sums[f"snapshots/{version}/{name}"] = [Sum(os.fstat(file.fileno()).st_size, digests[name])]
        except (UnknownVersion, FileNotFoundError, CorruptSnapshot):
            if live_versions.read_all(data) == live:
                raise
        else:
            return live, opened, sums


def _open_log(data: Path, stack: contextlib.ExitStack, opened: Opened, sums: dict[str, list[Sum]]) -> str:
    """Open all segments of one state of the log; return its last position."""
    log = RatingLog(data / "ratings")
    for _ in range(ATTEMPTS):
        listed, segments = log.files.listed(), log.files.segments()
        try:
            log_files = {s.path.name: stack.enter_context(files.open_regular(s.path)) for s in segments}
        except FileNotFoundError:  # merged into another one meanwhile
            continue
        if log.files.listed() == listed and log_files.keys() >= listed.keys():
            opened |= {f"ratings/{name}": file for name, file in log_files.items()}
            sums |= {f"ratings/{name}": segment_sums for name, segment_sums in listed.items()}
            return str(max((segment.last for segment in segments), default=ZERO))
    log.files.check()  # names the segment that is missing
    raise CorruptLog(f"Invalid rating log {log.folder}: it changes too fast to be copied; try again")


def restore(
    backup: Path, data: Path, on_total: OnTotal = lambda n: None, on_bytes: OnBytes = lambda n: None
) -> BackupManifest:
    """Make the data folder `data` from a backup, after checking every file of it; return its manifest.

    Args:
        backup: a folder or a tar file of `back_up`.
        data: must not exist, or be empty. It appears under its name when it is complete.
        on_total, on_bytes: called with the bytes to read in all, twice those of the files, and with each piece.

    Raises:
        InvalidBackup: a file is missing, torn or altered; nothing is written.
        DataInUse: a service uses `data`. InvalidFolder: it is not empty.
        OSError: the disk is full; nothing is left behind.
    """
    check_free(data)
    with backup_files.source(backup) as opener:
        with opener(MANIFEST_FILE, None) as file:
            manifest = decoded(file.read())
        on_total(2 * manifest.n_bytes)
        nowhere = _Nowhere()
        for name in manifest.files:
            copy_to(opener, name, manifest, nowhere, on_bytes)
        with backup_files.new_folder(data) as temporary:
            target = FolderTarget(temporary)
            for name in manifest.files:
                copy_to(opener, name, manifest, target, on_bytes)
            check_free(data)
    return manifest


def copy_to(opener: Opener, name: str, manifest: BackupManifest, target: BackupTarget, on_bytes: OnBytes) -> None:
    """Copy a file of a backup; raises `InvalidBackup` if it is not as the manifest says."""
    expected = manifest.files[name]
    try:
        with opener(name, expected.n_bytes) as file:
            actual = target.add(name, file, expected.n_bytes, on_bytes)
    except EOFError as error:
        raise InvalidBackup(f"Invalid backup: {name} is torn: {error}") from None
    if actual != expected:
        raise InvalidBackup(f"Invalid backup: expected {name} with {expected}, got {actual}: it is torn or altered")


class _Nowhere:
    """A target that only sums up."""

    def add(self, name: str, file: IO[bytes], n_bytes: int, on_bytes: OnBytes) -> Sum:
        """The sum of the file."""
        del name, n_bytes
        reader = backup_files.Summed(file, on_bytes)
        while reader.read(backup_files.CHUNK):
            pass
        return reader.sum


def check_free(data: Path) -> None:
    """Check that nothing is in `data`."""
    if not data.exists():
        return
    if not data.is_dir():
        raise InvalidFolder(f"Invalid --data: expected a folder that is empty or does not exist, got the file {data}")
    if (data / files.DATA_LOCK).exists():
        DataLock(data).release()  # names the process that has it
    if names := sorted(entry.name for entry in data.iterdir()):
        raise InvalidFolder(
            f"Invalid --data: expected a folder that is empty or does not exist, got {data} with {len(names)} entries"
            f" ({', '.join(names[:5])}{', …' if len(names) > 5 else ''}): choose another, or move it away"
        )
    if data.is_mount():
        raise InvalidFolder(f"Invalid --data: {data} is a mount point, which no folder can replace: name one in it")
