"""Wheel and sdist: an sdist makes the wheel of the checkout, and the wheel works where it is installed."""

import ast
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import service
from deploy.wheel import renamed

ROOT = Path(__file__).parents[2]
COMMITTED_AT = "1764201600"
IMPORTS_ALL = """
import importlib, json, pkgutil, nearfield
left_out, n_imported = set(), 0
for module in pkgutil.walk_packages(nearfield.__path__, "nearfield."):
    try:
        importlib.import_module(module.name)
        n_imported += 1
    except ModuleNotFoundError as error:
        left_out.add(error.name)
print(json.dumps([n_imported, sorted(left_out)]))
"""
DOCUMENT = """
import json
from pathlib import Path
from {0}service.api.app import application
from {0}service.processes.front_serving import FrontServing
from {0}service.processes.link import by_socket
from {0}service.processes.parts import parts
from {0}service.settings.settings import Settings
settings = Settings(api_key="a-key-for-reading", admin_key="a-key-for-admins")
serving = FrontServing(settings, by_socket(Path("engine.sock")), "front-1")
print(json.dumps(application(serving, extras=parts().routes).openapi()))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with wheel and sdist of this checkout, and below `again` with the wheel that this sdist makes."""
    pytest.importorskip("hatchling", reason="missing: hatchling, which builds the wheel (make install)")
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    with tarfile.open(sdist(folder)) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    build(source, folder / "again", "--target", "wheel")
    return folder


def build(source: Path, folder: Path, *options: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder), *options]
    environment = os.environ | {"SOURCE_DATE_EPOCH": COMMITTED_AT}
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def wheel(folder: Path) -> Path:
    (path,) = folder.glob("*.whl")
    return path


def sdist(folder: Path) -> Path:
    (path,) = folder.glob("*.tar.gz")
    return path


def test_the_sdist_makes_the_same_bytes(built):
    assert wheel(built / "again").read_bytes() == wheel(built).read_bytes()


def test_the_wheel_has_one_package_and_no_tests(built):
    names = zipfile.ZipFile(wheel(built)).namelist()
    info = f"nearfield-{service.__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"nearfield", info}
    assert {name.split("/")[1] for name in names if name.startswith("nearfield/")} == {"__init__.py", "gpu", "service"}
    assert not [name for name in names if "test" in name or "__pycache__" in name]
    files = {path for package in ("gpu", "service") for path in (ROOT / package).rglob("*") if path.is_file()}
    expected = {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}
    assert {name.removeprefix("nearfield/") for name in names if "/" in name[10:]} >= expected


def test_the_sdist_has_what_builds_and_tests_it(built):
    with tarfile.open(sdist(built)) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    missing = {name for name in listed.splitlines() if (ROOT / name).is_file()} - names
    assert missing == set()
    assert not [name for name in names if name.startswith((".git/", ".venv/", "dist/", "build/"))]


def test_no_module_of_the_wheel_asks_for_a_name_of_the_checkout(built):
    """Neither by an import nor by a text, as for a child process."""
    archive = zipfile.ZipFile(wheel(built))
    modules = [name for name in archive.namelist() if name.endswith(".py")]
    ours = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in modules}
    assert len(modules) > 500
    for module in modules:
        for node in ast.walk(ast.parse(archive.read(module))):
            if isinstance(node, ast.ImportFrom):
                named = [node.module or ""]
            elif isinstance(node, ast.Import):
                named = [one.name for one in node.names]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = [node.value] if f"nearfield.{node.value}" in ours and "." in node.value else []
            else:
                continue
            assert not {one.split(".")[0] for one in named} & {"gpu", "service"}, f"{module}: {named}"


def test_names_are_changed_where_they_name_a_module():
    source = "\n".join(
        [
            "import gpu",
            "    import gpu.base as base, re",
            "from service import __version__",
            "from service.base.ids import Ids",
            'run("-m", "service.cli.warm", "gpu.", "service.name")',
            '"""Try `python -m service.cli.warm`."""',
            "servicefrom = gpu.fit(service_from, serviced)",
        ]
    )
    assert renamed(source, {"gpu", "service.cli.warm"}).splitlines() == [
        "from nearfield import gpu",
        "    import nearfield.gpu.base as base, re",
        "from nearfield.service import __version__",
        "from nearfield.service.base.ids import Ids",
        'run("-m", "nearfield.service.cli.warm", "nearfield.gpu.", "service.name")',
        '"""Try `python -m nearfield.service.cli.warm`."""',
        "servicefrom = gpu.fit(service_from, serviced)",
    ]


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The folder of programs of a new environment that has the wheel, and of this one only what it needs."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel(built))
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    # A path in a file of paths: files of paths there, as that of the editable installation, are not read.
    (Path(site) / "needed.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin"


def run(*command: object) -> str:
    """What a command prints, elsewhere than in the checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(one) for one in command], cwd="/", env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_installed_command_says_its_version(installed):
    assert run(installed / "nearfield", "--version") == f"nearfield {service.__version__}\n"


def test_every_installed_module_can_be_imported_by_its_new_name(installed):
    n_imported, left_out = json.loads(run(installed / "python", "-c", IMPORTS_ALL))
    assert n_imported > 500
    assert set(left_out) <= {"cupy", "cupyx"}  # of the extras for GPUs


def test_the_installed_programs_start(installed):
    """Those that a service starts as processes of their own."""
    for module in (
        "jobs.trainer",
        "jobs.lister",
        "extras.exports.exporter",
        "extras.ranks.trainer",
        "extras.ranks.rank",
    ):
        assert f"nearfield.service.{module}" in run(installed / "python", "-m", f"nearfield.service.{module}", "--help")


def test_the_installed_service_describes_itself_as_the_checkout_does(installed):
    here = json.loads(
        run(sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{DOCUMENT.format('')}")
    )
    assert len(here["paths"]) > 40
    assert json.loads(run(installed / "python", "-c", DOCUMENT.format("nearfield."))) == here
