"""`Audit`: notes what is done with the rights of an admin, and what of it is refused.

A successful answer goes out after its entry is on the disk. Refusals have a budget, so that nobody without a key can
fill the disk or push other entries out of the log; those beyond it are counted. An entry has no body, no query, no key
and no user.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any, Literal
from urllib.parse import unquote

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.door.auth import ADMIN_PREFIX, CONSOLE_PREFIX, READING_METHODS, Keys, key_in
from service.api.door.client_address import ClientAddresses
from service.api.door.route import RouteTable
from service.base.errors import ServiceError
from service.settings import data_sets
from service.settings.settings import Settings
from service.storage import audit_log
from service.storage.audit_log import AuditEntry, AuditLog
from service.storage.key_file import PREFIX
from service.telemetry.logs import LineBudget

REFUSED = (401, 403, 429)
LOGIN = CONSOLE_PREFIX + b"login"
# Reads that are noted: exports, also of one user, and the files of lists. All others only if they are refused.
EXPORT, EXPORTED = b"/admin/export", (b"/admin/exports/", b"/admin/users/")
# Refusals that are noted: a burst, and one a minute afterward; with 400 bytes an entry at most .6 MB a day.
BURST, PER_S = 300, 1 / 60
CLIENT_GONE = 499
# Names of pages of the console whose action has another name than in the API.
_NAMES = {
    "log_in": "sign_in", "log_out": "sign_out", "cancel": "cancel_job", "activate": "activate_model",
    "undo": "undo_source",
}  # fmt: skip
_PAGES = {
    b"login": "log_in", b"logout": "log_out", b"retrain": "retrain", b"cancel": "cancel", b"activate": "activate",
    b"undo": "undo",
}  # fmt: skip
UNKNOWN = "unknown"  # the action of a request that no route takes
_log = structlog.get_logger(__name__)


class _Noted:
    """What a handler knows of the present request."""

    object: str | None = None
    is_refused = False
    is_written = False


_current: ContextVar[_Noted] = ContextVar("audited")


def concern(what: str) -> None:
    """Name what the present request is about, such as `job 7008c696f6c7`; never a user."""
    _current.get().object = what


def made(kind: str, answer: bytes, field: str = "id") -> bytes:
    """Name what the present request has made, by a field of its answer in JSON; returns the answer."""
    concern(f"{kind} {msgspec.json.decode(answer)[field]}")
    return answer


def refuse() -> None:
    """Note that the present request is refused, whatever the status of its answer."""
    _current.get().is_refused = True


class Audit:
    """The audit of one data set.

    Args:
        settings: of the data set.
        keys: of the data set.
        routes: of the application, to name what was refused before it was routed.
    """

    def __init__(self, settings: Settings, keys: Keys, routes: RouteTable) -> None:
        self.log = AuditLog(settings.data, settings.audit_max_bytes)
        self._keys, self._routes = keys, routes
        self._data_set = settings.data_set or data_sets.DEFAULT
        self._addresses = ClientAddresses(settings.trusted_proxies)
        self._refusals, self._faults = LineBudget(PER_S, BURST), LineBudget()

    @staticmethod
    def concerns(path: bytes) -> bool:
        """Whether requests with this path may have to be noted."""
        return path.startswith((ADMIN_PREFIX, CONSOLE_PREFIX))

    async def watch(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Let `app` answer, and note what it did before the answer goes out."""
        noted = _Noted()
        _current.set(noted)

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start" and not noted.is_written:
                await self._note(scope, noted, message["status"], dict(message["headers"]))
            await send(message)

        await app(scope, receive, noting)
        if not noted.is_written:
            await self._note(scope, noted, CLIENT_GONE, {})

    async def _note(self, scope: Scope, noted: _Noted, status: int, headers: dict[bytes, bytes]) -> None:
        noted.is_written = True
        path: bytes = scope["raw_path"].partition(b"?")[0]
        is_admin = path.startswith(ADMIN_PREFIX)
        is_refused = noted.is_refused or status in REFUSED
        if scope["method"] in READING_METHODS and not (
            is_admin and (is_refused or path == EXPORT or path.startswith(EXPORTED))
        ):
            return
        n_left_out = self._refusals.take() if is_refused else 0
        if n_left_out is None:
            return
        action, parameters = self._route(scope, path)
        outcome: Literal["done", "refused", "failed"] = "done" if status < 400 else "failed"
        # The parameters of a path, but no user, and no key that somebody has taken for its id.
        shown = {name: unquote(str(text)) for name, text in parameters.items() if name != "user"}
        about = ", ".join(f"{name} {f'{PREFIX}…' if PREFIX in text else text}" for name, text in shown.items())
        entry = AuditEntry(
            at=audit_log.now(),
            action=_NAMES.get(action, action),
            outcome="refused" if is_refused else outcome,
            via="api" if is_admin else "console",
            status=status,
            object=noted.object or about or None,
            key=self._key(scope, path),
            address=self._addresses.of(scope["client"], scope["headers"]),
            request_id=headers.get(b"x-request-id", b"").decode() or None,
            data_set=self._data_set,
            left_out=n_left_out,
        )
        await self._written(entry)

    async def _written(self, entry: AuditEntry) -> None:
        """Write an entry to both logs. The action is done, so a full disk only adds a line to the other log."""
        fields = {name: getattr(entry, name) for name in entry.__struct_fields__ if name != "at"}
        _log.info("audit", **{name: value for name, value in fields.items() if value not in (None, 0)})
        try:
            await asyncio.to_thread(self.log.append, entry)
        except (OSError, ServiceError) as error:
            if self._faults.take() is not None:
                _log.error("the audit log cannot be written", error=str(error))

    def _key(self, scope: Scope, path: bytes) -> str | None:
        """The id of the key of a request: of its header, its session, or the form of the login."""
        state = scope.get("state", {})
        if path == LOGIN:
            given = state.get("form", {}).get("key", "").encode()
        elif state.get("session") is not None:
            return state["session"].key or None
        else:
            given = key_in(dict(scope["headers"]))
        try:
            return self._keys.id_of(given)
        except ServiceError:  # the made keys cannot be known now
            return None

    def _route(self, scope: Scope, path: bytes) -> tuple[str, dict[str, Any]]:
        """The name of the operation, and the parameters in the path."""
        if "route" in scope:
            return scope["route"].name, scope["path_params"]
        if path.startswith(CONSOLE_PREFIX):
            return _PAGES.get(path.removeprefix(CONSOLE_PREFIX), UNKNOWN), {}
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        try:
            route, parameters = self._routes.find(method, path.decode("ascii", "replace"))
        except HTTPException:
            return UNKNOWN, {}
        return route.name, parameters
