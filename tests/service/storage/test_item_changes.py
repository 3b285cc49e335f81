import math
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import astuple

from service.storage.item_changes import Attributes, ItemChange, check, merged, sizes_after


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (ItemChange(""), "Invalid item: expected 1 to 256 bytes, got 0"),
        (ItemChange("\ud800"), "Invalid item: expected text that UTF-8 can express, got a lone surrogate"),
        (ItemChange("i", tags={"": ["x"]}), "Invalid name in tags: expected 1 to 64 bytes, got 0"),
        (ItemChange("i", numbers={"n" * 65: 1.0}), "Invalid name in numbers: expected 1 to 64 bytes, got 65"),
        (ItemChange("i", tags={"genre": [""]}), "Invalid tags.genre: expected 1 to 256 bytes, got 0"),
        (
            ItemChange("i", tags={"genre": list(map(str, range(10_000)))}),
            "Invalid tags: expected at most 1,000 values in all, got 10,000",
        ),
        (
            ItemChange("i", numbers=dict.fromkeys(map(str, range(101)), 1.0)),
            "Invalid numbers: expected at most 100 names, got 101",
        ),
        (
            ItemChange("i", numbers={"price": math.nan}),
            r"Invalid numbers.price: expected a finite number up to 3.4e\+38, got nan",
        ),
        (ItemChange("i", numbers={"price": 1e39}), r"Invalid numbers.price: .*, got 1e\+39"),
        (
            ItemChange("i", published=1.7e12),
            r"Invalid published: expected Unix seconds, got 1.7e\+12; divide milliseconds by 1,000",
        ),
        (ItemChange("i", until=math.inf), "Invalid until: expected finite Unix seconds, got inf"),
        (ItemChange("i", embedding=[]), "Invalid embedding: expected 1 to 4,096 numbers, got 0"),
        (ItemChange("i", embedding=[1.0, math.nan]), "Invalid embedding: expected a finite number"),
    ],
)
def test_values_that_cannot_be_used_are_refused(change: ItemChange, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check(change)


OLD = Attributes({"a": ["x"], "b": ["y"]}, {"n": 1.0, "m": 2.0}, False, 5.0, 6.0, [1.0])


@pytest.mark.parametrize(
    ("given", "new"),
    [
        ({"op": "put"}, Attributes()),
        ({"op": "put", "tags": {"a": ["x", "z", "x"], "c": None, "d": []}}, Attributes({"a": ["x", "z"]})),
        ({"op": "put", "tags": None, "available": None, "until": None}, Attributes()),
        ({"op": "patch"}, OLD),
        ({"op": "patch", "tags": {"a": None, "b": ["z"]}}, Attributes({"b": ["z"]}, *astuple(OLD)[1:])),
        ({"op": "patch", "numbers": {"n": None}}, Attributes(OLD.tags, {"m": 2.0}, *astuple(OLD)[2:])),
        ({"op": "patch", "tags": None, "numbers": None}, Attributes({}, {}, *astuple(OLD)[2:])),
        (
            {"op": "patch", "available": None, "published": None, "until": None, "embedding": None},
            Attributes(OLD.tags, OLD.numbers),
        ),
    ],
)
def test_a_put_replaces_and_a_patch_merges(given: dict[str, Any], new: Attributes) -> None:
    assert merged(OLD, ItemChange("i", **given)) == new


@pytest.mark.parametrize(
    "tags",
    [UNSET, None, {}, {"a": None}, {"a": []}, {"a": ["x", "x"], "b": ["y"]}, {"b": None, "c": ["z", "z", "z"]}],
)
def test_the_number_of_values_after_a_patch_is_that_of_the_values(tags: Any) -> None:
    old = Attributes(tags={"a": ["x", "y"], "b": ["z"]})
    change = ItemChange("i", tags=tags, op="patch")
    sizes = {name: len(values) for name, values in old.tags.items()}
    assert sizes_after(sizes, change) == {name: len(values) for name, values in merged(old, change).tags.items()}
