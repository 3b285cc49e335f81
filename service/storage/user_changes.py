"""Changes of attributes of users: elements of stream entries `users`, and the column `data` of their rows in the log.

A change puts the attributes of a user, all of them, or patches them (a JSON merge patch, RFC 7396: null removes). Their
form and bounds are those of items (`service.storage.item_changes`). Who forgets a user forgets them too.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from service.storage.item_changes import Text, ValueChanges, Values, check_text, check_values, tags_after, values_after


class NewUser(ValueChanges, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The attributes of a user as clients put them."""

    user: Text


class UserChange(NewUser, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One change of the attributes of one user, as the stream stores it."""

    op: Literal["put", "patch"] = "put"


_entry_decoder = msgspec.json.Decoder(list[UserChange])
_row_decoder = msgspec.json.Decoder(UserChange)
encode = msgspec.json.Encoder().encode


def decode_entry(value: bytes) -> list[UserChange]:
    """The changes of a stream entry.

    Raises:
        ValueError, MsgspecError: one of them is not in its format.
    """
    changes = _entry_decoder.decode(value)
    for change in changes:
        check(change)
    return changes


def decode_row(data: str) -> UserChange:
    """The change of a row of the log, which was checked before it was written."""
    return _row_decoder.decode(data)


def check(change: UserChange) -> None:
    """Check the values of a decoded change.

    Raises:
        ValueError: a name, a value or a number cannot be used, or there are too many.
    """
    check_text("user", change.user)
    check_values(change)


def merged(old: Values, change: UserChange) -> Values:
    """The attributes after a put or a patch of a user with the attributes `old`."""
    if change.op == "put":
        old = Values()
    return Values(tags_after(old.tags, change.tags), values_after(old.numbers, change.numbers))
