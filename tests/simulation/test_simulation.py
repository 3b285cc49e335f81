"""Every world keeps the promises; and no world would, if one of the bugs that were repaired came back."""

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from service.engine.model_swap import HotSwap
from service.extras.stores import publisher
from service.settings.keyspace import DEFAULT
from service.storage import archiver, exclusion, files
from service.storage.events import ZERO, StreamId
from service.storage.log.segment_folder import SegmentFolder
from service.storage.streams import verification
from service.storage.streams.offering import Offering
from service.storage.streams.redis_client import TRIM
from service.storage.streams.stream import Stream
from service.storage.streams.tail import Tail
from service.storage.streams.verification import Verification
from tests.faults import results
from tests.simulation import processes
from tests.simulation.__main__ import count
from tests.simulation.disk import Disk
from tests.simulation.redis_server import Connection, Server
from tests.simulation.run import Simulation, run_part, run_worlds
from tests.simulation.virtual import World

SHORT = 1000  # worlds of `make test`
A_TRIAL = 500  # worlds for each trial of `make faults`
MOST = 10_000  # worlds in which a planted bug must show


def broken(seed: int) -> list[str]:
    return Simulation(seed).run()


def test_every_promise_is_kept_in_every_world() -> None:
    if results.IS_LONG:
        row = results.row("everything at once, in simulated time")
        row.n_trials = A_TRIAL * results.TRIALS
        outcomes = list(run_worlds(range(row.n_trials), os.cpu_count() or 1))
        row.n_acknowledged = sum(n for _, n in outcomes)
    else:
        outcomes = [run_part(range(SHORT))]
    failures = {seed: promises for failures, _ in outcomes for seed, promises in failures.items()}
    assert not failures, f"python -m tests.simulation {' '.join(map(str, failures))}\n{failures}"


def test_a_world_is_the_same_each_time() -> None:
    first, second = Simulation(7), Simulation(7)
    assert first.run() == second.run()
    assert first.cluster.truth.written == second.cluster.truth.written
    assert first.world.time() == second.world.time()


def test_many_worlds_are_counted_and_those_that_break_a_promise_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not count(range(2), 2)
    with monkeypatch.context() as patch:
        no_folder_synced(patch)
        assert count(range(2), 2)
    kept, broken = capsys.readouterr().out.split("a second in each\n")[:2]
    assert kept.startswith("2 worlds, ") and ", 0 worlds broke a promise\n" in kept
    assert broken.startswith("python -m tests.simulation 0: ") and " worlds broke a promise\n" in broken


def test_what_redis_had_lost_before_was_not_trimmed() -> None:
    told = list[tuple[StreamId, list[StreamId]]]()
    with contextlib.closing(World(0)) as world:
        server = Server(world)
        server.on_trim = lambda upto, removed: told.append((upto, removed))
        first, second, third = (StreamId.parse(server.xadd(DEFAULT.ratings, {}).decode()) for _ in range(3))
        server.set(DEFAULT.trimmed, str(second))  # as it got back what no log has
        for upto, after in ((second, first), (third, third)):
            keys = DEFAULT.ratings, DEFAULT.trimmed, DEFAULT.never
            server.eval(TRIM, len(keys), *keys, str(upto), str(StreamId(after.ms, after.seq + 1)))
    assert told == [(ZERO, [first]), (third, [second, third])]


def test_a_redis_that_is_killed_closes_its_connections_in_the_order_of_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = list[int]()
    with contextlib.closing(World(0)) as world:
        monkeypatch.setattr(Connection, "server", Server(world), raising=False)
        for number in range(100):
            Connection(functools.partial(closed.append, number))
        Connection.server.kill()
    assert closed == list(range(100))


