"""Every block of code of every page runs: here, in a test that is named here, or not at all for a reason given here."""

import configparser
import contextlib
import gzip
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import scipy.io
import yaml

from service.__main__ import run
from service.cli import synthetic
from service.extras.kafka import bridge
from service.settings.settings import Settings, unknown_variables
from tests.code_blocks import ROOT, SHELL, Block, blocks, commands
from tests.service.process import Service
from tests.test_api_document import DOCUMENTS, EXAMPLE, Example

TIMEOUT_S = 60  # of one command of a shell
PARSED = ("json", "yaml", "toml", "ini")
SHELL_PROGRAMS = ("openssl", "touch", "chmod", "for", "gunzip", "printf")  # which bash runs
PROGRAM = re.compile(r"^(?:\.venv/bin/|/opt/nearfield/bin/)(?=nearfield\b)")
ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*=")

# (page, language, what the block has) -> the test that runs it.
ELSEWHERE = {
    (
        "docs/integrate.md",
        "python",
        "fastapi",
    ): "tests/clients/test_integrate.py::test_a_newsroom_on_fastapi",
    (
        "docs/integrate.md",
        "python",
        "django",
    ): "tests/clients/test_integrate.py::test_a_shop_on_django",
    (
        "clients/python/README.md",
        "python",
        "",
    ): "tests/clients/test_python_client.py::test_the_examples_of_its_readme_run",
    (
        "clients/typescript/README.md",
        "ts",
        "",
    ): "tests/clients/test_typescript_client.py::test_the_examples_of_its_readme_run",
    (
        "docs/registry.md",
        "bash",
        "$ nearfield push",
    ): "tests/service/extras/registry/test_registry.py::test_the_examples_of_the_page",
    ("docs/training.md", "", "--plan"): "tests/service/cli/test_plan.py::test_the_example_of_the_documentation",
    (
        "docs/operations.md",
        "",
        "$ nearfield doctor",
    ): "tests/service/cli/test_doctor.py::test_a_redis_that_does_not_answer_fails_and_the_other_checks_go_on",
}
EXAMPLES_OF_THE_API = "tests/test_api_document.py::test_every_example_answers_as_documented"

