"""Snapshots as versions of registered models of an MLflow server, by its REST API: `models:/NAME@ALIAS`.

Each is a run in the experiment `nearfield` with the folder of the snapshot among its artifacts. The version is
registered after the last file has been sent.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import httpx

from service.base.errors import Conflict, InvalidRequest
from service.extras.stores import snapshot_transfer
from service.extras.stores.object_store import (
    PART_BYTES,
    SCHEMES,
    ObjectStore,
    OnBytes,
    Store,
    StoreRefused,
    StoreUnavailable,
)
from service.settings.errors import InvalidSetting
from service.storage import files
from service.storage.errors import UnknownVersion
from service.storage.snapshots import snapshot

PREFIX = "models:/"
EXPERIMENT = "nearfield"
VERSION_TAG, DIGEST_TAG = "nearfield.version", "nearfield.manifest_sha256"
TIMEOUT_S, N_CONNECTS = 60.0, 3  # without a byte; attempts to connect
_ADDRESS = re.compile(r"models:/+(?P<name>[^/:@'\"`\\]+)(@(?P<alias>[^/:@]+)|/(?P<number>[1-9][0-9]*))?")


class Address(NamedTuple):
    """A registered model, and which version of it: that of an alias, that of a number, or none."""

    name: str
    alias: str | None
    number: str | None

    @classmethod
    def of(cls, url: str) -> Address:
        """The address in `models:/NAME`, `models:/NAME@ALIAS` or `models:/NAME/NUMBER`; else `InvalidRequest`."""
        match = _ADDRESS.fullmatch(url)
        if match is None:
            raise InvalidRequest(f"Invalid URL: expected models:/NAME@ALIAS or models:/NAME/NUMBER, got {url!r}")
        return cls(match["name"], match["alias"], match["number"])


class MlflowCredentials(NamedTuple):
    """What a server asks for: a user with a password, or a token. None: nothing."""

    user: str | None = None
    password: str | None = None
    token: str | None = None


class MlflowServer:
    """An MLflow server. Its methods raise `StoreRefused` or `StoreUnavailable` if it does not do what was asked."""

    def __init__(self, url: str | None, credentials: MlflowCredentials, keys: Sequence[str] = ()) -> None:
        """Prepare; nothing is asked yet. `InvalidSetting` if `url`, of MLFLOW_TRACKING_URI, is not that of a server.

        `keys`: see `Store`.
        """
        parts = urlsplit(url or "")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidSetting(
                f"Invalid MLFLOW_TRACKING_URI: expected http:// or https:// of a server, got"
                f" {parts.scheme + '://…' if url else 'none'}"
            )
        basic = (credentials.user, credentials.password or "") if credentials.user else None
        headers = {"Authorization": f"Bearer {credentials.token}"} if credentials.token else {}
        self.keys = keys
        self.netloc = parts.netloc.rpartition("@")[2]
        self.url = f"{parts.scheme}://{self.netloc}"
        transport = httpx.HTTPTransport(retries=N_CONNECTS - 1)
        root = (url or "").rstrip("/") + "/api/2.0"
        self._client = httpx.Client(base_url=root, auth=basic, headers=headers, timeout=TIMEOUT_S, transport=transport)

    def __enter__(self) -> MlflowServer:
        """Return the server itself."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, route: str, **parameters: str) -> Any:
        """The answer to a query; None if what it names is missing."""
        return self.request("GET", route, params=parameters)

    def post(self, route: str, **fields: Any) -> Any:
        """The answer to a change; None if what it names is missing or, to create it, there already."""
        return self.request("POST", route, json=fields)

    def request(self, method: str, route: str, **content: Any) -> Any:
        """The answer of a route; None as for `get` and `post`."""
        with self.response(method, f"/mlflow/{route}", **content) as response:
            response.read()
            try:
                answer = response.json()
                problem = "" if response.is_success else str(answer["error_code"])
            except (ValueError, KeyError, TypeError):
                raise StoreUnavailable(
                    f"{self.url}: expected an answer of MLflow to {route}, got status {response.status_code}"
                ) from None
        # A missing alias is an invalid value in the words of the server.
        is_missing = problem == "INVALID_PARAMETER_VALUE" and route == "registered-models/alias" and method == "GET"
        if is_missing or problem in ("RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS"):
            return None
        if problem:
            raise StoreUnavailable(f"{self.url}: {route} failed: {str(answer.get('message'))[:300]}")
        return answer

    @contextlib.contextmanager
    def response(self, method: str, path: str, **content: Any) -> Iterator[httpx.Response]:
        """The response to a request, as long as it is open; `content` is that of `httpx.Client.stream`."""
        try:
            with self._client.stream(method, path, **content) as response:
                if response.status_code in (401, 403):
                    raise StoreRefused(
                        f"{self.url} does not permit {method} {path}: set MLFLOW_TRACKING_USERNAME and"
                        " MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
                    )
                yield response
        except httpx.HTTPError as error:
            raise StoreUnavailable(f"{self.url}: {method} {path} failed: {error or type(error).__name__}") from None

    @contextlib.contextmanager
    def artifact(self, method: str, path: str, **content: Any) -> Iterator[httpx.Response | None]:
        """The answer to a request for a file among the artifacts; None if there is no such file."""
        with self.response(method, f"/mlflow-artifacts/artifacts/{quote(path)}", **content) as response:
            if response.status_code != 404 and not response.is_success:
                raise StoreUnavailable(
                    f"{self.url}: {method} of an artifact failed with status {response.status_code}; the server needs"
                    " --serve-artifacts"
                )
            yield None if response.status_code == 404 else response


