from __future__ import annotations

from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    cast,
)

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.filter_ import Filter


T = TypeVar("T", bound="ListsBody")


@_attrs_define
class ListsBody:
    """Body of `POST /admin/lists`.

    Attributes:
        users (Literal['all'] | Unset): For whom to make lists.
        n (int | Unset): How many results.
        filter_ (Filter | None | Unset):
        model (None | str | Unset): Name of a live model; default: the first of `default_models`.
    """

    users: Literal["all"] | Unset = UNSET
    n: int | Unset = UNSET
    filter_: Filter | None | Unset = UNSET
    model: None | str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.filter_ import Filter  # noqa: PLC0415

        users = self.users

        n = self.n

        filter_: dict[str, Any] | None | Unset
        if isinstance(self.filter_, Unset):
            filter_ = UNSET
        elif isinstance(self.filter_, Filter):
            filter_ = self.filter_.to_dict()
        else:
            filter_ = self.filter_

        model: None | str | Unset
        if isinstance(self.model, Unset):
            model = UNSET
        else:
            model = self.model

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if users is not UNSET:
            field_dict["users"] = users
        if n is not UNSET:
            field_dict["n"] = n
        if filter_ is not UNSET:
            field_dict["filter"] = filter_
        if model is not UNSET:
            field_dict["model"] = model

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.filter_ import Filter  # noqa: PLC0415

        d = dict(src_dict)
        users = cast(Literal["all"] | Unset, d.pop("users", UNSET))
        if users != "all" and not isinstance(users, Unset):
            raise ValueError(f"users must match const 'all', got '{users}'")

        n = d.pop("n", UNSET)

        def _parse_filter_(data: object) -> Filter | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                filter_type_0 = Filter.from_dict(data)

                return filter_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Filter | None | Unset, data)

        filter_ = _parse_filter_(d.pop("filter", UNSET))

        def _parse_model(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        model = _parse_model(d.pop("model", UNSET))

        lists_body = cls(
            users=users,
            n=n,
            filter_=filter_,
            model=model,
        )

        return lists_body
