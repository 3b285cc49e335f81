import importlib
import re
import subprocess
import sys

import pytest

from service.base.errors import ServiceError
from tests.house import modules

MODULES = [name for name in modules("service") if name.endswith(".errors")]


def every_error() -> list[type[ServiceError]]:
    """The errors of all rooms; those of the base first."""
    for name in MODULES:
        importlib.import_module(name)
    found: list[type[ServiceError]] = [ServiceError]
    for error in found:
        found += error.__subclasses__()
    return [error for error in dict.fromkeys(found) if error.__module__ in MODULES]


def test_every_room_has_its_errors() -> None:
    assert {error.__module__ for error in every_error()} == set(MODULES)


@pytest.mark.parametrize("error", every_error(), ids=lambda error: error.__name__)
def test_every_error_can_be_shown_as_a_problem(error: type[ServiceError]) -> None:
    assert 400 <= error.status <= 599
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", error.slug)
    assert error.title
    assert error.status != 503 or error.retry_after_s, error


def test_slugs_are_distinct() -> None:
    slugs = [error.slug for error in every_error() if "slug" in vars(error)]
    assert len(slugs) == len(set(slugs))


def test_a_front_knows_the_errors_that_the_engine_sends_it() -> None:
    """It raises them again by the name of their class. Those of extras become the error of a job or of a command."""
    names = [name for name in MODULES if not name.startswith(("service.cli.", "service.extras."))]
    code = f"import sys, service.processes.front_process; assert not set({names!r}) - set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
