"""The alerts that every deployment should have. `deploy/alerts.py` makes rules for Prometheus of them.

The overview of the console judges the same conditions, on the pages of metrics of the last hour.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

QUALITY = "nearfield_model_quality"
WITHIN = 5  # minutes of rates
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
Samples = list[tuple[dict[str, str], float]]  # (labels, value)


class Scrape(NamedTuple):
    """A page of metrics: when it was read (Unix seconds), and the samples of the series that conditions ask for."""

    at_s: float
    series: dict[str, Samples]

    @classmethod
    def of(cls, at_s: float, text: str) -> Scrape:
        """A page in the text format of Prometheus."""
        series: dict[str, Samples] = {name: [] for name in SERIES}
        for name, labels, value in _SAMPLE.findall(text):
            if name in series:
                series[name].append((dict(_LABEL.findall(labels)), float(value)))
        return cls(at_s, series)

    def sums(self, series: str, by: str) -> dict[str, float]:
        """The sums of a series by a label."""
        sums: dict[str, float] = {}
        for labels, value in self.series.get(series, ()):
            sums[labels[by]] = sums.get(labels[by], 0.0) + value
        return sums


Scrapes = Sequence[Scrape]  # of the last hour, the oldest first; never empty


def increases(scrapes: Scrapes, series: str, by: str, minutes: int) -> dict[str, float]:
    """By how much the sums of a counter have risen; one that fell has begun again from 0, as has one that is new."""
    risen: dict[str, float] = {}
    since_s = scrapes[-1].at_s - 60 * minutes
    pages = [one for one in scrapes if one.at_s >= since_s]
    before = pages[0].sums(series, by)
    for page in pages[1:]:
        now = page.sums(series, by)
        for label, value in now.items():
            was = before.get(label, 0.0)
            risen[label] = risen.get(label, 0.0) + (value - was if value >= was else value)
        before = now
    return risen


@dataclass(frozen=True)
class Absent:
    """No replica has the series: nobody can see it in a console."""

    series: str

    def __str__(self) -> str:
        return f"absent({self.series})"

    def holds(self, scrapes: Scrapes) -> bool:
        """Whether the newest page lacks it."""
        return not scrapes[-1].series[self.series]


@dataclass(frozen=True)
class Level:
    """A gauge is above a bound, or equal to a value."""

    series: str
    sign: Literal[">", "=="]
    value: float

    def __str__(self) -> str:
        return f"{self.series} {self.sign} {self.value:g}"

    def holds(self, scrapes: Scrapes) -> bool:
        """Whether it is so in the newest page."""
        values = [value for _, value in scrapes[-1].series[self.series]]
        return any(value > self.value if self.sign == ">" else value == self.value for value in values)


@dataclass(frozen=True)
class Grows:
    """A counter grows, for one value of a label."""

    series: str
    by: str

    def __str__(self) -> str:
        return f"sum by (instance, {self.by}) (rate({self.series}[{WITHIN}m])) > 0"

    def holds(self, scrapes: Scrapes) -> bool:
        """Whether it has grown."""
        return any(risen > 0 for risen in increases(scrapes, self.series, self.by, WITHIN).values())


@dataclass(frozen=True)
class Share:
    """Of what a counter counts, more than a share has a label that matches, and is not a certain one."""

    series: str
    label: str
    pattern: str
    but: str
    share: float

    def __str__(self) -> str:
        part, whole = f'{self.series}{{{self.label}=~"{self.pattern}", {self.label}!="{self.but}"}}', self.series
        rates = [f"sum by (instance) (rate({one}[{WITHIN}m]))" for one in (part, whole)]
        return f"{rates[0]} > {self.share:g} * {rates[1]}"

    def holds(self, scrapes: Scrapes) -> bool:
        """Whether it was so."""
        risen = increases(scrapes, self.series, self.label, WITHIN)
        part = sum(value for label, value in risen.items() if re.fullmatch(self.pattern, label) and label != self.but)
        return part > self.share * sum(risen.values())


@dataclass(frozen=True)
class Slow:
    """A quantile of a histogram is above a bound."""

    series: str
    quantile: float
    bound: int  # one of the histogram

    def __str__(self) -> str:
        rates = f"sum by (instance, le) (rate({self.series}[{WITHIN}m]))"
        return f"histogram_quantile({self.quantile}, {rates}) > {self.bound}"

    def holds(self, scrapes: Scrapes) -> bool:
        """Whether fewer than the quantile were within the bound."""
        risen = {float(bound): n for bound, n in increases(scrapes, self.series, "le", WITHIN).items()}
        return bool(risen) and risen[self.bound] < self.quantile * risen[float("inf")]


@dataclass(frozen=True)
class Rises:
    """A counter has risen, for one value of a label."""

    series: str
    label: str
    value: str
    minutes: int

    def __str__(self) -> str:
        # One that counts the first time begins at 1, in which `increase` sees no rise.
        within = f"{self.minutes}m" if self.minutes < 60 else f"{self.minutes // 60}h"
        series = f'{self.series}{{{self.label}="{self.value}"}}'
        return f"increase({series}[{within}]) > 0 or ({series} unless {series} offset {within}) > 0"

    def holds(self, scrapes: Scrapes) -> bool:
        """Whether it has."""
        return increases(scrapes, self.series, self.label, self.minutes).get(self.value, 0.0) > 0


@dataclass(frozen=True)
class BehindBaseline:
    """A model predicts worse than what knows nothing of taste."""

    def __str__(self) -> str:
        return (
            f'{QUALITY}{{measure="hit_rate"}} < ignoring(measure) {QUALITY}{{measure="popularity_hit_rate"}}'
            f' or {QUALITY}{{measure="rmse"}} > ignoring(measure) {QUALITY}{{measure="user_mean_rmse"}}'
        )

    def holds(self, scrapes: Scrapes) -> bool:
        """Whether one does."""
        of = {(one["model"], one["measure"]): value for one, value in scrapes[-1].series[QUALITY]}
        models = {model for model, _ in of}
        nan = float("nan")  # compares with nothing
        return any(
            of.get((model, "hit_rate"), nan) < of.get((model, "popularity_hit_rate"), nan)
            or of.get((model, "rmse"), nan) > of.get((model, "user_mean_rmse"), nan)
            for model in models
        )


@dataclass(frozen=True)
class BehindShadow:
    """The best model that answers falls behind a shadow."""

    shadow: str = "nearfield_model_shadow"
    margin: float = 0.03
    factor: float = 1.02

    def __str__(self) -> str:
        answers, shadow = (f"and on(instance, model) {self.shadow} == {value}" for value in (0, 1))
        return (
            f'max by (instance) ({QUALITY}{{measure="hit_rate"}} {answers}) + {self.margin}'
            f' < max by (instance) ({QUALITY}{{measure="hit_rate"}} {shadow})'
            f' or min by (instance) ({QUALITY}{{measure="rmse"}} {answers})'
            f' > {self.factor} * min by (instance) ({QUALITY}{{measure="rmse"}} {shadow})'
        )

    def holds(self, scrapes: Scrapes) -> bool:
        """Whether it does."""
        is_shadow = {one["model"]: value == 1 for one, value in scrapes[-1].series[self.shadow]}

        def best(measure: str, of_shadows: bool, choose: Callable[[Iterable[float]], float]) -> float:
            values = [
                value
                for one, value in scrapes[-1].series[QUALITY]
                if one["measure"] == measure and is_shadow.get(one["model"]) == of_shadows
            ]
            return choose(values) if values else float("nan")

        return best("hit_rate", False, max) + self.margin < best("hit_rate", True, max) or best(
            "rmse", False, min
        ) > self.factor * best("rmse", True, min)


Condition = Absent | Level | Grows | Share | Slow | Rises | BehindBaseline | BehindShadow


class Alert(NamedTuple):
    """One alert.

    Attributes:
        name: in the style of Prometheus.
        condition: PromQL as text; each series that it returns is an alert.
        lasts: minutes for which the condition holds before somebody is told.
        severity: `critical` if users see it or ratings are at risk.
        meaning: the situation, in one sentence.
        remedy: what to do.
    """

    name: str
    condition: Condition
    lasts: int
    severity: Literal["critical", "warning"]
    meaning: str
    remedy: str


ALERTS = (
    Alert(
        "NearfieldAway",
        Absent("nearfield_ready"),
        2,
        "critical",
        "Prometheus gets metrics of no replica: all are down, or it looks for them elsewhere.",
        "Look at the state and the last log lines of the processes, and at the targets of Prometheus.",
    ),
    Alert(
        "NearfieldNotReady",
        Level("nearfield_ready", "==", 0),
        2,
        "critical",
        "The service answers no requests, or cannot write ratings.",
        "GET /health/ready names the reason.",
    ),
    Alert(
        "NearfieldErrors",
        Share("nearfield_requests_total", "status", "5..", "507", 0.01),
        5,
        "critical",
        "More than 1 % of all requests fail.",
        "The log names each of them with its request id; 503 says what is missing.",
    ),
    Alert(
        "NearfieldWritesRefused",
        Grows("nearfield_writes_refused_total", "reason"),
        5,
        "critical",
        "Ratings or events are refused, and clients must keep them.",
        "The label reason has the cause: Redis, the disk of the log, a quota, or too many appends that wait.",
    ),
    Alert(
        "NearfieldLogBehind",
        Level("nearfield_archiver_lag_seconds", ">", 60),
        1,
        "critical",
        "The rating log lacks entries of more than a minute, so the stream in Redis grows.",
        "Look for a full or failing disk under the data folder.",
    ),
    Alert(
        "NearfieldLogDamaged",
        Level("nearfield_rating_log_damaged", "==", 1),
        0,
        "critical",
        "A file of the rating log is missing or altered.",
        "Restore the file that /health/ready names from a backup, before anything restarts.",
    ),
    Alert(
        "NearfieldQuota",
        Level("nearfield_quota_used_ratio", ">", 0.9),
        5,
        "warning",
        "A data set holds nine tenths of what it may; beyond its quota writes are refused, or trainings.",
        "The label quota has the end of the setting's name: raise it, or remove data.",
    ),
    Alert(
        "NearfieldStale",
        Slow("nearfield_freshness_seconds_bucket", 0.99, 1),
        5,
        "warning",
        "One in a hundred ratings takes more than a second to change the lists.",
        "Compare nearfield_ratings_accepted_total with nearfield_ratings_learned_total; fewer n_factors refit faster.",
    ),
    Alert(
        "NearfieldSwapFailed",
        Rises("nearfield_swaps_total", "outcome", "failed", 15),
        0,
        "warning",
        "A new model could not be loaded; the old one still answers.",
        "GET /admin/jobs has the error.",
    ),
    Alert(
        "NearfieldTrainingFailed",
        Rises("nearfield_jobs_finished_total", "state", "failed", 60),
        0,
        "warning",
        "A training or another job failed.",
        "GET /admin/jobs has the error.",
    ),
    Alert(
        "NearfieldBehindBaseline",
        BehindBaseline(),
        15,
        "warning",
        "A live model predicts what it learns next worse than popular items, or the mean rating of the user, do.",
        "Train it again, or activate an earlier version.",
    ),
    Alert(
        "NearfieldBehindShadow",
        BehindShadow(),
        15,
        "warning",
        "The best model that answers falls behind a shadow by more than the error of a thousand tests.",
        "Compare both in GET /admin/models/{model}/quality, and let the shadow answer.",
    ),
)

SERIES = frozenset(re.findall(r"nearfield_\w+", " ".join(str(one.condition) for one in ALERTS)))
LONGEST_S = 3600.0  # of the time that a condition looks back


def holding(scrapes: Scrapes) -> list[str]:
    """The names of alerts whose conditions hold now."""
    return [one.name for one in ALERTS if one.condition.holds(scrapes)]
