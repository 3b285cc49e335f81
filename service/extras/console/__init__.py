"""The console: pages for people who operate the service. A client of `Serving`, as the routes of the API are."""

# ruff: noqa: PLC0415 (a command that serves nothing does not need the framework)
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.api.app import Application
    from service.extras import Parts


def register(parts: Parts) -> None:
    """Add the pages below /console."""
    parts.routes.append(_add_pages)


def _add_pages(app: Application) -> None:
    from service.extras.console import access, experiments, items, jobs, login, models, overview, static_files, users
    from service.extras.console.session import Sessions
    from service.extras.console.visit import unknown

    app.state.sessions = Sessions(app.state.serving.settings, lambda: app.gateway.keys)
    for one in (static_files, overview, models, jobs, users, items, experiments, access):
        app.add(one.router)
    app.add(login.entry)
    app.add(login.router)
    app.add(unknown)