class ArtifactStore:
    """The artifacts below a path that a server sends and takes itself; see `Store` of the object stores."""

    def __init__(self, server: MlflowServer, path: str) -> None:
        self._server, self._path, self.keys = server, path, server.keys
        self.url = f"mlflow-artifacts:/{path}"

    def read(self, name: str, most: int) -> bytes | None:
        """See `Store.read`."""
        with self._server.artifact("GET", f"{self._path}/{name}") as response:
            if response is None:
                return None
            content = bytearray()
            for part in response.iter_bytes(most):
                content += part
                if len(content) > most:
                    raise InvalidRequest(f"Invalid {self.url}/{name}: expected at most {most:,} bytes, got more")
            return bytes(content)

    def fetch(self, name: str, file: IO[bytes], on_bytes: OnBytes) -> str | None:
        """See `Store.fetch`."""
        digest = hashlib.sha256()
        with self._server.artifact("GET", f"{self._path}/{name}") as response:
            if response is None:
                return None
            for part in response.iter_bytes(PART_BYTES):
                digest.update(part)
                file.write(part)
                on_bytes(len(part))
        return digest.hexdigest()

    def write(self, name: str, content: bytes) -> None:
        """See `Store.write`."""
        self._put(name, content, len(content))

    def send(self, name: str, path: Path, on_bytes: OnBytes) -> str:
        """See `Store.send`."""
        digest = hashlib.sha256()
        with files.open_regular(path) as file:

            def parts() -> Iterator[bytes]:
                while part := file.read(PART_BYTES):
                    digest.update(part)
                    on_bytes(len(part))
                    yield part

            self._put(name, parts(), path.stat().st_size)
        return digest.hexdigest()

    def _put(self, name: str, content: bytes | Iterator[bytes], n_bytes: int) -> None:
        headers = {"Content-Length": str(n_bytes)}
        with self._server.artifact("PUT", f"{self._path}/{name}", content=content, headers=headers) as response:
            if response is None:
                raise StoreUnavailable(f"{self.url}: the server takes no artifacts; it needs --serve-artifacts")


