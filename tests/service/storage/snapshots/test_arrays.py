"""Arrays of a snapshot: headers that fit the file and the model, and values within their bounds, in any parts."""

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import save

from gpu.algorithms import params_for
from gpu.data.model import ARRAYS, NO_NEIGHBOR, NO_SLOT, Model
from service.storage.snapshots import array_file
from service.storage.snapshots.array_file import StoredArray, read_header
from service.storage.snapshots.array_values import (
    LEAST_NONNEGATIVE,
    MAX_FACTOR,
    MAX_NONNEGATIVE,
    MAX_PARAMETER,
    ArrayValues,
)

DTYPES = (np.float32, np.int32, np.bool_)
shapes = st.one_of(st.tuples(st.integers(0, 9)), st.tuples(st.integers(0, 9), st.integers(0, 5)))


def opened(content: bytes) -> io.BufferedReader:
    return io.BufferedReader(io.BytesIO(content))


def file_of(header: object, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@given(st.lists(st.tuples(shapes, st.sampled_from(DTYPES)), max_size=4), st.integers(1, 64))
def test_arrays_are_read_in_parts_of_whole_rows(made: list[tuple[tuple[int, ...], type]], part_bytes: int) -> None:
    arrays: dict[str, NDArray[Any]] = {
        f"a{n}": (np.arange(np.prod(shape)) % 7).reshape(shape).astype(dtype) for n, (shape, dtype) in enumerate(made)
    }
    file = opened(save(arrays, {"names": "x"}))
    stored, metadata = read_header(file)
    assert (set(stored), metadata) == (set(arrays), {"names": "x"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(array_file, "PART_BYTES", part_bytes)
        for name, array in arrays.items():
            for read in (array_file.read_array, array_file.scan_array):
                parts = list[NDArray[Any]]()

                def take(part: NDArray[Any], first: int, parts: list[NDArray[Any]] = parts) -> None:
                    assert first == sum(map(len, parts))
                    assert part.nbytes <= part_bytes or len(part) == 1
                    parts.append(part.copy())

                whole = read(file, stored[name], take)
                assert whole is None or whole.tolist() == array.tolist()
                assert [row for part in parts for row in part.tolist()] == (array.tolist() if array.size else [])


def test_a_header_is_as_long_as_it_may_be_and_as_the_file_is() -> None:
    header = json.dumps({"a": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    intact = file_of(header, bytes(8))
    assert read_header(opened(intact), len(header))[0] == {"a": StoredArray(np.dtype(np.int32), (2,), 8 + len(header))}
    assert read_header(opened(file_of(b"{}", b""))) == ({}, {})
    for content, most in ((intact, len(header) - 1), (b"", 99), (bytes(8), 99), (file_of(b"{}", b"")[:-1], 99)):
        with pytest.raises(ValueError, match="expected a header of 1 to"):
            read_header(opened(content), most)
    for content in (intact[:-1], intact + b"x"):
        with pytest.raises(ValueError, match="bytes by its header"):
            read_header(opened(content))
    stored = read_header(opened(intact))[0]["a"]
    with pytest.raises(ValueError, match="has been cut while it was read"):
        array_file.read_array(opened(intact[:-1]), stored, lambda part, first: None)


@pytest.mark.parametrize(
    "fields",
    [
        {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "I32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "I32", "shape": [1], "data_offsets": [4, 8]},
        {"dtype": "I32", "shape": [], "data_offsets": [0, 8]},
        {"dtype": "I32", "shape": [1, 1, 2], "data_offsets": [0, 8]},
        {"dtype": "I32", "shape": [2**40 + 1], "data_offsets": [0, 8]},
        {"dtype": "I32", "shape": [-2], "data_offsets": [0, 8]},
        {"dtype": "I32", "shape": [2], "data_offsets": [0, 8], "more": 1},
    ],
)
def test_what_does_not_describe_an_array_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        read_header(opened(file_of({"a": fields}, bytes(8))))


MODELS = {
    "culsh": Model.zeros(params_for("culsh", {"n_factors": 3, "n_neighbors": 2}), 0.0, (0.0, 1.0), 2, 4, n_bits=64),
    "nmf": Model.zeros(params_for("nmf", {"n_factors": 3}), 0.0, (0.0, 1.0), 2, 4),
    "ease": Model.zeros(params_for("ease", {}), 0.0, (0.0, 1.0), 2, 4),
    "neighbors": Model.zeros(params_for("neighbors", {"n_neighbors": 2}), 0.0, (0.0, 1.0), 2, 4),
}
OPTIONAL = {"item_slots", "item_weights"}


def described(model: Model) -> dict[str, StoredArray]:
    return {name: StoredArray(array.dtype, array.shape, 0) for name, array in model.arrays.items()}


def values_of(model: Model, **options: Any) -> ArrayValues:
    return ArrayValues(model.params, model.n_users, model.n_items, **options)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_each_array_of_a_model_must_be_there_as_it_is(model: Model) -> None:
    stored = described(model)
    values_of(model).check_header(stored)
    without = OPTIONAL if model.params.has_item_lists else OPTIONAL | {"listed", "listed_weights"}
    values_of(model).check_header({name: one for name, one in stored.items() if name not in without})
    for name, (dtype, shape, _) in stored.items():
        longer = (*shape[:-1], shape[-1] + 1)
        for wrong in (StoredArray(np.dtype(np.uint8), shape, 0), StoredArray(dtype, longer, 0)):
            with pytest.raises(ValueError, match="expected"):
                values_of(model).check_header(stored | {name: wrong})
        with pytest.raises(ValueError, match=r"expected (an array|both)"):
            values_of(model).check_header({other: one for other, one in stored.items() if other != name})
    with pytest.raises(ValueError, match="got one called 'more'"):
        values_of(model).check_header(stored | {"more": stored["item_bias"]})


def test_weights_of_items_are_no_more_than_there_may_be() -> None:
    model = MODELS["ease"]
    for n, is_right in ((4, True), (5, False)):
        weights = StoredArray(np.dtype(np.float32), (n, n), 0)
        values, stored = values_of(model), described(model) | {"item_weights": weights}
        if is_right:
            values.check_header(stored)
            values.checker("item_slots")(np.array([3, 0, NO_SLOT], np.int32), 0)
            with pytest.raises(ValueError, match="same item_slots"):
                values.checker("item_slots")(np.array([3], np.int32), 3)
            with pytest.raises(ValueError, match="item_slots from -1 to 3, got 4"):
                values.checker("item_slots")(np.array([4], np.int32), 0)
        else:
            with pytest.raises(ValueError, match="expected weights of at most 4 items, got 5"):
                values.check_header(stored)


BOUNDS: list[tuple[str, str, float, float]] = [
    ("culsh", "user_factors", -MAX_FACTOR, MAX_FACTOR),
    ("nmf", "item_factors", 0.0, MAX_NONNEGATIVE),
    ("culsh", "item_bias", -MAX_PARAMETER, MAX_PARAMETER),
    ("culsh", "neighbors", NO_NEIGHBOR, 3),
    ("neighbors", "listed", NO_NEIGHBOR, 3),
    ("culsh", "item_counts", 0, 2 + 5),
    ("culsh", "user_trained", 0, 1),
    ("culsh", "item_trained", 0, 1),
]


@pytest.mark.parametrize(("algorithm", "name", "low", "high"), BOUNDS)
def test_values_have_bounds_and_the_first_bad_one_is_named(algorithm: str, name: str, low: float, high: float) -> None:
    values, dtype = values_of(MODELS[algorithm], n_forgotten=5), ARRAYS[name][1]
    is_table = len(ARRAYS[name][0]) == 2

    def part(*numbers: float) -> NDArray[Any]:
        rows = np.array(numbers, np.float32 if dtype == np.float32 else np.int64)
        rows = rows.astype(np.uint8).view(np.bool_) if dtype == np.bool_ else rows.astype(dtype)
        return np.stack([rows[:1].repeat(len(rows)), rows], axis=1) if is_table else rows

    values.checker(name)(part(low, high), 0)
    beyond = [float(np.nextafter(np.float32(low), np.float32(-np.inf))), float(np.nextafter(np.float32(high), np.inf))]
    wrong = [*beyond, np.nan, np.inf] if dtype == np.float32 else [low - 1, high + 1] if dtype != np.bool_ else [2]
    for number in wrong:
        place = r"\[42, 1\]" if is_table else r"\[42\]"
        with pytest.raises(ValueError, match=f"expected {name} from .* at {place}"):
            values.checker(name)(part(low, high, number, number), 40)


def test_of_factors_that_are_not_negative_some_are_not_zero() -> None:
    def check(*parts: float) -> None:
        checker: Callable[[NDArray[Any], int], None] = values_of(MODELS["nmf"]).checker("item_factors")
        for first, number in enumerate(parts):
            checker(np.full((1, 3), number, np.float32), first)

    check(0.0, 0.0, 0.0, 2 * LEAST_NONNEGATIVE)
    check(2 * LEAST_NONNEGATIVE, 0.0, 0.0, 0.0)
    check(0.0, 0.0, 0.0)  # the last one is still to come
    with pytest.raises(ValueError, match="expected some item_factors above"):
        check(LEAST_NONNEGATIVE / 2, 0.0, 0.0, LEAST_NONNEGATIVE / 2)
