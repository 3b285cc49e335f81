"""The console: pages for people who operate the service. A client of `Serving`, as the routes of the API are."""

# ruff: noqa: PLC0415 (a command that serves nothing does not need the framework)
from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from service.extras.console.counts import CURVES, CURVES_LOCK

if TYPE_CHECKING:
    from service.api.app import Application
    from service.engine.engine import Engine
    from service.extras import Page, Parts
    from service.processes.runtime import Runtime


def register(parts: Parts) -> None:
    """Add the pages below /console, with those of other extras, and what records the curves of the overview."""
    parts.routes.append(functools.partial(_add_pages, parts.pages))
    parts.engine.append(_record)
    parts.names += [CURVES, CURVES_LOCK]


def _record(runtime: Runtime, _: Engine) -> None:
    from service.extras.console.points import record

    runtime.to_stop.callback(asyncio.get_running_loop().create_task(record(runtime)).cancel)


def _add_pages(further: Mapping[str, Page], app: Application) -> None:
    from service.extras.console import access, imports, items, jobs, login, models, overview, static_files, users
    from service.extras.console.session import Sessions
    from service.extras.console.visit import page_of, unknown

    app.state.sessions = Sessions(app.state.serving.settings, lambda: app.gateway.keys)
    app.state.pages = [(name, name.capitalize()) for name in further]
    for module in (static_files, overview, models, jobs, imports, users, items, access):
        app.add(module.router)
    for name, values in further.items():
        app.add(page_of(name, values))
    app.add(login.entry)
    app.add(login.router)
    app.add(unknown)
