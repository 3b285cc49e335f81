from typing import Literal

RetrainAlgorithm = Literal[
    "als", "als-implicit", "culsh", "culsh-implicit", "ease", "esgd", "nmf", "sgd"
]

RETRAIN_ALGORITHM_VALUES: set[RetrainAlgorithm] = {
    "als",
    "als-implicit",
    "culsh",
    "culsh-implicit",
    "ease",
    "esgd",
    "nmf",
    "sgd",
}


def check_retrain_algorithm(value: str) -> RetrainAlgorithm:
    if value in RETRAIN_ALGORITHM_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {RETRAIN_ALGORITHM_VALUES!r}"
    )
