"""A store between two folders: what a worker publishes, and what a replica takes, step by step."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import gpu
from service.base.errors import Conflict, ServiceError
from service.extras.stores import follower, publisher, store_head
from service.extras.stores.follower import Follower
from service.extras.stores.names import OWNER_FILE
from service.extras.stores.object_store import ObjectStore, StoreUnavailable
from service.extras.stores.publisher import Publisher
from service.extras.stores.store_head import CorruptStore, Head
from service.settings.errors import InvalidSetting
from service.settings.settings import Settings
from service.storage import files
from service.storage.archiver import Archiver
from service.storage.errors import CorruptLog
from service.storage.events import Entry, StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.log.segment import table_of
from service.storage.snapshots import live_versions, snapshot
from service.storage.streams.stream import Stream
from tests.service.object_server import ObjectServer
from tests.service.waiting import eventually

pytest.importorskip("obstore", reason="needs the extra registry: pip install obstore")

Make = Callable[..., Entry]


class Folder(NamedTuple):
    """A data folder and its log."""

    data: Path
    log: RatingLog

    @classmethod
    def at(cls, data: Path) -> Folder:
        return cls(data, RatingLog(data / "ratings"))

    def write(self, *entries: Entry) -> None:
        self.log.files.write(entries[0].id, entries[-1].id, [table_of(list(entries))])

    def rows(self) -> list[tuple[str, str]]:
        rows = [row for batch in self.log.read(columns=["user", "item"]) for row in batch.to_pylist()]
        return [(row["user"], row["item"]) for row in rows]

    def train(self, version: str, *users: str) -> None:
        """A live model of these users."""
        n_users = len(users)
        coo = np.arange(n_users), np.zeros(n_users, np.int64), np.ones(n_users, np.float32)
        model = gpu.fit(
            gpu.Ratings.from_coo(*coo, (n_users, 1)), gpu.params_for("als", {"n_factors": 4, "n_epochs": 1})
        )
        snapshot.write(self.data / "snapshots", model, list(users), ["i"], metrics={}, watermark="0-0", version=version)
        live_versions.set_version(self.data, "als", version)


class Pair(NamedTuple):
    """A worker and a replica."""

    store: ObjectStore
    worker: Folder
    publisher: Publisher
    replica: Folder
    follower: Follower


OLD, NEW = "als-20260131T120000-1a2b", "als-20260201T120000-3c4d"


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    if request.param == "file":
        (tmp_path / "store").mkdir()
        yield ObjectStore(f"file://{tmp_path}/store")
        return
    with ObjectServer() as server:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        yield ObjectStore("s3://bucket/models")


@pytest.fixture
def pair(store: ObjectStore, stream: Stream, tmp_path: Path) -> Pair:
    worker, replica = Folder.at(tmp_path / "worker"), Folder.at(tmp_path / "replica")
    published = Publisher(store, worker.data, stream, worker.log)
    followed = Follower(store, replica.data, replica.log, lambda: StreamId(0, 0), lambda reason: None)
    return Pair(store, worker, published, replica, followed)


def both(pair: Pair) -> None:
    pair.publisher.step()
    pair.follower.step()


def test_a_replica_gets_log_and_models_and_loses_what_the_worker_loses(pair: Pair, rating_entry: Make):
    """Merging, forgetting and pruning reach the store and the replica: nothing is left of what is gone."""
    pair.publisher.prepare()
    pair.worker.write(rating_entry(1, ("u", "i", 4.0)))
    pair.worker.write(rating_entry(2, ("v", "i", 3.0)))
    pair.worker.train(OLD, "u", "v")
    both(pair)
    assert pair.replica.rows() == [("u", "i"), ("v", "i")]
    assert live_versions.read(pair.replica.data) == {"als": OLD}
    pair.worker.log.rewrite_without("v", StreamId(3, 0))
    pair.worker.train(NEW, "u")
    live_versions.retire(pair.worker.data, OLD, None)
    both(pair)
    assert pair.replica.rows() == pair.worker.rows() == [("u", "i")]
    assert live_versions.read(pair.replica.data) == {"als": NEW}
    assert snapshot.versions(pair.replica.data / "snapshots") == [NEW]
    assert {name.split("/")[1] for name in pair.store.names("snapshots")} == {NEW}
    assert (
        len(pair.store.names("ratings"))
        == len(pair.worker.log.files.segments())
        == len(pair.replica.log.files.segments())
    )


def test_what_a_failed_rewrite_has_left_is_listed_and_published(pair: Pair, rating_entry: Make):
    """A disk has failed between the new file of a segment and its listing, and nobody writes the segment again."""
    pair.publisher.prepare()
    pair.worker.write(rating_entry(1, ("u", "i", 4.0)), rating_entry(2, ("v", "i", 3.0)))
    pair.publisher.step()
    ((name, (before,)),) = pair.worker.log.files.listed().items()
    pair.worker.log.rewrite_without("v", StreamId(3, 0))
    with pair.worker.log.files._manifest.changing() as sums:
        pair.worker.log.files._manifest.store({name: [before, *sums[name]]})
    for _ in range(2):
        pair.publisher.step()
    pair.follower.step()
    assert pair.replica.rows() == [("u", "i")]


def test_a_store_that_lacks_a_segment_is_not_settled(pair: Pair, rating_entry: Make, monkeypatch: pytest.MonkeyPatch):
    """A segment stands in the folder just before it is listed: what is in it may not leave the stream yet."""
    monkeypatch.setattr(publisher, "SETTLE_S", 0.0)
    pair.publisher.prepare()
    pair.worker.write(rating_entry(1, ("u", "i", 4.0)))
    pair.publisher.step()
    listed = pair.worker.log.files.path / "manifest.json"
    before = listed.read_bytes()
    pair.worker.write(rating_entry(2, ("v", "i", 3.0)))
    after = listed.read_bytes()
    listed.write_bytes(before)
    settled_s = pair.publisher._settled_s
    pair.publisher.step()
    assert pair.publisher._settled_s == settled_s
    listed.write_bytes(after)
    pair.publisher.step()
    assert pair.publisher._settled_s > settled_s
    assert pair.publisher.upto() == StreamId(2, 0)


def test_each_side_refuses_what_it_cannot_use_and_goes_on_when_it_can(pair: Pair, rating_entry: Make):
    """Damage on the way is noticed, and what is here stays; without a store a replica keeps its copy."""
    with pytest.raises(StoreUnavailable, match=r"no head\.json yet"):
        pair.follower.step()
    pair.publisher.prepare()
    pair.worker.write(rating_entry(1, ("u", "i", 4.0)))
    both(pair)
    pair.worker.write(rating_entry(2, ("v", "j", 3.0)))
    pair.publisher.step()
    torn = store_head.object_of(pair.worker.log.files.listed()[pair.worker.log.files.segments()[1].path.name][0])
    whole = pair.store.read(torn, 1 << 20)
    pair.store.write(torn, b"torn")
    with pytest.raises(CorruptLog, match="torn or altered"):
        pair.follower.step()
    pair.store.remove([torn])
    with pytest.raises(CorruptStore, match="expected ratings/"):
        pair.follower.step()
    assert pair.replica.rows() == [("u", "i")]
    pair.store.write(torn, whole or b"")
    head = pair.store.read("head.json", 1 << 20) or b""
    pair.store.write("head.json", head.replace(b"segments", b"sediment"))
    with pytest.raises(CorruptStore, match="sha256"):
        pair.follower.step()
    pair.store.write("head.json", head)
    pair.follower.step()
    assert pair.replica.rows() == [("u", "i"), ("v", "j")]


def test_no_entry_leaves_the_stream_before_the_store_has_it(pair: Pair, stream: Stream, rating_entry: Make):
    pair.publisher.prepare()
    archiver = Archiver(stream, pair.worker.log, keeper=pair.publisher)
    assert pair.publisher.upto() == StreamId(0, 0)
    pair.worker.write(rating_entry(1, ("u", "i", 4.0)))
    assert pair.publisher.upto() == StreamId(0, 0)
    both(pair)
    assert pair.publisher.upto() == StreamId(1, 0) == pair.replica.log.last_id()
    archiver.flush()
    with pytest.raises(Conflict, match="archives the ratings of this Redis"):
        Archiver(stream, RatingLog(pair.replica.data / "other")).step(0)


def test_one_folder_publishes_and_another_takes_over_only_when_told(
    pair: Pair, stream: Stream, tmp_path: Path, rating_entry: Make
):
    """A lost folder is filled again from the store; the folder that comes back late does not publish."""
    pair.publisher.prepare()
    pair.worker.write(rating_entry(1, ("u", "i", 4.0)))
    pair.worker.train(OLD, "u")
    both(pair)
    other = Folder.at(tmp_path / "other")
    second = Publisher(pair.store, other.data, stream, other.log)
    with pytest.raises(Conflict, match="--take-over"):
        second.prepare()
    second.prepare(take_over=True)
    assert other.rows() == [("u", "i")]
    assert live_versions.read(other.data) == {"als": OLD}
    second.step()
    pair.worker.write(rating_entry(2, ("late", "i", 4.0)))
    with pytest.raises(Conflict, match="which is not it"):
        pair.publisher.step()
    with pytest.raises(Conflict, match="which is not it"):
        pair.publisher.upto()
    pair.follower.step()
    assert pair.replica.rows() == other.rows()


def test_redis_names_a_folder_only_when_its_id_is_on_the_disk(
    pair: Pair, stream: Stream, monkeypatch: pytest.MonkeyPatch
):
    """Else a power cut takes the id, and the worker is refused for ever: Redis names a folder that is not there."""

    def fail(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(files, "sync", fail)
        for _ in range(2):  # the second one finds the id that the first one has made
            with pytest.raises(OSError, match="Input/output"):
                pair.publisher.prepare()
    assert stream.publisher() is None
    pair.publisher.prepare()
    assert stream.publisher() == (pair.worker.data / OWNER_FILE).read_text()


def test_a_replica_goes_on_without_its_store_but_does_not_begin_without(pair: Pair, rating_entry: Make):
    """Who has a copy answers from it after a restart, and its age tells; who has none says so."""
    pair.publisher.prepare()
    pair.worker.write(rating_entry(1, ("u", "i", 4.0)))
    both(pair)
    nowhere, told = ObjectStore("file:///nowhere/at/all"), list[str | None]()
    new = Folder.at(pair.replica.data.with_name("new"))
    for folder, ends in ((pair.replica, threading.Event()), (new, threading.Event())):
        started = Follower(nowhere, folder.data, folder.log, lambda: StreamId(0, 0), told.append)
        started.start()
        try:
            if folder is new:
                eventually(lambda: told[-1] and "the first copy of the store is not complete" in told[-1])
                ends.set()
            started.wait(ends)
            assert started.age_s > 0
        finally:
            started.stop()
    assert told[0] is None
    assert pair.replica.rows() == [("u", "i")]


def test_what_the_store_has_lost_is_sent_again_and_a_killed_push_leaves_nothing(pair: Pair, rating_entry: Make):
    pair.publisher.prepare()
    pair.worker.write(rating_entry(1, ("u", "i", 4.0)))
    pair.publisher.step()
    pair.store.remove(["head.json", *pair.store.names("ratings")])
    pair.store.write("ratings/left-by-a-killed-worker.parquet", b"u")
    pair.worker.write(rating_entry(2, ("v", "j", 3.0)))
    both(pair)
    assert pair.replica.rows() == [("u", "i"), ("v", "j")]
    assert len(pair.store.names("ratings")) == 2


def test_a_damaged_copy_is_taken_again_and_a_newer_log_is_kept(pair: Pair, rating_entry: Make):
    pair.publisher.prepare()
    pair.worker.write(rating_entry(1, ("u", "i", 4.0)))
    pair.worker.train(OLD, "u")
    both(pair)
    (segment,) = pair.replica.log.files.segments()
    segment.path.write_bytes(bytes(segment.path.stat().st_size))
    (pair.replica.data / "snapshots" / OLD / "users.parquet").write_bytes(b"")
    again = Follower(pair.store, pair.replica.data, RatingLog(pair.replica.log.folder), lambda: StreamId(0, 0), print)
    again.step()
    assert pair.replica.rows() == [("u", "i")]
    snapshot.verify(pair.replica.data / "snapshots", OLD)
    pair.replica.write(rating_entry(5, ("w", "k", 1.0)))
    pair.worker.write(rating_entry(2, ("v", "j", 3.0)))
    pair.publisher.step()
    with pytest.raises(Conflict, match="empty the folder"):
        again.step()


@pytest.mark.parametrize(
    ("check", "settings"),
    [
        (follower.check, {"redis": None, "worker": False}),
        (follower.check, {"worker": True}),
        (publisher.check, {"redis": None}),
        (publisher.check, {"store": "https://store.example/models"}),
        (publisher.check, {"store": "ftp://store.example/models"}),
    ],
)
def test_settings_that_would_lose_ratings_are_refused(check: Callable[[Settings], None], settings: dict[str, object]):
    usual = {"redis": "redis://localhost:1", "store": "file:///store"}
    with pytest.raises((InvalidSetting, ServiceError), match=r"Invalid (redis|worker|store|URL)"):
        check(Settings(**usual | settings))  # type: ignore[arg-type]
    check(Settings(**usual | {"worker": False}))  # type: ignore[arg-type]


def test_a_head_with_names_that_lead_elsewhere_is_refused():
    for name, live in (("../a.parquet", {}), ("a", {"als": "../x"}), ("0" * 16, {"als": OLD})):
        content = Head("me", {}, live, [], [name]).encoded()
        with pytest.raises(CorruptStore, match="no name that it may have"):
            Head.of(content, "file:///store")
