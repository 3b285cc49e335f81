"""The audit log: what was done with the rights of an admin."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query

from service.api.dependencies import TheService, answers, check_n
from service.api.door.route import Call, Route
from service.engine.queries.catalog_queries import ListUsers
from service.engine.queries.few_faults import Strict
from service.engine.queries.forms import Count, PageCursor
from service.storage.audit_log import AuditPage

router = APIRouter(route_class=Route, prefix="/admin", tags=["admin"])


class AuditQuery(Strict):
    """A page of the audit log."""

    n: Count = ListUsers().n
    cursor: PageCursor = None


@router.get("/audit", responses=answers(AuditPage))
async def list_audit(query: Annotated[AuditQuery, Query()], request: Call, serving: TheService) -> bytes:
    """What was done with the rights of an admin, and what of it was refused, newest first."""
    check_n(serving, query.n)
    page = await asyncio.to_thread(request.app.audit.log.page, query.n, query.cursor)
    return msgspec.json.encode(page)
