from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.listed_key_scope import ListedKeyScope, check_listed_key_scope
from ..types import UNSET, Unset

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
        expires: when it ends by itself, of ISO 8601 in UTC; None: never.
        last_used: when it was used last, give or take an hour; None: never since it was made, or restored.

    Attributes:
        id (str):
        name (str):
        scope (ListedKeyScope):
        data_sets (list[str] | None):
        created_ms (int):
        ends_with (str):
        expires (None | str | Unset):
        last_used (None | str | Unset):
    """

    id: str
    name: str
    scope: ListedKeyScope
    data_sets: list[str] | None
    created_ms: int
    ends_with: str
    expires: None | str | Unset = UNSET
    last_used: None | str | Unset = UNSET
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

        expires: None | str | Unset
        if isinstance(self.expires, Unset):
            expires = UNSET
        else:
            expires = self.expires

        last_used: None | str | Unset
        if isinstance(self.last_used, Unset):
            last_used = UNSET
        else:
            last_used = self.last_used

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
        if expires is not UNSET:
            field_dict["expires"] = expires
        if last_used is not UNSET:
            field_dict["last_used"] = last_used

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

        def _parse_expires(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        expires = _parse_expires(d.pop("expires", UNSET))

        def _parse_last_used(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        last_used = _parse_last_used(d.pop("last_used", UNSET))

        listed_key = cls(
            id=id,
            name=name,
            scope=scope,
            data_sets=data_sets,
            created_ms=created_ms,
            ends_with=ends_with,
            expires=expires,
            last_used=last_used,
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
