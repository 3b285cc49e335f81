"""`answer`: the result of a generated function, or an error with the problem document."""

from __future__ import annotations

from typing import TypeVar

from nearfield_client.generated.models.problem_document import ProblemDocument

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


def answer(given: T | ProblemDocument | None) -> T:
    """What a generated function returned.

    Raises:
        RequestFailed: it is a problem, or nothing.
    """
    if given is None or isinstance(given, ProblemDocument):
        raise RequestFailed(given)
    return given
