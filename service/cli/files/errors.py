"""The error of files that a command reads."""

from __future__ import annotations

from service.base.errors import ServiceError


class InvalidRatingsFile(ServiceError, ValueError):
    """A file of ratings or items cannot be read; the message names the file, the line and the reason."""

    status, slug, title = 422, "invalid-ratings-file", "Invalid ratings file"
