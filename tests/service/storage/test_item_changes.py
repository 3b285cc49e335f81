import math
from typing import Any

import pytest
from msgspec import UNSET, structs
from msgspec.structs import astuple

from service.base.limits import LATEST_S
from service.storage.item_changes import (
    LARGEST,
    Attributes,
    ItemChange,
    check,
    decode_entry,
    decode_row,
    encode,
    merged,
    sizes_after,
)


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
        (ItemChange("i", until=-1.1e11), r"Invalid until: expected Unix seconds, got -1.1e\+11"),
        (
            ItemChange("i", tags={"a": ["x"] * 600, "b": None, "c": ["y"] * 401}),
            "Invalid tags: expected at most 1,000 values in all, got 1,001",
        ),
        (ItemChange("i", title=""), "Invalid title: expected 1 to 1,?000 bytes, got 0"),
        (ItemChange("i", title="t" * 1001), "Invalid title: expected 1 to 1,?000 bytes, got 1,?001"),
        (ItemChange("i", url="http://" + "a" * 1994), "Invalid url: expected 1 to 2,?000 bytes, got 2,?001"),
        (ItemChange("i", image="ftp://a/b"), "Invalid image: expected http://… or https://… without spaces, got 'ftp:"),
        (ItemChange("i", embedding=[0.0] * 4097), "Invalid embedding: expected 1 to 4,096 numbers, got 4,097"),
        (ItemChange("i", embedding=[]), "Invalid embedding: expected 1 to 4,096 numbers, got 0"),
        (ItemChange("i", embedding=[1.0, math.nan]), "Invalid embedding: expected a finite number"),
    ],
)
def test_values_that_cannot_be_used_are_refused(change: ItemChange, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check(change)


@pytest.mark.parametrize(
    "change",
    [
        ItemChange("é" * 128, op="delete"),
        ItemChange("i", tags={"n" * 64: ["v" * 256]}),
        ItemChange("i", tags={str(n): [str(v) for v in range(10)] for n in range(100)}),
        ItemChange("i", numbers={str(n): LARGEST if n % 2 else -LARGEST for n in range(100)}),
        ItemChange("i", tags={"a": None, "b": []}, numbers={"c": None}),
        ItemChange("i", published=-LATEST_S, until=LATEST_S),
        ItemChange("i", embedding=[-LARGEST]),
        ItemChange("i", embedding=[LARGEST] * 4096),
        ItemChange("i", title="t" * 1000, url="https://" + "a" * 1992, image="HTTP://a/b"),
    ],
)
def test_values_at_their_bounds_are_taken(change: ItemChange) -> None:
    assert decode_entry(encode([change])) == [change]
    assert decode_row(encode(change).decode()) == change


OLD = Attributes({"a": ["x"], "b": ["y"]}, {"n": 1.0, "m": 2.0}, False, 5.0, 6.0, [1.0], "o", "http://a/", "http://a/b")


@pytest.mark.parametrize(
    ("given", "new"),
    [
        ({"op": "put"}, Attributes()),
        ({"op": "put", "tags": {"a": ["x", "z", "x"], "c": None, "d": []}}, Attributes({"a": ["x", "z"]})),
        ({"op": "put", "tags": None, "available": None, "until": None}, Attributes()),
        ({"op": "patch"}, OLD),
        ({"op": "patch", "title": "t", "image": None}, structs.replace(OLD, title="t", image=None)),
        ({"op": "patch", "url": "http://b/"}, structs.replace(OLD, url="http://b/")),
        ({"op": "patch", "tags": {"a": None, "b": ["z"]}}, Attributes({"b": ["z"]}, *astuple(OLD)[1:])),
        ({"op": "patch", "numbers": {"n": None}}, Attributes(OLD.tags, {"m": 2.0}, *astuple(OLD)[2:])),
        ({"op": "patch", "tags": None, "numbers": None}, Attributes({}, {}, *astuple(OLD)[2:])),
        (
            {"op": "patch", "available": None, "published": None, "until": None, "embedding": None},
            Attributes(OLD.tags, OLD.numbers, True, None, None, None, *astuple(OLD)[6:]),
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
