"""`ContentMap`: predicts the parameters of items from their tags and embeddings, and those of users from their tags.

`ContentMaps` has both, and is a part of a snapshot: `content.safetensors` has the arrays `weights` and `user_weights`,
or one of them, and as metadata the names of their rows. Without `user_weights` it has format 1, as older versions do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from service.storage import files
from service.storage.errors import NewerSnapshot
from service.storage.snapshots import array_file
from service.storage.snapshots.array_values import MAX_PARAMETER

FORMAT = 2
MAX_HEADER_BYTES = 2**28  # with the names of all tags

Tag = tuple[str, str]  # (name, value)
Described = tuple[Mapping[str, Sequence[str]], NDArray[np.float32] | None]  # tags by name, and the embedding


class _Format(msgspec.Struct, frozen=True):
    """The part of the metadata that every version writes."""

    format: int


class _Names(_Format, frozen=True):
    """The metadata of the file."""

    tags: list[Tag] = []
    n_dimensions: int = 0
    user_tags: list[Tag] | UnsetType = UNSET


@dataclass(frozen=True)
class Features:
    """The features x of an item or a user: a column for each known tag, then the dimensions of embeddings.

    Who has n known tags has 1 / √n in each, and an embedding counts by its direction alone. So x has a bounded length,
    whatever a client sends.

    Attributes:
        tags: the known tags.
        n_dimensions: length of embeddings; 0 for none.
    """

    tags: Sequence[Tag]
    n_dimensions: int = 0

    @property
    def n_columns(self) -> int:
        """P."""
        return len(self.tags) + self.n_dimensions

    @cached_property
    def _columns(self) -> dict[Tag, int]:
        return {tag: column for column, tag in enumerate(self.tags)}

    def of(
        self, tags: Mapping[str, Sequence[str]], embedding: NDArray[np.float32] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(columns, numbers) of an item, both (n,), columns ascending; n = 0 if none of its attributes is known."""
        columns = np.array(self._columns_of(tags), dtype=np.int64)
        numbers = np.full(len(columns), 1 / np.sqrt(max(len(columns), 1)))
        length = 0.0 if embedding is None else math.sqrt(math.fsum(np.square(embedding, dtype=np.float64)))
        if embedding is None or len(embedding) != self.n_dimensions or not length:
            return columns, numbers
        dimensions = len(self.tags) + np.arange(self.n_dimensions)
        return np.append(columns, dimensions), np.append(numbers, embedding / np.float64(length))

    def of_each(self, items: Sequence[Described]) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
        """(columns, numbers, n) of B items: those of all items in turn, and how many each has, (B,)."""
        if self.n_dimensions:
            pairs = [self.of(tags, embedding) for tags, embedding in items]
            columns, numbers = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
            return columns, numbers, np.array([len(item_columns) for item_columns, _ in pairs])
        tag_columns = [self._columns_of(tags) for tags, _ in items]
        n = np.array(list(map(len, tag_columns)), dtype=np.int64)
        numbers = np.repeat(1 / np.sqrt(np.maximum(n, 1)), n)
        return np.array(list(itertools.chain.from_iterable(tag_columns)), dtype=np.int64), numbers, n

    def _columns_of(self, tags: Mapping[str, Sequence[str]]) -> list[int]:
        """Columns of the known tags, ascending."""
        column_of = self._columns.get
        columns = [column_of((name, value)) for name, values in tags.items() for value in values]
        return sorted([column for column in columns if column is not None])


@dataclass(frozen=True)
class ContentMap:
    """A ridge map from features to parameters; see `gpu.training.content`.

    Attributes:
        features: of items or users.
        weights: [W; c], float32 (P + 1, F + 1).
    """

    features: Features
    weights: NDArray[np.float32]

    def priors(self, items: Sequence[Described]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """[p; b] of B items or users, float64 (B, F + 1), and whether the map knows one of their attributes, bool (B,).

        A prior has the same bits whatever others are in the call. It is 0 without known attributes.
        """
        priors = np.zeros((len(items), self.weights.shape[1]))
        columns, numbers, n = self.features.of_each(items)
        exist = n > 0
        starts = (np.cumsum(n) - n)[exist]
        if len(starts):
            # Not by BLAS, whose bits may depend on where an array lies.
            products = self.weights[columns] * numbers[:, None]
            priors[exist] = np.add.reduceat(products, starts, axis=0) + self.weights[-1]
        return priors, exist


class ContentMaps(NamedTuple):
    """The maps of a model, of its items and of its users; None: it has none."""

    items: ContentMap | None = None
    users: ContentMap | None = None

    def write(self, path: Path) -> None:
        """Write them to a file, if there is one."""
        from safetensors.numpy import save_file  # noqa: PLC0415 (as in `snapshot_files`)

        arrays, names = dict[str, NDArray[np.float32]](), _Names(1 if self.users is None else FORMAT)
        if self.items is not None:
            features, arrays["weights"] = self.items.features, self.items.weights
            names = msgspec.structs.replace(names, tags=list(features.tags), n_dimensions=features.n_dimensions)
        if self.users is not None:
            features, arrays["user_weights"] = self.users.features, self.users.weights
            names = msgspec.structs.replace(names, user_tags=list(features.tags))
        if arrays:
            save_file(arrays, path, {"names": msgspec.json.encode(names).decode()})
            files.sync(path)

    @classmethod
    def read(cls, path: Path, n_factors: int) -> ContentMaps:
        """Read them from a file, for a model with F = `n_factors`.

        Raises:
            NewerSnapshot: a newer version wrote it.
            ValueError: weights and names contradict each other, or a weight is no finite number.
        """
        with files.open_regular(path) as file:
            arrays, metadata = array_file.read_header(file, MAX_HEADER_BYTES)
            if "names" not in metadata:
                raise ValueError(f"{path.name}: expected names in its metadata")
            text = metadata["names"]
            if (file_format := msgspec.json.decode(text, type=_Format).format) > FORMAT:
                raise NewerSnapshot(
                    f"{path.parent.name}/{path.name} was written by a newer version (format {file_format}); "
                    f"this one reads up to {FORMAT}: upgrade"
                )
            if not arrays or arrays.keys() - ({"weights"} if file_format == 1 else {"weights", "user_weights"}):
                expected = "an array weights" + (" or user_weights" if file_format > 1 else "")
                raise ValueError(f"{path.name}: expected {expected}, got {', '.join(sorted(arrays))}")
            names = msgspec.json.decode(text, type=_Names)

            def check(part: NDArray[np.float32], first: int) -> None:
                if not (part.min() >= -MAX_PARAMETER and part.max() <= MAX_PARAMETER):
                    raise ValueError(f"expected weights within {MAX_PARAMETER:g}, got others from row {first} on")

            def map_of(name: str, features: Features) -> ContentMap | None:
                if name not in arrays:
                    return None
                dtype, shape, _ = arrays[name]
                if dtype != np.float32 or shape != (features.n_columns + 1, n_factors + 1):
                    expected = features.n_columns + 1, n_factors + 1
                    raise ValueError(f"{path.name}: expected {name} of float32 {expected}, got {dtype} {shape}")
                return ContentMap(features, array_file.read_array(file, arrays[name], check))

            of_items = map_of("weights", Features(names.tags, names.n_dimensions))
            return cls(of_items, map_of("user_weights", Features(names.user_tags or [])))


NO_CONTENT = ContentMaps()
