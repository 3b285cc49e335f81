"""`python -m tests.service.storage.snapshots.fuzz FOLDER STEP ALGORITHM …`: forges trained snapshots, and loads them.

With STEP 1 in all ways, which takes a minute for each algorithm; with 5 in every fifth.
Each forgery must be a CorruptSnapshot, or a model whose lists are finite. A process for each algorithm prints each
before it is tried, so that a signal that ends it is told with its cause, and at last a JSON line of how many were
tried and refused.
"""

import faulthandler
import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpu.algorithms import ALGORITHMS
from gpu.base.host import compilation
from service.storage.errors import CorruptSnapshot
from service.storage.snapshots import snapshot
from tests.service.storage.snapshots import forged

DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]
STATED = [None, -1, 0, 2**31, 10**30, 1e-30, 1e12, -1e308, "", "x/../y", [], {}, True, DEEP]
FLOATS = np.nan, np.inf, -np.inf, 3e38, -1e12, 1e12, -1e6, 1e6, 1e-45, 0.0
WHOLES = -(2**31), -2, -1, 0, 15, 16, 20, 21, 2**31 - 1
BYTES = 0, 1, 2, 255
Forge = Callable[[Path], None]


def main(algorithm: str, folder: Path, step: int) -> None:
    """Try every `step`-th forgery of a model of `algorithm`; each algorithm begins at another one."""
    faulthandler.enable()
    version = forged.trained(folder / "trained", algorithm)
    n_tried = n_refused = 0
    failed = []
    first = list(ALGORITHMS).index(algorithm) % step
    for name, forge in itertools.islice(forgeries(folder / "trained" / version), first, None, step):
        _say(name)
        shutil.rmtree(folder / "forged", ignore_errors=True)
        shutil.copytree(folder / "trained", folder / "forged")
        forge(folder / "forged" / version)
        n_tried += 1
        try:
            if not forged.are_finite(snapshot.load(folder / "forged", version)):
                failed.append(f"{name}: lists are not finite")
        except CorruptSnapshot:
            n_refused += 1
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")
    _say(json.dumps({"tried": n_tried, "refused": n_refused, "failed": failed}))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def forgeries(path: Path) -> Iterator[tuple[str, Forge]]:
    """(what is forged, what forges it) of all forgeries of the snapshot `path`."""
    for keys in _fields(json.loads((path / snapshot.MANIFEST_FILE).read_bytes())):
        for value in STATED:
            yield f"{'.'.join(keys)} = {str(value)[:40]}", partial(forged.state, change=_setter(keys, value))
        yield f"{'.'.join(keys)} removed", partial(forged.state, change=_remover(keys))
    arrays = forged.arrays_of(path)
    for name, array in arrays.items():
        for what, changed in _changes(array):
            yield f"{name} {what}", partial(forged.replace_arrays, arrays={**arrays, name: changed})
        rest = {other: array for other, array in arrays.items() if other != name}
        yield f"{name} removed", partial(forged.replace_arrays, arrays=rest)
        yield f"{name} twice", partial(forged.replace_arrays, arrays={**arrays, f"{name}2": array})


def _fields(document: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in document.items():
        yield (*above, name)
        if isinstance(value, dict) and name != "given":
            yield from _fields(value, (*above, name))


def _setter(keys: tuple[str, ...], value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change


def _remover(keys: tuple[str, ...]) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for key in keys[:-1]:
            document = document[key]
        del document[keys[-1]]

    return change


def _changes(array: np.ndarray[Any, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    kinds = {"f": (FLOATS, array.dtype), "i": (WHOLES, array.dtype), "b": (BYTES, np.uint8)}
    values, dtype = kinds[array.dtype.kind]
    for value in values if array.size else ():
        for where, index in (("last", (-1,) * array.ndim), ("all", ...)):
            changed = array.astype(dtype)
            changed[index] = value
            yield f"{where} = {value}", changed.view(array.dtype) if array.dtype.kind == "b" else changed
    yield "shorter", array[:-1]
    yield "longer", np.concatenate([array, array[-1:]])
    yield "of float64", array.astype(np.float64)
    yield "flat", array.reshape(-1)
    yield "empty", array[:0]
    if array.ndim > 1:
        yield "turned", array.T
        yield "narrower", array[:, :-1]
        yield "without columns", array[:, :0]


if __name__ == "__main__":
    compilation.load()
    for _algorithm in sys.argv[3:]:
        if (_child := os.fork()) == 0:
            main(_algorithm, Path(sys.argv[1]) / _algorithm, int(sys.argv[2]))
            os._exit(0)
        if _status := os.waitpid(_child, 0)[1]:
            sys.exit(f"{_algorithm} ended with {_status}")
