"""Schemas of requests for listings, exports, and lists of all users."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.api.schemas.list_schemas import Count, ItemsQuery, ListQuery, ModelName
from service.api.schemas.rule_schemas import Filter
from service.api.schemas.schemas import Strict, Wait
from service.engine.queries import Recommend
from service.jobs.exports.export_formats import Format
from service.jobs.exports.export_rows import What


class AllRatingsQuery(ListQuery):
    """A page of all ratings within two values."""

    below: float | None = Field(None, description="List only ratings below this value.")
    above: float | None = Field(None, description="List only ratings above this value.")


class AdminItemsQuery(ItemsQuery):
    """A page of the items that pass a filter, or of those of them that are hidden or not."""

    hidden: bool | None = Field(None, description="Whether to list hidden items or others; default: both.")


class ExportQuery(Wait):
    """Parameters of an export."""

    what: What = Field("ratings", description="What to export.")
    format: Format = Field("ndjson", description="NDJSON, Parquet, or a stream of Arrow.")


class ListsBody(Strict):
    """Body of `POST /admin/lists`."""

    users: Literal["all"] = Field("all", description="For whom to make lists.")
    n: Count = Recommend().n
    filter: Filter | None = None
    model: ModelName = None
