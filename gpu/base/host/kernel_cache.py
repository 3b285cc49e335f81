"""`KernelCache`: Numba's cache of compiled kernels, made safe for read-only folders and for many processes at once.

Numba's own cache refuses to import a cached kernel if no folder is writable, and does not read read-only folders. A
disk error ends the compilation. If two processes save forms of one kernel at the same moment, it may store the code of
one under the signature of the other. It writes the index before the code: after an upgrade, a reader in between gets
code of the version before. It numbers functions in each process from 1, so that symbols of machine code from several
processes may clash in the process that loads them. And a kernel that calls a parallel one, which was loaded from the
cache, is saved without the order to start the threads: the next process that loads it jumps to address 0.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import secrets
from pathlib import Path
from typing import IO, Any

import numba.core
from numba.core import caching, dispatcher
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile

_CONFIG: Any = numba.core.config
KERNELS = "gpu."  # the package whose kernels have one
LOCK_FILE = ".lock"
ID_BITS = 48  # of the number of the first function of a process, which is part of its symbol
_Provided, _InTree = CompileResultCacheImpl._locator_classes[:2]  # of `NUMBA_CACHE_DIR` and of `__pycache__`


class Files(IndexDataCacheFile):
    """The index and the code of one kernel; code that the index names is always there, and the right one."""

    def save(self, key: Any, data: Any) -> None:
        """Write the code first."""
        names = self._load_index()
        name = names.get(key) or next(
            name for n in itertools.count(1) if (name := self._data_name(n)) not in names.values()
        )
        self._save_data(name, data)
        self._save_index({**names, key: name})


class _Unchecked:
    """The last locator: the first folder, even if it is read-only."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        return _first_locator(py_func, py_file)


class _Implementation(CompileResultCacheImpl):
    _locator_classes: Any = [*CompileResultCacheImpl._locator_classes, _Unchecked]  # noqa: RUF012

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """The kernel; its callers will start the threads that it needs, too."""
        kernel = super().rebuild(target_context, payload)
        kernel.library._reload_init.update(kernel.reload_init)
        return kernel


class KernelCache(FunctionCache):
    """The cache of one kernel.

    It saves to the first folder that can be written, as Numba does: `NUMBA_CACHE_DIR`, `__pycache__`, the user's. It
    also reads the first of these folders, such as one in the image of a container whose root is read-only.

    Attributes:
        can_save: whether there is a folder that can be written.
    """

    _impl_class = _Implementation
    takes_turns = False  # whether processes that compile the same kernel wait for the first of them; see `take_turns`

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        self._turn: IO[str] | None = None
        locator = _first_locator(py_func, py_func.__code__.co_filename)
        stamp = self._impl.locator.get_source_stamp()
        self._first_file = Files(locator.get_cache_path(), self._impl.filename_base, stamp)
        own = self._impl.locator
        self._cache_file = Files(own.get_cache_path(), self._impl.filename_base, own.get_source_stamp())
        self.can_save = False
        with contextlib.suppress(OSError):
            own.ensure_cache_path()
            self.can_save = True

    def holds_any(self) -> bool:
        """Whether there is a form of the kernel for this processor."""
        from numba.core.registry import cpu_target  # noqa: PLC0415 - the compiler starts with it

        here = cpu_target.target_context.codegen().magic_tuple()
        for file in (self._cache_file, self._first_file):
            with contextlib.suppress(Exception):  # as in `_load`
                if any(machine == here for _, machine, _ in file._load_index()):
                    return True
        return False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel for a signature from one of the folders; None if neither folder has it or is readable."""
        target_context.refresh()
        key = self._index_key(sig, target_context.codegen())
        kernel = self._load(key, target_context)
        if kernel is None and self.takes_turns and self._turn is None and self.can_save:
            self._turn = _locked(Path(self.cache_path, f"{self._impl.filename_base}.lock"))
            kernel = self._load(key, target_context)
            if kernel is not None:
                self._end_turn()
        return kernel

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save a compiled kernel, one process at a time; after a failure it is only in memory."""
        if self.can_save:
            with contextlib.suppress(OSError), _locked(Path(self.cache_path, LOCK_FILE)):
                try:
                    super().save_overload(sig, data)
                except OSError:
                    raise
                except Exception:  # the index cannot be read: begin another
                    self._cache_file.flush()
                    super().save_overload(sig, data)
        self._end_turn()

    def _load(self, key: Any, target_context: Any) -> Any:
        for file in (self._cache_file, self._first_file):
            with contextlib.suppress(Exception):  # compile if a file is damaged
                if (data := file.load(key)) is not None:
                    return self._impl.rebuild(target_context, data)
        return None

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.close()
            self._turn = None


def take_turns() -> None:
    """Share the work of processes that fill one cache folder: the first compiles a kernel, and the others wait.

    A kernel waits only for the kernels that it calls, so there is no deadlock. Do not call it in a process that answers
    requests: it would wait for a process that is stopped.
    """
    KernelCache.takes_turns = True


def install() -> None:
    """Give kernels of `gpu` that are declared from now on a `KernelCache`; other kernels keep Numba's cache."""

    def cache_for(py_func: Any) -> FunctionCache:
        return (KernelCache if py_func.__module__.startswith(KERNELS) else caching.FunctionCache)(py_func)

    setattr(dispatcher, "FunctionCache", cache_for)  # noqa: B010 - Numba has no other place for it
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(ID_BITS))


def _first_locator(py_func: Any, py_file: str) -> Any:
    return (_Provided if _CONFIG.CACHE_DIR else _InTree)(py_func, py_file)


def _locked(path: Path) -> IO[str]:
    """An open file with an exclusive lock until it is closed."""
    file = path.open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file
