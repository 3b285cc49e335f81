"""The partition store: what the ranks of a training read, written once (`service.extras.ranks.array_folder`).

It holds the ratings in both orientations, optional test ratings, the keys of the rows, the hyperparameters and the
calibration. Each rank maps all of it and touches the pages of its own rows only.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpu.algorithms import ALGORITHMS, params_for
from gpu.base.backend import Backend
from gpu.data.model import Model
from gpu.data.param_kinds import Params
from gpu.data.ratings import Ratings, Rows
from gpu.data.signals import Calibration
from service.extras.ranks import array_folder
from service.storage.snapshots.manifest import StoredCalibration

STORE, MODEL = "ratings", "model"  # folders in the work folder of a training


class Partitions(NamedTuple):
    """The content of a store.

    Attributes:
        ratings: training ratings; explicit ones in multiples of their unit.
        test: test ratings, or None.
        params, calibration: of the training.
        digest: SHA-256 of all content; a checkpoint of another training has another one.
    """

    ratings: Ratings
    test: Ratings | None
    params: Params
    calibration: Calibration
    digest: str


def write(work: Path, ratings: Ratings, test: Ratings | None, params: Params, calibration: Calibration) -> str:
    """Write the store into the work folder of a training, and return its digest.

    Raises:
        WorkFolderUnavailable: the disk is full or broken.
    """
    arrays = arrays_of("train", ratings) | ({} if test is None else arrays_of("test", test))
    record = {
        "algorithm": params.algorithm,
        "params": dataclasses.asdict(params),
        "calibration": msgspec.to_builtins(StoredCalibration.of(calibration)),
    }
    return array_folder.write(work / STORE, arrays, record)


def read(work: Path) -> Partitions:
    """The store in a work folder, mapped into memory.

    Raises:
        CorruptWorkFile: a file is missing, torn or altered.
    """
    arrays, record = array_folder.read(work / STORE)
    return Partitions(
        ratings_in("train", arrays),
        ratings_in("test", arrays) if "test.user_keys" in arrays else None,
        params_for(record["algorithm"], record["params"]),
        msgspec.convert(record["calibration"], StoredCalibration).restored(),
        array_folder.digest_of(work / STORE),
    )


def compile_once(work: Path, backend: Backend) -> None:
    """Compile what takes seconds of the training's kernels: see `Algorithm.compile_once`. It reads no ratings.

    Raises:
        CorruptWorkFile: the manifest is missing, torn or altered.
        BackendUnavailable: the compiler failed.
    """
    record = array_folder.contents_of(work / STORE).record
    params = params_for(record["algorithm"], record["params"])
    ALGORITHMS[params.algorithm].compile_once(params, backend)


def write_model(work: Path, model: Model) -> None:
    """Write the model that a training in `work` has made.

    Raises:
        WorkFolderUnavailable: the disk is full or broken.
    """
    calibration = msgspec.to_builtins(StoredCalibration.of(model.calibration))
    record = {"mean": model.mean, "scale": model.scale, "calibration": calibration}
    array_folder.write(work / MODEL, model.arrays, record)


def read_model(work: Path, params: Params) -> Model:
    """The model that a training in `work` has made, copied into the memory of this process.

    Raises:
        CorruptWorkFile: a file is missing, torn or altered.
    """
    arrays, record = array_folder.read(work / MODEL)
    calibration = msgspec.convert(record["calibration"], StoredCalibration).restored()
    low, high = record["scale"]
    copies = {name: np.array(array) for name, array in arrays.items()}
    return Model(params, record["mean"], (low, high), copies, calibration)


def arrays_of(kind: str, ratings: Ratings) -> dict[str, NDArray[Any]]:
    """The arrays of ratings, by names that begin with `kind`."""
    arrays: dict[str, NDArray[Any]] = {f"{kind}.user_keys": ratings.user_keys, f"{kind}.item_keys": ratings.item_keys}
    if ratings.weights is not None:
        arrays[f"{kind}.weights"] = ratings.weights
    for side, rows in (("by_user", ratings.by_user), ("by_item", ratings.by_item)):
        arrays |= {f"{kind}.{side}.{name}": array for name, array in rows._asdict().items()}
    return arrays


def ratings_in(kind: str, arrays: dict[str, NDArray[Any]]) -> Ratings:
    """The ratings of `arrays_of`."""
    by_user, by_item = (
        Rows._make(arrays[f"{kind}.{side}.{name}"] for name in Rows._fields) for side in ("by_user", "by_item")
    )
    keys = arrays.get(f"{kind}.user_keys"), arrays.get(f"{kind}.item_keys")
    return Ratings(by_user, by_item, user_keys=keys[0], item_keys=keys[1], weights=arrays.get(f"{kind}.weights"))
