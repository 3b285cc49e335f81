"""`Disk`: a real folder in memory that knows what a power cut would leave of it.

What was written, renamed or removed is on the disk only after an fsync: of the file for its content, of the folder for
its names. A power cut keeps any part of what was not synced: of each name the old file or the new one, of each content
the old bytes, the new ones or a torn mixture.

Needs a file system that never gives out the number of a file again (tmpfs).
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import stat
import tempfile
from pathlib import Path

IN_MEMORY = Path("/dev/shm/nearfield")
Tree = dict[str, "bytes | Tree"]


class Disk:
    """A folder.

    Attributes:
        root: its path.
        faults: what the next calls of fsync and rename raise, by name of the call.
    """

    def __init__(self) -> None:
        base = IN_MEMORY if IN_MEMORY.parent.is_dir() else None
        if base is not None:
            base.mkdir(exist_ok=True)
        self.root = Path(tempfile.mkdtemp(prefix="nearfield-simulation-", dir=base))
        self._contents: dict[int, bytes] = {}  # of each file, by its number, as it was synced last
        self._names: dict[int, dict[str, int]] = {}  # of each folder: the number of each name that is on the disk
        self._folders: set[int] = set()
        self.faults: list[int] = []
        self.settle()

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.root, ignore_errors=True)

    def settle(self) -> None:
        """All that is there is on the disk."""
        self._contents, self._names = {}, {}
        for path, _, names in os.walk(self.root):
            for name in names:
                file = Path(path, name)
                self._contents[file.stat().st_ino] = file.read_bytes()
            self._sync_folder(Path(path).stat().st_ino, path)

    def fsync(self, descriptor: int) -> None:
        """In place of `files.fsync`."""
        self._fail()
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            self._sync_folder(status.st_ino, descriptor)
        else:
            self._contents[status.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    def rename(self, source: Path, target: Path) -> None:
        """In place of `files.rename`."""
        self._fail()
        source.rename(target)

    def _fail(self) -> None:
        if self.faults and (number := self.faults.pop()):
            raise OSError(number, os.strerror(number))

    def _sync_folder(self, number: int, folder: str | int) -> None:
        entries = list(os.scandir(folder))
        self._names[number] = {entry.name: entry.inode() for entry in entries}
        self._folders |= {entry.inode() for entry in entries if entry.is_dir()}

    def names(self, folder: Path) -> list[str]:
        """The names of the files in `folder` that no power cut can take away."""
        try:
            names = self._names.get(folder.stat().st_ino, {})
        except FileNotFoundError:
            return []
        return [name for name, number in names.items() if number in self._contents]

    def power_cut(self, chance: random.Random) -> None:
        """Keep what is on the disk, and any part of the rest."""
        paths = {self.root.stat().st_ino: self.root}
        for path, folders, names in os.walk(self.root):
            paths |= {Path(path, name).stat().st_ino: Path(path, name) for name in folders + names}
        tree = self._left(self.root.stat().st_ino, paths, chance)
        for old in self.root.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        _write(self.root, tree)
        self.settle()

    def _left(self, number: int, paths: dict[int, Path], chance: random.Random) -> Tree:
        old = self._names.get(number, {})
        path = paths.get(number)
        new = {entry.name: entry.inode() for entry in os.scandir(path)} if path else {}
        tree: Tree = {}
        for name in sorted(old.keys() | new.keys()):
            chosen = old.get(name) if chance.random() < 0.5 else new.get(name)
            if chosen is None:
                continue
            is_folder = paths[chosen].is_dir() if chosen in paths else chosen in self._folders
            tree[name] = self._left(chosen, paths, chance) if is_folder else self._content(chosen, paths, chance)
        return tree

    def _content(self, number: int, paths: dict[int, Path], chance: random.Random) -> bytes:
        old = self._contents.get(number, b"")
        new = paths[number].read_bytes() if number in paths else old
        if old == new:
            return old
        cut = chance.randrange(len(new) + 1)
        zeros = bytes(len(new) - cut)
        return chance.choice((old, new, new[:cut] + old[cut:], new[:cut] + zeros))


def _write(folder: Path, tree: Tree) -> None:
    for name, content in tree.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            (folder / name).mkdir()
            _write(folder / name, content)


NO_SPACE, BROKEN = errno.ENOSPC, errno.EIO
