from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.retrain_algorithm import RetrainAlgorithm, check_retrain_algorithm
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.retrain_params import RetrainParams


T = TypeVar("T", bound="Retrain")


@_attrs_define
class Retrain:
    """Body of `POST /admin/retrain`.

    Attributes:
        algorithm (RetrainAlgorithm):
        params (RetrainParams | Unset): Hyperparameters over the defaults, such as n_factors.
        name (None | str | Unset): Its name, of lower-case letters, digits and hyphens; default: that of the algorithm.
        shadow (bool | Unset): Whether it learns and is tested beside the others, but never answers.
        activate (bool | Unset): Whether the new model goes live if it is good enough.
        tune (bool | Unset): Whether to search for better params first, judged by held-out pairs.
        force (bool | Unset): Whether it goes live even if it is worse than the live one or a baseline.
    """

    algorithm: RetrainAlgorithm
    params: RetrainParams | Unset = UNSET
    name: None | str | Unset = UNSET
    shadow: bool | Unset = UNSET
    activate: bool | Unset = UNSET
    tune: bool | Unset = UNSET
    force: bool | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        algorithm: str = self.algorithm

        params: dict[str, Any] | Unset = UNSET
        if not isinstance(self.params, Unset):
            params = self.params.to_dict()

        name: None | str | Unset
        if isinstance(self.name, Unset):
            name = UNSET
        else:
            name = self.name

        shadow = self.shadow

        activate = self.activate

        tune = self.tune

        force = self.force

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "algorithm": algorithm,
            }
        )
        if params is not UNSET:
            field_dict["params"] = params
        if name is not UNSET:
            field_dict["name"] = name
        if shadow is not UNSET:
            field_dict["shadow"] = shadow
        if activate is not UNSET:
            field_dict["activate"] = activate
        if tune is not UNSET:
            field_dict["tune"] = tune
        if force is not UNSET:
            field_dict["force"] = force

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.retrain_params import RetrainParams  # noqa: PLC0415

        d = dict(src_dict)
        algorithm = check_retrain_algorithm(d.pop("algorithm"))

        _params = d.pop("params", UNSET)
        params: RetrainParams | Unset
        if isinstance(_params, Unset):
            params = UNSET
        else:
            params = RetrainParams.from_dict(_params)

        def _parse_name(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        name = _parse_name(d.pop("name", UNSET))

        shadow = d.pop("shadow", UNSET)

        activate = d.pop("activate", UNSET)

        tune = d.pop("tune", UNSET)

        force = d.pop("force", UNSET)

        retrain = cls(
            algorithm=algorithm,
            params=params,
            name=name,
            shadow=shadow,
            activate=activate,
            tune=tune,
            force=force,
        )

        return retrain
