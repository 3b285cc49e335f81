"""Five adoptions of the service at full size, by its commands and HTTP alone: `python -m benchmarks stories`.

Users and items of a story are drawn in groups: most of what users do is within their own group. tests/stories lives the
same stories with few users.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks.results import Row, say
from benchmarks.running import BenchFailed, drive, serving
from benchmarks.timing import MIB, timed
from loadtest.client import message
from service import __main__
from service.cli.client import Client, Job

N_GROUPS, OWN = 8, 0.8  # groups, and the share of what users do that is within their own
DAYS, DAY_S = 60, 86_400
FEWEST_USERS, FEWEST_ITEMS, FEWEST_ROWS = 60, 200, 1500  # of a story that is made small
ROWS_AT_ONCE = 2**20  # rows of a file that are drawn together
SECONDS, N_READERS, N_LISTED = 10.0, 4096, 10  # of the reads; users of them; items of a list


class Story(NamedTuple):
    """Who adopts the service.

    Attributes:
        n_users, n_items, n_rows: the full size; rows are events, or ratings without a `type`.
        type: of the events.
        algorithm: what is trained in the first week.
    """

    n_users: int
    n_items: int
    n_rows: int
    type: str | None
    algorithm: str

    def at(self, share: float) -> Story:
        """The same story with a share of users, items and rows."""
        return self._replace(
            n_users=max(round(self.n_users * share), FEWEST_USERS),
            n_items=max(round(self.n_items * share), FEWEST_ITEMS),
            n_rows=max(round(self.n_rows * share), FEWEST_ROWS),
        )

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write the catalog and what users did: two Parquet files, the same for the same size."""
        catalog, done, rng = folder / "items.parquet", folder / "done.parquet", np.random.default_rng(0)
        users, items = ([f"{kind}-{row}" for row in range(n)] for kind, n in (("u", self.n_users), ("i", self.n_items)))
        pq.write_table(pa.table({"item": items, "title": [f"Title of {item}" for item in items]}), catalog)
        writer, now = None, time.time()
        for first in range(0, self.n_rows, ROWS_AT_ONCE):
            n = min(ROWS_AT_ONCE, self.n_rows - first)
            # Few users are active, and few items of a group popular.
            of_users = (self.n_users * rng.random(n) ** 1.5).astype(np.int32)
            is_own = rng.random(n) < OWN
            groups_of = np.where(is_own, of_users % N_GROUPS, rng.integers(0, N_GROUPS, n))
            of_items = (self.n_items // N_GROUPS * rng.random(n) ** 2).astype(np.int32) * N_GROUPS + groups_of
            table = {
                "user": pa.DictionaryArray.from_arrays(of_users, users).cast(pa.string()),
                "item": pa.DictionaryArray.from_arrays(of_items.astype(np.int32), items).cast(pa.string()),
                "timestamp": pa.array(now - DAYS * DAY_S * rng.random(n)),
            }
            if self.type is None:
                table["rating"] = pa.array(np.clip(np.round(2 * (2.5 + is_own + rng.normal(0, 0.7, n))) / 2, 0.5, 5))
            else:
                table["type"] = pa.array([self.type] * n)
            rows = pa.table(table)
            writer = writer or pq.ParquetWriter(done, rows.schema)
            writer.write_table(rows)
        if writer is not None:
            writer.close()
        return catalog, done


STORIES = {
    "news": Story(200_000, 5_000, 5_000_000, "view", "als-implicit"),
    "shop": Story(50_000, 200, 500_000, "purchase", "ease"),
    "podcasts": Story(100_000, 2_000, 5_000_000, "view", "ease"),
    "business": Story(2_000_000, 5_000_000, 20_000_000, "view", "als-implicit"),
    "research": Story(160_000, 60_000, 25_000_000, None, "als"),
}


def posted(url: str, file: Path, *options: str) -> tuple[int, float]:
    """Post a file by the command; returns how many lines the service accepted, and the seconds that it took."""
    with contextlib.redirect_stdout(io.StringIO()) as told:  # stdout is for results
        status, seconds = timed(lambda: __main__.run(["import", str(file), "--url", url, *options]))
    say(told.getvalue().rstrip())
    accepted = re.search(r"^([\d,]+) \w+ accepted", told.getvalue(), re.MULTILINE)
    if status or accepted is None:
        raise BenchFailed(f"Invalid end of nearfield import {file.name}: expected status 0, got {status}")
    return int(accepted[1].replace(",", "")), seconds


def told_phases(name: str) -> Callable[[Job], None]:
    """A listener to a job that says when each of its phases begins."""
    began, last = time.perf_counter(), ""

    def tell(job: Job) -> None:
        nonlocal last
        phase = re.sub(r"[\d,]+", "…", job["phase"] or job["state"])  # without what is counted within it
        if phase != last:
            last = phase
            say(f"{name}: {phase} after {time.perf_counter() - began:.1f} s")

    return tell


def changed_list(story: Story, client: Client, of: int) -> tuple[list[str], list[str]]:
    """The list of a new user, and the one after the user chose what the user of a row gets first.

    Raises:
        BenchFailed: the second list is not the new user's own.
    """
    before = _items(client.recommend("newcomer", n=N_LISTED))
    chosen = _items(client.recommend(f"u-{of}", n=1))[0]
    if story.type is None:
        receipt = client.rate({"user": "newcomer", "item": chosen, "rating": 5.0})
    else:
        receipt = client.send_events({"user": "newcomer", "item": chosen, "type": story.type})
    client.wait_for(receipt["stream_id"])
    answer = client.recommend("newcomer", n=N_LISTED)
    if not answer["personalized"]:
        raise BenchFailed(f"Invalid list of a user with an event: expected a personal one, got {answer}")
    return before, _items(answer)


def _items(answer: dict[str, Any]) -> list[str]:
    return [one["item"] for one in answer["items"]]


def stories(
    names: Annotated[str, typer.Option(help="Stories, such as news,shop.")] = ",".join(STORIES),
    share: Annotated[float, typer.Option(help="Share of users, items and rows.", min=0.0, max=1.0)] = 1.0,
) -> Iterator[Row]:
    """Import, training, lists and start of five adoptions: news, shop, podcasts, business, research.

    An import is as `nearfield import` does it, and a training as the service does it, with what it measures and the
    time until its model is live. `rows` are those that the service accepted. `engine_mib` is the proportional set size
    of the engine's process after the reads.
    """
    for name in names.split(","):
        story = STORIES[name].at(share)
        with tempfile.TemporaryDirectory(prefix="nearfield-bench-") as folder:
            say(f"{name}: drawing {story.n_rows:,} rows")
            catalog, done = story.write(Path(folder))
            row: Row = {"story": name, "users": story.n_users, "items": story.n_items, "rows": story.n_rows}
            with serving(Path(folder) / "data") as (client, _):
                n, seconds = posted(client.address, catalog, "--items")
                row["items_per_s"] = n / seconds
                # Of ratings of a pair only the newest is posted.
                row["rows"], seconds = posted(client.address, done, *(["--events"] if story.type else []))
                row["rows_per_s"] = row["rows"] / seconds
                say(f"{name}: training {story.algorithm}")
                told = told_phases(name)
                row["train_s"] = timed(partial(client.retrain, story.algorithm, force=True, on_poll=told))[1]
                before, after = changed_list(story, client, story.n_users // 2)
                if before == after:
                    raise BenchFailed(f"Invalid list of {name}: expected another one after an event, got {after}")
            began = time.perf_counter()
            with serving(Path(folder) / "data") as (client, pid):
                row["start_s"] = time.perf_counter() - began
                users = np.random.default_rng(1).integers(0, story.n_users, N_READERS).tolist()
                reads = [message("GET", f"/recommend/u-{user}?n={N_LISTED}", "Host: 127.0.0.1\r\n") for user in users]
                row["lists_per_s"] = drive(client.address, reads, SECONDS).per_second
                engine = next(one for one in psutil.Process(pid).children() if one.name() == "nf-engine")
                row["engine_mib"] = engine.memory_full_info().pss / MIB
        yield row
