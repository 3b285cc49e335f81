"""A program of `test_rehearsal`: rehearse, then send every kind of request to a service with every model.

Prints, as JSON, the kernels that gained a signature since the rehearsal, and the answers that were neither 2xx nor 404.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gpu.algorithms import ALGORITHMS
from gpu.host.jit import compilation
from service.base import tuning
from service.engine.rehearsal import rehearse_history, rehearse_model
from tests.service.local import Local, serving

ANONYMOUS = [{"item": "i0", "rating": 5}, {"item": "i1", "rating": -1}, {"item": "never seen", "rating": 1}]


def requests(model: str) -> list[tuple[str, str, object]]:
    """Every route that uses a model, with each of its filters."""
    of_model = f"model={model}"
    narrow = {
        "model": model,
        "n": 3,
        "exclude": ["i1"],
        "candidates": ["i0", "i2", "i4", "late-item"],
        "min_ratings": 1,
    }
    rules = {
        "boosts": [{"filter": {"tag": "kind", "in": ["even"]}, "add": 0.5}],
        "pins": [{"item": "i4", "at": 2}],
        "max_per": {"tag": "kind", "n": 2},
        "diversity": 0.3,
    }
    users = [f"u{n}" for n in range(9)] + ["late", "stranger"]
    found: list[tuple[str, str, object]] = [
        ("POST", "/recommend/u1", narrow),
        ("POST", "/recommend", narrow | {"users": users}),
        ("POST", "/recommend", {"model": model, "users": users, "include_seen": True, "explain": True}),
        ("POST", "/recommend", {"model": model, "users": users, "exclude": ["i3"]}),
        ("POST", "/recommend", {"model": model, "ratings": ANONYMOUS, "explain": True}),
        ("POST", "/recommend", narrow | {"ratings": ANONYMOUS[:1]}),
        ("POST", "/recommend", {"model": model, "users": users, **rules}),
        ("POST", "/recommend", {"model": model, "ratings": ANONYMOUS, **rules}),
    ]
    for user in ("u1", "late", "stranger"):
        for query in (
            "",
            "&explain=true",
            "&n=40&offset=3",
            "&n=1000",
            "&exclude=i1",
            "&min_ratings=2",
            "&fallback=none",
        ):
            found.append(("GET", f"/recommend/{user}?{of_model}{query}", None))
        found.append(("GET", f"/users/{user}/neighbors?{of_model}", None))
        found.append(("GET", f"/users/{user}/ratings", None))
        for item in ("i0", "late-item", "never seen"):
            found.append(("GET", f"/estimate/{user}/{item}?{of_model}", None))
    for item in ("i0", "late-item", "never seen"):
        found.append(("GET", f"/items/{item}/neighbors?{of_model}&n=5", None))
    return [*found, ("GET", "/popular?n=3&min_ratings=1", None)]


def live_names(local: Local) -> list[str]:
    return sorted(one["name"] for one in local.get("/admin/models").json()["models"] if one["live"])


def ask_everything(local: Local) -> list[str]:
    """What was answered otherwise than expected."""
    wrong = []
    for model in live_names(local):
        for method, path, body in requests(model):
            answer = local.request(method, path, json=body) if body else local.request(method, path)
            if answer.status_code not in (200, 404):
                wrong.append(f"{method} {path}: {answer.status_code} {answer.text}")
    return wrong


def drive(local: Local) -> list[str]:
    """Ask, change all that can change, ask again."""
    tagged = [{"item": f"i{n}", "tags": {"kind": ["odd" if n % 2 else "even"]}} for n in range(8)]
    local.get("/popular", wait_for=local.post("/items", tagged).json()["stream_id"])
    wrong = ask_everything(local)
    local.rate(("late", "i0", 5.0), ("late", "i2", 1.0), ("u3", "late-item", 4.0), ("u4", "late-item", -2.0))
    local.rate(*((f"newcomer{n}", f"late-item{n % 9}", float(n % 5 + 1)) for n in range(300)))
    last = local.rate(("u1", "i0", 2.0), ("late", "late-item", 3.0))
    local.get("/popular", wait_for=last)
    wrong += ask_everything(local)
    for method, path in (
        ("DELETE", "/ratings/late/i0"),
        ("DELETE", "/ratings/u3/late-item"),
        ("PUT", "/admin/items/i2/hidden"),
        ("DELETE", "/admin/items/i2/hidden"),
        ("DELETE", "/admin/users/u4"),
        ("DELETE", "/admin/users/late"),
    ):
        last = local.request(method, path).json()["stream_id"]
    local.get("/popular", wait_for=last)
    return wrong + ask_everything(local)


def main(data: Path, url: str) -> None:
    tuning.configure()
    rehearse_history()
    for algorithm in ALGORITHMS:
        rehearse_model(algorithm)
    before = compilation.n_signatures()
    with serving(data, redis=url, backend="host", worker=False) as local:
        live = live_names(local)
        wrong = drive(local)
    gained = [name for name, n in compilation.n_signatures().items() if n > before[name]]
    sys.stdout.write(json.dumps({"gained": gained, "wrong": wrong, "live": live}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
