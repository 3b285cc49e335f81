from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.key_body_scope import KeyBodyScope, check_key_body_scope
from ..types import UNSET, Unset

T = TypeVar("T", bound="KeyBody")


@_attrs_define
class KeyBody:
    """Body of `POST /admin/keys`.

    Attributes:
        name (str): Any name, to tell keys apart.
        scope (KeyBodyScope): What the key may do.
        expires (datetime.date | datetime.datetime | float | None | Unset): When the key ends by itself: Unix seconds,
            or a date or datetime of ISO 8601. Default: never.
        data_sets (list[str] | None | Unset): The only data sets that it opens. Default: all.
    """

    name: str
    scope: KeyBodyScope
    expires: datetime.date | datetime.datetime | float | None | Unset = UNSET
    data_sets: list[str] | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        scope: str = self.scope

        expires: float | None | str | Unset
        if isinstance(self.expires, Unset):
            expires = UNSET
        elif isinstance(self.expires, datetime.date):
            expires = self.expires.isoformat()
        elif isinstance(self.expires, datetime.datetime):
            expires = self.expires.isoformat()
        else:
            expires = self.expires

        data_sets: list[str] | None | Unset
        if isinstance(self.data_sets, Unset):
            data_sets = UNSET
        elif isinstance(self.data_sets, list):
            data_sets = self.data_sets

        else:
            data_sets = self.data_sets

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "name": name,
                "scope": scope,
            }
        )
        if expires is not UNSET:
            field_dict["expires"] = expires
        if data_sets is not UNSET:
            field_dict["data_sets"] = data_sets

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        scope = check_key_body_scope(d.pop("scope"))

        def _parse_expires(
            data: object,
        ) -> datetime.date | datetime.datetime | float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                expires_type_1 = datetime.date.fromisoformat(data)

                return expires_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, str):
                    raise TypeError()
                expires_type_2 = datetime.datetime.fromisoformat(data)

                return expires_type_2
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(datetime.date | datetime.datetime | float | None | Unset, data)

        expires = _parse_expires(d.pop("expires", UNSET))

        def _parse_data_sets(data: object) -> list[str] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                data_sets_type_0 = cast(list[str], data)

                return data_sets_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[str] | None | Unset, data)

        data_sets = _parse_data_sets(d.pop("data_sets", UNSET))

        key_body = cls(
            name=name,
            scope=scope,
            expires=expires,
            data_sets=data_sets,
        )

        return key_body
