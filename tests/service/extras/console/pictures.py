"""Pictures of the console, of the demo's catalog: `python -m tests.service.extras.console.pictures`. Needs a Chromium.

Without an argument it renews those of docs/console.md. With a folder it takes all pages, whole, at both widths and in
both schemes.
"""

import contextlib
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from service.cli import synthetic
from service.cli.client import Client
from tests import browser
from tests.browser import Browser
from tests.service.extras.console.visitor import ADMIN_KEY
from tests.service.process import Service

DOCS = Path(__file__).parents[4] / "docs"
N_POINTS = 12  # of the curves, one each 3 s
HEIGHT, TALLEST = 900, 3000
SCHEDULES = "0 3 * * 1 train als-implicit; 30 5 * * * lists newsletter"
TRAINING = {"algorithm": "als-implicit", "params": {"n_factors": 32}, "force": True}


class Picture(NamedTuple):
    """A page as a window of some width shows it to a person who prefers `light` or `dark`."""

    address: str
    width: int
    scheme: str


def main() -> None:
    """Take the pictures."""
    program = browser.find()
    if program is None:
        sys.exit(f"no browser: expected one of {', '.join(browser.NAMES)} in PATH")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        settings = {"admin_key": ADMIN_KEY, "backend": "host", "retrain_share": 0, "quota_ratings": 100_000}
        service = Service(work / "data", **settings, schedules=SCHEDULES)
        try:
            with Client(str(service.client.base_url), ADMIN_KEY) as client, Browser(program, work / "profile") as page:
                addresses = filled(client)
                sign_in(page, client.address)
                with reading(client.address):
                    for path, picture in wanted(addresses, sys.argv[1:]):
                        take(page, client.address, picture, path)
        finally:
            service.kill()


def wanted(addresses: dict[str, str], arguments: list[str]) -> Iterator[tuple[Path, Picture]]:
    """The pictures, with their files."""
    if not arguments:
        shown = ("overview", 1280, "light"), ("models", 1280, "light"), ("user", 400, "dark"), ("item", 1280, "dark")
        for name, width, scheme in shown:
            yield DOCS / f"console-{name}.png", Picture(addresses[name], width, scheme)
        return
    for name, address in addresses.items():
        for width in (1280, 400):
            for scheme in ("light", "dark"):
                yield Path(arguments[0]) / f"{name}-{width}-{scheme}.png", Picture(address, width, scheme)


def filled(client: Client) -> dict[str, str]:
    """Give the service a catalog, users, models, an experiment and a source; the addresses of all pages, by name."""
    catalog = synthetic.planted(n_viewers=600)
    ratings = [
        {"user": catalog.viewer_id(viewer), "item": catalog.item_id(item), "rating": rating}
        for viewer, item, rating in zip(*(column.tolist() for column in catalog[:3]), strict=True)
    ]
    client.http.post("/items", json=catalog.described_items()).raise_for_status()
    for start in range(0, len(ratings), 1000):
        client.post("/ratings", ratings[start : start + 1000])
    user, items = catalog.viewer_id(3), [catalog.item_id(item) for item in range(8)]
    tags = {"country": ["Portugal"], "language": ["pt"], "segment": ["subscriber"]}
    client.request("PUT", f"/users/{user}", json={"tags": tags, "numbers": {"age": 34}})
    types = "purchase", "view", "cart", "view", "dislike", "impression"
    client.send_events([{"user": user, "item": item, "type": type} for item, type in zip(items, types, strict=False)])
    source = {"X-Source": "import:ratings-of-november", "X-Offset": "40"}
    wrong = [{"user": catalog.viewer_id(viewer), "item": items[viewer % 8], "rating": 1} for viewer in range(40)]
    client.http.post("/ratings", json=wrong, headers=source).raise_for_status()
    first, _, other = (
        client.ended_job(client.post("/admin/retrain", training)["id"])
        for training in (TRAINING, TRAINING, {"algorithm": "esgd", "force": True})
    )
    arms = [{"model": "als-implicit", "share": 50}, {"model": "esgd", "share": 50}]
    client.http.put("/admin/experiments/front page", json={"arms": arms}).raise_for_status()
    for viewer in range(60):
        name = catalog.viewer_id(viewer)
        listed = client.get(f"/recommend/{name}", experiment="front page")
        event = {"user": name, "item": listed["items"][0]["item"], "type": "purchase" if viewer % 3 else "view"}
        client.send_events({**event, "recommendation_id": listed["recommendation_id"]})
    counted = client.ended_job(client.post("/admin/sources/import:ratings-of-november/undo?dry_run=true", {})["id"])
    rated = client.get(f"/users/{user}/ratings", n=50)["ratings"]
    liked = max(rated, key=lambda one: one["rating"])["item"]
    return {
        "overview": "overview", "models": "models", "activate": f"activate?version={first['version']}", "jobs": "jobs",
        "job": f"job?id={other['id']}", "imports": "imports", "undo": f"job?id={counted['id']}", "users": "users",
        "user": f"user?id={user}&without={quote(liked)}", "items": "items", "search": "items?search=the quiet",
        "item": f"item?id={quote(items[1])}", "experiments": "experiments?id=front page", "schedules": "schedules",
        "access": "access",
    }  # fmt: skip


def sign_in(page: Browser, address: str) -> None:
    """Send the form of the login."""
    page.open(f"{address}/console/login")
    page.ask(f"document.querySelector('[name=key]').value = '{ADMIN_KEY}'; document.forms[0].requestSubmit()")
    page.until("location.pathname.endsWith('/overview')")


def take(page: Browser, address: str, picture: Picture, path: Path) -> None:
    """Take one picture: in docs what a window shows, else the whole page."""
    page.look(picture.width, picture.scheme, HEIGHT)
    page.open(f"{address}/console/{picture.address}")
    if picture.address == "overview":
        page.until(f"typeof curves !== 'undefined' && curves.reads?.data[0].length > {N_POINTS}")
    if path.parent != DOCS:
        height = int(page.ask("document.documentElement.scrollHeight"))
        page.look(picture.width, picture.scheme, min(max(height, HEIGHT), TALLEST))
    page.screenshot(path)


@contextlib.contextmanager
def reading(address: str) -> Iterator[None]:
    """Ask for lists and send ratings meanwhile, in a thread."""
    is_over = threading.Event()

    def ask() -> None:
        with Client(address, ADMIN_KEY) as client:
            n = 0
            while not is_over.wait(0.01):
                n += 1
                client.recommend(f"synthetic-viewer-{n % 600:04d}")
                if n % 5 == 0:
                    item = f"synthetic-{synthetic.GENRES[n % 8]}-{n % 400:03d}"
                    client.rate({"user": f"synthetic-viewer-{n % 600:04d}", "item": item, "rating": 2 + n % 4})

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


if __name__ == "__main__":
    main()
