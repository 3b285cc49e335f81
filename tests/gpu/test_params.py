"""Hyperparameters: conversion of text, ranges, and names that do not exist."""

from __future__ import annotations

import dataclasses

import pytest

from gpu.errors import InvalidParams
from gpu.params import ALGORITHMS, CulshImplicitParams, CulshParams, SgdParams, params_for


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_defaults_are_valid_and_name_their_algorithm(algorithm: str) -> None:
    params = params_for(algorithm, {})
    assert params.algorithm == algorithm
    assert params == ALGORITHMS[algorithm]()


def test_text_becomes_numbers_of_the_right_kind() -> None:
    params = params_for("culsh", {"n_factors": "32", "learning_rate": "0.5", "similarity": "gsm", "n_epochs": "7.0"})
    assert params == CulshParams(n_factors=32, learning_rate=0.5, similarity="gsm", n_epochs=7)
    assert [type(params.n_factors), type(params.n_epochs), type(params.learning_rate)] == [int, int, float]


def test_large_seeds_keep_every_bit() -> None:
    assert params_for("sgd", {"seed": 2**62 + 1}).seed == 2**62 + 1
    assert params_for("sgd", {"seed": str(2**62 + 1)}).seed == 2**62 + 1


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


def test_parameters_of_other_algorithms_are_refused() -> None:
    with pytest.raises(InvalidParams, match="n_neighbours"):
        params_for("sgd", {"n_neighbours": 8})
    with pytest.raises(InvalidParams, match="culsh, culsh-implicit, sgd"):
        params_for("svd", {})


def test_direct_construction_is_checked_too() -> None:
    with pytest.raises(InvalidParams, match="n_negatives"):
        CulshImplicitParams(n_negatives=0)


def test_parameters_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SgdParams().n_factors = 3  # type: ignore[misc]
