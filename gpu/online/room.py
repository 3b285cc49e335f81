"""Memory that a model takes where it answers: counted before one is taken in, and before a training that makes one."""

from __future__ import annotations

from gpu.backend import HOST, Backend
from gpu.model import bytes_of, weight_bytes
from gpu.online import device_bytes
from gpu.param_kinds import Params


def needed_bytes(
    params: Params, read: tuple[int, int], served: tuple[int, int], n_ratings: int, backend: Backend
) -> dict[str, int]:
    """Bytes that taking in a model takes beside those that answer, by name of the backend where it takes them.

    Args:
        params: of the model.
        read, served: its users and items, in its snapshot and in the service.
        n_ratings: of the service, which a model that learns on a device has there too.
        backend: where it answers.
    """
    users, items = bytes_of(params, *served)
    loaded = sum(bytes_of(params, *read)) + weight_bytes(params, read[1])
    answering = 2 * users + 2 * items  # users as trained and as refitted; items once more, laid out for ranking
    needed: dict[str, int] = {HOST.name: loaded + answering}
    if backend.name != HOST.name:
        needed[backend.name] = device_bytes(params, *served, n_ratings, backend)
    return needed
