"""`make demo`: shows the service in a minute, on synthetic ratings or on your own file.

It starts the service by its command line and uses it over HTTP, like any client.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from rich.console import Console
from rich.table import Table

from service.base.errors import ServiceError
from service.cli import importer, synthetic
from service.cli.client import Client, RequestFailed
from service.cli.console import FAILED, complain, progress
from service.cli.files import ratings_file
from service.cli.files.ratings_file import RatingsFile
from service.cli.service_process import NotStarted, ServiceProcess
from service.storage.files import DataLock
from service.storage.streams.redis_server import RedisServer

DATA = Path("demo-data")
LOG = DATA / "service.log"
ALGORITHM = "als-implicit"
SMALL_MODEL = {"n_factors": 32}  # for 60,000 synthetic ratings
USUAL_PORT = 8000
NEWCOMER = "you"
N_SHOWN = 5

out = Console(highlight=False)


class DemoFailed(ServiceError):
    """A step of the demo failed; the message names it."""


class PrintedList(NamedTuple):
    """One printed list of recommendations."""

    title: str
    items: list[str]


def main() -> int:
    """Run the steps, then keep serving until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--ratings", type=Path, help="a file of ratings instead of the synthetic catalog")
    parser.add_argument("--port", type=int, default=0, help="port to serve on; default: 8000 if it is free, else any")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with _service(options.port) as (service, client):
            path, is_synthetic = options.ratings, options.ratings is None
            if is_synthetic:
                path = DATA / "synthetic.csv"
                synthetic.write(path, synthetic.planted())
            file = ratings_file.read(path)
            _import(client, file, is_synthetic=is_synthetic)
            _train(client, SMALL_MODEL if is_synthetic else {})
            _recommend_to_a_known_user(client, file, is_synthetic=is_synthetic)
            _learn_at_once(client, max(file.values))
            list_url = f"{client.address}/recommend/{NEWCOMER}"
            out.print(f"\nThe service runs on [bold]{client.address}[/] until you press Ctrl-C. Try:")
            out.print(f"   curl '{list_url}?n={N_SHOWN}&explain=true'", soft_wrap=True)
            out.print(f"and, for curves in {client.address}/console:", soft_wrap=True)
            out.print(f"   while sleep 0.1; do curl -so /dev/null '{list_url}'; done", soft_wrap=True)
            return service.child.wait()
    except KeyboardInterrupt:
        out.print("\nStopped.")
        return 0
    except (ServiceError, OSError) as error:
        return complain(str(error), FAILED)


@contextlib.contextmanager
def _service(port: int) -> Iterator[tuple[ServiceProcess, Client]]:
    _step(1, f"Starting the service with an embedded Redis; its state lies in {DATA}/")
    _empty_data()
    port = port or _free_port()
    # A session of its own: Ctrl-C reaches only this process, which then stops the service in order.
    with (
        Client(f"http://127.0.0.1:{port}") as client,
        LOG.open("wb") as log,
        ServiceProcess(DATA, port, log=log, own_session=True) as service,
    ):

        def show_start() -> None:
            try:
                client.check_ready()
            except RequestFailed as error:
                bar.reach(error.document.get("fraction", 0.0), error.document.get("detail", ""))

        with progress("   Starting", 1) as bar:
            try:
                service.address(on_wait=show_start)
            except NotStarted as error:
                raise DemoFailed(f"{error}; {LOG} has the reason") from None
        out.print(f"   ready on [bold]{client.address}[/]; see also /docs", soft_wrap=True)
        out.print(f"   watch it from now on: [bold]{client.address}/console[/]", soft_wrap=True)
        yield service, client


def _empty_data() -> None:
    """Empty the data folder, unless a service is running on it.

    An earlier demo may have been killed at any moment, even here. Its server may still run, and its files may be
    incomplete, so that no server could start on them.
    """
    DataLock(DATA).release()
    RedisServer(DATA).stop()
    shutil.rmtree(DATA)
    DATA.mkdir()


