from typing import Any

from service.engine.state.attribute_index import MAX_NAMES
from service.engine.state.catalog import Catalog
from service.storage.item_changes import MAX_VALUES, Attributes, ItemChange


def changed(*changes: dict[str, Any]) -> Catalog:
    """A catalog of three items after these changes; `row` is the item, 0 by default."""
    catalog = Catalog()
    catalog.grow(3)
    for given in changes:
        catalog.apply(given.pop("row", 0), ItemChange("i", **given))
    return catalog


def test_a_deleted_item_comes_back_with_a_put_alone():
    catalog = changed({"tags": {"a": ["x"]}}, {"op": "delete"}, {"op": "patch", "tags": {"a": ["y"]}})
    assert catalog.attributes(0) is None
    assert catalog.deleted.tolist() == [True, False, False]
    assert [catalog.is_deleted(row) for row in (0, 1, 3)] == [True, False, False]
    catalog.apply(0, ItemChange("i", numbers={"n": 1.0}))
    assert catalog.attributes(0) == Attributes(numbers={"n": 1.0})
    assert not catalog.deleted.any()


def test_it_tells_whether_what_lists_may_show_has_changed():
    catalog = changed({"until": 7.0}, {"row": 1, "published": 3.0})
    moves = [catalog.n_moves]
    for now_s, out in ((3.0, [False, False, False]), (7.0, [True, False, False])):
        catalog.pass_time(now_s)
        moves.append(catalog.n_moves)
        assert catalog.out.tolist() == out
    for given in ({"op": "delete"}, {"until": 9.0}):
        catalog.apply(0, ItemChange("i", **given))
        moves.append(catalog.n_moves)
    assert moves == [1, 2, 3, 4, 5]
    steps: list[tuple[int, dict[str, Any]]] = [(1, {"published": 7.0}), (2, {"until": 7.0}), (2, {})]
    for row, given in steps:
        catalog.apply(row, ItemChange("i", **given))
        moves.append(catalog.n_moves)
    assert moves[5:] == [5, 6, 7]
    for same in (7.0, 8.5):
        catalog.pass_time(same)
    catalog.apply(0, ItemChange("i", until=9.0, title="Ran"))
    assert catalog.n_moves == moves[-1]
    assert catalog.out.tolist() == [False, False, False]


def test_a_patch_makes_an_item_that_is_not_there():
    assert changed({"op": "patch", "available": False}).attributes(0) == Attributes(available=False)
    catalog = changed({})
    assert (catalog.attributes(1), catalog.n_changes) == (None, 1)


def test_a_name_changes_its_kind_only_while_no_item_has_it():
    catalog = changed({"tags": {"a": ["x"]}}, {"row": 1, "numbers": {"a": 1.0, "b": 2.0}})
    assert catalog.attributes(1) == Attributes(numbers={"b": 2.0})
    catalog.apply(0, ItemChange("i", numbers={"a": 3.0}))
    assert catalog.attributes(0) == Attributes(numbers={"a": 3.0})
    assert catalog.names.kinds == {"a": "number", "b": "number"}


def test_a_title_is_that_of_an_item_that_is_there():
    catalog = changed({"title": "Heat"}, {"row": 1, "tags": {"title": ["no"]}}, {"row": 2, "title": "Ran"})
    catalog.apply(2, ItemChange("i", op="delete"))
    assert [catalog.title(row) for row in range(4)] == ["Heat", None, None, None]
    assert (catalog.attributes(3), catalog.features(3)) == (None, ({}, None))


def test_embeddings_have_one_length_while_there_are_any():
    catalog = changed({"embedding": [1.0, 0.5]}, {"row": 1, "embedding": [1.0]}, {"row": 2, "embedding": [2.0, 3.0]})
    assert [catalog.attributes(row) for row in (0, 1, 2)] == [
        Attributes(embedding=[1.0, 0.5]), Attributes(), Attributes(embedding=[2.0, 3.0]),
    ]  # fmt: skip
    assert catalog.names.n_dimensions == 2
    for row in (0, 2):
        catalog.apply(row, ItemChange("i", op="patch", embedding=None))
    catalog.apply(1, ItemChange("i", embedding=[5.0]))
    assert catalog.names.n_dimensions == 1
    assert catalog.attributes(1) == Attributes(embedding=[5.0])


def test_the_number_of_names_is_bounded():
    many = [{"numbers": dict.fromkeys(map(str, range(first, first + 100)), 1.0)} for first in range(0, 1100, 100)]
    catalog = changed(*many)
    assert catalog.names.n_free == 0
    assert len(catalog.index.names_of("number")) == MAX_NAMES
    assert catalog.attributes(0) == Attributes()


def test_values_of_several_patches_are_bounded():
    patches: list[Any] = [{"op": "patch", "tags": {name: list(map(str, range(600)))}} for name in "ab"]
    assert changed(*patches[:1]).attributes(0) == Attributes(patches[0]["tags"])
    catalog = changed(*patches)
    assert catalog.attributes(0) == Attributes(patches[0]["tags"])
    assert catalog.index.with_tag("b", ["0"], 1).tolist() == [0]
    most = {"a": patches[0]["tags"]["a"], "b": list(map(str, range(MAX_VALUES - 600)))}
    assert changed({"tags": most}).attributes(0) == Attributes(most)
