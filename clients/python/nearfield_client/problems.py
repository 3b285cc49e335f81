"""`NearfieldError`: why a request failed."""

from __future__ import annotations

import contextlib
import time
from email.utils import parsedate_to_datetime

import httpx

from nearfield_client.generated.models import ProblemDocument

SHOWN = 200  # characters of an answer that is none of the service


class NearfieldError(Exception):
    """A request failed: the service refused it, or did not answer it. A job can fail too.

    Attributes:
        status: the status of HTTP; None if no answer came.
        title, detail: what happened, in general and in this case.
        slug: the stable name of the problem, such as `unknown-user`; empty if the service has not named one.
        retry_after: seconds after which another attempt makes sense; None if the answer does not say.
        problem: all that the service says; None if it has said nothing.
    """

    def __init__(
        self,
        status: int | None,
        title: str,
        detail: str,
        *,
        retry_after: float | None = None,
        problem: ProblemDocument | None = None,
    ) -> None:
        super().__init__(f"{title}: {detail}" if status is None else f"{status} {title}: {detail}")
        self.status, self.title, self.detail = status, title, detail
        self.slug = "" if problem is None else problem.type_.rpartition(":")[2]
        self.retry_after, self.problem = retry_after, problem


def refusal(response: httpx.Response) -> NearfieldError:
    """The error of an answer that is no success; one without a problem document comes for example from a proxy."""
    retry_after = retry_after_s(response)
    try:
        problem = ProblemDocument.from_dict(response.json())
    except (ValueError, TypeError):
        title = response.reason_phrase or "Refused"
        detail = f"expected a problem document of the service, got {response.text[:SHOWN]!r}"
        return NearfieldError(response.status_code, title, detail, retry_after=retry_after)
    return NearfieldError(response.status_code, problem.title, problem.detail, retry_after=retry_after, problem=problem)


def retry_after_s(response: httpx.Response) -> float | None:
    """Retry-After, which is a number of seconds or a date; None if it is missing or neither."""
    text = response.headers.get("Retry-After", "")
    if text.isdecimal():
        return float(text)
    with contextlib.suppress(ValueError, TypeError):  # TypeError: for no date, before Python 3.10
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return None
