"""`Catalog`: the attributes of items. Belongs to the thread that owns the history."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import structlog
from numpy.typing import NDArray

from gpu.base.growing import Growing
from service.engine.queries.catalog_queries import CatalogNames
from service.engine.state.attribute_index import AttributeIndex, Titles
from service.storage.item_changes import Attributes, ItemChange, encode, merged

NONE = Attributes()
_decode = msgspec.json.Decoder(Attributes).decode
_log = structlog.get_logger(__name__)


class Catalog:
    """The attributes of items by row, and what they have in common.

    It is a function of the changes in the order of the stream. A change that contradicts an earlier one counts without
    the attributes that do (see `AttributeIndex.change`; embeddings have equal lengths): the API refuses it, but two
    requests at once, or another producer, may still bring it about.

    Attributes:
        n_changes: changes applied; 0: the service uses no catalog.
        n_moves: how often an item became available or deleted, or ceased to be.
        index: finds items by their tags and numbers.
        titles: finds them by their titles.
    """

    def __init__(self) -> None:
        self.n_changes = self.n_moves = 0
        self.index, self.titles = AttributeIndex(), Titles()
        self._texts: list[bytes | None] = []  # attributes without the embedding, as JSON; None: not in the catalog
        self._deleted, self._withdrawn = (Growing(np.zeros(0, dtype=np.bool_)) for _ in range(2))
        self._out, self._listed = (Growing(np.zeros(0, dtype=np.bool_)) for _ in range(2))
        self._published, self._until = Growing(np.zeros(0), -math.inf), Growing(np.zeros(0), math.inf)
        self._now_s, self._next_s = -math.inf, math.inf  # the time of `out`, and the next one at which it changes
        self._embeddings = Growing(np.zeros((0, 0), dtype=np.float32))  # zeros for items without one
        self._n_embeddings = 0
        self._has_embedding = Growing(np.zeros(0, dtype=np.bool_))

    @property
    def deleted(self) -> NDArray[np.bool_]:
        """Whether each item is deleted, bool; items beyond its end are not."""
        return self._deleted.values

    @property
    def listed(self) -> NDArray[np.bool_]:
        """Whether each item is in the catalog, bool; items beyond its end are not."""
        return self._listed.values

    @property
    def published(self) -> NDArray[np.float64]:
        """The attribute `published` of each item, Unix seconds; −∞ for none, as for items beyond its end."""
        return self._published.values

    @property
    def out(self) -> NDArray[np.bool_]:
        """Whether each item is deleted or not available at the time of `pass_time`; items beyond its end are."""
        return self._out.values

    def pass_time(self, now_s: float) -> None:
        """Bring `out` up to date with the time in Unix seconds; it may go backward."""
        if self._now_s <= now_s < self._next_s:
            return
        published, until = self._published.values, self._until.values
        self._out.values[:] = self.out_at(now_s)
        later = (times[times > now_s].min(initial=math.inf) for times in (published, until))
        self._now_s, self._next_s = now_s, min(later)
        self.n_moves += 1

    def out_at(self, now_s: float) -> NDArray[np.bool_]:
        """Whether each item is deleted or not available at that time, bool; items beyond its end are. Any thread."""
        columns = self._withdrawn.values, self._published.values, self._until.values
        n = min(map(len, columns))  # they grow one after the other
        withdrawn, published, until = (column[:n] for column in columns)
        return withdrawn | (published > now_s) | (until <= now_s)

    def is_deleted(self, row: int) -> bool:
        """Whether an item is deleted."""
        return row < len(self._deleted.values) and bool(self._deleted.values[row])

    @property
    def names(self) -> CatalogNames:
        """The names that items have, and the length of their embeddings."""
        n_dimensions = self._embeddings.values.shape[1] if self._n_embeddings else None
        return CatalogNames(self.index.kinds, self.index.n_free, n_dimensions)

    def attributes(self, row: int) -> Attributes | None:
        """The attributes of an item; None if it is not in the catalog, or deleted."""
        text = self._texts[row] if row < len(self._texts) else None
        if text is None:
            return None
        attributes = _decode(text)
        if not self._has_embedding.values[row]:
            return attributes
        return msgspec.structs.replace(attributes, embedding=self.embedding(row).tolist())

    def title(self, row: int) -> str | None:
        """The title of an item; None if it has none."""
        text = self._texts[row] if row < len(self._texts) else None
        return None if text is None or b'"title"' not in text else _decode(text).title

    def features(self, row: int) -> tuple[dict[str, list[str]], NDArray[np.float32] | None]:
        """(tags, embedding (D,)) of an item; ({}, None) if it is not in the catalog, or deleted."""
        text = self._texts[row] if row < len(self._texts) else None
        if text is None:
            return {}, None
        return _decode(text).tags, self.embedding(row) if self._has_embedding.values[row] else None

    def embedding(self, row: int) -> NDArray[np.float32]:
        """The embedding of an item that has one, float32 (D,)."""
        numbers: NDArray[np.float32] = self._embeddings.values[row]
        return numbers

    def grow(self, n_items: int) -> None:
        """Make room for changes of `n_items` rows."""
        self._texts.extend([None] * (n_items - len(self._texts)))
        for column in (self._deleted, self._listed, self._out, self._withdrawn, self._published, self._until):
            column.grow(n_items)
        self.index.n_rows = max(self.index.n_rows, n_items)
        self._has_embedding.grow(n_items)
        if self._n_embeddings:
            self._embeddings.grow(n_items)

    def apply(self, row: int, change: ItemChange) -> None:
        """Apply one change of the item `row`, which `grow` has made room for. Takes 20 to 30 µs."""
        self.n_changes += 1
        is_gone = change.op == "delete"
        if change.op == "patch" and self._deleted.values[row]:
            return  # only a put brings an item back
        old = self.attributes(row) or NONE
        new = self.index.change(row, old, NONE if is_gone else merged(old, change))
        self.titles.change(row, old.title, new.title)
        # Note whether and when lists may show the item.
        published = -math.inf if new.published is None else new.published
        until = math.inf if new.until is None else new.until
        is_out = is_gone or not new.available or not published <= self._now_s < until
        self.n_moves += bool(is_out != self._out.values[row] or is_gone != self._deleted.values[row])
        self._out.values[row], self._deleted.values[row], self._listed.values[row] = is_out, is_gone, not is_gone
        self._withdrawn.values[row] = is_gone or not new.available
        self._published.values[row], self._until.values[row] = published, until
        self._next_s = min([self._next_s, *(time_s for time_s in (published, until) if time_s > self._now_s)])
        # Embeddings have a table of their own; the length of the first one holds from then on.
        self._n_embeddings -= old.embedding is not None
        if new.embedding is not None and self._n_embeddings and len(new.embedding) != self._embeddings.values.shape[1]:
            _log.warning("an embedding has another length than those of other items and is left out")
            new = msgspec.structs.replace(new, embedding=None)
        self._n_embeddings += new.embedding is not None
        self._has_embedding.values[row] = new.embedding is not None
        if new.embedding is not None:
            if self._n_embeddings == 1:
                self._embeddings = Growing.filled((len(self._texts), len(new.embedding)), np.float32)
            self._embeddings.values[row] = new.embedding
        self._texts[row] = None if is_gone else encode(msgspec.structs.replace(new, embedding=None))
