"""A service in one state, made alike each time, that answers the corpus."""

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.service.api.corpus.answers import expected
from tests.service.api.corpus.wire import Connection, Request
from tests.service.process import Service
from tests.service.waiting import eventually

KEYS = {name: f"key-of-the-{name}-clients" for name in ("api", "admin", "read", "write")}
SETTINGS = {
    **{f"{name}_key": key for name, key in KEYS.items()},
    "backend": "host", "retrain_share": "0", "fronts": "0", "trusted_proxies": "127.0.0.0/8",
    "cors_origins": "https://shop.example", "log_level": "error", "appendfsync": "everysec",
    "max_wait_ms": "60000",
}  # fmt: skip
LEARNED_S = 60.0
# Between the last rating and the last entry before a training. Ratings in the same millisecond as that entry count as
# newer than the model, which then learns them once more: a fast machine took them within one, and gave other answers.
LATER_S = 0.01
OK = 200
N_USERS, N_ITEMS, FIRST_S = 40, 30, 1_500_000_000
GENRES = ("western", "noir", "comedy")
ODD_ITEMS = ("a/b", "büro", "two words", "50%", "x+y")


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

    def see(self, stream_id: str) -> None:
        """Return once the service has learned the entry; a request waits for two seconds."""
        wait = Request("seen", "GET", f"/popular?wait_for={stream_id}", (("X-API-Key", KEYS["admin"]),))
        eventually(lambda: self._connection.send(wait).status == OK, LEARNED_S)

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
        time.sleep(LATER_S)
        last = self.ask("POST", "/events", [
            {"user": f"u{user:02}", "item": items[(user * 11) % N_ITEMS], "type": kind, "timestamp": FIRST_S + user}
            for user, kind in zip(range(12), ("view", "purchase", "dislike", "impression") * 3, strict=True)
        ])["stream_id"]  # fmt: skip
        self.see(last)
        self.train("als-implicit", values="ratings", alpha=10.0, regularization=0.1)
        self.train("als")
        arms = [{"model": "als-implicit", "share": 60}, {"model": "als", "share": 40}]
        self.ask("PUT", "/admin/experiments/summer", {"arms": arms})
        western = {"tag": "genre", "in": ["western"]}
        self.ask("PUT", "/admin/scenarios/home", {"n": 3, "filter": western, "max_per": {"tag": "mood", "n": 1}})
        last = self.ask("PUT", "/admin/scenarios/gone%2Ftag", {"filter": {"tag": "nowhere", "in": ["x"]}})["stream_id"]
        self.see(last)
        self._connection.close()


@contextlib.contextmanager
def seeded(data: Path) -> Iterator[str]:
    """The address of a service in the state of `Seeding`, whose trainings stay queued."""
    service = Service(data, **SETTINGS)
    try:
        Seeding(str(service.client.base_url)).state()
        service.stop()
        service.set(worker="false")
        service.start()
        yield str(service.client.base_url)
    finally:
        service.kill()


def replayed(url: str, requests: Sequence[Request]) -> Iterator[tuple[Request, dict[str, Any]]]:
    """Each request with what is kept of its answer. After each write the service has learned it."""
    connection, values = Connection(url), dict[str, str]()
    waiting = Request("wait", "GET", "", (("X-API-Key", KEYS["admin"]),))
    for request in requests:
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
