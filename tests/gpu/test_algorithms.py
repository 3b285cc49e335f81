"""Hyperparameters: conversion of text, ranges, and names that do not exist."""

import dataclasses
import subprocess
import sys

import pytest

from gpu.algorithms import ALGORITHMS, params_for
from gpu.als.params import AlsImplicitParams, AlsParams
from gpu.base.errors import InvalidParams
from gpu.descent.params import CulshImplicitParams, CulshParams, SgdParams


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_defaults_are_valid_and_name_their_algorithm(algorithm: str) -> None:
    params = params_for(algorithm, {})
    assert params.algorithm == algorithm
    assert params == ALGORITHMS[algorithm].params()


def test_importing_the_package_loads_no_kernel() -> None:
    """Every command reads settings, which name algorithms; Numba and its kernels would take half a second of each."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys, gpu; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    assert not {"numba", "cupy"} & set(done.stdout.split())


def test_text_becomes_numbers_of_the_right_kind() -> None:
    params = params_for("culsh", {"n_factors": "32", "learning_rate": "0.5", "similarity": "gsm", "n_epochs": "7.0"})
    assert params == CulshParams(n_factors=32, learning_rate=0.5, similarity="gsm", n_epochs=7)
    assert [type(params.n_factors), type(params.n_epochs), type(params.learning_rate)] == [int, int, float]


def test_large_seeds_keep_every_bit() -> None:
    for seed in (2**62 + 1, str(2**62 + 1)):
        params = params_for("sgd", {"seed": seed})
        assert isinstance(params, SgdParams)
        assert params.seed == 2**62 + 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_factors", 0),
        ("n_factors", 2.5),
        ("n_factors", "many"),
        ("n_factors", True),
        ("n_factors", None),
        ("n_epochs", -1),
        ("learning_rate", "nan"),
        ("learning_rate", float("inf")),
        ("regularization", -0.1),
        ("similarity", "cosine"),
        ("psi", 3),
        ("seed", -1),
        ("momentum", 0.9),
    ],
)
def test_what_cannot_be_used_is_named(name: str, value: object) -> None:
    with pytest.raises(InvalidParams, match=name):
        params_for("culsh", {name: value})


ABSURD = [
    "1e400",
    "-1e400",
    "NaN",
    "sNaN",
    "Infinity",
    "1e999999999",
    "1e-999999999999999999999",
    10**400,
    10**5000,
    1e308,
]
ABSURD += ["", " ", "x" * 10_000, [], {}, [1], {"a": 1}, [[[[]]]], "\ud800", "\x00"]


@pytest.mark.parametrize("value", ABSURD, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_absurd_values_are_refused_in_a_short_sentence(algorithm: str, value: object) -> None:
    for field in dataclasses.fields(ALGORITHMS[algorithm].params):
        with pytest.raises(InvalidParams, match=field.name) as caught:
            params_for(algorithm, {field.name: value})
        assert len(str(caught.value)) < 400


def test_parameters_of_other_algorithms_are_refused() -> None:
    with pytest.raises(InvalidParams, match="n_neighbors"):
        params_for("sgd", {"n_neighbors": 8})
    with pytest.raises(
        InvalidParams, match="als, als-implicit, culsh, culsh-implicit, ease, esgd, neighbors, next, nmf, sgd"
    ):
        params_for("svd", {})


@pytest.mark.parametrize("algorithm", ["als", "als-implicit"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_factors", 3),
        ("n_factors", 1025),
        ("regularization", -0.01),
        ("regularization", float("nan")),
        ("n_cg_steps", 0),
        ("cg_tolerance", float("nan")),
        ("solver", "lu"),
        ("precision", "float64"),
    ],
)
def test_als_has_ranges_of_its_own(algorithm: str, name: str, value: object) -> None:
    with pytest.raises(InvalidParams, match=f"{name}: expected .*got {value!r}"):
        params_for(algorithm, {name: value})


@pytest.mark.parametrize("alpha", [-1.0, 0.0, float("nan"), float("inf")])
def test_confidence_must_be_positive(alpha: float) -> None:
    with pytest.raises(InvalidParams, match="alpha"):
        AlsImplicitParams(alpha=alpha)


def test_truth_is_read_from_text() -> None:
    assert params_for("als", {"biases": "false"}) == AlsParams(biases=False)
    assert params_for("als", {"biases": "1"}) == AlsParams(biases=True)
    with pytest.raises(InvalidParams, match="biases"):
        params_for("als", {"biases": "perhaps"})


def test_direct_construction_is_checked_too() -> None:
    with pytest.raises(InvalidParams, match="n_negatives"):
        CulshImplicitParams(n_negatives=0)


def test_parameters_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SgdParams().n_factors = 3  # type: ignore[misc]


def test_a_parameter_of_an_older_version_is_refused_with_its_name_of_today() -> None:
    with pytest.raises(InvalidParams, match="Invalid parameter of culsh: 'n_neighbours' is called 'n_neighbors' now"):
        params_for("culsh", {"n_neighbours": 8})
    with pytest.raises(InvalidParams, match="expected one of"):
        params_for("als", {"n_neighbours": 8})
