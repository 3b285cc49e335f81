"""A data folder that an older version wrote: see data-57eaa35/README.md."""

import json
import shutil
from pathlib import Path

import pytest

from service.storage.snapshots import live_versions, snapshot
from tests.service.local import Local, serving
from tests.service.waiting import eventually

OLD = Path(__file__).parent / "data-57eaa35"
ANSWERS = json.loads((OLD / "answers.json").read_text("utf-8"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A copy: a service writes into its folder."""
    return Path(shutil.copytree(OLD / "data", tmp_path / "data"))


def shown(service: Local, user: str, algorithm: str) -> tuple[list[str], list[float]]:
    answer = service.get(f"/recommend/{user}", n=8, model=algorithm)
    assert answer.status_code == 200, answer.text
    lines = answer.json()["items"]
    return [line["item"] for line in lines], [line["score"] for line in lines]


def test_it_answers_as_it_did_until_it_is_retrained(data: Path) -> None:
    with serving(data, backend="host") as service:
        eventually(lambda: len(service.runtime.hotswap.served()) == len(ANSWERS["lists"]))
        for algorithm, lists in ANSWERS["lists"].items():
            for user, lines in lists.items():
                items, scores = shown(service, user, algorithm)
                assert items == [item for item, _ in lines], (algorithm, user)
                # Bit for bit on one machine: another one may add up in another order.
                assert scores == pytest.approx([score for _, score in lines], rel=1e-5), (algorithm, user)
                estimate = service.get(f"/estimate/{user}/i9", model=algorithm).json()["estimate"]
                assert estimate == pytest.approx(ANSWERS["estimates"][algorithm][user], rel=1e-5)
        done = service.retrain("als-implicit", params={"n_factors": 8})
        assert (done["state"], done["promoted"], done["error"]) == ("succeeded", True, None)
        assert service.get("/recommend/u0", model="als-implicit").json()["model_version"] == done["version"]
    manifests = {
        name: snapshot.read_manifest(data / "snapshots", version) for name, version in live_versions.read(data).items()
    }
    assert {name: manifest.format for name, manifest in manifests.items()} == {
        "als": 1,
        "als-implicit": 3,
        "culsh": 1,
        "culsh-implicit": 1,
    }
    calibration = manifests["als-implicit"].calibration
    assert calibration.values == "ratings"
    assert calibration.middle is not None


def test_defaults_are_not_among_given_parameters(data: Path) -> None:
    given = {
        name: snapshot.read_manifest(data / "snapshots", version).given
        for name, version in live_versions.read(data).items()
    }
    assert given == {
        "als": {"n_factors": 8},
        "als-implicit": {"n_factors": 8},
        "culsh": {"n_factors": 8, "n_epochs": 15, "n_neighbors": 4, "n_bits": 64},
        "culsh-implicit": {"n_factors": 8, "n_epochs": 10, "n_neighbors": 4, "n_bits": 64},
    }
