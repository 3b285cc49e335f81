"""`LiveModels`: the live models by name, in order of preference. Belongs to the engine thread.

All of them learn and are tested. The shadows among them never answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from service.base.errors import NotReady
from service.engine.models.live_model import LiveModel
from service.engine.state.applied import Applied
from service.settings.model_names import by_preference
from service.storage.errors import UnknownModel

_log = structlog.get_logger(__name__)
SHADOW = "Invalid model: {!r} is a shadow, which learns and is tested but never answers"
NONE_LIVE = "no model is live yet: POST /admin/retrain trains one"


class LiveModels:
    """The live models, and the names of those that will be live soon.

    Attributes:
        preparing: models that learn all entries, and are not live yet.
        expected: names of models that are being prepared for their first answer in this process: until they are live,
            lists carry a warning and other requests get 503.
    """

    def __init__(self, default_models: Sequence[str]) -> None:
        self._default_models = default_models
        self._all: dict[str, LiveModel] = {}
        self._live: dict[str, LiveModel] = {}  # without shadows
        self._named: dict[str | None, LiveModel] = {}  # the same, and under None the first
        self._shadows: frozenset[str] = frozenset()
        self.preparing: list[LiveModel] = []
        self.expected: frozenset[str] = frozenset()

    def all(self) -> list[LiveModel]:
        """All models in order of preference; shadows come last."""
        return sorted(self._all.values(), key=lambda live_model: live_model.name in self._shadows)

    @property
    def shadows(self) -> frozenset[str]:
        """Names of models that do not answer."""
        return self._shadows

    @shadows.setter
    def shadows(self, names: frozenset[str]) -> None:
        self._shadows = names
        self._live = {name: live_model for name, live_model in self._all.items() if name not in names}
        self._named = {name: live_model for name, live_model in self._live.items()}  # noqa: C416 (other type of keys)
        if self._live:
            self._named[None] = next(iter(self._live.values()))

    def install(self, live_model: LiveModel) -> None:
        """Make `live_model` the live model of its name."""
        models = {**self._all, live_model.name: live_model}
        self._all = {name: models[name] for name in by_preference(models, self._default_models)}
        self.shadows = self._shadows

    def remove(self, name: str) -> None:
        """End the live model or shadow `name`, if there is one."""
        self._all = {other: live_model for other, live_model in self._all.items() if other != name}
        self.shadows = self._shadows - {name}

    def learn(self, applied: Applied) -> None:
        """Let all models learn what the history has just applied; one in preparation that cannot is dropped."""
        for live_model in self.all():
            live_model.learn(applied)
        for live_model in tuple(self.preparing):
            try:
                live_model.learn(applied)
            except Exception as error:  # give up the new model and keep the service
                _log.error("model cannot learn", version=live_model.version, error=str(error))
                self.discard(live_model)

    def discard(self, live_model: LiveModel) -> None:
        """Stop preparing `live_model`."""
        if live_model in self.preparing:
            self.preparing.remove(live_model)

    def named(self, name: str | None) -> LiveModel:
        """The live model of that name; for None the first.

        Raises:
            NotReady: it is being prepared.
            UnknownModel: there is none, or it is a shadow.
        """
        if name in self._named:
            return self._named[name]
        if self.is_prepared(name):
            raise NotReady(f"{self.described(name)} is being prepared: GET /health/ready says how far it is")
        if name in self._all:
            version = self._all[name].shown_version
            raise UnknownModel(f"{SHADOW.format(name)}: POST /admin/models/{version}/activate makes it answer")
        if not self._live:
            raise UnknownModel(NONE_LIVE)
        raise UnknownModel(f"Invalid model: expected a live one ({', '.join(self._live)}), got {name!r}")

    def tested(self, name: str) -> LiveModel:
        """The live model or shadow of that name; raises what `named` raises."""
        return self._all.get(name) or self.named(name)

    def named_or_none(self, name: str | None) -> LiveModel | None:
        """As `named`; None while it is being prepared, and if no model is live and none is named."""
        if name in self._named:
            return self._named[name]
        if self.is_prepared(name) or not (self._live or name):
            return None
        return self.named(name)

    def estimator(self, name: str | None) -> LiveModel:
        """The live model of that name; for None the first that estimates ratings, if there is one."""
        if name is None:
            name = next((live for live, live_model in self._live.items() if not live_model.model.is_implicit), None)
        return self.named(name)

    def is_prepared(self, name: str | None) -> bool:
        """Whether the model `name` is being prepared; for None, whether all models there are are being prepared."""
        return not self._live and bool(self.expected) if name is None else name in self.expected - self._live.keys()

    def described(self, name: str | None) -> str:
        """The model `name` in words; for None the models that are being prepared."""
        return f"the model {name or ' or '.join(sorted(self.expected))}"
