"""`UserAttributes`: the tags and numbers of users. Belongs to the thread that owns the history."""

from __future__ import annotations

import msgspec

from service.engine.state.attribute_index import AttributeIndex
from service.storage.item_changes import Values, encode
from service.storage.user_changes import UserChange, merged

NONE = Values()
_decode = msgspec.json.Decoder(Values).decode


class UserAttributes:
    """The attributes of users by row, as the changes in the order of the stream have left them.

    A change that contradicts an earlier one counts without the names that do, as in the catalog.

    Attributes:
        index: finds users by their attributes.
    """

    def __init__(self) -> None:
        self.index = AttributeIndex()
        self._texts: dict[int, bytes] = {}  # as JSON, of those who have any

    def __len__(self) -> int:
        """Users who have attributes."""
        return len(self._texts)

    def of(self, row: int) -> Values:
        """The attributes of a user."""
        text = self._texts.get(row)
        return NONE if text is None else _decode(text)

    def apply(self, row: int, change: UserChange) -> None:
        """Apply one change of the user `row`."""
        self._replace(row, merged(self.of(row), change))

    def move(self, user: int, into: int) -> None:
        """`into` gets the attributes of the row `user` whose names it lacks; `drop` of `user` follows."""
        theirs, present = self.of(user), self.of(into)
        has = present.tags.keys() | present.numbers.keys()
        tags = {name: values for name, values in theirs.tags.items() if name not in has}
        numbers = {name: number for name, number in theirs.numbers.items() if name not in has}
        self._replace(into, Values(present.tags | tags, present.numbers | numbers))

    def drop(self, row: int) -> None:
        """Forget those of a user, and the names that no other user has."""
        if row in self._texts:
            self.index.drop(row, self.of(row))
            del self._texts[row]

    def _replace(self, row: int, new: Values) -> None:
        self.index.n_rows = max(self.index.n_rows, row + 1)
        new = self.index.change(row, self.of(row), new)
        if new == NONE:
            self._texts.pop(row, None)
        else:
            self._texts[row] = encode(new)