def test_a_world_ends_when_the_log_has_all_that_redis_has() -> None:
    simulation, quiet = Simulation(0), list[bool]()

    def end() -> None:
        quiet.append(simulation._is_quiet(0))
        simulation.cluster.server.xadd(DEFAULT.ratings, {})  # a reply is still on its way, and an engine may learn it
        quiet.append(simulation._is_quiet(0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "_check", end)
        assert simulation.run() == []
    assert quiet == [True, False]


# --- bugs that were repaired


def the_clock_of_redis(patch: pytest.MonkeyPatch) -> None:
    """Ids went back with the clock of a Redis that had been replaced, before all gave back what they had."""
    a_new_process_goes_first(patch)
    patch.setattr(Verification, "_raise_past", lambda self, pipeline, bound: pipeline.multi())
    patch.setattr(Tail, "highest", property(lambda tail: ZERO, lambda tail, stream_id: None), raising=False)


def replaced_while_connecting(patch: pytest.MonkeyPatch) -> None:
    """A front wrote to a Redis that had taken the place of the one that was verified."""
    patch.setattr(Stream, "verify_run", lambda stream, run: None)


def nothing_given_back(patch: pytest.MonkeyPatch) -> None:
    """A Redis that came back older stayed without what a process still had."""
    patch.setattr(Tail, "after", lambda tail, position: [])


def forgotten_in_training(patch: pytest.MonkeyPatch) -> None:
    """A user who was forgotten during a training came back with its model."""

    @contextlib.contextmanager
    def free(*_: object, **__: object) -> Iterator[None]:
        yield

    patch.setattr(exclusion, "try_take", free)
    patch.setattr(processes, "without_forgotten", lambda data, log, version: version)


def the_archiver_gives_up(patch: pytest.MonkeyPatch) -> None:
    """An error ended the archiver."""

    def run(self: Any) -> None:
        with contextlib.suppress(Exception):
            while self._lock is not None or self._acquire():
                self.step()

    patch.setattr(archiver.Archiver, "_run", run)


def trimmed_too_early(patch: pytest.MonkeyPatch) -> None:
    """What was read left the stream before the log had it."""
    patch.setattr(archiver.OwnLog, "upto", lambda keeper: keeper._stream.newest())


def no_file_synced(patch: pytest.MonkeyPatch) -> None:
    """A rename was on the disk before the content of the file."""
    sync = Disk.fsync
    patch.setattr(Disk, "fsync", lambda disk, fd: sync(disk, fd) if Path(f"/proc/self/fd/{fd}").is_dir() else None)


def no_folder_synced(patch: pytest.MonkeyPatch) -> None:
    """A rename was not on the disk on return."""
    patch.setattr(files, "sync", lambda path: None)


def committed_again(patch: pytest.MonkeyPatch) -> None:
    """A commit that had failed after its rename was written again, with users who were forgotten since."""

    def commit(self: Any) -> None:
        if self._has_pending:
            self._to_columns()
            self._rating_log.files.write(self._first, self._last, [pa.concat_tables(self._pending)])
            self._pending, self.n_pending = [], 0

    patch.setattr(archiver.Archiver, "_commit", commit)


def settled_too_early(patch: pytest.MonkeyPatch) -> None:
    """A forgetting trimmed what the store did not have, or what was not on the disk."""
    patch.setattr(SegmentFolder, "settle", lambda folder: None)
    patch.setattr(publisher.Publisher, "settle", lambda sender: None)


def a_new_process_goes_first(patch: pytest.MonkeyPatch) -> None:
    """A process that started wrote to a Redis that had lost what only others still had."""
    patch.setattr(Verification, "_is_verified", lambda self, run, last: True)


def others_may_hang(patch: pytest.MonkeyPatch) -> None:
    """A process went on while Redis did not answer the others."""

    def wait(self: Any, run: str, floor: StreamId, _: int) -> None:
        vars(verification)["time"].sleep(verification.OTHERS_S)
        self._change(run, lambda pipeline: self._offer(pipeline, floor))

    patch.setattr(Verification, "_await_others", wait)


def fronts_offer_nothing(patch: pytest.MonkeyPatch) -> None:
    """A front whose engine was away kept what only it had."""

    async def offer(self: Any, connection: Any) -> None:
        del self, connection

    patch.setattr(Offering, "_offer", offer)


def joined_too_late(patch: pytest.MonkeyPatch) -> None:
    """What a front told while its process waited for the others was not offered to them."""
    fronts_offer_nothing(patch)
    patch.setattr(Tail, "__len__", lambda tail: 0)


def swapped_in_too_early(patch: pytest.MonkeyPatch) -> None:
    """A model answered in a process that had not learned yet what the model was trained on, and lost these users."""
    patch.setattr(HotSwap, "_is_ahead", lambda swap, version: False)


LOST = r"acknowledged and is not in the log|without learning it|given to two entries|was acknowledged after|differ at"
EARLY = "trimmed"
FORGOTTEN = "was forgotten|of a forgotten user"
STUCK = "does not recover"
UNLEARNED = "answers without what it has learned"
# By bug: the promise that it breaks, and a world in which it shows today. Else those that follow are tried.
PLANTED: dict[Callable[[pytest.MonkeyPatch], None], tuple[str, int]] = {
    the_clock_of_redis: (LOST, 26),
    replaced_while_connecting: (LOST, 3),
    nothing_given_back: (LOST, 3),
    forgotten_in_training: (FORGOTTEN, 1065),
    the_archiver_gives_up: (STUCK, 4),
    trimmed_too_early: (EARLY, 2),
    no_file_synced: (EARLY, 0),
    no_folder_synced: (EARLY, 0),
    committed_again: (FORGOTTEN, 182),
    settled_too_early: (EARLY, 0),
    a_new_process_goes_first: (LOST, 26),
    others_may_hang: (LOST, 2283),
    joined_too_late: (LOST, 22),
    fronts_offer_nothing: (LOST, 1718),
    swapped_in_too_early: (UNLEARNED, 6268),
}


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_bug_that_comes_back_breaks_a_promise(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    promise, first = PLANTED[bug]
    first = 0 if results.IS_LONG else first
    with monkeypatch.context() as patch:
        bug(patch)
        seed = next((seed for seed in range(first, first + MOST) if re.search(promise, " ".join(broken(seed)))), None)
    assert seed is not None, bug.__doc__
    results.MEASURED.append(f"* {bug.__doc__} It shows in world {seed:,}.")
    assert broken(seed) == []
