"""The alerts that every deployment should have: conditions in PromQL on the series of `service.telemetry.metrics`."""

from __future__ import annotations

from typing import Literal, NamedTuple

QUALITY = "nearfield_model_quality"
ANSWERS = "and on(instance, model) nearfield_model_shadow == 0"
SHADOW = "and on(instance, model) nearfield_model_shadow == 1"


class Alert(NamedTuple):
    """One alert.

    Attributes:
        name: in the style of Prometheus.
        condition: PromQL; each series that it returns is an alert.
        lasts: how long the condition holds before somebody is told.
        severity: `critical` if users see it or ratings are at risk.
        meaning: the situation, in one sentence.
        remedy: what to do.
    """

    name: str
    condition: str
    lasts: str
    severity: Literal["critical", "warning"]
    meaning: str
    remedy: str


def _rises(series: str, within: str) -> str:
    """A counter has risen. One that counts the first time begins at 1, in which `increase` sees no rise."""
    return f"increase({series}[{within}]) > 0 or ({series} unless {series} offset {within}) > 0"


ALERTS = (
    Alert(
        "NearfieldAway",
        "absent(nearfield_ready)",
        "2m",
        "critical",
        "Prometheus gets metrics of no replica: all are down, or it looks for them elsewhere.",
        "Look at the state and the last log lines of the processes, and at the targets of Prometheus.",
    ),
    Alert(
        "NearfieldNotReady",
        "nearfield_ready == 0",
        "2m",
        "critical",
        "The service answers no requests, or cannot write ratings.",
        "GET /health/ready names the reason.",
    ),
    Alert(
        "NearfieldErrors",
        'sum by (instance) (rate(nearfield_requests_total{status=~"5..", status!="507"}[5m]))'
        " > 0.01 * sum by (instance) (rate(nearfield_requests_total[5m]))",
        "5m",
        "critical",
        "More than 1 % of all requests fail.",
        "The log names each of them with its request id; 503 says what is missing.",
    ),
    Alert(
        "NearfieldWritesRefused",
        "sum by (instance, reason) (rate(nearfield_writes_refused_total[5m])) > 0",
        "5m",
        "critical",
        "Ratings or events are refused, and clients must keep them.",
        "The label reason has the cause: Redis, the disk of the log, a quota, or too many appends that wait.",
    ),
    Alert(
        "NearfieldLogBehind",
        "nearfield_archiver_lag_seconds > 60",
        "1m",
        "critical",
        "The rating log lacks entries of more than a minute, so the stream in Redis grows.",
        "Look for a full or failing disk under the data folder.",
    ),
    Alert(
        "NearfieldLogDamaged",
        "nearfield_rating_log_damaged == 1",
        "0m",
        "critical",
        "A file of the rating log is missing or altered.",
        "Restore the file that /health/ready names from a backup, before anything restarts.",
    ),
    Alert(
        "NearfieldQuota",
        "nearfield_quota_used_ratio > 0.9",
        "5m",
        "warning",
        "A data set holds nine tenths of what it may; beyond its quota writes are refused, or trainings.",
        "The label quota has the end of the setting's name: raise it, or remove what is not needed.",
    ),
    Alert(
        "NearfieldStale",
        "histogram_quantile(0.99, sum by (instance, le) (rate(nearfield_freshness_seconds_bucket[5m]))) > 1",
        "5m",
        "warning",
        "One in a hundred ratings takes more than a second to change the lists.",
        "Compare nearfield_ratings_accepted_total with nearfield_ratings_learned_total; fewer n_factors refit faster.",
    ),
    Alert(
        "NearfieldSwapFailed",
        _rises('nearfield_swaps_total{outcome="failed"}', "15m"),
        "0m",
        "warning",
        "A new model could not be loaded; the old one still answers.",
        "GET /admin/jobs has the error.",
    ),
    Alert(
        "NearfieldTrainingFailed",
        _rises('nearfield_jobs_finished_total{state="failed"}', "1h"),
        "0m",
        "warning",
        "A training or another job failed.",
        "GET /admin/jobs has the error.",
    ),
    Alert(
        "NearfieldBehindBaseline",
        f'{QUALITY}{{measure="hit_rate"}} < ignoring(measure) {QUALITY}{{measure="popularity_hit_rate"}}'
        f' or {QUALITY}{{measure="rmse"}} > ignoring(measure) {QUALITY}{{measure="user_mean_rmse"}}',
        "15m",
        "warning",
        "A live model predicts what it learns next worse than popular items, or the mean rating of the user, do.",
        "Train it again, or activate an earlier version.",
    ),
    Alert(
        "NearfieldBehindShadow",
        f'max by (instance) ({QUALITY}{{measure="hit_rate"}} {ANSWERS}) + 0.03'
        f' < max by (instance) ({QUALITY}{{measure="hit_rate"}} {SHADOW})'
        f' or min by (instance) ({QUALITY}{{measure="rmse"}} {ANSWERS})'
        f' > 1.02 * min by (instance) ({QUALITY}{{measure="rmse"}} {SHADOW})',
        "15m",
        "warning",
        "The best model that answers falls behind a shadow by more than the error of a thousand tests.",
        "Compare both in GET /admin/models/{model}/quality, and let the shadow answer.",
    ),
)


def as_rules() -> dict[str, object]:
    """The alerts as a file of rules for Prometheus."""
    rules = [
        {
            "alert": alert.name,
            "expr": alert.condition,
            "for": alert.lasts,
            "labels": {"severity": alert.severity},
            "annotations": {"summary": alert.meaning, "description": alert.remedy},
        }
        for alert in ALERTS
    ]
    return {"groups": [{"name": "nearfield", "rules": rules}]}


def as_table() -> str:
    """The alerts as a table of the documentation."""
    rows = [f"| `{one.name}` | {one.lasts} | {one.severity} | {one.meaning} {one.remedy} |" for one in ALERTS]
    return "\n".join(["| Alert | After | Severity | Meaning, and what to do |", "| --- | --- | --- | --- |", *rows])
