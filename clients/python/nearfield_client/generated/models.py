"""A class for each schema of the service. Made by `make clients` from its OpenAPI document."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, Literal

from nearfield_client.model import UNSET, Entries, Model, OpenModel, Unset


@dataclass
class AnonymousBody(Model):
    """Body of `POST /recommend` for ratings and events that are used once and not stored.

    Attributes:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        scenario: Its body counts where the request names no field itself.
        n: How many results.
        offset: How many of the best to leave out.
        exclude: Items never to show; repeat the parameter for several.
        include_seen: Whether items that the user rated may be shown.
        repeat: Whether what the user had may be shown again; auto: where users are seen to come back. Default: the
            setting `repeat`.
        seen_types: Leave out only what the user has events of these types with, or has rated (rating). Default: the
            setting `seen_types`.
        min_ratings: Show only items that have at least this many ratings now.
        model: Name of a live model; default: the first of `default_models`.
        experiment: Experiment whose arm for the user names the model.
        explain: Add to each item the ratings that most raise its score.
        fallback: For an unknown user: popular, trending or latest items, or none (404). auto: by attributes of the user
            if the model can, else trending items where ratings have times, else popular ones.
        explore: Share of places for items with few ratings.
        explore_below: They have fewer ratings than this.
        diversity: How much unlike items come first; 0 keeps the order of the scores.
        with_: Add to each item its title, if it has one.
        candidates: The only items to rank; default: all.
        available: Whether to leave out items that are not available now.
        boosts: Numbers added to the scores of items that pass a filter; they add up.
        pins: Items at fixed places.
        max_per: A limit for items with the same value of a tag.
        order_half_life: Newer ratings after which a rating weighs half; default: all weigh alike.
        cursor: Empty: begin to read page by page. Else `next` of the page before, with equal parameters.
        ratings: Ratings of an anonymous user; nothing is stored.
        events: Events beside the stored ones; they add up, and nothing is stored.
    """

    wait_for: str | None = None
    scenario: str | None = None
    n: int | None = None
    offset: int | None = None
    exclude: list[str] | None = None
    include_seen: bool | None = None
    repeat: AnonymousBodyRepeat | None = None
    seen_types: list[str] | None = None
    min_ratings: int | None = None
    model: str | None = None
    experiment: str | None = None
    explain: bool | None = None
    fallback: AnonymousBodyFallback | None = None
    explore: float | None = None
    explore_below: int | None = None
    diversity: float | None = None
    with_: Literal["title"] | None = None
    candidates: list[str] | None = None
    filter_: Filter | None = None
    available: bool | None = None
    boosts: list[Boost] | None = None
    pins: list[Pin] | None = None
    max_per: MaxPer | None = None
    rotate: str | AnonymousBodyRotation | None = None
    order_half_life: float | None = None
    cursor: str | None = None
    ratings: list[ItemRating] | None = None
    events: list[ItemEvent] | None = None


@dataclass
class ArmBody(Model):
    """An arm of an experiment.

    Attributes:
        model: Name of a model that answers.
        share: Percentage of users who get it.
    """

    model: str
    share: float


@dataclass
class Boost(Model):
    """A number that items which pass a filter get added to their scores.

    Attributes:
        add: In units of the score; below 0 lowers it.
    """

    filter_: Filter
    add: float


@dataclass
class ExperimentBody(Model):
    """Body of an experiment.

    Attributes:
        salt: Decides with the user's id which arm it is; default: the id of the experiment.
        filter_: Only users who pass it take part; default: all.
    """

    arms: list[ArmBody]
    salt: str | None = None
    filter_: Filter | None = None


@dataclass
class ExtraRating(Model):
    """A rating that a user has beside the stored ones; null takes the stored one of the item away.

    Attributes:
        timestamp: Unix seconds, a date or a datetime; default: now.
    """

    item: str
    rating: float | None
    timestamp: float | None = None


@dataclass
class ItemEvent(Model):
    """An event that is not stored.

    Attributes:
        type_: One of the setting `events`.
        value: Multiplies the weight of the type.
        timestamp: Unix seconds, a date or a datetime; default: now.
    """

    item: str
    type_: str
    value: float | None = None
    timestamp: float | None = None


@dataclass
class ItemRating(Model):
    """A rating that is not stored.

    Attributes:
        timestamp: Unix seconds, a date or a datetime; default: now.
    """

    item: str
    rating: float
    timestamp: float | None = None


@dataclass
class KeyBody(Model):
    """Body of `POST /admin/keys`.

    Attributes:
        name: Any name, to tell keys apart.
        scope: What the key may do.
        expires: When the key ends by itself: Unix seconds, or a date or datetime of ISO 8601. Default: never.
        data_sets: The only data sets that it opens. Default: all.
    """

    name: str
    scope: KeyBodyScope
    expires: float | datetime.date | datetime.datetime | None = None
    data_sets: list[str] | None = None


@dataclass
class ListsBody(Model):
    """Body of `POST /admin/lists`: that of `POST /recommend` for lists in a file.

    Attributes:
        scenario: Its body counts where the request names no field itself.
        users: All, or the ids of some.
        n: How many results.
        offset: How many of the best to leave out.
        exclude: Items never to show; repeat the parameter for several.
        include_seen: Whether items that the user rated may be shown.
        repeat: Whether what the user had may be shown again; auto: where users are seen to come back. Default: the
            setting `repeat`.
        seen_types: Leave out only what the user has events of these types with, or has rated (rating). Default: the
            setting `seen_types`.
        min_ratings: Show only items that have at least this many ratings now.
        model: Name of a live model; default: the first of `default_models`.
        fallback: For an unknown user: popular, trending or latest items, or none (404). auto: by attributes of the user
            if the model can, else trending items where ratings have times, else popular ones.
        explore: Share of places for items with few ratings.
        explore_below: They have fewer ratings than this.
        diversity: How much unlike items come first; 0 keeps the order of the scores.
        candidates: The only items to rank; default: all.
        available: Whether to leave out items that are not available now.
        boosts: Numbers added to the scores of items that pass a filter; they add up.
        pins: Items at fixed places.
        max_per: A limit for items with the same value of a tag.
        user_filter: Lists for those of them who pass it alone; default: for all.
    """

    scenario: str | None = None
    users: Literal["all"] | list[str] | None = None
    n: int | None = None
    offset: int | None = None
    exclude: list[str] | None = None
    include_seen: bool | None = None
    repeat: ListsBodyRepeat | None = None
    seen_types: list[str] | None = None
    min_ratings: int | None = None
    model: str | None = None
    fallback: ListsBodyFallback | None = None
    explore: float | None = None
    explore_below: int | None = None
    diversity: float | None = None
    candidates: list[str] | None = None
    filter_: Filter | None = None
    available: bool | None = None
    boosts: list[Boost] | None = None
    pins: list[Pin] | None = None
    max_per: MaxPer | None = None
    rotate: str | ListsBodyRotation | None = None
    user_filter: Filter | None = None


@dataclass
class MaxPer(Model):
    """A limit for items with the same value of a tag.

    Attributes:
        n: Items with the same value, at most.
    """

    tag: str
    n: int


@dataclass
class MergeBody(Model):
    """Body of `POST /admin/users/{user}/merge`.

    Attributes:
        from_: The user who becomes part of the other one.
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
    """

    from_: str
    wait_for: str | None = None


@dataclass
class Pin(Model):
    """An item at a fixed place, if the list may show it.

    Attributes:
        at: Place in the list that begins at offset 0; the first is 1.
    """

    item: str
    at: int


@dataclass
class RecommendBody(Model):
    """Body of `POST /recommend/{user}`.

    Attributes:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        scenario: Its body counts where the request names no field itself.
        n: How many results.
        offset: How many of the best to leave out.
        exclude: Items never to show; repeat the parameter for several.
        include_seen: Whether items that the user rated may be shown.
        repeat: Whether what the user had may be shown again; auto: where users are seen to come back. Default: the
            setting `repeat`.
        seen_types: Leave out only what the user has events of these types with, or has rated (rating). Default: the
            setting `seen_types`.
        min_ratings: Show only items that have at least this many ratings now.
        model: Name of a live model; default: the first of `default_models`.
        experiment: Experiment whose arm for the user names the model.
        explain: Add to each item the ratings that most raise its score.
        fallback: For an unknown user: popular, trending or latest items, or none (404). auto: by attributes of the user
            if the model can, else trending items where ratings have times, else popular ones.
        explore: Share of places for items with few ratings.
        explore_below: They have fewer ratings than this.
        diversity: How much unlike items come first; 0 keeps the order of the scores.
        with_: Add to each item its title, if it has one.
        candidates: The only items to rank; default: all.
        available: Whether to leave out items that are not available now.
        boosts: Numbers added to the scores of items that pass a filter; they add up.
        pins: Items at fixed places.
        max_per: A limit for items with the same value of a tag.
        order_half_life: Newer ratings after which a rating weighs half; default: all weigh alike.
        cursor: Empty: begin to read page by page. Else `next` of the page before, with equal parameters.
        ratings: Answer as if the user had these ratings too; nothing is stored.
        events: Events beside the stored ones; they add up, and nothing is stored.
    """

    wait_for: str | None = None
    scenario: str | None = None
    n: int | None = None
    offset: int | None = None
    exclude: list[str] | None = None
    include_seen: bool | None = None
    repeat: RecommendBodyRepeat | None = None
    seen_types: list[str] | None = None
    min_ratings: int | None = None
    model: str | None = None
    experiment: str | None = None
    explain: bool | None = None
    fallback: RecommendBodyFallback | None = None
    explore: float | None = None
    explore_below: int | None = None
    diversity: float | None = None
    with_: Literal["title"] | None = None
    candidates: list[str] | None = None
    filter_: Filter | None = None
    available: bool | None = None
    boosts: list[Boost] | None = None
    pins: list[Pin] | None = None
    max_per: MaxPer | None = None
    rotate: str | RecommendBodyRotation | None = None
    order_half_life: float | None = None
    cursor: str | None = None
    ratings: list[ExtraRating] | None = None
    events: list[ItemEvent] | None = None


@dataclass
class Retrain(Model):
    """Body of `POST /admin/retrain`.

    Attributes:
        params: Hyperparameters over the defaults, such as n_factors.
        name: Its name, of lower-case letters, digits and hyphens; default: that of the algorithm.
        shadow: Whether it learns and is tested beside the others, but never answers.
        activate: Whether the new model goes live if it is good enough.
        tune: Whether to search for better params first, judged by held-out pairs.
        force: Whether it goes live even if it is worse than the live one or a baseline.
    """

    algorithm: RetrainAlgorithm
    params: RetrainParams | None = None
    name: str | None = None
    shadow: bool | None = None
    activate: bool | None = None
    tune: bool | None = None
    force: bool | None = None


@dataclass
class Rotation(Model):
    """How much showings of an item lower it.

    Attributes:
        half_life: A number and m, h or d: a showing that is older by this counts half.
        by: What a showing takes off at first, in units of the score.
    """

    half_life: str
    by: float | None = None


@dataclass
class ScenarioBody(Model):
    """Body of a scenario: the same parameters, `candidates`, and a `filter` of any form.

    Attributes:
        n: How many results.
        offset: How many of the best to leave out.
        exclude: Items never to show; repeat the parameter for several.
        include_seen: Whether items that the user rated may be shown.
        repeat: Whether what the user had may be shown again; auto: where users are seen to come back. Default: the
            setting `repeat`.
        seen_types: Leave out only what the user has events of these types with, or has rated (rating). Default: the
            setting `seen_types`.
        min_ratings: Show only items that have at least this many ratings now.
        model: Name of a live model; default: the first of `default_models`.
        experiment: Experiment whose arm for the user names the model.
        explain: Add to each item the ratings that most raise its score.
        fallback: For an unknown user: popular, trending or latest items, or none (404). auto: by attributes of the user
            if the model can, else trending items where ratings have times, else popular ones.
        explore: Share of places for items with few ratings.
        explore_below: They have fewer ratings than this.
        diversity: How much unlike items come first; 0 keeps the order of the scores.
        with_: Add to each item its title, if it has one.
        candidates: The only items to rank; default: all.
        available: Whether to leave out items that are not available now.
        boosts: Numbers added to the scores of items that pass a filter; they add up.
        pins: Items at fixed places.
        max_per: A limit for items with the same value of a tag.
    """

    n: int | None = None
    offset: int | None = None
    exclude: list[str] | None = None
    include_seen: bool | None = None
    repeat: ScenarioBodyRepeat | None = None
    seen_types: list[str] | None = None
    min_ratings: int | None = None
    model: str | None = None
    experiment: str | None = None
    explain: bool | None = None
    fallback: ScenarioBodyFallback | None = None
    explore: float | None = None
    explore_below: int | None = None
    diversity: float | None = None
    with_: Literal["title"] | None = None
    candidates: list[str] | None = None
    filter_: Filter | None = None
    available: bool | None = None
    boosts: list[Boost] | None = None
    pins: list[Pin] | None = None
    max_per: MaxPer | None = None
    rotate: str | ScenarioBodyRotation | None = None


@dataclass
class SetBody(Model):
    """Body of `POST /neighbors`.

    Attributes:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        n: How many results.
        model: Name of a live model; default: the first of `default_models`.
        available: Whether to leave out items that are not available now.
        cursor: Empty: begin to read page by page. Else `next` of the page before, with equal parameters.
        with_: Add to each item its title, if it has one.
    """

    items: list[str]
    wait_for: str | None = None
    n: int | None = None
    model: str | None = None
    filter_: Filter | None = None
    available: bool | None = None
    cursor: str | None = None
    with_: Literal["title"] | None = None


@dataclass
class UsersBody(Model):
    """Body of `POST /recommend` for several users.

    Attributes:
        wait_for: Answer only after the entry with this stream_id has been learned; 503 after two seconds.
        scenario: Its body counts where the request names no field itself.
        n: How many results.
        offset: How many of the best to leave out.
        exclude: Items never to show; repeat the parameter for several.
        include_seen: Whether items that the user rated may be shown.
        repeat: Whether what the user had may be shown again; auto: where users are seen to come back. Default: the
            setting `repeat`.
        seen_types: Leave out only what the user has events of these types with, or has rated (rating). Default: the
            setting `seen_types`.
        min_ratings: Show only items that have at least this many ratings now.
        model: Name of a live model; default: the first of `default_models`.
        experiment: Experiment whose arm for the user names the model.
        explain: Add to each item the ratings that most raise its score.
        fallback: For an unknown user: popular, trending or latest items, or none (404). auto: by attributes of the user
            if the model can, else trending items where ratings have times, else popular ones.
        explore: Share of places for items with few ratings.
        explore_below: They have fewer ratings than this.
        diversity: How much unlike items come first; 0 keeps the order of the scores.
        with_: Add to each item its title, if it has one.
        candidates: The only items to rank; default: all.
        available: Whether to leave out items that are not available now.
        boosts: Numbers added to the scores of items that pass a filter; they add up.
        pins: Items at fixed places.
        max_per: A limit for items with the same value of a tag.
    """

    users: list[str]
    wait_for: str | None = None
    scenario: str | None = None
    n: int | None = None
    offset: int | None = None
    exclude: list[str] | None = None
    include_seen: bool | None = None
    repeat: UsersBodyRepeat | None = None
    seen_types: list[str] | None = None
    min_ratings: int | None = None
    model: str | None = None
    experiment: str | None = None
    explain: bool | None = None
    fallback: UsersBodyFallback | None = None
    explore: float | None = None
    explore_below: int | None = None
    diversity: float | None = None
    with_: Literal["title"] | None = None
    candidates: list[str] | None = None
    filter_: Filter | None = None
    available: bool | None = None
    boosts: list[Boost] | None = None
    pins: list[Pin] | None = None
    max_per: MaxPer | None = None
    rotate: str | UsersBodyRotation | None = None


@dataclass
class WebhookBody(Model):
    """Body of `POST /admin/webhooks`.

    Attributes:
        url: Target: http or https, without user and password. Its host has public addresses alone, or ones in the
            networks of the setting `webhook_networks`.
        events: Ends of jobs to tell, KIND.STATE. Default: all.
    """

    url: str
    events: list[WebhookBodyEventsItem] | None = None


@dataclass
class Filter(Model):
    """Only items that pass it: one of all, any, not, tag with in, number with min or max. At most 16 inside each
    other, and 256 values.
    """

    all_: list[FilterAllItem] | None = None
    any_: list[FilterAnyItem] | None = None
    not_: FilterNot | None = None
    tag: str | None = None
    in_: list[str] | None = None
    number: str | None = None
    min_: float | None = None
    max_: float | None = None


@dataclass
class ProblemDocument(OpenModel):
    """An error, as application/problem+json (RFC 9457).

    Attributes:
        errors: the first ten refused values, if the problem is about values.
        errors_left_out: number of further refused values.
        reason, fraction: why the service is not ready, and how much of its start is done (0 to 1).
    """

    type_: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[Fault] | None = None
    errors_left_out: int | None = None
    reason: str | None = None
    fraction: float | None = None


@dataclass
class Fault(OpenModel):
    """One refused value: its path in the request, and the reason."""

    place: str
    error: str


@dataclass
class Job(OpenModel):
    """One job as clients see it.

    Attributes:
        kind: `train`, `forget`, `lists` or `undo`.
        name, shadow: the name of the model, and whether it becomes a shadow.
        params: hyperparameters over the defaults; of `lists`, the body that was sent, with the number of its
            users; of `undo`, what is taken back.
        state: `activating` while this process does not yet serve the promoted version.
        progress: 0 to 1.
        phase: what a running job does now, such as `reading`, `epoch 3 of 12` or `compiling 4 of 40`.
        metrics: of the last epoch; after the end, of the held-out pairs.
        calibration: the values that a training derived from the data; set after the end.
        trials: the trainings that a search for parameters has tried; set after the end.
        promoted: whether the new version went live; None while undecided.
        version: the snapshot that a training wrote.
        backend: whether it trains on the host or the device, and why.
        reason: why it waits or was not promoted, or a remark about the result.
        error: why it failed.
        created_ms: Unix milliseconds at which it was submitted.
        schedule: the line of the setting `schedules` that has submitted it; None: a request has, or a rule.
    """

    id: str
    kind: str
    state: JobState
    progress: float
    phase: str | None
    metrics: JobMetrics
    algorithm: str | None
    name: str | None
    shadow: bool
    params: JobParams
    calibration: StoredCalibration | None
    trials: list[JobTrialsItem]
    promoted: bool | None
    version: str | None
    backend: str | None
    reason: str | None
    error: str | None
    created_ms: int
    schedule: str | None


@dataclass
class StoredCalibration(OpenModel):
    """The values that a training derived from its data; docs/models.md explains them.

    Attributes:
        middle: ratings below it are dislikes; null: no rating is a dislike.
        scale, event_scale: lowest and highest value; others are clipped. null: no upper bound.
        n_factors: F, if held-out pairs chose it; 0 if it was given.
        chosen: what held-out pairs of the training ratings decided, and why: a sentence each.
    """

    values: StoredCalibrationValues
    middle: float | None
    scale: list[float | None]
    is_damped: bool
    typical: float
    alpha: float
    regularization: float
    density: float
    unit: float
    origin: float
    prior: float
    as_of_s: float | None = None
    usual_weight: float | None = None
    event_weight: float | None = None
    event_scale: list[float | None] | None = None
    event_damped: bool | None = None
    event_typical: float | None = None
    n_factors: int | None = None
    chosen: list[str] | None = None
    trend: Trend | None = None
    repeat: Repeat | None = None


@dataclass
class Trend(OpenModel):
    """How much of what is popular now belongs into the scores of a model, as its training has measured.

    Attributes:
        weight: added to the score of the item with the most pairs, an older pair counting less; others get their
            share of it. 0: nothing is added.
        half_life_days: age at which a pair counts half; the best one, also if the weight is 0.
        n_pairs: newest pairs that were held out for this, of users with older ones.
        gain, interval: what it added to NDCG@20 of the lists of their users, and the bounds of 80 %. A list
            counts with the weight that is best for others.
        remark: why nothing is added; empty if something is.
    """

    weight: float | None = None
    half_life_days: float | None = None
    n_pairs: int | None = None
    gain: float | None = None
    interval: list[float] | None = None
    remark: str | None = None


@dataclass
class Repeat(OpenModel):
    """Whether what users had comes back in their lists, and how much of their own past is in scores.

    Attributes:
        weight: of log(1 + strength) of a pair in its score; 0: lists leave out what users had.
        half_life_days: age, up to the user's newest pair, at which this counts half; 0: age does not matter.
        share: of the newest pairs that users had before.
        n_pairs: newest pairs that were held out for this, of users with older ones.
        gain, interval: what the weight added to NDCG@10 beside lists without what users had, and the bounds of 95
            %. A list counts with the weight that is best for others.
        remark: why nothing comes back; empty if it does.
    """

    weight: float | None = None
    half_life_days: float | None = None
    share: float | None = None
    n_pairs: int | None = None
    gain: float | None = None
    interval: list[float] | None = None
    remark: str | None = None


@dataclass
class JobList(OpenModel):
    """All jobs in Redis."""

    jobs: list[Job]


@dataclass
class ModelList(OpenModel):
    """All snapshots on disk."""

    models: list[ModelInfo]


@dataclass
class ModelInfo(OpenModel):
    """One snapshot.

    Attributes:
        version: its name.
        algorithm: how it was trained.
        name: the name under which it can be live.
        shadow: whether it learns and is tested in this process without answering; `live` is then false.
        revision: how many times a user was forgotten in it.
        live: whether it answers in this process.
        metrics: on the pairs held out of its training.
        watermark: the last entry it was trained on.
        parameters: its hyperparameters; null for those that training derived from the data.
        calibration: the values that training derived from the data.
        rating_scale: lowest and highest rating. Estimates stay within; for a model that makes only lists it is
            the scale of `calibration`. Null: no upper bound.
        error: why it cannot be used, or null.
    """

    version: str
    algorithm: str
    live: bool
    metrics: ModelInfoMetrics | None = None
    watermark: str | None = None
    parameters: ModelInfoParameters | None = None
    calibration: StoredCalibration | None = None
    rating_scale: list[float | None] | None = None
    revision: int | None = None
    error: str | None = None
    name: str | None = None
    shadow: bool | None = None


@dataclass
class QualityReport(OpenModel):
    """How well a model foretold ratings and events before it learned them.

    Attributes:
        measure: `rmse` of estimated ratings, or `hit_rate`: the share of items among the first ten of a hundred.
        baseline: what `baseline` numbers are: the mean of the user's ratings, or the most popular items.
        since: the last entry before the first test of this process.
        window, decayed, all: the last results; all with the weight halved every thousand; all alike.
        untested: sampled ratings and events that were no test: of users or items that the model does not know, of
            pairs that it has learned before, and those that say nothing of what it foretells (dislikes, views,
            deletions).
        curve: from the oldest point to the newest.
    """

    model: str
    model_version: str
    algorithm: str
    measure: QualityReportMeasure
    baseline: str
    since: str
    window: QualityResult
    decayed: QualityResult
    all_: QualityResult
    untested: QualityReportUntested
    curve: list[QualityPoint]
    as_of: str


@dataclass
class QualityResult(OpenModel):
    """Means over `n` results: of the model, and of the baseline in the same tests. Null without results."""

    n: int
    value: float | None
    baseline: float | None


@dataclass
class QualityPoint(OpenModel):
    """A point of the curve: means over its own results alone.

    Attributes:
        as_of: the last entry whose ratings were tested.
        model_version: the version that was tested last.
    """

    as_of: str
    model_version: str
    n: int
    value: float
    baseline: float


@dataclass
class EndedModel(OpenModel):
    """The model that was live under `name` has ended; `cancelled` has the ids of its trainings that will stop."""

    name: str
    cancelled: list[str]


@dataclass
class Written(OpenModel):
    """The answer to any other write. A read with `wait_for` = `stream_id` sees it."""

    stream_id: str


@dataclass
class Forgotten(OpenModel):
    """No answer after `stream_id` contains the user; `job` removes the data on disk; `note` says what remains."""

    stream_id: str
    job: str
    note: str


@dataclass
class AuditPage(OpenModel):
    """A page of the audit log.

    Attributes:
        entries: newest first.
        next: cursor of the page of older ones; null: there are none.
    """

    entries: list[AuditEntry]
    next_: str | None


@dataclass
class AuditEntry(OpenModel):
    """One action.

    Attributes:
        at: when it ended, of ISO 8601 in UTC.
        action: id of the operation of the API, `sign_in`, `sign_out`, or the command.
        outcome: done; refused (no key, a wrong one, one without the right, or too many requests); or failed.
        via: api, console or cli.
        status: of the HTTP answer; null for a command.
        object: what the action was on, such as `job 7008c696f6c7`; null: the service, or a user, whom no entry
            names.
        key: id of the key: that of a made one, or the name of its setting; null: none, or a wrong one.
        account: of the system, that has run a command; else null.
        address: of the client; null for a command.
        request_id: as in the answer and in the other log lines; null for a command.
        data_set: on which it was.
        left_out: refusals since the entry before that are in no entry, because there were too many.
    """

    at: str
    action: str
    outcome: AuditEntryOutcome
    via: AuditEntryVia
    status: int | None = None
    object_: str | None = None
    key: str | None = None
    account: str | None = None
    address: str | None = None
    request_id: str | None = None
    data_set: str | None = None
    left_out: int | None = None


@dataclass
class Alive(OpenModel):
    """The answer of a running process."""

    status: str


@dataclass
class Ready(OpenModel):
    """The answer of a ready service.

    Attributes:
        as_of: the last entry that it has learned.
        left_out: versions that should be live and cannot be loaded; `GET /admin/models` says why.
    """

    status: str
    as_of: str
    left_out: list[str] | None = None


@dataclass
class ItemPatch(Model):
    """An object of the API.

    Attributes:
        available: Whether lists show it; default true.
        published: Lists do not show the item before this time: Unix seconds, or a date.
        until: Lists do not show the item from this time on: Unix seconds, or a date.
        embedding: As many numbers as those of the other items. Places an item that nobody has rated.
        title: What people call the item.
        url: Address of a page about the item.
        image: Address of a picture of the item.
    """

    tags: ItemPatchTags | Unset | None = UNSET
    numbers: ItemPatchNumbers | Unset | None = UNSET
    available: bool | Unset | None = UNSET
    published: float | str | Unset | None = UNSET
    until: float | str | Unset | None = UNSET
    embedding: list[float] | Unset | None = UNSET
    title: str | Unset | None = UNSET
    url: str | Unset | None = UNSET
    image: str | Unset | None = UNSET


@dataclass
class PostedItem(Model):
    """An object of the API.

    Attributes:
        available: Whether lists show it; default true.
        published: Lists do not show the item before this time: Unix seconds, or a date.
        until: Lists do not show the item from this time on: Unix seconds, or a date.
        embedding: As many numbers as those of the other items. Places an item that nobody has rated.
        title: What people call the item.
        url: Address of a page about the item.
        image: Address of a picture of the item.
    """

    item: str
    tags: PostedItemTags | None = None
    numbers: PostedItemNumbers | None = None
    available: bool | None = None
    published: float | str | None = None
    until: float | str | None = None
    embedding: list[float] | None = None
    title: str | None = None
    url: str | None = None
    image: str | None = None


@dataclass
class PatchedItem(Model):
    """An object of the API.

    Attributes:
        available: Whether lists show it; default true.
        published: Lists do not show the item before this time: Unix seconds, or a date.
        until: Lists do not show the item from this time on: Unix seconds, or a date.
        embedding: As many numbers as those of the other items. Places an item that nobody has rated.
        title: What people call the item.
        url: Address of a page about the item.
        image: Address of a picture of the item.
    """

    item: str
    tags: PatchedItemTags | Unset | None = UNSET
    numbers: PatchedItemNumbers | Unset | None = UNSET
    available: bool | Unset | None = UNSET
    published: float | str | Unset | None = UNSET
    until: float | str | Unset | None = UNSET
    embedding: list[float] | Unset | None = UNSET
    title: str | Unset | None = UNSET
    url: str | Unset | None = UNSET
    image: str | Unset | None = UNSET


@dataclass
class Accepted(OpenModel):
    """The answer to `POST /ratings` and `POST /events`; `stream_id` is null if nothing was accepted.

    Attributes:
        skipped: how many of the accepted elements do not count, because their source had come further before;
            only with `X-Source`. Null: they are durable, but the service has not learned them yet, because others
            wait.
    """

    accepted: int
    rejected: list[Rejection]
    stream_id: str | None
    took_ms: float
    skipped: int | None = None


@dataclass
class Rejection(OpenModel):
    """One refused element of a batch.

    Attributes:
        index: its position among the elements, from 0.
        line: its line from 1, where each line is an element.
    """

    index: int
    error: str
    line: int | None = None


@dataclass
class ItemList(OpenModel):
    """Items in no meaningful order, or with `search` in that of their titles.

    `next` is the cursor of the next page, null after the last.
    """

    items: list[ListedItem]
    next_: str | None
    as_of: str


@dataclass
class ListedItem(OpenModel):
    """One item of a list; see `ItemDetails`."""

    item: str
    tags: ListedItemTags
    numbers: ListedItemNumbers
    available: bool
    published: float | None
    until: float | None
    title: str | None
    url: str | None
    image: str | None
    hidden: bool
    n_ratings: int


@dataclass
class ItemDetails(OpenModel):
    """One item.

    Attributes:
        tags: values by name.
        numbers: numbers by name.
        available: whether lists show it.
        published, until: Unix seconds from which, and before which, lists show it; null: no bound.
        embedding: the numbers as float32, or null.
        title, url, image: what to show to people, or null.
        hidden: whether an operator has hidden the item.
        n_ratings: its present ratings.
    """

    item: str
    tags: ItemDetailsTags
    numbers: ItemDetailsNumbers
    available: bool
    published: float | None
    until: float | None
    title: str | None
    url: str | None
    image: str | None
    embedding: list[float] | None
    hidden: bool
    n_ratings: int
    as_of: str


@dataclass
class MadeKey(OpenModel):
    """A new key.

    Attributes:
        key: the key itself, which is in no other answer.
        note: what its making has changed for others; null: nothing.
    """

    id: str
    name: str
    scope: MadeKeyScope
    data_sets: list[str] | None
    created_ms: int
    ends_with: str
    key: str
    note: str | None
    expires: str | None = None
    last_used: str | None = None


@dataclass
class KeyList(OpenModel):
    """All keys that were made and not revoked, the oldest first."""

    keys: list[ListedKey]


@dataclass
class ListedKey(OpenModel):
    """A key as it is listed.

    Attributes:
        id: by which it is revoked.
        name: given by its maker; several keys may have the same.
        scope: what it may do.
        data_sets: the only data sets that it opens; None: all of them.
        created_ms: Unix milliseconds at which it was made.
        ends_with: its last characters.
        expires: when it ends by itself, of ISO 8601 in UTC; None: never.
        last_used: when it was used last, give or take an hour; None: never since it was made, or restored.
    """

    id: str
    name: str
    scope: ListedKeyScope
    data_sets: list[str] | None
    created_ms: int
    ends_with: str
    expires: str | None = None
    last_used: str | None = None


@dataclass
class RatingsOfItem(OpenModel):
    """A page of the ratings of an item; `n_ratings` is the number of all ratings of the item."""

    item: str
    n_ratings: int
    ratings: list[RatingOfItem]
    as_of: str


@dataclass
class RatingOfItem(OpenModel):
    """One stored rating of an item; `timestamp` in Unix seconds."""

    user: str
    rating: float
    timestamp: float


@dataclass
class Stats(OpenModel):
    """Sizes of the service.

    Attributes:
        users, items: ids that are known, without forgotten users.
        ratings: present ratings.
        events: events counted since the log begins, without those of users who were removed from it.
        hidden: hidden items.
        deleted: deleted items.
        lag_s: seconds between the newest entry of the stream and the newest one in all answers.
        models: the live ones, the first of which answers requests that name none.
        quotas: how much the data set may hold and use, and how much it does.
    """

    users: int
    items: int
    ratings: int
    events: int
    hidden: int
    deleted: int
    log: LogStats
    stream: StreamStats
    models: list[ModelStats]
    as_of: str
    lag_s: float
    uptime_s: float
    version: str
    quotas: list[Quota]


@dataclass
class LogStats(OpenModel):
    """The rating log: segments, rows (ratings, events and other entries), bytes on disk, and its last stream id."""

    segments: int
    rows: int
    bytes_: int
    last_id: str


@dataclass
class StreamStats(OpenModel):
    """The stream in Redis: entries, bytes of memory, and the last stream id that was given."""

    entries: int
    bytes_: int
    last_id: str


@dataclass
class ModelStats(OpenModel):
    """A live model.

    Attributes:
        age_s: seconds since its training.
        ratings_since: ratings and other rows of the log after its training; it has learned them online.
        refits_waiting: refits of trained items and their users that are due or under way.
        revision: how many times a user was forgotten in the snapshot that it was loaded from; `GET /admin/models`
            has the newest one, which takes its place within seconds.
    """

    model: str
    model_version: str
    age_s: float
    ratings_since: int
    refits_waiting: int
    revision: int


@dataclass
class Quota(OpenModel):
    """One quota of a data set.

    Attributes:
        name: of its setting, after `quota_`.
        held: how much there is, or was used within 24 hours.
        quota: how much there may be, in the same unit.
    """

    name: str
    held: float
    quota: float


@dataclass
class RatingPage(OpenModel):
    """A page of all ratings, in no meaningful order; `next` is the cursor of the next page, null after the last.

    A page may have fewer ratings than wanted, or none, although there are more.
    """

    ratings: list[ListedRating]
    next_: str | None
    as_of: str


@dataclass
class ListedRating(OpenModel):
    """One rating of all; `timestamp` in Unix seconds."""

    user: str
    item: str
    rating: float
    timestamp: float


@dataclass
class ItemNeighbors(OpenModel):
    """Items most similar to `item`.

    Attributes:
        neighbors: `score` is the share of equal signature bits, the partial correlation (`ease`), the weight of
            what is liked together (`neighbors`), or the cosine of the factors.
        eligible: as in `Recommendation`.
    """

    item: str
    neighbors: list[ScoredItem]
    model: str
    model_version: str
    as_of: str
    eligible: int | None = None
    next_: str | None = None


@dataclass
class ScoredItem(OpenModel):
    """One line of a list; lists are ordered by `score`, except for items with a source.

    Attributes:
        score: with the boost; None for a pin, which is not ranked.
        estimate: the estimated rating, as in `GET /estimate`; only of models that estimate ratings.
        boost: the part of the score that comes from boosts and showings; only if the query has `boosts` or
            `rotate`.
        trend: the part of the score that comes from what is popular now; only with `explain`, if the model adds
            any.
        again: the part that comes from how often and when the user had the item; only with `explain`, if the
            model adds any.
        title: of the item; only with `with=title`, and if it has one.
        source: why the item is at its place, if not for its score alone: to be explored, or as a pin.
    """

    item: str
    score: float | None
    estimate: float | None = None
    reasons: list[Reason] | None = None
    boost: float | None = None
    trend: float | None = None
    again: float | None = None
    source: ScoredItemSource | None = None
    title: str | None = None


@dataclass
class Reason(OpenModel):
    """A rated item and its contribution to the explained score."""

    item: str
    contribution: float


@dataclass
class UsersOfItem(OpenModel):
    """The users who would like `item` most, of those with ratings who have not seen it.

    Attributes:
        users: `score` is the one before it becomes an estimate: it compares users for one item.
        warnings: why there are none, if the model knows nothing of the item.
        eligible: users who pass the filter; only if there is one.
    """

    item: str
    users: list[ScoredUser]
    model: str
    model_version: str
    as_of: str
    warnings: list[str]
    eligible: int | None = None


@dataclass
class ScoredUser(OpenModel):
    """One line of a list of users."""

    user: str
    score: float


@dataclass
class NeighborsOfSet(OpenModel):
    """Items most similar to those of a set, which are left out.

    Attributes:
        neighbors: `score` is the mean of the scores in `ItemNeighbors` over the items of the set that have any.
        warnings: the unknown items of the set.
        eligible: as in `Recommendation`.
    """

    neighbors: list[ScoredItem]
    model: str
    model_version: str
    as_of: str
    warnings: list[str]
    eligible: int | None = None
    next_: str | None = None


@dataclass
class UserNeighbors(OpenModel):
    """Users most similar to `user`; `score` is the cosine of the factors, for `ease` of likes and dislikes."""

    user: str
    neighbors: list[ScoredUser]
    model: str
    model_version: str
    as_of: str
    next_: str | None = None


@dataclass
class UserList(OpenModel):
    """Users in no meaningful order; `next` is the cursor of the next page, null after the last."""

    users: list[ListedUser]
    next_: str | None
    as_of: str


@dataclass
class ListedUser(OpenModel):
    """One user of a list; see `UserDetails`."""

    user: str
    tags: ListedUserTags
    numbers: ListedUserNumbers
    n_ratings: int


@dataclass
class RatingEstimate(OpenModel):
    """`estimate` is a rating within the scale of the training, or a probability for an implicit model.

    Attributes:
        personalized: whether the user has rated an item that the model was trained on.
        warnings: the ids without ratings, which count as average.
    """

    user: str
    item: str
    estimate: float
    personalized: bool
    model: str
    model_version: str
    as_of: str
    warnings: list[str]


@dataclass
class RatingsOfUser(OpenModel):
    """A page of the ratings of a user; `n_ratings` is the number of all ratings of the user."""

    user: str
    n_ratings: int
    ratings: list[Rating]
    as_of: str


@dataclass
class Rating(OpenModel):
    """One stored rating; `timestamp` in Unix seconds."""

    item: str
    rating: float
    timestamp: float


@dataclass
class EventsOfUser(OpenModel):
    """A page of the items that a user has events of, newest first; `n_items` is the number of all of these items."""

    user: str
    n_items: int
    events: list[EventsOfItem]
    as_of: str


@dataclass
class EventsOfItem(OpenModel):
    """What the events of a user with one item add up to.

    Attributes:
        strength: the sum of their weights, each times its value; 0: the item was only seen. Below 0: a dislike.
        timestamp: Unix seconds of the newest of them that say more than that the item was seen; null without any.
    """

    item: str
    strength: float
    timestamp: float | None


@dataclass
class PostedRating(Model):
    """An object of the API.

    Attributes:
        timestamp: Unix seconds, or a date or datetime of ISO 8601, in UTC if it has no offset; default: now. Never
            decides order.
    """

    user: str
    item: str
    rating: float
    timestamp: float | datetime.date | datetime.datetime | None = None


@dataclass
class PostedEvent(Model):
    """An object of the API.

    Attributes:
        type_: One of the setting `events`.
        value: Multiplies the weight of the type.
        timestamp: Unix seconds, or a date or datetime of ISO 8601, in UTC if it has no offset; default: now. Never
            decides order.
        event_id: Of a user's events with the same one only the first counts.
        recommendation_id: Of the answer that led to the event, as the same user got it in an experiment.
    """

    user: str
    item: str
    type_: str
    value: float | None = None
    timestamp: float | datetime.date | datetime.datetime | None = None
    event_id: str | None = None
    recommendation_id: str | None = None


@dataclass
class RetractedEvent(OpenModel):
    """The answer to `DELETE /users/{user}/events/{event_id}`.

    Attributes:
        stream_id: a read with `wait_for` of it sees the change.
        removed: false if the event was not among the last of the user with an id; null if that is not known in
            time.
    """

    stream_id: str
    removed: bool | None


@dataclass
class Recommendation(OpenModel):
    """A list for one user; `user` is None for an anonymous one.

    Attributes:
        experiment, arm, recommendation_id: only in an experiment whose arm has answered; events bring the id
            back.
        eligible: items that pass the filter and may be shown; only if there is a filter.
        next: the cursor of the next page, null after the last one; only if the query has a cursor.
    """

    user: str | None
    items: list[ScoredItem]
    personalized: bool
    model: str | None
    model_version: str | None
    as_of: str
    warnings: list[str]
    fallback: RecommendationFallback | None = None
    eligible: int | None = None
    next_: str | None = None
    experiment: str | None = None
    arm: str | None = None
    recommendation_id: str | None = None
    took_ms: float | None = None
    request_id: str | None = None


@dataclass
class PopularItems(OpenModel):
    """Popular or latest items; `eligible` as in `Recommendation`."""

    items: list[ScoredItem]
    as_of: str
    warnings: list[str]
    eligible: int | None = None
    next_: str | None = None


@dataclass
class ScenarioList(OpenModel):
    """All scenarios in order of names."""

    scenarios: list[ListedDocument]
    as_of: str


@dataclass
class ListedDocument(OpenModel):
    """One document of a list; see `DocumentDetails`."""

    name: str
    stream_id: str


@dataclass
class DocumentDetails(OpenModel):
    """One document.

    Attributes:
        body: JSON as the client has sent it, without spaces.
        stream_id: the position of the entry that has put it: two answers with the same one have the same body.
    """

    name: str
    body: Any
    stream_id: str
    as_of: str


@dataclass
class SourceList(OpenModel):
    """A page of sources, and the number of all."""

    sources: list[ListedSource]
    n_sources: int
    as_of: str


@dataclass
class ListedSource(OpenModel):
    """How far a source has come.

    Attributes:
        source: its name.
        key: the key whose source it is: the name of a setting, or the id of a made key. Null: none was needed,
            and the mark holds for every key.
        offset: the highest one that has counted.
        stream_id: the entry that had it.
    """

    source: str
    key: str | None
    offset: int
    stream_id: str


@dataclass
class RemovedSource(OpenModel):
    """The answer to `DELETE /admin/sources/{source}`; `removed` is empty if there was none of that name."""

    stream_id: str
    removed: list[ListedSource]


@dataclass
class UserAttributes(Model):
    """An object of the API."""

    tags: UserAttributesTags | Unset | None = UNSET
    numbers: UserAttributesNumbers | Unset | None = UNSET


@dataclass
class PostedUser(Model):
    """An object of the API."""

    user: str
    tags: PostedUserTags | None = None
    numbers: PostedUserNumbers | None = None


@dataclass
class UserDetails(OpenModel):
    """One user.

    Attributes:
        tags: values by name.
        numbers: numbers by name.
        n_ratings: present ratings of the user.
    """

    user: str
    tags: UserDetailsTags
    numbers: UserDetailsNumbers
    n_ratings: int
    as_of: str


@dataclass
class ExperimentList(OpenModel):
    """The ids of all experiments, each with the position of the entry that has put it."""

    experiments: list[ListedDocument]
    as_of: str


@dataclass
class ExperimentReport(OpenModel):
    """An experiment, what its arms have led to, and how they compare with the first one.

    Attributes:
        filter: of the users who take part; null: all.
    """

    experiment: str
    salt: str
    filter_: Any
    stream_id: str
    confidence: float
    arms: list[ArmReport]
    differences: list[Difference]
    as_of: str


@dataclass
class ArmReport(OpenModel):
    """One arm: its share of users, lists that this process answered, users with events, and rates by type of event."""

    model: str
    share: float
    answered: int
    users: int
    types: ArmReportTypes


@dataclass
class Rate(OpenModel):
    """Events of a type in an arm.

    Attributes:
        events: their number.
        users: users with at least one of them.
        rate: `users` divided by all users with events that were attributed to the arm; null without any.
        low, high: the interval of the rate (Wilson).
    """

    events: int
    users: int
    rate: float | None
    low: float
    high: float


@dataclass
class Difference(OpenModel):
    """The rate of a type in an arm minus that in the first arm, and its interval (Newcombe's, of Wilson's).

    An interval without 0 speaks for a difference.
    """

    model: str
    type_: str
    difference: float
    low: float
    high: float


@dataclass
class ListFiles(OpenModel):
    """All files of lists, newest first."""

    exports: list[ListFile]


@dataclass
class ListFile(OpenModel):
    """One file: the job that has made it, its bytes, and when it was written, in Unix milliseconds."""

    job: str
    bytes_: int
    created_ms: int


@dataclass
class ScheduleList(OpenModel):
    """All lines of the setting `schedules`, in its order."""

    schedules: list[ListedSchedule]


@dataclass
class ListedSchedule(OpenModel):
    """One line of the setting `schedules`, and what became of it.

    Attributes:
        schedule: the line.
        next_ms: Unix milliseconds of the next time.
        last_ms: the last time that was due; null if none was since the line is known.
        job: the id of the job of that time; null if there is none.
        error: why there is none; null if there is one. A job has the reason why it failed itself.
    """

    schedule: str
    next_ms: int
    last_ms: int | None
    job: str | None
    error: str | None


@dataclass
class MadeWebhook(OpenModel):
    """A new webhook; `secret` is in no other answer."""

    id: str
    url: str
    events: list[MadeWebhookEventsItem]
    created_ms: int
    secret: str


@dataclass
class WebhookList(OpenModel):
    """All webhooks, the oldest first."""

    webhooks: list[ListedWebhook]


@dataclass
class ListedWebhook(OpenModel):
    """A webhook and what became of its deliveries.

    Attributes:
        waiting: deliveries that have not ended.
        next_ms: Unix milliseconds of the next attempt; null if none waits.
        delivered, given_up: deliveries that have ended.
        last: the last attempt; null before it.
    """

    id: str
    url: str
    events: list[ListedWebhookEventsItem]
    created_ms: int
    waiting: int
    next_ms: int | None
    delivered: int
    given_up: int
    last: Attempt | None


@dataclass
class Attempt(OpenModel):
    """An attempt that has ended.

    Attributes:
        job: whose end was told.
        attempt: its number, from 1.
        outcome: `delivered`, `failed` (the next attempt follows), or `given-up`.
        error: why it was not delivered.
        ended_ms: Unix milliseconds.
    """

    job: str
    attempt: int
    outcome: AttemptOutcome
    error: str | None
    ended_ms: int


@dataclass
class Webhook(OpenModel):
    """A webhook without its secret.

    Attributes:
        id: by which it is removed.
        url: the target.
        events: the ends of jobs that it tells.
        created_ms: Unix milliseconds at which it was made.
    """

    id: str
    url: str
    events: list[WebhookEventsItem]
    created_ms: int


AnonymousBodyRepeat = Literal["auto", "never", "allow"]

AnonymousBodyFallback = Literal["auto", "popular", "trending", "latest", "none"]

AnonymousBodyRotation = Rotation

KeyBodyScope = Literal["read", "write", "read-write", "admin"]

ListsBodyRepeat = AnonymousBodyRepeat

ListsBodyFallback = AnonymousBodyFallback

ListsBodyRotation = Rotation

RecommendBodyRepeat = AnonymousBodyRepeat

RecommendBodyFallback = AnonymousBodyFallback

RecommendBodyRotation = Rotation

RetrainAlgorithm = Literal[
    "als", "als-implicit", "culsh", "culsh-implicit", "ease", "esgd", "neighbors", "next", "nmf", "sgd"
]


class RetrainParams(Entries["Any"]):
    """Values by their name."""


ScenarioBodyRepeat = AnonymousBodyRepeat

ScenarioBodyFallback = AnonymousBodyFallback

ScenarioBodyRotation = Rotation

UsersBodyRepeat = AnonymousBodyRepeat

UsersBodyFallback = AnonymousBodyFallback

UsersBodyRotation = Rotation

WebhookBodyEventsItem = Literal[
    "train.succeeded",
    "train.failed",
    "train.cancelled",
    "lists.succeeded",
    "lists.failed",
    "lists.cancelled",
    "forget.succeeded",
    "forget.failed",
    "forget.cancelled",
    "undo.succeeded",
    "undo.failed",
    "undo.cancelled",
]

FilterAllItem = RetrainParams

FilterAnyItem = RetrainParams

FilterNot = RetrainParams

JobState = Literal["activating", "cancelled", "failed", "queued", "running", "succeeded"]


class JobMetrics(Entries["float"]):
    """Values by their name."""


JobParams = RetrainParams

JobTrialsItem = RetrainParams

StoredCalibrationValues = Literal["counts", "ratings"]

ModelInfoMetrics = JobMetrics

ModelInfoParameters = RetrainParams

QualityReportMeasure = Literal["hit_rate", "rmse"]


class QualityReportUntested(Entries["int"]):
    """Values by their name."""


AuditEntryOutcome = Literal["done", "failed", "refused"]

AuditEntryVia = Literal["api", "cli", "console"]


class ItemPatchTags(Entries["list[str] | None"]):
    """Values by their name."""


class ItemPatchNumbers(Entries["float | None"]):
    """Values by their name."""


PostedItemTags = ItemPatchTags

PostedItemNumbers = ItemPatchNumbers

PatchedItemTags = ItemPatchTags

PatchedItemNumbers = ItemPatchNumbers


class ListedItemTags(Entries["list[str]"]):
    """Values by their name."""


ListedItemNumbers = JobMetrics

ItemDetailsTags = ListedItemTags

ItemDetailsNumbers = JobMetrics

MadeKeyScope = Literal["admin", "read", "read-write", "write"]

ListedKeyScope = MadeKeyScope

ScoredItemSource = Literal["explore", "pin"]

ListedUserTags = ListedItemTags

ListedUserNumbers = JobMetrics

RecommendationFallback = Literal["attributes", "latest", "none", "popular", "trending"]

UserAttributesTags = ItemPatchTags

UserAttributesNumbers = ItemPatchNumbers

PostedUserTags = ItemPatchTags

PostedUserNumbers = ItemPatchNumbers

UserDetailsTags = ListedItemTags

UserDetailsNumbers = JobMetrics


class ArmReportTypes(Entries["Rate"]):
    """Values by their name."""


MadeWebhookEventsItem = Literal[
    "forget.cancelled",
    "forget.failed",
    "forget.succeeded",
    "lists.cancelled",
    "lists.failed",
    "lists.succeeded",
    "train.cancelled",
    "train.failed",
    "train.succeeded",
    "undo.cancelled",
    "undo.failed",
    "undo.succeeded",
]

ListedWebhookEventsItem = MadeWebhookEventsItem

AttemptOutcome = Literal["delivered", "failed", "given-up"]

WebhookEventsItem = MadeWebhookEventsItem


class ListItemsFilter(Entries["str"]):
    """Values by their name."""


RecommendUserRepeat = AnonymousBodyRepeat

RecommendUserFallback = AnonymousBodyFallback

RecommendUserFilter = ListItemsFilter

ListPopularFilter = ListItemsFilter

ListLatestFilter = ListItemsFilter

ListItemNeighborsFilter = ListItemsFilter

ListItemUsersFilter = ListItemsFilter

ListUsersFilter = ListItemsFilter

ListHiddenItemsFilter = ListItemsFilter

ExportFormat = Literal["ndjson", "parquet", "arrow"]

ExportWhat = Literal["ratings", "events", "items"]

ExportUserFormat = ExportFormat
