from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.users_body_fallback import UsersBodyFallback, check_users_body_fallback
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.boost import Boost
    from ..models.filter_ import Filter
    from ..models.max_per import MaxPer
    from ..models.pin import Pin
    from ..models.users_body_rotation import UsersBodyRotation


T = TypeVar("T", bound="UsersBody")


@_attrs_define
class UsersBody:
    """Body of `POST /recommend` for several users.

    Attributes:
        users (list[str]):
        wait_for (None | str | Unset): Answer only after the entry with this stream_id has been learned; 503 after two
            seconds.
        scenario (None | str | Unset): Its body counts where the request names no field itself.
        n (int | Unset): How many results.
        offset (int | Unset): How many of the best to leave out.
        exclude (list[str] | Unset): Items never to show; repeat the parameter for several.
        include_seen (bool | Unset): Whether items that the user rated may be shown.
        min_ratings (int | Unset): Show only items that have at least this many ratings now.
        model (None | str | Unset): Name of a live model; default: the first of `default_models`.
        experiment (None | str | Unset): Experiment whose arm for the user names the model.
        explain (bool | Unset): Add to each item the ratings that most raise its score.
        fallback (UsersBodyFallback | Unset): For an unknown user: popular, trending or latest items, or none (404).
        explore (float | Unset): Share of places for items with few ratings.
        explore_below (int | Unset): They have fewer ratings than this.
        diversity (float | Unset): How much unlike items come first; 0 keeps the order of the scores.
        candidates (list[str] | None | Unset): The only items to rank; default: all.
        filter_ (Filter | None | Unset):
        available (bool | Unset): Whether to leave out items that are not available now.
        boosts (list[Boost] | Unset): Numbers added to the scores of items that pass a filter; they add up.
        pins (list[Pin] | Unset): Items at fixed places.
        max_per (MaxPer | None | Unset): A limit for items with the same value of a tag.
        rotate (None | str | Unset | UsersBodyRotation):
    """

    users: list[str]
    wait_for: None | str | Unset = UNSET
    scenario: None | str | Unset = UNSET
    n: int | Unset = UNSET
    offset: int | Unset = UNSET
    exclude: list[str] | Unset = UNSET
    include_seen: bool | Unset = UNSET
    min_ratings: int | Unset = UNSET
    model: None | str | Unset = UNSET
    experiment: None | str | Unset = UNSET
    explain: bool | Unset = UNSET
    fallback: UsersBodyFallback | Unset = UNSET
    explore: float | Unset = UNSET
    explore_below: int | Unset = UNSET
    diversity: float | Unset = UNSET
    candidates: list[str] | None | Unset = UNSET
    filter_: Filter | None | Unset = UNSET
    available: bool | Unset = UNSET
    boosts: list[Boost] | Unset = UNSET
    pins: list[Pin] | Unset = UNSET
    max_per: MaxPer | None | Unset = UNSET
    rotate: None | str | Unset | UsersBodyRotation = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.filter_ import Filter  # noqa: PLC0415
        from ..models.max_per import MaxPer  # noqa: PLC0415
        from ..models.users_body_rotation import UsersBodyRotation  # noqa: PLC0415

        users = self.users

        wait_for: None | str | Unset
        if isinstance(self.wait_for, Unset):
            wait_for = UNSET
        else:
            wait_for = self.wait_for

        scenario: None | str | Unset
        if isinstance(self.scenario, Unset):
            scenario = UNSET
        else:
            scenario = self.scenario

        n = self.n

        offset = self.offset

        exclude: list[str] | Unset = UNSET
        if not isinstance(self.exclude, Unset):
            exclude = self.exclude

        include_seen = self.include_seen

        min_ratings = self.min_ratings

        model: None | str | Unset
        if isinstance(self.model, Unset):
            model = UNSET
        else:
            model = self.model

        experiment: None | str | Unset
        if isinstance(self.experiment, Unset):
            experiment = UNSET
        else:
            experiment = self.experiment

        explain = self.explain

        fallback: str | Unset = UNSET
        if not isinstance(self.fallback, Unset):
            fallback = self.fallback

        explore = self.explore

        explore_below = self.explore_below

        diversity = self.diversity

        candidates: list[str] | None | Unset
        if isinstance(self.candidates, Unset):
            candidates = UNSET
        elif isinstance(self.candidates, list):
            candidates = self.candidates

        else:
            candidates = self.candidates

        filter_: dict[str, Any] | None | Unset
        if isinstance(self.filter_, Unset):
            filter_ = UNSET
        elif isinstance(self.filter_, Filter):
            filter_ = self.filter_.to_dict()
        else:
            filter_ = self.filter_

        available = self.available

        boosts: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.boosts, Unset):
            boosts = []
            for boosts_item_data in self.boosts:
                boosts_item = boosts_item_data.to_dict()
                boosts.append(boosts_item)

        pins: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.pins, Unset):
            pins = []
            for pins_item_data in self.pins:
                pins_item = pins_item_data.to_dict()
                pins.append(pins_item)

        max_per: dict[str, Any] | None | Unset
        if isinstance(self.max_per, Unset):
            max_per = UNSET
        elif isinstance(self.max_per, MaxPer):
            max_per = self.max_per.to_dict()
        else:
            max_per = self.max_per

        rotate: dict[str, Any] | None | str | Unset
        if isinstance(self.rotate, Unset):
            rotate = UNSET
        elif isinstance(self.rotate, UsersBodyRotation):
            rotate = self.rotate.to_dict()
        else:
            rotate = self.rotate

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "users": users,
            }
        )
        if wait_for is not UNSET:
            field_dict["wait_for"] = wait_for
        if scenario is not UNSET:
            field_dict["scenario"] = scenario
        if n is not UNSET:
            field_dict["n"] = n
        if offset is not UNSET:
            field_dict["offset"] = offset
        if exclude is not UNSET:
            field_dict["exclude"] = exclude
        if include_seen is not UNSET:
            field_dict["include_seen"] = include_seen
        if min_ratings is not UNSET:
            field_dict["min_ratings"] = min_ratings
        if model is not UNSET:
            field_dict["model"] = model
        if experiment is not UNSET:
            field_dict["experiment"] = experiment
        if explain is not UNSET:
            field_dict["explain"] = explain
        if fallback is not UNSET:
            field_dict["fallback"] = fallback
        if explore is not UNSET:
            field_dict["explore"] = explore
        if explore_below is not UNSET:
            field_dict["explore_below"] = explore_below
        if diversity is not UNSET:
            field_dict["diversity"] = diversity
        if candidates is not UNSET:
            field_dict["candidates"] = candidates
        if filter_ is not UNSET:
            field_dict["filter"] = filter_
        if available is not UNSET:
            field_dict["available"] = available
        if boosts is not UNSET:
            field_dict["boosts"] = boosts
        if pins is not UNSET:
            field_dict["pins"] = pins
        if max_per is not UNSET:
            field_dict["max_per"] = max_per
        if rotate is not UNSET:
            field_dict["rotate"] = rotate

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.boost import Boost  # noqa: PLC0415
        from ..models.filter_ import Filter  # noqa: PLC0415
        from ..models.max_per import MaxPer  # noqa: PLC0415
        from ..models.pin import Pin  # noqa: PLC0415
        from ..models.users_body_rotation import UsersBodyRotation  # noqa: PLC0415

        d = dict(src_dict)
        users = cast(list[str], d.pop("users"))

        def _parse_wait_for(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        wait_for = _parse_wait_for(d.pop("wait_for", UNSET))

        def _parse_scenario(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        scenario = _parse_scenario(d.pop("scenario", UNSET))

        n = d.pop("n", UNSET)

        offset = d.pop("offset", UNSET)

        exclude = cast(list[str], d.pop("exclude", UNSET))

        include_seen = d.pop("include_seen", UNSET)

        min_ratings = d.pop("min_ratings", UNSET)

        def _parse_model(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        model = _parse_model(d.pop("model", UNSET))

        def _parse_experiment(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        experiment = _parse_experiment(d.pop("experiment", UNSET))

        explain = d.pop("explain", UNSET)

        _fallback = d.pop("fallback", UNSET)
        fallback: UsersBodyFallback | Unset
        if isinstance(_fallback, Unset):
            fallback = UNSET
        else:
            fallback = check_users_body_fallback(_fallback)

        explore = d.pop("explore", UNSET)

        explore_below = d.pop("explore_below", UNSET)

        diversity = d.pop("diversity", UNSET)

        def _parse_candidates(data: object) -> list[str] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                candidates_type_0 = cast(list[str], data)

                return candidates_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[str] | None | Unset, data)

        candidates = _parse_candidates(d.pop("candidates", UNSET))

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

        available = d.pop("available", UNSET)

        _boosts = d.pop("boosts", UNSET)
        boosts: list[Boost] | Unset = UNSET
        if _boosts is not UNSET:
            boosts = []
            for boosts_item_data in _boosts:
                boosts_item = Boost.from_dict(boosts_item_data)

                boosts.append(boosts_item)

        _pins = d.pop("pins", UNSET)
        pins: list[Pin] | Unset = UNSET
        if _pins is not UNSET:
            pins = []
            for pins_item_data in _pins:
                pins_item = Pin.from_dict(pins_item_data)

                pins.append(pins_item)

        def _parse_max_per(data: object) -> MaxPer | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                max_per_type_0 = MaxPer.from_dict(data)

                return max_per_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(MaxPer | None | Unset, data)

        max_per = _parse_max_per(d.pop("max_per", UNSET))

        def _parse_rotate(data: object) -> None | str | Unset | UsersBodyRotation:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                rotate_type_0_rotation = UsersBodyRotation.from_dict(data)

                return rotate_type_0_rotation
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | str | Unset | UsersBodyRotation, data)

        rotate = _parse_rotate(d.pop("rotate", UNSET))

        users_body = cls(
            users=users,
            wait_for=wait_for,
            scenario=scenario,
            n=n,
            offset=offset,
            exclude=exclude,
            include_seen=include_seen,
            min_ratings=min_ratings,
            model=model,
            experiment=experiment,
            explain=explain,
            fallback=fallback,
            explore=explore,
            explore_below=explore_below,
            diversity=diversity,
            candidates=candidates,
            filter_=filter_,
            available=available,
            boosts=boosts,
            pins=pins,
            max_per=max_per,
            rotate=rotate,
        )

        return users_body
