"""The operations of the tag operation. Made by `make clients` from the OpenAPI document of the service."""
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import Any

from nearfield_client.generated.models import Alive, Ready
from nearfield_client.operation import operation
from nearfield_client.session import Session


@operation("GET", "/health/live")
def get_live(*, client: Session) -> Alive:
    """200 while the process runs its event loop."""
    ...


@operation("GET", "/health/ready")
def get_ready(*, client: Session) -> Ready:
    """200 when all ratings are read and every live model answers. Without any model, only ratings are needed."""
    ...


@operation("GET", "/metrics")
def get_metrics(*, client: Session) -> Any:
    """All metrics, in the text format of Prometheus, or of OpenMetrics if `Accept` asks for it."""
    ...
