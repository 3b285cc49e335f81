"""Schema of the request for the audit log."""

from __future__ import annotations

from pydantic import Field

from service.api.schemas.common_schemas import Strict
from service.api.schemas.list_schemas import Count
from service.api.schemas.listing_schemas import ListingCursor
from service.engine.queries.catalog_queries import ListUsers


class AuditQuery(Strict):
    """A page of the audit log."""

    n: Count = ListUsers().n
    cursor: ListingCursor = Field(None, description="`next` of the page before; empty or by default: the first page.")
