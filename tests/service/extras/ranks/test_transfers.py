"""Ranks that do not see the work folder of the coordinator: copies there and back."""

import contextlib
import os
import signal
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpu
from gpu.data.ratings import Ratings
from service.base.threads import helper
from service.extras.ranks import array_folder, checkpoints
from service.extras.ranks.errors import CorruptWorkFile, WorkFolderUnavailable
from service.extras.ranks.rank_messages import Challenge, Deliver, Fetch, Message, RankConnection
from service.extras.ranks.rank_process import Here, RankProcess, environment
from service.extras.ranks.transfers import RankTransfers, Transfers
from tests.data import planted
from tests.faults.small_disk import small_disk
from tests.service.extras.ranks.test_ranks import LONG, Watched, assert_equal, assert_nothing_is_left, at_epoch, send

__all__ = ["small_disk"]

KEY = b"k" * 32


class Elsewhere(Here):
    """Starts ranks in another working directory, where the relative path of the work folder leads nowhere."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.home = home

    def start(self, rank: int, n_ranks: int, *others: Any) -> RankProcess:
        coordinator, key, backend = others
        folder = self.home / f"rank-{len(list(self.home.iterdir()))}"
        folder.mkdir()
        with contextlib.chdir(self.home):
            return RankProcess(rank, coordinator, key, environment(dict(os.environ), rank, n_ranks, backend), folder)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Elsewhere:
    (tmp_path / "elsewhere").mkdir()
    return Elsewhere(tmp_path / "elsewhere")


def test_ranks_without_the_work_folder_give_the_same_bits(
    elsewhere: Elsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is killed in the middle, so that a checkpoint travels both ways."""
    monkeypatch.chdir(tmp_path)
    ranks, ratings = Watched(Path("work"), launcher=elsewhere), planted()
    _, on_epoch = at_epoch(10, lambda: send(ranks, signal.SIGKILL))
    assert_equal(gpu.fit(ratings, LONG, on_epoch=on_epoch, run=ranks.run), gpu.fit(ratings, LONG))
    (loss,) = ranks.losses
    assert "continues after part 0" not in loss
    assert_nothing_is_left(tmp_path / "work")
    copies = {entry.name for folder in elsewhere.home.iterdir() for entry in folder.iterdir()}
    assert {"ratings", "model"} <= copies


def test_a_shared_folder_is_used_directly(elsewhere: Elsewhere, tmp_path: Path) -> None:
    ranks, ratings = Watched(tmp_path / "work", launcher=elsewhere), planted()
    assert_equal(gpu.fit(ratings, LONG, run=ranks.run), gpu.fit(ratings, LONG))
    assert [list(folder.iterdir()) for folder in elsewhere.home.iterdir()] == [[], []]


def test_a_full_disk_of_the_coordinator_is_one_clear_error(
    elsewhere: Elsewhere, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint fits on the machine of rank 0."""
    monkeypatch.chdir(small_disk)
    ratings = Ratings.from_coo(np.arange(30_000), np.arange(30_000) % 50, np.ones(30_000) + np.arange(30_000) % 5)
    params, ranks = gpu.params_for("als", {"n_factors": 64, "n_epochs": 3}), Watched(Path("work"), launcher=elsewhere)
    with pytest.raises(WorkFolderUnavailable, match="work cannot be written: No space left on device; make room"):
        gpu.fit(ratings, params, run=ranks.run)
    assert ranks.n_restarts == 0
    assert_nothing_is_left(small_disk / "work")


class Coordinator:
    """The part of an attempt that serves transfers."""

    def __init__(self, work: Path) -> None:
        self.transfers, self._listener = Transfers(work), socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self.peers: list[RankConnection] = []
        self._thread = helper("coordinator", self._run)

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = RankConnection(self._listener.accept()[0])
                self.peers.append(connection)
                connection.send(Challenge("nonce"))
                wanted = connection.next()
                assert isinstance(wanted, Fetch | Deliver)
                self.transfers.serve(connection, wanted)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self.transfers.end()
        for peer in self.peers:
            peer.close()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    checkpoints.write(tmp_path / "work", "digest", 4, {"users": np.ones(100, np.float32)})
    return tmp_path / "work"


def test_checkpoints_travel_both_ways_and_the_oldest_goes(work: Path, tmp_path: Path) -> None:
    with contextlib.closing(Coordinator(work)) as coordinator:
        transfers = RankTransfers(coordinator.address, 0, KEY)
        transfers.fetch(tmp_path / "here" / "checkpoint-4", array_folder.digest_of(work / "checkpoint-4"))
        for n_parts in (5, 6):
            checkpoints.write(tmp_path / "here", "digest", n_parts, {"users": np.full(100, n_parts, np.float32)})
            transfers.deliver(tmp_path / "here" / f"checkpoint-{n_parts}")
        assert coordinator.transfers.n_bytes > 1200
    assert checkpoints.numbers(work) == [6, 5]
    assert checkpoints.read(work, "digest", 6)["users"].tolist() == [6.0] * 100


@pytest.mark.parametrize("name", ["missing", "checkpoint-9", "..", "checkpoint-4/users.bin"])
def test_a_folder_that_is_none_of_the_training_is_refused(work: Path, tmp_path: Path, name: str) -> None:
    with contextlib.closing(Coordinator(work)) as coordinator, socket.create_connection(coordinator.address) as opened:
        connection = RankConnection(opened)
        assert isinstance(connection.next(), Challenge)
        connection.send(Fetch(0, "", name))
        answer: Message = connection.next()
    assert type(answer).__name__ == "RankFailed"


def test_another_content_than_expected_is_refused(work: Path, tmp_path: Path) -> None:
    with contextlib.closing(Coordinator(work)) as coordinator, pytest.raises(ConnectionError, match="arrived altered"):
        RankTransfers(coordinator.address, 0, KEY).fetch(tmp_path / "here" / "checkpoint-4", "0" * 64)


def test_a_torn_delivery_leaves_nothing(work: Path, tmp_path: Path) -> None:
    with contextlib.closing(Coordinator(work)) as coordinator, socket.create_connection(coordinator.address) as opened:
        connection = RankConnection(opened)
        assert isinstance(connection.next(), Challenge)
        connection.send(Deliver(0, "", "model", {"manifest.json": 1000}))
        connection.next()
        opened.sendall(b"torn")
    assert [entry.name for entry in work.iterdir()] == ["checkpoint-4"]
    with pytest.raises(CorruptWorkFile):
        array_folder.read(work / "model")
