"""Parameters and bodies of exports."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.api.schemas.common_schemas import Strict, Wait
from service.api.schemas.list_schemas import Count, ModelName
from service.api.schemas.rule_schemas import Filter
from service.engine.queries import Recommend
from service.extras.exports.export_formats import Format
from service.jobs.export_rows import What


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
