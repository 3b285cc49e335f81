from collections.abc import Generator

import pytest

from service.base.errors import NotReady
from service.engine.background import Background


def counting(n: int, seen: list[int]) -> Generator[None, None, str]:
    for step in range(n):
        seen.append(step)
        yield
    return "done"


def test_generators_take_turns_and_return() -> None:
    background = Background(0.1)
    one: list[int] = []
    other: list[int] = []
    first, second = background.add(counting(2, one)), background.add(counting(1, other))
    for _ in range(3):
        background.step()
    assert (one, other, second.done()) == ([0, 1], [0], False)
    background.step()
    background.step()
    assert (first.result(0), second.result(0), len(background)) == ("done", "done", 0)


def test_an_exception_is_raised_in_the_waiting_caller() -> None:
    def failing() -> Generator[None, None, None]:
        yield
        raise ValueError("broken")

    background = Background(0.1)
    future, other = background.add(failing()), background.add(counting(0, []))
    for _ in range(3):
        background.step()
    with pytest.raises(ValueError, match="broken"):
        future.result(0)
    assert other.result(0) == "done"


def test_abandoned_generators_are_closed() -> None:
    closed = []

    def careful() -> Generator[None, None, None]:
        try:
            while True:
                yield
        finally:
            closed.append(True)

    background = Background(0.1)
    future = background.add(careful())
    background.step()
    background.abandon(NotReady("over"))
    assert closed == [True]
    with pytest.raises(NotReady):
        future.result(0)
