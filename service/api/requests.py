"""What clients may ask: the fields of a query, which `takes` names, and what requests have beside them."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Generic, Self

from pydantic import (
    AfterValidator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from service.engine.queries.few_faults import Strict as Strict  # noqa: PLC0414 (for extras)
from service.engine.queries.few_faults import few_faults as few_faults  # noqa: PLC0414
from service.engine.queries.fields import Fields, Q
from service.engine.queries.filter_parser import PREFIXES, BadParameter, tree_of_parameters
from service.engine.queries.filter_tree import text_of
from service.engine.queries.forms import Id
from service.storage.events import StreamId

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
