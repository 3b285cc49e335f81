"""Object stores by URL: s3://, gs://, az:// and file://, and http:// or https:// to read. Needs the extra `registry`.

Credentials, regions and endpoints come from the stores' own variables, such as AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL,
GOOGLE_APPLICATION_CREDENTIALS or AZURE_STORAGE_ACCOUNT_NAME.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import unquote, urlsplit

from service.base.errors import InvalidRequest, ServiceError, Unavailable
from service.settings.errors import InvalidSetting
from service.storage import files

OnBytes = Callable[[int], None]

READ_ONLY = "http", "https"
SCHEMES = "s3", "gs", "az", "file", *READ_ONLY
PART_BYTES = 8 << 20  # of a file that is sent or received; twelve parts of a file are in memory at most
MAX_PARTS = 9_000  # of a file; S3 takes 10,000
# Without a byte for so long a request has failed; there is no other bound, because files may be long.
TIMEOUTS = {"read_timeout": timedelta(seconds=60), "timeout": timedelta(days=1)}
RETRIES = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
_VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


class StoreRefused(ServiceError):
    """A store does not permit the request."""

    status, slug, title = 502, "store-refused", "Store refused"


class StoreUnavailable(Unavailable):
    """A store cannot be reached, or fails."""

    slug, title, retry_after_s = "store-unavailable", "Store unavailable", 30


class Store(Protocol):
    """A place for files by name; names may have slashes.

    Attributes:
        url: where it is, without secrets.
        keys: that sign manifests (`snapshot_transfer`), the first of which signs; empty: nothing is signed or checked.
    """

    url: str
    keys: Sequence[str]

    def read(self, name: str, most: int) -> bytes | None:
        """The content of a small file; None if there is none. `InvalidRequest` if it has more than `most` bytes."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write a small file: readers see all of it or nothing."""
        ...

    def fetch(self, name: str, file: IO[bytes], on_bytes: OnBytes) -> str | None:
        """Write the content of a file to `file`, in parts, and return its SHA-256; None if there is none."""
        ...

    def send(self, name: str, path: Path, on_bytes: OnBytes) -> str:
        """Write a file from `path`, in parts, and return the SHA-256 of what was sent."""
        ...


