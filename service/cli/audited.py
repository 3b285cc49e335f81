"""`audited`: notes a command that acts on a data folder in the audit log of this folder."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
from collections.abc import Iterator

from service.settings import data_sets
from service.settings.settings import Settings
from service.storage import audit_log
from service.storage.audit_log import AuditEntry, AuditLog


@contextlib.contextmanager
def audited(settings: Settings, action: str, about: str) -> Iterator[None]:
    """Note a command when the block ends, well or not; nothing if the folder is none of a service.

    Args:
        settings: of the data set.
        action: the command.
        about: what it acts on, such as `file /backups/monday.tar`.

    Raises:
        LockTimeout, OSError: the entry cannot be written, so that the command has failed too.
    """
    is_done = False
    try:
        yield
        is_done = True
    finally:
        if (settings.data / "ratings").is_dir():
            account = str(os.getuid())  # in containers it may have no name
            with contextlib.suppress(KeyError):
                account = pwd.getpwuid(os.getuid()).pw_name
            entry = AuditEntry(
                at=audit_log.now(),
                action=action,
                outcome="done" if is_done else "failed",
                via="cli",
                object=about,
                account=account,
                data_set=settings.data_set or data_sets.DEFAULT,
            )
            AuditLog(settings.data, settings.audit_max_bytes).append(entry)


def shown(url: str) -> str:
    """A URL without what may be a secret in it: a password, or a signature in its query."""
    return re.sub(r"//[^/@]*@", "//", url.partition("?")[0])
