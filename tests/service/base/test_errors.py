from __future__ import annotations

import re

from service.base import errors


def every_error() -> list[type[errors.ServiceError]]:
    return [value for value in vars(errors).values() if isinstance(value, type)]


def test_the_tree_in_the_docstring_names_every_error() -> None:
    drawn = set(re.findall(r"[A-Z]\w+[a-z]\w+", (errors.__doc__ or "").split("\n\n", 1)[1]))
    assert {error.__name__ for error in every_error()} <= drawn


def test_every_error_can_be_shown_as_a_problem() -> None:
    for error in every_error():
        assert 400 <= error.status <= 599
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", error.slug)
        assert error.title
        assert error.status != 503 or error.retry_after_s, error


def test_slugs_are_distinct() -> None:
    slugs = [error.slug for error in every_error()]
    assert len(slugs) == len(set(slugs))


def test_a_running_job_is_named() -> None:
    assert errors.JobRunning("abc").job_id == "abc"
    assert "abc" in str(errors.JobRunning("abc"))
