"""Experiments: which share of the users gets which model, and what it leads to."""

# ruff: noqa: PLC0415 (a command that serves nothing does not need the framework)
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.extras.experiments.queries import GetExperiment, PutExperiment

if TYPE_CHECKING:
    from service.api.app import Application
    from service.api.serving import Serving
    from service.engine.engine import Engine
    from service.extras import Parts
    from service.processes.runtime import Runtime


def register(parts: Parts) -> None:
    """Add the routes of experiments, their arms and counts in the engine, and a page of the console."""
    parts.routes.append(_add_routes)
    parts.operations += [GetExperiment, PutExperiment]
    parts.engine.append(_add_arms)
    parts.pages["experiments"] = _page


def _add_routes(app: Application) -> None:
    from service.api.dependencies import problem
    from service.extras.experiments import routes

    app.add(routes.router)
    app.state.refusals["end_model"] = {"409": problem("An arm of an experiment")}


def _add_arms(runtime: Runtime, engine: Engine) -> None:
    from service.api.operations import EndModel
    from service.base.recommendation_ids import RecommendationIds
    from service.extras.experiments.experiments import Changes, Experiments

    experiments = Experiments(engine.history, engine.live, RecommendationIds(engine.signer))
    changes = Changes(runtime)
    engine.planner.arms = experiments
    engine.answer_to |= experiments.answer_to
    runtime.calls |= {PutExperiment: changes.put, GetExperiment: runtime.ask}
    runtime.guards[EndModel] = changes.without


async def _page(serving: Serving, id: str | None) -> dict[str, Any]:
    from service.extras.experiments import routes

    return await routes.page(serving, id)
