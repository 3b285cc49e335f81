"""Writes the generated parts of the clients for `make clients`. Tests compare them with the service's OpenAPI document.

`openapi.json` is this document without what clients do without: examples, bodies in lines (they send arrays), null as a
parameter (they leave it out), and defaults of what a request may leave out. A client that knew the defaults would send
them, and the service could not tell them from a choice: a scenario counts only where a request names no field.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from service.api.app import application
from service.processes.front_serving import FrontServing
from service.processes.link import by_socket
from service.processes.parts import parts
from service.settings.settings import Settings

CLIENTS = Path(__file__).parent
DOCUMENT = CLIENTS / "openapi.json"
PYTHON = CLIENTS / "python"
GENERATED_PYTHON = PYTHON / "nearfield_client" / "generated"
TYPESCRIPT = CLIENTS / "typescript"
GENERATED_TYPESCRIPT = TYPESCRIPT / "src" / "generated" / "openapi.ts"
PYTHON_TOOL, TYPESCRIPT_TOOL, COMPILER = "openapi-python-client", "openapi-typescript", "tsc"
# Where `make clients` installs the tools, and where else they may be.
TOOLS = (Path(sys.prefix) / "clients" / "bin", TYPESCRIPT / "node_modules" / ".bin", *os.get_exec_path())
LEFT_OUT = {"example", "examples", "default"}
LINES = "application/x-ndjson"
NAMES = {"properties", "schemas"}  # their keys are names of fields and schemas, not words of the document


def document() -> dict[str, Any]:
    """The document that clients are made from, of a service with keys for all routes."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder), api_key="a-key-for-reading", admin_key="a-key-for-admins")
        app = application(
            FrontServing(settings, by_socket(Path(folder) / "engine.sock"), "front-1"), extras=parts().routes
        )
        prepared: dict[str, Any] = _prepared(app.openapi())
    for operations in prepared["paths"].values():
        for operation in operations.values():
            operation.get("requestBody", {"content": {}})["content"].pop(LINES, None)
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _not_null(parameter["schema"])
    return prepared


def _prepared(node: Any, *, are_names: bool = False) -> Any:
    if isinstance(node, list):
        return [_prepared(child) for child in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if are_names or key not in LEFT_OUT}
    return {key: _prepared(value, are_names=not are_names and key in NAMES) for key, value in kept.items()}


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter that may be null, without this alternative."""
    kinds = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    others = {key: value for key, value in schema.items() if key != "anyOf"}
    return others | kinds[0] if len(kinds) == 1 else schema


def text_of(made: dict[str, Any]) -> str:
    """A document as the text of a file, with a line for each value, so that changes are easy to see."""
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def tool(name: str) -> str | None:
    """The path of a generator; None if it is not installed."""
    return shutil.which(name, path=os.pathsep.join(map(str, TOOLS)))


def write_python(target: Path) -> None:
    """Write the package of generated code to `target`; what is there goes."""
    _run(
        PYTHON_TOOL,
        *("generate", "--meta", "none", "--overwrite", "--fail-on-warning"),
        *("--path", DOCUMENT, "--config", PYTHON / "generator.yml", "--output-path", target),
    )


def write_typescript(target: Path) -> None:
    """Write the types to the file `target`."""
    _run(TYPESCRIPT_TOOL, DOCUMENT, "--output", target)


def _run(name: str, *arguments: object) -> None:
    found = tool(name)
    if found is None:
        raise SystemExit(f"Invalid installation: expected {name}, got none: make clients")
    # The Python generator calls the ruff that is beside it.
    environment = os.environ | {"PATH": os.pathsep.join([str(Path(found).parent), *os.get_exec_path()])}
    subprocess.run([found, *map(str, arguments)], env=environment, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    DOCUMENT.write_text(text_of(document()), "utf-8")
    write_python(GENERATED_PYTHON)
    write_typescript(GENERATED_TYPESCRIPT)
