"""`Bucket`: a store of objects in memory, which can be away."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from service.extras.stores.names import HEAD_FILE
from service.extras.stores.object_store import StoreUnavailable
from service.extras.stores.store_head import Head
from tests.simulation.virtual import World


class Bucket:
    """What the store has.

    Attributes:
        is_up: whether it can be reached.
    """

    def __init__(self, world: World) -> None:
        self.world, self.is_up = world, True
        self.objects: dict[str, bytes] = {}

    def segments(self) -> list[str]:
        """The names of the segments that the head names."""
        content = self.objects.get(HEAD_FILE)
        return [] if content is None else list(Head.of(content, "").segments)


class Store:
    """A `service.extras.stores.object_store.ObjectStore`."""

    bucket: Bucket  # of the present world
    keys: Sequence[str] = ()
    is_reachable = True

    def __init__(self, url: str, keys: Sequence[str] = ()) -> None:
        self.url = url
        self._prefix = url.removeprefix("memory://store").lstrip("/")

    def _go(self) -> dict[str, bytes]:
        self.bucket.world.sleep(self.bucket.world.random.random() * 0.05)
        if not self.bucket.is_up:
            raise StoreUnavailable("the store is away")
        return self.bucket.objects

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}".lstrip("/")

    def read(self, name: str, most: int) -> bytes | None:
        return self._go().get(self._path(name))

    def write(self, name: str, content: bytes) -> None:
        self._go()[self._path(name)] = bytes(content)

    def fetch(self, name: str, file: IO[bytes], on_bytes: Callable[[int], None]) -> str | None:
        content = self.read(name, 0)
        if content is None:
            return None
        file.write(content)
        return hashlib.sha256(content).hexdigest()

    def send(self, name: str, path: Path, on_bytes: Callable[[int], None]) -> str:
        content = path.read_bytes()
        self.write(name, content)
        return hashlib.sha256(content).hexdigest()

    def names(self, prefix: str) -> list[str]:
        path = self._path(prefix) + "/"
        there = self._go()
        return [name[len(self._path("")) :].lstrip("/") for name in there if name.startswith(path)]

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            self._go().pop(self._path(name), None)
