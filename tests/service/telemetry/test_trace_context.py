"""Sampling by the variables of OpenTelemetry, and W3C's header."""

import pytest

from service.telemetry.trace_context import DEFAULT_SHARE, Sampling, Trace

LOW = f"{1:032x}"  # a trace id that every share above 0 has
HIGH = "f" * 32


def header(trace_id: str, flags: str = "01", version: str = "00", rest: str = "") -> bytes:
    return f"{version}-{trace_id}-00000000000000aa-{flags}{rest}".encode()


def test_unset_variables_follow_callers_and_draw_a_small_share() -> None:
    assert Sampling.of({}) == (DEFAULT_SHARE, True)


@pytest.mark.parametrize(
    ("sampler", "alone", "asked", "refused"),
    [
        ("always_on", True, True, True),
        ("always_off", False, False, False),
        ("parentbased_always_on", True, True, False),
        ("parentbased_always_off", False, True, False),
    ],
)
def test_samplers_decide_as_their_names_say(sampler: str, alone: bool, asked: bool, refused: bool) -> None:
    sampling = Sampling.of({"OTEL_TRACES_SAMPLER": sampler})
    given = (None, header(HIGH), header(HIGH, "00"))
    assert [sampling.begin(one) is not None for one in given] == [alone, asked, refused]


def test_a_ratio_decides_by_the_trace_id_if_callers_are_not_followed() -> None:
    sampling = Sampling.of({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"})
    assert sampling.begin(header(LOW, "00")) is not None
    assert sampling.begin(header(HIGH)) is None


def test_a_request_continues_the_trace_of_its_caller() -> None:
    trace = Sampling(0.0, follows=True).begin(header(LOW))
    assert trace is not None
    assert (trace.trace_id, trace.parent_id) == (1, 0xAA)
    child = trace.child()
    assert (child.trace_id, child.parent_id) == (1, trace.span_id)
    assert Trace.decoded(trace.encoded)[:2] == trace[:2]
    assert Trace.of_header(trace.header) == (1, trace.span_id, 0)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"00",
        header("0" * 32),
        header(LOW.upper().replace("0", "G")),
        header(LOW, version="ff"),
        header(LOW, rest="-more"),
        header(LOW)[:-1],
        b"00-" + LOW.encode() + b"-" + b"0" * 16 + b"-01",
    ],
)
def test_a_header_that_cannot_be_read_is_no_header(text: bytes) -> None:
    assert Sampling(0.0, follows=True).begin(text) is None
    found = Sampling(1.0, follows=True).begin(text)
    assert found is not None
    assert found.parent_id == 0


def test_headers_of_later_versions_are_read() -> None:
    trace = Sampling(0.0, follows=True).begin(header(LOW, version="01", rest="-more"))
    assert trace is not None
    assert trace.trace_id == 1


def test_what_is_rare_is_recorded_unless_the_share_is_zero() -> None:
    assert Sampling(0.0, follows=True).rare() is None
    assert Sampling(0.001, follows=True).rare() is not None
    assert Trace.of_header(None) is None
    assert Trace.of_header(header(LOW, "00").decode()) is None
