"""What the images install: what pyproject.toml asks for, in the versions of constraints.txt, each with its hashes."""

import importlib.util
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy import licenses

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
INCLUDES_CPU = "-r cpu.txt"  # the line of the lock for GPUs
LOCKS = sorted(path.stem for path in (ROOT / "locks").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
WANTED = {
    "build": PROJECT["build-system"]["requires"],
    "cpu": [*PROJECT["project"]["dependencies"], *EXTRAS["traces"], *EXTRAS["registry"]],
    "supply": ["cyclonedx-bom", "pip-audit", "sigstore", "twine"],
}
WANTED["gpu"] = [*WANTED["cpu"], *EXTRAS["gpu"]]
INSTALLED = pytest.mark.skipif(
    importlib.util.find_spec("opentelemetry") is None or importlib.util.find_spec("opentelemetry.sdk") is None,
    reason="the extra traces, which the images have, is not installed",
)


def text_of(lock: str) -> str:
    return (ROOT / "locks" / f"{lock}.txt").read_text("utf-8")


def locked(lock: str) -> dict[str, tuple[Requirement, list[str]]]:
    """Every package of a lock with its requirement and its hashes."""
    found: dict[str, tuple[Requirement, list[str]]] = {}
    for line in text_of(lock).replace("\\\n", "").splitlines():
        if line == INCLUDES_CPU:
            found |= locked("cpu")
        elif line and not line.startswith("#"):
            words, *hashes = line.split(" --hash=sha256:")
            requirement = Requirement(words)
            found[canonicalize_name(requirement.name)] = requirement, [one.strip() for one in hashes]
    return found


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return {
        canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines) if version
    }


@INSTALLED
def test_every_package_of_the_images_has_a_license():
    assert licenses.PAGE.read_text("utf-8") == licenses.page(), "run make lock"


def test_a_package_without_a_known_license_is_named():
    with pytest.raises(LookupError, match="Invalid package no-such-package: expected one that is installed"):
        licenses.license_of("no-such-package")


def annotated() -> dict[str, str]:
    """Path, or pattern of paths -> license, as the tool `reuse` reads them; a later one holds."""
    found = tomllib.loads((ROOT / "REUSE.toml").read_text("utf-8"))["annotations"]
    several = [([one["path"]] if isinstance(one["path"], str) else one["path"], one) for one in found]
    return {path: one["SPDX-License-Identifier"] for paths, one in several for path in paths}


def test_one_license_covers_every_file_that_is_ours():
    assert next(iter(annotated().items())) == ("**", "Apache-2.0")
    text = (ROOT / "LICENSES" / "Apache-2.0.txt").read_text("utf-8")
    assert text == (ROOT / "LICENSE").read_text("utf-8")


def test_files_of_others_are_listed_with_their_licenses():
    """Those that the wheel has inside: their texts are in it, and its metadata name them."""
    others = {path: name for path, name in annotated().items() if path != "**"}
    assert others == {path: license for path, (_, _, license) in licenses.VENDORED.items()}
    static = ROOT / "service" / "extras" / "console" / "static"
    ours = {"console.css", "console.js", "curves.js", "icon.svg", "parts.js"}
    assert {path.name for path in static.iterdir()} - ours == {Path(path).name for path in others}
    assert set(PROJECT["project"]["license"].split(" AND ")) == {"Apache-2.0", *others.values()}
    files = {"LICENSE", *(f"LICENSES/{name}.txt" for name in others.values())}
    assert set(PROJECT["project"]["license-files"]) == files
    assert all((ROOT / file).stat().st_size > 500 for file in files)


def test_there_is_a_lock_for_each_image_and_for_the_tools():
    assert set(LOCKS) == WANTED.keys()


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_has_a_version_and_hashes(lock):
    for name, (requirement, hashes) in locked(lock).items():
        assert re.fullmatch(r"==[\w.]+", str(requirement.specifier)), name
        assert hashes, name
        assert all(re.fullmatch(r"[0-9a-f]{64}", one) for one in hashes), name


@pytest.mark.parametrize("lock", ["build", "cpu"])
def test_versions_are_those_of_the_constraints(lock):
    assert locked(lock)
    constrained = pins()
    for name, (requirement, _) in locked(lock).items():
        assert str(requirement.specifier) == f"=={constrained.get(name)}", f"{name}: run `make lock`"


def test_the_image_for_gpus_has_all_of_the_other():
    gpu, cpu = text_of("gpu").splitlines(), text_of("cpu").splitlines()
    assert gpu.count(INCLUDES_CPU) == 1
    assert {line for line in gpu if "==" in line}.isdisjoint(cpu)


@pytest.mark.parametrize("lock", LOCKS)
def test_what_the_project_asks_for_is_locked(lock):
    found = locked(lock)
    for wanted in map(Requirement, WANTED[lock]):
        assert canonicalize_name(wanted.name) in found, f"{wanted.name}: run `make lock`"
        (exactly,) = found[canonicalize_name(wanted.name)][0].specifier
        assert wanted.specifier.contains(exactly.version), f"{wanted.name}: run `make lock`"


@INSTALLED
def test_nothing_else_is_locked_than_what_is_needed():
    found = locked("cpu")
    here = {name for name, (requirement, _) in found.items() if is_needed_here(requirement)}
    assert here == needed(WANTED["cpu"]), "run `make lock`"


def needed(wanted: list[str]) -> set[str]:
    """Every package that these requirements bring in, as the installed ones say."""
    found: set[tuple[str, str]] = set()
    left = [(Requirement(one), "") for one in wanted]
    while left:
        requirement, extra = left.pop()
        if not is_needed_here(requirement, extra):
            continue
        for one in ("", *requirement.extras):
            if (key := (canonicalize_name(requirement.name), one)) not in found:
                found.add(key)
                left += [(Requirement(text), one) for text in metadata.requires(requirement.name) or []]
    return {name for name, _ in found}


def is_needed_here(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_server(lock):
    """Neither by an address nor by an option of pip, which begins a line."""
    assert "://" not in text_of(lock)
    assert not [line for line in text_of(lock).splitlines() if line.startswith("-") and line != INCLUDES_CPU]


def test_images_install_what_is_locked_and_nothing_else():
    commands = re.findall(r"pip (?:install|wheel) [^&\n]*", DOCKERFILE.replace("\\\n", " "))
    assert commands
    for command in commands:
        has_hashes = "--require-hashes" in command and "--only-binary :all:" in command
        is_ours = "--no-index" in command and "--no-deps" in command
        assert has_hashes != is_ours, command
    assert set(re.findall(r"--requirement locks/(\w+)\.txt", DOCKERFILE)) == set(LOCKS) - {"supply"}
    assert "pip check" in DOCKERFILE
