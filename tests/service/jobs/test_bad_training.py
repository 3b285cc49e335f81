"""Trainings over HTTP on ratings, and with parameters, that nobody means well: a model or a reason, and a service."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu.algorithms import ALGORITHMS
from tests.service.local import Local, serving

SMALL = {"n_factors": 8, "n_epochs": 3, "n_bits": 64, "n_neighbors": 2}
VALUES = [5.0, 4.0, 1.0, 3.0, 1e-6, 2.0, 0.0]
LOWEST = "u0", "i1"  # a pair that is not held out


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """Ratings of usual size with a few among them that are far too large, or far too small."""
    with serving(tmp_path_factory.mktemp("bad") / "data", backend="host") as local:
        values = [(user, item, VALUES[(3 * user + item) % 7]) for user in range(40) for item in range(20)]
        local.rate(*[(f"u{user}", f"i{item}", value) for user, item, value in values])
        local.rate((*LOWEST, -1e6), ("u1", "i1", 1e6), ("all-the-same", "i2", 3.0))
        yield local


@pytest.mark.parametrize("algorithm", ["als-implicit", "culsh", "nmf"])  # tests.gpu.test_bad_input has all
def test_an_algorithm_learns_it(service: Local, algorithm: str) -> None:
    known = {name: value for name, value in SMALL.items() if name in ALGORITHMS[algorithm].params.__dataclass_fields__}
    job = service.retrain(algorithm, params=known)
    assert (job["state"], job["promoted"], job["error"]) == ("succeeded", True, None)
    for user in ("u0", "u1", "all-the-same", "stranger"):
        answer = service.get(f"/recommend/{user}", model=algorithm)
        assert answer.status_code == 200, answer.text
    position = service.rate((f"late-{algorithm}", "i3", -9e5))
    answer = service.get(f"/recommend/late-{algorithm}", model=algorithm, wait_for=position)
    assert answer.status_code == 200, answer.text


def test_nmf_names_a_negative_rating_where_they_are_no_exception(tmp_path: Path) -> None:
    with serving(tmp_path / "data", backend="host") as local:
        local.rate(*((user, f"i{item}", -2.0 if user == "a" else 3.0) for user in "abcd" for item in range(9)))
        job = local.retrain("nmf", params={"n_factors": 4})
        assert job["state"] == "failed"
        assert "got -2; train als-implicit, which takes low values for dislikes" in str(job["error"])
        assert "(user 'a', item 'i" in str(job["error"])


def test_one_rating_is_a_model_or_a_reason(tmp_path: Path) -> None:
    with serving(tmp_path / "data", backend="host") as local:
        local.rate(("somebody", "something", 0.0))
        assert "expected some above 0" in str(local.retrain("als-implicit")["error"])
        job = local.retrain("als")
        assert (job["state"], job["error"]) == ("succeeded", None)


def test_too_strong_a_parameter_fails_the_job_and_names_it(service: Local) -> None:
    job = service.retrain("sgd", params={"n_factors": 4, "n_epochs": 2, "regularization": 1e5})
    assert job["state"] == "failed"
    assert "diverged in epoch 1" in str(job["error"])
    assert str(job["error"]).endswith("lower regularization (100000)")
