import errno
import gc
import shutil
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu.algorithms import params_for
from gpu.base import free_memory
from gpu.base.backend import Backend
from gpu.base.errors import BackendUnavailable
from gpu.data.model import bytes_of
from service.engine import compilation
from service.engine.errors import UnknownItem, UnknownUser
from service.engine.queries import Estimate, Neighbors, Query, Recommend, UserRatings
from service.engine.state.history import History
from service.jobs.training import Training
from service.storage import files
from service.storage.errors import CorruptLiveFile, CorruptSnapshot, UnknownVersion
from service.storage.events import RatingEvent, StreamId, encode_ratings
from service.storage.snapshots import live_versions, snapshot, version_names
from tests.service.planted import SMALL, events
from tests.service.trained import train
from tests.service.waiting import eventually
from tests.service.whole import SEEN_S, Whole

LATER = [
    ("u1", "i0", 2.0),
    ("u2", "i1", None),
    ("fresh", "i3", 5.0),
    ("fresh", "i5", 4.0),
    ("u3", "brand-new", 5.0),
    ("u5", "brand-new", 4.0),
    ("fresh", "brand-new", 1.0),
    ("u1", "i0", 1.0),
    ("u4", "i2", 3.0),
]


def state(whole: Whole, algorithm: str) -> dict[str, np.ndarray]:
    """Every parameter of a live model, in order of ids, so that two processes can be compared."""
    eventually(lambda: not whole.engine._catch_up.is_behind)  # before, it depends on how far that is
    history = whole.engine.history
    live_model = next(model for model in whole.engine.models() if model.name == algorithm)
    users = sorted((user, row) for row, user in enumerate(history.users.ids(range(len(history.users)))) if user)
    items = sorted((item, row) for row, item in enumerate(history.items.ids(range(len(history.items)))))
    rows = {"U": [row for _, row in users], "I": [row for _, row in items]}
    id_of = {row: item for item, row in items}
    found = {}
    for name, array in live_model.model.arrays.items():
        rows_of_both = rows["U" if name.startswith("user") else "I"]
        found[name] = array if name == "item_weights" else array[rows_of_both]
    found["neighbors"] = np.array([[id_of.get(row, "") for row in line] for line in found["neighbors"].tolist()])
    found["user_trained"] = np.zeros(0)  # whether a row is from the snapshot may differ
    return found


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


@pytest.mark.parametrize(
    "algorithm", ["culsh", "culsh-implicit", "sgd", "esgd", "als", "als-implicit", "ease", "neighbors"]
)
def test_a_restart_gives_the_state_that_streaming_gave(redis_url: str, tmp_path: Path, algorithm: str) -> None:
    params = (
        SMALL
        if algorithm.startswith("culsh")
        else {}
        if algorithm in ("ease", "neighbors")
        else {"n_factors": 8, "n_epochs": 3}
    )
    with Whole(redis_url, tmp_path) as first:
        first.send(events())
        first.train(algorithm, **params)
        for rating in LATER:  # one at a time, where the restart reads them all at once
            first.rate(rating)
        first.subject("forget", "u7")
        first.rate(("u7", "i9", 5.0))
        streamed, as_of = state(first, algorithm), first.engine.as_of
        shown = [first.recommend(user, n=8) for user in ("u1", "fresh", "u7", "u20")]
    with Whole(redis_url, tmp_path) as second:
        assert second.engine.as_of == as_of
        assert_same(streamed, state(second, algorithm))
        for answer in shown:
            assert second.recommend(str(answer.user), n=8) == answer


