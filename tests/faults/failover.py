"""A Redis of its own that comes back older or empty, with its clock behind, while ratings are posted."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import redis

from service.storage.streams.redis_server import find_binary
from tests.service.keys import RATINGS
from tests.service.waiting import eventually

FAKE_CLOCK = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))  # of the package libfaketime
RATE = 100  # ratings a second
START_S = 60.0


class FailingRedis:
    """A server whose folder can be put back to an earlier state.

    Without libfaketime its clock cannot be set. Then an entry from the future stands for what it gave out before: a
    server whose clock is behind by `n` seconds gives the same ids as one that has given ids `n` seconds ahead.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._copy = folder, folder.with_name("copy")
        folder.mkdir()
        self._socket = folder.with_name("s")  # another process could take its port while it is away
        self.url = f"unix://{self._socket}"
        self.client = redis.Redis.from_url(self.url, decode_responses=True)
        self.start(0)

    def start(self, behind_s: int) -> None:
        """Start it with a clock that is behind by that number of seconds, if there is libfaketime."""
        settings = {"port": 0, "unixsocket": self._socket, "dir": self._folder, "maxmemory-policy": "noeviction"}
        settings |= {"appendonly": "yes", "appendfsync": "always", "save": ""}
        command = [
            str(find_binary()),
            *(str(part) for name, value in settings.items() for part in (f"--{name}", value)),
        ]
        faked = {"LD_PRELOAD": str(FAKE_CLOCK[0]), "FAKETIME": f"-{behind_s}"} if behind_s and FAKE_CLOCK else {}
        with (self._folder.with_suffix(".log")).open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | faked)
        eventually(self._answers, START_S)

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False

    def run_ahead(self, ahead_s: int) -> None:
        """Let all further ids be ahead of its clock."""
        self.client.xadd(RATINGS, {"v": "noop"}, id=f"{int((time.time() + ahead_s) * 1000)}-0")

    def remember(self) -> None:
        """Keep the present state of its folder."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._folder, self._copy)

    def lose(self, *, all_of_it: bool) -> None:
        """Kill it, and put back what `remember` has kept, or nothing."""
        self.kill()
        shutil.rmtree(self._folder)
        if all_of_it:
            self._folder.mkdir()
        else:
            shutil.copytree(self._copy, self._folder)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Poster:
    """Posts ratings of distinct items all the time, each by a connection of its own, so that every front gets some.

    Attributes:
        acknowledged: item by stream id, in the order of the answers.
        repeated: ids that were given twice, or below one that was acknowledged before the request was sent.
    """

    def __init__(self, urls: Callable[[], list[str]], name: str = "i") -> None:
        self._urls, self._name = urls, name
        self.acknowledged: dict[str, str] = {}
        self.repeated: list[str] = []
        self.n_refused = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._post)

    def __enter__(self) -> Poster:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def more(self, n: int, timeout_s: float = 60.0) -> None:
        """Return after `n` further ratings have been acknowledged."""
        enough = len(self.acknowledged) + n
        eventually(lambda: len(self.acknowledged) >= enough, timeout_s)

    def _post(self) -> None:
        number, highest = 0, (0, 0)
        while not self._is_over.wait(1 / RATE):
            number += 1
            urls, item = self._urls(), f"{self._name}{number}"
            body = {"user": f"u{number % 50}", "item": item, "rating": 3}
            try:
                with httpx.Client(verify=False, timeout=60) as client:  # reading certificates takes 20 ms
                    answer = client.post(f"{urls[number % len(urls)]}/ratings", json=body)
            except httpx.TransportError:
                continue
            if answer.status_code != 202:
                assert answer.status_code == 503, answer.text
                self.n_refused += 1
                continue
            stream_id = answer.json()["stream_id"]
            position = position_of(stream_id)
            if position <= highest:
                self.repeated.append(f"{stream_id} after {highest}")
            highest = max(highest, position)
            self.acknowledged[stream_id] = item


def position_of(stream_id: str) -> tuple[int, int]:
    ms, seq = stream_id.split("-")
    return int(ms), int(seq)
