"""A program of `test_rehearsal`: start a service with every model, then send every kind of request to it.

Prints, as JSON, the kernels that were compiled or loaded once the service was ready, answers other than expected, the
operations that were asked, and the models that answered.
"""

import json
import sys
from pathlib import Path

from gpu.base.host import compilation
from service.base import tuning
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
        found.append(("GET", f"/items/{item}/users?{of_model}&n=5", None))
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
    local.post("/events", [{"user": "u5", "item": f"i{n}", "type": "view", "event_id": f"e{n}"} for n in range(3)])
    for method, path in (
        ("DELETE", "/users/u5/events/e1"),
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


def ask_each_operation(local: Local) -> tuple[list[str], list[str]]:
    """Each operation of the description with its examples: those, and what was answered otherwise than expected.

    What makes keys comes last, because later requests would need one.
    """
    paths = {"user": "u5", "item": "i6", "name": "nobody", "model": live_names(local)[0], "job": "1", "source": "none"}
    paths |= {"event_id": "e2", "version": "none", "experiment": "none", "webhook": "none", "key": "none"}
    asked, wrong = [], []
    documented = [(m, p, o) for p, methods in local.app.openapi()["paths"].items() for m, o in methods.items()]
    for method, path, operation in sorted(documented, key=lambda one: "/keys" in one[1]):
        asked.append(operation["operationId"])
        contents = operation.get("requestBody", {}).get("content", {None: {"examples": {"": {"value": None}}}})
        for kind, content in contents.items():
            for example in content["examples"].values():
                body = example["value"] if isinstance(example["value"], str) else json.dumps(example["value"])
                body = body.replace("example.com", "127.0.0.1")  # a webhook needs a host with an address
                sent = {} if kind is None else {"content": body, "headers": {"content-type": kind}}
                answer = local.request(method.upper(), path.format(**paths), **sent)
                if answer.status_code in (400, 401, 405, 415, 422) or answer.status_code >= 500:
                    wrong.append(f"{method} {path}: {answer.status_code} {answer.text}")
                if b'"stream_id":"' in answer.content and method != "get":  # later requests need what it has written
                    local.get("/popular", wait_for=answer.json()["stream_id"])
    return asked, wrong


def main(data: Path, url: str) -> None:
    tuning.configure()
    with serving(data, redis=url, backend="host", worker=False, webhook_networks="127.0.0.0/8") as local:
        live, compiled = live_names(local), list[str]()
        before = compilation.n_signatures()
        with compilation.watched(compiled.append):
            wrong = drive(local)
            asked, refused = ask_each_operation(local)
            wrong += refused + ask_everything(local)
        gained = [name for name, n in compilation.n_signatures().items() if n > before[name]]
    found = {"compiled": compiled, "gained": gained, "wrong": wrong, "asked": sorted(asked), "live": live}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
