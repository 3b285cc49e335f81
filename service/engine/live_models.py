"""`LiveModels`: the live models by name, in order of preference. Belongs to the engine thread."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from service.engine.applied import Applied
from service.engine.live_model import LiveModel
from service.errors import NotReady, UnknownModel

_log = structlog.get_logger(__name__)
NONE_LIVE = "no model is live yet: POST /admin/retrain trains one"


class LiveModels:
    """The live models, and the names of those that will be live soon.

    Attributes:
        preparing: models that learn all entries, and are not live yet.
        expected: names of models that are being prepared for their first answer in this process.
    """

    def __init__(self, default_models: Sequence[str]) -> None:
        self._rank_of_model = {name: rank for rank, name in enumerate(default_models)}
        self._live: dict[str, LiveModel] = {}
        self.preparing: list[LiveModel] = []
        self.expected: frozenset[str] = frozenset()

    def all(self) -> list[LiveModel]:
        """The live models in order of preference."""
        return list(self._live.values())

    def install(self, live_model: LiveModel) -> None:
        """Make `live_model` the live model of its name."""
        models = {**self._live, live_model.name: live_model}
        last = len(self._rank_of_model)
        self._live = dict(sorted(models.items(), key=lambda live: (self._rank_of_model.get(live[0], last), live[0])))

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
            UnknownModel: there is none.
        """
        if name in self._live:
            return self._live[name]
        if self.is_prepared(name):
            raise NotReady(f"{self.described(name)} is being prepared: GET /health/ready says how far it is")
        if not self._live:
            raise UnknownModel(NONE_LIVE)
        if name is None:
            return next(iter(self._live.values()))
        raise UnknownModel(f"Invalid model: expected a live one ({', '.join(self._live)}), got {name!r}")

    def named_or_none(self, name: str | None) -> LiveModel | None:
        """As `named`; None while it is being prepared, and if no model is live and none is named."""
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
