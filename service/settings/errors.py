"""The error of settings."""

from __future__ import annotations

from service.base.errors import ServiceError


class InvalidSetting(ServiceError, ValueError):
    """An option or an environment variable has a value that cannot be used."""

    status, slug, title = 422, "invalid-setting", "Invalid setting"
