"""`/console/access`: the keys that were made, and what was done with the rights of an admin."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from service.api.dependencies import TheKeys, TheService
from service.api.door.auth import Keys
from service.extras.console.pages import page
from service.extras.console.session import Session
from service.extras.console.visit import console_router
from service.settings.settings import Settings
from service.storage import key_file
from service.storage.key_file import ListedKey

N_ENTRIES = 50

router = console_router()


@router.get("/access")
async def get_access(request: Request, serving: TheService, keys: TheKeys, cursor: str | None = None) -> Response:
    """The page; `cursor` is that of older entries."""
    entries, listed = await asyncio.gather(
        asyncio.to_thread(request.app.audit.log.page, N_ENTRIES, cursor),
        asyncio.to_thread(listed_keys, serving.settings, keys, request.state.session),
    )
    return page(request, "access.html", keys=listed, entries=entries.entries, next=entries.next)


def listed_keys(settings: Settings, keys: Keys, session: Session) -> list[ListedKey] | None:
    """The keys, as `GET /admin/keys` shows them; None for who may not see them there."""
    if settings.data_set or not (session.is_visitor or keys.may_manage_keys(session.key)):
        return None
    return [key_file.listed(key, keys.made.uses.last(key.id)) for key in key_file.read(settings.root) or ()]
