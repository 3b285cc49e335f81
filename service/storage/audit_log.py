"""`AuditLog`: what was done with the rights of an admin, in `DATA/audit/`, for every process that shares DATA.

A line of JSON for each action, and the oldest first. A file holds the entries of a month, `2026-11-0001.ndjson`, and a
long month has several. Lines are only appended, under a lock. Beyond a bound the oldest file is removed.
"""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
import structlog

from service.base.errors import InvalidRequest
from service.storage import files
from service.storage.files import FileLock

FOLDER, SUFFIX = "audit", ".ndjson"
N_FILES = 8  # that the bound is divided into, at least; the oldest entries go by a file
MAX_TEXT = 200  # characters of each field; the service keeps no long text that a client chooses
MAX_LINE = 1 << 13  # bytes; JSON escapes a character of five such fields with at most six
_LOCK = ".lock"
_CURSOR = re.compile(r"(20\d\d-(?:0[1-9]|1[0-2])-(?!0000)\d{4}):(0|[1-9]\d{0,11})", re.ASCII)
_log = structlog.get_logger(__name__)


class AuditEntry(msgspec.Struct):
    """One action.

    Attributes:
        at: when it ended, of ISO 8601 in UTC.
        action: id of the operation of the API, `sign_in`, `sign_out`, or the command.
        outcome: done; refused (no key, a wrong one, one without the right, or too many requests); or failed.
        via: api, console or cli.
        status: of the HTTP answer; null for a command.
        object: what the action was on, such as `job 7008c696f6c7`; null: the service, or a user, whom no entry names.
        key: id of the key: that of a made one, or the name of its setting; null: none, or a wrong one.
        account: of the system, that has run a command; else null.
        address: of the client; null for a command.
        request_id: as in the answer and in the other log lines; null for a command.
        data_set: on which it was.
        left_out: refusals since the entry before that are in no entry, because there were too many.
    """

    at: str
    action: str
    outcome: Literal["done", "refused", "failed"]
    via: Literal["api", "console", "cli"]
    status: int | None = None
    object: str | None = None
    key: str | None = None
    account: str | None = None
    address: str | None = None
    request_id: str | None = None
    data_set: str = "default"
    left_out: int = 0


class AuditPage(msgspec.Struct):
    """A page of the audit log.

    Attributes:
        entries: newest first.
        next: cursor of the page of older ones; null: there are none.
    """

    entries: list[AuditEntry]
    next: str | None


def now() -> str:
    """The present time, as entries have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class AuditLog:
    """The audit log of a data set.

    Args:
        data: its folder.
        max_bytes: of all files.
    """

    def __init__(self, data: Path, max_bytes: int) -> None:
        self._folder, self._max_bytes = data / FOLDER, max_bytes

    def append(self, entry: AuditEntry) -> None:
        """Append an entry; it is on disk on return.

        Raises:
            LockTimeout: another process holds the lock for too long.
            OSError: the disk is full or broken.
        """
        # Characters that UTF-8 has not, as in names of files, become question marks.
        texts = {name: getattr(entry, name) for name in ("object", "key", "account", "address", "request_id")}
        short = {name: text[:MAX_TEXT].encode("utf-8", "replace").decode() for name, text in texts.items() if text}
        line = msgspec.json.encode(msgspec.structs.replace(entry, **short)) + b"\n"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock.take(self._folder / _LOCK):
            # The newest file, or the next one, if there is a new month or the file has its share of the bound.
            month, paths = time.strftime("%Y-%m", time.gmtime()), self._files()
            if not paths or paths[-1].stem[:7] < month:
                path = self._folder / f"{month}-0001{SUFFIX}"
            elif (newest := paths[-1]).stat().st_size + len(line) <= self._max_bytes // N_FILES:
                path = newest
            else:
                path = self._folder / f"{newest.stem[:8]}{int(newest.stem[8:]) + 1:04}{SUFFIX}"
            is_new = not path.exists()
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                if size and os.pread(descriptor, 1, size - 1) != b"\n":  # a crash has torn the last line
                    line = b"\n" + line
                if os.write(descriptor, line) < len(line):
                    raise OSError(f"{path}: the disk has taken only a part of a line")
                files.fsync(descriptor)
            finally:
                os.close(descriptor)
            if is_new:
                files.sync(self._folder)
                # Keep the bound, with a new file that may grow to its share.
                *older, _ = self._files()
                sizes = {old: old.stat().st_size for old in older}
                while sizes and sum(sizes.values()) + self._max_bytes // N_FILES > self._max_bytes:
                    oldest = min(sizes)
                    oldest.unlink()
                    n_bytes = sizes.pop(oldest)
                    _log.warning("the oldest entries of the audit log are removed", file=str(oldest), bytes=n_bytes)

    def page(self, n: int, cursor: str | None = None) -> AuditPage:
        """The newest `n` entries, or those before a cursor: the name of a file, and the byte at which a line begins.

        Raises:
            InvalidRequest: it is no cursor of this log.
        """
        paths, end = self._files()[::-1], None
        refusal = InvalidRequest(
            f"Invalid cursor: expected `next` of a page of the audit log, got {(cursor or '')[:64]!r}"
        )
        if cursor:
            match = _CURSOR.fullmatch(cursor)
            # Its file is here, or was the oldest one and is removed.
            if match is None or not paths or paths[-1].stem < match[1] not in {path.stem for path in paths}:
                raise refusal
            paths, end = [path for path in paths if path.stem <= match[1]], int(match[2])
        entries: list[AuditEntry] = []
        for path in paths:
            try:
                regular_file = files.open_regular(path)
            except FileNotFoundError:  # it was the oldest
                continue
            with regular_file as file:
                size = os.fstat(file.fileno()).st_size
                if end is None:
                    end = size
                elif end > size or (end and os.pread(file.fileno(), 1, end - 1) != b"\n"):
                    raise refusal
                begin = max(0, end - (n - len(entries) + 1) * MAX_LINE)
                file.seek(begin)
                text = file.read(end - begin)
            # Line by line from the end, without one that is just being written.
            stop, end = text.rfind(b"\n") + 1, None
            while stop:
                start = text.rfind(b"\n", 0, stop - 1) + 1
                if start == 0 and begin > 0:
                    break
                try:
                    entries.append(msgspec.json.decode(text[start:stop], type=AuditEntry))
                except msgspec.MsgspecError:  # a crash has torn it, or somebody has altered it: an auditor must see it
                    entries.append(AuditEntry(at="", action="unreadable line", outcome="failed", via="api"))
                if len(entries) == n:
                    return AuditPage(entries, f"{path.stem}:{begin + start}")
                stop = start
        return AuditPage(entries, None)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{SUFFIX}"))