# (page, beginning of a command, or of a block in another language) -> why it cannot run in a test.
DOCKER, CLUSTER = "needs a container engine and the network", "needs a cluster of Kubernetes"
NETWORK, ENDLESS = "needs the network", "runs until a signal; tests/service starts it again and again"
SYSTEMD = "needs root and systemd; tests/deploy/test_unit.py checks the unit"
DATA_SETS, MACHINES = (
    "needs data sets and hours",
    "needs several machines; tests/service/extras/ranks has them as processes",
)
NOT_RUN = {
    ("README.md", "make demo"): "installs first; tests/faults/test_demo.py runs the demo",
    ("README.md", "make test"): "is this test",
    ("README.md", "python3 -m venv"): NETWORK,
    ("README.md", ".venv/bin/pip install"): NETWORK,
    ("README.md", ".venv/bin/nearfield serve"): ENDLESS,
    ("docs/index.md", "make demo"): "installs first; tests/faults/test_demo.py runs the demo",
    ("docs/index.md", "make test"): "is this test",
    ("CONTRIBUTING.md", "make "): "installs, or runs this test",
    ("CONTRIBUTING.md", ".venv/bin/pre-commit install"): NETWORK,
    ("CONTRIBUTING.md", ".venv/bin/python -m pytest"): "is one of these tests",
    ("clients/python/README.md", "pip install ./clients/python"): NETWORK,
    ("clients/typescript/README.md", "cd clients/typescript"): NETWORK,
    ("clients/typescript/README.md", "npm "): NETWORK,
    ("docs/data.md", "nearfield serve"): ENDLESS,
    ("docs/data.md", "ratings.csv: columns:"): "is what a command prints",
    ("docs/faults.md", "redis-cli "): "needs a Redis that was replaced",
    ("docs/deployment.md", "python3 -m venv"): NETWORK,
    ("docs/deployment.md", "/opt/nearfield/bin/pip install"): NETWORK,
    ("docs/deployment.md", "NEARFIELD_API_KEY=… NEARFIELD_ADMIN_KEY=… /opt/nearfield/bin/nearfield serve"): ENDLESS,
    (
        "docs/deployment.md",
        "NEARFIELD_TRUSTED_PROXIES=127.0.0.1 NEARFIELD_RATE_LIMIT_PER_S=50 nearfield serve",
    ): ENDLESS,
    ("docs/deployment.md", "NEARFIELD_TLS_CERTIFICATE="): ENDLESS,
    ("docs/deployment.md", "nginx: location /"): "needs nginx",
    ("docs/deployment.md", "docker "): DOCKER,
    ("docs/deployment.md", "PYTHON_IMAGE="): "is read by docker compose",
    ("docs/deployment.md", "VALKEY_IMAGE="): "is read by docker compose",
    ("docs/deployment.md", "export NEARFIELD_STORE="): "needs an object store and a Redis",
    ("docs/deployment.md", "nearfield worker"): ENDLESS,
    ("docs/deployment.md", "nearfield serve --data OWN_FOLDER"): ENDLESS,
    ("docs/deployment.md", "nearfield bridge kafka"): "needs Kafka",
    ("docs/deployment.md", "useradd "): SYSTEMD,
    ("docs/deployment.md", "install "): SYSTEMD,
    ("docs/deployment.md", "for name in NEARFIELD_API_KEY NEARFIELD_ADMIN_KEY;"): SYSTEMD,
    ("docs/deployment.md", "cp deploy/nearfield.service"): SYSTEMD,
    ("docs/deployment.md", "systemctl "): SYSTEMD,
    ("docs/deployment.md", "runuser "): SYSTEMD,
    ("docs/upgrading.md", "python3 -m venv"): NETWORK,
    ("docs/upgrading.md", "/opt/nearfield-new/bin/pip install"): NETWORK,
    ("docs/kubernetes.md", "docker "): DOCKER,
    ("docs/kubernetes.md", "helm "): CLUSTER,
    ("docs/kubernetes.md", "kubectl "): CLUSTER,
    ("docs/quality.md", "python -m benchmarks"): DATA_SETS,
    ("docs/quality.md", "git clone --depth 1 https://github.com/kuandeng/LightGCN"): NETWORK,
    ("docs/quality.md", "awk "): NETWORK,
    ("docs/quality.md", "nearfield train --ratings gowalla-train.csv"): NETWORK,
    ("docs/quality.md", "nearfield evaluate --model gowalla"): NETWORK,
    ("docs/registry.md", "export NEARFIELD_MODEL_KEY="): "needs a store; tests/service/extras/registry has one",
    ("docs/registry.md", "nearfield push MODEL_DIR s3://BUCKET/models"): NETWORK,
    ("docs/registry.md", "nearfield pull s3://BUCKET/models"): NETWORK,
    (
        "docs/registry.md",
        "export MLFLOW_TRACKING_URI=",
    ): "needs MLflow; tests/service/extras/registry/test_registry.py has one",
    ("docs/registry.md", "nearfield push MODEL_DIR models:"): "needs MLflow",
    ("docs/registry.md", "nearfield pull models:"): "needs MLflow",
    ("docs/training.md", "nearfield cluster"): MACHINES,
    ("docs/training.md", "nearfield train --ratings ratings.csv --algorithm als --ranks 2 --out two"): MACHINES,
    ("docs/training.md", "NEARFIELD_TRAINER_RANKS=2"): MACHINES,
    ("tests/service/data-57eaa35/README.md", "python: planted ="): "made the folder, with the commit 57eaa35",
}
BLOCKS = blocks()
PAGES = list(dict.fromkeys(block.page for block in BLOCKS))