def test_a_model_that_does_not_fit_beside_the_live_one_is_refused(
    whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole.send(events())
    first = whole.train("culsh", **SMALL)
    manifest = snapshot.read_manifest(whole.data / "snapshots", first)
    second = whole.trained("culsh", **SMALL)
    with monkeypatch.context() as patched:
        patched.setattr(free_memory, "free_bytes", lambda: 12_345)
        live_versions.set_version(whole.data, "culsh", second)
        whole.hotswap.poke()
        eventually(lambda: whole.hotswap.failures.reason_of(second) is not None)
    users, items = bytes_of(params_for("culsh", manifest.parameters), manifest.n_users, manifest.n_items)
    expected = f"NotEnoughMemory: {second} in addition to the models that answer (host) needs about"
    assert whole.hotswap.failures.reason_of(second) == f"{expected} {3 * users + 3 * items:,} bytes and 12,345 are free"
    assert whole.hotswap.served() == {"culsh": first}
    assert whole.recommend("u1").personalized
    whole.hotswap.activate(second)
    eventually(lambda: whole.hotswap.served() == {"culsh": second})


def test_memory_of_the_replaced_model_is_released(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[dict[str, str]] = []
    monkeypatch.setattr(Backend, "release", lambda backend: served.append(whole.hotswap.served()))
    whole.send(events())
    versions = [whole.train("sgd", n_factors=8, n_epochs=2) for _ in range(2)]
    eventually(lambda: {"sgd": versions[1]} in served)


def test_a_start_without_room_takes_the_model_in_when_there_is_some(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Whole(redis_url, tmp_path) as first:
        first.send(events())
        version = first.train("sgd", n_factors=8, n_epochs=2)
    with monkeypatch.context() as patched:
        patched.setattr(free_memory, "free_bytes", lambda: 1)
        with Whole(redis_url, tmp_path) as second:
            eventually(lambda: second.hotswap.failures.reason_of(version) is not None)
            assert not second.recommend("u1").personalized
            patched.undo()
            eventually(lambda: second.hotswap.served() == {"sgd": version})
            eventually(lambda: second.hotswap.failures.reason_of(version) is None)
            assert second.recommend("u1").personalized


def test_a_new_model_catches_up_before_it_answers(whole: Whole) -> None:
    whole.send(events())
    whole.train("culsh", **SMALL)
    versions, positions, stop = set(), [], threading.Event()

    def ask() -> None:
        while not stop.is_set():
            answer = whole.recommend("u1", n=3)
            assert answer.personalized
            versions.add(answer.model_version)
            positions.append(StreamId.parse(answer.as_of))
            time.sleep(0.002)  # the trainer gets what others leave of a core

    asking = threading.Thread(target=ask)
    asking.start()
    job = whole.jobs.submit_training(Training.of("culsh", SMALL))
    for n in range(60):
        whole.rate((f"w{n}", f"i{n % 40}", 5.0), (f"w{n}", f"i{(n + 2) % 40}", 4.0))
    job = whole.ended(job)
    eventually(lambda: len(versions) == 2 or not asking.is_alive())  # it asks once more
    stop.set()
    asking.join()
    assert job.state == "succeeded"
    assert len(versions) == 2
    assert positions == sorted(positions)
    assert whole.hotswap.served() == {"culsh": job.version}
    assert whole.recommend("w59").personalized


def test_a_model_waits_for_the_entries_that_it_was_trained_on(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker elsewhere may have read what this process, behind a slow link to Redis, has yet to learn."""
    older, newer = events()[:300], events()[300:]
    whole.send(older)
    first = whole.train("als", n_factors=8)
    may_learn, looks = threading.Event(), list[float]()
    learn, step = whole.engine.learn, whole.hotswap.step
    monkeypatch.setattr(whole.engine, "learn", lambda *given: may_learn.wait(SEEN_S) and learn(*given))

    def look() -> None:
        step()
        looks.append(time.monotonic())

    def has_looked_twice_since(then_s: float) -> bool:
        whole.hotswap.poke()
        return sum(look_s > then_s for look_s in looks) > 1

    monkeypatch.setattr(whole.hotswap, "step", look)
    last = whole.append(encode_ratings(newer), is_seen=False)
    whole.stream.request_commit(last)
    eventually(lambda: whole.log.last_id() >= last)
    second = str(train(whole.data, "als", {"n_factors": 8}, last).version)
    live_versions.set_version(whole.data, "als", second)
    set_s = time.monotonic()
    eventually(lambda: has_looked_twice_since(set_s))
    assert whole.hotswap.served() == {"als": first}
    whole.hotswap.end("als")
    eventually(lambda: whole.hotswap.served() == {})
    live_versions.set_version(whole.data, "als", second)
    eventually(lambda: whole.hotswap.served() == {"als": first})  # better than none meanwhile
    may_learn.set()
    eventually(lambda: whole.hotswap.served() == {"als": second})
    assert whole.recommend("u59").personalized
    found = state(whole, "als")
    whole.hotswap.activate(first)
    eventually(lambda: whole.hotswap.served() == {"als": first})
    whole.hotswap.activate(second)  # now beside the whole history
    eventually(lambda: whole.hotswap.served() == {"als": second})
    assert_same(found, state(whole, "als"))


def test_nothing_holds_the_model_before(whole: Whole) -> None:
    """Its memory, on a device too, is free once the new one answers."""
    whole.send(events())
    whole.train("culsh", **SMALL)
    before = [weakref.ref(held) for live_model in whole.engine.models() for held in (live_model, live_model.online)]
    gc.disable()  # nothing waits for the collector
    try:
        whole.train("culsh", **SMALL)
        whole.rate(("u1", "i1", 3.0))
        eventually(lambda: all(held() is None for held in before))
    finally:
        gc.enable()


def test_a_batch_with_an_error_does_not_hold_the_model_before(whole: Whole) -> None:
    """An exception holds the frames that it passed, and these the batch: the collector has to see all of it."""
    whole.send(events())
    whole.train("als", n_factors=4)
    (live_model,) = whole.engine.models()
    before = weakref.ref(live_model)
    queries: list[Query] = [Recommend(user="u1"), Neighbors(kind="item", id="unknown")]
    answers = whole.engine._ranking.answer(queries, StreamId(1, 1))
    assert isinstance(answers[1], UnknownItem)
    del live_model, answers
    whole.train("als", n_factors=4)

    def is_gone() -> bool:
        gc.collect()
        return before() is None

    eventually(is_gone)


def test_a_second_model_of_an_algorithm_compiles_nothing(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it looked for: a kernel that only others call may be in no cache, and processes were started for it."""
    prepared: list[list[str]] = []
    real = compilation.prepare

    def spy(names: list[str], *rest: Any) -> Any:
        prepared.append(names)
        return real(names, *rest)

    monkeypatch.setattr(compilation, "prepare", spy)
    whole.send(events())
    for algorithm in ("als", "als", "sgd", "als"):
        whole.train(algorithm, n_factors=4)
    assert prepared == [["als"], ["sgd"]]


def test_a_start_verifies_models_once_and_reads_the_first_one_while_the_log_is_read(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Whole(redis_url, tmp_path) as whole:
        whole.send(events())
        for algorithm in ("als", "sgd"):
            whole.train(algorithm, n_factors=4, n_epochs=2)
    read_log, load, digest = History.load, snapshot.load, files.sha256_of
    both_loaded, is_read = threading.Event(), threading.Event()
    loaded, digested = list[tuple[str, bool]](), list[Path]()

    def read_late(history: History, *arguments: Any, **options: Any) -> None:
        assert both_loaded.wait(60)
        read_log(history, *arguments, **options)
        is_read.set()

    def spy_on_load(folder: Path, version: str, *arguments: Any) -> Any:
        loaded.append((version_names.name_of(version), is_read.is_set()))
        try:
            return load(folder, version, *arguments)
        finally:
            if len(loaded) > 1:
                both_loaded.set()

    def spy_on_digest(path: Path) -> str:
        digested.append(path)
        return digest(path)

    monkeypatch.setattr(History, "load", read_late)
    monkeypatch.setattr(snapshot, "load", spy_on_load)
    monkeypatch.setattr(files, "sha256_of", spy_on_digest)
    with Whole(redis_url, tmp_path) as whole:
        assert sorted(whole.hotswap.served()) == ["als", "sgd"]
        assert whole.recommend("u1").items
    (first, _), (second, _) = loaded[:2]
    assert loaded == [(first, False), (second, False), (second, True)]
    assert len(digested) == len(set(digested)) == 6


def test_two_models_by_name(whole: Whole) -> None:
    whole.send(events())
    whole.train("culsh", **SMALL)
    whole.train("culsh-implicit", **SMALL)
    assert list(whole.hotswap.served()) == ["culsh-implicit", "culsh"]
    assert whole.recommend("u1").model == "culsh-implicit"
    assert whole.recommend("u1", model="culsh").model == "culsh"
    whole.rate(("x", "i1", 5.0), ("x", "i3", 5.0))
    assert whole.recommend("x", model="culsh").personalized
    assert whole.recommend("x").personalized
    assert [info.live for info in whole.hotswap.models()] == [True, True]


def test_rolling_back_and_pruning(whole: Whole) -> None:
    whole.send(events())
    made = [whole.train("culsh", **SMALL, seed=seed) for seed in range(4)]
    snapshot.prune(whole.data / "snapshots", "culsh", made[3])
    assert set(snapshot.versions(whole.data / "snapshots")) == set(made[1:])
    assert whole.hotswap.served() == {"culsh": made[3]}
    whole.hotswap.activate(made[1])
    eventually(lambda: whole.hotswap.served() == {"culsh": made[1]})
    assert whole.recommend("u1").model_version == made[1]
    assert live_versions.read(whole.data) == {"culsh": made[1]}
    assert [info.version for info in whole.hotswap.models() if info.live] == [made[1]]
    with pytest.raises(UnknownVersion):
        whole.hotswap.activate(made[0])


def test_a_corrupt_snapshot_is_refused_and_the_old_model_stays(whole: Whole) -> None:
    whole.send(events())
    good = whole.train("culsh", **SMALL)
    folder = whole.data / "snapshots"
    bad = version_names.new_version("culsh")
    shutil.copytree(folder / good, folder / bad)
    with pytest.raises(CorruptSnapshot):
        whole.hotswap.activate(bad)
    live_versions.set_version(whole.data, "culsh", bad)  # as if the disk had failed after it was verified
    eventually(lambda: whole.hotswap.failures.reason_of(bad) is not None)
    assert "manifest" in str(whole.hotswap.failures.reason_of(bad)) or bad in str(whole.hotswap.failures.reason_of(bad))
    assert whole.hotswap.served() == {"culsh": good}
    assert whole.recommend("u1").personalized
    assert next(info for info in whole.hotswap.models() if info.version == bad).error


def test_a_swap_that_finds_the_device_gone_stops_the_service(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: Backend) -> None:
        raise BackendUnavailable("The device has failed")

    with Whole(redis_url, tmp_path) as whole:
        whole.send(events())
        version = whole.trained("sgd", n_factors=8, n_epochs=2)
        (tmp_path / "snapshots" / version / "arrays.safetensors").write_bytes(b"torn")
        monkeypatch.setattr(Backend, "check", gone)
        live_versions.set_version(tmp_path, "sgd", version)
        eventually(lambda: bool(whole.failures))
        assert isinstance(whole.engine.failure, BackendUnavailable)


def test_a_start_with_a_corrupt_live_model_is_logged_and_serves(redis_url: str, tmp_path: Path) -> None:
    with Whole(redis_url, tmp_path) as first:
        first.send(events())
        version = first.train("sgd", n_factors=8, n_epochs=2)
    (tmp_path / "snapshots" / version / "arrays.safetensors").write_bytes(b"torn")
    with Whole(redis_url, tmp_path) as second:
        assert second.hotswap.served() == {}
        assert "arrays.safetensors" in str(second.hotswap.failures.reason_of(version))
        answer = second.recommend("u1")
        assert (answer.personalized, answer.model, len(answer.items)) == (False, None, 8)


def test_a_start_with_a_corrupt_live_model_answers_from_the_one_before(redis_url: str, tmp_path: Path) -> None:
    with Whole(redis_url, tmp_path) as first:
        first.send(events())
        made = [first.train("sgd", n_factors=8, n_epochs=n) for n in (2, 3, 4)]
        later = first.trained("sgd", n_factors=8, n_epochs=1)  # was never live
        first.rate(("late", "i2", 5.0))
    versions = snapshot.versions(tmp_path / "snapshots", "sgd")
    assert sorted(versions) == sorted([*made, later])
    for version in made[1:]:
        (tmp_path / "snapshots" / version / "arrays.safetensors").write_bytes(b"torn")
    with Whole(redis_url, tmp_path) as second:
        assert second.hotswap.served() == {"sgd": made[0]}
        assert second.recommend("late").model_version == made[0]
        assert live_versions.read(tmp_path) == {"sgd": made[2]}
        assert all(second.hotswap.failures.reason_of(version) for version in made[1:])
        assert second.train("sgd", n_factors=8, n_epochs=2) == second.hotswap.served()["sgd"]


def test_a_start_without_the_files_of_the_live_model_answers_from_the_newest(redis_url: str, tmp_path: Path) -> None:
    with Whole(redis_url, tmp_path) as first:
        first.send(events())
        made = [first.train("sgd", n_factors=8, n_epochs=n) for n in (2, 3, 4)]
    shutil.rmtree(tmp_path / "snapshots" / made[2])
    with Whole(redis_url, tmp_path) as second:
        assert second.hotswap.served() == {"sgd": made[1]}
        assert "there is no snapshot" in str(second.hotswap.failures.reason_of(made[2]))


def test_a_live_file_that_cannot_be_read_for_a_while_is_read_later(
    whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole.send(events())
    version = whole.trained("sgd", n_factors=8, n_epochs=2)
    read_all, failures = live_versions.read_all, [OSError(errno.EMFILE, "too many open files")] * 2

    def read(data: Path) -> live_versions.Live:
        if failures and threading.current_thread().name == "hotswap":
            raise CorruptLiveFile(str(failures.pop()))
        return read_all(data)

    monkeypatch.setattr(live_versions, "read_all", read)
    live_versions.set_version(whole.data, "sgd", version)
    eventually(lambda: not failures)
    eventually(lambda: whole.hotswap.served() == {"sgd": version})
    assert whole.engine.readiness.ready


def test_a_promoted_version_is_activating_until_it_answers(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    whole.send(events())
    job = whole.ended(whole.jobs.submit_training(Training.of("culsh", SMALL)))
    assert job.state == "succeeded"
    assert whole.hotswap.served() == {"culsh": job.version}
    monkeypatch.setattr(whole.jobs, "_served", lambda: {"culsh": "another"})
    assert whole.jobs.get(job.id).state == "activating"
    monkeypatch.setattr(whole.jobs, "_swap_failure", lambda version: "torn")
    assert (whole.jobs.get(job.id).state, whole.jobs.get(job.id).error) == ("failed", "torn")
    live_versions.set_version(whole.data, "culsh", "culsh-20200101T000000-beef")
    assert whole.jobs.get(job.id).state == "succeeded"


def test_a_user_forgotten_while_a_model_is_mapped_stays_forgotten(whole: Whole) -> None:
    whole.send(events())
    whole.train("culsh", **SMALL)
    job = whole.jobs.submit_training(Training.of("culsh", SMALL))
    for n in range(5):
        whole.subject("forget", f"u{n}")
    assert whole.ended(job).state == "succeeded"
    for n in range(5):
        with pytest.raises(UnknownUser):
            whole.ask(UserRatings(user=f"u{n}"))
        assert not whole.recommend(f"u{n}").personalized
    similar = whole.ask(Neighbors(kind="user", id="u9", n=60)).neighbors
    assert not {f"u{n}" for n in range(5)} & {one.user for one in similar}


def test_new_items_have_neighbors_and_are_recommended(whole: Whole) -> None:
    whole.send(events())
    whole.train("culsh", **SMALL | {"n_epochs": 20})
    whole.send([RatingEvent(f"u{user}", "brand-new", 5.0 if user % 2 == 0 else 1.0, 1.0) for user in range(40)])
    found = whole.ask(Neighbors(kind="item", id="brand-new", n=4))
    assert len(found.neighbors) == 4
    assert sum(int(one.item[1:]) % 2 == 0 for one in found.neighbors) >= 3
    likes, dislikes = (whole.ask(Estimate(user=user, item="brand-new")).estimate for user in ("u44", "u45"))
    assert likes > dislikes + 1
