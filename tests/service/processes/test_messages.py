"""Messages between processes: what is encoded is decoded again, errors with all that a problem document shows."""

import importlib
import pkgutil
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import service
from gpu.base.errors import InvalidInput, InvalidRatings
from service.api import problems
from service.base.errors import NotReady, ServiceError, TooManyRequests
from service.engine.new_ids import TooManyNewIds, TooManyNewNames
from service.engine.queries import Recommend
from service.engine.queries.columns import Ids
from service.jobs.errors import NoMinutesLeft
from service.processes import messages
from service.processes.messages import (
    Failed,
    FromEngine,
    FromFront,
    SharedRequest,
    State,
    Unforeseen,
    error_of,
    failed,
)
from service.storage.sources import MAX_OFFSET, Source

BUILT = {
    NoMinutesLeft: NoMinutesLeft("none left", 60),
    TooManyRequests: TooManyRequests("slower", 12),
    TooManyNewIds: TooManyNewIds("too new", 3000),
    TooManyNewNames: TooManyNewNames("too new", 3000),
    NotReady: NotReady("reading the log", 0.25),
    InvalidRatings: InvalidRatings("Invalid ratings", 3, 4),
}
encode = msgspec.msgpack.encode
st.register_type_strategy(
    Source, st.builds(Source, st.text(min_size=1, max_size=9), st.integers(0, MAX_OFFSET), st.text(max_size=9))
)
ids = st.lists(st.text("abc", min_size=1).map(str.encode), min_size=1, max_size=3)
clients = st.lists(st.tuples(st.text(), st.none() | st.binary(), ids), min_size=1, max_size=3)


def shared(number: int, page: Recommend, own: list[tuple[str, bytes | None, list[bytes]]]) -> SharedRequest:
    """A request of these clients, for lists of their users."""
    users = Ids.of([user for _, _, users in own for user in users])
    portions = [(address, key, len(users)) for address, key, users in own]
    return SharedRequest(number, msgspec.structs.replace(page, users=users), portions)


st.register_type_strategy(Ids, st.builds(Ids.of, ids))
st.register_type_strategy(SharedRequest, st.builds(shared, st.integers(), st.from_type(Recommend), clients))


def modules() -> list[str]:
    """All modules that run in a process of the service, which commands and clients do not."""
    names = [module.name for module in pkgutil.walk_packages(service.__path__, "service.") if not module.ispkg]
    return [name for name in names if not name.startswith("service.cli")]


def kinds() -> list[type[Exception]]:
    """All classes of errors of the service and those of the engine that clients see."""
    for name in modules():
        importlib.import_module(name)
    found: list[type[Exception]] = []
    waiting: list[type[Exception]] = [ServiceError, InvalidInput]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__ in (*modules(), "gpu.base.errors"):
            found.append(kind)
    return found


def crossed(error: BaseException) -> Exception:
    """`error` as it arrives on the other side."""
    raw = encode([failed(7, error)])
    (message,) = messages.decode_from_engine(raw)
    assert isinstance(message, Failed)
    assert message.id == 7
    return error_of(message)


def test_every_error_crosses_with_all_its_attributes() -> None:
    messages._kinds.cache_clear()  # the test before may have imported less
    for kind in kinds():
        error = BUILT.get(kind) or kind("Invalid x: expected y, got z")
        found = crossed(error)
        assert type(found) is kind
        assert (str(found), vars(found)) == (str(error), vars(error))
        if isinstance(found, ServiceError) and isinstance(error, ServiceError):
            assert problems.of_error(found, "r") == problems.of_error(error, "r")
            assert found.retry_after_s == error.retry_after_s


def test_names_of_errors_are_unambiguous() -> None:
    names = [kind.__name__ for kind in kinds()]
    assert len(names) == len(set(names))
    assert Unforeseen.__name__ not in names
    assert not {kind.__name__ for kind in BUILT} - set(names)


def test_every_error_with_a_constructor_of_its_own_is_built_above() -> None:
    assert {kind for kind in kinds() if "__init__" in vars(kind)} <= BUILT.keys()


def test_an_unforeseen_error_crosses_as_its_class_and_message() -> None:
    found = crossed(KeyError("u"))
    assert isinstance(found, Unforeseen)
    assert str(found) == "KeyError: 'u'"
    assert not isinstance(found, ServiceError)


def test_attributes_and_texts_that_msgpack_lacks_do_not_stop_an_error() -> None:
    error = InvalidInput("Invalid x: got \ud800")
    error.add_note("a note")
    error.detail = object()  # type: ignore[attr-defined]
    found = crossed(error)
    assert type(found) is InvalidInput
    assert str(found) == "Invalid x: got \\ud800"


def test_a_state_carries_the_error_of_writes() -> None:
    (message,) = messages.decode_from_engine(encode([State(failed(0, NotReady("starting", 0.5)))]))
    assert isinstance(message, State)
    assert message.refusal is not None
    found = error_of(message.refusal)
    assert isinstance(found, NotReady)
    assert found.fraction == 0.5


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Messages of a union; structs within them have all their fields."""
    return st.one_of(*(st.from_type(member) for member in get_args(kind)))


def encoded(sent: list[Any]) -> bytes:
    try:
        return encode(sent)
    except OverflowError:  # an integer that msgpack does not have; `Frames.send` refuses it
        reject()


@settings(max_examples=300, deadline=None)
@given(st.lists(values_of(FromFront), max_size=4))
def test_messages_of_a_front_come_as_they_were_sent(sent: list[Any]) -> None:
    raw = encoded(sent)
    received = messages.decode_from_front(raw)
    assert list(map(type, received)) == list(map(type, sent))
    assert encode(received) == raw


@settings(max_examples=100, deadline=None)
@given(st.lists(values_of(FromEngine), max_size=4))
def test_messages_of_the_engine_come_as_they_were_sent(sent: list[Any]) -> None:
    raw = encoded(sent)
    received = messages.decode_from_engine(raw)
    assert list(map(type, received)) == list(map(type, sent))
    assert encode(received) == raw


@pytest.mark.parametrize(
    "raw", [b"", b"\xc1", encode([[99]]), encode({"id": 1}), encode([Failed(1, "x", "y", {})])[:-1]]
)
def test_what_is_no_list_of_messages_is_refused(raw: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        messages.decode_from_engine(raw)
