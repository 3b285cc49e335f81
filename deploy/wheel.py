"""Hatchling's hook for the wheel: both packages of a checkout are installed inside one, `nearfield`.

Their own names, `service` and `gpu`, belong to other packages too. The hook copies their files and puts `nearfield.`
before these names wherever a module is imported, or named by a text that is nothing else. Lines keep their numbers.
An editable installation has the checkout as it is (docs/decisions/0127-the-wheel-has-one-package.md).
"""

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INSTALLED = "nearfield"
OURS = r"(?:gpu|service)"
PACKAGE = '"""Nearfield, a recommendation service that learns while it serves: the command, and `nearfield.gpu`."""\n'


def renamed(source: str, modules: set[str]) -> str:
    """The code of a module, as it is installed; `modules` are the names of all in the checkout."""

    def text(found: re.Match[str]) -> str:
        before, name = found.groups()
        return f"{before}{INSTALLED}.{name}" if name.removesuffix(".") in modules else found[0]

    source = re.sub(rf"(?m)^( *)from (?={OURS}[. ])", rf"\1from {INSTALLED}.", source)
    source = re.sub(rf"(?m)^( *)import (?={OURS}\.)", rf"\1import {INSTALLED}.", source)
    source = re.sub(rf"(?m)^( *)import (?={OURS}$)", rf"\1from {INSTALLED} import ", source)
    return re.sub(rf"""(["']|-m )({OURS}\.[\w.]*)(?=["'` ])""", text, source)


class Inside(BuildHookInterface[Any]):
    """Writes the tree that the wheel has, and says where its command is."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See Hatchling."""
        if version == "editable":
            return
        self._tree = Path(tempfile.mkdtemp())
        for package in ("gpu", "service"):
            copied = self._tree / package
            shutil.copytree(Path(self.root, package), copied, ignore=shutil.ignore_patterns("__pycache__"))
        paths = {path: path.relative_to(self._tree).with_suffix("") for path in self._tree.rglob("*.py")}
        modules = {".".join(name.parts).removesuffix(".__init__") for name in paths.values()}
        for path in paths:
            path.write_text(renamed(path.read_text("utf-8"), modules), "utf-8")
        (self._tree / "__init__.py").write_text(PACKAGE, "utf-8")
        build_data["force_include"][str(self._tree)] = INSTALLED
        scripts = self.metadata.core.scripts
        scripts.update({name: f"{INSTALLED}.{target}" for name, target in scripts.items()})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """See Hatchling."""
        if version != "editable":
            shutil.rmtree(self._tree)
