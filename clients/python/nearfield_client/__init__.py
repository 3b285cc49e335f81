"""A client of Nearfield: functions and types generated from its OpenAPI document, and what every client needs.

Pass a `Nearfield` as `client` to the functions in `nearfield_client.generated.api`: it repeats what may be repeated,
and reads what it has written. `answer` turns refusals into errors, `each` reads page by page, `Batch` writes batches.
"""

from nearfield_client.batches import Batch
from nearfield_client.model import UNSET, Unset
from nearfield_client.operation import Response
from nearfield_client.pages import each
from nearfield_client.problems import RequestFailed, UnexpectedStatus, answer
from nearfield_client.session import Nearfield

__all__ = [
    "UNSET",
    "Batch",
    "Nearfield",
    "RequestFailed",
    "Response",
    "UnexpectedStatus",
    "Unset",
    "answer",
    "each",
]
