"""What people read about hyperparameters."""

import dataclasses

import pytest

from gpu.algorithms import ALGORITHMS
from gpu.data.param_docs import meanings


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_parameter_has_a_meaning_in_plain_text(algorithm):
    kind = ALGORITHMS[algorithm].params
    found = meanings(kind)
    assert {field.name for field in dataclasses.fields(kind)} <= found.keys()
    assert not [text for text in found.values() if "`" in text or "  " in text or "as in" in text[:5]]


def test_a_class_describes_its_own_before_those_of_its_bases():
    """λ of ALS is one thing, and that of implicit ALS, which the data can give, another."""
    explicit, implicit = meanings(ALGORITHMS["als"].params), meanings(ALGORITHMS["als-implicit"].params)
    assert "None: computed from the number of rows" in implicit["regularization"] != explicit["regularization"]
    assert explicit["solver"] == implicit["solver"]
    assert "gpu." not in implicit["half_life_days"]
