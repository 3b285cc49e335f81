"""What a service says while something is wrong with its files."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from service.storage import archiver
from tests.service.local import Local, serving
from tests.service.process import Service
from tests.service.waiting import eventually

OLD = Path(__file__).parent / "data-57eaa35" / "data"


def test_a_corrupt_live_file_is_named_and_nothing_else_breaks(tmp_path: Path) -> None:
    data = Path(shutil.copytree(OLD, tmp_path / "data"))
    with serving(data, backend="host") as service:
        eventually(lambda: len(service.runtime.hotswap.served()) == 4)
        assert service.get("/recommend/u0").json()["personalized"]
        path = data / "live.json"
        intact = path.read_bytes()
        assert b"sha256" in intact  # a file of an older version has got its checksum
        version = service.runtime.hotswap.served()["als"]
        path.write_bytes(intact[:-9])
        eventually(lambda: service.get("/health/ready").status_code == 503)
        assert str(path) in service.get("/health/ready").json()["detail"]
        answer = service.post(f"/admin/models/{version}/activate", None)
        assert answer.status_code == 503
        assert (answer.json()["type"], str(path) in answer.json()["detail"]) == (
            "urn:nearfield:problem:corrupt-live-file",
            True,
        )
        assert service.get("/admin/jobs").status_code == 200
        assert service.get("/recommend/u0").json()["personalized"]
        path.write_bytes(intact)
        eventually(lambda: service.get("/health/ready").status_code == 200)


ALTERED = [
    "", "{", "null", "[]", '{"als": 3}', '{"als": {}}', '{"als": "../../etc"}', '{"shadows": "als"}', '{"sha256": "0"}',
    '{"culsh": "als-20261122T105445-bfd3"}', "\x00\xff",
]  # fmt: skip


RATINGS = [{"user": "u0", "item": "i1", "rating": 3.0}]


def test_popular_items_answer_after_a_start_with_an_altered_live_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = Path(shutil.copytree(OLD, tmp_path / "data"))
    path = data / "live.json"
    intact = path.read_bytes()
    path.write_text(ALTERED[0], "latin-1")
    with Local(data, backend="host") as service:
        eventually(lambda: service.get("/recommend/u0").status_code == 200)
        for content in ALTERED:
            path.write_text(content, "latin-1")
            service.runtime.hotswap.poke()
            answer = service.get("/recommend/u0").json()
            assert (answer["personalized"], len(answer["items"])) == (False, 10), content
            eventually(lambda: str(path) in service.get("/health/ready").json()["detail"], 60)
            eventually(lambda: service.post("/ratings", RATINGS).status_code == 202, 60)
        assert "no model is loaded; without one popular items answer" in capsys.readouterr().out
        path.write_bytes(intact)
        eventually(lambda: service.get("/recommend/u0").json()["personalized"])
        assert service.get("/health/ready").status_code == 200


def test_a_live_version_that_is_gone_leaves_the_next_or_popular_items(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = Path(shutil.copytree(OLD, tmp_path / "data"))
    gone = "als-20990101T000000-abcd"
    (data / "live.json").write_text(f'{{"als": "{gone}"}}')
    with serving(data, backend="host") as service:
        assert service.get("/recommend/u0").json()["model_version"].startswith("als-2026")
    shutil.rmtree(data / "snapshots")
    with serving(data, backend="host") as service:
        answer = service.get("/recommend/u0").json()
        assert (answer["personalized"], len(answer["items"])) == (False, 10)
    assert gone in capsys.readouterr().out


def test_a_missing_segment_is_reported_and_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiver, "TIDY_EVERY_S", 0.1)
    monkeypatch.setattr(archiver, "LOOK_AGAIN_S", 0.1)
    data = Path(shutil.copytree(OLD, tmp_path / "data"))
    with serving(data, backend="host") as service:
        segment = next((data / "ratings").glob("*.parquet"))
        eventually((data / "ratings" / "manifest.json").exists)
        segment.rename(tmp_path / "aside")
        eventually(lambda: service.get("/health/ready").status_code == 503)
        assert segment.name in service.get("/health/ready").json()["detail"]
        eventually(lambda: "nearfield_rating_log_damaged 1.0" in service.get("/metrics").text)
        service.rate(("u0", "i0", 1.0))
        (tmp_path / "aside").rename(segment)
        eventually(lambda: service.get("/health/ready").status_code == 200)


ENDING = """
import pathlib, sys
from service.__main__ import run
from service.{module} import {name} as Part

step = Part.step

def ending(*arguments):
    if pathlib.Path(sys.argv[1]).exists():
        sys.exit("gone")
    return step(*arguments)

Part.step = ending
sys.exit(run(["serve", "--port", "0", "--data", sys.argv[2]]))
"""


@pytest.mark.parametrize(
    ("module", "name", "process"),
    [("storage.archiver", "Archiver", "archiver"), ("engine.learner", "Learner", "engine")],
)
def test_a_part_that_ends_ends_its_process_which_starts_again(
    tmp_path: Path, module: str, name: str, process: str
) -> None:
    flag, errors = tmp_path / "ends", tmp_path / "errors"
    code = ENDING.format(module=module, name=name)
    with errors.open("w") as log:
        command = [sys.executable, "-c", code, str(flag), str(tmp_path / "data")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as service:
            try:
                assert service.stdout is not None
                url = service.stdout.readline().partition(" on ")[2].split()[0]
                flag.touch()
                eventually(lambda: f'"died": "{process}", "cause": "status 1"' in errors.read_text(), 60)
                flag.unlink()
                eventually(lambda: httpx.get(f"{url}/health/ready", timeout=60).status_code == 200, 60)
                rating = {"user": "ann", "item": "tea", "rating": 5}
                assert httpx.post(f"{url}/ratings", json=rating, timeout=60).status_code == 202
                service.terminate()
                assert service.wait(60) == 0
            finally:
                service.kill()
    assert "a part of the service failed" in errors.read_text()


def test_only_the_owner_can_read_the_data(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    service = Service(data, worker=False)
    try:
        service.rate(("ann", "x", 4.0))
        assert service.stop() == 0
    finally:
        service.kill()
    modes = {str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode) for path in [data, *data.rglob("*")]}
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
    assert {"data/redis", "data/ratings/manifest.json"} <= modes.keys()
