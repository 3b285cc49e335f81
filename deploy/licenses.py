"""Writes docs/licenses.md, the licenses of all packages that the images install, and of files in the wheel that are
of others. `make lock` runs it.

Licenses come from the metadata of the installed packages. Those that this environment does not install, for GPUs and
for older versions of Python, are listed here.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKS = {"both": ROOT / "locks" / "cpu.txt", "GPU": ROOT / "locks" / "gpu.txt"}
PAGE = ROOT / "docs" / "licenses.md"
NVIDIA = "NVIDIA proprietary: free to use and to redistribute under the CUDA Toolkit EULA"
NOT_INSTALLED = {
    "async-timeout": "Apache-2.0",
    "cuda-pathfinder": "Apache-2.0",
    "cuda-toolkit": NVIDIA,
    "cupy-cuda13x": "MIT",
}
# What metadata call otherwise than SPDX (https://spdx.org/licenses/) does.
SPDX = {
    "MIT License": "MIT",
    "BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
# Files of others inside the wheel of Nearfield, unchanged: what they are part of, its version, and its license.
VENDORED = {
    "service/extras/console/static/htmx.min.js": ("htmx", "2.0.11", "0BSD"),
    "service/extras/console/static/uPlot.iife.min.js": ("uPlot", "1.6.32", "MIT"),
    "service/extras/console/static/uPlot.min.css": ("uPlot", "1.6.32", "MIT"),
}
TEXT = """# Licenses

Nearfield is under Apache-2.0. Its images install these packages, unchanged, as wheels with the hashes of `locks/`.
The images also have the packages of their base, Debian with Python: see `/usr/share/doc/*/copyright` inside.

| Package | License | Image |
| --- | --- | --- |
"""
FILES = """
The wheel of Nearfield has none of these packages inside, but for its console these files, unchanged. `LICENSES/` has
the texts of their licenses, and so has the wheel.

| File | Of | License |
| --- | --- | --- |
"""


def page() -> str:
    """The text of docs/licenses.md."""
    images = {name: image for image, path in LOCKS.items() for name in names_of(path)}
    packages = "".join(f"| {name} | {license_of(name)} | {image} |\n" for name, image in sorted(images.items()))
    files = "".join(f"| `{path}` | {name} {number} | {text} |\n" for path, (name, number, text) in VENDORED.items())
    return TEXT + packages + FILES + files


def names_of(lock: Path) -> set[str]:
    """The packages of a lock."""
    return set(re.findall(r"^([a-z0-9-]+)(?:\[.*\])?==", lock.read_text("utf-8"), re.MULTILINE))


NAMED = "License-Expression", "License"  # where metadata name a license, beside its class


def license_of(name: str) -> str:
    """The license of a package, by SPDX where it has a name there.

    Raises:
        LookupError: the package is not installed and not listed here, or its metadata name no license.
    """
    known = NVIDIA if name.startswith("nvidia-") else NOT_INSTALLED.get(name)
    if known is not None:
        return known
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        raise LookupError(f"Invalid package {name}: expected one that is installed, or listed in {__name__}") from None
    classified = [one.rpartition(" :: ")[2] for one in found.get_all("Classifier") or () if one.startswith("License")]
    expression, license_ = (next(iter(found.get_all(key) or ()), "") for key in NAMED)
    text = expression or next(iter(classified), "") or license_
    if not text:
        raise LookupError(f"Invalid metadata of {name}: expected a license, got none; list it in {__name__}")
    return SPDX.get(text, text)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
