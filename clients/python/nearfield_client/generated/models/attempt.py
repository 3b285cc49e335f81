from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.attempt_outcome import AttemptOutcome, check_attempt_outcome

T = TypeVar("T", bound="Attempt")


@_attrs_define
class Attempt:
    """An attempt that has ended.

    Attributes:
        job: whose end was told.
        attempt: its number, from 1.
        outcome: `delivered`, `failed` (the next attempt follows), or `given-up`.
        error: why it was not delivered.
        ended_ms: Unix milliseconds.

    Attributes:
        job (str):
        attempt (int):
        outcome (AttemptOutcome):
        error (None | str):
        ended_ms (int):
    """

    job: str
    attempt: int
    outcome: AttemptOutcome
    error: None | str
    ended_ms: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        job = self.job

        attempt = self.attempt

        outcome: str = self.outcome

        error: None | str
        error = self.error

        ended_ms = self.ended_ms

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "job": job,
                "attempt": attempt,
                "outcome": outcome,
                "error": error,
                "ended_ms": ended_ms,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        job = d.pop("job")

        attempt = d.pop("attempt")

        outcome = check_attempt_outcome(d.pop("outcome"))

        def _parse_error(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        error = _parse_error(d.pop("error"))

        ended_ms = d.pop("ended_ms")

        attempt = cls(
            job=job,
            attempt=attempt,
            outcome=outcome,
            error=error,
            ended_ms=ended_ms,
        )

        attempt.additional_properties = d
        return attempt

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
