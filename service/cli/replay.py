"""`nearfield replay`: rebuilds the state of a service at a position, and shows it by digests and lists."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

import gpu
from service.base.errors import InvalidRequest
from service.engine.queries import Recommend
from service.engine.rebuilt import Rebuilt, history_at, rebuild
from service.settings.half_lives import parse_half_lives
from service.settings.settings import Settings
from service.storage import files
from service.storage.events import StreamId
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots import snapshot

PARTS = "items", "values", "timestamps", "positions"  # of the rows of a table
REPORT_FILE, LISTS_FILE = "report.json", "lists.ndjson"


def replay(
    settings: Settings, source: str, to: str, backend: gpu.Backend, out: Path, *, users: Sequence[str], n: int
) -> dict[str, Any]:
    """Rebuild a state, write `report.json` and `lists.ndjson` to `out`, and return the report.

    Args:
        settings: of the service: its folder, weights of events, half-lives.
        source: a version below DATA/snapshots, or the folder of a snapshot.
        to: a stream id.
        backend: where the model lives; a service has the same bits on the same one.
        out: a folder; created if it is missing.
        users: whose lists to answer.
        n: length of the lists.

    Raises:
        InvalidRequest: the position is none, not in the log, or before the training.
        CorruptLog, CorruptSnapshot, UnknownVersion: a file cannot be used.
    """
    try:
        position = StreamId.parse(to)
    except ValueError as error:
        raise InvalidRequest(f"Invalid --to: {error}") from None
    log, path = RatingLog.of(settings.data), Path(source)
    folder = path.parent if (path / snapshot.MANIFEST_FILE).exists() else settings.data / "snapshots"
    half_lives = parse_half_lives(settings.half_lives)
    version = path.name if folder == path.parent else snapshot.latest_revision(folder, source)
    rebuilt = rebuild(
        snapshot.load(folder, version),
        history_at(log, position, settings.event_types),
        position,
        backend,
        half_lives,
        settings.repeat,
        settings.seen_types,
    )
    report = {"as_of": to, "model_version": version, "backend": backend.name, "sha256": digests(rebuilt)}
    out.mkdir(parents=True, exist_ok=True)
    answers = rebuilt.ranking.answer([Recommend(user=user, n=n) for user in users], rebuilt.as_of)
    if failure := next((answer for answer in answers if isinstance(answer, Exception)), None):
        raise failure
    files.replace(out / LISTS_FILE, msgspec.json.Encoder().encode_lines(answers))
    files.replace(out / REPORT_FILE, msgspec.json.format(msgspec.json.encode(report), indent=1))
    return report


def digests(rebuilt: Rebuilt) -> dict[str, str]:
    """SHA-256 of ids, ratings, strengths and of each array of the model, by name, and of all of these as `all`."""
    history, model = rebuilt.history, rebuilt.live_model.model
    sums: dict[str, str] = {}
    for name, ids in (("users", history.users), ("items", history.items)):
        sums[name] = hashlib.sha256(msgspec.json.encode(ids.ids(range(len(ids))))).hexdigest()
    for name, table in (("ratings", history.table), ("strengths", history.strengths.table)):
        columns = [table.row(user) for user in range(table.n_users)]
        for part, values in zip(PARTS, zip(*columns, strict=True), strict=False):
            sums[f"{name}.{part}"] = digest(np.concatenate(values))
    sums["hidden"] = digest(history.hidden)
    sums |= {f"model.{name}": digest(array) for name, array in sorted(model.arrays.items())}
    return sums | {"all": hashlib.sha256("".join(sums.values()).encode()).hexdigest()}


def digest(array: NDArray[Any]) -> str:
    """SHA-256 of type, shape and bytes of an array."""
    head = f"{array.dtype.str} {array.shape} ".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()
