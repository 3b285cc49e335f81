"""Schema of the request for the audit log."""

from __future__ import annotations

from service.engine.queries.catalog_queries import ListUsers
from service.engine.queries.few_faults import Strict
from service.engine.queries.forms import Count, PageCursor


class AuditQuery(Strict):
    """A page of the audit log."""

    n: Count = ListUsers().n
    cursor: PageCursor = None
