from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.filter_ import Filter


T = TypeVar("T", bound="SetBody")


@_attrs_define
class SetBody:
    """Body of `POST /neighbors`.

    Attributes:
        items (list[str]):
        wait_for (None | str | Unset): Answer only after the entry with this stream_id has been learned; 503 after two
            seconds.
        n (int | Unset): How many results.
        model (None | str | Unset): Name of a live model; default: the first of `default_models`.
        filter_ (Filter | None | Unset):
        available (bool | Unset): Whether to leave out items that are not available now.
        cursor (None | str | Unset): Empty: begin to read page by page. Else `next` of the page before, with equal
            parameters.
    """

    items: list[str]
    wait_for: None | str | Unset = UNSET
    n: int | Unset = UNSET
    model: None | str | Unset = UNSET
    filter_: Filter | None | Unset = UNSET
    available: bool | Unset = UNSET
    cursor: None | str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.filter_ import Filter  # noqa: PLC0415

        items = self.items

        wait_for: None | str | Unset
        if isinstance(self.wait_for, Unset):
            wait_for = UNSET
        else:
            wait_for = self.wait_for

        n = self.n

        model: None | str | Unset
        if isinstance(self.model, Unset):
            model = UNSET
        else:
            model = self.model

        filter_: dict[str, Any] | None | Unset
        if isinstance(self.filter_, Unset):
            filter_ = UNSET
        elif isinstance(self.filter_, Filter):
            filter_ = self.filter_.to_dict()
        else:
            filter_ = self.filter_

        available = self.available

        cursor: None | str | Unset
        if isinstance(self.cursor, Unset):
            cursor = UNSET
        else:
            cursor = self.cursor

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "items": items,
            }
        )
        if wait_for is not UNSET:
            field_dict["wait_for"] = wait_for
        if n is not UNSET:
            field_dict["n"] = n
        if model is not UNSET:
            field_dict["model"] = model
        if filter_ is not UNSET:
            field_dict["filter"] = filter_
        if available is not UNSET:
            field_dict["available"] = available
        if cursor is not UNSET:
            field_dict["cursor"] = cursor

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.filter_ import Filter  # noqa: PLC0415

        d = dict(src_dict)
        items = cast(list[str], d.pop("items"))

        def _parse_wait_for(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        wait_for = _parse_wait_for(d.pop("wait_for", UNSET))

        n = d.pop("n", UNSET)

        def _parse_model(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        model = _parse_model(d.pop("model", UNSET))

        def _parse_filter_(data: object) -> Filter | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                filter_type_0 = Filter.from_dict(data)

                return filter_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Filter | None | Unset, data)

        filter_ = _parse_filter_(d.pop("filter", UNSET))

        available = d.pop("available", UNSET)

        def _parse_cursor(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        cursor = _parse_cursor(d.pop("cursor", UNSET))

        set_body = cls(
            items=items,
            wait_for=wait_for,
            n=n,
            model=model,
            filter_=filter_,
            available=available,
            cursor=cursor,
        )

        return set_body
