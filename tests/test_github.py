"""What can be checked of .github/ without the forge: schemas, rights, names that must agree, and a shell step."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from tests.service.process import Service

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
# Name of a schema that check-jsonschema brings along -> the files that obey it.
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "custom.github-workflows-require-timeout": WORKFLOWS,
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "vendor.github-issue-forms": [GITHUB / "ISSUE_TEMPLATE" / "bug.yml", GITHUB / "ISSUE_TEMPLATE" / "feature.yml"],
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
}

MADE_BY_A_STEP = "build/tools/bin/"
MAY_WRITE = {"release", "images", "indexes"}  # jobs that publish and sign, for tags alone


def parsed(path: Path) -> dict:
    return yaml.safe_load(path.read_text("utf-8"))


def jobs() -> Iterator[tuple[str, dict]]:
    for path in WORKFLOWS:
        for name, job in parsed(path)["jobs"].items():
            yield f"{path.name}:{name}", job


def commands() -> Iterator[tuple[str, str]]:
    """Every `run` of every workflow, with the name of its job."""
    for name, job in jobs():
        yield from ((name, step["run"]) for step in job["steps"] if "run" in step)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_obey_the_schemas_of_the_forge(schema):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, SCHEMAS[schema])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_yaml_file_has_a_schema():
    checked = {path for paths in SCHEMAS.values() for path in paths}
    assert {path for path in GITHUB.rglob("*") if path.suffix in (".yml", ".yaml")} == checked


def test_tests_run_on_every_python_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    matrix = parsed(GITHUB / "workflows" / "test.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    allowed = [f"3.{minor}" for minor in range(100) if f"3.{minor}" in SpecifierSet(project["requires-python"])]
    assert matrix == classified == allowed


def test_what_the_steps_call_exists():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    called = [(name, path) for name, run in commands() for path in re.findall(r"(?m)^\s*(\.?[\w-]+/[\w./-]+)", run)]
    assert ("test.yml:test", ".ci/run") in called
    for name, path in called:
        assert os.access(ROOT / path, os.X_OK) or path.startswith(MADE_BY_A_STEP), f"{name}: {path}"
    for name, run in commands():
        assert {path for path in re.findall(r"locks/\w+\.txt", run) if not (ROOT / path).is_file()} == set(), name
    for name, run in commands():
        assert set(re.findall(r"\bmake ([a-z]+)", run)) <= targets, name


def test_workflows_may_only_read_and_an_older_run_of_a_branch_ends():
    for path in WORKFLOWS:
        workflow = parsed(path)
        assert workflow["permissions"] == {"contents": "read"}, path.name
        assert "github.ref" in workflow["concurrency"]["group"], path.name
        assert {name for name, job in workflow["jobs"].items() if "permissions" in job} <= MAY_WRITE, path.name
        assert "secrets." not in path.read_text("utf-8"), path.name


def test_actions_are_pinned_to_commits():
    for path in WORKFLOWS:
        used = re.findall(r"uses: *(.*)", path.read_text("utf-8"))
        assert used
        for one in used:
            assert re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40}  # v\d+(\.\d+)*", one), f"{path.name}: {one}"


def test_a_checkout_keeps_no_credentials():
    steps = [step for _, job in jobs() for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
    assert len(steps) == len(list(jobs()))
    assert all(step["with"]["persist-credentials"] is False for step in steps)


def test_only_a_tag_makes_a_release():
    release = parsed(GITHUB / "workflows" / "release.yml")
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true
    signing = {"id-token": "write", "attestations": "write"}
    assert release["jobs"]["release"]["permissions"] == {"contents": "write", **signing}
    assert release["jobs"]["images"]["permissions"] == {"contents": "read", "packages": "write", **signing}
    assert release["jobs"]["indexes"]["permissions"] == {"contents": "read", "id-token": "write"}


def test_indexes_get_the_files_of_the_release():
    """They are built a second time; what differs by a byte is published nowhere."""
    jobs = parsed(GITHUB / "workflows" / "release.yml")["jobs"]
    assert jobs["indexes"]["needs"] == "release"
    built, *published = [step["run"] for step in jobs["indexes"]["steps"] if "run" in step]
    assert "make dist" in built
    assert "cmp " in built
    assert [("twine upload" in one, "npm@" in one) for one in published] == [(True, False), (False, True)]


def test_a_release_attests_what_is_in_the_wheel_and_in_each_image():
    """Each bill is of the very digest that was pushed, and is attested for it, before the release appears."""
    jobs = parsed(GITHUB / "workflows" / "release.yml")["jobs"]
    targets = re.findall(r"^FROM runtime AS (\w+)$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert sorted(jobs["images"]["strategy"]["matrix"]["target"]) == sorted(targets)
    assert jobs["release"]["needs"] == "images"
    build, describe, attest = jobs["images"]["steps"][1:]
    name, digest = (f"${{{{ steps.{build['id']}.outputs.{one} }}}}" for one in ("name", "digest"))
    assert (describe["with"]["image"], describe["with"]["format"]) == (f"{name}@{digest}", "cyclonedx-json")
    assert (attest["with"]["subject-name"], attest["with"]["subject-digest"]) == (name, digest)
    assert attest["with"]["sbom-path"] == describe["with"]["output-file"]
    assert attest["with"]["push-to-registry"] is True
    (of_wheel,) = [step for step in jobs["release"]["steps"] if "attest-sbom" in step.get("uses", "")]
    (bills,) = [step["run"] for step in jobs["release"]["steps"] if "cyclonedx-py" in step.get("run", "")]
    assert of_wheel["with"] == {"subject-path": "dist/*.whl", "sbom-path": "dist/nearfield-cpu.cdx.json"}
    assert "for lock in cpu gpu" in bills
    assert "dist/nearfield-$lock.cdx.json" in bills
    assert ".metadata.component.version = $version" in bills, "a bill without the version of what it describes"


def test_the_image_workflow_sets_all_that_compose_requires():
    required = set(re.findall(r"\$\{(\w+):\?", (ROOT / "docker-compose.yml").read_text("utf-8")))
    environment = parsed(GITHUB / "workflows" / "image.yml")["jobs"]["compose"]["env"]
    assert required
    assert required <= environment.keys()
    assert re.fullmatch(r"[A-Za-z0-9]+", environment["REDIS_PASSWORD"])


def test_the_step_that_rates_passes_on_a_running_service_and_fails_without(tmp_path):
    if missing := [tool for tool in ("bash", "curl", "jq") if shutil.which(tool) is None]:
        pytest.skip(f"missing: {', '.join(missing)}")
    job = parsed(GITHUB / "workflows" / "image.yml")["jobs"]["compose"]
    (script,) = [step["run"] for step in job["steps"] if step.get("name", "").startswith("Rate")]
    keys = {name.lower(): job["env"][f"NEARFIELD_{name}"] for name in ("API_KEY", "ADMIN_KEY")}
    service = Service(tmp_path / "data", worker=False, **keys)
    try:
        environment = os.environ | job["env"] | {"NEARFIELD_PORT": str(service.client.base_url.port)}
        assert status(script, environment) == 0
        assert status(script, environment | {"NEARFIELD_API_KEY": "another-key-than-it-has"}) != 0
    finally:
        service.stop()
    assert status(script, environment) != 0


def status(script: str, environment: dict[str, str]) -> int:
    """Exit status of a step in the shell of the forge."""
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode
