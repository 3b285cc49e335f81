"""`nearfield push` and `nearfield pull`: copy a snapshot to a store, and from a store into a data folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from service.cli.deploy import folder_of, locked
from service.extras.registry import mlflow_registry
from service.extras.registry.mlflow_registry import Address, MlflowCredentials, MlflowServer
from service.extras.stores import snapshot_transfer
from service.extras.stores.object_store import ObjectStore, OnBytes
from service.settings.secret_files import variable_of_others
from service.storage.log.rating_log import RatingLog
from service.storage.snapshots.forgetting import without_forgotten


def push(model: Path, target: str, keys: Sequence[str], on_total: OnBytes, on_bytes: OnBytes) -> tuple[str, bool]:
    """Send a snapshot; return its URL, and whether it was missing there. Raises what `snapshot_transfer.push` raises.

    Args:
        model: the folder of a version, or a folder of several versions; then the newest is used.
        target: URL of the folder of all versions, or the address of a registered model of MLflow.
        keys: of `model_key`; the first one signs.
        on_total, on_bytes: see `snapshot_transfer.push`.
    """
    folder = folder_of(model)
    if target.startswith(mlflow_registry.PREFIX):
        address = Address.of(target)
        with server_of_environment(keys) as server:
            return mlflow_registry.push(folder.parent, folder.name, server, address, on_total, on_bytes)
    store = ObjectStore(target, keys)
    is_new = snapshot_transfer.push(folder.parent, folder.name, store, on_total, on_bytes)
    return f"{store.url}/{folder.name}", is_new


def pull(source: str, data: Path, keys: Sequence[str], on_bytes: OnBytes) -> Path:
    """Fetch a snapshot into `data`, and return its folder. Raises what `snapshot_transfer.pull` raises.

    Users who were forgotten in `data` are removed from it.

    Args:
        source: URL of the folder of a version, or the address of a version that is registered in MLflow.
        data: the folder of a service, which may run or not, or none yet.
        keys: of `model_key`; one of them must have signed it, if there are any.
        on_bytes: see `snapshot_transfer.pull`.

    Raises:
        LockTimeout: a user is being forgotten.
    """
    with locked(data):
        if source.startswith(mlflow_registry.PREFIX):
            address = Address.of(source)
            with server_of_environment(keys) as server:
                version = mlflow_registry.pull(server, address, data / "snapshots", on_bytes)
        else:
            url, _, version = source.rstrip("/").rpartition("/")
            version = snapshot_transfer.pull(ObjectStore(url, keys), version, data / "snapshots", on_bytes)
        if (data / "ratings").is_dir():
            version = without_forgotten(data, RatingLog.of(data), version)
    return data / "snapshots" / version


def server_of_environment(keys: Sequence[str]) -> MlflowServer:
    """The server that MLflow's own variables name."""
    credentials = MlflowCredentials(
        user=variable_of_others("MLFLOW_TRACKING_USERNAME"),
        password=variable_of_others("MLFLOW_TRACKING_PASSWORD"),
        token=variable_of_others("MLFLOW_TRACKING_TOKEN"),
    )
    return MlflowServer(variable_of_others("MLFLOW_TRACKING_URI"), credentials, keys)
