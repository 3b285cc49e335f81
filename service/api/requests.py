"""What clients may ask: models of pydantic that `takes` makes of the queries to the engine, which describe each field.

FastAPI documents these models, and pydantic judges requests by them. A field has its type, default, bounds and
description in the query alone; a route names the fields that it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar, cast, get_type_hints

from msgspec import NODEFAULT, Struct, structs
from pydantic import (
    AfterValidator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from service.engine.queries.few_faults import Strict as Strict  # noqa: PLC0414 (for extras)
from service.engine.queries.few_faults import few_faults as few_faults  # noqa: PLC0414
from service.engine.queries.filter_parser import PREFIXES, BadParameter, tree_of_parameters
from service.engine.queries.filter_tree import text_of
from service.engine.queries.forms import Form, Id
from service.storage.events import StreamId

Q = TypeVar("Q", bound=Struct)
M = TypeVar("M", bound=Strict)
NO_FIELDS: Mapping[str, Any] = {}


Position = Annotated[
    str,
    AfterValidator(lambda text: StreamId.parse(text) and text),  # its message also quotes the value
    Field(examples=["1712345678901-0"], json_schema_extra={"pattern": "^[0-9]{1,19}-[0-9]{1,19}$"}),
]
ScenarioName = Annotated[Id | None, Field(description="Its body counts where the request names no field itself.")]


class NoParameters(Strict):
    """The query of a route without parameters."""


class Wait(Strict):
    """Parameters of every GET, and of the body of a POST that only reads."""

    wait_for: Position | None = Field(
        None, description="Answer only after the entry with this stream_id has been learned; 503 after two seconds."
    )

    @property
    def position(self) -> StreamId | None:
        """`wait_for` as a `StreamId`."""
        return None if self.wait_for is None else StreamId.parse(self.wait_for)


class Fields(Strict, Generic[Q]):
    """Fields of a query of the kind `Q`; `takes` adds them."""

    kind: ClassVar[type[Struct]]
    names: ClassVar[frozenset[str]]

    @cached_property
    def values(self) -> dict[str, Any]:
        """The fields of the query that the request names."""
        return {name: getattr(self, name) for name in self.model_fields_set if name in self.names}

    def query(self, base: Mapping[str, Any] = NO_FIELDS, **more: Any) -> Q:
        """The query for the engine.

        Args:
            base: fields of a scenario, which count where the request names none.
            more: fields that are elsewhere in the request, such as an id in the path.
        """
        return cast("Q", self.kind(**{**base, **self.values, **more}))


class Asked(Fields[Q], Wait, Generic[Q]):
    """Fields of a query that can wait for an entry."""


class Filtered(Asked[Q], Generic[Q]):
    """The parameters of a query whose names begin with `tag.`, `min.` or `max.` are its filter."""

    _filter: str | None = PrivateAttr(None)

    @cached_property
    def values(self) -> dict[str, Any]:
        """As in `Fields`."""
        return super().values | ({} if self._filter is None else {"filter": self._filter})

    @model_validator(mode="wrap")
    @classmethod
    def _take_filter(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        conditions = {name: text for name, text in value.items() if name.startswith(PREFIXES)}
        made = handler({name: text for name, text in value.items() if name not in conditions})
        if conditions:
            try:
                made._filter = text_of(tree_of_parameters(conditions))
            except BadParameter as error:
                fault = PydanticCustomError("filter", "{reason}", {"reason": str(error)})
                line = InitErrorDetails(type=fault, loc=(error.name,), input=None)
                raise ValidationError.from_exception_data("query", [line]) from None
        return made


def takes(kind: type[Struct], *names: str, **others: Any) -> Callable[[type[M]], type[M]]:
    """A decorator that adds fields of queries of this kind to a model.

    Args:
        kind: of the queries.
        names: of the fields, in the order in which faults are told.
        others: fields whose form is another one in this request; without a default unless it has one.
    """

    def made(model: type[M]) -> type[M]:
        hints, fields = get_type_hints(kind, include_extras=True), {field.name: field for field in structs.fields(kind)}
        definitions = dict[str, tuple[Any, Any]]()
        for name in names:
            default = fields[name].default
            default = ... if default is NODEFAULT else list(default) if isinstance(default, tuple) else default
            # The annotation as clients write it: the `Form` in place of the type, with what else describes it.
            described = getattr(hints[name], "__metadata__", ())
            form = next((each.kind for each in described if isinstance(each, Form)), None)
            for each in described if form is not None else ():
                form = form if isinstance(each, Form) else Annotated[form, each]
            definitions[name] = hints[name] if form is None else form, default
        definitions |= {name: form if isinstance(form, tuple) else (form, ...) for name, form in others.items()}
        make: Any = create_model
        result = make(model.__name__, __base__=model, __doc__=model.__doc__, __module__=model.__module__, **definitions)
        result.kind, result.names = kind, frozenset(definitions).intersection(fields)
        return cast("type[M]", result)

    return made
