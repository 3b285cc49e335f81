"""`Training`: whatever a training is asked for by, its parameters are judged once and wait in the queue as numbers."""

from typing import Any

import msgspec
import pytest

from gpu.algorithms import params_for
from gpu.base.errors import InvalidParams
from service.api.routes.admin import Retrain
from service.base.errors import InvalidRequest
from service.cli import arguments
from service.extras.console.training_form import training_of
from service.jobs.training import Training

LARGEST_SEED = 2**63 - 1


@pytest.mark.parametrize(
    ("algorithm", "text", "value"),
    [
        ("als", {"n_factors": "16"}, {"n_factors": 16}),
        ("als", {"regularization": "0.03", "biases": "false"}, {"regularization": 0.03, "biases": False}),
        ("als-implicit", {"alpha": "auto", "values": "counts"}, {"alpha": None, "values": "counts"}),
        ("sgd", {"seed": str(LARGEST_SEED), "n_epochs": "1e1"}, {"seed": LARGEST_SEED, "n_epochs": 10}),
        ("ease", {}, {}),
    ],
)
def test_every_way_in_gives_the_same_training(algorithm: str, text: dict[str, str], value: dict[str, Any]) -> None:
    form = {"algorithm": algorithm, "then": "live"} | {f"param.{name}": each for name, each in text.items()}
    asked = [Training.of(algorithm, text), Training.of(algorithm, value), training_of(form)]
    asked += [Retrain(algorithm=algorithm, params=given).judged() for given in (text, value)]
    assert asked == [Training(algorithm, value, algorithm, True, False, False, False)] * 5
    pairs = [f"{name}={each}" for name, each in text.items()]
    assert arguments.params(algorithm, pairs) == params_for(algorithm, asked[0].params)


def test_what_waits_in_the_queue_trains_the_same() -> None:
    given = {"seed": LARGEST_SEED, "learning_rate": 0.1 + 0.2, "half_life_days": "auto"}
    training = Training.of("sgd", given, "mine", activate=False, force=True, tune=True, shadow=True)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(training), type=Training) == training
    fields = training.fields()
    assert params_for(fields["algorithm"], msgspec.json.decode(fields.pop("params"))) == params_for("sgd", given)
    flags = {"activate": "0", "force": "1", "tune": "1", "shadow": "1"}
    assert fields == {"algorithm": "sgd", "name": "mine", **flags}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_factors": 10**100}, "Invalid n_factors: expected a number of at most 1e\\+30, got a larger one"),
        ({"n_factors": "many"}, "Invalid n_factors: expected a number, got 'many'"),
        ({"n_factors": {"a": [1]}}, "Invalid n_factors: expected a number"),
        ({"n_factors": 0}, "Invalid n_factors: expected 4 to 1024, got 0"),
        ({"solver": ["cg"]}, "Invalid solver: expected one of"),
        ({"n_neurons": 5}, "Invalid parameter of als: expected one of"),
    ],
)
def test_what_no_model_can_have_is_refused_where_it_enters(params: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParams, match=message):
        Training.of("als", params)


def test_a_name_that_no_model_can_have_is_refused() -> None:
    for name in ("ease", "Mine", "shadows"):
        with pytest.raises(InvalidRequest, match="Invalid name"):
            Training.of("als", {}, name)
