"""The messages between the engine's process and the others.

All are processes of one start of the service and run the same code, so the format needs no version.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Union

import msgspec
from msgspec import Struct

from gpu.base.errors import InvalidInput
from service.api.operations import Operation
from service.base.errors import ServiceError
from service.engine.queries import Query, Recommend
from service.engine.queries.columns import BadColumns, Ids, ListColumns
from service.processes.parts import parts

Plain = str | int | float | bool | None  # attributes of errors that cross
Samples = list[tuple[str, dict[str, str], float]]  # as in `service.telemetry.metrics_sum`

if TYPE_CHECKING:
    Content = Struct  # mypy knows no union that is made by calls
else:
    Content = Union[Query, Operation, *parts().operations]  # the codec reads a message's type from its tag

# --- from a front, or from the archiver's process


class Hello(Struct, tag=0, array_like=True, frozen=True):
    """The first message.

    Attributes:
        name: of the process, such as `front-1`.
        ended: the last `Ended` of an earlier engine; empty: none.
    """

    name: str
    ended: Samples


class Request(Struct, tag=1, array_like=True, frozen=True):
    """A query or an operation; exactly one `Answered` or `Failed` follows, unless `Drop` comes before.

    Attributes:
        id: chosen by the front; unique among its open requests.
        content: the query or the operation.
        address, key: the client, as `service.engine.fairness.Client` has it.
        wait_for: a stream id to learn first; empty: none.
    """

    id: int
    content: Content
    address: str
    key: bytes | None
    wait_for: str


class Drop(Struct, tag=2, array_like=True, frozen=True):
    """The client of a request has gone: its answer is not needed."""

    id: int


class VerifyRedis(Struct, tag=3, array_like=True, frozen=True):
    """Asks whether ratings may be written to the server with this run id; answered like `Request`."""

    id: int
    run_id: str


class Counted(Struct, tag=4, array_like=True, frozen=True):
    """All samples of the metrics of a front, and its exemplars; see `service.telemetry.metrics_sum.Counts`."""

    samples: Samples
    exemplars: list[tuple[str, dict[str, str], dict[str, str], float, float]]


class Archived(Struct, tag=5, array_like=True, frozen=True):
    """The state of the archiver, see `service.storage.archiver.Archiver`."""

    obstacle: str | None
    damage: str | None
    lag_s: float
    n_pending: int


class TracedRequest(Request, tag=6, array_like=True, frozen=True):
    """A request that is recorded, with its span, see `service.telemetry.trace_context.Trace.encoded`; most are not."""

    trace: bytes


class Wrote(Struct, tag=7, array_like=True, frozen=True):
    """A recorded request has written the entry at this position; it has no answer."""

    stream_id: str
    trace: bytes


class Acknowledged(Struct, tag=8, array_like=True, frozen=True):
    """The newest entries that a front has written, told when it has lost Redis; it has no answer."""

    entries: list[tuple[str, dict[bytes, bytes]]]


class SharedRequest(Struct, tag=9, array_like=True, frozen=True):
    """A request for plain lists of users of several clients; answered like `Request`.

    Attributes:
        content: a page, with the users of all clients in order.
        portions: address and key of each client, and how many of the users are its own.

    Raises:
        BadColumns: the clients have another number of users.
    """

    id: int
    content: Recommend
    portions: list[tuple[str, bytes | None, int]]

    def __post_init__(self) -> None:
        """Check the numbers."""
        users, own = self.content.users, [n for _, _, n in self.portions]
        if not isinstance(users, Ids) or min(own, default=0) < 1 or sum(own) != len(users):
            raise BadColumns("Invalid portions: expected clients with at least one user each, and no other users")


FromFront = (
    Hello | Request | Drop | VerifyRedis | Counted | Archived | TracedRequest | Wrote | Acknowledged | SharedRequest
)

# --- from the engine


class Answered(Struct, tag=0, array_like=True, frozen=True):
    """The bodies that answer a request, one or one for each of several users; or lists that the front has to write."""

    id: int
    answer: list[bytes] | ListColumns


class Failed(Struct, tag=1, array_like=True, frozen=True):
    """The error that answers a request.

    Attributes:
        kind: name of its class.
        text: its message.
        fields: its other attributes, as far as they are plain values.
    """

    id: int
    kind: str
    text: str
    fields: dict[str, Plain]


class State(Struct, tag=2, array_like=True, frozen=True):
    """The state of the engine's process, sent at each change and twice a second: silence means that it hangs.

    Attributes:
        refusal: the error with which writes must be refused now; None if ratings may be acknowledged.
        has_failed: whether a part has failed for good, so that the process will end.
        quota: the error with which writes that add something must be refused; None if there is room.
        counts_ids: whether the new users and items of a write have to be counted first (`CheckNewIds`).
    """

    refusal: Failed | None
    has_failed: bool = False
    quota: Failed | None = None
    counts_ids: bool = False


class Count(Struct, tag=3, array_like=True, frozen=True):
    """Asks for `Counted`."""


class Ended(Struct, tag=4, array_like=True, frozen=True):
    """The counters of fronts that have ended. The others keep them for the engine's successor, if it dies too."""

    samples: Samples


FromEngine = Answered | Failed | State | Count | Ended


class Unforeseen(Exception):
    """An unforeseen error in the engine's process, whose log has the traceback; the text is its class and message."""


def failed(request_id: int, error: BaseException) -> Failed:
    """The message for `error`. Of an unforeseen error it carries the class and the message, for the log."""
    if isinstance(error, ServiceError | InvalidInput):
        fields = {name: value for name, value in vars(error).items() if isinstance(value, Plain)}
        return Failed(request_id, type(error).__name__, _unicode(str(error)), fields)
    return Failed(request_id, Unforeseen.__name__, _unicode(f"{type(error).__name__}: {error}"), {})


def error_of(message: Failed) -> Exception:
    """The error that `failed` was given, or `Unforeseen`; its constructor is not called."""
    kind = _kinds().get(message.kind, Unforeseen)
    error = kind.__new__(kind, message.text)
    error.args = (message.text,)
    vars(error).update(message.fields)
    return error


def _unicode(text: str) -> str:
    """`text` with escapes for lone surrogates, which a client may have sent and an error quotes."""
    return text.encode(errors="backslashreplace").decode()


@functools.cache
def _kinds() -> dict[str, type[Exception]]:
    """The classes of errors that cross, by name; all modules that define one have been imported by now."""
    kinds: dict[str, type[Exception]] = {}
    waiting: list[type[Exception]] = [ServiceError, InvalidInput]
    while waiting:
        kind = waiting.pop()
        kinds[kind.__name__] = kind
        waiting += kind.__subclasses__()
    return kinds


decode_from_front = msgspec.msgpack.Decoder(list[FromFront]).decode
decode_from_engine = msgspec.msgpack.Decoder(list[FromEngine]).decode
