"""The generated parts of the clients are what the generators make of the document that the service serves."""

from __future__ import annotations

import filecmp
import json
import tomllib
from pathlib import Path

import pytest

import service
from clients import generate


def test_the_copy_of_the_document_is_that_of_the_service() -> None:
    """It needs no generator: no change of a route or a schema can leave the clients behind."""
    assert generate.DOCUMENT.read_text("utf-8") == generate.text_of(generate.document()), "run `make clients`"


def test_both_have_the_version_of_the_service() -> None:
    project = tomllib.loads((generate.PYTHON / "pyproject.toml").read_text("utf-8"))["project"]
    package = json.loads((generate.TYPESCRIPT / "package.json").read_text("utf-8"))
    assert {project["version"], package["version"]} == {service.__version__}


def test_both_bring_the_license_that_they_name() -> None:
    """Tools pack a file of this name, but only from the folder of the client."""
    text = (generate.PYTHON.parents[1] / "LICENSE").read_text("utf-8")
    for folder in (generate.PYTHON, generate.TYPESCRIPT):
        assert (folder / "LICENSE").read_text("utf-8") == text


def test_the_python_client_is_what_the_generator_makes(tmp_path: Path) -> None:
    if generate.tool(generate.PYTHON_TOOL) is None:
        pytest.skip(f"missing: {generate.PYTHON_TOOL}; `make clients` installs it")
    generate.write_python(tmp_path / "generated")
    names = {path.relative_to(tmp_path / "generated") for path in (tmp_path / "generated").rglob("*.py")}
    committed = {path.relative_to(generate.GENERATED_PYTHON) for path in generate.GENERATED_PYTHON.rglob("*.py")}
    assert len(names) > 100
    assert names == committed
    _, differing, unreadable = filecmp.cmpfiles(
        tmp_path / "generated", generate.GENERATED_PYTHON, map(str, names), shallow=False
    )
    assert (differing, unreadable) == ([], []), "run `make clients`"


def test_the_typescript_types_are_what_the_generator_makes(tmp_path: Path) -> None:
    if generate.tool(generate.TYPESCRIPT_TOOL) is None:
        pytest.skip(f"missing: {generate.TYPESCRIPT_TOOL}; `make clients` installs it")
    generate.write_typescript(tmp_path / "openapi.ts")
    made = (tmp_path / "openapi.ts").read_text("utf-8")
    assert made.count("\n") > 1000
    assert made == generate.GENERATED_TYPESCRIPT.read_text("utf-8"), "run `make clients`"
