"""Numbers are written to the bytes that a library gives, and lists of lines to those that Python joins."""

import math
import sys
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu.data.host_texts import MOST_BYTES, lines, write

ODD = [
    0.0, 1.0, 100.5, 0.1, 1e15, 1e16, 1e17, 9999999999999998.0, 1.5e16, 123456789012345680.0, 2.0**53, 2.0**53 + 2,
    1e-3, 1e-4, 1e-5, 1.5e-5, 1e-6, 1.25e-7, 1e22, 1e23, 9.5367431640625e-07, 5e-324, 2.2250738585072014e-308,
    2.225073858507201e-308, sys.float_info.max, math.nan, math.inf,
]  # fmt: skip


def written(number: float) -> bytes:
    text = np.full(MOST_BYTES, ord("?"), dtype=np.uint8)
    return text[: write(np.float64(number).view(np.uint64), text, 0)].tobytes()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_odd_numbers_are_written_as_the_library_writes_them(sign: float) -> None:
    powers = [2.0**n for n in range(-1074, 1024)] + [10.0**n for n in range(-323, 309)]
    near = [math.nextafter(one, to) for one in powers for to in (0.0, math.inf)]
    for number in (*ODD, *powers, *near, *range(1000), *(n / 100 for n in range(1000))):
        assert written(sign * number) == msgspec.json.encode(float(sign * number))


def test_drawn_numbers_are_written_as_the_library_writes_them() -> None:
    rng = np.random.default_rng(5)
    scores = rng.normal(0, 3, 20_000).astype(np.float32).astype(np.float64)
    for number in (*scores.tolist(), *rng.normal(0, 1e4, 20_000), *np.frombuffer(rng.bytes(160_000)).tolist()):
        assert written(number) == msgspec.json.encode(float(number))


@given(st.floats())
@settings(max_examples=500, deadline=None)
def test_any_number_is_written_as_the_library_writes_it(number: float) -> None:
    assert written(number) == msgspec.json.encode(number)


TEXTS = st.lists(st.binary(max_size=12), min_size=5, max_size=9)
LISTS = st.lists(st.lists(st.tuples(st.integers(0, 1000), st.floats(), st.floats()), max_size=5), max_size=5)


@given(TEXTS, LISTS, st.sampled_from([1, 2]))
@settings(max_examples=200, deadline=None)
def test_lists_are_joined(texts: list[bytes], lists: list[list[tuple[int, float, float]]], n_numbers: int) -> None:
    rows = [row % (len(texts) - 4) for own in lists for row, *_ in own]
    numbers = np.array([line[1 : 1 + n_numbers] for own in lists for line in own]).reshape(-1, n_numbers)
    ends = np.cumsum(np.array(list(map(len, texts)), dtype=np.int64))
    columns = np.array(rows, dtype=np.int64), np.array(list(map(len, lists)), dtype=np.int64), numbers
    text, list_ends = lines(*columns, ends, np.frombuffer(b"".join(texts), dtype=np.uint8).copy())
    assert list_ends.dtype == np.uint32
    parts = [text.tobytes()[first:end] for first, end in pairwise((0, *list_ends.tolist()))]
    expected = []
    for own in lists:
        line_of = [
            b"".join(
                [texts[n > 0], texts[4 + row % (len(texts) - 4)]]
                + [texts[2 + k] + msgspec.json.encode(given[k]) for k in range(n_numbers)]
            )
            for n, (row, *given) in enumerate(own)
        ]
        expected.append(b"".join(line_of))
    assert parts == expected
    assert len(text) == sum(map(len, expected))
