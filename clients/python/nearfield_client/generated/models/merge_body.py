from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="MergeBody")


@_attrs_define
class MergeBody:
    """Body of `POST /admin/users/{user}/merge`.

    Attributes:
        from_ (str): The user who becomes part of the other one.
        wait_for (None | str | Unset): Answer only after the entry with this stream_id has been learned; 503 after two
            seconds.
    """

    from_: str
    wait_for: None | str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from_ = self.from_

        wait_for: None | str | Unset
        if isinstance(self.wait_for, Unset):
            wait_for = UNSET
        else:
            wait_for = self.wait_for

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "from": from_,
            }
        )
        if wait_for is not UNSET:
            field_dict["wait_for"] = wait_for

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        from_ = d.pop("from")

        def _parse_wait_for(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        wait_for = _parse_wait_for(d.pop("wait_for", UNSET))

        merge_body = cls(
            from_=from_,
            wait_for=wait_for,
        )

        return merge_body
