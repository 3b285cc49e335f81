"""Writes exported rows as NDJSON, Parquet or a stream of Arrow, to any file that takes bytes, a pipe included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from service.engine.lists.rating_lists import shortest
from service.jobs.export_rows import EVENTS, ITEMS, PERSON, RATINGS, Exported
from service.storage.events import RatingEvent

Format = Literal["ndjson", "parquet", "arrow"]
MEDIA_TYPES: dict[str, str] = {
    "ndjson": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.stream",
}
SUFFIXES: dict[str, Format] = {
    **dict.fromkeys((".ndjson", ".jsonl", ".json"), "ndjson"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".arrows"), "arrow"),
}
AS_OF = b"nearfield.as_of"  # key in the metadata of Parquet and Arrow

OnRows = Callable[[int], None]


def write(exported: Exported, as_of: str, format_: Format, file: Any, on_rows: OnRows = lambda n: None) -> int:
    """Write all rows, and return their number. A line of NDJSON is an element of the body of the route that posts it.

    Args:
        exported: the rows.
        as_of: their position, for the metadata; NDJSON has none.
        format_: of the file.
        file: has `write`; it is not closed.
        on_rows: called with the number of rows of each batch after it is written.

    Raises:
        OSError: the reader has gone, or the disk is full.
        CorruptLog: see `rows_of`.
    """
    schema = exported.schema.with_metadata({AS_OF: as_of.encode()})
    writer: Any = None
    if format_ == "ndjson":
        writer = _Lines(file, exported.schema)
    elif format_ == "parquet":
        writer = pq.ParquetWriter(pa.PythonFile(file, "w"), schema, compression="zstd")
    else:
        writer = pa.ipc.new_stream(file, schema)
    n_rows = 0
    with writer:
        for batch in exported.batches:
            writer.write_batch(batch)
            n_rows += batch.num_rows
            on_rows(batch.num_rows)
    return n_rows


class _Lines:
    """Writes a JSON object a row; what is null or empty is left out."""

    def __init__(self, file: Any, schema: pa.Schema) -> None:
        self._file, self._encode = file, msgspec.json.Encoder().encode_lines
        self._elements_of = {
            RATINGS: rating_elements,
            EVENTS: event_elements,
            ITEMS: item_elements,
            PERSON: person_elements,
        }[schema]

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write the lines of a batch."""
        self._file.write(self._encode(self._elements_of(batch)))


class _Event(msgspec.Struct, gc=False, omit_defaults=True):
    """A `TypedEvent` whose value is always told."""

    user: str
    item: str
    type: str
    value: float
    timestamp: float
    event_id: str | None = None


def rating_elements(batch: pa.RecordBatch) -> list[Any]:
    """The ratings of a batch as clients post them."""
    users, items, values, times = batch.columns
    return list(map(RatingEvent, users.to_pylist(), items.to_pylist(), shortest(values.to_numpy()), times.to_pylist()))


def event_elements(batch: pa.RecordBatch) -> list[Any]:
    """The events of a batch as clients post them."""
    return list(map(_Event, *(column.to_pylist() for column in batch.columns)))


def item_elements(batch: pa.RecordBatch) -> list[Any]:
    """The items of a batch as clients post them."""
    elements = []
    for row in batch.to_pylist(maps_as_pydicts="strict"):
        if row["embedding"] is not None:
            row["embedding"] = [float(str(np.float32(number))) for number in row["embedding"]]
        elements.append({name: value for name, value in row.items() if value not in (None, {})})
    return elements


def person_elements(batch: pa.RecordBatch) -> list[Any]:
    """The rows of one user in a batch, each with what it has."""
    elements = []
    for row in batch.to_pylist():
        if row["rating"] is not None:
            row["rating"] = float(str(np.float32(row["rating"])))
        if row["attributes"] is not None:
            row["attributes"] = msgspec.Raw(row["attributes"].encode())
        elements.append({name: value for name, value in row.items() if value is not None})
    return elements
