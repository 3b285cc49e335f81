from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.fault import Fault


T = TypeVar("T", bound="ProblemDocument")


@_attrs_define
class ProblemDocument:
    """An error, as application/problem+json (RFC 9457).

    Attributes:
        errors: the first ten refused values, if the problem is about values.
        errors_left_out: number of further refused values.
        reason, fraction: why the service is not ready, and how much of its start is done (0 to 1).
        job: id of the conflicting job.

    Attributes:
        type_ (str):
        title (str):
        status (int):
        detail (str):
        request_id (str):
        errors (list[Fault] | Unset):
        errors_left_out (int | Unset):
        reason (str | Unset):
        fraction (float | Unset):
        job (str | Unset):
    """

    type_: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[Fault] | Unset = UNSET
    errors_left_out: int | Unset = UNSET
    reason: str | Unset = UNSET
    fraction: float | Unset = UNSET
    job: str | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        type_ = self.type_

        title = self.title

        status = self.status

        detail = self.detail

        request_id = self.request_id

        errors: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.errors, Unset):
            errors = []
            for errors_item_data in self.errors:
                errors_item = errors_item_data.to_dict()
                errors.append(errors_item)

        errors_left_out = self.errors_left_out

        reason = self.reason

        fraction = self.fraction

        job = self.job

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "type": type_,
                "title": title,
                "status": status,
                "detail": detail,
                "request_id": request_id,
            }
        )
        if errors is not UNSET:
            field_dict["errors"] = errors
        if errors_left_out is not UNSET:
            field_dict["errors_left_out"] = errors_left_out
        if reason is not UNSET:
            field_dict["reason"] = reason
        if fraction is not UNSET:
            field_dict["fraction"] = fraction
        if job is not UNSET:
            field_dict["job"] = job

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.fault import Fault  # noqa: PLC0415

        d = dict(src_dict)
        type_ = d.pop("type")

        title = d.pop("title")

        status = d.pop("status")

        detail = d.pop("detail")

        request_id = d.pop("request_id")

        _errors = d.pop("errors", UNSET)
        errors: list[Fault] | Unset = UNSET
        if _errors is not UNSET:
            errors = []
            for errors_item_data in _errors:
                errors_item = Fault.from_dict(errors_item_data)

                errors.append(errors_item)

        errors_left_out = d.pop("errors_left_out", UNSET)

        reason = d.pop("reason", UNSET)

        fraction = d.pop("fraction", UNSET)

        job = d.pop("job", UNSET)

        problem_document = cls(
            type_=type_,
            title=title,
            status=status,
            detail=detail,
            request_id=request_id,
            errors=errors,
            errors_left_out=errors_left_out,
            reason=reason,
            fraction=fraction,
            job=job,
        )

        problem_document.additional_properties = d
        return problem_document

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