def push(
    folder: Path, version: str, server: MlflowServer, to: Address, on_total: OnBytes, on_bytes: OnBytes
) -> tuple[str, bool]:
    """Register a snapshot; return its address, and whether it was missing.

    Args:
        folder, version, on_total, on_bytes: see `snapshot_transfer.push`.
        server: where.
        to: the registered model, which is made if there is none, and the alias to give to the version, if any.

    Raises:
        InvalidRequest: the address has a number.
        CorruptSnapshot, Conflict, StoreRefused, StoreUnavailable: see `snapshot_transfer.push`.
    """
    if to.number is not None:
        raise InvalidRequest(f"Invalid URL: expected models:/NAME or models:/NAME@ALIAS to push to, got /{to.number}")
    snapshot.verify(folder, version)
    digest = files.sha256_of(folder / version / snapshot.MANIFEST_FILE)
    answer = server.get("model-versions/search", filter=f"name='{to.name}' and tags.`{VERSION_TAG}`='{version}'")
    registered = next(iter((answer or {}).get("model_versions", [])), None)
    if registered is not None:
        number = str(registered["version"])
        if {tag["key"]: tag["value"] for tag in registered["tags"]}.get(DIGEST_TAG) != digest:
            raise Conflict(
                f"{PREFIX}{to.name}/{number} is another snapshot of {version}: expected the same content; remove"
                " one of them"
            )
    else:
        server.post("registered-models/create", name=to.name)
        # The files are the artifacts of a new run.
        experiment = experiment_of(server)
        run = server.post("runs/create", experiment_id=experiment, run_name=version, start_time=now_ms())
        run_id, root = run["run"]["info"]["run_id"], run["run"]["info"]["artifact_uri"].rstrip("/")
        try:
            snapshot_transfer.push(folder, version, store_of(server, root), on_total, on_bytes)
            tags = [{"key": VERSION_TAG, "value": version}, {"key": DIGEST_TAG, "value": digest}]
            source = f"{root}/{version}"
            answer = server.post("model-versions/create", name=to.name, source=source, run_id=run_id, tags=tags)
            server.post("runs/update", run_id=run_id, status="FINISHED", end_time=now_ms())
        except Exception:
            with contextlib.suppress(StoreRefused, StoreUnavailable):
                server.post("runs/update", run_id=run_id, status="FAILED", end_time=now_ms())
            raise
        number = str(answer["model_version"]["version"])
    if to.alias is not None:
        server.post("registered-models/alias", name=to.name, alias=to.alias, version=number)
    return f"{PREFIX}{to.name}" + (f"@{to.alias}" if to.alias else f"/{number}"), registered is None


def pull(server: MlflowServer, source: Address, folder: Path, on_bytes: OnBytes) -> str:
    """Fetch a snapshot below `folder`; return its version. Raises what `snapshot_transfer.pull` raises.

    Args:
        server: where the model is registered.
        source: the model, with an alias or a number.
        folder, on_bytes: see `snapshot_transfer.pull`.
    """
    name, alias, number = source
    if alias is not None:
        answer = server.get("registered-models/alias", name=name, alias=alias)
        number = None if answer is None else answer["model_version"]["version"]
    elif number is None:
        raise InvalidRequest(f"Invalid URL: expected {PREFIX}{name}@ALIAS or {PREFIX}{name}/NUMBER, got {PREFIX}{name}")
    answer = number and server.get("model-versions/get-download-uri", name=name, version=number)
    if not answer:
        raise UnknownVersion(
            f"there is no model {PREFIX}{name}{f'@{alias}' if alias else f'/{number}'} at {server.url}"
        )
    root, _, version = answer["artifact_uri"].rstrip("/").rpartition("/")
    return snapshot_transfer.pull(store_of(server, root), version, folder, on_bytes)


def experiment_of(server: MlflowServer) -> str:
    """The id of the experiment, which is made if there is none."""
    answer = server.get("experiments/get-by-name", experiment_name=EXPERIMENT)
    experiment = None if answer else server.post("experiments/create", name=EXPERIMENT)
    if experiment is None:  # it was there, or another process has just made it
        answer = answer or server.get("experiments/get-by-name", experiment_name=EXPERIMENT)
        experiment = (answer or {}).get("experiment")
    if experiment is None:
        raise StoreUnavailable(f"{server.url}: the experiment {EXPERIMENT} can be neither found nor made")
    return str(experiment["experiment_id"])


def store_of(server: MlflowServer, uri: str) -> Store:
    """Where the artifacts are: behind the server, or in an object store that this process reaches itself."""
    parts = urlsplit(uri)
    if parts.scheme == "mlflow-artifacts" and parts.netloc in ("", server.netloc):
        return ArtifactStore(server, unquote(parts.path).strip("/"))
    if parts.scheme in SCHEMES and parts.scheme != "file":
        return ObjectStore(uri, server.keys)
    raise InvalidRequest(
        f"Invalid artifacts of {server.url}: expected an object store, or a server with --serve-artifacts, got {uri}"
    )


def now_ms() -> int:
    """The present time in Unix milliseconds."""
    return int(time.time() * 1000)
