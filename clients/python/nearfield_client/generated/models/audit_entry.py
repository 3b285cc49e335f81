from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.audit_entry_outcome import AuditEntryOutcome, check_audit_entry_outcome
from ..models.audit_entry_via import AuditEntryVia, check_audit_entry_via
from ..types import UNSET, Unset

T = TypeVar("T", bound="AuditEntry")


@_attrs_define
class AuditEntry:
    """One action.

        Attributes:
            at: when it ended, of ISO 8601 in UTC.
            action: id of the operation of the API, `sign_in`, `sign_out`, or the command.
            outcome: done; refused (no key, a wrong one, one without the right, or too many requests); or failed.
            via: api, console or cli.
            status: of the HTTP answer; null for a command.
            object: what the action was on, such as `job 7008c696f6c7`; null: the service, or a user, whom no entry
    names.
            key: id of the key: that of a made one, or the name of its setting; null: none, or a wrong one.
            account: of the system, that has run a command; else null.
            address: of the client; null for a command.
            request_id: as in the answer and in the other log lines; null for a command.
            data_set: on which it was.
            left_out: refusals since the entry before that are in no entry, because there were too many.

        Attributes:
            at (str):
            action (str):
            outcome (AuditEntryOutcome):
            via (AuditEntryVia):
            status (int | None | Unset):
            object_ (None | str | Unset):
            key (None | str | Unset):
            account (None | str | Unset):
            address (None | str | Unset):
            request_id (None | str | Unset):
            data_set (str | Unset):
            left_out (int | Unset):
    """

    at: str
    action: str
    outcome: AuditEntryOutcome
    via: AuditEntryVia
    status: int | None | Unset = UNSET
    object_: None | str | Unset = UNSET
    key: None | str | Unset = UNSET
    account: None | str | Unset = UNSET
    address: None | str | Unset = UNSET
    request_id: None | str | Unset = UNSET
    data_set: str | Unset = UNSET
    left_out: int | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        at = self.at

        action = self.action

        outcome: str = self.outcome

        via: str = self.via

        status: int | None | Unset
        if isinstance(self.status, Unset):
            status = UNSET
        else:
            status = self.status

        object_: None | str | Unset
        if isinstance(self.object_, Unset):
            object_ = UNSET
        else:
            object_ = self.object_

        key: None | str | Unset
        if isinstance(self.key, Unset):
            key = UNSET
        else:
            key = self.key

        account: None | str | Unset
        if isinstance(self.account, Unset):
            account = UNSET
        else:
            account = self.account

        address: None | str | Unset
        if isinstance(self.address, Unset):
            address = UNSET
        else:
            address = self.address

        request_id: None | str | Unset
        if isinstance(self.request_id, Unset):
            request_id = UNSET
        else:
            request_id = self.request_id

        data_set = self.data_set

        left_out = self.left_out

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "at": at,
                "action": action,
                "outcome": outcome,
                "via": via,
            }
        )
        if status is not UNSET:
            field_dict["status"] = status
        if object_ is not UNSET:
            field_dict["object"] = object_
        if key is not UNSET:
            field_dict["key"] = key
        if account is not UNSET:
            field_dict["account"] = account
        if address is not UNSET:
            field_dict["address"] = address
        if request_id is not UNSET:
            field_dict["request_id"] = request_id
        if data_set is not UNSET:
            field_dict["data_set"] = data_set
        if left_out is not UNSET:
            field_dict["left_out"] = left_out

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        at = d.pop("at")

        action = d.pop("action")

        outcome = check_audit_entry_outcome(d.pop("outcome"))

        via = check_audit_entry_via(d.pop("via"))

        def _parse_status(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        status = _parse_status(d.pop("status", UNSET))

        def _parse_object_(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        object_ = _parse_object_(d.pop("object", UNSET))

        def _parse_key(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        key = _parse_key(d.pop("key", UNSET))

        def _parse_account(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        account = _parse_account(d.pop("account", UNSET))

        def _parse_address(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        address = _parse_address(d.pop("address", UNSET))

        def _parse_request_id(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        request_id = _parse_request_id(d.pop("request_id", UNSET))

        data_set = d.pop("data_set", UNSET)

        left_out = d.pop("left_out", UNSET)

        audit_entry = cls(
            at=at,
            action=action,
            outcome=outcome,
            via=via,
            status=status,
            object_=object_,
            key=key,
            account=account,
            address=address,
            request_id=request_id,
            data_set=data_set,
            left_out=left_out,
        )

        audit_entry.additional_properties = d
        return audit_entry

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
