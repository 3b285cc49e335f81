"""`nearfield tune`: searches parameters on a file and, if it has events, the weights of their types.

The weight of a type matters only beside those of others. So the most frequent type keeps its own, and each other one is
tried with multiples of it, before the parameters: with bad weights the best confidence is one that ignores them. A
weight replaces another one as a parameter does, only if it is clearly better. What is held out is the same for all
weights: the likes by those that were asked for.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpu
from gpu.base.errors import naming
from gpu.data.calibration import calibrate
from gpu.data.evidence import packed
from gpu.data.ratings import are_likes
from gpu.repeat.learn import learned as how_items_repeat
from gpu.training import tune as search
from gpu.training.trials import Trial, changed, is_clear, tried
from service.cli.offline import Data, Evidence, OnLine
from service.settings.event_types import MAX_WEIGHT, EventTypes, text_of

FACTORS = 0.1, 0.3, 3.0, 10.0  # of the weight of a type
ENOUGH = 400  # events of a type; with fewer its weight stays

Judge = Callable[[EventTypes], NDArray[np.float64]]  # trains, and returns the losses of users; empty if that failed


@dataclass(frozen=True)
class TypeStep:
    """What the best other weight of a type of events gained; see `gpu.training.tune.Step`."""

    name: str
    weight: float
    score: float
    gain: float
    error: float
    is_kept: bool

    def record(self, _: gpu.Params) -> dict[str, Any]:
        """Its figures."""
        figures = {"score": self.score, "gain": self.gain, "standard_error": self.error, "is_kept": self.is_kept}
        return {"step": self.name, **figures, "weight": self.weight}


def tune(data: Data, params: gpu.Params, backend: gpu.Backend, on_line: OnLine) -> tuple[dict[str, Any], str]:
    """Search weights of types, then parameters by `gpu.training.tune`; return (the closing line, the same as text).

    The line has the best parameters and their score, and what each step gained. With events it also has the best
    weights, and whether what users had comes back in lists with all of these.

    Args:
        data: see `Data`; must have test ratings.
        params: the algorithm and the hyperparameters to search around.
        backend: the backend to train on.
        on_line: called with a record of each training (`Trial.record`), its number and the number of all.
    """
    assert data.test is not None  # noqa: S101 - the command always holds pairs out; this narrows the type
    names, trials, is_aged = types_to_try(data.evidence, params), list[Trial](), data.is_newer or params.is_ordered
    n_of_types, test, steps = 1 + len(FACTORS) * len(names) if names else 0, data.test, list[TypeStep | search.Step]()
    types: EventTypes = {} if data.evidence is None else data.evidence.types

    def on_trial(trial: Trial, _: int, n_trials: int) -> None:
        trials.append(trial)
        on_line({"trial": len(trials), "of": n_of_types + n_trials, **trial.record(params)})

    def judge(types: EventTypes) -> NDArray[np.float64]:
        weighed = data.weighed(types)
        times = weighed.times if is_aged else None
        trial, losses = tried(weighed.train, likes, params.sized(), 0, backend, times=times)
        trials.append(trial)
        of_all = n_of_types + search.MOST_STEPS
        on_line({"trial": len(trials), "of": of_all, **trial.record(params), "events": text_of(types)})
        return losses

    with naming(data.ids):
        if names:
            likes = likes_of(data, test, params)
            types, of_types = best_weights(types, names, judge)
            data, steps = data.weighed(types), [*of_types]
        times = data.times if is_aged else None
        result = search.tune(data.train, test, params, backend=backend, on_trial=on_trial, times=times)
    steps += result.steps
    best = changed(result.best, params)
    texts = {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in best.items()}
    options = " ".join(f"--set {name}={text}" for name, text in texts.items())
    closing = {
        "done": True,
        "algorithm": params.algorithm,
        "n_trials": len(trials),
        f"best_{result.metric}": result.score,
        "params": best,
        "set": options,
        "steps": [step.record(params) for step in steps],
    }
    lines = [f"| step | {result.metric} | gain | standard error | kept |", "| --- | --- | --- | --- | --- |"]
    for step in steps:
        figures = f"{step.score:.4f} | {step.gain:+.4f} | {step.error:.4f}"
        value = step.weight if isinstance(step, TypeStep) else changed(step.params, params).get(step.name)
        text = "" if value is None else f" {value:.4g}" if isinstance(value, float) else f" {value}"
        lines.append(f"| {step.name}{text} | {figures} | {'yes' if step.is_kept else 'no'} |")
    lines.append(f"{result.metric} {result.score:.4f} after {len(trials)} trainings")
    if data.evidence is not None:
        occasions, shape = data.occasions(), (data.train.n_users, data.train.n_items)
        repeat = None if occasions is None else how_items_repeat(occasions, shape, result.best, backend)
        closing["events"] = text_of(types)
        if repeat is not None:
            closing["repeat"] = dataclasses.asdict(repeat)
            gain = "ndcg@10 {:+.4f} ({:+.4f} to {:+.4f})".format(repeat.gain, *repeat.interval)
            told = f"weight {repeat.weight:.4g}, half-life of {repeat.half_life_days:g} days, {gain}"
            lines.append(f"what users had before: {repeat.remark or told}")
        lines.append(f"NEARFIELD_EVENTS={text_of(types)}")
    return closing, "\n".join([*lines, options])


def types_to_try(evidence: Evidence | None, params: gpu.Params) -> list[str]:
    """The types whose weights may matter: all with enough events but the most frequent one."""
    if evidence is None or not params.has_values or params.is_logit:
        return []
    counts = Counter(event.type for event in evidence.events if evidence.types[event.type])
    return [name for name, n in counts.most_common()[1:] if n >= ENOUGH]


def likes_of(data: Data, test: gpu.Ratings, params: gpu.Params) -> gpu.Ratings:
    """The pairs of `test` that are liked and were not trained on, with a strength that is a like by any weights."""
    (users, items, values), (trained_users, trained_items, _) = test.coo(), data.train.coo()
    pairs, trained = users.astype(np.int64) << 32 | items, trained_users.astype(np.int64) << 32 | trained_items
    rules = calibrate(data.train, params)
    kept = are_likes(values, rules.middle, rules.lift) & ~np.isin(pairs, trained)
    ones = np.ones(np.count_nonzero(kept), dtype=np.float32)
    strengths = packed(np.full_like(ones, np.nan), ones)
    return gpu.Ratings.from_coo(users[kept], items[kept], strengths, (test.n_users, test.n_items))


def best_weights(types: EventTypes, names: list[str], judge: Judge) -> tuple[EventTypes, list[TypeStep]]:
    """(`types` with the best weights of `names`, one after the other; what each gained)."""
    least, steps = judge(types), list[TypeStep]()
    for name in names:
        found = dict[float, NDArray[np.float64]]()
        for factor in FACTORS:
            weight = float(np.clip(types[name] * factor, -MAX_WEIGHT, MAX_WEIGHT))
            losses = judge({**types, name: weight})
            if len(losses):
                found[weight] = losses
        if not len(least) or not found:
            continue
        best = min(found, key=lambda weight: float(found[weight].mean()))
        losses = found[best]
        gain, error = float((least - losses).mean()), float((least - losses).std() / len(losses) ** 0.5)
        is_kept = is_clear(losses, least)
        steps.append(TypeStep(f"events {name}", best, -float(losses.mean()), gain, error, is_kept))
        if is_kept:
            types, least = {**types, name: best}, losses
    return types, steps
