"""`ContentMap`: predicts the parameters of items from their tags and embeddings; part of a snapshot.

`content.safetensors` has the array `weights`, and as metadata the names of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.errors import NewerSnapshot
from service.storage import files

FORMAT = 1

Tag = tuple[str, str]  # (name, value)


class _Names(msgspec.Struct, frozen=True):
    """The metadata of the file."""

    format: int
    tags: list[Tag] = []
    n_dimensions: int = 0


@dataclass(frozen=True)
class Features:
    """The features x of an item: a column for each known tag, then the dimensions of embeddings.

    An item with n known tags has 1 / √n in each, and its embedding counts by its direction alone. So x has a bounded
    length, whatever a client sends.

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
        pairs = ((name, value) for name, values in tags.items() for value in values)
        known = sorted(column for pair in pairs if (column := self._columns.get(pair)) is not None)
        numbers = np.full(len(known), 1 / np.sqrt(max(len(known), 1)))
        columns = np.array(known, dtype=np.int64)
        length = 0.0 if embedding is None else math.sqrt(math.fsum(np.square(embedding, dtype=np.float64)))
        if embedding is None or len(embedding) != self.n_dimensions or not length:
            return columns, numbers
        dimensions = len(self.tags) + np.arange(self.n_dimensions)
        return np.append(columns, dimensions), np.append(numbers, embedding / np.float64(length))


@dataclass(frozen=True)
class ContentMap:
    """A ridge map from features to parameters; see `gpu.training.content`.

    Attributes:
        features: of items.
        weights: [W; c], float32 (P + 1, F + 1).
    """

    features: Features
    weights: NDArray[np.float32]

    def prior(
        self, tags: Mapping[str, Sequence[str]], embedding: NDArray[np.float32] | None
    ) -> NDArray[np.float64] | None:
        """[p; b] (F + 1,) of an item; None if the map knows none of its attributes."""
        columns, numbers = self.features.of(tags, embedding)
        if not len(columns):
            return None
        # Not by BLAS, whose bits may depend on where an array lies.
        found: NDArray[np.float64] = (self.weights[columns] * numbers[:, None]).sum(axis=0) + self.weights[-1]
        return found

    def write(self, path: Path) -> None:
        """Write it to a file."""
        from safetensors.numpy import save_file  # noqa: PLC0415 (as in `snapshot_files`)

        names = _Names(FORMAT, list(self.features.tags), self.features.n_dimensions)
        save_file({"weights": self.weights}, path, {"names": msgspec.json.encode(names).decode()})
        files.sync(path)

    @classmethod
    def read(cls, path: Path, n_factors: int) -> ContentMap:
        """Read it from a file, for a model with F = `n_factors`.

        Raises:
            NewerSnapshot: a newer version wrote it.
            ValueError: weights and names contradict each other.
        """
        from safetensors import safe_open  # noqa: PLC0415

        with safe_open(path, framework="numpy") as file:
            text = file.metadata()["names"]
            stated = msgspec.json.decode(text, type=_Stated)
            if stated.format > FORMAT:
                raise NewerSnapshot(
                    f"{path.parent.name}/{path.name} was written by a newer version (format {stated.format}); "
                    f"this one reads up to {FORMAT}: upgrade"
                )
            names, weights = msgspec.json.decode(text, type=_Names), file.get_tensor("weights")
        features = Features(names.tags, names.n_dimensions)
        expected = features.n_columns + 1, n_factors + 1
        if weights.shape != expected:
            raise ValueError(f"{path.name}: expected weights of shape {expected}, got {weights.shape}")
        return cls(features, weights)


class _Stated(msgspec.Struct):
    format: int
