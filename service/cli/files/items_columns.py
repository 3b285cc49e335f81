"""Finds the item and the attributes in a file of items, by the names of columns or fields in any capitals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.ratings_columns import columns_named, plain

BY_NAME = ("tags", "numbers")
ATTRIBUTES = (*BY_NAME, "available", "published", "until", "embedding", "title", "url", "image")
HIDDEN = "is_hidden"  # a column that says the opposite of `available`
EXPECTED = "title, url, image, tags.NAME, numbers.NAME, genres, available, is_hidden, published or until"
# Names of columns and fields, in lower-case letters and digits only.
_MEANINGS = (
    {name: name for name in ATTRIBUTES}
    | {"ishidden": HIDDEN, "genres": "tags.genre", "link": "url", "imageurl": "image"}
    | dict.fromkeys(("itemtitle", "movietitle", "booktitle"), "title")
)
_FIELDS = {name: name for name in ATTRIBUTES} | {"ishidden": HIDDEN, "item": "item", "itemid": "item"}
_SHOWN = 80  # characters of a name in a message


def meanings_of(path: Path, header: Sequence[str]) -> dict[str, str]:
    """Column name → `item`, an attribute, `tags.NAME` or `numbers.NAME`; columns without meaning are left out.

    Raises:
        InvalidRatingsFile: no item, no attribute, or two columns of one meaning.
    """
    places = columns_named(header).get("item", [])
    if len(places) != 1:
        shown = ", ".join(name[:_SHOWN] for name in header[:10])
        raise InvalidRatingsFile(f"Invalid {path}: expected one column item, got {len(places)} among {shown}")
    meanings = {header[places[0]]: "item"}
    for name in header:
        place, dot, key = name.strip().partition(".")
        if dot and key and place.lower() in BY_NAME:
            meanings.setdefault(name, f"{place.lower()}.{key}")
        elif not dot and (meaning := _MEANINGS.get(plain(name))) is not None:
            meanings.setdefault(name, meaning)
    if len(meanings) == 1:
        raise without_attributes(path, header)
    used = ["available" if meanings[name] == HIDDEN else meanings[name] for name in header if name in meanings]
    if twice := [meaning for meaning in dict.fromkeys(used) if used.count(meaning) > 1]:
        raise InvalidRatingsFile(f"Invalid {path}: expected one column {twice[0]}, got {used.count(twice[0])}")
    return meanings


def without_attributes(path: Path, names: Sequence[str]) -> InvalidRatingsFile:
    """The error for a file whose columns or fields have these names, none of which is an attribute."""
    shown = ", ".join(name[:_SHOWN] for name in names[:10])
    return InvalidRatingsFile(f"Invalid {path}: expected an attribute ({EXPECTED}) beside item, got {shown}")


def field_of(name: str) -> str:
    """The field of a JSON object that `name` means; `name` itself if it means none."""
    return _FIELDS.get(plain(name), name)


def described(header: Sequence[str], meanings: Mapping[str, str]) -> str:
    """The meaning of the columns, in words."""
    unused = [name for name in header if name not in meanings]
    text = "columns: " + ", ".join(f"{meaning} = {name.strip()}" for name, meaning in meanings.items())
    return text + (f"; not used: {', '.join(unused[:10])}" if unused else "")
