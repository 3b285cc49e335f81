"""`Model`, `OpenModel` and `Entries`: what all generated types can do."""

from __future__ import annotations

import ast
import contextlib
import datetime
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

if TYPE_CHECKING:
    from typing_extensions import Self

V = TypeVar("V")
Reader = Callable[[Any], Any]


class Unset:
    """The type of `UNSET`."""

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()  # an attribute that a PATCH leaves as it is: there None removes it


class Entries(dict[str, V]):
    """An object whose names the API leaves open, such as tags: a dict."""

    __orig_bases__: ClassVar[tuple[Any, ...]]

    @classmethod
    def from_dict(cls, source: Mapping[str, V]) -> Self:
        """From its JSON."""
        read = reader_of(evaluated(get_args(cls.__orig_bases__[0])[0], cls.__module__))
        return cls(source if read is None else {key: read(value) for key, value in source.items()})

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {key: plain(value) for key, value in self.items()}

    @property
    def additional_properties(self) -> dict[str, V]:
        """All of its entries."""
        return self


@dataclass
class Model:
    """An object with the fields of a schema."""

    @classmethod
    def from_dict(cls, source: Mapping[str, Any]) -> Self:
        """From its JSON. Fields that the schema lacks are left out; what the JSON lacks is None.

        Raises:
            TypeError: a field is missing.
        """
        given = {}
        for key, one in _fields(cls).items():
            if key in source:
                given[one.name] = source[key] if one.read is None else one.read(source[key])
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without what was not given: fields that have their default."""
        made = {}
        for key, one in _fields(type(self)).items():
            value = getattr(self, one.name)
            if value is not one.default:
                made[key] = plain(value)
        return made


@dataclass
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
        made = super().from_dict(source)
        made.additional_properties = {key: value for key, value in source.items() if key not in _fields(cls)}
        return made

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without what was not given."""
        return self.additional_properties | super().to_dict()

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
    if isinstance(value, (Model, Entries)):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value.isoformat() if isinstance(value, datetime.date) else value


@cache
def reader_of(kind: Any) -> Reader | None:
    """What makes a value of a type from its JSON; None if it is one already."""
    if isinstance(kind, type) and issubclass(kind, (Model, Entries)):
        return kind.from_dict
    if kind in (datetime.date, datetime.datetime):
        return _time
    if get_origin(kind) is list:
        read = reader_of(get_args(kind)[0])
        return None if read is None else lambda values: [read(one) for one in values]
    if get_origin(kind) is Union:
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


class _Unions(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.Subscript:
        """`A | B` becomes `Union[A, B]`."""
        self.generic_visit(node)
        both = ast.Tuple([node.left, node.right], ast.Load())
        return ast.Subscript(ast.Name("Union", ast.Load()), both, ast.Load())


def evaluated(annotation: str, module: str) -> Any:
    """The type that an annotation of a module means. Python 3.9 has no `|` of types, so it is evaluated as `Union`."""
    tree = ast.fix_missing_locations(_Unions().visit(ast.parse(annotation, mode="eval")))
    return eval(compile(tree, module, "eval"), {**vars(sys.modules[module]), "Union": Union})  # noqa: S307


class _Field(NamedTuple):
    name: str
    read: Reader | None
    default: Any  # `dataclasses.MISSING` if the field is required: then None is sent too


_FIELDS: dict[type, dict[str, _Field]] = {}  # of the models that were used so far


def _fields(model: type[Model]) -> dict[str, _Field]:
    """Key in JSON -> field."""
    made = _FIELDS.get(model)
    if made is None:
        made = _FIELDS[model] = {}
        for one in fields(model):
            if one.init:
                read = reader_of(evaluated(str(one.type), model.__module__))
                made[one.name.removesuffix("_")] = _Field(one.name, read, one.default)
    return made


def _json_type(kind: Any) -> type:
    if get_origin(kind) is list:
        return list
    return str if kind in (datetime.date, datetime.datetime) else dict


def _time(text: str) -> datetime.date | str:
    for kind in (datetime.date, datetime.datetime):
        with contextlib.suppress(ValueError):
            return kind.fromisoformat(text.replace("Z", "+00:00"))  # Python 3.9 does not know Z
    return text


def _same(value: Any) -> Any:
    return value
