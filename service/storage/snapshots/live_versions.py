"""`DATA/live.json`: the live version of each model name, for every process that shares DATA and after a restart.

Live models answer, but for the shadows: the file lists their names under `shadows`, if there are any. They learn and
are tested like the others.

The file also has `sha256`, a digest of the names and versions, by which an altered file is detected. A file of an older
version lacks it and gets it when the file is next written.

`DATA/replaced.json` has the version that was live before, for each name whose version was replaced by another one. The
console offers it as the way back. Nothing else depends on it: a missing or damaged file names none.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from gpu.algorithms import ALGORITHMS
from service.base.errors import Conflict
from service.settings.errors import InvalidSetting
from service.settings.model_names import NAME
from service.storage import files
from service.storage.errors import CorruptLiveFile, UnknownModel
from service.storage.snapshots import snapshot, version_names

LIVE_FILE, REPLACED_FILE, LOCK_FILE = "live.json", "replaced.json", ".live.lock"
_DIGEST = "sha256"
_SHADOWS, _BETWEEN = "shadows", " "


class Live(NamedTuple):
    """What the file has.

    Attributes:
        versions: name to version of all live models.
        shadows: the names of those that are shadows.
        is_written: whether there is a file. One without a version says that all names were ended.
    """

    versions: dict[str, str]
    shadows: frozenset[str]
    is_written: bool = True


def read(data: Path) -> dict[str, str]:
    """Name to version, also of shadows; empty if nothing was ever live. Raises what `read_all` raises."""
    return read_all(data).versions


def read_all(data: Path) -> Live:
    """All live models.

    Raises:
        CorruptLiveFile: the file is torn or altered.
    """
    path = data / LIVE_FILE
    try:
        versions = msgspec.json.decode(files.read_regular(path), type=dict[str, str])
        digest, text = versions.pop(_DIGEST, None), versions.pop(_SHADOWS, "")
        live = Live(versions, frozenset(text.split(_BETWEEN)) if text else frozenset())
        if digest is not None and digest != _digest(live):
            raise ValueError(f"its {_DIGEST} is not that of its names and versions")
        for name, version in live.versions.items():
            if not NAME.fullmatch(name):
                raise ValueError(f"{name[:64]!r} is no name of a model")
            if not version_names.is_version(version, name):
                raise ValueError(f"{version[:64]!r} is no version of {name}")
        if not live.shadows <= live.versions.keys():
            raise ValueError("it names a shadow without a version")
    except FileNotFoundError:
        return Live({}, frozenset(), is_written=False)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise CorruptLiveFile(
            f"Invalid {path}: expected the versions that are live, as they were written, got a torn or altered file"
            f" ({error}); restore it, or remove it and activate a version of each model"
        ) from error
    return live


def replaced(data: Path) -> dict[str, str]:
    """Name to the version that was live before, as clients see it; its snapshot may be gone."""
    try:
        return msgspec.json.decode(files.read_regular(data / REPLACED_FILE), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return {}


def state_of(data: Path) -> tuple[int, int, int] | None:
    """What changes when the file is replaced or written; None if there is none."""
    try:
        status = (data / LIVE_FILE).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def set_version(data: Path, name: str, version: str) -> None:
    """Make `version` live under `name`, so that it answers; it is on disk on return.

    Raises:
        CorruptLiveFile: see `read_all`; only an operator may remove the file.
        LockTimeout: another process holds the lock of the file.
    """
    with _locked(data):
        _write(data, _with(read_all(data), name, version))


def seal(data: Path) -> None:
    """Add the digest to the file of an older version. Raises what `set_version` raises."""
    with _locked(data):
        live = read_all(data)
        if live.versions:
            _write(data, live)


def activate(
    data: Path, name: str, version: str, *, shadow: bool = False, check: Callable[[], None] = lambda: None
) -> None:
    """`set_version` for a snapshot, which no other process can remove meanwhile.

    Args:
        data, name, version: see `set_version`.
        shadow: whether it becomes a shadow.
        check: called when no other process can change the file; what it raises leaves the file as it is.

    Raises:
        UnknownVersion: it is gone.
        Conflict: it shall be a shadow, and another version of the name answers.
        CorruptLiveFile, LockTimeout: see `set_version`.
    """
    with _locked(data):
        snapshot.path_of(data / "snapshots", version)
        live = read_all(data)
        if shadow:
            check_shadow(live, name)
        check()
        _write(data, _with(live, name, version, shadow=shadow))


def replace(data: Path, live: Live) -> None:
    """Make these versions live and no others; raises `LockTimeout`, see `set_version`."""
    with _locked(data):
        _write(data, live)


def end(data: Path, name: str) -> None:
    """Make no version live under `name`; its snapshots stay. It is on disk on return.

    Raises:
        UnknownModel: none is.
        CorruptLiveFile, LockTimeout: see `set_version`.
    """
    with _locked(data):
        live = read_all(data)
        check_listed(live, name)
        left = {other: version for other, version in live.versions.items() if other != name}
        _write(data, Live(left, live.shadows - {name}))


def chosen(name: str | None, answering: Sequence[str]) -> str:
    """`name`, or the first of the models that answer if it is None.

    Raises:
        UnknownModel: none of them has that name, or none answers.
    """
    name = next(iter(answering), None) if name is None else name
    if name is None or name not in answering:
        names = ", ".join(answering) or "there is none"
        raise UnknownModel(f"Invalid model: expected a live one ({names}), got {name!r}")
    return name


def check_listed(live: Live, name: str) -> None:
    """Check that `name` is that of a live model or a shadow; raises `UnknownModel`."""
    if name not in live.versions:
        names = ", ".join(sorted(live.versions)) or "there is none"
        raise UnknownModel(f"Invalid model: expected the name of a live one or a shadow ({names}), got {name[:64]!r}")


def check_defaults(folders: Collection[Path], names: Collection[str]) -> None:
    """Check the names of `default_models` against the models of a service that has some; a new one has no names yet.

    A name counts that has a snapshot: it may have been ended, and may become live again. So does that of another data
    set, as a setting counts for all of them.

    Args:
        folders: DATA of each data set.
        names: the setting of one of them.

    Raises:
        InvalidSetting: one is neither that of an algorithm nor that of a model.
        CorruptLiveFile: see `read_all`.
    """
    live = [read_all(data) for data in folders]
    model_names = set(ALGORITHMS).union(*(each.versions for each in live))
    for name in names:
        is_known = name in model_names or any(snapshot.versions(data / "snapshots", name) for data in folders)
        if any(each.versions for each in live) and not is_known:
            answering = set[str]().union(*(each.versions.keys() - each.shadows for each in live))
            raise InvalidSetting(
                f"Invalid default_models: expected names of live models"
                f" ({', '.join(sorted(answering)) or 'there is none'}) or algorithms"
                f" ({', '.join(sorted(ALGORITHMS))}), got {name!r}"
            )


def check_shadow(live: Live, name: str) -> None:
    """Check that a version of `name` may become a shadow.

    Raises:
        Conflict: one answers.
    """
    if name in live.versions and name not in live.shadows:
        raise Conflict(f"Invalid name of a shadow: expected one that does not answer, got {name!r}; name it otherwise")


def retire(data: Path, version: str, successor: str | None) -> bool:
    """Remove a snapshot. If it is live, make `successor` live first; without a successor a live snapshot stays.

    Returns:
        Whether it was removed.

    Raises:
        CorruptLiveFile, LockTimeout: see `set_version`.
    """
    with _locked(data):
        live, name = read_all(data), version_names.name_of(version)
        if live.versions.get(name) == version:
            if successor is None:
                return False
            _write(data, _with(live, name, successor, shadow=name in live.shadows))
        snapshot.remove(data / "snapshots", version)
        return True


def prune(data: Path, name: str) -> list[str]:
    """Remove all versions of `name` but the live one and the two newest others; return the removed ones."""
    with _locked(data):
        version = read(data).get(name)
        return [] if version is None else snapshot.prune(data / "snapshots", name, version)


@contextlib.contextmanager
def _locked(data: Path) -> Iterator[None]:
    """Serialize writers: none may overwrite another's change, or make a version live that another removes."""
    with files.FileLock.take(data / LOCK_FILE):
        yield


def _with(live: Live, name: str, version: str, *, shadow: bool = False) -> Live:
    shadows = live.shadows | {name} if shadow else live.shadows - {name}
    return Live({**live.versions, name: version}, shadows)


def _write(data: Path, live: Live) -> None:
    with contextlib.suppress(CorruptLiveFile):  # it is about to be replaced by one that can be read
        former = {name: version_names.shown(version) for name, version in read(data).items()}
        now = {name: version_names.shown(version) for name, version in live.versions.items()}
        left = {name: version for name, version in former.items() if now.get(name, version) != version}
        if left:
            files.replace(data / REPLACED_FILE, msgspec.json.encode(replaced(data) | left))
    files.replace(data / LIVE_FILE, encoded(live))


def encoded(live: Live) -> bytes:
    """The content of the file for these models."""
    document = _content(live) | {_DIGEST: _digest(live)}
    return msgspec.json.format(msgspec.json.encode(document, order="sorted"))


def _content(live: Live) -> dict[str, str]:
    return live.versions | ({_SHADOWS: _BETWEEN.join(sorted(live.shadows))} if live.shadows else {})


def _digest(live: Live) -> str:
    return hashlib.sha256(msgspec.json.encode(_content(live), order="sorted")).hexdigest()
