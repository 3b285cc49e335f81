"""Writes the generated parts of the clients for `make clients`. Tests compare them with the service's OpenAPI document.

The document is used without bodies in lines, since clients send arrays, and without null as a parameter, since they
leave it out. Defaults of what a request may leave out are not used either. A client that knew them would send them,
and the service could not tell them from a choice: a scenario counts only where a request names no field.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from clients import python_code, typescript_code
from service.api.app import application
from service.processes.front_serving import FrontServing
from service.processes.link import by_socket
from service.processes.parts import parts
from service.settings.settings import Settings

CLIENTS = Path(__file__).parent
PYTHON, TYPESCRIPT = CLIENTS / "python", CLIENTS / "typescript"
GENERATED_PYTHON = PYTHON / "nearfield_client" / "generated"
GENERATED_TYPESCRIPT = TYPESCRIPT / "src" / "generated"
LINES = "application/x-ndjson"


def document() -> dict[str, Any]:
    """The document that clients are made from, of a service with keys for all routes."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder), api_key="a-key-for-reading", admin_key="a-key-for-admins")
        app = application(
            FrontServing(settings, by_socket(Path(folder) / "engine.sock"), "front-1"), extras=parts().routes
        )
        made: dict[str, Any] = app.openapi()
    for operations in made["paths"].values():
        for operation in operations.values():
            operation.get("requestBody", {"content": {}})["content"].pop(LINES, None)
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _not_null(parameter["schema"])
    return made


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter that may be null, without this alternative."""
    kinds = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    others = {key: value for key, value in schema.items() if key != "anyOf"}
    return others | kinds[0] if len(kinds) == 1 else schema


def files(described: dict[str, Any]) -> dict[Path, str]:
    """Path -> text of each generated file."""
    models = python_code.Models(described)
    operations = python_code.operations(described, models)
    python = {GENERATED_PYTHON / "api" / f"{tag}.py": text for tag, text in operations.items()}
    python[GENERATED_PYTHON / "models.py"] = models.text()
    python |= {folder / "__init__.py": python_code.PACKAGE for folder in (GENERATED_PYTHON, GENERATED_PYTHON / "api")}
    made = {path: _formatted(text, path) for path, text in python.items()}
    return made | {GENERATED_TYPESCRIPT / "openapi.ts": typescript_code.module(described)}


def _formatted(code: str, path: Path) -> str:
    """Code as `make format` leaves it, without imports that it does not use."""
    for command in (("check", "--fix-only", "--select", "F401,I,RUF036"), ("format",)):
        call = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(path), "-"]
        code = subprocess.run(call, input=code, capture_output=True, text=True, check=True).stdout
    return code


if __name__ == "__main__":
    made = files(document())
    for folder in (GENERATED_PYTHON, GENERATED_TYPESCRIPT):
        shutil.rmtree(folder, ignore_errors=True)
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
