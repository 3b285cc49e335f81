"""The TypeScript client against a real service; skipped without node or its compiler."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import generate
from tests.service.process import Service

KEY = "key-of-the-admins"
# Where `npm install` in the folder of the client puts the compiler, and where else it may be.
COMPILER = shutil.which("tsc", path=f"{generate.TYPESCRIPT / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}")
# The compiler has to refuse each line that follows such a comment, and to take the last two.
WRONG = """\
import { Nearfield } from "./index.js";
const nearfield = new Nearfield("http://localhost");
// @ts-expect-error  no such path
nearfield.get("/nothing");
// @ts-expect-error  the path needs a user
nearfield.get("/recommend/{user}");
// @ts-expect-error  n is a number
nearfield.get("/popular", { query: { n: "3" } });
// @ts-expect-error  a rating has a user
nearfield.post("/ratings", { body: { item: "i1", rating: 5 } });
// @ts-expect-error  a rating has no value
nearfield.rate("ann", "i1", 5, { value: 2 });
// @ts-expect-error  n is a number here too
nearfield.recommend("ann", { n: "3" });
// @ts-expect-error  metrics have no pages
nearfield.each("/metrics");
nearfield.get("/popular").then(({ items }) => items.map(({ score }) => score?.toFixed(2)));
nearfield.post("/neighbors", { body: { items: ["i1"], filter: { not: { all: [{ tag: "genre", in: ["noir"] }] } } } });
"""


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None or COMPILER is None:
        pytest.skip(
            f"missing: {'node' if found is None else 'tsc'}; `npm install` in clients/typescript brings the latter"
        )
    return found


@pytest.fixture(scope="module")
def dist(node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled client, the examples of its README as `readme.js`, and lines that must not compile."""
    folder = tmp_path_factory.mktemp("typescript")
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(generate.TYPESCRIPT / name, folder)
    shutil.copytree(generate.TYPESCRIPT / "src", folder / "src")
    examples = re.findall(r"^```ts\n(.*?)^```", (generate.TYPESCRIPT / "README.md").read_text("utf-8"), re.M | re.S)
    assert len(examples) == 5
    (folder / "src" / "readme.ts").write_text("".join(examples).replace('"nearfield-client"', '"./index.js"'))
    (folder / "src" / "wrong.ts").write_text(WRONG)
    ran(COMPILER, "--project", folder)
    return folder / "dist"


@pytest.fixture(scope="module")
def address(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = tmp_path_factory.mktemp("clients") / "data"
    service = Service(
        data, backend="host", log_level="error", worker=False, admin_key=KEY, api_key="key-of-every-client"
    )
    yield str(service.client.base_url)
    service.stop()


def ran(*command: object, **environment: str) -> str:
    """What a command printed; it has to succeed."""
    done = subprocess.run(
        list(map(str, command)), env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_does_what_the_python_client_does(node: str, dist: Path, address: str) -> None:
    script = generate.TYPESCRIPT / "test" / "client.test.mjs"
    printed = ran(node, "--test-reporter=tap", script, DIST=str(dist), ADDRESS=address, KEY=KEY)
    assert "# pass 11\n# fail 0" in printed


def test_the_examples_of_its_readme_run(node: str, dist: Path, address: str) -> None:
    example = dist / "readme.js"
    example.write_text(example.read_text().replace("http://localhost:8000", address).replace("the key", KEY))
    assert "2 []" in ran(node, example)
