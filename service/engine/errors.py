"""Errors of reads. The families are in `service.base.errors`."""

from __future__ import annotations

from service.base.errors import NotFound, ServiceError, Unavailable


class UnknownUser(NotFound):
    """The user has never rated anything, or was forgotten."""

    slug, title = "unknown-user", "Unknown user"


class UnknownItem(NotFound):
    """No user has ever rated the item."""

    slug, title = "unknown-item", "Unknown item"


class UnknownDocument(NotFound):
    """No document of a kind has that name."""


class Gone(ServiceError):
    """The model whose list a cursor continues is not live any more."""

    status, slug, title = 410, "gone", "Gone"


class NotSeenYet(Unavailable):
    """The engine did not reach the position in `wait_for` in time."""

    slug, title = "not-seen-yet", "Not seen yet"
