"""`nearfield export`: writes ratings, events, items or all of one user to a file, from a service or from its folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from service.base.errors import InvalidRequest
from service.cli.client import Client, segment
from service.engine.errors import UnknownUser
from service.extras.exports.export_formats import SUFFIXES, Format, write
from service.jobs.export_rows import What, rows_of, rows_of_user
from service.storage import files
from service.storage.log.rating_log import RatingLog

AS_OF = "X-As-Of"  # header of the position
OnBytes = Callable[[int], None]


def format_of(path: Path, name: str | None) -> Format:
    """The format of that name, else the one of the suffix.

    Raises:
        InvalidRequest: there is no format of that name, or no name and none of that suffix, such as .csv or .gz.
    """
    if name is None:
        if (suffix := path.suffix.lower()) not in SUFFIXES:
            raise InvalidRequest(
                "Invalid --out: expected a name that ends with .ndjson, .parquet or .arrow, or --format,"
                f" got {path.name!r}"
            )
        return SUFFIXES[suffix]
    if name not in set(SUFFIXES.values()):
        raise InvalidRequest(f"Invalid --format: expected ndjson, parquet or arrow, got {name!r}")
    return name


def check_what(name: str) -> What:
    """`name` if something is called so.

    Raises:
        InvalidRequest: nothing is.
    """
    if name not in ("ratings", "events", "items"):
        raise InvalidRequest(f"Invalid --what: expected ratings, events or items, got {name!r}")
    return name  # type: ignore[return-value]


def from_service(client: Client, what: What, user: str | None, format_: Format, out: Path, on_bytes: OnBytes) -> str:
    """Write what a service exports, of one user if `user` is given, to `out`; return its position.

    The file appears once it is complete.

    Raises:
        RequestFailed: the service refuses, or the connection breaks.
        OSError: the file cannot be written.
    """
    with files.new_file(out) as file:
        if user is None:
            return client.download("/admin/export", file.write, on_bytes, what=what, format=format_)[AS_OF]
        return client.download(f"/admin/users/{segment(user)}/export", file.write, on_bytes, format=format_)[AS_OF]


def from_folder(
    data: Path, what: What, user: str | None, format_: Format, out: Path, on_rows: Callable[[int, int | None], None]
) -> str:
    """Write what the rating log of a folder has to `out`, which appears once it is complete; return its position.

    Ratings that only Redis has are missing: the newest ten seconds of a running service.

    Args:
        data: the folder of the service, which may be running or not.
        what, format_: see `service.jobs.export_rows` and `service.extras.exports.export_formats`.
        user: write all rows of this user instead of `what`.
        out: the file.
        on_rows: called with the rows of each batch, and the number of all, if it is known.

    Raises:
        UnknownUser: the log has nothing of this user.
        CorruptLog: a segment is torn or altered.
        OSError: the file cannot be written.
    """
    log = RatingLog.of(data)
    upto = log.last_id()
    exported = rows_of(log, what, upto) if user is None else rows_of_user(log, user, upto)
    with files.new_file(out) as file:
        n_rows = write(exported, str(upto), format_, file, lambda n: on_rows(n, exported.n_rows))
        if user is not None and not n_rows:
            raise UnknownUser(f"the log of {data} has nothing of user {user!r}")
    return str(upto)
