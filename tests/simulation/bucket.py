"""`Bucket`: stands for the library `obstore`: a store of objects in memory, which can be away."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from obstore import exceptions

from service.extras.stores.names import HEAD_FILE
from service.extras.stores.store_head import Head
from tests.simulation.virtual import World

URL = "s3://simulated"


class Bucket:
    """What the store has.

    Attributes:
        is_up: whether it can be reached.
    """

    exceptions = exceptions

    def __init__(self, world: World) -> None:
        self._world, self.is_up = world, True
        self._objects: dict[str, bytes] = {}  # by URL

    def segments(self) -> list[str]:
        """The names of the segments that the head names."""
        content = self._objects.get(f"{URL}/{HEAD_FILE}")
        return [] if content is None else list(Head.of(content, "").segments)

    def _reached(self) -> dict[str, bytes]:
        self._world.sleep(self._world.random.random() * 0.05)
        if not self.is_up:
            raise exceptions.GenericError("the store is away")
        return self._objects

    # --- as the library names it

    def from_url(self, url: str, **_: Any) -> str:
        return url

    def put(self, url: str, name: str, content: Iterable[bytes] | bytes, **_: Any) -> None:
        whole = content if isinstance(content, bytes) else b"".join(content)
        self._reached()[f"{url}/{name}"] = whole

    def get(self, url: str, name: str) -> Any:
        if (content := self._reached().get(f"{url}/{name}")) is None:
            raise FileNotFoundError(name)
        return SimpleNamespace(stream=lambda min_chunk_size: [content])

    def list(self, url: str, prefix: str) -> list[list[dict[str, str]]]:
        return [
            [{"path": path.removeprefix(f"{url}/")} for path in self._reached() if path.startswith(f"{url}/{prefix}/")]
        ]

    def delete(self, url: str, name: str) -> None:
        self._reached().pop(f"{url}/{name}", None)
