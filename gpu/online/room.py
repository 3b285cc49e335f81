"""Memory that a model takes while it serves, counted before the model is loaded and before its training starts."""

from __future__ import annotations

from gpu.base.backend import HOST, Backend
from gpu.data.model import bytes_of, weight_bytes
from gpu.data.param_kinds import Params
from gpu.online import device_bytes


def needed_bytes(
    params: Params, read: tuple[int, int], served: tuple[int, int], n_ratings: int, backend: Backend
) -> dict[str, int]:
    """Bytes to load one more model, by the name of the backend that needs them.

    Args:
        params: of the model.
        read, served: (U, I), its users and items in its snapshot and in the service.
        n_ratings: N of the service; a model that learns on a device has a copy of the ratings there.
        backend: where the model will answer.
    """
    users, items = bytes_of(params, *served)
    loaded = sum(bytes_of(params, *read)) + weight_bytes(params, read[1])
    answering = 2 * users + 2 * items  # users: trained and refitted; items: parameters and the layout for ranking
    needed: dict[str, int] = {HOST.name: loaded + answering}
    if backend.name != HOST.name:
        needed[backend.name] = device_bytes(params, *served, n_ratings, backend)
    return needed
