"""A service in one state, made alike each time, that answers the corpus."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import redis

from service.storage.streams.redis_server import RedisServer
from tests.service.api.corpus.answers import expected
from tests.service.api.corpus.wire import Connection, Request
from tests.service.waiting import eventually

ROOT = Path(__file__).parents[4]
KEYS = {name: f"key-of-the-{name}-clients" for name in ("api", "admin", "read", "write")}
SETTINGS = {
    **{f"{name}_key": key for name, key in KEYS.items()},
    "backend": "host", "retrain_share": "0", "fronts": "0", "trusted_proxies": "127.0.0.0/8",
    "cors_origins": "https://shop.example", "log_level": "error", "appendfsync": "everysec",
    "max_wait_ms": "60000",
}  # fmt: skip
START_S, LEARNED_S = 180.0, 60.0
OK = 200
N_USERS, N_ITEMS, FIRST_S = 40, 30, 1_500_000_000
GENRES = ("western", "noir", "comedy")
ODD_ITEMS = ("a/b", "büro", "two words", "50%", "x+y")
_READY = re.compile(r"nearfield is ready on (\S+) ")


class Started:
    """A process of the service of `tree` over a folder."""

    def __init__(self, tree: Path, data: Path, **settings: str) -> None:
        self._data = data
        module = "service" if (tree / "service" / "__main__.py").exists() else "service.cli"
        own = {f"NEARFIELD_{name.upper()}": value for name, value in (SETTINGS | settings).items()}
        foreign = {name: value for name, value in os.environ.items() if not name.startswith("NEARFIELD_")}
        self._errors = data.with_suffix(".stderr")
        with self._errors.open("ab") as errors:
            self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `stop`)
            self._child = subprocess.Popen(
                [sys.executable, "-m", module, "serve", "--port", "0", "--data", str(data)],
                env=foreign | own | {"PYTHONPATH": str(tree)}, cwd=tree, stdout=self._output, stderr=errors,
            )  # fmt: skip
        self.url = self._address()

    def _address(self) -> str:
        deadline = time.monotonic() + START_S
        while not (found := _READY.search(os.pread(self._output.fileno(), 4096, 0).decode())):
            assert self._child.poll() is None and time.monotonic() < deadline, self._errors.read_text()[-4000:]
            time.sleep(0.05)
        return found[1]

    def stop(self) -> None:
        self._child.send_signal(signal.SIGTERM)
        try:
            self._child.wait(60)
        finally:
            self._child.kill()
            self._child.wait()
            self._output.close()
            with contextlib.suppress(redis.ConnectionError), redis.Redis.from_url(RedisServer(self._data).url) as left:
                left.shutdown(nosave=True)


class Seeding:
    """Makes the state, by requests alone."""

    def __init__(self, url: str) -> None:
        self._connection = Connection(url)

    def ask(self, method: str, target: str, document: Any = None) -> Any:
        headers = (("X-API-Key", KEYS["admin"]), ("Content-Type", "application/json"))
        body = None if document is None else json.dumps(document).encode()
        answer = self._connection.send(Request("seed", method, target, headers, body))
        assert 200 <= answer.status < 300, (method, target, answer)
        return json.loads(answer.body)

    def train(self, algorithm: str, **params: Any) -> None:
        """Train a small model, which goes live."""
        order = {"algorithm": algorithm, "params": {"n_factors": 8, "n_epochs": 6} | params, "force": True}
        job = self.ask("POST", "/admin/retrain", order)["id"]
        ended = ("succeeded", "failed", "cancelled")
        state = eventually(lambda: (now := self.ask("GET", f"/admin/jobs/{job}"))["state"] in ended and now)
        assert (state["state"], state["promoted"]) == ("succeeded", True), state

    def state(self) -> None:
        """Ratings, events, items, two models, an experiment and two scenarios."""
        items = [f"i{number:02}" for number in range(N_ITEMS)]
        catalog = [
            {
                "item": item,
                "tags": {"genre": [GENRES[number % 3]]} | ({"mood": ["dark"]} if number % 4 == 0 else {}),
                "numbers": {"price": number + 0.5},
                "published": FIRST_S + number,
            }
            for number, item in enumerate([*items, *ODD_ITEMS])
        ]
        catalog[7]["available"] = False
        catalog[8]["until"] = FIRST_S + 1_000_000
        self.ask("POST", "/items", catalog)
        ratings = [
            {"user": f"u{user:02}", "item": items[place], "rating": 1 + (user * 7 + place * place) % 9 / 2,
             "timestamp": FIRST_S + 1000 * user + place}
            for user in range(N_USERS) for place in range(N_ITEMS) if (user * 5 + place * 3 + user * place) % 7 < 3
        ]  # fmt: skip
        ratings += [
            {"user": user, "item": item, "rating": 1 + (3 * place + number) % 5, "timestamp": FIRST_S + 50_000 + place}
            for place, item in enumerate(ODD_ITEMS)
            for number, user in enumerate(["büro", "two words", "a/b", "x+y", "u03", "u05", "u08", "u13"][place:])
        ]
        for first in range(0, len(ratings), 500):
            self.ask("POST", "/ratings", ratings[first : first + 500])
        last = self.ask("POST", "/events", [
            {"user": f"u{user:02}", "item": items[(user * 11) % N_ITEMS], "type": kind, "timestamp": FIRST_S + user}
            for user, kind in zip(range(12), ("view", "purchase", "dislike", "impression") * 3, strict=True)
        ])["stream_id"]  # fmt: skip
        self.ask("GET", f"/popular?wait_for={last}")
        self.train("als-implicit", values="ratings", alpha=10.0, regularization=0.1)
        self.train("als")
        arms = [{"model": "als-implicit", "share": 60}, {"model": "als", "share": 40}]
        self.ask("PUT", "/admin/experiments/summer", {"arms": arms})
        western = {"tag": "genre", "in": ["western"]}
        self.ask("PUT", "/admin/scenarios/home", {"n": 3, "filter": western, "max_per": {"tag": "mood", "n": 1}})
        last = self.ask("PUT", "/admin/scenarios/gone%2Ftag", {"filter": {"tag": "nowhere", "in": ["x"]}})["stream_id"]
        self.ask("GET", f"/popular?wait_for={last}")
        self._connection.close()


@contextlib.contextmanager
def seeded(data: Path, tree: Path = ROOT) -> Iterator[str]:
    """The address of a service of `tree` in the state of `Seeding`, whose trainings stay queued."""
    process = Started(tree, data)
    try:
        Seeding(process.url).state()
    finally:
        process.stop()
    process = Started(tree, data, worker="false")
    try:
        yield process.url
    finally:
        process.stop()


def replayed(
    url: str, requests: Sequence[Request], note: Callable[[str], None] = lambda name: None
) -> Iterator[tuple[Request, dict[str, Any]]]:
    """Each request with what is kept of its answer. After each write the service has learned it."""
    connection, values = Connection(url), dict[str, str]()
    waiting = Request("wait", "GET", "", (("X-API-Key", KEYS["admin"]),))
    for request in requests:
        note(request.name)
        sent = request.filled(values)
        answer = connection.send(sent)
        yield request, expected(sent, answer)
        document = (
            json.loads(answer.body) if answer.body and 200 <= answer.status < 300 and _is_json(answer.headers) else None
        )
        if not isinstance(document, dict):
            continue
        if request.saves:
            value: Any = document
            for part in request.saves[0].split("."):
                value = value[int(part) if part.isdigit() else part]
            values[request.saves[1]] = str(value)
        if request.method not in ("GET", "HEAD") and isinstance(document.get("stream_id"), str):
            learned = waiting._replace(target=f"/popular?n=1&wait_for={document['stream_id']}")
            eventually(lambda learned=learned: connection.send(learned).status == OK, LEARNED_S)  # type: ignore[misc]
    connection.close()


def _is_json(headers: dict[str, str]) -> bool:
    return headers.get("content-type", "").startswith("application/json")
