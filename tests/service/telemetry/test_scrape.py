"""The page of metrics: off the event loop, once for everybody."""

import asyncio
import threading
import time

import pytest

from service.telemetry import metrics
from service.telemetry.metrics import Scrape

KIND = "text/plain"


class Page:
    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.n_rendered, self.threads = seconds, 0, set[int]()

    def __call__(self, kind: str) -> bytes:
        self.n_rendered += 1
        self.threads.add(threading.get_ident())
        time.sleep(self.seconds)
        return b"%d %s" % (self.n_rendered, kind.encode())


def test_requests_within_a_second_get_the_same_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "CACHED_S", 60.0)  # a second, on a machine that stands still
    page = Page(0.05)

    async def ask() -> list[bytes]:
        pages = Scrape(page)
        together = await asyncio.gather(*(pages.page(KIND) for _ in range(50)))
        return [*together, await pages.page(KIND)]

    assert set(asyncio.run(ask())) == {b"1 text/plain"}
    assert threading.get_ident() not in page.threads


def test_after_that_a_new_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "CACHED_S", 0.01)

    async def ask() -> list[bytes]:
        pages, found = Scrape(Page()), []
        for _ in range(3):
            found.append(await pages.page(KIND))
            await asyncio.sleep(0.02)
        return found

    assert asyncio.run(ask()) == [b"%d text/plain" % n for n in (1, 2, 3)]


def test_a_client_that_disconnects_does_not_cancel_the_page_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "CACHED_S", 60.0)

    async def ask() -> bytes:
        pages = Scrape(Page(0.05))
        first, second = asyncio.create_task(pages.page(KIND)), asyncio.create_task(pages.page(KIND))
        await asyncio.sleep(0.01)
        first.cancel()
        return await second

    assert asyncio.run(ask()) == b"1 text/plain"


def test_a_failure_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "CACHED_S", 0.0)
    outcomes: list[Exception | bytes] = [RuntimeError("boom"), b"page"]

    def render(kind: str) -> bytes:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def ask() -> bytes:
        pages = Scrape(render)
        with pytest.raises(RuntimeError):
            await pages.page(KIND)
        return await pages.page(KIND)

    assert asyncio.run(ask()) == b"page"


def test_each_format_has_a_page() -> None:
    async def ask() -> list[bytes]:
        pages = Scrape(Page())
        return [await pages.page(kind) for kind in ("a", "b", "a")]

    assert asyncio.run(ask()) == [b"1 a", b"2 b", b"1 a"]
