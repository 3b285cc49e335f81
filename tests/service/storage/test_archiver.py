import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import redis
from structlog.testing import capture_logs

from service.storage import archiver as archiver_module
from service.storage import files
from service.storage.archive_lock import ArchiveLock
from service.storage.archiver import Archiver
from service.storage.errors import NewerEntry, StreamUnavailable
from service.storage.events import ZERO, Entry, RatingEvent, StreamId, encode_ratings, encode_subject
from service.storage.log import segment_folder
from service.storage.log.log_manifest import LogManifest
from service.storage.log.rating_log import RatingLog
from service.storage.streams import verification
from service.storage.streams.redis_server import RedisServer
from service.storage.streams.stream import Stream
from tests.service.keys import RATINGS, VERIFIED
from tests.service.logs import append, commit, contents
from tests.service.waiting import eventually


@pytest.fixture
def archiver(stream: Stream, log: RatingLog) -> Iterator[Archiver]:
    archiver = Archiver(stream, log)
    archiver.start()
    eventually(lambda: archiver.is_archiving)
    yield archiver
    archiver.stop()


@pytest.fixture
def put(client: redis.Redis) -> Callable[..., StreamId]:
    def put(*items: str) -> StreamId:
        events = [RatingEvent("u", item, 1.0, 2.0) for item in items]
        return append(client, encode_ratings(events))

    return put


def test_a_request_commits_at_once(archiver: Archiver, stream: Stream, log: RatingLog, put: Callable) -> None:
    stream_id = put("a", "b")
    eventually(lambda: archiver.n_pending == 2)
    assert log.last_id() == ZERO
    stream.request_commit(stream_id)
    eventually(lambda: log.last_id() == stream_id)
    eventually(lambda: archiver.n_pending == 0)  # the file is there a moment earlier


def test_time_commits(archiver: Archiver, log: RatingLog, put: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiver_module, "COMMIT_EVERY_S", 0.05)
    stream_id = put("a")
    eventually(lambda: log.last_id() == stream_id)


def test_many_ratings_commit(stream: Stream, log: RatingLog, put: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiver_module, "COMMIT_RATINGS", 3)
    archiver = Archiver(stream, log)
    put("a", "b")
    archiver.step(0)
    assert log.last_id() == ZERO
    last = put("c")
    archiver.step(0)
    assert log.last_id() == last


def test_a_full_read_is_followed_by_another_at_once(
    stream: Stream, log: RatingLog, put: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiver_module, "MAX_ENTRIES_PER_READ", 2)
    archiver = Archiver(stream, log)
    found = []
    for n in (2, 1, 0):
        for _ in range(n):
            put("a")
        found.append(archiver.step(0))
    assert found == [True, False, False]
    assert archiver.n_pending == 3


def test_requests_that_come_one_by_one_are_read_together(
    archiver: Archiver, client: redis.Redis, put: Callable
) -> None:
    client.config_resetstat()
    began_s = time.monotonic()
    for _ in range(150):  # together less than a full read
        put("a")
        time.sleep(0.003)
    n_reads = client.info("commandstats")["cmdstat_xread"]["calls"]
    assert n_reads <= 2 + (time.monotonic() - began_s) / archiver_module.PAUSE_S
    eventually(lambda: archiver.n_pending == 150)


