"""The generated parts of the clients are what the generator makes of the document that the service serves."""

import ast
import importlib
import json
import tomllib
from typing import Any

import pytest
from nearfield_client.operation import Operation

import service
from clients import generate
from tests.clients import oldest

MOST_LINES, LONGEST_LINE = 5_440, 120
FOLDERS = (generate.GENERATED_PYTHON, generate.GENERATED_TYPESCRIPT)
DOCUMENT = generate.document()


def test_they_are_what_the_service_describes() -> None:
    """It needs no tool of others: no change of a route or a schema can leave the clients behind."""
    made = generate.files(DOCUMENT)
    there = {path for folder in FOLDERS for path in folder.rglob("*.*") if path.suffix in {".py", ".ts"}}
    assert there == made.keys(), "run `make clients`"
    assert [path.name for path, text in made.items() if path.read_text("utf-8") != text] == [], "run `make clients`"


def test_they_can_be_read() -> None:
    lines = [line for text in generate.files(DOCUMENT).values() for line in text.splitlines()]
    assert len(lines) <= MOST_LINES
    assert [line for line in lines if len(line) > LONGEST_LINE] == []


@pytest.mark.parametrize(
    ("method", "path", "operation"),
    [
        (method, path, operation)
        for path, operations in DOCUMENT["paths"].items()
        for method, operation in operations.items()
    ],
    ids=lambda part: part["operationId"] if isinstance(part, dict) else "",
)
def test_each_operation_has_its_parameters_and_says_what_they_mean(
    method: str, path: str, operation: dict[str, Any]
) -> None:
    module = importlib.import_module(f"nearfield_client.generated.api.{operation['tags'][0]}")
    made = getattr(module, operation["operationId"])
    assert isinstance(made, Operation)
    parameters = operation.get("parameters", [])
    wanted = {one["name"].lower().replace("-", "_") for one in parameters} | {"client"}
    wanted |= {"body"} if "requestBody" in operation else set()
    assert {name.removesuffix("_") for name in made.parameters} == wanted
    assert made.method == method.upper()
    assert made.path.replace("_}", "}") == path
    text = " ".join((made.__doc__ or "").split())
    for said in (operation["description"], *(one.get("description", "") for one in parameters)):
        assert " ".join(said.split()) in text


def test_each_schema_has_its_fields() -> None:
    models = importlib.import_module("nearfield_client.generated.models")
    for name, schema in DOCUMENT["components"]["schemas"].items():
        if "properties" in schema:
            names = set(getattr(models, name).__dataclass_fields__) - {"additional_properties"}
            assert {field.removesuffix("_") for field in names} == set(schema["properties"]), name


def test_the_python_client_is_written_for_the_oldest_python_that_it_names() -> None:
    """`make lint` looks for what this version lacks, and a workflow runs `oldest.py` on it."""
    project = tomllib.loads((generate.PYTHON / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["requires-python"] == ">=3.9"
    assert project["tool"]["ruff"]["target-version"] == "py39"
    for path in (generate.PYTHON / "nearfield_client").rglob("*.py"):
        ast.parse(path.read_text("utf-8"), str(path), feature_version=(3, 9))
    assert oldest.read() > 150


def test_both_have_the_version_of_the_service() -> None:
    project = tomllib.loads((generate.PYTHON / "pyproject.toml").read_text("utf-8"))["project"]
    package = json.loads((generate.TYPESCRIPT / "package.json").read_text("utf-8"))
    assert {project["version"], package["version"]} == {service.__version__}


def test_both_bring_the_license_that_they_name() -> None:
    """Tools pack a file of this name, but only from the folder of the client."""
    text = (generate.PYTHON.parents[1] / "LICENSE").read_text("utf-8")
    for folder in (generate.PYTHON, generate.TYPESCRIPT):
        assert (folder / "LICENSE").read_text("utf-8") == text
