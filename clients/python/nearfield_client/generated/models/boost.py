from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.filter_ import Filter


T = TypeVar("T", bound="Boost")


@_attrs_define
class Boost:
    """A number that items which pass a filter get added to their scores.

    Attributes:
        filter_ (Filter): Only items that pass it: one of all, any, not, tag with in, number with min or max. At most 16
            inside each other, and 256 values.
        add (float): In units of the score; below 0 lowers it.
    """

    filter_: Filter
    add: float

    def to_dict(self) -> dict[str, Any]:
        filter_ = self.filter_.to_dict()

        add = self.add

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "filter": filter_,
                "add": add,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.filter_ import Filter  # noqa: PLC0415

        d = dict(src_dict)
        filter_ = Filter.from_dict(d.pop("filter"))

        add = d.pop("add")

        boost = cls(
            filter_=filter_,
            add=add,
        )

        return boost
