from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.rejection import Rejection


T = TypeVar("T", bound="Accepted")


@_attrs_define
class Accepted:
    """The answer to `POST /ratings` and `POST /events`; `stream_id` is null if nothing was accepted.

    Attributes:
        skipped: how many of the accepted elements do not count, because their source had come further before; only
            with `X-Source`. Null: they are durable, but so many entries wait that this is not known yet.

    Attributes:
        accepted (int):
        rejected (list[Rejection]):
        stream_id (None | str):
        took_ms (float):
        skipped (int | None | Unset):
    """

    accepted: int
    rejected: list[Rejection]
    stream_id: None | str
    took_ms: float
    skipped: int | None | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        accepted = self.accepted

        rejected = []
        for rejected_item_data in self.rejected:
            rejected_item = rejected_item_data.to_dict()
            rejected.append(rejected_item)

        stream_id: None | str
        stream_id = self.stream_id

        took_ms = self.took_ms

        skipped: int | None | Unset
        if isinstance(self.skipped, Unset):
            skipped = UNSET
        else:
            skipped = self.skipped

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "accepted": accepted,
                "rejected": rejected,
                "stream_id": stream_id,
                "took_ms": took_ms,
            }
        )
        if skipped is not UNSET:
            field_dict["skipped"] = skipped

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.rejection import Rejection  # noqa: PLC0415

        d = dict(src_dict)
        accepted = d.pop("accepted")

        rejected = []
        _rejected = d.pop("rejected")
        for rejected_item_data in _rejected:
            rejected_item = Rejection.from_dict(rejected_item_data)

            rejected.append(rejected_item)

        def _parse_stream_id(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        stream_id = _parse_stream_id(d.pop("stream_id"))

        took_ms = d.pop("took_ms")

        def _parse_skipped(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        skipped = _parse_skipped(d.pop("skipped", UNSET))

        accepted = cls(
            accepted=accepted,
            rejected=rejected,
            stream_id=stream_id,
            took_ms=took_ms,
            skipped=skipped,
        )

        accepted.additional_properties = d
        return accepted

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