def test_a_commit_that_is_tried_again_brings_back_no_forgotten_user(
    stream: Stream, log: RatingLog, client: redis.Redis, put: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt fails after its rename; the user is forgotten before the second one."""
    put("a")
    forgotten = append(client, encode_subject("forget", "u"))
    archiver = Archiver(stream, log)
    archiver.step(0)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(LogManifest, "store", fail)
        with pytest.raises(OSError, match="Input/output"):
            archiver.flush()
    assert log.last_id() == forgotten
    log.files.seal()
    log.rewrite_without("u", forgotten)
    archiver.flush()
    assert archiver.n_pending == 0
    assert [(entry.kind, entry.users) for entry in contents(log) if entry.users - {""}] == [("forget", {"u"})]
    assert log.files.listed().keys() == {segment.path.name for segment in log.files.segments()}


def test_a_segment_whose_folder_cannot_be_synced_is_not_taken_for_archived(
    stream: Stream, log: RatingLog, put: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut could take it away, after Redis was told that the log has it."""
    stream_id = put("a")
    archiver = Archiver(stream, log)
    archiver.step(0)

    def fail(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(files, "sync", fail)
        with pytest.raises(OSError, match="Input/output"):
            archiver.flush()
    assert log.last_id() == ZERO
    archiver.flush()
    assert log.last_id() == stream_id
    log.files.check()


def test_a_full_disk_keeps_nothing_from_a_server_that_has_lost_it(
    stream: Stream, log: RatingLog, client: redis.Redis, put: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the archiver has read and cannot commit is written again."""
    archiver = Archiver(stream, log)
    stream_id = put("a")
    archiver.step(0)
    client.flushall()

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(log.files, "write", fail)
    archiver._is_verified = False  # as after each failure
    with pytest.raises(OSError, match="No space"):
        archiver.step(0)
    assert client.xrange(RATINGS, min=str(stream_id), max=str(stream_id))


def test_stopping_commits_everything(archiver: Archiver, log: RatingLog, put: Callable, client: redis.Redis) -> None:
    put("a")
    append(client, encode_subject("hide", "x"))
    last = put("b")
    archiver.stop()
    assert log.last_id() == last
    assert [entry.kind for entry in contents(log)] == ["rating", "hide", "rating"]
    assert not archiver.is_archiving


def test_bad_entries_are_kept_aside_and_stop_nothing(
    archiver: Archiver, stream: Stream, log: RatingLog, put: Callable, client: redis.Redis
) -> None:
    bad = client.xadd(RATINGS, {"v": "1", "ratings": '[{"user": "u", "item": "i", "rating": "five"}]'})
    last = put("a")
    stream.request_commit(last)
    eventually(lambda: log.last_id() == last)
    eventually(stream.rejected)  # kept aside after the others are in the log
    ((stream_id, fields),) = stream.rejected()
    assert str(stream_id) == bad
    assert b"`float | null`" in fields[b"reason"]
    assert [entry.id for entry in contents(log)] == [last]


def test_a_bad_entry_that_cannot_be_kept_aside_costs_no_other(
    stream: Stream, log: RatingLog, put: Callable, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other entries of the same read are in the log, and bad ones are kept as soon as Redis accepts writes."""
    archiver = Archiver(stream, log)
    first = put("a")
    client.xadd(RATINGS, {"v": "1", "ratings": "{}"})
    last = put("b")
    with monkeypatch.context() as refusing:

        def refuse(*_: object) -> None:
            raise StreamUnavailable("OOM")

        refusing.setattr(stream, "reject", refuse)
        with pytest.raises(StreamUnavailable):
            archiver.step(0)
    archiver.step(0)
    archiver.flush()
    assert [entry.id for entry in contents(log)] == [first, last]
    assert len(stream.rejected()) == 1


def test_there_is_one_archiver_and_another_takes_over(
    archiver: Archiver, stream: Stream, log: RatingLog, put: Callable
) -> None:
    second = Archiver(stream, RatingLog(log.folder))
    second.start()
    time.sleep(0.1)
    assert not second.is_archiving
    first_id = put("a")
    archiver.stop()
    assert log.last_id() == first_id
    eventually(lambda: second.is_archiving)
    stream_id = put("b")
    stream.request_commit(stream_id)
    eventually(lambda: log.last_id() == stream_id)
    second.stop()


def test_death_frees_the_lock(redis_url: str, stream: Stream, log: RatingLog) -> None:
    code = (
        "import os, sys, time; from pathlib import Path; from service.storage.archiver import Archiver;"
        "from service.storage.streams.stream import Stream; from service.storage.log.rating_log import RatingLog;"
        "a = Archiver(Stream(sys.argv[1]), RatingLog(Path(sys.argv[2]))); a.start();\n"
        "while not a.is_archiving: time.sleep(.01)\n"
        "(Path(sys.argv[2]) / '.tmp-x').touch(); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", code, redis_url, str(log.folder)], check=False, timeout=60)
    assert killed.returncode == -9
    archiver = Archiver(stream, log)
    archiver.start()
    eventually(lambda: archiver.is_archiving)
    eventually(lambda: not (log.folder / ".tmp-x").exists())
    archiver.stop()


def test_uncommitted_entries_are_read_again(stream: Stream, log: RatingLog, put: Callable) -> None:
    first = Archiver(stream, log)
    ids = [put("a"), put("b")]
    first.step(0)  # read, not committed, and then forgotten: the process was killed
    again = Archiver(stream, log)
    again.flush()
    assert [entry.id for entry in contents(log)] == ids


# --- trouble


def test_a_full_disk_is_reported_loses_nothing_and_heals(
    archiver: Archiver, stream: Stream, log: RatingLog, put: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(segment_folder, "write_groups", full)
        last = put("a")
        stream.request_commit(last)
        eventually(lambda: archiver.obstacle is not None)
        assert "No space left" in str(archiver.obstacle)
        last = put("b")
    eventually(lambda: archiver.obstacle is None)
    stream.request_commit(last)
    eventually(lambda: log.last_id() >= last)  # ids may have been raised behind the entry
    assert [r.item for entry in contents(log) for r in entry.ratings] == ["a", "b"]


def test_an_unexpected_error_is_reported_and_heals(
    archiver: Archiver, stream: Stream, log: RatingLog, put: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def surprised(*_: object) -> None:
        raise ValueError("a library was surprised")

    with monkeypatch.context() as patch:
        patch.setattr(segment_folder, "write_groups", surprised)
        last = put("a")
        stream.request_commit(last)
        eventually(lambda: archiver.obstacle is not None)
        assert archiver.obstacle == "ValueError: a library was surprised"
        eventually(lambda: archiver.lag_s > 0)
    eventually(lambda: archiver.obstacle is None)
    eventually(lambda: log.last_id() == last)


def test_the_end_of_the_thread_is_reported(stream: Stream, log: RatingLog, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[BaseException] = []
    archiver = Archiver(stream, log, failures.append)

    def ending(*_: object) -> None:
        raise SystemExit("gone")

    monkeypatch.setattr(archiver, "step", ending)
    monkeypatch.setattr(archiver_module, "STALLED_S", 0.1)
    archiver.start()
    eventually(lambda: [str(error) for error in failures] == ["gone"])
    eventually(lambda: archiver.lag_s > 0.1)
    archiver._release()


def test_text_where_a_wish_to_commit_should_be(
    archiver: Archiver, stream: Stream, log: RatingLog, put: Callable, client: redis.Redis
) -> None:
    client.set("nearfield:commit", "tomorrow")
    last = put("a")
    eventually(lambda: client.get("nearfield:commit") is None)
    stream.request_commit(last)
    eventually(lambda: log.last_id() == last)


def test_a_damaged_log_is_reported_until_it_is_repaired(
    archiver: Archiver, stream: Stream, log: RatingLog, put: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New ratings are still written; until then nothing leaves the stream."""

    def log_ends_at(stream_id: StreamId) -> bool:
        return log.last_id() == stream_id

    monkeypatch.setattr(archiver_module, "TIDY_EVERY_S", 0.1)
    monkeypatch.setattr(archiver_module, "LOOK_AGAIN_S", 0.1)
    monkeypatch.setattr(archiver_module, "KEEP_STREAM_MS", -1000)
    monkeypatch.setattr("service.storage.log.rating_log.MERGE_AT", 3)
    first = [put("a"), put("b")][-1]
    stream.request_commit(first)
    eventually(lambda: stream.trimmed_id() == first)
    segment = log.files.segments()[0]  # on a busy machine both ratings may have one each
    intact = segment.path.read_bytes()
    segment.path.write_bytes(intact[:-9] + bytes([intact[-9] ^ 1]) + intact[-8:])  # merging alone will see that
    for item in "cd":
        last = put(item)
        stream.request_commit(last)
        eventually(partial(log_ends_at, last))
    eventually(lambda: archiver.damage is not None)
    assert segment.path.name in str(archiver.damage)
    assert archiver.obstacle is None
    trimmed = stream.trimmed_id()
    last = put("e")
    stream.request_commit(last)
    eventually(lambda: log.last_id() == last)
    time.sleep(0.5)
    assert stream.trimmed_id() == trimmed
    segment.path.write_bytes(intact)
    eventually(lambda: archiver.damage is None)
    eventually(lambda: stream.trimmed_id() == last)
    assert [r.item for entry in contents(log) for r in entry.ratings] == list("abcde")


def test_segments_are_merged_when_that_is_asked_for(
    stream: Stream, log: RatingLog, rating_entry: Callable[..., Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.storage.log.rating_log.MERGE_AT", 2)
    for ms in (1000, 2000):
        commit(log, [rating_entry(ms, ("u", "i", 4.0))])
    for merge, n_segments in ((False, 2), (True, 1)):
        assert Archiver(stream, log)._is_intact(merge=merge)
        assert len(log.files.segments()) == n_segments


def test_a_full_redis_is_trimmed_without_a_merge_and_not_at_each_step(
    stream: Stream,
    log: RatingLog,
    put: Callable,
    rating_entry: Callable[..., Entry],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A large merge takes seconds, in which Redis would refuse ratings."""
    asked = list[int]()

    def share() -> float:
        asked.append(len(asked))
        return 1.0

    monkeypatch.setattr(stream, "memory_share", share)
    monkeypatch.setattr("service.storage.log.rating_log.MERGE_AT", 2)
    for ms in (1000, 2000):
        commit(log, [rating_entry(ms, ("u", "i", 4.0))])
    archiver, last = Archiver(stream, log), put("a")
    archiver._tidied_s = time.monotonic()
    for _ in range(3):
        archiver.step(0)
    assert (stream.trimmed_id(), len(log.files.segments()), len(asked)) == (last, 3, 1)


def test_damage_and_its_repair_are_said_once(
    stream: Stream, log: RatingLog, rating_entry: Callable[..., Entry]
) -> None:
    archiver, path = Archiver(stream, log), commit(log, [rating_entry(1000, ("u", "i", 4.0))]).path
    content = path.read_bytes()
    path.unlink()
    with capture_logs() as lines:
        assert [archiver._is_intact(merge=merge) for merge in (True, False, True)] == [False] * 3
        assert path.name in str(archiver.damage)
        path.write_bytes(content)
        assert not archiver._is_intact(merge=False), "only a merge reads all of it"
        assert [archiver._is_intact(merge=merge) for merge in (True, False, True)] == [True] * 3
    assert archiver.damage is None
    assert [line["log_level"] for line in lines] == ["error", "info"]


def test_an_entry_of_a_newer_version_stops_it_before_it(
    archiver: Archiver, stream: Stream, log: RatingLog, put: Callable, client: redis.Redis
) -> None:
    """What came before is committed, and the lock is free for a process that can read it."""
    before = put("a")
    newer = client.xadd(RATINGS, {"v": "2", "ratings": "[]"})
    put("b")
    eventually(lambda: log.last_id() == before)
    eventually(lambda: archiver.obstacle is not None)
    assert f"entry {newer!s} has the version b'2'" in str(archiver.obstacle)
    assert "upgrade this process" in str(archiver.obstacle)
    assert stream.rejected() == []
    lock = eventually(lambda: ArchiveLock.try_take(log.folder))
    time.sleep(1.5)
    assert archiver.obstacle is not None
    lock.release()
    assert log.last_id() == before


def test_what_came_before_an_entry_of_a_newer_version_is_committed_at_once(
    stream: Stream, log: RatingLog, put: Callable, client: redis.Redis
) -> None:
    """Another process may archive next, and begins behind the log: what was still pending here would be there twice."""
    before = put("a")
    client.xadd(RATINGS, {"v": "2", "ratings": "[]"})
    archiver = Archiver(stream, log)
    archiver.step(0)
    with pytest.raises(NewerEntry):
        archiver.step(0)
    assert (log.last_id(), archiver.n_pending) == (before, 0)


def test_a_full_redis_that_refuses_what_is_bad_is_trimmed_all_the_same(
    stream: Stream, log: RatingLog, put: Callable, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StreamUnavailable("OOM")

    monkeypatch.setattr(stream, "reject", refuse)
    monkeypatch.setattr(stream, "memory_share", lambda: 1.0)
    client.xadd(RATINGS, {"v": "1", "ratings": "{}"})
    put("a")
    with pytest.raises(StreamUnavailable):
        Archiver(stream, log).step(0)
    assert client.xlen(RATINGS) == 0


def test_a_process_without_room_for_files(redis_url: str, tmp_path: Path, put: Callable) -> None:
    """The same with a limit of the operating system, in a process of its own."""
    put("a")
    code = (
        "import resource, signal, sys; from pathlib import Path; from service.storage.archiver import Archiver;"
        "from service.storage.streams.stream import Stream; from service.storage.log.rating_log import RatingLog;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100));"
        "Archiver(Stream(sys.argv[1]), RatingLog(Path(sys.argv[2]))).flush()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, redis_url, str(tmp_path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert run.returncode == 1
    assert "OSError" in run.stderr
    assert "File too large" in run.stderr
    assert list(tmp_path.glob("*.parquet")) == list(tmp_path.glob(".tmp*")) == []


def test_a_killed_server_is_waited_for(
    archiver: Archiver, redis_server: RedisServer, stream: Stream, log: RatingLog, put: Callable
) -> None:
    put("a")
    eventually(lambda: archiver.n_pending == 1)
    pid = redis_server.pid
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: redis_server.is_alive and redis_server.pid != pid)
    assert archiver.obstacle is None
    last = put("b")
    stream.request_commit(last)
    eventually(lambda: log.last_id() >= last)  # ids may have been raised behind the entry
    assert [r.item for entry in contents(log) for r in entry.ratings] == ["a", "b"]


def test_a_server_that_was_started_again_between_two_reads_is_verified(
    redis_server: RedisServer, stream: Stream, log: RatingLog, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client opens its closed connection in silence: no call fails, and replicas would wait for ever."""
    monkeypatch.setattr(verification, "OTHERS_S", 0.0)
    archiver = Archiver(stream, log)
    archiver.step(0)
    pid = redis_server.pid
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: redis_server.is_alive and redis_server.pid != pid)
    archiver.step(0)
    assert client.get(VERIFIED) == client.info("server")["run_id"]


def test_a_flushed_server_goes_on_above_the_log(
    archiver: Archiver, stream: Stream, log: RatingLog, put: Callable, client: redis.Redis
) -> None:
    stream.request_commit(put("a"))
    eventually(lambda: len(log.files.segments()) == 1)
    client.flushall()
    last = put("b")
    stream.request_commit(last)
    eventually(lambda: log.last_id() >= last)  # ids may have been raised behind the entry
    assert [r.item for entry in contents(log) for r in entry.ratings] == ["a", "b"]


def test_a_stream_that_lost_ids_is_an_obstacle(stream: Stream, log: RatingLog, client: redis.Redis) -> None:
    commit(log, [Entry(StreamId(100, 0), "noop")])
    append(client, encode_subject("hide", "x"), "50-0")
    archiver = Archiver(stream, log)
    archiver.start()
    eventually(lambda: "100-0" in (archiver.obstacle or ""))
    client.delete(RATINGS)
    eventually(lambda: archiver.obstacle is None)
    assert stream.last_id() == StreamId(100, 0)
    archiver.stop()


def test_a_replaced_server_is_noticed_and_no_read_entry_is_lost(
    archiver: Archiver, stream: Stream, log: RatingLog, put: Callable, client: redis.Redis
) -> None:
    last = put("a")
    eventually(lambda: archiver.n_pending == 1)
    client.flushall()
    append(client, encode_subject("hide", "x"), "5-0")

    def is_noticed() -> bool:
        """A server that goes ends idle connections too; that shows at the next command only, so end them repeatedly."""
        client.client_kill_filter(_type="normal", skipme=True)
        return str(last) in (archiver.obstacle or "")

    eventually(is_noticed)
    assert [entry.id for entry in contents(log)] == [last]
    client.delete(RATINGS)
    eventually(lambda: archiver.obstacle is None)


# --- trimming and merging


def test_the_stream_is_trimmed_behind_the_log_but_for_the_newest_hour(
    stream: Stream, log: RatingLog, client: redis.Redis, put: Callable
) -> None:
    old, newer = f"{1_000_000}-0", f"{int(time.time() * 1000) - 1_800_000}-0"
    for stream_id in (old, newer):
        append(client, encode_subject("hide", "x"), stream_id)
    last = put("a")
    archiver = Archiver(stream, log)
    stream.request_commit(last)
    archiver.step(0)
    assert [stream_id for stream_id, _ in client.xrange(RATINGS) or ()] == [newer, str(last)]
    assert StreamId.parse(old) <= stream.trimmed_id() < StreamId.parse(newer)
    assert len(contents(log)) == 3


def test_nothing_is_trimmed_before_it_is_in_the_log(stream: Stream, log: RatingLog, client: redis.Redis) -> None:
    commit(log, [Entry(StreamId(10, 0), "noop")])
    for ms in (10, 20, 10_000_000):
        append(client, encode_subject("hide", "x"), f"{ms}-0")
    archiver = Archiver(stream, log)
    archiver.step(0)
    assert [stream_id for stream_id, _ in client.xrange(RATINGS) or ()] == ["20-0", "10000000-0"]


def test_what_stays_in_redis_at_the_end_is_counted(
    archiver: Archiver,
    stream: Stream,
    log: RatingLog,
    put: Callable,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    put("a"), put("b"), put("c", "d")
    monkeypatch.setattr(log.files, "write", fails)
    archiver.finish()
    said = capsys.readouterr().out
    assert "stream not archived at stop" in said
    assert "entries=3" in said.replace("\x1b[0m", "").replace("\x1b[36m", "").replace("\x1b[35m", "")


def test_who_stops_commits_the_rest_if_nobody_archives(stream: Stream, log: RatingLog, put: Callable) -> None:
    archiver, last = Archiver(stream, log), put("a")
    archiver.finish()
    assert log.last_id() == last
    later = put("b")
    # A program that another thread starts has the lock that was just released, until it is loaded.
    with eventually(lambda: ArchiveLock.try_take(log.folder)):
        archiver.finish()  # another process archives
        assert log.last_id() == last
    archiver.finish()
    assert log.last_id() == later
