from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.listed_source import ListedSource


T = TypeVar("T", bound="SourceList")


@_attrs_define
class SourceList:
    """A page of sources, and the number of all.

    Attributes:
        sources (list[ListedSource]):
        n_sources (int):
        as_of (str):
    """

    sources: list[ListedSource]
    n_sources: int
    as_of: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        sources = []
        for sources_item_data in self.sources:
            sources_item = sources_item_data.to_dict()
            sources.append(sources_item)

        n_sources = self.n_sources

        as_of = self.as_of

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "sources": sources,
                "n_sources": n_sources,
                "as_of": as_of,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.listed_source import ListedSource  # noqa: PLC0415

        d = dict(src_dict)
        sources = []
        _sources = d.pop("sources")
        for sources_item_data in _sources:
            sources_item = ListedSource.from_dict(sources_item_data)

            sources.append(sources_item)

        n_sources = d.pop("n_sources")

        as_of = d.pop("as_of")

        source_list = cls(
            sources=sources,
            n_sources=n_sources,
            as_of=as_of,
        )

        source_list.additional_properties = d
        return source_list

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
