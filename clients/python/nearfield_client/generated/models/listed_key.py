from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.listed_key_scope import ListedKeyScope, check_listed_key_scope

T = TypeVar("T", bound="ListedKey")


@_attrs_define
class ListedKey:
    """A key as it is listed.

    Attributes:
        id: by which it is revoked.
        name: given by its maker; several keys may have the same.
        scope: what it may do.
        data_sets: the only data sets that it opens; None: all of them.
        created_ms: Unix milliseconds at which it was made.
        ends_with: its last characters.

    Attributes:
        id (str):
        name (str):
        scope (ListedKeyScope):
        data_sets (list[str] | None):
        created_ms (int):
        ends_with (str):
    """

    id: str
    name: str
    scope: ListedKeyScope
    data_sets: list[str] | None
    created_ms: int
    ends_with: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        id = self.id

        name = self.name

        scope: str = self.scope

        data_sets: list[str] | None
        if isinstance(self.data_sets, list):
            data_sets = self.data_sets

        else:
            data_sets = self.data_sets

        created_ms = self.created_ms

        ends_with = self.ends_with

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "name": name,
                "scope": scope,
                "data_sets": data_sets,
                "created_ms": created_ms,
                "ends_with": ends_with,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        id = d.pop("id")

        name = d.pop("name")

        scope = check_listed_key_scope(d.pop("scope"))

        def _parse_data_sets(data: object) -> list[str] | None:
            if data is None:
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                data_sets_type_0 = cast(list[str], data)

                return data_sets_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[str] | None, data)

        data_sets = _parse_data_sets(d.pop("data_sets"))

        created_ms = d.pop("created_ms")

        ends_with = d.pop("ends_with")

        listed_key = cls(
            id=id,
            name=name,
            scope=scope,
            data_sets=data_sets,
            created_ms=created_ms,
            ends_with=ends_with,
        )

        listed_key.additional_properties = d
        return listed_key

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
