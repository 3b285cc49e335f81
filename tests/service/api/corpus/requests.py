"""Draws the requests of the corpus: for each operation good, bad and odd ones, always the same for one seed.

Each operation has a pool, and the pools take turns until there are enough. Reads come first, then writes, then what
changes models, keys and jobs.
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

from tests.service.api.corpus.service import KEYS
from tests.service.api.corpus.wire import Request

SEED, N_REQUESTS = 20_261, 1200
LONGEST_ID, MAX_BODY, MAX_RATINGS, MAX_N = 256, 1 << 20, 1000, 1000
OFTEN = {"GET /recommend/{user}": 6, "POST /recommend/u01": 5, "POST /recommend": 5, "POST /ratings": 6, "POST /events": 5, "POST /items": 5, "PATCH /items": 4,
         "GET /popular": 3, "GET /items": 2, "GET /items/{item}": 2, "GET keys": 3, "GET paths": 3, "methods": 5, "raw bytes": 8, "GET headers": 2, "POST /admin/keys": 2}  # fmt: skip
A_TURN = 250  # requests of a pool for each further one that is drawn in a turn
FAR, LIE, PAST = "9999999999999-0", "AnsUo9UFY3Vsc2g", "1500000000000-0"
JSON, NDJSON = "application/json", "application/x-ndjson"

COUNTS = ("0", "-1", "1", "2", "1000", "1001", "1.0", "1.5", "1e1", "abc", "", "%205%20", "%2B5", "+5", "0x10", "%D9%A1", "-0", "9" * 20,
          "9" * 5000, "NaN", "true", "null", "1_0", "05")  # fmt: skip
OFFSETS = ("0", "-1", "1", "29", "1000000000", "1000000001", "1.0", "x", "", "-0", "9" * 25)
FLAGS = (
    "true",
    "false",
    "1",
    "0",
    "yes",
    "no",
    "on",
    "off",
    "TRUE",
    "t",
    "f",
    "2",
    "",
    "null",
    "y",
    "%20true",
    "-1",
    "1.0",
)
SHARES = ("0", "1", "0.5", "-0.1", "1.1", "1.0000001", "NaN", "Infinity", "1e400", "1e-400", "abc", "", ".5", "1.", "0x1", "1_0", "-0", "0,5", "true")  # fmt: skip
NAMES = (
    "als",
    "als-implicit",
    "nope",
    "",
    "%00",
    "%ff",
    "%ed%a0%80",
    "als%20",
    "ALS",
    "a" * 256,
    "a" * 257,
    "%C3%A9" * 128,
    "%C3%A9" * 129,
)
POSITIONS = ("0-0", "1-1", PAST, "", "abc", "1", "1-", "-1", "1-1-1", "0x1-0", "1%20-0", "-1-0", "9" * 20 + "-0", "1-" + "9" * 20, "%D9%A1-0", "$", "1.5-0", "1e3-0", "+1-0", "null")  # fmt: skip
CURSORS = ("", LIE, "a" * 12, "!!!!", "%00", "a" * 80_001, "AAAA", "null", "%D9%A1", "00000000000000ff", "0004153b2d2c3b4e.17", "ffffffffffffffff", "0000000000000000", "fffffffffffffffff", "-1")  # fmt: skip
BOUNDS = (
    "1",
    "5.5",
    "-1",
    "0",
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "abc",
    "",
    "3.5e38",
    "1,5",
    "true",
    "1_0",
    "%D9%A1",
    "--1",
)
FILTERS = ("tag.genre=western", "tag.genre=western&tag.genre=noir", "tag.genre=", "tag.gener=western", "tag.=x", "tag.genre=nothing",
           "min.price=5", "max.price=5", "min.price=5&max.price=1", "min.price=", "min.price=abc", "min.price=1&min.price=2", "min.price=NaN",
           "max.price=1e39", "min.genre=1", "tag.price=1", "tag.genre=%ff", "tag.genre=%ed%a0%80", "tag.%00=x", "Tag.genre=western",
           "filter=genre", "filter.genre=western", "filter.tag=genre", "filter=%7B%7D", "mid.price=1", "tag.genre=" + "a" * 257,
           "&".join(f"tag.genre=v{n}" for n in range(256)), "&".join(f"tag.genre=v{n}" for n in range(257)), "tag=genre", "tag.genre[]=western",
           "tag.genre=western&min.price=2&max.price=20&tag.mood=dark")  # fmt: skip
UNKNOWN = ("nn=1", "N=1", "n%20=1", "n%00=1", "=1", "n", "n&n", "&&", "n=1&n=2", "user=u02", "explain[]=true", "%FF=1", "n=1#2", "?n=1", "n=1;offset=2", "_=1", "limit=5")  # fmt: skip
IDS = ("u01", "%75%30%31", "a%2Fb", "a/b", "b%C3%BCro", "b\xc3\xbcro", "two%20words", "two+words", "x+y", "x%2By", "nobody", "a" * 256, "a" * 257, "%C3%A9" * 128,
       "%C3%A9" * 129, "%00", "%ff", "%ed%a0%80", "", "%", "%zz", "%2", "..", ".", "u01/", "//", "50%25", "%E2%80%AE", "u01%0A", "%F0%9F%98%80", "u01;v=1", "~")  # fmt: skip
HALF_LIVES = (
    "1d",
    "7d",
    "1h",
    "0d",
    "-1d",
    "1",
    "d",
    "1D",
    "",
    "1d1h",
    "9999d",
    "10000d",
    "1.5d",
    "%201d",
    "1w",
    "99999999d",
    "NaNd",
)
FALLBACKS = ("popular", "trending", "latest", "none", "None", "", "popular%20", "best")

QUERIES: dict[str, dict[str, tuple[str, ...]]] = {
    "/recommend/{user}": {
        "n": COUNTS, "offset": OFFSETS, "exclude": (*NAMES, "i01&exclude=i02"), "include_seen": FLAGS, "min_ratings": COUNTS, "model": NAMES,
        "experiment": ("summer", "winter", "", "summer&model=als", "%ff"), "explain": FLAGS, "fallback": FALLBACKS, "explore": SHARES,
        "explore_below": ("0", "1", "20", "21", "x", "1.5"), "diversity": SHARES, "available": FLAGS, "cursor": CURSORS,
        "scenario": ("home", "hoem", "", "gone/tag", "gone%2Ftag", "home&n=1", "home&tag.genre=noir", "home&cursor=", "%ff", "a" * 257),
        "rotate": HALF_LIVES, "wait_for": POSITIONS,
    },
    "/popular": {"n": COUNTS, "offset": OFFSETS, "min_ratings": COUNTS, "cursor": CURSORS, "available": FLAGS, "half_life": HALF_LIVES, "wait_for": POSITIONS},
    "/latest": {"n": COUNTS, "offset": OFFSETS, "min_ratings": COUNTS, "cursor": CURSORS, "available": FLAGS, "wait_for": POSITIONS},
    "/items/{item}/neighbors": {"n": COUNTS, "model": NAMES, "cursor": CURSORS, "available": FLAGS, "wait_for": POSITIONS},
    "/users/{user}/neighbors": {"n": COUNTS, "model": NAMES, "cursor": CURSORS, "wait_for": POSITIONS},
    "/estimate/{user}/{item}": {"model": NAMES, "wait_for": POSITIONS},
    "/users/{user}/ratings": {"n": COUNTS, "offset": OFFSETS, "wait_for": POSITIONS},
    "/items/{item}/ratings": {"n": COUNTS, "offset": OFFSETS, "wait_for": POSITIONS},
    "/users": {"n": COUNTS, "cursor": CURSORS, "wait_for": POSITIONS},
    "/items": {"n": COUNTS, "cursor": CURSORS, "wait_for": POSITIONS},
    "/items/{item}": {"wait_for": POSITIONS},
    "/admin/items": {"n": COUNTS, "cursor": CURSORS, "hidden": FLAGS, "wait_for": POSITIONS},
    "/admin/ratings": {"n": COUNTS, "cursor": CURSORS, "below": BOUNDS, "above": BOUNDS, "wait_for": POSITIONS},
    "/admin/stats": {"wait_for": POSITIONS},
    "/admin/sources": {"n": COUNTS, "offset": OFFSETS, "wait_for": POSITIONS},
    "/admin/audit": {"n": ("0", "1001", "x", ""), "cursor": ("x", "%00", "1", "2026-13-0001:1")},
    "/admin/jobs": {"wait_for": POSITIONS},
    "/admin/jobs/{job}": {"wait_for": POSITIONS},
    "/admin/models": {"wait_for": POSITIONS},
    "/admin/models/{model}/quality": {"wait_for": POSITIONS},
    "/admin/scenarios": {"wait_for": POSITIONS},
    "/admin/scenarios/{name}": {"wait_for": POSITIONS},
    "/admin/experiments": {"wait_for": POSITIONS},
    "/admin/experiments/{experiment}": {"wait_for": POSITIONS},
    "/admin/export": {"what": ("all", "", "Ratings", "ratings&what=all"), "format": ("csv", "", "json"), "wait_for": ("abc", "")},
    "/admin/exports": {}, "/admin/exports/{job}": {}, "/admin/webhooks": {}, "/admin/keys": {}, "/health/live": {}, "/health/ready": {}, "/metrics": {},
}  # fmt: skip
FILTERED = {"/recommend/{user}", "/popular", "/latest", "/items/{item}/neighbors", "/items", "/admin/items"}
GOOD = {"user": "u01", "item": "i01", "job": "${job}", "model": "als", "name": "home", "experiment": "summer"}
OTHERS = {"job": ("nope", "%ff", "", "0" * 12, "a" * 300), "model": ("nope", "%ff", "", "als-implicit", "%00"),
          "name": ("hoem", "gone%2Ftag", "gone/tag", "%ff", "", "a" * 257, "%ed%a0%80", "%00"), "experiment": ("winter", "%ff", "", "a" * 256, "a" * 257)}  # fmt: skip
LOOSE = {"/admin/audit", "/admin/stats"}

A_RATING = {"user": "w01", "item": "w-i01", "rating": 4.5, "timestamp": 1_500_000_000}
AN_EVENT = {"user": "w01", "item": "w-i01", "type": "view", "value": 2, "timestamp": 1_500_000_000, "event_id": "e-1"}
AN_ITEM = {"item": "w-i02", "tags": {"genre": ["western"]}, "numbers": {"price": 3}, "available": True, "published": 1_500_000_100, "until": "2090-01-01"}  # fmt: skip
A_BODY = {"n": 3, "offset": 1, "exclude": ["i05"], "candidates": ["i01", "i02", "i03", "i04", "i05", "i09"], "include_seen": True, "min_ratings": 1,
          "model": "als", "explain": True, "fallback": "latest", "diversity": 0.2, "available": True,
          "filter": {"any": [{"tag": "genre", "in": ["western"]}, {"number": "price", "min": 2, "max": 9}]},
          "boosts": [{"filter": {"tag": "genre", "in": ["noir"]}, "add": 0.25}], "pins": [{"item": "i09", "at": 1}],
          "max_per": {"tag": "genre", "n": 2}, "rotate": {"half_life": "6h", "by": 0.5}, "wait_for": PAST}  # fmt: skip
RATED = [{"item": "i01", "rating": 5, "timestamp": 1_500_000_000}, {"item": "i04", "rating": 1}]
ANYTHING: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    "1",
    "",
    "text",
    [],
    {},
    [1],
    {"a": 1},
    10**400,
    -(10**30),
    [None],
    [[]],
    "\ud800",
    "a" * 257,
    "\0",
)
DEEP = 20


def _nested(depth: int) -> Any:
    node: Any = {"tag": "genre", "in": ["western"]}
    for _ in range(depth - 1):
        node = {"not": node}
    return node


SPECIAL: dict[str, tuple[Any, ...]] = {
    "rating": (1e6, 1e6 + 1, -1e6, -1e6 - 1, "5", True, None, 1e308), "timestamp": (1_500_000_000_000, -1, "2023-11-14", "2023-11-14T22:13:20Z", "2023-13-40", "yesterday", 1e300, 253402300800, 253402300799, "1500000000"),
    "value": (1e6, 1e6 + 1, 0, -1), "type": ("view", "lease", "VIEW", "a" * 65, "view "), "event_id": ("a" * 128, "a" * 129, "é" * 128), "recommendation_id": ("x", "a.b", "a" * 2000, "WyJzdW1tZXIi.aaaa"),
    "user": ("a" * 256, "a" * 257, "é" * 128, "é" * 129, "w\0", " "), "item": ("a" * 256, "a" * 257, "é" * 129, "a/b"),
    "tags": ({"genre": "western"}, {"genre": []}, {"genre": None}, {"price": ["x"]}, {"genre": [""]}, {"genre": ["a" * 257]}, {"": ["x"]}, {"a" * 65: ["x"]}, {"genre": [f"v{n}" for n in range(1001)]}, {f"t{n}": ["x"] for n in range(101)}, {"genre": [1]}, {"genre": ["x", "x"]}, {"\ud800": ["x"]}),
    "numbers": ({"price": "3"}, {"price": None}, {"genre": 3}, {"price": 1e39}, {"price": True}, {"price": float("nan")}, {"": 1}, {f"n{n}": 1 for n in range(101)}, {"price": 10**400}),
    "published": ("2023-11-14", 1_500_000_000_000, "soon", 1e300), "until": (0, "2023-11-14T22:13:20+25:00", "2023-02-30"),
    "embedding": ([1.0, 2.0], [], [0] * 4097, ["x"], [1e39], [float("nan")], [None]),
    "n": (0, 1, 1000, 1001, "3", 3.0, 2.5, True, 10**30), "offset": (-1, 0, 10**9, 10**9 + 1, 998, 997), "exclude": (["i01"] * 10_000, ["x"] * 10_001, [""], ["a" * 257], ["nobody"], [1, 2, 3]),
    "candidates": (["nobody"], ["i01"] * 10_001, [""], [None]), "min_ratings": (0, -1, 10**6), "model": ("nope", "als-implicit", "a" * 257), "experiment": ("summer", "winter"), "fallback": ("none", "best"),
    "explore": (0, 1, 1.1, -0.1, "0.5", float("nan")), "explore_below": (0, 1, 20, 21), "diversity": (0, 1, 1.1, -0.1), "cursor": ("", LIE, "a" * 80_001),
    "filter": ({}, {"all": []}, {"tag": "genre"}, {"tag": "gener", "in": ["x"]}, {"tag": "genre", "in": []}, {"tag": "genre", "in": [1]}, {"number": "price"}, {"number": "price", "min": "1"}, {"number": "price", "min": 1e39}, {"number": "price", "min": 5, "max": 1}, {"not": {"tag": "genre", "in": ["western"]}}, {"all": [{"tag": "genre", "in": ["western"]}], "any": []}, {"tag": "genre", "in": [f"v{n}" for n in range(256)]}, {"tag": "genre", "in": [f"v{n}" for n in range(257)]}, _nested(16), _nested(17), _nested(400), {"and": [1]}, {"tag": 1, "in": ["x"]}, {"tag": "genre", "in": "western"}, {"tag": "\ud800", "in": ["x"]}, "genre"),
    "boosts": ([{"filter": {"tag": "genre", "in": ["noir"]}}], [{"add": 1}], [{"filter": {}, "add": 1}], [{"filter": {"tag": "genre", "in": ["noir"]}, "add": 1e7}], [{"filter": {"tag": "genre", "in": ["noir"]}, "add": 0.1}] * 6, [{"filter": {"tag": "gener", "in": ["noir"]}, "add": 1}]),
    "pins": ([{"item": "i01", "at": 0}], [{"item": "i01", "at": 1001}], [{"item": "i01", "at": 1}, {"item": "i02", "at": 1}], [{"item": "i01", "at": 1}, {"item": "i01", "at": 2}], [{"item": "i01"}], [{"at": 1}], [{"item": "nobody", "at": 1}], [{"item": f"i{n}", "at": n + 1} for n in range(101)], [{"item": "i07", "at": 1}]),
    "max_per": ({"tag": "genre"}, {"n": 1}, {"tag": "", "n": 1}, {"tag": "gener", "n": 1}, {"tag": "genre", "n": 0}, {"tag": "genre", "n": 1001}, {"tag": "price", "n": 1}),
    "rotate": ("6h", "6", {"half_life": "6h", "by": -1}, {"by": 1}, {"half_life": "10000d"}, {"half_life": 6}, {"half_life": "6h", "by": 1e7}),
    "scenario": ("home", "hoem", "gone/tag"), "wait_for": ("abc", "1-1", 5, "9" * 20 + "-0", PAST),
    "ratings": ([], [{"item": "i01"}], [{"item": "i01", "rating": None}], [{"item": "", "rating": 1}], [{"item": "i01", "rating": 1e7}], [{"item": "i01", "rating": "5"}], RATED * 501, [{"item": "i01", "rating": 5, "user": "x"}], [{"item": "i01", "rating": 5, "timestamp": 1e13}], [1], [{"item": "nobody", "rating": 3}]),
    "order_half_life": (0, 1e-9, 1e6, 1e6 + 1, -1, "5", 5), "users": ([], ["u01"], [""], ["nobody"], ["u01", "u01"], ["u01"] * 1000, ["u01"] * 1001, [1], ["a" * 257], "all", "some"),
    "items": ([], ["i01"], ["nobody"], ["i01"] * 100, ["i01"] * 101, [""], ["i01", "nobody"]),
    "algorithm": ("ALS", "als ", ""), "params": ({"n_factors": 0}, {"n_factors": "8"}, {"nope": 1}, {"n_factors": None}, {f"p{n}": 1 for n in range(65)}, {"n_factors": 10**30}, {"seed": -1}, {"n_epochs": 1.5}), "name": ("Home", "a" * 40, "a" * 41, "a b", "-", "é"),
    "shadow": (True,), "tune": ("yes",), "force": (1,), "activate": ("no",),
    "from": ("nobody", "u01", "a" * 257), "arms": ([], [{"model": "als", "share": 100}], [{"model": "als", "share": 50}, {"model": "als", "share": 50}], [{"model": "als", "share": 50}, {"model": "nope", "share": 50}], [{"model": "als", "share": 50}, {"model": "als-implicit", "share": 49}], [{"model": "als", "share": 0}, {"model": "als-implicit", "share": 100}], [{"model": f"m{n}", "share": 1} for n in range(11)], [{"model": "als"}, {"share": 5}]), "salt": ("", "a" * 257),
    "url": ("", "ftp://8.8.8.8/", "http://user:pw@8.8.8.8/", "http://127.0.0.1/", "https://8.8.8.8:22/", "http://localhost/", "nope", "https://8.8.8.8/" + "a" * 3000, "http://[::1]/", "http://169.254.169.254/"), "events": ([], ["train.succeeded"], ["train.done"], ["train.failed"] * 10, ["train.failed", "train.failed"]),
    "scope": ("read", "admin", "root", "READ"), "expires": (0, "2020-01-01", "2090-01-01", "soon", 1e13, 4_000_000_000), "data_sets": (["default"], ["nope"], [], [1], ["default"] * 101),
}  # fmt: skip

# Method and path, good body, its other fields, phase (1: reads, 2: writes, 3: what changes models, keys and jobs).
BODIES: tuple[tuple[str, str, dict[str, Any], tuple[str, ...], int], ...] = (
    ("POST", "/recommend/u01", A_BODY, ("ratings", "order_half_life", "cursor", "scenario", "experiment", "explore", "explore_below"), 1),
    ("POST", "/recommend", {"users": ["u01", "u02", "nobody"], "n": 2}, ("wait_for", "filter", "candidates", "pins", "ratings", "scenario"), 1),
    ("POST", "/recommend", {"ratings": RATED, "n": 2, "model": "als-implicit"}, ("order_half_life", "cursor", "users", "boosts", "exclude"), 1),
    ("POST", "/neighbors", {"items": ["i01", "i02"], "n": 3, "model": "als", "available": True}, ("filter", "cursor", "wait_for"), 1),
    ("POST", "/ratings", A_RATING, (), 2),
    ("POST", "/events", AN_EVENT, ("recommendation_id",), 2),
    ("POST", "/items", AN_ITEM, (), 2),
    ("PATCH", "/items", AN_ITEM, (), 2),
    ("PATCH", "/items/w-i03", {key: value for key, value in AN_ITEM.items() if key != "item"}, ("item",), 2),
    ("PUT", "/admin/scenarios/made", {key: value for key, value in A_BODY.items() if key != "wait_for"}, ("wait_for", "scenario", "ratings", "cursor"), 2),
    ("PUT", "/admin/experiments/made", {"arms": [{"model": "als", "share": 50}, {"model": "als-implicit", "share": 50}], "salt": "s"}, (), 2),
    ("POST", "/admin/users/w50/merge", {"from": "w51", "wait_for": PAST}, (), 3),
    ("POST", "/admin/retrain", {"algorithm": "alz", "params": {"n_factors": 4}, "name": "mine", "shadow": False, "activate": True, "tune": False, "force": False}, (), 3),
    ("POST", "/admin/lists", {"users": "some", "n": 3, "filter": {"tag": "genre", "in": ["noir"]}, "model": "als"}, (), 3),
    ("POST", "/admin/webhooks", {"url": "https://8.8.8.8/jobs", "events": ["train.failed"]}, (), 3),
    ("POST", "/admin/keys", {"name": "shop", "scope": "read", "expires": 4_000_000_000, "data_sets": ["default"]}, (), 3),
)  # fmt: skip


class Pools:
    """Requests by operation."""

    def __init__(self) -> None:
        self._pools: dict[tuple[int, str], list[Request]] = {}
        self._kinds: dict[str, list[tuple[tuple[int, str], Request]]] = {}

    def add(
        self,
        phase: int,
        method: str,
        path: str,
        target: str,
        note: str,
        *headers: tuple[str, str],
        of: str = "",
        kind: str = "",
        **more: Any,
    ) -> None:
        """One more request of the operation, or of the pool `of`; `note` says what is special about it.

        Of each `kind` one is drawn for sure, whatever the operation is.
        """
        named = [header for header in headers if header[1]]
        if not any(name.lower() == "x-api-key" for name, _ in headers):
            named.insert(0, ("X-API-Key", KEYS["admin"]))
        request = Request(f"{method} {path}: {note}", method, target, tuple(named), **more)
        key = phase, of or f"{method} {path}"
        self._pools.setdefault(key, []).append(request)
        if kind:
            self._kinds.setdefault(kind, []).append((key, request))

    def drawn(self, n: int, draw: random.Random) -> list[Request]:
        """`n` requests in order of phases: one of each kind, then the pools take turns, each in an order of its own."""
        sure = [draw.choice(several) for several in self._kinds.values()]
        for pool in self._pools.values():
            draw.shuffle(pool)
        shares = ([(key, one) for one in pool] for key, pool in self._pools.items())
        turns = itertools.zip_longest(*(_shares(pool) for pool in shares))
        further = [one for turn in turns for share in turn if share is not None for one in share]
        flat = {id(request): (key, request) for key, request in (*sure, *further)}
        assert len(sure) < n <= len(flat)
        places = {key: place for place, key in enumerate(self._pools)}
        chosen = sorted(itertools.islice(flat.values(), n), key=lambda one: (one[0][0], places[one[0]]))
        return [request for _, request in chosen]


def _shares(pool: list[Any]) -> list[list[Any]]:
    """What a pool gives in each turn: the more the larger it is, or the more its route is used."""
    size = OFTEN.get(pool[0][0][1], 1 + len(pool) // A_TURN)
    return [pool[first : first + size] for first in range(0, len(pool), size)]


def _of(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=True).encode()


def _shown(value: Any) -> str:
    text = json.dumps(value) if not isinstance(value, str) or not value.isprintable() else value
    return text if len(text) <= 48 else f"{text[:40]}… ({len(text):,})"


def _with_ids(path: str, **ids: str) -> str:
    for name, value in (GOOD | ids).items():
        path = path.replace("{" + name + "}", value)
    return path


def reads(pools: Pools) -> None:
    """Each parameter of each `GET`, each id of its path, filters and names that it does not have."""
    few = (UNKNOWN[first : first + 3] for first in itertools.cycle(range(0, len(UNKNOWN), 3)))
    for path, parameters in QUERIES.items():
        loose: dict[str, Any] = {"is_loose": path in LOOSE}
        pools.add(1, "GET", path, _with_ids(path), "plain", **loose) if path != "/admin/export" else None
        for name, values in parameters.items():
            of_day: dict[str, Any] = {"is_loose": path in LOOSE or name == "explore"}
            for value in values:
                pools.add(
                    1,
                    "GET",
                    path,
                    f"{_with_ids(path)}?{name}={value}",
                    f"{name}={_shown(value)}",
                    kind=f"{values[:3]} {value}",
                    **of_day,
                )
        for query in UNKNOWN if path in FILTERED else next(few):
            pools.add(1, "GET", path, f"{_with_ids(path)}?{query}", f"?{query}", kind=f"?{query}", **loose)
        for query in FILTERS if path in FILTERED else ("tag.genre=western", "filter.genre=x"):
            pools.add(1, "GET", path, f"{_with_ids(path)}?{query}", f"?{_shown(query)}", kind=f"?{query}", **loose)
        for name in (name for name in GOOD if "{" + name + "}" in path):
            for value in IDS if name in ("user", "item") else OTHERS[name]:
                pools.add(
                    1,
                    "GET",
                    path,
                    _with_ids(path, **{name: value}),
                    f"{name} {_shown(value)}",
                    kind=f"id {value}",
                    **loose,
                )


def bodies(pools: Pools) -> None:
    """Each field of each body: missing, null, of other types, at its bounds and beyond."""
    for method, path, good, further, phase in BODIES:
        media = ("Content-Type", JSON)

        def add(
            note: str, body: bytes, *headers: tuple[str, str], kind: str = "", of: Any = (method, path, phase, media)
        ) -> None:
            pools.add(of[2], of[0], of[1], of[1], note, *(headers or (of[3],)), kind=kind, body=body)

        add(f"good {next(iter(good))}", _of(good))
        for name in (*good, *further):
            add(f"without {name}", _of({key: value for key, value in good.items() if key != name}))
            for value in ANYTHING:
                add(f"{name}: {_shown(value)}", _of(good | {name: value}))
            for value in SPECIAL.get(name, ()):
                add(f"{name}: {_shown(value)}", _of(good | {name: value}), kind=f"{name}: {value!r}")
        text = _of(good)
        for note, body in _broken(text):
            add(note, body, kind=note)
        for name in _types():
            add(f"type {_shown(name)}", text, ("Content-Type", name), kind=f"type {name}")
        packed = gzip.compress(text, mtime=0)
        for note, encoding, body in (
            ("gzip", "gzip", packed), ("x-gzip", "x-gzip", packed), ("GZIP", "GZIP", packed), ("identity", "identity", text), ("br", "br", text),
            ("gzip cut off", "gzip", packed[:-9]), ("gzip twice", "gzip", packed * 2), ("gzip of text", "gzip", text), ("gzip, gzip", "gzip, gzip", packed),
            ("deflate", "deflate", packed), ("gzip and more", "gzip", packed + b"x"), ("gzip of much", "gzip", gzip.compress(b" " * (MAX_BODY + 1), mtime=0)),
        ):  # fmt: skip
            add(note, body, media, ("Content-Encoding", encoding), kind=note)
        for key, value in (("none", ""), ("read", KEYS["read"]), ("write", KEYS["write"]), ("api", KEYS["api"])):
            add(f"with the key {key}", text, media, ("X-API-Key", value), kind=f"writes by {key}")
        pools.add(phase, method, path, path + "?n=1", "with a query", media, body=text)
        pools.add(phase, method, path, path + "/", "trailing slash", media, body=text)
        pools.add(phase, method, path, path, "no body", media)
        pools.add(phase, method, path, path, "no body nor type")


def _broken(text: bytes) -> Iterator[tuple[str, bytes]]:
    """Bodies that are no JSON, or an odd one."""
    yield "empty", b""
    yield "spaces", b"  \n"
    yield "cut off", text[:-1]
    yield "more after it", text + b"x"
    yield "twice", text + text
    yield "an unknown field", text[:-1] + b', "nope": 1}'
    yield "an unknown field with a surrogate", text[:-1] + b', "\\ud800": 1}'
    yield "an unknown field, long", text[:-1] + b', "' + b"x" * 5000 + b'": 1}'
    yield "a hundred unknown fields", text[:-1] + b"".join(b', "f%d": 1' % n for n in range(100)) + b"}"
    yield "a field twice", text[:-1] + b", " + text[1:]
    yield "bad UTF-8", text[:-1] + b', "nope\xff": 1}'
    yield "UTF-8 with a mark", b"\xef\xbb\xbf" + text
    yield "UTF-16", text.decode().encode("utf-16")
    yield "deep lists", b"[" * 2000 + b"]" * 2000
    yield "deep objects", b'{"a":' * 2000 + b"1" + b"}" * 2000
    yield "a comment", text[:-1] + b"/* x */}"
    yield "single quotes", text.replace(b'"', b"'")
    for value in (
        b"null",
        b"true",
        b"5",
        b'"text"',
        b"NaN",
        b"[]",
        b"{}",
        b"[{}]",
        b"[null]",
        b"[[]]",
        b"Infinity",
        b"[NaN]",
    ):
        yield f"only {value.decode()}", value
    yield "an array of one", b"[" + text + b"]"
    yield "an array with a bad one", b"[" + text + b", 5, " + text + b"]"
    yield "an array of 1,000", b"[" + b",".join([text] * 1000) + b"]"
    yield "an array of 1,001", b"[" + b",".join([text] * 1001) + b"]"
    yield "50,000 values", b"[" + b",".join([b"1"] * 50_000) + b"]"
    yield "50,001 values", b"[" + b",".join([b"1"] * 50_001) + b"]"
    yield "longest", text + b" " * (MAX_BODY - len(text))
    yield "too long", text + b" " * (MAX_BODY + 1 - len(text))
    for number in (b"NaN", b"-Infinity", b"1e400", b"1" * 400, b"01", b"1.", b".5", b"+1", b"0x1", b"1e", b"-"):
        name = next(
            (
                name
                for name in (b'"rating": ', b'"value": ', b'"price": ', b'"n": ', b'"share": ', b'"expires": ')
                if name in text
            ),
            None,
        )
        if name is not None:
            before, _, after = text.partition(name)
            end = min(after.find(mark) % (len(after) + 1) for mark in (b",", b"}"))
            yield f"the number {number.decode()[:20]}", before + name + number + after[end:]


def _types() -> Iterable[str]:
    return ("text/plain", "", "application/xml", "application/JSON", "application/json; charset=utf-8", "application/json;charset=latin-1", " application/json",
            "application/x-www-form-urlencoded", "multipart/form-data", "application/problem+json", "json", NDJSON, "application/x-ndjson; charset=utf-8", "\xe9",
            "application/jsonp", "x" * 500)  # fmt: skip


def elements(pools: Pools) -> None:
    """Arrays and lines of elements, and sources."""
    for method, path, good in (
        ("POST", "/ratings", A_RATING),
        ("POST", "/events", AN_EVENT),
        ("POST", "/items", AN_ITEM),
        ("PATCH", "/items", AN_ITEM),
    ):
        text = _of(good)
        for note, body in (
            ("lines", text + b"\n" + text), ("lines with a last end", text + b"\n"), ("lines with empty ones", b"\n\n" + text + b"\n\n" + text + b"\n"),
            ("lines, one bad", text + b"\n{\n" + text), ("lines, one empty object", b"{}\n" + text), ("lines, two in one", text + text + b"\n"), ("lines, one of two lines", text.replace(b", ", b",\n", 1)),
            ("no line", b""), ("only ends", b"\n\n\n"), ("lines with CR", text + b"\r\n" + text + b"\r\n"), ("lines, 1,000", b"\n".join([text] * 1000)), ("lines, 1,001", b"\n".join([text] * 1001)),
            ("lines, bad UTF-8", b"\xff\n" + text), ("lines, null", b"null\n5\n[]\n" + text), ("lines, NaN", b'{"a": NaN}\n' + text), ("lines, deep", b"[" * 3000 + b"\n" + text), ("an array as a line", b"[" + text + b"]"),
            ("lines, one large", b'{"a": [' + b"1," * 50_001 + b"1]}\n" + text),
        ):  # fmt: skip
            pools.add(2, method, path, path, note, ("Content-Type", NDJSON), kind=note, body=body)
        many = [good | {"item": f"w-m{n}"} for n in range(5)]
        for note, documents in (
            ("five good ones", many), ("each bad otherwise", [good | {"item": value} for value in ANYTHING]), ("all bad", [1, None, "x"]), ("empty array", []),
            ("unknown fields", [good | {"x": 1}, good | {"y": None}]), ("missing fields", [{key: value for key, value in good.items() if key != name} for name in good]),
        ):  # fmt: skip
            pools.add(2, method, path, path, note, ("Content-Type", JSON), kind=note, body=_of(documents))
        if path == "/items":
            continue
        for note, source, offset in (
            ("first", "q/0", "5"), ("again", "q/0", "5"), ("later", "q/0", "6"), ("earlier", "q/0", "4"), ("far", "q/0", "200000006"), ("no offset", "q/1", ""), ("no source", "", "5"),
            ("negative", "q/0", "-1"), ("largest", "q/2", "9223372036854775807"), ("too large", "q/2", "9223372036854775808"), ("text", "q/0", "x"), ("fraction", "q/0", "1.5"), ("long", "a" * 256, "1"),
            ("too long", "a" * 257, "1"), ("not ASCII", "q\xe9", "1"), ("spaces", "q 0", " 7 "), ("hex", "q/0", "0x8"), ("grouped", "q/0", "1_000"),
        ):  # fmt: skip
            pools.add(
                2,
                method,
                path,
                path,
                f"source {note}",
                ("Content-Type", JSON),
                ("X-Source", source),
                ("X-Offset", offset),
                kind=f"source {note}",
                body=text,
            )
    for source, query in (("q%2F0", ""), ("nope", ""), ("q%2F0", "?key="), ("q%2F0", "?key=admin_key"), ("%ff", ""), ("", ""), ("a" * 257, ""), ("q/0", ""), ("q%2F0", "?key=" + "a" * 400), ("x", "?kay=1")):  # fmt: skip
        pools.add(
            2, "DELETE", "/admin/sources/{source}", f"/admin/sources/{source}{query}", f"{_shown(source)}{query[:20]}"
        )


def changes(pools: Pools) -> None:
    """Writes without a body."""
    for value in IDS:
        shown = _shown(value)
        of_writes = value if value not in ("u01", "%75%30%31") else "w01"
        pools.add(2, "DELETE", "/ratings/{user}/{item}", f"/ratings/{of_writes}/w-i01", f"user {shown}")
        pools.add(2, "DELETE", "/ratings/{user}/{item}", f"/ratings/w02/{of_writes}", f"item {shown}")
        pools.add(2, "PUT", "/admin/items/{item}/hidden", f"/admin/items/{of_writes}/hidden", f"item {shown}")
        pools.add(2, "DELETE", "/admin/items/{item}/hidden", f"/admin/items/{of_writes}/hidden", f"item {shown}")
        pools.add(3, "DELETE", "/items/{item}", f"/items/{of_writes}", f"item {shown}")
        pools.add(
            3,
            "PATCH",
            "/items/{item}",
            f"/items/{of_writes}",
            f"item {shown}",
            ("Content-Type", JSON),
            body=b'{"numbers": {"price": 4}}',
        )
        pools.add(3, "DELETE", "/admin/users/{user}", f"/admin/users/{of_writes}", f"user {shown}")
        pools.add(
            3,
            "POST",
            "/admin/users/{user}/merge",
            f"/admin/users/{of_writes}/merge",
            f"user {shown}",
            ("Content-Type", JSON),
            body=b'{"from": "w01"}',
        )
    for path in ("/ratings/w01/w-i01", "/admin/items/w-i01/hidden", "/items/w-i04", "/admin/users/w09"):
        pools.add(3, "DELETE", path, f"{path}?n=1", "with a query")
        pools.add(3, "DELETE", path, f"{path}/", "trailing slash")
        pools.add(3, "DELETE", path, path, "with a body", ("Content-Type", JSON), body=b"{}")
        for key in ("read", "write", "api"):
            pools.add(3, "DELETE", path, path, f"with the key {key}", ("X-API-Key", KEYS[key]))
    for name in ("home-", "%ff", "", "a" * 257, "gone%2Ftag", "nope"):
        pools.add(3, "DELETE", "/admin/scenarios/{name}", f"/admin/scenarios/{name}", _shown(name))
        pools.add(3, "DELETE", "/admin/experiments/{experiment}", f"/admin/experiments/{name}", _shown(name))
        pools.add(3, "DELETE", "/admin/models/{name}", f"/admin/models/{name}", _shown(name))
        pools.add(3, "POST", "/admin/models/{version}/activate", f"/admin/models/{name}/activate", _shown(name))
        pools.add(3, "DELETE", "/admin/jobs/{job}", f"/admin/jobs/{name}", _shown(name))
        pools.add(3, "DELETE", "/admin/keys/{key}", f"/admin/keys/{name}", _shown(name))
        pools.add(3, "DELETE", "/admin/webhooks/{webhook}", f"/admin/webhooks/{name}", _shown(name))


def around(pools: Pools) -> None:
    """Methods and paths."""
    for path in ("/recommend/u01", "/ratings", "/items", "/items/i01", "/admin/models", "/health/live", "/", "/docs", "/openapi.json", "/nope", "/metrics", "/neighbors", "/console", "/admin/jobs/x"):  # fmt: skip
        for method in ("HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "FOO", "get", "CONNECT", "QUERY"):
            if (method, path) not in {
                ("POST", "/ratings"),
                ("POST", "/items"),
                ("PATCH", "/items"),
                ("PATCH", "/items/i01"),
                ("DELETE", "/items/i01"),
            }:
                pools.add(1, method, path, path, "a method", of="methods", kind=f"method {method}")
    for path in ("", "/", "//", "/recommend", "/recommend/", "/Recommend/u01", "/recommend/u01/x", "/items/", "/admin", "/admin/", "/api/v1/popular", "/d/", "/d/nope", "/d/nope/popular", "/d//popular", "/d/%2F/popular",
                 "/popular/", "//popular", "/popular%20", "/popular%2F", "/%70opular", "/./popular", "/x/../popular", "/favicon.ico", "/console", "/console/", "/docs/", "/docs/x.js", "/openapi.json?x=1", "/redoc",
                 "/metrics/", "/health", "/health/", "/health/ready/", "/admin/audit/x", "/users/u01", "/estimate/u01", "/items/i01/neighbors/x", "/openapi.yaml", "/static/x", "*", "popular"):  # fmt: skip
        pools.add(1, "GET", "paths", path or "/?", path or "empty query", kind=f"path {path}")
        pools.add(1, "GET", "paths without a key", path or "/?", path or "empty query", ("X-API-Key", ""))


def of_clients(pools: Pools) -> None:
    """Keys, request ids, origins, hosts and other headers."""
    n = itertools.count(1)
    for path in (
        "/recommend/u01?n=1",
        "/popular?n=1",
        "/admin/models",
        "/admin/keys",
        "/health/live",
        "/nope",
        "/openapi.json",
        "/console",
        "/users?n=1",
        "/items/i01",
        "/admin/audit",
    ):
        for note, key in (("no key", ""), ("wrong", "wrong-key-of-nobody"), ("read", KEYS["read"]), ("write", KEYS["write"]), ("api", KEYS["api"]), ("short", "x"), ("not ASCII", "\xe9" * 16), ("spaces", f" {KEYS['read']} "), ("upper case", KEYS["read"].upper()), ("long", "k" * 4000)):  # fmt: skip
            pools.add(
                1,
                "GET",
                "keys",
                path,
                f"{path} {note}",
                ("X-API-Key", key),
                ("X-Forwarded-For", f"192.0.2.{next(n)}"),
                kind=f"key {note}",
                is_loose=path == "/admin/audit",
            )
    for path in ("/recommend/u01?n=1", "/popular?n=1", "/nope", "/recommend/u01?n=0"):
        for value in ("abc", "a" * 128, "a" * 129, "", "with space", "b\xfcro", "x\ty", "1", "<script>", '"q"'):
            pools.add(
                1,
                "GET",
                "request ids",
                path,
                f"{path} {_shown(value)}",
                ("X-Request-ID", value or " "),
                kind=f"request id {value}",
            )
        for origin in (
            "https://shop.example",
            "https://evil.example",
            "null",
            "",
            "http://shop.example",
            "https://shop.example:443",
            "https://SHOP.example",
            "x",
        ):
            pools.add(
                1,
                "GET",
                "origins",
                path,
                f"{path} from {origin or 'empty'}",
                ("Origin", origin or " "),
                kind=f"from {origin}",
            )
            for wanted in ("GET", "DELETE", "FOO"):
                asking = (("Origin", origin or " "), ("Access-Control-Request-Method", wanted), ("X-API-Key", ""))
                pools.add(
                    1,
                    "OPTIONS",
                    "preflights",
                    path,
                    f"{path} of {wanted} from {origin or 'empty'}",
                    *asking,
                    kind=f"{wanted} from {origin}",
                )
        for header in (("Host", "evil.example"), ("Host", "localhost"), ("Sec-Fetch-Site", "cross-site"), ("Accept", "text/html"), ("Accept", "image/png"), ("Accept-Encoding", "gzip"), ("Connection", "close"), ("If-None-Match", "*"),
                       ("Range", "bytes=0-1"), ("Expect", "100-continue"), ("Content-Type", "text/plain"), ("X-HTTP-Method-Override", "DELETE"), ("traceparent", "00-x"), ("X-Unknown", "1"), ("Cookie", "a=b"), ("Upgrade", "h2c"),
                       ("X-Long", "x" * 20_000), ("X-Forwarded-For", "nonsense"), ("X-Forwarded-For", "192.0.2.1, 127.0.0.1")):  # fmt: skip
            pools.add(1, "GET", "headers", path, f"{path} {header[0]}: {_shown(header[1])}", header, kind=str(header))
        pools.add(1, "GET", "with a body", path, path, ("Content-Type", JSON), body=b"{}")
        pools.add(1, "GET", "with a body", path, f"{path} of text", ("Content-Type", "text/plain"), body=b"x")
    for accept in ("text/plain", "application/openmetrics-text", "application/json", ""):
        pools.add(1, "GET", "/metrics", "/metrics", f"Accept {accept}", ("Accept", accept or "*/*"))


def raw(pools: Pools) -> None:
    """What only bytes can say: lengths, chunks, lines and versions."""
    key, rating = f"X-API-Key: {KEYS['admin']}", _of(A_RATING).decode()
    post = f"POST /ratings HTTP/1.1\r\nHost: localhost\r\n{key}\r\nContent-Type: application/json\r\n"
    size = len(rating)
    chunks = f"{size:x}\r\n{rating}\r\n0\r\n\r\n"
    for note, text in (
        ("chunks", post + "Transfer-Encoding: chunked\r\n\r\n" + chunks), ("chunks in capitals", post + "Transfer-Encoding: CHUNKED\r\n\r\n" + chunks), ("chunks with an extension", post + f"Transfer-Encoding: chunked\r\n\r\n{size:x};a=b\r\n{rating}\r\n0\r\n\r\n"),
        ("chunks with a trailer", post + f"Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n{rating}\r\n0\r\nX-T: 1\r\n\r\n"), ("chunks of a bad size", post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n"), ("chunks of a negative size", post + "Transfer-Encoding: chunked\r\n\r\n-1\r\n"),
        ("chunks without an end of line", post + f"Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n{rating}XX0\r\n\r\n"), ("chunks and a length", post + f"Transfer-Encoding: chunked\r\nContent-Length: {size}\r\n\r\n" + chunks), ("gzip, chunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunks),
        ("gzip as transfer encoding", post + "Transfer-Encoding: gzip\r\n\r\n"), ("two transfer encodings", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks), ("identity", post + f"Transfer-Encoding: identity\r\nContent-Length: {size}\r\n\r\n{rating}"),
        ("two equal lengths", post + f"Content-Length: {size}\r\nContent-Length: {size}\r\n\r\n{rating}"), ("two lengths", post + f"Content-Length: {size}\r\nContent-Length: 5\r\n\r\n{rating}"), ("lengths in a list", post + f"Content-Length: {size}, {size}\r\n\r\n{rating}"),
        ("a negative length", post + "Content-Length: -5\r\n\r\n"), ("a length with a sign", post + f"Content-Length: +{size}\r\n\r\n{rating}"), ("a length of text", post + "Content-Length: abc\r\n\r\n"), ("a hexadecimal length", post + "Content-Length: 0x10\r\n\r\n"), ("a huge length", post + "Content-Length: 99999999999999999999\r\n\r\n"),
        ("too long by its length", post + f"Content-Length: {MAX_BODY + 1}\r\n\r\n"), ("a length of 0", post + "Content-Length: 0\r\n\r\n"), ("a folded header", post + f"X-A: b\r\n c\r\nContent-Length: {size}\r\n\r\n{rating}"), ("a space before the colon", post + f"Content-Length : {size}\r\n\r\n{rating}"),
        ("a zero byte", post + f"X-A: \0\r\nContent-Length: {size}\r\n\r\n{rating}"), ("lines without CR", f"GET /popular?n=1 HTTP/1.1\nHost: localhost\n{key}\r\n\r\n"), ("HTTP/1.0", f"GET /popular?n=1 HTTP/1.0\r\n{key}\r\n\r\n"), ("HTTP/1.0 kept alive", f"GET /recommend/u01?n=1 HTTP/1.0\r\nConnection: keep-alive\r\n{key}\r\n\r\n"),
        ("HTTP/2.0", "GET /popular HTTP/2.0\r\nHost: localhost\r\n\r\n"), ("HTTP/3", "GET /popular HTTP/3\r\nHost: localhost\r\n\r\n"), ("no version", "GET /popular\r\n\r\n"), ("no path", "GET HTTP/1.1\r\nHost: localhost\r\n\r\n"), ("two spaces", f"GET  /popular?n=1 HTTP/1.1\r\nHost: localhost\r\n{key}\r\n\r\n"),
        ("nonsense", "hello\r\n\r\n"), ("a TLS greeting", "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n"), ("no host", f"GET /popular?n=1 HTTP/1.1\r\n{key}\r\n\r\n"), ("two hosts", f"GET /popular?n=1 HTTP/1.1\r\nHost: a\r\nHost: b\r\n{key}\r\n\r\n"), ("an absolute target", f"GET http://localhost/popular?n=1 HTTP/1.1\r\nHost: localhost\r\n{key}\r\n\r\n"),
        ("a long target", f"GET /recommend/u01?exclude={'a' * 17_000} HTTP/1.1\r\nHost: localhost\r\n{key}\r\n\r\n"), ("a long head", f"GET /popular HTTP/1.1\r\nHost: localhost\r\nX-A: {'a' * 70_000}\r\n\r\n"), ("many headers", "GET /popular?n=1 HTTP/1.1\r\nHost: localhost\r\n" + "".join(f"X-{n}: {n}\r\n" for n in range(150)) + f"{key}\r\n\r\n"),
        ("a nameless header", f"GET /popular?n=1 HTTP/1.1\r\nHost: localhost\r\n: x\r\n{key}\r\n\r\n"), ("a header without colon", f"GET /popular?n=1 HTTP/1.1\r\nHost: localhost\r\nx\r\n{key}\r\n\r\n"), ("a path with bytes", f"GET /recommend/\xff?n=1 HTTP/1.1\r\nHost: localhost\r\n{key}\r\n\r\n"), ("a query with bytes", f"GET /popular?n=\xff HTTP/1.1\r\nHost: localhost\r\n{key}\r\n\r\n"),
        ("a space in the path", f"GET /recommend/a b HTTP/1.1\r\nHost: localhost\r\n{key}\r\n\r\n"), ("a tab in the query", f"GET /popular?n=\t1 HTTP/1.1\r\nHost: localhost\r\n{key}\r\n\r\n"), ("an empty line before", f"\r\nGET /popular?n=1 HTTP/1.1\r\nHost: localhost\r\n{key}\r\n\r\n"), ("two keys", f"GET /popular?n=1 HTTP/1.1\r\nHost: localhost\r\n{key}\r\nX-API-Key: x\r\n\r\n"),
        ("two types", post.replace("Content-Type", "Content-Type: text/plain\r\nContent-Type") + f"Content-Length: {size}\r\n\r\n{rating}"), ("wait before the body", post + f"Expect: 100-continue\r\nContent-Length: {size}\r\n\r\n{rating}"),
    ):  # fmt: skip
        pools.add(2, "raw", "bytes", "", note, kind=note, body=text.encode("latin-1"), is_raw=True)


def stories() -> list[Request]:
    """Sequences in which one request needs the answer of another."""
    key, kind = ("X-API-Key", KEYS["admin"]), ("Content-Type", JSON)

    def get(note: str, target: str, **more: Any) -> Request:
        return Request(f"story: {note}", "GET", target, (key,), **more)

    def send(note: str, method: str, target: str, document: Any = None, **more: Any) -> Request:
        body = None if document is None else _of(document)
        return Request(f"story: {note}", method, target, (key, *((kind,) if body else ())), body, **more)

    return [
        get("jobs of the seed", "/admin/jobs", saves=("jobs.0.id", "job")),
        get("first page", "/recommend/u02?n=2&cursor=", saves=("next", "page")),
        get("second page", "/recommend/u02?n=2&cursor=${page}"),
        get("page of another user", "/recommend/u03?n=2&cursor=${page}"),
        get("page of another model", "/recommend/u02?n=2&model=als&cursor=${page}"),
        get("page of another list", "/popular?n=2&cursor=${page}"),
        send("second page by POST", "POST", "/recommend/u02", {"n": 2, "cursor": "${page}"}),
        get("first page of popular", "/popular?n=3&cursor=", saves=("next", "popular")),
        get("second page of popular", "/popular?n=3&cursor=${popular}"),
        get("page of popular with other parameters", "/popular?n=3&min_ratings=2&cursor=${popular}"),
        get("users, first page", "/users?n=3", saves=("next", "users")),
        get("users, second page", "/users?n=3&cursor=${users}"),
        get("items, first page", "/items?n=2", saves=("next", "items")),
        get("items, second page", "/items?n=2&cursor=${items}"),
        get("arm of an experiment", "/recommend/u04?experiment=summer&n=2", saves=("recommendation_id", "shown")),
        send("event of the list", "POST", "/events", {"user": "u04", "item": "i02", "type": "view", "timestamp": 1_500_100_000, "recommendation_id": "${shown}"}),
        send("event of the list of another", "POST", "/events", {"user": "u05", "item": "i02", "type": "view", "timestamp": 1_500_100_000, "recommendation_id": "${shown}"}),
        get("the experiment", "/admin/experiments/summer"),
        send("a rating", "POST", "/ratings", {"user": "story", "item": "i03", "rating": 5, "timestamp": 1_500_100_001}, saves=("stream_id", "position")),
        get("it is seen", "/users/story/ratings?wait_for=${position}"),
        get("the list has learned it", "/recommend/story?n=2&wait_for=${position}"),
        send("an item", "POST", "/items", {"item": "story", "tags": {"genre": ["noir"]}, "numbers": {"price": 2}}),
        get("the item", "/items/story"),
        send("patched", "PATCH", "/items/story", {"tags": None, "numbers": {"price": 3}}),
        get("the patched item", "/items/story"),
        send("deleted", "DELETE", "/items/story"),
        get("the deleted item", "/items/story"),
        send("a patch of it", "PATCH", "/items/story", {"numbers": {"price": 4}}),
        send("patches of it and another", "PATCH", "/items", [{"item": "story", "numbers": {"price": 4}}, {"item": "i02", "numbers": {"price": 4}}]),
        send("a patch of it alone", "PATCH", "/items", {"item": "story", "numbers": {"price": 4}}),
        send("a training", "POST", "/admin/retrain", {"algorithm": "als"}, saves=("id", "training")),
        send("a second training", "POST", "/admin/retrain", {"algorithm": "als"}),
        get("the training", "/admin/jobs/${training}"),
        send("cancelled", "DELETE", "/admin/jobs/${training}"),
        send("lists", "POST", "/admin/lists", {"n": 2, "filter": {"tag": "genre", "in": ["noir"]}}),
        Request("story: head of an export", "HEAD", "/admin/export?what=ratings&format=parquet", (key,)),
        send("a webhook", "POST", "/admin/webhooks", {"url": "https://8.8.8.8/jobs"}, saves=("id", "webhook")),
        get("webhooks", "/admin/webhooks"),
        send("no webhook", "DELETE", "/admin/webhooks/${webhook}"),
        send("a key", "POST", "/admin/keys", {"name": "story", "scope": "read"}, saves=("id", "key")),
        get("keys", "/admin/keys"),
        send("no key", "DELETE", "/admin/keys/${key}"),
        send("again no key", "DELETE", "/admin/keys/${key}"),
        get("what was done", "/admin/audit?n=5", is_loose=True),
        send("merged", "POST", "/admin/users/u10/merge", {"from": "u11"}),
        get("who was merged", "/users/u11/ratings"),
        get("with whom", "/users/u10/ratings?n=3"),
        send("forgotten", "DELETE", "/admin/users/u12"),
        get("who was forgotten", "/users/u12/ratings"),
        get("no list for who was forgotten", "/recommend/u12?fallback=none"),
        send("the model of an arm", "DELETE", "/admin/models/als"),
        send("no experiment", "DELETE", "/admin/experiments/summer"),
        get("models", "/admin/models", saves=("models.0.version", "version")),
        send("no model", "DELETE", "/admin/models/als"),
        get("no list of it", "/recommend/u01?model=als"),
        get("an estimate without a model", "/estimate/u01/i01"),
        get("a position of the future", f"/recommend/u01?wait_for={FAR}"),
    ]  # fmt: skip


def drawn(seed: int = SEED, n: int = N_REQUESTS) -> list[Request]:
    """The requests of the corpus in their order, each with a name of its own."""
    pools, told = Pools(), stories()
    for fill in (reads, around, of_clients, bodies, elements, changes, raw):
        fill(pools)
    first, last = told[:1], told[1:]
    requests = [*first, *pools.drawn(n - len(told), random.Random(seed)), *last]
    names: dict[str, int] = {}
    for place, request in enumerate(requests):
        names[request.name] = names.get(request.name, 0) + 1
        if names[request.name] > 1:
            requests[place] = request._replace(name=f"{request.name} ({names[request.name]})")
    return requests
