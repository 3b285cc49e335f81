"""Names under which models can be live."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gpu.algorithms import ALGORITHMS

MAX_NAME_LENGTH = 40  # characters
NAME = re.compile(r"[a-z][a-z0-9-]*")  # older files have longer names
RESERVED = "sha256", "shadows", "popularity"  # keys of live.json, and what models are compared with


def may_be_name(text: str) -> bool:
    """Whether some model could be live under `text`."""
    is_short = len(text) <= MAX_NAME_LENGTH and not text.endswith("-")
    return is_short and NAME.fullmatch(text) is not None and text not in RESERVED


def check_model_names(value: list[str]) -> list[str]:
    """The setting `default_models`, if models can have these names."""
    for name in value:
        if name not in ALGORITHMS and not may_be_name(name):
            raise ValueError(f"Invalid default_models: expected names of models, got {name[:80]!r}")
    return value


def by_preference(names: Iterable[str], default_models: Sequence[str]) -> list[str]:
    """`names` of models in the order of the setting `default_models`, and then of the alphabet."""
    rank_of_model = {name: rank for rank, name in enumerate(default_models)}
    return sorted(names, key=lambda name: (rank_of_model.get(name, len(rank_of_model)), name))
