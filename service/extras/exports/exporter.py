"""The process behind exports, of all or of one user: writes one to stdout. Its memory is free when it ends.

It has a low priority, so that a service on the same machine goes first. When nobody reads its output any more, it
ends with the next write. Try `python -m service.extras.exports.exporter --help`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import get_args
from urllib.parse import unquote

from service.base import imports, tuning
from service.base.errors import ServiceError
from service.extras.exports.export_formats import Format, write
from service.jobs.export_rows import What, rows_of, rows_of_user
from service.storage.events import StreamId
from service.storage.log.rating_log import RatingLog
from service.telemetry import logs

# More than that of the service, which goes first. At 19 an export beside busy processes kept its client waiting
# for more than 10 s.
NICENESS = 10


def main(arguments: list[str] | None = None) -> int:
    """Export by the options; exit status 0 if all was written."""
    parser = argparse.ArgumentParser(prog="service.extras.exports.exporter", description=main.__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with ratings/")
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("--what", choices=get_args(What))
    either.add_argument("--user", type=unquote, help="all rows of one user; the id is percent-encoded")
    parser.add_argument("--format", choices=get_args(Format), required=True)
    parser.add_argument("--upto", type=StreamId.parse, required=True, help="stream id of the last entry")
    options = parser.parse_args(arguments)
    tuning.go_after_others(NICENESS)
    tuning.prefer_as_victim(tuning.TRAINER_OOM_SCORE)
    imports.for_models()
    try:
        log = RatingLog.of(options.data)
        if options.user is None:
            exported = rows_of(log, options.what, options.upto)
        else:
            exported = rows_of_user(log, options.user, options.upto)
        with os.fdopen(sys.stdout.fileno(), "wb", closefd=False) as file:
            write(exported, str(options.upto), options.format, file)
    except BrokenPipeError:  # the reader has gone
        return 1
    except (ServiceError, OSError) as error:
        sys.stderr.write(f"{' '.join(str(error).split())}\n")
        return 1
    return 0


if __name__ == "__main__":
    logs.to_stderr_alone()
    status = main()
    sys.stderr.flush()
    os._exit(status)  # threads of Arrow that read ahead can abort a process whose interpreter ends
