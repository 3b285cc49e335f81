"""`answer`: the result of a generated function, or an error with the problem document."""

from __future__ import annotations

from typing import TypeVar

import httpx

from nearfield_client.generated.models import ProblemDocument

T = TypeVar("T")


class RequestFailed(Exception):
    """The service refused a request.

    Attributes:
        problem: what the service says; None if the answer is not one that its API describes.
        slug: the stable name of the problem, such as `unknown-user`; empty without a problem.
    """

    def __init__(self, problem: ProblemDocument | None) -> None:
        said = "no answer that the API describes" if problem is None else f"{problem.title}: {problem.detail}"
        super().__init__(said if problem is None else f"{problem.status} {said}")
        self.problem = problem
        self.slug = "" if problem is None else problem.type_.rpartition(":")[2]


class UnexpectedStatus(Exception):
    """An operation got neither an answer of the service nor a problem, and its client was made to raise this.

    Attributes:
        status_code, content: what came.
    """

    def __init__(self, status_code: int, content: bytes) -> None:
        super().__init__(f"{status_code} {content.decode(errors='ignore')}")
        self.status_code, self.content = status_code, content


def problem_in(response: httpx.Response) -> ProblemDocument | None:
    """The problem that a refusal says; None if something else came, for example from a proxy."""
    try:
        return ProblemDocument.from_dict(response.json())
    except (ValueError, TypeError):
        return None


def answer(given: T | ProblemDocument | None) -> T:
    """What a generated function returned.

    Raises:
        RequestFailed: it is a problem, or nothing.
    """
    if given is None or isinstance(given, ProblemDocument):
        raise RequestFailed(given)
    return given
