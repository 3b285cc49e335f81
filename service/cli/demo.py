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
from collections.abc import Iterator, Sequence
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
    names: list[str]  # titles; ids of items without one


def main() -> int:
    """Run the steps, then keep serving until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--ratings", type=Path, help="a file of ratings instead of the synthetic catalog")
    parser.add_argument("--port", type=int, default=0, help="port to serve on; default: 8000 if it is free, else any")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with demo_service(options.port) as (service, client):
            show(client, options.ratings)
            list_url = f"{client.address}/recommend/{NEWCOMER}"
            out.print(f"\nThe service runs on [bold]{client.address}[/] until you press Ctrl-C. Try:")
            out.print(f"   curl '{list_url}?n={N_SHOWN}&with=title&explain=true'", soft_wrap=True)
            if options.ratings is None:
                out.print(
                    f"   curl '{client.address}/items?search=the+{synthetic.ADJECTIVES[0].lower()}'", soft_wrap=True
                )
            out.print(f"and, for curves in {client.address}/console:", soft_wrap=True)
            out.print(f"   while sleep 0.1; do curl -so /dev/null '{list_url}'; done", soft_wrap=True)
            return service.child.wait()
    except KeyboardInterrupt:
        out.print("\nStopped.")
        return 0
    except (ServiceError, OSError) as error:
        return complain(str(error), FAILED)


@contextlib.contextmanager
def demo_service(port: int) -> Iterator[tuple[ServiceProcess, Client]]:
    """A service on an empty data folder and a client of it, once it is ready; `port` 0 takes a free one."""
    print_step(1, f"Starting the service with an embedded Redis; its state lies in {DATA}/, which is emptied first")
    empty_data()
    port = port or free_port()
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


def empty_data() -> None:
    """Empty the data folder, unless a service is running on it.

    An earlier demo may have been killed at any moment, even here. Its server may still run, and its files may be
    incomplete, so that no server could start on them.
    """
    DataLock(DATA).release()
    RedisServer(DATA).stop()
    shutil.rmtree(DATA)
    DATA.mkdir()


def show(client: Client, ratings: Path | None) -> None:
    """Import ratings, train, recommend, and let a new user rate and buy; `ratings` None: the synthetic catalog."""
    catalog = None if ratings is not None else synthetic.planted()
    path = ratings or DATA / "synthetic.csv"
    if catalog is not None:
        synthetic.write(path, catalog)
    file = ratings_file.read(path)

    n_users, n_items = len(set(file.users)), len(set(file.items))
    kind = "ratings" if catalog is None else "[bold]synthetic[/] ratings (planted tastes; nothing in them is real)"
    print_step(2, f"Importing {len(file.values):,} {kind} of {n_items:,} items by {n_users:,} users")
    started = time.perf_counter()
    with progress("   Importing", len(file.values)) as bar:
        receipt = importer.send(client, importer.records(file), bar.advance)
    took_s = time.perf_counter() - started
    out.print(f"   {receipt.accepted:,} acknowledged, each on disk before its 202, in {took_s:.1f} s")
    if catalog is not None:
        receipt = importer.send_items(client, catalog.described_items())
        out.print(f"   and the titles and genres of {receipt.accepted:,} items: POST /items")

    print_step(3, f"Training a model ({ALGORITHM}): POST /admin/retrain (the first one compiles its kernels)")
    started = time.perf_counter()
    params = {} if catalog is None else SMALL_MODEL
    with progress("   Training", 1) as bar:
        job = client.retrain(
            ALGORITHM, params, on_poll=lambda job: bar.tell(job["progress"], job["phase"] or job["state"])
        )
    out.print(f"   {job['version']} is live after {time.perf_counter() - started:.1f} s")

    user = Counter(file.users).most_common(1)[0][0]
    print_step(4, f"Recommendations for {user}: GET /recommend/{quote(user, safe='')}?n={N_SHOWN}")
    lists = [list_of(client, user, "recommended, best first")]
    if catalog is not None:
        genre = catalog.loves(int(user.rsplit("-", 1)[1]))
        out.print(f"   (the taste planted in this viewer: loves [bold]{genre}[/])")
        other = next(name for name in synthetic.GENRES if name != genre)
        lists.append(list_of(client, user, f"with tag.genre={other}", **{"tag.genre": other}))
    print_lists(lists)

    before = list_of(client, NEWCOMER, "before")
    item, best_rating = before.items[0], max(file.values)
    print_step(
        5,
        f"A new user ({NEWCOMER}) likes the first of them: POST /ratings, {best_rating:g} points for {before.names[0]}",
    )
    started = time.perf_counter()
    answer = client.rate({"user": NEWCOMER, "item": item, "rating": float(best_rating)})
    after = list_of(client, NEWCOMER, "after", wait_for=answer["stream_id"])
    took_ms = (time.perf_counter() - started) * 1000
    print_lists([before, after])
    n_new = len(set(after.items) - set(before.items))
    out.print(f"   {n_new} of {N_SHOWN} are new, {took_ms:.0f} ms after the rating was sent")

    item = after.items[0]
    print_step(6, f"The same user buys the first of these: POST /events, a purchase of {after.names[0]}")
    event = {"user": NEWCOMER, "item": item, "type": "purchase", "event_id": "demo-1"}
    answer = [client.send_events(event) for _ in range(2)][-1]
    print_lists([after, list_of(client, NEWCOMER, "after the purchase", wait_for=answer["stream_id"])])
    out.print("   (sent twice with the same event_id, counted once; what was bought leaves the list)")


def list_of(client: Client, user: str, title: str, **query: str) -> PrintedList:
    """The list of a user; `query` has the parameters of the request."""
    answer = client.recommend(user, n=N_SHOWN, **{"with": "title"}, **query)
    kind = "personal" if answer["personalized"] else "popular"
    lines = answer["items"]
    return PrintedList(
        f"{title} ({kind})", [line["item"] for line in lines], [line.get("title", line["item"]) for line in lines]
    )


def print_lists(lists: Sequence[PrintedList]) -> None:
    """Print lists side by side."""
    table = Table(*(each.title for each in lists), box=None, padding=(0, 4, 0, 3))
    for row in zip(*(each.names for each in lists), strict=False):
        table.add_row(*row)
    out.print(table)


def print_step(number: int, text: str) -> None:
    """Print what the next step of the demo does."""
    out.print(f"\n[bold]{number}[/]  {text}", soft_wrap=True)


def free_port() -> int:
    """The usual port, or any free one if it is in use."""
    for port in (USUAL_PORT, 0):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as listener:
            free: int = listener.getsockname()[1]
            return free
    raise DemoFailed("no port is free on 127.0.0.1")


if __name__ == "__main__":
    sys.exit(main())
