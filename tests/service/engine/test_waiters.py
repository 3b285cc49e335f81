import asyncio

import pytest

from service.base.errors import Overloaded
from service.engine.errors import NotSeenYet
from service.engine.waiters import Waiters
from service.storage.events import StreamId


class Clock:
    as_of = StreamId(10, 5)


def test_older_ids_are_there_at_once_and_compare_as_numbers() -> None:
    waiters = Waiters(lambda: Clock.as_of, 9)
    for seen in (StreamId(9, 99), StreamId(10, 5), StreamId(0, 0)):
        asyncio.run(waiters.wait_for(seen, 0.0))
    with pytest.raises(NotSeenYet, match="10-6"):
        asyncio.run(waiters.wait_for(StreamId(10, 6), 0.01))
    assert not waiters


def test_release_wakes_waiters_whose_entry_has_arrived() -> None:
    clock = Clock()
    waiters = Waiters(lambda: clock.as_of, 9)

    async def scene() -> None:
        early = asyncio.create_task(waiters.wait_for(StreamId(11, 0), 60))
        late = asyncio.create_task(waiters.wait_for(StreamId(12, 0), 60))
        await asyncio.sleep(0)
        clock.as_of = StreamId(11, 3)
        waiters.release()
        await asyncio.wait_for(early, 60)
        assert not late.done()
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        assert not waiters

    asyncio.run(scene())


def test_more_than_may_wait_are_refused() -> None:
    waiters = Waiters(lambda: Clock.as_of, 2)

    async def scene() -> list[object]:
        waits = [waiters.wait_for(StreamId(11, n), 0.01) for n in range(3)]
        return list(await asyncio.gather(*waits, return_exceptions=True))

    assert [type(found) for found in asyncio.run(scene())] == [NotSeenYet, NotSeenYet, Overloaded]
    assert not waiters
