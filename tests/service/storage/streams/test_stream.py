import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import redis

from service.storage import files
from service.storage.errors import InvalidKey, LogUnavailable, StreamReplaced, StreamUnavailable, VolatileServer
from service.storage.events import ZERO, Entry, RatingEvent, StreamId, encode_ratings, encode_subject
from service.storage.log.rating_log import RatingLog
from service.storage.streams import redis_client, verification
from service.storage.streams.catching_up import archive_up_to
from service.storage.streams.redis_client import last_and_length
from service.storage.streams.redis_server import RedisServer, find_binary
from service.storage.streams.stream import MAX_REJECTED, REPACKED, Stream
from service.storage.streams.verification import Loss, Verification
from tests.service.keys import COMMIT, LOST, RATINGS, REJECTED, TRIMMED, VERIFIED
from tests.service.logs import append, commit
from tests.service.waiting import eventually

Run = Callable[[Coroutine[Any, Any, Any]], Any]
FIELDS = encode_ratings([RatingEvent("u", "i", 4.0, 1.0)])


@pytest.fixture
def run(stream: Stream) -> Run:
    """Run a coroutine that appends."""

    async def closing(coroutine: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await coroutine
        finally:
            await stream.aclose()

    return lambda coroutine: asyncio.run(closing(coroutine))


async def append_many(stream: Stream, n: int) -> list[StreamId]:
    return list(await asyncio.gather(*(stream.writer.append(FIELDS) for _ in range(n))))


def test_appended_entries_are_read_in_order(stream: Stream, run: Run) -> None:
    ids = run(append_many(stream, 300))
    found = stream.read(ZERO, count=1000).entries
    assert [stream_id for stream_id, _ in found] == sorted(ids)
    assert found[0][1] == FIELDS
    assert stream.read(found[10][0], count=5).entries == found[11:16]
    assert stream.last_id() == stream.newest() == max(ids)


def test_reading_waits_for_the_first_entry(stream: Stream) -> None:
    began_s = time.monotonic()
    assert stream.read(ZERO, block_ms=20).entries == []
    assert time.monotonic() - began_s >= 0.02


def test_the_share_of_memory_is_that_of_its_limit(stream: Stream, client: redis.Redis) -> None:
    assert stream.memory_share() == 0.0
    used = client.info("memory")["used_memory"]
    client.config_set("maxmemory", str(4 * used))
    try:
        assert 0.2 < stream.memory_share() < 0.5
    finally:
        client.config_set("maxmemory", "0")


def test_a_connection_to_another_server_than_the_verified_one_is_refused(stream: Stream, client: redis.Redis) -> None:
    stream.verify_run(client.info("server")["run_id"])
    with pytest.raises(StreamUnavailable, match="replaced"):
        stream.verify_run("0" * 40)


def test_no_entry_is_written_to_a_server_that_another_answers_for(
    stream: Stream, client: redis.Redis, run: Run, tmp_path: Path
) -> None:
    with_other = RedisServer(tmp_path / "other")
    with_other.start()
    try:
        stream.writer._url = with_other.url  # as if the name led to another server meanwhile
        with pytest.raises(StreamUnavailable, match="replaced"):
            run(stream.writer.append(FIELDS))
        with redis.Redis.from_url(with_other.url) as other:
            assert not other.exists(RATINGS)
    finally:
        with_other.stop()


def test_a_pause_notices_a_server_that_goes(stream: Stream, client: redis.Redis) -> None:
    stream.pause(0.01)

    def pause() -> None:
        with pytest.raises(StreamUnavailable):
            stream.pause(4.0)

    waiting = threading.Thread(target=pause)
    waiting.start()
    eventually(lambda: client.info("clients")["blocked_clients"] == 1)
    client.client_kill_filter(_type="normal", skipme=True)
    waiting.join()


def test_an_empty_server_has_nothing(stream: Stream) -> None:
    assert (stream.last_id(), stream.newest(), stream.trimmed_id(), stream.requested_commit()) == (ZERO,) * 4


def test_the_size_is_that_of_all_entries(stream: Stream, client: redis.Redis, run: Run) -> None:
    before = client.info("memory")["used_memory_dataset"]
    large = encode_ratings([RatingEvent(f"user-{n}", f"item-{n}", 4.0, 1.0) for n in range(1000)])
    for _ in range(5):
        run(stream.writer.append(large))
    run(append_many(stream, 5000))
    n_entries, n_bytes = stream.size()
    assert n_entries == 5005
    assert n_bytes < 2 * (client.info("memory")["used_memory_dataset"] - before)


def test_trimming_is_announced_first_and_never_goes_back(stream: Stream, client: redis.Redis, run: Run) -> None:
    ids = run(append_many(stream, 5))
    stream.trim(ids[2])
    stream.trim(ids[0])
    assert stream.trimmed_id() == ids[2]
    assert [stream_id for stream_id, _ in stream.read(ZERO).entries] == ids[3:]
    assert client.get(TRIMMED) == str(ids[2])
    stream.trim(ids[-1])
    assert stream.newest() == ZERO
    assert stream.last_id() == ids[-1]


def test_rejecting_twice_leaves_one(stream: Stream, client: redis.Redis) -> None:
    for _ in range(2):
        stream.reject(StreamId(5, 1), {b"v": b"9"}, "because")
    assert stream.rejected() == [(StreamId(5, 1), {b"v": b"9", b"reason": b"because"})]
    stream.clear_rejected()
    assert client.xlen(REJECTED) == 0


def test_as_many_bad_entries_as_there_may_be_are_cleared_at_once(stream: Stream, client: redis.Redis) -> None:
    """Trimming by whole nodes alone ends after a number of entries."""
    with client.pipeline(transaction=False) as pipeline:
        for _ in range(MAX_REJECTED + 200):
            pipeline.xadd(REJECTED, {"v": "9"})
        pipeline.execute()
    stream.clear_rejected()
    assert client.xlen(REJECTED) == 0


def test_commit_requests(stream: Stream) -> None:
    stream.request_commit(StreamId(7, 8))
    assert stream.requested_commit() == StreamId(7, 8)


def test_rewriting_the_file_removes_trimmed_entries(
    stream: Stream, redis_server: RedisServer, client: redis.Redis, run: Run
) -> None:
    secret = RatingEvent("somebody-to-forget", "i", 4.0, 1.0)
    stream_id = run(stream.writer.append(encode_ratings([secret])))
    stream.trim(stream_id)
    stream.rewrite_aof(redis_server.folder)
    held = subprocess.run(["grep", "-rl", "somebody-to-forget", redis_server.folder], capture_output=True, check=False)
    assert held.stdout == b""


@pytest.mark.parametrize("n_later", [1, 150, 2 * REPACKED])
def test_no_byte_of_trimmed_entries_stays_among_later_ones(
    stream: Stream, redis_server: RedisServer, client: redis.Redis, n_later: int
) -> None:
    client.config_set("rdbcompression", "no")  # so that grep can see it
    for n in range(5):
        last = client.xadd(RATINGS, {"v": "1", "ratings": f"somebody-to-forget-{n}"})
    later = [client.xadd(RATINGS, {"v": "1", "ratings": "later"}) for _ in range(n_later)]
    position = client.xinfo_stream(RATINGS)["last-generated-id"]
    assert isinstance(last, str)
    stream.trim(StreamId.parse(last))
    if further := stream.repack():
        stream.trim(further)
    stream.rewrite_aof(redis_server.folder)
    held = subprocess.run(["grep", "-rl", "somebody-to-forget", redis_server.folder], capture_output=True, check=False)
    assert held.stdout == b""
    kept = [stream_id for stream_id, _ in client.xrange(RATINGS) or ()]
    assert kept == later[-len(kept) :]
    assert len(kept) == (n_later if n_later <= REPACKED else n_later - REPACKED - 1)
    assert client.xinfo_stream(RATINGS)["last-generated-id"] == position


def test_what_killed_rewrites_left_goes_with_the_next_one(
    stream: Stream, redis_server: RedisServer, client: redis.Redis
) -> None:
    folder = redis_server.folder
    left = [
        folder / "temp-rewriteaof-77.aof",
        folder / "temp-rewriteaof-bg-77.aof",
        folder / "appendonlydir" / "appendonly.aof.900.incr.aof",
    ]
    for path in left:
        path.write_text("somebody-to-forget")
    client.xadd(RATINGS, {"v": "noop"})
    stream.rewrite_aof(folder)
    assert [path for path in left if path.exists()] == []
    assert client.xlen(RATINGS) == 1
    used = {line.split()[1] for line in (folder / "appendonlydir/appendonly.aof.manifest").read_text().splitlines()}
    assert {path.name for path in (folder / "appendonlydir").iterdir()} == used | {"appendonly.aof.manifest"}


def test_a_file_that_comes_during_a_rewrite_stays(
    stream: Stream, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another rewrite may have begun since, and write it still."""
    wait, waited, path = redis_client._await_rewrite, list[str](), redis_server.folder / "temp-rewriteaof-78.aof"

    def wait_and_see(client: Any, deadline_s: float) -> str:
        waited.append(wait(client, deadline_s))
        if len(waited) == 2:
            path.touch()
        return waited[-1]

    monkeypatch.setattr(redis_client, "_await_rewrite", wait_and_see)
    stream.rewrite_aof(redis_server.folder)
    assert path.exists()
    stream.rewrite_aof(redis_server.folder)
    assert not path.exists()


def test_a_rewrite_that_another_has_begun_is_followed_by_one_of_ours(
    stream: Stream, redis_server: RedisServer, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, others = redis_client._await_rewrite, list[object]()

    def wait_and_see(asking: Any, deadline_s: float) -> str:
        status = wait(asking, deadline_s)
        if not others:
            others.append(client.bgrewriteaof())
        return status

    monkeypatch.setattr(redis_client, "_await_rewrite", wait_and_see)
    client.set("key", "value")
    client.config_set("rdb-key-save-delay", 50_000)  # µs: long enough to be there still
    before = client.info("persistence")["aof_rewrites"]
    stream.rewrite_aof(redis_server.folder)
    client.config_set("rdb-key-save-delay", 0)
    assert client.info("persistence")["aof_rewrites"] == before + 2


def test_a_rewrite_that_fails_is_not_taken_for_done(
    stream: Stream, redis_server: RedisServer, client: redis.Redis
) -> None:
    client.set("key", "value")
    client.config_set("rdb-key-save-delay", 1_000_000)  # µs: long enough to be killed meanwhile
    server = psutil.Process(redis_server.pid)
    with ThreadPoolExecutor(1) as pool:
        rewriting = pool.submit(stream.rewrite_aof, redis_server.folder)
        eventually(server.children)[0].kill()
        with pytest.raises(StreamUnavailable, match="could not rewrite"):
            rewriting.result()
    client.config_set("rdb-key-save-delay", 0)
    stream.rewrite_aof(redis_server.folder)


@pytest.mark.parametrize("value", ["tomorrow", "9223372036854775808-0", "-1-0", ""])
def test_a_trimmed_position_that_is_none_is_refused_by_the_name_of_its_key(
    stream: Stream, client: redis.Redis, value: str
) -> None:
    client.set(TRIMMED, value)
    for call in (lambda: stream.read(ZERO), stream.trimmed_id, lambda: stream.trim(StreamId(1, 0))):
        with pytest.raises(InvalidKey, match=f"Redis key {TRIMMED}: expected <ms>-<seq>, got '{value}'"):
            call()


def test_an_id_that_no_clock_gives_is_refused_by_the_name_of_its_key(stream: Stream, client: redis.Redis) -> None:
    client.xadd(RATINGS, {"v": "1", "ratings": "[]"}, id="9223372036854775808-0")
    for call in (lambda: stream.read(ZERO), stream.last_id, stream.newest, stream.verify):
        with pytest.raises(InvalidKey, match=f"Redis key {RATINGS}: expected parts below 2"):
            call()


def test_a_wish_to_commit_that_is_none_is_dropped(stream: Stream, client: redis.Redis) -> None:
    client.set(COMMIT, "tomorrow")
    assert stream.requested_commit() == ZERO
    assert client.get(COMMIT) is None


# --- a flushed or replaced server


def test_ids_go_on_above_the_log_after_a_flush(
    stream: Stream, log: RatingLog, client: redis.Redis, rating_entry: Callable[..., Entry], run: Run
) -> None:
    future = 4_000_000_000_000  # as if the clock of the new server went back
    commit(log, [rating_entry(future, ("u", "i", 1.0))])
    stream_id = run(stream.writer.append(FIELDS))
    assert stream_id > StreamId(future, 0)
    kept = client.xrange(RATINGS)
    assert kept is not None
    assert kept[0] == (f"{future}-0", {"v": "noop"})
    stream.verify()
    assert client.xlen(RATINGS) == 2


def test_entries_below_the_log_need_an_operator(
    stream: Stream, log: RatingLog, client: redis.Redis, rating_entry: Callable[..., Entry], run: Run
) -> None:
    client.xadd(RATINGS, {"v": "1", "forget": "x"}, id="1000-0")
    commit(log, [rating_entry(2000, ("u", "i", 1.0))])
    for _ in range(2):
        with pytest.raises(StreamReplaced, match=f"2000-0.*RENAME {RATINGS} {RATINGS}:kept"):
            run(stream.writer.append(FIELDS))
    assert client.xlen(RATINGS) == 1
    client.rename(RATINGS, f"{RATINGS}:kept")  # what the message advises
    assert run(stream.writer.append(FIELDS)) > StreamId(2000, 0)


def test_a_server_that_lost_entries_gets_them_again_from_who_read_them(
    redis_url: str,
    log: RatingLog,
    client: redis.Redis,
    rating_entry: Callable[..., Entry],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = Stream(redis_url, log.last_id)
    stream.verify()
    monkeypatch.setattr(verification.Verification, "_await_others", lambda *_: pytest.fail("the server is no new one"))
    ids = [f"{ms}-0" for ms in (1000, 1001, 1002, 1003)]
    for stream_id in ids:
        append(client, FIELDS, stream_id)
    assert len(stream.read(ZERO).entries) == 4
    commit(log, [rating_entry(1000, ("u", "i", 4.0))])
    client.flushall()
    stream.verify()
    assert client.get(VERIFIED) == client.info("server")["run_id"]
    assert [stream_id for stream_id, _ in client.xrange(RATINGS) or ()] == ids[1:]
    assert stream.trimmed_id() == StreamId(1000, 0)  # who has not read so far takes these from the log
    for stream_id in ids[2:]:
        client.xdel(RATINGS, stream_id)
    client.xtrim(RATINGS, maxlen=0)
    client.delete(RATINGS)
    append(client, FIELDS, ids[0])  # an older copy
    stream.verify()
    assert [stream_id for stream_id, _ in client.xrange(RATINGS) or ()] == ids
    stream.close()


def test_entries_that_nobody_has_read_are_not_taken_for_an_older_copy(
    redis_url: str, log: RatingLog, client: redis.Redis
) -> None:
    stream = Stream(redis_url, log.last_id)
    append(client, FIELDS, "2000-0")
    stream.read(ZERO)
    client.delete(RATINGS)
    append(client, FIELDS, "1500-0")
    with pytest.raises(StreamReplaced, match=r"above 2000-0.* 1 entries up to 1500-0"):
        stream.verify()
    stream.close()


def test_an_older_copy_may_have_forgotten_users_and_bad_entries(
    redis_url: str, log: RatingLog, client: redis.Redis, rating_entry: Callable[..., Entry]
) -> None:
    stream = Stream(redis_url, log.last_id, known=log.known)
    commit(log, [rating_entry(1000, ("u", "i", 4.0)), Entry(StreamId(2000, 0), "forget", subject="u")])
    log.rewrite_without("u", StreamId(2000, 0))
    append(client, FIELDS, "1000-0")
    append(client, encode_subject("forget", "u"), "1001-0")
    client.xadd(RATINGS, {"v": "1", "nonsense": "1", "hide": "i"}, id="1001-1")
    with pytest.raises(StreamReplaced):  # an unknown field may be that of a newer version
        stream.verify()
    client.xdel(RATINGS, "1001-1")
    client.xadd(RATINGS, {"v": "1", "ratings": "no JSON"}, id="1001-2")
    stream.verify()
    append(client, encode_ratings([RatingEvent("v", "i", 4.0, 1.0)]), "3000-0")
    stream.note([(StreamId(4000, 0), FIELDS)])
    with pytest.raises(StreamReplaced):
        stream.verify()
    stream.close()


def test_no_entry_that_a_log_has_comes_back_below_what_was_trimmed(
    redis_url: str, log: RatingLog, client: redis.Redis, rating_entry: Callable[..., Entry]
) -> None:
    """A forgetting would not find it there."""
    stream = Stream(redis_url, log.last_id)
    stream.note([(StreamId(ms, 0), FIELDS) for ms in (1000, 2000, 3000)])
    commit(log, [rating_entry(1000, ("u", "i", 4.0))])
    client.set(TRIMMED, "2000-0")  # by a worker whose log is ahead of the copy here
    stream.verify()
    assert [stream_id for stream_id, _ in client.xrange(RATINGS) or ()] == ["3000-0"]
    stream.close()


def test_an_older_copy_that_ends_where_the_log_does_is_read_from_the_stream(
    redis_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "OTHERS_S", 0.0)
    stream = Stream(redis_url, floor=lambda: StreamId(1000, 0))
    append(client, FIELDS, "1000-0")
    stream.note([(StreamId(ms, 0), FIELDS) for ms in (1000, 2000)])
    stream.verify()
    assert [stream_id for stream_id, _ in client.xrange(RATINGS) or ()] == ["1000-0", "2000-0"]
    assert stream.trimmed_id() == ZERO
    stream.close()


def test_what_an_older_copy_has_again_can_be_trimmed_again(stream: Stream, client: redis.Redis) -> None:
    for ms in (1000, 2000, 3000):
        append(client, FIELDS, f"{ms}-0")
    client.set(TRIMMED, "2000-0")
    stream.trim(StreamId(1000, 0))
    assert [stream_id for stream_id, _ in client.xrange(RATINGS) or ()] == ["2000-0", "3000-0"]
    assert client.get(TRIMMED) == "2000-0"


def test_all_processes_give_back_in_order_what_each_has_acknowledged(
    redis_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None has read what the other has acknowledged: what one writes first must not keep the other's entries out."""
    streams = [Stream(redis_url) for _ in range(2)]
    monkeypatch.setattr(verification, "OTHERS_S", 0.3)
    for first, stream in enumerate(streams):
        stream.note([(StreamId(ms, 0), FIELDS) for ms in range(1001 + first, 1009, 2)])
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(stream.verify) for stream in streams]:
            done.result()
    ids = [stream_id for stream_id, fields in client.xrange(RATINGS) or () if fields and fields["v"] != "noop"]
    assert ids == [f"{ms}-0" for ms in range(1001, 1009)]
    assert not client.exists(LOST)
    for stream in streams:
        stream.close()


def test_who_raises_ids_past_a_clock_that_is_behind_lets_the_others_give_back_first(
    redis_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archiver that was away has nothing that the older copy lacks; the engine has."""
    behind, ahead = Stream(redis_url), Stream(redis_url)
    append(client, FIELDS, "500-0")
    for stream in (behind, ahead):
        stream.verify()
        stream._verification._run = "another one"
    ahead.note([(StreamId(1000, 0), FIELDS), (StreamId(2000, 0), FIELDS)])
    behind.read(ZERO)
    ahead.read(ZERO)
    monkeypatch.setattr(verification, "OTHERS_S", 0.3)
    now_s = time.time()
    clock = SimpleNamespace(sleep=time.sleep, monotonic=time.monotonic, time=lambda: now_s + 1000.0)
    monkeypatch.setattr(verification, "time", clock)
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(stream.verify) for stream in (behind, ahead)]:
            done.result()
    ids = [stream_id for stream_id, fields in client.xrange(RATINGS) or () if fields and fields["v"] != "noop"]
    assert ids == ["500-0", "1000-0", "2000-0"]
    for stream in (behind, ahead):
        stream.close()


def test_a_process_that_starts_lets_the_others_give_back_before_it_writes(
    redis_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older copy has all that a new process knows of. What it adds would keep out what the others still have."""
    older, new = Stream(redis_url), Stream(redis_url)
    older.verify()
    append(client, FIELDS, "500-0")
    older.read(ZERO)
    older.note([(StreamId(1000, 0), FIELDS)])
    older._verification._run = "another one"
    client.set(VERIFIED, "another one")
    monkeypatch.setattr(verification, "OTHERS_S", 0.3)

    def start() -> None:
        new.verify()
        append(client, FIELDS, "*")

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(start), pool.submit(older.verify)]:
            done.result()
    assert [stream_id for stream_id, _ in client.xrange(RATINGS) or ()][:2] == ["500-0", "1000-0"]
    assert client.get(VERIFIED) == client.info("server")["run_id"]
    for stream in (older, new):
        stream.close()


def test_what_a_front_tells_while_its_process_waits_is_offered_to_the_others(
    redis_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, offered = Stream(redis_url), list[list[str]]()
    stream.note([(StreamId(1000, 0), FIELDS)])
    client.delete(VERIFIED)

    def pause(seconds: float) -> None:
        offered.append(sorted(map(str, client.hkeys(LOST))))
        stream.note([(StreamId(1001, 0), FIELDS)])

    clock = SimpleNamespace(sleep=pause, monotonic=lambda: len(offered) * verification.POLL_S, time=time.time)
    monkeypatch.setattr(verification, "time", clock)
    monkeypatch.setattr(verification, "OTHERS_S", 3 * verification.POLL_S)
    stream.verify()
    assert offered[:3] == [["1000-0"], ["1000-0", "1001-0"], ["1000-0", "1001-0"]]
    stream.close()


def test_what_a_front_tells_during_the_first_offer_is_offered_to_the_others(
    redis_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, offered, offer = Stream(redis_url), list[list[str]](), Verification._offer
    client.delete(VERIFIED)

    def joined(self: Verification, pipeline: Any, floor: StreamId) -> None:
        offer(self, pipeline, floor)
        stream.note([(StreamId(1000, 0), FIELDS)])

    def pause(seconds: float) -> None:
        offered.append(sorted(map(str, client.hkeys(LOST))))

    clock = SimpleNamespace(sleep=pause, monotonic=lambda: len(offered) * verification.POLL_S, time=time.time)
    monkeypatch.setattr(verification, "time", clock)
    monkeypatch.setattr(verification, "OTHERS_S", verification.POLL_S)
    monkeypatch.setattr(Verification, "_offer", joined)
    stream.verify()
    assert offered == [["1000-0"]]
    stream.close()


def test_others_have_their_time_again_after_a_late_answer(
    redis_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, at, pauses = Stream(redis_url), [0.0], list[float]()
    stream.note([(StreamId(1000, 0), FIELDS)])
    client.delete(VERIFIED)
    ask = verification.Verification.run_id

    def pause(seconds: float) -> None:
        at[0] += seconds
        pauses.append(at[0])

    def late(one: verification.Verification) -> str:
        at[0] += 2 * verification.SLOW_S if len(pauses) == 1 else 0.0
        return ask(one)

    monkeypatch.setattr(verification.Verification, "run_id", late)
    monkeypatch.setattr(verification, "time", SimpleNamespace(sleep=pause, monotonic=lambda: at[0], time=time.time))
    stream.verify()
    assert pauses[-1] >= 2 * verification.SLOW_S + verification.OTHERS_S
    stream.close()


@pytest.mark.parametrize("step", ["_restore", "_raise_to", "_raise_past"])
def test_what_another_writes_while_ids_are_raised_is_seen(
    redis_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Each step runs in a transaction: it begins again, instead of failing on an id that is below the last one."""
    stream = Stream(redis_url, floor=lambda: StreamId(900 if step == "_raise_to" else 0, 0))
    if step == "_restore":
        stream.note([(StreamId(1000, 0), FIELDS)])
        stream._verification._run = client.info("server")["run_id"]  # it has waited for the others
    if step == "_raise_past":
        append(client, FIELDS, "500-0")
        now_s = time.time()
        clock = SimpleNamespace(time=lambda: now_s + 1000.0)
        monkeypatch.setattr(verification, "time", clock)
    else:
        monkeypatch.setattr(verification, "OTHERS_S", 0.0)
    run, ask, others = getattr(verification.Verification, step), last_and_length, list[StreamId]()

    def asked(pipeline: Any, key: str) -> Any:
        told = ask(pipeline, key)
        if not others:
            others.append(append(client, FIELDS, "4000000000000-0"))
        return told

    def watched(one: Any, pipeline: Any, position: StreamId) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(verification, "last_and_length", asked)
            run(one, pipeline, position)

    monkeypatch.setattr(verification.Verification, step, watched)
    stream.verify()
    assert stream.last_id() == others[0]
    stream.close()


def test_an_entry_that_was_written_right_after_another_is_given_back_too(
    stream: Stream, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "OTHERS_S", 0.0)
    last = append(client, FIELDS, "1000-0")
    stream.read(ZERO)
    written = stream.append_after(last, FIELDS)
    assert written is not None
    assert stream.append_after(last, FIELDS) is None
    client.delete(RATINGS)
    stream.verify()
    assert [stream_id for stream_id, _ in client.xrange(RATINGS) or ()] == ["1000-0", str(written)]


def test_who_lacks_the_log_waits_for_the_worker_that_has_it(redis_url: str, client: redis.Redis) -> None:
    """A replica that follows a store offers what it has, and writes nothing before the worker has done the same."""
    replica, worker = Stream(redis_url, loss=Loss.WORKER), Stream(redis_url, floor=lambda: StreamId(900, 0))
    replica.note([(StreamId(1000, 0), FIELDS)])
    client.delete(VERIFIED)
    with pytest.raises(StreamUnavailable, match="start `nearfield worker`"):
        replica.verify()
    assert client.hkeys(LOST) == ["1000-0"]
    assert not client.exists(RATINGS)
    worker._verification._run = client.info("server")["run_id"]  # it has waited for the others
    worker.verify()
    replica.verify()
    assert client.get(TRIMMED) == "900-0"  # what the log has is read from there
    assert [stream_id for stream_id, _ in client.xrange(RATINGS) or ()] == ["1000-0"]
    for stream in (replica, worker):
        stream.close()


def test_an_embedded_server_that_starts_again_is_used_at_once(
    redis_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(redis_url, loss=Loss.NONE)
    append(client, FIELDS, "500-0")
    client.set(VERIFIED, "another one")
    monkeypatch.setattr(verification.Verification, "_await_others", lambda _: pytest.fail("it waits for others"))
    stream.verify()
    assert client.get(VERIFIED) == client.info("server")["run_id"]
    stream.close()


@pytest.mark.parametrize("has_verified", [False, True])
def test_a_server_that_is_replaced_while_it_is_verified_is_verified_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_verified: bool
) -> None:
    servers = [RedisServer(tmp_path)]
    servers[0].start()
    stream = Stream(servers[0].url)

    def replace(seconds: float = 0.0) -> None:
        with redis.Redis.from_url(servers[0].url) as client:
            client.flushall()
        servers[-1].stop()
        servers.append(RedisServer(tmp_path))
        servers[-1].start()

    try:
        if has_verified:
            stream.verify()
            replace()
        stream.note([(StreamId(1000, 0), FIELDS)])
        with monkeypatch.context() as replaced:
            replaced.setattr(
                verification, "time", SimpleNamespace(sleep=replace, monotonic=time.monotonic, time=time.time)
            )
            with pytest.raises(StreamUnavailable, match="replaced while"):
                stream.verify()
        assert len(servers) == 2 + has_verified  # it has noticed at once: the others wait for it at the new server
        monkeypatch.setattr(verification, "OTHERS_S", 0.0)
        stream.verify()
        assert [stream_id for stream_id, _ in stream.read(ZERO).entries][:1] == [StreamId(1000, 0)]
        assert stream.read(ZERO).entries[0][1] == FIELDS
    finally:
        stream.close()
        servers[-1].stop()


def test_what_is_archived_is_awaited_also_from_an_emptied_server(
    stream: Stream, log: RatingLog, client: redis.Redis, rating_entry: Callable[..., Entry]
) -> None:
    append(client, FIELDS, "1000-0")
    client.delete(RATINGS)
    with pytest.raises(LogUnavailable, match="1000-0"):
        archive_up_to(stream, log, StreamId(1000, 0), timeout_s=0.1)
    assert stream.requested_commit() == StreamId(1000, 0)
    commit(log, [rating_entry(1000, ("u", "i", 4.0))])
    assert archive_up_to(stream, log, StreamId(1000, 0), timeout_s=0.1) == StreamId(1000, 0)
    append(client, FIELDS, "2000-0")
    client.xtrim(RATINGS, maxlen=0)
    archive_up_to(stream, log, StreamId(2000, 0), timeout_s=0.1)  # its entry was removed by somebody
    client.delete(RATINGS)
    for stream_id in ("1000-0", "2000-0"):
        append(client, FIELDS, stream_id)
    client.xdel(RATINGS, "2000-0")
    archive_up_to(stream, log, StreamId(2000, 0), timeout_s=0.1)  # the one before is in the log


def test_what_is_archived_is_on_the_disk(
    stream: Stream, log: RatingLog, rating_entry: Callable[..., Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archiver may have renamed a segment just now, and not synced its folder."""
    commit(log, [rating_entry(1000, ("u", "i", 4.0))])
    synced = list[Path]()
    monkeypatch.setattr(files, "sync", synced.append)
    archive_up_to(stream, log, StreamId(1000, 0))
    assert synced == [log.folder]


def test_what_another_process_has_written_is_given_back_too(
    stream: Stream, client: redis.Redis, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.note([(StreamId(3000, 1), FIELDS), (StreamId(3000, 0), FIELDS)])
    assert run(stream.writer.append(FIELDS)) > StreamId(3000, 1)
    assert [stream_id for stream_id, _ in client.xrange(RATINGS) or ()][:2] == ["3000-0", "3000-1"]


def test_a_clock_that_is_behind_gives_no_id_below_ours(
    stream: Stream, client: redis.Redis, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(client, FIELDS, "1-0")
    ahead_s = time.time() + 1000
    monkeypatch.setattr(time, "time", lambda: ahead_s)
    assert run(stream.writer.append(FIELDS)) == StreamId(int(ahead_s * 1000), 1)


def test_a_new_server_gives_no_id_below_those_of_one_whose_clock_was_ahead(
    stream: Stream, client: redis.Redis, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "OTHERS_S", 0.0)
    append(client, FIELDS, "1-0")
    now_s = time.time()
    with monkeypatch.context() as behind:
        behind.setattr(time, "time", lambda: now_s - 1000)
        stream.verify()
    stream._verification._run = "another one"
    assert run(stream.writer.append(FIELDS)) > StreamId(int((now_s + 990) * 1000), 0)


def test_an_id_that_goes_back_is_not_acknowledged(stream: Stream, client: redis.Redis) -> None:
    """Emptied without a new connection, by a server whose clock is behind."""

    async def scenario() -> None:
        await stream.writer.append(FIELDS)
        future = StreamId(4_000_000_000_000, 0)
        append(client, FIELDS, str(future))
        last = await stream.writer.append(FIELDS)
        client.delete(RATINGS)
        with pytest.raises(StreamUnavailable, match=f"after {last}"):
            await stream.writer.append(FIELDS)
        await stream.aclose()

    asyncio.run(scenario())


def test_an_older_copy_of_the_stream_goes_on_above_the_log(
    stream: Stream,
    log: RatingLog,
    client: redis.Redis,
    rating_entry: Callable[..., Entry],
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = [StreamId(1000, 0), StreamId(1001, 0), StreamId(2000, 0)]
    commit(log, [rating_entry(stream_id.ms, ("u", "i", 1.0)) for stream_id in ids])
    monkeypatch.setattr(stream._verification, "_known", log.known)
    for stream_id in ids[:2]:
        append(client, FIELDS, str(stream_id))
    client.xadd(RATINGS, {"v": "noop"}, id="1002-0")
    append(client, FIELDS, "1003-0")
    with pytest.raises(StreamReplaced, match="4 entries up to 1003-0"):
        stream.verify()
    client.xdel(RATINGS, "1003-0")
    assert run(stream.writer.append(FIELDS)) > ids[-1]
    assert next(stream_id for stream_id, _ in stream.read(StreamId(1002, 0)).entries) == ids[-1]


# --- durability


@pytest.fixture
def policy(client: redis.Redis) -> Callable[[str, str], object]:
    return client.config_set


@pytest.mark.parametrize(
    ("name", "value", "usual"),
    [("appendonly", "no", "yes"), ("appendfsync", "no", "always"), ("appendfsync", "everysec", "always")],
)
def test_volatile_servers_are_refused(
    stream: Stream,
    redis_server: RedisServer,
    policy: Callable[[str, str], None],
    name: str,
    value: str,
    usual: str,
    run: Run,
) -> None:
    policy(name, value)
    try:
        with pytest.raises(VolatileServer, match=name):
            run(stream.writer.append(FIELDS))
    finally:
        policy(name, usual)
        stream.rewrite_aof(redis_server.folder)  # once switched on, it is durable from the end of its first rewrite on


def test_a_weaker_policy_can_be_accepted(redis_url: str, policy: Callable[[str, str], None]) -> None:
    policy("appendfsync", "everysec")
    try:
        Stream(redis_url, appendfsync="everysec").verify()
    finally:
        policy("appendfsync", "always")


def test_a_server_that_may_evict_is_refused(stream: Stream, client: redis.Redis) -> None:
    client.config_set("maxmemory", "1gb")
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(VolatileServer, match="noeviction"):
            stream.verify()
    finally:
        client.config_set("maxmemory", "0")
        client.config_set("maxmemory-policy", "noeviction")


def test_forbidden_config_is_only_warned_about(
    redis_server: RedisServer, client: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    client.acl_setuser("narrow", enabled=True, passwords=["+secret"], commands=["+@all", "-config"], keys=["*"])
    try:
        stream = Stream(f"unix://narrow:secret@{redis_server.socket}")
        stream.verify()
        assert not stream._verification.check_promises()
        assert capsys.readouterr().out.count("cannot be checked") == 1
        stream.close()
    finally:
        client.acl_deluser("narrow")


def test_a_server_that_does_not_tell_its_run_gets_no_mark(redis_server: RedisServer, client: redis.Redis) -> None:
    client.acl_setuser("narrow", enabled=True, passwords=["+secret"], commands=["+@all", "-info"], keys=["*"])
    client.delete(VERIFIED)
    try:
        stream = Stream(f"unix://narrow:secret@{redis_server.socket}")
        stream.verify()
        assert stream.is_verified()
        assert client.get(VERIFIED) is None  # by which one that tells it would wait for what it has not lost
        stream.close()
    finally:
        client.acl_deluser("narrow")


# --- Redis gone


def test_a_killed_server_means_unavailable_and_then_goes_on(
    redis_server: RedisServer, stream: Stream, run: Run
) -> None:
    async def scenario() -> None:
        before = await stream.writer.append(FIELDS)
        pid = redis_server.pid
        waiting = [asyncio.create_task(stream.writer.append(FIELDS)) for _ in range(50)]
        await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(result, StreamId | StreamUnavailable) for result in results)
        with pytest.raises(StreamUnavailable):
            stream.read(ZERO)
        for _ in range(500):
            try:
                after = await stream.writer.append(FIELDS)
                break
            except StreamUnavailable:
                await asyncio.sleep(0.02)
        found = [stream_id for stream_id, _ in stream.read(ZERO).entries]
        acknowledged = [result for result in results if isinstance(result, StreamId)]
        assert {before, after, *acknowledged} <= set(found)
        assert len(found) <= 52  # nothing was sent twice

    run(scenario())


def test_an_unreachable_server_is_unavailable() -> None:
    stream = Stream("redis://127.0.0.1:1")
    with pytest.raises(StreamUnavailable):
        asyncio.run(stream.writer.append(FIELDS))
    with pytest.raises(StreamUnavailable):
        stream.last_id()


def test_a_cancelled_request_does_not_disturb_the_others(stream: Stream, run: Run) -> None:
    async def scenario() -> tuple[list[StreamId], int]:
        await stream.writer.append(FIELDS)
        first = asyncio.create_task(stream.writer.append(FIELDS))
        await asyncio.sleep(0)
        first.cancel()
        return await append_many(stream, 3), len(stream.read(ZERO).entries)

    ids, n = run(scenario())
    assert ids == sorted(set(ids))
    assert n == 5


def test_entries_that_were_kept_are_added_again_as_the_documents_say(
    redis_url: str, log: RatingLog, client: redis.Redis
) -> None:
    stream = Stream(redis_url, log.last_id)
    append(client, FIELDS, "2000-0")
    stream.read(ZERO)
    client.delete(RATINGS)
    append(client, FIELDS, "1500-0")
    append(client, FIELDS, "1600-0")
    with pytest.raises(StreamReplaced, match="RENAME"):
        stream.verify()
    client.rename(RATINGS, f"{RATINGS}:kept")
    stream.verify()
    text = (Path(__file__).parents[4] / "docs" / "faults.md").read_text("utf-8")
    script = text.split('redis-cli EVAL "')[1].split('" 2 ')[0]
    client.eval(script, 2, f"{RATINGS}:kept", RATINGS, "1600-0")
    found = stream.read(StreamId(2000, 0)).entries
    assert [fields for _, fields in found] == [FIELDS]
    stream.close()


def test_a_server_in_cluster_mode_is_refused(tmp_path: Path) -> None:
    """Forgetting would fail half way, since its keys lie on several nodes."""
    path = tmp_path / "s"
    settings = "--port 0 --appendonly yes --appendfsync always --cluster-enabled yes --cluster-port 16399"
    command = [str(find_binary()), *settings.split(), "--save", "", "--unixsocket", str(path), "--dir", str(tmp_path)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    stream = Stream(f"unix://{path}")
    try:
        eventually(path.exists, 60)
        with pytest.raises(VolatileServer, match="cluster-enabled of the Redis server: expected no, got yes"):
            stream.verify()
    finally:
        stream.close()
        server.kill()
        server.wait()