class Runner:
    """Runs the blocks of one page in a folder, beside a service that has ratings and a model."""

    def __init__(self, service: Service, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._service, self._monkeypatch, self._folder = service, monkeypatch, folder
        self._names: dict[str, Any] = {}  # of the Python blocks of the page
        self._replaced = {
            "/var/lib/nearfield": str(service.data),
            "/backups": str(folder / "backups"),
            "als-20261121T033717-b687": live_version(service),
            "1795232220650-0": service.api.get("/popular", n=1)["as_of"],
            "localhost:8000": str(service.client.base_url).removeprefix("http://").rstrip("/"),
        }

    def run(self, block: Block, command: str) -> None:
        """Run one command of a block."""
        for text, real in self._replaced.items():
            command = command.replace(text, real)
        if all(ASSIGNMENT.match(word) for word in shlex.split(command)):
            self._set(command)
            return
        command = PROGRAM.sub("", command)
        program = command.split()[0]
        if program == "nearfield" and "|" not in command:
            assert run(shlex.split(command)[1:]) == 0, f"{block}: {command}"
        elif program == "curl":
            self._ask(block, command)
        elif program in SHELL_PROGRAMS:
            done = subprocess.run(
                ["bash", "-ec", command.replace(".venv/bin/", "")], cwd=self._folder, capture_output=True, text=True,
                check=False, timeout=TIMEOUT_S,
            )  # fmt: skip
            assert done.returncode == 0, f"{block}: {command}: {done.stdout}{done.stderr}"
        else:
            pytest.fail(f"{block}: {command!r} is neither run nor listed in NOT_RUN")

    def _set(self, command: str) -> None:
        """Set variables of a file of settings; all names are those of settings, and their values can be used."""
        for word in shlex.split(command):
            name, _, value = word.partition("=")
            self._monkeypatch.setenv(name, value)

    def check_settings(self) -> None:
        settings = Settings()
        assert unknown_variables(settings.data_sets) == []
        for name in settings.data_sets:
            settings.of(name)

    def _ask(self, block: Block, command: str) -> None:
        host = self._replaced["localhost:8000"]
        response = Example(command.replace(host, "localhost:8000"), "").sent(self._service.client, {})
        assert response.is_success, f"{block}: {command}: {response.text}"
        job = response.json() if "json" in response.headers["Content-Type"] and "retrain" in command else {}
        if job:
            assert self._service.api.ended_job(job["id"])["state"] == "succeeded"

    def execute(self, block: Block) -> None:
        """Run Python; the names of earlier blocks of the page are known."""
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block.body, str(block), "exec"), self._names)


def live_version(service: Service) -> str:
    (version,) = [one["version"] for one in service.api.get("/admin/models")["models"] if one["live"]]
    return version


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with the synthetic catalog and a model."""
    service = Service(tmp_path_factory.mktemp("blocks") / "data", backend="host", log_level="error")
    planted = synthetic.planted(0, 60, 40)
    file = service.data.with_suffix(".csv")
    synthetic.write(file, planted)
    assert run(["import", str(file), "--url", str(service.client.base_url)]) == 0
    service.train("als-implicit", n_factors=8)
    yield service
    service.kill()


@pytest.fixture
def folder(tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A present folder with the files that commands of the pages name, and `nearfield` on the path of a shell."""
    mask = os.umask(0o022)
    lines = service.data.with_suffix(".csv").read_text("utf-8").splitlines(keepends=True)
    timed = [f"{line.rstrip()},{1_700_000_000 + 60 * n}\n" for n, line in enumerate(lines[1:])]
    (tmp_path / "ratings.csv").write_text("".join([f"{lines[0].rstrip()},timestamp\n", *timed]))
    (tmp_path / "held-out.csv").write_text("".join([lines[0], *lines[1::10]]))
    (tmp_path / "old.csv.gz").write_bytes(gzip.compress("".join(lines).encode()))
    (tmp_path / "events.csv").write_text("user,item,type\nann,synthetic-western-000,view\n")
    (tmp_path / "items.csv").write_text("item,tags.genre\nsynthetic-western-000,western\n")
    scipy.io.savemat(tmp_path / "documents.mat", {"counts": np.random.default_rng(0).poisson(1.0, (60, 40)) * 1.0})
    (tmp_path / "backups").mkdir()
    command = tmp_path / "bin" / "nearfield"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m service "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("NEARFIELD_URL", str(service.client.base_url))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    os.umask(mask)


