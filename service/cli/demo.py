"""`make demo`: shows the service in a minute, on synthetic ratings or on your own file.

It starts the service by its command line and uses it over HTTP, like any client.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
from rich.console import Console
from rich.table import Table

from service.cli import importer, ratings_file, synthetic
from service.cli.console import FAILED, complain, progress
from service.cli.ratings_file import RatingsFile
from service.errors import ServiceError
from service.storage.files import DataLock
from service.storage.redis_server import RedisServer

DATA = Path("demo-data")
LOG = DATA / "service.log"
ALGORITHM = "als-implicit"
SMALL_MODEL = {"n_factors": 32}  # for 60,000 synthetic ratings
USUAL_PORT = 8000
NEWCOMER = "you"
N_SHOWN = 5
START_TIMEOUT_S, STOP_TIMEOUT_S, POLL_S = 180, 30, 0.2

out = Console(highlight=False)


class DemoFailed(ServiceError):
    """A step of the demo failed; the message names it."""


class Shown(NamedTuple):
    """One printed list of recommendations."""

    title: str
    items: list[str]


def main() -> int:
    """Run the steps, then keep serving until Ctrl-C."""
    options = _options()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with httpx.Client(timeout=60) as client, _service(options.port) as (process, url):
            client.base_url = httpx.URL(url)
            _show(client, options.ratings)
            _closing_words(url)
            return process.wait()
    except KeyboardInterrupt:
        out.print("\nStopped.")
        return 0
    except (ServiceError, OSError, httpx.HTTPError) as error:
        return complain(str(error), FAILED)


def _show(client: httpx.Client, path: Path | None) -> None:
    file = ratings_file.read(path or _synthetic_file())
    _import(client, file, is_synthetic=path is None)
    _train(client, SMALL_MODEL if path is None else {})
    _recommend_to_a_known_user(client, file, is_synthetic=path is None)
    _learn_at_once(client, max(file.values))


def _synthetic_file() -> Path:
    path = DATA / "synthetic.csv"
    synthetic.write(path, synthetic.planted())
    return path


@contextlib.contextmanager
def _service(port: int) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    _step(1, f"Starting the service with an embedded Redis; its state lies in {DATA}/")
    _empty_data()
    port = port or _free_port()
    command = [sys.executable, "-m", "service.cli", "serve", "--port", str(port), "--data", str(DATA)]
    with LOG.open("wb") as log:
        # A new session: Ctrl-C reaches only this process, which then stops the service in order.
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)  # noqa: S603
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_ready(process, url)
        out.print(f"   ready on [bold]{url}[/] (to try every route: {url}/docs)", soft_wrap=True)
        yield process, url
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)


def _empty_data() -> None:
    """Empty the data folder, unless a service is running on it.

    An earlier demo may have been killed at any moment, even here. Its server may still run, and its files may be
    incomplete, so that no server could start on them.
    """
    DataLock(DATA).release()
    RedisServer(DATA).stop()
    shutil.rmtree(DATA)
    DATA.mkdir()


def _wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    with progress("   Starting", 1) as bar:
        for _ in range(int(START_TIMEOUT_S / POLL_S)):
            if process.poll() is not None:
                raise DemoFailed(f"the service did not start; {LOG} has the reason")
            try:
                answer = httpx.get(f"{url}/health/ready")
                if answer.is_success:
                    return
                bar.reach(answer.json().get("fraction", 0.0), answer.json().get("detail", ""))
            except (httpx.TransportError, ValueError):
                pass
            time.sleep(POLL_S)
    raise DemoFailed(f"the service was not ready after {START_TIMEOUT_S} s")


def _import(client: httpx.Client, file: RatingsFile, is_synthetic: bool) -> None:
    n_users, n_items = len(set(file.users)), len(set(file.items))
    kind = "[bold]synthetic[/] ratings (planted tastes; nothing in them is real)" if is_synthetic else "ratings"
    _step(2, f"Importing {len(file.values):,} {kind} of {n_items:,} items by {n_users:,} users")
    started = time.perf_counter()
    with progress("   Importing", len(file.values)) as bar:
        receipt = importer.send(client, importer.records(file), bar.advance)
    took_s = time.perf_counter() - started
    out.print(f"   {receipt.accepted:,} acknowledged, each on disk before its 202, in {took_s:.1f} s")


def _train(client: httpx.Client, params: dict[str, int]) -> None:
    _step(3, f"Training a model ({ALGORITHM}): POST /admin/retrain (the first one compiles its kernels)")
    started = time.perf_counter()
    job = _document(client.post("/admin/retrain", json={"algorithm": ALGORITHM, "params": params}))
    with progress("   Training", 1) as bar:
        while job["state"] in ("queued", "running", "activating"):
            time.sleep(POLL_S)
            job = _document(client.get(f"/admin/jobs/{job['id']}"))
            bar.reach(_fraction(job), job["state"])
    if job["state"] != "succeeded":
        raise DemoFailed(f"the training {job['state']}: {job.get('error')}")
    out.print(f"   {job['version']} is live after {time.perf_counter() - started:.1f} s")


def _fraction(job: dict[str, Any]) -> float:
    progress_ = job.get("progress")
    return float(progress_) if isinstance(progress_, int | float) else 0.0


def _recommend_to_a_known_user(client: httpx.Client, file: RatingsFile, is_synthetic: bool) -> None:
    user = Counter(file.users).most_common(1)[0][0]
    _step(4, f"Recommendations for {user}: GET /recommend/{quote(user, safe='')}?n={N_SHOWN}")
    if is_synthetic:
        planted = synthetic.planted()
        genre = planted.loves(int(user.rsplit("-", 1)[1]))
        out.print(f"   (the taste planted in this viewer: loves [bold]{genre}[/])")
    _print_lists(_list(client, user, "recommended, best first"))


def _learn_at_once(client: httpx.Client, best_rating: float) -> None:
    before = _list(client, NEWCOMER, "before")
    liked = before.items[0]
    _step(5, f"A new user ({NEWCOMER}) likes the first of them: POST /ratings, {best_rating:g} points for {liked}")
    started = time.perf_counter()
    rating = {"user": NEWCOMER, "item": liked, "rating": float(best_rating)}
    written = _document(client.post("/ratings", json=rating))
    after = _list(client, NEWCOMER, "after", wait_for=written["stream_id"])
    took_ms = (time.perf_counter() - started) * 1000
    _print_lists(before, after)
    n_new = len(set(after.items) - set(before.items))
    out.print(f"   {n_new} of {N_SHOWN} are new, {took_ms:.0f} ms after the rating was sent")


def _list(client: httpx.Client, user: str, title: str, **query: str) -> Shown:
    answer = _document(client.get(f"/recommend/{quote(user, safe='')}", params={"n": N_SHOWN, **query}))
    kind = "personal" if answer["personalized"] else "popular"
    return Shown(f"{title} ({kind})", [line["item"] for line in answer["items"]])


def _document(response: httpx.Response) -> dict[str, Any]:
    if not response.is_success:
        raise DemoFailed(f"{response.request.method} {response.request.url.path}: {importer.problem_of(response)}")
    document: dict[str, Any] = response.json()
    return document


def _print_lists(*lists: Shown) -> None:
    table = Table(*(shown.title for shown in lists), box=None, padding=(0, 4, 0, 3))
    for row in zip(*(shown.items for shown in lists), strict=False):
        table.add_row(*row)
    out.print(table)


def _closing_words(url: str) -> None:
    out.print(f"\nThe service runs on [bold]{url}[/] until you press Ctrl-C. Try:")
    out.print(f"   curl '{url}/recommend/{NEWCOMER}?n={N_SHOWN}&explain=true'", soft_wrap=True)


def _step(number: int, text: str) -> None:
    out.print(f"\n[bold]{number}[/]  {text}", soft_wrap=True)


def _free_port() -> int:
    """The usual port, or any free one if it is in use."""
    for port in (USUAL_PORT, 0):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as listener:
            free: int = listener.getsockname()[1]
            return free
    raise DemoFailed("no port is free on 127.0.0.1")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--ratings", type=Path, help="a file of ratings instead of the synthetic catalog")
    parser.add_argument("--port", type=int, default=0, help="port to serve on; default: 8000 if it is free, else any")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
