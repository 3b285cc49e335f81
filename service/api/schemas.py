"""What requests may say, checked by pydantic, and the shapes that only HTTP answers have.

Defaults are those of `queries`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct, UnsetType
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator

from gpu.algorithms import ALGORITHMS
from service.api.few_faults import check_names, few_faults
from service.api.rating_parser import Rejection
from service.engine.queries import Fallback, Popular, Recommend, UserRatings
from service.limits import MAX_RATING
from service.storage.events import MAX_ID_BYTES, StreamId, check_id

MAX_OFFSET = 1_000_000_000
MAX_USERS = 1000  # of one request, and of ratings that come along with one
MAX_ITEMS = 10_000  # in `candidates`, and in `exclude`
MAX_PARAMS = 64  # hyperparameters in one request; no algorithm has half of that
_DEFAULT, _OF_USER = Recommend(), UserRatings(user="")


def _position(text: str) -> str:
    StreamId.parse(text)
    return text


Id = Annotated[str, AfterValidator(check_id), Field(min_length=1, max_length=MAX_ID_BYTES)]
Items = Annotated[list[Id], Field(max_length=MAX_ITEMS), few_faults(Id, MAX_ITEMS)]
Position = Annotated[
    str,
    AfterValidator(_position),  # which also tells what was given
    Field(examples=["1712345678901-0"], json_schema_extra={"pattern": "^[0-9]{1,19}-[0-9]{1,19}$"}),
]
Count = Annotated[int, Field(ge=1, description="How many results.")]
Offset = Annotated[int, Field(ge=0, le=MAX_OFFSET, description="How many of the best to leave out.")]
MinRatings = Annotated[int, Field(ge=0, description="Show only items with at least so many ratings at present.")]
ModelName = Annotated[str | None, Field(description="Name of a live model; default: the first of `default_models`.")]


class _Strict(BaseModel):
    """Unknown names are refused, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, given: Any) -> Any:
        return check_names(cls.model_fields, given)


class NoParameters(_Strict):
    """The query of a route without parameters."""


class Wait(_Strict):
    """What the query of every GET may hold, and the body of a POST that only reads."""

    wait_for: Position | None = Field(
        None, description="Answer only with this stream_id and everything before it seen; 503 after two seconds."
    )

    @property
    def position(self) -> StreamId | None:
        """`wait_for`, as the two numbers it is."""
        return None if self.wait_for is None else StreamId.parse(self.wait_for)


class Page(Wait):
    """A slice of a ranked list."""

    n: Count = Popular().n
    offset: Offset = Popular().offset
    min_ratings: MinRatings = Popular().min_ratings


class NeighborsQuery(Wait):
    """Parameters of the neighbor lists."""

    n: Count = _DEFAULT.n
    model: ModelName = None


class EstimateQuery(Wait):
    """Parameters of an estimate."""

    model: ModelName = None


class RatingsQuery(Wait):
    """Parameters of the ratings of one user."""

    n: Count = _OF_USER.n
    offset: Annotated[int, Field(ge=0, le=MAX_OFFSET, description="How many of the newest to leave out.")] = (
        _OF_USER.offset
    )


class Filters(_Strict):
    """What narrows a recommendation, in a query or in a body."""

    n: Count = _DEFAULT.n
    offset: Offset = _DEFAULT.offset
    exclude: Items = Field([], description="Items never to show; repeat the parameter for several.")
    include_seen: bool = Field(_DEFAULT.include_seen, description="Whether items that the user rated may be shown.")
    min_ratings: MinRatings = _DEFAULT.min_ratings
    model: ModelName = _DEFAULT.model
    explain: bool = Field(_DEFAULT.explain, description="Add to each item the ratings that speak most for it.")
    fallback: Fallback = Field(_DEFAULT.fallback, description="What an unknown user gets: popular items, or 404.")

    def query(self, **more: Any) -> Recommend:
        """The question for the engine; `more` says for whom."""
        known = {name: getattr(self, name) for name in type(self).model_fields if name in Recommend.__struct_fields__}
        return Recommend(**known | more)


class RecommendQuery(Filters, Wait):
    """Query of `GET /recommend/{user}`."""


class RecommendBody(Filters, Wait):
    """Body of `POST /recommend/{user}`: the same, with room for long lists."""

    candidates: Items | None = Field(None, description="The only items to rank; default: all.")


class ItemRating(_Strict):
    """A rating by somebody who stays anonymous."""

    item: Id
    rating: float = Field(ge=-MAX_RATING, le=MAX_RATING)


class UsersBody(RecommendBody):
    """Body of `POST /recommend` for several users."""

    users: Annotated[list[Id], Field(min_length=1, max_length=MAX_USERS), few_faults(Id, MAX_USERS)]


class AnonymousBody(RecommendBody):
    """Body of `POST /recommend` for ratings that are used once and not stored."""

    ratings: Annotated[list[ItemRating], Field(min_length=1, max_length=MAX_USERS), few_faults(ItemRating, MAX_USERS)]


class Retrain(_Strict):
    """Body of `POST /admin/retrain`."""

    algorithm: Literal[tuple(sorted(ALGORITHMS))]  # type: ignore[valid-type]  # the names are known only at run time
    params: dict[str, JsonValue] = Field(
        {}, max_length=MAX_PARAMS, description="Hyperparameters over the defaults, such as n_factors."
    )
    activate: bool = Field(True, description="Whether the new model goes live if it is good enough.")
    tune: bool = Field(False, description="Whether to search for better params first, judged by held-out pairs.")
    force: bool = Field(False, description="Whether it goes live even if it is worse than the live one or a baseline.")


class Accepted(Struct):
    """The answer to `POST /ratings`; `stream_id` is null if nothing was accepted."""

    accepted: int
    rejected: list[Rejection]
    stream_id: str | None
    took_ms: float


class Written(Struct):
    """The answer to any other write: visible to every read with `wait_for` = `stream_id`."""

    stream_id: str


class Alive(Struct):
    """The process runs."""

    status: str


class Ready(Struct):
    """The service can answer; `as_of` is the last entry it has seen."""

    status: str
    as_of: str


class Fault(Struct):
    """One value that was refused: where it stands, and why."""

    place: str
    error: str


class ProblemDocument(Struct):
    """An error, as application/problem+json (RFC 9457).

    Attributes:
        errors: the first ten refused values, where there may be several.
        errors_left_out: how many more there are.
        reason, fraction: why the service is not ready, and how much of its start is done (0 to 1).
        job: id of the job that is in the way.
    """

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[Fault] | UnsetType = UNSET
    errors_left_out: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    fraction: float | UnsetType = UNSET
    job: str | UnsetType = UNSET
