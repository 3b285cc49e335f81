from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.filter_all_item import FilterAllItem
    from ..models.filter_any_item import FilterAnyItem
    from ..models.filter_not import FilterNot


T = TypeVar("T", bound="Filter")


@_attrs_define
class Filter:
    """Only items that pass it: one of all, any, not, tag with in, number with min or max. At most 16 inside each other,
    and 256 values.

        Attributes:
            all_ (list[FilterAllItem] | Unset):
            any_ (list[FilterAnyItem] | Unset):
            not_ (FilterNot | Unset):
            tag (str | Unset):
            in_ (list[str] | Unset):
            number (str | Unset):
            min_ (float | Unset):
            max_ (float | Unset):
    """

    all_: list[FilterAllItem] | Unset = UNSET
    any_: list[FilterAnyItem] | Unset = UNSET
    not_: FilterNot | Unset = UNSET
    tag: str | Unset = UNSET
    in_: list[str] | Unset = UNSET
    number: str | Unset = UNSET
    min_: float | Unset = UNSET
    max_: float | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        all_: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.all_, Unset):
            all_ = []
            for all_item_data in self.all_:
                all_item = all_item_data.to_dict()
                all_.append(all_item)

        any_: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.any_, Unset):
            any_ = []
            for any_item_data in self.any_:
                any_item = any_item_data.to_dict()
                any_.append(any_item)

        not_: dict[str, Any] | Unset = UNSET
        if not isinstance(self.not_, Unset):
            not_ = self.not_.to_dict()

        tag = self.tag

        in_: list[str] | Unset = UNSET
        if not isinstance(self.in_, Unset):
            in_ = self.in_

        number = self.number

        min_ = self.min_

        max_ = self.max_

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if all_ is not UNSET:
            field_dict["all"] = all_
        if any_ is not UNSET:
            field_dict["any"] = any_
        if not_ is not UNSET:
            field_dict["not"] = not_
        if tag is not UNSET:
            field_dict["tag"] = tag
        if in_ is not UNSET:
            field_dict["in"] = in_
        if number is not UNSET:
            field_dict["number"] = number
        if min_ is not UNSET:
            field_dict["min"] = min_
        if max_ is not UNSET:
            field_dict["max"] = max_

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.filter_all_item import FilterAllItem  # noqa: PLC0415
        from ..models.filter_any_item import FilterAnyItem  # noqa: PLC0415
        from ..models.filter_not import FilterNot  # noqa: PLC0415

        d = dict(src_dict)
        _all_ = d.pop("all", UNSET)
        all_: list[FilterAllItem] | Unset = UNSET
        if _all_ is not UNSET:
            all_ = []
            for all_item_data in _all_:
                all_item = FilterAllItem.from_dict(all_item_data)

                all_.append(all_item)

        _any_ = d.pop("any", UNSET)
        any_: list[FilterAnyItem] | Unset = UNSET
        if _any_ is not UNSET:
            any_ = []
            for any_item_data in _any_:
                any_item = FilterAnyItem.from_dict(any_item_data)

                any_.append(any_item)

        _not_ = d.pop("not", UNSET)
        not_: FilterNot | Unset
        if isinstance(_not_, Unset):
            not_ = UNSET
        else:
            not_ = FilterNot.from_dict(_not_)

        tag = d.pop("tag", UNSET)

        in_ = cast(list[str], d.pop("in", UNSET))

        number = d.pop("number", UNSET)

        min_ = d.pop("min", UNSET)

        max_ = d.pop("max", UNSET)

        filter_ = cls(
            all_=all_,
            any_=any_,
            not_=not_,
            tag=tag,
            in_=in_,
            number=number,
            min_=min_,
            max_=max_,
        )

        return filter_
