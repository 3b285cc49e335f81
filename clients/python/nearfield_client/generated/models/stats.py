from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.log_stats import LogStats
    from ..models.model_stats import ModelStats
    from ..models.stream_stats import StreamStats


T = TypeVar("T", bound="Stats")


@_attrs_define
class Stats:
    """Sizes of the service.

    Attributes:
        users, items: ids that are known, without forgotten users.
        ratings: present ratings.
        events: events counted since the log begins, without those of users who were removed from it.
        hidden: hidden items.
        deleted: deleted items.
        lag_s: seconds between the newest entry of the stream and the newest one in all answers.
        models: the live ones, the first of which answers requests that name none.

    Attributes:
        users (int):
        items (int):
        ratings (int):
        events (int):
        hidden (int):
        deleted (int):
        log (LogStats): The rating log: segments, rows (ratings, events and other entries), bytes on disk, and its last
            stream id.
        stream (StreamStats): The stream in Redis: entries, bytes of memory, and the last stream id that was given.
        models (list[ModelStats]):
        as_of (str):
        lag_s (float):
        uptime_s (float):
        version (str):
    """

    users: int
    items: int
    ratings: int
    events: int
    hidden: int
    deleted: int
    log: LogStats
    stream: StreamStats
    models: list[ModelStats]
    as_of: str
    lag_s: float
    uptime_s: float
    version: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        users = self.users

        items = self.items

        ratings = self.ratings

        events = self.events

        hidden = self.hidden

        deleted = self.deleted

        log = self.log.to_dict()

        stream = self.stream.to_dict()

        models = []
        for models_item_data in self.models:
            models_item = models_item_data.to_dict()
            models.append(models_item)

        as_of = self.as_of

        lag_s = self.lag_s

        uptime_s = self.uptime_s

        version = self.version

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "users": users,
                "items": items,
                "ratings": ratings,
                "events": events,
                "hidden": hidden,
                "deleted": deleted,
                "log": log,
                "stream": stream,
                "models": models,
                "as_of": as_of,
                "lag_s": lag_s,
                "uptime_s": uptime_s,
                "version": version,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.log_stats import LogStats  # noqa: PLC0415
        from ..models.model_stats import ModelStats  # noqa: PLC0415
        from ..models.stream_stats import StreamStats  # noqa: PLC0415

        d = dict(src_dict)
        users = d.pop("users")

        items = d.pop("items")

        ratings = d.pop("ratings")

        events = d.pop("events")

        hidden = d.pop("hidden")

        deleted = d.pop("deleted")

        log = LogStats.from_dict(d.pop("log"))

        stream = StreamStats.from_dict(d.pop("stream"))

        models = []
        _models = d.pop("models")
        for models_item_data in _models:
            models_item = ModelStats.from_dict(models_item_data)

            models.append(models_item)

        as_of = d.pop("as_of")

        lag_s = d.pop("lag_s")

        uptime_s = d.pop("uptime_s")

        version = d.pop("version")

        stats = cls(
            users=users,
            items=items,
            ratings=ratings,
            events=events,
            hidden=hidden,
            deleted=deleted,
            log=log,
            stream=stream,
            models=models,
            as_of=as_of,
            lag_s=lag_s,
            uptime_s=uptime_s,
            version=version,
        )

        stats.additional_properties = d
        return stats

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
