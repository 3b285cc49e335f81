"""All routes of the console."""

from __future__ import annotations

from fastapi import APIRouter

from service.base.errors import NotFound
from service.extras.console import access, experiments, items, jobs, login, models, overview, static_files, users
from service.extras.console.visit import console_router

router = APIRouter(include_in_schema=False)
_rest = console_router()


@_rest.get("/{rest:path}")
async def refuse(rest: str) -> None:
    """404 as a page."""
    raise NotFound(f"Invalid path: expected a page of the console, got {rest[:64]!r}")


for _one in (static_files, overview, models, jobs, users, items, experiments, access):
    router.include_router(_one.router)
router.include_router(login.entry)
router.include_router(login.router)
router.include_router(_rest)
