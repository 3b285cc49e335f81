"""Snapshots whose files were changed, with digests that fit, and what a service makes of them."""

import hashlib
import json
import math
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

import gpu
from gpu.base.backend import HOST
from gpu.online import prepare_online
from service.base.errors import ServiceError
from service.engine.lists.ranking import Ranking
from service.engine.models.live_model import LiveModel, rows_of
from service.engine.queries import Estimate, Neighbors, Query, Recommend
from service.engine.state.history import History
from service.storage.events import Entry, RatingEvent, StreamId
from service.storage.snapshots import snapshot
from service.storage.snapshots.snapshot_files import ARRAYS_FILE
from tests.service.planted import SMALL, entries

N_USERS, N_ITEMS = 20, 16
WATERMARK = StreamId(1000, 0)
Arrays = dict[str, NDArray[Any]]
Rows = tuple[NDArray[np.int64], NDArray[np.int64]]


def trained(folder: Path, algorithm: str) -> str:
    """The version of a small trained model."""
    known = gpu.ALGORITHMS[algorithm].params
    small = {name: value for name, value in SMALL.items() if name in known.__dataclass_fields__}
    pairs = [(int(one.user[1:]), int(one.item[1:]), one.rating) for entry in ratings() for one in entry.ratings]
    users, items, values = map(np.array, zip(*pairs, strict=True))
    given = gpu.Ratings.from_coo(users, items, values.astype(np.float32), (N_USERS, N_ITEMS))
    times = gpu.Times(np.arange(len(given), dtype=np.float64), float(len(given)))
    model = gpu.fit(given, gpu.params_for(algorithm, small), times=times)
    ids = [f"u{n}" for n in range(N_USERS)], [f"i{n}" for n in range(N_ITEMS)]
    return snapshot.write(folder, model, *ids, metrics={}, watermark=str(WATERMARK), n_ratings=len(pairs)).version


def ratings() -> list[Entry]:
    return entries(n_users=N_USERS, n_items=N_ITEMS)


def arrays_of(path: Path) -> Arrays:
    """The arrays of a snapshot."""
    with safe_open(path / ARRAYS_FILE, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)


def state(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest of a snapshot, and its digest with it."""
    document = json.loads((path / snapshot.MANIFEST_FILE).read_bytes())
    change(document)
    put(path, json.dumps(document).encode())


def put(path: Path, manifest: bytes) -> None:
    """Put a manifest in place, and its digest."""
    (path / snapshot.MANIFEST_FILE).write_bytes(manifest)
    (path / snapshot.DIGEST_FILE).write_text(hashlib.sha256(manifest).hexdigest() + "\n")


def replace(path: Path, name: str, content: bytes) -> None:
    """Replace a file of a snapshot, and its digest in the manifest."""
    (path / name).write_bytes(content)
    state(path, lambda document: document["files"].update({name: hashlib.sha256(content).hexdigest()}))


def replace_arrays(path: Path, arrays: Arrays) -> None:
    """Replace the arrays of a snapshot."""
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path / "new")
    content = (path / "new").read_bytes()
    (path / "new").unlink()
    replace(path, ARRAYS_FILE, content)


def answers(loaded: snapshot.Snapshot) -> Iterator[float]:
    """All numbers of lists of a service that has this model, before and after it has learned."""
    history = History()
    history.apply(ratings())
    table = history.table_of(has_strengths=loaded.model.is_implicit)
    users, items = _done(rows_of(loaded, history))
    model = loaded.model.mapped(users, items, table.n_users, table.n_items)
    ready = prepare_online(model, table, history.users.keys, history.items.keys, HOST)
    live_model, ranking = LiveModel(loaded.manifest, ready, history, loaded.content), Ranking(history, ["any"])
    ranking.install(live_model)
    for n in range(2):
        applied = history.apply([Entry(StreamId(9000 + n, 0), "rating", [RatingEvent(f"new{n}", "i1", 4.0, 0.0)])])
        ranking.note(applied)
        live_model.learn(applied)
        while not (live_model.settle(1.0) and live_model.catch_up(1.0)):
            pass
        asking = (*(f"u{user}" for user in range(0, N_USERS, 3)), "new0")
        asked: list[Query] = [
            Recommend(users=asking),
            Recommend(user="u1", explain=True),
            Recommend(ratings=[("i2", 5.0)]),
        ]
        asked += [Neighbors(kind="item", id="i3"), Neighbors(kind="user", id="u1"), Estimate(user="u1", item="i1")]
        for answer in ranking.answer(asked, StreamId(9000 + n, 0)):
            if isinstance(answer, ServiceError):  # such a model makes no such answers
                continue
            if isinstance(answer, Exception):
                raise answer
            yield from _numbers(answer)


def _done(steps: Generator[None, None, Rows]) -> Rows:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            rows: Rows = end.value
            return rows


def are_finite(loaded: snapshot.Snapshot) -> bool:
    """Whether all numbers of `answers` are finite."""
    return all(map(math.isfinite, answers(loaded)))


def _numbers(answer: Any) -> Iterator[float]:
    if isinstance(answer, int | float):
        yield float(answer)
    elif isinstance(answer, list | tuple):
        for part in answer:
            yield from _numbers(part)
    elif hasattr(answer, "__struct_fields__"):
        for name in answer.__struct_fields__:
            yield from _numbers(getattr(answer, name))
