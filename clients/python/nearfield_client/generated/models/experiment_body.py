from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.arm_body import ArmBody


T = TypeVar("T", bound="ExperimentBody")


@_attrs_define
class ExperimentBody:
    """Body of an experiment.

    Attributes:
        arms (list[ArmBody]):
        salt (None | str | Unset): Decides with the user's id which arm it is; default: the id of the experiment.
    """

    arms: list[ArmBody]
    salt: None | str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        arms = []
        for arms_item_data in self.arms:
            arms_item = arms_item_data.to_dict()
            arms.append(arms_item)

        salt: None | str | Unset
        if isinstance(self.salt, Unset):
            salt = UNSET
        else:
            salt = self.salt

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "arms": arms,
            }
        )
        if salt is not UNSET:
            field_dict["salt"] = salt

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.arm_body import ArmBody  # noqa: PLC0415

        d = dict(src_dict)
        arms = []
        _arms = d.pop("arms")
        for arms_item_data in _arms:
            arms_item = ArmBody.from_dict(arms_item_data)

            arms.append(arms_item)

        def _parse_salt(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        salt = _parse_salt(d.pop("salt", UNSET))

        experiment_body = cls(
            arms=arms,
            salt=salt,
        )

        return experiment_body
