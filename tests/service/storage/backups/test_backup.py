"""Backups: whole or nothing, and every flipped bit is found."""

import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import redis
from msgspec import structs

import gpu
import service
from service.__main__ import run
from service.extras.webhooks import webhook_file
from service.settings.settings import Settings
from service.storage import audit_log, data_format, files, key_file, signing_key
from service.storage.archiver import Archiver
from service.storage.audit_log import AuditLog
from service.storage.backups import backup_files
from service.storage.backups.backup import InvalidFolder, back_up, complete_log, restore
from service.storage.backups.backup_files import source
from service.storage.backups.backup_manifest import MANIFEST_FILE, InvalidBackup, decoded
from service.storage.errors import CorruptLog, CorruptSnapshot, DataInUse, UnknownVersion
from service.storage.events import RatingEvent, StreamId, encode_ratings
from service.storage.files import DataLock
from service.storage.log.rating_log import RatingLog
from service.storage.log.segment import table_of
from service.storage.snapshots import live_versions, snapshot, version_names
from service.storage.snapshots.manifest import Manifest
from service.storage.streams.redis_server import RedisServer
from service.storage.streams.stream import Stream
from tests.service.logs import append
from tests.service.planted import entries
from tests.service.waiting import eventually

USERS, ITEMS = ["u0", "u1"], ["i0", "i1", "i2"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two segments and a live model."""
    data = tmp_path_factory.mktemp("backup") / "data"
    log, made = RatingLog(data / "ratings"), entries()
    for part in (made[:10], made[10:]):
        log.files.write(part[0].id, part[-1].id, [table_of(part)])
    ratings = gpu.Ratings.from_coo(np.array([0, 1]), np.array([0, 2]), np.array([5.0, 1.0], np.float32), (2, 3))
    model = gpu.fit(ratings, gpu.params_for("als", {"n_factors": 4, "n_epochs": 1}))
    version = snapshot.write(data / "snapshots", model, USERS, ITEMS, metrics={}, watermark="1005-0").version
    live_versions.set_version(data, "als", version)
    key_file.make(data, "shop", "read", None)
    webhook_file.add(data, "https://example.com/jobs", ["train.failed"])
    (data / signing_key.KEY_FILE).write_bytes(bytes(range(32)))
    return data


def content_of(folder: Path) -> dict[str, bytes]:
    """All files but locks and the audit log, which each folder has for itself."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith("lock"))
    paths = [path for path in paths if path.parent.name != audit_log.FOLDER]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("name", ["backup", "backup.tar", "a new/folder/backup", "a new/folder/backup.tar"])
def test_a_restored_folder_is_the_one_that_was_backed_up(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(backup_files, "CHUNK", 1000)  # less than some of its files have
    expected, done, began_ms = list[int](), list[int](), int(time.time() * 1000)
    made = back_up(data, tmp_path / name, expected.append, done.append)
    assert began_ms <= made.created_ms <= time.time() * 1000
    assert (made.position, made.live) == (str(entries()[-1].id), live_versions.read(data))
    assert (made.nearfield, made.data_format) == (service.__version__, data_format.FORMAT)
    names = content_of(data).keys()
    assert made.files.keys() == names
    assert (
        [sum(done)]
        == expected
        == [
            sum((data / one).stat().st_size for one in names if one.count("/"))
            - (data / "ratings" / "manifest.json").stat().st_size
        ]
    )
    expected.clear()
    done.clear()
    restored = restore(tmp_path / name, tmp_path / "restored", expected.append, done.append)
    assert restored == made
    assert content_of(tmp_path / "restored") == content_of(data)
    assert [sum(done)] == expected == [2 * sum((data / one).stat().st_size for one in names)]
    RatingLog(tmp_path / "restored" / "ratings").files.check()
    assert (tmp_path / "restored").stat().st_mode & 0o077 == 0
    assert {one.name for one in tmp_path.iterdir()} == {Path(name).parts[0], "restored"}


def test_copies_are_whole_when_they_are_synced_and_closed_to_others(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, fsync = Counter[int](), files.fsync

    def noted(descriptor: int) -> None:
        sizes[os.fstat(descriptor).st_size] += 1
        fsync(descriptor)

    monkeypatch.setattr(files, "fsync", noted)
    back_up(data, tmp_path / "backup")
    assert not Counter(len(content) for content in content_of(tmp_path / "backup").values()) - sizes
    back_up(data, tmp_path / "b.tar")
    with tarfile.open(tmp_path / "b.tar") as tar:
        assert {one.mode for one in tar.getmembers()} == {0o600}


@pytest.mark.parametrize("name", ["backup", "b.tar"])
def test_the_size_of_a_file_is_checked_before_it_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / "five").write_bytes(b"bytes")
    (tmp_path / "backup" / "none").touch()
    with tarfile.open(tmp_path / "b.tar", "w") as tar:
        for path in sorted((tmp_path / "backup").iterdir()):
            tar.add(path, path.name)
    with source(tmp_path / name) as opener:
        for member, content in (("five", b"bytes"), ("none", b"")):
            with opener(member, len(content)) as file:
                assert file.read() == content
            with pytest.raises(InvalidBackup, match=f"{member} with {len(content) + 1} bytes, got {len(content)}"):
                opener(member, len(content) + 1)


def test_a_backup_that_leads_elsewhere_or_is_newer_is_refused(data: Path, tmp_path: Path) -> None:
    made = back_up(data, tmp_path / "backup")
    assert decoded(made.encoded()) == made
    total = next(iter(made.files.values()))
    for name in ("snapshots/../secret", "/etc/passwd", "ratings/x", "notes.txt"):
        with pytest.raises(InvalidBackup, match=f"expected names of files of a data folder, got '{name}'"):
            decoded(structs.replace(made, files={**made.files, name: total}).encoded())
    for newer in ({"format": made.format + 1}, {"data_format": made.data_format + 1}):
        with pytest.raises(InvalidBackup, match=r"(upgrade|install)"):
            decoded(structs.replace(made, **newer).encoded())


def test_a_missing_segment_is_named(data: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(data, tmp_path / "copy"))
    path = next(copy.glob("ratings/*.parquet"))
    path.unlink()
    with pytest.raises(CorruptLog, match=path.name):
        back_up(copy, tmp_path / "backup")


@pytest.mark.parametrize("goes_live", [True, False])
def test_a_model_that_goes_live_meanwhile_is_backed_up(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes_live: bool
) -> None:
    copy, read = Path(shutil.copytree(data, tmp_path / "copy")), snapshot.read_manifest
    (after,), removed, asked = live_versions.read(copy).values(), version_names.new_version("als"), list[str]()
    live_versions.set_version(copy, "als", removed)

    def meanwhile(folder: Path, version: str) -> Manifest:
        asked.append(version)
        if goes_live:
            live_versions.set_version(copy, "als", after)
        return read(folder, version)

    monkeypatch.setattr(snapshot, "read_manifest", meanwhile)
    if goes_live:
        assert back_up(copy, tmp_path / "backup").live == {"als": after}
        assert asked == [removed, after]
    else:
        with pytest.raises(UnknownVersion):
            back_up(copy, tmp_path / "backup")
        assert asked == [removed], "it does not try again in vain"


def test_the_log_of_a_stopped_service_gets_what_redis_alone_has(tmp_path: Path) -> None:
    log, server = RatingLog(tmp_path / "ratings"), RedisServer(tmp_path)
    complete_log(Settings(data=tmp_path))
    assert not server.folder.exists(), "it never had a server"
    server.start()
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        stream_id = append(client, encode_ratings([RatingEvent("u", "i", 1.0, 2.0)]))
    server.stop()
    complete_log(Settings(data=tmp_path))
    assert log.last_id() == stream_id
    assert not server.is_alive
    DataLock(tmp_path).release()


def test_a_folder_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "ratings").mkdir()
    newer = tmp_path / data_format.FORMAT_FILE
    newer.write_text(f'{{"format": {data_format.FORMAT + 1}, "nearfield": "99.0"}}')
    with pytest.raises(data_format.NewerData):
        complete_log(Settings(data=tmp_path))
    assert sorted(tmp_path.iterdir()) == sorted([newer, tmp_path / "ratings"])


def test_who_archives_is_asked_to_complete_the_log(stream: Stream, log: RatingLog, client: redis.Redis) -> None:
    archiver = Archiver(stream, log)
    archiver.start()
    eventually(lambda: archiver.is_archiving)
    stream_id = append(client, encode_ratings([RatingEvent("u", "i", 1.0, 2.0)]))
    complete_log(Settings(data=log.folder.parent, redis=stream.url))
    assert log.last_id() == stream_id
    archiver.stop()


def test_each_flipped_bit_is_found_by_the_name_of_its_file(data: Path, tmp_path: Path) -> None:
    back_up(data, tmp_path / "backup")
    n_flips = 0
    for name, content in content_of(tmp_path / "backup").items():
        path = tmp_path / "backup" / name
        for place in (0, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
            with pytest.raises(InvalidBackup, match=name.replace(".", r"\.")):
                restore(tmp_path / "backup", tmp_path / "restored")
            n_flips += 1
        path.write_bytes(content[:-2])
        with pytest.raises(InvalidBackup, match=name.replace(".", r"\.")):
            restore(tmp_path / "backup", tmp_path / "restored")
        path.unlink()
        with pytest.raises(InvalidBackup, match=name.replace(".", r"\.")):
            restore(tmp_path / "backup", tmp_path / "restored")
        path.write_bytes(content)
    assert n_flips >= 24
    assert [one.name for one in tmp_path.iterdir()] == ["backup"]
    restore(tmp_path / "backup", tmp_path / "restored")


def test_flipped_bits_of_an_archive_are_found(data: Path, tmp_path: Path) -> None:
    back_up(data, tmp_path / "b.tar")
    whole = (tmp_path / "b.tar").read_bytes()
    with tarfile.open(tmp_path / "b.tar") as tar:
        places = {one.name: one.offset_data + one.size // 2 for one in tar.getmembers()}
        heads = [one.offset for one in tar.getmembers()]
    for name, place in places.items():
        (tmp_path / "b.tar").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(InvalidBackup, match=name.replace(".", r"\.")):
            restore(tmp_path / "b.tar", tmp_path / "restored")
    for head in heads:
        (tmp_path / "b.tar").write_bytes(whole[:head] + bytes([whole[head] ^ 1]) + whole[head + 1 :])
        with pytest.raises(InvalidBackup):
            restore(tmp_path / "b.tar", tmp_path / "restored")
    for n_bytes in (0, 100, 600, len(whole) // 2):
        (tmp_path / "b.tar").write_bytes(whole[:n_bytes])
        with pytest.raises(InvalidBackup):
            restore(tmp_path / "b.tar", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_damaged_data_is_not_backed_up(data: Path, tmp_path: Path) -> None:
    for pattern, error in (("ratings/*.parquet", CorruptLog), ("snapshots/*/arrays*", CorruptSnapshot)):
        copy = Path(shutil.copytree(data, tmp_path / "copy"))
        path = next(copy.glob(pattern))
        content = path.read_bytes()
        path.write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
        with pytest.raises(error, match=path.name):
            back_up(copy, tmp_path / "backup")
        shutil.rmtree(copy)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_or_with_content_is_refused(data: Path, tmp_path: Path) -> None:
    back_up(data, tmp_path / "backup")
    used = tmp_path / "used"
    lock = DataLock(used)
    with pytest.raises(DataInUse, match=f"{used} is in use by process {os.getpid()}"):
        restore(tmp_path / "backup", used)
    lock.release()
    with pytest.raises(InvalidFolder, match=r"got .*used with 1 entries \(\.lock\)"):
        restore(tmp_path / "backup", used)
    with pytest.raises(FileExistsError, match="which exists"):
        back_up(data, tmp_path / "backup")
    (tmp_path / "empty").mkdir()
    restore(tmp_path / "backup", tmp_path / "empty")
    assert content_of(tmp_path / "empty") == content_of(data)


def test_what_comes_into_the_folder_during_a_restore_is_named(data: Path, tmp_path: Path) -> None:
    back_up(data, tmp_path / "backup")
    restored = tmp_path / "restored"

    def begin(n_bytes: int) -> None:
        (restored / "ratings").mkdir(parents=True, exist_ok=True)

    with pytest.raises(InvalidFolder, match=r"got .*restored with 1 entries \(ratings\)"):
        restore(tmp_path / "backup", restored, on_bytes=begin)
    assert {one.name for one in tmp_path.iterdir()} == {"backup", "restored"}


@pytest.mark.parametrize("name", ["backup", "backup.tar"])
def test_a_killed_backup_or_restore_leaves_nothing_that_can_be_seen(data: Path, tmp_path: Path, name: str) -> None:
    out, restored = tmp_path / name, tmp_path / "restored"
    commands = [
        (["backup", "--data", str(data), "--out", str(out)], out, ("rename:1", "fsync:1")),
        (["restore", str(out), "--data", str(restored)], restored, ("rename:1", "fsync:3")),
    ]
    for command, result, points in commands:
        for point in points:
            environment = os.environ | {"NEARFIELD_FAULT_AT": point}
            done = subprocess.run([sys.executable, "-m", "service", *command], env=environment, check=False)
            assert done.returncode == -9
            assert not result.exists()
        assert [one for one in tmp_path.iterdir() if one.name.startswith(f".{result.name}.")]
        assert run(command) == 0
        assert not [one for one in tmp_path.iterdir() if one.name.startswith(f".{result.name}.")]
    assert content_of(restored) == content_of(data)
    with source(out) as opener, opener(MANIFEST_FILE, None) as file:
        assert StreamId.parse(decoded(file.read()).position) == entries()[-1].id


def test_what_is_no_backup_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("nothing")
    for path in (tmp_path, tmp_path / "text"):
        with pytest.raises(InvalidBackup):
            restore(path, tmp_path / "restored")
    assert run(["restore", str(tmp_path / "none"), "--data", str(tmp_path / "restored")]) == 2
    assert run(["restore", str(tmp_path / "text"), "--data", str(tmp_path / "restored")]) == 1
    assert run(["backup", "--data", str(tmp_path), "--out", str(tmp_path / "b")]) == 1


def test_commands_on_a_folder_are_noted_in_its_audit_log(data: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(data, tmp_path / "copy", ignore=shutil.ignore_patterns(audit_log.FOLDER))
    backup, restored = tmp_path / "b.tar", tmp_path / "restored"
    model = next((copy / "snapshots").iterdir())
    commands = [
        (["backup", "--data", str(copy), "--out", str(backup)], 0),
        (["backup", "--data", str(copy), "--out", str(backup)], 1),
        (["export", "--data", str(copy), "--out", str(tmp_path / "r.ndjson")], 0),
        (["deploy", str(model), "--data", str(copy)], 0),
        (["restore", str(backup), "--data", str(restored)], 0),
        (["restore", str(backup), "--data", str(restored)], 1),
    ]
    assert [bool(run(command)) for command, _ in commands] == [bool(status) for _, status in commands]

    def noted(folder: Path) -> list[tuple[str, str, str | None]]:
        found = AuditLog(folder, 1 << 20).page(9).entries
        assert {(one.via, one.key, one.address, one.account is None) for one in found} == {("cli", None, None, False)}
        return [(one.action, one.outcome, one.object) for one in reversed(found)]

    assert noted(copy) == [
        ("backup", "done", f"to {backup}"),
        ("backup", "failed", f"to {backup}"),
        ("export", "done", f"ratings to {tmp_path / 'r.ndjson'}"),
        ("deploy", "done", f"model {model}"),
    ]
    assert noted(restored) == [("restore", "done", f"from {backup}"), ("restore", "failed", f"from {backup}")]
    assert run(["backup", "--data", str(tmp_path / "typo"), "--out", str(tmp_path / "none")]) == 1
    assert not (tmp_path / "typo").exists(), "a folder that is none of a service gets no audit log"


def altered(kind: str, member: tarfile.TarInfo, content: bytes, folder: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    """What stands in an archive in the place of a member."""
    name = member.name
    match kind:
        case "a link to itself":
            member.type, member.linkname, member.size, content = tarfile.SYMTYPE, name, 0, b""
        case "a link to a file outside":
            (folder / "outside").write_bytes(content)
            member.type, member.linkname, member.size, content = tarfile.SYMTYPE, str(folder / "outside"), 0, b""
        case "a hard link":
            other = tarfile.TarInfo("/" + name)
            other.size = len(content)
            member.type, member.linkname, member.size = tarfile.LNKTYPE, other.name, 0
            return [(other, content), (member, b"")]
        case "a hard link to itself":
            member.type, member.linkname, member.size, content = tarfile.LNKTYPE, name, 0, b""
        case "a folder" | "a device" | "a pipe":
            kinds = {"a folder": tarfile.DIRTYPE, "a device": tarfile.CHRTYPE, "a pipe": tarfile.FIFOTYPE}
            member.type, member.size, content = kinds[kind], 0, b""
        case "an absolute path":
            member.name = str(folder / "victim" / name)
        case "a path upwards":
            member.name = f"../victim/{name}"
        case "a sparse one":
            member.pax_headers = {
                "GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.name": name,
                "GNU.sparse.size": str(1 << 50), "GNU.sparse.map": f"0,{len(content)}",
            }  # fmt: skip
        case "nonsense as holes":
            member.pax_headers = {"GNU.sparse.map": "a,b", "GNU.sparse.size": "x"}
        case "a size that is too small":
            member.size, content = len(content) - 2, content[:-2]
        case "a size beyond the end":
            member.size = 1 << 40
    return [(member, content)]


ALTERED = [
    *("a link to itself", "a link to a file outside", "a hard link", "a hard link to itself", "a folder", "a device"),
    *("a pipe", "an absolute path", "a path upwards", "a sparse one", "nonsense as holes", "a size that is too small"),
    "a size beyond the end",
]


@pytest.mark.parametrize("of", [MANIFEST_FILE, "keys.json"])
@pytest.mark.parametrize("kind", ALTERED)
def test_what_is_no_plain_file_of_its_size_is_refused(data: Path, tmp_path: Path, kind: str, of: str) -> None:
    back_up(data, tmp_path / "good.tar")
    bad = tmp_path / "bad.tar"
    with tarfile.open(tmp_path / "good.tar") as good, bad.open("wb") as file:
        for member in good.getmembers():
            content = (tmp_path / "good.tar").read_bytes()[member.offset_data :][: member.size]
            replaced = altered(kind, member, content, tmp_path) if member.name == of else [(member, content)]
            for one, its in replaced:
                file.write(one.tobuf(tarfile.PAX_FORMAT) + its + bytes(-len(its) % 512))
        file.write(bytes(1024))
    named = next((one for one in ("a sparse one", "a folder", "a device", "link") if one in kind), "")
    with pytest.raises(InvalidBackup, match=rf"Invalid .*{named}"):
        restore(bad, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
    assert not (tmp_path / "victim").exists()
    assert run(["restore", str(bad), "--data", str(tmp_path / "restored")]) == 1


@pytest.mark.parametrize("of", [MANIFEST_FILE, "keys.json"])
@pytest.mark.parametrize("kind", ["a link to itself", "a folder", "a pipe", "a sparse one"])
def test_what_is_no_plain_file_in_a_folder_is_refused(data: Path, tmp_path: Path, kind: str, of: str) -> None:
    back_up(data, tmp_path / "backup")
    path = tmp_path / "backup" / of
    if kind == "a sparse one":
        os.truncate(path, 1 << 40)
    else:
        path.unlink()
        {"a link to itself": lambda: path.symlink_to(path), "a folder": path.mkdir, "a pipe": lambda: os.mkfifo(path)}[
            kind
        ]()
    with pytest.raises(InvalidBackup, match="Invalid "):
        restore(tmp_path / "backup", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


@pytest.mark.timeout(60)
def test_a_negative_size_is_not_read_for_ever(tmp_path: Path) -> None:
    member = tarfile.TarInfo("keys.json")
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 10 + b"\xfe\x00"  # -512 in base 256
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "bad.tar").write_bytes(bytes(header) * 2 + bytes(1024))
    with pytest.raises(InvalidBackup):
        restore(tmp_path / "bad.tar", tmp_path / "restored")
