"""Which changes `make mutants` makes, and that a test which notices one tells it from one that none notices."""

import subprocess
import sys
from pathlib import Path

from tests.mutants import mutants_of

ROOT = Path(__file__).parents[1]
SOURCE = """
class One:
    def text(self, most: int = 3) -> str:
        '''Not this.'''
        _log.info("nor", 1)
        if self.n < 4 and not self.done:
            raise ValueError(f"nor {self.n + 1}")
        self.close()
        return self.n - (1 if self.late else True)
"""


def test_each_change_is_made_in_one_place() -> None:
    changes = [mutant.change.replace("\n", " ") for mutant in mutants_of("one.py", SOURCE)]
    assert [change.partition(" → ")[2] for change in changes] == [
        "self.n < 4 or not self.done", "self.n <= 4", "5", "not not self.done", "None",
        "self.n + (1 if self.late else True)", "1 if not self.late else True", "2", "False",
    ]  # fmt: skip
    assert {mutant.function for mutant in mutants_of("one.py", SOURCE)} == {"One.text"}


def test_what_no_test_notices_is_printed() -> None:
    test = "tests/service/engine/state/test_documents.py"
    test += "::test_a_query_with_another_scenario_than_the_present_one_is_refused"  # which finds no document by name
    paths = ["service/engine/state/documents.py", "--tests", test]
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants", *paths], cwd=ROOT, capture_output=True, text=True, check=True
    )
    survivors = [line for line in done.stdout.splitlines() if "documents.py:" in line]
    assert any("Documents.find, 0 tests: name not in named → name in named" in line for line in survivors)
    assert not any("Documents.check" in line for line in survivors)


def test_what_a_fork_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    """An embedded Redis has a process group of its own, so that it outlives its service."""
    code = """
import pathlib, psutil, subprocess, sys
from tests.mutants import in_a_fork
path = pathlib.Path(sys.argv[1])
def run():
    started = [subprocess.Popen(["sleep", "60"], **own) for own in ({"process_group": 0}, {"start_new_session": True})]
    path.write_text(" ".join(str(one.pid) for one in started))
    return 3
assert in_a_fork(run, 5.0) == 3
pids = [int(pid) for pid in path.read_text().split()]
assert len(pids) == 2 and not any(map(psutil.pid_exists, pids))
"""
    subprocess.run([sys.executable, "-c", code, tmp_path / "pids"], cwd=ROOT, check=True)