def _import(client: Client, file: RatingsFile, is_synthetic: bool) -> None:
    n_users, n_items = len(set(file.users)), len(set(file.items))
    kind = "[bold]synthetic[/] ratings (planted tastes; nothing in them is real)" if is_synthetic else "ratings"
    _step(2, f"Importing {len(file.values):,} {kind} of {n_items:,} items by {n_users:,} users")
    started = time.perf_counter()
    with progress("   Importing", len(file.values)) as bar:
        receipt = importer.send(client, importer.records(file), bar.advance)
    took_s = time.perf_counter() - started
    out.print(f"   {receipt.accepted:,} acknowledged, each on disk before its 202, in {took_s:.1f} s")
    if is_synthetic:
        receipt = importer.send_items(client, synthetic.planted().items_with_genres())
        out.print(f"   and the genres of {receipt.accepted:,} items: POST /items")


def _train(client: Client, params: dict[str, int]) -> None:
    _step(3, f"Training a model ({ALGORITHM}): POST /admin/retrain (the first one compiles its kernels)")
    started = time.perf_counter()
    with progress("   Training", 1) as bar:
        job = client.retrain(ALGORITHM, params, on_poll=lambda job: bar.reach(job["progress"], job["state"]))
    out.print(f"   {job['version']} is live after {time.perf_counter() - started:.1f} s")


def _recommend_to_a_known_user(client: Client, file: RatingsFile, is_synthetic: bool) -> None:
    user = Counter(file.users).most_common(1)[0][0]
    _step(4, f"Recommendations for {user}: GET /recommend/{quote(user, safe='')}?n={N_SHOWN}")
    lists = [_list(client, user, "recommended, best first")]
    if is_synthetic:
        genre = synthetic.planted().loves(int(user.rsplit("-", 1)[1]))
        out.print(f"   (the taste planted in this viewer: loves [bold]{genre}[/])")
        other = next(name for name in synthetic.GENRES if name != genre)
        lists.append(_list(client, user, f"with tag.genre={other}", **{"tag.genre": other}))
    _print_lists(*lists)


def _learn_at_once(client: Client, best_rating: float) -> None:
    before = _list(client, NEWCOMER, "before")
    item = before.items[0]
    _step(5, f"A new user ({NEWCOMER}) likes the first of them: POST /ratings, {best_rating:g} points for {item}")
    started = time.perf_counter()
    answer = client.rate({"user": NEWCOMER, "item": item, "rating": float(best_rating)})
    after = _list(client, NEWCOMER, "after", wait_for=answer["stream_id"])
    took_ms = (time.perf_counter() - started) * 1000
    _print_lists(before, after)
    n_new = len(set(after.items) - set(before.items))
    out.print(f"   {n_new} of {N_SHOWN} are new, {took_ms:.0f} ms after the rating was sent")
    item = after.items[0]
    _step(6, f"The same user buys the first of these: POST /events, a purchase of {item}")
    event = {"user": NEWCOMER, "item": item, "type": "purchase", "event_id": "demo-1"}
    answer = [client.send_events(event) for _ in range(2)][-1]
    _print_lists(after, _list(client, NEWCOMER, "after the purchase", wait_for=answer["stream_id"]))
    out.print("   (sent twice with the same event_id, counted once; what was bought leaves the list)")


def _list(client: Client, user: str, title: str, **query: str) -> PrintedList:
    answer = client.recommend(user, n=N_SHOWN, **query)
    kind = "personal" if answer["personalized"] else "popular"
    return PrintedList(f"{title} ({kind})", [line["item"] for line in answer["items"]])


def _print_lists(*lists: PrintedList) -> None:
    table = Table(*(one.title for one in lists), box=None, padding=(0, 4, 0, 3))
    for row in zip(*(one.items for one in lists), strict=False):
        table.add_row(*row)
    out.print(table)


def _step(number: int, text: str) -> None:
    out.print(f"\n[bold]{number}[/]  {text}", soft_wrap=True)


def _free_port() -> int:
    """The usual port, or any free one if it is in use."""
    for port in (USUAL_PORT, 0):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as listener:
            free: int = listener.getsockname()[1]
            return free
    raise DemoFailed("no port is free on 127.0.0.1")


if __name__ == "__main__":
    sys.exit(main())
