"""`Fields`: models of pydantic that `takes` makes of a query to the engine, which describes each field.

FastAPI documents these models, and pydantic judges requests and scenarios by them. A field has its type, default,
bounds and description in the query alone; a model names the fields that it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Generic, TypeVar, cast, get_type_hints

from msgspec import NODEFAULT, Struct, structs
from pydantic import create_model

from service.engine.queries.few_faults import Strict
from service.engine.queries.forms import Form

Q = TypeVar("Q", bound=Struct)
M = TypeVar("M", bound=Strict)
NO_FIELDS: Mapping[str, Any] = {}


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
