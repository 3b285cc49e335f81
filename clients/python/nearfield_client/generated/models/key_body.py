from __future__ import annotations

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
        data_sets (list[str] | None | Unset): The only data sets that it opens. Default: all.
    """

    name: str
    scope: KeyBodyScope
    data_sets: list[str] | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        scope: str = self.scope

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
        if data_sets is not UNSET:
            field_dict["data_sets"] = data_sets

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        scope = check_key_body_scope(d.pop("scope"))

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
            data_sets=data_sets,
        )

        return key_body
