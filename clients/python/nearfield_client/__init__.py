"""A client of Nearfield: functions and types generated from its OpenAPI document, and what every client needs.

`Nearfield` and `AsyncNearfield` have the methods that most programs need. They repeat what may be repeated, and read
what they have written. Either is the `client` of the functions in `nearfield_client.generated.api`, which reach every
route: `each` reads page by page, `Batch` writes batches. All of them raise `NearfieldError`.
"""

from nearfield_client.batches import Batch
from nearfield_client.nearfield import AsyncNearfield, Nearfield
from nearfield_client.operation import Response
from nearfield_client.pages import each
from nearfield_client.problems import NearfieldError

__all__ = ["AsyncNearfield", "Batch", "Nearfield", "NearfieldError", "Response", "each"]
