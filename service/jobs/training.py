"""`Training`: a training that was asked for, from a request, a form or the schedule, until a trainer takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gpu.algorithms import params_for
from service.storage.snapshots import version_names


class Training(msgspec.Struct, frozen=True):
    """A training whose parameters were judged; `of` makes it.

    Attributes:
        params: hyperparameters over the defaults of the algorithm, as numbers, texts and truth values.
        name: under which the model can be live.
        activate: whether the model goes live if it is good enough.
        force: whether it goes live even if it is not good enough.
        tune: whether to search for better values around `params` first.
        shadow: whether it learns and is tested, but never answers.
    """

    algorithm: str
    params: dict[str, str | int | float | bool | None]
    name: str
    activate: bool
    force: bool
    tune: bool
    shadow: bool

    @classmethod
    def of(
        cls,
        algorithm: str,
        params: Mapping[str, Any],
        name: str | None = None,
        *,
        activate: bool = True,
        force: bool = False,
        tune: bool = False,
        shadow: bool = False,
    ) -> Training:
        """Judge what is asked for.

        Args:
            algorithm, activate, force, tune, shadow: see this class.
            params: values may be text, see `gpu.algorithms.params_for`. The defaults of the others are those of the
                version that trains.
            name: default: the algorithm.

        Raises:
            InvalidParams: unknown algorithm or parameter, or a value out of range.
            InvalidRequest: no model of the algorithm can have that name.
        """
        all_params = params_for(algorithm, params)
        return cls(
            algorithm=algorithm,
            params={param: getattr(all_params, param) for param in params},
            name=version_names.check_name(algorithm if name is None else name, algorithm),
            activate=activate,
            force=force,
            tune=tune,
            shadow=shadow,
        )

    def fields(self) -> dict[str, str]:
        """What its job has in the queue; `service.jobs.trainer` judges the parameters again, as it may be newer."""
        flags = {"activate": self.activate, "force": self.force, "tune": self.tune, "shadow": self.shadow}
        return {
            "algorithm": self.algorithm,
            "name": self.name,
            "params": msgspec.json.encode(self.params).decode(),
            **{flag: str(int(value)) for flag, value in flags.items()},
        }
