"""`TrainingAttempt`: one attempt of a training on several ranks. It starts all ranks, and succeeds with all or fails.

The ranks connect to a listener and prove that they know the key of the attempt. When all are there, each learns the
addresses of all. From then on the coordinator only listens: for progress, signs of life and closed connections.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import selectors
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from gpu.base.backend import Backend
from service.extras.ranks import array_folder, checkpoints, partition_store
from service.extras.ranks.errors import RankRefused
from service.extras.ranks.launcher import Launcher, Rank
from service.extras.ranks.rank_messages import (
    Challenge,
    Deliver,
    Fetch,
    Finished,
    Joined,
    Message,
    PartDone,
    RankConnection,
    RankFailed,
    RankHello,
    Refused,
    Start,
    listen,
    proof,
    versions,
)
from service.extras.ranks.rank_watch import RankLimits, Watch
from service.extras.ranks.transfers import Transfers

POLL_S = 0.1  # seconds between two looks at processes and limits
GRACE_S = 0.5  # seconds after the first loss: the rank that caused it may show later than its neighbors
KEY_BYTES, NONCE_BYTES = 32, 32
BY_SIGNAL, BY_ERROR, BY_ITSELF, BY_CONNECTION, BY_NEIGHBOR = range(5)  # of lost ranks; the first is the likeliest cause


class AttemptPlan(NamedTuple):
    """What an attempt does.

    Attributes:
        work: work folder with the store and checkpoints.
        backend: where each rank computes.
        n_ranks: P.
        n_parts: completed parts of the checkpoint to go on from; 0: none.
        has_reports: whether metrics are computed after each epoch.
    """

    work: Path
    backend: Backend
    n_ranks: int
    n_parts: int
    has_reports: bool


class AttemptLost(Exception):
    """A rank was lost, and with it the attempt.

    Attributes:
        is_start: it did not even start.
        is_memory: memory ran out.
    """

    def __init__(self, reason: str, *, is_start: bool = False, is_memory: bool = False) -> None:
        super().__init__(reason)
        self.is_start, self.is_memory = is_start, is_memory


class _Loss(NamedTuple):
    """Why a rank is lost; of several losses the one with the lowest `order` is the cause."""

    order: int
    reason: str
    is_start: bool = False
    is_memory: bool = False


class _Peer:
    """A connection; of a rank, once it has proved who it is."""

    def __init__(self, accepted: socket.socket) -> None:
        self.connection, self.nonce = RankConnection(accepted), secrets.token_hex(NONCE_BYTES)
        self.host: str = accepted.getpeername()[0]
        self.rank: int | None = None


class TrainingAttempt:
    """Runs one attempt; use `run` once.

    Attributes:
        processes: the processes of the ranks, in their order.
    """

    def __init__(
        self, plan: AttemptPlan, launcher: Launcher, limits: RankLimits, on_message: Callable[[int, Message], None]
    ) -> None:
        """Prepare.

        Args:
            plan: see `AttemptPlan`.
            launcher: starts the ranks.
            limits: when a rank counts as lost.
            on_message: called with each message of a rank that has started.
        """
        self._plan, self._launcher, self._on_message = plan, launcher, on_message
        self._key = secrets.token_bytes(KEY_BYTES)
        self._watch = Watch(plan.n_ranks, limits, time.monotonic())
        self._selector = selectors.DefaultSelector()
        self._peers: list[_Peer] = []
        self._connected: set[int] = set()
        self._addresses: dict[int, tuple[str, int]] = {}
        self._finished: set[int] = set()
        self._failed: set[int] = set()  # they have said why
        self._losses: dict[int, _Loss] = {}
        self._lost_s = 0.0
        self._transfers, self._n_moved = Transfers(plan.work), 0
        self.processes: list[Rank] = []

    def run(self) -> None:
        """Return when all ranks have done everything; no process is left then, nor after an error.

        Raises:
            AttemptLost: a rank was lost; another attempt may succeed.
            EngineError, ServiceError: the training failed; another attempt would fail too.
        """
        with listen(self._launcher.host()) as listener:
            self._selector.register(listener, selectors.EVENT_READ)
            try:
                coordinator, n_ranks = listener.getsockname()[:2], self._plan.n_ranks
                for rank in range(n_ranks):
                    try:
                        process = self._launcher.start(rank, n_ranks, coordinator, self._key, self._plan.backend)
                    except OSError as error:
                        raise AttemptLost(f"rank {rank} cannot be started: {error}", is_start=True) from error
                    self.processes.append(process)
                while len(self._finished) < self._plan.n_ranks:
                    self._receive(listener)
                    self._check()
                for process in self.processes:
                    process.leave()
            finally:  # the processes end before their connections, so that none takes the coordinator for dead
                for process in self.processes:
                    process.end()
                self._transfers.end()
                for peer in self._peers:
                    peer.connection.close()
                self._selector.close()

    # --- messages

    def _receive(self, listener: socket.socket) -> None:
        for ready, _ in self._selector.select(POLL_S):
            if ready.fileobj is listener:
                accepted, _ = listener.accept()
                try:
                    peer = _Peer(accepted)
                except OSError:  # it is gone already
                    accepted.close()
                    continue
                self._peers.append(peer)
                self._selector.register(accepted, selectors.EVENT_READ, peer)
                self._send(peer, Challenge(peer.nonce))
                continue
            peer = ready.data
            try:
                messages = peer.connection.receive()
                for message in messages or []:
                    self._handle(peer, message)
            except msgspec.MsgspecError:
                messages = None
            if messages is None:
                self._selector.unregister(peer.connection.socket)
                if peer.rank is not None:
                    self._connected.discard(peer.rank)
                    if peer.rank not in self._finished | self._failed:
                        self._lose(peer.rank, _Loss(BY_CONNECTION, "closed its connection"))

    def _send(self, peer: _Peer, message: Message) -> None:
        with contextlib.suppress(OSError):  # it is gone; its connection or its process shows it
            peer.connection.send(message)

    def _handle(self, peer: _Peer, message: Message) -> None:
        if peer.rank is None:
            self._admit(peer, message)
            return
        rank, now_s = peer.rank, time.monotonic()
        self._watch.heard(rank, now_s)
        if isinstance(message, Joined):
            self._watch.joined(rank, now_s)
        elif isinstance(message, PartDone):
            self._watch.part_done(rank, message.n_parts, message.n_of_epoch, now_s)
        elif isinstance(message, Finished):
            self._finished.add(rank)
            self._watch.finished(rank)
        elif isinstance(message, RankFailed):
            if (error := message.error()) is not None:
                raise error
            self._failed.add(rank)
            order = BY_NEIGHBOR if message.kind == "RankLost" else BY_ERROR
            reason, is_memory = f"failed with {message.kind}: {message.message}", message.kind.endswith("MemoryError")
            self._lose(rank, _Loss(order, reason, is_memory=is_memory))
        self._on_message(rank, message)

    def _admit(self, peer: _Peer, message: Message) -> None:
        """Check that a peer is a rank of this attempt; a stranger is refused, and does not disturb the training.

        Raises:
            RankRefused: a rank has other versions.
        """
        if not isinstance(message, RankHello | Fetch | Deliver) or not hmac.compare_digest(
            message.proof, proof(self._key, peer.nonce, message.rank)
        ):
            self._send(peer, Refused("expected a rank with the key of this training, got another process"))
            return
        if not isinstance(message, RankHello):
            self._selector.unregister(peer.connection.socket)
            self._transfers.serve(peer.connection, message)
            return
        if message.versions != versions():
            ours, theirs = (
                ", ".join(f"{name} {version}" for name, version in sorted(version_of.items()))
                for version_of in (versions(), message.versions)
            )
            reason = f"Invalid rank {message.rank}: expected {ours}, got {theirs}"
            self._send(peer, Refused(reason))
            raise RankRefused(f"{reason}; install the same versions for all ranks")
        peer.rank = message.rank
        self._addresses[message.rank] = peer.host, message.port
        self._connected.add(message.rank)
        self._watch.heard(message.rank, time.monotonic())
        plan, backend = self._plan, self._plan.backend
        if len(self._addresses) < plan.n_ranks:
            return
        # All are there: each learns the addresses of all.
        paths = [plan.work / partition_store.STORE]
        paths += [checkpoints.path_of(plan.work, plan.n_parts)] if plan.n_parts else []
        start = Start(
            addresses=[self._addresses[rank] for rank in range(plan.n_ranks)],
            weights=self._launcher.weights(plan.n_ranks, backend),
            work=str(plan.work),
            folders={path.name: array_folder.digest_of(path) for path in paths},
            backend=backend.name,
            kept_bytes=backend.kept_bytes,
            limit_bytes=backend.limit_bytes,
            n_parts=plan.n_parts,
            has_reports=plan.has_reports,
        )
        for other in self._peers:
            if other.rank is not None:
                self._send(other, start)

    # --- losses

    def _lose(self, rank: int, loss: _Loss) -> None:
        if not self._losses:
            self._lost_s = time.monotonic()
        if rank not in self._losses or loss.order < self._losses[rank].order:
            self._losses[rank] = loss

    def _check(self) -> None:
        """Raise `AttemptLost` if a rank is lost, or the error of the work folder.

        A process that has ended counts only after its connection is read to the end: its last message may say why, or
        that it has finished. A stopped one says nothing more.
        """
        for rank, process in enumerate(self.processes):
            ended = None if rank in self._finished | self._failed else process.ended()
            if ended is not None and (ended.is_stopped or rank not in self._connected):
                if ended.code < 0:  # a signal comes first, whatever others report
                    reason = ended.words if ended.is_stopped else f"ended by {ended.words}"
                    loss = _Loss(BY_SIGNAL, reason, is_memory=ended.is_memory)
                else:
                    loss = _Loss(BY_ITSELF, f"ended with {ended.words}", is_start=rank not in self._addresses)
                self._lose(rank, loss)
        now_s = time.monotonic()
        if self._transfers.failure is not None:
            raise self._transfers.failure
        if self._transfers.n_bytes != self._n_moved:
            self._n_moved = self._transfers.n_bytes
            self._watch.moved(now_s)
        if self._losses:
            rank, loss = min(self._losses.items(), key=lambda pair: pair[1].order)
            if loss.order == BY_SIGNAL or now_s - self._lost_s >= GRACE_S:
                raise AttemptLost(f"rank {rank} {loss.reason}", is_start=loss.is_start, is_memory=loss.is_memory)
        elif (complaint := self._watch.complaint(now_s)) is not None:
            raise AttemptLost(complaint)
