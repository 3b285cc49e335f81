"""`Model`, `OpenModel` and `Entries`: what all generated types can do."""

from __future__ import annotations

import contextlib
import datetime
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, Union, get_args, get_origin, get_type_hints

V = TypeVar("V")
Reader = Callable[[Any], Any]


class Unset:
    """The type of `UNSET`."""

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()  # a field that an answer has not, or that a request does not send


class Entries(dict[str, V]):
    """An object whose names the API leaves open, such as tags: a dict."""

    __orig_bases__: ClassVar[tuple[Any, ...]]

    @classmethod
    def from_dict(cls, source: Mapping[str, V]) -> Self:
        """From its JSON."""
        read = reader_of(get_args(cls.__orig_bases__[0])[0])
        return cls(source if read is None else {key: read(value) for key, value in source.items()})

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {key: plain(value) for key, value in self.items()}

    @property
    def additional_properties(self) -> dict[str, V]:
        """All of its entries."""
        return self


@dataclass(slots=True)
class Model:
    """An object with the fields of a schema."""

    @classmethod
    def from_dict(cls, source: Mapping[str, Any]) -> Self:
        """From its JSON; fields that the schema lacks are left out.

        Raises:
            TypeError: a field is missing.
        """
        given = {}
        for key, (name, read) in _fields(cls).items():
            if key in source:
                given[name] = source[key] if read is None else read(source[key])
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without what is `UNSET`."""
        made = {}
        for key, (name, _) in _fields(type(self)).items():
            value = getattr(self, name)
            if value is not UNSET:
                made[key] = plain(value)
        return made


@dataclass(slots=True)
class OpenModel(Model):
    """A model that keeps fields which the schema lacks, such as those of a later version of the service.

    Attributes:
        additional_properties: these fields; also by `[]` and `in`.
    """

    additional_properties: dict[str, Any] = field(init=False, repr=False, default_factory=dict)

    @classmethod
    def from_dict(cls, source: Mapping[str, Any]) -> Self:
        """From its JSON.

        Raises:
            TypeError: a field is missing.
        """
        made = super(OpenModel, cls).from_dict(source)  # `super()` alone means the class from before `slots=True`
        made.additional_properties = {key: value for key, value in source.items() if key not in _fields(cls)}
        return made

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without what is `UNSET`."""
        return self.additional_properties | super(OpenModel, self).to_dict()

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties


def plain(value: Any) -> Any:
    """What JSON has for a value: objects for models, texts of ISO 8601 for times."""
    if value is None or isinstance(value, (str, float, int)):
        return value
    if isinstance(value, Model | Entries):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value.isoformat() if isinstance(value, datetime.date) else value


@cache
def reader_of(kind: Any) -> Reader | None:
    """What makes a value of a type from its JSON; None if it is one already."""
    if isinstance(kind, type) and issubclass(kind, Model | Entries):
        return kind.from_dict
    if kind in (datetime.date, datetime.datetime):
        return _time
    if get_origin(kind) is list:
        read = reader_of(get_args(kind)[0])
        return None if read is None else lambda values: [read(one) for one in values]
    if get_origin(kind) in (Union, types.UnionType):
        return _reader_of_one(get_args(kind))
    return None


def _reader_of_one(kinds: tuple[Any, ...]) -> Reader | None:
    """What reads a value of one of the types: the first that fits its JSON."""
    readers: dict[type, list[Reader]] = {}
    for kind in kinds:
        if (reader := reader_of(kind)) is not None:
            readers.setdefault(_json_type(kind), []).append(reader)

    def read(value: Any) -> Any:
        *others, last = readers.get(type(value), [_same])
        for other in others:
            with contextlib.suppress(TypeError):
                return other(value)
        return last(value)

    return read if readers else None


class _Field(NamedTuple):
    name: str
    read: Reader | None


_FIELDS: dict[type, dict[str, _Field]] = {}  # of the models that were used so far


def _fields(model: type[Model]) -> dict[str, _Field]:
    """Key in JSON -> field."""
    made = _FIELDS.get(model)
    if made is None:
        kinds = get_type_hints(model)
        names = [one.name for one in fields(model) if one.init]
        made = _FIELDS[model] = {name.removesuffix("_"): _Field(name, reader_of(kinds[name])) for name in names}
    return made


def _json_type(kind: Any) -> type:
    if get_origin(kind) is list:
        return list
    return str if kind in (datetime.date, datetime.datetime) else dict


def _time(text: str) -> datetime.date | str:
    for kind in (datetime.date, datetime.datetime):
        with contextlib.suppress(ValueError):
            return kind.fromisoformat(text)
    return text


def _same(value: Any) -> Any:
    return value
