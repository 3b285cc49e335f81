"""Posts ratings, events or items of a file to a service in batches, waiting when asked; or takes an import back."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import httpx
import msgspec
import numpy as np

from service.base.errors import ServiceError
from service.cli.client import Client, Job, RatingBody, RequestFailed, segment
from service.cli.files.items_file import Element
from service.cli.files.ratings_file import RatingsFile

T = TypeVar("T")
BATCH = 1000  # ratings or items; the service's default limit of one request
BATCH_BYTES = 900_000  # below the default limit of a body
PATIENCE_S = 300.0  # seconds; how long to retry one batch before giving up
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 15.0
RETRIED = (None, httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)  # None: there was no answer
N_REJECTED_KEPT = 100
HINTS: dict[int | None, str] = {
    httpx.codes.UNAUTHORIZED: "; set NEARFIELD_WRITE_KEY or NEARFIELD_API_KEY",
    httpx.codes.FORBIDDEN: "; set NEARFIELD_WRITE_KEY or NEARFIELD_API_KEY to a key that may write",
}


class ImportFailed(ServiceError):
    """The service refused a whole batch, or was unavailable for longer than `PATIENCE_S`."""


@dataclass
class Receipt:
    """The result of an import.

    Attributes:
        accepted, rejected: numbers of ratings or items.
        reasons: position from 0 among those that were sent, and why it was rejected; the first hundred.
        stream_id: id of the last accepted batch, for `wait_for`.
        skipped: accepted ones that do not count, because an earlier import has sent them.
    """

    accepted: int = 0
    rejected: int = 0
    reasons: list[tuple[int, str]] = field(default_factory=list)
    stream_id: str | None = None
    skipped: int = 0

    def add(self, answer: dict[str, Any], offset: int) -> None:
        """Add the answer to the batch that began at position `offset`."""
        self.accepted += answer["accepted"]
        self.rejected += len(answer["rejected"])
        self.skipped += answer.get("skipped") or 0
        room = N_REJECTED_KEPT - len(self.reasons)
        self.reasons += [(offset + bad["index"], bad["error"]) for bad in answer["rejected"][:room]]
        self.stream_id = answer["stream_id"] or self.stream_id


def check_answers(client: Client) -> None:
    """Send one request, so that a wrong address fails at once and not after retries.

    Raises:
        RequestFailed: no service answers.
    """
    try:
        client.check_live()
    except RequestFailed as error:
        if error.code is None:
            raise


def send(
    client: Client,
    ratings: Iterable[RatingBody],
    on_batch: Callable[[int], None] = lambda _n: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Receipt:
    """Post `ratings` in order and in batches; repeat a batch until it is acknowledged.

    A repeated batch is harmless: the same ratings in the same order leave the same last ratings.

    Args:
        client: has the address and the key.
        ratings: the ratings to send.
        on_batch: called after each batch with its number of ratings.
        sleep: waits between two attempts, seconds.

    Raises:
        ImportFailed: the service refused a batch, or was unavailable for five minutes.
    """
    return send_batches(client.rate, client.address, batches(ratings, lambda _rating: 0), on_batch, sleep)


def send_items(
    client: Client,
    items: Iterable[Element],
    on_batch: Callable[[int], None] = lambda _n: None,
    sleep: Callable[[float], None] = time.sleep,
    *,
    patch: bool = False,
) -> Receipt:
    """Put `items`, elements of the body of POST /items, as `send` posts ratings; or `patch` those they name."""
    parts = batches(items, lambda item: len(json.dumps(item)) + 2)  # embeddings are long
    return send_batches(client.patch_items if patch else client.put_items, client.address, parts, on_batch, sleep)


def send_file(
    client: Client,
    path: str,
    source: str,
    elements: Iterable[Any],
    on_batch: Callable[[int], None] = lambda _n: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Receipt:
    """Post `elements` of a file to `path`, /ratings or /events, as `send` posts ratings.

    The file is the `source` of batches (X-Source), so each counts once: also if it is sent again because the answer was
    lost, or by another import of the same file. And `undo` can take all of them back.
    """
    place = 0

    def post(lines: list[bytes]) -> dict[str, Any]:
        return client.post_lines(path, b"\n".join(lines), source, place + len(lines))

    receipt, encode = Receipt(), msgspec.json.Encoder().encode
    for batch in batches(map(encode, elements), len):
        receipt.add(posted(partial(post, batch), client.address, sleep), place)
        place += len(batch)
        on_batch(len(batch))
    return receipt


def undo(client: Client, source: str, on_poll: Callable[[Job], None], *, dry_run: bool = False) -> Job:
    """Take everything back that an import has sent as `source`, or count it; return the job, whose `metrics` tell.

    Raises:
        RequestFailed, JobFailed: the service refused, or could not do it. What is done already stays done.
    """
    path = f"/admin/sources/{segment(source)}/undo"
    return client.succeeded_job(client.request("POST", path, params={"dry_run": dry_run})["id"], on_poll)


def told(job: Job, *, dry_run: bool = False) -> str:
    """What an undoing has done, or would do, in words; empty if the service knows nothing of the source."""
    n = {name: int(value) for name, value in job["metrics"].items()}
    would = "would be " if dry_run else ""
    words = []
    if any(n[f"ratings_{what}"] for what in ("deleted", "restored", "kept")):
        words.append(
            f"{n['ratings_deleted'] + n['ratings_restored']:,} ratings {would}taken back"
            f" ({n['ratings_restored']:,} to what they were before),"
            f" {n['ratings_kept']:,} stay, because they were changed since"
        )
    if n["events_taken_back"] + n["events_kept"]:
        words.append(
            f"{n['events_taken_back']:,} events {would}taken back,"
            f" {n['events_kept']:,} stay, without an event_id among the last 64 of their user"
        )
    return "; ".join([*words, *([job["reason"]] if job["reason"] else [])])


def replaces(items: Iterable[Element]) -> str:
    """What putting `items` does to attributes that the service has, in words."""
    n = len({str(item.get("item")) for item in items})
    whose = "1 item's" if n == 1 else f"{n:,} items'"
    return f"replaces {whose} attributes: what an item has and the file does not name is gone; --patch merges instead"


def send_batches(
    post: Callable[[list[Any]], dict[str, Any]],
    address: str,
    batches: Iterable[list[Any]],
    on_batch: Callable[[int], None],
    sleep: Callable[[float], None],
) -> Receipt:
    """Send each of `batches` by `post` to the service at `address`; else like `send`."""
    receipt, offset = Receipt(), 0
    for batch in batches:
        receipt.add(posted(partial(post, batch), address, sleep), offset)
        offset += len(batch)
        on_batch(len(batch))
    return receipt


def records(file: RatingsFile) -> Iterator[RatingBody]:
    """The ratings of a file as elements of a body, the oldest first; without times, and among equal ones, in order.

    A rating without a time comes last, because the service takes the time of its arrival.
    """
    times = file.timestamps
    order = range(len(file.values)) if times is None else np.argsort(times, kind="stable").tolist()  # NaN last
    for place in order:
        body: RatingBody = {
            "user": file.users[place],
            "item": file.items[place],
            "rating": float(file.values[place]),
        }
        if times is not None and not math.isnan(time_s := float(times[place])):
            body["timestamp"] = time_s
        yield body


def batches(elements: Iterable[T], length_of: Callable[[T], int]) -> Iterator[list[T]]:
    """`elements` in batches that one request may have, by number and by length; `length_of` is in bytes."""
    batch, n_bytes = list[T](), 0
    for element in elements:
        length = length_of(element)
        if batch and (len(batch) == BATCH or n_bytes + length > BATCH_BYTES):
            yield batch
            batch, n_bytes = [], 0
        batch.append(element)
        n_bytes += length
    if batch:
        yield batch


def posted(
    post: Callable[[], dict[str, Any]], address: str, sleep: Callable[[float], None], patience_s: float = PATIENCE_S
) -> dict[str, Any]:
    """The answer to `post`, which is repeated while the service at `address` asks to wait, or does not answer.

    Raises:
        ImportFailed: the service refused, or was unavailable for `patience_s` seconds.
    """
    waited_s, wait_s = 0.0, FIRST_WAIT_S
    while True:
        try:
            return post()
        except RequestFailed as error:
            if error.code not in RETRIED or waited_s >= patience_s:
                reason = f"{error.problem}{HINTS.get(error.code, '')}"
                raise ImportFailed(f"{address} did not take the batch: {reason}") from None
            pause_s = error.retry_after_s or wait_s
        sleep(pause_s)
        waited_s, wait_s = waited_s + pause_s, min(2 * wait_s, LONGEST_WAIT_S)
