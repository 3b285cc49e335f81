"""The page of metrics: off the event loop, once for everybody."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from service.api import scrape
from service.api.scrape import Scrape


class Page:
    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.n_rendered, self.threads = seconds, 0, set[int]()

    def __call__(self) -> bytes:
        self.n_rendered += 1
        self.threads.add(threading.get_ident())
        time.sleep(self.seconds)
        return b"%d" % self.n_rendered


def test_everybody_who_asks_within_a_second_gets_the_same_page() -> None:
    page = Page(0.05)

    async def ask() -> list[bytes]:
        pages = Scrape(page)
        together = await asyncio.gather(*(pages.page() for _ in range(50)))
        return [*together, await pages.page()]

    assert set(asyncio.run(ask())) == {b"1"}
    assert threading.get_ident() not in page.threads


def test_after_that_a_new_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "CACHED_S", 0.01)

    async def ask() -> list[bytes]:
        pages, found = Scrape(Page()), []
        for _ in range(3):
            found.append(await pages.page())
            await asyncio.sleep(0.02)
        return found

    assert asyncio.run(ask()) == [b"1", b"2", b"3"]


def test_a_client_that_goes_takes_the_page_from_nobody() -> None:
    async def ask() -> bytes:
        pages = Scrape(Page(0.05))
        first, second = asyncio.create_task(pages.page()), asyncio.create_task(pages.page())
        await asyncio.sleep(0.01)
        first.cancel()
        return await second

    assert asyncio.run(ask()) == b"1"


def test_a_failure_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "CACHED_S", 0.0)
    outcomes = [RuntimeError("boom"), b"page"]

    def render() -> bytes:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def ask() -> bytes:
        pages = Scrape(render)
        with pytest.raises(RuntimeError):
            await pages.page()
        return await pages.page()

    assert asyncio.run(ask()) == b"page"