class ObjectStore:
    """The files below a URL. Each method raises `StoreRefused` or `StoreUnavailable`, after retries, if it fails."""

    def __init__(self, url: str, keys: Sequence[str] = ()) -> None:
        """Prepare; nothing is asked yet. `keys`: see `Store`.

        Raises:
            InvalidRequest: `url` cannot be used.
            InvalidSetting: the extra is not installed.
        """
        check_url(url)
        self.url, self.keys = url.rstrip("/"), keys
        self._scheme, self._folder = urlsplit(url).scheme, Path(unquote(urlsplit(self.url).path))
        variables = _VARIABLES.get(self._scheme)
        self._hint = f" (credentials come from the environment, such as {variables})" if variables else ""
        self._library = library_named("obstore")
        stores = library_named("obstore.store")
        try:
            self._store: Any = None  # of a folder only while there is one, which somebody may make at any time
            if self._scheme != "file":
                options = TIMEOUTS | {"allow_http": True}  # it is used only if a URL or an endpoint says so
                self._store = stores.from_url(self.url, client_options=options, retry_config=RETRIES)
        except (self._library.exceptions.BaseError, ValueError) as error:
            raise InvalidRequest(f"Invalid URL {self.url}: {first_line(error)}{self._hint}") from None

    @property
    def _has_store(self) -> bool:
        if self._store is None and self._folder.is_dir():
            self._store = library_named("obstore.store").LocalStore(self._folder)
        return self._store is not None

    def read(self, name: str, most: int) -> bytes | None:
        """See `Store.read`."""
        if (parts := self._parts(name)) is None:
            return None
        content = bytearray()
        for part in parts:
            content += part
            if len(content) > most:
                raise InvalidRequest(f"Invalid {self.url}/{name}: expected at most {most:,} bytes, got more")
        return bytes(content)

    def fetch(self, name: str, file: IO[bytes], on_bytes: OnBytes) -> str | None:
        """See `Store.fetch`."""
        if (parts := self._parts(name)) is None:
            return None
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
            file.write(part)
            on_bytes(len(part))
        return digest.hexdigest()

    def write(self, name: str, content: bytes) -> None:
        """See `Store.write`."""
        self._put(name, content, use_multipart=False)

    def send(self, name: str, path: Path, on_bytes: OnBytes) -> str:
        """See `Store.send`."""
        digest = hashlib.sha256()
        with files.open_regular(path) as file:
            n_bytes = path.stat().st_size
            part_bytes = max(PART_BYTES, -(-n_bytes // MAX_PARTS))

            def parts() -> Iterator[bytes]:
                while part := file.read(part_bytes):
                    digest.update(part)
                    on_bytes(len(part))
                    yield part

            self._put(name, parts(), chunk_size=part_bytes, use_multipart=n_bytes > part_bytes)
        return digest.hexdigest()

    def names(self, prefix: str) -> list[str]:
        """All files below `prefix`, in no order. Raises `StoreRefused` or `StoreUnavailable`."""
        if not self._has_store:
            return []
        paths: list[str] = []
        with self._explained(prefix, "list"):
            for part in self._library.list(self._store, prefix):
                paths += [entry["path"] for entry in part]
        return paths

    def remove(self, names: Sequence[str]) -> None:
        """Remove files, of which some may have gone already. Raises what `names` raises."""
        for name in names if self._has_store else ():
            with self._explained(name, "remove"), contextlib.suppress(FileNotFoundError):
                self._library.delete(self._store, name)

    @property
    def is_reachable(self) -> bool:
        """Whether its folder exists; a store of another kind is reachable as far as is known here."""
        return self._scheme != "file" or self._folder.is_dir()

    def _parts(self, name: str) -> Iterator[memoryview] | None:
        """The content of a file in parts; None if there is none."""
        if not self._has_store:
            return None
        with self._explained(name, "read"):
            try:
                stream = iter(self._library.get(self._store, name).stream(min_chunk_size=PART_BYTES))
            except FileNotFoundError:
                return None

        def parts() -> Iterator[memoryview]:
            while True:
                with self._explained(name, "read"):
                    part = next(stream, None)
                if part is None:
                    return
                yield memoryview(part)

        return parts()

    def _put(self, name: str, content: Any, **options: Any) -> None:
        if self._scheme in READ_ONLY:
            raise InvalidRequest(f"Invalid URL {self.url}: expected s3://, gs://, az:// or file:// to write, got HTTP")
        if not self._has_store:
            self._folder.mkdir(parents=True, exist_ok=True)
        with self._explained(name, "write"):
            assert self._has_store  # noqa: S101 (the folder is there)
            try:
                self._library.put(self._store, name, content, **options)
            except FileNotFoundError as error:
                raise InvalidRequest(
                    f"Invalid URL {self.url}: expected a bucket or container that exists: {first_line(error)}"
                ) from None

    @contextlib.contextmanager
    def _explained(self, name: str, verb: str) -> Iterator[None]:
        """Turn errors of the library into ours."""
        errors = self._library.exceptions
        try:
            yield
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
            raise StoreRefused(
                f"{self.url} does not permit to {verb} {name}{self._hint}: {first_line(error)}"
            ) from None
        except errors.BaseError as error:
            raise StoreUnavailable(f"{self.url}/{name}: cannot {verb} it{self._hint}: {first_line(error)}") from None


def check_url(url: str) -> None:
    """Check the form of a URL.

    Raises:
        InvalidRequest: it cannot be used. The message repeats no password.
    """
    try:
        parts = urlsplit(url)
        has_secret = "@" in parts.netloc or bool(parts.query or parts.fragment)
    except ValueError as error:
        raise InvalidRequest(f"Invalid URL: {error}") from None
    if parts.scheme not in SCHEMES:
        expected = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise InvalidRequest(f"Invalid URL: expected {expected} or models:/, got {parts.scheme or 'no scheme'}")
    if has_secret:
        raise InvalidRequest(
            f"Invalid URL {parts.scheme}://…: expected no user, password, query or fragment, got one; credentials come"
            " from the environment"
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise InvalidRequest(f"Invalid URL: expected file:///PATH, a path from the root, got {url}")
    if parts.scheme != "file" and not parts.netloc:
        raise InvalidRequest(f"Invalid URL: expected {parts.scheme}://BUCKET/PREFIX, got {url}")


def ignore(n_bytes: int) -> None:
    """For `OnBytes` where nobody waits for a figure."""


def first_line(error: Exception) -> str:
    """What the library says for people: a dump of its state follows."""
    return str(error).split("\n\nDebug source", 1)[0].strip()


def library_named(name: str) -> Any:
    """A module of the extra; raises `InvalidSetting` if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InvalidSetting(
            "Invalid installation: expected the extra registry for s3://, gs://, az://, file:// and http://, got none:"
            " pip install '.[registry]' in a checkout of Nearfield"
        ) from None
