"""Data sets train in turns: none waits for two trainings of another one."""

import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from service.jobs.turns import TURNS, WAITS, turn
from service.settings import data_sets
from service.settings.settings import Settings
from service.storage.files import FileLock
from tests.service.waiting import eventually


class GaveUp(Exception):
    pass


@pytest.fixture
def sets(tmp_path: Path) -> dict[str, Settings]:
    every = Settings(data=tmp_path, data_sets="shop,music").each()
    return {one.data_set: one for one in every}


def never() -> None:
    raise GaveUp


def trained(settings: Settings) -> None:
    with turn(settings, never, lambda _: None):
        time.sleep(0.01)  # a tick of the clock of a file system


def test_who_has_just_trained_lets_those_who_wait_go_first(sets: dict[str, Settings]) -> None:
    order, n_of_each = list[str](), 4
    waiting = dict.fromkeys(sets, 0)  # the turn that each waits for, from 1

    def wait(name: str) -> None:
        waiting[name] = order.count(name) + 1
        time.sleep(0.002)

    def all_others_wait(name: str) -> bool:
        """But those that have had their last turn."""
        return all(waiting[other] == min(order.count(other) + 1, n_of_each) for other in sets if other != name)

    def train_again_and_again(name: str) -> None:
        for _ in range(n_of_each):
            with turn(sets[name], lambda: wait(name), lambda _: None):
                order.append(name)
                time.sleep(0.01)  # a tick of the clock of a file system
                eventually(lambda: all_others_wait(name))

    threads = [threading.Thread(target=train_again_and_again, args=(name,)) for name in sets]
    (sets[""].root / TURNS).mkdir(parents=True)
    with FileLock.take(sets[""].root / data_sets.TURN):
        for thread in threads:
            thread.start()
        eventually(lambda: all(waiting.values()))
    for thread in threads:
        thread.join()
    assert Counter(order) == dict.fromkeys(sets, n_of_each)
    assert all(set(order[first : first + 3]) == set(sets) for first in range(0, len(order), 3))


def test_who_does_not_wait_holds_up_nobody(sets: dict[str, Settings]) -> None:
    for name in ("shop", "shop", "", "shop"):
        trained(sets[name])


def test_a_wait_that_ends_leaves_the_turn_to_others(sets: dict[str, Settings]) -> None:
    told = list[str]()
    with turn(sets["shop"], never, told.append), pytest.raises(GaveUp):
        turn(sets["music"], never, told.append)
    assert told == [WAITS]
    trained(sets["shop"])


def test_who_waits_for_longer_goes_first_though_nobody_trains(sets: dict[str, Settings], tmp_path: Path) -> None:
    trained(sets["music"])
    with FileLock.take(tmp_path / TURNS / "shop.waiting"), pytest.raises(GaveUp):
        turn(sets["music"], never, lambda _: None)
    trained(sets["music"])


def test_a_service_with_one_data_set_has_no_turns(tmp_path: Path) -> None:
    with turn(Settings(data=tmp_path), never, lambda _: None), turn(Settings(data=tmp_path), never, lambda _: None):
        assert not (tmp_path / data_sets.FOLDER).exists()
