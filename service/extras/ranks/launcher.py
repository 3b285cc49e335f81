"""`Launcher`: how a coordinator starts ranks. `service.extras.ranks.rank_process.Here` starts them on this machine."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from gpu.base.backend import Backend


class RankEnd(NamedTuple):
    """How a rank ended.

    Attributes:
        code: its return code; −n after signal n.
        words: the same for people, with the last line of its stderr.
        is_memory: the system killed it because memory ran out.
        is_stopped: it has not ended, but a signal has stopped it for too long.
    """

    code: int
    words: str
    is_memory: bool = False
    is_stopped: bool = False


class Rank(Protocol):
    """A rank as the coordinator sees it."""

    def ended(self) -> RankEnd | None:
        """How it ended; None while it runs."""

    def leave(self) -> None:
        """Wait until it has ended by itself, for a short time."""

    def end(self) -> None:
        """End it at once; no process of it is left."""


class Launcher(Protocol):
    """Starts ranks; used by one thread."""

    def available(self, n_ranks: int, backend: Backend) -> int:
        """How many ranks can start now, from 1 to `n_ranks`. May wait for machines.

        Raises:
            ServiceError, BackendUnavailable: there are none, or not enough at the first call.
        """

    def weights(self, n_ranks: int, backend: Backend) -> tuple[float, ...]:
        """How much of the work each of `n_ranks` ranks should get; see `gpu.ranks.exchange.Exchange`."""

    def host(self) -> str:
        """The address of this machine at which ranks can reach the coordinator."""

    def start(self, rank: int, n_ranks: int, coordinator: tuple[str, int], key: bytes, backend: Backend) -> Rank:
        """Start a rank.

        Args:
            rank: its number, from 0.
            n_ranks: number of ranks of the attempt.
            coordinator: host and port of the coordinator.
            key: secret of the attempt, which the rank proves to know.
            backend: where it computes.

        Raises:
            OSError: it cannot be started.
        """

    def close(self) -> None:
        """Give back what `available` has taken."""
