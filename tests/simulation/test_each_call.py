"""Each write, fsync and rename of each durable change fails once, at every place: the old state stays or the new one is
there, the error is a documented one, and the same change succeeds when it is tried again.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from service.base.errors import ServiceError
from service.base.signing import KEY_BYTES
from service.extras.stores.follower import Follower
from service.extras.stores.names import OWNER_FILE
from service.extras.stores.object_store import ObjectStore
from service.extras.stores.publisher import Publisher
from service.extras.stores.store_head import Head, object_of
from service.extras.webhooks import webhook_file
from service.storage import data_format, key_file, session_folder, signing_key
from service.storage.audit_log import AuditEntry, AuditLog
from service.storage.backups.backup import back_up, restore
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.log import segment
from service.storage.log.rating_log import MERGE_AT, RatingLog
from service.storage.log.segment import table_of
from service.storage.snapshots import live_versions, snapshot
from service.storage.snapshots.forgetting import forget_in_snapshots
from tests.faults import results
from tests.service.logs import contents
from tests.simulation import columns
from tests.simulation.processes import a_model

GROWTH = 2  # of the places in the short run
SHORT = "short"  # a write of half of the bytes, before the disk is full
FAULTS: list[tuple[str, int | str]] = [
    ("fsync", errno.ENOSPC),
    ("fsync", errno.EIO),
    ("rename", errno.EIO),
    ("write", errno.EIO),
    ("write", SHORT),
]
OLD, NEW = "als-20260131T120000-1a2b", "als-20260201T120000-3c4d"
USERS, LATER = ["u0", "u1"], StreamId(500, 0)
State = dict[str, Any]


class Calls:
    """Counts calls of each kind below a folder, and lets one of them fail.

    Attributes:
        place: number of the one that fails; 0: none does.
        has_failed: whether one did.
        unsynced: folders in which a power cut could take back a rename.
    """

    def __init__(self, root: Path, kind: str, place: int, error: int | str) -> None:
        self._root, self._kind, self.place, self._error = root, kind, place, error
        self._made = Counter[str]()
        self.has_failed = False
        self.unsynced: set[Path] = set()

    @contextlib.contextmanager
    def failing(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        opened, fsync, rename, pwrite, write = io.open, os.fsync, Path.rename, os.pwrite, os.write

        def open_(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            file = opened(path, mode, *arguments, **options)
            is_ours = isinstance(path, str | os.PathLike) and Path(path).is_relative_to(self._root)
            return File(file, self) if is_ours and "b" in mode and set(mode) & set("wax+") else file

        def failing_fsync(descriptor: int) -> None:
            self.reach("fsync")
            fsync(descriptor)
            self.unsynced.discard(Path(f"/proc/self/fd/{descriptor}").resolve())

        def failing_rename(source: Path, target: Path) -> Path:
            self.reach("rename")
            self.unsynced.add(target.parent.resolve())
            return rename(source, target)

        def failing_pwrite(descriptor: int, content: bytes, offset: int) -> int:
            self.reach("write")
            return pwrite(descriptor, content, offset)

        def short_write(descriptor: int, content: bytes) -> int:
            is_ours = Path(f"/proc/self/fd/{descriptor}").resolve().is_relative_to(self._root)
            if is_ours:
                self.reach("write", lambda: write(descriptor, content[: len(content) // 2]))
            return write(descriptor, content)

        with patch.context() as patched:
            patched.setattr(os, "write", short_write)
            patched.setattr(io, "open", open_)
            patched.setattr(builtins, "open", open_)
            patched.setattr(os, "fsync", failing_fsync)
            patched.setattr(os, "pwrite", failing_pwrite)
            patched.setattr(Path, "rename", failing_rename)
            yield

    def reach(self, kind: str, before: Callable[[], object] = lambda: None) -> None:
        """A call of this kind; `before`: what a short write does."""
        self._made[kind] += 1
        if kind == self._kind and self._made[kind] == self.place:
            self.has_failed = True
            if self._error == SHORT:
                before()
            number = errno.ENOSPC if isinstance(self._error, str) else self._error
            raise OSError(number, os.strerror(number))


class File:
    """A file whose writes may fail."""

    def __init__(self, file: Any, calls: Calls) -> None:
        self._file, self._calls = file, calls

    def write(self, content: Any) -> int:
        self._calls.reach("write", lambda: self._file.write(bytes(content)[: len(content) // 2]))
        written: int = self._file.write(content)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._file)


class Change(NamedTuple):
    """A durable change of a data folder.

    Attributes:
        make: makes it; it may be repeated.
        seen: what there is to see of it, in any state of the folder; raises if something is damaged.
        errors: of what kind its errors are.
        is_kept: whether all renames are on the disk when a repetition returns. Others find the change made, and go on.
    """

    make: Callable[[Path], object]
    seen: Callable[[Path], State]
    errors: tuple[type[Exception], ...] = (OSError, ServiceError)
    is_kept: bool = False


def entry(n: int) -> Entry:
    return Entry(StreamId(n, 0), "rating", [RatingEvent(f"u{n % 5}", f"i{n}", 1.0, 1.0)])


def a_folder(data: Path) -> None:
    """A log of many segments, a live model of two users, a key, a session, and a store with log and model."""
    log = RatingLog(data / "ratings")
    for n in range(1, MERGE_AT + 2):
        log.files.write(StreamId(n, 0), StreamId(n, 0), [table_of([entry(n)])])
    write_snapshot(data, OLD)
    live_versions.set_version(data, "als", OLD)
    key_file.make(data, "first", "read", None)
    session_folder.begin(data, b"old", "key", b"mark")
    segments = {name: sums[0] for name, sums in log.files.listed().items()}
    shutil.copytree(data / "snapshots", data / "store" / "snapshots")
    (data / "store" / "ratings").mkdir()
    for name, total in segments.items():
        shutil.copyfile(data / "ratings" / name, data / "store" / object_of(total))
    head = Head("owner", segments, {"als": OLD}, [], [OLD])
    (data / "store" / "head.json").write_bytes(head.encoded())


def write_snapshot(data: Path, version: str) -> None:
    if version not in snapshot.versions(data / "snapshots"):
        given: Any = {"metrics": {}, "watermark": "0-0", "version": version}
        snapshot.write(data / "snapshots", a_model(2, 1), USERS, ["i"], **given)


def archive(data: Path) -> None:
    log = RatingLog(data / "ratings")
    log.clean()
    if log.last_id() < LATER:
        late = Entry(LATER, "rating", [RatingEvent("u0", "late", 1.0, 1.0)])
        log.files.write(LATER, LATER, [table_of([late])])


def rows_of(data: Path) -> set[tuple[str, str]]:
    """The pairs that were rated, of users who were not forgotten; the log must be whole, if it was just cleaned."""
    log = RatingLog(data / "ratings")
    log.clean()
    log.files.check()
    return {(one.user, one.item) for entry in contents(log) for one in entry.ratings if one.user}


def merge(data: Path) -> None:
    RatingLog(data / "ratings").compact()


def forget(data: Path) -> None:
    log = RatingLog(data / "ratings")
    log.files.remove_temporaries()
    forget_in_snapshots(data, "u1")
    log.rewrite_without("u1", LATER)
    log.files.settle()  # as the archiver does before it trims the stream


def rows_and_models(data: Path) -> State:
    """What a forgetting may touch; models must be whole, and a live one there."""
    folder = data / "snapshots"
    for version in snapshot.versions(folder):
        snapshot.verify(folder, version)
    live = live_versions.read(data)
    holds = any(snapshot.holds_user(folder, version, "u1") for version in snapshot.versions(folder))
    return {"others": {row for row in rows_of(data) if row[0] != "u1"}, "live": set(live), "holds": {holds}}


def swap(data: Path) -> None:
    write_snapshot(data, NEW)
    live_versions.activate(data, "als", NEW)
    live_versions.prune(data, "als")


def live_of(data: Path) -> State:
    live = live_versions.read(data)
    for version in (*live.values(), *snapshot.versions(data / "snapshots")):
        snapshot.load(data / "snapshots", version)
    return {"live": live}


def back_up_it(data: Path) -> None:
    if not (data.parent / "backup").exists():
        back_up(data, data.parent / "backup")


def backup_of(data: Path) -> State:
    """A backup that is there is a whole one."""
    there = (data.parent / "backup").exists()
    if there:
        restore(data.parent / "backup", data.parent / "again")
        assert rows_of(data.parent / "again") == rows_of(data)
        shutil.rmtree(data.parent / "again")
    return {"there": there}


def restore_it(data: Path) -> None:
    back_up_it(data)
    if not (data.parent / "restored").exists():
        restore(data.parent / "backup", data.parent / "restored")


def restored_of(data: Path) -> State:
    there = (data.parent / "restored").exists()
    if there:
        assert rows_of(data.parent / "restored") == rows_of(data)
        assert live_of(data.parent / "restored") == live_of(data)
    return {"there": there}


def make_key(data: Path) -> None:
    if "second" not in keys_of(data)["names"]:
        key_file.make(data, "second", "read", None)


def keys_of(data: Path) -> State:
    return {"names": [key.name for key in key_file.read(data) or ()]}


def revoke_key(data: Path) -> None:
    for key in key_file.read(data) or ():
        key_file.revoke(data, key.id, others_are_admins=True)


def add_webhook(data: Path) -> None:
    if not webhook_file.read(data):
        webhook_file.add(data, "https://example.com/jobs", ["train.failed"])


def sessions_of(data: Path) -> State:
    return {"there": [secret for secret in (b"old", b"new") if session_folder.find(data, secret) is not None]}


def audit(data: Path) -> None:
    if "revoke_key" not in audited(data)["actions"]:
        AuditLog(data, 1 << 20).append(AuditEntry("", "revoke_key", "done", "api"))


def audited(data: Path) -> State:
    """The actions; a line that was written in part is none, and must not take the next one along."""
    actions = {entry.action for entry in AuditLog(data, 1 << 20).page(9).entries}
    return {"actions": actions - {"unreadable line"}}


def agree_on_key(data: Path) -> None:
    redis: Any = SimpleNamespace(signing_key=lambda proposed: bytes(KEY_BYTES))
    signing_key.agree(data, redis)


def copy_store(data: Path) -> None:
    pytest.importorskip("obstore", reason="needs the extra registry: pip install obstore")
    store, replica = ObjectStore(f"file://{data / 'store'}"), data.parent / "replica"
    Follower(store, replica, RatingLog(replica / "ratings"), lambda: LATER, lambda reason: None).step()


def prepare_publisher(data: Path) -> None:
    pytest.importorskip("obstore", reason="needs the extra registry: pip install obstore")
    (store := data.parent / "another store").mkdir(exist_ok=True)
    stream: Any = SimpleNamespace(publisher=lambda proposed, replace=False: proposed)
    Publisher(ObjectStore(f"file://{store}"), data, stream, RatingLog(data / "ratings")).prepare()


def copied_of(data: Path) -> State:
    """A replica has a whole log at any moment, and all that the store has when it has its head."""
    replica = data.parent / "replica"
    there = (replica / "head.json").exists()
    if there:
        assert rows_of(replica) == rows_of(data)
        assert live_of(replica) == live_of(data)
    elif replica.exists():
        assert rows_of(replica) <= rows_of(data)
    return {"there": there}


def end_model(data: Path) -> None:
    if live_versions.read(data):
        live_versions.end(data, "als")


CHANGES = {
    "archive": Change(archive, lambda data: {"rows": rows_of(data)}),
    "merge": Change(merge, lambda data: {"rows": rows_of(data)}),
    "forget": Change(forget, rows_and_models, is_kept=True),
    "swap": Change(swap, live_of),
    "live.json": Change(end_model, live_of),
    "backup": Change(back_up_it, backup_of),
    "restore": Change(restore_it, restored_of),
    "keys": Change(make_key, keys_of),
    "a revoked key": Change(revoke_key, keys_of),
    "webhooks": Change(add_webhook, lambda data: {"urls": [each.url for each in webhook_file.read(data)]}),
    "sign-in": Change(lambda data: session_folder.begin(data, b"new", "key", b"mark"), sessions_of),
    "sign-out": Change(lambda data: session_folder.end(data, b"old"), sessions_of),
    "audit": Change(audit, audited),
    "format": Change(data_format.enter, lambda data: {"format": data_format.check(data)}, is_kept=True),
    "signing key": Change(agree_on_key, lambda data: {"key": signing_key.content_of(data)}, is_kept=True),
    "replica": Change(copy_store, copied_of),
    "publisher": Change(prepare_publisher, lambda data: {"has id": (data / OWNER_FILE).exists()}, is_kept=True),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("each") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "pq", columns)
        a_folder(data)
    return data


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_fails_at_any_call_loses_nothing_and_can_be_repeated(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "pq", columns)
    change, row = CHANGES[name], results.row(f"each write, fsync and rename of {name} fails once")
    row.n_acknowledged += MERGE_AT + 1
    shutil.copytree(folder, tmp_path / "whole" / "data")
    before = change.seen(tmp_path / "whole" / "data")
    change.make(tmp_path / "whole" / "data")
    after = change.seen(tmp_path / "whole" / "data")
    for kind, error in FAULTS:
        place, has_failed = 0, True
        while has_failed:
            place = place + 1 if results.IS_LONG else max(place + 1, int(GROWTH * place))
            data = tmp_path / f"{kind} {error} {place}" / "data"
            shutil.copytree(folder, data)
            calls = Calls(data.parent, kind, place, error)
            with calls.failing(monkeypatch), contextlib.suppress(*change.errors):
                change.make(data)
            has_failed = calls.has_failed
            row.n_trials += has_failed
            at = f"{kind} {place} of {name} fails with {error}"
            assert change.seen(data) in (before, after), at
            calls.place = 0
            with calls.failing(monkeypatch):
                change.make(data)
            assert change.seen(data) == after, at
            assert not (change.is_kept and calls.unsynced), at
            left = [path for path in data.parent.rglob("*") if path.suffix == ".tmp" or path.name.startswith(".tmp-")]
            assert left == [], at
            shutil.rmtree(data.parent)
        assert place > 1 or kind != "fsync", f"{name} syncs nothing"