def home_of(block: Block) -> str | None:
    """The test elsewhere that runs a block."""
    if ROOT / block.page in DOCUMENTS:
        text = (ROOT / block.page).read_text("utf-8")
        if any(one.start() <= block.start < one.end() for one in EXAMPLE.finditer(text)):
            return EXAMPLES_OF_THE_API
    for (page, language, part), test in ELSEWHERE.items():
        if (page, language) == (block.page, block.language) and part in block.body:
            return test
    return None


def reason_of(block: Block, command: str) -> tuple[str, str] | None:
    """The key of `NOT_RUN` for a command, or for a block in another language."""
    fitting = [key for key in NOT_RUN if key[0] == block.page and command.startswith(key[1])]
    return max(fitting, key=lambda key: len(key[1])) if fitting else None


def parts_of(block: Block) -> list[str]:
    """What of a block is run or listed alone: its commands, or all of it with its language."""
    return list(commands(block)) if block.language in SHELL else [f"{block.language}: {block.body}"]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_runs(page, service, folder, monkeypatch):
    runner = Runner(service, folder, monkeypatch)
    for block in (one for one in BLOCKS if one.page == page and home_of(one) is None):
        todo = [part for part in parts_of(block) if reason_of(block, part) is None]
        if block.language in SHELL:
            for command in todo:
                runner.run(block, command)
            runner.check_settings()
        elif todo and block.language == "python":
            runner.execute(block)
        elif todo:
            assert block.language in PARSED, f"{block}: neither run nor listed in NOT_RUN"
            parse(block, folder)


def parse(block: Block, folder: Path) -> None:
    """Read a block in a language of data; values of the Helm chart and properties of Kafka as they are used."""
    if block.language == "json":
        json.loads(block.body)
    elif block.language == "toml":
        tomllib.loads(block.body)
    elif block.language == "yaml":
        values = yaml.safe_load(block.body)
        assert isinstance(values, dict)
        if block.page == "docs/kubernetes.md":
            schema = json.loads((ROOT / "deploy/helm/nearfield/values.schema.json").read_text("utf-8"))
            jsonschema.validate(values, schema)
    elif "ssl.ca.location" in block.body:
        path = folder / "kafka.properties"
        path.write_text(block.body)
        assert bridge.properties_of(path, ())
    else:
        configparser.ConfigParser().read_string(block.body)


def test_what_is_not_run_is_there():
    used = {reason_of(block, part) for block in BLOCKS if home_of(block) is None for part in parts_of(block)}
    assert set(NOT_RUN) - used == set()
    homes = {home_of(block) for block in BLOCKS} - {None}
    assert homes == {*ELSEWHERE.values(), EXAMPLES_OF_THE_API}
    for home in homes:
        path, _, name = str(home).partition("::")
        assert f"def {name}(" in (ROOT / path).read_text("utf-8")


def test_commands_that_are_not_run_have_options_that_exist(capsys):
    helps: dict[str, str] = {}
    asked = defaultdict[str, set[str]](set)
    for block in BLOCKS:
        for command in commands(block) if block.language in SHELL and home_of(block) is None else ():
            words = [word for word in shlex.split(PROGRAM.sub("", command)) if not ASSIGNMENT.match(word)]
            words = shlex.split(PROGRAM.sub("", " ".join(words)))
            if reason_of(block, command) and words[:1] == ["nearfield"]:
                n_names = 3 if words[1] in ("cluster", "bridge") else 2
                asked[" ".join(words[1:n_names])] |= {word for word in words if word.startswith("--")}
    assert len(asked) > 5
    for command, options in asked.items():
        assert run([*command.split(), "--help"]) == 0
        helps[command] = capsys.readouterr().out
        assert not {option for option in options if not re.search(rf"{option}\b", helps[command])}, command


def test_commands_stand_in_fences():
    """So that the tests above see them; text that is indented has none."""
    command = re.compile(r"\n\n {4}(?:\$ )?(?:make|nearfield|curl|python3?|pip|docker|helm|kubectl|\.venv/\S+) [^\n]*")
    for page in PAGES:
        assert not command.search((ROOT / page).read_text("utf-8")), page
